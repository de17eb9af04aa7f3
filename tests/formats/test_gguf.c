/* test_gguf.c: gguf.c, the files it accepts and the files it refuses.
 *
 * Compares every key that changes the result with a double-precision forward
 * pass written from the papers, and a model with the same model as a llama2.c
 * checkpoint. Tests the tokenizer in a file, and files with one defect. Random
 * damage is in test_damage.c.
 */
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "session.h"
#include "tokenizer.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_TOKENS = 12, MAX_LAYERS = 7, MAX_WIDTH = 192, MAX_VOCAB = 131 };

/* Sizes divisible by the block size of every weight type. */
static const HashModel SMALL = {64, 96, 2, 4, 2, 60, 40, true, 7};
static const HashModel SMALL_TIED = {64, 96, 2, 4, 2, 60, 40, false, 8};

static GgufFile file;

/* ---- a forward pass in double ------------------------------------------- */

typedef struct {
    const HashModel *m;
    int head_size, rope_dims;
    double base, scale; /* of RoPE */
    const float *factors;
    double rms_eps, layer_eps;
    const Relative *r; /* NULL: llama */
    double amplitude;
    bool plain_weights; /* of experts: not divided by their sum */
    bool bare, gelu;    /* LayerNorms without parameters; GELU */
    int window, period; /* every period-th layer has no window */
    int pattern;        /* if not 0: bit l: layer l has the window */
    double local_base;  /* of layers with windows; 0: base */
    int no_rope_every;
    double embedding, residual, scores, logits, score_cap,
        logit_cap; /* 0: 1, or none */
} Reference;

static Reference reference_of(const HashModel *m) {
    int head_size = m->dim / m->n_heads;
    return (Reference){.m = m,
                       .head_size = head_size,
                       .rope_dims = head_size,
                       .base = 10000,
                       .scale = 1,
                       .rms_eps = (double)1e-5f,
                       .layer_eps = (double)1e-5f,
                       .amplitude = 1};
}

static Reference relative_of(const HashModel *m, const Relative *r) {
    Reference ref = reference_of(m);
    ref.r = r;
    if (r->head_size)
        ref.head_size = ref.rope_dims = r->head_size;
    return ref;
}

static const float *values_of(int layer, const char *name, const char *ending) {
    char full[64];
    if (layer < 0)
        snprintf(full, sizeof full, "%s.%s", name, ending);
    else
        snprintf(full, sizeof full, "blk.%d.%s.%s", layer, name, ending);
    const GgufTensor *t = gguf_tensor(&file, full);
    return t ? t->values : NULL;
}

static const char *full_name(int layer, const char *name) {
    static char full[64];
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    return full;
}

/* Matrix i of the tensor. */
static void exact_matrix(double *y, const double *x, int layer,
                         const char *name, int i, int rows, int cols) {
    const float *w = values_of(layer, name, "weight") + i * rows * cols,
                *bias = values_of(layer, name, "bias");
    for (int r = 0; r < rows; r++) {
        y[r] = bias ? (double)bias[r] : 0;
        for (int c = 0; c < cols; c++)
            y[r] += (double)w[r * cols + c] * x[c];
    }
}

static void exact_linear(double *y, const double *x, int layer,
                         const char *name, int rows, int cols) {
    exact_matrix(y, x, layer, name, 0, rows, cols);
}

static void exact_norm_of(const Reference *ref, double *y, const double *x,
                          int layer, const char *name, int dim) {
    const float *gamma = values_of(layer, name, "weight"),
                *beta = values_of(layer, name, "bias");
    double mean = 0, squares = 0;
    bool is_layer = beta || ref->bare;
    for (int i = 0; is_layer && i < dim; i++)
        mean += x[i] / dim;
    for (int i = 0; i < dim; i++)
        squares += (x[i] - mean) * (x[i] - mean) / dim;
    double root =
        gamma || ref->bare
            ? sqrt(squares + (is_layer ? ref->layer_eps : ref->rms_eps))
            : 1;
    for (int i = 0; i < dim; i++)
        y[i] = (x[i] - mean) / root * (gamma ? (double)gamma[i] : 1) +
               (beta ? (double)beta[i] : 0);
}

static void exact_norm(const Reference *ref, double *y, const double *x,
                       int layer, const char *name) {
    exact_norm_of(ref, y, x, layer, name, ref->m->dim);
}

static void exact_post_norm(const Reference *ref, double *y, int layer,
                            const char *name) {
    if (values_of(layer, name, "weight"))
        exact_norm(ref, y, y, layer, name);
}

static void exact_head_norms(const Reference *ref, double *v, int heads,
                             int layer, const char *name) {
    const GgufTensor *all = values_of(layer, name, "weight")
                                ? gguf_tensor(&file, full_name(layer, name))
                                : NULL;
    if (!all)
        return;
    if ((int)all->count > ref->head_size)
        exact_norm_of(ref, v, v, layer, name, heads * ref->head_size);
    for (int h = 0; h < heads && (int)all->count == ref->head_size; h++)
        exact_norm_of(ref, v + h * ref->head_size, v + h * ref->head_size,
                      layer, name, ref->head_size);
}

static bool has_window(const Reference *ref, int l) {
    if (ref->pattern)
        return ref->pattern >> l & 1;
    return ref->window && (!ref->period || l % ref->period != ref->period - 1);
}

/* Rotates the first rope_dims elements of each head. */
static void exact_rope(const Reference *ref, double *v, int heads, int pos,
                       int l) {
    const char *neighbours = "llama olmo granite smollm3";
    bool halves = ref->r && !strstr(neighbours, ref->r->architecture);
    Reference local = *ref;
    if (ref->no_rope_every && (l + 1) % ref->no_rope_every == 0)
        return;
    if (has_window(ref, l) && ref->local_base > 0) {
        local.base = ref->local_base;
        local.scale = local.amplitude = 1;
        local.factors = NULL;
        ref = &local;
    }
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < ref->rope_dims / 2; i++) {
            double factor = ref->factors ? (double)ref->factors[i] : 1;
            double angle = pos / ref->scale / factor *
                           pow(ref->base, -2.0 * i / ref->rope_dims);
            double *first = v + h * ref->head_size + (halves ? i : 2 * i),
                   a = *first;
            double *second = first + (halves ? ref->rope_dims / 2 : 1),
                   b = *second;
            *first = ref->amplitude * (a * cos(angle) - b * sin(angle));
            *second = ref->amplitude * (a * sin(angle) + b * cos(angle));
        }
}

static double keys[MAX_LAYERS][N_TOKENS][MAX_WIDTH],
    values[MAX_LAYERS][N_TOKENS][MAX_WIDTH];

static void exact_attention(const Reference *ref, double *out, const double *q,
                            int l, int pos) {
    int size = ref->head_size, heads = ref->m->n_heads;
    for (int h = 0; h < heads; h++) {
        int at = h / (heads / ref->m->n_kv_heads) * size;
        double p[N_TOKENS], sum = 0;
        for (int t = 0; t <= pos; t++) {
            double score = 0;
            for (int i = 0; i < size; i++)
                score += q[h * size + i] * keys[l][t][at + i];
            score *= ref->scores > 0 ? ref->scores : 1 / sqrt(size);
            if (ref->score_cap > 0)
                score = ref->score_cap * tanh(score / ref->score_cap);
            p[t] =
                has_window(ref, l) && pos - t >= ref->window ? 0 : exp(score);
            sum += p[t];
        }
        for (int i = 0; i < size; i++) {
            out[h * size + i] = 0;
            for (int t = 0; t <= pos; t++)
                out[h * size + i] += p[t] / sum * values[l][t][at + i];
        }
    }
}

/* The SwiGLU of layer l or, with the ending "_exps", of its expert i. */
static void exact_mlp(const Reference *ref, double *y, const double *x, int l,
                      const char *ending, int i, int hidden, int dim) {
    double gate[MAX_WIDTH], up[MAX_WIDTH];
    char name[16];
    snprintf(name, sizeof name, "ffn_gate%s", ending);
    exact_matrix(gate, x, l, name, i, hidden, dim);
    snprintf(name, sizeof name, "ffn_up%s", ending);
    exact_matrix(up, x, l, name, i, hidden, dim);
    for (int k = 0; k < hidden; k++) {
        double g = gate[k], inner = sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
        gate[k] =
            up[k] * (ref->gelu ? g * (1 + tanh(inner)) / 2 : g / (1 + exp(-g)));
    }
    snprintf(name, sizeof name, "ffn_down%s", ending);
    exact_matrix(y, gate, l, name, i, dim, hidden);
}

/* The experts with the largest probabilities (the first of equal ones),
 * weighted by them. */
static void exact_experts(const Reference *ref, double *y, const double *x,
                          int l) {
    int n = ref->r->n_experts, dim = ref->m->dim;
    double p[MAX_WIDTH], all = 0, used = 0, out[MAX_WIDTH],
                         weights[MAX_WIDTH] = {0};
    exact_linear(p, x, l, "ffn_gate_inp", n, dim);
    for (int e = 0; e < n; e++)
        all += p[e] = exp(p[e]);
    for (int e = 0; e < n; e++) {
        int better = 0;
        for (int other = 0; other < n; other++)
            better += p[other] > p[e] || (other < e && p[other] == p[e]);
        if (better < ref->r->n_experts_used)
            used += weights[e] = p[e] / all;
    }
    for (int i = 0; i < dim; i++)
        y[i] = 0;
    for (int e = 0; e < n; e++) {
        exact_mlp(ref, out, x, l, "_exps", e, ref->r->expert_dim, dim);
        for (int i = 0; i < dim; i++)
            y[i] += weights[e] / (ref->plain_weights ? 1 : used) * out[i];
    }
}

/* The logits of the token at `pos`; the earlier tokens have been run. */
static void exact_forward(const Reference *ref, double *logits, int token,
                          int pos) {
    const HashModel *m = ref->m;
    int dim = m->dim, q_dim = m->n_heads * ref->head_size,
        kv_dim = m->n_kv_heads * ref->head_size;
    double x[MAX_WIDTH], xn[MAX_WIDTH], q[MAX_WIDTH], heads[MAX_WIDTH],
        y[MAX_WIDTH];
    double embedding = ref->embedding > 0 ? ref->embedding : 1,
           residual = ref->residual > 0 ? ref->residual : 1;
    for (int i = 0; i < dim; i++)
        x[i] = embedding *
               (double)values_of(-1, "token_embd", "weight")[token * dim + i];
    for (int l = 0; l < m->n_layers; l++) {
        exact_norm(ref, xn, x, l, "attn_norm");
        exact_linear(q, xn, l, "attn_q", q_dim, dim);
        exact_linear(keys[l][pos], xn, l, "attn_k", kv_dim, dim);
        exact_linear(values[l][pos], xn, l, "attn_v", kv_dim, dim);
        exact_head_norms(ref, q, m->n_heads, l, "attn_q_norm");
        exact_head_norms(ref, keys[l][pos], m->n_kv_heads, l, "attn_k_norm");
        exact_rope(ref, q, m->n_heads, pos, l);
        exact_rope(ref, keys[l][pos], m->n_kv_heads, pos, l);
        exact_attention(ref, heads, q, l, pos);
        exact_linear(y, heads, l, "attn_output", dim, q_dim);
        exact_post_norm(ref, y, l, "post_attention_norm");
        for (int i = 0; i < dim; i++)
            x[i] += residual * y[i];
        exact_norm(ref, xn, x, l, "ffn_norm");
        if (values_of(l, "ffn_gate_inp", "weight"))
            exact_experts(ref, y, xn, l);
        else
            exact_mlp(ref, y, xn, l, "", 0, m->hidden_dim, dim);
        exact_post_norm(ref, y, l, "post_ffw_norm");
        for (int i = 0; i < dim; i++)
            x[i] += residual * y[i];
    }
    exact_norm(ref, xn, x, -1, "output_norm");
    exact_linear(logits, xn, -1,
                 values_of(-1, "output", "weight") ? "output" : "token_embd",
                 m->vocab_size, dim);
    for (int i = 0; i < m->vocab_size; i++) {
        if (ref->logits > 0)
            logits[i] *= ref->logits;
        if (ref->logit_cap > 0)
            logits[i] = ref->logit_cap * tanh(logits[i] / ref->logit_cap);
    }
}

/* ---- comparison with the program ----------------------------------------- */

static float logits_found[N_TOKENS * MAX_VOCAB];

/* In chunks of 5 tokens. */
static int run_file(const HashModel *m, const char *path, float *logits) {
    int tokens[N_TOKENS], status = -1;
    Model model;
    Session s;
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = hash_token(m, i);
    if (model_open(&model, path))
        return -1;
    if (session_open(&s, &model, 2, 5, 0, KV_F32) == 0) {
        status = 0;
        for (int at = 0; at < N_TOKENS && !status; at += 5) {
            int n = N_TOKENS - at < 5 ? N_TOKENS - at : 5;
            const float *found = model_forward_text(&s, tokens + at, n, at, n);
            if (found)
                memcpy(logits + at * m->vocab_size, found,
                       (size_t)(n * m->vocab_size) * sizeof *found);
            status = found ? 0 : -1;
        }
        session_close(&s);
    }
    model_close(&model);
    return status;
}

