/* test_memory.c: failing allocations in every mode.
 *
 * tests/support/wrap.c makes allocations fail. The program then ends with one
 * line, status 1 and no partial file or, if the memory is optional, with the
 * usual result.
 */
#include "tests/support/binary.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Commands with their standard input, run in a folder of samples. */
static const struct {
    const char *arguments, *input;
    bool timed; /* the output has times */
} COMMANDS[] = {
    {"v0.bin -z tokenizer.bin -i 'aa ba' -t 0 -n 12", NULL, false},
    {"v1.bin --tokens 3,4 -n 30 -b 2 -c 30 -k 5 --top-p 0.5 -s 1", NULL, false},
    {"v1.bin --tokens 3,4,3,4,3,4 -n 30 -t 0 --lookup 4", NULL, false},
    {"v2.bin -z tokenizer.bin -f - -n 6 -j 2 --kv f16", "aa ba", false},
    {"spm.gguf -i 'aa ba' -t 0 -n 12", NULL, false},
    {"moe.gguf -i 'aa ba' -t 0 -n 12", NULL, false},
    {"bpe.gguf -i 'a text' -t 0 -n 8", NULL, false},
    {"bpe -i 'a text' -t 0 -n 8", NULL, false},
    {"words -i 'a text' -t 0 -n 8", NULL, false},
    {"spm.gguf -i a -n 6 -t 0 --norm layer", NULL, false},
    {"spm.gguf -i 'aa ba' -n 12 -s 1 --samples 3 --parallel 2 -j 2", NULL,
     false},
    {"spm.gguf --prompts - -n 12 -s 1 --json", "aa ba\n\nca\n", false},
    {"spm.gguf --prompts one.jsonl -n 12 -t 0 --parallel 1", NULL, false},
    {"spm.gguf -i 'aa ba' -n 10 -s 1 --samples 2 --plain", NULL, false},
    {"-m chat spm.gguf -t 0 -n 40", "aa\nba\n", false},
    {"-m chat spm.gguf -s 1 -t 0 -n 6 --prompts talk.jsonl", NULL, false},
    {"-m chat bpe -t 0 -n 38 -i a --system b", "c\n", false},
    {"-m perplexity spm.gguf -i 'aa ba ca' --norm-sweep", NULL, false},
    {"-m tokenize words -i 'a text'", NULL, false},
    {"-m logits moe.gguf -i 'aa ba' -o out/file --dump out/d", NULL, false},
    {"-m info bpe.gguf -v", NULL, false},
    {"-m convert spm.gguf --norm layer --center -q f32 -o out/file", NULL,
     false},
    {"-m convert bpe -o out/file -q bf16", NULL, false},
    {"-m convert v0.bin -z tokenizer.bin -q f32 -o out/file", NULL, false},
    {"spm.gguf -i a -n 6 -j 2 --profile=out/file.csv", NULL, true},
    {"-m bench --seconds 0 moe.gguf --prompt-tokens 2 -n 2", NULL, true},
};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

enum { MAX_BYTES = 1 << 18 };
static char expected[1 << 16]; /* the expected standard output */
static uint8_t expected_file[MAX_BYTES], file[MAX_BYTES];
static size_t n_expected_file;

/* Reads out/file, returns its size; 0: the file is missing. */
static size_t read_file(uint8_t *bytes) {
    FILE *in = fopen(inside("out/file"), "rb");
    size_t n = in ? fread(bytes, 1, MAX_BYTES, in) : 0;
    if (in)
        fclose(in);
    return n;
}

static int run_with(int command, const char *environment) {
    setup.input = COMMANDS[command].input;
    setup.environment = environment;
    remove(inside("out/file"));
    remove(inside("out/file.csv"));
    folder_remove(inside("out/d"));
    return run("%s", COMMANDS[command].arguments);
}

/* The number of allocations, and of growths of memory streams, in a run without
 * failures; 0: it does not run. */
static int count_allocations(int command) {
    int n = 0;
    if (run_with(command, "NORMA_COUNT_ALLOCATIONS=count"))
        return 0;
    memcpy(expected, out, sizeof expected);
    n_expected_file = read_file(expected_file);
    FILE *in = fopen(inside("count"), "r");
    if (in && fscanf(in, "%d", &n) != 1)
        n = 0;
    if (in)
        fclose(in);
    return n;
}

/* stderr has one message; the other lines are notes or, with
 * `allows_statistics`, statistics. */
static bool is_failure(bool allows_statistics) {
    int failures = 0;
    for (const char *line = err, *end; (end = strchr(line, '\n'));
         line = end + 1) {
        failures += !strncmp(line, "run: ", 5);
        if (!allows_statistics && strncmp(line, "run: ", 5) != 0 &&
            strncmp(line, "note: ", 6) != 0)
            return false;
    }
    return failures == 1;
}

/* The output is a prefix of the expected text and a newline. */
static bool is_prefix(void) {
    size_t n = n_out && out[n_out - 1] == '\n' ? n_out - 1 : n_out;
    return !memcmp(out, expected, n);
}

static bool has_usual_result(void) {
    size_t n = read_file(file);
    return !strcmp(out, expected) && n == n_expected_file &&
           !memcmp(file, expected_file, n);
}

static void check_failure(int command, int k, const char *and_later) {
    char environment[64];
    snprintf(environment, sizeof environment, "NORMA_FAIL_ALLOCATION=%d%s", k,
             and_later);
    run_with(command, environment);
    const char *name = COMMANDS[command].arguments;
    bool timed = COMMANDS[command].timed,
         usual = status == 0 && (timed || has_usual_result());
    CHECK(usual || status == 1, "%s: run %s: status %d, stderr: %s",
          environment, name, status, err);
    if (usual)
        return;
    CHECK(is_failure(timed), "%s: run %s: not one line: '%s'", environment,
          name, err);
    CHECK(timed || is_prefix(), "%s: run %s: stdout: %s", environment, name,
          out);
    CHECK(files_in("out") == 0, "%s: run %s: left a file", environment, name);
}

/* Every step()-th allocation fails; under sanitizers only in one of the two
 * ways. */
#ifdef SANITIZED
enum { ONE_WAY = true };
#else
enum { ONE_WAY = false };
#endif

static int step(void) {
    return test_fast() ? 2401
           : ONE_WAY   ? (test_thorough() ? 2 : 8)
                       : (test_thorough() ? 5 : 9);
}

static void any_allocation_may_fail(void) {
    int n_runs = 0;
    setenv("OMP_NUM_THREADS", "1",
           1); /* one thread, unless the command has -j */
    binary_folder("memory");
    mkdir(inside("out"), 0700);
    CHECK(samples_write(folder) == 0, "no samples");
    write_file("one.jsonl", "{\"prompt\": \"aa ba\", \"seed\": 3, \"n\": 2}\n");
    write_file(
        "talk.jsonl",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"\"}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"aa\"}, \"ca\"]}]}\n");
    for (int c = 0; c < N_COMMANDS; c++) {
        int n = count_allocations(c);
        CHECK(n > 0, "run %s: status %d, %s", COMMANDS[c].arguments, status,
              err);
        for (int k = 1 + c % step(); k <= n; k += step()) {
            for (int later = 0; later < 2; later++) {
                if (ONE_WAY && (k / step() + later) % 2)
                    continue;
                check_failure(c, k, later ? "+" : "");
                n_runs++;
            }
        }
    }
    printf("memory: %d runs with too little of it\n", n_runs);
}

void suite_memory(void) {
    TEST(any_allocation_may_fail);
}
