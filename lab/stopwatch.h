/* stopwatch.h: measurements for -m bench and -m norms. */
#pragma once

#include "lab/estimate.h"
#include "lab/tune.h"

enum { MIN_ROUNDS = 7, MAX_ROUNDS = 501, MAX_VALUES = 48 };

/* Measures every value once. Returns -1 on failure. */
typedef int Round(void *context, double *values);

/* Estimates the median of each of the n_values (at most MAX_VALUES) of a round.
 * Each round measures all values, so other programs disturb all of them
 * equally. The first round is a warm-up and does not count. Stops when every
 * interval is at most 2 % of its median (after at least MIN_ROUNDS rounds),
 * after `seconds` or MAX_ROUNDS rounds, or after Ctrl-C. Returns the number of
 * rounds; -1 if a round failed. */
int measure(Round *round, void *context, int n_values, double seconds,
            Estimate *estimates);

/* A synthetic text: a prompt in one pass, then `steps` tokens one by one. */
typedef struct {
    Tuning *tuning; /* contains the session */
    int prompt, steps;
} Workload;

/* Runs a text, sets seconds[N_PHASES] (lab/profile.h) and calls tune() after
 * each pass. Ctrl-C stops it. Returns -1 and a message on failure. */
int time_text(const Workload *text, double *seconds);