/* Writes, runs and frees `file`. Errors are relative to the largest logit. */
static void check_forward(const char *what, const Reference *ref,
                          double tolerance) {
    const char *path = temporary("model.gguf");
    const HashModel *m = ref->m;
    double exact[MAX_VOCAB], error = 0, largest = 0;
    CHECK(!gguf_write(&file, path) && !run_file(m, path, logits_found),
          "%s: does not run", what);
    for (int t = 0; t < N_TOKENS; t++) {
        exact_forward(ref, exact, hash_token(m, t), t);
        for (int i = 0; i < m->vocab_size; i++) {
            double e =
                fabs((double)logits_found[t * m->vocab_size + i] - exact[i]);
            if (!(e <= error))
                error = e; /* also for NaN */
            largest = fmax(largest, fabs(exact[i]));
        }
    }
    gguf_free(&file);
    CHECK(error <= tolerance * largest, "%s: %g away from logits up to %g",
          what, error, largest);
}

static const double CLOSE = 5e-6;

static void check_refused(int line, const char *expected);

/* ---- the same model in two formats -------------------------------------- */

/* llama.cpp orders the rows of attn_q and attn_k as llama2.c does. */
static void same_bits_as_a_checkpoint(void) {
    static const HashModel *const models[] = {&GQA_TIED, &MHA_UNTIED, &ODD_MQA,
                                              &SMALL, &SMALL_TIED};
    static float expected[N_TOKENS * MAX_VOCAB];
    for (int i = 0; i < 5; i++)
        for (uint32_t version = 2; version <= 3; version++) {
            const HashModel *m = models[i];
            const char *checkpoint = temporary("model.bin"),
                       *path = temporary("model.gguf");
            gguf_make(&file, m, 0);
            file.version = version;
            CHECK(!hashmodel_write(m, checkpoint, 0, 0) &&
                      !gguf_write(&file, path),
                  "cannot write");
            gguf_free(&file);
            CHECK(!run_file(m, checkpoint, expected) &&
                      !run_file(m, path, logits_found),
                  "does not run");
            CHECK(
                !memcmp(logits_found, expected,
                        (size_t)(N_TOKENS * m->vocab_size) * sizeof *expected),
                "model %d, version %u: logits differ from the checkpoint's", i,
                version);
        }
}

static void config_matches_the_file(void) {
    const char *path = temporary("model.gguf");
    for (int untied = 0; untied < 2; untied++) {
        const HashModel *m = untied ? &SMALL : &SMALL_TIED;
        Model model;
        gguf_make(&file, m, 0);
        CHECK(!gguf_write(&file, path) && !model_open(&model, path),
              "does not open");
        gguf_free(&file);
        const Config *c = &model.config;
        CHECK(c->dim == 64 && c->hidden_dim == 96 && c->n_layers == 2 &&
                  c->n_heads == 4 && c->n_kv_heads == 2 && c->head_size == 16 &&
                  c->vocab_size == 60 && c->context == 40 &&
                  c->rope.base == 10000 && c->rope.scale == 1 &&
                  c->rope.dims == 16,
              "wrong sizes");
        CHECK(model.tied == !untied &&
                  (model.output.data == model.embedding.data) == !untied,
              "tied: %d", model.tied);
        CHECK(!strcmp(model.format, "GGUF") &&
                  model.files->data + model.layers[1].mlp.up.offset ==
                      model.layers[1].mlp.up.data,
              "format %s", model.format);
        size_t parameters = (size_t)(60 * 64 * (1 + untied) + 64 +
                                     2 * (2 * 64 + 64 * 64 * 3 + 3 * 64 * 96));
        CHECK(model.parameters == parameters, "%zu parameters, expected %zu",
              model.parameters, parameters);
        model_close(&model);
    }
}

static void weight_types(void) {
    static const struct {
        Type type;
        double tolerance; /* Q8_0: activations are int8 */
    } types[] = {{TYPE_F16, 5e-6}, {TYPE_BF16, 5e-6}, {TYPE_Q8_0, 0.03}};
    for (int i = 0; i < 6; i++) {
        Reference ref = reference_of(i / 3 ? &SMALL : &SMALL_TIED);
        gguf_make(&file, ref.m, 0);
        gguf_convert(&file, types[i % 3].type);
        check_forward(type_name(types[i % 3].type), &ref,
                      types[i % 3].tolerance);
    }
    /* every type next to every other */
    for (int first = 0; first < 4; first++) {
        static const Type all[] = {TYPE_Q8_0, TYPE_F32, TYPE_BF16, TYPE_F16};
        Reference ref = reference_of(&SMALL);
        static GgufFile other;
        for (int k = 0; k < 4; k++) {
            gguf_make(&other, ref.m, 0);
            gguf_convert(&other, all[(first + k) % 4]);
            if (k == 0)
                file = other;
            for (int t = 0; k > 0 && t < file.n_tensors; t++)
                if (t % 4 == k) {
                    GgufTensor swapped = file.tensors[t];
                    file.tensors[t] = other.tensors[t];
                    other.tensors[t] = swapped;
                }
            if (k > 0)
                gguf_free(&other);
        }
        gguf_place(&file);
        check_forward("mixed types", &ref, 0.03);
    }
}

/* ---- keys and tensors that change the result ---------------------------- */

static void head_sizes(void) {
    for (int size = 2; size <= 48; size += 2) { /* dim / n_heads is 16 */
        Reference ref = reference_of(&SMALL);
        gguf_make(&file, &SMALL, size);
        ref.head_size = ref.rope_dims = size;
        check_forward("head size", &ref, CLOSE);
    }
}

static void rotations(void) {
    static const char type[] = "llama.rope.scaling.type",
                      factor[] = "llama.rope.scaling.factor";
    for (int i = 0; i < 10; i++) {
        Reference ref = reference_of(i % 2 ? &SMALL : &SMALL_TIED);
        char what[16];
        snprintf(what, sizeof what, "rotation %d", i);
        gguf_make(&file, ref.m, 0);
        if (i == 0 || i == 8)
            gguf_set_int(&file, "llama.rope.dimension_count",
                         ref.rope_dims = 6);
        if (i == 1 || i == 8)
            gguf_set_real(&file, "llama.rope.freq_base", 500000),
                ref.base = 500000;
        if (i == 2 || i == 8)
            gguf_set_text(&file, type, "linear");
        /* linear is the default */
        if (i == 2 || i == 3 || i == 8)
            gguf_set_real(&file, factor, 2.5f), ref.scale = 2.5;
        /* the old name */
        if (i == 4)
            gguf_set_real(&file, "llama.rope.scale_linear", 4), ref.scale = 4;
        if (i == 5)
            gguf_set_text(&file, type, "none"), gguf_set_real(&file, factor, 8);
        if (i == 6)
            gguf_set_text(&file, type, "none"),
                gguf_set_real(&file, "llama.rope.scale_linear", 8);
        if (i == 9)
            gguf_set_text(&file, type, "linear"),
                gguf_set_real(&file, "llama.rope.scale_linear", 2),
                ref.scale = 2;
        if (i == 7 || i == 8)
            ref.factors = gguf_add(&file, "rope_freqs.weight", 1,
                                   ref.rope_dims / 2, 4, 6, 99)
                              ->values;
        check_forward(what, &ref, CLOSE);
    }
}

/* YaRN by its paper (Peng et al. 2023, sec. 3.2): frequencies that turn `fast`
 * times in the original context are unchanged, those that turn `slow` times are
 * divided by the factor, with a linear ramp over whole pairs in between. */
static void yarn(void) {
    static const struct {
        float factor, fast, slow, amplitude; /* 0: key missing */
        int context;
    } cases[] = {{4, 0, 0, 0, 0},        {16, 0, 0, 0.75f, 20},
                 {2.5f, 3, 0.5f, 0, 30}, {0.5f, 0, 0, 0, 39},
                 {3, 1, 1, 0, 7},        {3, 2, 1e-8f, 0, 0}};
    for (int i = 0; i < (test_fast() ? 2 : 6); i++) {
        static float factors[8];
        Reference ref = reference_of(&SMALL);
        double turns[] = {cases[i].fast > 0 ? (double)cases[i].fast : 32,
                          cases[i].slow > 0 ? (double)cases[i].slow : 1};
        double factor = (double)cases[i].factor,
               context = cases[i].context ? cases[i].context : 40;
        double ends[2]; /* of the ramp, as indices of pairs */
        for (int k = 0; k < 2; k++)
            ends[k] = 8 * log(context / (turns[k] * 2 * acos(-1))) / log(10000);
        double first = fmax(floor(ends[0]), 0), last = fmin(ceil(ends[1]), 15);
        for (int k = 0; k < 8; k++) {
            double part =
                last == first ? k > first : (k - first) / (last - first);
            double mixed = part < 0 ? 0 : part > 1 ? 1 : part;
            factors[k] = (float)(1 / (mixed / factor + 1 - mixed));
        }
        ref.factors = factors;
        ref.amplitude = factor > 1 ? 1 + log(factor) / 10 : 1;
        gguf_make(&file, &SMALL, 0);
        gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
        gguf_set_real(&file, "llama.rope.scaling.factor", cases[i].factor);
        if (cases[i].context)
            gguf_set_int(&file, "llama.rope.scaling.original_context_length",
                         cases[i].context);
        if (cases[i].fast > 0)
            gguf_set_real(&file, "llama.rope.scaling.yarn_beta_fast",
                          cases[i].fast);
        if (cases[i].slow > 0)
            gguf_set_real(&file, "llama.rope.scaling.yarn_beta_slow",
                          cases[i].slow);
        if (cases[i].amplitude > 0) {
            gguf_set_real(&file, "llama.rope.scaling.attn_factor",
                          cases[i].amplitude);
            ref.amplitude *= (double)cases[i].amplitude;
        }
        check_forward("YaRN", &ref, CLOSE);
    }
}

static void biases(void) {
    static const char *const names[] = {"attn_q",      "attn_k",   "attn_v",
                                        "attn_output", "ffn_gate", "ffn_up",
                                        "ffn_down"};
    for (int which = 0; which <= 8; which++) { /* one at a time, then all */
        Reference ref = reference_of(&SMALL);
        gguf_make(&file, ref.m, 0);
        for (int i = 0; i < 7; i++)
            for (int l = 0; l < 2; l++) {
                char name[64];
                snprintf(name, sizeof name, "blk.%d.%s.weight", l, names[i]);
                int rows = (int)gguf_tensor(&file, name)->dims[1];
                snprintf(name, sizeof name, "blk.%d.%s.bias", l, names[i]);
                if (which == i || which == 8)
                    gguf_add(&file, name, 1, rows, 0.3f, 2,
                             (uint64_t)(10 * i + l));
            }
        if (which >= 7)
            gguf_add(&file, "output.bias", 1, 60, 0.3f, 2, 98);
        check_forward(which < 7 ? names[which] : "output, all", &ref, CLOSE);
    }
}

/* A norm with a bias is a LayerNorm. A model may mix both kinds, each with its
 * epsilon. */
static void norms(void) {
    static const char *const sites[] = {"blk.0.attn_norm", "blk.0.ffn_norm",
                                        "blk.1.attn_norm", "blk.1.ffn_norm",
                                        "output_norm"};
    for (int which = 0; which <= 6; which++) { /* none, one at a time, all */
        Reference ref = reference_of(&SMALL);
        gguf_make(&file, ref.m, 0);
        gguf_set_real(&file, "llama.attention.layer_norm_rms_epsilon", 0.125f),
            ref.rms_eps = 0.125;
        if (which % 2)
            gguf_set_real(&file, "llama.attention.layer_norm_epsilon", 2.5f);
        ref.layer_eps =
            which % 2
                ? 2.5
                : 0.125; /* a missing key has the value of the other one */
        for (int i = 0; i < 5; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s.bias", sites[i]);
            if (which == 6 || which == i + 1)
                gguf_add(&file, name, 1, 64, 0.1f, 1, (uint64_t)i);
        }
        check_forward(which ? sites[(which - 1) % 5] : "RMSNorm", &ref, CLOSE);
    }
}

/* ---- architectures ------------------------------------------------------ */

static const HashModel DEEP = {64, 96, 3, 4, 4, 60, 40, true, 13};

static const struct {
    const HashModel *m;
    Relative r;
} RELATIVES[] = {
    {&SMALL, {.architecture = "qwen2", .biases = true}},
    {&SMALL_TIED, {.architecture = "qwen3"}},
    {&SMALL,
     {.architecture = "qwen3moe",
      .n_experts = 8,
      .n_experts_used = 2,
      .expert_dim = 32}},
    {&DEEP,
     {.architecture = "qwen3moe",
      .n_experts = 5,
      .n_experts_used = 5,
      .expert_dim = 32,
      .n_dense = 1}},
    {&SMALL,
     {.architecture = "llama",
      .biases = true,
      .n_experts = 4,
      .n_experts_used = 1,
      .expert_dim = 160}},
};
enum {
    N_RELATIVES = sizeof RELATIVES / sizeof *RELATIVES,
    FIRST_WITH_EXPERTS = 2,
    WITH_DENSE = 3
};

static void architectures(void) {
    static const int head_sizes[] = {0, 24, 46};
    for (int i = 0; i < N_RELATIVES; i++)
        for (int k = 0; k < 3; k++) {
            if (test_fast() && (i + k) % 3)
                continue;
            Relative r = RELATIVES[i].r;
            r.head_size = head_sizes[k];
            Reference ref = relative_of(RELATIVES[i].m, &r);
            gguf_make_relative(&file, ref.m, &r);
            if (k == 1)
                gguf_set_real(&file, gguf_key(&r, "rope.scaling.attn_factor"),
                              1.25f),
                    ref.amplitude = 1.25;
            if (k == 1)
                gguf_set_int(&file, gguf_key(&r, "rope.dimension_count"),
                             ref.rope_dims = 10);
            if (k == 2)
                ref.factors = gguf_add(&file, "rope_freqs.weight", 1,
                                       ref.rope_dims / 2, 4, 6, 99)
                                  ->values;
            check_forward(r.architecture, &ref, CLOSE);
        }
}

