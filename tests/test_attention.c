/* test_attention.c: attention.c and mlp.c against double precision.
 *
 * The reference computes both halves of a layer in double precision, without
 * cache, blocks and chunks. attention() and mlp() are called as in the decoder,
 * with the test's inputs, and add to zeros.
 */
#include "formats/open.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "rope.h"
#include "session.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 70, MAX_DIM = 256, MAX_HIDDEN = 180, CONTEXT = 8192 };

/* Head sizes 2, 8, 10, 24 and 64; groups of 3, 2, 3, 1 and 2 query heads. */
static const HashModel shapes[] = {{12, 17, 1, 6, 2, 8, CONTEXT, false, 21},
                                   {64, 172, 1, 8, 4, 8, CONTEXT, false, 22},
                                   {30, 37, 1, 3, 1, 8, CONTEXT, false, 23},
                                   {48, 33, 1, 2, 2, 8, CONTEXT, false, 24},
                                   {256, 96, 1, 4, 2, 8, CONTEXT, false, 25}};
enum { N_SHAPES = 5 };

static float xn[TOKENS][MAX_DIM]; /* inputs; dim floats of a token are used */
static double exact[TOKENS][MAX_DIM]; /* the reference's outputs */
static float got[TOKENS][MAX_DIM];

/* A model and a session on it. */
typedef struct {
    Model model;
    Session session;
} Bench;

static int bench_open(Bench *b, const HashModel *m, KvType kv) {
    const char *path = temporary("attention.bin");
    if (hashmodel_write(m, path, 1, 0) || model_open(&b->model, path))
        return -1;
    if (!session_open(&b->session, &b->model, 2, TOKENS, 0, kv))
        return 0;
    model_close(&b->model);
    return -1;
}

static void bench_close(Bench *b) {
    session_close(&b->session);
    model_close(&b->model);
}

static float random_float(uint64_t stream, uint64_t i) { /* [-1, 1) */
    return (float)(hash64(17, stream, i) >> 40) / 8388608.0f - 1;
}

static void fill_inputs(int dim, int from, int to, float size,
                        uint64_t stream) {
    for (int t = from; t < to; t++)
        for (int i = 0; i < dim; i++)
            xn[t][i] = size * random_float(stream, (uint64_t)(t * dim + i));
}

/* ---- the reference ------------------------------------------------------ */

static double value(const Tensor *w, int row, int col) {
    return (
        (const float *)w->data)[(size_t)row * (size_t)w->cols + (size_t)col];
}

static double dot_row(const Tensor *w, int row, const double *x) {
    double sum = 0;
    for (int c = 0; c < w->cols; c++)
        sum += value(w, row, c) * x[c];
    return sum;
}

/* The projection of token t to `rows` outputs, rotated if `rotated`. */
static void project(double *out, const Tensor *w, const Config *c, int t,
                    bool rotated) {
    double x[MAX_DIM] = {0};
    for (int i = 0; i < c->dim; i++)
        x[i] = xn[t][i];
    for (int r = 0; r < w->rows; r++)
        out[r] = dot_row(w, r, x);
    for (int r = 0; rotated && r < w->rows; r += 2) {
        double angle =
                   t * pow(10000, -(double)(r % c->head_size) / c->head_size),
               a = out[r], b = out[r + 1];
        out[r] = a * cos(angle) - b * sin(angle);
        out[r + 1] = a * sin(angle) + b * cos(angle);
    }
}

static double queries[TOKENS][MAX_DIM], keys[TOKENS][MAX_DIM],
    values[TOKENS][MAX_DIM];

/* One head of token t into out[head_size]. */
static void attend_exactly(double *out, const Config *c, int t, int head) {
    int size = c->head_size, kv = head / (c->n_heads / c->n_kv_heads) * size;
    double p[TOKENS], max = -INFINITY, sum = 0;
    for (int k = 0; k <= t; k++) {
        p[k] = 0;
        for (int i = 0; i < size; i++)
            p[k] += queries[t][head * size + i] * keys[k][kv + i];
        p[k] /= sqrt(size);
        max = fmax(max, p[k]);
    }
    for (int k = 0; k <= t; k++)
        sum += p[k] = exp(p[k] - max);
    for (int i = 0; i < size; i++) {
        out[i] = 0;
        for (int k = 0; k <= t; k++)
            out[i] += p[k] / sum * values[k][kv + i];
    }
}

