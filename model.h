/* model.h: the types and functions of the decoder.
 *
 * Defines the transformer's configuration, layers, model and session. It
 * contains no code. Activations are row-major, float x[n_tokens][dim]; a weight
 * is [rows = out][cols = in]. A function that fails prints one line to stderr
 * and returns -1 or NULL; int functions return 0 on success.
 */
#pragma once

#include "base/file.h"
#include "base/probe.h"
#include "kernels/input.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "mlp.h"
#include "norm.h"
#include "rope.h"

#define NORMA_VERSION "0.1.0"

typedef struct {
    int dim;        /* width of the residual stream */
    int hidden_dim; /* width inside the MLP */
    int n_layers;
    int n_heads;    /* query heads */
    int n_kv_heads; /* key and value heads; divides n_heads */
    int head_size;  /* even; dim / n_heads in most models */
    int vocab_size;
    int context; /* max positions that the model was trained for */
    Rope rope;   /* of ROPE_GLOBAL layers */
    /* experts of a sparse layer, max MAX_EXPERTS; 0: all layers are dense */
    int n_experts;
    int n_experts_used; /* experts per token */
    int expert_dim;     /* width inside an expert */
    bool norm_topk; /* divide the weights of a token's experts by their sum */

    /* Optional features; 0: not used. */
    double local_base;     /* RoPE base of ROPE_LOCAL layers; never scaled */
    bool wide_head_norms;  /* q_norm and k_norm normalize all heads jointly */
    bool late_head_norms;  /* they come after rotation */
    Activation activation; /* of the MLP */
    float embedding_scale; /* multiplies embeddings */
    float residual_scale;  /* multiplies a sublayer's output before the sum */
    float attention_scale; /* multiplies scores; 0: 1 / sqrt(head_size) */
    float attention_cap;   /* a score z becomes cap tanh(z / cap) */
    float logit_scale;     /* multiplies logits, before the cap */
    float logit_cap;       /* a logit z becomes cap tanh(z / cap) */
} Config;

enum { MAX_EXPERTS = 1024 };

/* The weights of one SwiGLU: a layer's MLP, an expert, or the shared expert of
 * a sparse layer. */
typedef struct {
    Tensor gate; /* [hidden_dim, dim]; w1 in llama2.c */
    /* [hidden_dim, dim]; w3 in llama2.c; absent: activation(gate) is
     * multiplied by 1 */
    Tensor up;
    Tensor down; /* [dim, hidden_dim]; w2 in llama2.c */
    /* [1, dim]; the output is multiplied by sigmoid(weight x); absent: by 1 */
    Tensor weight;
} Mlp;

/* How the heads of a layer rotate: by Config.rope; by local_base, unscaled; or
 * not at all. */
typedef enum { ROPE_GLOBAL, ROPE_LOCAL, ROPE_NONE, N_ROPES } RopeUse;

/* x += post(attention(pre(x))), x += post(mlp(pre(x))). An absent norm is
 * NORM_NONE. Without mlp_norm and mlp_post_norm both run from attn_norm:
 * x += attention(pre(x)) + mlp(pre(x)). */
typedef struct {
    /* number of the layer, from 0; positions that a query sees, including its
     * own (0: no limit) */
    int index, window;
    RopeUse rope;
    Norm attn_norm;
    Tensor wq;     /* [n_heads * head_size, dim] */
    Tensor wk, wv; /* [n_kv_heads * head_size, dim] */
    /* before rotation, or after it; [head_size], with wide_head_norms
     * [all heads] */
    Norm q_norm, k_norm;
    Tensor wo;           /* [dim, n_heads * head_size] */
    Norm attn_post_norm; /* of attention's output, before it is added to x */
    Norm mlp_norm;
    Mlp mlp; /* dense layers; the shared expert of a sparse layer, or absent */
    Tensor router;      /* [n_experts, dim]; sparse layers */
    Mlp *experts;       /* [n_experts], no biases, owned; NULL: a dense layer */
    Norm mlp_post_norm; /* of the MLP's output, before it is added to x */
} Layer;

