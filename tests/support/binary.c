/* binary.c: runs the program (NORMA_RUN, else ./run) with a chosen folder,
 * input, output, terminal and limits. */
#include "tests/support/binary.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { TIME_LIMIT = 300 /* seconds; long enough for valgrind */ };

Setup setup;
int status;
char out[1 << 20], err[1 << 16], folder[PATH_MAX];
size_t n_out;
bool suspended_as_before, prompts_as_before, ended_as_before;
char terminal_text[1 << 21];
static size_t n_terminal_text;

void binary_folder(const char *name) {
    if (!realpath(temporary(""), folder))
        abort();
    strcat(folder, "/");
    strcat(folder, name);
    if (mkdir(folder, 0700))
        abort();
}

const char *inside(const char *name) {
    static char paths[4][2 * PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void write_file(const char *name, const char *text) {
    FILE *f = fopen(inside(name), "wb");
    fputs(text, f);
    fclose(f);
}

int files_in(const char *name) {
    int n = -2; /* . and .. */
    DIR *dir = opendir(inside(name));
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static size_t read_text(const char *name, char *text, size_t room) {
    FILE *in = fopen(inside(name), "rb");
    size_t n = in ? fread(text, 1, room - 1, in) : 0;
    text[n] = '\0';
    if (in)
        fclose(in);
    return n;
}

static void redirect(int fd, const char *path, int flags) {
    int from = open(path, flags, 0600);
    if (from < 0 || dup2(from, fd) < 0)
        _exit(127);
}

/* terminal: the master side of the program's terminal, or -1. */
static void child(const char *binary, char **args, const int *input,
                  const int *output, int terminal) {
    alarm(TIME_LIMIT);
    signal(SIGINT, SIG_DFL); /* background processes of a shell ignore both */
    signal(SIGQUIT, SIG_DFL);
    if (setup.terminal)
        setsid(); /* the next terminal opened is the controlling one */
    if (chdir(folder))
        _exit(127);
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    setenv("XDG_STATE_HOME", inside("state"), 1);
    if (setup.environment)
        putenv((char *)(uintptr_t)setup.environment);
    redirect(0,
             setup.input      ? "stdin"
             : setup.terminal ? ptsname(terminal)
                              : "/dev/null",
             setup.read_only ? O_RDONLY : O_RDWR);
    redirect(1, setup.output ? setup.output : "stdout",
             O_WRONLY | O_CREAT | O_TRUNC);
    redirect(2, "stderr", O_WRONLY | O_CREAT | O_TRUNC);
    if (setup.endless_input)
        dup2(input[0], 0);
    if (setup.closed_output || setup.blocked_output)
        dup2(output[1], 1);
    close(output[1]);
    close(output[0]);
    for (int fd = 0; fd < 3; fd++)
        if (setup.closed & 1 << fd)
            close(fd);
    struct rlimit limit = {(rlim_t)setup.file_size, (rlim_t)setup.file_size};
    /* gcov cannot write there, see tests/support/wrap.c */
    if (setup.file_size)
        setenv("GCOV_PREFIX", "/dev/null", 1);
    if (setup.file_size)
        setrlimit(RLIMIT_FSIZE, &limit);
    if (setup.memory)
        setrlimit(RLIMIT_AS, &(struct rlimit){setup.memory, setup.memory});
    execv(binary, args);
    _exit(127);
}

/* Appends to `terminal_text` what the program has written to its terminal. */
static void look_at_terminal(int terminal) {
    ssize_t n;
    while ((n = read(terminal, terminal_text + n_terminal_text,
                     sizeof terminal_text - 1 - n_terminal_text)) > 0)
        n_terminal_text += (size_t)n;
    terminal_text[n_terminal_text] = '\0';
}

/* How often the text has another one in it. */
static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *s = text; *part && (s = strstr(s, part)); s++)
        n++;
    return n;
}

/* Whether the program has a handler of SIGINT, according to /proc. */
static bool handles_interrupt(pid_t pid) {
    char path[64], text[4096] = {0};
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *in = fopen(path, "rb");
    size_t n = in ? fread(text, 1, sizeof text - 1, in) : 0;
    const char *caught = n ? strstr(text, "SigCgt:") : NULL;
    if (in)
        fclose(in);
    return caught && strtoull(caught + 7, NULL, 16) & 1ull << (SIGINT - 1);
}

/* Whether the pipe has data, and as much as 0.2 s ago. */
static bool is_full(int pipe_end) {
    int before = 0, n = 0;
    ioctl(pipe_end, FIONREAD, &before);
    usleep(200000);
    ioctl(pipe_end, FIONREAD, &n);
    return n > 0 && n == before;
}

/* Whether the moment for Ctrl-C has come. */
static bool is_time(pid_t pid, int output, int terminal) {
    struct stat st;
    switch (setup.interrupt) {
    case NEVER: break;
    case AT_OUTPUT: return stat(inside("stdout"), &st) == 0 && st.st_size > 0;
    case WHEN_HANDLED: return handles_interrupt(pid);
    case WHEN_BLOCKED: return is_full(output);
    case AT_PROMPT:
        look_at_terminal(terminal);
        return strstr(terminal_text, "User: ");
    }
    return false;
}

static struct termios first; /* the terminal's settings before the run */

static bool is_as_before(int terminal) {
    struct termios now;
    return !tcgetattr(terminal, &now) && now.c_lflag == first.c_lflag &&
           now.c_iflag == first.c_iflag;
}

/* After Ctrl-Z the program needs a moment. */
static void look_at_prompt(int terminal) {
    for (int i = 0; i < 200 && is_as_before(terminal); i++)
        usleep(10000);
    prompts_as_before |= is_as_before(terminal);
}

static void interrupt(pid_t pid, int output, int terminal) {
    /* the pipe may be full before the program blocks on it */
    /* each takes 0.2 s */
    int times = setup.interrupt == WHEN_BLOCKED ? 8 : 1;
    for (int i = 0, n = 0; i < 100 * TIME_LIMIT && n < times; i++) {
        n = is_time(pid, output, terminal) ? n + 1 : 0;
        if (n < times)
            usleep(10000);
    }
    if (setup.interrupt == AT_PROMPT)
        look_at_prompt(terminal);
    if (setup.interrupt != AT_PROMPT || setup.signal)
        kill(pid, setup.signal ? setup.signal : SIGINT);
    else if (write(terminal, "\x03\x03", 2) != 2)
        abort(); /* the first one asks */
}

/* Waits until the program has written `text` `times` times and more than `size`
 * bytes, to a file or (NULL) its terminal. Returns false if it ends first. */
static bool wait_for(pid_t pid, int terminal, const char *name,
                     const char *text, int times, size_t size) {
    for (siginfo_t ended = {0}; !ended.si_pid; usleep(5000)) {
        look_at_terminal(terminal);
        size_t n_read =
            name ? read_text(name, err, sizeof err) : n_terminal_text;
        if (count(name ? err : terminal_text, text) >= times && n_read > size)
            return true;
        waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    return false;
}

/* Waits until the program has stopped itself, looks at its terminal, and lets
 * it go on. */
static void resume(pid_t pid, int terminal) {
    siginfo_t stopped = {0};
    while (!stopped.si_pid &&
           !waitid(P_PID, (id_t)pid, &stopped, WSTOPPED | WEXITED | WNOWAIT))
        usleep(10000);
    suspended_as_before = is_as_before(terminal);
    kill(pid, SIGCONT);
}

/* Types n bytes, and looks at what is terminal_text: both queues are short. */
static void type(int terminal, const char *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t n_written = write(terminal, bytes + at, n - at);
        look_at_terminal(terminal);
        at += n_written > 0 ? (size_t)n_written : 0;
    }
}

/* Types each line at a prompt. The program asks for pastes when it starts, at
 * the begin and the end of a message, and after it was stopped. */
static void type_lines(pid_t pid, int terminal) {
    for (int i = 0, n_stops = 0; setup.typed[i]; i++) {
        const char *line = setup.typed[i],
                   *end = line + strcspn(line, "\3\5\x1a");
        size_t n = (size_t)(end - line);
        struct stat st = {0};
        bool edits = !setup.environment && !setup.read_only; /* not dumb */
        if (!wait_for(pid, terminal, edits ? NULL : "stderr",
                      edits ? "\033[?2004h" : "User: ",
                      edits ? 2 * i + 2 - n_stops : i + 1, 0))
            return;
        read_text("stderr", err, sizeof err);
        int n_answers = count(err, "Assistant: ") + 1;
        if (edits)
            look_at_prompt(terminal);
        stat(inside("stdout"), &st);
        bool enters = n && line[n - 1] == '\n'; /* the key sends "\r" */
        type(terminal, line, n - enters);
        type(terminal, "\r", enters);
        if (*end == '\3' &&
            !wait_for(pid, terminal, "stdout", "", 0, (size_t)st.st_size))
            return;
        if (*end == '\5' &&
            !wait_for(pid, terminal, "stderr", "Assistant: ", n_answers, 0))
            return;
        if (*end && write(terminal, *end == '\x1a' ? end : "\3", 1) != 1)
            return;
        if (*end != '\x1a')
            continue;
        resume(pid, terminal);
        n_stops++; /* no new prompt follows */
    }
}

/* Splits a line at spaces; an argument may be in single quotes. */
static int split(char *line, char **args, int max) {
    int n = 0;
    for (char *s = line + strspn(line, " "); *s && n < max; n++) {
        char end = *s == '\'' ? '\'' : ' ';
        args[n] = s += end == '\'';
        while (*s && *s != end)
            s++;
        if (*s)
            *s++ = '\0';
        s += strspn(s, " ");
    }
    args[n] = NULL;
    return n;
}

int run(const char *format, ...) {
    static char binary[PATH_MAX], line[1 << 16], *args[64];
    int input[2], output[2], state,
        terminal = setup.terminal ? posix_openpt(O_RDWR | O_NOCTTY) : -1;
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    args[0] = binary;
    split(line, args + 1, 62);
    if (!realpath(getenv("NORMA_RUN") ? getenv("NORMA_RUN") : "./run",
                  binary) ||
        pipe(input) || pipe(output) ||
        (setup.terminal && (grantpt(terminal) || unlockpt(terminal))))
        return status = -1;
    fcntl(output[1], F_SETPIPE_SZ, 4096); /* small, so that it fills up */
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    tcgetattr(terminal, &first);
    prompts_as_before = false;
    n_terminal_text = 0;
    unlink(inside("stdout"));
    unlink(inside("stderr"));
    if (setup.input) {
        FILE *text = fopen(inside("stdin"), "wb");
        fwrite(setup.input, 1,
               setup.input_size ? setup.input_size : strlen(setup.input), text);
        fclose(text);
    }
    if (!setup.blocked_output)
        close(output[0]); /* closed before the program writes */
    pid_t pid = fork();
    if (pid == 0)
        child(binary, args, input, output, terminal);
    close(output[1]);
    if (setup.interrupt)
        interrupt(pid, output[0], terminal);
    if (setup.typed)
        type_lines(pid, terminal);
    for (; setup.terminal && !waitpid(pid, &state, WNOHANG); usleep(1000))
        look_at_terminal(terminal);
    if (!setup.terminal)
        waitpid(pid, &state, 0);
    if (setup.blocked_output)
        close(output[0]);
    close(input[0]);
    close(input[1]);
    ended_as_before = setup.terminal && is_as_before(terminal);
    if (setup.terminal)
        close(terminal);
    status = WIFEXITED(state) ? WEXITSTATUS(state) : KILLED + WTERMSIG(state);
    read_text("stderr", err, sizeof err);
    read_text("stdout", out, sizeof out);
    struct stat st;
    n_out = stat(inside("stdout"), &st) == 0 ? (size_t)st.st_size : 0;
    memset(&setup, 0, sizeof setup);
    return status;
}

bool one_line(const char *text) {
    const char *newline = strchr(text, '\n');
    return newline && newline > text && !newline[1];
}

void check_refused(int expected, const char *mention, const char *arguments) {
    run("%s", arguments);
    CHECK(status == expected, "run %s: status %d, expected %d; stderr: %s",
          arguments, status, expected, err);
    CHECK(one_line(err), "run %s: not one line: %s", arguments, err);
    CHECK(strstr(err, mention), "run %s: no '%s' in: %s", arguments, mention,
          err);
    CHECK(n_out == 0, "run %s: on stdout: %s", arguments, out);
}
