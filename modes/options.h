/* options.h: the command line: modes and options. Each mode has a row here and a source file. */
#pragma once

#include "formats/open.h"
#include "sampler.h"
#include "tokenizer.h"

typedef struct Run Run; /* common.h */

/* Requirements of a mode. Its options are in the table of options.c. */
enum {
    RUNS_MODEL = 1, /* needs a session, but no tokenizer if --tokens is given */
    MODEL_OPTIONAL = 2, /* also works without a model */
    TAKES_VOCABULARY =
        4, /* also works with a file that contains a vocabulary but no weights */
    TAKES_RANKS =
        8, /* ranks share the model (base/ranks.h); other modes run on rank 0 only */
    DECODES = 16, /* runs single tokens, so packed weights save time */
    REWINDS = 32  /* beyond a sliding window, to remove a long thought */
};

/* One row for each mode: its tokenizer (TokenizerUse), needs, and purpose. The first one is the
 * default. */
#define MODES(MODE)                                                            \
    MODE(generate, TOKENIZER_NEEDED, RUNS_MODEL | DECODES | TAKES_RANKS,       \
         "continue a text (default)")                                          \
    MODE(chat, TOKENIZER_NEEDED, RUNS_MODEL | DECODES | TAKES_RANKS | REWINDS, \
         "hold a conversation")                                                \
    MODE(perplexity, TOKENIZER_NEEDED, RUNS_MODEL | TAKES_RANKS,               \
         "measure how well the model predicts a text")                         \
    MODE(bench, TOKENIZER_UNUSED, RUNS_MODEL | DECODES | TAKES_RANKS,          \
         "measure speed, and the limits of the machine")                       \
    MODE(norms, TOKENIZER_UNUSED, RUNS_MODEL | DECODES | MODEL_OPTIONAL,       \
         "measure what norms cost")                                            \
    MODE(tokenize, TOKENIZER_NEEDED, TAKES_VOCABULARY,                         \
         "list the tokens of a text")                                          \
    MODE(logits, TOKENIZER_NEEDED, RUNS_MODEL | TAKES_RANKS,                   \
         "write the logits of every token")                                    \
    MODE(info, TOKENIZER_TO_SHOW, 0,                                           \
         "list the configuration, norms and tensors of a model")               \
    MODE(convert, TOKENIZER_IF_THERE, 0, "write a model as a GGUF file")

typedef struct {
    const char *name;
    int (*run)(Run *run); /* returns 0, -1 (failure) or the exit status */
    TokenizerUse tokenizer;
    int needs;
    const char *purpose;
} Mode;

/* mode_generate() and so on, each in its own file. */
#define DECLARE(name, ...) int mode_##name(Run *run);
MODES(DECLARE)
#undef DECLARE

enum {
    MAX_LOOKUP = 15,
    MAX_STOPS = 16,
    MAX_LOGPROBS = 100
}; /* --lookup, --stop, --logprobs */

/* Strings point into argv; NULL = not given. */
typedef struct {
    const Mode *mode;
    const char *model, *mode_name, *prompt, *prompt_file, *prompts, *tokenizer,
        *system, *output, *tokens, *type, *norm, *template, *think,
        *sampling_of;
    Sampling sampling;
    bool
        own_sampling; /* an option of `sampling` other than the seed is given */
    int steps;        /* -1 = not given */
    const char *stops[MAX_STOPS]; /* [n_stops], not empty */
    int n_stops, logprobs;
    int samples, parallel; /* 0 = not given */
    int threads, batch, prompt_tokens;
    int lookup;  /* -1 = not given */
    int context; /* 0 = the model's */
    float seconds;
    bool json, verbose, fold_norms, center, no_echo, norm_sweep, verbose_prompt;
    const char *dump;    /* folder */
    const char *profile; /* output file; "" = only the table on stderr */
    const char
        *kv; /* "f32" or "f16"; NULL = the default of the model's format */
} Options;

/* Parses the command line. Returns -1 to continue, or the exit status after --help, --version or a
 * message about bad usage. */
int options_parse(Options *o, char **argv);

/* Sets the sampling that the model's files recommend, with a note, unless the user has chosen. A
 * value outside the option's range is ignored with a note. */
void options_advise(Options *o, const Tokenizer *t);
