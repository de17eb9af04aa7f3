/* family.h: the supported model families, one row each, and the table of keys that describe a model.
 *
 * Owns the names of families, keys and unusual parts in GGUF files and in Hugging Face folders, and the defaults. The
 * readers read by these tables, and gguf_write.c writes by them.
 */
#pragma once

#include "formats/parts.h"
#include "formats/stored.h"

/* Traits: the parts and formulas in which families differ. */
enum {
    PRE_NORMS = 1 << 0,  /* norms before sublayers */
    POST_NORMS = 1 << 1, /* norms after sublayers */
    HEAD_NORMS = 1 << 2,
    WIDE_HEAD_NORMS = 1 << 3, /* head norms, of all heads jointly */
    LAYER_NORMS = 1 << 4,
    BARE_NORMS = 1 << 5, /* LayerNorms with gamma 1 and no beta, which are not stored */
    GELU = 1 << 6,
    BIASES = 1 << 7, /* of attention's output and of the MLP */
    SPARSE = 1 << 8,
    SCORE_CAP = 1 << 9,
    LOGIT_CAP = 1 << 10,
    SCALES = 1 << 11,     /* of embeddings, scores, residuals and logits, given by keys */
    NEIGHBOURS = 1 << 12, /* RoPE pairs neighbours */
    PARTIAL_ROPE = 1 << 13,
    ROPE_FACTORS = 1 << 14,     /* in a tensor */
    ODD_HEADS = 1 << 15,        /* head_size is not dim / n_heads */
    TIED = 1 << 16,             /* the output is the embedding */
    ALL_WINDOWS = 1 << 17,      /* all layers have the window, */
    PERIODIC_WINDOWS = 1 << 18, /* or all but every nth; with neither the context ends where the window does */
    DEFAULT_WINDOW = 1 << 19,   /* GGUF files without the key have a window, too */
    LOCAL_ROPE = 1 << 20,       /* layers with a window have a different RoPE base */
    FUSED = 1 << 21,            /* q, k and v are one tensor, gate and up another */
    STORED_OUTPUT = 1 << 22,    /* GGUF files have an output tensor even if the output is tied */
    RAW_TOPK = 1 << 23,         /* the weights of a token's experts are not divided by their sum */
    NO_WINDOW = 1 << 24,        /* models with a window have layers that norma does not run, and are refused */
};

/* Options: which keys of config.json a family reads, and how a folder stores its weights. */
enum {
    QKV_BIASES = 1 << 0,       /* q, k and v have biases, without an option */
    QKV_BIAS_OPTION = 1 << 1,  /* with the option use_qkv_bias */
    ATTENTION_BIAS = 1 << 2,   /* the option attention_bias: biases of q, k, v and of the output projection */
    MLP_BIASES = 1 << 3,       /* the option mlp_bias */
    USE_BIAS = 1 << 4,         /* the option use_bias: biases of all these */
    TIED_DEFAULT = 1 << 5,     /* tie_word_embeddings is true where it is missing */
    EXPERTS = 1 << 6,          /* num_experts > 0, and options that make some layers dense */
    SWITCHED_EXPERTS = 1 << 7, /* experts in every layer if use_moe is true */
    WIDE_EXPERTS = 1 << 8,     /* experts in every layer, intermediate_size wide */
    MIXTRAL_EXPERTS = 1 << 9,  /* the same, by default 2 of 8, weights divided by their sum; named w1, w2, w3 */
    GRANITE_EXPERTS = 1 << 10, /* the same, named input_linear and output_linear */
    NORM_TOPK = 1 << 11,       /* norm_topk_prob is true where it is missing */
    NORMS_IF_STORED = 1 << 12, /* a layer has both q_norm and k_norm, or neither */
    LESS_ONE = 1 << 13,        /* gamma is stored less 1 */
    GEMMA = 1 << 14,           /* hidden_activation, query_pre_attn_scalar */
    NEIGHBOUR_ROPE = 1 << 15,  /* RoPE pairs neighbours */
    SWITCHED_YARN = 1 << 16,   /* MiniMind's YaRN if inference_rope_scaling is true; else rope_type names the scaling */
    LONGROPE = 1 << 17,        /* the scaling is LongRoPE's, or none */
    NO_ROPE_LAYERS = 1 << 18,  /* heads of some layers do not rotate; these layers have the window, if there is one */
    SLIDES = 1 << 19,          /* sliding_window counts, */
    SLIDES_IF_USED = 1 << 20,  /* if use_sliding_window is true, */
    LAYER_TYPES = 1 << 21,     /* in the layers that layer_types names, if it is given; */
    GEMMA3 = 1 << 22,          /* else in all but every sliding_window_pattern-th; rope_local_base_freq counts, too */
    WINDOW_ABOVE = 1 << 23,    /* else in those from max_window_layers on */
};

