/* tune.c: the fastest settings for decode on this machine, measured while the first tokens run.
 *
 * Owns the candidates and the choice. A small model may be faster with one thread, if barriers cost
 * more than parallelism saves. Some processors prefetch sequential reads in hardware; on others
 * decode is 1.1 to 1.7 times as fast with software prefetch (docs/performance.md). Each token runs
 * with one setting. The min time of a setting is compared, because other programs can only add to
 * it. With an observer no number of threads is tried: a profile's shares depend on it.
 */
#include "lab/tune.h"
#include "formats/parts.h"
#include <stdio.h>

static const Prefetch PREFETCHES[N_PREFETCHES] = {
    {0, false}, {2048, true}, {8192, true}, {4096, false}, {8192, false}};

enum {
    MIN_LAYER = 128 << 10, /* bytes per layer; below, one thread is faster */
    /* bytes per layer; from here on, all threads are faster */
    MAX_LAYER = 4 << 20,
    /* tokens before the number of threads changes; the first 12 wake the threads up */
    RUN = 16,
    THREAD_TRIALS = 4 * RUN,
    TRIALS = THREAD_TRIALS + 4 * N_PREFETCHES
};

/* The setting of the i-th trial. */
static int setting_of(int i) {
    return i < THREAD_TRIALS ? i / RUN % 2 : N_TEAMS + i % N_PREFETCHES;
}

static void apply(Tuning *t, int setting) {
    if (setting < N_TEAMS) {
        t->session->decode_threads = setting ? t->session->n_threads : 1;
        return;
    }
    const Prefetch prefetch = PREFETCHES[setting - N_TEAMS];
    for (PartAt at = parts_of(t->model); next_part(&at);)
        if (part_weight(&at))
            part_weight(&at)->prefetch = prefetch;
    /* a tied output tensor is not in the table of parts */
    t->model->output.prefetch = prefetch;
}

/* The fastest of settings [first, end); the first one unless another is more than 2 % faster. */
static int fastest(const Tuning *t, int first, int end) {
    const double *seconds = t->seconds;
    int best = first;
    for (int i = first + 1; i < end; i++)
        if (seconds[i] < (best > first ? seconds[best] : 0.98 * seconds[first]))
            best = i;
    return best;
}

void tune(Tuning *t, int n_steps) {
    const int i = t->tried;
    double *min = &t->seconds[setting_of(i)];
    if (n_steps != 1 || i == TRIALS)
        return;
    if ((i >= THREAD_TRIALS || i % RUN >= RUN - 4) &&
        !(*min > 0 && *min < t->session->seconds))
        *min = t->session->seconds;
    t->tried++;
    if (t->tried == THREAD_TRIALS)
        apply(t, fastest(t, 0, N_TEAMS));
    apply(t, t->tried < TRIALS ? setting_of(t->tried)
                               : fastest(t, N_TEAMS, N_SETTINGS));
}

void tuning_open(Tuning *t, Model *model, Session *s) {
    const size_t layer_bytes =
        model->decode_bytes /
        ((size_t)model->config.n_layers + 1); /* the output counts as one */
    const bool try_threads = s->n_threads > 1 && !s->probe &&
                             layer_bytes >= MIN_LAYER &&
                             layer_bytes < MAX_LAYER;
    s->decode_threads = layer_bytes < MIN_LAYER ? 1 : s->n_threads;
    *t = (Tuning){model, s, .max_threads = s->decode_threads,
                  .tried = try_threads ? 0 : THREAD_TRIALS};
    apply(t, setting_of(t->tried));
}

const char *tuning_text(const Tuning *t) {
    static char text[96];
    const Prefetch prefetch = t->model->output.prefetch;
    const int n = t->session->decode_threads;
    const char *form = prefetch.distance
                           ? "%d thread%s, prefetch %d bytes ahead (l%d)"
                           : "%d thread%s, prefetch off";
    snprintf(text, sizeof text, form, n, n == 1 ? "" : "s", prefetch.distance,
             prefetch.near ? 1 : 2);
    return text;
}
