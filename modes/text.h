/* text.h: a text in progress, and the loop that generates texts. */
#pragma once

#include "modes/common.h"
#include "text/stream.h"

typedef struct {
    Tokens ids;       /* the prompt, then sampled tokens; owned */
    int max;          /* max positions to run; the token sampled at the last one ends the text */
    int n_ran;        /* number of ids with cached keys and values */
    int n_shown;      /* number of ids already written */
    int sequence;     /* sequence of the session */
    int end;          /* a token that ends the text, in addition to the tokenizer's end tokens; -1: none */
    Sampler *sampler; /* not owned; NULL: the ids run without sampling */
    Guesser *guesser; /* not owned; NULL: no draft tokens */
    enum { CONTINUES, STOP, LENGTH } ended; /* STOP: at an end token; LENGTH: at max */
    int n_rows;          /* rows of logits in this pass: of the last id, then of the draft tokens; 0: no sampling */
    const float *logits; /* [n_rows][vocab_size] */
} Text;

/* Appends a prompt. If the text exceeds t->max tokens, it is cut to max + 1 tokens and ends. Returns -1 if out of
 * memory. */
int text_append(Text *t, const Tokens *prompt);

/* Runs the pending ids of texts[n] in one forward pass and samples the next tokens. Skips NULL and finished texts.
 * Returns 1 after a pass, 0 if all texts are finished, after Ctrl-C or after a write error of `out`, -1 and a message
 * on failure. */
int texts_pass(Run *run, Text *const *texts, int n, const Stream *out);

/* Whether Ctrl-C or a write error of `out` stops all texts. */
bool texts_stopped(const Stream *out);

/* Writes the ids from n_shown on. */
void text_show(const Run *run, Text *t, Stream *out);
