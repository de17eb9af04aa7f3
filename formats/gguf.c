/* gguf.c: the model in a GGUF file, of llama and its relatives.
 *
 * Owns what the metadata and the tensors of a model mean: every key that changes the result is honoured or refused
 * by name. The container is gguf_file.c's, the tokenizer gguf_tokenizer.c's, the blocks of quantized tensors quant.c's.
 */
#include "formats/gguf.h"
#include "base/memory.h"
#include "formats/parts.h"
#include "kernels/tensor.h"
#include "rope.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    LLAMA = LAYER_NORMS | ODD_HEADS | TIED, /* what it and its nearest relatives may have */
    GEMMA = PRE_NORMS | POST_NORMS | GELU | LOGIT_CAP
};

/* clang-format off */
const GgufArchitecture GGUF_ARCHITECTURES[] = {
    {"olmo", .has = PRE_NORMS | LAYER_NORMS | BARE_NORMS, .may = NEIGHBOURS | TIED},
    {"stablelm", .has = PRE_NORMS | LAYER_NORMS, .may = PARTIAL_ROPE | TIED, .has_output = true},
    {"llama", .has = PRE_NORMS, .may = LLAMA | SPARSE | NEIGHBOURS | ROPE_FACTORS | BIASES | ALL_WINDOWS},
    {"qwen2", .has = PRE_NORMS, .may = LLAMA},
    {"qwen3", .has = PRE_NORMS | HEAD_NORMS, .may = LLAMA},
    {"qwen3moe", .has = PRE_NORMS | HEAD_NORMS | SPARSE, .may = LLAMA},
    {"smollm3", .has = PRE_NORMS, .may = NEIGHBOURS | ODD_HEADS | TIED, .period = 4},
    {"granite", .has = PRE_NORMS, .may = SCALES | NEIGHBOURS | ROPE_FACTORS | BIASES | ODD_HEADS | TIED},
    {"phi3", .has = PRE_NORMS, .may = PARTIAL_ROPE | ROPE_FACTORS | TIED | ALL_WINDOWS, .fused = true},
    {"olmo2", .has = POST_NORMS | WIDE_HEAD_NORMS, .may = TIED | PERIODIC_WINDOWS, .has_output = true,
     .period = 4, .local_rope = true},
    {"gemma2", .has = GEMMA | SCORE_CAP | TIED, .may = PARTIAL_ROPE | ODD_HEADS | PERIODIC_WINDOWS,
     .default_window = 4096, .period = 2, .special_layers = 46},
    {"gemma3", .has = (GEMMA ^ LOGIT_CAP) | HEAD_NORMS, .may = LOGIT_CAP | PARTIAL_ROPE | ODD_HEADS | TIED | PERIODIC_WINDOWS,
     .period = 6, .local_rope = true, .local_base = 10000, .special_layers = 62},
    {0},
};
/* clang-format on */

void gguf_place_layer(const GgufArchitecture *a, int window, const int64_t *is_usual, Layer *layer) {
    const bool by_period = a->may & PERIODIC_WINDOWS, last = a->period && (layer->index + 1) % a->period == 0;
    const bool usual = is_usual ? *is_usual : !last;
    if (a->may & ALL_WINDOWS || (by_period && usual)) layer->window = window;
    if (by_period && usual && window && a->local_rope) layer->rope = ROPE_LOCAL;
    if (!by_period && !usual) layer->rope = ROPE_NONE;
}

bool gguf_has_norm(const GgufArchitecture *a, const Part *norm) {
    const int traits = norm->of_heads ? HEAD_NORMS | WIDE_HEAD_NORMS : norm->post ? POST_NORMS : PRE_NORMS;
    return norm->owner == OF_MODEL || a->has & traits;
}

void gguf_set_scales(const GgufArchitecture *a, Config *c) {
    if (!a->special_layers) return;
    const int head_size = c->dim / c->n_heads;
    c->embedding_scale = sqrtf((float)c->dim);
    c->attention_scale = c->n_layers == a->special_layers ? 1 / sqrtf((float)head_size) : 0;
}

