/* test.h: what the tests share: counting, checking, and models made on the spot.
 *
 * A suite is a function that calls TEST(f) for each of its tests; a test fails
 * at its first CHECK that does not hold. Suite X is in a file test_X.c; SUITE_LIST has all of them.
 */
#pragma once

#include "formats/gguf_file.h"
#include "kernels/tensor.h"
#include "model.h"
#include "modes/template.h"
#include "norm.h"
#include "tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* Around a suite: its temporary folder. The counts of its tests are printed; returns whether one failed. */
void test_begin(void);
void test_end(void);
int test_counts(void);

/* Makes a new folder with a name of its own and writes its path. Removes a folder with all that is in it. */
void temporary_folder(char *path, size_t room);
void folder_remove(const char *path);

/* A file name in this run's own temporary folder, which goes at the end.
 * The string stays until the next 8 calls. */
const char *temporary(const char *name);

/* In a file, the first `old` becomes `new`; the program ends if there is none. */
void replace_in_file(const char *path, const char *old, const char *new);

/* A file of the folder NORMA_CHECKPOINTS; NULL if there is none: the test is then skipped with NO_CHECKPOINTS. */
const char *real_checkpoint(const char *name);
#define NO_CHECKPOINTS                                                                                                 \
    "NORMA_CHECKPOINTS=FOLDER runs these on real files: stories260K.bin and tok512.bin (see README.md, Your own "      \
    "models), llama32k.bin, minimind/tokenizer.json"

/* Between the two nothing reaches stderr; the second says how many lines were
 * meant for it. */
void stderr_hide(void);
int stderr_show(void);

/* What stderr_show counted; the first 1023 bytes. */
const char *stderr_text(void);

/* Whether to do less (valgrind): NORMA_FAST is set. Whether to do all that `make test` thins out: NORMA_THOROUGH is
 * set, as in .ci/run. */
bool test_fast(void);
bool test_thorough(void);

/* wrap.c: what is called before memory is allocated; NULL: nothing. */
extern void (*before_allocation)(void);

/* How often the process has lost a processor; -1: as often as the system says. */
extern long processors_lost;

/* The memory that is available; 0: as much as the system says. */
extern size_t bytes_available;

/* The largest of n magnitudes |x|, and of n differences |x - y|: NaN, if one is. */
double largest(const float *x, int n);
double largest_difference(const float *x, const float *y, int n);

/* steps.c: the basic blocks that base/, text/, formats/ and tokenizer.c have run so far; only in tests/growth. */
extern uint64_t steps_taken;
void rope_factors_wait_for_the_weights(void); /* a test of growth, in test_folder.c */

/* A sanitizer is at work: it maps terabytes, and sees more than one line of a failure. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

/* ---- hashmodel.c: random models that scripts/random_model.py makes too -------------- */

typedef struct {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context;
    bool untied;
    uint64_t seed;
} HashModel;

/* The four models whose float64 logits are in tests/golden. */
extern const HashModel GQA_TIED, MHA_UNTIED, ODD_MQA, WIDE;

uint64_t hash64(uint64_t seed, uint64_t tensor, uint64_t i);

/* Element i of a tensor in [-0.5, 0.5), and the factor of a matrix of so many columns that is no embedding. */
float hash_uniform(uint64_t seed, uint64_t tensor, uint64_t i);
float hash_factor(int cols);

/* Token i of the test sequence of a model. */
int hash_token(const HashModel *m, int i);

/* Writes a llama2.c checkpoint, version 0, 1 or 2 (then in groups of `group`).
 * -1 if that failed. */
int hashmodel_write(const HashModel *m, const char *path, int version, int group);

/* Writes a tokenizer.bin of vocab_size pieces (>= 300): <unk>, BOS, EOS, the
 * bytes, the printable ASCII characters, then made-up words. */
int hashtokenizer_write(const char *path, int vocab_size);

/* ---- gguf_writer.c: GGUF files, good ones and others -------------------------------- */

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
    GgufTensor tensors[400];
} GgufFile;

