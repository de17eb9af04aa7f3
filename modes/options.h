/* options.h: the command line: what a user can ask for. */
#ifndef NORMA_OPTIONS_H
#define NORMA_OPTIONS_H

#include "sampler.h"

/* Texts are parts of argv; NULL: not given. */
typedef struct {
    const char *model, *mode, *prompt, *prompt_file, *tokenizer, *system, *output, *tokens, *type, *norm;
    Sampling sampling;
    int steps; /* -1: not given */
    int threads, batch, prompt_tokens;
    int context; /* 0: the model's */
    int kv;      /* a KvType; -1: as the model's format has it */
    bool json, verbose, profile;
    const char *profile_file; /* NULL: the table alone */
} Options;

/* Reads the command line. Returns the exit status if the program ends here, after --help, --version
 * or a message about bad usage; else -1. */
int options_parse(Options *o, int argc, char **argv);

#endif
