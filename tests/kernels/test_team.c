/* test_team.c: the barrier of a forward pass.
 *
 * Every thread writes its own cell, meets the others, and reads all cells. Delays, also longer than a spin, and more
 * threads than processors make threads arrive in every order, spin and sleep. NORMA_THOROUGH: 10^5 meetings.
 */
#include "kernels/team.h"

#include "tests/support/test.h"

#include <omp.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_THREADS = 8 };

/* Mostly none; sometimes shorter or longer than a spin. */
static void delay(int thread, int meeting) {
    const uint64_t random = hash64(77, (uint64_t)thread, (uint64_t)meeting);
    const struct timespec nap = {0, random % 512 ? 1000 : 400000};
    if (random % 64 == 0) nanosleep(&nap, NULL);
}

/* The number of cells that a thread read before their thread had written them, or after it had gone on. */
static long meet(int n_threads, int meetings) {
    static struct { _Alignas(64) int value; /* plain memory: the barrier must order it */ } cells[MAX_THREADS];
    long wrong = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : wrong)
    {
        const int thread = omp_get_thread_num(), n = omp_get_num_threads();
        for (int m = 1; m <= meetings; m++) {
            delay(thread, m);
            cells[thread].value = m;
            team_barrier();
            for (int t = 0; t < n; t++) wrong += cells[t].value != m;
            team_barrier();
        }
    }
    return wrong;
}

static void no_thread_passes_the_barrier_early(void) {
    const int meetings = test_thorough() ? 100000 / 14 : 300;
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        const long wrong = meet(threads, test_fast() ? 50 : meetings);
        CHECK(wrong == 0, "%d threads: %ld cells", threads, wrong);
    }
}

void suite_team(void) { TEST(no_thread_passes_the_barrier_early); }
