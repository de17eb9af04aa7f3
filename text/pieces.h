/* pieces.h: the pieces of a vocabulary.
 */
#ifndef NORMA_PIECES_H
#define NORMA_PIECES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    PIECE_TEXT,    /* text becomes it by merging */
    PIECE_USER,    /* user-defined: matches text as a whole, before anything merges */
    PIECE_SPECIAL, /* so does this, but nothing that is said in a chat */
    PIECE_BYTE,    /* one byte of what no other piece says */
    PIECE_CONTROL, /* never matches text; also <unk> and unused pieces */
} PieceKind;

typedef struct {
    const char *text; /* in the mapped file, or a byte piece's one byte */
    int length;
    float score;
    PieceKind kind;
    bool also_merged;           /* text becomes it by merging, too, though it is no PIECE_TEXT */
    bool raw;                   /* matches the text as it came, not as a normalizer leaves it */
    bool eats_left, eats_right; /* white space beside it is part of the match */
} Piece;

/* An open hash table of ids, -1: free. */
typedef struct {
    int32_t *slots;
    uint32_t mask;
} IdTable;

#endif
