/* folder.h: from a Hugging Face folder to a Model and its Tokenizer. */
#pragma once

#include "model.h"
#include "tokenizer.h"

/* Fills the model from a folder: config.json and safetensors. Returns -1 and a
 * message on failure; the caller then closes the model. */
int folder_read_model(Model *model, const char *folder);

/* Opens a folder's tokenizer.json, of at most vocab_size pieces, and the
 * configuration files next to it. Special pieces match text, as in Hugging
 * Face's tokenizers. */
int tokenizer_open_folder(Tokenizer *t, const char *path, int vocab_size);

/* What configuration files and chat templates call special tokens: BOS, EOS,
 * the unknown token, and those of Tokenizer.named. */
enum { N_TOKEN_NAMES = 7 };
extern const char *const TOKEN_NAMES[N_TOKEN_NAMES];
