/* tune.h: the fastest settings for decode on this machine, measured while the first tokens run. */
#pragma once

#include "session.h"

/* Settings: one thread, all threads, then the prefetch settings. */
enum { N_TEAMS = 2, N_PREFETCHES = 5, N_SETTINGS = N_TEAMS + N_PREFETCHES };

typedef struct {
    Model *model;
    Session *session;
    int max_threads; /* of decode: one, or the session's */
    int tried;       /* index of the next trial */
    double seconds
        [N_SETTINGS]; /* min seconds per token with each setting; 0: not measured */
} Tuning;

/* Chooses the first settings. Model and session must outlive the tuning. */
void tuning_open(Tuning *t, Model *model, Session *session);

/* The caller calls this after each forward pass, with its number of steps. After a single-token
 * pass, records its time and selects the settings of the next pass: first each candidate, then the
 * fastest. Settings do not change any bit of the logits. */
void tune(Tuning *t, int n_steps);

/* The current settings as text: "2 threads, prefetch 8192 bytes ahead (l2)"; valid until the next
 * call. */
const char *tuning_text(const Tuning *t);
