/* hf_config.h: what config.json says of the model in a Hugging Face folder. */
#pragma once

#include "formats/json.h"
#include "formats/parts.h"
#include "model.h"

/* The features of an architecture. */
enum {
    QKV_BIASES = 1 << 0,      /* the projections to q, k and v have biases, without an option */
    QKV_BIAS_OPTION = 1 << 1, /* with the option use_qkv_bias */
    ATTENTION_BIAS = 1 << 2,  /* the option attention_bias: biases of q, k, v and of the output projection */
    MLP_BIASES = 1 << 3,      /* the option mlp_bias */
    TIED = 1 << 4,            /* tie_word_embeddings is true where it is missing */

    EXPERTS = 1 << 5,          /* num_experts > 0, and options that leave some layers dense */
    SWITCHED_EXPERTS = 1 << 6, /* experts in every layer if use_moe is true */
    MIXTRAL_EXPERTS = 1 << 7,  /* experts in every layer, as wide as intermediate_size says, and named w1, w2, w3 */
    NORM_TOPK = 1 << 8,        /* norm_topk_prob is true where it is missing */

    HEAD_NORMS = 1 << 9,            /* every layer has q_norm and k_norm */
    HEAD_NORMS_IF_STORED = 1 << 10, /* a layer has q_norm and k_norm, or neither */
    WIDE_HEAD_NORMS = 1 << 11,      /* they are of all heads together */
    POST_NORMS = 1 << 12,           /* norms stand behind sublayers, */
    NO_PRE_NORMS = 1 << 13,         /* and none before them */
    LAYER_NORMS = 1 << 14,          /* norms are LayerNorms, with gamma and beta */
    BARE_NORMS = 1 << 15,           /* norms are LayerNorms with neither, which are not stored */

    GEMMA = 1 << 16, /* gamma is stored less 1, GELU gates, scores and logits have caps, and more in read_factors() */
    MULTIPLIERS = 1 << 17, /* Granite's factors of embeddings, scores, residual and logits */
    FUSED = 1 << 18,       /* q, k and v are one tensor, gate and up another */

    SWITCHED_YARN = 1 << 19,  /* MiniMind's YaRN if inference_rope_scaling is true; else rope_type names the scaling */
    LONGROPE = 1 << 20,       /* the scaling is LongRoPE's, or there is none */
    LOCAL_ROPE = 1 << 21,     /* layers that slide have a base of their own, and no scaling */
    NO_ROPE_LAYERS = 1 << 22, /* heads of some layers do not rotate; these are the ones that slide, if any */
    SLIDES = 1 << 23,         /* sliding_window counts, */
    SLIDES_IF_USED = 1 << 24, /* if use_sliding_window is true, */
    LAYER_TYPES = 1 << 25,    /* in the layers that layer_types says, if it is there; */
    GEMMA3 = 1 << 26,         /* else in all but every sliding_window_pattern-th; rope_local_base_freq counts, too */
    WINDOW_ABOVE = 1 << 27,   /* else in those from max_window_layers on */
};

/* What one model_type has that another has not. */
typedef struct {
    const char *model_type;
    double rope_base;  /* where rope_theta is missing */
    int context;       /* where max_position_embeddings is missing */
    int head_size;     /* where head_dim is missing; 0: hidden_size / num_attention_heads */
    double eps;        /* where rms_norm_eps or layer_norm_eps is missing; with BARE_NORMS always */
    int window;        /* where sliding_window is missing; 0: none */
    int full_every;    /* every so many layers one does not slide; 0: all slide */
    int features;      /* a sum */
    double local_base; /* with LOCAL_ROPE, where the file gives none */
    double rotating;   /* part of a head that rotates, where partial_rotary_factor is missing; 0: always all of it */
    double attention_cap, logit_cap; /* where attn_logit_softcapping and final_logit_softcapping are missing; 0: none */
} Architecture;

typedef struct {
    Model *model;
    JsonFile json;       /* config.json */
    const Json *options; /* the object in it */
    int status;          /* of reading it. -1: a message is out; no other follows */
    const Architecture *architecture;
    float eps;                 /* of every norm */
    bool biases[MLP_BIAS + 1]; /* by PartBias: whether the weights of this group have biases */
    bool *is_sparse;           /* [n_layers], owned: these have experts; NULL: none has */
} HfConfig;

static inline bool has(const HfConfig *h, int feature) { return h->architecture->features & feature; }

/* Reads the file `path` into the model's config, and what differs from layer to layer into its layers, for which there
 * is memory then; n_tensors: those that the folder has. -1 and a message on failure; the caller closes it in any case.
 */
int hf_config_open(HfConfig *h, Model *m, const char *path, size_t n_tensors);
void hf_config_close(HfConfig *h);
