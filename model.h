/* model.h: what a model is: sizes, layers, weights.
 *
 * The loaders (formats/) fill a Model; the decoder only reads it. It contains
 * no code. A weight is [rows = out][cols = in], row-major.
 */
#pragma once

#include "base/file.h"
#include "kernels/attend.h"
#include "kernels/tensor.h"
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
    float attention_scale; /* multiplies scores; 0: 1 / sqrt(head_size) */
    float attention_cap;   /* a score z becomes cap tanh(z / cap) */
    float logit_cap;       /* a logit z becomes cap tanh(z / cap) */

    /* Scales; 1: not scaled. */
    float embedding_scale; /* multiplies embeddings */
    float residual_scale;  /* multiplies a sublayer's output before the sum */
    float logit_scale;     /* multiplies logits, before the cap */
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
    /* weights that the file stores as float64, owned; NULL: none */
    float *rounded;
    const char *format; /* name of the file format, for example "llama2.c v0" */
    /* of the weights, as people name it: "Q4_K_M", "Q4_1 with q8_0 output" */
    char type[40];
    /* name of its family in GGUF files; NULL: none, or llama2.c's formats */
    const char *family;
    int bos, eos;  /* token ids for models without a tokenizer; -1: none */
    bool eos_ends; /* whether EOS ends a text; BOS always does */
    /* why `context` is shorter than in the checkpoint; NULL if it is not */
    const char *ended_by;
    KvType kv_type; /* default type of the KV cache */
    /* bytes of the weights read for one token: layers, norms, output,
     * one embedding row; number of parameters */
    size_t decode_bytes, parameters;
    /* target of the tensors' `share` pointers (cluster/share.c), owned; NULL:
     * all rows are here */
    Share *shares;
    /* packed copy of weights (formats/pack.c), owned; NULL: none */
    uint8_t *panels;
    File *files; /* [n_files], owned; tensors point into them */
    int n_files;
} Model;
