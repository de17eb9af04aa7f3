/* text.h: a text in progress, and the loop that generates texts. */
#pragma once

#include "modes/common.h"

typedef struct {
    Tokens ids;   /* the prompt, then sampled tokens; owned */
    int n_prompt; /* number of ids of the prompt */
    int max; /* positions to run; the token sampled at the last ends the text */
    int n_ran;     /* number of ids with cached keys and values */
    int n_running; /* ids in this pass */
    int n_decoded; /* number of ids in `bytes`, or skipped by the caller */
    /* decoded ids, without the stop string that ended the text; owned */
    Buffer bytes;
    /* number of bytes before any stop string and its possible beginning */
    size_t n_clear;
    size_t n_shown; /* number of bytes already written */
    /* with --json: writes to json_text, first the --logprobs of the sampled
     * tokens; both owned */
    FILE *json;
    char *json_text;
    size_t json_size;
    int sequence;     /* sequence of the session */
    Sampler sampler;  /* owned; not open: the ids run without sampling */
    Guesser *guesser; /* not owned; NULL: no draft tokens */
    /* STOP: at an end token or a stop string; LENGTH: at max */
    enum { CONTINUES, STOP, LENGTH } ended;
    /* rows of logits in this pass: of the last id, then of the draft tokens; 0:
     * no sampling */
    int n_rows;
} Text;

/* Appends to the prompt. If the text exceeds t->max tokens, it is cut to max +
 * 1 tokens and ends. Returns -1 if out of memory. */
int text_append(Text *t, const Tokens *prompt);

/* Limits what follows the prompt to n ids, if n > 0. */
void text_limit(Text *t, int n);

/* Runs pending ids of texts[n] in one forward pass, and samples the next tokens
 * where none is left. A long prompt takes several passes, so that Ctrl-C stops
 * it soon. Skips NULL and finished texts. Returns 1 after a pass, 0 if all
 * texts are finished or stopped, -1 and a message on failure. */
int texts_pass(Run *run, Text *const *texts, int n);

/* Whether Ctrl-C or a write error of run->out stops all texts. */
bool texts_stopped(const Run *run);

/* Writes the ids that are not shown yet, without the beginning of a possible
 * stop string. Returns -1 if out of memory. */
int text_show(Run *run, Text *t);

/* Writes a text, whose prompt is not in `bytes`, with its log-probabilities as
 * a line with a JSON object. `prompt`: size bytes. Returns -1 if out of
 * memory. */
int text_write_json(Run *run, Text *t, int index, const char *prompt,
                    size_t size);

/* Frees what the text owns. */
void text_free(Text *t);
