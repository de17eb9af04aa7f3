/* text.h: a text in progress, and the loop that generates texts. */
#pragma once

#include "modes/common.h"
#include "text/stream.h"

typedef struct {
    Tokens ids;       /* the prompt, then sampled tokens; owned */
    int max;          /* max positions to run; the token sampled at the last one ends the text */
    int n_ran;        /* number of ids with cached keys and values */
    int n_shown;      /* number of ids already written */
    int sequence;     /* of the session */
    int end;          /* another token that ends the text, in addition to the tokenizer's; -1: none */
    Sampler *sampler; /* not owned; NULL: the ids run without sampling */
    Guesser *guesser; /* not owned; NULL: no draft tokens */
    enum { CONTINUES, STOP, LENGTH } ended; /* STOP: at an end token; LENGTH: at max */
    int n_rows;          /* logits rows of this pass: the last id's and the draft tokens'; 0: no sampling */
    const float *logits; /* [n_rows][vocab_size] */
} Text;

/* Appends a prompt. A prompt of more than t->max tokens is cut after max + 1 tokens and ends the text. Returns -1 if
 * out of memory. */
int text_append(Text *t, const Tokens *prompt);

/* One forward pass: runs the pending ids of texts[n], and samples the next tokens. Skips NULL and finished texts.
 * Returns 1 after a pass; 0 if all texts are finished, or after Ctrl-C or a failure of `out`; -1 and a message on
 * failure. */
int texts_pass(Run *run, Text *const *texts, int n, const Stream *out);

/* Whether all texts stop because of Ctrl-C or a failure of `out`. */
bool texts_stopped(const Stream *out);

/* Writes the ids after n_shown. */
void text_show(const Run *run, Text *t, Stream *out);
