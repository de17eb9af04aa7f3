/* test_team.c: the barrier of a forward pass.
 *
 * Every thread writes its own cell, meets the others, and reads all cells.
 * Delays, also longer than a spin, and more threads than processors make
 * threads arrive in every order, spin and sleep. NORMA_THOROUGH: 10^6 meetings.
 */
#include "kernels/team.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_THREADS = 8 };

/* Mostly none; sometimes shorter or longer than a spin. */
static void delay(int thread, int meeting) {
    uint64_t random = hash64(77, (uint64_t)thread, (uint64_t)meeting);
    struct timespec nap = {0, random % 512 ? 1000 : 400000};
    if (random % 64 == 0)
        nanosleep(&nap, NULL);
}

/* The number of cells that a thread read before their thread had written them,
 * or after it had gone on. */
static long meet(int n_threads, int meetings) {
    static struct {
        _Alignas(64) int value; /* plain memory: the barrier must order it */
    } cells[MAX_THREADS];
    long wrong = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : wrong)
    {
        int thread = omp_get_thread_num(), n = omp_get_num_threads();
        for (int m = 1; m <= meetings; m++) {
            delay(thread, m);
            cells[thread].value = m;
            team_barrier();
            for (int t = 0; t < n; t++)
                wrong += cells[t].value != m;
            team_barrier();
        }
    }
    return wrong;
}

static void no_thread_passes_the_barrier_early(void) {
    int meetings = test_thorough() ? 100000 / 14 : 300;
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        long wrong = meet(threads, test_fast() ? 50 : meetings);
        CHECK(wrong == 0, "%d threads: %ld cells", threads, wrong);
    }
}

enum { RUNS = 200 };

/* What the threads of a run have done. */
typedef struct {
    int n_threads, wrong;
    atomic_int calls;
    /* plain memory: written by one thread of a run, read by all threads of the
     * next */
    int shares[RUNS];
} Runs;

static void share_run(void *context) {
    Runs *r = context;
    if (omp_get_thread_num() == 0)
        delay(0, r->calls);
    atomic_fetch_add(&r->calls, 1);
#pragma omp for schedule(static) nowait
    for (int i = 0; i < RUNS; i++)
        r->shares[i]++;
}

static void run_often(void *context) {
    Runs *r = context;
    for (int i = 1; i <= RUNS; i++) {
        /* also one thread of a kept team */
        int before = r->calls, n = i % 5 ? r->n_threads : 1;
        delay(0, i);
        team_run(n, share_run, r);
        r->wrong += r->calls != before + n;
        for (int k = 0; k < RUNS; k++)
            r->wrong += r->shares[k] != i;
    }
}

/* Threads that are kept share every run, as threads that are started for it. */
static void kept_threads_share_every_run(void) {
    for (int n = 1; n <= MAX_THREADS; n++) {
        Runs kept = {.n_threads = n}, started = {.n_threads = n};
        team_keep(n, run_often, &kept);
        CHECK(kept.calls >= RUNS && kept.wrong == 0,
              "%d kept threads: %d faults", n, kept.wrong);
        run_often(&started);
        CHECK(started.calls >= RUNS && started.wrong == 0,
              "%d threads: %d faults", n, started.wrong);
    }
}

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_for_input(void *used) {
    double start = processor_seconds();
    struct timespec nap = {0, 300000000};
    nanosleep(&nap, NULL);
    *(double *)used = processor_seconds() - start;
}

/* Three threads that spun would use 900 ms. */
static void kept_threads_sleep_while_nothing_runs(void) {
    double used = 1;
    team_keep(4, wait_for_input, &used);
    CHECK(used < 0.15, "%.3f s of processor time in a wait of 0.3 s", used);
}

void suite_team(void) {
    TEST(no_thread_passes_the_barrier_early);
    TEST(kept_threads_share_every_run);
    TEST(kept_threads_sleep_while_nothing_runs);
}
