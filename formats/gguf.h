/* gguf.h: reading GGUF files.
 */
#ifndef NORMA_GGUF_H
#define NORMA_GGUF_H

#include "base/file.h"
#include "model.h"
#include "tokenizer.h"

#include <stdbool.h>

bool gguf_is(const File *file);

/* Fills the model from its file, which is mapped. On failure the caller closes it. */
int gguf_read_model(Model *model, const char *path);

/* The tokenizer in a GGUF file. 1: there it is; -1: it is damaged, or `needed`
 * and of a kind that norma does not read; 0: not needed. Then *t has no pieces. */
int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed);

#endif