/* What a model may have that llama2.c's formats do not know. */
typedef struct {
    const char *architecture; /* qwen3 and qwen3moe have norms of heads */
    int head_size;            /* 0: dim / n_heads */
    bool biases;              /* of queries, keys and values */
    int n_experts, n_experts_used, expert_dim;
    int n_dense;          /* layers before the first with experts */
    bool plain_weights;   /* of experts: not divided by their sum */
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

/* The file of a random model, in float32. head_size 0: dim / n_heads. */
void gguf_make(GgufFile *f, const HashModel *m, int head_size);
void gguf_make_relative(GgufFile *f, const HashModel *m, const Relative *r);
void gguf_free(GgufFile *f);

/* The file of a random model of an architecture whose layers are others, with its usual keys. */
extern const char *const GGUF_FAMILIES[];
enum { N_GGUF_FAMILIES = 8, FAMILY_WINDOW = 5 };
void gguf_make_family(GgufFile *f, const HashModel *m, const char *architecture);

/* The name of a key of the architecture. The string stays until the next 4 calls. */
const char *gguf_key(const Relative *r, const char *name);

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

/* Stores all matrices as F32, F16, BF16 or Q8_0: the values become what is left of them. Of the other
 * block types it writes random blocks, whatever the values are. */
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

/* ---- folder_writer.c: Hugging Face folders ------------------------------------------- */

typedef struct {
    const char *model_type;
    Type type;           /* of all that is in it: F32, F16 or BF16 */
    int n_files;         /* from 2 on: with an index */
    int misaligned;      /* bytes by which the data misses a multiple of 8 */
    bool fused;          /* all experts of a layer in two tensors */
    const char *options; /* more of config.json: "key": value, ...; NULL: none */
} FolderForm;

/* Writes a model as a folder; rows of queries and keys go to where they are in
 * halves. -1 if that failed. */
int folder_write(const Model *m, const char *folder, const FolderForm *form);

typedef struct {
    char name[96];
    int n_dims, dims[3];
    size_t count;
    float *values; /* owned */
} FolderPart;

/* Writes the tensors of a folder. -1 if that failed. */
int folder_write_parts(FolderPart *parts, int n, const char *folder, const FolderForm *form);

/* ---- family_writer.c: models of families that tests/golden/families describes ------------- */

enum { FAMILY_TOKENS = 40 };

typedef struct {
    char *config; /* config.json, owned */
    int vocab_size, tokens[FAMILY_TOKENS];
    FolderPart *parts; /* [n_parts], owned: what published files store, with the weights of scripts/families.py */
    int n_parts;
} Family;

/* -1 if there is none; else the caller closes it. */
int family_open(Family *f, const char *name);
void family_close(Family *f);

/* Writes the model as a folder; of the form, the type and the files count. -1 if that failed. */
int family_write(const Family *f, const char *folder, const FolderForm *form);

/* The weights become what is left of them in F16 or BF16. */
void family_round(Family *f, Type type);

/* ---- json_check.c ---------------------------------------------------------------------- */

/* Whether text is one JSON value (RFC 8259), with white space around it. */
bool json_valid(const char *text);

/* ---- norm_inputs.c: inputs for norms that scripts/make_norm_golden.py makes too ------ */

enum { N_NORM_DIMS = 10, NORM_TOKENS = 8, NORM_MOST = 8192 };
extern const int NORM_DIMS[N_NORM_DIMS];

/* In [-1, 1) unless the name says otherwise: times 1e-20; the same, with eps = 0
 * instead of 1e-5; times 1e18, whose squares overflow float32 when they are
 * added; all equal; one element of 1000 among 0.01; around 5; around 1000. */
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
    float gamma[NORM_MOST], beta[NORM_MOST];
    float x[NORM_TOKENS * NORM_MOST], dy[NORM_TOKENS * NORM_MOST]; /* [NORM_TOKENS][dim] */
} NormInputs;

/* The inputs of a set in one of the NORM_DIMS. */
void norm_inputs(NormInputs *in, NormSet set, int dim);

/* In double precision, [NORM_TOKENS][dim]: what each token adds to dgamma by
 * itself; what it adds to dbeta is dy. */
typedef struct {
    double y[NORM_TOKENS * NORM_MOST], dx[NORM_TOKENS * NORM_MOST], dgamma[NORM_TOKENS * NORM_MOST];
} ExactNorm;

void norm_exactly(ExactNorm *e, const NormInputs *in, NormKind kind);

/* The distance of float32 numbers of this size. */
double ulp(double value);

/* The largest error of found[n] in ulp of the largest |exact[i]|, or of `each`
 * exact[i]. Infinite for NaN. */
double error_in_ulp(const float *found, const double *exact, int n, bool each);

/* The largest error of PyTorch in float32 on a set, over all dims, of "y" (RMSNorm:
 * in ulp of each), "dx" or one token's "dgamma". -1: not listed. */
double pytorch_error(NormKind kind, const char *quantity, NormSet set);

/* ---- products.c: products however they are divided ----------------------------------- */

enum { PRODUCT_ROWS = 172, PRODUCT_TOKENS = 35 }; /* the most */

/* A product y[n][w->rows] of x[n][w->cols], which was added, where `add` is set, to product_before(i) at y[i]. */
typedef struct {
    Tensor *w; /* without panels */
    const InputBuffer *buffer;
    const float *x, *y;
    int n; /* tokens */
    bool add;
} Product;

