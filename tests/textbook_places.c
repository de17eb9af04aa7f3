/* textbook_places.c: statements of docs/norms.md and its other pages:
 * where norms are placed; norms of queries and keys. */
#include "norm.h"

#include "tests/support/test.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- where norms are placed ---------------------------------------------- */

/* A branch of a pre-norm layer; its output is added to x. */
typedef void Branch(float *out, const float *xn, int n); /* both [n][DIM] */

static void pre_norm_layer(float *x, const Norm *attn_norm, Branch *attention_,
                           const Norm *mlp_norm, Branch *mlp_, int n) {
    float xn[TOKENS * DIM], out[TOKENS * DIM];
    const float *normalized = norm_forward(xn, x, attn_norm, n, DIM);
    attention_(out, normalized, n);
    for (int i = 0; i < n * DIM; i++)
        x[i] += out[i];
    normalized = norm_forward(xn, x, mlp_norm, n, DIM);
    mlp_(out, normalized, n);
    for (int i = 0; i < n * DIM; i++)
        x[i] += out[i];
}

/* out[rows] = W x, with the random matrix W[rows][cols] of number w. */
static void project(float *out, const float *x, uint64_t w, int rows,
                    int cols) {
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int c = 0; c < cols; c++)
            sum += (double)random_float(w, r * cols + c) * x[c];
        out[r] = (float)sum;
    }
}

/* Causal attention with one head, without positions. */
static void plain_attention(float *out, const float *xn, int n) {
    float q[TOKENS][DIM], k[TOKENS][DIM], v[TOKENS][DIM];
    for (int t = 0; t < n; t++) {
        project(q[t], xn + t * DIM, 12, DIM, DIM);
        project(k[t], xn + t * DIM, 13, DIM, DIM);
        project(v[t], xn + t * DIM, 14, DIM, DIM);
        double weights[TOKENS], sum = 0;
        float mixed[DIM] = {0};
        for (int s = 0; s <= t; s++)
            sum += weights[s] = exp(dot(q[t], k[s], DIM) / sqrt(DIM));
        for (int s = 0; s <= t; s++)
            for (int i = 0; i < DIM; i++)
                mixed[i] += (float)(weights[s] / sum * v[s][i]);
        project(out + t * DIM, mixed, 15, DIM, DIM);
    }
}

static void relu_mlp(float *out, const float *xn, int n) {
    for (int t = 0; t < n; t++) {
        float hidden[16];
        project(hidden, xn + t * DIM, 16, 16, DIM);
        for (int i = 0; i < 16; i++)
            hidden[i] = fmaxf(hidden[i], 0);
        project(out + t * DIM, hidden, 17, DIM, 16);
    }
}

static void nothing(float *out, const float *xn, int n) {
    (void)xn;
    memset(out, 0, (size_t)(n * DIM) * sizeof *out);
}

/* The numbers of pre_norm_layer() in scripts/golden/textbook.py, in float64. */
static void a_pre_norm_layer_with_relu(void) {
    float x[3 * DIM], gammas[2 * DIM];
    fill_random(x, 10, 3 * DIM, 4);
    fill_random(gammas, 11, 2 * DIM, 1);
    for (int i = 0; i < 2 * DIM; i++)
        gammas[i] += 1;
    Norm norms[] = {{NORM_RMS, 1e-5f, gammas, NULL, 0},
                    {NORM_RMS, 1e-5f, gammas + DIM, NULL, 0}};
    pre_norm_layer(x, &norms[0], plain_attention, &norms[1], relu_mlp, 3);
    CHECK_VALUES(x, 3 * DIM, 2e-6, 0.204324335, -1.5217078, -0.760427164,
                 1.20871657, 0.197776343, -1.06017899, -0.310442325,
                 0.377527749, -0.0140095405, 1.9739592, -1.08573829,
                 -1.57688451, 0.527898125, -0.331616794, -0.626830208,
                 0.737133936, 1.67522911, 2.47991422, 0.319845393, 0.978552723,
                 -1.09217681, -0.280698154, 0.741724542, -1.66155138);
    HOLDS(3 * DIM, DIM);
}

