/* team.c: the threads of a forward pass.
 *
 * Owns how the threads of OpenMP's team start and wait for each other. A
 * sleeping thread takes up to 60 us to wake on a virtual machine, so a waiting
 * thread spins. But if other programs need the processors, a spinning thread
 * keeps its processor from the thread that it waits for. So after a long spin
 * without success the next waits spin briefly and then sleep. The threads of a
 * kept team wait for the next pass in the same way: while a user types, they
 * sleep.
 * Tests: team, invariance.
 */
#include "kernels/team.h"
#include "base/platform.h"
#include "base/ranks.h"
#include <omp.h>

enum { LONG_SPIN = 10000, BRIEF_SPIN = 1000, BRIEF_WAITS = 1000 };

/* The numbers of the next waits that are brief, within a pass and between
 * passes. At first, threads wait briefly for a pass: beside a busy program a
 * long spin would delay the prompt. */
static atomic_int within, between = 100;

/* The process has one team at a time, and so one barrier, as in OpenMP. */
static struct { atomic_uint arrived, turn, sleeping; } barrier;

/* The team that is kept, and what it runs next. */
static struct {
    int n; /* threads; 0: no team is kept */
    TeamWork *work;
    void *context;
} kept;

/* Spins until the turn has changed. Returns false after too many attempts.
 * Ranks may share the processors of one machine, so their threads always spin
 * briefly. */
static bool spin(unsigned turn, atomic_int *brief) {
    bool is_brief = atomic_load(brief) > 0;
    int left = is_brief || n_ranks > 1 ? BRIEF_SPIN : LONG_SPIN;
    while (left > 0 && atomic_load(&barrier.turn) == turn) {
        left--;
        relax_processor();
    }
    if (is_brief)
        atomic_fetch_sub(brief, 1);
    else if (left == 0)
        atomic_store(brief, BRIEF_WAITS);
    return left > 0;
}

static void meet(atomic_int *brief) {
    unsigned n = omp_get_num_threads(), turn = atomic_load(&barrier.turn);
    if (n == 1)
        return;
    if (atomic_fetch_add(&barrier.arrived, 1) == n - 1) {
        atomic_store(&barrier.arrived, 0);
        atomic_store(&barrier.turn, turn + 1);
        if (atomic_load(&barrier.sleeping))
            wake_sleepers(&barrier.turn);
    } else if (!spin(turn, brief)) {
        atomic_fetch_add(&barrier.sleeping, 1);
        while (atomic_load(&barrier.turn) == turn)
            sleep_while(&barrier.turn, turn);
        atomic_fetch_sub(&barrier.sleeping, 1);
    }
}

void team_barrier(void) {
    meet(&within);
}

void team_run(int n, TeamWork *work, void *context) {
    if (n == 1 && !kept.n) {
        /* without a region, which costs a small model 10 %
         * (docs/performance.md) */
        work(context);
    } else if (n == kept.n) {
        kept.work = work;
        kept.context = context;
        team_barrier();
        work(context);
        team_barrier();
    } else {
#pragma omp parallel num_threads(kept.n ? 1 : n)
        work(context);
    }
}

/* Runs what team_run() passes to a kept team, until it ends. */
static void serve(void) {
    for (meet(&between); kept.work; meet(&between)) {
        kept.work(kept.context);
        team_barrier();
    }
}

void team_keep(int n, TeamWork *body, void *context) {
    if (n <= 1) {
        body(context);
        return;
    }
    omp_set_max_active_levels(2); /* body may start regions of its own */
#pragma omp parallel num_threads(n)
    {
        if (omp_get_thread_num() > 0) {
            serve();
        } else {
            kept.n = omp_get_num_threads();
            body(context);
            kept.n = 0;
            kept.work = NULL;
            team_barrier();
        }
    }
}
