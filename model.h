/* model.h: what a model is.
 *
 * Owns the vocabulary of the transformer: configuration, layer, model, session, and the functions of the
 * decoder. It holds no code. Activations are row-major float x[n_tokens][dim], a weight is [rows = out][cols = in].
 * Functions that can fail say one line on stderr and return -1 or NULL; on success int functions return 0.
 */
#pragma once

#include "base/file.h"
#include "base/probe.h"
#include "kernels/matmul.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
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
    int context;        /* longest sequence the model was made for */
    Rope rope;          /* how positions rotate the heads */
    int n_experts;      /* of a sparse layer, up to MOST_EXPERTS; 0: all layers are dense */
    int n_experts_used; /* by each token */
    int expert_dim;     /* width inside an expert */
    bool norm_topk;     /* the weights of a token's experts are divided by their sum */

    /* What only some families have; 0: this one has it not. */
    double local_base;     /* RoPE's base in layers with ROPE_LOCAL, which nothing stretches */
    bool wide_head_norms;  /* q_norm and k_norm are each of all heads of a token together */
    bool gelu;             /* the gate of the MLP is GELU, in its tanh form; else SiLU */
    float embedding_scale; /* factor of embeddings */
    float residual_scale;  /* factor of what a sublayer adds */
    float attention_scale; /* factor of scores; 0: 1 / sqrt(head_size) */
    float attention_cap;   /* a score z becomes cap tanh(z / cap) */
    float logit_scale;     /* factor of logits, */
    float logit_cap;       /* before they are capped as scores are */
} Config;

enum { MOST_EXPERTS = 1024 };

/* The weights of one SwiGLU: a layer's MLP, or an expert. */
typedef struct {
    Tensor gate; /* [hidden_dim, dim]; w1 in llama2.c */
    Tensor up;   /* [hidden_dim, dim]; w3 in llama2.c */
    Tensor down; /* [dim, hidden_dim]; w2 in llama2.c */
} Mlp;

/* How the heads of a layer rotate: as Config.rope says, with local_base and nothing else of it, or not at all. */
typedef enum { ROPE_GLOBAL, ROPE_LOCAL, ROPE_NONE } RopeUse;
enum { N_ROPES = ROPE_NONE };

/* x += post(attention(pre(x))), x += post(mlp(pre(x))): a pre-norm that a family has not is NORM_NONE. */
typedef struct {
    int index;  /* among the layers */
    int window; /* positions that a query sees, its own and those before it; 0: all */
    RopeUse rope;
    Norm attn_norm;
    Tensor wq; /* [n_heads * head_size, dim] */
    Tensor wk; /* [n_kv_heads * head_size, dim] */
    Tensor wv; /* [n_kv_heads * head_size, dim] */
    Norm q_norm,
        k_norm; /* [head_size], of each head before it rotates (wide_head_norms: [all heads]); gamma NULL: none */
    Tensor wo;  /* [dim, n_heads * head_size] */
    Norm attn_post_norm; /* of what attention adds to the residual; gamma NULL: there is none */
    Norm mlp_norm;
    Mlp mlp;            /* of a dense layer */
    Tensor router;      /* [n_experts, dim], of a sparse layer */
    Mlp *experts;       /* [n_experts], without biases, owned; NULL: the layer is dense */
    Norm mlp_post_norm; /* of what the MLP adds; gamma NULL: there is none */
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
    int bos, eos;         /* the ids that the format gives them where there is no tokenizer; -1: none */
    bool eos_ends;        /* EOS ends a text; BOS always does */
    const char *ended_by; /* why the context is shorter than the model's own; NULL: it is not */
    KvType kv_type;       /* of a cache, unless the user says otherwise */
    bool bf16;            /* some weights are BF16 */
    size_t decode_bytes;  /* weights read for one token: all layers, norms, output, one embedding row */
    size_t parameters;
    void *shares;    /* what the tensors' `share` points to (cluster/share.c), owned; NULL: one process has all rows */
    uint8_t *panels; /* of all weights (formats/pack.c), owned; NULL: not packed */
    File *files;     /* [n_files], owned; the tensors point into them */
    int n_files;
} Model;

