/* pieces.h: the vocabulary: a table of pieces, one for each token. */
#pragma once

#include "base/hash.h"
#include <stdbool.h>

typedef enum {
    PIECE_TEXT,    /* text becomes it by merging */
    PIECE_USER,    /* user-defined: matches text as a whole, before anything merges */
    PIECE_SPECIAL, /* special: matches so, too, but never what is said in a chat */
    PIECE_BYTE,    /* one byte, for characters without a piece */
    PIECE_CONTROL, /* never matches text; also <unk> and unused pieces */
} PieceKind;

typedef struct {
    const char *text; /* [length]: in the mapped file, in Pieces.text or, a byte piece's, in Pieces.bytes */
    int length;       /* bytes */
    int n_decoded;    /* bytes of what the piece is decoded to, where that is not its text: */
    char *decoded;    /* [n_decoded]; NULL: it is */
    float score;
    PieceKind kind;
    bool also_merged;           /* text becomes it by merging, too, though it is no PIECE_TEXT */
    bool raw;                   /* matches the text as it came, not as a normalizer leaves it */
    bool eats_left, eats_right; /* white space beside it is part of the match */
} Piece;

/* An open hash table of ids, -1: free. */
typedef struct {
    int32_t *slots; /* [mask + 1], owned */
    size_t mask;
    HashKey key;
    int max_length; /* bytes of the longest piece in it */
} IdTable;

typedef struct {
    Piece *list; /* [n], owned; an index is a token's id */
    int n;
    int unk;                 /* the token of what has no piece; -1: none */
    bool byte_level;         /* pieces are made of bytes, not of characters */
    char *text;              /* owned; NULL where the text of all pieces is in the mapped file */
    int byte_piece[256];     /* token of each byte; unk if there is none */
    uint8_t bytes[256];      /* each byte: the text of byte pieces. So a tokenizer must stay where it is. */
    IdTable merged;          /* pieces that text becomes by merging */
    const Piece **matched;   /* pieces that match as a whole, in the order of their text; owned */
    size_t first_match[257]; /* of these by their first byte; the last one is their number */
} Pieces;

#define SPACE_MARK "\xe2\x96\x81" /* U+2581: a space in the names of pieces */

enum { MOST_MATCHED_BYTES = 512 }; /* of a piece that matches as a whole: every place of a text is held against them */

/* Makes a table of n empty control pieces, with room for text_bytes bytes of text (0: it is elsewhere). */
int pieces_open(Pieces *p, int n, size_t text_bytes);
void pieces_close(Pieces *p);

/* Completes a vocabulary whose pieces are filled in: finds the byte pieces (by their names,
 * "<0x0A>", if it is not byte_level) and builds the tables. Again: after pieces have changed. */
int pieces_index(Pieces *p);

/* The piece that is s[n] and that text becomes by merging; -1: none. Of two equal pieces the first. */
int pieces_find(const Pieces *p, const char *s, int n);

/* The longest user-defined or special piece with which s[left] begins; -1: none. `raw`: of
 * those that match the text as it came, else of the others. O(MOST_MATCHED_BYTES). */
int pieces_match(const Pieces *p, const char *s, size_t left, bool raw);

/* Replaces names, in p->text, by the text that they stand for: spaces for U+2581 or, if byte_level, bytes for their
 * names. A piece with no such name becomes a control piece. User-defined pieces match by their names, and only what
 * they are decoded to is replaced. The tables are out of date then. */
void pieces_decode_names(Pieces *p);

/* Turns U+2581 into spaces in place; returns the bytes that are left. */
int unmark_spaces(char *s, int n);

/* Byte-level vocabularies name every byte by a printable character (Radford et al. 2019): a space
 * is U+0120. Writes its UTF-8 to name[2]; returns its bytes. */
int byte_name(char name[2], uint8_t byte);
