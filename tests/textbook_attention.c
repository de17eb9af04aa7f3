/* textbook_attention.c: statements of docs/norms.md and its other pages:
 * four places of a norm, with attention: means over random
 * draws, which `python scripts/golden/textbook_draws.py` prints, too. */
#include "kernels/simd.h"
#include "norm.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- four places of a norm, with attention ------------------------------- */

enum { WIDTH = 64, N_HEADS = 4, PER_HEAD = WIDTH / N_HEADS, HIDDEN = 256 };
enum { LENGTH = 32, LAYERS = 12, N_DRAWS = 40 };
enum { WQ, WK, WV, WO, UP, DOWN, N_MATRICES };

static const struct {
    int rows, cols;
} SHAPES[N_MATRICES] = {
    [WQ] = {WIDTH, WIDTH}, [WK] = {WIDTH, WIDTH},  [WV] = {WIDTH, WIDTH},
    [WO] = {WIDTH, WIDTH}, [UP] = {HIDDEN, WIDTH}, [DOWN] = {WIDTH, HIDDEN}};

/* A matrix [rows][cols] and its transpose. */
typedef struct {
    float w[HIDDEN * WIDTH], transposed[HIDDEN * WIDTH];
} Matrix;

/* Where a sublayer f has norms: norm_after(x + norm_f(f(norm_x(x)))). qk:
 * queries and keys have a norm, too. */
typedef struct {
    bool x, f, after, qk;
} Norms;

enum { AT_PRE, AT_POST, AT_SANDWICH, AT_INSIDE, AT_INSIDE_QK, N_AT };
static const Norms NORMS[N_AT] = {[AT_PRE] = {.x = true},
                                  [AT_POST] = {.after = true},
                                  [AT_SANDWICH] = {.x = true, .f = true},
                                  [AT_INSIDE] = {.f = true},
                                  [AT_INSIDE_QK] = {.f = true, .qk = true}};

/* What the backward pass of a sublayer needs; all [LENGTH][...]. */
typedef struct {
    float x[LENGTH * WIDTH], in[LENGTH * WIDTH];    /* in: f's input */
    float out[LENGTH * WIDTH], sum[LENGTH * WIDTH]; /* f's output; x + it */
    float raw[2][LENGTH * WIDTH], q[LENGTH * WIDTH], k[LENGTH * WIDTH];
    float v[LENGTH * WIDTH], mixed[LENGTH * WIDTH];
    float p[N_HEADS][LENGTH][LENGTH], hidden[LENGTH * HIDDEN];
} Sublayer;

typedef struct {
    Matrix w[LAYERS][N_MATRICES];
    Sublayer at[2 * LAYERS];
    float x[LENGTH * WIDTH], loss[LENGTH * WIDTH];
} Network;

/* y[LENGTH][outputs] += x[LENGTH][inputs] w[inputs][outputs] */
static void add_product(float *y, const float *x, const float *w, int inputs,
                        int outputs) {
    for (int t = 0; t < LENGTH; t++)
        for (int i = 0; i < inputs; i++) {
            vf a = vset(x[t * inputs + i]);
            float *to = y + t * outputs;
            for (int o = 0; o < outputs; o += LANES)
                vstore(to + o,
                       vfma(a, vload(w + i * outputs + o), vload(to + o)));
        }
}

static void forward_product(float *y, const float *x, const Matrix *m,
                            int kind) {
    memset(y, 0, LENGTH * SHAPES[kind].rows * sizeof *y);
    add_product(y, x, m[kind].transposed, SHAPES[kind].cols, SHAPES[kind].rows);
}

/* Adds to dx. */
static void backward_product(float *dx, const float *dy, const Matrix *m,
                             int kind) {
    add_product(dx, dy, m[kind].w, SHAPES[kind].rows, SHAPES[kind].cols);
}

/* Norms of vectors of `size` elements, without gamma, beta and eps. */
static void norm_rows(float *y, const float *x, int size) {
    for (int i = 0; i < LENGTH * WIDTH; i += size)
        rmsnorm(y + i, x + i, ONES, size, 0);
}

