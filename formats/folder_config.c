/* folder_config.c: from the config.json of a Hugging Face folder to a Config.
 *
 * Owns which architectures there are and what each option means. An option that changes the result is honoured or
 * refused by name; keys that the architecture's code in transformers does not read are not read here, either.
 * To add an architecture, add a row to ARCHITECTURES. The weights are folder.c's.
 */
#include "formats/folder_config.h"

#include "base/error.h"
#include "base/memory.h"
#include "formats/json.h"
#include "formats/parts.h"
#include "model.h"
#include "rope.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

/* The features of an architecture. */
enum {
    QKV_BIASES = 1,        /* the projections to q, k and v have biases, without an option */
    ATTENTION_BIAS = 2,    /* the option attention_bias: biases of q, k, v and of the output projection */
    MLP_BIASES = 4,        /* the option mlp_bias */
    WINDOW = 8,            /* sliding_window counts always; else if use_sliding_window is true */
    TIED = 16,             /* tie_word_embeddings is true where it is missing */
    EXPERTS = 32,          /* num_experts > 0, and options that leave some layers dense */
    SWITCHED_EXPERTS = 64, /* experts in every layer if use_moe is true */
    NORM_TOPK = 128,       /* norm_topk_prob is true where it is missing */
    SWITCHED_YARN = 256    /* MiniMind's YaRN if inference_rope_scaling is true; else rope_type names the scaling */
};

static const Architecture ARCHITECTURES[] = {
    {"llama", 10000, 0, NO_HEAD_NORMS, ATTENTION_BIAS | MLP_BIASES},
    {"mistral", 10000, 0, NO_HEAD_NORMS, WINDOW},
    {"qwen2", 10000, 0, NO_HEAD_NORMS, QKV_BIASES},
    {"qwen3", 10000, 128, HEAD_NORMS, ATTENTION_BIAS},
    {"qwen3_moe", 10000, 0, HEAD_NORMS, ATTENTION_BIAS | EXPERTS},
    {"minimind", 1e6, 0, HEAD_NORMS_IF_STORED, TIED | SWITCHED_EXPERTS | NORM_TOPK | SWITCHED_YARN},
};

static bool has(const FolderConfig *f, int feature) { return f->architecture->features & feature; }

/* ---- options ------------------------------------------------------------------------------- */

static void refuse(FolderConfig *f, const char *key, const Json *value, const char *expected) {
    if (!f->status) f->status = fail("%s: %s is %.64s, expected %s", f->json.path, key, json_shown(value), expected);
}

/* The value of a key; NULL if it is missing or null. */
static const Json *option(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return json_null(value) ? NULL : value;
}

/* An option of the model itself. */
static const Json *model_option(const FolderConfig *f, const char *key) { return option(f->json.values, key); }

enum { REQUIRED = -1 };

/* A whole number from `least` on. `missing` is the value where there is none, or REQUIRED. */
static int get_int(FolderConfig *f, const Json *object, const char *key, int least, int missing) {
    const Json *value = option(object, key);
    int64_t number = missing;
    char expected[64];
    if (!value && missing != REQUIRED) return missing;
    if (json_integer(value, &number) && number >= least && number <= INT_MAX) return (int)number;
    snprintf(expected, sizeof expected, "a whole number from %d to %d", least, INT_MAX);
    refuse(f, key, value, expected);
    return least;
}

/* A positive number. `missing` is the value where there is none, or REQUIRED. */
static double get_real(FolderConfig *f, const Json *object, const char *key, double missing) {
    const Json *value = option(object, key);
    double number = 0;
    if (!value && missing > 0) return missing;
    if (json_real(value, &number) && number > 0) return number;
    refuse(f, key, value, "a positive number");
    return 1;
}

static bool get_bool(FolderConfig *f, const Json *object, const char *key, bool missing) {
    const Json *value = option(object, key);
    if (value && value->kind != JSON_BOOL) refuse(f, key, value, "true or false");
    return value ? json_true(value) : missing;
}

