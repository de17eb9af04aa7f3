/* gguf_writer.c: writes GGUF files for tests, according to the format's
 * specification.
 *
 * Checks nothing, so that tests can write invalid files. hashmodel.c computes
 * the weights.
 */
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/open.h"
#include "kernels/lanes.h"
#include "kernels/tensor.h"
#include "model.h"
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

/* ---- metadata ----------------------------------------------------------- */

void gguf_set(GgufFile *f, const char *name, GgufType type, const void *value,
              size_t bytes) {
    int i = 0;
    while (i < f->n_keys && strcmp(f->keys[i].name, name))
        i++;
    if (i == f->n_keys)
        f->keys[f->n_keys++] = (GgufKey){0};
    GgufKey *key = &f->keys[i];
    free(key->value);
    snprintf(key->name, sizeof key->name, "%s", name);
    key->type = type;
    key->bytes = bytes;
    key->value = malloc(bytes + 1);
    memcpy(key->value, value, bytes);
}

void gguf_set_int(GgufFile *f, const char *name, int value) {
    gguf_set(f, name, GGUF_U32, &value, sizeof value);
}
void gguf_set_real(GgufFile *f, const char *name, float value) {
    gguf_set(f, name, GGUF_F32, &value, sizeof value);
}

void gguf_set_text(GgufFile *f, const char *name, const char *value) {
    uint64_t n = strlen(value);
    uint8_t *bytes = malloc(sizeof n + n + 1);
    memcpy(bytes, &n, sizeof n);
    memcpy(bytes + sizeof n, value, n + 1);
    gguf_set(f, name, GGUF_STRING, bytes, sizeof n + n);
    free(bytes);
}

void gguf_remove(GgufFile *f, const char *name) {
    for (int i = 0; i < f->n_keys; i++)
        if (!strcmp(f->keys[i].name, name)) {
            free(f->keys[i].value);
            memmove(&f->keys[i], &f->keys[i + 1],
                    (size_t)(--f->n_keys - i) * sizeof *f->keys);
        }
    for (int i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name)) {
            free(f->tensors[i].values);
            memmove(&f->tensors[i], &f->tensors[i + 1],
                    (size_t)(--f->n_tensors - i) * sizeof *f->tensors);
        }
    gguf_place(f);
}

/* ---- tensors ------------------------------------------------------------ */

static size_t stored_bytes(Type type, size_t count) {
    return type == TYPE_F32    ? count * 4
           : type == TYPE_Q8_0 ? count / 32 * 34
           : type > TYPE_Q8_0
               ? tensor_bytes(&(Tensor){.type = type, .cols = (int)count}, 1)
               : count * 2;
}

void gguf_place(GgufFile *f) {
    uint64_t at = 0;
    for (int i = 0; i < f->n_tensors; i++) {
        f->tensors[i].offset = at;
        at = (at + stored_bytes(f->tensors[i].stored, f->tensors[i].count) +
              63) /
             64 * 64;
    }
}

GgufTensor *gguf_tensor(GgufFile *f, const char *name) {
    for (int i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name))
            return &f->tensors[i];
    return NULL;
}

GgufTensor *gguf_add(GgufFile *f, const char *name, int rows, int cols,
                     float mean, float width, uint64_t id) {
    if (f->n_tensors == sizeof f->tensors / sizeof *f->tensors)
        abort();
    GgufTensor *t = &f->tensors[f->n_tensors++];
    *t = (GgufTensor){.n_dims = rows > 1 ? 2 : 1,
                      .dims = {(uint64_t)cols, (uint64_t)rows, 1, 1}};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->count = (size_t)rows * (size_t)cols;
    t->values = malloc(t->count * sizeof *t->values);
    for (size_t i = 0; i < t->count; i++)
        t->values[i] =
            mean + hash_uniform(id >> 32, id & 0xffffffff, i) * width;
    gguf_place(f);
    return t;
}

