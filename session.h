/* session.h: what a session is, and the functions of the decoder.
 *
 * A session runs a model's forward pass on texts in progress, and owns their
 * caches and the memory of activations. It contains no code. Activations are
 * row-major, float x[n_tokens][dim]. A function that fails prints one line to
 * stderr and returns -1 or NULL; int functions return 0 on success.
 */
#pragma once

#include "base/probe.h"
#include "kernels/input.h"
#include "kv_cache.h"
#include "model.h"
#include <stdatomic.h>

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
    /* plain.c: the cache, double [plain_room][n_layers][keys, values]
     * [n_kv_heads * head_size], and after it the vectors of a token; owned */
    double *plain;
    int plain_room; /* positions */
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

/* The layers [first, end) that a pass runs. */
typedef struct {
    int first, end;
    /* [n_steps][dim], not owned: the residual stream before layer `first` (if
     * that is 0, embeddings are written), after the pass the stream after the
     * last layer. NULL: memory of the session, with first 0. */
    float *x;
} LayerRange;

/* The steps that run together, and the memory of their
 * activations: one allocation. */
typedef struct {
    const Step *steps; /* [n], not owned */
    int n, n_spans, n_requested;
    LayerRange layers;
    atomic_int
        end;     /* of the layers that run; less than layers.end after Ctrl-C */
    Span *spans; /* [n_spans] the steps by sequence */
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
    InputBuffer input;  /* inputs of products, in the form of the weights */
    float *logits; /* [capacity.logits][vocab_size], of all chunks of a pass */
    float *out;    /* where in `logits` those of this chunk begin */
    Capacity capacity;
    void *memory; /* of all these, owned */
} Chunk;

typedef struct Session Session;

/* A second decoder, in place of the fast one: runs steps, copies sequences. */
typedef struct {
    const float *(*forward)(Session *s, const Step *steps, int n);
    int (*fork)(Session *s, int to, int from); /* -1: out of memory */
} Formulas;

/* Sequences in progress. */
struct Session {
    const Model *model;
    int n_threads;
    int batch;      /* max steps in a chunk; session_open() may lower it */
    int context;    /* max positions of a sequence */
    KvType kv_type; /* of all caches */
    /* runs the steps (plain.c); NULL: the fast decoder. Set it before the first
     * step. */
    const Formulas *plain;
    float *plain_logits; /* of its last pass, owned */
    Sequence *sequences; /* [n_sequences], owned */
    int n_sequences;
    Rope ropes[N_ROPES]; /* by RopeUse; if not used: of 0 elements of a head */
    Chunk chunk;         /* the chunk being run */
    double seconds;      /* duration of the last forward pass */

    /* Set by others, or 0. */
    int decode_threads; /* for a single token; 0: chosen by model size */
    Mirror *mirror;     /* repeats this session's changes in other processes */
    Probe *probe;       /* observes forward passes; not owned */
};

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
 * call; NULL on failure (out of memory, or a position beyond the context). NULL
 * without a message after Ctrl-C, which ends a pass after a layer: then none of
 * the steps has run. If no logits are requested the result is non-NULL and must
 * not be dereferenced. For a long prompt, request the logits of at most
 * s->batch steps, to bound memory.
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

/* Like model_forward_text, in some of the layers; logits are computed from the
 * stream after the last of them. A plain session runs all layers. */
const float *model_forward_layers(Session *s, const int *tokens, int n, int pos,
                                  int n_logits, LayerRange layers);

/* Makes room for these steps: buffers, caches, logits. -1: out of memory. */
int session_make_room(Session *s, const Step *steps, int n);

/* Returns -1 and prints a message if one of logits[n] is NaN or infinite. */
int check_logits(const float *logits, size_t n);

/* ---- the sublayers ----------------------------------------------------------
 *
 * Every thread of the parallel region calls these functions for the n steps of
 * the chunk: x[n][dim] is the residual stream, xn[n][dim] is norm(x). */

/* x += attention(xn), each step within its own sequence: attention.c. */
void attention(Session *s, const Layer *layer, float *x, const float *xn,
               int n);

/* x += mlp(xn) in a dense layer: mlp.c. */
void mlp(Session *s, const Layer *layer, float *x, const float *xn, int n);

/* Its halves: chunk.gate[n][hidden_dim] = silu(gate(xn)) * up(xn), and
 * x += down(chunk.gate). */
void mlp_hidden(Session *s, const Layer *layer, const float *xn, int n);
void mlp_down(Session *s, const Layer *layer, float *x, int n);

/* x += mixture(xn) in a sparse layer, the weighted sum of the experts that the
 * router selects: experts.c. */
void mixture(Session *s, const Layer *layer, float *x, const float *xn, int n);

/* gate[n][hidden_dim] = activation(gate(in)) * up(in), or without `up`,
 * activation(gate(in)). The threads share the rows; both products of a row are
 * on one thread, so no barrier is needed between them. up[n][hidden_dim] is
 * scratch. */
void mlp_gate_up(const Session *s, const Mlp *m, float *gate, float *up,
                 const Input *in, int n);