/* ---- families ----------------------------------------------------------- */

/* Enough layers for every pattern of windows to repeat. */
static const HashModel MANY_LAYERS = {64, 80, 7, 4, 2, 60, 40, true, 14};

static Reference family_of(const Relative *r) {
    static const struct {
        const char *name;
        Reference ref; /* fields that differ from llama's */
    } families[] = {
        {"olmo", {.bare = true}},
        {"olmo2", {.window = FAMILY_WINDOW, .period = 4, .local_base = 10000}},
        {"gemma2",
         {.gelu = true,
          .window = FAMILY_WINDOW,
          .period = 2,
          .embedding = 8,
          .score_cap = 2,
          .logit_cap = 3}},
        {"gemma3",
         {.gelu = true,
          .window = FAMILY_WINDOW,
          .period = 6,
          .base = 1e6,
          .local_base = 10000,
          .embedding = 8}},
        {"granite",
         {.embedding = 3, .residual = 0.5, .scores = 0.25, .logits = 0.25}},
        {"smollm3", {.no_rope_every = 4}},
        {"stablelm", {.rope_dims = 8}},
    };
    Reference ref = reference_of(&MANY_LAYERS);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].name, r->architecture) != 0)
            continue;
        Reference family = families[i].ref;
        family.m = ref.m, family.head_size = ref.head_size,
        family.scale = family.amplitude = 1;
        family.rms_eps = ref.rms_eps, family.layer_eps = ref.layer_eps;
        if (family.base == 0)
            family.base = ref.base;
        if (family.rope_dims == 0)
            family.rope_dims = ref.rope_dims;
        ref = family;
    }
    ref.r = r;
    return ref;
}

static void families(void) {
    for (int i = 0; i < N_GGUF_FAMILIES; i++) {
        Relative r = {.architecture = GGUF_FAMILIES[i]};
        Reference ref = family_of(&r);
        if (!strcmp(r.architecture, "phi3"))
            continue;
        gguf_make_family(&file, ref.m, r.architecture);
        check_forward(r.architecture, &ref, CLOSE);
    }
}

/* Optional keys that are missing or have unusual values. */
static void families_with_other_keys(void) {
    /* 7 bools */
    static const char pattern[] = {7, 0, 0, 0, 7, 0, 0, 0, 0, 0,
                                   0, 0, 1, 0, 0, 1, 0, 1, 0};
    Relative olmo2 = {.architecture = "olmo2"},
             gemma2 = {.architecture = "gemma2"},
             gemma3 = {.architecture = "gemma3"},
             granite = {.architecture = "granite"},
             stablelm = {.architecture = "stablelm"};
    for (int i = 0; i < 10; i++) {
        Reference ref = family_of(i < 3    ? &olmo2
                                  : i < 4  ? &gemma2
                                  : i < 7  ? &gemma3
                                  : i == 8 ? &stablelm
                                           : &granite);
        gguf_make_family(&file, ref.m, ref.r->architecture);
        if (i == 0)
            gguf_remove(&file, "olmo2.attention.sliding_window"),
                ref.window = 0;
        /* OLMo 3's longer context, only in layers without windows */
        if (i == 1) {
            gguf_set_text(&file, "olmo2.rope.scaling.type", "linear");
            gguf_set_real(&file, "olmo2.rope.scaling.factor", 4), ref.scale = 4;
            gguf_set_real(&file, "olmo2.rope.scaling.attn_factor", 1.25f),
                ref.amplitude = 1.25;
            gguf_set_real(&file, "olmo2.rope.freq_base_swa", 10000);
        }
        if (i == 2) { /* layers 0, 3 and 5 have the window */
            gguf_set(&file, "olmo2.attention.sliding_window_pattern",
                     GGUF_ARRAY, pattern, sizeof pattern);
            ref.pattern = 1 << 0 | 1 << 3 | 1 << 5;
        }
        if (i == 3) { /* defaults: caps of 50 and 30, window of 4096 */
            gguf_remove(&file, "gemma2.attn_logit_softcapping"),
                ref.score_cap = 50;
            gguf_remove(&file, "gemma2.final_logit_softcapping"),
                ref.logit_cap = 30;
            gguf_remove(&file, "gemma2.attention.sliding_window"),
                ref.window = 0;
        }
        if (i == 4)
            gguf_set_real(&file, "gemma3.rope.freq_base_swa", 500),
                ref.local_base = 500;
        if (i == 5)
            gguf_remove(&file, "gemma3.attention.sliding_window"),
                ref.window = 0;
        if (i == 6)
            gguf_set_real(&file, "gemma3.final_logit_softcapping", 2),
                ref.logit_cap = 2;
        if (i == 6)
            gguf_set_real(&file, "gemma3.rope.scaling.factor", 8),
                ref.scale = 8;
        if (i == 7) {
            gguf_remove(&file, "granite.attention.scale"), ref.scores = 0;
            gguf_set(&file, "granite.rope.scaling.finetuned", GGUF_BOOL,
                     &(bool){false}, 1),
                ref.no_rope_every = 1;
        }
        /* as llama.cpp's converter writes it if config.json lacks the option;
         * the norms before the MLP say otherwise */
        if (i == 8)
            gguf_set(&file, "stablelm.use_parallel_residual", GGUF_BOOL,
                     &(bool){true}, 1);
        /* a dense Granite 4: sizes of absent layers, and a list with a size for
         * each layer */
        if (i == 9) {
            uint32_t n = ref.m->n_kv_heads, heads[] = {GGUF_U32, 3, 0, n, n, n};
            gguf_set(&file, "granite.ssm.conv_kernel", GGUF_U32, &(uint32_t){4},
                     4);
            gguf_set(&file, "granite.expert_shared_feed_forward_length",
                     GGUF_U32, &(uint32_t){80}, 4);
            gguf_set(&file, "granite.attention.head_count_kv", GGUF_ARRAY,
                     heads, sizeof heads);
        }
        check_forward(ref.r->architecture, &ref, CLOSE);
    }
}

/* Fused weights give the bits of the same weights as separate tensors in a
 * qwen2 file. */
static void fused_tensors(void) {
    static float expected[N_TOKENS * MAX_VOCAB];
    const char *path = temporary("model.gguf");
    Relative r = {.architecture = "qwen2"};
    gguf_make_relative(&file, &MANY_LAYERS, &r);
    gguf_set_int(&file, "qwen2.rope.dimension_count", 8);
    gguf_set_real(&file, "qwen2.rope.scaling.attn_factor", 1.25f);
    gguf_add(&file, "rope_freqs.weight", 1, 4, 2, 1, 8);
    CHECK(!gguf_write(&file, path) && !run_file(&MANY_LAYERS, path, expected),
          "qwen2 does not run");
    gguf_free(&file);
    gguf_make_family(&file, &MANY_LAYERS, "phi3");
    CHECK(!gguf_write(&file, path) &&
              !run_file(&MANY_LAYERS, path, logits_found),
          "phi3 does not run");
    CHECK(
        !memcmp(expected, logits_found,
                (size_t)(N_TOKENS * MANY_LAYERS.vocab_size) * sizeof *expected),
        "phi3's logits differ");
    Model model;
    CHECK(!model_open(&model, path) && model.config.context == 32,
          "longrope: context %d", model.config.context);
    model_close(&model);
    gguf_free(&file);
}

static void bad_families(void) {
    static const char short_pattern[] = {7, 0, 0, 0, 2, 0, 0,
                                         0, 0, 0, 0, 0, 1, 0};
    static const char float_pattern[12 + 28] = {6, 0, 0, 0, 7};
#define REFUSED_OF(architecture, expected, change)                             \
    do {                                                                       \
        gguf_make_family(&file, &MANY_LAYERS, architecture);                   \
        change;                                                                \
        check_refused(__LINE__, expected);                                     \
    } while (0)
    REFUSED_OF("olmo", "attention.clamp_kqv is 8, expected 0",
               gguf_set_real(&file, "olmo.attention.clamp_kqv", 8));
    REFUSED_OF("olmo", "the epsilon of its norms is missing",
               gguf_remove(&file, "olmo.attention.layer_norm_epsilon"));
    REFUSED_OF("olmo", "blk.0.attn_norm.weight is not supported",
               gguf_add(&file, "blk.0.attn_norm.weight", 1, 64, 1, 1, 0));
    REFUSED_OF("olmo", "use_parallel_residual is 1, expected 0",
               gguf_set(&file, "olmo.use_parallel_residual", GGUF_BOOL,
                        &(bool){true}, 1));
    REFUSED_OF(
        "granite",
        "granite.attention.head_count_kv is a list, expected a whole number",
        gguf_set(&file, "granite.attention.head_count_kv", GGUF_ARRAY,
                 &(uint32_t[]){GGUF_U32, 2, 0, 2, 1}, 20));
    REFUSED_OF(
        "llama", "llama.ssm.conv_kernel is not supported",
        gguf_set(&file, "llama.ssm.conv_kernel", GGUF_U32, &(uint32_t){4}, 4));
    REFUSED_OF("stablelm", "use_parallel_residual is 1, expected 0",
               gguf_set(&file, "stablelm.use_parallel_residual", GGUF_BOOL,
                        &(bool){true}, 1);
               gguf_remove(&file, "blk.0.ffn_norm.weight"));
    REFUSED_OF("stablelm", "blk.3.ffn_norm.weight is missing",
               gguf_remove(&file, "blk.3.ffn_norm.weight"));
    REFUSED_OF("stablelm", "blk.3.ffn_norm.bias is missing",
               gguf_remove(&file, "blk.3.ffn_norm.bias"));
    REFUSED_OF("stablelm", "blk.0.attn_q_norm.weight is not supported",
               gguf_add(&file, "blk.0.attn_q_norm.weight", 4, 16, 1, 1, 0));
    REFUSED_OF("olmo2", "blk.0.attn_norm.weight is not supported",
               gguf_add(&file, "blk.0.attn_norm.weight", 1, 64, 1, 1, 0));
    REFUSED_OF("olmo2", "blk.6.post_ffw_norm.weight is missing",
               gguf_remove(&file, "blk.6.post_ffw_norm.weight"));
    REFUSED_OF("olmo2", "attn_k_norm.weight is [1, 1, 16], expected [1, 1, 32]",
               gguf_tensor(&file, "blk.0.attn_k_norm.weight")->dims[0] = 16);
    REFUSED_OF("olmo2", "rope.freq_base_swa is 500, expected 10000",
               gguf_set_real(&file, "olmo2.rope.freq_base_swa", 500));
    REFUSED_OF(
        "olmo2", "sliding_window_pattern is 4, expected an array of 7 integers",
        gguf_set_int(&file, "olmo2.attention.sliding_window_pattern", 4));
    REFUSED_OF(
        "olmo2",
        "sliding_window_pattern is a list, expected an array of 7 integers",
        gguf_set(&file, "olmo2.attention.sliding_window_pattern", GGUF_ARRAY,
                 short_pattern, 14));
    REFUSED_OF("olmo2", "sliding_window_pattern is 0, expected an array of",
               gguf_set(&file, "olmo2.attention.sliding_window_pattern",
                        GGUF_ARRAY, float_pattern, 12 + 28));
    REFUSED_OF("gemma2",
               "attn_logit_softcapping is 0, expected a positive number",
               gguf_set_real(&file, "gemma2.attn_logit_softcapping", 0));
    REFUSED_OF(
        "gemma2",
        "final_logit_softcapping is 1e-50, expected a positive number in float32",
        double tiny = 1e-50;
        gguf_set(&file, "gemma2.final_logit_softcapping", GGUF_F64, &tiny, 8));
    REFUSED_OF("gemma2", "softcapping is nan, expected a positive number",
               gguf_set_real(&file, "gemma2.final_logit_softcapping", NAN));
    REFUSED_OF(
        "gemma2",
        "softcapping is 1e+300, expected a positive number in float32",
        double large = 1e300;
        gguf_set(&file, "gemma2.attn_logit_softcapping", GGUF_F64, &large, 8));
    REFUSED_OF("gemma2", "rope.freq_base_swa is 500, expected 10000",
               gguf_set_real(&file, "gemma2.rope.freq_base_swa", 500));
    REFUSED_OF("gemma3", "attn_logit_softcapping is 50, expected 0",
               gguf_set_real(&file, "gemma3.attn_logit_softcapping", 50));
    REFUSED_OF("gemma3", "rope.freq_base_swa is -1, expected",
               gguf_set_real(&file, "gemma3.rope.freq_base_swa", -1));
    REFUSED_OF("gemma3", "attn_factor is 1.25, expected 1",
               gguf_set_real(&file, "gemma3.rope.scaling.attn_factor", 1.25f));
    REFUSED_OF("granite", "granite.logit_scale is missing",
               gguf_remove(&file, "granite.logit_scale"));
    REFUSED_OF(
        "granite",
        "metadata key granite.attention.sliding_window_pattern is not supported",
        gguf_set_int(&file, "granite.attention.sliding_window_pattern", 1));
    REFUSED_OF("phi3", "rope_factors_short.weight is missing",
               gguf_remove(&file, "rope_factors_short.weight"));
    REFUSED_OF("phi3",
               "blk.0.attn_qkv.weight is [1, 128, 64], expected [1, 144, 64]",
               gguf_set_int(&file, "phi3.attention.key_length", 18);
               gguf_set_int(&file, "phi3.attention.value_length", 18));
    REFUSED_OF("phi3",
               "blk.2.ffn_up.weight is [1, 159, 64], expected [1, 160, 64]",
               gguf_tensor(&file, "blk.2.ffn_up.weight")->dims[1]--);
    REFUSED_OF("phi3", "attn_qkv.weight is missing",
               gguf_remove(&file, "blk.1.attn_qkv.weight"));
    REFUSED_OF("phi3", "ffn_up.weight is [1, 160, 64], expected [1, -1, 64]",
               gguf_set_int(&file, "phi3.feed_forward_length", 1 << 30));
    REFUSED_OF("phi3", "attn_qkv.weight is [1, 128, 64], expected [1, -1, 64]",
               gguf_set_int(&file, "phi3.attention.key_length", 1 << 28);
               gguf_set_int(&file, "phi3.attention.value_length", 1 << 28));
#undef REFUSED_OF
}