/* Adds n_matrices matrices with the weights of hashmodel.c as one tensor. */
static void add_matrices(GgufFile *f, const HashModel *m, const char *name,
                         int id, int n_matrices, int rows, int cols) {
    GgufTensor *t =
        gguf_add(f, name, n_matrices * rows, cols, 0,
                 id ? hash_factor(cols) : 2, m->seed << 32 | (uint64_t)id);
    if (n_matrices == 1)
        return;
    t->n_dims = 3;
    t->dims[1] = (uint64_t)rows;
    t->dims[2] = (uint64_t)n_matrices;
}

static void add_norm(GgufFile *f, const HashModel *m, const char *name, int id,
                     int dim) {
    gguf_add(f, name, 1, dim, 1, 0.5f, m->seed << 32 | (uint64_t)id);
}

/* Ids of tensors that llama2.c's files do not have. */
enum { MORE_PARTS = 4096, PER_LAYER = 16 };
enum { Q_NORM, K_NORM, Q_BIAS, K_BIAS, V_BIAS, ROUTER, GATES, DOWNS, UPS };

static void add_layer(GgufFile *f, const HashModel *m, const Relative *r,
                      int l) {
    int head_size = r->head_size ? r->head_size : m->dim / m->n_heads;
    int q_dim = m->n_heads * head_size, kv_dim = m->n_kv_heads * head_size,
        hidden = m->hidden_dim;
    int id = 1 + 9 * l, more = MORE_PARTS + PER_LAYER * l, n = r->n_experts,
        expert_dim = r->expert_dim;
    char name[64];
#define NAME(part) (snprintf(name, sizeof name, "blk.%d.%s", l, part), name)
    add_norm(f, m, NAME("attn_norm.weight"), id + 0, m->dim);
    add_matrices(f, m, NAME("attn_q.weight"), id + 1, 1, q_dim, m->dim);
    add_matrices(f, m, NAME("attn_k.weight"), id + 2, 1, kv_dim, m->dim);
    add_matrices(f, m, NAME("attn_v.weight"), id + 3, 1, kv_dim, m->dim);
    add_matrices(f, m, NAME("attn_output.weight"), id + 4, 1, m->dim, q_dim);
    if (!strncmp(r->architecture, "qwen3", 5)) {
        add_norm(f, m, NAME("attn_q_norm.weight"), more + Q_NORM, head_size);
        add_norm(f, m, NAME("attn_k_norm.weight"), more + K_NORM, head_size);
    }
    if (r->biases) {
        gguf_add(f, NAME("attn_q.bias"), 1, q_dim, 0, 1,
                 m->seed << 32 | (uint64_t)(more + Q_BIAS));
        gguf_add(f, NAME("attn_k.bias"), 1, kv_dim, 0, 1,
                 m->seed << 32 | (uint64_t)(more + K_BIAS));
        gguf_add(f, NAME("attn_v.bias"), 1, kv_dim, 0, 1,
                 m->seed << 32 | (uint64_t)(more + V_BIAS));
    }
    add_norm(f, m, NAME("ffn_norm.weight"), id + 5, m->dim);
    if (l < r->n_dense || !n) {
        add_matrices(f, m, NAME("ffn_gate.weight"), id + 6, 1, hidden, m->dim);
        add_matrices(f, m, NAME("ffn_down.weight"), id + 7, 1, m->dim, hidden);
        add_matrices(f, m, NAME("ffn_up.weight"), id + 8, 1, hidden, m->dim);
    } else {
        add_matrices(f, m, NAME("ffn_gate_inp.weight"), more + ROUTER, 1, n,
                     m->dim);
        add_matrices(f, m, NAME("ffn_gate_exps.weight"), more + GATES, n,
                     expert_dim, m->dim);
        add_matrices(f, m, NAME("ffn_down_exps.weight"), more + DOWNS, n,
                     m->dim, expert_dim);
        add_matrices(f, m, NAME("ffn_up_exps.weight"), more + UPS, n,
                     expert_dim, m->dim);
    }
#undef NAME
}

