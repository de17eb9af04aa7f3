/* ranks.c: the only file that knows MPI (MPI: A Message-Passing Interface Standard 3.1).
 *
 * Owns how ranks begin, agree, are told and end, and the exchange of outputs: each rank sends its own to each other
 * one, all at once, so that a gather takes as long as one message however many ranks there are. (MPI's own
 * MPI_Allgatherv goes round in a ring, or in steps; and it wants every rank's part in one piece, which those of many
 * tokens are not.) Who has which rows is cluster/share.c's business. Global: one process is one rank.
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

static int n_ranks = 1, own, n_here = 1;
static MPI_Request *requests; /* [2 n_ranks] of a gather */
static MPI_Status *statuses;  /* [2 n_ranks] (MPI_STATUSES_IGNORE is no array to gcc, in MPICH's header) */
static int64_t *values;       /* [n_ranks] what all say */
static Traffic traffic;
static bool agreed; /* ranks_agree() has been called */

/* (MPI alone takes a third of a second to begin.) */
bool ranks_launched(void) { return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK"); }

/* -1 and a message: this rank cannot take part. */
static int make_ready(void) {
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    requests = malloc(2 * (size_t)n_ranks * sizeof *requests);
    statuses = malloc(2 * (size_t)n_ranks * sizeof *statuses);
    values = malloc((size_t)n_ranks * sizeof *values);
    if (!requests || !statuses || !values || nowhere < 0) return fail("rank %d: %s", own, strerror(errno));
    if (own && (dup2(nowhere, STDIN_FILENO) < 0 || dup2(nowhere, STDOUT_FILENO) < 0))
        return fail("rank %d: /dev/null: %s", own, strerror(errno));
    close(nowhere);
    return 0;
}

void ranks_open(void) {
    int level;
    MPI_Comm here;
    if (!ranks_launched()) return;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level); /* MPI itself ends the program where it fails */
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &n_here);
    MPI_Comm_free(&here);
    if (make_ready()) MPI_Abort(MPI_COMM_WORLD, EXIT_BAD_INPUT);
    if (own) hold_messages(true);
}

int ranks_close(int status) {
    if (!requests) return status;                       /* nothing was opened */
    if (!agreed) status = ranks_agree(status, NULL, 0); /* ranks may end before they have made ready */
    free(requests);
    free(statuses);
    free(values);
    MPI_Finalize();
    return status;
}

/* Prints the failure of this rank, which its messages do not name. */
static void print_own_failure(void) {
    if (own) print_held_message(own);
}

void ranks_abort(void) {
    print_own_failure();
    MPI_Abort(MPI_COMM_WORLD, EXIT_BAD_INPUT);
}

int ranks_number(void) { return n_ranks; }
int ranks_own(void) { return own; }
int ranks_here(void) { return n_here; }
Traffic ranks_traffic(void) { return traffic; }

/* ---- agreeing ------------------------------------------------------------------------- */

/* The first rank whose value is not `usual`, of all ranks' values; n_ranks: none is. */
static int first_other(int64_t value, int64_t usual, int64_t *of_it) {
    MPI_Request request;
    int r = 0, done = 0;
    MPI_Iallgather(&value, 1, MPI_INT64_T, values, 1, MPI_INT64_T, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) usleep(200); /* others may work long */
    while (r < n_ranks && values[r] == usual) r++;
    if (r < n_ranks) *of_it = values[r];
    return r;
}

/* The first rank whose value is not rank 0's. */
static int other_than_0(int64_t value) {
    int64_t usual = value;
    MPI_Bcast(&usual, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return first_other(value, usual, &usual);
}

int ranks_agree(int status, const Same *same, int n) {
    int64_t value = 0;
    if (n_ranks == 1) return status;
    agreed = true;
    const int failed = first_other(status, 0, &value);
    if (failed < n_ranks) {
        if (failed == own) print_own_failure();
        return (int)value;
    }
    int other = other_than_0(n); /* none, where a rank does not share a model */
    if (other < n_ranks && own == 0) fail("rank %d has another mode than rank 0", other);
    for (int i = 0; i < n && other == n_ranks; i++) {
        other = other_than_0((int64_t)same[i].value);
        if (other < n_ranks && own == 0) fail("rank %d has another %s than rank 0", other, same[i].what);
    }
    return other < n_ranks ? EXIT_BAD_INPUT : 0;
}

/* ---- telling ---------------------------------------------------------------------------- */

void ranks_tell(const void *message, size_t bytes) {
    for (int r = 1; r < n_ranks; r++)
        MPI_Isend(message, (int)bytes, MPI_BYTE, r, TELLING, MPI_COMM_WORLD, &requests[r - 1]);
    MPI_Waitall(n_ranks - 1, requests, statuses);
    traffic.messages += n_ranks - 1;
    traffic.bytes += (n_ranks - 1) * (int64_t)bytes;
}

/* Rank 0 may be waiting for its user: after a while this one lets others work, and sleeps in between. */
void *ranks_hear(void) {
    MPI_Status status;
    int there = 0, bytes;
    for (int times = 0; !there; times++) {
        MPI_Iprobe(0, TELLING, MPI_COMM_WORLD, &there, &status);
        if (!there && times > 20000) usleep(200);
        if (!there) sched_yield();
    }
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    void *message = allocate((size_t)bytes, 1);
    if (!message) ranks_abort();
    MPI_Recv(message, bytes, MPI_BYTE, 0, TELLING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return message;
}

/* ---- gathering -------------------------------------------------------------------------- */

/* Begins to send (or to get) rank r's columns to (from) a rank: n pieces, a row apart. */
static void exchange(float *y, int n, const int *starts, int r, int with, MPI_Request *request) {
    const int count = starts[r + 1] - starts[r];
    MPI_Datatype columns;
    MPI_Type_vector(n, count, starts[n_ranks], MPI_FLOAT, &columns);
    MPI_Type_commit(&columns);
    if (r == own)
        MPI_Isend(y + starts[r], 1, columns, with, GATHERING, MPI_COMM_WORLD, request);
    else
        MPI_Irecv(y + starts[r], 1, columns, with, GATHERING, MPI_COMM_WORLD, request);
    MPI_Type_free(&columns); /* when it is not in use any more */
    traffic.messages++;
    traffic.bytes += (int64_t)n * count * (int64_t)sizeof *y;
}

void ranks_gather(float *y, int n, const int *starts, bool all) {
    int n_requests = 0;
    for (int i = 1; i < n_ranks; i++) { /* each begins with the next one: no rank gets all messages at once */
        const int from = (own + n_ranks - i) % n_ranks, to = (own + i) % n_ranks;
        if ((all || own == 0) && starts[from + 1] > starts[from])
            exchange(y, n, starts, from, from, &requests[n_requests++]);
        if ((all || to == 0) && starts[own + 1] > starts[own]) exchange(y, n, starts, own, to, &requests[n_requests++]);
    }
    MPI_Waitall(n_requests, requests, statuses);
}
