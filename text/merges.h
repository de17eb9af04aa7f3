/* merges.h: byte-pair encoding by ranked merges.
 */
#ifndef NORMA_MERGES_H
#define NORMA_MERGES_H

#include <stddef.h>
#include <stdint.h>

/* Neighbours left and right become `result`. The rule of the lowest rank goes first. */
typedef struct {
    int left, right, result, rank;
} MergeRule;

typedef struct {
    MergeRule *rules; /* [n], by left, then right; owned; NULL: pieces merge by their scores */
    int n;
    int *first; /* [n_pieces + 1], owned: the first rule of each left */
} Merges;

#endif
