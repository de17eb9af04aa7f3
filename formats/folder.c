/* folder.c: from a Hugging Face folder to a Model.
 *
 * Owns config.json: which architectures there are, what each option means, and
 * the names of the weights. What an option asks for is honoured or refused by
 * name; keys that the architecture's code in transformers does not look at say
 * nothing here, either. Where the weights lie is safetensors.c's.
 */
#include "formats/folder.h"

#include "base/error.h"
#include "base/memory.h"
#include "formats/build.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"
#include "rope.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;    /* model_type */
    const char *experts; /* the option that asks for experts; NULL: it has none */
    double rope_base;    /* where rope_theta is missing */
    int head_size;       /* where head_dim is missing; 0: hidden_size / num_attention_heads */
    bool tied;           /* where tie_word_embeddings is missing */
    bool norm_topk;      /* where norm_topk_prob is missing */
    bool qkv_bias;       /* always; else where attention_bias says so, and then wo has one, too */
    bool attention_bias; /* whether it has this option */
    bool mlp_bias;       /* and this one */
    bool head_norms;
    bool window; /* sliding_window always counts; else where use_sliding_window says so */
} Architecture;

static const Architecture ARCHITECTURES[] = {
    {.name = "llama", .attention_bias = true, .mlp_bias = true, .rope_base = 10000},
    {.name = "mistral", .window = true, .rope_base = 10000},
    {.name = "qwen2", .qkv_bias = true, .rope_base = 10000},
    {.name = "qwen3", .attention_bias = true, .head_norms = true, .head_size = 128, .rope_base = 10000},
    {.name = "qwen3_moe", .attention_bias = true, .head_norms = true, .experts = "num_experts", .rope_base = 10000},
    {.name = "minimind", .head_norms = true, .tied = true, .experts = "use_moe", .norm_topk = true, .rope_base = 1e6},
};

typedef struct {
    const char *folder;
    JsonFile json; /* config.json */
    const Json *config;
    const Architecture *architecture;
    Safetensors weights;
    Model *model;
    bool qkv_bias, wo_bias, mlp_bias;
    float eps;
    float *vectors; /* room for the next norm or bias */
    int status;     /* -1: a message is out, and nothing is done any more */
} Folder;

/* ---- config.json --------------------------------------------------------------------------- */

static void wrong(Folder *f, const char *key, const Json *value, const char *expected) {
    if (!f->status) f->status = fail("%s: %s is %.64s, expected %s", f->json.path, key, json_shown(value), expected);
}

/* The value of a key; NULL if it is missing or null. */
static const Json *option(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return value && value->kind != JSON_NULL ? value : NULL;
}

/* A whole number from `least` on; `missing` where there is none, unless that is -1. */
static int get_int(Folder *f, const Json *object, const char *key, int least, int missing) {
    const Json *value = option(object, key);
    int64_t wide = missing;
    char expected[64];
    if (!value && missing >= 0) return missing;
    if (json_integer(value, &wide) && wide >= least && wide <= INT_MAX) return (int)wide;
    snprintf(expected, sizeof expected, "a whole number from %d to %d", least, INT_MAX);
    wrong(f, key, value, expected);
    return least;
}

/* A positive number; `missing` where there is none, unless that is 0. */
static double get_real(Folder *f, const Json *object, const char *key, double missing) {
    const Json *value = option(object, key);
    double real = 0;
    if (!value && missing > 0) return missing;
    if (json_real(value, &real) && real > 0) return real;
    wrong(f, key, value, "a positive number");
    return 1;
}

static bool get_bool(Folder *f, const Json *object, const char *key, bool missing) {
    const Json *value = option(object, key);
    if (value && value->kind != JSON_BOOL) wrong(f, key, value, "true or false");
    return value ? !strcmp(value->text, "true") : missing;
}

static int find_architecture(Folder *f) {
    const Json *type = json_get(f->config, "model_type");
    for (size_t i = 0; i < sizeof ARCHITECTURES / sizeof *ARCHITECTURES; i++)
        if (json_is(type, ARCHITECTURES[i].name)) f->architecture = &ARCHITECTURES[i];
    if (f->architecture) return 0;
    return fail("%s: model_type is %.64s, expected llama, mistral, qwen2, qwen3, qwen3_moe or minimind", f->json.path,
                json_shown(type));
}

