/* guess.h: what a text may say next: what followed its last tokens before (prompt lookup: Saxena 2023), or what
 * somebody else says, such as a smaller model (draft.h).
 *
 * A guess that is right saves a forward pass: its logits are computed beside those of the token before it (speculative
 * decoding: Leviathan et al. 2023). One that is wrong costs its share of a pass and nothing else: what is said is what
 * the sampler draws.
 */
#pragma once

#include "text/merges.h"
#include <stdbool.h>

enum { MOST_GUESSES = 15 };

/* How long something takes of late. */
typedef struct {
    double median; /* seconds; 0: not known */
    int n;         /* of how many times */
} Time;

/* Moves it towards one more time: less with each, but by as much however far away that is: some passes make memory
 * ready. */
void time_move(Time *t, double seconds);

/* Who guesses at a price. */
typedef struct Source Source;
struct Source {
    /* Guesses n tokens behind the text. How many; -1 and a message: it failed. Where it works through the text, n_ran
     * becomes said->n + those of the guesses that it has worked through, too. */
    int (*guess)(Source *s, const Tokens *said, int *guesses, int n);
    int n_ran;         /* tokens of the text that it has worked through */
    Time each, missed; /* of a guess, and of a token of the text that it has not worked through */
};

typedef enum { BY_LOOKUP, BY_SOURCE, N_GUESSERS } GuessedBy;

/* What may come next. */
typedef struct {
    int tokens[MOST_GUESSES];
    int n;
    int n_right; /* how many have been said by now; -1: another token came */
    double hits; /* how likely one is right if those before it are, of late */
} Guesses;

typedef struct {
    int most;       /* guesses of lookup in a pass; 0: it makes none */
    Source *source; /* not owned; NULL: there is none */
    Tokens said;    /* the text, owned */
    int *ends;      /* by the hash of a few tokens, where something last followed them; owned */
    Guesses guesses[N_GUESSERS];
    GuessedBy by;                   /* whose guesses run, */
    int n_run;                      /* and how many of them */
    Time alone, more;               /* of a pass without guesses, and what each guess adds */
    double passed, tried;           /* seconds of all passes, and of guesses that were not expected to pay */
    bool was_alone;                 /* nobody had a guess in the last pass */
    int settled;                    /* passes that took as long as later ones do */
    long guessed, accepted, passes; /* guesses that ran, those of them that were right; forward passes */
} Guesser;

/* Lookup makes up to `most` guesses in a pass; 0: none. `source`, which must outlive the guesser, may be NULL. */
void guesser_open(Guesser *g, int most, Source *source);
void guesser_close(Guesser *g);

/* A prompt follows behind the first n tokens of the text: what was guessed is not what comes next. */
void guesser_cut(Guesser *g, int n);

/* The text goes on with a token. 1: it was a guess that has run; 0: it was not; -1 and a message: no memory. */
int guesser_say(Guesser *g, int token);

/* Guesses what comes next, at most `room` tokens: *tokens gets those that are worth running, as far as this run has
 * shown: they save more time than they cost. How many; -1 and a message: the source failed. */
int guesser_guess(Guesser *g, int room, const int **tokens);

/* A forward pass with these guesses took so long. `settled`: later ones will take as long. */
void guesser_learn(Guesser *g, double seconds, bool settled);