bool gguf_is_fused(const GgufArchitecture *a, const PartAt *at, char *name) {
    const bool qkv = at->part->feed == QKV_FEED, gate_up = at->part->owner == OF_MLP && at->part->feed == MLP_FEED;
    if (!a->fused || !(qkv || gate_up)) return false;
    snprintf(name, PART_NAME, "blk.%d.%s", at->layer, qkv ? "attn_qkv" : "ffn_up");
    return true;
}

#define AT(field) offsetof(GgufHeader, field)
const GgufHeaderKey GGUF_KEYS[] = {
    {"vocab_size", 0, KEY_SIZE, AT(config.vocab_size), 0}, /* the embedding has as many rows */
    {"context_length", 0, KEY_SIZE, AT(config.context), 0},
    {"embedding_length", 0, KEY_SIZE, AT(config.dim), 0},
    {"feed_forward_length", 0, KEY_SIZE, AT(config.hidden_dim), 0},
    {"block_count", 0, KEY_SIZE, AT(config.n_layers), 0},
    {"attention.head_count", 0, KEY_SIZE, AT(config.n_heads), 0},
    {"attention.head_count_kv", 0, KEY_SIZE, AT(config.n_kv_heads), AT(config.n_heads)},
    {"attention.key_length", 0, KEY_SIZE, AT(config.head_size), 0},
    {"attention.value_length", 0, KEY_SIZE, AT(value_length), AT(config.head_size)},
    {"attention.layer_norm_rms_epsilon", 0, KEY_REAL, AT(rms_eps), 0},
    {"attention.layer_norm_epsilon", 0, KEY_REAL, AT(layer_eps), AT(rms_eps)},
    {"rope.dimension_count", 0, KEY_SIZE, AT(config.rope.dims), AT(config.head_size)},
    {"rope.freq_base", 0, KEY_REAL, AT(config.rope.base), 0},
    {"rope.scaling.type", 0, KEY_STRING, AT(scaling), 0},
    {"rope.scale_linear", 0, KEY_REAL, AT(linear_factor), 0},
    {"rope.scaling.factor", 0, KEY_REAL, AT(factor), AT(linear_factor)},
    {"rope.scaling.original_context_length", 0, KEY_SIZE, AT(yarn_context), AT(config.context)},
    {"rope.scaling.attn_factor", 0, KEY_REAL, AT(config.rope.amplitude), 0},
    {"rope.scaling.yarn_beta_fast", 0, KEY_REAL, AT(config.rope.yarn.fast), 0},
    {"rope.scaling.yarn_beta_slow", 0, KEY_REAL, AT(config.rope.yarn.slow), 0},
    {"expert_count", 0, KEY_INTEGER, AT(n_experts), 0},
    {"expert_used_count", 0, KEY_INTEGER, AT(n_experts_used), 0},
    {"expert_feed_forward_length", 0, KEY_SIZE, AT(config.expert_dim), AT(config.hidden_dim)},
    {"expert_weights_norm", 0, KEY_INTEGER, AT(norm_weights), 0},
    {"attention.sliding_window", 0, KEY_INTEGER, AT(window), 0},
    {"attention.sliding_window_pattern", PERIODIC_WINDOWS, KEY_NO_FIELD, 0, 0},
    {"rope.freq_base_swa", PERIODIC_WINDOWS, KEY_REAL, AT(config.local_base), 0},
    {"rope.scaling.yarn_ext_factor", 0, KEY_REAL, AT(extrapolation), 0},
    {"rope.scaling.yarn_attn_factor", 0, KEY_REAL, AT(yarn_amplitude), 0},
    {"embedding_scale", SCALES, KEY_FLOAT, AT(config.embedding_scale), 0},
    {"residual_scale", SCALES, KEY_FLOAT, AT(config.residual_scale), 0},
    {"attention.scale", SCALES, KEY_FLOAT, AT(config.attention_scale), 0},
    {"logit_scale", SCALES, KEY_FLOAT, AT(config.logit_scale), 0}, /* logits are divided by it */
    {"attn_logit_softcapping", SCORE_CAP, KEY_FLOAT, AT(config.attention_cap), 0},
    {"final_logit_softcapping", LOGIT_CAP, KEY_FLOAT, AT(config.logit_cap), 0},
    {"rope.scaling.finetuned", 0, KEY_INTEGER, AT(finetuned), 0},
    {"tensor_data_layout", 0, KEY_NO_FIELD, 0, 0},
    {0},
};

