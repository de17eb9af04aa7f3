/* common.h: what modes share.
 */
#ifndef NORMA_COMMON_H
#define NORMA_COMMON_H

#include "lab/profile.h"
#include "model.h"
#include "modes/options.h"
#include "sampler.h"
#include "tokenizer.h"

#include <stdbool.h>

/* What a mode works with, opened as far as the mode needs it. */
typedef struct {
    const Options *options;
    Model model;
    Tokenizer tokenizer;
    bool has_tokenizer;
    Session session;
    Sampler sampler;
    Profile *profile; /* NULL: off */
    int n_ran;        /* tokens in the last forward pass */
} Run;

/* The tokens of --tokens, -i or -f, in this order; BOS in front of text if
 * asked for. The caller frees ids. */
int run_tokens(const Run *run, bool bos, Tokens *out);

/* What a text begins with if nothing else is there: BOS, or EOS where there is none; -1: neither. */
int run_first_token(const Run *run);

/* The logits of the last of n tokens, checked; NULL on failure. */
const float *run_logits(Run *run, const int *tokens, int n, int pos);

/* Whether a text (or a turn of chat) ends before this token. */
bool run_is_end(const Run *run, int token);

/* One token sampled from the logits, remembered for the repeat penalty. */
int run_sample(Run *run, const float *logits);

/* Each returns the exit status. */
int mode_generate(Run *run);
int mode_tokenize(Run *run);
int mode_logits(Run *run);
int mode_chat(Run *run);
int mode_perplexity(Run *run);
int mode_info(Run *run);
int mode_bench(Run *run);
int mode_norms(Run *run);
int mode_convert(Run *run);

#endif