/* ---- experts ------------------------------------------------------------ */

/* Keys of experts, in several weight types. */
static void experts(void) {
    static const Type types[] = {TYPE_F32, TYPE_F16, TYPE_Q8_0};
    for (int i = FIRST_WITH_EXPERTS; i < N_RELATIVES; i++)
        for (int k = 0; k < 3; k++) {
            if (test_fast() && (i + k) % 3)
                continue;
            const Relative *r = &RELATIVES[i].r;
            bool norm = k != 1;
            Reference ref = relative_of(RELATIVES[i].m, r);
            gguf_make_relative(&file, ref.m, r);
            gguf_convert(&file, types[k]);
            gguf_set_int(&file, gguf_key(r, "expert_gating_func"), 1);
            gguf_set_real(&file, gguf_key(r, "expert_weights_scale"), 1);
            if (k)
                gguf_set(&file, gguf_key(r, "expert_weights_norm"), GGUF_BOOL,
                         &norm, 1);
            ref.plain_weights = !norm;
            check_forward(type_name(types[k]), &ref,
                          types[k] == TYPE_Q8_0 ? 0.03 : CLOSE);
        }
}

static void equal_and_nan_router_logits(void) {
    const Relative *r = &RELATIVES[FIRST_WITH_EXPERTS].r;
    Reference ref = relative_of(&SMALL, r);
    gguf_make_relative(&file, &SMALL, r);
    for (int l = 0; l < 2; l++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        GgufTensor *router = gguf_tensor(&file, name);
        /* all equal */
        for (size_t i = 0; i < router->count; i++)
            router->values[i] = l ? 0 : router->values[i % 64];
    }
    check_forward("ties", &ref, CLOSE);
    for (int which = 0; which < 3;
         which++) { /* one NaN makes all probabilities NaN */
        const char *path = temporary("model.gguf");
        gguf_make_relative(&file, &SMALL, r);
        gguf_tensor(&file, "blk.0.ffn_gate_inp.weight")
            ->values[which * 3 * 64] = which == 1 ? INFINITY : NAN;
        CHECK(!gguf_write(&file, path) && !run_file(&SMALL, path, logits_found),
              "does not run");
        gguf_free(&file);
        for (int i = 0; i < N_TOKENS * SMALL.vocab_size; i++)
            CHECK(isnan(logits_found[i]), "logit %d is not NaN", i);
    }
}

/* As in Mixtral's files: experts have the width of an MLP. */
static void the_width_of_experts_is_optional(void) {
    Relative r = {.architecture = "llama",
                  .n_experts = 4,
                  .n_experts_used = 2,
                  .expert_dim = SMALL.hidden_dim};
    Reference ref = relative_of(&SMALL, &r);
    gguf_make_relative(&file, ref.m, &r);
    gguf_remove(&file, "llama.expert_feed_forward_length");
    check_forward("no width", &ref, CLOSE);
}

/* If every layer has experts, no tensor confirms feed_forward_length; no memory
 * is allocated for it. */
static void an_unconfirmed_mlp_width_allocates_nothing(void) {
    const Relative *r = &RELATIVES[FIRST_WITH_EXPERTS].r;
    Reference ref = relative_of(&SMALL, r);
    gguf_make_relative(&file, ref.m, r);
    gguf_set_int(&file, gguf_key(r, "feed_forward_length"), 0x7fffffff);
    check_forward("a claimed width", &ref, CLOSE);
}

static int open_relative(Model *model, const HashModel *m, const Relative *r) {
    const char *path = temporary("model.gguf");
    gguf_make_relative(&file, m, r);
    int status = gguf_write(&file, path) || model_open(model, path) ? -1 : 0;
    gguf_free(&file);
    return status;
}

static void sizes_of_experts(void) {
    Relative r = RELATIVES[WITH_DENSE].r;
    Model model;
    r.head_size = 24;
    CHECK(!open_relative(&model, &DEEP, &r), "does not open");
    const Config *c = &model.config;
    CHECK(c->n_experts == 5 && c->n_experts_used == 5 && c->expert_dim == 32 &&
              c->norm_topk && c->rope.halves && c->head_size == 24 &&
              c->rope.amplitude == 1,
          "wrong sizes");
    CHECK(!model.layers[0].experts && model.layers[0].mlp.gate.data &&
              model.layers[1].experts && !model.layers[1].mlp.gate.data,
          "the wrong layers have experts");
    int norms = 7 * 64 + 6 * 24, attention = 3 * 4 * (4 * 24 * 64),
        dense = 3 * 64 * 96;
    int expert = 3 * 64 * 32, router = 5 * 64, tables = 2 * 60 * 64;
    CHECK(model.parameters == (size_t)(norms + attention + dense +
                                       2 * (5 * expert + router) + tables),
          "%zu parameters", model.parameters);
    size_t bytes = model.decode_bytes;
    model_close(&model);
    r.n_experts_used = 2; /* a token reads only the experts it uses */
    CHECK(!open_relative(&model, &DEEP, &r), "does not open");
    CHECK(bytes - model.decode_bytes ==
              (size_t)(2 * 3 * expert) * sizeof(float),
          "%zu and %zu bytes", bytes, model.decode_bytes);
    model_close(&model);
}

/* In a llama all layers have the window. If the layers with a window are
 * unknown, the context is cut to it. */
static void windows_of_llama_and_qwen2(void) {
    static const int windows[] = {0, 1, 39, 40, 41, 0x7fffffff, -1},
                     shortest[] = {40, 1, 39, 40, 40, 40, 40};
    enum { N = sizeof windows / sizeof *windows };
    for (int i = 0; i < 2 * N; i++) {
        Model model;
        int given = windows[i % N], end = shortest[i % N];
        const char *path = temporary("model.gguf");
        Relative r = {.architecture = i < N ? "llama" : "qwen2"};
        gguf_make_relative(&file, &SMALL, &r);
        gguf_set(&file, gguf_key(&r, "attention.sliding_window"),
                 given < 0 ? GGUF_I32 : GGUF_U32, &given, sizeof given);
        CHECK(!gguf_write(&file, path) && !model_open(&model, path),
              "window %d does not open", given);
        gguf_free(&file);
        const int window = i < N && given > 0 ? given : 0;
        const int context = i < N ? 40 : end;
        CHECK(model.config.context == context, "window %d: context %d", given,
              model.config.context);
        for (int l = 0; l < 2; l++)
            CHECK(model.layers[l].window == window, "window %d: %d in layer %d",
                  given, model.layers[l].window, l);
        model_close(&model);
    }
}

/* Integers and reals of any width. */
static void numbers_of_any_width(void) {
    static const struct {
        GgufType type;
        size_t bytes;
    } types[] = {{GGUF_U8, 1},  {GGUF_I8, 1},  {GGUF_U16, 2}, {GGUF_I16, 2},
                 {GGUF_U32, 4}, {GGUF_I32, 4}, {GGUF_U64, 8}, {GGUF_I64, 8}};
    for (int i = 0; i < 8; i++) {
        Reference ref = reference_of(&SMALL);
        uint64_t dim = 64;
        double base = 10000;
        gguf_make(&file, &SMALL, 0);
        gguf_set(&file, "llama.embedding_length", types[i].type, &dim,
                 types[i].bytes);
        gguf_set(&file, "llama.rope.freq_base", GGUF_F64, &base, 8);
        check_forward("integers", &ref, CLOSE);
    }
}

/* ---- the tokenizer ------------------------------------------------------ */

static const HashModel SPEAKING = {16, 16, 1, 2, 1, 1800, 16, false, 9};

/* 1: a tokenizer was read; then the caller closes both. */
static int open_tokenizer(Model *model, Tokenizer *t, bool needed) {
    const char *path = temporary("speaking.gguf");
    if (gguf_write(&file, path) || model_open(model, path))
        return -2;
    int found = gguf_read_tokenizer(t, model->files, path,
                                    model->config.vocab_size, needed);
    if (found <= 0)
        model_close(model);
    return found;
}

/* Words, runs of spaces, any bytes. */
static int random_text(char *text, int i) {
    int n = (int)(hash64(19, 0, (uint64_t)i) % 60);
    for (int k = 0; k < n; k++) {
        uint64_t h = hash64(19, 1, (uint64_t)(i * 64 + k));
        text[k] = h % 7 == 0    ? ' '
                  : h % 31 == 0 ? (char)(h >> 32)
                                : (char)('a' + h % 5);
    }
    return n;
}

static void same_tokens_as_tokenizer_bin(void) {
    const char *path = temporary("tokenizer.bin");
    Model model;
    Tokenizer bin, t;
    gguf_make(&file, &SPEAKING, 0);
    CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0) &&
              !hashtokenizer_write(path, SPEAKING.vocab_size) &&
              !tokenizer_open_bin(&bin, path, SPEAKING.vocab_size),
          "cannot make them");
    CHECK(open_tokenizer(&model, &t, true) == 1, "no tokenizer in the file");
    gguf_free(&file);
    CHECK(t.pieces.n == bin.pieces.n && t.bos == 1 && t.eos == 2 &&
              t.pieces.unk == 0 && t.pieces.max_length == bin.pieces.max_length,
          "%d pieces, longest %d", t.pieces.n, t.pieces.max_length);
    CHECK(t.normalizer.replaces_invalid && !bin.normalizer.replaces_invalid,
          "invalid UTF-8");
    t.normalizer.replaces_invalid = false; /* the only difference */
    for (int i = 0; i < 3000; i++) {
        char text[64];
        int n = random_text(text, i);
        Tokens a, b;
        CHECK(!tokenizer_encode(&bin, text, (size_t)n, i % 2, &a) &&
                  !tokenizer_encode(&t, text, (size_t)n, i % 2, &b),
              "no memory");
        CHECK(a.n == b.n &&
                  (!a.n || !memcmp(a.ids, b.ids, (size_t)a.n * sizeof *a.ids)),
              "text %d: other tokens", i);
        free(a.ids);
        free(b.ids);
    }
    for (int previous = 1; previous < 6; previous += 4)
        for (int id = 0; id < t.pieces.n; id++) {
            int n, expected_n;
            const char *text = tokenizer_decode(&t, previous, id, &n);
            const char *expected =
                tokenizer_decode(&bin, previous, id, &expected_n);
            CHECK(n == expected_n && !memcmp(text, expected, (size_t)n),
                  "token %d: other text", id);
        }
    tokenizer_close(&bin);
    tokenizer_close(&t);
    model_close(&model);
}

/* The ids of a text with BOS, as text. */
static const char *tokens_of(const char *text) {
    static char list[256];
    Model model;
    Tokenizer t;
    Tokens tokens = {0};
    int at = 0;
    *list = 0;
    if (open_tokenizer(&model, &t, true) != 1)
        return "none";
    if (!tokenizer_encode(&t, text, strlen(text), true, &tokens))
        for (int i = 0; i < tokens.n; i++) {
            at += snprintf(list + at, sizeof list - (size_t)at,
                           "%d:", tokens.ids[i]);
            int n;
            const char *piece = tokenizer_decode(&t, i ? tokens.ids[i - 1] : -1,
                                                 tokens.ids[i], &n);
            at += snprintf(list + at, sizeof list - (size_t)at, "%.*s ", n,
                           piece);
        }
    free(tokens.ids);
    tokenizer_close(&t);
    model_close(&model);
    return list;
}

static void check_tokens(const char *text, const char *expected) {
    const char *found = tokens_of(text);
    CHECK(!strcmp(found, expected), "\"%s\" becomes %s, expected %s", text,
          found, expected);
}

/* Pieces 259 to 353 are the printable characters, from the space. */
static void prefixes_are_optional(void) {
    bool no = false;
    gguf_make(&file, &SPEAKING, 0);
    CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0),
          "cannot make it");
    check_tokens("XY", "1:\n<s>\n 259: 315:X 316:Y ");
    gguf_set(&file, "tokenizer.ggml.add_bos_token", GGUF_BOOL, &no, 1);
    check_tokens("XY", "259:  315:X 316:Y ");
    gguf_set(&file, "tokenizer.ggml.add_space_prefix", GGUF_BOOL, &no, 1);
    check_tokens("XY", "315:X 316:Y ");
    check_tokens(" X\x07", "259:  315:X 10:\x07 ");
    gguf_remove(&file, "tokenizer.ggml.add_bos_token");
    gguf_set_int(&file, "tokenizer.ggml.bos_token_id", 300);
    check_tokens(" X", "300:I 259:  315:X ");
    gguf_free(&file);
}

/* Without token types all pieces are normal. */
static void token_types_are_optional(void) {
    gguf_make(&file, &SPEAKING, 0);
    CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0),
          "cannot make it");
    check_tokens("XY", "1:\n<s>\n 259: 315:X 316:Y ");
    gguf_remove(&file, "tokenizer.ggml.token_type");
    check_tokens("XY", "1:\n<s>\n 259: 315:X 316:Y ");
    gguf_free(&file);
}

