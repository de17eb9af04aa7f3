/* options.h: the command line: modes and options. Each mode has a row here and
 * a source file. */
#pragma once

#include "base/memory.h"
#include "formats/open.h"
#include "sampler.h"
#include "tokenizer.h"

typedef struct Run Run; /* common.h */

/* One row for each mode: its tokenizer (TokenizerUse) and purpose. The first
 * one is the default. */
#define MODES(MODE)                                                            \
    MODE(generate, TOKENIZER_NEEDED, "continue a text (default)")              \
    MODE(chat, TOKENIZER_NEEDED, "hold a conversation")                        \
    MODE(perplexity, TOKENIZER_NEEDED,                                         \
         "measure how well the model predicts a text")                         \
    MODE(bench, TOKENIZER_UNUSED,                                              \
         "measure speed, and the limits of the machine")                       \
    MODE(norms, TOKENIZER_UNUSED, "measure what norms cost")                   \
    MODE(tokenize, TOKENIZER_NEEDED, "list the tokens of a text")              \
    MODE(logits, TOKENIZER_NEEDED, "write the logits of every token")          \
    MODE(info, TOKENIZER_TO_SHOW,                                              \
         "describe a model's file; -v: list norms and tensors")                \
    MODE(convert, TOKENIZER_IF_THERE, "write a model as a GGUF file")

#define INDEX(name, ...) INDEX_##name,
enum { MODES(INDEX) N_MODES };
#undef INDEX

#define BIT(name, ...) IN_##name = 1 << INDEX_##name,
enum { MODES(BIT) };
#undef BIT

/* Sets of modes. */
enum {
    WRITES = IN_generate | IN_chat, /* samples tokens */
    /* runs forward passes, which ranks share (base/ranks.h); other modes run on
     * rank 0 only */
    RUNS_PASSES = WRITES | IN_perplexity | IN_bench | IN_logits,
    /* needs a session, but no tokenizer if --tokens is given; info: to know the
     * cache's size */
    RUNS_MODEL = RUNS_PASSES | IN_norms | IN_info,
    /* runs single tokens, so packed weights save time */
    DECODES = WRITES | IN_bench | IN_norms,
    /* without other input, the text is read from a pipe */
    READS_INPUT = IN_generate | IN_perplexity | IN_tokenize | IN_logits,
    REWINDS = IN_chat, /* beyond a sliding window, to remove a long thought */
    /* also works with a file that contains a vocabulary but no weights */
    TAKES_VOCABULARY = IN_tokenize
};

typedef struct {
    const char *name;
    int (*run)(Run *run); /* returns 0, -1 (failure) or the exit status */
    int bit;              /* in sets of modes */
    TokenizerUse tokenizer;
    const char *purpose;
} Mode;

/* mode_generate() and so on, each in its own file. */
#define DECLARE(name, ...) int mode_##name(Run *run);
MODES(DECLARE)
#undef DECLARE

/* of --lookup, --stop, --logprobs, --parallel */
enum {
    MAX_LOOKUP = 15,
    MAX_STOPS = 16,
    MAX_LOGPROBS = 100,
    MAX_PARALLEL = 4096
};

/* Strings point into argv; NULL = not given. */
typedef struct {
    const Mode *mode;
    const char *model, *mode_name, *prompt, *prompt_file, *prompts, *tokenizer,
        *system, *output, *tokens, *type, *norm, *template, *think,
        *sampling_of, *load;
    bool bundled; /* no model was named: `model` is the bundled one */
    Sampling sampling;
    /* an option of `sampling` other than the seed is given */
    bool own_sampling;
    int steps;                    /* -1 = not given */
    const char *stops[MAX_STOPS]; /* [n_stops], not empty */
    int n_stops, logprobs;
    int samples, parallel; /* 0 = not given */
    int threads, batch, prompt_tokens;
    int lookup;  /* -1 = not given */
    int context; /* 0 = the model's */
    float seconds;
    bool json, verbose, fold_norms, center, pure, no_echo, norm_sweep,
        verbose_prompt, escape, plain, no_history;
    const char *dump;    /* folder */
    const char *profile; /* output file; "" = only the summary on stderr */
    const char *profile_against; /* a file of --profile=FILE.json */
    /* "f32" or "f16"; NULL = the default of the model's format */
    const char *kv;
} Options;

/* Parses the command line. Returns -1 to continue, or the exit status after
 * --help, --version or a message about bad usage. */
int options_parse(Options *o, char **argv);

/* Sets an option that a chat can change, by any of its spellings: "temperature
 * 0.7", "-t 0.7", "top-p=0.9". The text must outlive the options. Returns 0, or
 * -1 and a message; then nothing has changed. */
int options_set(Options *o, const char *text);

/* Prints these options and their values on stderr. */
void options_show(const Options *o);

/* Appends what may complete such a text, each with a zero byte. Returns the
 * number of bytes at its end that they replace. */
size_t options_complete(const char *text, Buffer *candidates);

/* Sets the sampling that the model's files recommend, with a note, unless the
 * user has chosen. A value outside the option's range is ignored with a
 * note. */
void options_advise(Options *o, const Tokenizer *t);
