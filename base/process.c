/* process.c: the running program: signals, the number of threads, standard
 * streams, terminals.
 *
 * Owns the handlers of signals, which call only async-signal-safe functions.
 * Tests: cli, chat, base.
 */
#include "base/process.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/ranks.h"
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

void open_standard_streams(void) {
    /* uses the lowest free descriptor */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", O_RDONLY);
}

/* ---- signals ------------------------------------------------------------ */

volatile sig_atomic_t interrupted, ends_soon;
const char *volatile temporary_file, *volatile temporary_names = "";

/* What the terminal on standard input was set to. */
static volatile sig_atomic_t state; /* 0: nothing; 1: answers; 2: edits */
static struct termios kept; /* the original settings, unless state is 0 */

void remove_all(const char *names) {
    bool more = true; /* another thread may still create files */
    for (int tries = 0; more && tries < 1000; tries++)
        for (const char *name = names; *name; name += strlen(name) + 1)
            more = unlink(name) && rmdir(name) && errno == ENOTEMPTY;
}

/* Waits until `fd` takes output: not a terminal that was stopped (Ctrl-S, a
 * hung connection) and not a full pipe. */
static bool takes_output(int fd) {
    enum { PATIENCE = 100 /* milliseconds */ };
    struct pollfd output = {.fd = fd, .events = POLLOUT};
    return poll(&output, 1, PATIENCE) > 0 && output.revents == POLLOUT;
}

/* Whether one of the standard streams is a terminal that takes no output. */
static bool is_terminal_stopped(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if ((fd != STDIN_FILENO || state) && isatty(fd) && !takes_output(fd))
            return true;
    return false;
}

/* For handlers of signals: a write that would block is left out. */
static void write_if_taken(int fd, const char *text) {
    if (takes_output(fd) && write(fd, text, strlen(text)) < 0)
        return; /* nothing can report it */
}

/* The terminal comes last: writing to it may take a while. */
static void clean_up(void) {
    if (temporary_file)
        unlink(temporary_file);
    remove_all(temporary_names);
    if (takes_output(STDERR_FILENO))
        hide_status();
    terminal_close();
}

/* The signal must not be blocked. */
static void die(int signal_number) {
    clean_up();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    _exit(128 + signal_number); /* only PID 1 is still alive */
}

static void on_interrupt(int signal_number) {
    if (n_ranks == 1 && interrupted)
        die(signal_number); /* mpirun sends several signals */
    interrupted = 1;
    if (n_ranks > 1)
        return;
    /* the rest of the output and the statistics would wait for the terminal */
    if (ends_soon && !is_terminal_stopped())
        return;
    clean_up();
    _exit(EXIT_INTERRUPTED);
}

/* Handles SIGBUS: a page of a mapped file is missing. */
static void on_lost_page(int signal_number, siginfo_t *info, void *context) {
    static const char message[] = ": a mapped file cannot be read any more: "
                                  "it was truncated, or its disk failed\n";
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    const char *name = program_name();
    (void)context;
    if (info->si_code != BUS_ADRERR)
        return die(signal_number);
    while (atomic_flag_test_and_set(&reported))
        pause(); /* another thread reports it */
    clean_up();
    write_if_taken(STDERR_FILENO, name);
    write_if_taken(STDERR_FILENO, message);
    _exit(EXIT_BAD_INPUT);
}

/* Without SA_RESTART, so that Ctrl-C ends a wait for input; after Ctrl-Z
 * it goes on. */
static void handle(int signal_number, void (*handler)(int)) {
    struct sigaction old;
    if (sigaction(signal_number, NULL, &old) || old.sa_handler == SIG_IGN)
        return;
    sigaction(signal_number,
              &(struct sigaction){.sa_handler = handler,
                                  .sa_flags = signal_number == SIGTSTP
                                                  ? SA_RESTART
                                                  : SA_NODEFER},
              NULL);
}

void handle_signals(void) {
    void (*const end)(int) = own_rank ? SIG_IGN : on_interrupt;
    bool ranks = n_ranks > 1;
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS,
              &(struct sigaction){.sa_sigaction = on_lost_page,
                                  .sa_flags = SA_SIGINFO | SA_NODEFER},
              NULL);
    handle(SIGPIPE, ranks ? SIG_IGN : die);
    handle(SIGHUP, die);
    handle(SIGQUIT, die);
    handle(SIGINT, end);
    /* mpirun turns Ctrl-C into TERM, or (Open MPI) CONT, and sends TERM and
     * KILL together a second later. */
    handle(SIGTERM, ranks ? end : die);
    if (ranks)
        handle(SIGCONT, end);
}

/* ---- the terminal ------------------------------------------------------- */

