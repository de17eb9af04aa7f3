/* stopwatch.h: measurements for -m bench and -m norms. */
#pragma once

#include "lab/estimate.h"
#include "lab/tune.h"

enum { MIN_ROUNDS = 7, MAX_ROUNDS = 501, MAX_VALUES = 48 };

/* Measures every value once. Returns -1 on failure. */
typedef int Round(void *context, double *values);

/* Estimates the median of each of the n_values (at most MAX_VALUES) of a round. All values are measured in each round,
 * so that other programs disturb all of them alike. Ends after MIN_ROUNDS rounds if every interval is narrower than 2 %
 * of its median, when `seconds` have passed (after at least one round), or after Ctrl-C. Returns the number of rounds;
 * -1: a round failed, or memory ran out. */
int measure(Round *round, void *context, int n_values, double seconds, Estimate *estimates);

/* A synthetic text: a prompt in one pass, then `steps` tokens one by one. */
typedef struct {
    Tuning *tuning; /* with the model and the session */
    int prompt, steps;
} Workload;

/* Runs a text and sets seconds[N_PHASES] (lab/profile.h). Calls tune(). Ctrl-C ends it early. Returns -1 and a message
 * on failure. */
int time_text(const Workload *text, double *seconds);

/* Seconds to copy dim floats in the first-level cache; 0 and a message if memory runs out. */
double copy_seconds(int dim);
