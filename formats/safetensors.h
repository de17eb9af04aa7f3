/* safetensors.h: the files that hold the weights of a Hugging Face folder. */
#pragma once

#include "formats/stored.h"
#include "model.h"

typedef struct {
    Stored *tensors; /* [n_tensors], owned, sorted by name */
    size_t n_tensors;
    struct Shard *shards; /* a list of the files, owned */
} Safetensors;

/* Maps model.safetensors, or the files that model.safetensors.index.json names, into the model, and lists the
 * tensors; each is checked to be in its file, and to be there once. -1 and a message on failure. The caller closes
 * the list when it is done with names and paths; the files stay mapped as long as the model. */
int safetensors_open(Safetensors *s, Model *m, const char *folder);
void safetensors_close(Safetensors *s);
