/* folder.c: the model in a Hugging Face folder.
 *
 * Owns what the options of config.json mean: an option that changes the result is honoured or refused by name; keys
 * that transformers ignores for a family are ignored here, too. family.c has the families and the keys shared with
 * GGUF; safetensors.c reads the weights.
 */
#include "formats/folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/family.h"
#include "formats/json.h"
#include "formats/reader.h"
#include "formats/safetensors.h"
#include "formats/stored.h"
#include "rope.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    Reader reader;
    Header *header;      /* the reader's */
    const Json *options; /* the object in config.json */
} Folder;

static bool option_of(const Folder *f, int option) { return f->reader.family->options & option; }

/* ---- options ------------------------------------------------------------------------------- */

static Value value_of(const Json *json) {
    static const ValueKind kinds[] = {
        [JSON_NULL] = VALUE_NULL,     [JSON_BOOL] = VALUE_BOOL,  [JSON_NUMBER] = VALUE_REAL,
        [JSON_STRING] = VALUE_STRING, [JSON_ARRAY] = VALUE_LIST, [JSON_OBJECT] = VALUE_LIST};
    Value v = {.kind = json ? kinds[json->kind] : VALUE_MISSING, .integer = json_true(json)};
    v.string = (String){json_shown(json), strlen(json_shown(json))};
    if (json_integer(json, &v.integer)) v.kind = VALUE_INTEGER;
    if (!json_real(json, &v.real)) v.real = INFINITY;
    return v;
}

/* The value of a key in config.json. The eps of another kind of norm than the family's is ignored. */
static Value get(const Reader *r, const char *key) {
    const char *eps = has(r, BARE_NORMS) ? "" : has(r, LAYER_NORMS) ? "layer_norm_eps" : "rms_norm_eps";
    if (strstr(key, "_norm_eps") && strcmp(key, eps)) return (Value){.kind = VALUE_MISSING};
    return value_of(json_get(r->keys, key));
}

static void refuse_json(Folder *f, const char *key, const Json *value, const char *expected) {
    refuse(&f->reader.origin, key, value_of(value), "%s", expected);
}

/* The value of a key; NULL if it is missing or null. */
static const Json *option(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return json_null(value) ? NULL : value;
}

static int get_int(Folder *f, const Json *object, const char *key, int min, int64_t missing) {
    return (int)value_integer(&f->reader.origin, key, value_of(json_get(object, key)), min, INT_MAX, missing);
}

static double get_real(Folder *f, const Json *object, const char *key, double missing) {
    return value_real(&f->reader.origin, key, value_of(json_get(object, key)), missing);
}

static bool get_bool(Folder *f, const Json *object, const char *key, bool missing) {
    return value_bool(&f->reader.origin, key, value_of(json_get(object, key)), missing);
}

/* A list with an element for each layer; NULL if the key is missing. */
static const Json *get_list(Folder *f, const char *key) {
    const Json *list = option(f->options, key);
    if (!list || (list->kind == JSON_ARRAY && (int64_t)list->n_members >= f->header->config.n_layers)) return list;
    refuse_json(f, key, list, "a list of at least num_hidden_layers elements");
    return NULL;
}

/* ---- layers --------------------------------------------------------------------------------- */

enum { IN_ALL_LAYERS = SWITCHED_EXPERTS | WIDE_EXPERTS | MIXTRAL_EXPERTS | GRANITE_EXPERTS };

/* If layers can be dense, every decoder_sparse_step-th layer has experts, unless mlp_only_layers lists it. */
static void read_experts(Folder *f) {
    Header *h = f->header;
    const bool mixtral = option_of(f, MIXTRAL_EXPERTS | GRANITE_EXPERTS), switched = option_of(f, SWITCHED_EXPERTS);
    const bool wide = mixtral || option_of(f, WIDE_EXPERTS);
    if (switched ? !get_bool(f, f->options, "use_moe", false) : !option_of(f, IN_ALL_LAYERS | EXPERTS)) return;
    const char *count = option(f->options, "num_experts") ? "num_experts" : "num_local_experts";
    const char *width = wide ? "intermediate_size" : "moe_intermediate_size";
    const Value n = value_of(option(f->options, count));
    const int min_experts = option_of(f, IN_ALL_LAYERS);
    h->n_experts = value_integer(&f->reader.origin, count, n, min_experts, MAX_EXPERTS, mixtral ? 8 : REQUIRED);
    if (h->n_experts == 0) return;
    h->n_experts_used = get_int(f, f->options, "num_experts_per_tok", 1, mixtral ? 2 : REQUIRED);
    h->config.expert_dim = get_int(f, f->options, width, 1, switched ? h->config.hidden_dim : REQUIRED);
    h->norm_weights = mixtral || get_bool(f, f->options, "norm_topk_prob", option_of(f, NORM_TOPK));
}

