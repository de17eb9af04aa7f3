/* tune.c: the number of threads that decode a model fastest, measured while the
 * first tokens run.
 *
 * A small model may be faster with one thread, if barriers cost more than
 * parallelism saves. The min time per token is compared, because other programs
 * can only add to it. With an observer nothing is tried: a profile's shares
 * depend on the number of threads.
 * Tests: tune.
 */
#include "lab/tune.h"

enum {
    MIN_LAYER = 128 << 10, /* bytes per layer; below, one thread is faster */
    /* bytes per layer; from here on, all threads are faster */
    MAX_LAYER = 4 << 20,
    /* tokens before the number of threads changes; the first 12 wake the
     * threads up */
    RUN = 16,
    TRIALS = 4 * RUN
};

void tune(Tuning *t, int n_steps) {
    Session *s = t->session;
    double *min = &t->seconds[t->tried / RUN % 2];
    if (n_steps != 1 || t->tried == TRIALS)
        return;
    if (t->tried % RUN >= RUN - 4 && !(*min > 0 && *min < s->seconds))
        *min = s->seconds;
    t->tried++;
    /* all threads if they are more than 2 % faster */
    bool all = t->tried < TRIALS ? t->tried / RUN % 2
                                 : t->seconds[1] < 0.98 * t->seconds[0];
    s->decode_threads = all ? s->n_threads : 1;
}

void tuning_open(Tuning *t, Session *s) {
    const Model *m = s->model;
    /* the output counts as one layer */
    size_t layer_bytes = m->decode_bytes / ((size_t)m->config.n_layers + 1);
    int max = layer_bytes < MIN_LAYER ? 1 : s->n_threads;
    bool try = max > 1 && !s->probe && layer_bytes < MAX_LAYER;
    *t = (Tuning){s, max, .tried = try ? 0 : TRIALS};
    s->decode_threads = try ? 1 : max;
}