/* exact[t] = attention of xn[0 .. n). */
static void reference_attention(const Layer *layer, const Config *c, int n) {
    double heads[MAX_DIM] = {0};
    for (int t = 0; t < n; t++) {
        project(queries[t], &layer->wq, c, t, true);
        project(keys[t], &layer->wk, c, t, true);
        project(values[t], &layer->wv, c, t, false);
    }
    for (int t = 0; t < n; t++) {
        for (int h = 0; h < c->n_heads; h++)
            attend_exactly(heads + h * c->head_size, c, t, h);
        for (int r = 0; r < c->dim; r++)
            exact[t][r] = dot_row(&layer->wo, r, heads);
    }
}

static void reference_mlp(const Layer *layer, const Config *c, int n) {
    double x[MAX_DIM] = {0}, hidden[MAX_HIDDEN] = {0};
    for (int t = 0; t < n; t++) {
        for (int i = 0; i < c->dim; i++)
            x[i] = xn[t][i];
        for (int i = 0; i < c->hidden_dim; i++) {
            double gate = dot_row(&layer->mlp.gate, i, x);
            hidden[i] = gate / (1 + exp(-gate)) * dot_row(&layer->mlp.up, i, x);
        }
        for (int r = 0; r < c->dim; r++)
            exact[t][r] = dot_row(&layer->mlp.down, r, hidden);
    }
}

/* ---- the program's results ---------------------------------------------- */

/* got[pos .. pos + n) = attention (or MLP) of the inputs at these positions. A
 * forward pass first allocates the cache and prepares the angles; its keys and
 * values are then overwritten. */
static int run_chunk(Session *s, int n, int pos, bool is_mlp) {
    static float in[TOKENS * MAX_DIM];
    static const int tokens[TOKENS];
    size_t dim = (size_t)s->model->config.dim;
    if (!model_forward_text(s, tokens, n, pos, 0))
        return -1;
    for (int t = 0; t < n; t++)
        memcpy(in + (size_t)t * dim, xn[pos + t], dim * sizeof *in);
    memset(s->chunk.x, 0, (size_t)n * dim * sizeof *s->chunk.x);
#pragma omp parallel num_threads(2)
    {
        if (is_mlp)
            mlp(s, &s->model->layers[0], s->chunk.x, in, n);
        else
            attention(s, &s->model->layers[0], s->chunk.x, in, n);
    }
    for (int t = 0; t < n; t++)
        memcpy(got[pos + t], s->chunk.x + (size_t)t * dim, dim * sizeof *in);
    return 0;
}

/* Chunks that begin and end inside blocks of keys and at their ends, and span
 * several blocks. */
static int run_attention(Session *s) {
    static const int chunks[] = {1, 5, 10, 1, 17, 1, 30, 5};
    int pos = 0;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; pos += chunks[i++])
        if (run_chunk(s, chunks[i], pos, false))
            return -1;
    return pos == TOKENS ? 0 : -1;
}

/* The largest error from token `from` on, relative to the largest result. */
static double worst_error(int dim, int from, int n) {
    double worst = 0, largest = 0;
    for (int t = from; t < n; t++)
        for (int i = 0; i < dim; i++) {
            double error = fabs(got[t][i] - exact[t][i]);
            if (!(error <= worst))
                worst = error; /* also for NaN */
            largest = fmax(largest, fabs(exact[t][i]));
        }
    return worst / largest;
}

/* ---- attention ----------------------------------------------------------- */

/* From nearly equal weights of all keys to one dominant key. */
static const float sizes[] = {0.01f, 1, 4, 16};

static void check_attention(const HashModel *m, KvType kv, float size,
                            double min, double most) {
    Bench b;
    CHECK(!bench_open(&b, m, kv), "cannot make the model");
    const Config *c = &b.model.config;
    fill_inputs(c->dim, 0, TOKENS, size, 1);
    reference_attention(&b.model.layers[0], c, TOKENS);
    CHECK(!run_attention(&b.session), "cannot run");
    double error = worst_error(c->dim, 0, TOKENS);
    CHECK(error >= min && error <= most,
          "head size %d, inputs of size %g: error %.3g, expected %.3g to %.3g",
          c->head_size, size, error, min, most);
    bench_close(&b);
}

/* Rounding of scores grows with them: a score of 500 is known to 3e-5. */
static void attention_matches_double_precision(void) {
    static const double limits[] = {5e-7, 5e-7, 4e-6, 3e-5};
    for (int i = 0; i < N_SHAPES; i++)
        for (int k = 0; k < 4; k++)
            if (!test_fast() || (i + k) % 4 == 0)
                check_attention(&shapes[i], KV_F32, sizes[k], 0, limits[k]);
}

/* float16 has 11 bits. The lower limit of the error shows that the cache is
 * float16. */