/* A size of the model, at least 1, and a choice of the model. */
static int get_size(FolderConfig *f, const char *key, int missing) {
    return get_int(f, f->json.values, key, 1, missing);
}
static bool is_on(FolderConfig *f, const char *key, bool missing) { return get_bool(f, f->json.values, key, missing); }

/* ---- the model ------------------------------------------------------------------------------ */

static int find_architecture(FolderConfig *f) {
    const Json *type = json_get(f->json.values, "model_type");
    for (size_t i = 0; i < sizeof ARCHITECTURES / sizeof *ARCHITECTURES; i++)
        if (json_is(type, ARCHITECTURES[i].model_type)) f->architecture = &ARCHITECTURES[i];
    if (f->architecture) return 0;
    return fail("%s: model_type is %.64s, expected llama, mistral, qwen2, qwen3, qwen3_moe or minimind", f->json.path,
                json_shown(type));
}

/* What changes the result, and norma does not do. */
static void refuse_options(FolderConfig *f) {
    const Json *act = model_option(f, "hidden_act"), *quantization = model_option(f, "quantization_config");
    if (act && !json_is(act, "silu")) refuse(f, "hidden_act", act, "silu");
    if (quantization)
        refuse(f, "quantization_config", json_get(quantization, "quant_method"), "none: norma reads F32, F16 and BF16");
}

static void read_sizes(FolderConfig *f) {
    Config *c = &f->model->config;
    const int head_size = f->architecture->head_size;
    c->dim = get_size(f, "hidden_size", REQUIRED);
    c->hidden_dim = get_size(f, "intermediate_size", REQUIRED);
    c->n_layers = get_size(f, "num_hidden_layers", REQUIRED);
    c->n_heads = get_size(f, "num_attention_heads", REQUIRED);
    c->n_kv_heads = get_size(f, "num_key_value_heads", c->n_heads);
    c->vocab_size = get_size(f, "vocab_size", REQUIRED);
    c->context = get_size(f, "max_position_embeddings", REQUIRED);
    c->head_size = get_size(f, "head_dim", head_size ? head_size : c->dim / c->n_heads);
    f->eps = (float)get_real(f, f->json.values, "rms_norm_eps", 1e-6);
    if (f->status) return;
    if (!head_size && !model_option(f, "head_dim") && c->dim % c->n_heads)
        f->status = fail("%s: hidden_size is %d, expected a multiple of num_attention_heads = %d, or head_dim",
                         f->json.path, c->dim, c->n_heads);
    else if (c->head_size < 2 || c->head_size % 2 || (int64_t)c->head_size * c->n_heads > INT_MAX)
        f->status = fail("%s: head_dim is %d, expected an even number", f->json.path, c->head_size);
    else if (c->n_heads % c->n_kv_heads)
        f->status = fail("%s: num_key_value_heads is %d, expected a divisor of num_attention_heads = %d", f->json.path,
                         c->n_kv_heads, c->n_heads);
    else if (!(f->eps > 0))
        refuse(f, "rms_norm_eps", model_option(f, "rms_norm_eps"), "a number that is not 0 in float32");
}

/* Whether any layer attends to the last sliding_window positions alone. */
static bool has_window(FolderConfig *f) {
    const Json *types = model_option(f, "layer_types");
    if (!model_option(f, "sliding_window")) return false;
    if (has(f, WINDOW)) return true;
    if (!is_on(f, "use_sliding_window", false)) return false;
    if (!json_has_kind(types, JSON_ARRAY))
        return get_int(f, f->json.values, "max_window_layers", 0, 0) < f->model->config.n_layers;
    for (const Json *type = json_first(types); type; type = json_next(types, type))
        if (json_is(type, "sliding_attention")) return true;
    return false;
}

/* Up to the window's length it makes no difference: that is the context. */
static void read_window(FolderConfig *f) {
    Config *c = &f->model->config;
    const int window = has_window(f) ? get_size(f, "sliding_window", REQUIRED) : c->context;
    if (window < c->context) c->context = window;
}

