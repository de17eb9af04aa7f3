/* llama2c.c: the checkpoints of llama2.c.
 *
 * Owns v0 (seven ints, then float32), v1 (magic, 256-byte header, float32) and v2 (as v1,
 * weights in int8 groups). Every size is checked against the file's length before it is used.
 */
#include "formats/llama2c.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/build.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x616b3432, HEADER_BYTES = 256, V0_HEADER_BYTES = 28 };

/* ---- what all formats share ------------------------------------------------------- */

typedef struct {
    const char *path;
    const File *file;
    size_t at; /* bytes taken so far */
    int group; /* TYPE_I8 weights with this group size; 0: TYPE_F32 */
} Reader;

static int32_t int_at(const File *file, size_t offset) {
    int32_t value;
    memcpy(&value, file->data + offset, sizeof value);
    return value;
}

enum { DIM, HIDDEN_DIM, N_LAYERS, N_HEADS, N_KV_HEADS, VOCAB_SIZE, SEQ_LEN, N_INTS };

/* The seven ints that every header has. */
static int read_config(Config *c, const char *path, const int32_t v[N_INTS]) {
    static const char *const names[] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                        "n_kv_heads", "vocab_size", "seq_len"};
    for (int i = 0; i < N_INTS; i++)
        if (v[i] <= 0) return fail("%s: %s is %d, expected a positive number", path, names[i], v[i]);
    *c = (Config){.dim = v[DIM],
                  .hidden_dim = v[HIDDEN_DIM],
                  .n_layers = v[N_LAYERS],
                  .n_heads = v[N_HEADS],
                  .n_kv_heads = v[N_KV_HEADS],
                  .head_size = v[DIM] / v[N_HEADS],
                  .vocab_size = v[VOCAB_SIZE],
                  .context = v[SEQ_LEN],
                  .rope_base = 10000.0,
                  .rope_scale = 1.0,
                  .rope_amplitude = 1.0,
                  .rope_dims = v[DIM] / v[N_HEADS]};
    if (c->dim % c->n_heads)
        return fail("%s: dim is %d, expected a multiple of n_heads = %d", path, c->dim, c->n_heads);
    if (c->head_size % 2)
        return fail("%s: head size (dim / n_heads) is %d, expected an even number", path, c->head_size);
    if (c->n_heads % c->n_kv_heads)
        return fail("%s: n_kv_heads is %d, expected a divisor of n_heads = %d", path, c->n_kv_heads, c->n_heads);
    return 0;
}

/* Bytes of count weights; 128 bits, so that no header makes it overflow. */
static unsigned __int128 weight_bytes(unsigned __int128 count, int group) {
    return group ? count + count / (unsigned)group * 4 : count * 4;
}

/* The file must be as long as its header says, to the byte. */
static int check_size(const Reader *r, const Config *c, bool tied, size_t header, bool rope_tables) {
    typedef unsigned __int128 u128;
    const u128 dim = (u128)c->dim, layers = (u128)c->n_layers;
    const u128 kv_dim = (u128)c->n_kv_heads * (u128)c->head_size;
    const u128 layer = 2 * dim * dim + 2 * dim * kv_dim + 3 * dim * (u128)c->hidden_dim;
    const u128 tables = (tied ? 1 : 2) * dim * (u128)c->vocab_size;
    u128 expected = header + 4 * (2 * layers + 1) * dim + weight_bytes(layers * layer + tables, r->group);
    if (rope_tables) expected += 4 * (u128)c->context * (u128)c->head_size;
    if (expected == r->file->size) return 0;
    if (expected > SIZE_MAX / 2)
        return fail("%s: its header asks for more bytes than any file has (damaged?)", r->path);
    return fail("%s: file is %zu bytes, its header asks for %zu (%s?)", r->path, r->file->size, (size_t)expected,
                expected > r->file->size ? "truncated" : "another format");
}

static const void *take(Reader *r, size_t bytes) {
    const void *p = r->file->data + r->at;
    r->at += bytes;
    return p;
}

static Norm take_norm(Reader *r, int dim) {
    return (Norm){.kind = NORM_RMS, .eps = 1e-5f, .gamma = take(r, (size_t)dim * sizeof(float))};
}

static Tensor take_tensor(Reader *r, int rows, int cols) {
    Tensor w = {.type = r->group ? TYPE_I8 : TYPE_F32, .rows = rows, .cols = cols, .group = r->group, .offset = r->at};
    const size_t count = (size_t)rows * (size_t)cols;
    w.data = take(r, r->group ? count : count * sizeof(float));
    if (r->group) w.scales = take(r, count / (size_t)r->group * sizeof(float));
    return w;
}

/* llama2.c stores one kind of tensor for all layers, then the next kind. */
#define TAKE_NORMS(field)                                                                                              \
    for (int l = 0; l < c->n_layers; l++) m->layers[l].field = take_norm(r, c->dim)
