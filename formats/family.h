/* family.h: the supported model families, one row each, and the table of keys
 * that describe a model.
 *
 * Owns the defaults of families, and the names of families, keys and unusual
 * parts in GGUF files and Hugging Face folders. The readers and gguf_write.c
 * walk these tables.
 */
#pragma once

#include "formats/parts.h"
#include "formats/stored.h"
#include "formats/traits.h"

/* Options: which keys of config.json a family reads, how a folder stores its
 * weights, and keys with a meaning of their own. */
enum {
    QKV_BIASES = 0x1, /* q, k and v always have biases */
    /* the option use_qkv_bias: biases of q, k and v */
    QKV_BIAS_OPTION = 0x2,
    /* the option attention_bias: biases of q, k, v and of the output
     * projection */
    ATTENTION_BIAS = 0x4,
    MLP_BIASES = 0x8, /* the option mlp_bias */
    /* the option use_bias: biases of all weights in attention and the MLP */
    USE_BIAS = 0x10,
    TIED_DEFAULT = 0x20, /* a missing tie_word_embeddings means true */
    /* experts if num_experts > 0; layers without a router are dense */
    EXPERTS = 0x40,
    /* Experts in every layer if use_moe is true, with normalized weights by
     * default. A layer has q_norm and k_norm if the folder has their
     * tensors. */
    MINIMIND = 0x80,
    /* experts in every layer; their hidden size is intermediate_size */
    WIDE_EXPERTS = 0x100,
    /* WIDE_EXPERTS, 2 of 8 by default, with normalized weights; named w1, w2,
     * w3 */
    MIXTRAL_EXPERTS = 0x200,
    /* MIXTRAL_EXPERTS, named input_linear and output_linear */
    GRANITE_EXPERTS = 0x400,
    OLD_GELU = 0x800, /* hidden_act: gelu means its tanh form */
    /* refuses the options attention_bias, mlp_only_layers, and a
     * decoder_sparse_step or qkv_bias that is not 1 or true */
    STRICT = 0x1000,
    LESS_ONE = 0x2000, /* the folder stores gamma - 1 */
    /* the options hidden_activation and query_pre_attn_scalar */
    GEMMA = 0x4000,
    NEIGHBOUR_ROPE = 0x8000, /* RoPE pairs neighbours */
    /* LongRoPE is the only scaling; GGUF files have its two tensors of
     * factors */
    LONGROPE = 0x20000,
    /* some layers have no RoPE; only these have the window, if any */
    NO_ROPE_LAYERS = 0x40000,
    SLIDES = 0x80000, /* the option sliding_window */
    /* the option sliding_window, if use_sliding_window is true */
    SLIDES_IF_USED = 0x100000,
    /* the option layer_types: which layers have the window */
    LAYER_TYPES = 0x200000,
    GEMMA3 = 0x400000,   /* the option rope_local_base_freq */
    PATTERN = 0x1000000, /* the option sliding_window_pattern (the period) */
    /* other names of norms; the options attention_bias and
     * attention_out_bias */
    SEED = 0x2000000,
    /* other names of norms; the option attention_bias: biases of q, k and v */
    GLM = 0x10000,
    /* no layer is dense */
    ALL_EXPERTS = MINIMIND | WIDE_EXPERTS | MIXTRAL_EXPERTS | GRANITE_EXPERTS,
    /* without layer_types, layers from max_window_layers on have the window */
    WINDOW_ABOVE = 0x800000,
    /* GGUF: if rope.scaling.finetuned is 0, no layer has RoPE; files may have
     * sizes of recurrent layers that the model lacks */
    GRANITE_KEYS = 0x8000000,
};

