/* folder.c: from a Hugging Face folder to a Model.
 *
 * Owns which architectures there are and what each option of config.json means: an option that changes the result is
 * honoured or refused by name; keys that the architecture's code in transformers does not read are not read here,
 * either. To add an architecture, add a row to ARCHITECTURES. Names and shapes of tensors are the table of parts'.
 */
#include "formats/folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/json.h"
#include "formats/parts.h"
#include "formats/safetensors.h"
#include "kernels/quant.h"
#include "rope.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* The features of an architecture. */
enum {
    QKV_BIASES = 1,        /* the projections to q, k and v have biases, without an option */
    ATTENTION_BIAS = 2,    /* the option attention_bias: biases of q, k, v and of the output projection */
    MLP_BIASES = 4,        /* the option mlp_bias */
    WINDOW = 8,            /* sliding_window counts in all layers */
    TIED = 16,             /* tie_word_embeddings is true where it is missing */
    EXPERTS = 32,          /* num_experts > 0, and options that leave some layers dense */
    SWITCHED_EXPERTS = 64, /* experts in every layer if use_moe is true */
    NORM_TOPK = 128,       /* norm_topk_prob is true where it is missing */
    SWITCHED_YARN = 256,   /* MiniMind's YaRN if inference_rope_scaling is true; else rope_type names the scaling */
    HEAD_NORMS = 512,      /* every layer has q_norm and k_norm */
    HEAD_NORMS_IF_STORED = 1024, /* a layer has q_norm and k_norm, or neither */
    SWITCHED_WINDOW =
        2048 /* sliding_window counts if use_sliding_window is true: in models with EXPERTS in all layers */
};

/* What one model_type has that another has not. */
typedef struct {
    const char *model_type;
    double rope_base; /* where rope_theta is missing */
    int context;      /* where max_position_embeddings is missing */
    int head_size;    /* where head_dim is missing; 0: hidden_size / num_attention_heads */
    int features;     /* a sum */
} Architecture;

static const Architecture ARCHITECTURES[] = {
    {"llama", 10000, 2048, 0, ATTENTION_BIAS | MLP_BIASES},
    {"mistral", 10000, 131072, 0, WINDOW},
    {"qwen2", 10000, 32768, 0, QKV_BIASES | SWITCHED_WINDOW},
    {"qwen3", 10000, 32768, 128, HEAD_NORMS | ATTENTION_BIAS | SWITCHED_WINDOW},
    {"qwen3_moe", 10000, 32768, 0, HEAD_NORMS | ATTENTION_BIAS | EXPERTS | SWITCHED_WINDOW},
    {"minimind", 1e6, 32768, 0, HEAD_NORMS_IF_STORED | TIED | SWITCHED_EXPERTS | NORM_TOPK | SWITCHED_YARN},
};

typedef struct {
    const char *folder;
    Model *model;
    JsonFile json;       /* config.json */
    const Json *options; /* the object in it */
    int status;          /* of reading it. -1: a message is out; no other follows */
    const Architecture *architecture;
    float eps;                 /* of every norm */
    bool biases[MLP_BIAS + 1]; /* by PartBias: whether the weights of this group have biases */
    int sparse_step;           /* in a model with experts every sparse_step-th layer has them, */
    const Json *dense_layers;  /* but those that this list names; */
    bool *is_sparse;           /* [n_layers], owned: so these have them */
    Safetensors weights;
    float *vectors; /* room for the next norm or bias */
} Folder;

static bool has(const Folder *f, int feature) { return f->architecture->features & feature; }

/* ---- options ------------------------------------------------------------------------------- */

static void refuse(Folder *f, const char *key, const Json *value, const char *expected) {
    if (!f->status) f->status = fail("%s: %s is %.64s, expected %s", f->json.path, key, json_shown(value), expected);
}

/* The value of a key; NULL if it is missing or null. */
static const Json *option(const Json *object, const char *key) {
    const Json *value = json_get(object, key);
    return json_null(value) ? NULL : value;
}

