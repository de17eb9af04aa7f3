/* stopwatch.c: measurements that tolerate other programs on the machine: medians over rounds, and
 * the time of a synthetic text. */
#include "lab/stopwatch.h"
#include "base/memory.h"
#include "base/process.h"
#include "lab/profile.h"
#include "lab/tune.h"
#include "model.h"
#include <math.h>
#include <stdlib.h>

int measure(Round *round, void *context, int n_values, double seconds,
            Estimate *estimates) {
    static double sorted[MAX_VALUES][MAX_ROUNDS]; /* of all rounds so far */
    double values[MAX_VALUES] = {0};
    int n = 0, status = round(context, values); /* the warm-up */
    const double start = now();
    bool narrow = false, in_time = true;
    while (!status && !interrupted && n < MAX_ROUNDS && in_time &&
           (n < MIN_ROUNDS || !narrow)) {
        status = round(context, values);
        narrow = true;
        n += !status;
        for (int v = 0; v < n_values && !status; v++) { /* inserts the values */
            double *row = sorted[v];
            int at = n - 1;
            for (; at > 0 && row[at - 1] > values[v]; at--)
                row[at] = row[at - 1];
            row[at] = values[v];
            estimates[v] = estimate_median(row, n);
            narrow = narrow && estimates[v].high - estimates[v].low <=
                                   0.02 * fabs(estimates[v].value);
        }
        in_time = now() - start < seconds;
        if (on_terminal(stderr))
            fprintf(stderr, "\r%d rounds, %.0f of %.0f s ", n, now() - start,
                    seconds);
    }
    if (on_terminal(stderr))
        fprintf(stderr, "\r%*s\r", 40, "");
    return status ? -1 : n;
}

int time_text(const Workload *t, double *seconds) {
    Session *s = t->tuning->session;
    int *tokens = allocate(t->prompt, sizeof *tokens), status = tokens ? 0 : -1;
    seconds[PREFILL] = seconds[DECODE] = 0;
    for (int i = 0; i <= t->steps && !status && !interrupted; i++) {
        const int n = i ? 1 : t->prompt, pos = i ? t->prompt + i - 1 : 0;
        const double start = now();
        for (int k = 0; k < n; k++)
            tokens[k] =
                (int)(((pos + k) * 7919LL + 3) % s->model->config.vocab_size);
        if (!model_forward_text(s, tokens, n, pos, 1))
            status = -1;
        tune(t->tuning, n);
        seconds[i ? DECODE : PREFILL] += now() - start;
    }
    free(tokens);
    return status;
}
