/* test.h: what the tests share: counting, checking, and models made on the spot.
 *
 * A suite is a function that calls TEST(f) for each of its tests; a test fails
 * at its first CHECK that does not hold. main.c lists the suites.
 */
#ifndef NORMA_TEST_H
#define NORMA_TEST_H

#include "model.h"

#include <stdio.h>

/* Runs one test and counts it; fails it with a message; leaves it out. */
void test_run(const char *name, void (*test)(void));
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_skip(const char *why);

#define TEST(f) test_run(#f, f)

/* CHECK(condition, "what was found: %d", value): ends the test if it is false. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            test_fail(__FILE__, __LINE__, __VA_ARGS__);                                                                \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* A file name in this run's own temporary folder, which goes at the end.
 * The string stays until the next 8 calls. */
const char *temporary(const char *name);

/* A file of the folder NORMA_CHECKPOINTS, or NULL where there is none. */
const char *real_checkpoint(const char *name);

/* Between the two nothing reaches stderr; the second says how many lines were
 * meant for it. */
void stderr_hide(void);
int stderr_show(void);

/* What stderr_show counted; the first 1023 bytes. */
const char *stderr_text(void);

/* Whether to do less (valgrind): NORMA_FAST is set. */
bool test_fast(void);

/* ---- hashmodel.c: random models that scripts/random_model.py makes too -------------- */

typedef struct {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context;
    bool untied;
    uint64_t seed;
} HashModel;

/* The four models whose float64 logits are in tests/golden. */
extern const HashModel GQA_TIED, MHA_UNTIED, ODD_MQA, WIDE;

uint64_t hash64(uint64_t seed, uint64_t tensor, uint64_t i);

/* Token i of the test sequence of a model. */
int hash_token(const HashModel *m, int i);

/* Writes a llama2.c checkpoint, version 0, 1 or 2 (then in groups of `group`).
 * -1 if that failed. */
int hashmodel_write(const HashModel *m, const char *path, int version, int group);

/* Writes a tokenizer.bin of vocab_size pieces (>= 300): <unk>, BOS, EOS, the
 * bytes, the printable ASCII characters, then made-up words. */
int hashtokenizer_write(const char *path, int vocab_size);

/* ---- gguf_writer.c: GGUF files, good ones and others -------------------------------- */

/* The types of metadata values. */
typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
} GgufType;

typedef struct {
    char name[64];
    uint32_t type;
    uint8_t *value; /* owned; as it stands in the file */
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

/* A file in the making: tests change any of it before it is written. */
typedef struct {
    uint32_t magic, version;
    uint64_t n_keys_said, n_tensors_said; /* 0: as many as there are */
    size_t alignment;                     /* of the data section; the tensors' offsets are made for 64 */
    int n_keys, n_tensors;
    GgufKey keys[64];
    GgufTensor tensors[80];
} GgufFile;

/* The file of a random model, in float32. head_size 0: dim / n_heads. */
void gguf_make(GgufFile *f, const HashModel *m, int head_size);
void gguf_free(GgufFile *f);

/* Adds a metadata key, or replaces it. */
void gguf_set(GgufFile *f, const char *name, GgufType type, const void *value, size_t bytes);
void gguf_set_int(GgufFile *f, const char *name, int value);
void gguf_set_real(GgufFile *f, const char *name, float value);
void gguf_set_text(GgufFile *f, const char *name, const char *value);

/* Without this key, or tensor. */
void gguf_remove(GgufFile *f, const char *name);

/* NULL if there is none. */
GgufTensor *gguf_tensor(GgufFile *f, const char *name);

/* A new tensor with values around `mean`, which `id` chooses. */
GgufTensor *gguf_add(GgufFile *f, const char *name, int rows, int cols, float mean, float width, uint64_t id);

/* Stores all matrices as F32, F16, BF16 or Q8_0. The values become what is left of them. */
void gguf_convert(GgufFile *f, Type type);

/* Places the tensors one behind the other, on multiples of 64. */
void gguf_place(GgufFile *f);

typedef struct {
    const char *text; /* with spaces for U+2581 */
    int type;
} GgufPiece;

/* Adds the tokenizer of hashtokenizer_write, as SentencePiece models have it,
 * with n_last pieces in place of its last ones. */
int gguf_add_tokenizer(GgufFile *f, int vocab_size, const GgufPiece *last, int n_last);

/* -1 if that failed. */
int gguf_write(const GgufFile *f, const char *path);

/* Ends the file and opens it as a model with its tokenizer; -1: it does not open. */
int gguf_reopen(GgufFile *f, Model *model, Tokenizer *t);

/* ---- suites ------------------------------------------------------------------------- */

void suite_simd(void);       /* simd.h */
void suite_norm(void);       /* norm.c */
void suite_matmul(void);     /* matmul.c, quant.c */
void suite_quant(void);      /* quant.c, GGUF's weight types in matmul.c */
void suite_attention(void);  /* attention.c, mlp.c */
void suite_golden(void);     /* whole models against float64 */
void suite_invariance(void); /* same bits for any chunks and threads */
void suite_tokenizer(void);  /* tokenizer.c */
void suite_pieces(void);     /* tokenizer.c against sentencepiece */
void suite_template(void);   /* template.c */
void suite_sampler(void);    /* sampler.c */
void suite_stream(void);     /* stream.c */
void suite_checkpoint(void); /* checkpoint.c */
void suite_gguf(void);       /* gguf.c */
void suite_damage(void);     /* damaged files */
void suite_cli(void);        /* the binary */
void suite_stories(void);    /* the real checkpoint */

#endif
