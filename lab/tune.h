/* tune.h: the fastest settings for decode on this machine, measured while the first tokens run. */
#pragma once

#include "model.h"

enum { N_PREFETCHES = 5 };

typedef struct {
    Model *model;
    Session *session;
    int tried, trials;                     /* index of the next trial; number of trials */
    double thread_seconds[2];              /* min seconds per token with one thread and with all; 0: not measured */
    double prefetch_seconds[N_PREFETCHES]; /* min seconds per token with each prefetch setting; 0: not measured */
} Tuning;

/* Chooses the first settings. The environment variable NORMA_AHEAD overrides the prefetch setting: "off", or a cache
 * level and a distance in bytes, as in "l2:8192". Model and session must outlive the tuning. Returns -1 and a message
 * if NORMA_AHEAD is invalid. */
int tuning_open(Tuning *t, Model *model, Session *session);

/* The caller calls this after each forward pass, with its number of steps. After a single-token pass, records its time
 * and selects the settings of the next pass: first each candidate, then the fastest. Settings do not change any bit of
 * the logits. */
void tune(Tuning *t, int n_steps);

/* The current settings as text: "2 threads, prefetch 8192 bytes ahead (l2)"; valid until the next call. */
const char *tuning_text(const Tuning *t);
