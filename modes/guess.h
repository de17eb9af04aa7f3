/* guess.h: draft tokens: what may follow a text, from what followed its last tokens before (prompt lookup: Saxena 2023)
 * or from a smaller model (draft.h).
 *
 * A draft token that is right saves a forward pass: its logits are computed with those of the token before it
 * (speculative decoding: Leviathan et al. 2023). The text does not change: the sampler draws every token of it.
 */
#pragma once

#include "modes/draft.h"
#include "modes/options.h"
#include "sampler.h"
#include "text/merges.h"

enum { MAX_MODEL_DRAFT = 4 }; /* draft tokens of a model, which cost time, in a pass */

/* How many draft tokens a source gives. It starts with 1. */
typedef struct {
    int n;     /* in the next pass */
    int pause; /* passes until then */
    int wait;  /* passes of the next pause */
} Pace;

typedef enum { LOOKUP, DRAFT_MODEL, N_SOURCES } Source;

typedef struct {
    int max_lookup; /* draft tokens from the text itself; 0: none */
    Draft *draft;   /* not owned; NULL: none */
    Pace paces[N_SOURCES];
    Source source;                  /* of the draft tokens of this pass: */
    int n;                          /* how many */
    int tokens[MAX_LOOKUP];         /* [n] */
    long guessed, accepted, passes; /* draft tokens that ran, and that were right; forward passes */
} Guesser;

void guesser_open(Guesser *g, int max_lookup, Draft *draft);

/* Puts up to `room` draft tokens that may follow the text into g->tokens. `sampler` is the text's. Returns how many; -1
 * and a message: the draft model failed. */
int guesser_guess(Guesser *g, const Tokens *text, const Sampler *sampler, int room);

/* The draft tokens have run, and the first n_right of them were right. */
void guesser_learn(Guesser *g, int n_right);
