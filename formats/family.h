/* family.h: the supported model families, one record each, and the table of
 * keys that describe a model.
 *
 * Owns the facts about families: what their layers are, their defaults, and how
 * GGUF files and Hugging Face folders store them. The readers and gguf_write.c
 * walk these tables.
 */
#pragma once

#include "formats/parts.h"
#include "formats/stored.h"

/* Where a layer has norms of the residual stream. */
typedef enum {
    NORMS_BEFORE, /* before attention and before the MLP */
    NORMS_AFTER,  /* after both, before their output is added */
    NORMS_AROUND, /* before and after both */
    NORM_SHARED   /* one norm, whose output is the input of both */
} NormPlaces;

/* What all its norms are. */
typedef enum {
    RMS_NORMS,
    LAYER_NORMS,
    LAYER_NORMS_BETA_OPTIONAL,
    LAYER_NORMS_BARE /* nothing is stored: gamma is 1, beta is 0 */
} NormForm;

/* Norms of queries and keys. */
typedef enum {
    NO_HEAD_NORMS,
    HEAD_NORMS,      /* each head has a norm, before RoPE */
    HEAD_NORMS_LATE, /* each head has a norm, after RoPE */
    HEAD_NORMS_WIDE, /* one norm of all heads jointly, before RoPE */
    HEAD_NORMS_IF_STORED
} HeadNorms;

/* Which layers have the sliding window, unless the file lists them. */
typedef enum {
    ALL_LAYERS,
    ALL_BUT_EVERY_PERIODTH,       /* every layer but each period-th */
    FROM_MAX_WINDOW_LAYERS,       /* max_window_layers is their first one */
    EVEN_BELOW_MAX_WINDOW_LAYERS, /* 0, 2, ... below max_window_layers */
    LAYERS_WITHOUT_ROPE
} WindowedLayers;

/* How layers rotate. */
typedef enum {
    ROPE_IN_ALL_LAYERS,
    ROPE_BUT_EVERY_PERIODTH, /* in every layer but each period-th */
    /* if some layers have a window, the others have no RoPE */
    ROPE_IN_WINDOWED_LAYERS,
    /* layers with a window have RoPE that is not scaled, with its own base */
    ROPE_LOCAL_IN_WINDOWED_LAYERS
} RotatingLayers;

/* The sliding window in a GGUF file. */
typedef enum {
    /* Its layers are not known. In a context that ends at the window all layers
     * are the same. */
    WINDOW_ENDS_CONTEXT,
    WINDOW_READ, /* read, but not written, because llama.cpp ignores it */
    WINDOW_STORED
} GgufWindow;

/* RoPE's factors as tensors of a GGUF file. */
typedef enum {
    NO_FACTOR_TENSORS,
    ONE_FACTOR_TENSOR, /* rope_freqs */
    LONGROPE_TENSORS   /* rope_factors_short and rope_factors_long */
} GgufFactors;

/* Whether a folder's sliding_window counts. */
typedef enum {
    WINDOW_IGNORED,
    WINDOW_COUNTS,
    WINDOW_IF_USED /* if use_sliding_window is true */
} FolderWindow;

/* Which biases the option attention_bias of a folder gives. */
typedef enum {
    NO_OPTION,
    BIAS_OF_ATTENTION, /* q, k, v and the output projection; default false */
    BIAS_OF_QKV,       /* default true */
    BIAS_REFUSED
} AttentionBias;

/* Which layers of a folder have experts. */
typedef enum {
    NO_EXPERTS,
    EXPERTS_IF_ROUTER, /* layers with a router; none if num_experts is 0 */
    EXPERTS_IN_ALL,
    EXPERTS_IF_USE_MOE /* all layers, if use_moe is true */
} ExpertLayers;

/* An unusual name of a part in one format: a printf format of the layer and the
 * expert. */
typedef struct {
    const char *part; /* its name in norma; NULL: the end of a list */
    const char *format;
    bool of_experts;
} OtherName;

/* How GGUF files store a family. From `biases` to `odd_heads`: what llama.cpp
 * reads, and so what is written; norma reads more. */
