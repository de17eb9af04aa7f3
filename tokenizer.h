/* tokenizer.h: text to tokens, tokens to text.
 */
#ifndef NORMA_TOKENIZER_H
#define NORMA_TOKENIZER_H

#include "base/file.h"
#include "text/merges.h"
#include "text/pieces.h"
#include "text/pretokenize.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_ENDS = 16 };

typedef struct {
    Piece *pieces; /* [n_pieces] */
    int n_pieces;
    int bos, eos, unk;
    int eot;            /* ends a turn of chat; -1: none */
    int ends[MAX_ENDS]; /* [n_ends] more that end a text */
    int n_ends;
    int max_length;        /* of a piece in bytes */
    int max_user_length;   /* of a user-defined or special one */
    bool starts_user[256]; /* bytes that these begin with */
    int byte_piece[256];   /* token of each byte; unk if there is none */
    uint8_t bytes[256];
    bool no_bos, no_space_prefix;   /* text begins without the one, without the other */
    bool space_if_none, space_once; /* the space is put only where there is none; only before a whole text */
    bool replaces_invalid;          /* a byte that is no UTF-8 becomes U+FFFD, as in the sentencepiece library */
    bool replaces_mark;             /* U+2581 becomes a space, as in Hugging Face's tokenizers of that kind */
    bool byte_level;                /* merging begins with bytes, not with characters */
    bool composes;                  /* the text is put into normalization form C first */
    bool fuses_unknown;             /* neighbouring unknown characters are one <unk> */
    Merges merges;
    Pretokenizer pretokenizer;
    const char *chat_template; /* a Jinja program; NULL: none */
    size_t chat_template_size;
    bool chat_has_bos;       /* it says itself where BOS goes; else there is one wherever texts begin with it */
    char *chat_text;         /* it, owned; NULL where it is in a mapped file */
    char *text;              /* owned; NULL where the pieces' text is in the file */
    uint32_t hash_start;     /* of the tables */
    IdTable merged, matched; /* pieces that text becomes by merging, and as a whole */
    File file;
} Tokenizer;

typedef struct {
    int *ids; /* owned */
    int n;
} Tokens;

/* Completes a tokenizer whose pieces are filled in: finds the byte pieces (by
 * their names, "<0x0A>", if it is not byte_level) and builds the tables. */
int tokenizer_index(Tokenizer *t);

enum { MOST_USER_BYTES = 512 }; /* of a piece that matches as a whole: every place of a text is held against them */

/* Turns U+2581 into spaces in place; returns the bytes that are left. */
int piece_unmark(char *s, int n);

/* An empty table for n ids. */
int table_open(IdTable *table, size_t n);

/* The piece that is s[n] and that text becomes by merging; -1: none. */
int tokenizer_find(const Tokenizer *t, const char *s, int n);

/* Opens llama2.c's tokenizer.bin, which must hold vocab_size pieces. */
int tokenizer_open(Tokenizer *t, const char *path, int vocab_size);
void tokenizer_close(Tokenizer *t);

/* Encodes text[size] (any bytes). User-defined and special pieces match first,
 * the longest from left to right. What is between them gets a space in front,
 * where the tokenizer has it so, and is cut into words. A word is one token to
 * a character (unknown ones as bytes) or to a byte; then again and again the
 * neighbours merge whose piece has the best score, or whose rule comes first,
 * the leftmost first. O(n log n), with user-defined pieces of up to m bytes
 * O(n log n + n m). `bos` puts BOS in front. The caller frees ids. */
int tokenizer_encode(const Tokenizer *t, const char *text, size_t size, bool bos, Tokens *out);

/* The same behind what *out holds already; `space`: with the space in front. */
int tokenizer_append(const Tokenizer *t, const char *text, size_t size, bool space, Tokens *out);

/* Room for `more` tokens behind those that are there. */
int tokens_reserve(Tokens *tokens, size_t more);

/* The bytes of a token as text that follows token `previous` (after BOS the
 * leading space goes). Not zero-terminated. */
const char *tokenizer_decode(const Tokenizer *t, int previous, int token, int *length);

/* Byte-pair encoding by ranks (Sennrich et al. 2016; over bytes: Radford et al.
 * 2019). A loader fills in the pieces under the names that its file gives them, in
 * t->text; then calls bpe_begin, which makes the names findable; bpe_add for each
 * of at most n merges, in the order of their ranks, two names with a space between
 * them, or bpe_add_pair; and bpe_end, which turns names into what they stand for.
 * `path` is for messages. */
int bpe_begin(Tokenizer *t, size_t n);
int bpe_add(Tokenizer *t, const char *path, const char *pair, size_t n);
int bpe_add_pair(Tokenizer *t, const char *path, const char *left, size_t n_left, const char *right, size_t n_right);
int bpe_end(Tokenizer *t);

/* The rule for two neighbours; NULL: they do not merge. */
const MergeRule *bpe_rule(const Merges *merges, int left, int right);

/* The name of a byte-level piece's byte: one character of UTF-8; returns its bytes. */
int bpe_byte_name(char name[2], uint8_t byte);

#endif
