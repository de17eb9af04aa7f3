/* test.h: what all tests share: counting, checks, and writers of test models.
 *
 * A suite is a function that calls TEST(f) for each of its tests; a test ends at its first CHECK
 * that fails. Suite X is in test_X.c; SUITE_LIST lists all suites.
 */
#pragma once

#include "formats/gguf_file.h"
#include "kernels/input.h"
#include "kernels/tensor.h"
#include "model.h"
#include "modes/template.h"
#include "norm.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Runs and counts a test. Fails the running test with a message. Skips the running test. */
void test_run(const char *name, void (*test)(void));
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void test_skip(const char *why);

#define TEST(f) test_run(#f, f)

/* CHECK(condition, "found %d", value): ends the test with a failure if the condition is false. */
#define CHECK(condition, ...)                                                  \
    do {                                                                       \
        if (!(condition)) {                                                    \
            test_fail(__FILE__, __LINE__, __VA_ARGS__);                        \
            return;                                                            \
        }                                                                      \
    } while (0)

/* Called before and after a suite: make and remove its temporary folder. test_counts() prints the
 * numbers of tests and returns whether one failed. */
void test_begin(void);
void test_end(void);
int test_counts(void);

/* temporary_folder() makes a new folder with a unique name and writes its path; folder_remove()
 * removes a folder with its contents. */
void temporary_folder(char *path, size_t room);
void folder_remove(const char *path);

/* A path in the temporary folder of this run. The string is valid until the next 8 calls. */
const char *temporary(const char *name);

/* Replaces the first `old` in a file by `new`; aborts if it is missing. */
void replace_in_file(const char *path, const char *old, const char *new);

/* The path of a file in the folder NORMA_CHECKPOINTS. NULL if it is missing; the test then calls
 * test_skip(NO_CHECKPOINTS). */
const char *real_checkpoint(const char *name);
#define NO_CHECKPOINTS                                                                                            \
    "NORMA_CHECKPOINTS=FOLDER runs these on real files: stories260K.bin and tok512.bin (see README.md, Your own " \
    "models), llama32k.bin, minimind/tokenizer.json"

/* Between these calls stderr is captured; stderr_show() returns the number of its lines. */
void stderr_hide(void);
int stderr_show(void);

/* The first 16383 bytes of the captured stderr. */
const char *stderr_text(void);

/* Whether NORMA_FAST is set: fewer cases, for valgrind. Whether the loops that `make test` shortens
 * run in full: under the sanitizers, and if NORMA_THOROUGH is set, as in .ci/run. */
bool test_fast(void);
bool test_thorough(void);

/* Whether NORMA_PLAIN is set: every session runs plain.c. */
bool test_plain(void);

/* wrap.c: called before each allocation, if not NULL. */
extern void (*before_allocation)(void);

/* wrap.c: replaces the clock nanoseconds(), if not NULL. */
extern uint64_t (*virtual_clock)(void);

/* wrap.c: replaces the number of involuntary context switches; -1: the system's number. */
extern long processors_lost;

/* wrap.c: replaces the available memory, in bytes; 0: the system's number. */
extern size_t bytes_available;

/* The largest |x| and the largest |x - y| of n elements; NaN if one is NaN. */
double largest(const float *x, int n);
double largest_difference(const float *x, const float *y, int n);

/* y[n][dim] = norm_plain() of x[n][dim]; y may be x. */
void norm_by_formula(float *y, const float *x, const Norm *norm, int n,
                     int dim);

/* steps.c: number of basic blocks executed in base/, text/, formats/ and tokenizer.c; counted only
 * in tests/growth. */
extern uint64_t steps_taken;
/* a test of suite growth, in test_folder.c */
void no_rope_factors_before_the_weights_fit(void);

/* Defined under sanitizers, which map terabytes and may print more than one line. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

/* ---- hashmodel.c: random models, the same as in scripts/random_model.py ---- */

typedef struct {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context;
    bool untied;
    uint64_t seed;
} HashModel;

/* Models whose float64 logits are in tests/golden. */
extern const HashModel GQA_TIED, MHA_UNTIED, ODD_MQA, WIDE;

uint64_t hash64(uint64_t seed, uint64_t tensor, uint64_t i);

/* Element i of a tensor, in [-0.5, 0.5), before it is multiplied by the factor of a matrix with
 * `cols` columns. The embedding has another factor. */