static void read_sparse_layers(Folder *f) {
    const int n = f->header->config.n_layers;
    const bool all = option_of(f, IN_ALL_LAYERS);
    const int step = all ? 1 : get_int(f, f->options, "decoder_sparse_step", 1, 1);
    const Json *dense = all ? NULL : option(f->options, "mlp_only_layers");
    if (dense && dense->kind != JSON_ARRAY) refuse_json(f, "mlp_only_layers", dense, "a list");
    bool *sparse = f->reader.is_sparse = allocate((size_t)n, sizeof *sparse);
    if (!sparse) f->reader.origin.status = -1;
    for (int i = 0; sparse && i < n; i++) sparse[i] = (i + 1) % step == 0;
    int64_t layer = -1;
    for (const Json *v = sparse ? json_members(dense, JSON_ARRAY) : NULL; v; v = json_next(dense, v))
        if (json_integer(v, &layer) && layer >= 0 && layer < n) sparse[layer] = false;
}

/* Returns the sliding window, in positions; 0: no window. A null means no window; a missing key has a default. */
static int read_window(Folder *f, const Json *layer_types) {
    const Json *value = json_get(f->options, "sliding_window");
    bool slides = f->reader.family->period > 0 && option_of(f, SLIDES);
    for (const Json *type = json_first(layer_types); type; type = json_next(layer_types, type)) {
        slides |= json_is(type, "sliding_attention");
        if (!json_is(type, "sliding_attention") && !json_is(type, "full_attention"))
            refuse_json(f, "layer_types", type, "full_attention or sliding_attention");
    }
    const bool used =
        option_of(f, SLIDES) || (option_of(f, SLIDES_IF_USED) && get_bool(f, f->options, "use_sliding_window", false));
    const bool none = !used || (value && json_null(value)) || (!value && !f->reader.family->window);
    const int window = none ? 0 : get_int(f, f->options, "sliding_window", 1, f->reader.family->window);
    if (slides && !window)
        refuse_json(f, "sliding_window", value,
                    used ? "a window, for layers with sliding_attention"
                         : "use_sliding_window true, for layers with sliding_attention");
    return window;
}

/* Which layers have the sliding window, and which have RoPE. */
static void read_layers(Folder *f) {
    const Config *c = &f->header->config;
    const bool some_without_rope = option_of(f, NO_ROPE_LAYERS);
    const Json *types = option_of(f, LAYER_TYPES) ? get_list(f, "layer_types") : NULL, *type = json_first(types);
    const Json *ropes = some_without_rope ? get_list(f, "no_rope_layers") : NULL, *rotates = json_first(ropes);
    int period = f->reader.family->period;
    if (option_of(f, GEMMA3)) period = get_int(f, f->options, "sliding_window_pattern", 1, period);
    if (some_without_rope && !ropes) period = get_int(f, f->options, "no_rope_layer_interval", 1, period);
    const int first = option_of(f, WINDOW_ABOVE) ? get_int(f, f->options, "max_window_layers", 0, 28) : 0;
    const int window = read_window(f, types);
    for (Layer *layer = f->reader.model->layers; layer < f->reader.model->layers + c->n_layers; layer++) {
        const bool last = period && (layer->index + 1) % period == 0;
        int64_t rope = !last;
        if (rotates && !json_integer(rotates, &rope)) refuse_json(f, "no_rope_layers", rotates, "whole numbers");
        const bool no_rope = some_without_rope && rope == 0;
        const bool by_index = some_without_rope ? no_rope : layer->index >= first && !last;
        const bool slides = window && (type ? json_is(type, "sliding_attention") : by_index);
        if (slides) layer->window = window;
        layer->rope = slides && has(&f->reader, LOCAL_ROPE) ? ROPE_LOCAL : no_rope ? ROPE_NONE : ROPE_GLOBAL;
        if (type) type = json_next(types, type);
        if (rotates) rotates = json_next(ropes, rotates);
    }
}

/* ---- RoPE: the formulas are those of transformers' modeling_rope_utils.py ------------------------- */

/* The context that the model was trained on before it was extended. */
static int original_context(Folder *f, const Json *rope) {
    const int original = get_int(f, rope, "original_max_position_embeddings", 1, f->header->config.context);
    return has(&f->reader, LOCAL_ROPE) ? original
                                       : get_int(f, f->options, "original_max_position_embeddings", 1, original);
}