/* What changes the result, and is nowhere here. */
static void refuse_options(Folder *f) {
    const Json *act = option(f->config, "hidden_act"), *quantization = option(f->config, "quantization_config");
    if (act && !json_is(act, "silu")) wrong(f, "hidden_act", act, "silu");
    if (quantization)
        wrong(f, "quantization_config", json_get(quantization, "quant_method"), "none: norma reads F32, F16 and BF16");
}

static void read_sizes(Folder *f) {
    Config *c = &f->model->config;
    const Architecture *a = f->architecture;
    c->dim = get_int(f, f->config, "hidden_size", 1, -1);
    c->hidden_dim = get_int(f, f->config, "intermediate_size", 1, -1);
    c->n_layers = get_int(f, f->config, "num_hidden_layers", 1, -1);
    c->n_heads = get_int(f, f->config, "num_attention_heads", 1, -1);
    c->n_kv_heads = get_int(f, f->config, "num_key_value_heads", 1, c->n_heads);
    c->vocab_size = get_int(f, f->config, "vocab_size", 1, -1);
    c->context = get_int(f, f->config, "max_position_embeddings", 1, -1);
    const bool given = option(f->config, "head_dim") || a->head_size;
    c->head_size = get_int(f, f->config, "head_dim", 1, a->head_size ? a->head_size : c->dim / c->n_heads);
    f->eps = (float)get_real(f, f->config, "rms_norm_eps", 1e-6);
    if (f->status) return;
    if (!given && c->dim % c->n_heads)
        f->status = fail("%s: hidden_size is %d, expected a multiple of num_attention_heads = %d, or head_dim",
                         f->json.path, c->dim, c->n_heads);
    else if (c->head_size < 2 || c->head_size % 2 || (int64_t)c->head_size * c->n_heads > INT_MAX)
        f->status = fail("%s: head_dim is %d, expected an even number", f->json.path, c->head_size);
    else if (c->n_heads % c->n_kv_heads)
        f->status = fail("%s: num_key_value_heads is %d, expected a divisor of num_attention_heads = %d", f->json.path,
                         c->n_kv_heads, c->n_heads);
    else if (!(f->eps > 0))
        wrong(f, "rms_norm_eps", option(f->config, "rms_norm_eps"), "a number that is not 0 in float32");
}

/* Whether any layer attends to the last sliding_window positions alone. */
static bool has_window(Folder *f) {
    const Json *types = option(f->config, "layer_types");
    if (!option(f->config, "sliding_window")) return false;
    if (f->architecture->window) return true;
    if (!get_bool(f, f->config, "use_sliding_window", false)) return false;
    if (!types || types->kind != JSON_ARRAY)
        return get_int(f, f->config, "max_window_layers", 0, 0) < f->model->config.n_layers;
    for (const Json *type = json_first(types); type; type = json_next(types, type))
        if (json_is(type, "sliding_attention")) return true;
    return false;
}

/* Up to the window's length it makes no difference: that is the context. */
static void read_window(Folder *f) {
    Config *c = &f->model->config;
    if (!has_window(f)) return;
    const int window = get_int(f, f->config, "sliding_window", 1, -1);
    if (window < c->context) c->context = window;
}

static void read_experts(Folder *f) {
    const Architecture *a = f->architecture;
    Config *c = &f->model->config;
    if (!a->experts) return;
    const bool by_count = !strcmp(a->experts, "num_experts");
    if (!by_count && !get_bool(f, f->config, a->experts, false)) return;
    const char *count = option(f->config, "num_experts") ? "num_experts" : "num_local_experts";
    c->n_experts = get_int(f, f->config, count, by_count ? 0 : 1, -1);
    if (c->n_experts == 0) return;
    c->n_experts_used = get_int(f, f->config, "num_experts_per_tok", 1, -1);
    c->expert_dim = get_int(f, f->config, "moe_intermediate_size", 1, by_count ? -1 : c->hidden_dim);
    c->norm_topk = get_bool(f, f->config, "norm_topk_prob", a->norm_topk);
    if (f->status) return;
    if (c->n_experts > MOST_EXPERTS)
        f->status = fail("%s: %s is %d, expected at most %d", f->json.path, count, c->n_experts, MOST_EXPERTS);
    else if (c->n_experts_used > c->n_experts)
        f->status = fail("%s: num_experts_per_tok is %d, expected at most %s = %d", f->json.path, c->n_experts_used,
                         count, c->n_experts);
}

/* ---- rotary positions -------------------------------------------------------------------------- */

