/* model.h: every type and function that two files share, in reading order.
 *
 * Owns the vocabulary of the program: what a tensor, a norm, a layer, a model
 * and a session are, and which file answers for what. It holds no code.
 *
 * Conventions. Activations are row-major float x[n_tokens][dim]. A weight is
 * [rows = out][cols = in], row-major. Functions that can fail say one line on
 * stderr (see fail) and return -1 or NULL; on success int functions return 0.
 */
#ifndef NORMA_MODEL_H
#define NORMA_MODEL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NORMA_VERSION "0.1.0"

/* ---- file.c: errors, files, clocks ------------------------------------- */

/* Prints "run: " and the message as one line on stderr; returns -1, so that
 * a caller can write `return fail(...)`. Control characters (a hostile file
 * name, say) are shown as '?'. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int minus_one(int status) { return status < 0 ? status : -1; }
#define fail(...) minus_one(fail(__VA_ARGS__)) /* so that the compiler knows the sign, too */

/* A file mapped read-only. */
typedef struct {
    const uint8_t *data;
    size_t size;            /* bytes, > 0 */
    uint64_t device, inode; /* which file it is */
} File;

bool file_exists(const char *path);
bool is_folder(const char *path);

/* Maps a regular, non-empty file. The caller unmaps it. */
int file_map(File *file, const char *path);
void file_unmap(File *file);

/* Reads a whole file ("-": standard input) into memory and adds a final zero
 * byte that *size does not count. The caller frees it; NULL on failure. */
char *file_read(const char *path, size_t *size);

/* A file being written. It appears under its name whole or not at all: the
 * bytes go to a temporary file beside it (or straight to what is no regular
 * file, such as a pipe). */
typedef struct {
    FILE *stream;
    const char *path;
    char *temporary; /* NULL: written in place */
} OutputFile;

int output_open(OutputFile *out, const char *path);

/* Ends the file: with `keep` it gets its name, otherwise it goes. -1 if a
 * write failed. */
int output_close(OutputFile *out, bool keep);

/* Memory for count * size bytes, aligned to 64, in huge pages where they are and it
 * fills them, uninitialized; free() frees it. NULL and a message if there is none. */
void *allocate(size_t count, size_t size);

/* The same without the message: for what one can do without. */
void *allocate_quietly(size_t count, size_t size);

/* Seconds on a monotonic clock. */
double now(void);

/* Median of n values; sorts them in place. */
double median(double *values, int n);

/* ---- json.c --------------------------------------------------------------- */

enum { JSON_DEPTH = 64, JSON_MOST = 1 << 30 }; /* levels of lists in lists; bytes of a text */

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

/* A value. Values stand in the order of the text: those in a list follow it, and
 * in an object each value follows its key, a string. */
typedef struct {
    JsonKind kind;
    uint32_t length;    /* of a string in bytes, which may be zero bytes, too */
    uint32_t n_members; /* of a list: elements, or keys */
    uint32_t n_values;  /* the value and all that is in it */
    const char *text;   /* what a string says, UTF-8; else how it is written, or "a list"; zero-terminated */
} Json;

typedef struct {
    const char *path; /* not owned */
    Json *values;     /* owned; the first one is the whole text */
    char *text;       /* owned; of strings and numbers */
} JsonFile;

/* Reads one JSON value (RFC 8259): UTF-8 without lone surrogates, no object with a
 * key twice, at most JSON_DEPTH levels. Takes at most 16 bytes of memory for a byte
 * of text. `path` is for messages. The caller closes it. */
int json_parse(JsonFile *json, const char *path, const char *text, size_t size);
int json_open(JsonFile *json, const char *path);
void json_close(JsonFile *json);

/* The members of a list, one after the other; NULL: no more. In an object they
 * are the keys, and behind each (key + 1) is its value. */
const Json *json_first(const Json *list);
const Json *json_next(const Json *list, const Json *member);

/* The value of a key, by looking through them all; NULL if there is none, or
 * `object` is NULL or no object. */
const Json *json_get(const Json *object, const char *key);

/* Whether it is this string. */
bool json_is(const Json *value, const char *text);

/* False if it is NULL, no number, no integer (1e3 and 1.0 are none), or too large. */
bool json_integer(const Json *value, int64_t *integer);
bool json_real(const Json *value, double *real);

/* The value's text for a message; NULL is "missing". */
const char *json_shown(const Json *value);

/* ---- tensors: quant.c, matmul.c ----------------------------------------- */

typedef enum {
    TYPE_F32,
    TYPE_F16,
    TYPE_BF16,
    TYPE_I8, /* llama2.c v2: int8 in groups, one float32 scale to a group */
    /* GGUF's blocks: 32 weights with one scale, K: 256 with scales for 16 or 32 */
    TYPE_Q8_0,
    TYPE_Q4_0,
    TYPE_Q4_1,
    TYPE_Q5_0,
    TYPE_Q5_1,
    TYPE_Q4_K,
    TYPE_Q5_K,
    TYPE_Q6_K
} Type;