float hash_uniform(uint64_t seed, uint64_t tensor, uint64_t i);
float hash_factor(int cols);

/* Token i of a model's test sequence. */
int hash_token(const HashModel *m, int i);

/* Writes a llama2.c checkpoint of version 0, 1 or 2 (int8 in groups of `group`). Returns -1 on
 * failure. */
int hashmodel_write(const HashModel *m, const char *path, int version,
                    int group);

/* Writes a tokenizer.bin of vocab_size pieces (>= 300): <unk>, BOS, EOS, the bytes, the printable
 * ASCII characters, then short words. */
int hashtokenizer_write(const char *path, int vocab_size);

/* ---- gguf_writer.c: valid and invalid GGUF files ------------------------ */

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

/* A GGUF file under construction. Tests may change any field before it is written. */
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

/* The models of scripts/relatives.py, whose float64 logits are in tests/golden. */
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

/* Makes the file of a random model of one of GGUF_FAMILIES (layers unlike LLaMA's), with the usual
 * keys. */
extern const char *const GGUF_FAMILIES[];
enum { N_GGUF_FAMILIES = 8, FAMILY_WINDOW = 5 };
void gguf_make_family(GgufFile *f, const HashModel *m,
                      const char *architecture);

/* The name of a key of the architecture. The string is valid until the next 4 calls. */
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

/* Adds a tensor with random values, chosen by `id`: mean + width * [-0.5, 0.5). */
GgufTensor *gguf_add(GgufFile *f, const char *name, int rows, int cols,
                     float mean, float width, uint64_t id);

/* Stores all matrices as F32, F16, BF16 or Q8_0 and rounds `values` accordingly. For other block
 * types random blocks are written, independent of `values`. */
void gguf_convert(GgufFile *f, Type type);

/* Places the tensors one after another, at multiples of 64. */
void gguf_place(GgufFile *f);

typedef struct {
    const char *text; /* with spaces for U+2581 */
    int type;
} GgufPiece;

/* Adds the tokenizer of hashtokenizer_write() in SentencePiece form, with last[n_last] as its last
 * pieces. Returns -1 on failure. */
int gguf_add_tokenizer(GgufFile *f, int vocab_size, const GgufPiece *last,
                       int n_last);

/* Writes the file. Returns -1 on failure. */
int gguf_write(const GgufFile *f, const char *path);

/* Writes and frees the file, then opens it as a model with its tokenizer. Returns -1 on failure. */
int gguf_reopen(GgufFile *f, Model *model, Tokenizer *t);

/* ---- folder_writer.c: Hugging Face folders ------------------------------ */

typedef struct {
    const char *model_type;
    Type type;      /* of all tensors: F32, F16 or BF16 */
    int n_files;    /* 2 or more: with an index */
    int misaligned; /* offset of the data modulo 8 */
    bool fused;     /* the experts of a layer are in two tensors */
    /* added to config.json: "key": value, ...; NULL: none */
    const char *options;
} FolderForm;

/* Writes a model as a folder, with rows of queries and keys permuted for RoPE in halves. Returns -1
 * on failure. */
int folder_write(const Model *m, const char *folder, const FolderForm *form);

typedef struct {
    char name[96];
    int n_dims, dims[3];
    size_t count;
    float *values; /* owned */
} FolderPart;

/* Writes the tensors of a folder. Returns -1 on failure. */
int folder_write_parts(FolderPart *parts, int n, const char *folder,
                       const FolderForm *form);

/* ---- family_writer.c: the models of tests/golden/families --------------- */

enum { FAMILY_TOKENS = 40 };

typedef struct {
    char *config; /* config.json, owned */
    int vocab_size, tokens[FAMILY_TOKENS];
    /* [n_parts], owned: named as in the published files; weights from scripts/families.py */
    FolderPart *parts;
    int n_parts;
} Family;

/* Opens a model of tests/golden/families. Returns -1 if it is missing; else the caller closes
 * it. */
int family_open(Family *f, const char *name);
void family_close(Family *f);

/* Writes the model as a folder, in the type and number of files of `form`. Returns -1 on
 * failure. */
int family_write(const Family *f, const char *folder, const FolderForm *form);

/* Rounds the weights of a family to F16 or BF16. */
void family_round(Family *f, Type type);

/* ---- json_check.c ------------------------------------------------------- */

/* Whether text is one JSON value (RFC 8259), possibly with white space around it. */
bool json_valid(const char *text);