/* A layer whose branches return 0 does not change x; the norm does. */
static void the_layer_is_the_identity_not_the_norm(void) {
    Norm norm = {NORM_RMS, 1e-5f, ONES, NULL, 0};
    float x[3 * DIM], kept[3 * DIM], y[3 * DIM], again[3 * DIM];
    fill_random(x, 10, 3 * DIM, 4);
    memcpy(kept, x, sizeof x);
    pre_norm_layer(x, &norm, nothing, &norm, nothing, 3);
    CHECK(!memcmp(x, kept, sizeof x), "an empty layer changes x");
    norm_forward(y, x, &norm, 3, DIM);
    CHECK(fabs(rms_of(x, DIM) - 1.0297) < 5e-5, "RMS of x: %.9g",
          rms_of(x, DIM));
    CHECK(fabs(rms_of(y, DIM) - 1) < 1e-5, "RMS of the norm of x: %.9g",
          rms_of(y, DIM));
    norm_forward(again, y, &norm, 3,
                 DIM); /* a projection: applying it twice changes nothing */
    for (int i = 0; i < 3 * DIM; i++)
        CHECK(fabsf(again[i] - y[i]) < 3e-5f, "twice: %.9g, %.9g", again[i],
              y[i]);
    HOLDS(1, 0, 1.02970);
}

enum { SUBLAYERS = 12 };

/* The numbers of placement() in scripts/golden/textbook.py: the RMS at the end;
 * the gradient at the beginning relative to that at the end. */
static void twelve_sublayers_before_and_after(void) {
    float x[SUBLAYERS + 1][MAX_DIM], added[SUBLAYERS][MAX_DIM],
        gradient[2][MAX_DIM], unused[MAX_DIM] = {0};
    fill_random(added[0], 20, SUBLAYERS * MAX_DIM, 1);
    for (int l = 0; l < SUBLAYERS; l++)
        rmsnorm(added[l], added[l], ONES, MAX_DIM, 0);
    fill_random(x[0], 22, MAX_DIM, 1);
    rmsnorm(x[0], x[0], ONES, MAX_DIM, 0);
    float pre[MAX_DIM], post[MAX_DIM];
    memcpy(pre, x[0], sizeof pre);
    memcpy(post, x[0], sizeof post);
    for (int l = 0; l < SUBLAYERS; l++) {
        for (int i = 0; i < MAX_DIM; i++)
            pre[i] += added[l][i]; /* dx equals dy at any depth */
        for (int i = 0; i < MAX_DIM; i++)
            x[l][i] = post[i] + added[l][i];
        rmsnorm(post, x[l], ONES, MAX_DIM, 1e-5f);
    }
    CHECK(fabs(rms_of(pre, MAX_DIM) - 3.56660432) < 1e-5, "pre-norm, RMS %.9g",
          rms_of(pre, MAX_DIM));
    CHECK(fabs(rms_of(post, MAX_DIM) - 0.999997414) < 1e-6,
          "post-norm, RMS %.9g", rms_of(post, MAX_DIM));
    fill_random(gradient[0], 21, MAX_DIM, 1);
    double size = rms_of(gradient[0], MAX_DIM);
    for (int l = SUBLAYERS - 1, k = 0; l >= 0; l--, k ^= 1)
        rmsnorm_backward(gradient[k ^ 1], unused, gradient[k], x[l], ONES,
                         MAX_DIM, 1e-5f);
    double left = rms_of(gradient[SUBLAYERS % 2], MAX_DIM) / size;
    CHECK(fabs(left - 0.0159023039) < 1e-6,
          "post-norm leaves %.9g of the gradient", left);
    HOLDS(SUBLAYERS, 1, MAX_DIM, 3.56660432, SUBLAYERS + 1, 2, -SUBLAYERS,
          0.0159023039);
}

/* ---- where norms are placed ---------------------------------------------- */

enum { BREADTH = 64, DEEP = 12 };
typedef enum { PRE, POST, INSIDE, SANDWICH, N_PLACES } Place;
typedef struct {
    float w[DEEP][BREADTH * BREADTH];
    /* inputs and outputs of the matrices */
    float x[DEEP + 1][BREADTH], in[DEEP][BREADTH], out[DEEP][BREADTH];
} Depth;