const char *type_name(Type type);

/* The type with this number in GGUF files; -1 if norma has none. And back. */
int type_from_gguf(uint32_t number, Type *type);
uint32_t type_to_gguf(Type type);

/* The types that are written: by name (-1: it is none of them), and their number
 * as the type of a whole file. */
int type_from_name(const char *name, Type *type);
int type_file_type(Type type);

int type_block(Type type);        /* weights in a block; divides cols */
bool type_wants_bytes(Type type); /* whether its products take int8 activations */

/* A weight matrix, read in place from the mapped file. */
typedef struct {
    Type type;
    int rows, cols;     /* out, in */
    const void *data;   /* [rows][cols] in the type's layout */
    const void *scales; /* TYPE_I8: float [rows][cols / group], perhaps unaligned */
    uint8_t *panels;    /* the same again as panels (panels.h), owned; NULL: none */
    int group;          /* TYPE_I8: weights to a scale; divides cols */
    const float *bias;  /* [rows], added to the product; NULL: none */
    uint64_t offset;    /* of data in the file, for `info` */
} Tensor;

/* Bytes that the tensor's rows take in the file, scales included. */
size_t tensor_bytes(const Tensor *w, int rows);

/* What belongs to a group of int8 activations: the scale, the sum of what they
 * stand for, and the exact sum of the bytes, of all and of the first half. */
typedef struct {
    float scale, sum;
    int32_t total, first_half;
} InputGroup;

/* Quantizes x[n] to int8 in groups of `group` (which divides n):
 * scale = max|x| / 127, q = round(x / scale), ties to even; a group of zeros
 * gets scale 0. Writes q[n] and groups[n / group]. NaN or infinity in x makes
 * its group's scale NaN or infinite, so it stays visible in the product. */
void quantize_i8(int8_t *q, InputGroup *groups, const float *x, int n, int group);

/* y[cols] = row `row` of w in float32, as the type defines it. */
void dequantize_row(float *y, const Tensor *w, int row);

/* x[n] in a type that is written, the same bytes as the gguf library's. */
void quantize_row(void *out, Type type, const float *x, int n);

/* The left side of a product: n rows of activations, in the form that the
 * weights want (float32 as they are, or int8 groups). */
typedef struct {
    const float *x;     /* [n][cols] */
    int8_t *q;          /* [n][cols] */
    InputGroup *groups; /* [n][cols / group] */
    int cols, group;
    bool far;         /* whether weights come from beyond the second-level cache */
    uint8_t *scratch; /* of this thread, for weights that have to be packed and unpacked */
    size_t scratch_bytes;
} Input;

/* Memory for Inputs of up to max_rows x max_cols, and n_threads scratches. */
typedef struct {
    int8_t *q;
    InputGroup *groups;
    bool far; /* for its Inputs */
    uint8_t *scratch;
    size_t scratch_bytes; /* of one thread */
} InputBuffer;

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols, int n_threads);
void input_buffer_close(InputBuffer *buffer);

/* Prepares x[n][w->cols] for products with w, with any weight that takes float32
 * activations, and with any of the same cols and group as w. Call it from every
 * thread of a parallel region, or outside one. For n > 1 the threads share the
 * work and meet at a barrier; for n = 1 each makes a copy of its own (buffer row
 * = thread number), which costs less than the barrier. max_rows is at least n
 * and the thread count. */
Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n);

/* The same Input without its first `row` rows. */
Input input_from(const Input *in, int row);

/* y[t][r] = sum_c w[r][c] x[t][c] for rows r in [row, row + n_rows) and tokens
 * t in [0, n); added to y where `add` is set. y points at y[0][0] and has
 * `stride` floats to a token. One thread does all of it. Every output is
 * summed in one fixed order, whatever n, row and n_rows are: the same bits. */
void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add);

/* How many rows make one task when the threads of the region share the rows of
 * a product for n tokens: a whole share for one token, cache-sized for many. */
int matmul_task_rows(int rows, int n);

/* All rows of y[n][rows] = x w^T. The threads of the enclosing parallel
 * region share the rows and meet at a barrier. */
void matmul(float *y, const Tensor *w, const Input *in, int n, bool add);

/* ---- norm.c -------------------------------------------------------------- */

typedef enum { NORM_RMS, NORM_LAYER } NormKind;

/* One norm site. The kind belongs to the site, so a model may mix both. */
typedef struct {
    NormKind kind;
    float eps;          /* inside the root */
    const float *gamma; /* [dim] */
    const float *beta;  /* [dim], of LayerNorms alone; NULL: zeros */
} Norm;

const char *norm_name(NormKind kind);

/* RMSNorm of one token (Zhang & Sennrich 2019, eq. 4, with eps in the root):
 * y_i = x_i / sqrt(mean(x^2) + eps) * gamma_i, for x, y, gamma [dim].
 * y may be x. */
void rmsnorm(float *y, const float *x, const float *gamma, int dim, float eps);

