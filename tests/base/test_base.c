/* test_base.c: messages, memory, files, the running program.
 *
 * Owns what the rest of the program takes for granted of base/. UTF-8 is test_stream.c's, Ctrl-C
 * test_cli.c's.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"

#include "tests/support/test.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- messages --------------------------------------------------------------------------- */

static void a_message_is_one_line_without_control_characters(void) {
    stderr_hide();
    const int failed = fail("a%sb", "\n\x1b\x7f\t"), input = bad_input("in"), usage = bad_usage("use %d", 7);
    note("%s %d", "caf\xc3\xa9", 3);
    const int lines = stderr_show();
    CHECK(failed == -1 && input == 1 && usage == 2, "%d, %d, %d", failed, input, usage);
    CHECK(lines == 4 && !strcmp(stderr_text(), "run: a????b\nrun: in\nrun: use 7\nnote: caf\xc3\xa9 3\n"), "said: %s",
          stderr_text());
}

static void a_long_message_is_cut(void) {
    stderr_hide();
    note("%02000d", 0);
    CHECK(stderr_show() == 1, "said: %s", stderr_text());
}

/* ---- memory ----------------------------------------------------------------------------- */

static void products_that_overflow_are_seen(void) {
    size_t product = 1;
    CHECK(multiply(SIZE_MAX / 3, 3, &product) && product == SIZE_MAX / 3 * 3, "%zu", product);
    CHECK(multiply(SIZE_MAX, 1, &product) && product == SIZE_MAX, "%zu", product);
    CHECK(multiply(0, SIZE_MAX, &product) && product == 0, "%zu", product);
    CHECK(!multiply(SIZE_MAX / 2 + 1, 2, &product) && !multiply(SIZE_MAX, SIZE_MAX, &product), "an overflow");
}

static void memory_is_aligned_or_refused(void) {
    static const size_t sizes[] = {0, 1, 63, 64, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *p = allocate(sizes[i], 1);
        CHECK(p && (uintptr_t)p % 64 == 0, "%zu bytes at %p", sizes[i], (void *)p);
        memset(p, 1, sizes[i]);
        free(p);
    }
    stderr_hide();
    const void *none = allocate_quietly(SIZE_MAX / 2, 3), *nor_here = allocate(SIZE_MAX, 1);
    const void *wrapped = allocate_quietly(SIZE_MAX / 4 + 1, 4); /* 2^64: 0 where nobody looks */
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "out of memory: "), "said: %s", stderr_text());
    CHECK(!none && !nor_here && !wrapped, "memory for everything");
}

/* ---- files ------------------------------------------------------------------------------ */

enum { BYTES = 200001 };

/* BYTES bytes, zeros among them. */
static const char *write_bytes(const char *name) {
    const char *path = temporary(name);
    FILE *f = fopen(path, "wb");
    for (int i = 0; i < BYTES; i++) fputc(i * 7 % 256, f);
    fclose(f);
    return path;
}

static bool are_the_bytes(const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != i * 7 % 256) return false;
    return size == BYTES;
}

static void a_file_is_read_whole(void) {
    size_t size = 1;
    char *text = file_read(write_bytes("bytes"), &size);
    CHECK(text && are_the_bytes(text, size) && !text[size], "%zu bytes", size);
    free(text);
    fclose(fopen(temporary("nothing"), "wb"));
    text = file_read(temporary("nothing"), &size);
    CHECK(text && !size && !*text, "%zu bytes of an empty file", size);
    free(text);
    stderr_hide();
    char *missing = file_read(temporary("missing"), &size), *tree = file_read(temporary("."), &size);
    CHECK(stderr_show() == 2 && !missing && !tree, "said: %s", stderr_text());
}

