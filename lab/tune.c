/* tune.c: the fastest settings for decode on this machine, measured while the first tokens run.
 *
 * Owns the candidates and the choice. A small model may be faster with one thread, if barriers cost more than
 * parallelism saves. Some processors prefetch sequential reads in hardware; on others decode is 1.1 to 1.7 times as
 * fast with software prefetch (docs/performance.md). Each token runs with one setting. The min time of a setting is
 * compared, because other programs can only add to it. With an observer no number of threads is tried: a profile's
 * shares depend on it.
 */
#include "lab/tune.h"
#include "formats/parts.h"
#include <stdio.h>

static const Prefetch PREFETCHES[N_PREFETCHES] = {{0, false}, {2048, true}, {8192, true}, {4096, false}, {8192, false}};

enum {
    MIN_LAYER = 128 << 10, /* bytes per layer; below, one thread is faster */
    MAX_LAYER = 4 << 20,   /* bytes per layer; from here on, all threads are faster */
    RUN = 16,              /* tokens before the number of threads changes; the first 12 wake the threads up */
    THREAD_TRIALS = 4 * RUN,
    TRIALS = THREAD_TRIALS + 4 * N_PREFETCHES
};

static void set_prefetch(Model *m, Prefetch prefetch) {
    for (PartAt at = parts_of(m); next_part(&at);)
        if (part_weight(&at)) part_weight(&at)->prefetch = prefetch;
    m->output.prefetch = prefetch; /* a tied output tensor is not in the table of parts */
}

/* The index of the min; 0 unless another setting is more than 2 % faster. */
static int fastest(const double *seconds, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (seconds[i] < (best ? seconds[best] : 0.98 * *seconds)) best = i;
    return best;
}

static void record(double *min, double seconds) {
    if (*min == 0 || seconds < *min) *min = seconds;
}

/* Applies the settings of the next pass. */
static void choose(Tuning *t) {
    Session *s = t->session;
    const int i = t->tried, all = s->n_threads;
    if (i < THREAD_TRIALS)
        s->decode_threads = i / RUN % 2 ? all : 1;
    else if (t->thread_seconds[0] > 0)
        s->decode_threads = fastest(t->thread_seconds, 2) ? all : 1;
    if (i >= THREAD_TRIALS)
        set_prefetch(t->model, PREFETCHES[i < TRIALS ? i % N_PREFETCHES : fastest(t->prefetch_seconds, N_PREFETCHES)]);
}

void tune(Tuning *t, int n_steps) {
    const int i = t->tried;
    if (n_steps != 1 || i == TRIALS) return;
    if (i >= THREAD_TRIALS)
        record(&t->prefetch_seconds[i % N_PREFETCHES], t->session->seconds);
    else if (i % RUN >= RUN - 4)
        record(&t->thread_seconds[i / RUN % 2], t->session->seconds);
    t->tried++;
    choose(t);
}

void tuning_open(Tuning *t, Model *model, Session *s) {
    const size_t layer_bytes =
        model->decode_bytes / ((size_t)model->config.n_layers + 1); /* the output counts as one */
    const bool try_threads = s->n_threads > 1 && !s->observer && layer_bytes >= MIN_LAYER && layer_bytes < MAX_LAYER;
    *t = (Tuning){model, s, .tried = try_threads ? 0 : THREAD_TRIALS};
    s->decode_threads = layer_bytes < MIN_LAYER ? 1 : s->n_threads;
    choose(t);
}

const char *tuning_text(const Tuning *t) {
    static char text[96];
    const Prefetch prefetch = t->model->output.prefetch;
    const int n = t->session->decode_threads;
    const char *form = prefetch.distance ? "%d thread%s, prefetch %d bytes ahead (l%d)" : "%d thread%s, prefetch off";
    snprintf(text, sizeof text, form, n, n == 1 ? "" : "s", prefetch.distance, prefetch.near ? 1 : 2);
    return text;
}