/* LayerNorm of one token (Ba et al. 2016, eq. 3), biased variance, two passes:
 * y_i = (x_i - mean) / sqrt(mean((x - mean)^2) + eps) * gamma_i + beta_i.
 * beta may be NULL; y may be x. */
void layernorm(float *y, const float *x, const float *gamma, const float *beta, int dim, float eps);

/* The site's norm of one vector, y[dim] from x[dim]. y may be x. */
void norm_token(float *y, const float *x, const Norm *norm, int dim);

/* The site's norm of n tokens: y[n][dim] from x[n][dim]. The threads of the
 * enclosing region share the tokens and meet at a barrier, except for n = 1:
 * then each writes a row of its own, y[thread]. Returns the row to read from,
 * which is y for n > 1. y has room for max(n, threads) rows. */
const float *norm_forward(float *y, const float *x, const Norm *norm, int n, int dim);

/* x += r, then y = rmsnorm(x), in one pass over memory; the same bits as one
 * after the other. All [dim]; y is neither x nor r. (The decoder has no use for
 * it: its products add to x as they are stored.) */
void add_rmsnorm(float *y, float *x, const float *r, const float *gamma, int dim, float eps);

/* When half-precision results are rounded: the normalized x before it is
 * multiplied by gamma, and the product again (Llama, by Meta and by Hugging
 * Face); or the product alone (Gemma, torch.nn.functional.rms_norm). */
typedef enum { ROUND_THEN_SCALE, SCALE_THEN_ROUND } RoundingOrder;

/* RMSNorm of one token in float16 or bfloat16 (`type`: TYPE_F16, TYPE_BF16; x,
 * y, gamma [dim] as bits): statistics and normalization are float32. y may be x. */
void rmsnorm_half(uint16_t *y, const uint16_t *x, const uint16_t *gamma, int dim, float eps, Type type,
                  RoundingOrder order);

/* Gradients of one token's norm, from dy = dL/dy: dx = dL/dx is written, dgamma
 * and dbeta are added to, so that tokens accumulate. All [dim]; dx is neither
 * dy nor x. Derived in docs/norms.md. */
void rmsnorm_backward(float *dx, float *dgamma, const float *dy, const float *x, const float *gamma, int dim,
                      float eps);
void layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma,
                        int dim, float eps);

/* ---- the model: checkpoint.c, model.c ------------------------------------ */

/* YaRN (Peng et al. 2023, sec. 3.2): what turns `fast` times in `context` positions
 * stays, what turns `slow` times is slowed down by `factor`, a ramp lies between. */
typedef struct {
    double factor; /* 0: no YaRN */
    double context, fast, slow;
    bool between;  /* the ramp may begin and end between two pairs */
    bool minimind; /* the ramp ends at the last pair, and is never steeper than 1,000 */
} Yarn;

typedef struct {
    int dim;        /* width of the residual stream */
    int hidden_dim; /* width inside the MLP */
    int n_layers;
    int n_heads;    /* query heads */
    int n_kv_heads; /* key and value heads; divides n_heads */
    int head_size;  /* even; dim / n_heads in most models */
    int vocab_size;
    int context;           /* longest sequence the model was made for */
    double rope_base;      /* theta_i = rope_base^(-2i / rope_dims) radians a position, */
    double rope_scale;     /* divided by this */
    double rope_amplitude; /* cos and sin times this; 1 but for YaRN (Peng et al. 2023, sec. 3.4) */
    int rope_dims;         /* leading elements of a head that rotate, in pairs: */
    Yarn yarn;             /* where the model's rope_factors come from */
    bool rope_halves;      /* (v[i], v[i + rope_dims / 2]), as Hugging Face has them; else (v[2i], v[2i + 1]) */
    int n_experts;         /* of a sparse layer, up to MOST_EXPERTS; 0: all layers are dense */
    int n_experts_used;    /* by each token */
    int expert_dim;        /* width inside an expert */
    bool norm_topk;        /* the weights of a token's experts are divided by their sum */
} Config;

enum { MOST_EXPERTS = 1024 };

/* The weights of one SwiGLU: a layer's MLP, or an expert. */
typedef struct {
    Tensor gate; /* [hidden_dim, dim]; w1 in llama2.c */
    Tensor up;   /* [hidden_dim, dim]; w3 in llama2.c */
    Tensor down; /* [dim, hidden_dim]; w2 in llama2.c */
} Mlp;

typedef struct {
    Norm attn_norm;
    Tensor wq;           /* [n_heads * head_size, dim] */
    Tensor wk;           /* [n_kv_heads * head_size, dim] */
    Tensor wv;           /* [n_kv_heads * head_size, dim] */
    Norm q_norm, k_norm; /* [head_size], of each head before it rotates; gamma NULL: there are none */
    Tensor wo;           /* [dim, n_heads * head_size] */
    Norm mlp_norm;
    Mlp mlp;       /* of a dense layer */
    Tensor router; /* [n_experts, dim], of a sparse layer */
    Mlp *experts;  /* [n_experts], without biases, owned; NULL: the layer is dense */
} Layer;

