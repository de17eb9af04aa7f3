/* ranks.h: the processes that share a run under MPI (`make MPI=1`); in other builds there is one, rank 0.
 *
 * Ranks share rows: each computes the outputs of its own rows of every weight, then all get all of them (ranks_gather).
 * No sum is divided, so its bits do not depend on how many ranks there are. Rank 0 alone reads what the user types,
 * writes what the user reads, and tells the others what runs next.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What must be the same on all ranks. */
typedef struct {
    const char *what; /* for the message */
    uint64_t value;
} Same;

/* What this rank has sent and got so far. */
typedef struct {
    int64_t messages, bytes;
} Traffic;

#ifdef NORMA_MPI

/* Whether mpirun, or something like it, has started this process. */
bool ranks_launched(void);

/* Begins, before anything is printed or read. From here on the
 * messages of ranks other than 0 are held (base/error.h), they read nothing, and what they write goes nowhere. */
void ranks_open(void);

/* Ends, when all ranks are here; returns the exit status, which is that of all where they have not agreed before. */
int ranks_close(int status);

/* Ends all ranks at once with status 1, and prints this rank's failure. */
void ranks_abort(void);

int ranks_number(void);
int ranks_own(void);  /* the number of this one, from 0 on */
int ranks_here(void); /* how many run on this machine */

/* All ranks call it when they have made ready, with 0 or an exit status. 0: all have, and same[n] is the same on all;
 * else each gets the status of the first that has not, whose message is printed. */
int ranks_agree(int status, const Same *same, int n);

/* Rank 0 tells all others; each of them hears it, message after message, in memory that the caller frees. */
void ranks_tell(const void *message, size_t bytes);
void *ranks_hear(void);

/* Rank r has columns [starts[r], starts[r + 1]) of y[n][starts[number of ranks]]; rank 0, or all, get the others'. */
void ranks_gather(float *y, int n, const int *starts, bool all);

Traffic ranks_traffic(void);

#else

static inline bool ranks_launched(void) { return false; }
static inline void ranks_open(void) {}
static inline int ranks_close(int status) { return status; }
static inline void ranks_abort(void) {}
static inline int ranks_number(void) { return 1; }
static inline int ranks_own(void) { return 0; }
static inline int ranks_here(void) { return 1; }
static inline int ranks_agree(int status, const Same *same, int n) { return (void)same, (void)n, status; }
static inline void ranks_tell(const void *message, size_t bytes) { (void)message, (void)bytes; }
static inline void *ranks_hear(void) { return NULL; }
static inline void ranks_gather(float *y, int n, const int *starts, bool all) {
    (void)y, (void)n, (void)starts, (void)all;
}
static inline Traffic ranks_traffic(void) { return (Traffic){0, 0}; }

#endif