/* What the frequency of a pair is divided by, and cos and sin are multiplied with. The formulas are
 * those of transformers' modeling_rope_utils.py. */

/* The positions that the model was trained on before its context was stretched. */
static double original_context(Folder *f, const Json *rope) {
    const int own = get_int(f, rope, "original_max_position_embeddings", 1, f->model->config.context);
    return get_int(f, f->config, "original_max_position_embeddings", 1, own);
}

static double *allocate_factors(Folder *f) {
    double *factors = allocate((size_t)f->model->config.rope_dims / 2, sizeof *factors);
    if (!factors) f->status = -1;
    return f->model->rope_factors = factors;
}

/* Llama 3.1: long waves are stretched, short ones are not, those between a little. */
static void read_llama3(Folder *f, const Json *rope) {
    const Config *c = &f->model->config;
    double *factors = allocate_factors(f);
    const double context = original_context(f, rope), factor = get_real(f, rope, "factor", 0);
    const double low = get_real(f, rope, "low_freq_factor", 0), high = get_real(f, rope, "high_freq_factor", 0);
    if (high <= low) wrong(f, "high_freq_factor", option(rope, "high_freq_factor"), "more than low_freq_factor");
    for (int i = 0; factors && i < c->rope_dims / 2; i++) {
        const double turns = context * rope_frequency(&c->rope, i) / (2 * M_PI); /* in the original context */
        const double smooth = (turns - low) / (high - low);
        factors[i] = turns > high ? 1 : turns < low ? factor : 1 / ((1 - smooth) / factor + smooth);
    }
}

static void set_yarn(Folder *f, const Yarn *y) {
    Config *c = &f->model->config;
    c->yarn = *y;
    f->model->rope_factors = yarn_factors(&c->rope, y);
    if (!f->model->rope_factors) f->status = -1;
}

static void read_yarn(Folder *f, const Json *rope) {
    Config *c = &f->model->config;
    Yarn y = {.context = original_context(f, rope),
              .fast = get_real(f, rope, "beta_fast", 32),
              .slow = get_real(f, rope, "beta_slow", 1),
              .between = !get_bool(f, rope, "truncate", true)};
    y.factor = get_real(f, rope, "factor", c->context / y.context);
    double amplitude = yarn_amplitude(y.factor, 1);
    if (option(rope, "mscale") && option(rope, "mscale_all_dim"))
        amplitude = yarn_amplitude(y.factor, get_real(f, rope, "mscale", 0)) /
                    yarn_amplitude(y.factor, get_real(f, rope, "mscale_all_dim", 0));
    c->rope_amplitude = get_real(f, rope, "attention_factor", amplitude);
    set_yarn(f, &y);
}

/* MiniMind's own, where inference_rope_scaling asks for it, with the numbers of its model_minimind.py. */
static void read_minimind_yarn(Folder *f, const Json *rope) {
    Config *c = &f->model->config;
    const Yarn y = {.context = get_int(f, rope, "original_max_position_embeddings", 1, 2048),
                    .factor = get_real(f, rope, "factor", 16),
                    .fast = get_real(f, rope, "beta_fast", 32),
                    .slow = get_real(f, rope, "beta_slow", 1),
                    .minimind = true};
    c->rope_amplitude = get_real(f, rope, "attention_factor", 1);
    if (c->context > y.context) set_yarn(f, &y);
}

/* Newer files have all of it in rope_parameters, older ones in rope_scaling and rope_theta. */
static const Json *rope_options(Folder *f) {
    const Json *rope = option(f->config, "rope_scaling");
    if (!rope || (rope->kind == JSON_OBJECT && rope->n_members == 0)) rope = option(f->config, "rope_parameters");
    if (rope && rope->kind != JSON_OBJECT) wrong(f, "rope_scaling or rope_parameters", rope, "an object");
    for (const Json *key = json_first(rope); key; key = json_next(rope, key))
        if (key[1].kind == JSON_OBJECT) wrong(f, key->text, key + 1, "no other positions for some layers");
    return rope;
}