typedef struct {
    Config config;
    Tensor embedding; /* [vocab_size, dim] */
    Layer *layers;    /* [n_layers], owned */
    Norm final_norm;
    Tensor output; /* [vocab_size, dim]; the embedding itself when tied */
    bool tied;
    double *rope_factors; /* [rope_dims / 2], divide the angles, owned; NULL: none */
    float *vectors;       /* norms and biases that are not in the file as float32, owned; NULL: there are none */
    const char *format;   /* "llama2.c v0" and the like */
    size_t decode_bytes;  /* weights read for one token: all layers, norms, output, one embedding row */
    size_t parameters;
    bool packed; /* all of it: nothing is left for model_pack */
    File *files; /* [n_files], owned; the tensors point into them */
    int n_files;
} Model;

/* Opens a checkpoint of any format and checks every size in it against the file's length
 * before anything is allocated. The caller closes it. */
int model_open(Model *model, const char *path);
void model_close(Model *model);

/* Maps one more file of the model. */
int model_map(Model *model, const char *path);

/* Memory for the layers that the config says, all fields zero. */
int model_allocate_layers(Model *model);

/* Visits every tensor, and every norm (over dim elements), in the order of the
 * forward pass, with its name ("layers.3.wq", "layers.3.attn_norm"). Either may
 * be NULL. */
void model_visit(const Model *model, void (*tensor)(void *arg, const char *name, const Tensor *w),
                 void (*norm)(void *arg, const char *name, const Norm *norm, int dim), void *arg);

/* ---- rope.c: positions --------------------------------------------------------- */

/* Radians a position of a pair, before scale and factors. */
double rope_frequency(const Config *c, int pair);

/* What YaRN divides the angles by, [rope_dims / 2]; the caller frees it. NULL: no memory. */
double *yarn_factors(const Config *c, const Yarn *y);

/* What it multiplies cos and sin with, unless a file says something else (sec. 3.4). */
double yarn_amplitude(double factor, double scale);

/* ---- panels.c -------------------------------------------------------------- */

/* Makes w->panels, the weight again as products like it best, in memory that
 * the caller frees. The same bits come out, sooner. -1, silently, if there is no
 * memory: then products use the rows as they are. */
int tensor_pack(Tensor *w, int n_threads);

/* Does so for a model that is about to run, or has run n_tokens: small ones at
 * once, others a part after each token, so that the first comes without delay.
 * The file's pages that were read for it are given back. */
void model_pack(Model *m, int n_threads, int n_tokens);

/* ---- swap.c --------------------------------------------------------------- */

/* Gives sites another kind of norm, as --norm says: comma-separated items KIND
 * or [LAYERS.]SITE=KIND, KIND rms or layer, SITE attn, mlp, q, k or final, LAYERS n
 * or n-m; later items win. gamma and eps stay; a LayerNorm that was none has beta 0
 * (NULL). */
int model_swap_norms(Model *model, const char *spec);

/* ---- gguf.c ---------------------------------------------------------------- */

bool gguf_is(const File *file);

/* Fills the model from its file, which is mapped. On failure the caller closes it. */
int gguf_read_model(Model *model, const char *path);

/* ---- safetensors.c, folder.c: Hugging Face folders --------------------------- */

enum { MOST_DIMS = 3 };

/* A tensor of a safetensors file. */
typedef struct {
    const char *name;
    const char *path; /* of its file */
    Type type;        /* TYPE_F32, TYPE_F16 or TYPE_BF16 */
    int n_dims;
    int dims[MOST_DIMS]; /* the last one is contiguous */
    size_t count;        /* elements */
    const uint8_t *data; /* not aligned */
    uint64_t offset;     /* of data in the file */
    bool used;           /* for the caller */
} Stored;

typedef struct Shard Shard;

typedef struct {
    Stored *tensors; /* [n_tensors], owned, by name */
    size_t n_tensors;
    Shard *shards; /* the files, owned */
    int n_shards;
} Safetensors;

/* Maps model.safetensors, or the files that model.safetensors.index.json names, into
 * the model, and lists the tensors; each is checked to lie in its file, and to
 * be there once. The caller closes the list, when it is done with names and paths. */
int safetensors_open(Safetensors *s, Model *m, const char *folder);
void safetensors_close(Safetensors *s);

/* NULL if there is none. */
Stored *safetensors_find(const Safetensors *s, const char *name);

/* Fills the model from a folder: config.json and safetensors. On failure the
 * caller closes it. */
int folder_read_model(Model *model, const char *folder);

/* ---- sessions: model.c, attention.c, mlp.c -------------------------------- */

typedef enum { KV_F32, KV_F16 } KvType;

/* Keys and values are kept in blocks of KV_BLOCK positions, transposed, so
 * that one vector holds the same element of neighbouring keys. */
enum { KV_BLOCK = 16 };

/* Queries that visit the cache together. */
enum { KV_QUERIES = 4 };

/* The keys and values of one layer; attention.c knows where in them what is. */
typedef struct {
    void *keys, *values; /* float or f16 */
    int blocks;
} KvLayer;

