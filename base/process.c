/* process.c: the running program: Ctrl-C, which wakes whoever waits for input by a pipe, and the clock. */
#include "base/process.h"
#include "base/error.h"
#if defined __x86_64__
#include <cpuid.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
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

/* ---- the clock for short times ------------------------------------------------------------- */

static uint64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#if defined __x86_64__
static uint64_t time_stamp(void) { return __builtin_ia32_rdtsc(); }

static bool time_stamps_are_invariant(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
}
#else
static uint64_t time_stamp(void) { return nanoseconds(); }
static bool time_stamps_are_invariant(void) { return false; }
#endif

/* Both clocks at one time: of some readings that in which the least time passed between the two. */
static void read_both(uint64_t *ticks, uint64_t *ns) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        const uint64_t before = time_stamp(), at = nanoseconds(), between = time_stamp() - before;
        if (between >= least) continue;
        least = between;
        *ticks = before + between / 2;
        *ns = at;
    }
}

/* Seconds of a tick, measured over a millisecond. */
static double seconds_per_tick(void) {
    uint64_t ticks[2] = {0}, ns[2] = {0};
    read_both(&ticks[0], &ns[0]);
    do read_both(&ticks[1], &ns[1]);
    while (ns[1] - ns[0] < 1000000);
    return 1e-9 * (double)(ns[1] - ns[0]) / (double)(ticks[1] - ticks[0]);
}

Clock clock_cheapest(void) {
    const Clock monotonic = {nanoseconds, 1e-9};
    if (!time_stamps_are_invariant()) return monotonic;
    const double first = seconds_per_tick(), second = seconds_per_tick();
    const bool even = fabs(second - first) < 0.002 * first;
    return even ? (Clock){time_stamp, 0.5 * (first + second)} : monotonic;
}

/* Polling the pipe, too, misses no Ctrl-C, whenever and in whichever thread its signal comes. */
bool read_byte(char *byte) {
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = pipe_ends[0], .events = POLLIN}};
    while (poll(wait, 2, -1) < 0)
        if (errno != EINTR) return false;
    return !wait[1].revents && read(STDIN_FILENO, byte, 1) == 1;
}

bool on_terminal(FILE *stream) { return isatty(fileno(stream)) == 1; }

const char *processor_name(void) {
    static char line[256], name[128];
    FILE *in = fopen("/proc/cpuinfo", "r");
    *name = '\0';
    while (in && !*name && fgets(line, sizeof line, in)) sscanf(line, "model name : %127[^\n\"\\]", name);
    if (in) fclose(in);
    return name;
}

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
