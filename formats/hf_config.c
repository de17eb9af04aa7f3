/* hf_config.c: from config.json to a Config.
 *
 * Owns which architectures there are and what each option means: an option that changes the result is honoured or
 * refused by name; keys that the architecture's code in transformers does not read are not read here, either. To add
 * an architecture, add a row to ARCHITECTURES.
 */
#include "formats/hf_config.h"
#include "base/error.h"
#include "base/memory.h"
#include "rope.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* What several have in common. */
enum {
    GEMMAS = GEMMA | POST_NORMS | TIED | ATTENTION_BIAS,
    OLMOS = POST_NORMS | NO_PRE_NORMS | HEAD_NORMS | WIDE_HEAD_NORMS | ATTENTION_BIAS,
    QWEN_WINDOW = SLIDES_IF_USED | LAYER_TYPES | WINDOW_ABOVE,
};

/* clang-format off */
static const Architecture ARCHITECTURES[] = {
    /*             RoPE base  context  head  eps  window  full_every */
    {"llama",        10000,     2048,    0, 1e-6,    0, 0, .features = ATTENTION_BIAS | MLP_BIASES},
    {"mistral",      10000,   131072,    0, 1e-6, 4096, 0, .features = SLIDES},
    {"mixtral",        1e6,   131072,    0, 1e-5,    0, 0, .features = SLIDES | MIXTRAL_EXPERTS},
    {"qwen2",        10000,    32768,    0, 1e-6, 4096, 0, .features = QKV_BIASES | QWEN_WINDOW},
    {"qwen3",        10000,    32768,  128, 1e-6, 4096, 0, .features = HEAD_NORMS | ATTENTION_BIAS | QWEN_WINDOW},
    {"qwen3_moe",    10000,    32768,    0, 1e-6, 4096, 0,
     .features = HEAD_NORMS | ATTENTION_BIAS | EXPERTS | SLIDES_IF_USED},
    {"minimind",       1e6,    32768,    0, 1e-6,    0, 0,
     .features = HEAD_NORMS_IF_STORED | TIED | SWITCHED_EXPERTS | NORM_TOPK | SWITCHED_YARN},
    {"gemma2",       10000,     8192,  256, 1e-6, 4096, 2, .features = GEMMAS | SLIDES | LAYER_TYPES,
     .attention_cap = 50, .logit_cap = 30},
    {"gemma3_text",    1e6,   131072,  256, 1e-6, 4096, 6,
     .features = GEMMAS | HEAD_NORMS | SLIDES | LAYER_TYPES | GEMMA3 | LOCAL_ROPE, .local_base = 10000},
    {"olmo",         10000,     2048,    0, 1e-5,    0, 0, .features = BARE_NORMS | ATTENTION_BIAS},
    {"olmo2",        10000,     2048,    0, 1e-5,    0, 0, .features = OLMOS},
    {"olmo3",       500000,     2048,    0, 1e-5, 4096, 4, .features = OLMOS | SLIDES | LAYER_TYPES | LOCAL_ROPE,
     .local_base = 500000},
    {"phi3",         10000,     4096,    0, 1e-5,    0, 0, .features = FUSED | LONGROPE | SLIDES, .rotating = 1},
    {"granite",      10000,     2048,    0, 1e-6,    0, 0, .features = MULTIPLIERS | ATTENTION_BIAS | MLP_BIASES},
    {"smollm3",        2e6,    32768,    0, 1e-6,    0, 0,
     .features = TIED | ATTENTION_BIAS | MLP_BIASES | NO_ROPE_LAYERS | SLIDES_IF_USED | LAYER_TYPES},
    {"stablelm",     10000,     4096,    0, 1e-5,    0, 0, .features = LAYER_NORMS | QKV_BIAS_OPTION, .rotating = 0.25},
};
/* clang-format on */
enum { N_ARCHITECTURES = sizeof ARCHITECTURES / sizeof *ARCHITECTURES };

/* ---- options ------------------------------------------------------------------------------- */

