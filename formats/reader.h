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
    const char *path; /* of the file or the folder */
    Origin origin;    /* of the keys */
    Naming naming;    /* NAME_GGUF or NAME_HF */
    Model *model;
    const ModelFamily *family;
    StoredValue (*get)(const Reader *r,
                       const char *key); /* the value of one of KEYS */
    const void *source;                  /* of get() */
    const void *inner; /* an object whose keys come before those of `source` */
    Stored *tensors;   /* [n_tensors], not owned, sorted by name */
    size_t n_tensors;
    bool bare; /* their names lack "model.", as a base model's do */
    Header header;
    /* of config.json: bits of the groups with biases. In GGUF files any weight
     * may have one. */
    int biases;
    size_t widest;  /* max columns of a tensor; a head is not larger */
    float *vectors; /* where the next norm or bias goes */
    float *ones;    /* [widest], gamma of norms without stored parameters */
    int n_folded;   /* RMSNorms without weights in a folder */
    char first_folded[PART_NAME];
    bool has_doubles; /* a weight is float64 in the file */
};

/* Refuses the value of a key, for the given reason. */
#define refuse_key(r, key, ...)                                                \
    refuse_stored(&(r)->origin, key, (r)->get(r, key), __VA_ARGS__)

/* The same for the key of a field of the header. */
#define refuse_field(r, field, ...)                                            \
    refuse_key(r, key_of((r)->naming, offsetof(Header, field)), __VA_ARGS__)

/* The steps, in this order. Each does nothing after a failure (origin.status).
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

/* Ends the context at the original one. With LongRoPE (Ding et al. 2024) the
 * short factors apply up to it; a session can choose a longer context, with the
 * long factors. */
#define BY_LONGROPE "-c chooses a longer one, with LongRoPE's long factors"
#define BY_QUERIES  "beyond it queries are scaled"
void reader_end_context(Reader *r, double original, const char *why);

/* 3. Fills in all norms and weights, computes YaRN's factors, and refuses
 * unused tensors. Returns origin.status. */
int reader_end(Reader *r);