bool gguf_has_key(const GgufArchitecture *a, const GgufHeaderKey *key) {
    return !key->needs || (a->has | a->may) & key->needs;
}

/* Keys that ask for what norma (or the architecture) does not do. NEUTRAL_KEYS[v]: those that ask for nothing at the
 * value v. */
static const char *const NEUTRAL_KEYS[2][16] = {
    {"attention.clamp_kqv", "attn_logit_softcapping", "expert_shared_count", "expert_shared_feed_forward_length",
     "final_logit_softcapping", "leading_dense_block_count", "nextn_predict_layers", "pooling_type",
     "rope.scaling.yarn_log_multiplier", "use_parallel_residual"},
    {"attention.causal", "embedding_scale", "expert_gating_func" /* softmax */, "expert_group_count",
     "expert_group_used_count", "expert_weights_scale", "logit_scale", "residual_scale"}};

static const GgufHeader DEFAULTS = {
    .config = {.vocab_size = 1, .rope = {.base = 10000, .scale = 1, .amplitude = 1, .yarn = {.fast = 32, .slow = 1}}},
    .scaling = {"linear", 6},
    .finetuned = 1,
    .linear_factor = 1,
    .extrapolation = -1,
    .yarn_amplitude = 1,
    .norm_weights = 1};

typedef struct {
    Gguf file;
    const GgufArchitecture *architecture;
    GgufHeader header;
    Model *model;
} Reader;

/* ---- configuration ----------------------------------------------------------------------- */

/* Refuses a key, `rest` behind the architecture's name, that may change the result and that norma does not heed. */
static int check_key(const Reader *r, GgufString key, GgufString rest) {
    char name[GGUF_KEY_NAME];
    for (const GgufHeaderKey *known = GGUF_KEYS; known->name; known++)
        if (gguf_string_is(rest, known->name) && gguf_has_key(r->architecture, known)) return 0;
    for (int value = 0; value < 2; value++)
        for (const char *const *neutral = NEUTRAL_KEYS[value]; *neutral; neutral++) {
            double found = value;
            if (!gguf_string_is(rest, *neutral)) continue;
            snprintf(name, sizeof name, "%.*s", SHOWN(key));
            if (gguf_get(&r->file, name, KEY_NUMBER, &found)) return -1;
            return found == value ? 0 : bad_key(&r->file, name, "is %g, expected %d", found, value);
        }
    return fail("%s: metadata key %.*s is not supported", r->file.path, SHOWN(key));
}

static int read_architecture(Reader *r) {
    GgufString name = {"", 0};
    char architectures[128] = "";
    size_t n = 0;
    if (gguf_get(&r->file, "general.architecture", KEY_STRING, &name)) return -1;
    for (const GgufArchitecture *a = GGUF_ARCHITECTURES; a->name; a++) {
        n += (size_t)snprintf(architectures + n, sizeof architectures - n, " %s", a->name);
        if (gguf_string_is(name, a->name)) r->architecture = a;
    }
    if (!r->architecture)
        return fail("%s: architecture is '%.*s', expected one of%s", r->file.path, SHOWN(name), architectures);
    for (const GgufValue *v = r->file.values; v < r->file.values + r->file.n_values; v++) {
        if (v->key.n <= name.n || memcmp(v->key.text, name.text, name.n) || v->key.text[name.n] != '.') continue;
        const GgufString rest = {v->key.text + name.n + 1, v->key.n - name.n - 1};
        if (check_key(r, v->key, rest)) return -1;
    }
    return 0;
}