#define TAKE_TENSORS(field, rows, cols)                                                                                \
    for (int l = 0; l < c->n_layers; l++) m->layers[l].field = take_tensor(r, rows, cols)

static void take_attention(Reader *r, Model *m) {
    const Config *c = &m->config;
    const int kv_dim = c->n_kv_heads * c->head_size;
    TAKE_TENSORS(wq, c->dim, c->dim);
    TAKE_TENSORS(wk, kv_dim, c->dim);
    TAKE_TENSORS(wv, kv_dim, c->dim);
    TAKE_TENSORS(wo, c->dim, c->dim);
}

static void take_mlp(Reader *r, Model *m) {
    const Config *c = &m->config;
    TAKE_TENSORS(mlp.gate, c->hidden_dim, c->dim);
    TAKE_TENSORS(mlp.down, c->dim, c->hidden_dim);
    TAKE_TENSORS(mlp.up, c->hidden_dim, c->dim);
}

static void take_output(Reader *r, Model *m) {
    m->output = m->tied ? m->embedding : take_tensor(r, m->config.vocab_size, m->config.dim);
}

/* ---- v0 ------------------------------------------------------------------------------ */

static int open_v0(Model *m, Reader *r) {
    Config *c = &m->config;
    if (r->file->size < V0_HEADER_BYTES)
        return fail("%s: file is %zu bytes, too short for a header of %d", r->path, r->file->size, V0_HEADER_BYTES);
    int32_t ints[N_INTS];
    memcpy(ints, r->file->data, sizeof ints);
    m->tied = ints[VOCAB_SIZE] > 0; /* a negative vocab_size: a classifier of its own */
    if (!m->tied && ints[VOCAB_SIZE] != INT32_MIN) ints[VOCAB_SIZE] = -ints[VOCAB_SIZE];
    if (read_config(c, r->path, ints)) return -1;
    if (check_size(r, c, m->tied, V0_HEADER_BYTES, true) || model_allocate_layers(m)) return -1;
    r->at = V0_HEADER_BYTES;
    m->format = "llama2.c v0";
    m->embedding = take_tensor(r, c->vocab_size, c->dim);
    TAKE_NORMS(attn_norm);
    take_attention(r, m);
    TAKE_NORMS(mlp_norm);
    take_mlp(r, m);
    m->final_norm = take_norm(r, c->dim);
    take(r, (size_t)c->context * (size_t)c->head_size * sizeof(float)); /* two RoPE tables, unused */
    take_output(r, m);
    return 0;
}

/* ---- v1 and v2 ------------------------------------------------------------------------- */

static int open_v1_v2(Model *m, Reader *r) {
    Config *c = &m->config;
    if (r->file->size < HEADER_BYTES)
        return fail("%s: file is %zu bytes, too short for a header of %d", r->path, r->file->size, HEADER_BYTES);
    const int version = int_at(r->file, 4);
    if (version != 1 && version != 2) return fail("%s: version is %d, expected 1 or 2", r->path, version);
    int32_t ints[N_INTS];
    memcpy(ints, r->file->data + 8, sizeof ints);
    if (read_config(c, r->path, ints)) return -1;
    const int shared = r->file->data[36];
    if (shared > 1) return fail("%s: shared_classifier is %d, expected 0 or 1", r->path, shared);
    m->tied = shared;
    if (version == 2) {
        r->group = int_at(r->file, 37);
        if (r->group <= 0) return fail("%s: group_size is %d, expected a positive number", r->path, r->group);
        if (c->dim % r->group || c->hidden_dim % r->group)
            return fail("%s: group_size is %d, expected a divisor of dim = %d and hidden_dim = %d", r->path, r->group,
                        c->dim, c->hidden_dim);
    }
    if (check_size(r, c, m->tied, HEADER_BYTES, false) || model_allocate_layers(m)) return -1;
    r->at = HEADER_BYTES;
    m->format = version == 1 ? "llama2.c v1" : "llama2.c v2";
    TAKE_NORMS(attn_norm);
    TAKE_NORMS(mlp_norm);
    m->final_norm = take_norm(r, c->dim);
    m->embedding = take_tensor(r, c->vocab_size, c->dim);
    take_attention(r, m);
    take_mlp(r, m);
    take_output(r, m);
    return 0;
}

int llama2c_read_model(Model *m, const char *path) {
    Reader r = {.path = path, .file = m->files};
    m->bos = 1;
    m->eos = 2;
    m->eos_ends = false; /* its texts follow each other with BOS between them */
    const bool has_magic = r.file->size >= 4 && int_at(r.file, 0) == MAGIC;
    return has_magic ? open_v1_v2(m, &r) : open_v0(m, &r);
}