float product_before(int i);

/* By pieces of rows and tokens, by three threads, and from panels the product has the same bits. */
void check_divisions(const Product *p);

/* ---- texts.c: the tokens that libraries make of texts -------------------------------- */

/* What a library takes: any bytes; valid UTF-8 alone; that, and its tokens do not give the text back. */
typedef enum { ALL_BYTES, VALID_TEXT, VALID_TEXT_CHANGES } TextCheck;

/* 12,000 texts of every sort give the tokens of tests/golden/tokens_NAME.bin and
 * come back from them, with VALID_TEXT also those that are not valid. */
void check_golden_tokens(const Tokenizer *t, const char *name, TextCheck sort);

/* Of 1,000 valid texts two tokenizers make the same tokens. */
void check_same_tokens(const Tokenizer *a, const Tokenizer *b);

/* What is no UTF-8 comes back, too. */
void check_all_bytes_return(const Tokenizer *t);

/* ---- chat.c: conversations ------------------------------------------------------------ */

typedef struct {
    const char *user, *answer;
} Said;

/* The tokens of n turns up to where the answer to the last begins: turn by turn, each with an answer that is encoded by
 * itself. The caller frees ids. */
int chat_tokens(const ChatTemplate *c, const Tokenizer *t, const char *system, const Said *said, int n, Tokens *all);

/* ---- suites, the longest first -------------------------------------------------------- */

#define SUITE_LIST(SUITE)                                                                                              \
    SUITE(lab)        /* norm_spec.c and --norm; -m norms */                                                           \
    SUITE(texts)      /* texts.c, prompts.c */                                                                         \
    SUITE(memory)     /* every mode without memory */                                                                  \
    SUITE(sequences)  /* the same bits in any company; with several ranks, too */                                      \
    SUITE(convert)    /* convert.c, for the newer architectures */                                                     \
    SUITE(cli)        /* the binary */                                                                                 \
    SUITE(bpe)        /* merges.c, pretokenize.c, tokenizer_json.c against Hugging Face's tokenizers */                \
    SUITE(families)   /* folder.c, gguf_write.c: models of other families */                                           \
    SUITE(gguf)       /* gguf.c */                                                                                     \
    SUITE(tokenizer)  /* tokenizer.c */                                                                                \
    SUITE(quant)      /* quant.c, GGUF's weight types in matmul.c */                                                   \
    SUITE(folder)     /* folder.c, safetensors.c */                                                                    \
    SUITE(profile)    /* profile.c, --profile */                                                                       \
    SUITE(mutants)    /* files that are almost right */                                                                \
    SUITE(invariance) /* the same bits for any chunks and threads */                                                   \
    SUITE(growth)     /* the work of opening, by the size of the files */                                              \
    SUITE(damage)     /* damaged files */                                                                              \
    SUITE(batching)   /* the statements of docs/batching.md */                                                         \
    SUITE(matmul)     /* matmul.c, quant.c */                                                                          \
    SUITE(pieces)     /* tokenizer.c against sentencepiece */                                                          \
    SUITE(template)   /* template.c */                                                                                 \
    SUITE(guess)      /* guess.c */                                                                                    \
    SUITE(json)       /* json.c */                                                                                     \
    SUITE(base)       /* error.c, memory.c, file.c, process.c */                                                       \
    SUITE(simd)       /* simd.h */                                                                                     \
    SUITE(norm)       /* norm.c, forward */                                                                            \
    SUITE(half)       /* norm.c, half precision */                                                                     \
    SUITE(backward)   /* norm.c, backward */                                                                           \
    SUITE(amx)        /* amx.c */                                                                                      \
    SUITE(attention)  /* attention.c, mlp.c */                                                                         \
    SUITE(golden)     /* whole models against float64 */                                                               \
    SUITE(bits)       /* whole models: the pinned bits */                                                              \
    SUITE(sampler)    /* sampler.c */                                                                                  \
    SUITE(stream)     /* stream.c */                                                                                   \
    SUITE(checkpoint) /* llama2c.c */                                                                                  \
    SUITE(pack)       /* pack.c */                                                                                     \
    SUITE(norms)      /* -m norms */                                                                                   \
    SUITE(tune)       /* tune.c */                                                                                     \
    SUITE(stories)    /* the real checkpoint */                                                                        \
    SUITE(textbook)   /* the statements of docs/norms.md */                                                            \
    SUITE(ranks)      /* with MPI: the program under mpirun */

/* NULL where its file is not linked. */
#define SUITE_FUNCTION(name) void suite_##name(void) __attribute__((weak));
SUITE_LIST(SUITE_FUNCTION)
#undef SUITE_FUNCTION
