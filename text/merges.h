/* merges.h: byte-pair encoding: how a word becomes tokens.
 *
 * A word is one token to a character or, in byte-level vocabularies, to a byte. Then, again and again, the two
 * neighbours merge whose rule has the lowest rank (Sennrich et al. 2016) or, where there are no rules, whose joint text
 * is the piece with the best score (SentencePiece: Kudo & Richardson 2018); of equal ones the leftmost.
 */
#pragma once

#include "base/order.h"
#include "text/pieces.h"

typedef struct {
    int *ids; /* [n] of room for `room`; owned */
    int n;
    size_t room;
} Tokens;

/* Makes room for `more` tokens behind those that are there. */
int tokens_reserve(Tokens *tokens, size_t more);
int tokens_add(Tokens *tokens, int id);

/* Neighbours left and right become `result`. The rule of the lowest rank goes first. */
typedef struct {
    int left, right, result, rank;
} MergeRule;

typedef struct {
    MergeRule *rules; /* [n], by left, then right; owned; NULL: pieces merge by their scores */
    int n;
    int *first;         /* [pieces + 1], owned: the first rule of each left */
    bool fuses_unknown; /* neighbouring unknown characters are one <unk> */
} Merges;

/* To read a file's rules: merges_begin, when the pieces are filled in under the names that the file gives them;
 * merges_add for each of at most n rules, in the order of their ranks, two names with a space between, or
 * merges_add_pair; then merges_end, which puts text in the place of names and indexes both. `path` is for messages. */
int merges_begin(Merges *m, Pieces *pieces, size_t n);
int merges_add(Merges *m, const Pieces *pieces, const char *path, const char *pair, size_t n);
int merges_add_pair(Merges *m, const Pieces *pieces, const char *path, const char *left, size_t n_left,
                    const char *right, size_t n_right);
int merges_end(Merges *m, Pieces *pieces);
void merges_close(Merges *m);

/* The rule for two neighbours; NULL: they do not merge. */
const MergeRule *merges_rule(const Merges *m, int left, int right);

/* Merges one word after the other; keeps its memory between them. Zero but for the first two to begin with. */
typedef struct {
    const Pieces *pieces;
    const Merges *merges;
    const char *word;
    struct Symbol *symbols; /* [n_symbols] of `room`; owned */
    HeapItem *heap;         /* [n_heap] of 2 * room; owned: merges that are possible, by score or negative rank */
    int n_symbols, n_heap;
    size_t room;
} Merger;

/* Appends the tokens of word[n], n > 0, to *out. Characters without a piece become byte pieces or <unk>. O(n log n). */
int merger_encode(Merger *m, const char *word, size_t n, Tokens *out);
void merger_close(Merger *m);