/* ---- norms of one token ------------------------------------------------- */

static inline void rmsnorm(float *y, const float *x, const float *gamma,
                           int dim, float eps) {
    norm_token(y, x, &(Norm){.kind = NORM_RMS, .eps = eps, .gamma = gamma},
               dim);
}

static inline void layernorm(float *y, const float *x, const float *gamma,
                             const float *beta, int dim, float eps) {
    norm_token(
        y, x,
        &(Norm){.kind = NORM_LAYER, .eps = eps, .gamma = gamma, .beta = beta},
        dim);
}

/* ---- norm_inputs.c: inputs of norms, the same as in scripts/make_norm_golden.py ---- */

enum { N_NORM_DIMS = 10, NORM_TOKENS = 8, NORM_MAX_DIM = 8192 };
extern const int NORM_DIMS[N_NORM_DIMS];

/* Random values in [-1, 1); TINY: times 1e-20; TINY_NO_EPS: the same with eps = 0 instead of 1e-5;
 * HUGE: times 1e18, so that sums of squares overflow float32; CONSTANT: all equal; SPIKE: one
 * element of 1000 among 0.01; OFFSET: around 5; FAR_OFFSET: around 1000. */
typedef enum {
    SET_RANDOM,
    SET_TINY,
    SET_TINY_NO_EPS,
    SET_HUGE,
    SET_CONSTANT,
    SET_SPIKE,
    SET_OFFSET,
    SET_FAR_OFFSET,
    N_NORM_SETS
} NormSet;
extern const char *const NORM_SETS[N_NORM_SETS];

typedef struct {
    int dim;
    float eps;
    float gamma[NORM_MAX_DIM], beta[NORM_MAX_DIM];
    float x[NORM_TOKENS * NORM_MAX_DIM],
        dy[NORM_TOKENS * NORM_MAX_DIM]; /* [NORM_TOKENS][dim] */
} NormInputs;

/* The inputs of a set for one of NORM_DIMS. */
void norm_inputs(NormInputs *in, NormSet set, int dim);

/* Results in double precision, [NORM_TOKENS][dim]; dgamma: the contribution of each token. (Its
 * contribution to dbeta is dy.) */
typedef struct {
    double y[NORM_TOKENS * NORM_MAX_DIM], dx[NORM_TOKENS * NORM_MAX_DIM],
        dgamma[NORM_TOKENS * NORM_MAX_DIM];
} ExactNorm;

void norm_exactly(ExactNorm *e, const NormInputs *in, NormKind kind);

/* The distance between float32 numbers near `value`. */
double ulp(double value);

/* The largest error of found[n] in ulp of the largest |exact[i]| or, if `each`, of its own
 * exact[i]. Infinite for NaN. */
double error_in_ulp(const float *found, const double *exact, int n, bool each);

/* PyTorch's largest float32 error on a set, over all dims, of "y" (RMSNorm: in ulp of each
 * element), "dx" or one token's "dgamma". -1: not listed. */
double pytorch_error(NormKind kind, const char *quantity, NormSet set);

/* ---- products.c: products computed in parts  ---------------------------- */

enum { PRODUCT_ROWS = 172, PRODUCT_TOKENS = 35 }; /* max */

/* A product y[n][w->rows] of x[n][w->cols]; if `add` is set, it was added to y[i] =
 * product_before(i). */
typedef struct {
    Tensor *w; /* without panels */
    const InputBuffer *buffer;
    const float *x, *y;
    int n; /* tokens */
    bool add;
} Product;

float product_before(int i);

/* Allocates a buffer for the inputs of products, as input_lay_out(). -1: out of memory. */
int input_buffer_open(InputBuffer *buffer, int rows, int cols, int n_threads,
                      bool bf16);
void input_buffer_close(InputBuffer *buffer);

/* Checks that the product has the same bits if it is computed in parts of rows and tokens, by three
 * threads, or from panels. */
void check_divisions(const Product *p);

/* ---- texts.c: tokens of other libraries --------------------------------- */

/* The texts that a library accepts: any bytes; only valid UTF-8; only valid UTF-8, which decoding
 * may change. */
typedef enum { ALL_BYTES, VALID_TEXT, VALID_TEXT_CHANGES } TextCheck;

/* Checks that 12,000 random texts have the tokens of tests/golden/tokens_NAME.bin, and that the
 * tokens decode to the text. `check`: which texts the library accepts; with VALID_TEXT, the
 * decoding of invalid texts is checked, too. */