static void norm_rows_backward(float *g, const float *x, int size) {
    float dx[WIDTH], unused[WIDTH];
    for (int i = 0; i < LENGTH * WIDTH; i += size) {
        rmsnorm_backward(dx, unused, g + i, x + i, ONES, size, 0);
        memcpy(g + i, dx, size * sizeof *g);
    }
}

/* Causal attention, without positions. */
static void causal_attention(Sublayer *s, const Matrix *w, bool qk) {
    forward_product(s->raw[0], s->in, w, WQ);
    forward_product(s->raw[1], s->in, w, WK);
    forward_product(s->v, s->in, w, WV);
    memcpy(s->q, s->raw[0], sizeof s->q);
    memcpy(s->k, s->raw[1], sizeof s->k);
    if (qk) {
        norm_rows(s->q, s->raw[0], PER_HEAD);
        norm_rows(s->k, s->raw[1], PER_HEAD);
    }
    memset(s->mixed, 0, sizeof s->mixed);
    for (int h = 0; h < N_HEADS; h++)
        for (int t = 0; t < LENGTH; t++) {
            int at = t * WIDTH + h * PER_HEAD;
            double scores[LENGTH], max = -INFINITY, sum = 0;
            for (int u = 0; u <= t; u++) {
                scores[u] =
                    dot(s->q + at, s->k + u * WIDTH + h * PER_HEAD, PER_HEAD) /
                    sqrt(PER_HEAD);
                max = fmax(max, scores[u]);
            }
            for (int u = 0; u <= t; u++)
                sum += scores[u] = exp(scores[u] - max);
            for (int u = 0; u <= t; u++) {
                s->p[h][t][u] = (float)(scores[u] / sum);
                for (int i = 0; i < PER_HEAD; i++)
                    s->mixed[at + i] +=
                        s->p[h][t][u] * s->v[u * WIDTH + h * PER_HEAD + i];
            }
        }
    forward_product(s->out, s->mixed, w, WO);
}

/* dx = dL/d in, for dL/d out = g. */
static void causal_attention_backward(float *dx, const float *g,
                                      const Sublayer *s, const Matrix *w,
                                      bool qk) {
    float mixed[LENGTH * WIDTH] = {0}, q[LENGTH * WIDTH] = {0},
                         k[LENGTH * WIDTH] = {0}, v[LENGTH * WIDTH] = {0};
    backward_product(mixed, g, w, WO);
    for (int h = 0; h < N_HEADS; h++)
        for (int t = 0; t < LENGTH; t++) {
            int at = t * WIDTH + h * PER_HEAD;
            double slopes[LENGTH], mean = 0;
            for (int u = 0; u <= t; u++) {
                slopes[u] =
                    dot(mixed + at, s->v + u * WIDTH + h * PER_HEAD, PER_HEAD);
                mean += s->p[h][t][u] * slopes[u];
            }
            for (int u = 0; u <= t; u++) {
                int key = u * WIDTH + h * PER_HEAD;
                float p = s->p[h][t][u];
                float score = (float)(p * (slopes[u] - mean) / sqrt(PER_HEAD));
                for (int i = 0; i < PER_HEAD; i++) {
                    q[at + i] += score * s->k[key + i];
                    k[key + i] += score * s->q[at + i];
                    v[key + i] += p * mixed[at + i];
                }
            }
        }
    if (qk) {
        norm_rows_backward(q, s->raw[0], PER_HEAD);
        norm_rows_backward(k, s->raw[1], PER_HEAD);
    }
    backward_product(dx, q, w, WQ);
    backward_product(dx, k, w, WK);
    backward_product(dx, v, w, WV);
}

static void relu_mlp(Sublayer *s, const Matrix *w) {
    forward_product(s->hidden, s->in, w, UP);
    for (int i = 0; i < LENGTH * HIDDEN; i++)
        s->hidden[i] = fmaxf(s->hidden[i], 0);
    forward_product(s->out, s->hidden, w, DOWN);
}