typedef struct {
    const char *name; /* general.architecture; NULL: none of its own */
    const OtherName *names;
    /* Architectures that store some models which this one cannot, then NULL; or
     * NULL. A llama has LayerNorms, RMSNorms, biases and factors of RoPE,
     * which --norm, --center or an option may give a relative; a qwen3 has head
     * norms, a phi3 partial RoPE. */
    const char *const *others;
    bool neighbours; /* RoPE pairs neighbours; else halves of a head */
    GgufWindow window;
    bool default_window; /* a file without the key has the family's window */
    bool layer_norms;    /* a norm with a bias is a LayerNorm */
    /* a token's routing weights are not divided by their sum, unless a key
     * says so */
    bool raw_topk;
    bool biases; /* attention's output and the MLP may have biases */
    bool experts;
    GgufFactors factors;
    bool partial_rope;   /* RoPE may rotate less than a head */
    bool odd_heads;      /* head_size may differ from dim / n_heads */
    bool output;         /* an output tensor even if the output is tied */
    bool scaled_queries; /* keys of a scale beyond the original context */
    bool finetuned;      /* rope.scaling.finetuned 0: no layer has RoPE */
    bool hybrid_sizes;   /* may have sizes of recurrent layers that it lacks */
    /* A model with this number of layers is Gemma's 27B: scores are divided by
     * sqrt(dim / n_heads). 0: no model is. */
    int layers_of_27b;
} GgufFacts;

/* How folders store a family: options of config.json that count for it, and
 * names of tensors. */
typedef struct {
    const char *name; /* model_type */
    const OtherName *names;
    bool gamma_less_one;  /* gamma - 1 is stored */
    bool tied_by_default; /* a missing tie_word_embeddings means true */
    bool neighbours;      /* RoPE pairs neighbours; else halves of a head */

    bool qkv_biases; /* always */
    AttentionBias attention_bias;
    bool attention_out_bias; /* the option: bias of the output projection */
    bool use_qkv_bias;       /* the option: biases of q, k and v */
    bool mlp_bias;           /* the option: biases of the MLP */
    bool use_bias;           /* the option: biases of all weights of a layer */

    FolderWindow window;
    bool layer_types;            /* the option: layers with the window */
    bool sliding_window_pattern; /* the option: the period */
    bool no_rope_layers; /* the option, and no_rope_layer_interval (period) */
    /* a window whose layers are given or periodic must not be null */
    bool needs_window;

    bool partial_rotary_factor; /* the option: share of a head that rotates */
    bool rope_local_base_freq;  /* the option: base of local layers */
    bool rounds_yarn; /* YaRN's ramp ends at whole pairs whatever truncate is */
    bool dynamic_alpha;   /* dynamic RoPE has a constant alpha */
    bool only_longrope;   /* the only scaling, also under older names */
    int original_context; /* default; 0: the context */

    bool hidden_activation;     /* the option; else hidden_act */
    bool gelu_is_tanh;          /* hidden_act: gelu means its tanh form */
    bool query_pre_attn_scalar; /* the option: scores are divided by its root */
    bool
        no_score_cap; /* attn_logit_softcapping is read, but norma refuses it */

    ExpertLayers experts;
    bool wide_experts;    /* the width of an expert is intermediate_size */
    bool stacked_experts; /* the experts of a layer are one tensor */
    int n_experts;        /* default; 0: none */
    int n_experts_used;   /* default; 0: none */
    bool normalizes_topk; /* default of norm_topk_prob */
    bool norm_topk_prob;  /* the option counts */
    /* options of dense layers, and qkv_bias, are refused unless they have the
     * usual value */
    bool no_dense_layers;
} FolderFacts;

typedef struct {
    /* Layers */
    NormPlaces norms;
    NormForm norm_form;
    HeadNorms head_norms;
    WindowedLayers windowed;
    RotatingLayers rotating;
    int period;            /* each period-th layer has no window, or no RoPE */
    Activation activation; /* its GGUF files'; a folder may name another */
    /* the MLP is down(activation(up x)); `up` is called gate here, and Mlp.up
     * is absent */
    bool ungated;
    /* a mixture has one more expert for all tokens, with its own weight */
    bool shared_expert;
    bool fused_qkv;     /* wq, wk and wv are one tensor */
    bool fused_gate_up; /* gate and up are one tensor */
    bool tied;          /* the output is always the embedding; else it may be */
    /* scales of embeddings, scores, residuals and logits are given by keys */
    bool scales;
    bool scales_logits; /* the key logit_scale alone */
    bool scales_by_dim; /* embeddings are multiplied by sqrt(dim) */
    bool caps_scores;   /* a key gives the cap of scores */
    bool caps_logits;   /* a key gives the cap of logits */

    /* Numbers of files that lack them */
    double rope_base;
    double local_base; /* 0: the base of the other layers */
    double rotates;    /* share of a head; 0: the whole head */
    float eps;
    int context;
    int head_size; /* 0: dim / n_heads */
    int n_heads;   /* with half as many KV heads; 0: no default */
    int window;
    float attention_cap, logit_cap;

    GgufFacts gguf;
    FolderFacts hf;
    const char *stored_as; /* GGUF architecture of a family without its own */
} ModelFamily;

