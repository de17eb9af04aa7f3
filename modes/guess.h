/* guess.h: draft tokens: a continuation of the text, copied from after an earlier occurrence of its last tokens (prompt
 * lookup: Saxena 2023).
 *
 * A draft token that is right saves a forward pass: its logits are computed with those of the token before it
 * (speculative decoding: Leviathan et al. 2023). The text does not change: the sampler draws every token of it.
 */
#pragma once

#include "modes/options.h"
#include "text/merges.h"

typedef struct {
    int max_lookup;                 /* max draft tokens per pass; 0: off */
    int next;                       /* max draft tokens of the next pass; 1 at first */
    int pause;                      /* passes without draft tokens until then */
    int wait;                       /* passes of the next pause */
    int n;                          /* draft tokens of this pass */
    int tokens[MAX_LOOKUP];         /* [n] */
    long guessed, accepted, passes; /* draft tokens that ran, and that were right; forward passes */
} Guesser;

void guesser_open(Guesser *g, int max_lookup);

/* Writes up to `room` draft tokens for the text to g->tokens. Returns their number. */
int guesser_guess(Guesser *g, const Tokens *text, int room);

/* The draft tokens have run, and the first n_right of them were right. */
void guesser_learn(Guesser *g, int n_right);