typedef struct {
    /* general.architecture, and model_type of config.json; NULL: not in this
     * format */
    const char *gguf, *hf;
    int has, may;     /* traits of all its models, of some of its GGUF files */
    int options;      /* of config.json */
    double rope_base; /* config.json's defaults from here on */
    int context;
    float eps;     /* 0: 1e-6 */
    int head_size; /* 0: dim / n_heads */
    int n_heads;   /* with half as many KV heads; 0: no default */
    int window;
    /* share of a head that rotates; 0: the whole head, and no option changes
     * it */
    double rotating;
    float attention_cap, logit_cap; /* also GGUF's */
    /* every period-th layer has no window, or no RoPE; 0: all layers are
     * alike */
    int period;
    double local_base; /* with LOCAL_ROPE; 0: the base of the other layers */
    /* not 0 (Gemma): embeddings are scaled by sqrt(dim). A model with this
     * number of layers divides scores by sqrt(dim / n_heads) instead of
     * sqrt(head_size); -1: no model does */
    int special_layers;
    /* of its GGUF files; config.json may name another one */
    Activation activation;
} ModelFamily;

/* The writer uses the model's own family or, if that cannot store the model,
 * the first one that can. Families that GGUF does not have come last; the last
 * row is empty. */
extern const ModelFamily FAMILIES[];

/* Finds a family by its name. Returns NULL and prints a message if it is
 * unknown. */
const ModelFamily *family_find(Origin *o, Naming naming, const char *key,
                               StoredValue name);

/* Whether models of the family have this part (all of them or none). A mixture
 * of experts also has routers; its layers without a router are dense. */
bool family_has_part(const ModelFamily *f, const Part *part);

/* Whether a weight is stored as some rows of a fused tensor (part_rows). */
bool family_fuses(const ModelFamily *f, const Part *weight);

/* The name of a part in files of the family, without ".weight"; returns `name`,
 * which has PART_NAME bytes. */
char *family_part_name(const ModelFamily *f, char *name, const PartAt *at,
                       Naming naming);

/* Sets what depends on the family's traits only: the width of head norms,
 * Gemma's scales. */
void family_set_formulas(const ModelFamily *f, Config *c);

/* Sets the window (0: none) and RoPE of a layer. `slides`: it has the
 * window. */
void family_set_layer(const ModelFamily *f, int window, bool slides,
                      bool rotates, Layer *layer);

/* The values of a file's keys. */
typedef struct {
    Config config;
    int value_length,
        yarn_context; /* elements of a head's values; YaRN's original context */
    int64_t n_experts, n_experts_used;
    int64_t window;       /* sliding window, in positions; 0 or less: none */
    int64_t finetuned;    /* with GRANITE_KEYS 0: no layer has RoPE */
    int64_t norm_weights; /* Config.norm_topk */
    float rms_eps, layer_eps; /* of RMSNorms, of LayerNorms */
    double linear_factor,
        factor; /* of RoPE's scaling, under the older and the newer name */
    double yarn_attn_factor; /* 1: the default */
    /* divides YaRN's amplitude by that of this multiplier; 0: not used */
    double log_multiplier;
    double query_scale; /* of QUERY_SCALE; 0: none */
    String scaling;     /* of RoPE: none, linear, yarn or longrope */
} Header;

/* The type of a key's field in Header. */
typedef enum {
    KEY_NO_FIELD, /* accepted, but not read with this table */
    KEY_SIZE,     /* int: an integer of at least 1 */
    KEY_INTEGER,  /* int64_t: any integer; read by hand from config.json */
    KEY_REAL,     /* double: a positive number */
    KEY_FLOAT,    /* float: a positive number; a cap that is null is 0 */
    KEY_STRING    /* String */
} KeyKind;

typedef struct {
    KeyKind kind;
    size_t field, bytes; /* offset in Header; size */
    const char *gguf,
        *hf; /* without the architecture's name; NULL: not in this format */
    /* offset of an earlier field whose value is the default if the family has
     * none; 0: none */
    size_t fallback;
    bool required; /* if the family has no default */
    bool divides;  /* the field is 1 / value */
    /* traits: families with one of them, in has or may, have the key; 0: all
     * families */
    int needs;
} Key;

/* In the order of reading and writing; the last row is empty. A GGUF file with
 * any other key of the architecture is refused, unless the value has no
 * effect. */
extern const Key KEYS[];
#define KEY_EACH(key) for (const Key *key = KEYS; key->gguf || key->hf; key++)
bool family_has_key(const ModelFamily *f, const Key *key);

/* The name of the key that is read into this field of the header. */
const char *key_of(Naming naming, size_t field);