const GoldenRelative GOLDEN_RELATIVES[N_GOLDEN_RELATIVES] = {
    {"qwen2",
     {48, 80, 2, 4, 2, 60, 64, true, 21},
     {.architecture = "qwen2", .head_size = 12, .biases = true}},
    {"qwen3",
     {64, 96, 2, 4, 2, 60, 64, false, 22},
     {.architecture = "qwen3", .head_size = 24}},
    {"qwen3moe",
     {64, 96, 2, 4, 1, 60, 64, true, 23},
     {.architecture = "qwen3moe",
      .head_size = 16,
      .n_experts = 8,
      .n_experts_used = 2,
      .expert_dim = 32}},
    {"plain_moe",
     {40, 72, 3, 2, 2, 60, 64, true, 24},
     {.architecture = "qwen3moe",
      .head_size = 80,
      .n_experts = 5,
      .n_experts_used = 3,
      .expert_dim = 36,
      .n_dense = 1,
      .plain_weights = true}},
    {"yarn",
     {64, 96, 2, 4, 2, 60, 64, false, 25},
     {.architecture = "qwen2",
      .head_size = 24,
      .biases = true,
      .rope_amplitude = 1.25f,
      .rope_factors = true}},
};

const char *gguf_key(const Relative *r, const char *name) {
    static char keys[4][64];
    static int next;
    char *key = keys[next++ % 4];
    snprintf(key, sizeof keys[0], "%s.%s", r->architecture, name);
    return key;
}

static void set_sizes(GgufFile *f, const HashModel *m, const Relative *r) {
    gguf_set_int(f, gguf_key(r, "embedding_length"), m->dim);
    gguf_set_int(f, gguf_key(r, "feed_forward_length"), m->hidden_dim);
    gguf_set_int(f, gguf_key(r, "block_count"), m->n_layers);
    gguf_set_int(f, gguf_key(r, "attention.head_count"), m->n_heads);
    gguf_set_int(f, gguf_key(r, "attention.head_count_kv"), m->n_kv_heads);
    gguf_set_int(f, gguf_key(r, "context_length"), m->context);
    gguf_set_real(f, gguf_key(r, "attention.layer_norm_rms_epsilon"), 1e-5f);
    if (r->head_size) {
        gguf_set_int(f, gguf_key(r, "attention.key_length"), r->head_size);
        gguf_set_int(f, gguf_key(r, "attention.value_length"), r->head_size);
    }
    if (r->n_experts) {
        gguf_set_int(f, gguf_key(r, "expert_count"), r->n_experts);
        gguf_set_int(f, gguf_key(r, "expert_used_count"), r->n_experts_used);
        gguf_set_int(f, gguf_key(r, "expert_feed_forward_length"),
                     r->expert_dim);
    }
    if (r->plain_weights)
        gguf_set(f, gguf_key(r, "expert_weights_norm"), GGUF_BOOL,
                 &(bool){false}, 1);
    if (r->rope_amplitude != 0)
        gguf_set_real(f, gguf_key(r, "rope.scaling.attn_factor"),
                      r->rope_amplitude);
}

void gguf_make_relative(GgufFile *f, const HashModel *m, const Relative *r) {
    *f = (GgufFile){.magic = 0x46554747, .version = 3, .alignment = 32};
    gguf_set_text(f, "general.architecture", r->architecture);
    gguf_set_text(f, "general.name", "a random model");
    set_sizes(f, m, r);
    add_matrices(f, m, "token_embd.weight", 0, 1, m->vocab_size, m->dim);
    for (int l = 0; l < m->n_layers; l++)
        add_layer(f, m, r, l);
    add_norm(f, m, "output_norm.weight", 1 + 9 * m->n_layers, m->dim);
    if (m->untied)
        add_matrices(f, m, "output.weight", 2 + 9 * m->n_layers, 1,
                     m->vocab_size, m->dim);
    if (r->rope_factors)
        gguf_add(f, "rope_freqs.weight", 1, r->head_size / 2, 4, 4,
                 m->seed << 32 | (MORE_PARTS - 1));
}

