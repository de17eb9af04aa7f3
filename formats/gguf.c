/* gguf.c: the model in a GGUF file, of llama and its relatives.
 *
 * Owns the names that stand for each part of a model. Every key that changes the
 * result is honoured or refused by name. The container is gguf_file.c's, the
 * tokenizer gguf_tokenizer.c's; what the blocks of a quantized tensor mean is quant.c's.
 */
#include "formats/gguf.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/build.h"
#include "formats/gguf_file.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"
#include "rope.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What the architectures that norma runs have in common with llama, and what not. */
typedef struct Architecture {
    const char *name;
    bool rope_halves;
    bool head_norms; /* q_norm and k_norm */
} Architecture;

static const Architecture ARCHITECTURES[] = {
    {"llama", false, false},
    {"qwen2", true, false},
    {"qwen3", true, true},
    {"qwen3moe", true, true},
};
enum { N_ARCHITECTURES = sizeof ARCHITECTURES / sizeof *ARCHITECTURES };

/* Keys of an architecture that are honoured here, or say nothing about the
 * computation. Any other is refused: it may change the result. */
static const char *const KNOWN_KEYS[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_used_count",
    "expert_weights_norm",
    "expert_weights_scale",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "vocab_size",
};

/* The key of the file's architecture with this name; KEY's stays until the block ends. */
static const char *own_key(const Gguf *g, const char *name, char *key, size_t size) {
    snprintf(key, size, "%s.%s", g->architecture->name, name);
    return key;
}
#define KEY(name) own_key(g, name, (char[64]){0}, 64)

static bool is_known_key(const Gguf *g, GgufString key) {
    const size_t n = strlen(g->architecture->name);
    if (key.n <= n || memcmp(key.text, g->architecture->name, n) || key.text[n] != '.') return true; /* no key of it */
    for (size_t i = 0; i < sizeof KNOWN_KEYS / sizeof *KNOWN_KEYS; i++)
        if (gguf_string_is((GgufString){key.text + n + 1, key.n - n - 1}, KNOWN_KEYS[i])) return true;
    return false;
}

static int find_architecture(Gguf *g) {
    GgufString name = {"", 0};
    if (gguf_get_string(g, "general.architecture", &name)) return -1;
    for (int i = 0; i < N_ARCHITECTURES; i++)
        if (gguf_string_is(name, ARCHITECTURES[i].name)) g->architecture = &ARCHITECTURES[i];
    if (!g->architecture)
        return fail("%s: architecture is '%.*s', expected llama, qwen2, qwen3 or qwen3moe", g->path, SHOWN(name));
    for (size_t i = 0; i < g->n_values; i++)
        if (!is_known_key(g, g->values[i].key))
            return fail("%s: metadata key %.*s is not supported", g->path, SHOWN(g->values[i].key));
    return 0;
}

static int read_sizes(const Gguf *g, Config *c) {
    int64_t window = 0;
    if (gguf_get_size(g, KEY("embedding_length"), &c->dim) ||
        gguf_get_size(g, KEY("feed_forward_length"), &c->hidden_dim) ||
        gguf_get_size(g, KEY("block_count"), &c->n_layers) || gguf_get_size(g, KEY("context_length"), &c->context) ||
        gguf_get_integer(g, KEY("attention.sliding_window"), &window))
        return -1;
    if (window > 0 && window < c->context) c->context = (int)window; /* the same result up to there */
    return 0;
}

static int read_heads(const Gguf *g, Config *c) {
    if (gguf_get_size(g, KEY("attention.head_count"), &c->n_heads)) return -1;
    c->n_kv_heads = c->n_heads;
    if (gguf_get_size(g, KEY("attention.head_count_kv"), &c->n_kv_heads)) return -1;
    if (c->n_heads % c->n_kv_heads)
        return fail("%s: %s is %d, expected a divisor of %d", g->path, KEY("attention.head_count_kv"), c->n_kv_heads,
                    c->n_heads);
    int key_length = c->dim / c->n_heads > 0 ? c->dim / c->n_heads : 1, value_length = key_length;
    const bool given = gguf_find_value(g, KEY("attention.key_length"));
    if (gguf_get_size(g, KEY("attention.key_length"), &key_length)) return -1;
    if (given) value_length = key_length;
    if (gguf_get_size(g, KEY("attention.value_length"), &value_length)) return -1;
    if (!given && c->dim % c->n_heads)
        return fail("%s: %s is %d, expected a multiple of %d heads", g->path, KEY("embedding_length"), c->dim,
                    c->n_heads);
    if (key_length != value_length || key_length % 2 || (int64_t)key_length * c->n_heads > INT_MAX)
        return fail("%s: keys of %d and values of %d to a head, expected one even number", g->path, key_length,
                    value_length);
    c->head_size = key_length;
    return 0;
}

