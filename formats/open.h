/* open.h: opens a checkpoint of any format, and its tokenizer. */
#pragma once

#include "model.h"
#include "tokenizer.h"

/* The path of the model that the user names: in the folder of a repository in
 * Hugging Face's cache (models--org--name) the snapshot of refs/main or,
 * without it, the only one. NULL and a message with the paths to choose from if
 * there are several, or only GGUF files. Valid until the next call. */
const char *model_find(const char *path);

/* Opens a checkpoint of any format. Checks every size in it against the file's
 * length before allocating. Returns -1 and a message on failure; else the
 * caller closes the model. */
int model_open(Model *model, const char *path);
void model_close(Model *model);

/* As model_open(), but accepts a GGUF file with a vocabulary and no tensors:
 * then only vocab_size is set. */
int model_open_vocabulary(Model *model, const char *path);

/* What model_open_tokenizer() does without a readable tokenizer. Except with
 * TOKENIZER_NEEDED, a tokenizer may be missing, or be of an unsupported kind in
 * a GGUF file. */
typedef enum {
    TOKENIZER_UNUSED,  /* opens none */
    TOKENIZER_TO_SHOW, /* an unreadable file is a note */
    TOKENIZER_NEEDED,  /* fails in all cases */
    /* an unreadable tokenizer.json is a note, an unreadable tokenizer.bin a
     * failure */
    TOKENIZER_IF_READABLE,
    TOKENIZER_IF_THERE /* an unreadable file is a failure */
} TokenizerUse;

/* Opens the tokenizer of the model in model_path: the file `path`
 * (tokenizer.json or tokenizer.bin) if not NULL; else the GGUF file's, the
 * folder's tokenizer.json, the tokenizer.bin next to the model, or
 * ./tokenizer.bin. Returns 1 if it is open, 0 if the run continues without it
 * (*t has no pieces), -1 on failure. The caller closes the tokenizer. */
int model_open_tokenizer(Tokenizer *t, const Model *model,
                         const char *model_path, const char *path,
                         TokenizerUse use);
