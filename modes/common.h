/* common.h: Run, and functions that several modes share. */
#pragma once

#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "lab/profile.h"
#include "lab/saved.h"
#include "lab/tune.h"
#include "modes/guess.h"
#include "modes/options.h"
#include "session.h"
#include "text/stream.h"
#include "tokenizer.h"

/* The state of a run. run.c opens the parts that the mode's row in options.h
 * requires. */
struct Run {
    const Options *options;
    int status; /* of the mode */
    Model model;
    Tokenizer tokenizer; /* no pieces: no tokenizer */
    Session session;
    Tuning tuning;
    Buffer steps;    /* Step of the last forward pass, by text.c */
    int piece;       /* see run_piece() */
    bool shows_left; /* the terminal shows the number of prompt tokens left */
    Guesser guesser;
    Stream out;         /* generated text, on stdout */
    Profile *profile;   /* NULL: off */
    SavedProfile saved; /* of --profile-against */
};

/* Reads the file of --prompts or -f, or copies the text of --tokens or -i, or
 * none. Returns *size bytes and a zero byte, which the caller frees; NULL and a
 * message on failure. */
char *run_read(const Options *o, size_t *size);

/* The tokens of --tokens, or of the text of -f or -i; `bos`: BOS precedes the
 * text. The caller frees out->ids. Returns -1 and a message on failure; then
 * there is nothing to free. */
int run_tokens(const Run *run, bool bos, Tokens *out);

/* The first token of an empty text: BOS, else EOS; -1 if the vocabulary has
 * neither. */
int run_first_token(const Run *run);

/* Max positions of a text with this prompt in mode generate, limited by the
 * context; the token sampled at the last one is written. -n counts the tokens
 * that are written, so not a first BOS; without -n 256 tokens follow the
 * prompt. For llama2.c's files -n is the number of positions [256], as
 * there. */
int run_steps(const Run *run, const Tokens *prompt);

/* The bytes of a token that follows `previous` (-1: none), or its number if
 * there is no tokenizer. Valid until the next call. */
const char *run_token_text(const Run *run, int previous, int token, int *n);

/* With --verbose-prompt, shows the tokens of a prompt on stderr (tokenize.c).
 * Returns -1 and a message on failure. */
int run_show_prompt(const Run *run, const Tokens *prompt);

/* Sets and returns run->piece, the max steps of the next forward pass, so that
 * it takes about a second: a terminal shows progress after each. n: the steps
 * of the last pass; 0: none. */
int run_piece(Run *run, int n);

/* Runs tokens[n], n <= run->piece, at positions pos, pos + 1, ... Returns their
 * logits, float [n][vocab_size], all finite; NULL and a message on failure, or
 * after Ctrl-C. */
const float *run_logits(Run *run, const int *tokens, int n, int pos);

/* Like model_forward_layers; checks the logits. */
const float *run_layers(Run *run, const int *tokens, int n, int pos,
                        int n_logits, LayerRange layers);

/* The logarithm of the sum of exp(logits[n]): exp in float32 (kernels/simd.h),
 * the sum in double, in order. */
double log_sum_exp(const float *logits, int n);

/* Writes "name": and the bytes s[n] as a string. */
void write_json_string(FILE *out, const char *name, const char *s, size_t n);

/* Writes the members of a token's object, without its brackets: the id, the
 * log-probability (NULL: none), the text and its bytes. */
void write_json_token(const Run *run, FILE *out, int id, const double *logprob);