typedef struct {
    Config config;
    Tensor embedding; /* [vocab_size, dim] */
    Layer *layers;    /* [n_layers], owned */
    Norm final_norm;
    Tensor output; /* [vocab_size, dim]; the embedding itself when tied */
    bool tied;
    /* [rope.dims / 2] factors that divide the angles, owned; NULL: none. Long
     * factors (LongRoPE) are for sessions beyond `context`. */
    double *rope_factors, *long_factors;
    int long_context; /* with long_factors: max positions of such a session */
    /* norms and biases that the file does not store as float32,
     * owned; NULL: none */
    float *vectors;
    const char *format; /* name of the file format, for example "llama2.c v0" */
    /* name of its family in GGUF files; NULL: none, or llama2.c's formats */
    const char *family;
    int bos, eos;  /* token ids for models without a tokenizer; -1: none */
    bool eos_ends; /* whether EOS ends a text; BOS always does */
    /* why `context` is shorter than in the checkpoint; NULL if it is not */
    const char *ended_by;
    KvType kv_type; /* default type of the KV cache */
    bool bf16;      /* some weights are BF16 */
    /* bytes of the weights read for one token: layers, norms, output,
     * one embedding row */
    size_t decode_bytes;
    size_t parameters;
    /* target of the tensors' `share` pointers (cluster/share.c), owned; NULL:
     * all rows are here */
    Share *shares;
    /* packed copy of weights (formats/pack.c), owned; NULL: none */
    uint8_t *panels;
    File *files; /* [n_files], owned; tensors point into them */
    int n_files;
} Model;

/* One token's use of one expert of a sparse layer. */
typedef struct {
    int token;    /* index in the chunk */
    float weight; /* multiplies the expert's output */
} Slot;

/* The slots of an expert that some token of a chunk uses. */
typedef struct {
    int expert, first, n; /* slots [first, first + n) */
} UsedExpert;

/* Whether a step's logits are requested. GUESS_LOGITS: logits of a draft token;
 * the step still counts as decode. */
typedef enum { NO_LOGITS, LOGITS, GUESS_LOGITS } StepLogits;

/* One token to run. */
typedef struct {
    int token;
    int sequence; /* index of the sequence it continues */
    int pos; /* position in the sequence; max: its number of cached positions */
    StepLogits logits;
} Step;

/* Consecutive steps of a chunk that have consecutive positions in
 * one sequence. */
typedef struct {
    int first, n; /* index of the first step in the chunk; number of steps */
    int sequence, pos; /* of the first step */
} Span;

/* A text in progress. */
typedef struct {
    KvCache kv; /* keys and values of its positions */
    int n_ran;  /* cached positions since the sequence last restarted */
} Sequence;

/* A change of a session: copy sequence `b` to `a`, or run steps[a]. */
typedef enum { SESSION_FORK, SESSION_RUN } SessionChange;
typedef void Mirror(SessionChange change, int a, int b, const Step *steps);

/* how far a sequence with a sliding window can be rewound, in positions */
enum { MAX_ROLLBACK = 64 };

/* Capacity of a chunk's memory: positions of the longest sequence, rows of
 * logits of all chunks of a pass. */
typedef struct {
    int steps, positions, logits;
} Capacity;

/* The steps that run together, and the memory of their
 * activations: one allocation. */
typedef struct {
    const Step *steps; /* [n], not owned */
    int n, n_spans, n_requested;
    Span *spans;    /* [n_spans] the steps by sequence */
    int *requested; /* [n_requested] the steps whose logits are requested */
    /* [n][dim] residual stream; a sublayer's output, if a post-norm or
     * a scale follows */
    float *x, *branch;
    float *xn;              /* [max(n, n_threads)][dim] normalized rows of x */
    float *angles[N_ROPES]; /* [n][rope.dims / 2][cos, sin] */
    float *q, *att;   /* [n][n_heads * head_size] queries; the heads' outputs */
    float *k, *v;     /* [n][n_kv_heads * head_size] before they are cached */
    float *scores;    /* [n_threads][KV_QUERIES][capacity.positions] */
    float *gate, *up; /* [n][hidden_dim], or [slots][expert_dim] */
    float *router;    /* [n][n_experts] logits, then weights */
    float *shared;    /* [n] logits of the shared expert */
    Slot *slots; /* [n * n_experts_used], sorted by expert, then by token */
    UsedExpert *used; /* [n_used] in ascending order */
    int n_used;
    float *expert_rows; /* [slots][dim] the experts' input, then their output */
    /* formulas: one row of a weight; a sublayer's output for one
     * token, [dim] */
    float *row, *added;
    InputBuffer input; /* inputs of products, in the form of the weights */
    float *logits; /* [capacity.logits][vocab_size], of all chunks of a pass */
    float *out;    /* where in `logits` those of this chunk begin */
    Capacity capacity;
    void *memory; /* of all these, owned */
} Chunk;

