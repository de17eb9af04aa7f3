/* tune.h: the number of threads that decode a model fastest, measured while the
 * first tokens run. */
#pragma once

#include "session.h"

typedef struct {
    Session *session;
    int max_threads; /* threads of decode: one, or the session's */
    int tried;       /* index of the next trial */
    /* min seconds per token, with one thread and with all; 0: not measured */
    double seconds[2];
} Tuning;

/* Chooses the first number of threads. The session must outlive the tuning. */
void tuning_open(Tuning *t, Session *session);

/* The caller calls this after each forward pass, with its number of steps.
 * After a single-token pass, records its time and selects the threads of the
 * next pass: first one and all in turn, then the faster. No bit of the logits
 * depends on it. */
void tune(Tuning *t, int n_steps);
