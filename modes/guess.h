/* guess.h: draft tokens by prompt lookup (Saxena 2023), which searches the text
 * for an earlier occurrence of its last tokens and copies the tokens after it.
 *
 * An accepted draft token saves a forward pass, because its logits are computed
 * together with those of the token before it (speculative decoding: Leviathan
 * et al. 2023). The text does not change: every token of it is sampled.
 */
#pragma once

#include "modes/options.h"
#include "text/merges.h"

typedef struct {
    int max_lookup;         /* max draft tokens per pass; 0: off */
    int next;               /* max draft tokens of the next pass; 1 at first */
    int pause;              /* passes left without draft tokens */
    int wait;               /* length of the next pause, in passes */
    int n;                  /* number of draft tokens in this pass */
    int tokens[MAX_LOOKUP]; /* [n] */
    long guessed, accepted; /* draft tokens that ran; draft tokens accepted */
} Guesser;

void guesser_open(Guesser *g, int max_lookup);

/* Starts a pass. Writes up to `room` draft tokens that may follow the text to
 * g->tokens. Returns their number. */
int guesser_guess(Guesser *g, const Tokens *text, int room);

/* Ends a pass: the first n_right of its draft tokens were accepted. Adapts the
 * number of draft tokens. */
void guesser_learn(Guesser *g, int n_right);
