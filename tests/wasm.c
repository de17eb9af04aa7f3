/* wasm.c: the suite `bits` as a program of WebAssembly, which
 * scripts/check/check_wasm.py runs in node: what tests/test_bits.c needs of
 * tests/support/test.c, without processes. */
#include "base/process.h"

#include "tests/support/test.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Of base/process.c, which needs signals and a terminal. */
volatile sig_atomic_t interrupted;
const char *volatile temporary_file;

static bool failed;

void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%s:%d: ", file, line);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    failed = true;
}

void test_run(const char *name, void (*test)(void)) {
    test();
    printf("%s: %s\n", name, failed ? "FAILED" : "passed");
}

/* The folder /tmp is the caller's. */
const char *temporary(const char *name) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/%s", name);
    return path;
}

int main(void) {
    suite_bits();
    return failed;
}