static void read_rope(Folder *f) {
    Config *c = &f->model->config;
    const Json *rope = rope_options(f), *type = option(rope, "rope_type");
    double partial = 1;
    if (!type) type = option(rope, "type");
    c->rope_dims = c->head_size;
    c->rope_halves = true;
    c->rope_scale = c->rope_amplitude = 1;
    c->rope_base = get_real(f, rope, "rope_theta", get_real(f, f->config, "rope_theta", f->architecture->rope_base));
    const Json *part = option(rope, "partial_rotary_factor");
    if (!part) part = option(f->config, "partial_rotary_factor");
    if (part && (!json_real(part, &partial) || partial != 1)) wrong(f, "partial_rotary_factor", part, "1");
    if (f->status) return;

    if (!strcmp(f->architecture->name, "minimind")) {
        if (get_bool(f, f->config, "inference_rope_scaling", false)) read_minimind_yarn(f, rope);
    } else if (json_is(type, "llama3")) {
        read_llama3(f, rope);
    } else if (json_is(type, "yarn")) {
        read_yarn(f, rope);
    } else if (json_is(type, "linear")) {
        c->rope_scale = get_real(f, rope, "factor", 0);
    } else if (json_is(type, "dynamic")) { /* begins behind the original context, which is where norma's ends */
        c->context = get_int(f, rope, "original_max_position_embeddings", 1, c->context);
    } else if (type && !json_is(type, "default")) {
        wrong(f, "rope_type", type, "default, linear, dynamic, llama3 or yarn");
    }
}

/* ---- weights ---------------------------------------------------------------------------------------- */

static Stored *find_weight(Folder *f, const char *name) {
    Stored *t = safetensors_find(&f->weights, name);
    if (t) t->used = true;
    return t;
}

static void show_dims(char *text, size_t size, const int *dims, int n) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        const int length = snprintf(text + at, size - at, i ? ", %d" : "%d", dims[i]);
        at += (size_t)length < size - at ? (size_t)length : size - at - 1;
    }
}

/* The tensor of this name and shape; NULL, and a message, if it is not there. */
static Stored *take_stored(Folder *f, const char *name, const int *dims, int n_dims) {
    char found[48], expected[48];
    if (f->status) return NULL;
    Stored *t = find_weight(f, name);
    if (t && t->n_dims == n_dims && !memcmp(t->dims, dims, (size_t)n_dims * sizeof *dims)) return t;
    if (!t) {
        f->status = fail("%s: %s is in none of its files", f->folder, name);
    } else {
        show_dims(found, sizeof found, t->dims, t->n_dims);
        show_dims(expected, sizeof expected, dims, n_dims);
        f->status = fail("%s: %s is [%s], expected [%s]", t->path, name, found, expected);
    }
    return NULL;
}

static const float *take_vector(Folder *f, const char *name, int n) {
    const Stored *t = take_stored(f, name, &n, 1);
    float *to = f->vectors;
    if (!t) return NULL;
    f->vectors += n;
    dequantize_row(to, &(Tensor){.type = t->type, .rows = 1, .cols = n, .data = t->data}, 0);
    return to;
}

static Norm take_norm(Folder *f, const char *name, int dim) {
    return (Norm){.kind = NORM_RMS, .eps = f->eps, .gamma = take_vector(f, name, dim)};
}

static Tensor slice(const Stored *t, size_t first, int rows, int cols) {
    const size_t at = first * (size_t)cols * (t->type == TYPE_F32 ? 4 : 2);
    return (Tensor){.type = t->type, .rows = rows, .cols = cols, .data = t->data + at, .offset = t->offset + at};
}

static Tensor take_weight(Folder *f, const char *name, int rows, int cols, bool bias) {
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    const Stored *t = take_stored(f, full, (int[]){rows, cols}, 2);
    Tensor w = t ? slice(t, 0, rows, cols) : (Tensor){0};
    snprintf(full, sizeof full, "%s.bias", name);
    if (t && bias) w.bias = take_vector(f, full, rows);
    return w;
}

#define NAME(...)                                                                                                      \
    char name[96];                                                                                                     \
    snprintf(name, sizeof name, __VA_ARGS__)

static Norm take_layer_norm(Folder *f, int l, const char *part, int dim) {
    NAME("model.layers.%d.%s.weight", l, part);
    return take_norm(f, name, dim);
}

static Tensor take_layer_weight(Folder *f, int l, const char *part, int rows, int cols, bool bias) {
    NAME("model.layers.%d.%s", l, part);
    return take_weight(f, name, rows, cols, bias);
}

static bool has_head_norms(Folder *f, int l) {
    NAME("model.layers.%d.self_attn.q_norm.weight", l);
    /* MiniMind's first models had none */
    return f->architecture->head_norms &&
           (strcmp(f->architecture->name, "minimind") || safetensors_find(&f->weights, name));
}

