/* gguf_write.h: any model as a GGUF file. */
#ifndef NORMA_GGUF_WRITE_H
#define NORMA_GGUF_WRITE_H

#include "kernels/tensor.h"
#include "model.h"
#include "tokenizer.h"

/* Whether a GGUF file can say all of a model and its tokenizer (NULL: it has none): 0, perhaps with notes on what
 * it says a little differently; -1 and a message that names `path`, where they come from. */
int gguf_check_model(const Model *model, const Tokenizer *tokenizer, const char *path);

/* Writes what gguf_check_model approves of, with weights of this type, which is one of those that norma writes
 * (type_from_name); those whose rows are no multiple of its blocks become float16. Shows progress on a terminal.
 * The file appears whole or not at all: not, and 0 is returned, if Ctrl-C comes. */
int gguf_write_model(const Model *model, const Tokenizer *tokenizer, Type type, const char *path);

#endif