/* Llama 3.1: high frequencies are unchanged, low frequencies are divided by `factor`, with a ramp between the two. */
static void read_llama3(Folder *f, const Json *rope) {
    const Config *c = &f->header->config;
    const int context = original_context(f, rope), n = c->rope.dims / 2;
    const double factor = get_real(f, rope, "factor", NAN);
    const double low = get_real(f, rope, "low_freq_factor", NAN);
    const double high = get_real(f, rope, "high_freq_factor", NAN);
    if (high <= low) refuse_json(f, "high_freq_factor", option(rope, "high_freq_factor"), "more than low_freq_factor");
    double *factors = f->reader.model->rope_factors = allocate((size_t)n, sizeof *factors);
    if (!factors) f->reader.origin.status = -1;
    for (int i = 0; factors && i < n; i++) {
        const double turns = context * rope_frequency(&c->rope, i) / (2 * M_PI);
        const double smooth = (turns - low) / (high - low);
        factors[i] = turns > high ? 1 : turns < low ? factor : 1 / ((1 - smooth) / factor + smooth);
    }
}

/* YaRN. MiniMind has the defaults and the ramp of its model_minimind.py, and scales only if its context is longer than
 * the original one. */
static void read_yarn(Folder *f, const Json *rope, bool minimind) {
    Config *c = &f->header->config;
    Yarn y = {.fast = get_real(f, rope, "beta_fast", 32), .slow = get_real(f, rope, "beta_slow", 1)};
    y.context = minimind ? get_int(f, rope, "original_max_position_embeddings", 1, 2048) : original_context(f, rope);
    y.fractional = !minimind && !has(&f->reader, LOCAL_ROPE) && !get_bool(f, rope, "truncate", true);
    y.ends_at_last_pair = minimind;
    y.factor = get_real(f, rope, "factor", minimind ? 16 : c->context / y.context);
    double amplitude = minimind ? 1 : yarn_amplitude(y.factor, 1);
    if (!minimind && option(rope, "mscale") && option(rope, "mscale_all_dim"))
        amplitude = yarn_amplitude(y.factor, get_real(f, rope, "mscale", NAN)) /
                    yarn_amplitude(y.factor, get_real(f, rope, "mscale_all_dim", NAN));
    c->rope.amplitude = get_real(f, rope, "attention_factor", amplitude);
    if (f->reader.origin.status || (minimind && c->context <= y.context)) return;
    c->rope.yarn = y;
    f->reader.model->rope_factors = yarn_factors(&c->rope, &y);
    if (!f->reader.model->rope_factors) f->reader.origin.status = -1;
}

/* LongRoPE (Ding et al. 2024). The context ends at the original one: in a longer text, other factors would apply to all
 * positions. */
static void read_longrope(Folder *f, const Json *rope) {
    Config *c = &f->header->config;
    const int original = get_int(f, f->options, "original_max_position_embeddings", 2, 4096), n = c->rope.dims / 2;
    const double factor = get_real(f, rope, "factor", (double)c->context / original);
    const Json *list = option(rope, "short_factor"), *value = json_members(list, JSON_ARRAY);
    c->rope.amplitude = get_real(f, rope, "attention_factor", factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1);
    if (!value || (int64_t)list->n_members != n)
        refuse_json(f, "short_factor", list, "a list with a number for each rotating pair");
    if (f->reader.origin.status) return;
    double *factors = f->reader.model->rope_factors = allocate((size_t)n, sizeof *factors);
    if (!factors) f->reader.origin.status = -1;
    for (int i = 0; factors && i < n; i++, value = json_next(list, value))
        if (!json_real(value, &factors[i]) || !(factors[i] > 0))
            refuse_json(f, "short_factor", value, "positive numbers");
    if (c->context <= original) return;
    c->context = original;
    f->reader.model->ended_by = "beyond it LongRoPE has other factors";
}

