/* options.h: the command line.
 */
#ifndef NORMA_OPTIONS_H
#define NORMA_OPTIONS_H

#include "sampler.h"

#include <stdbool.h>

typedef struct {
    const char *model, *mode, *prompt, *prompt_file, *tokenizer, *system, *output, *tokens, *type, *norm;
    Sampling sampling;
    int steps; /* -1: not given */
    int threads, batch, context, prompt_tokens;
    int kv; /* a KvType; -1: by the weights */
    bool json, verbose, profile;
    const char *profile_file; /* NULL: the table alone */
} Options;

#endif
