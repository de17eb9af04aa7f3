/* team.c: the barrier of a forward pass.
 *
 * Owns how the threads of OpenMP's team wait for each other. A sleeping thread takes up to 60 us to wake on a virtual
 * machine, so a waiting thread spins. But if other programs need the processors, a spinning thread keeps its processor
 * from the thread that it waits for. So after a long spin without success the next waits spin briefly and then sleep.
 */
#include "kernels/team.h"
#include "base/platform.h"
#include "base/ranks.h"
#include <omp.h>

enum { LONG_SPIN = 10000, BRIEF_SPIN = 1000, BRIEF_WAITS = 1000 };

/* The process has one team at a time, and so one barrier, as in OpenMP. */
static struct {
    atomic_uint arrived, turn, sleeping;
    atomic_int brief; /* number of the next waits that spin briefly */
} barrier;

/* Spins until the turn has changed. Returns false after too many attempts. */
static bool spin(unsigned turn) {
    const bool is_brief = atomic_load(&barrier.brief) > 0;
    int left = is_brief ? BRIEF_SPIN : LONG_SPIN;
    while (left > 0 && atomic_load(&barrier.turn) == turn) {
        left--;
        relax_processor();
    }
    if (is_brief)
        atomic_fetch_sub(&barrier.brief, 1);
    else if (left == 0)
        atomic_store(&barrier.brief, BRIEF_WAITS);
    return left > 0;
}

/* With several ranks the threads wait as OpenMP's do: ranks on one machine share its processors. */
void team_barrier(void) {
    if (ranks_number() > 1) {
#pragma omp barrier
        return;
    }
    const unsigned n = (unsigned)omp_get_num_threads(), turn = atomic_load(&barrier.turn);
    if (n == 1) return;
    if (atomic_fetch_add(&barrier.arrived, 1) == n - 1) {
        atomic_store(&barrier.arrived, 0);
        atomic_store(&barrier.turn, turn + 1);
        if (atomic_load(&barrier.sleeping)) wake_sleepers(&barrier.turn);
    } else if (!spin(turn)) {
        atomic_fetch_add(&barrier.sleeping, 1);
        while (atomic_load(&barrier.turn) == turn) sleep_while(&barrier.turn, turn);
        atomic_fetch_sub(&barrier.sleeping, 1);
    }
}