/* A softmax over all experts, of which the best are used; their weights are divided by
 * their sum unless the file says otherwise, and by nothing else. */
static int read_experts(const Gguf *g, Config *c) {
    enum { SOFTMAX = 1 };
    int64_t experts = 0, gating = SOFTMAX, norm = 1;
    double scale = 1;
    if (gguf_get_integer(g, KEY("expert_count"), &experts)) return -1;
    if (!experts) return 0;
    if (experts < 0 || experts > MOST_EXPERTS)
        return fail("%s: %s is %lld, expected up to %d", g->path, KEY("expert_count"), (long long)experts,
                    MOST_EXPERTS);
    c->n_experts = (int)experts;
    c->expert_dim = c->hidden_dim;
    if (gguf_get_size(g, KEY("expert_used_count"), &c->n_experts_used) ||
        gguf_get_size(g, KEY("expert_feed_forward_length"), &c->expert_dim) ||
        gguf_get_integer(g, KEY("expert_gating_func"), &gating) ||
        gguf_get_integer(g, KEY("expert_weights_norm"), &norm) || gguf_get_real(g, KEY("expert_weights_scale"), &scale))
        return -1;
    if (c->n_experts_used > c->n_experts)
        return fail("%s: %s is %d, expected up to the %d that there are", g->path, KEY("expert_used_count"),
                    c->n_experts_used, c->n_experts);
    if (gating != SOFTMAX || scale != 1)
        return fail("%s: %s is %lld and %s is %g, expected 1 (softmax) and 1", g->path, KEY("expert_gating_func"),
                    (long long)gating, KEY("expert_weights_scale"), scale);
    c->norm_topk = norm;
    return 0;
}

static int read_yarn(const Gguf *g, Config *c, double factor) {
    int context = c->context;
    c->yarn = (Yarn){.factor = factor, .fast = 32, .slow = 1};
    if (gguf_get_size(g, KEY("rope.scaling.original_context_length"), &context) ||
        gguf_get_real(g, KEY("rope.scaling.yarn_beta_fast"), &c->yarn.fast) ||
        gguf_get_real(g, KEY("rope.scaling.yarn_beta_slow"), &c->yarn.slow))
        return -1;
    if (!(c->yarn.fast > 0) || !(c->yarn.slow > 0)) return fail("%s: a beta of YaRN is not positive", g->path);
    c->yarn.context = context;
    c->rope_amplitude *= yarn_amplitude(factor, 1);
    return 0;
}

/* Linear scaling divides positions; it is what a factor means unless the type
 * says otherwise. Kinds other than YaRN are refused. */
static int read_rope(const Gguf *g, Config *c) {
    GgufString type = {"linear", 6};
    double factor = 1;
    c->rope_dims = c->head_size;
    c->rope_scale = 1;
    c->rope_halves = g->architecture->rope_halves;
    if (gguf_get_size(g, KEY("rope.dimension_count"), &c->rope_dims) ||
        gguf_get_real(g, KEY("rope.freq_base"), &c->rope_base) ||
        gguf_get_real(g, KEY("rope.scaling.attn_factor"), &c->rope_amplitude) ||
        gguf_get_string(g, KEY("rope.scaling.type"), &type) ||
        gguf_get_real(g, KEY("rope.scale_linear"), &factor) /* its older name */ ||
        gguf_get_real(g, KEY("rope.scaling.factor"), &factor))
        return -1;
    if (c->rope_dims % 2 || c->rope_dims > c->head_size)
        return fail("%s: %s is %d, expected an even number up to the head size %d", g->path,
                    KEY("rope.dimension_count"), c->rope_dims, c->head_size);
    if (!(c->rope_base > 0) || !(factor > 0)) return fail("%s: RoPE's base or scaling factor is not positive", g->path);
    if (gguf_string_is(type, "yarn")) return read_yarn(g, c, factor);
    if (gguf_string_is(type, "linear"))
        c->rope_scale = factor;
    else if (!gguf_string_is(type, "none"))
        return fail("%s: %s is '%.*s', expected none, linear or yarn", g->path, KEY("rope.scaling.type"), SHOWN(type));
    return 0;
}

/* The tensor `name` with `suffix`, of a given shape; NULL if it is missing. */
static GgufEntry *take_entry(const Gguf *g, const char *name, const char *suffix, int depth, int rows, int cols,
                             int *status) {
    char full[80];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    GgufEntry *e = gguf_find_entry(g, full);
    if (!e) return NULL;
    e->used = true;
    if (e->depth == (uint64_t)depth && e->rows == (uint64_t)rows && e->cols == (uint64_t)cols) return e;
    if (e->depth == 1 && depth == 1)
        *status = fail("%s: tensor %s is [%llu, %llu], expected [%d, %d]", g->path, full, (unsigned long long)e->rows,
                       (unsigned long long)e->cols, rows, cols);
    else
        *status = fail("%s: tensor %s is [%llu, %llu, %llu], expected [%d, %d, %d]", g->path, full,
                       (unsigned long long)e->depth, (unsigned long long)e->rows, (unsigned long long)e->cols, depth,
                       rows, cols);
    return NULL;
}

