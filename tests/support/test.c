/* test.c: counts of one suite, its temporary folder, capture of stderr, paths
 * of real checkpoints. */
#include "base/file.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int n_passed, n_failed, n_skipped;
static bool failed, skipped;
static char first_words[256];  /* of the running test's failure */
static char failures[1 << 13]; /* a line for each, repeated at the end */
static char folder[PATH_MAX / 2];

void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    char words[sizeof first_words];
    va_start(args, format);
    printf("%s:%d: ", file, line);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    words[strcspn(words, "\n")] = '\0';
    if (!failed)
        snprintf(first_words, sizeof first_words, "%s:%d: %.180s", file, line,
                 words);
    failed = true;
}

void test_skip(const char *why) {
    printf("skipped: %s\n", why);
    skipped = true;
}

void test_run(const char *name, void (*test)(void)) {
    const char *chosen = getenv("NORMA_TEST");
    if (chosen && strcmp(name, chosen) != 0)
        return;
    failed = skipped = false;
    test();
    if (failed)
        snprintf(failures + strlen(failures),
                 sizeof failures - strlen(failures), "FAILED  %s: %s\n", name,
                 first_words);
    fflush(stdout);
    n_failed += failed;
    n_skipped += skipped && !failed;
    n_passed += !skipped && !failed;
}

const char *temporary(const char *name) {
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

void replace_in_file(const char *path, const char *old, const char *new) {
    size_t size;
    char *text = file_read(path, &size), *at = text ? strstr(text, old) : NULL;
    FILE *out = at ? fopen(path, "wb") : NULL;
    if (!out ||
        fprintf(out, "%.*s%s%s", (int)(at - text), text, new,
                at + strlen(old)) < 0 ||
        fclose(out))
        abort();
    free(text);
}

const char *real_checkpoint(const char *name) {
    static char path[PATH_MAX];
    const char *where = getenv("NORMA_CHECKPOINTS");
    if (!where)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", where, name);
    return file_exists(path) ? path : NULL;
}

/* stderr is captured in a file, which keeps the message of a sanitizer that
 * ends the process. */
static int true_stderr = -1, hidden_stderr = -1;
static char hidden_text[1 << 14];

void stderr_hide(void) {
    char path
        [sizeof folder +
         8]; /* not temporary(): the test may still use its last 8 strings */
    snprintf(path, sizeof path, "%s/stderr", folder);
    fflush(stderr);
    true_stderr = dup(STDERR_FILENO);
    remove(path); /* overwriting a file would wait for the disk */
    hidden_stderr = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    dup2(hidden_stderr, STDERR_FILENO);
}

int stderr_show(void) {
    int lines = 0;
    size_t n = 0;
    fflush(stderr);
    dup2(true_stderr, STDERR_FILENO);
    close(true_stderr);
    lseek(hidden_stderr, 0, SEEK_SET);
    for (char c; read(hidden_stderr, &c, 1) == 1;) {
        lines += c == '\n';
        if (n < sizeof hidden_text - 1)
            hidden_text[n++] = c;
    }
    hidden_text[n] = 0;
    close(hidden_stderr);
    return lines;
}

const char *stderr_text(void) {
    return hidden_text;
}

bool test_fast(void) {
    return getenv("NORMA_FAST") != NULL;
}
bool test_thorough(void) {
    return getenv("NORMA_THOROUGH") && !test_fast();
}

void temporary_folder(char *path, size_t room) {
    const char *named = getenv("TMPDIR"), *parent = named ? named : "/tmp";
    /* tests hand this path to a shell, and `rm -rf` is one of its commands */
    if (parent[strspn(parent, "/._-+@0123456789abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ")]) {
        fprintf(stderr,
                "TMPDIR=%s: the tests need a path of letters, digits "
                "and /._-+@ only\n",
                parent);
        exit(1);
    }
    snprintf(path, room, "%s/norma-tests-XXXXXX", parent);
    if (mkdtemp(path))
        return;
    perror(path);
    exit(1);
}

void folder_remove(const char *path) {
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", path);
    if (system(command))
        fprintf(stderr, "cannot remove %s\n", path);
}

void test_begin(void) {
    temporary_folder(folder, sizeof folder);
}

void test_end(void) {
    folder_remove(folder);
}

int test_counts(void) {
    const char *chosen = getenv("NORMA_TEST");
    if (chosen && !(n_passed + n_failed + n_skipped)) {
        printf("FAILED  no test of the suite is called '%s'\n", chosen);
        n_failed++;
    }
    fputs(failures, stdout);
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    fflush(stdout);
    return n_failed > 0;
}
