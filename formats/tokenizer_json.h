/* tokenizer_json.h: the tokenizer of a Hugging Face folder. */
#ifndef NORMA_TOKENIZER_JSON_H
#define NORMA_TOKENIZER_JSON_H

#include "tokenizer.h"

/* Opens a folder's tokenizer.json, of at most vocab_size pieces, with what the files beside it say of it. Its special
 * pieces match text, as in Hugging Face's tokenizers. */
int tokenizer_open_json(Tokenizer *t, const char *path, int vocab_size);

#endif
