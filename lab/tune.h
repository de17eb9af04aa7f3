/* tune.h: how this machine decodes this model fastest, found out while the first tokens run. */
#pragma once

#include "model.h"

/* What a session and its model are tried with. */
typedef struct {
    Model *model;
    Session *session;
    int tried, trials;       /* tokens that have been timed, and that are to be */
    double *clock;           /* [n_layers + 2] when each layer of a token began, the output, and when it had ended */
    double *layer_seconds;   /* [ways to read][n_layers + 1] the least of each layer, and of the output */
    double token_seconds[2]; /* the least of a token, with one thread and with all */
} Tuning;

/* What the decoding of a session begins with. NORMA_AHEAD in the environment says what products ask for ahead: "off",
 * or a level of cache and bytes, "l2:8192". -1 and a message: it says something else, or there is no memory. Model and
 * session must outlive the tuning. */
int tuning_open(Tuning *t, Model *model, Session *session);
void tuning_close(Tuning *t);

/* Between forward passes, after n_tokens have run (or 0): packs weights (formats/pack.h), and once all are packed has
 * the next tokens that are decoded run in this way and that, until it is known which is the fastest. What they compute
 * has the same bits in all. */
void tune(Tuning *t, int n_tokens);

/* Whether all is known: tokens run from here on as they run now. */
bool tuning_ended(const Tuning *t);

/* What tokens run with now, as "2 threads, panels asked for 8192 bytes ahead (l2)"; the string stays until the next. */
const char *tuning_text(const Tuning *t);