/* A text is never encoded to control or unused pieces. */
static void text_is_never_an_unused_piece(void) {
    gguf_make(&file, &SPEAKING, 0);
    CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0),
          "cannot make it");
    int unused = 5;
    for (int i = 0; i < file.n_keys;
         i++) /* after the type of the elements and their number */
        if (!strcmp(file.keys[i].name, "tokenizer.ggml.token_type"))
            memcpy(file.keys[i].value + 12 + 4 * (size_t)316, &unused,
                   sizeof unused);
    check_tokens("XY", "1:\n<s>\n 259: 315:X 92:Y "); /* as a byte */
    gguf_free(&file);
}

/* ---- refusals ----------------------------------------------------------- */

/* Frees `file`. */
static void check_refused(int line, const char *expected) {
    const char *path = temporary("bad.gguf");
    Model model;
    CHECK(!gguf_write(&file, path), "cannot write");
    gguf_free(&file);
    stderr_hide();
    bool opened = !model_open(&model, path);
    int lines = stderr_show();
    if (opened)
        model_close(&model);
    CHECK(!opened, "line %d: opened, expected: %s", line, expected);
    CHECK(lines == 1 && strstr(stderr_text(), path) &&
              strstr(stderr_text(), expected),
          "line %d: expected: %s, found: %s", line, expected, stderr_text());
}

/* Checks the message about a valid file after a change. */
#define REFUSED(expected, change)                                              \
    do {                                                                       \
        gguf_make(&file, &SMALL, 0);                                           \
        change;                                                                \
        check_refused(__LINE__, expected);                                     \
    } while (0)

static void set_array(const char *name, uint32_t type, uint64_t count) {
    uint8_t bytes[12 + 64] = {0};
    memcpy(bytes, &type, 4);
    memcpy(bytes + 4, &count, 8);
    gguf_set(&file, name, GGUF_ARRAY, bytes, sizeof bytes);
}

static void bad_keys(void) {
    /* the last two overflow when multiplied by the min size of a key or a
     * tensor */
    static const uint64_t giant[] = {0xffffffff,         0x100000001,
                                     0x7fffffffffffffff, UINT64_MAX,
                                     0x13b13b13b13b13b2, 0x0800000000000001};
    static const GgufType negative[] = {GGUF_I8, GGUF_I16, GGUF_I32, GGUF_I64};
    int64_t below_zero = -1;
    REFUSED("architecture is 'gptneox', expected one of the families",
            gguf_set_text(&file, "general.architecture", "gptneox"));
    REFUSED("architecture is missing, expected one of the families",
            gguf_remove(&file, "general.architecture"));
    REFUSED("general.architecture is 1, expected one of the",
            gguf_set_int(&file, "general.architecture", 1));
    REFUSED("key llama.attention.scale is not supported",
            gguf_set_real(&file, "llama.attention.scale", 1));
    REFUSED("llama.block_count is 0",
            gguf_set_int(&file, "llama.block_count", 0));
    REFUSED("llama.block_count is missing",
            gguf_remove(&file, "llama.block_count"));
    REFUSED(
        "llama.block_count is 1000000000, expected at most 3 (number of tensors: 21)",
        gguf_set_int(&file, "llama.block_count", 1000000000));
    /* 6 tensors a layer: 21 + 2 tensors are too few for four layers */
    for (int more = 2; more <= 3; more++)
        REFUSED(
            more == 2
                ? "llama.block_count is 4, expected at most 3 (number of tensors: 23)"
                : "blk.2.attn_norm.weight is missing",
            gguf_set_int(&file, "llama.block_count", 4);
            for (int i = 0; i < more; i++) gguf_add(
                &file, (char[]){'a', (char)('a' + i), 0}, 1, 8, 0, 1, 0));
    REFUSED("tensor blk.1.attn_k.weight is not supported",
            gguf_set_int(&file, "llama.block_count", 1));
    REFUSED("llama.embedding_length is 0",
            gguf_set_int(&file, "llama.embedding_length", 0));
    REFUSED("llama.embedding_length is 4294967295",
            gguf_set_int(&file, "llama.embedding_length", -1));
    REFUSED("llama.embedding_length is '64', expected a whole number",
            gguf_set_text(&file, "llama.embedding_length", "64"));
    REFUSED("llama.embedding_length is 64, expected a whole number",
            gguf_set_real(&file, "llama.embedding_length", 64));
    REFUSED("llama.feed_forward_length is 0",
            gguf_set_int(&file, "llama.feed_forward_length", 0));
    REFUSED("llama.feed_forward_length is a list, expected a whole number",
            gguf_set(&file, "llama.feed_forward_length", GGUF_ARRAY,
                     &(uint32_t[]){GGUF_I32, 2, 0, 96, 95}, 20));
    REFUSED("llama.context_length is 0",
            gguf_set_int(&file, "llama.context_length", 0));
    REFUSED("llama.attention.head_count is 0",
            gguf_set_int(&file, "llama.attention.head_count", 0));
    REFUSED("key_length is missing, expected an even number up to ",
            gguf_set_int(&file, "llama.attention.head_count", 6));
    REFUSED("key_length is missing, expected an even number up to ",
            gguf_set_int(&file, "llama.attention.head_count", 0x7ffffffe));
    REFUSED("key_length is 2, expected an even number up to 1",
            gguf_set_int(&file, "llama.attention.head_count", 0x7ffffffe);
            gguf_set_int(&file, "llama.attention.key_length", 2));
    REFUSED("head_count_kv is 3, expected a divisor of 4",
            gguf_set_int(&file, "llama.attention.head_count_kv", 3));
    REFUSED("head_count_kv is 8, expected a divisor of 4",
            gguf_set_int(&file, "llama.attention.head_count_kv", 8));
    REFUSED("value_length is 8, expected 16",
            gguf_set_int(&file, "llama.attention.value_length", 8));
    REFUSED("key_length is 15, expected an even number",
            gguf_set_int(&file, "llama.attention.key_length", 15));
    REFUSED("dimension_count is 18, expected an even",
            gguf_set_int(&file, "llama.rope.dimension_count", 18));
    REFUSED("dimension_count is 7, expected an even",
            gguf_set_int(&file, "llama.rope.dimension_count", 7));
    REFUSED("dimension_count is 0",
            gguf_set_int(&file, "llama.rope.dimension_count", 0));
    REFUSED(
        "scaling.type is 'dynamic', expected none, linear, yarn or longrope",
        gguf_set_text(&file, "llama.rope.scaling.type", "dynamic"));
    REFUSED("yarn_beta_slow is 0, expected a positive number",
            gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
            gguf_set_real(&file, "llama.rope.scaling.yarn_beta_slow", 0));
    REFUSED(
        "original_context_length is 0",
        gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
        gguf_set_int(&file, "llama.rope.scaling.original_context_length", 0));
    REFUSED("tensor rope_freqs.weight is not supported",
            gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
            gguf_add(&file, "rope_freqs.weight", 1, 8, 4, 4, 1));
    REFUSED("freq_base is 0, expected a positive number",
            gguf_set_real(&file, "llama.rope.freq_base", 0));
    REFUSED("freq_base is inf, expected a positive number",
            gguf_set_real(&file, "llama.rope.freq_base", INFINITY));
    REFUSED("factor is -1, expected a positive number",
            gguf_set_real(&file, "llama.rope.scaling.factor", -1));
    REFUSED("epsilon",
            gguf_remove(&file, "llama.attention.layer_norm_rms_epsilon"));
    REFUSED("epsilon",
            gguf_set_real(&file, "llama.attention.layer_norm_rms_epsilon", 0));
    REFUSED(
        "epsilon is nan, expected a positive number",
        gguf_set_real(&file, "llama.attention.layer_norm_rms_epsilon", NAN));
    REFUSED("epsilon", const double tiny = 1e-300;
            gguf_set(&file, "llama.attention.layer_norm_rms_epsilon", GGUF_F64,
                     &tiny, 8));
    REFUSED("llama.expert_used_count is missing, expected 1 to the 8 ",
            gguf_set_int(&file, "llama.expert_count", 8));
    REFUSED("metadata key llama.context_length appears twice",
            snprintf(file.keys[1].name, 64, "llama.context_length"));
    REFUSED("no array in an array", set_array("x.y", GGUF_ARRAY, 1));
    REFUSED("values of type 13", set_array("x.y", 13, 1));
    REFUSED("values of type 13",
            gguf_set(&file, "x.y", (GgufType)13, "1234", 4));
    for (int i = 0; i < 4; i++)
        REFUSED("llama.context_length is -1, expected",
                gguf_set(&file, "llama.context_length", negative[i],
                         &below_zero, (size_t)1 << i));
    for (int i = 0; i < 6; i++) {
        REFUSED("metadata keys do not fit", file.n_keys_claimed = giant[i]);
        REFUSED("tensors do not fit", file.n_tensors_claimed = giant[i]);
        REFUSED("ends in its header", set_array("x.y", GGUF_U8, giant[i]));
        REFUSED("ends in its header",
                set_array("x.y", GGUF_F64, giant[i] / 8 + 1));
        REFUSED("ends in its header", set_array("x.y", GGUF_STRING, giant[i]));
        REFUSED("ends in its header",
                gguf_set(&file, "x.y", GGUF_STRING, &giant[i], 8));
    }
}

/* Keys of unsupported options are accepted with their neutral value, of any
 * type, and refused with others. */
static void unsupported_keys_are_accepted_only_if_neutral(void) {
    static const struct {
        const char *name;
        int neutral, other; /* other: a value that would change the result */
    } cases[] = {
        {"attention.causal", 1, 0},
        {"attn_logit_softcapping", 0, 50},
        {"embedding_scale", 1, 12},
        {"expert_group_count", 1, 8},
        {"expert_group_used_count", 1, 4},
        {"expert_shared_count", 0, 1},
        {"expert_shared_feed_forward_length", 0, 64},
        {"final_logit_softcapping", 0, 30},
        {"leading_dense_block_count", 0, 1},
        {"logit_scale", 1, 2},
        {"nextn_predict_layers", 0, 1},
        {"pooling_type", 0, 1},
        {"residual_scale", 1, 3},
        {"attention.clamp_kqv", 0, 8},
        {"rope.scaling.yarn_log_multiplier", 0, 1},
    };
    enum { N = sizeof cases / sizeof *cases };
    char name[64], message[96];
    for (int form = 0; form < 3;
         form++) { /* as reals; as integers; as bools, if 0 or 1 */
        Reference ref = reference_of(&SMALL);
        gguf_make(&file, &SMALL, 0);
        for (int i = 0; i < N; i++) {
            uint8_t truth = (uint8_t)cases[i].neutral;
            snprintf(name, sizeof name, "llama.%s", cases[i].name);
            if (form == 0)
                gguf_set_real(&file, name, (float)cases[i].neutral);
            if (form == 1)
                gguf_set_int(&file, name, cases[i].neutral);
            if (form == 2)
                gguf_set(&file, name, GGUF_BOOL, &truth, 1);
        }
        check_forward("neutral keys", &ref, CLOSE);
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "llama.%s", cases[i].name);
        snprintf(message, sizeof message, "%s is %d, expected %d", name,
                 cases[i].other, cases[i].neutral);
        REFUSED(message, gguf_set_real(&file, name, (float)cases[i].other));
        REFUSED(message, gguf_set_int(&file, name, cases[i].other));
    }
    REFUSED("llama.pooling_type is 'none', expected 0",
            gguf_set_text(&file, "llama.pooling_type", "none"));
    REFUSED("llama.pooling_type is a list, expected 0",
            gguf_set(&file, "llama.pooling_type", GGUF_ARRAY,
                     &(uint32_t[]){GGUF_I32, 2, 0, 0, 1}, 20));
    REFUSED("llama.logit_scale is nan, expected 1",
            gguf_set_real(&file, "llama.logit_scale", NAN));
}

/* llama.cpp extrapolates (1) with YaRN only; a negative number selects this
 * default. */
static void yarn_extrapolation_factor(void) {
    static const float good[][2] = {{-1, -1},
                                    {0, 1}}; /* without YaRN, with it */
    for (int i = 0; i < 4; i++) {
        Model model;
        const char *path = temporary("model.gguf");
        gguf_make(&file, &SMALL, 0);
        if (i % 2)
            gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
        gguf_set_real(&file, "llama.rope.scaling.yarn_ext_factor",
                      good[i / 2][i % 2]);
        CHECK(!gguf_write(&file, path) && !model_open(&model, path),
              "%g does not open", (double)good[i / 2][i % 2]);
        gguf_free(&file);
        model_close(&model);
    }
    REFUSED("yarn_ext_factor is 1, expected 0",
            gguf_set_real(&file, "llama.rope.scaling.yarn_ext_factor", 1));
    for (int i = 0; i < 2; i++)
        REFUSED(i ? "yarn_ext_factor is 0.5, expected 1"
                  : "yarn_ext_factor is 0, expected 1",
                gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
                gguf_set_real(&file, "llama.rope.scaling.yarn_ext_factor",
                              0.5f * (float)i));
}