static void apply_matrix(float *out, const float *w, const float *x,
                         bool transposed) {
    for (int r = 0; r < BREADTH; r++) {
        double sum = 0;
        for (int c = 0; c < BREADTH; c++)
            sum += (double)w[transposed ? c * BREADTH + r : r * BREADTH + c] *
                   x[c];
        out[r] = (float)sum;
    }
}

/* Runs the sublayers, which are linear maps, from d->x[0] on. */
static void go_deep(Depth *d, Place place) {
    for (int l = 0; l < DEEP; l++) {
        float *x = d->x[l], *y = d->x[l + 1], branch[BREADTH];
        if (place == PRE || place == SANDWICH)
            rmsnorm(d->in[l], x, ONES, BREADTH, 0);
        else
            memcpy(d->in[l], x, sizeof d->in[l]);
        apply_matrix(d->out[l], d->w[l], d->in[l], false);
        memcpy(branch, d->out[l], sizeof branch);
        if (place == INSIDE || place == SANDWICH)
            rmsnorm(branch, branch, ONES, BREADTH, 0);
        for (int i = 0; i < BREADTH; i++)
            y[i] = x[i] + branch[i];
        if (place == POST) {
            memcpy(d->out[l], y, sizeof d->out[l]); /* the norm's input */
            rmsnorm(y, y, ONES, BREADTH, 0);
        }
    }
}

/* |dL/dx| / |loss| at every depth, and |dL/dW| / |loss| of every matrix, for
 * L = sum(loss norm(x)) at the end. */
static void come_back(double *sizes, double *slopes, const Depth *d,
                      Place place, const float *loss) {
    float g[BREADTH], dx[BREADTH], branch[BREADTH], unused[BREADTH] = {0};
    rmsnorm_backward(g, unused, loss, d->x[DEEP], ONES, BREADTH, 0);
    for (int l = DEEP; l >= 0; l--) {
        sizes[l] = sqrt(dot(g, g, BREADTH) / dot(loss, loss, BREADTH));
        if (!l)
            break;
        if (place == POST) {
            rmsnorm_backward(dx, unused, g, d->out[l - 1], ONES, BREADTH, 0);
            memcpy(g, dx, sizeof g);
        }
        memcpy(branch, g, sizeof branch);
        if (place == INSIDE || place == SANDWICH)
            rmsnorm_backward(branch, unused, g, d->out[l - 1], ONES, BREADTH,
                             0);
        slopes[l - 1] = sqrt(dot(branch, branch, BREADTH) *
                             dot(d->in[l - 1], d->in[l - 1], BREADTH) /
                             dot(loss, loss, BREADTH));
        apply_matrix(dx, d->w[l - 1], branch, true);
        memcpy(branch, dx, sizeof branch);
        if (place == PRE || place == SANDWICH)
            rmsnorm_backward(branch, unused, dx, d->x[l - 1], ONES, BREADTH, 0);
        for (int i = 0; i < BREADTH; i++)
            g[i] += branch[i];
    }
}

/* The seed of a draw's weights; the next three are those of their changes, the
 * loss and the token. */
static int seed_of(int draw) {
    return draw ? 1000 + 4 * draw : 100;
}

static void set_weights(Depth *d, int draw, double factor, double move) {
    double size = sqrt(12.0 / BREADTH);
    for (int l = 0; l < DEEP; l++)
        for (int i = 0; i < BREADTH * BREADTH; i++) {
            int at = l * BREADTH * BREADTH + i;
            double change =
                move != 0 ? move * random_float(seed_of(draw) + 1, at) : 0;
            d->w[l][i] =
                (float)(size *
                        (factor * random_float(seed_of(draw), at) + change));
        }
    fill_random(d->x[0], seed_of(draw) + 3, BREADTH, 1);
    rmsnorm(d->x[0], d->x[0], ONES, BREADTH, 0);
}

/* Means over draws: RMS at the end; the gradient at depths 0, 4, 8, 12; that of
 * the first and of the last matrix; the change of the result, in percent, if
 * the weights change by 1 %. PLACES has PyTorch's. */
