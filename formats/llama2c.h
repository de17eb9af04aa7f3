/* llama2c.h: reads the checkpoints and tokenizers of llama2.c. */
#pragma once

#include "model.h"
#include "tokenizer.h"

/* Fills the model from its mapped file. Returns -1 and a message on failure;
 * the caller then closes the model. */
int llama2c_read_model(Model *model, const char *path);

/* Opens a tokenizer.bin, which must hold vocab_size pieces. */
int tokenizer_open_bin(Tokenizer *t, const char *path, int vocab_size);