static void take_attention(Folder *f, int l, Layer *layer) {
    const Config *c = &f->model->config;
    const int q_dim = c->n_heads * c->head_size, kv_dim = c->n_kv_heads * c->head_size;
    layer->attn_norm = take_layer_norm(f, l, "input_layernorm", c->dim);
    layer->wq = take_layer_weight(f, l, "self_attn.q_proj", q_dim, c->dim, f->qkv_bias);
    layer->wk = take_layer_weight(f, l, "self_attn.k_proj", kv_dim, c->dim, f->qkv_bias);
    layer->wv = take_layer_weight(f, l, "self_attn.v_proj", kv_dim, c->dim, f->qkv_bias);
    layer->wo = take_layer_weight(f, l, "self_attn.o_proj", c->dim, q_dim, f->wo_bias);
    if (!has_head_norms(f, l)) return;
    layer->q_norm = take_layer_norm(f, l, "self_attn.q_norm", c->head_size);
    layer->k_norm = take_layer_norm(f, l, "self_attn.k_norm", c->head_size);
}

static void take_mlp(Folder *f, int l, Mlp *mlp) {
    const Config *c = &f->model->config;
    mlp->gate = take_layer_weight(f, l, "mlp.gate_proj", c->hidden_dim, c->dim, f->mlp_bias);
    mlp->up = take_layer_weight(f, l, "mlp.up_proj", c->hidden_dim, c->dim, f->mlp_bias);
    mlp->down = take_layer_weight(f, l, "mlp.down_proj", c->dim, c->hidden_dim, f->mlp_bias);
}

/* All experts in two tensors: gate and up one above the other, and down. */
static void take_fused_experts(Folder *f, int l, Mlp *experts) {
    const Config *c = &f->model->config;
    const int n = c->n_experts, rows = c->expert_dim;
    NAME("model.layers.%d.mlp.experts.gate_up_proj", l);
    const Stored *in = take_stored(f, name, (int[]){n, (int)(2u * (unsigned)rows), c->dim}, 3);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj", l);
    const Stored *out = take_stored(f, name, (int[]){n, c->dim, rows}, 3);
    for (size_t e = 0; in && out && e < (size_t)n; e++)
        experts[e] = (Mlp){.gate = slice(in, 2 * e * (size_t)rows, rows, c->dim),
                           .up = slice(in, (2 * e + 1) * (size_t)rows, rows, c->dim),
                           .down = slice(out, e * (size_t)c->dim, c->dim, rows)};
}

static void take_expert(Folder *f, int l, int e, Mlp *expert) {
    const Config *c = &f->model->config;
    const struct {
        const char *name;
        Tensor *w;
        int rows, cols;
    } parts[] = {{"gate_proj", &expert->gate, c->expert_dim, c->dim},
                 {"up_proj", &expert->up, c->expert_dim, c->dim},
                 {"down_proj", &expert->down, c->dim, c->expert_dim}};
    for (int i = 0; i < 3; i++) {
        NAME("model.layers.%d.mlp.experts.%d.%s", l, e, parts[i].name);
        *parts[i].w = take_weight(f, name, parts[i].rows, parts[i].cols, false);
    }
}

static void take_experts(Folder *f, int l, Layer *layer) {
    const Config *c = &f->model->config;
    layer->router = take_layer_weight(f, l, "mlp.gate", c->n_experts, c->dim, false);
    if (f->status) return;
    layer->experts = allocate((size_t)c->n_experts, sizeof *layer->experts);
    if (!layer->experts) {
        f->status = -1;
        return;
    }
    memset(layer->experts, 0, (size_t)c->n_experts * sizeof *layer->experts);
    NAME("model.layers.%d.mlp.experts.gate_up_proj", l);
    if (safetensors_find(&f->weights, name))
        take_fused_experts(f, l, layer->experts);
    else
        for (int e = 0; e < c->n_experts; e++) take_expert(f, l, e, &layer->experts[e]);
}

/* Which layers of a model with experts have them: every decoder_sparse_step-th that mlp_only_layers
 * does not name. */
static bool is_sparse(Folder *f, int l) {
    const Json *dense = option(f->config, "mlp_only_layers");
    int64_t number;
    if (f->model->config.n_experts == 0) return false;
    if (strcmp(f->architecture->name, "qwen3_moe")) return true;
    if (dense && dense->kind != JSON_ARRAY) wrong(f, "mlp_only_layers", dense, "a list");
    for (const Json *i = dense ? json_first(dense) : NULL; i; i = json_next(dense, i))
        if (json_integer(i, &number) && number == l) return false;
    return (l + 1) % get_int(f, f->config, "decoder_sparse_step", 1, 1) == 0;
}