static void read_experts(FolderConfig *f) {
    Config *c = &f->model->config;
    const bool switched = has(f, SWITCHED_EXPERTS);
    if (switched ? !is_on(f, "use_moe", false) : !has(f, EXPERTS)) return;
    const char *count = model_option(f, "num_experts") ? "num_experts" : "num_local_experts";
    c->n_experts = get_int(f, f->json.values, count, switched ? 1 : 0, REQUIRED);
    if (c->n_experts == 0) return;
    c->n_experts_used = get_size(f, "num_experts_per_tok", REQUIRED);
    c->expert_dim = get_size(f, "moe_intermediate_size", switched ? c->hidden_dim : REQUIRED);
    c->norm_topk = is_on(f, "norm_topk_prob", has(f, NORM_TOPK));
    f->sparse_step = switched ? 1 : get_size(f, "decoder_sparse_step", 1);
    f->dense_layers = switched ? NULL : model_option(f, "mlp_only_layers");
    if (f->dense_layers && f->dense_layers->kind != JSON_ARRAY) refuse(f, "mlp_only_layers", f->dense_layers, "a list");
    if (f->status) return;
    if (c->n_experts > MOST_EXPERTS)
        f->status = fail("%s: %s is %d, expected at most %d", f->json.path, count, c->n_experts, MOST_EXPERTS);
    else if (c->n_experts_used > c->n_experts)
        f->status = fail("%s: num_experts_per_tok is %d, expected at most %s = %d", f->json.path, c->n_experts_used,
                         count, c->n_experts);
}

bool folder_config_is_sparse(const FolderConfig *f, int layer) {
    int64_t dense;
    for (const Json *l = json_first(f->dense_layers); l; l = json_next(f->dense_layers, l))
        if (json_integer(l, &dense) && dense == layer) return false;
    return f->model->config.n_experts > 0 && (layer + 1) % f->sparse_step == 0;
}

/* ---- RoPE: the formulas are those of transformers' modeling_rope_utils.py ------------------------- */

/* The positions that the model was trained on before its context was stretched. */
static int original_context(FolderConfig *f, const Json *rope) {
    const int own = get_int(f, rope, "original_max_position_embeddings", 1, f->model->config.context);
    return get_size(f, "original_max_position_embeddings", own);
}

/* Llama 3.1: pairs that turn often in the original context keep their frequency, those that turn seldom have it
 * divided by `factor`, and between the two lies a ramp. */
static void read_llama3(FolderConfig *f, const Json *rope) {
    const Config *c = &f->model->config;
    const int context = original_context(f, rope), n = c->rope.dims / 2;
    const double factor = get_real(f, rope, "factor", REQUIRED);
    const double low = get_real(f, rope, "low_freq_factor", REQUIRED);
    const double high = get_real(f, rope, "high_freq_factor", REQUIRED);
    if (high <= low) refuse(f, "high_freq_factor", option(rope, "high_freq_factor"), "more than low_freq_factor");
    double *factors = f->model->rope_factors = allocate((size_t)n, sizeof *factors);
    if (!factors) f->status = -1;
    for (int i = 0; factors && i < n; i++) {
        const double turns = context * rope_frequency(&c->rope, i) / (2 * M_PI);
        const double smooth = (turns - low) / (high - low);
        factors[i] = turns > high ? 1 : turns < low ? factor : 1 / ((1 - smooth) / factor + smooth);
    }
}

static void read_yarn(FolderConfig *f, const Json *rope) {
    Config *c = &f->model->config;
    Yarn *y = &c->rope.yarn;
    *y = (Yarn){.context = original_context(f, rope),
                .fast = get_real(f, rope, "beta_fast", 32),
                .slow = get_real(f, rope, "beta_slow", 1),
                .between = !get_bool(f, rope, "truncate", true)};
    y->factor = get_real(f, rope, "factor", c->context / y->context);
    double amplitude = yarn_amplitude(y->factor, 1);
    if (option(rope, "mscale") && option(rope, "mscale_all_dim"))
        amplitude = yarn_amplitude(y->factor, get_real(f, rope, "mscale", REQUIRED)) /
                    yarn_amplitude(y->factor, get_real(f, rope, "mscale_all_dim", REQUIRED));
    c->rope.amplitude = get_real(f, rope, "attention_factor", amplitude);
}