/* Reads all keys that the architecture has, and the defaults of its models where the file says nothing. */
static int read_keys(Reader *r) {
    const GgufArchitecture *a = r->architecture;
    Config *c = &r->header.config;
    char name[GGUF_KEY_NAME], *header = (char *)&r->header;
    r->header.window = a->default_window;
    c->wide_head_norms = a->has & WIDE_HEAD_NORMS;
    c->activation = a->has & GELU ? ACTIVATION_GELU : ACTIVATION_SILU;
    c->rope.halves = !(a->may & NEIGHBOURS);
    if (a->has & SCORE_CAP) c->attention_cap = 50;
    if (a->has & LOGIT_CAP) c->logit_cap = 30;
    for (const GgufHeaderKey *key = GGUF_KEYS; key->name; key++) {
        void *field = header + key->field;
        if (!gguf_has_key(a, key)) continue;
        snprintf(name, sizeof name, "%s.%s", a->name, key->name);
        if (key->fallback) memcpy(field, header + key->fallback, key->kind == KEY_SIZE ? sizeof(int) : sizeof(double));
        if (gguf_get(&r->file, name, key->kind, field)) return -1;
        if (field == &c->n_heads) c->head_size = c->dim / c->n_heads > 0 ? c->dim / c->n_heads : 1;
    }
    return 0;
}

/* A failure that names a key of the architecture. */
#define bad_value(r, key, format, ...)                                                                                 \
    fail("%s: %s." key " is " format, (r)->file.path, (r)->architecture->name, __VA_ARGS__)

static int check_sizes(Reader *r, Config *c) {
    char name[GGUF_KEY_NAME];
    if (c->n_heads % c->n_kv_heads)
        return bad_value(r, "attention.head_count_kv", "%d, expected a divisor of %d", c->n_kv_heads, c->n_heads);
    snprintf(name, sizeof name, "%s.attention.key_length", r->architecture->name);
    if (c->dim % c->n_heads && !gguf_find_value(&r->file, name))
        return bad_value(r, "embedding_length", "%d, expected a multiple of %d heads", c->dim, c->n_heads);
    if (c->head_size != r->header.value_length || c->head_size % 2 || (int64_t)c->head_size * c->n_heads > INT_MAX)
        return fail("%s: keys of %d and values of %d to a head, expected one even number", r->file.path, c->head_size,
                    r->header.value_length);
    if (r->architecture->fused && ((int64_t)c->head_size * (c->n_heads + 2 * (int64_t)c->n_kv_heads) > INT_MAX ||
                                   2 * (int64_t)c->hidden_dim > INT_MAX))
        return fail("%s: its fused tensors would have more than %d rows", r->file.path, INT_MAX);
    return 0;
}

/* A cap that all models of an architecture have is positive; logits are divided by their scale. */
static int read_factors(Reader *r, Config *c) {
    const GgufArchitecture *a = r->architecture;
    if ((a->has & SCORE_CAP && c->attention_cap == 0) || (a->has & LOGIT_CAP && c->logit_cap == 0))
        return fail("%s: a cap of %s is 0", r->file.path, a->name);
    if (a->may & SCALES) c->logit_scale = 1 / c->logit_scale;
    if (!isfinite(c->logit_scale)) return fail("%s: %s.logit_scale is missing or 0", r->file.path, a->name);
    gguf_set_scales(a, c);
    return 0;
}

/* The windows of layers, and how their heads rotate. */
static int read_layers(Reader *r, Model *m) {
    const GgufArchitecture *a = r->architecture;
    const GgufHeader *h = &r->header;
    const Config *c = &m->config;
    const int window = h->window < 0 ? 0 : h->window < c->context ? (int)h->window : c->context;
    char name[GGUF_KEY_NAME];
    snprintf(name, sizeof name, "%s.attention.sliding_window_pattern", a->name);
    const GgufValue *pattern = window ? gguf_find_value(&r->file, name) : NULL;
    if (pattern && (!pattern->is_array || pattern->count != (uint64_t)c->n_layers))
        return bad_key(&r->file, name, "is no array of %d elements, one for each layer", c->n_layers);
    for (Layer *layer = m->layers; layer < m->layers + c->n_layers; layer++) {
        int64_t is_usual;
        if (pattern && gguf_get_element(&r->file, name, layer->index, &is_usual)) return -1;
        gguf_place_layer(a, window, pattern ? &is_usual : NULL, layer);
        if (a->may & SCALES && !h->finetuned) layer->rope = ROPE_NONE;
    }
    return 0;
}