/* llama.cpp ignores this key, so only its default value is accepted. */
static void yarn_attention_factor(void) {
    static const char *const key = "llama.rope.scaling.yarn_attn_factor";
    Reference ref = reference_of(&SMALL);
    gguf_make(&file, &SMALL, 0);
    gguf_set_real(&file, key, 1);
    check_forward("1", &ref, CLOSE);
    for (int i = 0; i < 2; i++) {
        const char *expected = i ? "yarn_attn_factor is 1.2, expected 1.20794"
                                 : "yarn_attn_factor is 2, expected 1";
        REFUSED(expected, gguf_set_real(&file, key, i ? 1.2f : 2);
                if (i) gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
                gguf_set_real(&file, "llama.rope.scaling.factor", i ? 8 : 1));
    }
    gguf_make(&file, &SMALL, 0);
    gguf_set_text(&file, "llama.rope.scaling.type", "yarn");
    gguf_set_real(&file, "llama.rope.scaling.factor", 8);
    CHECK(!gguf_write(&file, temporary("model.gguf")) &&
              !run_file(&SMALL, temporary("model.gguf"), logits_found),
          "-");
    static float without[N_TOKENS * MAX_VOCAB];
    memcpy(without, logits_found, sizeof without);
    gguf_set_real(&file, key, 1.2079441f);
    CHECK(!gguf_write(&file, temporary("model.gguf")) &&
              !run_file(&SMALL, temporary("model.gguf"), logits_found),
          "-");
    gguf_free(&file);
    CHECK(!memcmp(without, logits_found, sizeof without),
          "the usual amplitude changes the logits");
}

/* Ministral 3: no amplitude with a log multiplier of 1; the context ends where
 * queries are scaled. */
static void keys_of_mistral3(void) {
    static const char *const names[] = {"rope.scaling.yarn_log_multiplier",
                                        "attention.temperature_scale"};
    for (int i = 0; i < 3; i++) {
        Relative r = {.architecture = "mistral3"};
        const char *path = temporary("model.gguf");
        Model model;
        gguf_make_relative(&file, &SMALL, &r);
        gguf_set_text(&file, gguf_key(&r, "rope.scaling.type"), "yarn");
        gguf_set_real(&file, gguf_key(&r, "rope.scaling.factor"), 16);
        gguf_set_int(&file,
                     gguf_key(&r, "rope.scaling.original_context_length"), 8);
        if (i > 0)
            gguf_set_real(&file, gguf_key(&r, names[0]), 1);
        if (i > 1)
            gguf_set_real(&file, gguf_key(&r, names[1]), 0.1f);
        CHECK(!gguf_write(&file, path) && !model_open(&model, path),
              "mistral3 does not open");
        gguf_free(&file);
        double amplitude = model.config.rope.amplitude,
               expected = i ? 1 : 1 + 0.1 * log(16);
        int context = model.config.context;
        model_close(&model);
        CHECK(fabs(amplitude - expected) < 1e-12, "case %d: amplitude %g", i,
              amplitude);
        CHECK(context == (i > 1 ? 8 : SMALL.context), "case %d: context %d", i,
              context);
    }
}

/* Keys about the file's name, licence and tokenizer, or of other programs. */
static void unrelated_keys_are_ignored(void) {
    static const char *const names[] = {"general.license",
                                        "general.license.link",
                                        "general.tags",
                                        "general.languages",
                                        "tokenizer.ggml.unheard_of",
                                        "license",
                                        "llama",
                                        "llama2.a",
                                        "clip.vision.x",
                                        "qwen2.pooling_type",
                                        "a.b.c.d",
                                        "",
                                        "general.llama.",
                                        "split.note",
                                        "\xe2\x96\x81"};
    static const uint8_t number[8] = {1}, string[8 + 2] = {2},
                         array[12 + 6] = {GGUF_U16, 0, 0, 0, 3};
    static const struct {
        GgufType type;
        size_t bytes;
        const uint8_t *value;
    } kinds[] = {{GGUF_U8, 1, number},      {GGUF_I64, 8, number},
                 {GGUF_F64, 8, number},     {GGUF_BOOL, 1, number},
                 {GGUF_STRING, 10, string}, {GGUF_ARRAY, 18, array}};
    Reference ref = reference_of(&SMALL);
    for (int k = 0; k < 6; k++) {
        gguf_make(&file, &SMALL, 0);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            gguf_set(&file, names[i], kinds[k].type, kinds[k].value,
                     kinds[k].bytes);
        check_forward("keys of another subject", &ref, CLOSE);
    }
}

static void bad_experts(void) {
    Relative r = RELATIVES[FIRST_WITH_EXPERTS].r;
#define REFUSED_OF(expected, change)                                           \
    do {                                                                       \
        gguf_make_relative(&file, &SMALL, &r);                                 \
        change;                                                                \
        check_refused(__LINE__, expected);                                     \
    } while (0)
    REFUSED_OF("qwen3moe.expert_used_count is 9, expected 1 to the 8",
               gguf_set_int(&file, "qwen3moe.expert_used_count", 9));
    REFUSED_OF("qwen3moe.expert_used_count is missing, expected 1 to the 8 ",
               gguf_remove(&file, "qwen3moe.expert_used_count"));
    REFUSED_OF("qwen3moe.expert_count is 1025",
               gguf_set_int(&file, "qwen3moe.expert_count", 1025));
    REFUSED_OF("ffn_gate_inp.weight is [1, 8, 64], expected [1, 1024, 64]",
               gguf_set_int(&file, "qwen3moe.expert_count", 1024));
    REFUSED_OF("qwen3moe.expert_count is 4294967295",
               gguf_set_int(&file, "qwen3moe.expert_count", -1));
    REFUSED_OF("ffn_gate_inp.weight is [1, 8, 64], expected [1, 7, 64]",
               gguf_set_int(&file, "qwen3moe.expert_count", 7));
    REFUSED_OF("blk.0.ffn_gate.weight is missing",
               gguf_remove(&file, "blk.0.ffn_gate_inp.weight"));
    REFUSED_OF("blk.1.ffn_up_exps.weight is missing",
               gguf_remove(&file, "blk.1.ffn_up_exps.weight"));
    REFUSED_OF("ffn_down_exps.weight is [4, 64, 32], expected [8, 64, 32]",
               gguf_tensor(&file, "blk.1.ffn_down_exps.weight")->dims[2] = 4);
    REFUSED_OF("ffn_gate_exps.weight is [8, 32, 64], expected [8, 96, 64]",
               gguf_remove(&file, "qwen3moe.expert_feed_forward_length"));
    REFUSED_OF("blk.0.ffn_up_exps.bias is not supported",
               gguf_add(&file, "blk.0.ffn_up_exps.bias", 8, 32, 0, 1, 0));
    REFUSED_OF("qwen3moe.expert_gating_func is 2",
               gguf_set_int(&file, "qwen3moe.expert_gating_func", 2));
    REFUSED_OF("qwen3moe.expert_weights_scale is 2.5",
               gguf_set_real(&file, "qwen3moe.expert_weights_scale", 2.5f));
    REFUSED_OF("qwen3moe.expert_shared_count is 1, expected 0",
               gguf_set_int(&file, "qwen3moe.expert_shared_count", 1));
    REFUSED_OF("blk.0.attn_q_norm.weight is missing",
               gguf_remove(&file, "blk.0.attn_q_norm.weight"));
    REFUSED_OF("blk.1.attn_k_norm.weight is [1, 1, 24], expected [1, 1, 16]",
               gguf_remove(&file, "blk.1.attn_k_norm.weight");
               gguf_add(&file, "blk.1.attn_k_norm.weight", 1, 24, 1, 1, 0));
    r = RELATIVES[0].r;
    REFUSED_OF("blk.0.attn_q_norm.weight is not supported",
               gguf_add(&file, "blk.0.attn_q_norm.weight", 1, 16, 1, 1, 0));
#undef REFUSED_OF
}

enum { N_PARTS = 3 };

static const char *part_path(int part) {
    char name[64];
    snprintf(name, sizeof name, "split-%05d-of-%05d.gguf", part + 1, N_PARTS);
    return temporary(name);
}

/* Writes a part: metadata in the first, tensors in the others; says that it is
 * part `number` of `count`. */
static void write_part(const char *path, int part, int number, int count) {
    gguf_make(&file, &SMALL, 0);
    for (int i = file.n_tensors - 1; i >= 0; i--)
        if (i % (N_PARTS - 1) + 1 != part)
            gguf_remove(&file, file.tensors[i].name);
    while (part && file.n_keys)
        gguf_remove(&file, file.keys[0].name);
    gguf_set_int(&file, "split.no", number);
    gguf_set_int(&file, "split.count", count);
    CHECK(!gguf_write(&file, path), "cannot write");
    gguf_free(&file);
}

static void write_parts(void) {
    for (int part = 0; part < N_PARTS; part++)
        write_part(part_path(part), part, part, N_PARTS);
}

static void check_part_refused(int line, const char *path,
                               const char *expected) {
    Model model;
    stderr_hide();
    bool opened = !model_open(&model, path);
    CHECK(stderr_show() == 1 && !opened && strstr(stderr_text(), expected),
          "line %d: expected: %s, found: %s", line, expected, stderr_text());
    write_parts();
}

#define PART_REFUSED(path, expected)                                           \
    check_part_refused(__LINE__, path, expected)

/* Any part opens the whole model. */
static void split_files_are_one_model(void) {
    static float whole[N_TOKENS * MAX_VOCAB];
    gguf_make(&file, &SMALL, 0);
    CHECK(!gguf_write(&file, temporary("model.gguf")) &&
              !run_file(&SMALL, temporary("model.gguf"), whole),
          "-");
    gguf_free(&file);
    write_parts();
    for (int part = 0; part < N_PARTS; part++) {
        CHECK(!run_file(&SMALL, part_path(part), logits_found),
              "part %d does not run", part);
        CHECK(!memcmp(whole, logits_found,
                      (size_t)(N_TOKENS * SMALL.vocab_size) * sizeof *whole),
              "part %d: other logits", part);
    }
}

static void bad_parts_are_refused(void) {
    Reference ref = reference_of(&SMALL);
    write_parts();
    unlink(part_path(2));
    PART_REFUSED(part_path(0), "split-00003-of-00003.gguf: No such file");
    write_part(part_path(2), 1, 1, N_PARTS); /* the second part twice */
    PART_REFUSED(part_path(1),
                 "split-00003-of-00003.gguf: split.no is 1, expected");
    write_part(part_path(2), 1, 2, N_PARTS); /* its tensors twice */
    PART_REFUSED(part_path(1), "is also in");
    write_part(part_path(1), 1, 1, N_PARTS + 1); /* of another model */
    PART_REFUSED(part_path(2),
                 "split-00002-of-00003.gguf: split.count is 4, expected");
    write_part(part_path(1), 0, 1, N_PARTS);
    PART_REFUSED(
        part_path(2),
        "llama.block_count is 2, expected at most 1 (number of tensors: 10)");
    write_part(part_path(1), 1, 1, 0);
    PART_REFUSED(part_path(0),
                 "split-00002-of-00003.gguf: split.count is 0, expected");
    write_part(part_path(0), 0, 0, 65535);
    PART_REFUSED(
        part_path(0),
        "split.count is 65535, expected a whole number from 0 to 4096");
    write_part(part_path(0), 0, 0, 4096);
    PART_REFUSED(part_path(0), "must be named NAME-00001-of-04096.gguf");
    /* names of too few bytes, and of another form */
    for (int length = 0; length < 24; length += 23) {
        const char *other =
            temporary(length ? "a-model-of-another-name.gguf" : "m.gguf");
        CHECK(!rename(part_path(0), other), "cannot rename");
        PART_REFUSED(other, "must be named NAME-00001-of-00003.gguf");
        unlink(other);
    }
    CHECK(!hashmodel_write(&SMALL, part_path(1), 0, 0), "cannot write");
    PART_REFUSED(part_path(0), "split-00002-of-00003.gguf: GGUF version is");
    for (int count = 0; count < 2;
         count++) { /* split.count of a complete file */
        gguf_make(&file, &SMALL, 0);
        gguf_set_int(&file, "split.no", 0);
        gguf_set_int(&file, "split.count", count);
        check_forward("one part", &ref, CLOSE);
    }
    for (int part = 0; part < N_PARTS; part++)
        unlink(part_path(part));
}

static void bad_files(void) {
    static const int alignments[] = {0, 1, 2, 3, 48, 1 << 21, -32};
    REFUSED("version is 1, expected 2 or 3", file.version = 1);
    REFUSED("version is 4, expected 2 or 3", file.version = 4);
    REFUSED("little-endian", file.version = 0x03000000);
    for (int i = 0; i < 7; i++)
        REFUSED("expected a power of two from 4 to 1048576",
                gguf_set_int(&file, "general.alignment", alignments[i]));
    Reference ref = reference_of(&SMALL);
    for (int alignment = 4; alignment <= 64;
         alignment *= 2) { /* these are valid */
        gguf_make(&file, &SMALL, 0);
        gguf_set_int(&file, "general.alignment", alignment);
        file.alignment = (size_t)alignment;
        check_forward("alignment", &ref, CLOSE);
    }
}

/* Unsupported weight types, by ggml's numbers. */
/* Files of other kinds are named, before their tensors are judged. */
static void files_that_are_no_models(void) {
    static const char *const types[] = {"adapter", "imatrix", "mmproj"};
    static const bool yes = true;
    char message[96];
    for (int i = 0; i < 3; i++) {
        snprintf(message, sizeof message,
                 "general.type is %s, expected model (adapters, imatrix",
                 types[i]);
        REFUSED(message, gguf_set_text(&file, "general.type", types[i]);
                gguf_tensor(&file, "blk.0.ffn_up.weight")->n_dims = 5);
    }
    REFUSED("general.type is missing, expected model (adapters, imatrix and "
            "mmproj files",
            gguf_set(&file, "clip.has_vision_encoder", GGUF_BOOL, &yes, 1));
    gguf_make(&file, &SPEAKING, 0);
    gguf_set_text(&file, "general.type", "model");
    CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0),
          "cannot make it");
    check_tokens("X", "1:\n<s>\n 259: 315:X ");
    gguf_free(&file);
}

