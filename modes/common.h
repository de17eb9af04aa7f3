/* common.h: what modes share: Run, and the steps that several modes take with it. */
#pragma once

#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "lab/profile.h"
#include "lab/tune.h"
#include "model.h"
#include "modes/draft.h"
#include "modes/guess.h"
#include "modes/options.h"
#include "tokenizer.h"

/* What a mode works with, opened as far as the mode needs it (options.h). */
struct Run {
    const Options *options;
    Model model;
    uint64_t model_hash; /* where ranks share the model */
    Tokenizer tokenizer; /* without pieces: there is none */
    Session session;
    Tuning tuning;
    Buffer steps; /* of the last forward pass: text.c */
    Draft draft;
    Guesser guesser;
    Profile *profile; /* NULL: off */
};

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

/* The bytes of ids[i], or the number if there is no tokenizer. They are valid until the next call. */
const char *run_token_text(const Run *run, const Tokens *ids, int i, int *n);

/* Runs tokens[n] from position pos on. The logits of all, float [n][vocab_size], which are finite; NULL on failure. */
const float *run_logits(Run *run, const int *tokens, int n, int pos);

/* Whether all ranks have made ready (`status` 0), and will compute the same bits: the exit status if not. */
int run_agree(const Run *run, int status);

/* What ranks other than 0 do until rank 0 ends: the same passes, and nothing else. Returns its exit status. */
int run_follow(Run *run);