enum { END_RMS, AT_DEPTH, FIRST_W = AT_DEPTH + 4, LAST_W, MOVES, N_MEANS };
static const double PLACES[N_PLACES][N_MEANS] = {
    [PRE] = {3.58054579, 0.990222162, 0.447978176, 0.334986332, 0.279778138,
             5.65716336, 2.23822511, 1.49583442},
    [POST] = {1, 1.01585406, 1.01122114, 1.00394705, 0.992441415, 5.77981585,
              5.6999947, 2.49436757},
    [INSIDE] = {3.57609645, 0.996102223, 0.451675538, 0.335958778, 0.279898739,
                5.69912077, 2.25767069, 1.50815355},
    [SANDWICH] = {3.57609645, 0.996102223, 0.451675538, 0.335958778,
                  0.279898739, 5.69912077, 2.25767069, 1.50815355},
};
enum { DEPTH_DRAWS = 200 };

/* Adds a draw, first with move 0. ends[place]: the result without a move. */
static void add_depth_draw(Draws found[N_PLACES][N_MEANS], Depth *d, int draw,
                           float (*ends)[BREADTH], double move) {
    float loss[BREADTH], end[BREADTH];
    double sizes[DEEP + 1], slopes[DEEP];
    fill_random(loss, seed_of(draw) + 2, BREADTH, 1);
    set_weights(d, draw, 1, move);
    for (Place place = 0; place < N_PLACES; place++) {
        Draws *means = found[place];
        go_deep(d, place);
        rmsnorm(end, d->x[DEEP], ONES, BREADTH, 0);
        for (int i = 0; i < BREADTH && move != 0; i++)
            end[i] -= ends[place][i];
        if (move != 0) {
            add_draw(&means[MOVES], 100 * rms_of(end, BREADTH));
            continue;
        }
        memcpy(ends[place], end, sizeof end);
        come_back(sizes, slopes, d, place, loss);
        add_draw(&means[END_RMS], rms_of(d->x[DEEP], BREADTH));
        for (int i = 0; i < 4; i++)
            add_draw(&means[AT_DEPTH + i], sizes[4 * i]);
        add_draw(&means[FIRST_W], slopes[0]);
        add_draw(&means[LAST_W], slopes[DEEP - 1]);
    }
}

static void four_places_by_depth(void) {
    Depth *d = malloc(sizeof *d);
    float ends[N_PLACES][BREADTH] = {{0}};
    Draws found[N_PLACES][N_MEANS] = {{{0}}};
    for (int draw = 0; draw < DEPTH_DRAWS; draw++) {
        add_depth_draw(found, d, draw, ends, 0);
        add_depth_draw(found, d, draw, ends, 0.01);
    }
    free(d);
    for (Place place = 0; place < N_PLACES; place++)
        for (int i = 0; i < N_MEANS; i++) {
            double mean = mean_of_draws(&found[place][i]),
                   error = error_of_draws(&found[place][i]);
            CHECK(fabs(mean / PLACES[place][i] - 1) < 1e-4,
                  "place %d, mean %d: %.9g", place, i, mean);
            CHECK(error < 0.03 * mean, "place %d, mean %d: %.9g +- %.9g", place,
                  i, mean, error);
            HOLDS(PLACES[place][i]);
        }
    /* the embedding and DEEP branches, divided by the final norm */
    double last = 1 / sqrt(DEEP + 1.0);
    CHECK(fabs(PLACES[PRE][FIRST_W - 1] / last - 1) < 0.02,
          "|dL/dx| at the end: %.9g", PLACES[PRE][FIRST_W - 1]);
    HOLDS(DEEP, DEEP + 1, last, BREADTH, DEPTH_DRAWS, 0, 4, 8, 1, 3);
}