/* Sequences in progress. */
typedef struct {
    const Model *model;
    int n_threads;
    int batch;      /* max steps in a chunk; session_open() may lower it */
    int context;    /* max positions of a sequence */
    KvType kv_type; /* of all caches */
    /* use the `_plain` formulas: double precision, one thread; always set
     * by `make PLAIN=1` */
    bool plain;
    Sequence *sequences; /* [n_sequences], owned */
    int n_sequences;
    Rope ropes[N_ROPES]; /* by RopeUse; if not used: of 0 elements of a head */
    Chunk chunk;         /* the chunk being run */
    double seconds;      /* duration of the last forward pass */

    /* Set by others, or 0. */
    int decode_threads; /* for a single token; 0: chosen by model size */
    Mirror *mirror;     /* repeats this session's changes in other processes */
    Probe *probe;       /* observes forward passes; not owned */
} Session;

/* Opens a session with one sequence. context 0: config.context. Allocates
 * little: caches and buffers grow as steps run. The number of threads and the
 * batch are halved until buffers and logits take at most 128 MB or 4 times
 * decode_bytes, whichever is more. The model must outlive the session. */
int session_open(Session *s, const Model *model, int n_threads, int batch,
                 int context, KvType kv_type);
void session_close(Session *s);

/* Disables sliding-window eviction in sequence 0, so that any position of it
 * can be run again. Call it before the first step. */
void session_keep_all(Session *s);

/* Opens sequences until there are n; steps and forks do so too. -1: out of
 * memory. */
int session_reserve(Session *s, int n);

/* Makes sequence `to` a copy of `from`. -1: out of memory. */
int session_fork(Session *s, int to, int from);

/* Runs steps[n] of any sequences, in chunks of s->batch; a sequence's positions
 * must ascend. Returns the requested logits in the order of the steps, float
 * [n_requested][vocab_size], owned by the session and valid until the next
 * call; NULL on failure (out of memory, or a position beyond the context). If
 * none are requested the result is non-NULL and must not be dereferenced. For a
 * long prompt, request the logits of at most s->batch steps, to bound memory.
 *
 * The bits of a step's logits depend only on its sequence's tokens up to that
 * step, not on other sequences, chunks or threads. A step at a cached position
 * overwrites the cache from there; with a sliding window the position must be 0
 * or one of the last MAX_ROLLBACK. */
const float *model_forward(Session *s, const Step *steps, int n);

/* Like model_forward, for tokens[n] of sequence 0 from position pos; requests
 * the last n_logits tokens' logits. */
const float *model_forward_text(Session *s, const int *tokens, int n, int pos,
                                int n_logits);

/* Makes room for these steps: buffers, caches, logits. -1: out of memory. */
int session_make_room(Session *s, const Step *steps, int n);

/* Returns -1 and prints a message if one of logits[n] is NaN or infinite. */
int check_logits(const float *logits, size_t n);

/* ---- the sublayers ----------------------------------------------------------
 *
 * Every thread of the parallel region calls these functions for the n steps of
 * the chunk: x[n][dim] is the residual stream, xn[n][dim] is norm(x). The
 * `_plain` variants are the formulas; one thread calls them. */

/* x += attention(xn), each step within its own sequence: attention.c. */
void attention(Session *s, const Layer *layer, float *x, const float *xn,
               int n);
void attention_plain(Session *s, const Layer *layer, float *x, const float *xn,
                     int n);

/* x += mlp(xn) in a dense layer: mlp.c. */
void mlp(Session *s, const Layer *layer, float *x, const float *xn, int n);
void mlp_plain(Session *s, const Layer *layer, float *x, const float *xn,
               int n);

/* x += mixture(xn) in a sparse layer, the weighted sum of the experts that the
 * router selects: experts.c. */
void mixture(Session *s, const Layer *layer, float *x, const float *xn, int n);
void mixture_plain(Session *s, const Layer *layer, float *x, const float *xn,
                   int n);

/* Computes y[dim] = SwiGLU m of one token xn[dim], by the formula. */
void swiglu_plain(Session *s, const Mlp *m, float *y, const float *xn);

/* gate[n][hidden_dim] = activation(gate(in)) * up(in), or without `up`,
 * activation(gate(in)). The threads share the rows; both products of a row are
 * on one thread, so no barrier is needed between them. up[n][hidden_dim] is
 * scratch. */
void mlp_gate_up(const Session *s, const Mlp *m, float *gate, float *up,
                 const Input *in, int n);