void gguf_make(GgufFile *f, const HashModel *m, int head_size) {
    gguf_make_relative(
        f, m, &(Relative){.architecture = "llama", .head_size = head_size});
}

/* ---- families ----------------------------------------------------------- */

const char *const GGUF_FAMILIES[N_GGUF_FAMILIES] = {
    "olmo",    "olmo2", "gemma2",  "gemma3",
    "granite", "phi3",  "smollm3", "stablelm"};

static void rename_all(GgufFile *f, const char *from, const char *to) {
    for (int i = 0; i < f->n_tensors; i++) {
        char rest[64], *at = strstr(f->tensors[i].name, from);
        if (!at)
            continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(from));
        snprintf(at,
                 sizeof f->tensors[i].name - (size_t)(at - f->tensors[i].name),
                 "%s%s", to, rest);
    }
}

/* Replaces several tensors, whose names are separated by spaces, by one tensor
 * of all their rows. */
static void fuse(GgufFile *f, int layer, const char *names, const char *name) {
    char full[64], list[64], *next = list;
    float *values = malloc(1 << 22);
    size_t n = 0;
    snprintf(list, sizeof list, "%s", names);
    int rows = 0, cols = 0;
    for (char *part; (part = strsep(&next, " "));) {
        snprintf(full, sizeof full, "blk.%d.%s.weight", layer, part);
        const GgufTensor *t = gguf_tensor(f, full);
        memcpy(values + n, t->values, t->count * sizeof *values);
        n += t->count;
        cols = (int)t->dims[0];
        rows += (int)t->dims[1];
        gguf_remove(f, full);
    }
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    memcpy(gguf_add(f, full, rows, cols, 0, 1, 0)->values, values,
           n * sizeof *values);
    free(values);
}

static void add_family_layer(GgufFile *f, const HashModel *m, const char *a,
                             int l) {
    int size = m->dim / m->n_heads, id = 1 << 20 | l << 4;
    char name[64];
#define NAME(part) (snprintf(name, sizeof name, "blk.%d.%s", l, part), name)
    bool gemma = !strncmp(a, "gemma", 5), wide = !strcmp(a, "olmo2");
    if (gemma)
        add_norm(f, m, NAME("post_attention_norm.weight"), id, m->dim);
    if (gemma)
        add_norm(f, m, NAME("post_ffw_norm.weight"), id + 1, m->dim);
    if (wide || !strcmp(a, "gemma3")) {
        add_norm(f, m, NAME("attn_q_norm.weight"), id + 2,
                 size * (wide ? m->n_heads : 1));
        add_norm(f, m, NAME("attn_k_norm.weight"), id + 3,
                 size * (wide ? m->n_kv_heads : 1));
    }
    if (!strcmp(a, "stablelm")) {
        gguf_add(f, NAME("attn_norm.bias"), 1, m->dim, 0, 1, (uint64_t)id + 4);
        gguf_add(f, NAME("ffn_norm.bias"), 1, m->dim, 0, 1, (uint64_t)id + 5);
    }
#undef NAME
    if (strcmp(a, "phi3") != 0)
        return;
    fuse(f, l, "attn_q attn_k attn_v", "attn_qkv");
    fuse(f, l, "ffn_gate ffn_up", "ffn_up");
}

