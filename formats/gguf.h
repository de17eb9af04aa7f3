/* gguf.h: models and tokenizers in GGUF files: the tables that reader and writer share, reading, writing. */
#pragma once

#include "formats/gguf_file.h"
#include "formats/parts.h"
#include "model.h"
#include "tokenizer.h"

/* Traits: what models may have, as far as architectures differ in it. */
enum {
    PRE_NORMS = 1 << 0,  /* norms in front of sublayers, */
    POST_NORMS = 1 << 1, /* and behind them */
    HEAD_NORMS = 1 << 2,
    WIDE_HEAD_NORMS = 1 << 3, /* of all heads together */
    LAYER_NORMS = 1 << 4,
    BARE_NORMS = 1 << 5, /* LayerNorms with gamma 1 and no beta, without tensors */
    GELU = 1 << 6,
    BIASES = 1 << 7, /* behind attention or in the MLP */
    SPARSE = 1 << 8,
    SCORE_CAP = 1 << 9,
    LOGIT_CAP = 1 << 10,
    SCALES = 1 << 11, /* of embeddings, scores, residuals and logits, in keys */
    NEIGHBOURS = 1 << 12,
    PARTIAL_ROPE = 1 << 13,
    ROPE_FACTORS = 1 << 14,     /* in a tensor */
    ODD_HEADS = 1 << 15,        /* that are not dim / n_heads wide */
    TIED = 1 << 16,             /* an output that is the embedding */
    ALL_WINDOWS = 1 << 17,      /* the window is that of all layers, */
    PERIODIC_WINDOWS = 1 << 18, /* or of all but every nth (llama.cpp heeds this alone); else the context ends there */
};

/* How the models of an architecture differ from those of others, in other programs, too. */
typedef struct {
    const char *name;
    int has, may;       /* traits of all of them, and of some; with none they are qwen2's without biases */
    int default_window; /* if the file has none */
    int period;         /* every nth layer has no window, or (not PERIODIC_WINDOWS) no RoPE; 0: all are alike */
    bool local_rope;    /* layers with windows are ROPE_LOCAL; */
    double local_base;  /* its base where the file does not say; 0: it is that of other layers, always */
    int special_layers; /* Gemma: with so many layers scores are divided by sqrt(dim / n_heads) */
    bool fused;         /* q, k and v are one tensor, gate and up another */
    bool has_output;    /* there is an output tensor also where it is the embedding */
} GgufArchitecture;

extern const GgufArchitecture GGUF_ARCHITECTURES[]; /* the writer takes the first that fits; the last has no name */

/* Gives a layer its window (0: there is none) and RoPE, which are the usual ones but in every nth layer.
 * *is_usual: what the file says of that; NULL: nothing. */
void gguf_place_layer(const GgufArchitecture *a, int window, const int64_t *is_usual, Layer *layer);

/* Whether all models have this norm; else none has. */
bool gguf_has_norm(const GgufArchitecture *a, const Part *norm);

/* Sets the scales of embeddings and scores that all models of these sizes have: no key says them. */
void gguf_set_scales(const GgufArchitecture *a, Config *c);

/* Whether a weight is rows of a fused tensor (part_fused), whose name is then written to name[PART_NAME]. */
bool gguf_is_fused(const GgufArchitecture *a, const PartAt *at, char *name);

/* What the metadata of a file says of its model. */
typedef struct {
    Config config;
    int value_length, yarn_context; /* size of a head's values; YaRN's original context */
    int64_t n_experts, n_experts_used;
    int64_t window;               /* most positions that attention looks back; up to 0: all */
    int64_t finetuned;            /* Granite: 0: no layer has RoPE */
    int64_t norm_weights;         /* of experts: norm_topk */
    double rms_eps, layer_eps;    /* of norms */
    double linear_factor, factor; /* of RoPE's scaling, under the older and the newer name */
    double extrapolation;         /* YaRN's share: 1 with YaRN, else 0; negative: what is usual */
    double yarn_amplitude;        /* 1: what is usual */
    GgufString scaling;           /* of RoPE: none, linear or yarn */
} GgufHeader;

typedef struct {
    const char *name; /* after the architecture's and a dot */
    int needs;        /* an architecture that has one of these traits, or may; 0: all have the key */
    KeyKind kind;
    size_t field;    /* offset in GgufHeader */
    size_t fallback; /* offset of the field, read before, whose value is the default; 0: none */
} GgufHeaderKey;

/* In the order in which they are read and written; the last has no name. A file with any other key of the
 * architecture is refused, unless its value changes nothing: the key may change the result. */
extern const GgufHeaderKey GGUF_KEYS[];
bool gguf_has_key(const GgufArchitecture *a, const GgufHeaderKey *key);

enum { GGUF_KEY_NAME = 64 }; /* bytes that hold every full name, "llama.block_count" */

bool gguf_is(const File *file);

/* Fills the model from its file, which is mapped; where that has no tensors, but a vocabulary, only vocab_size. On
 * failure the caller closes it. */
int gguf_read_model(Model *model, const char *path);

/* 1: there it is; -1: it is damaged, or `needed` and of a kind that norma does not read; 0: it is of such a kind and
 * not needed, and *t has no pieces. */
int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed);

/* GGUF's name for a pre-tokenizer; NULL: it has none. */
const char *gguf_pretokenizer_name(const Pretokenizer *p);

/* Whether a GGUF file can say all of a model and its tokenizer (NULL: it has none): 0, perhaps with notes on what
 * it says a little differently; -1 and a message that names `path`, where they come from. */
int gguf_check_model(const Model *model, const Tokenizer *tokenizer, const char *path);

/* Writes what gguf_check_model approves of, with weights of this type, which is one of those that norma writes
 * (type_from_name); `fold`: gamma of norms goes into the columns of the weights behind them, where that is exact
 * algebra, and is 1 (a note says which are left). Weights whose rows are no multiple of its blocks become float16.
 * Shows progress on a terminal. The file appears whole or not at all: not, and 0 is returned, if Ctrl-C comes. */
int gguf_write_model(const Model *model, const Tokenizer *tokenizer, Type type, bool fold, const char *path);
