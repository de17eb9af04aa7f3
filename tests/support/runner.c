/* runner.c: runs each suite in its own process, at most one per processor at a
 * time.
 *
 *     tests/all           every suite that is linked
 *     tests/all A B ...   these suites
 *     tests/all A         this suite, in this process
 *
 * NORMA_JOBS limits the number of processes; NORMA_TEST names the only test to
 * run. Failures are repeated at the end. The suite `growth` runs in the program
 * tests/growth, which counts the steps of the code that reads files (steps.c).
 */
#include "base/clock.h"
#include "base/process.h"
#include "base/ranks.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    const char *name;
    void (*run)(void); /* NULL: not linked */
    bool chosen;
    pid_t process;
    double start, processor; /* seconds: when it began; time it took */
} Suite;

#define SUITE_ROW(suite) {.name = #suite, .run = suite_##suite},
static Suite suites[] = {SUITE_LIST(SUITE_ROW)};
enum { N_SUITES = sizeof suites / sizeof *suites, MAX_REASONS = 8 };

static int n_passed, n_failed, n_skipped;
static char reasons[MAX_REASONS][256]; /* of skipped tests */
static char failures[1 << 14];         /* a line for each */
static char folder[PATH_MAX / 2];

static Suite *find_suite(const char *name) {
    for (Suite *s = suites; s < suites + N_SUITES; s++)
        if (s->run && !strcmp(s->name, name))
            return s;
    fprintf(stderr, "no suite is called '%s'\n", name);
    return NULL;
}

static const char *log_path(const Suite *s) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, s->name);
    return path;
}

/* The program that runs a suite: this one, or the one that counts steps. */
static const char *program_name(const Suite *s, const char *program) {
    static char path[PATH_MAX];
    const char *slash = strrchr(program, '/');
    if (!slash || strcmp(s->name, "growth") != 0)
        return program;
    snprintf(path, sizeof path, "%.*s/growth", (int)(slash - program), program);
    return path;
}

/* Starts a suite in a child process. */
static void start(Suite *s, const char *program) {
    const char *path = program_name(s, program);
    s->start = clock_seconds();
    if ((s->process = fork()))
        return;
    int log = open(log_path(s), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(127);
    execl(path, path, s->name, (char *)NULL);
    perror(path);
    _exit(127);
}

static void add_reason(const char *reason) {
    for (int i = 0; i < MAX_REASONS; i++) {
        if (!*reasons[i])
            snprintf(reasons[i], sizeof reasons[i], "%.255s", reason);
        if (!strncmp(reasons[i], reason, sizeof reasons[i] - 1))
            return;
    }
}

static void add_failure(const char *suite, const char *what) {
    size_t used = strlen(failures);
    snprintf(failures + used, sizeof failures - used, "FAILED  %s: %s\n", suite,
             what);
}

/* Prints the output of a suite, except its counts, its failures and the reasons
 * for skipped tests, which are collected. */
static void report(const Suite *s, int state) {
    bool found = false;
    int counts[3] = {0};
    char line[4096];
    FILE *log = fopen(log_path(s), "r");
    while (log && fgets(line, sizeof line, log)) {
        int n[3];
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%d passed, %d failed, %d skipped", &n[0], &n[1],
                   &n[2]) == 3) {
            memcpy(counts, n, sizeof counts);
            found = true;
        } else if (!strncmp(line, "skipped: ", 9))
            add_reason(line + 9);
        else if (!strncmp(line, "FAILED  ", 8))
            add_failure(s->name, line + 8);
        else
            puts(line);
    }
    if (log)
        fclose(log);
    bool ended =
        found && WIFEXITED(state) && WEXITSTATUS(state) == (counts[1] > 0);
    if (!ended) {
        snprintf(line, sizeof line, "%s %d",
                 WIFSIGNALED(state) ? "killed by signal" : "ended with status",
                 WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
        add_failure(s->name, line);
    }
    n_passed += counts[0];
    n_failed += counts[1] + !ended;
    n_skipped += counts[2];
    printf("%-6s  %-12s %4d tests %6.1f s",
           ended && !counts[1] ? "ok" : "FAILED", s->name,
           counts[0] + counts[1], clock_seconds() - s->start);
    if (counts[2])
        printf(", %d skipped (why: below)", counts[2]);
    putchar('\n');
    fflush(stdout);
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void wait_for_one(void) {
    int state;
    struct rusage used;
    pid_t process = wait4(-1, &state, 0, &used);
    for (Suite *s = suites; s < suites + N_SUITES; s++)
        if (s->process == process) {
            s->processor =
                seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
            report(s, state);
        }
}

static int by_processor(const void *a, const void *b) {
    double x = ((const Suite *)a)->processor, y = ((const Suite *)b)->processor;
    return (x < y) - (x > y);
}

/* The suites that took most processor time. */
static void print_slowest(void) {
    enum { SLOWEST = 10 };
    qsort(suites, N_SUITES, sizeof *suites, by_processor);
    puts("\nprocessor time, the ten slowest suites");
    for (int i = 0; i < SLOWEST && i < N_SUITES && suites[i].chosen; i++)
        printf("%-12s %6.1f s\n", suites[i].name, suites[i].processor);
}

static void run_chosen(const char *program) {
    const char *limit = getenv("NORMA_JOBS");
    long jobs = limit ? atol(limit) : sysconf(_SC_NPROCESSORS_ONLN);
    long running = 0;
    for (Suite *s = suites; s < suites + N_SUITES; s++) {
        if (!s->chosen)
            continue;
        if (running == (jobs > 0 ? jobs : 1)) {
            wait_for_one();
            running--;
        }
        start(s, program);
        running++;
    }
    while (running--)
        wait_for_one();
}

/* Runs a suite in this process; `growth` in the program that counts steps. */
static int run_here(Suite *s, const char *program) {
    const char *name = program_name(s, program);
    if (strcmp(name, program) != 0)
        execl(name, name, s->name, (char *)NULL);
    /* a shell ignores them in background jobs, nohup the third, and children
     * inherit that */
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    ranks_open();
    test_begin();
    s->run();
    test_end();
    return ranks_close(test_counts());
}

int main(int argc, char **argv) {
    program_invocation_short_name = "run"; /* as in expected messages */
    for (int i = 1; i < argc; i++) {
        Suite *s = find_suite(argv[i]);
        if (!s)
            return 2;
        if (argc == 2)
            return run_here(s, argv[0]);
        s->chosen = true;
    }
    for (int i = 0; i < N_SUITES && argc == 1; i++)
        suites[i].chosen = suites[i].run != NULL;
    temporary_folder(folder, sizeof folder);
    run_chosen(argv[0]);
    folder_remove(folder);
    if (getenv("NORMA_SLOWEST"))
        print_slowest();
    for (int i = 0; i < MAX_REASONS && *reasons[i]; i++)
        printf("skipped: %s\n", reasons[i]);
    fputs(failures, stdout);
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0;
}
