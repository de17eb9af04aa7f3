/* merges.h: byte-pair encoding of a word.
 *
 * A word starts as one token per character or, in byte-level vocabularies, per
 * byte. Then two neighbours are merged until no merge is possible: the pair
 * whose rule has the lowest rank (Sennrich et al. 2016) or, without rules, the
 * pair whose joint text is the piece with the best score (SentencePiece: Kudo &
 * Richardson 2018). Ties go to the leftmost pair.
 */
#pragma once

#include "text/pieces.h"

typedef struct {
    int *ids; /* [n], capacity `room`; owned */
    int n;
    size_t room;
} Tokens;

/* Appends a token. Returns -1 and a message if out of memory. */
int tokens_add(Tokens *tokens, int id);

/* Reads a file's rules. Call merges_begin once the pieces have the file's
 * names; then merges_add (two names separated by a space) or merges_add_pair
 * for at most n rules in order of rank; then merges_end, which decodes names to
 * text and indexes pieces and rules. `path` is for messages. Return -1 and a
 * message on failure. */
int merges_begin(Pieces *p, size_t n);
int merges_add(Pieces *p, const char *path, const char *pair, size_t n);
int merges_add_pair(Pieces *p, const char *path, const char *left,
                    size_t n_left, const char *right, size_t n_right);
int merges_end(Pieces *p);

/* The rule for two neighbours; NULL if not found. */
const MergeRule *merges_rule(const Pieces *p, int left, int right);

/* Appends the tokens of word[n], n > 0, to *out. Characters without a piece
 * become byte pieces or <unk>. O(n log n). Returns -1 and a message if out of
 * memory. */
int merges_encode(const Pieces *p, const char *word, size_t n, Tokens *out);