void check_golden_tokens(const Tokenizer *t, const char *name, TextCheck check);

/* Checks that two tokenizers give the same tokens for 1,000 valid texts. */
void check_same_tokens(const Tokenizer *a, const Tokenizer *b);

/* Checks that the tokens of 1,000 texts of any bytes decode to the text. */
void check_all_bytes_return(const Tokenizer *t);

/* ---- chat.c: conversations ---------------------------------------------- */

typedef struct {
    const char *user, *answer;
} Exchange;

/* The tokens of n turns up to the last answer (exclusive); each answer is encoded separately. The
 * caller frees all->ids. */
int chat_tokens(const ChatTemplate *c, const Tokenizer *t, const char *system,
                const Exchange *turns, int n, Tokens *all);

/* ---- suites, the longest first ------------------------------------------ */

#define SUITE_LIST(SUITE)                                                                      \
    SUITE(lab)    /* norm_spec.c and --norm; -m norms */                                       \
    SUITE(texts)  /* texts.c, prompts.c */                                                     \
    SUITE(text)   /* text.c: stop strings, log-probabilities */                                \
    SUITE(chat)   /* chat.c, input.c */                                                        \
    SUITE(memory) /* failing allocations in every mode */                                      \
    SUITE(                                                                                     \
        sequences) /* the same bits whatever other sequences run; also with several ranks */   \
    SUITE(convert) /* convert.c, for the newer architectures */                                \
    SUITE(cli)     /* the binary */                                                            \
    SUITE(                                                                                     \
        bpe) /* merges.c, pretokenize.c, tokenizer_json.c against Hugging Face's tokenizers */ \
    SUITE(families)   /* folder.c, gguf_write.c: other families than LLaMA */                  \
    SUITE(gguf)       /* gguf.c */                                                             \
    SUITE(tokenizer)  /* tokenizer.c */                                                        \
    SUITE(quant)      /* quant.c, GGUF's weight types in matmul.c */                           \
    SUITE(folder)     /* folder.c, safetensors.c */                                            \
    SUITE(profile)    /* profile.c, --profile */                                               \
    SUITE(mutants)    /* mutated files */                                                      \
    SUITE(invariance) /* the same bits for any chunks and threads */                           \
    SUITE(                                                                                     \
        growth) /* number of steps to open and encode, by the input's size */                  \
    SUITE(damage)     /* damaged files */                                                      \
    SUITE(batching)   /* the statements of docs/batching.md */                                 \
    SUITE(matmul)     /* matmul.c, quant.c */                                                  \
    SUITE(pieces)     /* tokenizer.c against sentencepiece */                                  \
    SUITE(jinja)      /* jinja.c */                                                            \
    SUITE(template)   /* template.c */                                                         \
    SUITE(guess)      /* guess.c */                                                            \
    SUITE(json)       /* json.c */                                                             \
    SUITE(base)       /* error.c, memory.c, file.c, process.c */                               \
    SUITE(team)       /* the barrier */                                                        \
    SUITE(simd)       /* simd.h */                                                             \
    SUITE(norm)       /* norm.c, forward */                                                    \
    SUITE(half)       /* norm.c, half precision */                                             \
    SUITE(backward)   /* norm.c, backward */                                                   \
    SUITE(amx)        /* amx.c */                                                              \
    SUITE(attention)  /* attention.c, mlp.c */                                                 \
    SUITE(plain)      /* plain.c; the fast program against it */                               \
    SUITE(golden)     /* whole models against float64 */                                       \
    SUITE(bits)       /* whole models: the pinned bits */                                      \
    SUITE(sampler)    /* sampler.c */                                                          \
    SUITE(stream)     /* stream.c */                                                           \
    SUITE(checkpoint) /* llama2c.c */                                                          \
    SUITE(pack)       /* pack.c */                                                             \
    SUITE(norms)      /* -m norms */                                                           \
    SUITE(tune)       /* tune.c */                                                             \
    SUITE(stories)    /* the real checkpoint */                                                \
    SUITE(textbook)   /* the statements of docs/norms.md */                                    \
    SUITE(ranks)      /* with MPI: the program under mpirun */

/* NULL if the suite's file is not linked. */
#define SUITE_FUNCTION(name) void suite_##name(void) __attribute__((weak));
SUITE_LIST(SUITE_FUNCTION)
#undef SUITE_FUNCTION
