/* common.h: what modes share: Run, and the steps that several modes take with it. */
#pragma once

#include "base/error.h"
#include "base/process.h"
#include "lab/profile.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/draft.h"
#include "modes/guess.h"
#include "modes/options.h"
#include "sampler.h"
#include "text/stream.h"
#include "tokenizer.h"

/* What a mode works with, opened as far as the mode needs it (options.h). */
struct Run {
    const Options *options;
    Model model;
    uint64_t model_hash; /* where ranks share the model */
    Tokenizer tokenizer; /* without pieces: there is none */
    Session session;
    Tuning tuning;
    Sampler sampler;
    Draft draft;
    Guesser guesser;
    Profile *profile; /* NULL: off */
};

/* A text that is being continued. */
typedef struct {
    int pos;          /* positions that have run */
    int steps;        /* the most that may */
    int end;          /* a token that ends the text beside those that the tokenizer names; -1: none */
    Tokens *answer;   /* gets the tokens that were sampled and written; NULL: nobody asks for them */
    double prefilled; /* when the last prompt had run, in seconds of now() */
} Continuation;

/* The tokens of --tokens, -f or -i; with `bos`, BOS in front of those of a text. The caller frees ids;
 * after a failure (-1 and a message) there are none. */
int run_tokens(const Run *run, bool bos, Tokens *out);

/* The token that an empty text begins with: BOS, or EOS where there is no BOS; -1: neither. */
int run_first_token(const Run *run);

/* Positions that a text of `generate` may have: -n, up to the context. */
int run_steps(const Run *run);

/* Of a prompt, the first token that is shown: BOS is not. */
int run_first_shown(const Run *run, const Tokens *prompt);

/* Whether a text ends before this token. */
bool run_is_end(const Run *run, int token);

/* A token's bytes, or its id where there is no tokenizer; they stay until the next call. `previous` is the token
 * before; -1: none. */
const char *run_token_text(const Run *run, int previous, int token, int *n);

/* Writes them. */
void run_show_token(const Run *run, Stream *out, int previous, int token);

/* Runs tokens[n] from position pos on. The logits of all, float [n][vocab_size], which are finite; NULL on failure. */
const float *run_logits(Run *run, const int *tokens, int n, int pos);

/* Runs a prompt from position c->pos on, samples what follows and writes it, tuned (lab/tune.h)
 * after every forward pass, and guessed (guess.h). 0: the text has ended, by itself, by Ctrl-C or by a failed write; 1:
 * all positions have run; -1: the model failed. */
int run_continue(Run *run, Continuation *c, const Tokens *prompt, Stream *out);

/* Whether all ranks have made ready (`status` 0), and will compute the same bits: the exit status if not. */
int run_agree(const Run *run, int status);

/* What ranks other than 0 do until rank 0 ends: the same passes, and nothing else. Returns its exit status. */
int run_follow(Run *run);