enum { REQUIRED = -1 };

/* A whole number from `least` on. `missing` is the value where there is none, or REQUIRED. */
static int get_int(Folder *f, const Json *object, const char *key, int least, int missing) {
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
static double get_real(Folder *f, const Json *object, const char *key, double missing) {
    const Json *value = option(object, key);
    double number = 0;
    if (!value && missing > 0) return missing;
    if (json_real(value, &number) && number > 0) return number;
    refuse(f, key, value, "a positive number");
    return 1;
}

static bool get_bool(Folder *f, const Json *object, const char *key, bool missing) {
    const Json *value = option(object, key);
    if (value && value->kind != JSON_BOOL) refuse(f, key, value, "true or false");
    return value ? json_true(value) : missing;
}

/* ---- the model ------------------------------------------------------------------------------ */

static void read_sizes(Folder *f) {
    Config *c = &f->model->config;
    const int head_size = f->architecture->head_size;
    const bool newer = option(f->options, "max_position_embeddings"); /* LLaMA 1 has the other, or none */
    c->dim = get_int(f, f->options, "hidden_size", 1, REQUIRED);
    c->hidden_dim = get_int(f, f->options, "intermediate_size", 1, REQUIRED);
    c->n_layers = get_int(f, f->options, "num_hidden_layers", 1, REQUIRED);
    c->n_heads = get_int(f, f->options, "num_attention_heads", 1, REQUIRED);
    c->n_kv_heads = get_int(f, f->options, "num_key_value_heads", 1, c->n_heads);
    c->vocab_size = get_int(f, f->options, "vocab_size", 1, REQUIRED);
    c->context =
        get_int(f, f->options, newer ? "max_position_embeddings" : "max_sequence_length", 1, f->architecture->context);
    c->head_size = get_int(f, f->options, "head_dim", 1, head_size ? head_size : c->dim / c->n_heads);
    f->eps = (float)get_real(f, f->options, "rms_norm_eps", 1e-6);
    if (f->status) return;
    if (!head_size && !option(f->options, "head_dim") && c->dim % c->n_heads)
        f->status = fail("%s: hidden_size is %d, expected a multiple of num_attention_heads = %d, or head_dim",
                         f->json.path, c->dim, c->n_heads);
    else if (c->head_size % 2 || (int64_t)c->head_size * c->n_heads > INT_MAX)
        f->status = fail("%s: head_dim is %d, expected an even number up to %d", f->json.path, c->head_size,
                         INT_MAX / c->n_heads);
    else if (c->n_heads % c->n_kv_heads)
        f->status = fail("%s: num_key_value_heads is %d, expected a divisor of num_attention_heads = %d", f->json.path,
                         c->n_kv_heads, c->n_heads);
    else if (!(f->eps > 0))
        refuse(f, "rms_norm_eps", option(f->options, "rms_norm_eps"), "a number that is not 0 in float32");
}

/* Attention to the last sliding_window positions alone, in some layer or all: up to the window's length it makes no
 * difference, and norma's context ends there. A null is no window; a missing one has a default. */
static void read_window(Folder *f) {
    Config *c = &f->model->config;
    const Json *types = option(f->options, "layer_types"), *window = json_get(f->options, "sliding_window");
    bool slides = has(f, WINDOW);
    if (has(f, SWITCHED_WINDOW) && get_bool(f, f->options, "use_sliding_window", false)) {
        slides = has(f, EXPERTS) || (!types && get_int(f, f->options, "max_window_layers", 0, 28) < c->n_layers);
        for (const Json *type = json_members(types, JSON_ARRAY); type; type = json_next(types, type))
            slides |= json_is(type, "sliding_attention");
    }
    if (!slides || (window && json_null(window))) return;
    const int length = get_int(f, f->options, "sliding_window", 1, 4096);
    if (length < c->context) c->context = length;
}

static void read_experts(Folder *f) {
    Config *c = &f->model->config;
    const bool switched = has(f, SWITCHED_EXPERTS);
    if (switched ? !get_bool(f, f->options, "use_moe", false) : !has(f, EXPERTS)) return;
    const char *count = option(f->options, "num_experts") ? "num_experts" : "num_local_experts";
    c->n_experts = get_int(f, f->options, count, switched ? 1 : 0, REQUIRED);
    if (c->n_experts == 0) return;
    c->n_experts_used = get_int(f, f->options, "num_experts_per_tok", 1, REQUIRED);
    c->expert_dim = get_int(f, f->options, "moe_intermediate_size", 1, switched ? c->hidden_dim : REQUIRED);
    c->norm_topk = get_bool(f, f->options, "norm_topk_prob", has(f, NORM_TOPK));
    f->sparse_step = switched ? 1 : get_int(f, f->options, "decoder_sparse_step", 1, 1);
    f->dense_layers = switched ? NULL : option(f->options, "mlp_only_layers");
    if (f->dense_layers && f->dense_layers->kind != JSON_ARRAY) refuse(f, "mlp_only_layers", f->dense_layers, "a list");
    if (f->status) return;
    if (c->n_experts > MOST_EXPERTS)
        f->status = fail("%s: %s is %d, expected at most %d", f->json.path, count, c->n_experts, MOST_EXPERTS);
    else if (c->n_experts_used > c->n_experts)
        f->status = fail("%s: num_experts_per_tok is %d, expected at most %s = %d", f->json.path, c->n_experts_used,
                         count, c->n_experts);
}

static int find_sparse_layers(Folder *f) {
    const Config *c = &f->model->config;
    int64_t dense;
    f->is_sparse = allocate((size_t)c->n_layers, sizeof *f->is_sparse);
    if (!f->is_sparse) return -1;
    for (int l = 0; l < c->n_layers; l++) f->is_sparse[l] = c->n_experts > 0 && (l + 1) % f->sparse_step == 0;
    for (const Json *v = json_first(f->dense_layers); v; v = json_next(f->dense_layers, v))
        if (json_integer(v, &dense) && dense >= 0 && dense < c->n_layers) f->is_sparse[dense] = false;
    return 0;
}

/* ---- RoPE: the formulas are those of transformers' modeling_rope_utils.py ------------------------- */

/* The positions that the model was trained on before its context was stretched. */
static int original_context(Folder *f, const Json *rope) {
    const int own = get_int(f, rope, "original_max_position_embeddings", 1, f->model->config.context);
    return get_int(f, f->options, "original_max_position_embeddings", 1, own);
}

/* Llama 3.1: pairs that turn often in the original context keep their frequency, those that turn seldom have it
 * divided by `factor`, and between the two lies a ramp. */
static void read_llama3(Folder *f, const Json *rope) {
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

/* YaRN; MiniMind's, with the defaults and the ramp of its model_minimind.py, begins behind the original context. */
static void read_yarn(Folder *f, const Json *rope, bool minimind) {
    Config *c = &f->model->config;
    Yarn y = {.fast = get_real(f, rope, "beta_fast", 32), .slow = get_real(f, rope, "beta_slow", 1)};
    y.context = minimind ? get_int(f, rope, "original_max_position_embeddings", 1, 2048) : original_context(f, rope);
    y.fractional = !minimind && !get_bool(f, rope, "truncate", true);
    y.ends_at_last_pair = minimind;
    y.factor = get_real(f, rope, "factor", minimind ? 16 : c->context / y.context);
    double amplitude = minimind ? 1 : yarn_amplitude(y.factor, 1);
    if (!minimind && option(rope, "mscale") && option(rope, "mscale_all_dim"))
        amplitude = yarn_amplitude(y.factor, get_real(f, rope, "mscale", REQUIRED)) /
                    yarn_amplitude(y.factor, get_real(f, rope, "mscale_all_dim", REQUIRED));
    c->rope.amplitude = get_real(f, rope, "attention_factor", amplitude);
    if (f->status || (minimind && c->context <= y.context)) return;
    c->rope.yarn = y;
    f->model->rope_factors = yarn_factors(&c->rope, &y);
    if (!f->model->rope_factors) f->status = -1;
}

static void read_scaling(Folder *f, const Json *rope) {
    Config *c = &f->model->config;
    const Json *type = option(rope, option(rope, "rope_type") ? "rope_type" : "type");
    if (has(f, SWITCHED_YARN)) {
        if (get_bool(f, f->options, "inference_rope_scaling", false)) read_yarn(f, rope, true);
    } else if (json_is(type, "llama3")) {
        read_llama3(f, rope);
    } else if (json_is(type, "yarn")) {
        read_yarn(f, rope, false);
    } else if (json_is(type, "linear")) {
        c->rope.scale = get_real(f, rope, "factor", REQUIRED);
    } else if (json_is(type, "dynamic")) { /* begins behind the original context, which is where norma's ends */
        c->context = get_int(f, rope, "original_max_position_embeddings", 1, c->context);
    } else if (type && !json_is(type, "default")) {
        refuse(f, "rope_type", type, "default, linear, dynamic, llama3 or yarn");
    }
}

/* Newer files have all of it in rope_parameters, older ones in rope_scaling and rope_theta. */
static void read_rope(Folder *f) {
    Rope *r = &f->model->config.rope;
    const Json *rope = option(f->options, "rope_scaling");
    if (!rope || (rope->kind == JSON_OBJECT && rope->n_members == 0)) rope = option(f->options, "rope_parameters");
    if (rope && rope->kind != JSON_OBJECT) refuse(f, "rope_scaling or rope_parameters", rope, "an object");
    for (const Json *key = json_first(rope); key; key = json_next(rope, key))
        if (key[1].kind == JSON_OBJECT) refuse(f, key->text, key + 1, "no other positions for some layers");
    *r = (Rope){.scale = 1, .amplitude = 1, .dims = f->model->config.head_size, .halves = true};
    r->base = get_real(f, f->options, "rope_theta", f->architecture->rope_base);
    r->base = get_real(f, rope, "rope_theta", r->base);
    const Json *part = option(rope, "partial_rotary_factor");
    double partial = 1;
    if (!part) part = option(f->options, "partial_rotary_factor");
    if (part && (!json_real(part, &partial) || partial != 1)) refuse(f, "partial_rotary_factor", part, "1");
    if (!f->status) read_scaling(f, rope);
}

static int read_config(Folder *f) {
    f->options = f->json.values;
    const Json *type = json_get(f->options, "model_type");
    for (size_t i = 0; i < sizeof ARCHITECTURES / sizeof *ARCHITECTURES; i++)
        if (json_is(type, ARCHITECTURES[i].model_type)) f->architecture = &ARCHITECTURES[i];
    if (!f->architecture)
        return fail("%s: model_type is %.64s, expected llama, mistral, qwen2, qwen3, qwen3_moe or minimind",
                    f->json.path, json_shown(type));
    const Json *act = option(f->options, "hidden_act"), *quantization = option(f->options, "quantization_config");
    f->biases[OUT_BIAS] = has(f, ATTENTION_BIAS) && get_bool(f, f->options, "attention_bias", false);
    f->biases[QKV_BIAS] = has(f, QKV_BIASES) || f->biases[OUT_BIAS];
    f->biases[MLP_BIAS] = has(f, MLP_BIASES) && get_bool(f, f->options, "mlp_bias", false);
    f->model->tied = get_bool(f, f->options, "tie_word_embeddings", has(f, TIED));
    if (act && !json_is(act, "silu") && !json_is(act, "swish")) refuse(f, "hidden_act", act, "silu");
    if (quantization)
        refuse(f, "quantization_config", json_get(quantization, "quant_method"), "none: norma reads F32, F16 and BF16");
    read_sizes(f);
    if (!f->status) read_experts(f);
    if (!f->status) read_rope(f);
    if (!f->status) read_window(f);
    return f->status;
}

/* ---- stored tensors ------------------------------------------------------------------------ */

/* The tensor `part` with `suffix` behind it; NULL: there is none. */
static StoredTensor *find_tensor(const Folder *f, const char *part, const char *suffix) {
    char name[2 * PART_NAME];
    snprintf(name, sizeof name, "%s%s", part, suffix);
    return safetensors_find(&f->weights, name);
}

/* Sizes as in "2, 3, 4". */
static const char *show_dims(char text[48], const int *dims, int n) {
    int length = 0;
    text[0] = '\0';
    for (int i = 0; i < n; i++) length += snprintf(text + length, 16, i ? ", %d" : "%d", dims[i]);
    return text;
}

/* The tensor, marked as used; NULL and a message if it is missing or of another shape. */
static const StoredTensor *require_tensor(const Folder *f, const char *part, const char *suffix, const int *dims,
                                          int n) {
    char found[48], expected[48];
    StoredTensor *t = find_tensor(f, part, suffix);
    if (t) t->used = true;
    if (t && t->n_dims == n && !memcmp(t->dims, dims, (size_t)n * sizeof *dims)) return t;
    if (t)
        fail("%s: %s is [%s], expected [%s]", t->path, t->name, show_dims(found, t->dims, t->n_dims),
             show_dims(expected, dims, n));
    else
        fail("%s: %s%s is in none of its files", f->folder, part, suffix);
    return NULL;
}

/* The matrix [rows, cols] that begins with element `first` of a tensor. */
static Tensor matrix_at(const StoredTensor *t, size_t first, int rows, int cols) {
    const size_t at = first * t->width;
    return (Tensor){.type = t->type, .rows = rows, .cols = cols, .data = t->data + at, .offset = t->offset + at};
}

/* The values [n] of a norm or a bias as float32; NULL and a message if they are not there. */
static const float *read_vector(Folder *f, const char *part, const char *suffix, int n) {
    const StoredTensor *t = require_tensor(f, part, suffix, &n, 1);
    if (!t) return NULL;
    const Tensor row = matrix_at(t, 0, 1, n);
    float *values = f->vectors;
    f->vectors += n;
    dequantize_row(values, &row, 0);
    return values;
}

static int read_part(Folder *f, const PartAt *at, const char *name) {
    const Config *c = &f->model->config;
    const int rows = part_size(c, at->part->rows), cols = part_size(c, at->part->cols);
    Norm *norm = part_norm(at);
    Tensor *w = part_weight(at);
    if (norm) {
        *norm = (Norm){.kind = NORM_RMS, .eps = f->eps, .gamma = read_vector(f, name, ".weight", cols)};
        return norm->gamma ? 0 : -1;
    }
    const StoredTensor *t = require_tensor(f, name, ".weight", (int[]){rows, cols}, 2);
    if (!t) return -1;
    *w = matrix_at(t, 0, rows, cols);
    if (!f->biases[at->part->bias]) return 0;
    w->bias = read_vector(f, name, ".bias", rows);
    return w->bias ? 0 : -1;
}

/* Memory for a layer's experts, which the walk then visits, and the experts themselves where they are fused in two
 * tensors: gate_up_proj [n_experts, 2 * expert_dim, dim] and down_proj [n_experts, dim, expert_dim]. */
static int begin_experts(const Folder *f, int layer) {
    const Config *c = &f->model->config;
    const int n = c->n_experts, rows = c->expert_dim, dim = c->dim;
    const size_t size = (size_t)rows * (size_t)dim;
    char name[PART_NAME];
    if (model_allocate_experts(f->model, layer)) return -1;
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.", layer);
    if (!find_tensor(f, name, "gate_up_proj")) return 0;
    const StoredTensor *in = require_tensor(f, name, "gate_up_proj", (int[]){n, (int)(2u * (unsigned)rows), dim}, 3);
    const StoredTensor *out = in ? require_tensor(f, name, "down_proj", (int[]){n, dim, rows}, 3) : NULL;
    for (size_t e = 0; out && e < (size_t)n; e++)
        f->model->layers[layer].experts[e] = (Mlp){.gate = matrix_at(in, 2 * e * size, rows, dim),
                                                   .up = matrix_at(in, (2 * e + 1) * size, rows, dim),
                                                   .down = matrix_at(out, e * size, dim, rows)};
    return out ? 0 : -1;
}

/* Whether the model has this part and it is not read yet. */
static bool is_to_be_read(const Folder *f, const PartAt *at, const char *name) {
    const Layer *layer = &f->model->layers[at->layer];
    if (part_weight(at) == &layer->router) return f->is_sparse[at->layer];
    if (at->part->owner == OF_EXPERT) return !part_weight(at)->data; /* fused experts have it */
    if (at->part->post) return false;
    if (!at->part->of_heads || has(f, HEAD_NORMS)) return true;
    if (!has(f, HEAD_NORMS_IF_STORED)) return false;
    return part_norm(at) == &layer->q_norm ? find_tensor(f, name, ".weight") != NULL : layer->q_norm.gamma != NULL;
}

static int read_parts(Folder *f) {
    Model *m = f->model;
    char name[PART_NAME];
    for (PartAt at = parts_of(m); next_slot(&at);) {
        part_name(name, &at, NAME_HF);
        if (m->tied && part_weight(&at) == &m->embedding && !find_tensor(f, name, ".weight"))
            snprintf(name, PART_NAME, "lm_head"); /* a tied model may store its table as the output */
        if (!is_to_be_read(f, &at, name)) continue;
        if (read_part(f, &at, name)) return -1;
        if (part_weight(&at) == &m->layers[at.layer].router && begin_experts(f, at.layer)) return -1;
    }
    if (m->tied) m->output = m->embedding;
    return 0;
}

/* A model can do without the output if it is the embedding, and without the angles that older files hold. */
static int check_all_used(const Folder *f) {
    static const char stored_angles[] = ".rotary_emb.inv_freq";
    for (const StoredTensor *t = f->weights.tensors; t < f->weights.tensors + f->weights.n_tensors; t++) {
        const char *angles = strstr(t->name, stored_angles);
        if (!t->used && !(f->model->tied && !strcmp(t->name, "lm_head.weight")) &&
            !(angles && !strcmp(angles, stored_angles)))
            return fail("%s: %.96s belongs to no part of a %s model that norma has", t->path, t->name,
                        f->architecture->model_type);
    }
    return 0;
}

static int read_weights(Folder *f) {
    const Safetensors *w = &f->weights;
    Model *m = f->model;
    size_t n = 0; /* elements of all vectors */
    /* a layer has 9 tensors: no more memory for layers than the files justify */
    if ((size_t)m->config.n_layers > w->n_tensors / 9)
        return fail("%s: num_hidden_layers is %d, the files have %zu tensors", f->json.path, m->config.n_layers,
                    w->n_tensors);
    for (size_t i = 0; i < w->n_tensors; i++)
        if (w->tensors[i].n_dims == 1) n += w->tensors[i].count;
    f->vectors = m->vectors = allocate(n, sizeof *f->vectors);
    if (!f->vectors || find_sparse_layers(f) || model_allocate_layers(m)) return -1;
    return read_parts(f) || check_all_used(f) ? -1 : 0;
}

int folder_read_model(Model *m, const char *folder) {
    char path[PATH_MAX];
    Folder f = {.folder = folder, .model = m};
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= PATH_MAX) return fail("%s: name too long", folder);
    if (safetensors_open(&f.weights, m, folder)) return -1;
    const int status = json_open(&f.json, path) || read_config(&f) || read_weights(&f) ? -1 : 0;
    m->format = "Hugging Face folder";
    json_close(&f.json);
    free(f.is_sparse);
    safetensors_close(&f.weights);
    return status;
}
