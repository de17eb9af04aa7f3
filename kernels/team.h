/* team.h: the threads of a forward pass, their barriers, and the exchange of
 * results between processes that share a weight.
 *
 * Owns the barrier. A site that other threads read ends with team_end();
 * docs/architecture.md lists the barriers of a layer. The observer only reads
 * clocks; the barriers are the same without it (probe NULL).
 */
#pragma once

#include "base/probe.h"
#include "kernels/tensor.h"

/* Whether every thread computes the input of a chunk of n tokens separately,
 * into its own row: for one token this is cheaper than a barrier. True for
 * norms and for the int8 form of a product's input. */
static inline bool each_thread_computes(int n) {
    return n == 1;
}

/* Runs work(context) on n threads, each of which calls it once, and waits for
 * all. A kept team runs work on all of its threads or on one. */
typedef void TeamWork(void *context);
void team_run(int n, TeamWork *work, void *context);

/* Calls body(context) on this thread. Meanwhile n - 1 other threads wait for
 * team_run(), so that a forward pass need not start them. Body shares work
 * among threads by team_run(), or in parallel regions of its own. */
void team_keep(int n, TeamWork *body, void *context);

/* Waits for all threads of the team. Their writes are then visible to all. */
void team_barrier(void);

/* Like team_barrier; the observer counts the time since the last mark as
 * waiting. */
static inline void team_wait(Probe *probe, int layer) {
    team_barrier();
    probe_mark(probe, layer, SITE_WAIT);
}

/* Ends a site whose result other threads read. */
static inline void team_end(Probe *probe, int layer, Site site) {
    probe_mark(probe, layer, site);
    team_wait(probe, layer);
}

/* If processes share the rows of w: exchanges their parts of y[n][all rows of
 * w], after which every thread may read y. `everywhere`: all processes receive
 * y, else only the first. */
static inline void team_gather(Probe *probe, int layer, float *y,
                               const Tensor *w, int n, bool everywhere) {
    if (!w->share)
        return;
#pragma omp master
    w->share->gather(w->share, y, n, everywhere);
    team_end(probe, layer, SITE_GATHER);
}

/* Ends a site that computed y[n][all rows of w], for all processes. */
static inline void team_end_product(Probe *probe, int layer, Site site,
                                    float *y, const Tensor *w, int n) {
    team_end(probe, layer, site);
    team_gather(probe, layer, y, w, n, true);
}
