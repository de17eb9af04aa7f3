/* guess.h: draft tokens: a continuation of the text, copied from after an earlier occurrence of its last tokens (prompt
 * lookup: Saxena 2023) or from a smaller model (draft.h).
 *
 * A draft token that is right saves a forward pass: its logits are computed with those of the token before it
 * (speculative decoding: Leviathan et al. 2023). The text does not change: the sampler draws every token of it.
 */
#pragma once

#include "modes/draft.h"
#include "modes/options.h"
#include "sampler.h"
#include "text/merges.h"

enum { MAX_MODEL_DRAFT = 4 }; /* max draft tokens of a model per pass, because they take time */

/* The number of draft tokens of a source, 1 at first. */
typedef struct {
    int n;     /* in the next pass */
    int pause; /* passes until then */
    int wait;  /* passes of the next pause */
} Pace;

typedef enum { LOOKUP, DRAFT_MODEL, N_SOURCES } Source;

typedef struct {
    int max_lookup; /* max draft tokens from the text itself; 0: off */
    Draft *draft;   /* not owned; NULL: none */
    Pace paces[N_SOURCES];
    Source source;                  /* of the draft tokens of this pass: */
    int n;                          /* their number */
    int tokens[MAX_LOOKUP];         /* [n] */
    long guessed, accepted, passes; /* draft tokens that ran, and that were right; forward passes */
} Guesser;

void guesser_open(Guesser *g, int max_lookup, Draft *draft);

/* Writes up to `room` draft tokens for the text to g->tokens. `sampler` is the text's. Returns their number; -1 and a
 * message if the draft model failed. */
int guesser_guess(Guesser *g, const Tokens *text, const Sampler *sampler, int room);

/* The draft tokens have run, and the first n_right of them were right. */
void guesser_learn(Guesser *g, int n_right);
