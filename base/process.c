/* process.c: the running program: Ctrl-C, which wakes whoever waits for input by a pipe, and the clock. */
#include "base/process.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char PROGRAM[] = "/proc/self/exe";
volatile sig_atomic_t interrupted;
static int pipe_ends[2] = {-1, -1}; /* read, write; it gets a byte when Ctrl-C comes */

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
    if (write(pipe_ends[1], "", 1) < 0) return; /* the flag alone still ends every loop */
}

int handle_signals(void) {
    if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK)) return fail("cannot make a pipe: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    return sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, NULL);
}

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *today(void) {
    static char date[16];
    const time_t seconds = time(NULL);
    struct tm local;
    const char *said = getenv("NORMA_DATE");
    return said ? said : localtime_r(&seconds, &local) && strftime(date, sizeof date, "%d %b %Y", &local) ? date : "";
}

/* Polling the pipe, too, misses no Ctrl-C, whenever and in whichever thread its signal comes. */
bool read_byte(char *byte) {
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = pipe_ends[0], .events = POLLIN}};
    while (poll(wait, 2, -1) < 0)
        if (errno != EINTR) return false;
    return !wait[1].revents && read(STDIN_FILENO, byte, 1) == 1;
}

bool on_terminal(FILE *stream) { return isatty(fileno(stream)) == 1; }

const char *program_file(const char *name) {
    static char path[PATH_MAX];
    const ssize_t n = readlink(PROGRAM, path, sizeof path);
    const char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    if (!slash) return NULL;
    const size_t folder = (size_t)(slash - path) + 1;
    snprintf(path + folder, sizeof path - folder, "%s", name);
    return access(path, F_OK) ? NULL : path;
}

void limit_spinning(char **argv) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    if (!setenv("GOMP_SPINCOUNT", "1000", 1)) execv(PROGRAM, argv); /* if it fails, barriers are only slower */
}