static void dropped_pages_come_back(void) {
    File file;
    CHECK(!file_map(&file, write_bytes("pages")) && are_the_bytes(file.data, file.size), "not mapped");
    memory_drop(file.data, file.size);
    CHECK(are_the_bytes(file.data, file.size), "other bytes");
    memory_drop(file.data + 5000, 10000);
    memory_drop(file.data + 1, 1);
    memory_drop(file.data, 0);
    CHECK(are_the_bytes(file.data, file.size), "other bytes");
    file_unmap(&file);
}

/* Reads the byte `behind` bytes behind a file's end, in a process of its own; returns whether it dies. */
static bool dies_behind(const char *path, size_t behind) {
    const pid_t pid = fork();
    if (!pid) {
        File file;
        if (file_map(&file, path) || !freopen("/dev/null", "w", stderr)) _exit(0);
        const volatile uint8_t *data = file.data;
        _exit(data[file.size - 1] + data[file.size + behind] < 0);
    }
    int state = 0;
    waitpid(pid, &state, 0);
    return pid > 0 && !(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

/* Of the tests themselves: who reads behind a file dies (tests/support/wrap.c), a text's at the very next byte. */
static void nobody_reads_behind_a_file(void) {
    char text[100];
    memset(text, 'a', sizeof text);
    for (size_t size = 1; size <= sizeof text; size += 33) {
        FILE *f = fopen(temporary("text"), "wb");
        fwrite(text, 1, size, f);
        fclose(f);
        CHECK(dies_behind(temporary("text"), 0), "a text of %zu bytes has more behind it", size);
    }
    CHECK(dies_behind(write_bytes("numbers"), -BYTES % 4 + 4), "%d bytes have more behind them", BYTES);
}

static void a_file_is_known_by_any_name(void) {
    File file;
    const char *path = write_bytes("one");
    CHECK(!file_map(&file, path) && !link(path, temporary("other name")), "no files");
    CHECK(file_is_at(&file, path) && file_is_at(&file, temporary("other name")), "not itself");
    CHECK(!file_is_at(&file, write_bytes("copy")) && !file_is_at(&file, temporary("missing")), "another file");
    file_unmap(&file);
}

static void an_output_appears_whole_or_not_at_all(void) {
    OutputFile output;
    const char *path = temporary("output");
    CHECK(!output_open(&output, path) && fputs("new", output.stream) >= 0, "not open");
    CHECK(!file_exists(path), "there too early");
    CHECK(!output_close(&output, false) && !file_exists(path), "there all the same");
    for (int i = 0; i < 2; i++) {
        CHECK(!output_open(&output, path) && fputs(i ? "newer" : "new", output.stream) >= 0, "not open");
        CHECK(!output_close(&output, true) && file_exists(path), "not there");
    }
    size_t size;
    char *text = file_read(path, &size);
    CHECK(text && !strcmp(text, "newer"), "holds %s", text);
    free(text);
}

/* ---- the running program ---------------------------------------------------------------- */

static void files_beside_the_program_are_found(void) {
    char own[PATH_MAX] = {0}; /* this program's own name */
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "no name");
    const char *path = program_file(strrchr(own, '/') + 1);
    CHECK(path && !strcmp(path, own), "%s, expected %s", path, own);
    CHECK(!program_file("no/such.file"), "a file that is not there");
}

static void a_file_is_no_terminal(void) {
    FILE *f = fopen(write_bytes("plain"), "rb");
    CHECK(f && !on_terminal(f), "a terminal");
    fclose(f);
}

void suite_base(void) {
    TEST(a_message_is_one_line_without_control_characters);
    TEST(a_long_message_is_cut);
    TEST(products_that_overflow_are_seen);
    TEST(memory_is_aligned_or_refused);
    TEST(a_file_is_read_whole);
    TEST(dropped_pages_come_back);
    TEST(nobody_reads_behind_a_file);
    TEST(a_file_is_known_by_any_name);
    TEST(an_output_appears_whole_or_not_at_all);
    TEST(files_beside_the_program_are_found);
    TEST(a_file_is_no_terminal);
}