/* One token's use of one expert of a sparse layer. */
typedef struct {
    int token;    /* of the chunk */
    float weight; /* of what the expert says */
} Slot;

typedef struct Profile Profile;

/* One sequence in progress: its KV cache and the activations of one chunk. */
typedef struct {
    const Model *model;
    int n_threads;
    int batch;   /* most tokens in one chunk */
    int context; /* most positions */
    KvType kv_type;
    KvLayer *kv;        /* [n_layers] */
    int kv_blocks;      /* blocks allocated in each layer */
    int chunk;          /* tokens that the activations have room for */
    float *x;           /* [chunk][dim] the residual stream */
    float *xn;          /* [max(chunk, n_threads)][dim] normalized */
    float *q;           /* [chunk][n_heads * head_size] */
    float *kv_rows;     /* [chunk][2][n_kv_heads * head_size] new keys and values */
    float *att;         /* [chunk][n_heads * head_size] attention's output */
    float *scores;      /* [n_threads][kv_blocks * KV_BLOCK] */
    float *gate;        /* [chunk][hidden_dim], or [slots][expert_dim] */
    float *up;          /* the same */
    float *router;      /* [chunk][n_experts] logits, then weights */
    Slot *slots;        /* [chunk * n_experts_used], by expert, then by token */
    int *expert_start;  /* [n_experts + 1] an expert's first slot */
    float *expert_rows; /* [slots][dim] what goes into the experts, then what comes out */
    float *rope;        /* [chunk][head_size / 2][cos, sin] */
    double *rope_freq;  /* [head_size / 2] radians a position */
    InputBuffer input;
    float *logits;    /* [n_logits][vocab_size] */
    int n_logits;     /* rows that logits has room for */
    Profile *profile; /* not owned; NULL: off */
} Session;

/* context 0: the model's. Allocates next to nothing: the cache and the
 * activations grow with what is run. The model must outlive the session. */
int session_open(Session *s, const Model *model, int n_threads, int batch, int context, KvType kv_type);
void session_close(Session *s);

/* Runs tokens[n] at positions pos, pos + 1, ... (pos is at most the number of
 * positions that have run; from there the cache is overwritten). Long inputs
 * go in chunks of s->batch. Returns the logits of the last n_logits tokens,
 * float [n_logits][vocab_size], owned by the session until the next call; NULL
 * on failure (no memory, or pos + n beyond the context). n_logits may be 0
 * (the result is then not NULL, but points at nothing), and is at most n and,
 * to bound memory, at most s->batch.
 * The bits of the logits depend on the tokens alone: not on the chunks, not
 * on the threads. */
const float *model_forward(Session *s, const int *tokens, int n, int pos, int n_logits);

/* -1 and a message if one of the n logits is NaN or infinite. */
int check_logits(const float *logits, size_t n);

/* Room for that many blocks in a layer's cache; what it holds stays. -1: no memory. */
int kv_grow(KvLayer *kv, const Config *c, KvType type, int blocks);

/* x += attention(xn) for n tokens from position pos on: project, rotate,
 * remember, attend (Vaswani et al. 2017, sec. 3.2; rotary positions: Su et al.
 * 2021, sec. 3.4; grouped queries: Ainslie et al. 2023). In the region. */
void attention(Session *s, const Layer *layer, const KvLayer *kv, const float *xn, int n, int pos);

/* x += down(silu(gate(xn)) * up(xn)) (SwiGLU: Shazeer 2020); in a sparse layer the
 * sum of this over the experts that the router chooses for a token, each times
 * its weight (Shazeer et al. 2017). In the region. */
void mlp(Session *s, const Layer *layer, const float *xn, int n);

/* ---- profile.c ------------------------------------------------------------- */

/* The places of the forward pass that are timed. What is computed in one go is
 * one site; (start) is memory and threads being made ready and threads let go,
 * (profile) the cost of looking at the activations. */
typedef enum {
    SITE_START,
    SITE_EMBED,
    SITE_ATTN_NORM,
    SITE_QKV_ROPE,
    SITE_Q_NORM, /* in between; not in all models */
    SITE_K_NORM,
    SITE_ATTENTION,
    SITE_ATTN_OUT,
    SITE_MLP_NORM,
    SITE_ROUTER, /* of sparse layers */
    SITE_GATE_UP_SILU,
    SITE_DOWN,
    SITE_FINAL_NORM,
    SITE_LOGITS,
    SITE_PROFILE,
    N_SITES
} Site;

/* A call of model_forward with more than one token is prefill. */
typedef enum { PREFILL, DECODE, N_PHASES } Phase;

/* With `traces`, every stretch of time is kept, not only the sums. The caller
 * puts it into a session of this model and closes it; NULL on failure. */
Profile *profile_open(const Model *model, int n_threads, bool traces);
void profile_close(Profile *p);

/* What the forward pass says, where p or s->profile is not NULL: that it begins
 * with n tokens and ends, what the next chunk is, and, from every thread, that
 * `site` has ended (layer NULL: outside the layers). A norm also shows what
 * went in, x[n][dim], and came out, y[n][dim]. */