/* One token's use of one expert of a sparse layer. */
typedef struct {
    int token;    /* of the chunk */
    float weight; /* factor of the expert's output */
} Slot;

/* Whether the logits of a step are wanted; those of a guess are, and it is decoded, like the token in front of it. */
typedef enum { NO_LOGITS, LOGITS, GUESS_LOGITS } StepLogits;

/* One token that runs. */
typedef struct {
    int token;
    int sequence; /* whose past it follows */
    int pos;      /* in the sequence: at most the number of its positions that have run; see model_forward() */
    StepLogits logits;
} Step;

/* Steps of a chunk, one behind the other, that one sequence takes at neighbouring positions. */
typedef struct {
    int first, n; /* of the chunk */
    int sequence, pos;
} Span;

/* A text in progress: what it has said is in its KV cache. */
typedef struct {
    KvCache kv; /* keys and values of the positions that have run */
    int n_ran;  /* positions that have run since the last from 0 on */
} Sequence;

/* A change of a session: reserve `a` sequences, fork sequence `b` to `a`, keep all positions, or run steps[a]. */
typedef enum { SESSION_RESERVE, SESSION_FORK, SESSION_KEEP_ALL, SESSION_RUN } SessionChange;
typedef void Mirror(SessionChange change, int a, int b, const Step *steps);

enum {
    MOST_BACK = 64 /* positions that may be overwritten where a window's layer keeps no more than it needs */
};

/* Sequences in progress, and the activations of one chunk of their steps. */
typedef struct {
    const Model *model;
    int n_threads;
    int batch;           /* most steps in one chunk; less than session_open() got where that would be too large */
    int context;         /* most positions of a sequence */
    KvType kv_type;      /* of all caches */
    bool keeps_all;      /* windows forget nothing */
    Sequence *sequences; /* [n_sequences], owned */
    int n_sequences;
    Rope ropes[N_ROPES];          /* how heads rotate, by RopeUse */
    double *frequencies[N_ROPES]; /* [rope.dims / 2], radians a position; NULL: no layer rotates so */
    const Step *steps;            /* [n] those of the chunk that runs, not owned */
    int n_spans, n_wanted;        /* of that chunk: */
    Span *spans;                  /* [n_spans] its steps by sequence */
    int *wanted;                  /* [n_wanted] its steps whose logits are wanted */
    int chunk;                    /* steps that the activations have room for: */
    float *x;                     /* [chunk][dim] the residual stream */
    float *xn;                    /* [max(chunk, n_threads)][dim] normalized */
    float *branch;                /* [chunk][dim] what is added to x, where a norm stands between */
    float *angles[N_ROPES];       /* [chunk][rope.dims / 2][cos, sin] */
    float *q;                     /* [chunk][n_heads * head_size] */
    float *k, *v;                 /* [chunk][n_kv_heads * head_size] on their way into the cache */
    int room;                     /* positions that the largest cache has room for */
    float *scores;                /* [n_threads][KV_QUERIES][room] */
    float *att;                   /* [chunk][n_heads * head_size] attention's output */
    float *gate, *up;             /* [chunk][hidden_dim], or [slots][expert_dim] */
    float *router;                /* [chunk][n_experts] logits, then weights */
    Slot *slots;                  /* [chunk * n_experts_used], by expert, then by token */
    int *expert_start;            /* [n_experts + 1] an expert's first slot */
    float *expert_rows;           /* [slots][dim] the experts' input, then their output */
    bool plain;                   /* by the formulas (`_plain`), in double, by one thread; `make PLAIN=1`: always */
    float *row;                   /* [widest input of a product] and */
    float *added;                 /* [dim] for the formulas: a row of a weight; what a sublayer adds to one token */
    InputBuffer input;            /* for activations as int8 and in parts */
    float *logits;                /* [n_logits][vocab_size] */
    int n_logits;                 /* rows that logits has room for */
    int decode_threads;           /* for one token; 0: chosen by the model's size */
    double seconds;               /* duration of the last forward pass */
    Mirror *mirror;               /* repeats this session's changes in other processes; NULL: there are none */
    Probe *observer;              /* not owned; NULL: nobody observes */
    Probe *probe;                 /* the observer, in a forward pass that it observes, else NULL */
} Session;