static void read_scaling(Folder *f, const Json *rope) {
    Config *c = &f->header->config;
    size_t bytes = 0;
    for (int i = 0; i < f->reader.model->n_files; i++) bytes += f->reader.model->files[i].size;
    if ((size_t)c->rope.dims > bytes) return; /* the weights cannot fit in the files; reader_end() fails */
    const Json *type = option(rope, option(rope, "rope_type") ? "rope_type" : "type");
    if (option_of(f, SWITCHED_YARN)) {
        if (get_bool(f, f->options, "inference_rope_scaling", false)) read_yarn(f, rope, true);
    } else if (!type || json_is(type, "default")) {
        return;
    } else if (option_of(f, LONGROPE)) { /* older names are accepted */
        if (json_is(type, "longrope") || json_is(type, "su") || json_is(type, "yarn"))
            read_longrope(f, rope);
        else
            refuse_json(f, "rope_type", type, "default or longrope");
    } else if (json_is(type, "llama3")) {
        read_llama3(f, rope);
    } else if (json_is(type, "yarn")) {
        read_yarn(f, rope, false);
    } else if (json_is(type, "linear")) {
        c->rope.scale = get_real(f, rope, "factor", NAN);
    } else if (json_is(type, "dynamic")) { /* changes only positions after the original context: end there */
        c->context = get_int(f, rope, "original_max_position_embeddings", 1, c->context);
    } else {
        refuse_json(f, "rope_type", type, "default, linear, dynamic, llama3 or yarn");
    }
}

/* The number of elements of a head that rotate. */
static int rotating_dims(Folder *f, const Json *rope) {
    const int head_size = f->header->config.head_size;
    const Json *part = option(rope, "partial_rotary_factor");
    double partial = f->reader.family->rotating > 0 ? f->reader.family->rotating : 1;
    if (!part) part = option(f->options, "partial_rotary_factor");
    if (part && (!json_real(part, &partial) || !(partial > 0 && partial <= 1))) partial = 0;
    const int dims = (int)(head_size * partial);
    if (f->reader.family->rotating == 0 && partial < 1) refuse_json(f, "partial_rotary_factor", part, "1");
    if (dims < 2 || dims % 2)
        refuse_json(f, "partial_rotary_factor", part, "a share of the head that is an even number of elements");
    return dims;
}

/* RoPE of layers with a sliding window is not scaled. Its base is given by sliding_attention, by rope_local_base_freq,
 * or by the family's default. */
static void read_local_rope(Folder *f, const Json *rope) {
    const Json *type = option(rope, option(rope, "rope_type") ? "rope_type" : "type");
    const Json *theta = option(f->options, "rope_theta");
    double base = f->reader.family->local_base;
    if (base == 0) base = f->reader.family->rope_base;
    if (type && !json_is(type, "default")) refuse_json(f, "rope_type in sliding_attention", type, "default");
    if (option_of(f, GEMMA3))
        base = get_real(f, f->options, "rope_local_base_freq", base);
    else if (theta && !option(rope, "rope_theta") && get_real(f, f->options, "rope_theta", base) != base)
        refuse_json(f, "rope_theta", theta,
                    "rope_theta in sliding_attention, too: transformers' default differs between versions");
    f->header->config.local_base = get_real(f, rope, "rope_theta", base);
}

/* Newer files have rope_parameters (with LOCAL_ROPE: one object for each type of layer), older files rope_scaling and
 * rope_theta. */
