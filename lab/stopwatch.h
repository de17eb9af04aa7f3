/* stopwatch.h: what -m bench and -m norms measure with. */
#pragma once

#include "lab/estimate.h"
#include "lab/tune.h"

enum { MIN_ROUNDS = 7, MOST_ROUNDS = 501, MOST_VALUES = 48 };

/* Measures everything once, in turn, and writes the values. -1: it failed. */
typedef int Round(void *context, double *values);

/* Estimates the medians of the n_values (at most MOST_VALUES) of a round. Rounds, so that what else the machine does
 * hits all values alike. Ends after MIN_ROUNDS rounds if every interval is narrower than 2 % of its median, earlier
 * when the seconds are up (after one round at least) or after Ctrl-C. Returns the number of rounds; -1: a round failed,
 * or out of memory. */
int measure(Round *round, void *context, int n_values, double seconds, Estimate *estimates);

/* A made-up text: a prefill of `prompt` tokens, then `steps` tokens one by one. */
typedef struct {
    Tuning *tuning; /* of the model, which it packs, and the session */
    int prompt, steps;
} Workload;

/* Runs a text, whose tokens are the same every time; seconds[N_PHASES] of its phases (lab/profile.h). Tunes
 * as it goes. Ctrl-C ends it early. -1 and a message: it failed. */
int time_text(const Workload *text, double *seconds);

/* Seconds of a forward pass of n steps with the logits of all, behind the first half of a text's prompt, of one
 * sequence or of n of them. -1 and a message: it failed. */
double time_steps(const Workload *text, int n, bool sequences);

/* Seconds of the prompt with the logits of all its tokens, a token; of less of it where a chunk is smaller. -1 and a
 * message: it failed. */
double time_prompt(const Workload *text);

/* Seconds that a copy of dim floats in the first-level cache takes; 0 and a message: there is no memory. */
double copy_seconds(int dim);
