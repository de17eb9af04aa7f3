/* guess.h: what a text may say next, by what it has said before (prompt lookup: Saxena 2023).
 *
 * A guess that is right saves a forward pass: its logits are computed beside those of the token before it (speculative
 * decoding: Leviathan et al. 2023). One that is wrong costs its share of a pass and nothing else: what is said is what
 * the sampler draws.
 */
#pragma once

#include "text/merges.h"
#include <stdbool.h>

enum { MOST_GUESSES = 15 };

typedef struct {
    int most;    /* guesses in a pass; 0: none are made */
    Tokens said; /* the text, owned */
    int *ends;   /* by the hash of a few tokens, where something last followed them; owned */
    int guesses[MOST_GUESSES];
    int n_guesses, n_run; /* what may come next, and how many of these run */
    int n_right;          /* how many have been said by now; -1: another token came */
    double hits;          /* how likely a guess is right if those before it are, of late */
    double alone, more;   /* seconds of a pass without guesses, and what each guess adds, of late; 0: not known */
    long guessed, accepted, passes; /* guesses that ran, those of them that were right; forward passes */
} Guesser;

/* Up to `most` guesses in a pass; 0: it does nothing. */
void guesser_open(Guesser *g, int most);
void guesser_close(Guesser *g);

/* The text goes on with a token. 1: it was a guess that has run; 0: it was not; -1 and a message: no memory. */
int guesser_say(Guesser *g, int token);

/* Guesses what comes next, at most `room` tokens, of which the first n_run are worth running: as far as this run has
 * shown, they save more time than they cost. */
void guesser_guess(Guesser *g, int room);

/* A forward pass with n_run guesses took so long. */
void guesser_learn(Guesser *g, double seconds);
