/* pieces.h: the vocabulary: a table of pieces, one for each token, and the
 * rules that merge them (merges.h). */
#pragma once

#include "base/hash.h"
#include "base/memory.h"
#include "base/string.h"
#include <stdbool.h>

typedef enum {
    PIECE_TEXT,    /* produced by merging */
    PIECE_USER,    /* user-defined: matched as a whole before merging */
    PIECE_SPECIAL, /* like PIECE_USER, but never matched in chat messages */
    /* never produced by merging; named "<0x0A>": this byte of a character
     * without a piece */
    PIECE_BYTE,
    PIECE_CONTROL, /* never matches text; also <unk> and unused pieces */
} PieceKind;

typedef struct {
    /* [length], not owned: in the mapped file or in Pieces.texts */
    const char *text;
    int length;    /* bytes */
    int n_decoded; /* bytes of `decoded` */
    /* [n_decoded]: decoded text if it differs from `text`, else NULL */
    char *decoded;
    char byte;   /* of PIECE_BYTE: its decoded text */
    float score; /* not NaN */
    PieceKind kind;
    /* PIECE_USER or PIECE_SPECIAL: merging produces it, too */
    bool also_merged;
    bool raw; /* matches raw text; else normalized text */
    bool strips_left,
        strips_right; /* the match includes white space before, after it */
    /* the match includes the space before it, and needs one */
    bool after_space;
    bool
        single_word; /* matches only between characters that are not of words */
} Piece;

/* Neighbours left and right merge into `result`. The rule with the lowest rank
 * is applied first. */
typedef struct {
    int left, right, result, rank;
} MergeRule;

typedef struct {
    Piece *list; /* [n], owned; an index is a token's id */
    int n;
    int unk;         /* token of unknown text; -1 = none */
    bool byte_level; /* pieces are made of bytes, not of characters */
    /* owned: memory of the pieces' text; NULL: it is in the mapped file */
    char *texts[20];
    int n_texts;
    int byte_piece[256]; /* token of each byte, or unk */
    /* [mask + 1], owned: hash table of the pieces that merging produces, -1 =
     * free slot */
    int32_t *slots;
    size_t mask;
    HashKey key;
    int max_length; /* bytes of the longest piece in the table */
    /* [n_matched], pieces matched as a whole, sorted by text; owned */
    const Piece **matched;
    size_t n_matched;
    /* [n_rules], by left, then right; owned; NULL = merge by the scores of
     * pieces */
    MergeRule *rules;
    int n_rules;
    /* byte pieces are produced by merging only: a character without a piece is
     * unknown */
    bool no_bytes;
    bool fuses_unknown; /* adjacent unknown characters become one <unk> */
    Buffer name;        /* memory of merges_add_pair() */
} Pieces;

#define SPACE_MARK                                                             \
    "\xe2\x96\x81" /* U+2581 stands for a space in names of pieces */

/* of a piece that is matched as a whole; bounds the work per byte of text */
enum { MAX_MATCHED_BYTES = 512 };

/* Makes a table of n empty control pieces. Returns -1 and a message if out of
 * memory. */
int pieces_open(Pieces *p, int n);
void pieces_close(Pieces *p);

/* The types of pieces in the files of SentencePiece and GGUF. */
typedef enum {
    PIECE_TYPE_NORMAL = 1,
    PIECE_TYPE_UNKNOWN = 2,
    PIECE_TYPE_CONTROL = 3,
    PIECE_TYPE_USER = 4,
    PIECE_TYPE_UNUSED = 5,
    PIECE_TYPE_BYTE = 6
} PieceType;

/* Fills in a piece but for its score: by its type in the file, which may be any
 * number, and its name, of which *to gets the text. *to moves on. Returns -1
 * and a message with the file's path if there are more than p->n pieces or the
 * name is too long. */
int pieces_set(Pieces *p, const char *path, int id, String name, uint64_t type,
               char **to);

/* Checks the pieces, builds the tables and finds the piece of each byte. Call
 * it once the pieces are filled in and after every change. Returns -1 and a
 * message on failure. */
int pieces_index(Pieces *p);

/* The first piece with text s[n] that merging can produce; -1 if not found. */
int pieces_find(const Pieces *p, const char *s, size_t n);

/* The longest user-defined or special piece at the start of s[left]; -1 if not
 * found. `raw`: among pieces that match raw text, else among the others.
 * O(MAX_MATCHED_BYTES). */
int pieces_match(const Pieces *p, const char *s, size_t left, bool raw);

/* The number of bytes to go on after if the piece that matches text[at], after
 * the end `from` of the last match, must not stand there, or if none matches
 * (-1); 0 if it may. */
size_t pieces_skip(const Pieces *pieces, int id, const char *text, size_t size,
                   size_t at, size_t from);

/* Replaces names, in p->texts, by the text that they stand for: spaces for
 * U+2581 or, if byte_level, bytes for their names. A piece with no such name
 * becomes a control piece. User-defined pieces match by their names; only their
 * decoded text is replaced. Call pieces_index() afterwards. */
void pieces_decode_names(Pieces *p);

/* Replaces U+2581 by spaces in place. Returns the new size. */
int unmark_spaces(char *s, int n);

/* Byte-level vocabularies name each byte by a printable character (Radford et
 * al. 2019); a space is U+0120. Writes the UTF-8 to name[2] and returns its
 * size. */
int byte_name(char name[2], uint8_t byte);