/* With weights times 4 a norm after the branch has the same bits. */
static void a_post_norm_bounds_the_branch(void) {
    Depth *d = malloc(sizeof *d);
    float end[BREADTH];
    double sizes[2];
    for (int k = 0; k < 2; k++) {
        set_weights(d, 0, k ? 4 : 1, 0);
        go_deep(d, SANDWICH);
        if (k)
            CHECK(!memcmp(end, d->x[DEEP], sizeof end),
                  "sandwich: %.9g and %.9g", end[0], d->x[DEEP][0]);
        memcpy(end, d->x[DEEP], sizeof end);
        set_weights(d, 0, k ? 4 : 1, 0);
        go_deep(d, PRE);
        sizes[k] = rms_of(d->x[DEEP], BREADTH);
    }
    CHECK(fabs(sizes[1] - 14.8452172) < 1e-4, "pre: %.9g", sizes[1]);
    free(d);
    HOLDS(4, sizes[0], sizes[1], rms_of(end, BREADTH), DEEP);
}

/* ---- QK-norm ------------------------------------------------------------- */

/* The largest score that gammas allow, if RoPE turns elements i and i + apart
 * together: all of the query and of the key in the best pair. */
static double max_score(const float *gamma_q, const float *gamma_k, int n,
                        int apart) {
    double max = 0;
    for (int i = 0; i + apart < n; i++)
        max = fmax(max, fmax(gamma_q[i], gamma_q[i + apart]) *
                            fmax(gamma_k[i], gamma_k[i + apart]));
    return sqrt(n) * max;
}

static void qk_norm_bounds_the_scores(void) {
    static const int heads[] = {64, 128};
    for (int k = 0; k < 2; k++) {
        int n = heads[k];
        float q[MAX_DIM], key[MAX_DIM];
        double max = 0;
        /* random keys; the last is the query itself, the worst case */
        for (int t = 0; t < 200; t++) {
            fill_random(q, 120, n, 1e3f);
            fill_random(key, t == 199 ? 120 : 121 + (uint64_t)t, n, 1e5f);
            rmsnorm(q, q, ONES, n, 0);
            rmsnorm(key, key, ONES, n, 0);
            max = fmax(max, fabs(dot(q, key, n)) / sqrt(n));
        }
        CHECK(fabs(max - sqrt(n)) < 1e-5, "head of %d: %.9g", n, max);
        HOLDS(n, sqrt(n));
    }
    /* a query along the first element of a pair, turned by RoPE to the second
     * one; a key along that */
    float q[64] = {[0] = 1}, key[64] = {[1] = 1}, gamma_q[64], gamma_k[64];
    for (int i = 0; i < 64; i++)
        gamma_q[i] = gamma_k[i] = 1;
    gamma_q[0] = gamma_k[1] = 4;
    gamma_q[1] = gamma_k[0] = 0.25f;
    rmsnorm(q, q, gamma_q, 64, 0);
    rmsnorm(key, key, gamma_k, 64, 0);
    q[1] = q[0];
    q[0] = 0;
    double score = dot(q, key, 64) / sqrt(64);
    CHECK(fabs(score - 128) < 1e-4, "a score of %.9g", score);
    CHECK(max_score(gamma_q, gamma_k, 64, 1) == 128, "neighbors: %.9g",
          max_score(gamma_q, gamma_k, 64, 1));
    HOLDS(64, 4, 1, score, max_score(gamma_q, gamma_k, 64, 32));
    /* with pairs (i, i + 32) it takes 1/4 and 4 at element 32 */
    gamma_q[1] = gamma_k[1] = 1;
    gamma_q[32] = 0.25f;
    gamma_k[32] = 4;
    CHECK(max_score(gamma_q, gamma_k, 64, 32) == 128, "halves: %.9g",
          max_score(gamma_q, gamma_k, 64, 32));
    double dim = 4096, extra = (32 + 8) * 128; /* Qwen3 8B */
    HOLDS(1, 10, 100, 3, 8, 2, dim, 32, 40, extra, 2 * dim,
          100 * extra / (2 * dim), 2 * 128);
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(a_pre_norm_layer_with_relu),
    STATEMENT(the_layer_is_the_identity_not_the_norm),
    STATEMENT(twelve_sublayers_before_and_after),
    STATEMENT(four_places_by_depth),
    STATEMENT(a_post_norm_bounds_the_branch),
    STATEMENT(qk_norm_bounds_the_scores),
};
const Table textbook_places = TABLE(STATEMENTS);
