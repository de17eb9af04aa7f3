/* safetensors.h: the files with the weights of a Hugging Face folder. */
#pragma once

#include "formats/json.h"
#include "formats/stored.h"
#include "model.h"

typedef struct {
    Stored *tensors; /* [n_tensors], owned, sorted by name */
    size_t n_tensors;
    struct Shard *shards; /* a list of the files, owned */
} Safetensors;

/* Maps model.safetensors, or the files in model.safetensors.index.json, into
 * the model, and lists the tensors. `named`: transformers_weights of
 * config.json, another file or index; NULL: none. Checks that each tensor is
 * inside its file, and in one file only unless the index names one. Returns -1
 * and a message on failure. The caller closes the list, even after a failure;
 * names and paths are valid until then. The files stay mapped until the model
 * is closed. */
int safetensors_open(Safetensors *s, Model *m, const char *folder,
                     const Json *named);
void safetensors_close(Safetensors *s);
