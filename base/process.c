/* process.c: the running program: Ctrl-C, which interrupts a wait for input through a pipe; threads; the clock. */
#include "base/process.h"
#include "base/error.h"
#include "base/platform.h"
#include "base/ranks.h"
#include "base/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t interrupted;
static int pipe_ends[2] = {-1, -1}; /* read, write; Ctrl-C writes a byte */

int open_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* open uses the lowest free descriptor */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) return fail("/dev/null: %s", strerror(errno));
    return 0;
}

static void on_interrupt(int signal_number) {
    if (interrupted && ranks_number() == 1) die_by_signal(signal_number);
    if (interrupted) remove_temporaries(); /* mpirun sends several signals; KILL is the last */
    interrupted = 1;
    if (write(pipe_ends[1], "", 1) < 0) return; /* the flag still ends every loop */
}

void interrupt_clear(void) {
    char byte;
    interrupted = 0;
    while (read(pipe_ends[0], &byte, 1) > 0) continue;
}

static int open_pipe(void) {
    if (pipe(pipe_ends)) return fail("cannot create a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        fcntl(pipe_ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(pipe_ends[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

int handle_signals(void) {
    if (open_pipe()) return -1;
    signal(SIGPIPE, SIG_IGN);
    handle_deadly_signals();
    struct sigaction action = {.sa_handler = ranks_own() ? SIG_IGN : on_interrupt}, old;
    /* mpirun turns Ctrl-C into TERM, or (Open MPI) CONT, and sends TERM and KILL together a second later. */
    if (ranks_number() > 1) sigaction(SIGTERM, &action, NULL);
    if (ranks_number() > 1) sigaction(SIGCONT, &action, NULL);
    if (!sigaction(SIGINT, NULL, &old) && old.sa_handler == SIG_IGN) return 0; /* ignored by nohup, or by a shell's & */
    return sigaction(SIGINT, &action, NULL);
}

int usual_threads(void) {
    const int n = omp_get_max_threads(), share = n / ranks_here();
    const bool given = getenv("OMP_NUM_THREADS") || omp_get_num_procs() < sysconf(_SC_NPROCESSORS_ONLN);
    return given ? n : share > 1 ? share : 1;
}

/* libgomp ends the program if it cannot create a thread, so a child process tries first. */
int start_threads(int n) {
    int status = 0, n_threads = 1;
    if (n == 1) return 1;
    omp_set_dynamic(false);                                     /* every region gets exactly this number */
    signal(SIGCHLD, SIG_DFL);                                   /* with SIG_IGN waitpid gets no status */
    const pid_t child = ranks_number() > 1 ? getpid() : fork(); /* not with ranks: MPI may not survive a fork */
    if (child == 0) close(STDERR_FILENO);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child < 0 || status) return fail("cannot start %d threads; use a smaller -j", n);
#pragma omp parallel num_threads(n)
#pragma omp master
    n_threads = omp_get_num_threads();
    if (child == 0) _exit(0);
    return n_threads;
}

uint64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

double now(void) { return 1e-9 * (double)nanoseconds(); }

const char *today(void) {
    static char date[16];
    const time_t seconds = time(NULL);
    struct tm local;
    const char *given = getenv("NORMA_DATE");
    return given ? given : localtime_r(&seconds, &local) && strftime(date, sizeof date, "%d %b %Y", &local) ? date : "";
}

/* Also polls the pipe, which receives a byte on Ctrl-C, whichever thread handles the signal. */
ssize_t read_some(int fd, char *bytes, size_t n) {
    struct pollfd wait[2] = {{.fd = fd, .events = POLLIN}, {.fd = pipe_ends[0], .events = POLLIN}};
    while (poll(wait, 2, -1) < 0)
        if (errno != EINTR) return -1;
    if (!wait[1].revents) return read(fd, bytes, n);
    errno = EINTR;
    return -1;
}

int write_whole(int fd, const char *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        const ssize_t written = write(fd, bytes + at, n - at);
        if (written < 0 && (errno != EINTR || !at)) return -1;
        if (written > 0) at += (size_t)written;
    }
    return 0;
}

/* Open MPI's mpirun runs each rank on a pseudo-terminal, which is not the user's. */
bool on_terminal(FILE *stream) { return !ranks_launched() && isatty(fileno(stream)) == 1; }

long lost_processors(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}

void limit_spinning(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    const char *program = program_path();
    if (program && !setenv("GOMP_SPINCOUNT", "1000", 1)) execv(program, argv); /* if it fails, barriers are slower */
}
