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
#include <sys/stat.h>
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
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "out of memory: "), "said: %s", stderr_text());
    CHECK(!none && !nor_here, "memory for everything");
}

/* 1,000,000 bytes a few at a time; then more than there can be, once with a message, and nothing after that. */
static void a_buffer_grows_and_remembers_a_failure(void) {
    Buffer b = {0};
    buffer_append(&b, "", 0);
    CHECK(!b.failed && b.n == 0 && b.bytes && !b.bytes[0], "%zu bytes", b.n);
    for (int i = 0; b.n < 1000000; i++) buffer_append(&b, "0123456", (size_t)(i % 8));
    CHECK(!b.failed && strlen(b.bytes) == b.n, "%zu bytes", b.n);
    for (size_t i = 0, at = 0; at < b.n; at += i++ % 8)
        CHECK(!strncmp(b.bytes + at, "0123456", i % 8), "other bytes from %zu on", at);
    const size_t n = b.n;
    stderr_hide();
    buffer_append(&b, "x", SIZE_MAX - n);
    const bool failed = b.failed;
    buffer_append(&b, "x", 1);
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "out of memory: "), "said: %s", stderr_text());
    CHECK(failed && b.failed && b.n == n && !b.bytes[n], "%zu bytes, failed %d", b.n, b.failed);
    free(b.bytes);
}

/* ---- how much memory is left -------------------------------------------------------------- */

/* A file of a system that is made up, below the folder "system". */
static void write_system(const char *name, const char *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", temporary("system"), name);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "wb");
    if (!f) abort();
    fputs(text, f);
    fclose(f);
}

static void what_limits_memory(void) {
    static const struct {
        const char *name, *text;
        size_t expected; /* available from this file on */
    } steps[] = {
        {"proc/meminfo", "MemTotal:       24684084 kB\nMemFree:            1 kB\nMemAvailable:   9000000 kB\n",
         9216000000},
        {"proc/self/cgroup", "4:memory:/a/b\n12:cpu:/x\n0::/c/d\n", 9216000000},
        /* version 2: no limit, then one; what is used, but for pages of files; the group around it */
        {"sys/fs/cgroup/c/d/memory.max", "max\n", 9216000000},
        {"sys/fs/cgroup/c/d/memory.max", "8000000000\n", 8000000000},
        {"sys/fs/cgroup/c/d/memory.current", "3000000000\n", 5000000000},
        {"sys/fs/cgroup/c/d/memory.stat", "anon 5\nactive_file 500000000\ninactive_file 1000000000\n", 6500000000},
        {"sys/fs/cgroup/c/memory.max", "4000000000\n", 4000000000},
        {"sys/fs/cgroup/memory.max", "3900000000\n", 3900000000},
        /* version 1 */
        {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n", 3900000000},
        {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "3000000000\n", 3000000000},
        {"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "2500000000\n", 500000000},
        {"sys/fs/cgroup/memory/a/b/memory.stat",
         "active_file 9\ntotal_inactive_file 200000000\ntotal_active_file 100000000\n", 800000000},
        {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "700000000\n", 700000000},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", "600000000\n", 600000000},
        /* a limit that was lowered below what is used */
        {"sys/fs/cgroup/memory/memory.usage_in_bytes", "600000001\n", 0},
    };
    CHECK(memory_available(temporary("no system")) >= SIZE_MAX >> 1, "a limit without a file");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        write_system(steps[i].name, steps[i].text);
        const size_t found = memory_available(temporary("system"));
        CHECK(found == steps[i].expected, "from %s on %zu bytes, expected %zu", steps[i].name, found,
              steps[i].expected);
    }
    const size_t here = memory_available("");
    CHECK(here > 0 && here < (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), "%zu bytes here", here);
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

static void holes_are_seen(void) {
    static const struct {
        long at; /* of the last byte; before it nothing but the first and those of BYTES is written */
        bool sparse;
    } cases[] = {{BYTES, false}, {BYTES + 50000, false}, {10 * BYTES, true}, {1000 * BYTES, true}};
    for (int i = 0; i < 4; i++) {
        File file;
        FILE *f = fopen(write_bytes("holes"), "r+b");
        CHECK(f && !fseek(f, cases[i].at, SEEK_SET) && fputc(1, f) == 1 && !fclose(f), "not written");
        CHECK(!file_map(&file, temporary("holes")) && file.sparse == cases[i].sparse, "%ld bytes: sparse %d",
              cases[i].at, file.sparse);
        file_unmap(&file);
    }
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
    TEST(a_buffer_grows_and_remembers_a_failure);
    TEST(what_limits_memory);
    TEST(a_file_is_read_whole);
    TEST(dropped_pages_come_back);
    TEST(holes_are_seen);
    TEST(a_file_is_known_by_any_name);
    TEST(an_output_appears_whole_or_not_at_all);
    TEST(files_beside_the_program_are_found);
    TEST(a_file_is_no_terminal);
}
