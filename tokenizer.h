/* tokenizer.h: text to tokens, tokens to text. */
#pragma once

#include "base/file.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/pretokenize.h"

enum { MAX_ENDS = 16 };

/* Where a space is put in front of what is not a user-defined or special piece. */
typedef enum {
    SPACE_ALWAYS,  /* of every stretch between two pieces that match the text as it came */
    SPACE_IF_NONE, /* of every stretch between two pieces, unless it begins with a space */
    SPACE_ONCE,    /* so, but only at the beginning of the whole text */
    SPACE_NEVER,
} SpacePrefix;

/* A loader (formats/) fills it in. It must not move: byte pieces point into it. */
typedef struct {
    Pieces pieces;
    Merges merges;
    Normalizer normalizer;
    Pretokenizer pretokenizer;
    SpacePrefix space_prefix;
    bool no_bos; /* texts do not begin with BOS */
    int bos, eos;
    int eot;            /* ends a turn of chat; -1: none */
    int ends[MAX_ENDS]; /* [n_ends] more that end a text */
    int n_ends;
    char *chat_template;       /* a Jinja program, owned; NULL: none */
    size_t chat_template_size; /* bytes; a zero byte follows */
    bool chat_has_bos;         /* it says itself where BOS goes; else there is one wherever texts begin with it */
    File file;                 /* where the pieces' text is, if it is not in `pieces` */
} Tokenizer;

void tokenizer_close(Tokenizer *t);

/* Gives the tokenizer a copy of its chat template. */
int tokenizer_set_chat_template(Tokenizer *t, const char *text, size_t size);

/* Encodes text[size] (any bytes). User-defined and special pieces match first, the longest from left to right. What
 * is between them is normalized, gets a space in front, where the tokenizer has it so, and is cut into words, which
 * become tokens by merging: see text/merges.h. O(n log n), with user-defined pieces of up to m bytes O(n log n + n
 * m). `bos` puts BOS in front, unless the tokenizer has none there. The caller frees ids. */
int tokenizer_encode(const Tokenizer *t, const char *text, size_t size, bool bos, Tokens *out);

/* Encodes text behind what *out holds already; `space`: with the space in front. */
int tokenizer_append(const Tokenizer *t, const char *text, size_t size, bool space, Tokens *out);

/* The bytes of a token as text that follows `previous` (after BOS the leading space goes). Not zero-terminated. */
const char *tokenizer_decode(const Tokenizer *t, int previous, int token, int *length);