/* YaRN with the defaults and the ramp of MiniMind's model_minimind.py. */
static void read_minimind_yarn(FolderConfig *f, const Json *rope) {
    Config *c = &f->model->config;
    const Yarn y = {.context = get_int(f, rope, "original_max_position_embeddings", 1, 2048),
                    .factor = get_real(f, rope, "factor", 16),
                    .fast = get_real(f, rope, "beta_fast", 32),
                    .slow = get_real(f, rope, "beta_slow", 1),
                    .ends_at_last_pair = true};
    c->rope.amplitude = get_real(f, rope, "attention_factor", 1);
    if (c->context > y.context) c->rope.yarn = y;
}

/* Newer files have all of it in rope_parameters, older ones in rope_scaling and rope_theta. */
static const Json *rope_options(FolderConfig *f) {
    const Json *rope = model_option(f, "rope_scaling");
    if (!rope || (rope->kind == JSON_OBJECT && rope->n_members == 0)) rope = model_option(f, "rope_parameters");
    if (rope && rope->kind != JSON_OBJECT) refuse(f, "rope_scaling or rope_parameters", rope, "an object");
    for (const Json *key = json_first(rope); key; key = json_next(rope, key))
        if (key[1].kind == JSON_OBJECT) refuse(f, key->text, key + 1, "no other positions for some layers");
    return rope;
}

static void read_scaling(FolderConfig *f, const Json *rope) {
    Config *c = &f->model->config;
    const Json *type = option(rope, option(rope, "rope_type") ? "rope_type" : "type");
    if (has(f, SWITCHED_YARN)) {
        if (is_on(f, "inference_rope_scaling", false)) read_minimind_yarn(f, rope);
    } else if (json_is(type, "llama3")) {
        read_llama3(f, rope);
    } else if (json_is(type, "yarn")) {
        read_yarn(f, rope);
    } else if (json_is(type, "linear")) {
        c->rope.scale = get_real(f, rope, "factor", REQUIRED);
    } else if (json_is(type, "dynamic")) { /* begins behind the original context, which is where norma's ends */
        c->context = get_int(f, rope, "original_max_position_embeddings", 1, c->context);
    } else if (type && !json_is(type, "default")) {
        refuse(f, "rope_type", type, "default, linear, dynamic, llama3 or yarn");
    }
}

static void read_rope(FolderConfig *f) {
    Model *m = f->model;
    Config *c = &m->config;
    const Json *rope = rope_options(f), *part = option(rope, "partial_rotary_factor");
    double partial = 1;
    c->rope = (Rope){.scale = 1, .amplitude = 1, .dims = c->head_size, .halves = true};
    c->rope.base = get_real(f, f->json.values, "rope_theta", f->architecture->rope_base);
    c->rope.base = get_real(f, rope, "rope_theta", c->rope.base);
    if (!part) part = model_option(f, "partial_rotary_factor");
    if (part && (!json_real(part, &partial) || partial != 1)) refuse(f, "partial_rotary_factor", part, "1");
    if (!f->status) read_scaling(f, rope);
    if (f->status || c->rope.yarn.factor == 0) return;
    m->rope_factors = yarn_factors(&c->rope, &c->rope.yarn);
    if (!m->rope_factors) f->status = -1;
}

int folder_config_read(FolderConfig *f, Model *m, const char *path) {
    *f = (FolderConfig){.model = m};
    if (json_open(&f->json, path) || find_architecture(f)) return -1;
    f->biases[OUT_BIAS] = has(f, ATTENTION_BIAS) && is_on(f, "attention_bias", false);
    f->biases[QKV_BIAS] = has(f, QKV_BIASES) || f->biases[OUT_BIAS];
    f->biases[MLP_BIAS] = has(f, MLP_BIASES) && is_on(f, "mlp_bias", false);
    m->tied = is_on(f, "tie_word_embeddings", has(f, TIED));
    refuse_options(f);
    read_sizes(f);
    if (!f->status) read_experts(f);
    if (!f->status) read_rope(f);
    if (!f->status) read_window(f);
    return f->status;
}
