/* gguf.h: models and tokenizers in GGUF files: the tables that reader and writer share, reading, writing. */
#ifndef NORMA_GGUF_H
#define NORMA_GGUF_H

#include "formats/gguf_file.h"
#include "model.h"
#include "tokenizer.h"

/* How the models of an architecture differ from those of others. */
typedef struct {
    const char *name;
    bool rope_halves; /* as in Config */
    bool head_norms;  /* layers have q_norm and k_norm */
    /* What other programs run under this name: the writer heeds it, the reader takes whatever there is. */
    bool dense, sparse; /* layers without experts, with them */
    bool all_biases;    /* biases of wo and of the MLP, too */
    bool rope_factors;  /* a tensor rope_freqs; else there are YaRN's keys alone */
} GgufArchitecture;

extern const GgufArchitecture GGUF_ARCHITECTURES[]; /* the last has no name */

/* What the metadata of a file says of its model. */
typedef struct {
    Config config;
    int value_length, yarn_context; /* size of a head's values; YaRN's original context */
    int64_t n_experts, window;      /* window: most positions that attention looks back */
    int64_t gating, norm_weights;   /* of experts: the function of the router's logits, norm_topk */
    double weights_scale;           /* of experts */
    double rms_eps, layer_eps;      /* of norms */
    double linear_factor, factor;   /* of RoPE's scaling, under the older and the newer name */
    double extrapolation;           /* YaRN's share: 1 with YaRN, else 0; negative: what is usual */
    GgufString scaling;             /* of RoPE: none, linear or yarn */
} GgufHeader;

/* Which keys are read together: in this order, the last three where the model has experts, YaRN, a LayerNorm. */
typedef enum { NOT_READ, SIZES, OTHERS, EXPERTS, YARN, LAYER_EPS } KeyGroup;

/* The type of a key's field: none, int (from 1 on), int64_t, double, GgufString. */
typedef enum { KEY_NO_FIELD, KEY_SIZE, KEY_INTEGER, KEY_REAL, KEY_STRING } KeyKind;

typedef struct {
    const char *name; /* after the architecture's and a dot */
    KeyGroup group;
    KeyKind kind;
    size_t field;    /* offset in GgufHeader */
    size_t fallback; /* offset of the field, read before, whose value is the default; 0: none */
} GgufHeaderKey;

/* In the order in which they are written; the last has no name. A file with any other key of the
 * architecture is refused, unless its value changes nothing: the key may change the result. */
extern const GgufHeaderKey GGUF_KEYS[];

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

#endif
