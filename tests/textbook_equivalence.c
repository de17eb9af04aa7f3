/* textbook_equivalence.c: statements of docs/norms.md and its other pages:
 * a model with LayerNorm as one with RMSNorm, and rotations. */
#include "base/file.h"
#include "formats/open.h"
#include "lab/norm_spec.h"
#include "model.h"
#include "norm.h"
#include "session.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BREADTH = 64, DEEP = 12 };

/* ---- a model with LayerNorm as one with RMSNorm, and rotations ----------- */

typedef struct {
    double up[DEEP][BREADTH][BREADTH], down[DEEP][BREADTH][BREADTH],
        head[BREADTH][BREADTH], bias[DEEP + 1][BREADTH];
    double gamma[DEEP + 1][BREADTH], beta[DEEP + 1][BREADTH], x[BREADTH];
} Sublayers;

static double mean_of_doubles(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

/* The norm of n numbers; without gamma and beta. */
static void norm_doubles(double *y, const double *x, int n, NormKind kind) {
    double mean = kind == NORM_LAYER ? mean_of_doubles(x, n) : 0;
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    for (int i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(squares / n);
}

static void fill_doubles(double *x, uint64_t tensor, int n, double size,
                         double center) {
    for (int i = 0; i < n; i++)
        x[i] = center + size * (double)random_float(tensor, i);
}

static void random_sublayers(Sublayers *m) {
    double size = sqrt(12.0 / BREADTH);
    memset(m, 0, sizeof *m);
    fill_doubles(m->up[0][0], 150, DEEP * BREADTH * BREADTH, size, 0);
    /* columns with a mean */
    fill_doubles(m->down[0][0], 151, DEEP * BREADTH * BREADTH, size, 0.02);
    fill_doubles(m->head[0], 152, BREADTH * BREADTH, size, 0);
    fill_doubles(m->gamma[0], 153, (DEEP + 1) * BREADTH, 1, 1);
    fill_doubles(m->beta[0], 154, (DEEP + 1) * BREADTH, 1, 0);
    fill_doubles(m->x, 155, BREADTH, 1, 0.5);
}

static double dot_doubles(const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < BREADTH; i++)
        sum += a[i] * b[i];
    return sum;
}

/* logits = head norm(x), after x += down tanh(up norm(x)) for each sublayer. */
static void run_sublayers(double *logits, const Sublayers *m, NormKind kind) {
    double x[BREADTH], n[BREADTH], hidden[BREADTH];
    memcpy(x, m->x, sizeof x);
    for (int l = 0; l <= DEEP; l++) {
        norm_doubles(n, x, BREADTH, kind);
        for (int i = 0; i < BREADTH; i++)
            n[i] = m->gamma[l][i] * n[i] + m->beta[l][i];
        const double(*const matrix)[BREADTH] = l < DEEP ? m->up[l] : m->head;
        for (int i = 0; i < BREADTH; i++)
            hidden[i] = dot_doubles(matrix[i], n) + m->bias[l][i];
        if (l == DEEP)
            break;
        for (int i = 0; i < BREADTH; i++)
            hidden[i] = tanh(hidden[i]);
        for (int i = 0; i < BREADTH; i++)
            x[i] += dot_doubles(m->down[l][i], hidden);
    }
    memcpy(logits, hidden, sizeof hidden);
}

/* Folds gamma and beta into the next matrix and its bias. */
static void fold_sublayers(Sublayers *m) {
    for (int l = 0; l <= DEEP; l++)
        for (int i = 0; i < BREADTH; i++) {
            double *row = l < DEEP ? m->up[l][i] : m->head[i];
            m->bias[l][i] += dot_doubles(row, m->beta[l]);
            for (int k = 0; k < BREADTH; k++)
                row[k] *= m->gamma[l][k];
        }
    memset(m->beta, 0, sizeof m->beta);
    fill_doubles(m->gamma[0], 0, (DEEP + 1) * BREADTH, 0, 1);
}

/* Subtracts the means of all that is added to the residual stream. */
static void center_sublayers(Sublayers *m) {
    double mean = mean_of_doubles(m->x, BREADTH);
    for (int i = 0; i < BREADTH; i++)
        m->x[i] -= mean;
    for (int l = 0; l < DEEP; l++)
        for (int k = 0; k < BREADTH; k++) {
            double column = 0;
            for (int i = 0; i < BREADTH; i++)
                column += m->down[l][i][k] / BREADTH;
            for (int i = 0; i < BREADTH; i++)
                m->down[l][i][k] -= column;
        }
}

static double largest_gap(const double *a, const double *b, int n) {
    double max = 0;
    for (int i = 0; i < n; i++)
        max = fmax(max, fabs(a[i] - b[i]));
    return max;
}

/* Subtracts the mean of the n numbers w[0], w[step], w[2 * step], ... */
static void center(float *w, int n, int step) {
    double mean = 0;
    for (int i = 0; i < n; i++)
        mean += (double)w[i * step] / n;
    for (int i = 0; i < n; i++)
        w[i * step] = (float)(w[i * step] - mean);
}

/* Centers the embeddings, `wo` and `down` of a llama2.c checkpoint, all that is
 * added to the residual stream. */
static void center_checkpoint(char *file) {
    /* dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context */
    int c[7];
    memcpy(c, file, sizeof c);
    int dim = c[0], hidden = c[1], layers = c[2], kv_dim = dim / c[3] * c[4],
        vocab = c[5];
    float *embedding = (float *)(void *)(file + sizeof c);
    float *wo = embedding + vocab * dim + layers * dim * (1 + dim + 2 * kv_dim);
    float *down = wo + layers * dim * (dim + 1 + hidden);
    for (int i = 0; i < vocab; i++)
        center(embedding + i * dim, dim, 1);
    for (int l = 0; l < layers; l++) {
        for (int k = 0; k < dim; k++)
            center(wo + l * dim * dim + k, dim, dim);
        for (int k = 0; k < hidden; k++)
            center(down + l * dim * hidden + k, dim, hidden);
    }
}

/* Writes the checkpoint, centered, with the original embeddings as its
 * classifier. -1 on failure. */
static int write_centered(const char *path, const char *original) {
    size_t size;
    char *file = file_read(original, &size);
    FILE *out = file ? fopen(path, "wb") : NULL;
    if (!out)
        return free(file), -1;
    int c[7];
    memcpy(c, file, sizeof c);
    size_t embeddings = (size_t)c[0] * (size_t)c[5] * sizeof(float);
    char *classifier = malloc(embeddings);
    memcpy(classifier, file + sizeof c, embeddings);
    center_checkpoint(file);
    c[5] = -c[5]; /* a separate classifier */
    memcpy(file, c, sizeof c);
    bool written = fwrite(file, 1, size, out) == size &&
                   fwrite(classifier, 1, embeddings, out) == embeddings;
    free(classifier);
    free(file);
    return fclose(out) || !written ? -1 : 0;
}

enum { LOGIT_TOKENS = 64, MAX_LOGITS = LOGIT_TOKENS * 512 };

/* The logits of LOGIT_TOKENS tokens with these norms (`--norm`). Returns their
 * number; 0 on failure. */
static int logits_with_norms(double *logits, const char *path,
                             const char *norms) {
    int tokens[LOGIT_TOKENS], n = 0;
    Model m;
    Session session;
    if (model_open(&m, path))
        return 0;
    for (int i = 0; i < LOGIT_TOKENS; i++)
        tokens[i] = (1 + 37 * i) % m.config.vocab_size;
    if (!model_swap_norms(&m, norms) &&
        !session_open(&session, &m, 1, LOGIT_TOKENS, 0, KV_F32)) {
        const float *found =
            model_forward_text(&session, tokens, LOGIT_TOKENS, 0, LOGIT_TOKENS);
        n = LOGIT_TOKENS * m.config.vocab_size;
        for (int i = 0; i < n && i < MAX_LOGITS; i++)
            logits[i] = (double)found[i];
        session_close(&session);
    }
    model_close(&m);
    return n;
}

/* The largest logit of stories260K with LayerNorm, and the gaps to its centered
 * form with RMSNorm and to RMSNorm without centering. NAN: failed. -1: no
 * checkpoint. */
static int gaps_of_the_story_model(double *max, double *centered,
                                   double *uncentered) {
    static double layer[MAX_LOGITS], rms[MAX_LOGITS];
    const char *path = real_checkpoint("stories260K.bin"),
               *copy = temporary("centered.bin");
    if (!path)
        return -1;
    *max = *centered = *uncentered = NAN;
    if (logits_with_norms(layer, path, "layer") == MAX_LOGITS)
        *max = 0;
    for (int i = 0; i < MAX_LOGITS; i++)
        *max = layer[i] > *max ? layer[i] : *max;
    if (!write_centered(copy, path) &&
        logits_with_norms(rms, copy, "rms") == MAX_LOGITS)
        *centered = largest_gap(layer, rms, MAX_LOGITS);
    if (logits_with_norms(rms, path, "rms") == MAX_LOGITS)
        *uncentered = largest_gap(layer, rms, MAX_LOGITS);
    remove(copy);
    return 0;
}

static void layernorm_folds_into_rmsnorm(void) {
    Sublayers *m = malloc(sizeof *m);
    double layer[BREADTH], rms[BREADTH];
    random_sublayers(m);
    run_sublayers(layer, m, NORM_LAYER);
    fold_sublayers(m);
    run_sublayers(rms, m, NORM_RMS);
    double uncentered = largest_gap(layer, rms, BREADTH);
    center_sublayers(m);
    run_sublayers(rms, m, NORM_RMS);
    double difference = largest_gap(layer, rms, BREADTH);
    CHECK(difference < 1e-13, "the logits differ by %g", difference);
    free(m);
    double max, gap, other;
    if (gaps_of_the_story_model(&max, &gap, &other))
        return story_missing();
    CHECK(gap > 0 && gap < 1e-5 * max,
          "stories260K: the logits differ by %g, the largest is %g", gap, max);
    HOLDS(DEEP, BREADTH, 1e-13, uncentered, 1e-5, other);
}

static void rmsnorm_commutes_with_rotations(void) {
    double x[] = {1, 2, 3, 4}, turned[] = {-2, 1, 3, 4};
    double y[4], v[BREADTH], a[BREADTH], b[BREADTH], c[BREADTH];
    norm_doubles(y, turned, 4, NORM_RMS);
    HOLDS(1, 2, 3, 4, -2, y[0], y[1], y[2], y[3]);
    norm_doubles(y, turned, 4, NORM_LAYER);
    HOLDS(y[0], y[1], y[2], y[3]);
    norm_doubles(y, x, 4, NORM_LAYER);
    HOLDS(-y[1], y[0], y[2], y[3]);
    fill_doubles(v, 160, BREADTH, 1, 0);
    fill_doubles(a, 161, BREADTH, 1, 0.5);
    norm_doubles(b, a, BREADTH, NORM_RMS);
    double p = 2 * dot_doubles(v, a) / dot_doubles(v, v),
           q = 2 * dot_doubles(v, b) / dot_doubles(v, v);
    for (int i = 0; i < BREADTH; i++)
        a[i] -= p * v[i], b[i] -= q * v[i]; /* a reflection of both */
    norm_doubles(c, a, BREADTH, NORM_RMS);
    CHECK(largest_gap(b, c, BREADTH) < 1e-14, "they differ by %g",
          largest_gap(b, c, BREADTH));
    HOLDS(BREADTH, 1e-14);
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(layernorm_folds_into_rmsnorm),
    STATEMENT(rmsnorm_commutes_with_rotations),
};
const Table textbook_equivalence = TABLE(STATEMENTS);
