/* tokenizer_bin.h: llama2.c's tokenizer.bin.
 */
#ifndef NORMA_TOKENIZER_BIN_H
#define NORMA_TOKENIZER_BIN_H

#include "tokenizer.h"

/* Opens a tokenizer.bin, which must hold vocab_size pieces. */
int tokenizer_open_bin(Tokenizer *t, const char *path, int vocab_size);

#endif
