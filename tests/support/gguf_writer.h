/* gguf_writer.h: writes valid and invalid GGUF files. */
#pragma once

#include "formats/gguf_file.h"
#include "kernels/tensor.h"
#include "model.h"
#include "tests/support/hashmodel.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char name[64];
    uint32_t type;
    uint8_t *value; /* owned; as in the file */
    size_t bytes;
} GgufKey;

typedef struct {
    char name[64];
    uint32_t n_dims, type;
    uint64_t dims[4]; /* cols, rows */
    uint64_t offset;  /* in the data */
    Type stored;
    size_t count;
    float *values; /* owned */
} GgufTensor;

/* A GGUF file under construction. Tests may change any field before it is
 * written. */
typedef struct {
    uint32_t magic, version;
    uint64_t n_keys_claimed, n_tensors_claimed; /* 0: n_keys, n_tensors */
    /* of the data section; tensor offsets are multiples of 64 */
    size_t alignment;
    int n_keys, n_tensors;
    GgufKey keys[64];
    GgufTensor tensors[400];
} GgufFile;

/* Options of a model that llama2.c's formats do not have. */
typedef struct {
    const char *architecture; /* qwen3 and qwen3moe have head norms */
    int head_size;            /* 0: dim / n_heads */
    bool biases;              /* of queries, keys and values */
    int n_experts, n_experts_used, expert_dim;
    int n_dense; /* number of dense layers, before the layers with experts */
    bool plain_weights;   /* expert weights are not divided by their sum */
    float rope_amplitude; /* 0: 1 */
    bool rope_factors;
} Relative;

/* The models of scripts/golden/relatives.py, whose float64 logits are in
 * tests/golden. */
typedef struct {
    const char *name;
    HashModel model;
    Relative relative;
} GoldenRelative;

enum { N_GOLDEN_RELATIVES = 5 };
extern const GoldenRelative GOLDEN_RELATIVES[N_GOLDEN_RELATIVES];

/* Makes the file of a random model in float32. head_size 0: dim / n_heads. */
void gguf_make(GgufFile *f, const HashModel *m, int head_size);
void gguf_make_relative(GgufFile *f, const HashModel *m, const Relative *r);
void gguf_free(GgufFile *f);

/* Makes the file of a random model of one of GGUF_FAMILIES (layers unlike
 * LLaMA's), with the usual keys. */
extern const char *const GGUF_FAMILIES[];
enum { N_GGUF_FAMILIES = 8, FAMILY_WINDOW = 5 };
void gguf_make_family(GgufFile *f, const HashModel *m,
                      const char *architecture);

/* The name of a key of the architecture. The string is valid until the next 4
 * calls. */
const char *gguf_key(const Relative *r, const char *name);

/* Adds or replaces a metadata key. */
void gguf_set(GgufFile *f, const char *name, GgufType type, const void *value,
              size_t bytes);
void gguf_set_int(GgufFile *f, const char *name, int value);
void gguf_set_real(GgufFile *f, const char *name, float value);
void gguf_set_text(GgufFile *f, const char *name, const char *value);

/* Removes a key or tensor. */
void gguf_remove(GgufFile *f, const char *name);

/* Finds a tensor. Returns NULL if it is missing. */
GgufTensor *gguf_tensor(GgufFile *f, const char *name);

/* Adds a tensor with random values, chosen by `id`: mean + width * [-0.5,
 * 0.5). */
GgufTensor *gguf_add(GgufFile *f, const char *name, int rows, int cols,
                     float mean, float width, uint64_t id);

/* Stores all matrices as F32, F16, BF16 or Q8_0 and rounds `values`
 * accordingly. For other block types random blocks are written, independent of
 * `values`. */
void gguf_convert(GgufFile *f, Type type);

/* Places the tensors one after another, at multiples of 64. */
void gguf_place(GgufFile *f);

typedef struct {
    const char *text; /* with spaces for U+2581 */
    int type;
} GgufPiece;

/* Adds the tokenizer of hashtokenizer_write() in SentencePiece form, with
 * last[n_last] as its last pieces. Returns -1 on failure. */
int gguf_add_tokenizer(GgufFile *f, int vocab_size, const GgufPiece *last,
                       int n_last);

/* Writes the file. Returns -1 on failure. */
int gguf_write(const GgufFile *f, const char *path);

/* Writes and frees the file, then opens it as a model with its tokenizer.
 * Returns -1 on failure. */
int gguf_reopen(GgufFile *f, Model *model, Tokenizer *t);