/* A softmax over all experts, of which the best are used; their weights are divided by
 * their sum unless the file says otherwise, and by nothing else. */
static int read_experts(Reader *r, Config *c) {
    GgufHeader *h = &r->header;
    if (!h->n_experts) return 0;
    if (h->n_experts < 0 || h->n_experts > MAX_EXPERTS)
        return bad_value(r, "expert_count", "%" PRId64 ", expected up to %d", h->n_experts, MAX_EXPERTS);
    if (h->n_experts_used < 1 || h->n_experts_used > h->n_experts)
        return bad_value(r, "expert_used_count", "%" PRId64 ", expected 1 to the %" PRId64 " that there are",
                         h->n_experts_used, h->n_experts);
    c->n_experts = (int)h->n_experts;
    c->n_experts_used = (int)h->n_experts_used;
    c->norm_topk = h->norm_weights;
    return 0;
}

/* Linear scaling divides positions; a factor without a type means it. Types other than YaRN are refused. */
static int read_rope(Reader *r, Config *c) {
    GgufHeader *h = &r->header;
    Yarn *yarn = &c->rope.yarn;
    const bool is_yarn = gguf_string_is(h->scaling, "yarn");
    const double amplitude = is_yarn ? yarn_amplitude(h->factor, 1) : 1;
    if (c->rope.dims % 2 || c->rope.dims > c->head_size)
        return bad_value(r, "rope.dimension_count", "%d, expected an even number up to the head size %d", c->rope.dims,
                         c->head_size);
    if (!(c->rope.base > 0) || !(h->factor > 0))
        return fail("%s: RoPE's base or scaling factor is not positive", r->file.path);
    if (h->extrapolation >= 0 && h->extrapolation != is_yarn)
        return bad_value(r, "rope.scaling.yarn_ext_factor", "%g, expected %d", h->extrapolation, is_yarn);
    if (h->yarn_amplitude != 1 && !(fabs(h->yarn_amplitude / amplitude - 1) < 1e-5))
        return bad_value(r, "rope.scaling.yarn_attn_factor", "%g, expected %g", h->yarn_amplitude, amplitude);
    if (is_yarn) {
        if (!(yarn->fast > 0) || !(yarn->slow > 0)) return fail("%s: a beta of YaRN is not positive", r->file.path);
        yarn->factor = h->factor;
        yarn->context = h->yarn_context;
        c->rope.amplitude *= amplitude;
    } else if (gguf_string_is(h->scaling, "linear") || gguf_string_is(h->scaling, "longrope"))
        c->rope.scale = h->factor;
    else if (!gguf_string_is(h->scaling, "none"))
        return bad_value(r, "rope.scaling.type", "'%.*s', expected none, linear, yarn or longrope", SHOWN(h->scaling));
    return 0;
}

/* The base in layers with windows. An amplitude beside YaRN's llama.cpp gives all of Gemma's layers. */
static int read_local_rope(Reader *r, Config *c) {
    const GgufArchitecture *a = r->architecture;
    const bool used = a->local_rope && r->header.window > 0;
    const double amplitude = c->rope.amplitude / yarn_amplitude(c->rope.yarn.factor, 1);
    if (c->local_base == 0) c->local_base = a->local_base > 0 ? a->local_base : c->rope.base;
    if (!(c->local_base > 0) || (a->local_base == 0 && c->local_base != c->rope.base))
        return bad_value(r, "rope.freq_base_swa", "%g, expected %g", c->local_base, c->rope.base);
    if (used && a->local_base > 0 && amplitude != 1)
        return bad_value(r, "rope.scaling.attn_factor", "%g, expected 1", amplitude);
    if (!used) c->local_base = 0;
    return 0;
}

/* ---- tensors ----------------------------------------------------------------------------- */