static void refuse(HfConfig *h, const char *key, const Json *value, const char *expected) {
    if (!h->status) h->status = fail("%s: %s is %.64s, expected %s", h->json.path, key, json_shown(value), expected);
}

/* The value of a key; NULL if it is missing or null. */
static const Json *option(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return json_null(value) ? NULL : value;
}

enum { REQUIRED = -1 };

/* A whole number from `least` on. `missing` is the value where there is none, or REQUIRED. */
static int get_int(HfConfig *h, const Json *object, const char *key, int least, int missing) {
    const Json *value = option(object, key);
    int64_t number = missing;
    char expected[64];
    if (!value && missing != REQUIRED) return missing;
    if (json_integer(value, &number) && number >= least && number <= INT_MAX) return (int)number;
    snprintf(expected, sizeof expected, "a whole number from %d to %d", least, INT_MAX);
    refuse(h, key, value, expected);
    return least;
}

/* A positive number. `missing` is the value where there is none, or REQUIRED. */
static double get_real(HfConfig *h, const Json *object, const char *key, double missing) {
    const Json *value = option(object, key);
    double number = 0;
    if (!value && missing > 0) return missing;
    if (json_real(value, &number) && number > 0) return number;
    refuse(h, key, value, "a positive number");
    return 1;
}

/* A positive factor that is one in float32, and 1 / factor, too. */
static float get_factor(HfConfig *h, const char *key, double missing) {
    const float factor = (float)get_real(h, h->options, key, missing);
    if (!isnormal(factor)) refuse(h, key, option(h->options, key), "a positive number in float32");
    return factor;
}

/* A soft cap. A null is none; `missing` is the value where there is nothing, and may be 0, none. */
static float get_cap(HfConfig *h, const char *key, double missing) {
    const bool none = json_get(h->options, key) ? !option(h->options, key) : missing == 0;
    return none ? 0 : get_factor(h, key, missing);
}

/* A list with elements for all layers; NULL if there is none. */
static const Json *get_list(HfConfig *h, const char *key) {
    const Json *list = option(h->options, key);
    if (list && (list->kind != JSON_ARRAY || (int64_t)list->n_members < h->model->config.n_layers))
        refuse(h, key, list, "a list of at least num_hidden_layers elements");
    return list;
}