static const uint32_t OTHER_TYPES[] = {5,  8 + 256, 9,  15, 16, 17, 18, 19, 21,
                                       22, 24,      25, 26, 27, 28, 29, 31, 32,
                                       33, 34,      35, 36, 38, 39, 40, 41, 42};
enum { N_OTHER_TYPES = sizeof OTHER_TYPES / sizeof *OTHER_TYPES };

static void bad_tensors(void) {
    static const uint64_t giant[] = {
        0,           0x80000000,         0x100000000,
        0x100000040, 0x8000000000000000, UINT64_MAX - 1};
#define FFN (gguf_tensor(&file, "blk.0.ffn_up.weight"))
    REFUSED("blk.1.ffn_up.weight is missing",
            gguf_remove(&file, "blk.1.ffn_up.weight");
            gguf_add(&file, "another", 1, 8, 0, 1, 0));
    REFUSED("blk.1.ffn_norm.weight is missing",
            gguf_remove(&file, "blk.1.ffn_norm.weight");
            gguf_add(&file, "another", 1, 8, 0, 1, 0));
    REFUSED("token_embd.weight is missing",
            gguf_remove(&file, "token_embd.weight"));
    REFUSED("output_norm.weight is missing",
            gguf_remove(&file, "output_norm.weight"));
    REFUSED("tensor another is not supported",
            gguf_add(&file, "another", 1, 8, 0, 1, 0));
    REFUSED("tensor token_embd.bias is not supported",
            gguf_add(&file, "token_embd.bias", 1, 60, 0, 1, 0));
    REFUSED("blk.0.ffn_up.weight is [1, 48, 64], expected [1, 96, 64]",
            FFN->dims[1] = 48);
    REFUSED("blk.0.ffn_up.weight is [1, 96, 32], expected [1, 96, 64]",
            FFN->dims[0] = 32);
    REFUSED("blk.0.attn_q.bias is [1, 1, 63], expected [1, 1, 64]",
            gguf_add(&file, "blk.0.attn_q.bias", 1, 63, 0, 1, 0));
    REFUSED("rope_freqs.weight is [1, 1, 7], expected [1, 1, 8]",
            gguf_add(&file, "rope_freqs.weight", 1, 7, 0, 1, 0));
    REFUSED(
        "blk.0.ffn_up.weight has type 4 (Q4_2), expected one of the types in docs/models.md\n",
        FFN->type = 4);
    REFUSED("has type 4294967295 (unknown), expected", FFN->type = UINT32_MAX);
    REFUSED("has type 21 (IQ3_S), expected", FFN->type = 21);
    REFUSED("has type 35 (TQ2_0), expected", FFN->type = 35);
    REFUSED("has type 40 (NVFP4), expected", FFN->type = 40);
    REFUSED("has type 41 (Q1_0), expected", FFN->type = 41);
    REFUSED("has type 42 (unknown), expected", FFN->type = 42);
    for (int i = 0; i < N_OTHER_TYPES; i++) {
        char message[64];
        snprintf(message, sizeof message, "has type %u (", OTHER_TYPES[i]);
        REFUSED(message, FFN->type = OTHER_TYPES[i]);
    }
    REFUSED("expected a multiple of 256 for q4_K", FFN->type = 12);
    REFUSED("has 0 dimensions, expected 1 to 4", FFN->n_dims = 0);
    REFUSED("has 5 dimensions, expected 1 to 4", FFN->n_dims = 5);
    REFUSED("blk.0.ffn_up.weight is [2, 48, 64], expected [1, 96, 64]",
            FFN->n_dims = 3;
            FFN->dims[1] = 48; FFN->dims[2] = 2);
    REFUSED("has size 1025 in dimension 3", FFN->n_dims = 3;
            FFN->dims[2] = 1025);
    REFUSED("has size 2 in dimension 4", FFN->n_dims = 4; FFN->dims[3] = 2);
    REFUSED("has more bytes than any file", FFN->n_dims = 3;
            FFN->dims[0] = FFN->dims[1] = 0x7fffffff; FFN->dims[2] = 1024);
    for (int i = 0; i < 6; i++) {
        REFUSED(" in dimension ", FFN->dims[0] = giant[i]);
        REFUSED(" in dimension ", FFN->dims[1] = giant[i]);
    }
    REFUSED("ends after the end", FFN->offset = 1 << 20);
    REFUSED("inside another one", FFN->dims[1] = 97);
    REFUSED("ends after the end", FFN->dims[0] = FFN->dims[1] = 0x7fffffff);
    REFUSED("inside another one",
            FFN->offset = gguf_tensor(&file, "blk.0.ffn_gate.weight")->offset);
    REFUSED("not aligned", FFN->offset += 4);
    REFUSED("ends after the end", FFN->offset = 1 << 24);
    REFUSED("ends after the end", FFN->offset = 0x7fffffffffffffe0);
    REFUSED("ends after the end", FFN->offset = 0xffffffffffffffe0);
    REFUSED("tensor blk.0.ffn_gate.weight is also in",
            snprintf(FFN->name, 64, "blk.0.ffn_gate.weight"));
#undef FFN
}

/* Truncated at some bytes of the data and at every byte of the header. */
static void truncated_files(void) {
    const char *path = temporary("cut.gguf");
    enum { HEADER = 2500 };
    gguf_make(&file, &SMALL, 0);
    CHECK(!gguf_write(&file, path), "cannot write");
    const GgufTensor *last = &file.tensors[file.n_tensors - 1];
    long data = (long)(last->offset + 4 * last->count);
    gguf_free(&file);
    /* the header has more than 500 bytes, so data + 500 is less than the size
     * of the file */
    for (long n = data + 500; n > 0; n -= n > HEADER    ? 997
                                          : test_fast() ? 37
                                                        : 1) {
        Model model;
        CHECK(!truncate(path, n), "cannot cut");
        stderr_hide();
        bool opened = !model_open(&model, path);
        int lines = stderr_show();
        if (opened)
            model_close(&model);
        CHECK(!opened && lines == 1, "%ld bytes: opened %d, %d lines", n,
              opened, lines);
    }
}

/* A file that ends with its header opens; a file that ends one byte earlier is
 * refused. The last value is a number, a text, or an array of any width. */
static void headers_end_where_the_file_does(void) {
    static const GgufType widths[] = {GGUF_U8, GGUF_U16, GGUF_F32, GGUF_F64};
    char path[128];
    strcpy(path, temporary("header.gguf"));
    for (int last = 0; last < 6; last++) {
        Model model;
        long size = 24;
        uint8_t array[12 + 24] = {0};
        memcpy(array, &widths[last % 4], 4);
        /* number of elements in 24 bytes */
        array[4] = (uint8_t)(24 >> last % 4);
        gguf_make(&file, &SPEAKING, 0);
        CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0),
              "cannot make it");
        while (file.n_tensors)
            gguf_remove(&file, file.tensors[0].name);
        if (last < 4)
            gguf_set(&file, "z", GGUF_ARRAY, array, sizeof array);
        if (last == 4)
            gguf_set_text(&file, "z", "the end");
        if (last == 5)
            gguf_set_int(&file, "z", 1);
        for (int i = 0; i < file.n_keys; i++)
            size += 8 + (long)strlen(file.keys[i].name) + 4 +
                    (long)file.keys[i].bytes;
        /* without padding */
        CHECK(!gguf_write(&file, path) && !truncate(path, size),
              "cannot write");
        gguf_free(&file);
        CHECK(!model_open_vocabulary(&model, path) &&
                  model.config.vocab_size == SPEAKING.vocab_size,
              "kind %d", last);
        model_close(&model);
        for (long n = size - 1; n > 0; n -= n > size - 80 || n < 300 ? 1
                                            : test_fast()            ? 1999
                                                                     : 97) {
            CHECK(!truncate(path, n), "cannot cut");
            stderr_hide();
            bool opened = !model_open_vocabulary(&model, path);
            int lines = stderr_show();
            if (opened)
                model_close(&model);
            CHECK(!opened && lines == 1,
                  "kind %d, %ld of %ld bytes: opened %d, %d lines", last, n,
                  size, opened, lines);
            CHECK(n < size - 12 ||
                      strstr(stderr_text(), "ends in its header, at byte"),
                  "%s", stderr_text());
        }
    }
}

/* A count is refused if it does not fit in the rest of the file: a key has at
 * least 13 bytes, a tensor 32. */
static void counts_are_limited_by_the_file_size(void) {
    static const struct {
        uint32_t counts[6]; /* magic, version, tensors, keys */
        size_t n_left;      /* zero bytes that follow */
        const char *message;
    } cases[] = {
        {{GGUF_MAGIC, 3, 0, 0, 1, 0},
         12,
         "1 metadata keys do not fit in the file"},
        /* a key without a name */
        {{GGUF_MAGIC, 3, 0, 0, 1, 0},
         13,
         "has neither tensors nor a vocabulary"},
        {{GGUF_MAGIC, 3, 0, 0, 2, 0},
         25,
         "2 metadata keys do not fit in the file"},
        {{GGUF_MAGIC, 3, 0, 0, 2, 0}, 26, "metadata key  appears twice"},
        {{GGUF_MAGIC, 3, 1, 0, 0, 0}, 31, "1 tensors do not fit in the file"},
        {{GGUF_MAGIC, 3, 1, 0, 0, 0}, 32, "has 0 dimensions, expected 1 to 4"},
        {{GGUF_MAGIC, 3, 2, 0, 0, 0}, 63, "2 tensors do not fit in the file"},
        {{GGUF_MAGIC, 3, 2, 0, 0, 0}, 64, "has 0 dimensions, expected 1 to 4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const uint8_t zeros[64];
        const char *path = temporary("counts.gguf");
        FILE *out = fopen(path, "wb");
        Model m;
        fwrite(cases[i].counts, 1, sizeof cases[i].counts, out);
        fwrite(zeros, 1, cases[i].n_left, out);
        fclose(out);
        stderr_hide();
        bool opened = !model_open_vocabulary(&m, path);
        CHECK(stderr_show() == 1 && !opened, "case %zu: opened %d", i, opened);
        CHECK(strstr(stderr_text(), cases[i].message),
              "case %zu: no '%s' in: %s", i, cases[i].message, stderr_text());
    }
}

static void check_tokenizer_refused(int line, const char *expected) {
    Model model;
    Tokenizer t;
    stderr_hide();
    int found = open_tokenizer(&model, &t, true), lines = stderr_show();
    gguf_free(&file);
    CHECK(found == -1 && lines == 1 && strstr(stderr_text(), expected),
          "line %d: found %d, expected: %s, found: %s", line, found, expected,
          stderr_text());
    CHECK(!t.pieces.list && !t.pieces.slots && !*t.pieces.texts,
          "line %d: not closed", line);
}

#define TOKENIZER_REFUSED(expected, change)                                    \
    do {                                                                       \
        gguf_make(&file, &SPEAKING, 0);                                        \
        gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0);               \
        change;                                                                \
        check_tokenizer_refused(__LINE__, expected);                           \
    } while (0)

/* An id outside the vocabulary counts as absent, with a note that names it. */
static void ids_beyond_the_vocabulary_are_absent(void) {
    static const char *const names[] = {"bos", "eos", "eot", "unknown"};
    for (int i = 0; i < 8; i++) {
        Model model;
        Tokenizer t;
        char key[64];
        int id = i < 4 ? SPEAKING.vocab_size : -1;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", names[i % 4]);
        gguf_make(&file, &SPEAKING, 0);
        gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0);
        gguf_set_int(&file, key, id);
        stderr_hide();
        int found = open_tokenizer(&model, &t, true), lines = stderr_show();
        gguf_free(&file);
        int ids[] = {t.bos, t.eos, t.eot, t.pieces.unk};
        CHECK(found == 1 && lines == 1, "case %d: %s", i, stderr_text());
        CHECK(ids[i % 4] == -1 && strstr(stderr_text(), key),
              "case %d: id %d, %s", i, ids[i % 4], stderr_text());
        tokenizer_close(&t);
        model_close(&model);
    }
}