void profile_begin(Profile *p, int n);
void profile_chunk(Profile *p, int n, int pos, int n_logits);
void profile_mark(const Session *s, const Layer *layer, Site site);

/* A part of `site` has ended; the site goes on, perhaps after another one. */
void profile_part(const Session *s, const Layer *layer, Site site);

/* One of the vectors x[dim] that go into a norm, or have come `out`; all of a
 * token's are `width` elements. Any thread may show it, once. */
void profile_vector(const Session *s, const Layer *layer, Site site, bool out, const float *x, int dim, int width);
void profile_norm(const Session *s, const Layer *layer, Site site, const float *x, const float *y, int n);
void profile_end(Profile *p);

/* Seconds: of the forward passes as their caller sees them; of their parts as
 * the first thread saw them, or of the norms among these. */
double profile_total(const Profile *p, Phase phase);
double profile_parts(const Profile *p, Phase phase, bool norms_only);

/* Where a path goes: NULL to the table alone, .csv, .json; PROFILE_NONE: nowhere. */
typedef enum { PROFILE_NONE, PROFILE_TABLE, PROFILE_CSV, PROFILE_TRACE } ProfileFormat;
ProfileFormat profile_format(const char *path);

/* The table to stderr and, with a path, the file. */
int profile_report(const Profile *p, const char *path);

/* ---- pretokenize.c ---------------------------------------------------------- */

/* Ways to cut a text into words, within which alone neighbours merge. */
typedef enum {
    PATTERN_GPT2,
    PATTERN_LLAMA3,
    PATTERN_QWEN2,
    PATTERN_DIGIT,   /* every digit by itself */
    PATTERN_DIGITS3, /* three at a time */
    PATTERN_DIGITS,  /* all together */
    PATTERN_SPACED,  /* before every space */
} Pattern;

enum { MAX_STEPS = 4 };

typedef struct {
    Pattern steps[MAX_STEPS]; /* each cuts what the one before left */
    int n_steps;
    bool whole_words; /* a word that is a piece is one token, whatever merges there are */
} Pretokenizer;

/* Calls word(arg, s, n) for every word of the text, in order, until one is not 0;
 * -1 then. O(size). */
typedef int (*WordFunction)(void *arg, const char *s, size_t n);
int pretokenize(const Pretokenizer *p, const char *text, size_t size, WordFunction word, void *arg);

/* The pattern with this regular expression, letter for letter; -1: norma has none. */
int pattern_of_expression(const char *expression, Pattern *pattern);

/* By its name in GGUF files; -1: norma has none. And back; NULL: GGUF has none. */
int pretokenizer_of_name(const char *name, size_t n, Pretokenizer *p);
const char *pretokenizer_name(const Pretokenizer *p);

/* Its first step, for messages. */
const char *pretokenizer_shown(const Pretokenizer *p);

/* Whether the UTF-8 character s[length] is white space. */
bool is_white_space(const char *s, size_t length);

/* ---- normalize.c ------------------------------------------------------------ */

/* The text in Unicode's normalization form C, its size in *n; NULL: no memory. O(size).
 * The caller frees it. */
char *normalize_nfc(const char *text, size_t size, size_t *n);

/* ---- tokenizer.c, bpe.c ----------------------------------------------------- */

typedef enum {
    PIECE_TEXT,    /* text becomes it by merging */
    PIECE_USER,    /* user-defined: matches text as a whole, before anything merges */
    PIECE_SPECIAL, /* so does this, but nothing that is said in a chat */
    PIECE_BYTE,    /* one byte of what no other piece says */
    PIECE_CONTROL, /* never matches text; also <unk> and unused pieces */
} PieceKind;

typedef struct {
    const char *text; /* in the mapped file, or a byte piece's one byte */
    int length;
    float score;
    PieceKind kind;
    bool also_merged;           /* text becomes it by merging, too, though it is no PIECE_TEXT */
    bool raw;                   /* matches the text as it came, not as a normalizer leaves it */
    bool eats_left, eats_right; /* white space beside it is part of the match */
} Piece;

/* An open hash table of ids, -1: free. */
typedef struct {
    int32_t *slots;
    uint32_t mask;
} IdTable;

/* Neighbours left and right become `result`. The rule of the lowest rank goes first. */
typedef struct {
    int left, right, result, rank;
} MergeRule;

typedef struct {
    MergeRule *rules; /* [n], by left, then right; owned; NULL: pieces merge by their scores */
    int n;
    int *first; /* [n_pieces + 1], owned: the first rule of each left */
} Merges;

enum { MAX_ENDS = 16 };

