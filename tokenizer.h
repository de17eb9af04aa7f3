/* tokenizer.h: text to tokens, tokens to text. */
#pragma once

#include "base/file.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/pretokenize.h"

enum { MAX_BEFORE = 4, N_NAMED_TOKENS = 4 };

/* Values of the sampler that a model's files recommend. */
enum {
    ADVICE_TEMPERATURE,
    ADVICE_TOP_P,
    ADVICE_TOP_K,
    ADVICE_MIN_P,
    ADVICE_REPEAT_PENALTY,
    ADVICE_REPEAT_LAST,
    N_ADVICE
};
/* Hugging Face's, but for repeat_last */
extern const char *const ADVICE_NAMES[N_ADVICE];
typedef struct {
    bool given;
    double value; /* not checked */
} Advice;

/* Where a space is inserted before text that matches no user-defined or special
 * piece. */
typedef enum {
    SPACE_ALWAYS,  /* before each stretch between pieces of the raw text */
    SPACE_IF_NONE, /* the same, unless the stretch begins with a space */
    SPACE_ONCE,    /* like SPACE_IF_NONE, but only at the start of the text */
    SPACE_NEVER,
} SpacePrefix;

/* A token that chat templates use by a name. */
typedef struct {
    const char *name; /* not owned: in the memory of the pieces */
    int id;
} NamedToken;

/* Filled in by a loader (formats/). */
typedef struct {
    Pieces pieces;
    Normalizer normalizer;
    Pretokenizer pretokenizer;
    SpacePrefix space_prefix;
    /* [n_before], the tokens before every text: BOS, or others */
    int before[MAX_BEFORE];
    int n_before;
    int bos, eos; /* -1 = none */
    int eot;      /* ends a turn of a chat; -1 = none */
    int unk;      /* what chat templates call unk_token; -1 = none */
    /* named by chat templates only: pad, sep, cls and mask; -1 = none */
    int named[N_NAMED_TOKENS];
    /* of NamedToken: other variables of chat templates, such as image_token */
    Buffer variables;
    /* other tokens that end a text: the file's, a chat template's; owned */
    Tokens ends;
    Buffer chat_template; /* Jinja; no bytes: none */
    /* names of the chat templates of a model that has none called "default",
     * separated by commas; no bytes: none */
    Buffer template_names;
    /* the template places BOS; else the tokens before a text come first */
    bool chat_has_bos;
    Advice advice[N_ADVICE];
    char ignored[192]; /* names of recommended rules that norma lacks */
    File file; /* mapped file that the pieces' text points into, if any */
} Tokenizer;

/* No pieces and no special tokens: what a loader begins with. */
extern const Tokenizer NO_TOKENIZER;

void tokenizer_close(Tokenizer *t);

/* Sets the chat template to a copy of text[size]. -1: out of memory. */
int tokenizer_set_chat_template(Tokenizer *t, const char *text, size_t size);

/* Encodes text[size] (any bytes). User-defined and special pieces match first,
 * from left to right and the longest at each position. The text between them is
 * normalized, gets a space prefix if the tokenizer has one, and is split into
 * words, which become tokens by merging (text/merges.h). O(n log n), with
 * user-defined pieces of up to m bytes O(n log n + n m). `before`: add the
 * tokens before a text. Returns -1 and a message on failure. The caller frees
 * ids, also after a failure. */
int tokenizer_encode(const Tokenizer *t, const char *text, size_t size,
                     bool before, Tokens *out);

/* Like tokenizer_encode, but appends to *out and adds no BOS. open[size]: the
 * bytes that may be in a piece that matches the raw text; NULL: all. `space`:
 * add the space prefix. */
int tokenizer_append(const Tokenizer *t, const char *text, size_t size,
                     const bool *open, bool space, Tokens *out);

/* Whether a text ends before this token. BOS always ends it, EOS if `eos_ends`
 * (Model). */
bool tokenizer_is_end(const Tokenizer *t, int token, bool eos_ends);

/* The bytes of a token that follows `previous`; after BOS without the leading
 * space. Not zero-terminated. */
const char *tokenizer_decode(const Tokenizer *t, int previous, int token,
                             int *length);
