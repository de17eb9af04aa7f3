/* safetensors.h: the files that hold the weights of a Hugging Face folder. */
#pragma once

#include "model.h"

enum { STORED_DIMS = 3 }; /* most dimensions of a tensor */

/* A tensor of a safetensors file. */
typedef struct {
    const char *name;
    const char *path; /* of its file */
    Type type;        /* TYPE_F32, TYPE_F16 or TYPE_BF16 */
    size_t width;     /* bytes of an element */
    int n_dims;
    int dims[STORED_DIMS]; /* the last one is contiguous */
    size_t count;          /* elements */
    const uint8_t *data;   /* not aligned */
    uint64_t offset;       /* of data in the file */
    bool used;             /* for the caller, at first false */
} StoredTensor;

typedef struct {
    StoredTensor *tensors; /* [n_tensors], owned, sorted by name */
    size_t n_tensors;
    struct Shard *shards; /* a list of the files, owned */
} Safetensors;

/* Maps model.safetensors, or the files that model.safetensors.index.json names, into the model, and lists the
 * tensors; each is checked to be in its file, and to be there once. -1 and a message on failure. The caller closes
 * the list when it is done with names and paths; the files stay mapped as long as the model. */
int safetensors_open(Safetensors *s, Model *m, const char *folder);
void safetensors_close(Safetensors *s);

/* NULL if there is none. */
StoredTensor *safetensors_find(const Safetensors *s, const char *name);