static void half_float_cache_has_float16_accuracy(void) {
    for (int i = 0; i < (test_fast() ? 3 : N_SHAPES); i++)
        check_attention(&shapes[i], KV_F16, 1, 1e-5, 6e-4);
}

static void cache_is_overwritten_from_any_position(void) {
    Bench b;
    CHECK(!bench_open(&b, &shapes[1], KV_F32), "cannot make the model");
    int dim = b.model.config.dim;
    fill_inputs(dim, 0, TOKENS, 1, 1);
    CHECK(!run_attention(&b.session), "cannot run");
    static const int back_to[] = {69, 48, 33, 10, 0};
    for (int i = 0; i < 5; i++) {
        int pos = back_to[i], n = TOKENS - pos < 20 ? TOKENS - pos : 20;
        fill_inputs(dim, pos, TOKENS, 1, 2 + (uint64_t)i);
        reference_attention(&b.model.layers[0], &b.model.config, pos + n);
        CHECK(!run_chunk(&b.session, n, pos, false), "cannot run");
        double error = worst_error(dim, pos, pos + n);
        CHECK(error <= 1e-6, "from position %d: error %.3g", pos, error);
    }
    bench_close(&b);
}

/* Growing keeps keys and values, in both types. */
static void growing_keeps_the_cache(void) {
    for (KvType kv = KV_F32; kv <= KV_F16; kv++) {
        Bench b;
        CHECK(!bench_open(&b, &shapes[3], kv), "cannot make the model");
        fill_inputs(b.model.config.dim, 0, TOKENS, 1, 1);
        reference_attention(&b.model.layers[0], &b.model.config, TOKENS);
        int blocks = 0, grown = 0;
        for (int t = 0; t < TOKENS; t++) {
            CHECK(!run_chunk(&b.session, 1, t, false), "cannot run");
            grown += b.session.sequences->kv.blocks > blocks;
            blocks = b.session.sequences->kv.blocks;
        }
        double error = worst_error(b.model.config.dim, 0, TOKENS);
        CHECK(grown >= 2, "the cache grew %d times", grown);
        CHECK(error <= (kv == KV_F32 ? 1e-6 : 1e-3), "error %.3g", error);
        bench_close(&b);
    }
}

/* A token attends to itself and earlier tokens: NaN at position 20 changes all
 * later results and no earlier one. */
static void attention_never_looks_forward(void) {
    static float clean[TOKENS][MAX_DIM];
    for (KvType kv = KV_F32; kv <= KV_F16; kv++) {
        Bench b;
        CHECK(!bench_open(&b, &shapes[1], kv), "cannot make the model");
        int dim = b.model.config.dim;
        fill_inputs(dim, 0, TOKENS, 1, 1);
        CHECK(!run_chunk(&b.session, TOKENS, 0, false), "cannot run");
        memcpy(clean, got, sizeof clean);
        xn[20][3] = NAN;
        CHECK(!run_chunk(&b.session, TOKENS, 0, false), "cannot run");
        CHECK(!memcmp(clean, got, 20 * sizeof *clean),
              "position 20 changes an earlier one");
        for (int t = 20; t < TOKENS; t++)
            for (int i = 0; i < dim; i++)
                CHECK(isnan(got[t][i]), "NaN does not reach position %d: %g", t,
                      got[t][i]);
        bench_close(&b);
    }
}

/* ---- rotary positions --------------------------------------------------- */

/* Compares the queries of the last chunk, from position pos on, with a rotation
 * by double-precision angles; float angles would be off by 1e-4. */
static void check_rotation(const Session *s, const int *tokens, int n,
                           int pos) {
    const Config *c = &s->model->config;
    const Layer *layer = &s->model->layers[0];
    double x[MAX_DIM] = {0}, q[MAX_DIM] = {0};
    for (int t = 0; t < n; t++) {
        double square = 0;
        for (int i = 0; i < c->dim; i++)
            square += pow(value(&s->model->embedding, tokens[pos + t], i), 2);
        for (int i = 0; i < c->dim; i++)
            x[i] = value(&s->model->embedding, tokens[pos + t], i) /
                   sqrt(square / c->dim + 1e-5) *
                   (double)layer->attn_norm.gamma[i];
        for (int r = 0; r < c->dim; r++)
            q[r] = dot_row(&layer->wq, r, x);
        for (int r = 0; r < c->dim; r += 2) {
            double angle = (pos + t) * pow(10000, -(double)(r % c->head_size) /
                                                      c->head_size);
            double a = q[r] * cos(angle) - q[r + 1] * sin(angle),
                   b = q[r] * sin(angle) + q[r + 1] * cos(angle);
            const float *found = s->chunk.q + t * c->dim + r;
            CHECK(fabs(found[0] - a) <= 2e-6 && fabs(found[1] - b) <= 2e-6,
                  "position %d, pair %d: %.9g %.9g, expected %.9g %.9g",
                  pos + t, r / 2, found[0], found[1], a, b);
        }
    }
}