/* Called by handlers of signals, too. */
void terminal_close(void) {
    if (!state)
        return;
    tcsetattr(STDIN_FILENO, TCSANOW, &kept);
    write_if_taken(STDIN_FILENO, "\033[?2004l");
    state = 0;
}

/* Handles Ctrl-Z. */
static void on_stop(int signal_number) {
    int before = state;
    (void)signal_number;
    terminal_close();
    raise(SIGSTOP);
    if (before)
        terminal_open(before > 1);
}

bool terminal_open(bool edits) {
    if (!state && tcgetattr(STDIN_FILENO, &kept))
        return false;
    static const char marks_pastes[] = "\033[?2004h";
    struct termios settings = kept;
    settings.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | edits * ISIG);
    settings.c_lflag |= NOFLSH; /* Ctrl-C keeps what was typed before */
    settings.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | edits * IXON);
    handle(SIGTSTP, on_stop);
    state = 1 + edits;
    if (!tcsetattr(STDIN_FILENO, TCSANOW, &settings) &&
        write(STDIN_FILENO, marks_pastes, sizeof marks_pastes - 1) > 0)
        return true;
    terminal_close();
    return false;
}

int terminal_read(char *bytes, int room) {
    return (int)read(STDIN_FILENO, bytes, room);
}

bool terminal_sends(void) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    return poll(&input, 1, 0) > 0;
}

Screen terminal_size(void) {
    struct winsize size = {0};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (!ioctl(fd, TIOCGWINSZ, &size))
            break;
    return (Screen){size.ws_row ? size.ws_row : 24,
                    size.ws_col < 8 ? 80 : size.ws_col};
}

void terminal_discard(void) {
    enum { PAUSE = 50 }; /* max milliseconds between the lines of a paste */
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    while (!tcflush(STDIN_FILENO, TCIFLUSH) && poll(&input, 1, PAUSE) > 0)
        continue;
}

/* ---- threads, clock, streams -------------------------------------------- */

int usual_threads(void) {
    int max = omp_get_max_threads();
    int share = (int)min_size(max, limits_of("").processors);
    if (omp_get_num_procs() >= sysconf(_SC_NPROCESSORS_ONLN))
        share /= n_ranks_here;
    return getenv("OMP_NUM_THREADS") ? max : share > 1 ? share : 1;
}

int start_threads(int n) {
    int n_threads = 1;
    omp_set_dynamic(false); /* every region gets exactly this number */
#pragma omp parallel num_threads(n)
#pragma omp master
    n_threads = omp_get_num_threads();
    return n_threads;
}

int format_today(char *to, size_t size, const char *format) {
    struct timespec now = {0};
    struct tm local = {0};
    const char *given = getenv("NORMA_DATE");
    char filled[512], *end = filled;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    if (given)
        strptime(given, "%d %b %Y", &local);
    *end++ = ' '; /* so that an empty date is no failure of strftime() */
    for (const char *s = format; *s; s++) {
        if (end - filled > (ptrdiff_t)sizeof filled - 10)
            return -1;
        char kind = *s == '%' ? s[1] : '\0';
        if (kind == 'f')
            end += sprintf(end, "%06ld", given ? 0 : now.tv_nsec / 1000);
        else if (kind && kind != 'z' && kind != 'Z')
            end += sprintf(end, "%%%c", kind);
        else if (!kind)
            *end++ = *s;
        s += kind != '\0';
    }
    *end = '\0';
    char text[1024];
    size_t n = strftime(text, sizeof text, filled, &local);
    if (!n || n > size)
        return -1;
    memcpy(to, text + 1, n - 1);
    return (int)n - 1;
}

int write_whole(int fd, const char *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t written = write(fd, bytes + at, n - at);
        if (written < 0 && (errno != EINTR || !at))
            return -1;
        if (written > 0)
            at += written;
    }
    return 0;
}

/* Open MPI's mpirun runs each rank on a pseudo-terminal, which is
 * not the user's. */
bool on_terminal(FILE *stream) {
    return !ranks_launched() && isatty(fileno(stream)) == 1;
}

InputState input_state(void) {
    enum { PATIENCE = 1000 /* milliseconds */ };
    struct stat about;
    int waiting = 0;
    if (ranks_launched() || fstat(STDIN_FILENO, &about))
        return NO_INPUT;
    if (S_ISREG(about.st_mode))
        return lseek(STDIN_FILENO, 0, SEEK_CUR) < about.st_size ? GIVEN_INPUT
                                                                : NO_INPUT;
    if (!S_ISFIFO(about.st_mode) && !S_ISSOCK(about.st_mode))
        return NO_INPUT;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    if (!poll(&in, 1, PATIENCE))
        return SILENT_INPUT;
    return !ioctl(STDIN_FILENO, FIONREAD, &waiting) && waiting > 0 ? GIVEN_INPUT
                                                                   : NO_INPUT;
}

long lost_processors(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}
