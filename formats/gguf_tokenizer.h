/* gguf_tokenizer.h: the tokenizer in a GGUF file. */
#ifndef NORMA_GGUF_TOKENIZER_H
#define NORMA_GGUF_TOKENIZER_H

#include "base/file.h"
#include "text/pretokenize.h"
#include "tokenizer.h"

/* 1: there it is; -1: it is damaged, or `needed` and of a kind that norma does not read; 0: it is of such a kind and
 * not needed, and *t has no pieces. */
int gguf_read_tokenizer(Tokenizer *t, const File *file, const char *path, int vocab_size, bool needed);

/* GGUF's name for a pre-tokenizer; NULL: it has none. */
const char *gguf_pretokenizer_name(const Pretokenizer *p);

#endif