/* In any order. */
extern const ModelFamily FAMILIES[];
extern const int N_FAMILIES;
#define FAMILY_EACH(f) EACH(const ModelFamily, f, FAMILIES, N_FAMILIES)

/* Finds a family by its name. Returns NULL and prints a message if it is
 * unknown. */
const ModelFamily *family_find(Origin *o, Naming naming, const char *key,
                               StoredValue name);

/* The family with this architecture in GGUF files; NULL if there is none. */
const ModelFamily *family_of_gguf(const char *architecture);

/* Whether models of the family have the parts, or files the keys, with this
 * condition. Of HEAD_NORMS_IF_STORED some models have the norms. A mixture of
 * experts also has routers; its layers without a router are dense. */
bool family_meets(const ModelFamily *f, Condition condition);

/* Whether a weight is stored as some rows of a fused tensor (part_rows). */
bool family_fuses(const ModelFamily *f, const Part *weight);

/* The name of a part in files of the family, without ".weight"; returns `name`,
 * which has PART_NAME bytes. */
char *family_part_name(const ModelFamily *f, char *name, const PartAt *at,
                       Naming naming);

/* Sets what depends on the family only: the width of head norms and the place
 * of their computation, Gemma's scale of embeddings. */
void family_set_formulas(const ModelFamily *f, Config *c);

/* The values of a file's keys. */
typedef struct {
    Config config;
    int value_length;     /* elements of a head's values */
    int original_context; /* before RoPE was scaled, in positions */
    int64_t n_experts, n_experts_used;
    int64_t window;          /* sliding window, in positions; 0 or less: none */
    int period;              /* as the family's, if the file does not give it */
    int max_window_layers;   /* see WindowedLayers */
    int64_t finetuned;       /* 0: see GgufFacts.finetuned */
    int64_t norm_weights;    /* Config.norm_topk */
    float rms_eps;           /* eps of RMSNorms */
    float layer_eps;         /* eps of LayerNorms */
    double linear_factor;    /* of RoPE's scaling: the older key */
    double factor;           /* of RoPE's scaling */
    double yarn_attn_factor; /* 1: the default */
    /* divides YaRN's amplitude by that of this multiplier; 0: not used */
    double log_multiplier;
    /* growth of queries beyond the original context; 0: none */
    double query_scale;
    String scaling; /* RoPE's: none, linear, yarn or longrope */
} Header;

/* By the family's rule: whether a layer has RoPE, and whether it has the
 * window, if there is one. `rotates`: it has RoPE. */
bool family_rotates(const ModelFamily *f, const Header *h, int layer);
bool family_windows(const ModelFamily *f, const Header *h, int layer,
                    bool rotates);

/* The RoPE of a layer that has it by the file or the family's rule. `window`:
 * of the model; 0: none. `slides`: the layer has it. */
RopeUse family_rope(const ModelFamily *f, int window, bool slides);

/* The type of a key's field in Header. */
typedef enum {
    KEY_NO_FIELD, /* accepted; gguf.c reads it or checks it */
    KEY_SIZE,     /* int: an integer of at least 1 */
    KEY_INTEGER,  /* int64_t: any integer; read by hand from config.json */
    KEY_REAL,     /* double: a positive number */
    KEY_FLOAT,    /* float: a positive number */
    KEY_STRING    /* String */
} KeyKind;

typedef struct {
    KeyKind kind;
    size_t field; /* offset in Header */
    size_t bytes; /* size of the field */
    /* names without the architecture's; NULL: not in this format */
    const char *gguf, *hf;
    /* offset of an earlier field whose value is the default if the family has
     * none; 0: none */
    size_t fallback;
    bool required;       /* if the family has no default */
    bool divides;        /* the field is 1 / value */
    bool is_cap;         /* null is 0, no cap */
    Condition condition; /* which families have the key */
} Key;

/* In the order of reading and writing; the last row is empty. A GGUF file with
 * any other key of the architecture is refused, unless the value has no
 * effect. */
extern const Key KEYS[];
#define KEY_EACH(key) for (const Key *key = KEYS; key->gguf || key->hf; key++)

/* The name of the key that is read into this field of the header. */
const char *key_of(Naming naming, size_t field);
