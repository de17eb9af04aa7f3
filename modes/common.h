/* common.h: what modes share.
 *
 * Owns Run, the opened parts of a run, and the steps that several modes take with them.
 */
#ifndef NORMA_COMMON_H
#define NORMA_COMMON_H

#include "lab/profile.h"
#include "model.h"
#include "modes/modes.h"
#include "modes/options.h"
#include "sampler.h"
#include "tokenizer.h"

/* What a mode works with, opened as far as the mode needs it (modes.h). */
struct Run {
    const Options *options;
    Model model;
    Tokenizer tokenizer;
    bool has_tokenizer;
    Session session;
    Sampler sampler;
    Profile *profile; /* NULL: off */
    int n_ran;        /* tokens in the last forward pass */
};

/* The tokens of --tokens, -f or -i; with `bos`, BOS in front of those of a text. The caller frees
 * ids. */
int run_tokens(const Run *run, bool bos, Tokens *out);

/* The token that an empty text begins with: BOS, or EOS where there is no BOS; -1: neither. */
int run_first_token(const Run *run);

/* Runs tokens[n] from position pos on. The logits of the last one, float [vocab_size], all finite;
 * NULL on failure. */
const float *run_logits(Run *run, const int *tokens, int n, int pos);

/* Re-packs the next part of the weights (pack.h), in proportion to the tokens of the last forward
 * pass: nothing before the first one, so that a large model's first token does not wait. Modes that
 * generate call it between forward passes. */
void run_pack_weights(Run *run);

/* Whether a text (or an answer of chat) ends before this token. */
bool run_is_end(const Run *run, int token);

/* Samples the next token from the logits, and counts it for the repeat penalty. */
int run_sample(Run *run, const float *logits);

/* The exit status of a mode that succeeded (0), failed, or was interrupted. */
int run_exit_status(int status);

#endif
