/* reader.h: from keys and tensors, of a GGUF file or of a Hugging Face folder, to a Model.
 *
 * Owns the order of the steps, the checks of sizes, and which stored tensor is which part of a model.
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
    Value (*get)(const Reader *r, const char *key); /* the value of one of KEYS */
    const void *keys;                               /* where get() finds it */
    Stored *tensors;                                /* [n_tensors], not owned, sorted by name */
    size_t n_tensors;
    Header header;
    bool biases[MLP_BIAS + 1]; /* config.json: whether the weights of a group have biases. In GGUF files any may. */
    bool *is_sparse;           /* config.json: [n_layers], these layers have experts; NULL: none has */
    float *vectors;            /* room for the next norm or bias */
    const float *ones;         /* [dim], gamma of norms without one */
};

static inline bool has(const Reader *r, int trait) { return r->family->has & trait; }

/* Refuses the integer value of a key, by the field of the header that it is read into. */
#define refuse_field(r, field, ...)                                                                                    \
    refuse(&(r)->origin, key_of((r)->naming, offsetof(Header, field)),                                                 \
           ((Value){.kind = VALUE_INTEGER, .integer = (r)->header.field}), __VA_ARGS__)

/* The steps, in this order; each does nothing after a failure (origin.status).
 * 1. Reads all keys of the family into the header, over the family's defaults. */
void reader_keys(Reader *r);

/* 2. Checks the header and allocates the layers. */
void reader_begin(Reader *r);

/* The tensor `name``suffix`; NULL: it is missing. */
Stored *reader_find(const Reader *r, const char *name, const char *suffix);

/* The same, which must be rows, cols]. Marks it as used. NULL: it is missing and not needed, or a failure. */
const Stored *reader_tensor(Reader *r, const char *name, const char *suffix, bool needed, int depth, int rows,
                            int cols);

/* The same of a vector [n], as float32. It belongs to the model. */
float *reader_vector(Reader *r, const char *name, const char *suffix, bool needed, int n);

/* 3. Fills in all norms and weights; a tensor that is left over is refused. Returns origin.status. */
int reader_end(Reader *r);
