/* test_ranks.c: the program under mpirun: the same text on any number of ranks,
 * and how ranks fail (make test MPI=1).
 *
 * Tests the processes. test_sequences.c tests that all weight types and
 * architectures have the same bits; `make test MPI=1` runs it under mpirun,
 * too.
 */
#include "kernels/lanes.h"

#include "tests/support/binary.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char program[PATH_MAX], models[PATH_MAX];

/* Runs a shell command in which $RUN is mpirun with options, $P the program,
 * and $M the folder of models. */
static void launch(const char *command) {
    setenv("NORMA_RUN", "/bin/sh", 1);
    run("-c '%s'", command);
    setenv("NORMA_RUN", program, 1);
}

/* The number of norma's messages: lines of stderr that begin with "run: ". */
static int failures(void) {
    int n = !strncmp(err, "run: ", 5);
    for (const char *at = err; (at = strstr(at, "\nrun: ")); at++)
        n++;
    return n;
}

static bool has_file(const char *name, char *bytes, size_t *n) {
    FILE *in = fopen(inside(name), "rb");
    *n = in ? fread(bytes, 1, 1 << 20, in) : 0;
    return in && !fclose(in);
}

/* ---- the same text ------------------------------------------------------ */

static const char *const COMMANDS[] = {
    "$P $M/stories.gguf -s 3 -n 90",
    "$P $M/stories.gguf -t 0 -n 120 --lookup 15 -i \"A B C A B C A B\"",
    "$P $M/stories.gguf -s 5 -n 40 --samples 5 --parallel 3",
    "$P $M/stories.gguf -s 5 -n 60 --prompts prompts --json",
    "env NORMA_ORACLE=100 $P $M/stories.gguf -s 7 -n 80",
    "$P $M/stories.gguf -s 7 -n 40 --norm none",
    "$P $M/stories.gguf -s 7 -n 40 -b 3 -j 2 --kv f32",
    "$P $M/stories.gguf -m perplexity -f prompts",
    "$P $M/stories.gguf -m chat --template zephyr -s 1 -i Hello -n 40",
    "$P $M/stories.gguf -m tokenize -i \"Once upon a time\"",
    "$P $M/stories.gguf -m info",
    "$P $M/stories.gguf -m logits -i Once -o logits",
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

static void text_is_independent_of_the_number_of_ranks(void) {
    static char expected[1 << 20], file[1 << 20], found[1 << 20];
    write_file("prompts", "Once upon a time\nThere was a hedgehog\nThe end\n");
    for (int c = 0; c < N_COMMANDS; c++) {
        char command[PATH_MAX];
        size_t size, n;
        launch(COMMANDS[c]);
        CHECK(status == 0, "%s: status %d, %s", COMMANDS[c], status, err);
        memcpy(expected, out, n_out + 1);
        bool writes = has_file("logits", file, &size);
        for (int ranks = 2; ranks <= 5; ranks++) {
            snprintf(command, sizeof command, "$RUN -n %d %s", ranks,
                     COMMANDS[c]);
            unlink(inside("logits"));
            launch(command);
            CHECK(status == 0 && !strcmp(out, expected),
                  "%s: status %d, %s, %s", command, status, out, err);
            CHECK(writes == has_file("logits", found, &n), "%s: no file",
                  command);
            CHECK(!writes || (n == size && !memcmp(file, found, n)),
                  "%s: other logits", command);
        }
        unlink(inside("logits"));
    }
}

static void profiles_have_the_gathers(void) {
    launch("$RUN -n 2 $P $M/stories.gguf -n 20 --profile=profile.csv");
    static char csv[1 << 20];
    size_t n;
    CHECK(status == 0 && has_file("profile.csv", csv, &n), "status %d, %s",
          status, err);
    csv[n] = '\0';
    CHECK(strstr(csv, ",gather,"), "no site for communication: %.300s", csv);
}

/* ---- failures ----------------------------------------------------------- */

static void a_failure_is_one_line(void) {
    static const struct {
        const char *mention, *command;
    } cases[] = {
        {"run: missing.gguf: No such file", "$RUN -n 3 $P missing.gguf"},
        {"run: rank 1: missing.gguf: No such file",
         "$RUN -n 1 $P $M/stories.gguf : -n 2 $P missing.gguf"},
        {"run: rank 1 has a different program, model",
         "$RUN -n 1 $P $M/stories.gguf : -n 1 $P tiny.bin"},
        {"run: rank 2 has a different program, model",
         "$RUN -n 2 $P $M/stories.gguf : -n 1 $P $M/stories.gguf -b 3"},
        {"run: rank 1 has a different program, model",
         "$RUN -n 1 $P $M/stories.gguf : -n 1 $P $M/stories.gguf --kv f32"},
        {"run: rank 1 has a different program, model",
         "$RUN -n 1 $P $M/stories.gguf : -n 1 $P $M/stories.gguf --norm layer"},
        {"run: rank 1 has a different program, model",
         "$RUN -n 1 $P $M/stories.gguf : -n 1 ./other $M/stories.gguf"},
        {"run: --steps is 'abc'", "$RUN -n 3 $P $M/stories.gguf -n abc"},
        {"run: rank 1: --steps is 'abc'",
         "$RUN -n 1 $P $M/stories.gguf : -n 1 $P $M/stories.gguf -n abc"},
        {"run: 5 ranks cannot share a weight of 2 rows",
         "$RUN -n 5 $P tiny.bin --tokens 0"},
        {"--norm-sweep and --plain work on one machine only",
         "$RUN -n 2 $P $M/stories.gguf --plain"},
    };
    HashModel tiny = {2, 4, 1, 1, 1, 5, 16, true, 3};
    hashmodel_write(&tiny, inside("tiny.bin"), 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        launch(cases[i].command);
        bool usage = strstr(cases[i].command, "abc") ||
                     strstr(cases[i].command, "--plain");
        CHECK(status == (usage ? 2 : 1) || (usage && status == 1),
              "%s: status %d, %s", cases[i].command, status, err);
        CHECK(failures() == 1 && strstr(err, cases[i].mention), "%s: %s",
              cases[i].command, err);
    }
}

/* If an allocation fails on rank 1 (all from the k-th on), all ranks end, with
 * one message. */
static void an_allocation_failure_on_one_rank_ends_all(void) {
    int ended = 0;
    for (int k = 1; k < 120; k += test_fast() ? 40 : 8) {
        char command[PATH_MAX];
        snprintf(
            command, sizeof command,
            "$RUN -n 1 $P $M/stories.gguf -n 40 : -n 1 env NORMA_FAIL_ALLOCATION=%d+ $P $M/stories.gguf",
            k);
        launch(command);
        CHECK(status == 0 || (status == 1 && failures() == 1),
              "allocation %d: status %d, %s", k, status, err);
        ended += status == 1;
    }
    CHECK(ended > 2, "%d of them failed", ended);
}

/* The number of processes with `word` in their command line; sends them a
 * signal, if it is not 0. */
static int processes(const char *word, int signal_number, int max) {
    DIR *dir = opendir("/proc");
    int n = 0;
    for (const struct dirent *entry;
         dir && n < max && (entry = readdir(dir));) {
        char path[PATH_MAX], line[PATH_MAX] = "";
        snprintf(path, sizeof path, "/proc/%.20s/cmdline", entry->d_name);
        FILE *in = fopen(path, "rb");
        size_t size = in ? fread(line, 1, sizeof line - 1, in) : 0;
        if (in)
            fclose(in);
        for (size_t i = 0; i < size; i++)
            line[i] = line[i] ? line[i] : ' ';
        if (strncmp(line, program, strlen(program)) != 0 || !strstr(line, word))
            continue;
        if (signal_number)
            kill(atoi(entry->d_name), signal_number);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

/* The child process starts three ranks that would run for minutes; the parent
 * kills one rank as soon as there is output. Not earlier: Open MPI 4.1 itself
 * sometimes hangs (1 of 60) if a rank is killed before MPI_Init() has
 * returned. */
static void check_killed(const char *arguments) {
    static char written[1 << 20];
    char command[PATH_MAX];
    size_t n = 0;
    int state, waited = 0;
    snprintf(
        command, sizeof command,
        "exec $RUN -n 3 $P $M/stories.gguf -s 123457 %s >killed 2>/dev/null",
        arguments);
    unlink(inside("killed"));
    pid_t pid = fork();
    if (pid == 0) {
        if (!chdir(folder))
            execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(1);
    }
    for (int i = 0; i < 3000 && processes("123457", 0, 9) < 3; i++)
        usleep(1000);
    for (int i = 0; i < 3000 && (!has_file("killed", written, &n) || !n); i++)
        usleep(10000);
    CHECK(processes("123457", SIGKILL, 1) == 1, "%s: no process was killed",
          command);
    while (waitpid(pid, &state, WNOHANG) == 0 && waited++ < 3000)
        usleep(10000);
    CHECK(waited < 3000 && (WIFSIGNALED(state) || WEXITSTATUS(state)),
          "%s: still running, or status 0", command);
    for (int i = 0; i < 500 && processes("123457", 0, 9); i++)
        usleep(10000);
    CHECK(processes("123457", 0, 9) == 0, "%s: %d processes are left", command,
          processes("123457", SIGKILL, 9));
    if (waited >= 3000)
        kill(pid, SIGKILL);
}

static void a_killed_rank_ends_all(void) {
    check_killed("--samples 123457");
    FILE *many = fopen(inside("many"), "wb"); /* mostly prefill */
    for (int i = 0; i < 200000; i++)
        fprintf(
            many,
            "Once upon a time there was a little hedgehog named Mimi who lived here\n");
    fclose(many);
    check_killed("-n 20 --prompts many");
}

/* Three ranks read a file that shrinks: each rank that needs the page prints
 * the message. */
static void a_file_that_shrinks_is_an_error(void) {
    static const char *const commands[] = {
        "timeout 60 $RUN -n 3 $P lost.gguf --samples 1000000 >there 2>err & ",
        "timeout 60 $RUN -n 1 $P $M/stories.gguf --samples 1000000 : -n 1 $P "
        "lost.gguf --samples 1000000 >there 2>err & "};
    for (int i = 0; i < 2; i++) {
        char command[PATH_MAX];
        snprintf(
            command, sizeof command,
            "cp $M/stories.gguf lost.gguf; rm -f there; export NORMA_REAL_MAPS=1; %s for i in $(seq 300); do [ -s "
            "there ] && break; sleep 0.1; "
            "done; truncate -s 8192 lost.gguf; wait $!; code=$?; cat err >&2; exit $code",
            commands[i]);
        launch(command);
        CHECK(status == 1 && failures() &&
                  strstr(err, "cannot be read any more"),
              "%d: status %d, %s", i, status, err);
    }
}

/* Under mpirun a single rank does not treat its output as a terminal: control
 * characters are written unchanged. */
static void one_rank_writes_the_bytes_of_several(void) {
    for (int n = 1; n <= 2; n++) {
        char command[128];
        snprintf(
            command, sizeof command,
            "$RUN -n %d $P $M/stories.gguf -n 6 -t 0 -i \"$(printf \"a\\007b\")\"",
            n);
        launch(command);
        CHECK(status == 0 && strstr(out, "a\ab"), "%d ranks: %s, %s", n, out,
              err);
    }
}

static void ctrl_c_ends_the_text_with_its_statistics(void) {
    setup.interrupt = AT_OUTPUT;
    launch("exec $RUN -n 3 $P $M/stories.gguf -n 60 --samples 1000000");
    CHECK(status != 0 && strstr(err, " tokens/s\n") && !failures(),
          "status %d, %s", status, err);
    CHECK(n_out > 0, "no text");
}

void suite_ranks(void) {
    char path[PATH_MAX];
    if (!realpath(getenv("NORMA_RUN"), program) || !realpath("models", models))
        abort();
    binary_folder("ranks");
    snprintf(path, sizeof path, "%s",
             inside("other")); /* another program: one byte more */
    setenv("RUN", getenv("MPIRUN") ? getenv("MPIRUN") : "mpirun", 1);
    setenv("P", program, 1);
    setenv("M", models, 1);
    launch("cp $P other && echo >>other");
    TEST(text_is_independent_of_the_number_of_ranks);
    TEST(profiles_have_the_gathers);
    TEST(a_failure_is_one_line);
    TEST(an_allocation_failure_on_one_rank_ends_all);
    TEST(a_killed_rank_ends_all);
    TEST(a_file_that_shrinks_is_an_error);
    TEST(one_rank_writes_the_bytes_of_several);
    TEST(ctrl_c_ends_the_text_with_its_statistics);
}
