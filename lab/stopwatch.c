/* stopwatch.c: measurements that tolerate other programs on the machine:
 * medians over rounds, and the time of a synthetic text.
 * Tests: lab, norms. */
#include "lab/stopwatch.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "lab/profile.h"
#include "lab/tune.h"
#include "session.h"
#include <math.h>
#include <stdlib.h>

int measure(Round *round, void *context, int n_values, double seconds,
            Estimate *estimates) {
    static double sorted[MAX_VALUES][MAX_ROUNDS]; /* of all rounds so far */
    double values[MAX_VALUES] = {0}, elapsed;
    int n = 0;
    bool narrow;
    if (round(context, values)) /* the warm-up */
        return -1;
    double start = clock_seconds();
    do {
        if (round(context, values))
            return -1;
        n++;
        narrow = true;
        for (int v = 0; v < n_values; v++) { /* inserts the values */
            double *row = sorted[v];
            int at = n - 1;
            for (; at > 0 && row[at - 1] > values[v]; at--)
                row[at] = row[at - 1];
            row[at] = values[v];
            estimates[v] = estimate_median(row, n);
            narrow &= estimates[v].high - estimates[v].low <=
                      0.02 * fabs(estimates[v].value);
        }
        elapsed = clock_seconds() - start;
        if (on_terminal(stderr))
            fprintf(stderr, "\r%d rounds, %.0f of %.0f s ", n, elapsed,
                    seconds);
    } while (!interrupted && n < MAX_ROUNDS && elapsed < seconds &&
             (n < MIN_ROUNDS || !narrow));
    if (on_terminal(stderr))
        fprintf(stderr, "\r%*s\r", 40, "");
    return n;
}

int time_text(const Workload *t, double *seconds) {
    Session *s = t->tuning->session;
    int all = t->prompt + t->steps;
    int *tokens = allocate(all, sizeof *tokens), status = tokens ? 0 : -1;
    seconds[PREFILL] = seconds[DECODE] = 0;
    for (int i = 0; i < all && tokens; i++)
        tokens[i] = (int)((i * 7919LL + 3) % s->model->config.vocab_size);
    for (int pos = 0, n = t->prompt; pos < all && !status && !interrupted;
         pos += n, n = 1) {
        double start = clock_seconds();
        if (!model_forward_text(s, tokens + pos, n, pos, 1))
            status = interrupted ? 0 : -1;
        tune(t->tuning, n);
        seconds[pos ? DECODE : PREFILL] += clock_seconds() - start;
    }
    free(tokens);
    return status;
}