/* Finds a tensor by its name with `suffix` and checks its shape; *found is NULL if there is none, and none `needed`. */
static int find_tensor(Reader *r, const char *name, const char *suffix, bool needed, int depth, int rows, int cols,
                       const GgufEntry **found) {
    char full[PART_NAME + 8];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    GgufEntry *e = gguf_find_entry(&r->file, full);
    *found = e;
    if (!e) return needed ? fail("%s: tensor %s is missing", r->file.path, full) : 0;
    e->used = true;
    if (e->depth == depth && e->rows == rows && e->cols == cols) return 0;
    if (e->depth == 1 && depth == 1)
        return bad_tensor(&r->file, e->name, "is [%d, %d], expected [%d, %d]", e->rows, e->cols, rows, cols);
    return bad_tensor(&r->file, e->name, "is [%d, %d, %d], expected [%d, %d, %d]", e->depth, e->rows, e->cols, depth,
                      rows, cols);
}

/* A float32 vector; *vector is NULL if there is none. */
static int read_vector(Reader *r, const char *name, const char *suffix, bool needed, int n, const float **vector) {
    const GgufEntry *e;
    if (find_tensor(r, name, suffix, needed, 1, 1, n, &e)) return -1;
    if (e && e->type != TYPE_F32) return bad_tensor(&r->file, e->name, "is %s, expected f32", type_name(e->type));
    *vector = e ? (const float *)(const void *)e->data : NULL;
    return 0;
}

/* A vector of ones, which LayerNorms without parameters share. */
static int read_ones(Reader *r, int n, const float **ones) {
    Model *m = r->model;
    if (!m->vectors && !(m->vectors = allocate((size_t)n, sizeof *m->vectors))) return -1;
    for (int i = 0; i < n; i++) m->vectors[i] = 1;
    *ones = m->vectors;
    return 0;
}

/* A norm with a bias is a LayerNorm; architectures that have no others say it with or without. */
static int read_norm(Reader *r, const char *name, const PartAt *at) {
    const int dim = part_size(&r->model->config, at->part->cols), has = r->architecture->has;
    const bool may_be_layer = (has | r->architecture->may) & LAYER_NORMS, bare = has & BARE_NORMS;
    Norm *norm = part_norm(at);
    norm->kind = NORM_NONE;
    if (!gguf_has_norm(r->architecture, at->part)) return 0;
    if (bare ? read_ones(r, dim, &norm->gamma) : read_vector(r, name, ".weight", true, dim, &norm->gamma)) return -1;
    if (may_be_layer && !bare && read_vector(r, name, ".bias", has & LAYER_NORMS, dim, &norm->beta)) return -1;
    const bool is_layer = norm->beta || has & LAYER_NORMS;
    norm->kind = is_layer ? NORM_LAYER : NORM_RMS;
    norm->eps = (float)(is_layer ? r->header.layer_eps : r->header.rms_eps);
    return norm->eps > 0 ? 0 : fail("%s: the norms' epsilon is missing or not positive", r->file.path);
}

/* A layer with a router has experts, whose weights are one tensor: expert e's are matrix e of it. */
static int read_weight(Reader *r, const char *name, const PartAt *at) {
    const Config *c = &r->model->config;
    const bool router = at->part->rows == SIZE_EXPERTS, expert = at->part->owner == OF_EXPERT;
    const int rows = part_size(c, at->part->rows), cols = part_size(c, at->part->cols);
    const int depth = expert ? c->n_experts : 1;
    Tensor *w = part_weight(at);
    const GgufEntry *e;
    char whole[PART_NAME];
    if (router && !c->n_experts) return 0;
    const bool fused = gguf_is_fused(r->architecture, at, whole);
    const PartRows part = fused ? part_fused(at) : (PartRows){0, rows};
    if (fused) name = whole;
    if (find_tensor(r, name, ".weight", !router, depth, part.all, cols, &e)) return -1;
    if (!e) return 0;
    *w = (Tensor){.type = e->type, .rows = rows, .cols = cols};
    w->data = e->data + (size_t)at->expert * (e->bytes / (size_t)depth) + tensor_bytes(w, part.first);
    w->offset = (uint64_t)((const uint8_t *)w->data - r->file.data);
    if (router && model_allocate_experts(r->model, at->layer)) return -1;
    return expert || fused || w == &r->model->embedding ? 0 : read_vector(r, name, ".bias", false, rows, &w->bias);
}