/* A float32 vector; NULL if it is missing. */
static const float *take_vector(const Gguf *g, const char *name, const char *suffix, int n, int *status) {
    const GgufEntry *e = take_entry(g, name, suffix, 1, 1, n, status);
    if (!e) return NULL;
    if (e->type == TYPE_F32) return (const float *)(const void *)e->data;
    *status = fail("%s: tensor %s%s is %s, expected f32", g->path, name, suffix, type_name(e->type));
    return NULL;
}

/* The first of `depth` matrices. */
static Tensor take_matrices(const Gguf *g, const char *name, int depth, int rows, int cols, int *status) {
    const GgufEntry *e = take_entry(g, name, ".weight", depth, rows, cols, status);
    Tensor w = {.rows = rows, .cols = cols};
    if (!e) {
        if (!*status) *status = fail("%s: tensor %s.weight is missing", g->path, name);
        return w;
    }
    w.type = e->type;
    w.data = e->data;
    w.offset = (uint64_t)(e->data - g->data);
    return w;
}

static Tensor take_weight(const Gguf *g, const char *name, int rows, int cols, int *status) {
    Tensor w = take_matrices(g, name, 1, rows, cols, status);
    if (!*status) w.bias = take_vector(g, name, ".bias", rows, status);
    return w;
}

/* A norm with a bias is a LayerNorm. */
static Norm take_gguf_norm(const Gguf *g, const char *name, int dim, int *status) {
    double rms_eps = 0, eps;
    if (gguf_get_real(g, KEY("attention.layer_norm_rms_epsilon"), &rms_eps)) *status = -1;
    eps = rms_eps;
    Norm norm = {.kind = NORM_RMS, .gamma = take_vector(g, name, ".weight", dim, status)};
    norm.beta = take_vector(g, name, ".bias", dim, status);
    if (norm.beta) {
        norm.kind = NORM_LAYER;
        if (gguf_get_real(g, KEY("attention.layer_norm_epsilon"), &eps)) *status = -1;
    }
    norm.eps = (float)eps;
    if (!*status && !norm.gamma) *status = fail("%s: tensor %s.weight is missing", g->path, name);
    if (!*status && !(norm.eps > 0)) *status = fail("%s: the norms' epsilon is missing or not positive", g->path);
    return norm;
}

/* A layer on its way into the model. After a failure nothing more is taken. */
typedef struct {
    const Gguf *g;
    int l, status;
    char name[48];
} LayerReader;

static const char *layer_name(LayerReader *r, const char *part) {
    snprintf(r->name, sizeof r->name, "blk.%d.%s", r->l, part);
    return r->name;
}

static Tensor layer_weight(LayerReader *r, const char *part, int rows, int cols) {
    if (r->status) return (Tensor){0};
    return take_weight(r->g, layer_name(r, part), rows, cols, &r->status);
}

static Norm layer_norm(LayerReader *r, const char *part, int dim) {
    if (r->status) return (Norm){0};
    return take_gguf_norm(r->g, layer_name(r, part), dim, &r->status);
}

static Tensor layer_experts(LayerReader *r, const char *part, int n_experts, int rows, int cols) {
    if (r->status) return (Tensor){0};
    return take_matrices(r->g, layer_name(r, part), n_experts, rows, cols, &r->status);
}

/* Matrix i of those that lie behind w. */
static Tensor matrix_at(const Tensor *w, int i) {
    const size_t at = (size_t)i * tensor_bytes(w, w->rows);
    Tensor matrix = *w;
    matrix.data = (const uint8_t *)w->data + at;
    matrix.offset += at;
    return matrix;
}

static Mlp *take_experts(LayerReader *r, const Config *c) {
    const Tensor gate = layer_experts(r, "ffn_gate_exps", c->n_experts, c->expert_dim, c->dim);
    const Tensor up = layer_experts(r, "ffn_up_exps", c->n_experts, c->expert_dim, c->dim);
    const Tensor down = layer_experts(r, "ffn_down_exps", c->n_experts, c->dim, c->expert_dim);
    Mlp *experts = r->status ? NULL : allocate((size_t)c->n_experts, sizeof *experts);
    if (!experts) r->status = -1;
    for (int e = 0; experts && e < c->n_experts; e++)
        experts[e] = (Mlp){matrix_at(&gate, e), matrix_at(&up, e), matrix_at(&down, e)};
    return experts;
}

