/* options.h: the command line: the modes, of which each is a row here and a file of its own, and the options. */
#pragma once

#include "sampler.h"

typedef struct Run Run; /* common.h */

/* What a mode needs and takes. */
enum {
    RUNS_MODEL = 1,        /* a session and a sampler */
    TAKES_TOKENS = 2,      /* given token ids (--tokens), it needs no tokenizer */
    TAKES_PROFILE = 4,     /* --profile */
    MODEL_OPTIONAL = 8,    /* works without a model, too */
    TAKES_VOCABULARY = 16, /* works with a file that holds a vocabulary and no weights, too */
    TAKES_RANKS = 32,      /* ranks share its model (base/ranks.h); other modes are rank 0's alone */
    DECODES = 64           /* it runs tokens one by one, so that packed weights pay */
};

/* DEFAULT(name, tokenizer, needs) for the mode of a run that names none, then MODE(name, tokenizer,
 * needs) for each of the others. `tokenizer` is a TokenizerUse of formats/open.h. */
#define MODES(DEFAULT, MODE)                                                                                           \
    DEFAULT(generate, TOKENIZER_NEEDED, RUNS_MODEL | DECODES | TAKES_TOKENS | TAKES_PROFILE | TAKES_RANKS)             \
    MODE(chat, TOKENIZER_NEEDED, RUNS_MODEL | DECODES | TAKES_PROFILE | TAKES_RANKS)                                   \
    MODE(perplexity, TOKENIZER_NEEDED, RUNS_MODEL | TAKES_TOKENS | TAKES_PROFILE | TAKES_RANKS)                        \
    MODE(bench, TOKENIZER_UNUSED, RUNS_MODEL | DECODES | TAKES_PROFILE | TAKES_RANKS)                                  \
    MODE(norms, TOKENIZER_UNUSED, RUNS_MODEL | DECODES | MODEL_OPTIONAL) /* it makes profiles of its own */            \
    MODE(tokenize, TOKENIZER_NEEDED, TAKES_VOCABULARY)                                                                 \
    MODE(logits, TOKENIZER_NEEDED, RUNS_MODEL | TAKES_TOKENS | TAKES_PROFILE | TAKES_RANKS)                            \
    MODE(info, TOKENIZER_UNUSED, 0)                                                                                    \
    MODE(convert, TOKENIZER_IF_THERE, 0)

/* mode_generate() and so on, each in its file, return 0, -1 (a failure) or the exit status of one. */
#define DECLARE(name, ...) int mode_##name(Run *run);
MODES(DECLARE, DECLARE)
#undef DECLARE

enum { MAX_LOOKUP = 15 }; /* --lookup */

/* Texts are parts of argv; NULL: not given. */
typedef struct {
    const char *model, *mode, *prompt, *prompt_file, *prompts, *tokenizer, *system, *output, *tokens, *type, *norm,
        *template, *draft;
    Sampling sampling;
    int steps;             /* -1: not given */
    int samples, parallel; /* 0: not given */
    int threads, batch, prompt_tokens;
    int lookup;  /* -1: not given */
    int context; /* 0: the model's */
    float seconds;
    bool json, verbose, fold_norms;
    const char *profile; /* a file; TABLE_ONLY (lab/profile.h): no file */
    const char *kv;      /* "f32" or "f16"; NULL: as the model's format has it */
} Options;

/* Reads the command line. Returns the exit status if the program ends here, after --help, --version
 * or a message about bad usage; else -1. */
int options_parse(Options *o, int argc, char **argv);
