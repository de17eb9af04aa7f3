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

/* ---- suites ------------------------------------------------------------------------- */

void suite_simd(void);       /* simd.h */
void suite_norm(void);       /* norm.c */
void suite_matmul(void);     /* matmul.c, quant.c */
void suite_attention(void);  /* attention.c, mlp.c */
void suite_golden(void);     /* whole models against float64 */
void suite_invariance(void); /* same bits for any chunks and threads */
void suite_tokenizer(void);  /* tokenizer.c */
void suite_sampler(void);    /* sampler.c */
void suite_stream(void);     /* stream.c */
void suite_checkpoint(void); /* checkpoint.c */
void suite_damage(void);     /* damaged files */
void suite_cli(void);        /* the binary */
void suite_stories(void);    /* the real checkpoint */

#endif