static void add_family_keys(GgufFile *f, const HashModel *m,
                            const Relative *r) {
    const char *a = r->architecture;
    int size = m->dim / m->n_heads;
    if (strchr("go", a[0]) && strcmp(a, "granite") && strcmp(a, "olmo"))
        gguf_set_int(f, gguf_key(r, "attention.sliding_window"), FAMILY_WINDOW);
    if (!strcmp(a, "olmo") || !strcmp(a, "stablelm")) {
        gguf_remove(f, gguf_key(r, "attention.layer_norm_rms_epsilon"));
        gguf_set_real(f, gguf_key(r, "attention.layer_norm_epsilon"), 1e-5f);
    }
    if (!strcmp(a, "stablelm")) {
        gguf_set(f, "stablelm.use_parallel_residual", GGUF_BOOL, &(bool){false},
                 1);
        gguf_add(f, "output_norm.bias", 1, m->dim, 0, 1, 6);
    }
    if (!strcmp(a, "gemma2"))
        gguf_set_real(f, "gemma2.attn_logit_softcapping", 2);
    if (!strcmp(a, "gemma2"))
        gguf_set_real(f, "gemma2.final_logit_softcapping", 3);
    if (!strcmp(a, "gemma3"))
        gguf_set_real(f, "gemma3.rope.freq_base", 1e6f);
    if (!strcmp(a, "stablelm") || !strcmp(a, "phi3"))
        gguf_set_int(f, gguf_key(r, "rope.dimension_count"), size / 4 * 2);
    if (!strcmp(a, "phi3")) {
        gguf_add(f, "rope_factors_long.weight", 1, size / 4, 8, 4, 7);
        gguf_add(f, "rope_factors_short.weight", 1, size / 4, 2, 1, 8);
        gguf_set_real(f, "phi3.rope.scaling.attn_factor", 1.25f);
        gguf_set_int(f, "phi3.rope.scaling.original_context_length",
                     m->context - 8);
    }
    if (strcmp(a, "granite") != 0)
        return;
    gguf_set_real(f, "granite.embedding_scale", 3);
    gguf_set_real(f, "granite.residual_scale", 0.5f);
    gguf_set_real(f, "granite.attention.scale", 0.25f);
    gguf_set_real(f, "granite.logit_scale", 4);
}

void gguf_make_family(GgufFile *f, const HashModel *m,
                      const char *architecture) {
    Relative r = {.architecture = architecture};
    gguf_make_relative(f, m, &r);
    for (int l = 0; l < m->n_layers; l++)
        add_family_layer(f, m, architecture, l);
    add_family_keys(f, m, &r);
    if (!strcmp(architecture, "olmo2"))
        rename_all(f, ".attn_norm.", ".post_attention_norm.");
    if (!strcmp(architecture, "olmo2"))
        rename_all(f, ".ffn_norm.", ".post_ffw_norm.");
    for (int i = f->n_tensors; !strcmp(architecture, "olmo") && i-- > 0;)
        if (strstr(f->tensors[i].name, "_norm."))
            gguf_remove(f, f->tensors[i].name);
}

void gguf_free(GgufFile *f) {
    for (int i = 0; i < f->n_keys; i++)
        free(f->keys[i].value);
    for (int i = 0; i < f->n_tensors; i++)
        free(f->tensors[i].values);
    f->n_keys = f->n_tensors = 0;
}

/* ---- weight types ------------------------------------------------------- */

/* Rounds to bfloat16, the upper half of a float32; ties to even. */
static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Quantizes 32 weights; returns their scale. */
static uint16_t to_q8_0(int8_t *q, const float *x) {
    float max = 0;
    for (int i = 0; i < 32; i++)
        max = fmaxf(max, fabsf(x[i]));
    uint16_t half = f32_to_f16(max / 127);
    float scale = f16_to_f32(half);
    for (int i = 0; i < 32; i++)
        q[i] = scale > 0 ? (int8_t)fmaxf(-127, fminf(127, rintf(x[i] / scale)))
                         : 0;
    return half;
}

static void round_values(GgufTensor *t) {
    for (size_t i = 0; i < t->count; i++) {
        if (t->stored == TYPE_F16)
            t->values[i] = f16_to_f32(f32_to_f16(t->values[i]));
        if (t->stored == TYPE_BF16)
            t->values[i] = from_bf16(to_bf16(t->values[i]));
        if (t->stored == TYPE_Q8_0 && i % 32 == 0) {
            int8_t q[32];
            float scale = f16_to_f32(to_q8_0(q, t->values + i));
            for (int k = 0; k < 32; k++)
                t->values[i + (size_t)k] = q[k] * scale;
        }
    }
}

