/* ranks.h: the processes that share a run under MPI (`make MPI=1`); in other
 * builds there is one, rank 0.
 *
 * Each rank computes the outputs of its own rows of every weight;
 * ranks_gather() gives all outputs to all ranks. No sum is split, so the bits
 * do not depend on the number of ranks. Only rank 0 reads input and writes
 * output; it sends the other ranks commands.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of ranks, this rank (from 0), and the number of ranks on this
 * machine. ranks_open() sets them. */
#ifdef NORMA_MPI
extern int n_ranks, own_rank, n_ranks_here;

/* Whether mpirun or a similar launcher started this process. */
bool ranks_launched(void);

/* Starts MPI; call it before anything is printed or read. Ranks other than 0
 * then hold their messages (base/error.h) and have /dev/null as standard input
 * and output. */
void ranks_open(void);

/* Waits for all ranks and ends MPI. Returns the exit status: that of the first
 * failed rank if ranks_agree() was not called. */
int ranks_close(int status);

/* Prints this rank's failure and ends all ranks with status 1. */
void ranks_abort(void);

/* Every rank calls it: with status 0 when ready, or with an exit status after a
 * failure. `state` is a hash of all that must be the same on all ranks; 0: this
 * rank does not share a model. Returns 0 if all are ready and in the same
 * state; else an exit status, after the message of the first rank that
 * failed. */
int ranks_agree(int status, uint64_t state);

/* ranks_tell() sends a message from rank 0 to all others. They receive messages
 * in order with ranks_hear(); the caller frees them. */
void ranks_tell(const void *message, size_t bytes);
void *ranks_hear(void);

/* Exchanges the columns of y[n][columns], which are divided among ranks by
 * ranks_start(). Rank 0 receives the other ranks' columns; if `all`, every rank
 * does. */
void ranks_gather(float *y, int n, int columns, int unit, bool all);

#else
enum { n_ranks = 1, own_rank = 0, n_ranks_here = 1 };

static inline bool ranks_launched(void) {
    return false;
}
static inline void ranks_open(void) {
}
static inline int ranks_close(int status) {
    return status;
}
static inline void ranks_abort(void) {
}
static inline int ranks_agree(int status, uint64_t state) {
    return (void)state, status;
}
static inline void ranks_tell(const void *message, size_t bytes) {
    (void)message, (void)bytes;
}
static inline void *ranks_hear(void) {
    return NULL;
}
static inline void ranks_gather(float *y, int n, int columns, int unit,
                                bool all) {
    (void)y, (void)n, (void)columns, (void)unit, (void)all;
}

#endif

/* Index of a rank's first item when ranks share n items in whole units; n for
 * the rank after the last. */
static inline int ranks_start(int n, int unit, int rank) {
    int units = (n - 1) / unit + 1;
    return rank < n_ranks ? (int)((int64_t)units * rank / n_ranks) * unit : n;
}
