/* folder_writer.h: writes Hugging Face folders. */
#pragma once

#include "kernels/tensor.h"
#include "model.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *model_type;
    Type type;      /* of all tensors: F32, F16 or BF16 */
    int n_files;    /* 2 or more: with an index */
    int misaligned; /* offset of the data modulo 8 */
    bool fused;     /* the experts of a layer are in two tensors */
    /* added to config.json: "key": value, ...; NULL: none */
    const char *options;
} FolderForm;

/* Writes a model as a folder, with rows of queries and keys permuted for RoPE
 * in halves. Returns -1 on failure. */
int folder_write(const Model *m, const char *folder, const FolderForm *form);

typedef struct {
    char name[96];
    int n_dims, dims[3];
    size_t count;
    float *values; /* owned */
} FolderPart;

/* Writes the tensors of a folder. Returns -1 on failure. */
int folder_write_parts(FolderPart *parts, int n, const char *folder,
                       const FolderForm *form);