static bool get_bool(HfConfig *h, const Json *object, const char *key, bool missing) {
    const Json *value = option(object, key);
    if (value && value->kind != JSON_BOOL) refuse(h, key, value, "true or false");
    return value ? json_true(value) : missing;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* A layer has 6 tensors at least, in Phi-3: no more memory for layers than the files' n_tensors justify. */
static void read_sizes(HfConfig *h, size_t n_tensors) {
    Config *c = &h->model->config;
    const Architecture *a = h->architecture;
    const char *eps = has(h, LAYER_NORMS) ? "layer_norm_eps" : "rms_norm_eps";
    const bool newer = option(h->options, "max_position_embeddings"); /* LLaMA 1 has the other, or none */
    c->dim = get_int(h, h->options, "hidden_size", 1, REQUIRED);
    c->hidden_dim = get_int(h, h->options, "intermediate_size", 1, REQUIRED);
    c->n_layers = get_int(h, h->options, "num_hidden_layers", 1, REQUIRED);
    c->n_heads = get_int(h, h->options, "num_attention_heads", 1, REQUIRED);
    c->n_kv_heads = get_int(h, h->options, "num_key_value_heads", 1, c->n_heads);
    c->vocab_size = get_int(h, h->options, "vocab_size", 1, REQUIRED);
    c->context = get_int(h, h->options, newer ? "max_position_embeddings" : "max_sequence_length", 1, a->context);
    c->head_size = get_int(h, h->options, "head_dim", 1, a->head_size ? a->head_size : c->dim / c->n_heads);
    c->wide_head_norms = has(h, WIDE_HEAD_NORMS);
    h->eps = (float)(has(h, BARE_NORMS) ? a->eps : get_real(h, h->options, eps, a->eps));
    if (h->status) return;
    if (!a->head_size && !option(h->options, "head_dim") && c->dim % c->n_heads)
        h->status = fail("%s: hidden_size is %d, expected a multiple of num_attention_heads = %d, or head_dim",
                         h->json.path, c->dim, c->n_heads);
    else if (c->head_size % 2 || (int64_t)c->head_size * c->n_heads > INT_MAX)
        h->status = fail("%s: head_dim is %d, expected an even number up to %d", h->json.path, c->head_size,
                         INT_MAX / c->n_heads);
    else if (c->n_heads % c->n_kv_heads)
        h->status = fail("%s: num_key_value_heads is %d, expected a divisor of num_attention_heads = %d", h->json.path,
                         c->n_kv_heads, c->n_heads);
    else if (!(h->eps > 0))
        refuse(h, eps, option(h->options, eps), "a number that is not 0 in float32");
    else if ((size_t)c->n_layers > n_tensors / 6)
        h->status =
            fail("%s: num_hidden_layers is %d, the files have %zu tensors", h->json.path, c->n_layers, n_tensors);
    else
        h->status = model_allocate_layers(h->model);
}

/* Factors and caps; a factor of 1 is none. */
static void read_factors(HfConfig *h) {
    Config *c = &h->model->config;
    if (has(h, GEMMA)) {
        c->activation = ACTIVATION_GELU;
        c->embedding_scale = sqrtf((float)c->dim);
        c->attention_scale = 1 / sqrtf(get_factor(h, "query_pre_attn_scalar", 256));
        c->attention_cap = get_cap(h, "attn_logit_softcapping", h->architecture->attention_cap);
        c->logit_cap = get_cap(h, "final_logit_softcapping", h->architecture->logit_cap);
    }
    if (has(h, MULTIPLIERS)) {
        const float embedding = get_factor(h, "embedding_multiplier", 1);
        const float residual = get_factor(h, "residual_multiplier", 1), logits = get_factor(h, "logits_scaling", 1);
        c->embedding_scale = embedding == 1 ? 0 : embedding;
        c->residual_scale = residual == 1 ? 0 : residual;
        c->attention_scale = get_factor(h, "attention_multiplier", 1);
        c->logit_scale = logits == 1 ? 0 : 1 / logits;
    }
}

/* Every decoder_sparse_step-th layer has experts, but those that mlp_only_layers names. */
static void read_experts(HfConfig *h) {
    Config *c = &h->model->config;
    const bool mixtral = has(h, MIXTRAL_EXPERTS), switched = has(h, SWITCHED_EXPERTS), all = mixtral || switched;
    if (switched ? !get_bool(h, h->options, "use_moe", false) : !mixtral && !has(h, EXPERTS)) return;
    const char *count = option(h->options, "num_experts") ? "num_experts" : "num_local_experts";
    c->n_experts = get_int(h, h->options, count, all ? 1 : 0, mixtral ? 8 : REQUIRED);
    if (c->n_experts == 0) return;
    c->n_experts_used = get_int(h, h->options, "num_experts_per_tok", 1, mixtral ? 2 : REQUIRED);
    c->expert_dim = mixtral ? c->hidden_dim
                            : get_int(h, h->options, "moe_intermediate_size", 1, switched ? c->hidden_dim : REQUIRED);
    c->norm_topk = mixtral || get_bool(h, h->options, "norm_topk_prob", has(h, NORM_TOPK));
    const int step = all ? 1 : get_int(h, h->options, "decoder_sparse_step", 1, 1);
    const Json *dense = all ? NULL : option(h->options, "mlp_only_layers");
    if (dense && dense->kind != JSON_ARRAY) refuse(h, "mlp_only_layers", dense, "a list");
    if (h->status) return;
    if (c->n_experts > MAX_EXPERTS)
        h->status = fail("%s: %s is %d, expected at most %d", h->json.path, count, c->n_experts, MAX_EXPERTS);
    else if (c->n_experts_used > c->n_experts)
        h->status = fail("%s: num_experts_per_tok is %d, expected at most %s = %d", h->json.path, c->n_experts_used,
                         count, c->n_experts);
    if (h->status || !(h->is_sparse = allocate((size_t)c->n_layers, sizeof *h->is_sparse))) {
        h->status = -1;
        return;
    }
    for (int i = 0; i < c->n_layers; i++) h->is_sparse[i] = (i + 1) % step == 0;
    int64_t layer = -1;
    for (const Json *v = json_first(dense); v; v = json_next(dense, v))
        if (json_integer(v, &layer) && layer >= 0 && layer < c->n_layers) h->is_sparse[layer] = false;
}

/* Attention to the last sliding_window positions alone, of layers that slide; 0: to all. A null is no window; a missing
 * one has a default. */
static int read_window(HfConfig *h, const Json *layer_types) {
    const Json *value = json_get(h->options, "sliding_window");
    bool slides = h->architecture->full_every > 0;
    for (const Json *type = json_first(layer_types); type; type = json_next(layer_types, type)) {
        slides |= json_is(type, "sliding_attention");
        if (!json_is(type, "sliding_attention") && !json_is(type, "full_attention"))
            refuse(h, "layer_types", type, "full_attention or sliding_attention");
    }
    const bool used =
        has(h, SLIDES) || (has(h, SLIDES_IF_USED) && get_bool(h, h->options, "use_sliding_window", false));
    const bool none = !used || (value && json_null(value));
    const int window = none ? 0 : get_int(h, h->options, "sliding_window", 1, h->architecture->window);
    if (slides && !window && !h->status)
        h->status = fail("%s: layers have sliding_attention, but sliding_window is %.64s%s", h->json.path,
                         json_shown(value), used ? "" : ", and use_sliding_window false");
    return window;
}

/* Which layers slide, and in which heads rotate. */
static void read_layers(HfConfig *h) {
    const Model *m = h->model;
    const bool some_rotate = has(h, NO_ROPE_LAYERS);
    const Json *types = has(h, LAYER_TYPES) ? get_list(h, "layer_types") : NULL, *type = json_first(types);
    const Json *ropes = some_rotate ? get_list(h, "no_rope_layers") : NULL, *rotates = json_first(ropes);
    const int interval = some_rotate && !ropes ? get_int(h, h->options, "no_rope_layer_interval", 1, 4) : 1;
    const int usual = h->architecture->full_every;
    const int full_every = has(h, GEMMA3) ? get_int(h, h->options, "sliding_window_pattern", 1, usual) : usual;
    const int first = has(h, WINDOW_ABOVE) ? get_int(h, h->options, "max_window_layers", 0, 28) : 0;
    const int window = read_window(h, types);
    for (Layer *layer = m->layers; layer < m->layers + m->config.n_layers; layer++) {
        int64_t rope = (layer->index + 1) % interval;
        if (rotates && !json_integer(rotates, &rope)) refuse(h, "no_rope_layers", rotates, "whole numbers");
        const bool still = some_rotate && rope == 0;
        const bool usually = layer->index >= first && (full_every == 0 || (layer->index + 1) % full_every);
        const bool slides = type ? json_is(type, "sliding_attention") : some_rotate ? still : usually;
        if (slides) layer->window = window;
        layer->rope = slides && has(h, LOCAL_ROPE) ? ROPE_LOCAL : still ? ROPE_NONE : ROPE_GLOBAL;
        if (type) type = json_next(types, type);
        if (rotates) rotates = json_next(ropes, rotates);
    }
}

/* ---- RoPE: the formulas are those of transformers' modeling_rope_utils.py ------------------------- */

/* The positions that the model was trained on before its context was stretched. */
static int original_context(HfConfig *h, const Json *rope) {
    const int own = get_int(h, rope, "original_max_position_embeddings", 1, h->model->config.context);
    return has(h, LOCAL_ROPE) ? own : get_int(h, h->options, "original_max_position_embeddings", 1, own);
}

/* Llama 3.1: pairs that turn often in the original context keep their frequency, those that turn seldom have it
 * divided by `factor`, and between the two lies a ramp. */
static void read_llama3(HfConfig *h, const Json *rope) {
    const Config *c = &h->model->config;
    const int context = original_context(h, rope), n = c->rope.dims / 2;
    const double factor = get_real(h, rope, "factor", REQUIRED);
    const double low = get_real(h, rope, "low_freq_factor", REQUIRED);
    const double high = get_real(h, rope, "high_freq_factor", REQUIRED);
    if (high <= low) refuse(h, "high_freq_factor", option(rope, "high_freq_factor"), "more than low_freq_factor");
    double *factors = h->model->rope_factors = allocate((size_t)n, sizeof *factors);
    if (!factors) h->status = -1;
    for (int i = 0; factors && i < n; i++) {
        const double turns = context * rope_frequency(&c->rope, i) / (2 * M_PI);
        const double smooth = (turns - low) / (high - low);
        factors[i] = turns > high ? 1 : turns < low ? factor : 1 / ((1 - smooth) / factor + smooth);
    }
}

/* YaRN; MiniMind's, with the defaults and the ramp of its model_minimind.py, begins behind the original context. */
static void read_yarn(HfConfig *h, const Json *rope, bool minimind) {
    Config *c = &h->model->config;
    Yarn y = {.fast = get_real(h, rope, "beta_fast", 32), .slow = get_real(h, rope, "beta_slow", 1)};
    y.context = minimind ? get_int(h, rope, "original_max_position_embeddings", 1, 2048) : original_context(h, rope);
    y.fractional = !minimind && !has(h, LOCAL_ROPE) && !get_bool(h, rope, "truncate", true);
    y.ends_at_last_pair = minimind;
    y.factor = get_real(h, rope, "factor", minimind ? 16 : c->context / y.context);
    double amplitude = minimind ? 1 : yarn_amplitude(y.factor, 1);
    if (!minimind && option(rope, "mscale") && option(rope, "mscale_all_dim"))
        amplitude = yarn_amplitude(y.factor, get_real(h, rope, "mscale", REQUIRED)) /
                    yarn_amplitude(y.factor, get_real(h, rope, "mscale_all_dim", REQUIRED));
    c->rope.amplitude = get_real(h, rope, "attention_factor", amplitude);
    if (h->status || (minimind && c->context <= y.context)) return;
    c->rope.yarn = y;
    h->model->rope_factors = yarn_factors(&c->rope, &y);
    if (!h->model->rope_factors) h->status = -1;
}

/* LongRoPE (Ding et al. 2024), in the original context alone: behind it other factors hold for all positions. */
static void read_longrope(HfConfig *h, const Json *rope) {
    Config *c = &h->model->config;
    const int original = get_int(h, h->options, "original_max_position_embeddings", 2, 4096), n = c->rope.dims / 2;
    const double factor = get_real(h, rope, "factor", (double)c->context / original);
    const Json *list = option(rope, "short_factor"), *value = json_members(list, JSON_ARRAY);
    c->rope.amplitude = get_real(h, rope, "attention_factor", factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1);
    if (!value || (int64_t)list->n_members != n) refuse(h, "short_factor", list, "a list of half as many as rotate");
    if (h->status) return;
    double *factors = h->model->rope_factors = allocate((size_t)n, sizeof *factors);
    if (!factors) h->status = -1;
    for (int i = 0; factors && i < n; i++, value = json_next(list, value))
        if (!json_real(value, &factors[i]) || !(factors[i] > 0)) refuse(h, "short_factor", value, "positive numbers");
    if (c->context <= original) return;
    c->context = original;
    h->model->ended_by = "beyond it LongRoPE has other factors";
}

static void read_scaling(HfConfig *h, const Json *rope) {
    Config *c = &h->model->config;
    size_t bytes = 0;
    for (int i = 0; i < h->model->n_files; i++) bytes += h->model->files[i].size;
    if ((size_t)c->rope.dims > bytes) return; /* the weights will refuse such heads: no memory for their factors */
    const Json *type = option(rope, option(rope, "rope_type") ? "rope_type" : "type");
    if (has(h, SWITCHED_YARN)) {
        if (get_bool(h, h->options, "inference_rope_scaling", false)) read_yarn(h, rope, true);
    } else if (!type || json_is(type, "default")) {
        return;
    } else if (has(h, LONGROPE)) { /* which once had other names */
        if (json_is(type, "longrope") || json_is(type, "su") || json_is(type, "yarn"))
            read_longrope(h, rope);
        else
            refuse(h, "rope_type", type, "default or longrope");
    } else if (json_is(type, "llama3")) {
        read_llama3(h, rope);
    } else if (json_is(type, "yarn")) {
        read_yarn(h, rope, false);
    } else if (json_is(type, "linear")) {
        c->rope.scale = get_real(h, rope, "factor", REQUIRED);
    } else if (json_is(type, "dynamic")) { /* begins behind the original context, which is where norma's ends */
        c->context = get_int(h, rope, "original_max_position_embeddings", 1, c->context);
    } else {
        refuse(h, "rope_type", type, "default, linear, dynamic, llama3 or yarn");
    }
}

/* The part of a head that rotates. */
static int rotating_dims(HfConfig *h, const Json *rope) {
    const int head_size = h->model->config.head_size;
    const Json *part = option(rope, "partial_rotary_factor");
    double partial = h->architecture->rotating > 0 ? h->architecture->rotating : 1;
    if (!part) part = option(h->options, "partial_rotary_factor");
    if (part && (!json_real(part, &partial) || !(partial > 0 && partial <= 1))) partial = 0;
    const int dims = (int)(head_size * partial);
    if (h->architecture->rotating == 0 && partial < 1) refuse(h, "partial_rotary_factor", part, "1");
    if (dims < 2 || dims % 2) refuse(h, "partial_rotary_factor", part, "a part that is an even number of elements");
    return dims;
}

/* The positions of layers that slide are plain, with a base of their own: in sliding_attention, in
 * rope_local_base_freq, or the architecture's. */
static void read_local_rope(HfConfig *h, const Json *rope) {
    const Json *type = option(rope, option(rope, "rope_type") ? "rope_type" : "type");
    const Json *theta = option(h->options, "rope_theta");
    double base = h->architecture->local_base;
    if (type && !json_is(type, "default")) refuse(h, "rope_type in sliding_attention", type, "default");
    if (has(h, GEMMA3))
        base = get_real(h, h->options, "rope_local_base_freq", base);
    else if (theta && !option(rope, "rope_theta") && get_real(h, h->options, "rope_theta", base) != base)
        refuse(h, "rope_theta", theta, "one in sliding_attention, too: versions of transformers disagree on it");
    h->model->config.local_base = get_real(h, rope, "rope_theta", base);
}

/* Newer files have all of it in rope_parameters, those of architectures with LOCAL_ROPE for each type of layers; older
 * ones in rope_scaling and rope_theta. */
static void read_rope(HfConfig *h) {
    Rope *r = &h->model->config.rope;
    const Json *newer = option(h->options, "rope_parameters"), *rope = option(h->options, "rope_scaling");
    const bool local = has(h, LOCAL_ROPE);
    if (!rope || (rope->kind == JSON_OBJECT && rope->n_members == 0)) rope = local ? NULL : newer;
    if (local && newer && newer->kind != JSON_OBJECT) refuse(h, "rope_parameters", newer, "an object");
    for (const Json *key = json_members(local ? newer : NULL, JSON_OBJECT); key; key = json_next(newer, key)) {
        const bool full = json_is(key, "full_attention");
        if ((!full && !json_is(key, "sliding_attention")) || (key[1].kind != JSON_OBJECT && !json_null(key + 1)))
            refuse(h, key->text, key + 1, "full_attention and sliding_attention alone, objects");
        if (full && rope) refuse(h, "rope_scaling", rope, "none beside full_attention");
        if (full) rope = option(newer, "full_attention");
    }
    if (rope && rope->kind != JSON_OBJECT) refuse(h, "rope_scaling or rope_parameters", rope, "an object");
    for (const Json *key = json_members(rope, JSON_OBJECT); key; key = json_next(rope, key))
        if (key[1].kind == JSON_OBJECT) refuse(h, key->text, key + 1, "no other positions for some layers");
    *r = (Rope){.scale = 1, .amplitude = 1, .dims = rotating_dims(h, rope), .halves = true};
    r->base = get_real(h, h->options, "rope_theta", h->architecture->rope_base);
    r->base = get_real(h, rope, "rope_theta", r->base);
    if (local) read_local_rope(h, option(newer, "sliding_attention"));
    if (!h->status) read_scaling(h, rope);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Options of what norma has not. */
static const struct {
    int features;
    const char *key;
} REFUSED[] = {
    {BARE_NORMS, "clip_qkv"},           {LAYER_NORMS, "use_parallel_residual"},
    {LAYER_NORMS, "qk_layernorm"},      {GEMMA, "use_bidirectional_attention"},
    {GEMMA3, "attn_logit_softcapping"}, /* its code takes it, and caps nothing */
};

static int find_architecture(HfConfig *h) {
    const Json *type = json_get(h->options, "model_type");
    char names[256] = "";
    for (const Architecture *a = ARCHITECTURES; a < ARCHITECTURES + N_ARCHITECTURES; a++) {
        if (json_is(type, a->model_type)) h->architecture = a;
        if (a > ARCHITECTURES) strcat(names, a < ARCHITECTURES + N_ARCHITECTURES - 1 ? ", " : " or ");
        strcat(names, a->model_type);
    }
    if (h->architecture) return 0;
    return fail("%s: model_type is %.64s, expected %s", h->json.path, json_shown(type), names);
}

int hf_config_open(HfConfig *h, Model *m, const char *path, size_t n_tensors) {
    *h = (HfConfig){.model = m};
    if (json_open(&h->json, path)) return -1;
    h->options = h->json.values;
    if (find_architecture(h)) return -1;
    const char *act_key = has(h, GEMMA) ? "hidden_activation" : "hidden_act";
    const char *expected = has(h, GEMMA) ? "gelu_pytorch_tanh" : "silu";
    const Json *act = option(h->options, act_key), *quantization = option(h->options, "quantization_config");
    h->biases[OUT_BIAS] = has(h, ATTENTION_BIAS) && get_bool(h, h->options, "attention_bias", false);
    h->biases[QKV_BIAS] = has(h, QKV_BIASES) || h->biases[OUT_BIAS] ||
                          (has(h, QKV_BIAS_OPTION) && get_bool(h, h->options, "use_qkv_bias", false));
    h->biases[MLP_BIAS] = has(h, MLP_BIASES) && get_bool(h, h->options, "mlp_bias", false);
    m->tied = get_bool(h, h->options, "tie_word_embeddings", has(h, TIED));
    if (act && !json_is(act, expected) && (has(h, GEMMA) || !json_is(act, "swish"))) refuse(h, act_key, act, expected);
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const Json *value = has(h, REFUSED[i].features) ? option(h->options, REFUSED[i].key) : NULL;
        if (value && (value->kind != JSON_BOOL || json_true(value))) refuse(h, REFUSED[i].key, value, "null or false");
    }
    if (quantization)
        refuse(h, "quantization_config", json_get(quantization, "quant_method"), "none: norma reads F32, F16 and BF16");
    read_sizes(h, n_tensors);
    if (!h->status) read_experts(h);
    if (!h->status) read_factors(h);
    if (!h->status) read_layers(h);
    if (!h->status) read_rope(h);
    return h->status;
}

void hf_config_close(HfConfig *h) {
    free(h->is_sparse);
    json_close(&h->json);
}