static void relu_mlp_backward(float *dx, const float *g, const Sublayer *s,
                              const Matrix *w) {
    float hidden[LENGTH * HIDDEN] = {0};
    backward_product(hidden, g, w, DOWN);
    for (int i = 0; i < LENGTH * HIDDEN; i++)
        hidden[i] = s->hidden[i] > 0 ? hidden[i] : 0;
    backward_product(dx, hidden, w, UP);
}

/* y: the last norm's output. The stream at depth l is n->at[l].x, at the end
 * n->at[2 * LAYERS - 1].sum, normalized if the norm is after the addition. */
static void run_network(float *y, Network *n, Norms norms) {
    float x[LENGTH * WIDTH], branch[LENGTH * WIDTH];
    memcpy(x, n->x, sizeof x);
    for (int l = 0; l < 2 * LAYERS; l++) {
        Sublayer *s = &n->at[l];
        memcpy(s->x, x, sizeof x);
        memcpy(s->in, x, sizeof x);
        if (norms.x)
            norm_rows(s->in, x, WIDTH);
        if (l % 2)
            relu_mlp(s, n->w[l / 2]);
        else
            causal_attention(s, n->w[l / 2], norms.qk);
        memcpy(branch, s->out, sizeof branch);
        if (norms.f)
            norm_rows(branch, s->out, WIDTH);
        for (int i = 0; i < LENGTH * WIDTH; i++)
            x[i] += branch[i];
        memcpy(s->sum, x, sizeof x);
        if (norms.after)
            norm_rows(x, s->sum, WIDTH);
    }
    norm_rows(y, x, WIDTH);
}

/* |dL/dx| / |loss| at each depth, for L = sum(loss norm(x)) at the end. */
static void go_back(double sizes[2 * LAYERS + 1], const Network *n,
                    Norms norms) {
    enum { N = LENGTH * WIDTH };
    const Sublayer *last = &n->at[2 * LAYERS - 1];
    float g[N], branch[N], dx[N], end[N];
    memcpy(g, n->loss, sizeof g);
    memcpy(end, last->sum, sizeof end);
    if (norms.after)
        norm_rows(end, last->sum, WIDTH);
    norm_rows_backward(g, end, WIDTH);
    double size = sqrt(dot(n->loss, n->loss, N));
    sizes[2 * LAYERS] = sqrt(dot(g, g, N)) / size;
    for (int l = 2 * LAYERS - 1; l >= 0; l--) {
        const Sublayer *s = &n->at[l];
        if (norms.after)
            norm_rows_backward(g, s->sum, WIDTH);
        memcpy(branch, g, sizeof branch);
        if (norms.f)
            norm_rows_backward(branch, s->out, WIDTH);
        memset(dx, 0, sizeof dx);
        if (l % 2)
            relu_mlp_backward(dx, branch, s, n->w[l / 2]);
        else
            causal_attention_backward(dx, branch, s, n->w[l / 2], norms.qk);
        if (norms.x)
            norm_rows_backward(dx, s->x, WIDTH);
        for (int i = 0; i < N; i++)
            g[i] += dx[i];
        sizes[l] = sqrt(dot(g, g, N)) / size;
    }
}

/* Variance 1 / inputs, and 2 / inputs before the ReLU. `move` of another draw
 * is added to all. */
static void fill_network(Network *n, int draw, double move) {
    uint64_t seed = 20000 + 16 * (uint64_t)draw;
    for (int kind = 0; kind < N_MATRICES; kind++) {
        int rows = SHAPES[kind].rows, cols = SHAPES[kind].cols;
        double size = sqrt((kind == UP ? 24.0 : 12.0) / cols);
        for (int i = 0; i < LAYERS * rows * cols; i++) {
            Matrix *m = &n->w[i / (rows * cols)][kind];
            int at = i % (rows * cols);
            double w = random_float(seed + (uint64_t)kind, i);
            if (move != 0)
                w += move * random_float(seed + N_MATRICES + (uint64_t)kind, i);
            m->w[at] = (float)(size * w);
            m->transposed[at % cols * rows + at / cols] = m->w[at];
        }
    }
    fill_random(n->x, seed + 12, LENGTH * WIDTH, 1);
    norm_rows(n->x, n->x, WIDTH);
    fill_random(n->loss, seed + 13, LENGTH * WIDTH, 1);
}