static int take_layer(const Gguf *g, const Config *c, int l, Layer *layer) {
    const int q_dim = c->n_heads * c->head_size, kv_dim = c->n_kv_heads * c->head_size;
    LayerReader r = {.g = g, .l = l};
    layer->attn_norm = layer_norm(&r, "attn_norm", c->dim);
    layer->wq = layer_weight(&r, "attn_q", q_dim, c->dim);
    layer->wk = layer_weight(&r, "attn_k", kv_dim, c->dim);
    layer->wv = layer_weight(&r, "attn_v", kv_dim, c->dim);
    if (g->architecture->head_norms) {
        layer->q_norm = layer_norm(&r, "attn_q_norm", c->head_size);
        layer->k_norm = layer_norm(&r, "attn_k_norm", c->head_size);
    }
    layer->wo = layer_weight(&r, "attn_output", c->dim, q_dim);
    layer->mlp_norm = layer_norm(&r, "ffn_norm", c->dim);
    if (c->n_experts && gguf_find_entry(g, layer_name(&r, "ffn_gate_inp.weight"))) {
        layer->router = layer_weight(&r, "ffn_gate_inp", c->n_experts, c->dim);
        layer->experts = take_experts(&r, c);
    } else {
        layer->mlp.gate = layer_weight(&r, "ffn_gate", c->hidden_dim, c->dim);
        layer->mlp.up = layer_weight(&r, "ffn_up", c->hidden_dim, c->dim);
        layer->mlp.down = layer_weight(&r, "ffn_down", c->dim, c->hidden_dim);
    }
    return r.status;
}

static int take_rope_factors(Model *m, const Gguf *g) {
    const Config *c = &m->config;
    const int n = c->rope_dims / 2;
    int status = 0;
    if (c->yarn.factor > 0) {
        m->rope_factors = yarn_factors(&c->rope, &c->yarn);
        return m->rope_factors ? 0 : -1;
    }
    const float *factors = take_vector(g, "rope_freqs", ".weight", n, &status);
    if (!factors) return status;
    m->rope_factors = allocate((size_t)n, sizeof *m->rope_factors);
    for (int i = 0; m->rope_factors && i < n; i++) m->rope_factors[i] = (double)factors[i];
    return m->rope_factors ? 0 : -1;
}

static int fill_model(Model *m, Gguf *g) {
    Config *c = &m->config;
    *c = (Config){.rope_base = 10000.0, .rope_amplitude = 1.0};
    if (find_architecture(g) || read_sizes(g, c) || read_heads(g, c) || read_experts(g, c) || read_rope(g, c))
        return -1;
    /* a layer has 9 tensors: no more memory for layers than the table justifies */
    if ((size_t)c->n_layers > g->n_entries / 9)
        return fail("%s: %s is %d, the file has %zu tensors", g->path, KEY("block_count"), c->n_layers, g->n_entries);
    const GgufEntry *embedding = gguf_find_entry(g, "token_embd.weight");
    c->vocab_size = embedding ? (int)embedding->rows : 1;
    if (model_allocate_layers(m)) return -1;
    int status = 0;
    m->embedding = take_weight(g, "token_embd", c->vocab_size, c->dim, &status);
    if (!status && m->embedding.bias) status = fail("%s: tensor token_embd.bias is not supported", g->path);
    bool dense = false;
    for (int l = 0; l < c->n_layers && !status; l++) {
        status = take_layer(g, c, l, &m->layers[l]);
        dense |= !m->layers[l].experts;
    }
    if (!dense) c->hidden_dim = c->expert_dim; /* no tensor vouches for the other */
    if (!status) m->final_norm = take_gguf_norm(g, "output_norm", c->dim, &status);
    m->tied = !gguf_find_entry(g, "output.weight");
    if (!status) m->output = m->tied ? m->embedding : take_weight(g, "output", c->vocab_size, c->dim, &status);
    if (!status) status = take_rope_factors(m, g);
    for (size_t i = 0; i < g->n_entries && !status; i++)
        if (!g->entries[i].used) status = fail("%s: tensor %.*s is not supported", g->path, SHOWN(g->entries[i].name));
    return status;
}

bool gguf_is(const File *file) {
    uint32_t magic = 0;
    if (file->size >= sizeof magic) memcpy(&magic, file->data, sizeof magic);
    return magic == GGUF_MAGIC;
}

int gguf_read_model(Model *m, const char *path) {
    Gguf g;
    int status = gguf_open(&g, path, m->files);
    if (!status) status = fill_model(m, &g);
    m->format = "GGUF";
    gguf_close(&g);
    return status;
}
