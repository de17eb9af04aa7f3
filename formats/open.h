/* open.h: opens a checkpoint of any format, and its tokenizer. */
#pragma once

#include "model.h"
#include "tokenizer.h"

/* Opens a checkpoint of any format and checks every size in it against the file's length
 * before anything is allocated. The caller closes it. */
int model_open(Model *model, const char *path);
void model_close(Model *model);

/* As model_open, but also a GGUF file of a vocabulary and no tensors: no layers, no configuration but vocab_size. */
int model_open_vocabulary(Model *model, const char *path);

/* What a run does where it finds no tokenizer, or one that norma cannot read. */
typedef enum {
    TOKENIZER_UNUSED,      /* it wants none */
    TOKENIZER_NEEDED,      /* it fails */
    TOKENIZER_IF_READABLE, /* it does without, with a note; where a tokenizer.bin cannot be read, it fails */
    TOKENIZER_IF_THERE     /* it does without; where the file of one cannot be read, it fails */
} TokenizerUse;

/* Opens the tokenizer of a model that came from model_path: the file `path` (tokenizer.json or tokenizer.bin), where
 * one is named; else the GGUF file's own, the folder's tokenizer.json, or the tokenizer.bin beside the model, else in
 * the current folder. 1: it is open; 0: the run does without, *t has no pieces; -1: failure. The caller closes it. */
int model_open_tokenizer(Tokenizer *t, const Model *model, const char *model_path, const char *path, TokenizerUse use);