static void far_positions_are_rotated_exactly(void) {
    static int tokens[CONTEXT];
    int n = test_fast() ? 150 : 5000;
    Bench b;
    CHECK(!bench_open(&b, &shapes[2], KV_F32), "cannot make the model");
    for (int i = 0; i < n; i++)
        tokens[i] = hash_token(&shapes[2], i);
    for (int pos = 0; pos < n; pos += TOKENS) {
        int chunk = n - pos < TOKENS ? n - pos : TOKENS;
        CHECK(model_forward_text(&b.session, tokens + pos, chunk, pos, 0),
              "cannot run");
        check_rotation(&b.session, tokens, chunk, pos);
    }
    bench_close(&b);
}

/* ---- the MLP ------------------------------------------------------------ */

static void check_mlp(const HashModel *m, float size, int chunk) {
    Bench b;
    CHECK(!bench_open(&b, m, KV_F32), "cannot make the model");
    const Config *c = &b.model.config;
    fill_inputs(c->dim, 0, TOKENS, size, 9);
    reference_mlp(&b.model.layers[0], c, TOKENS);
    for (int pos = 0; pos < TOKENS; pos += chunk)
        CHECK(!run_chunk(&b.session,
                         TOKENS - pos < chunk ? TOKENS - pos : chunk, pos,
                         true),
              "cannot run");
    double error = worst_error(c->dim, 0, TOKENS);
    CHECK(error <= 6e-7,
          "hidden_dim %d, inputs of size %g, chunks of %d: error %.3g",
          c->hidden_dim, size, chunk, error);
    bench_close(&b);
}

static void mlp_matches_double_precision(void) {
    for (int i = 0; i < N_SHAPES; i++) {
        check_mlp(&shapes[i], 1, 13);
        if (test_fast())
            continue;
        check_mlp(&shapes[i], 1, 1);
        check_mlp(&shapes[i], 0.001f, TOKENS);
        check_mlp(&shapes[i], 300,
                  TOKENS); /* e^-a overflows: silu(a) is 0 or a */
    }
}

static void both_halves_add_to_the_stream(void) {
    Bench b;
    CHECK(!bench_open(&b, &shapes[1], KV_F32), "cannot make the model");
    int dim = b.model.config.dim;
    fill_inputs(dim, 0, TOKENS, 1, 1);
    for (int is_mlp = 0; is_mlp < 2; is_mlp++) {
        CHECK(!run_chunk(&b.session, 1, 0, is_mlp), "cannot run");
        for (int i = 0; i < dim; i++)
            b.session.chunk.x[i] = 1000;
        if (is_mlp)
            mlp(&b.session, &b.model.layers[0], b.session.chunk.x, xn[0], 1);
        else
            attention(&b.session, &b.model.layers[0], b.session.chunk.x, xn[0],
                      1);
        for (int i = 0; i < dim; i++)
            CHECK(fabsf(b.session.chunk.x[i] - 1000 - got[0][i]) <= 1e-4f,
                  "x[%d] = %.9g, expected 1000 + %.9g", i, b.session.chunk.x[i],
                  got[0][i]);
    }
    bench_close(&b);
}

/* YaRN's factor of queries and keys: 0.1 scale ln(factor) + 1; 1 if the context
 * is not extended. */
static void amplitudes_of_yarn(void) {
    CHECK(yarn_amplitude(1, 2) == 1 && yarn_amplitude(0.5, 2) == 1,
          "no growth: %g", yarn_amplitude(1, 2));
    CHECK(fabs(yarn_amplitude(4, 1) - 1.1386294361119891) < 1e-12, "4: %.17g",
          yarn_amplitude(4, 1));
    CHECK(fabs(yarn_amplitude(4, 0.5) - 1.0693147180559945) < 1e-12,
          "4, half: %.17g", yarn_amplitude(4, 0.5));
}

void suite_attention(void) {
    TEST(attention_matches_double_precision);
    TEST(half_float_cache_has_float16_accuracy);
    TEST(cache_is_overwritten_from_any_position);
    TEST(growing_keeps_the_cache);
    TEST(attention_never_looks_forward);
    TEST(far_positions_are_rotated_exactly);
    TEST(amplitudes_of_yarn);
    TEST(mlp_matches_double_precision);
    TEST(both_halves_add_to_the_stream);
}