void gguf_convert(GgufFile *f, Type type) {
    uint32_t numbers[] = {
        [TYPE_F32] = 0, [TYPE_F16] = 1, [TYPE_BF16] = 30, [TYPE_Q8_0] = 8};
    for (int i = 0; i < f->n_tensors; i++) {
        GgufTensor *t = &f->tensors[i];
        if (t->n_dims < 2)
            continue;
        t->stored = type;
        t->type = type > TYPE_Q8_0 ? (uint32_t)TYPES[type].gguf : numbers[type];
        round_values(t);
    }
    gguf_place(f);
}

/* Writes random blocks with small float16 scales and offsets, so that the
 * weights are small. */
static void write_random_blocks(FILE *out, const GgufTensor *t) {
    uint8_t block[256];
    size_t weights = (size_t)TYPES[t->stored].weights,
           bytes = stored_bytes(t->stored, weights);
    /* of a scale or a min */
    float largest = weights == 32 ? 0x1p-6f : 0x1p-13f;
    for (size_t b = 0; b < t->count / weights; b++) {
        for (size_t i = 0; i < bytes; i++)
            block[i] = (uint8_t)hash64(5, t->offset, b * sizeof block + i);
        for (int i = 0; i < (TYPES[t->stored].mins ? 2 : 1); i++) {
            float uniform =
                (float)(hash64(6, t->offset, 2 * b + (uint64_t)i) >> 40) /
                    8388608.0f -
                1;
            uint16_t half = f32_to_f16(uniform * largest);
            memcpy(block + TYPES[t->stored].at + 2 * i, &half, sizeof half);
        }
        fwrite(block, 1, bytes, out);
    }
}

static void write_values(FILE *out, const GgufTensor *t) {
    if (t->stored > TYPE_Q8_0) {
        write_random_blocks(out, t);
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        int8_t q[32];
        uint16_t half = t->stored == TYPE_F16 ? f32_to_f16(t->values[i])
                                              : to_bf16(t->values[i]);
        if (t->stored == TYPE_Q8_0) {
            if (i % 32)
                continue;
            half = to_q8_0(q, t->values + i);
        }
        fwrite(t->stored == TYPE_F32 ? (const void *)&t->values[i] : &half,
               t->stored == TYPE_F32 ? 4 : 2, 1, out);
        if (t->stored == TYPE_Q8_0)
            fwrite(q, 1, sizeof q, out);
    }
}

/* ---- the tokenizer ------------------------------------------------------ */

/* The bytes of an array under construction. */
typedef struct {
    uint8_t bytes[1 << 16];
    size_t n;
} Bytes;

