/* test.h: what all tests share: counting and checks; the writers of test models
 * have headers of their own.
 *
 * A suite is a function that calls TEST(f) for each of its tests; a test ends
 * at its first CHECK that fails. Suite X is in test_X.c; suites.h lists them.
 */
#pragma once

#include "tests/support/suites.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Runs and counts a test. Fails the running test with a message. Skips the
 * running test. */
void test_run(const char *name, void (*test)(void));
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void test_skip(const char *why);

#define TEST(f) test_run(#f, f)

/* CHECK(condition, "found %d", value): ends the test with a failure if the
 * condition is false. */
#define CHECK(condition, ...)                                                  \
    do {                                                                       \
        if (!(condition)) {                                                    \
            test_fail(__FILE__, __LINE__, __VA_ARGS__);                        \
            return;                                                            \
        }                                                                      \
    } while (0)

/* Called before and after a suite: make and remove its temporary folder.
 * test_counts() prints the numbers of tests and returns whether one failed. */
void test_begin(void);
void test_end(void);
int test_counts(void);

/* temporary_folder() makes a new folder with a unique name and writes its path;
 * folder_remove() removes a folder with its contents. */
void temporary_folder(char *path, size_t room);
void folder_remove(const char *path);

/* A path in the temporary folder of this run. The string is valid until the
 * next 8 calls. */
const char *temporary(const char *name);

/* Replaces the first `old` in a file by `new`; aborts if it is missing. */
void replace_in_file(const char *path, const char *old, const char *new);

/* The path of a file in the folder NORMA_CHECKPOINTS. NULL if it is missing;
 * the test then calls test_skip(NO_CHECKPOINTS). */
const char *real_checkpoint(const char *name);
#define NO_CHECKPOINTS                                                                                      \
    "NORMA_CHECKPOINTS=FOLDER runs these on real files: stories260K.bin and tok512.bin (see docs/models.md" \
    "), llama32k.bin, minimind/tokenizer.json"

/* Between these calls stderr is captured; stderr_show() returns the number of
 * its lines. */
void stderr_hide(void);
int stderr_show(void);

/* The first 16383 bytes of the captured stderr. */
const char *stderr_text(void);

/* Whether NORMA_FAST is set: fewer cases, for valgrind. Whether the loops that
 * `make test` shortens run in full: if NORMA_THOROUGH is set, as in .ci/run
 * --all. */
bool test_fast(void);
bool test_thorough(void);

/* Whether NORMA_PLAIN is set: every session runs plain.c. */
bool test_plain(void);

/* The largest |x| and the largest |x - y| of n elements; NaN if one is NaN. */
double largest(const float *x, int n);
double largest_difference(const float *x, const float *y, int n);

/* Defined under sanitizers, which map terabytes and may print more than one
 * line. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