static void take_layer(Folder *f, int l) {
    Layer *layer = &f->model->layers[l];
    take_attention(f, l, layer);
    layer->mlp_norm = take_layer_norm(f, l, "post_attention_layernorm", f->model->config.dim);
    if (is_sparse(f, l))
        take_experts(f, l, layer);
    else
        take_mlp(f, l, &layer->mlp);
}

static void take_tables(Folder *f) {
    static const char embedding[] = "model.embed_tokens", output[] = "lm_head";
    Model *m = f->model;
    const Config *c = &m->config;
    const bool is_there = safetensors_find(&f->weights, "model.embed_tokens.weight");
    m->tied = get_bool(f, f->config, "tie_word_embeddings", f->architecture->tied);
    m->embedding = take_weight(f, m->tied && !is_there ? output : embedding, c->vocab_size, c->dim, false);
    if (m->tied) find_weight(f, "lm_head.weight"); /* the embedding once more, if it is there */
    m->output = m->tied ? m->embedding : take_weight(f, output, c->vocab_size, c->dim, false);
}

/* Buffers that older files hold: the angles, computed from the config. */
static bool is_buffer(const char *name) {
    static const char end[] = ".rotary_emb.inv_freq";
    const size_t n = strlen(name);
    return n >= sizeof end - 1 && !strcmp(name + n - (sizeof end - 1), end);
}

static void check_all_used(Folder *f) {
    for (size_t i = 0; i < f->weights.n_tensors && !f->status; i++) {
        const Stored *t = &f->weights.tensors[i];
        if (!t->used && !is_buffer(t->name))
            f->status = fail("%s: %.96s belongs to no part of a %s model that norma has", t->path, t->name,
                             f->architecture->name);
    }
}

/* Room for every vector in the files as float32. */
static int allocate_vectors(Folder *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->weights.n_tensors; i++)
        if (f->weights.tensors[i].n_dims == 1) n += f->weights.tensors[i].count;
    f->vectors = f->model->vectors = allocate(n, sizeof *f->vectors);
    return f->vectors ? 0 : -1;
}

static void take_weights(Folder *f) {
    Model *m = f->model;
    /* a layer has 9 tensors: no more memory for layers than the files justify */
    if ((size_t)m->config.n_layers > f->weights.n_tensors / 9)
        f->status = fail("%s: num_hidden_layers is %d, the files have %zu tensors", f->json.path, m->config.n_layers,
                         f->weights.n_tensors);
    if (f->status || (f->status = allocate_vectors(f)) || (f->status = model_allocate_layers(m))) return;
    take_tables(f);
    bool dense = false;
    for (int l = 0; l < m->config.n_layers && !f->status; l++) {
        take_layer(f, l);
        dense |= !m->layers[l].experts;
    }
    if (!dense) m->config.hidden_dim = m->config.expert_dim; /* no tensor vouches for the other */
    m->final_norm = take_norm(f, "model.norm.weight", m->config.dim);
    check_all_used(f);
}

/* ---- all of it ------------------------------------------------------------------------------------- */

static void read_config(Folder *f) {
    if (find_architecture(f)) {
        f->status = -1;
        return;
    }
    const bool bias = f->architecture->attention_bias && get_bool(f, f->config, "attention_bias", false);
    f->qkv_bias = f->architecture->qkv_bias || bias;
    f->wo_bias = bias;
    f->mlp_bias = f->architecture->mlp_bias && get_bool(f, f->config, "mlp_bias", false);
    refuse_options(f);
    read_sizes(f);
    if (!f->status) read_experts(f);
    if (!f->status) read_rope(f);
    if (!f->status) read_window(f);
}

int folder_read_model(Model *m, const char *folder) {
    char path[PATH_MAX];
    Folder f = {.folder = folder, .model = m};
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= PATH_MAX) return fail("%s: name too long", folder);
    if (safetensors_open(&f.weights, m, folder)) return -1;
    f.status = json_open(&f.json, path);
    if (!f.status) {
        f.config = f.json.values;
        read_config(&f);
        if (!f.status) take_weights(&f);
        json_close(&f.json);
    }
    m->format = "Hugging Face folder";
    safetensors_close(&f.weights);
    return f.status;
}
