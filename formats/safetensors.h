/* safetensors.h: the weights of a Hugging Face folder.
 */
#ifndef NORMA_SAFETENSORS_H
#define NORMA_SAFETENSORS_H

#include "kernels/tensor.h"
#include "model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_DIMS = 3 };

/* A tensor of a safetensors file. */
typedef struct {
    const char *name;
    const char *path; /* of its file */
    Type type;        /* TYPE_F32, TYPE_F16 or TYPE_BF16 */
    int n_dims;
    int dims[MOST_DIMS]; /* the last one is contiguous */
    size_t count;        /* elements */
    const uint8_t *data; /* not aligned */
    uint64_t offset;     /* of data in the file */
    bool used;           /* for the caller */
} Stored;

typedef struct Shard Shard;

typedef struct {
    Stored *tensors; /* [n_tensors], owned, by name */
    size_t n_tensors;
    Shard *shards; /* the files, owned */
    int n_shards;
} Safetensors;

/* Maps model.safetensors, or the files that model.safetensors.index.json names, into
 * the model, and lists the tensors; each is checked to lie in its file, and to
 * be there once. The caller closes the list, when it is done with names and paths. */
int safetensors_open(Safetensors *s, Model *m, const char *folder);
void safetensors_close(Safetensors *s);

/* NULL if there is none. */
Stored *safetensors_find(const Safetensors *s, const char *name);

#endif