typedef struct {
    Piece *pieces; /* [n_pieces] */
    int n_pieces;
    int bos, eos, unk;
    int eot;            /* ends a turn of chat; -1: none */
    int ends[MAX_ENDS]; /* [n_ends] more that end a text */
    int n_ends;
    int max_length;        /* of a piece in bytes */
    int max_user_length;   /* of a user-defined or special one */
    bool starts_user[256]; /* bytes that these begin with */
    int byte_piece[256];   /* token of each byte; unk if there is none */
    uint8_t bytes[256];
    bool no_bos, no_space_prefix;   /* text begins without the one, without the other */
    bool space_if_none, space_once; /* the space is put only where there is none; only before a whole text */
    bool replaces_invalid;          /* a byte that is no UTF-8 becomes U+FFFD, as in the sentencepiece library */
    bool replaces_mark;             /* U+2581 becomes a space, as in Hugging Face's tokenizers of that kind */
    bool byte_level;                /* merging begins with bytes, not with characters */
    bool composes;                  /* the text is put into normalization form C first */
    bool fuses_unknown;             /* neighbouring unknown characters are one <unk> */
    Merges merges;
    Pretokenizer pretokenizer;
    const char *chat_template; /* a Jinja program; NULL: none */
    size_t chat_template_size;
    bool chat_has_bos;       /* it says itself where BOS goes; else there is one wherever texts begin with it */
    char *chat_text;         /* it, owned; NULL where it is in a mapped file */
    char *text;              /* owned; NULL where the pieces' text is in the file */
    uint32_t hash_start;     /* of the tables */
    IdTable merged, matched; /* pieces that text becomes by merging, and as a whole */
    File file;
} Tokenizer;

typedef struct {
    int *ids; /* owned */
    int n;
} Tokens;

/* Completes a tokenizer whose pieces are filled in: finds the byte pieces (by
 * their names, "<0x0A>", if it is not byte_level) and builds the tables. */
int tokenizer_index(Tokenizer *t);

enum { MOST_USER_BYTES = 512 }; /* of a piece that matches as a whole: every place of a text is held against them */

/* Turns U+2581 into spaces in place; returns the bytes that are left. */
int piece_unmark(char *s, int n);

/* An empty table for n ids. */
int table_open(IdTable *table, size_t n);

/* The piece that is s[n] and that text becomes by merging; -1: none. */
int tokenizer_find(const Tokenizer *t, const char *s, int n);

/* Byte-pair encoding by ranks (Sennrich et al. 2016; over bytes: Radford et al.
 * 2019). A loader fills in the pieces under the names that its file gives them, in
 * t->text; then calls bpe_begin, which makes the names findable; bpe_add for each
 * of at most n merges, in the order of their ranks, two names with a space between
 * them, or bpe_add_pair; and bpe_end, which turns names into what they stand for.
 * `path` is for messages. */
int bpe_begin(Tokenizer *t, size_t n);
int bpe_add(Tokenizer *t, const char *path, const char *pair, size_t n);
int bpe_add_pair(Tokenizer *t, const char *path, const char *left, size_t n_left, const char *right, size_t n_right);
int bpe_end(Tokenizer *t);

/* The rule for two neighbours; NULL: they do not merge. */
const MergeRule *bpe_rule(const Merges *merges, int left, int right);

/* The name of a byte-level piece's byte: one character of UTF-8; returns its bytes. */
int bpe_byte_name(char name[2], uint8_t byte);

/* The tokenizer in a GGUF file. 1: there it is; -1: it is damaged, or `needed`
 * and of a kind that norma does not read; 0: not needed. Then *t has no pieces. */
int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed);

/* Opens a folder's tokenizer.json, of at most vocab_size pieces, with what the
 * files beside it say of it. Its special pieces match text, as in Hugging Face's
 * tokenizers. */
int tokenizer_open_json(Tokenizer *t, const char *path, int vocab_size);

/* Opens llama2.c's tokenizer.bin, which must hold vocab_size pieces. */
int tokenizer_open(Tokenizer *t, const char *path, int vocab_size);
void tokenizer_close(Tokenizer *t);

/* Encodes text[size] (any bytes). User-defined and special pieces match first,
 * the longest from left to right. What is between them gets a space in front,
 * where the tokenizer has it so, and is cut into words. A word is one token to
 * a character (unknown ones as bytes) or to a byte; then again and again the
 * neighbours merge whose piece has the best score, or whose rule comes first,
 * the leftmost first. O(n log n), with user-defined pieces of up to m bytes
 * O(n log n + n m). `bos` puts BOS in front. The caller frees ids. */
int tokenizer_encode(const Tokenizer *t, const char *text, size_t size, bool bos, Tokens *out);

/* The same behind what *out holds already; `space`: with the space in front. */
int tokenizer_append(const Tokenizer *t, const char *text, size_t size, bool space, Tokens *out);

/* Room for `more` tokens behind those that are there. */
int tokens_reserve(Tokens *tokens, size_t more);

/* The bytes of a token as text that follows token `previous` (after BOS the
 * leading space goes). Not zero-terminated. */
const char *tokenizer_decode(const Tokenizer *t, int previous, int token, int *length);

/* ---- template.c: chat templates -------------------------------------------- */

typedef struct ChatFamily ChatFamily; /* llama-2, minimind, chatml, zephyr or llama-3: template.c */

