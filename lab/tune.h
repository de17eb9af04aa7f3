/* tune.h: the fastest settings for decode on this machine, measured while the first tokens run. */
#pragma once

#include "model.h"

enum { N_PREFETCHES = 5 };

typedef struct {
    Model *model;
    Session *session;
    int tried, trials;                     /* measured tokens, and how many to measure */
    double thread_seconds[2];              /* min time of a token with one thread, with all; 0: not measured */
    double prefetch_seconds[N_PREFETCHES]; /* min time of a token with each prefetch setting; 0: not measured */
} Tuning;

/* Chooses the first settings. NORMA_AHEAD in the environment overrides the prefetch setting: "off", or a cache level
 * and a distance in bytes, "l2:8192". Model and session must outlive the tuning. Returns -1 and a message if
 * NORMA_AHEAD is invalid. */
int tuning_open(Tuning *t, Model *model, Session *session);

/* Call it after each forward pass, with its number of steps. Records the time of a single token, and chooses the
 * settings of the next pass: the next ones to measure, then the fastest. Logits have the same bits with all settings.
 */
void tune(Tuning *t, int n_steps);

/* The current settings, as "2 threads, prefetch 8192 bytes ahead (l2)"; valid until the next call. */
const char *tuning_text(const Tuning *t);
