/* gguf.h: models and tokenizers in GGUF files: reading and writing. */
#pragma once

#include "formats/gguf_file.h"
#include "model.h"
#include "tokenizer.h"

/* max bytes of a full name such as "llama.block_count" */
enum { GGUF_KEY_NAME = 128 };

/* Keys of a tokenizer that reading and writing share: of Tokenizer.advice, of
 * Tokenizer.named, and norma's own key of end tokens that have no key. */
extern const char *const ADVICE_KEYS[N_ADVICE];
extern const char *const NAMED_TOKEN_KEYS[N_NAMED_TOKENS];
#define OTHER_ENDS_KEY "norma.tokenizer.end_token_ids"

/* Whether a file begins as a GGUF file. */
bool gguf_is(const File *file);

/* Fills the model from its mapped file. A file with a vocabulary and no tensors
 * sets only vocab_size. On failure the caller closes the model. */
int gguf_read_model(Model *model, const char *path);

/* Returns 1 if *t holds the tokenizer, 0 if it is of an unsupported kind and
 * not needed (*t has no pieces), -1 and a message if it is damaged, or
 * unsupported and needed. */
int gguf_read_tokenizer(Tokenizer *t, File *file, const char *path,
                        int vocab_size, bool needed);

/* Makes the LayerNorms of a model RMSNorms, and unties its output. Written with
 * `center`, it has the same logits up to rounding. Returns -1 and a message if
 * the model has other norms, norms with beta, or biases on the weights that add
 * to the residual stream. */
int model_center(Model *model, const char *path);

/* How a model is written. */
typedef struct {
    Type type; /* the weights' type, which norma writes (type_from_name) */
    bool pure; /* q4_0: embedding and output, too, else they are q8_0 */
    /* multiply the gamma of norms into the columns of the next weights if that
     * is algebraically exact, and write 1 for it; notes name the other norms */
    bool fold;
    /* after model_center(): the rows of the embedding and the vectors that
     * other weights add to the residual stream lose their means */
    bool center;
} GgufForm;

/* Writes a model and its tokenizer. NULL: the tokenizer of the GGUF file that
 * the model comes from, or none. Other keys of that file are copied. Weights
 * whose rows are not a multiple of the type's blocks become float16. Returns -1
 * and a message that begins with `source` if GGUF cannot store the model or the
 * tokenizer; notes name small differences. The file appears whole or not at
 * all; after Ctrl-C it does not appear, and 0 is returned. */
int gguf_write_model(const Model *model, const Tokenizer *tokenizer,
                     GgufForm form, const char *source, const char *path);
