/* text.h: a text in progress, and the one loop that continues texts. */
#pragma once

#include "modes/common.h"
#include "text/stream.h"

typedef struct {
    Tokens ids;       /* of the prompt, then sampled; owned */
    int max;          /* positions that may run; the token sampled at the last of them ends the text */
    int n_ran;        /* ids whose keys and values are in the cache */
    int n_shown;      /* ids that are written */
    int sequence;     /* of the session */
    int end;          /* token that ends the text besides those of the tokenizer; -1: none */
    Sampler *sampler; /* not owned; NULL: the ids run, and nothing is sampled */
    Guesser *guesser; /* not owned; NULL: no draft tokens */
    enum { CONTINUES, STOP, LENGTH } ended; /* at a token that ends texts, or at max */
    int n_rows;          /* of logits in this pass: of the last id, and of draft tokens; 0: nothing is sampled */
    const float *logits; /* [n_rows][vocab_size] */
} Text;

/* Appends a prompt. A prompt of more than t->max tokens is cut after max + 1 and ends the text. -1: no memory. */
int text_append(Text *t, const Tokens *prompt);

/* One forward pass: runs the ids of texts[n] that have not run, and samples what follows. Skips NULL and texts that
 * have ended. 1: a pass has run; 0: no text continues, or Ctrl-C, or `out` has failed; -1 and a message: a failure. */
int texts_pass(Run *run, Text *const *texts, int n, const Stream *out);

/* Whether no text continues, because of Ctrl-C or because `out` has failed. */
bool texts_stopped(const Stream *out);

/* Writes the ids that are not written. */
void text_show(const Run *run, Text *t, Stream *out);
