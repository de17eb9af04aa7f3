/* ranks.c: the only file that calls MPI (MPI: A Message-Passing Interface
 * Standard 3.1).
 *
 * Owns how ranks start, agree, receive commands and end, and the exchange of
 * outputs. Each rank sends its outputs to all others at once, so a gather takes
 * as long as one message, whatever the number of ranks. (MPI_Allgatherv uses a
 * ring, or several steps, and requires each rank's part to be contiguous, which
 * it is not for several tokens.) cluster/share.c divides the rows. The state is
 * global: one process is one rank.
 * Tests: ranks, sequences.
 */
#include "base/ranks.h"
#include "base/error.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TELLING, GATHERING }; /* tags of messages */

/* What ranks_agree() exchanges: the arguments of each rank. */
typedef struct {
    int64_t status, state;
} Report;

int n_ranks = 1, own_rank, n_ranks_here = 1;
static MPI_Request *requests; /* [2 n_ranks] of a gather */
/* [2 n_ranks] (gcc warns about MPICH's MPI_STATUSES_IGNORE) */
static MPI_Status *statuses;
static Report *reports; /* [n_ranks] */
static bool agreed;     /* ranks_agree() has been called */

/* Avoids starting MPI needlessly, which takes a third of a second. */
bool ranks_launched(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") ||
           getenv("PMI_RANK");
}

/* Allocates buffers; redirects the standard streams of ranks other than 0 to
 * /dev/null. Returns -1 and a message on failure. */
static int make_ready(void) {
    size_t n = n_ranks;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || (own_rank && (dup2(null, STDIN_FILENO) < 0 ||
                                  dup2(null, STDOUT_FILENO) < 0)))
        return fail("rank %d: /dev/null: %s", own_rank, strerror(errno));
    close(null);
    requests = allocate(2 * n, sizeof *requests);
    if (requests)
        statuses = allocate(2 * n, sizeof *statuses);
    if (statuses)
        reports = allocate(n, sizeof *reports);
    return reports ? 0 : -1;
}

void ranks_open(void) {
    int level;
    MPI_Comm here;
    if (!ranks_launched())
        return;
    /* if it fails, MPI ends the program */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                        &here);
    MPI_Comm_size(here, &n_ranks_here);
    MPI_Comm_free(&here);
    if (make_ready())
        MPI_Abort(MPI_COMM_WORLD, EXIT_BAD_INPUT);
    hold_messages(own_rank > 0);
}

int ranks_close(int status) {
    if (!requests)
        return status; /* nothing was opened */
    if (!agreed)
        status = ranks_agree(status, 0); /* a rank may end before it is ready */
    free(requests);
    free(statuses);
    free(reports);
    MPI_Finalize();
    return status;
}

void ranks_abort(void) {
    print_held_message(own_rank);
    MPI_Abort(MPI_COMM_WORLD, EXIT_BAD_INPUT);
}

/* ---- agreeing ----------------------------------------------------------- */

int ranks_agree(int status, uint64_t state) {
    Report mine = {status, state};
    MPI_Request request;
    int done = 0;
    if (n_ranks == 1)
        return status; /* MPI may not have started */
    agreed = true;
    MPI_Iallgather(&mine, 2, MPI_INT64_T, reports, 2, MPI_INT64_T,
                   MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        usleep(200); /* other ranks may be busy for long */
    for (int r = 0; r < n_ranks; r++) {
        if (reports[r].status == 0)
            continue;
        if (r == own_rank)
            print_held_message(own_rank);
        return (int)reports[r].status;
    }
    for (int r = 1; r < n_ranks; r++) {
        if (reports[r].state == reports[0].state)
            continue;
        if (own_rank == 0)
            fail(
                "rank %d has a different program, model, mode or option (-b, -c, --kv, --norm) than rank 0",
                r);
        return EXIT_BAD_INPUT;
    }
    return 0;
}

/* ---- commands ----------------------------------------------------------- */

void ranks_tell(const void *message, size_t bytes) {
    for (int r = 1; r < n_ranks; r++)
        MPI_Send(message, (int)bytes, MPI_BYTE, r, TELLING, MPI_COMM_WORLD);
}

/* Rank 0 may be waiting for its user, so after a while this rank sleeps between
 * polls. */
void *ranks_hear(void) {
    MPI_Status status;
    int arrived = 0, bytes;
    for (int polls = 0; !arrived; polls++) {
        MPI_Iprobe(0, TELLING, MPI_COMM_WORLD, &arrived, &status);
        if (!arrived && polls > 20000)
            usleep(200);
        if (!arrived)
            sched_yield();
    }
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    void *message = allocate(bytes, 1);
    if (!message)
        ranks_abort();
    MPI_Recv(message, bytes, MPI_BYTE, 0, TELLING, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    return message;
}

/* ---- gathering ---------------------------------------------------------- */

/* Starts sending this rank's columns to rank `with`, or receiving rank r's
 * columns from it: n pieces, a row apart. Returns the number of requests, 0 if
 * the rank has no columns. */
static int exchange(float *y, int n, int columns, int unit, int r, int with,
                    MPI_Request *request) {
    int start = ranks_start(columns, unit, r),
        count = ranks_start(columns, unit, r + 1) - start;
    MPI_Datatype part;
    if (count == 0)
        return 0;
    MPI_Type_vector(n, count, columns, MPI_FLOAT, &part);
    MPI_Type_commit(&part);
    if (r == own_rank)
        MPI_Isend(y + start, 1, part, with, GATHERING, MPI_COMM_WORLD, request);
    else
        MPI_Irecv(y + start, 1, part, with, GATHERING, MPI_COMM_WORLD, request);
    MPI_Type_free(&part); /* MPI keeps it until the message is complete */
    return 1;
}

void ranks_gather(float *y, int n, int columns, int unit, bool all) {
    int n_requests = 0;
    /* each starts with the next rank, so no rank receives all messages at
     * once */
    for (int i = 1; i < n_ranks; i++) {
        int from = (own_rank + n_ranks - i) % n_ranks,
            to = (own_rank + i) % n_ranks;
        if (all || own_rank == 0)
            n_requests += exchange(y, n, columns, unit, from, from,
                                   &requests[n_requests]);
        if (all || to == 0)
            n_requests += exchange(y, n, columns, unit, own_rank, to,
                                   &requests[n_requests]);
    }
    MPI_Waitall(n_requests, requests, statuses);
}