typedef struct {
    const ChatFamily *family;
    const char *name;
    int end;  /* token that ends an answer; -1: the vocabulary has none */
    bool bos; /* whether BOS is put where the format has it */
} ChatTemplate;

/* Recognises the template that came with the tokenizer. False: it is of no
 * known family; then, and where there is none, it is Llama 2's. From here on
 * no text of t becomes one of the family's markers, user-defined or not, nor a
 * special piece, nor one that was added to a vocabulary with ranked merges. */
bool chat_template_open(ChatTemplate *c, Tokenizer *t);

/* The tokens of one turn up to where the answer begins: what closes the last
 * answer (unless it is the first turn), the system prompt (in the first turn;
 * NULL or empty: none), what the user says. The caller frees ids. */
int chat_template_render(const ChatTemplate *c, const Tokenizer *t, const char *system, const char *user, bool first,
                         Tokens *out);

/* ---- sampler.c ------------------------------------------------------------ */

typedef struct {
    float temperature;    /* 0: greedy */
    float top_p;          /* 0 or 1: off */
    int top_k;            /* 0: off */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off */
    uint64_t seed;        /* not 0 */
} Sampling;

enum { REPEAT_WINDOW = 64 }; /* tokens that the repeat penalty looks back on */

typedef struct {
    float p;
    int id;
} Candidate;

typedef struct {
    Sampling options;
    uint64_t state; /* xorshift64* */
    int vocab_size;
    float *p;              /* [vocab_size] */
    Candidate *candidates; /* [vocab_size] */
    int recent[REPEAT_WINDOW];
    int n_recent; /* tokens seen so far */
} Sampler;

int sampler_open(Sampler *s, const Sampling *options, int vocab_size);
void sampler_close(Sampler *s);

/* Remembers a token (of the prompt or sampled) for the repeat penalty. */
void sampler_accept(Sampler *s, int token);

/* Picks the next token from logits[vocab_size]: repeat penalty, temperature,
 * top-k, top-p, min-p, draw. One number is drawn to a token unless greedy. */
int sampler_next(Sampler *s, const float *logits);

/* ---- stream.c: text on its way out ----------------------------------------- */

/* Writes text as it comes, whole UTF-8 characters only. On a terminal control
 * characters other than white space are left out and bytes that are no UTF-8
 * become U+FFFD; a pipe or a file gets every byte as it is. */
typedef struct {
    FILE *out;
    bool terminal;
    char held[4];
    int n_held;
    double flushed; /* when the reader last got something */
    int error;      /* errno of a write that failed */
} Stream;

/* Bytes of the UTF-8 character at s, of which `left` bytes are there; 0: there is none. */
int utf8_character(const char *s, size_t left);

/* The code point of the UTF-8 character s[length]. */
uint32_t utf8_code(const char *s, size_t length);

void stream_open(Stream *s, FILE *out);
void stream_write(Stream *s, const char *bytes, int n);

/* Writes what is held and flushes. -1 and a message if a write failed. */
int stream_close(Stream *s);

/* ---- the modes: run.c, chat.c, perplexity.c, info.c, bench.c, bench_norms.c, convert.c ---- */

typedef struct {
    const char *model, *mode, *prompt, *prompt_file, *tokenizer, *system, *output, *tokens, *type, *norm;
    Sampling sampling;
    int steps; /* -1: not given */
    int threads, batch, context, prompt_tokens;
    int kv; /* a KvType; -1: by the weights */
    bool json, verbose, profile;
    const char *profile_file; /* NULL: the table alone */
} Options;

/* Set by Ctrl-C; loops that generate or measure look at it. What waits for
 * input polls the file descriptor, which becomes readable then. */
extern volatile sig_atomic_t interrupted;
extern int interrupt_fd;

/* Exit status of a run that Ctrl-C ended. */
enum { EXIT_INTERRUPTED = 130 };

/* What a mode works with, opened as far as the mode needs it. */
typedef struct {
    const Options *options;
    Model model;
    Tokenizer tokenizer;
    bool has_tokenizer;
    Session session;
    Sampler sampler;
    Profile *profile; /* NULL: off */
    int n_ran;        /* tokens in the last forward pass */
} Run;

/* The tokens of --tokens, -i or -f, in this order; BOS in front of text if
 * asked for. The caller frees ids. */
int run_tokens(const Run *run, bool bos, Tokens *out);

/* What a text begins with if nothing else is there: BOS, or EOS where there is none; -1: neither. */
int run_first_token(const Run *run);

/* The logits of the last of n tokens, checked; NULL on failure. */
const float *run_logits(Run *run, const int *tokens, int n, int pos);

/* Whether a text (or a turn of chat) ends before this token. */
bool run_is_end(const Run *run, int token);

/* One token sampled from the logits, remembered for the repeat penalty. */
int run_sample(Run *run, const float *logits);

/* Each returns the exit status. */
int mode_chat(Run *run);
int mode_perplexity(Run *run);
int mode_info(Run *run);
int mode_bench(Run *run);
int mode_norms(Run *run);
int mode_convert(Run *run);

#endif