static void bad_tokenizers(void) {
    char endless[514] = "";
    memset(endless, 'x', sizeof endless - 1);
    GgufPiece user = {.text = endless, .type = 4};
    TOKENIZER_REFUSED("tokenizer of kind 'bert' is not supported",
                      gguf_set_text(&file, "tokenizer.ggml.model", "bert"));
    TOKENIZER_REFUSED("tokenizer.ggml.pre 'falcon' is not supported",
                      (gguf_set_text(&file, "tokenizer.ggml.model", "gpt2"),
                       gguf_set_text(&file, "tokenizer.ggml.pre", "falcon")));
    TOKENIZER_REFUSED("tokenizer.ggml.merges is missing",
                      (gguf_set_text(&file, "tokenizer.ggml.model", "gpt2"),
                       gguf_set_text(&file, "tokenizer.ggml.pre", "qwen2")));
    TOKENIZER_REFUSED(
        "norma.tokenizer.normalizer is 'nfkc', expected nfc",
        (gguf_set_text(&file, "tokenizer.ggml.model", "gpt2"),
         gguf_set_text(&file, "tokenizer.ggml.pre", "qwen2"),
         gguf_set_text(&file, "norma.tokenizer.normalizer", "nfkc")));
    TOKENIZER_REFUSED("normalizer is 1, expected a string",
                      (gguf_set_text(&file, "tokenizer.ggml.model", "gpt2"),
                       gguf_set_text(&file, "tokenizer.ggml.pre", "qwen2"),
                       gguf_set_int(&file, "norma.tokenizer.normalizer", 1)));
    TOKENIZER_REFUSED("tokenizer of kind '' is not supported",
                      gguf_remove(&file, "tokenizer.ggml.model"));
    TOKENIZER_REFUSED("tokens is missing or not an array of 1800",
                      gguf_remove(&file, "tokenizer.ggml.tokens"));
    TOKENIZER_REFUSED("scores is missing or not an array",
                      gguf_remove(&file, "tokenizer.ggml.scores"));
    TOKENIZER_REFUSED("token_type is missing or not an array",
                      gguf_set_int(&file, "tokenizer.ggml.token_type", 3));
    TOKENIZER_REFUSED(
        "tokens is missing or not an array",
        gguf_add_tokenizer(&file, SPEAKING.vocab_size - 1, NULL, 0));
    TOKENIZER_REFUSED(
        "tokens is missing or not an array",
        gguf_add_tokenizer(&file, SPEAKING.vocab_size + 1, NULL, 0));
    TOKENIZER_REFUSED("special piece 1799 has 513 bytes, expected at most 512",
                      gguf_add_tokenizer(&file, SPEAKING.vocab_size, &user, 1));
    TOKENIZER_REFUSED("scores is missing or not an array",
                      set_array("tokenizer.ggml.scores", GGUF_I8, 64));
    TOKENIZER_REFUSED("scores is missing or not an array",
                      gguf_set_int(&file, "tokenizer.ggml.scores", 1));
    TOKENIZER_REFUSED("chat_template is 1, expected a string",
                      gguf_set_int(&file, "tokenizer.chat_template", 1));
    TOKENIZER_REFUSED(
        "unknown_token_id is '0', expected a whole number",
        gguf_set_text(&file, "tokenizer.ggml.unknown_token_id", "0"));
    TOKENIZER_REFUSED(
        "score of piece 5 is not a number",
        for (int i = 0; i < file.n_keys;
             i++) if (!strcmp(file.keys[i].name, "tokenizer.ggml.scores"))
            memcpy(file.keys[i].value + 12 + 20, &(float){NAN}, 4));
}

/* Reads the strings of a value whose first length has become n: no string
 * exceeds the value. */
static void check_strings(const GgufValue *v, uint64_t n) {
    const uint8_t *at = v->at, *const end = v->at + v->bytes;
    uint8_t *length = (uint8_t *)(uintptr_t)v->at, before[8];
    memcpy(before, length, sizeof before);
    memcpy(length, &n, sizeof n);
    for (uint64_t i = 0; i < v->count; i++) {
        const uint8_t *from = at;
        String s = gguf_next_string(v, &at);
        CHECK(s.n <= (size_t)(end - from) && at >= from && at <= end,
              "%.*s, length %llu: string %llu has %zu bytes", SHOWN(v->key),
              (unsigned long long)n, (unsigned long long)i, s.n);
    }
    memcpy(length, before, sizeof before);
}

/* Another process writes to the file after gguf_open has found all strings in
 * it. */
static void lengths_that_change_during_reading(void) {
    static const uint64_t lengths[] = {
        0, 1, 7, 9, 1 << 20, INT64_MAX, UINT64_MAX - 7, UINT64_MAX};
    const char *path = temporary("changing.gguf");
    File map = {0};
    Gguf g = {0};
    int n_strings = 0;
    gguf_make(&file, &SPEAKING, 0);
    CHECK(!gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0) &&
              !gguf_write(&file, path),
          "cannot write");
    gguf_free(&file);
    map.data = (uint8_t *)file_read(path, &map.size);
    CHECK(map.data && !gguf_open(&g, path, &map), "does not open");
    for (size_t i = 0; i < g.n_values; i++) {
        const GgufValue *v = &g.values[i];
        if (v->type != GGUF_STRING)
            continue;
        for (int k = 0; k < 8; k++, n_strings++)
            check_strings(v, lengths[k]);
        for (uint64_t left = 0; left < 20; left++)
            check_strings(v,
                          v->bytes + 2 -
                              left); /* up to the end and the bytes before it */
    }
    /* the architecture, the tokenizer's kind, the pieces */
    CHECK(n_strings >= 8 * 3, "%d strings", n_strings);
    memcpy(
        (uint8_t *)(uintptr_t)gguf_find_value(&g, "tokenizer.ggml.model")->at,
        &(uint64_t){UINT64_MAX}, 8);
    String kind = gguf_get(&g, "tokenizer.ggml.model").string;
    CHECK(kind.n == 5, "%zu bytes", kind.n);
    gguf_close(&g);
    free((void *)(uintptr_t)map.data);
}

/* A byte-level tokenizer without a pre-tokenizer has GPT-2's, as in llama.cpp;
 * a named one has its own. */
static void the_default_pretokenizer_is_gpt2_s(void) {
    static const char *const names[] = {NULL,  "",      "default",
                                        "mpt", "gpt-2", "seed-coder"};
    static const uint8_t no_strings[12] = {GGUF_STRING};
    for (int i = 0; i < 6; i++) {
        Model model;
        Tokenizer t;
        gguf_make(&file, &SPEAKING, 0);
        gguf_add_tokenizer(&file, SPEAKING.vocab_size, NULL, 0);
        gguf_set_text(&file, "tokenizer.ggml.model", "gpt2");
        if (names[i])
            gguf_set_text(&file, "tokenizer.ggml.pre", names[i]);
        gguf_set(&file, "tokenizer.ggml.merges", GGUF_ARRAY, no_strings,
                 sizeof no_strings);
        stderr_hide();
        int found = open_tokenizer(&model, &t, true), lines = stderr_show();
        gguf_free(&file);
        CHECK(found == 1, "case %d: found %d, %s", i, found, stderr_text());
        CHECK(lines == (i < 3) &&
                  (i >= 3 || strstr(stderr_text(),
                                    "(tokenizer.ggml.pre): GPT-2's is used\n")),
              "case %d: %s", i, stderr_text());
        const char *name = pretokenizer_name(&t.pretokenizer);
        CHECK(name && !strcmp(name, i < 5 ? "gpt-2" : "seed-coder"),
              "case %d: wrong pattern", i);
        tokenizer_close(&t);
        model_close(&model);
    }
}

/* A tokenizer that is not used may be of any kind. */
static void unused_tokenizers_are_ignored(void) {
    for (int kind = 0; kind < 3; kind++) {
        Model model;
        Tokenizer t;
        gguf_make(&file, &SPEAKING, 0);
        if (kind)
            gguf_set_text(&file, "tokenizer.ggml.model",
                          kind == 1 ? "bert" : "gpt2");
        if (kind)
            gguf_set_text(&file, "tokenizer.ggml.pre", "falcon");
        stderr_hide();
        int found = open_tokenizer(&model, &t, false), lines = stderr_show();
        gguf_free(&file);
        CHECK(found == 0 && lines == 0 && t.pieces.n == 0, "found %d, %d lines",
              found, lines);
    }
}

/* Experts in no layer: no weight confirms their width, so it is ignored. */
static void experts_in_no_layer_are_ignored(void) {
    static const HashModel m = {16, 32, 2, 2, 2, 20, 16, true, 71};
    static const Relative r = {.architecture = "qwen3moe",
                               .n_experts = 4,
                               .n_experts_used = 2,
                               .expert_dim = 8,
                               .n_dense = 2};
    Model model;
    Session s;
    gguf_make_relative(&file, &m, &r);
    gguf_set_int(&file, "qwen3moe.expert_feed_forward_length", 2147483647);
    CHECK(!gguf_write(&file, temporary("dense.gguf")), "cannot write");
    gguf_free(&file);
    CHECK(!model_open(&model, temporary("dense.gguf")), "does not open");
    const Config *c = &model.config;
    CHECK(!c->n_experts && !c->n_experts_used && !c->expert_dim &&
              c->hidden_dim == 32,
          "%d experts of width %d", c->n_experts, c->expert_dim);
    CHECK(!session_open(&s, &model, 1, 512, 0, KV_F32) && s.batch == 512,
          "chunks of %d tokens", s.batch);
    CHECK(model_forward_text(&s, (int[]){1, 2, 3}, 3, 0, 1), "does not run");
    session_close(&s);
    model_close(&model);
}

/* A file without tensors that ends with its last key: no byte after it is
 * read. */
static void a_file_may_end_with_its_header(void) {
    static const uint8_t bytes[] =
        "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
        "\1\0\0\0\0\0\0\0s\10\0\0\0\2\0\0\0\0\0\0\0hi"
        "\1\0\0\0\0\0\0\0v\11\0\0\0\4\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0";
    const char *path = temporary("header.gguf");
    for (size_t size = sizeof bytes; size > 4; size--) {
        FILE *out = fopen(path, "wb");
        fwrite(bytes, 1, size, out);
        fclose(out);
        Gguf g = {0};
        File mapped;
        CHECK(file_map(&mapped, path) == 0, "not mapped");
        stderr_hide();
        bool opened = gguf_open(&g, path, &mapped) == 0;
        int lines = stderr_show();
        CHECK(opened == (size == sizeof bytes) && lines == !opened,
              "%zu bytes: %s", size, stderr_text());
        if (opened) {
            const GgufValue *v = gguf_find_value(&g, "v");
            CHECK(g.n_values == 2 && v && v->count == 3 && v->bytes == 12,
                  "%zu values", g.n_values);
            String text = gguf_get(&g, "s").string;
            CHECK(text.n == 2 && !memcmp(text.text, "hi", 2), "%zu bytes",
                  text.n);
        }
        gguf_close(&g);
        file_unmap(&mapped);
    }
}

/* A list of equal numbers counts as one number, as some writers store it; no
 * other list does, an empty one and one of strings neither. */
static void a_list_is_one_value_if_all_are_equal(void) {
    static const int sizes[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4,
                                            1, 8, 0, 8, 8, 8};
    const char *path = temporary("lists.gguf");
    for (int type = 0; type < GGUF_N_TYPES; type++)
        for (int n = 0; n < 4; n++)
            for (int other = 0; other <= n && type != GGUF_ARRAY; other++) {
                /* `other` < n: this value differs in its last byte */
                uint8_t value[4 + 8 + 3 * 8] = {0};
                memcpy(value, &(uint32_t){(uint32_t)type}, 4);
                memcpy(value + 4, &(uint64_t){(uint64_t)n}, 8);
                const int size = sizes[type];
                if (other < n && type != GGUF_STRING)
                    value[12 + other * size + size - 1] = 1;
                gguf_make(&file, &SPEAKING, 0);
                gguf_set(&file, "x.list", GGUF_ARRAY, value,
                         (size_t)(12 + n * size));
                CHECK(!gguf_write(&file, path), "cannot write");
                gguf_free(&file);
                Gguf g = {0};
                File map;
                CHECK(!file_map(&map, path) && !gguf_open(&g, path, &map),
                      "type %d, %d values: does not open", type, n);
                const StoredValue v = gguf_get(&g, "x.list");
                const bool equal = n == 1 || other == n;
                const bool is_one = n && equal && type != GGUF_STRING;
                const bool is_real = type == GGUF_F32 || type == GGUF_F64;
                CHECK(v.kind == (!is_one   ? VALUE_LIST
                                 : is_real ? VALUE_REAL
                                           : VALUE_INTEGER),
                      "type %d, %d values, other %d: kind %d", type, n, other,
                      (int)v.kind);
                gguf_close(&g);
                file_unmap(&map);
            }
}

void suite_gguf(void) {
    TEST(same_bits_as_a_checkpoint);
    TEST(config_matches_the_file);
    TEST(weight_types);
    TEST(head_sizes);
    TEST(rotations);
    TEST(yarn);
    TEST(biases);
    TEST(norms);
    TEST(architectures);
    TEST(families);
    TEST(families_with_other_keys);
    TEST(fused_tensors);
    TEST(bad_families);
    TEST(experts);
    TEST(equal_and_nan_router_logits);
    TEST(the_width_of_experts_is_optional);
    TEST(an_unconfirmed_mlp_width_allocates_nothing);
    TEST(sizes_of_experts);
    TEST(windows_of_llama_and_qwen2);
    TEST(numbers_of_any_width);
    TEST(unsupported_keys_are_accepted_only_if_neutral);
    TEST(yarn_extrapolation_factor);
    TEST(yarn_attention_factor);
    TEST(keys_of_mistral3);
    TEST(unrelated_keys_are_ignored);
    TEST(same_tokens_as_tokenizer_bin);
    TEST(prefixes_are_optional);
    TEST(text_is_never_an_unused_piece);
    TEST(token_types_are_optional);
    TEST(files_that_are_no_models);
    TEST(bad_keys);
    TEST(bad_experts);
    TEST(bad_files);
    TEST(split_files_are_one_model);
    TEST(bad_parts_are_refused);
    TEST(bad_tensors);
    TEST(truncated_files);
    TEST(headers_end_where_the_file_does);
    TEST(counts_are_limited_by_the_file_size);
    TEST(bad_tokenizers);
    TEST(ids_beyond_the_vocabulary_are_absent);
    TEST(the_default_pretokenizer_is_gpt2_s);
    TEST(lengths_that_change_during_reading);
    TEST(unused_tokenizers_are_ignored);
    TEST(experts_in_no_layer_are_ignored);
    TEST(a_file_may_end_with_its_header);
    TEST(a_list_is_one_value_if_all_are_equal);
}
