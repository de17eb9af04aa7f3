/* gguf.c: GGUF files (versions 2 and 3, little-endian) of llama and its relatives.
 *
 * Owns their layout: metadata, tensor table, the names that stand for each
 * part of a model, the tokenizer inside. Every key that changes the result is
 * honoured or refused by name, and every size is checked against the file
 * before it is used. What the blocks of a quantized tensor mean is quant.c's.
 */
#include "formats/gguf.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/build.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"
#include "rope.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include "tokenizer.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GGUF_MAGIC = 0x46554747, DEFAULT_ALIGNMENT = 32, MAX_DIMS = 4 };

/* ---- reading ------------------------------------------------------------------------- */

typedef enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_VALUE_TYPES } ValueType;

static const uint8_t VALUE_BYTES[N_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct {
    const char *text; /* not zero-terminated */
    size_t n;
} String;

typedef struct {
    String key;
    ValueType type; /* of the elements, if it is an array */
    bool is_array;
    uint64_t count;    /* elements; 1 if it is no array */
    const uint8_t *at; /* the first */
    size_t bytes;      /* all */
} Value;

typedef struct {
    String name;
    Type type;
    uint64_t cols, rows, depth; /* depth: how many matrices */
    const uint8_t *data;
    uint64_t offset; /* in the data section */
    size_t bytes;
    bool used;
} Entry;

/* What the architectures that norma runs have in common with llama, and what not. */
typedef struct {
    const char *name;
    bool rope_halves;
    bool head_norms; /* q_norm and k_norm */
} Architecture;

typedef struct {
    const char *path;
    const Architecture *architecture; /* NULL: not known yet */
    const uint8_t *data;
    size_t size, at;
    Value *values; /* sorted by key */
    size_t n_values;
    Entry *entries; /* sorted by name */
    size_t n_entries;
} Gguf;

static bool has(const Gguf *g, uint64_t bytes) { return bytes <= g->size - g->at; }

static int cut_off(const Gguf *g) { return fail("%s: ends in its header, at byte %zu (truncated?)", g->path, g->at); }

static int read_u32(Gguf *g, uint32_t *value) {
    if (!has(g, sizeof *value)) return cut_off(g);
    memcpy(value, g->data + g->at, sizeof *value);
    g->at += sizeof *value;
    return 0;
}

static int read_u64(Gguf *g, uint64_t *value) {
    if (!has(g, sizeof *value)) return cut_off(g);
    memcpy(value, g->data + g->at, sizeof *value);
    g->at += sizeof *value;
    return 0;
}

static int read_string(Gguf *g, String *s) {
    uint64_t n = 0;
    if (read_u64(g, &n)) return -1;
    if (!has(g, n)) return cut_off(g);
    *s = (String){(const char *)g->data + g->at, (size_t)n};
    g->at += (size_t)n;
    return 0;
}

static int compare_strings(String a, String b) {
    const int order = memcmp(a.text, b.text, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

#define SHOWN(s) (int)((s).n < 64 ? (s).n : 64), (s).text /* for %.*s */

/* ---- metadata ------------------------------------------------------------------------- */

static int read_value(Gguf *g, Value *v) {
    uint32_t type = 0;
    if (read_string(g, &v->key) || read_u32(g, &type)) return -1;
    v->is_array = type == ARRAY;
    v->count = 1;
    if (v->is_array && (read_u32(g, &type) || read_u64(g, &v->count))) return -1;
    if (type >= N_VALUE_TYPES || type == ARRAY)
        return fail("%s: %.*s has values of type %u, expected 0 to 12 and no arrays in arrays", g->path, SHOWN(v->key),
                    type);
    v->type = (ValueType)type;
    v->at = g->data + g->at;
    if (v->type != STRING) {
        if (v->count > (g->size - g->at) / VALUE_BYTES[type]) return cut_off(g);
        g->at += (size_t)v->count * VALUE_BYTES[type];
    } else {
        for (uint64_t i = 0; i < v->count; i++) {
            String s = {0};
            if (read_string(g, &s)) return -1;
        }
    }
    v->bytes = (size_t)(g->data + g->at - v->at);
    return 0;
}

static int compare_values(const void *a, const void *b) {
    return compare_strings(((const Value *)a)->key, ((const Value *)b)->key);
}

static int read_values(Gguf *g, uint64_t count) {
    const size_t least = 8 + 4 + 1; /* bytes of the shortest */
    if (count > (g->size - g->at) / least)
        return fail("%s: %llu metadata keys do not fit in the file", g->path, (unsigned long long)count);
    g->n_values = (size_t)count;
    g->values = allocate(g->n_values, sizeof *g->values);
    if (!g->values) return -1;
    for (size_t i = 0; i < g->n_values; i++)
        if (read_value(g, &g->values[i])) return -1;
    qsort(g->values, g->n_values, sizeof *g->values, compare_values);
    for (size_t i = 1; i < g->n_values; i++)
        if (!compare_values(&g->values[i - 1], &g->values[i]))
            return fail("%s: metadata key %.*s is there twice", g->path, SHOWN(g->values[i].key));
    return 0;
}

static const Value *find_value(const Gguf *g, const char *key) {
    const Value wanted = {.key = {key, strlen(key)}};
    return bsearch(&wanted, g->values, g->n_values, sizeof *g->values, compare_values);
}

static int wrong_type(const Gguf *g, const char *key, const char *expected) {
    return fail("%s: metadata key %s has another type than expected (%s)", g->path, key, expected);
}

/* The getters leave *value alone where the key is missing; -1: it is something else. */

static int get_integer(const Gguf *g, const char *key, int64_t *value) {
    const Value *v = find_value(g, key);
    if (!v) return 0;
    uint64_t bits = 0;
    if (v->is_array || v->type == STRING || v->type == F32 || v->type == F64) return wrong_type(g, key, "an integer");
    memcpy(&bits, v->at, VALUE_BYTES[v->type]);
    if (v->type == I8) bits = (uint64_t)(int8_t)bits;
    if (v->type == I16) bits = (uint64_t)(int16_t)bits;
    if (v->type == I32) bits = (uint64_t)(int32_t)bits;
    *value = (int64_t)bits;
    return 0;
}

/* A size: 1 to 2^31 - 1. */
static int get_size(const Gguf *g, const char *key, int *value) {
    int64_t wide = *value;
    if (get_integer(g, key, &wide)) return -1;
    if (wide < 1 || wide > INT_MAX)
        return fail("%s: metadata key %s is %lld, expected 1 to %d", g->path, key, (long long)wide, INT_MAX);
    *value = (int)wide;
    return 0;
}

static int get_real(const Gguf *g, const char *key, double *value) {
    const Value *v = find_value(g, key);
    float narrow;
    if (!v) return 0;
    if (v->is_array || (v->type != F32 && v->type != F64)) return wrong_type(g, key, "a real number");
    if (v->type == F64) {
        memcpy(value, v->at, sizeof *value);
    } else {
        memcpy(&narrow, v->at, sizeof narrow);
        *value = narrow;
    }
    return isfinite(*value) ? 0 : fail("%s: metadata key %s is no finite number", g->path, key);
}

static int get_string(const Gguf *g, const char *key, String *value) {
    const Value *v = find_value(g, key);
    uint64_t n;
    if (!v) return 0;
    if (v->is_array || v->type != STRING) return wrong_type(g, key, "a string");
    memcpy(&n, v->at, sizeof n);
    *value = (String){(const char *)v->at + sizeof n, (size_t)n};
    return 0;
}

static bool is_string(String s, const char *text) { return s.n == strlen(text) && !memcmp(s.text, text, s.n); }

/* ---- the tensor table ------------------------------------------------------------------ */

static int read_entry(Gguf *g, Entry *e) {
    uint64_t dims[MAX_DIMS] = {1, 1, 1, 1};
    uint32_t n_dims = 0, type = 0;
    if (read_string(g, &e->name) || read_u32(g, &n_dims)) return -1;
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return fail("%s: tensor %.*s has %u dimensions, expected 1 to %d", g->path, SHOWN(e->name), n_dims, MAX_DIMS);
    for (uint32_t i = 0; i < n_dims; i++)
        if (read_u64(g, &dims[i])) return -1;
    if (read_u32(g, &type) || read_u64(g, &e->offset)) return -1;
    e->cols = dims[0];
    e->rows = dims[1];
    e->depth = dims[2];
    if (e->cols < 1 || e->rows < 1 || e->cols > INT_MAX || e->rows > INT_MAX || e->depth < 1 ||
        e->depth > MOST_EXPERTS || dims[3] != 1)
        return fail("%s: tensor %.*s has shape [%llu, %llu, %llu, %llu], expected a vector, a matrix or up to %d",
                    g->path, SHOWN(e->name), (unsigned long long)dims[0], (unsigned long long)dims[1],
                    (unsigned long long)dims[2], (unsigned long long)dims[3], MOST_EXPERTS);
    if (type_from_gguf(type, &e->type))
        return fail("%s: tensor %.*s has type %u, which norma does not know", g->path, SHOWN(e->name), type);
    if (e->cols % (uint64_t)type_block(e->type))
        return fail("%s: tensor %.*s has rows of %llu, expected a multiple of %d for %s", g->path, SHOWN(e->name),
                    (unsigned long long)e->cols, type_block(e->type), type_name(e->type));
    /* rows and cols are below 2^31, and no type has more than 4 bytes a weight */
    const size_t matrix = tensor_bytes(&(Tensor){.type = e->type, .cols = (int)e->cols}, (int)e->rows);
    if (__builtin_mul_overflow(matrix, e->depth, &e->bytes))
        return fail("%s: tensor %.*s has more bytes than any file", g->path, SHOWN(e->name));
    return 0;
}

static int compare_entries(const void *a, const void *b) {
    return compare_strings(((const Entry *)a)->name, ((const Entry *)b)->name);
}

static int compare_offsets(const void *a, const void *b) {
    const uint64_t x = ((const Entry *)a)->offset, y = ((const Entry *)b)->offset;
    return (x > y) - (x < y);
}

/* Every tensor must lie in the file, aligned, and over no other. */
static int place_entries(Gguf *g) {
    int64_t alignment = DEFAULT_ALIGNMENT;
    if (get_integer(g, "general.alignment", &alignment)) return -1;
    if (alignment < 4 || alignment > 1 << 20 || (alignment & (alignment - 1)))
        return fail("%s: general.alignment is %lld, expected a power of two from 4 on", g->path, (long long)alignment);
    const uint64_t a = (uint64_t)alignment, start = (g->at + a - 1) / a * a,
                   room = g->size < start ? 0 : g->size - start;
    qsort(g->entries, g->n_entries, sizeof *g->entries, compare_offsets);
    uint64_t end = 0;
    for (size_t i = 0; i < g->n_entries; i++) {
        Entry *e = &g->entries[i];
        if (e->offset % a || e->offset < end)
            return fail("%s: tensor %.*s begins at byte %llu of the data, %s", g->path, SHOWN(e->name),
                        (unsigned long long)e->offset, e->offset % a ? "which is not aligned" : "inside another one");
        if (e->offset > room || e->bytes > room - e->offset)
            return fail("%s: tensor %.*s ends behind the end of the file (truncated?)", g->path, SHOWN(e->name));
        e->data = g->data + start + e->offset;
        end = e->offset + e->bytes;
    }
    qsort(g->entries, g->n_entries, sizeof *g->entries, compare_entries);
    for (size_t i = 1; i < g->n_entries; i++)
        if (!compare_entries(&g->entries[i - 1], &g->entries[i]))
            return fail("%s: tensor %.*s is there twice", g->path, SHOWN(g->entries[i].name));
    return 0;
}

static int read_entries(Gguf *g, uint64_t count) {
    const size_t least = 8 + 4 + 8 + 4 + 8;
    if (count > (g->size - g->at) / least)
        return fail("%s: %llu tensors do not fit in the file", g->path, (unsigned long long)count);
    g->n_entries = (size_t)count;
    g->entries = allocate(g->n_entries, sizeof *g->entries);
    if (!g->entries) return -1;
    for (size_t i = 0; i < g->n_entries; i++) {
        g->entries[i] = (Entry){0};
        if (read_entry(g, &g->entries[i])) return -1;
    }
    return place_entries(g);
}

static int gguf_open(Gguf *g, const char *path, const File *file) {
    uint32_t magic = 0, version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    *g = (Gguf){.path = path, .data = file->data, .size = file->size};
    if (read_u32(g, &magic) || read_u32(g, &version)) return -1;
    if (version != 2 && version != 3)
        return fail("%s: GGUF version is %u, expected 2 or 3 (little-endian)", path, version);
    if (read_u64(g, &n_tensors) || read_u64(g, &n_values)) return -1;
    return read_values(g, n_values) || read_entries(g, n_tensors) ? -1 : 0;
}

static void gguf_close(Gguf *g) {
    free(g->values);
    free(g->entries);
}

/* ---- the model --------------------------------------------------------------------------- */

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

static bool is_known_key(const Gguf *g, String key) {
    const size_t n = strlen(g->architecture->name);
    if (key.n <= n || memcmp(key.text, g->architecture->name, n) || key.text[n] != '.') return true; /* no key of it */
    for (size_t i = 0; i < sizeof KNOWN_KEYS / sizeof *KNOWN_KEYS; i++)
        if (is_string((String){key.text + n + 1, key.n - n - 1}, KNOWN_KEYS[i])) return true;
    return false;
}

static int find_architecture(Gguf *g) {
    String name = {"", 0};
    if (get_string(g, "general.architecture", &name)) return -1;
    for (int i = 0; i < N_ARCHITECTURES; i++)
        if (is_string(name, ARCHITECTURES[i].name)) g->architecture = &ARCHITECTURES[i];
    if (!g->architecture)
        return fail("%s: architecture is '%.*s', expected llama, qwen2, qwen3 or qwen3moe", g->path, SHOWN(name));
    for (size_t i = 0; i < g->n_values; i++)
        if (!is_known_key(g, g->values[i].key))
            return fail("%s: metadata key %.*s is not supported", g->path, SHOWN(g->values[i].key));
    return 0;
}

static int read_sizes(const Gguf *g, Config *c) {
    int64_t window = 0;
    if (get_size(g, KEY("embedding_length"), &c->dim) || get_size(g, KEY("feed_forward_length"), &c->hidden_dim) ||
        get_size(g, KEY("block_count"), &c->n_layers) || get_size(g, KEY("context_length"), &c->context) ||
        get_integer(g, KEY("attention.sliding_window"), &window))
        return -1;
    if (window > 0 && window < c->context) c->context = (int)window; /* the same result up to there */
    return 0;
}

static int read_heads(const Gguf *g, Config *c) {
    if (get_size(g, KEY("attention.head_count"), &c->n_heads)) return -1;
    c->n_kv_heads = c->n_heads;
    if (get_size(g, KEY("attention.head_count_kv"), &c->n_kv_heads)) return -1;
    if (c->n_heads % c->n_kv_heads)
        return fail("%s: %s is %d, expected a divisor of %d", g->path, KEY("attention.head_count_kv"), c->n_kv_heads,
                    c->n_heads);
    int key_length = c->dim / c->n_heads > 0 ? c->dim / c->n_heads : 1, value_length = key_length;
    const bool given = find_value(g, KEY("attention.key_length"));
    if (get_size(g, KEY("attention.key_length"), &key_length)) return -1;
    if (given) value_length = key_length;
    if (get_size(g, KEY("attention.value_length"), &value_length)) return -1;
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
    if (get_integer(g, KEY("expert_count"), &experts)) return -1;
    if (!experts) return 0;
    if (experts < 0 || experts > MOST_EXPERTS)
        return fail("%s: %s is %lld, expected up to %d", g->path, KEY("expert_count"), (long long)experts,
                    MOST_EXPERTS);
    c->n_experts = (int)experts;
    c->expert_dim = c->hidden_dim;
    if (get_size(g, KEY("expert_used_count"), &c->n_experts_used) ||
        get_size(g, KEY("expert_feed_forward_length"), &c->expert_dim) ||
        get_integer(g, KEY("expert_gating_func"), &gating) || get_integer(g, KEY("expert_weights_norm"), &norm) ||
        get_real(g, KEY("expert_weights_scale"), &scale))
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
    if (get_size(g, KEY("rope.scaling.original_context_length"), &context) ||
        get_real(g, KEY("rope.scaling.yarn_beta_fast"), &c->yarn.fast) ||
        get_real(g, KEY("rope.scaling.yarn_beta_slow"), &c->yarn.slow))
        return -1;
    if (!(c->yarn.fast > 0) || !(c->yarn.slow > 0)) return fail("%s: a beta of YaRN is not positive", g->path);
    c->yarn.context = context;
    c->rope_amplitude *= yarn_amplitude(factor, 1);
    return 0;
}

/* Linear scaling divides positions; it is what a factor means unless the type
 * says otherwise. Kinds other than YaRN are refused. */
static int read_rope(const Gguf *g, Config *c) {
    String type = {"linear", 6};
    double factor = 1;
    c->rope_dims = c->head_size;
    c->rope_scale = 1;
    c->rope_halves = g->architecture->rope_halves;
    if (get_size(g, KEY("rope.dimension_count"), &c->rope_dims) || get_real(g, KEY("rope.freq_base"), &c->rope_base) ||
        get_real(g, KEY("rope.scaling.attn_factor"), &c->rope_amplitude) ||
        get_string(g, KEY("rope.scaling.type"), &type) ||
        get_real(g, KEY("rope.scale_linear"), &factor) /* its older name */ ||
        get_real(g, KEY("rope.scaling.factor"), &factor))
        return -1;
    if (c->rope_dims % 2 || c->rope_dims > c->head_size)
        return fail("%s: %s is %d, expected an even number up to the head size %d", g->path,
                    KEY("rope.dimension_count"), c->rope_dims, c->head_size);
    if (!(c->rope_base > 0) || !(factor > 0)) return fail("%s: RoPE's base or scaling factor is not positive", g->path);
    if (is_string(type, "yarn")) return read_yarn(g, c, factor);
    if (is_string(type, "linear"))
        c->rope_scale = factor;
    else if (!is_string(type, "none"))
        return fail("%s: %s is '%.*s', expected none, linear or yarn", g->path, KEY("rope.scaling.type"), SHOWN(type));
    return 0;
}

static Entry *find_entry(const Gguf *g, const char *name) {
    const Entry wanted = {.name = {name, strlen(name)}};
    return bsearch(&wanted, g->entries, g->n_entries, sizeof *g->entries, compare_entries);
}

/* The tensor `name` with `suffix`, of a given shape; NULL if it is missing. */
static Entry *take_entry(const Gguf *g, const char *name, const char *suffix, int depth, int rows, int cols,
                         int *status) {
    char full[80];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    Entry *e = find_entry(g, full);
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
    const Entry *e = take_entry(g, name, suffix, 1, 1, n, status);
    if (!e) return NULL;
    if (e->type == TYPE_F32) return (const float *)(const void *)e->data;
    *status = fail("%s: tensor %s%s is %s, expected f32", g->path, name, suffix, type_name(e->type));
    return NULL;
}

/* The first of `depth` matrices. */
static Tensor take_matrices(const Gguf *g, const char *name, int depth, int rows, int cols, int *status) {
    const Entry *e = take_entry(g, name, ".weight", depth, rows, cols, status);
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
    if (get_real(g, KEY("attention.layer_norm_rms_epsilon"), &rms_eps)) *status = -1;
    eps = rms_eps;
    Norm norm = {.kind = NORM_RMS, .gamma = take_vector(g, name, ".weight", dim, status)};
    norm.beta = take_vector(g, name, ".bias", dim, status);
    if (norm.beta) {
        norm.kind = NORM_LAYER;
        if (get_real(g, KEY("attention.layer_norm_epsilon"), &eps)) *status = -1;
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
    if (c->n_experts && find_entry(g, layer_name(&r, "ffn_gate_inp.weight"))) {
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
        m->rope_factors = yarn_factors(c, &c->yarn);
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
    const Entry *embedding = find_entry(g, "token_embd.weight");
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
    m->tied = !find_entry(g, "output.weight");
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

/* ---- the tokenizer ------------------------------------------------------------------------- */

typedef enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE } TokenType;

/* An array of the tokenizer with one element for each piece; NULL and a message
 * if it is not that. */
static const Value *piece_array(const Gguf *g, const char *key, ValueType type, int n) {
    const Value *v = find_value(g, key);
    if (v && v->is_array && v->type == type && v->count == (uint64_t)n) return v;
    fail("%s: metadata key %s is missing or no array of %d values", g->path, key, n);
    return NULL;
}

/* In a SentencePiece vocabulary control pieces never match text; in a byte-level one they do, as in Hugging Face's. */
static PieceKind kind_of(int32_t type, bool byte_level) {
    if (type == USER_DEFINED) return PIECE_USER;
    if (type == NORMAL || type == BYTE) return PIECE_TEXT; /* bytes are told apart by their name */
    return type == CONTROL && byte_level ? PIECE_SPECIAL : PIECE_CONTROL;
}

/* Scores may be NULL. */
static int fill_piece(Tokenizer *t, const Gguf *g, int id, String text, const Value *scores, const Value *types) {
    Piece *p = &t->pieces[id];
    int32_t type;
    if (text.n > INT_MAX) return fail("%s: piece %d has %zu bytes", g->path, id, text.n);
    memcpy(&type, types->at + 4 * (size_t)id, sizeof type);
    *p = (Piece){.length = (int)text.n, .kind = kind_of(type, t->byte_level), .raw = t->byte_level};
    if (scores) memcpy(&p->score, scores->at + 4 * (size_t)id, sizeof p->score);
    if (isnan(p->score)) return fail("%s: score of piece %d is not a number", g->path, id);
    if ((p->kind == PIECE_USER || p->kind == PIECE_SPECIAL) && text.n > MOST_USER_BYTES)
        return fail("%s: %s piece %d has %zu bytes, expected at most %d", g->path,
                    p->kind == PIECE_USER ? "user-defined" : "control", id, text.n, MOST_USER_BYTES);
    return 0;
}

static int fill_pieces(Tokenizer *t, const Gguf *g, int vocab_size) {
    const Value *texts = piece_array(g, "tokenizer.ggml.tokens", STRING, vocab_size), *scores = NULL;
    if (texts && !t->byte_level && !(scores = piece_array(g, "tokenizer.ggml.scores", F32, vocab_size))) return -1;
    const Value *types = texts ? piece_array(g, "tokenizer.ggml.token_type", I32, vocab_size) : NULL;
    if (!types) return -1;
    t->pieces = allocate((size_t)vocab_size, sizeof *t->pieces);
    t->text = allocate(texts->bytes, 1);
    if (!t->pieces || !t->text) return -1;
    Gguf cursor = *g;
    cursor.at = (size_t)(texts->at - g->data);
    char *to = t->text;
    for (int i = 0; i < vocab_size; i++) {
        String text = {"", 0};
        Piece *p = &t->pieces[i];
        *p = (Piece){0};
        if (read_string(&cursor, &text) || fill_piece(t, g, i, text, scores, types)) return -1;
        memcpy(to, text.text, text.n);
        if (!t->byte_level) p->length = piece_unmark(to, p->length);
        p->text = to;
        to += p->length;
        if (p->length > t->max_length) t->max_length = p->length;
    }
    t->n_pieces = vocab_size;
    return 0;
}

/* Where texts are cut; -1: norma does not know, and has said nothing. */
static int find_pretokenizer(Tokenizer *t, const Gguf *g, String name) {
    if (name.n && !is_string(name, "default")) return pretokenizer_of_name(name.text, name.n, &t->pretokenizer);
    fprintf(stderr, "note: %s does not say where texts are cut (tokenizer.ggml.pre): as by GPT-2\n", g->path);
    return pretokenizer_of_name("gpt-2", 5, &t->pretokenizer);
}

static int fill_merges(Tokenizer *t, const Gguf *g) {
    const Value *merges = find_value(g, "tokenizer.ggml.merges");
    if (!merges || !merges->is_array || merges->type != STRING)
        return fail("%s: metadata key tokenizer.ggml.merges is missing or no array of strings", g->path);
    if (bpe_begin(t, merges->count)) return -1;
    Gguf cursor = *g;
    cursor.at = (size_t)(merges->at - g->data);
    for (uint64_t i = 0; i < merges->count; i++) {
        String pair = {0};
        if (read_string(&cursor, &pair) || bpe_add(t, g->path, pair.text, pair.n)) return -1;
    }
    return bpe_end(t);
}

/* A token, where the key is there. */
static int get_id(const Gguf *g, const char *key, int vocab_size, int *id) {
    int64_t wide = *id;
    if (!find_value(g, key)) return *id < vocab_size ? 0 : fail("%s: metadata key %s is missing", g->path, key);
    if (get_integer(g, key, &wide)) return -1;
    if (wide < 0 || wide >= vocab_size)
        return fail("%s: metadata key %s is %lld, expected a token below %d", g->path, key, (long long)wide,
                    vocab_size);
    *id = (int)wide;
    return 0;
}

/* What is there whatever the vocabulary is. */
static int fill_ends(Tokenizer *t, const Gguf *g, int vocab_size) {
    int64_t add_bos = !t->no_bos;
    String template = {0};
    if (get_id(g, "tokenizer.ggml.bos_token_id", vocab_size, &t->bos) ||
        get_id(g, "tokenizer.ggml.eos_token_id", vocab_size, &t->eos) ||
        get_id(g, "tokenizer.ggml.eot_token_id", vocab_size, &t->eot) ||
        get_id(g, "tokenizer.ggml.unknown_token_id", vocab_size, &t->unk) ||
        get_integer(g, "tokenizer.ggml.add_bos_token", &add_bos) || get_string(g, "tokenizer.chat_template", &template))
        return -1;
    t->no_bos = !add_bos || t->bos < 0;
    t->chat_template = template.text;
    t->chat_template_size = template.n;
    return 0;
}

static int fill_sentencepiece(Tokenizer *t, const Gguf *g, int vocab_size) {
    int64_t add_space = 1;
    *t = (Tokenizer){.bos = 1, .eos = 2, .eot = -1, .unk = 0, .replaces_invalid = true};
    if (fill_pieces(t, g, vocab_size) || fill_ends(t, g, vocab_size) ||
        get_integer(g, "tokenizer.ggml.add_space_prefix", &add_space))
        return -1;
    t->no_space_prefix = !add_space;
    return tokenizer_index(t);
}

/* BOS is put in front if the file says so; Llama 3's files may leave it out. */
static int fill_byte_level(Tokenizer *t, const Gguf *g, int vocab_size) {
    String normalizer = {"", 0}; /* norma's own key: GGUF has no word for it */
    if (get_string(g, "norma.tokenizer.normalizer", &normalizer)) return -1;
    if (normalizer.n && !is_string(normalizer, "nfc"))
        return fail("%s: norma.tokenizer.normalizer is '%.*s', expected nfc", g->path, SHOWN(normalizer));
    t->composes = normalizer.n > 0;
    if (fill_pieces(t, g, vocab_size) || fill_merges(t, g)) return -1;
    t->no_bos = !t->pretokenizer.whole_words;
    return fill_ends(t, g, vocab_size);
}

static int read_tokenizer(Tokenizer *t, const Gguf *g, int vocab_size, bool needed) {
    String model = {"", 0}, pre = {"", 0};
    if (get_string(g, "tokenizer.ggml.model", &model) || get_string(g, "tokenizer.ggml.pre", &pre)) return -1;
    if (is_string(model, "llama")) return fill_sentencepiece(t, g, vocab_size) ? -1 : 1;
    const bool byte_level = is_string(model, "gpt2");
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1, .unk = -1, .byte_level = true, .no_space_prefix = true};
    if (byte_level && !find_pretokenizer(t, g, pre)) return fill_byte_level(t, g, vocab_size) ? -1 : 1;
    if (!needed) return 0;
    return byte_level
               ? fail("%s: tokenizer.ggml.pre is '%.*s', which norma does not know; use --tokens", g->path, SHOWN(pre))
               : fail("%s: the tokenizer is of kind '%.*s', which norma does not read; use --tokens", g->path,
                      SHOWN(model));
}

int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed) {
    Gguf g;
    *t = (Tokenizer){.bos = -1, .eos = -1, .eot = -1};
    const int found = gguf_open(&g, path, file) ? -1 : read_tokenizer(t, &g, vocab_size, needed);
    gguf_close(&g);
    if (found < 0) tokenizer_close(t);
    return found;
}
