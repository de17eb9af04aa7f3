/* reader.h: builds a Model from the keys and tensors of a GGUF file or a
 * Hugging Face folder.
 *
 * Owns the order of the steps, the checks of sizes, and the mapping from stored
 * tensors to parts of a model.
 */
#pragma once

#include "formats/family.h"
#include "formats/stored.h"

typedef struct Reader Reader;
struct Reader {
    const char *path; /* the file or the folder */
    Origin origin;    /* the source of the keys, for messages */
    Naming naming;    /* NAME_GGUF or NAME_HF */
    Model *model;
    const ModelFamily *family;
    StoredValue (*get)(const Reader *r,
                       const char *key); /* the value of one of KEYS */
    const void *source;                  /* what get() reads */
    const void *inner; /* an object whose keys come before those of `source` */
    Stored *tensors;   /* [n_tensors], not owned, sorted by name */
    size_t n_tensors;
    bool bare;     /* their names lack "model.", as a base model's do */
    Header header; /* in the units of GGUF's keys */
    /* bits of the groups with biases in a folder. In GGUF files any weight may
     * have one. */
    int biases;
    /* [n_layers], owned: which layers have the window, and which have RoPE, if
     * the file lists them; NULL: the family's rule says it */
    bool *windowed;
    bool *rotating;
    bool
        needs_window; /* refuses a layer that has the window if there is none */
    size_t widest;    /* max columns of a tensor; a head is not larger */
    float *vectors;   /* where the next norm or bias goes */
    float *ones;      /* [widest], gamma of norms without stored parameters */
    int n_folded;     /* RMSNorms without weights in a folder */
    char first_folded[PART_NAME];
    bool has_doubles; /* a weight is float64 in the file */
};

/* Refuses the value of a key, for the given reason. */
#define refuse_key(r, key, ...)                                                \
    refuse_stored(&(r)->origin, key, (r)->get(r, key), __VA_ARGS__)

/* The same for the key of a field of the header. */
#define refuse_field(r, field, ...)                                            \
    refuse_key(r, key_of((r)->naming, offsetof(Header, field)), __VA_ARGS__)

/* The values of keys that a file lacks, unless its family gives them. */
extern const Header DEFAULTS;

/* The steps, in this order. Each does nothing after a failure (origin.status).
 * Between 2 and 3 the formats translate what they say of layers and RoPE.
 * 1. Reads all keys of the family into the header, over the family's
 * defaults. */
void reader_keys(Reader *r);

/* 2. Checks the header and allocates the layers. */
void reader_begin(Reader *r);

/* The tensor with the name `name` + `suffix`; NULL if it is missing. */
Stored *reader_find(const Reader *r, const char *name, const char *suffix);

/* Finds a vector [n], checks its shape, and marks it as used. Returns it as
 * float32; the model owns it. NULL: it is missing; prints a message if it is
 * needed or has another shape. */
float *reader_vector(Reader *r, const char *name, const char *suffix,
                     bool needed, int n);

/* Allocates a factor for each rotating pair; the caller owns them. NULL: out of
 * memory. */
double *reader_factors(Reader *r);

/* 3. Sets windows and RoPE by the header and the lists of layers; factors of
 * RoPE are in the model. Fills in all norms and weights, and refuses unused
 * tensors. Returns origin.status. */
int reader_end(Reader *r);

/* Frees the lists of layers. */
void reader_close(Reader *r);