/* Gradients at the beginning, in the middle, after three quarters and at the
 * end; the change of the result, in percent, if the weights change by 1 %. */
enum { N_FIGURES = 5 };
static const Figure FIGURES[N_AT][N_FIGURES] = {
    [AT_PRE] = {{0.984011782, 0.0258143705},
                {0.298188722, 0.00464313784},
                {0.254488096, 0.00323314378},
                {0.228129648, 0.00239111689},
                {2.48189915, 0.0456926368}},
    [AT_POST] = {{0.857543831, 0.0731573015},
                 {0.645286617, 0.036568926},
                 {0.575176509, 0.0226993382},
                 {0.992300538, 0.000346301835},
                 {5.33293824, 0.279971928}},
    [AT_SANDWICH] = {{1.131572, 0.0362006453},
                     {0.252762637, 0.00353863168},
                     {0.220268538, 0.00259604917},
                     {0.201010085, 0.00199308034},
                     {2.66662818, 0.0646608932}},
    [AT_INSIDE] = {{7.85819315, 0.512129},
                   {0.829506073, 0.0427471326},
                   {0.412182778, 0.0130208793},
                   {0.201314146, 0.00160131805},
                   {10.4192565, 0.448474812}},
    [AT_INSIDE_QK] = {{1.13614786, 0.0351543626},
                      {0.252827802, 0.00353910942},
                      {0.220110191, 0.002582858},
                      {0.200778707, 0.00197517802},
                      {2.67981013, 0.0630539486}},
};

static void add_attention_draw(Draws found[N_AT][N_FIGURES], Network *n,
                               int draw) {
    enum { N = LENGTH * WIDTH };
    static float ends[N_AT][N], moved[N];
    double sizes[2 * LAYERS + 1];
    fill_network(n, draw, 0);
    for (int place = 0; place < N_AT; place++) {
        run_network(ends[place], n, NORMS[place]);
        go_back(sizes, n, NORMS[place]);
        for (int i = 0; i < 4; i++)
            add_draw(&found[place][i], sizes[i ? (i + 1) * LAYERS / 2 : 0]);
    }
    fill_network(n, draw, 0.01);
    for (int place = 0; place < N_AT; place++) {
        run_network(moved, n, NORMS[place]);
        for (int i = 0; i < N; i++)
            moved[i] -= ends[place][i];
        add_draw(&found[place][4],
                 100 * rms_of(moved, N) / rms_of(ends[place], N));
    }
}

static void four_places_with_attention(void) {
    static Draws found[N_AT][N_FIGURES];
    int draws = test_fast() ? 4 : N_DRAWS;
    Network *n = malloc(sizeof *n);
    for (int draw = 0; draw < draws; draw++)
        add_attention_draw(found, n, draw);
    free(n);
    for (int place = 0; place < N_AT; place++)
        for (int i = 0; i < N_FIGURES; i++) {
            const Figure *e = &FIGURES[place][i];
            double mean = mean_of_draws(&found[place][i]),
                   error = error_of_draws(&found[place][i]);
            CHECK(draws < N_DRAWS || fabs(mean / e->mean - 1) < 1e-4,
                  "place %d, figure %d: %.9g, expected %.9g", place, i, mean,
                  e->mean);
            CHECK(draws < N_DRAWS || fabs(error / e->error - 1) < 1e-2,
                  "place %d, figure %d: error %.9g, expected %.9g", place, i,
                  error, e->error);
            HOLDS(e->mean, e->error);
        }
    int depth = 3 * LAYERS / 2;
    HOLDS(LAYERS, WIDTH, N_HEADS, HIDDEN, LENGTH, N_DRAWS, 0, LAYERS, depth,
          2 * LAYERS, 1, 2);
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(four_places_with_attention),
};
const Table textbook_attention = TABLE(STATEMENTS);