/* A session of one sequence. context 0: the model's. Allocates next to nothing: caches and activations grow with what
 * is run. The number of threads and the batch are halved until activations, logits and scratch memory take at most
 * 128 MB or 4 times decode_bytes, whichever is more. The model must outlive the session. */
int session_open(Session *s, const Model *model, int n_threads, int batch, int context, KvType kv_type);
void session_close(Session *s);

/* Windows forget nothing: any position can run again. To be called before anything runs. */
void session_keep_all(Session *s);

/* Room for n sequences; those that there are stay as they are. -1: no memory. */
int session_reserve(Session *s, int n);

/* Sequence `to` becomes a copy of `from`: both go on from the same past. -1: no memory. */
int session_fork(Session *s, int to, int from);

/* Runs steps[n], of any sequences, in chunks of s->batch. Of one sequence, positions come in order. Returns the logits
 * that the steps want, in their order, float [wanted][vocab_size], owned by the session until the next call; NULL on
 * failure (no memory, or a position beyond the context). Where none are wanted the result is not NULL, but points at
 * nothing; to bound memory, at most s->batch are. The bits of a step's logits depend on the tokens of its sequence up
 * to it alone: not on the other sequences, not on the chunks, not on the threads. A step at a position that has run
 * already overwrites the cache from there; where windows forget, so can the last MOST_BACK positions, and 0. */
const float *model_forward(Session *s, const Step *steps, int n);

/* The same for tokens[n] of sequence 0, from position pos on; the logits of the last n_logits are wanted. */
const float *model_forward_text(Session *s, const int *tokens, int n, int pos, int n_logits);

/* Whether a norm or a factor stands between a sublayer and the residual stream: not in LLaMA. */
bool has_branch(const Session *s, const Norm *post);

/* Room for what these steps need: activations, caches, logits. -1: no memory. */
int session_make_room(Session *s, const Step *steps, int n);

/* -1 and a message if n positions do not fit in the context. */
int check_context(const Session *s, int64_t n);

/* -1 and a message if one of the n logits is NaN or infinite. */
int check_logits(const float *logits, size_t n);

/* ---- the sublayers ------------------------------------------------------------------
 *
 * Each is called by every thread of an OpenMP parallel region, for the n steps of the chunk: x[n][dim] is the residual
 * stream, xn[n][dim] is norm(x). */

/* x += attention(xn), each step looking back on its own sequence: attention.c. `_plain`: the formula, by one thread. */
void attention(Session *s, const Layer *layer, float *x, const float *xn, int n);
void attention_plain(Session *s, const Layer *layer, float *x, const float *xn, int n);

/* x += mlp(xn) in a dense layer: mlp.c. */
void mlp(Session *s, const Layer *layer, float *x, const float *xn, int n);
void mlp_plain(Session *s, const Layer *layer, float *x, const float *xn, int n);

/* x += mixture(xn) in a sparse layer, the weighted sum of the experts that the router chooses: experts.c. */
void mixture(Session *s, const Layer *layer, float *x, const float *xn, int n);
void mixture_plain(Session *s, const Layer *layer, float *x, const float *xn, int n);

/* y[dim] = the SwiGLU m of xn[dim], one token, by its formula. */
void swiglu_plain(Session *s, const Mlp *m, float *y, const float *xn);

/* Elements [first, first + count) of gate[n][hidden_dim] = silu(gate(in)) * up(in), or gelu for silu, by one thread:
 * both products in one task, so that no barrier is between them. up[n][hidden_dim] is scratch. */
void mlp_gate_up(const Mlp *m, bool gelu, float *gate, float *up, int first, int count, const Input *in, int n);

/* gate or up: one that multiplies int8 activations if there is one, so that the input is quantized. */
const Tensor *mlp_input_weight(const Mlp *m);