typedef struct {
    const char *gguf, *hf; /* general.architecture, and model_type of config.json; NULL: not in this format */
    int has, may;          /* traits of all its models; further ones that some GGUF files have */
    int options;           /* of config.json */
    double rope_base;      /* config.json's defaults from here on */
    int context;
    int head_size; /* 0: dim / n_heads */
    float eps;
    int window;
    double rotating;                /* share of a head that rotates; 0: always all of it */
    float attention_cap, logit_cap; /* also GGUF's */
    int period;                     /* every nth layer has no window, or no RoPE; 0: all layers are alike */
    double local_base;              /* with LOCAL_ROPE; 0: that of the other layers */
    int special_layers; /* Gemma: embeddings are scaled by sqrt(dim), and with this number of layers scores are divided
                           by sqrt(dim / n_heads), not by sqrt(head_size); -1: with none; 0: neither */
} ModelFamily;

extern const ModelFamily FAMILIES[]; /* the writer takes the first that fits; the last is empty */

/* Finds a family by its name. Returns NULL and prints a message if it is unknown. */
const ModelFamily *family_find(Origin *o, Naming naming, const char *key, Value name);

/* Whether models of the family have this norm (all of them do, or no model does). */
bool family_has_norm(const ModelFamily *f, const Part *norm);

/* Whether a weight is some rows of a fused tensor (part_fused). */
bool family_fuses(const ModelFamily *f, const Part *weight);

/* The name of a part in files of the family, without ".weight"; returns `name`, which has PART_NAME bytes. */
char *family_part_name(const ModelFamily *f, char *name, const PartAt *at, Naming naming);

/* Sets what depends on the family's traits only: the activation, the width of head norms, Gemma's scales. */
void family_set_formulas(const ModelFamily *f, Config *c);

/* Sets the window (0: none) and RoPE of a layer of a GGUF file. *is_usual: the file's own flag for the layer, or NULL.
 */
void family_place_layer(const ModelFamily *f, int window, const int64_t *is_usual, Layer *layer);

/* The values of a file's keys. */
typedef struct {
    Config config;
    int value_length, yarn_context; /* elements of a head's values; YaRN's original context */
    int64_t n_experts, n_experts_used;
    int64_t window;               /* sliding window, in positions; 0 or less: none */
    int64_t finetuned;            /* Granite: 0: no layer has RoPE */
    int64_t norm_weights;         /* of experts: norm_topk */
    float rms_eps, layer_eps;     /* of norms */
    double linear_factor, factor; /* of RoPE's scaling, under the older and the newer name */
    double extrapolation;         /* YaRN's share; negative: the default, 1 with YaRN, else 0 */
    double yarn_attn_factor;      /* 1: the default */
    String scaling;               /* of RoPE: none, linear, yarn or longrope */
} Header;

typedef enum {
    KEY_SIZE,    /* int: an integer from 1 on */
    KEY_INTEGER, /* int64_t: any integer; read by hand from config.json */
    KEY_REAL,    /* double: a positive number */
    KEY_NUMBER,  /* double: any finite number */
    KEY_FLOAT,   /* float: a positive number in float32 */
    KEY_CAP,     /* the same; null: 0 */
    KEY_STRING,  /* String */
    KEY_NO_FIELD /* not read by the table */
} KeyKind;

typedef struct {
    const char *gguf, *hf; /* without the architecture's name; NULL: not in this format */
    int needs;             /* only families that have one of these traits, or may have it; 0: all */
    KeyKind kind;
    size_t field;    /* offset in Header */
    size_t fallback; /* offset of the field, read before, whose value is the default; 0: the default is set before */
} Key;

/* In the order of reading and writing; the last row is empty. A GGUF file with any other key of the architecture is
 * refused, unless the value has no effect. */
extern const Key KEYS[];
bool family_has_key(const ModelFamily *f, const Key *key);

/* The name of the key that is read into this field of the header. */
const char *key_of(Naming naming, size_t field);