/* Longrope has factors of its own behind the original context, which is where norma's ends. */
static int read_rope_factors(Reader *r, Model *m) {
    Config *c = &m->config;
    const int n = c->rope.dims / 2;
    const float *factors, *longer;
    if (c->rope.yarn.factor > 0) return (m->rope_factors = yarn_factors(&c->rope, &c->rope.yarn)) ? 0 : -1;
    if (read_vector(r, "rope_factors_long", ".weight", false, n, &longer) ||
        read_vector(r, longer ? "rope_factors_short" : "rope_freqs", ".weight", longer, n, &factors))
        return -1;
    if (longer && r->header.yarn_context < c->context) {
        c->context = r->header.yarn_context;
        m->ended_by = "beyond it LongRoPE has other factors";
    }
    if (factors && !(m->rope_factors = allocate((size_t)n, sizeof *m->rope_factors))) return -1;
    for (int i = 0; factors && i < n; i++) m->rope_factors[i] = (double)factors[i];
    return 0;
}

static int read_model(Reader *r, Model *m) {
    Config *c = &r->header.config;
    char name[PART_NAME];
    if (read_architecture(r) || read_keys(r) || check_sizes(r, c) || read_factors(r, c) || read_experts(r, c) ||
        read_rope(r, c) || read_local_rope(r, c))
        return -1;
    const bool ends = !(r->architecture->may & (ALL_WINDOWS | PERIODIC_WINDOWS)) && r->header.window > 0;
    if (ends && r->header.window < c->context)
        c->context = (int)r->header.window; /* which layers have it is not known; up to there the result is the same */
    /* a layer has 6 tensors: no more memory for layers than the table justifies */
    if ((size_t)c->n_layers > r->file.n_entries / 6)
        return bad_value(r, "block_count", "%d, the file has %zu tensors", c->n_layers, r->file.n_entries);
    const GgufEntry *embedding = gguf_find_entry(&r->file, "token_embd.weight");
    if (embedding) c->vocab_size = embedding->rows;
    m->config = *c;
    m->tied = !gguf_find_entry(&r->file, "output.weight");
    if (model_allocate_layers(m) || read_layers(r, m)) return -1;
    for (PartAt at = parts_of(m); next_slot(&at);)
        if ((part_norm(&at) ? read_norm : read_weight)(r, part_name(name, &at, NAME_GGUF), &at)) return -1;
    if (m->tied) m->output = m->embedding;
    if (read_rope_factors(r, m)) return -1;
    for (const GgufEntry *e = r->file.entries; e < r->file.entries + r->file.n_entries; e++)
        if (!e->used) return bad_tensor(&r->file, e->name, "is not supported");
    return 0;
}

/* Of a file without tensors. */
static int read_vocabulary(const Gguf *g, Model *m) {
    const GgufValue *pieces = gguf_find_value(g, "tokenizer.ggml.tokens");
    if (!pieces || !pieces->is_array || pieces->count < 1 || pieces->count > INT_MAX)
        return fail("%s: has neither tensors nor a vocabulary", g->path);
    m->config.vocab_size = (int)pieces->count;
    return 0;
}

/* Refuses one of several files, each with a part of the tensors. */
static int check_whole(const Gguf *g) {
    int64_t count = 1, number = 0;
    if (gguf_get(g, "split.count", KEY_INTEGER, &count) || gguf_get(g, "split.no", KEY_INTEGER, &number)) return -1;
    if (count <= 1) return 0;
    return fail("%s: is part %" PRIu64 " of %" PRId64 " of a model; llama-gguf-split --merge makes one file of them",
                g->path, (uint64_t)number + 1, count);
}

bool gguf_is(const File *file) { return file->size >= 4 && !memcmp(file->data, "GGUF", 4); }

int gguf_read_model(Model *m, const char *path) {
    Reader r = {.header = DEFAULTS, .model = m};
    m->format = "GGUF";
    const bool failed = gguf_open(&r.file, path, m->files) || check_whole(&r.file) ||
                        (r.file.n_entries ? read_model(&r, m) : read_vocabulary(&r.file, m));
    m->files->header = r.file.at;
    gguf_close(&r.file);
    return failed ? -1 : 0;
}