static void append(Bytes *b, const void *bytes, size_t n) {
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

static void start_array(Bytes *b, uint32_t type, uint64_t count) {
    b->n = 0;
    append(b, &type, sizeof type);
    append(b, &count, sizeof count);
}

/* Appends a piece, with U+2581 for spaces. */
static void append_piece(Bytes *b, const char *text, int n) {
    char marked[1024];
    uint64_t length = 0;
    for (int i = 0; i < n; i++) {
        const char *c = text[i] == ' ' ? "\xe2\x96\x81" : text + i;
        size_t bytes = text[i] == ' ' ? 3 : 1;
        memcpy(marked + length, c, bytes);
        length += bytes;
    }
    append(b, &length, sizeof length);
    append(b, marked, length);
}

int gguf_add_tokenizer(GgufFile *f, int vocab_size, const GgufPiece *last,
                       int n_last) {
    enum { NORMAL = 1, UNKNOWN, CONTROL, BYTE = 6 };
    static Bytes texts, scores, types;
    const char *path = temporary("pieces.bin");
    size_t size, at = 4;
    if (hashtokenizer_write(path, vocab_size))
        return -1;
    /* for each piece: score, length, text */
    char *pieces = file_read(path, &size);
    start_array(&texts, GGUF_STRING, (uint64_t)vocab_size);
    start_array(&scores, GGUF_F32, (uint64_t)vocab_size);
    start_array(&types, GGUF_I32, (uint64_t)vocab_size);
    for (int i = 0; pieces && i < vocab_size; i++) {
        const GgufPiece *other =
            i < vocab_size - n_last ? NULL : &last[i - (vocab_size - n_last)];
        int type = other     ? other->type
                   : i == 0  ? UNKNOWN
                   : i < 3   ? CONTROL
                   : i < 259 ? BYTE
                             : NORMAL;
        int length;
        memcpy(&length, pieces + at + 4, sizeof length);
        append(&scores, pieces + at, 4);
        append_piece(&texts, other ? other->text : pieces + at + 8,
                     other ? (int)strlen(other->text) : length);
        append(&types, &type, sizeof type);
        at += 8 + (size_t)length;
    }
    int status = pieces ? 0 : -1;
    free(pieces);
    gguf_set_text(f, "tokenizer.ggml.model", "llama");
    gguf_set(f, "tokenizer.ggml.tokens", GGUF_ARRAY, texts.bytes, texts.n);
    gguf_set(f, "tokenizer.ggml.scores", GGUF_ARRAY, scores.bytes, scores.n);
    gguf_set(f, "tokenizer.ggml.token_type", GGUF_ARRAY, types.bytes, types.n);
    gguf_set_int(f, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_int(f, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_int(f, "tokenizer.ggml.unknown_token_id", 0);
    return status;
}

/* ---- writing ------------------------------------------------------------ */

static void write_u64(FILE *out, uint64_t value) {
    fwrite(&value, sizeof value, 1, out);
}

static void write_name(FILE *out, const char *name) {
    write_u64(out, strlen(name));
    fwrite(name, 1, strlen(name), out);
}

static void pad(FILE *out, size_t to) {
    while ((size_t)ftell(out) < to)
        fputc(0, out);
}

int gguf_write(const GgufFile *f, const char *path) {
    remove(path); /* overwriting a file would wait for the disk */
    FILE *out = fopen(path, "wb");
    if (!out)
        return -1;
    fwrite(&f->magic, sizeof f->magic, 1, out);
    fwrite(&f->version, sizeof f->version, 1, out);
    write_u64(out, f->n_tensors_claimed ? f->n_tensors_claimed
                                        : (uint64_t)f->n_tensors);
    write_u64(out, f->n_keys_claimed ? f->n_keys_claimed : (uint64_t)f->n_keys);
    for (int i = 0; i < f->n_keys; i++) {
        write_name(out, f->keys[i].name);
        fwrite(&f->keys[i].type, sizeof f->keys[i].type, 1, out);
        fwrite(f->keys[i].value, 1, f->keys[i].bytes, out);
    }
    for (int i = 0; i < f->n_tensors; i++) {
        const GgufTensor *t = &f->tensors[i];
        write_name(out, t->name);
        fwrite(&t->n_dims, sizeof t->n_dims, 1, out);
        fwrite(t->dims, sizeof *t->dims, t->n_dims < 4 ? t->n_dims : 4, out);
        fwrite(&t->type, sizeof t->type, 1, out);
        write_u64(out, t->offset);
    }
    size_t start =
        ((size_t)ftell(out) + f->alignment - 1) / f->alignment * f->alignment;
    /* the data is at the original offsets, even if a test changed the table */
    size_t at = 0;
    for (int i = 0; i < f->n_tensors; i++) {
        pad(out, start + at);
        write_values(out, &f->tensors[i]);
        at = (at + stored_bytes(f->tensors[i].stored, f->tensors[i].count) +
              63) /
             64 * 64;
    }
    return fclose(out);
}

int gguf_reopen(GgufFile *f, Model *model, Tokenizer *t) {
    const char *path = temporary("reopened.gguf");
    int status = gguf_write(f, path);
    gguf_free(f);
    if (status || model_open(model, path))
        return -1;
    if (gguf_read_tokenizer(t, model->files, path, model->config.vocab_size,
                            true) == 1)
        return 0;
    model_close(model);
    return -1;
}