static void read_rope(Folder *f) {
    Rope *r = &f->header->config.rope;
    const double base = r->base;
    const Json *newer = option(f->options, "rope_parameters"), *rope = option(f->options, "rope_scaling");
    const bool local = has(&f->reader, LOCAL_ROPE);
    if (!rope || (rope->kind == JSON_OBJECT && rope->n_members == 0)) rope = local ? NULL : newer;
    if (local && newer && newer->kind != JSON_OBJECT) refuse_json(f, "rope_parameters", newer, "an object");
    for (const Json *key = json_members(local ? newer : NULL, JSON_OBJECT); key; key = json_next(newer, key)) {
        const bool full = json_is(key, "full_attention");
        if ((!full && !json_is(key, "sliding_attention")) || (key[1].kind != JSON_OBJECT && !json_null(key + 1)))
            refuse_json(f, key->text, key + 1, "only full_attention and sliding_attention, both objects");
        if (full && rope) refuse_json(f, "rope_scaling", rope, "null, because full_attention is given");
        if (full) rope = option(newer, "full_attention");
    }
    if (rope && rope->kind != JSON_OBJECT) refuse_json(f, "rope_scaling or rope_parameters", rope, "an object");
    for (const Json *key = json_members(rope, JSON_OBJECT); key; key = json_next(rope, key))
        if (key[1].kind == JSON_OBJECT) refuse_json(f, key->text, key + 1, "a value for all layers, not an object");
    *r = (Rope){.scale = 1, .amplitude = 1, .dims = rotating_dims(f, rope), .halves = !option_of(f, NEIGHBOUR_ROPE)};
    r->base = get_real(f, rope, "rope_theta", base);
    if (local) read_local_rope(f, option(newer, "sliding_attention"));
    if (!f->reader.origin.status) read_scaling(f, rope);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Unsupported options, and the trait or the option of the families that have them. */
static const struct {
    int trait, option;
    const char *key;
} REFUSED[] = {
    {BARE_NORMS, 0, "clip_qkv"},           {0, QKV_BIAS_OPTION, "use_parallel_residual"},
    {0, QKV_BIAS_OPTION, "qk_layernorm"},  {0, GEMMA, "use_bidirectional_attention"},
    {0, GEMMA3, "attn_logit_softcapping"}, /* transformers reads it, but applies no cap */
};

static void refuse_options(Folder *f) {
    const bool gelu = has(&f->reader, GELU);
    const char *key = option_of(f, GEMMA) ? "hidden_activation" : "hidden_act";
    const Json *act = option(f->options, key), *quantization = option(f->options, "quantization_config");
    const char *other = !gelu ? "swish" : option_of(f, GEMMA) ? "" : "gelu"; /* in Gemma 1, also the tanh form */
    if (act && !json_is(act, gelu ? "gelu_pytorch_tanh" : "silu") && !json_is(act, other))
        refuse_json(f, key, act, gelu ? "gelu_pytorch_tanh" : "silu");
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        if (!has(&f->reader, REFUSED[i].trait) && !option_of(f, REFUSED[i].option)) continue;
        const Json *value = option(f->options, REFUSED[i].key);
        if (value && (value->kind != JSON_BOOL || json_true(value)))
            refuse_json(f, REFUSED[i].key, value, "null or false");
    }
    const Json *window = json_get(f->options, "sliding_window");
    if (has(&f->reader, NO_WINDOW) && !(window && json_null(window)))
        refuse_json(f, "sliding_window", window, "null: layers without RoPE are not supported in this family");
    if (quantization)
        refuse_json(f, "quantization_config", json_get(quantization, "quant_method"),
                    "none: norma reads F32, F16 and BF16");
}

static void read_biases(Folder *f) {
    bool *biases = f->reader.biases;
    const bool all = option_of(f, USE_BIAS) && get_bool(f, f->options, "use_bias", false);
    biases[OUT_BIAS] = all || (option_of(f, ATTENTION_BIAS) && get_bool(f, f->options, "attention_bias", false));
    biases[QKV_BIAS] = option_of(f, QKV_BIASES) || biases[OUT_BIAS] ||
                       (option_of(f, QKV_BIAS_OPTION) && get_bool(f, f->options, "use_qkv_bias", false));
    biases[MLP_BIAS] = all || (option_of(f, MLP_BIASES) && get_bool(f, f->options, "mlp_bias", false));
}

static int read_model(Folder *f) {
    Reader *r = &f->reader;
    Header *h = f->header;
    r->family = family_find(&r->origin, NAME_HF, "model_type", value_of(json_get(f->options, "model_type")));
    if (!r->family) return -1;
    *h = (Header){.config = {.context = r->family->context, .head_size = r->family->head_size}};
    h->rms_eps = r->family->eps;
    h->config.rope.base = r->family->rope_base;
    refuse_options(f);
    reader_keys(r);
    read_biases(f);
    read_experts(f);
    r->model->tied = get_bool(f, f->options, "tie_word_embeddings", option_of(f, TIED_DEFAULT));
    reader_begin(r);
    if (r->origin.status) return -1;
    if (h->n_experts) read_sparse_layers(f);
    if (option_of(f, GEMMA)) {
        const Value scalar = get(r, "query_pre_attn_scalar");
        h->config.attention_scale = 1 / sqrtf(value_float(&r->origin, "query_pre_attn_scalar", scalar, 256));
    }
    read_layers(f);
    read_rope(f);
    return reader_end(r);
}

int folder_read_model(Model *m, const char *folder) {
    char path[PATH_MAX];
    JsonFile json = {0};
    Safetensors weights;
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= PATH_MAX) return fail("%s: name too long", folder);
    m->format = "Hugging Face folder";
    if (safetensors_open(&weights, m, folder)) return -1;
    Folder f = {.reader = {.path = folder, .origin = {.path = path}, .naming = NAME_HF, .model = m, .get = get}};
    f.header = &f.reader.header;
    f.reader.tensors = weights.tensors;
    f.reader.n_tensors = weights.n_tensors;
    int status = json_open(&json, path);
    f.reader.keys = f.options = json.values;
    if (!status) status = read_model(&f);
    free(f.reader.is_sparse);
    json_close(&json);
    safetensors_close(&weights);
    return status;
}
