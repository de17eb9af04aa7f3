/* test_base.c: messages, memory, files, the running program.
 *
 * Owns what the rest of the program takes for granted of base/. UTF-8 is test_stream.c's, Ctrl-C
 * test_cli.c's.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
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

/* ---- the hash ----------------------------------------------------------------------------- */

/* SipHash-1-3 of 0 to 63 bytes 00 01 02 ... with the key 00 01 ... 0f, the inputs of the test vectors of Aumasson and
 * Bernstein. */
static void the_hash_has_the_published_values(void) {
    static const uint64_t values[64] = {
        0xabac0158050fc4dc, 0xc9f49bf37d57ca93, 0x82cb9b024dc7d44d, 0x8bf80ab8e7ddf7fb, 0xcf75576088d38328,
        0xdef9d52f49533b67, 0xc50d2b50c59f22a7, 0xd3927d989bb11140, 0x369095118d299a8e, 0x25a48eb36c063de4,
        0x79de85ee92ff097f, 0x70c118c1f94dc352, 0x78a384b157b4d9a2, 0x306f760c1229ffa7, 0x605aa111c0f95d34,
        0xd320d86d2a519956, 0xcc4fdd1a7d908b66, 0x9cf2689063dbd80c, 0x8ffc389cb473e63e, 0xf21f9de58d297d1c,
        0xc0dc2f46a6cce040, 0xb992abfe2b45f844, 0x7ffe7b9ba320872e, 0x525a0e7fdae6c123, 0xf464aeb267349c8c,
        0x45cd5928705b0979, 0x3a3e35e3ca9913a5, 0xa91dc74e4ade3b35, 0xfb0bed02ef6cd00d, 0x88d93cb44ab1e1f4,
        0x540f11d643c5e663, 0x2370dd1f8c21d1bc, 0x81157b6c16a7b60d, 0x4d54b9e57a8ff9bf, 0x759f12781f2a753e,
        0xcea1a3bebf186b91, 0x2cf508d3ada26206, 0xb6101c2da3c33057, 0xb3f47496ae3a36a1, 0x626b57547b108392,
        0xc1d2363299e41531, 0x667cc1923f1ad944, 0x65704ffec8138825, 0x24f280d1c28949a6, 0xc2ca1cedfaf8876b,
        0xc2164bfc9f042196, 0xa16e9c9368b1d623, 0x49fb169c8b5114fd, 0x9f3143f8df074c46, 0xc6fdaf2412cc86b3,
        0x7eaf49d10a52098f, 0x1cf313559d292f9a, 0xc44a30dda2f41f12, 0x36fae98943a71ed0, 0x318fb34c73f0bce6,
        0xa27abf3670a7e980, 0xb4bcc0db243c6d75, 0x23f8d852fdb71513, 0x8f035f4da67d8a08, 0xd89cd0e5b7e8f148,
        0xf6f4e6bcf7a644ee, 0xaec59ad80f1837f2, 0xc3b2f6154b6694e0, 0x9d199062b7bbb3a8,
    };
    const HashKey key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    char bytes[64];
    for (int n = 0; n < 64; n++) {
        bytes[n] = (char)n;
        const uint64_t hash = hash_bytes(key, bytes, (size_t)n);
        CHECK(hash == values[n], "of %d bytes %016llx", n, (unsigned long long)hash);
    }
}

static void keys_are_drawn_anew(void) {
    HashKey a = {0}, b = {0};
    CHECK(!hash_key(&a) && !hash_key(&b), "no key");
    CHECK(a.low != b.low && a.high != b.high, "the same key twice");
    CHECK(hash_bytes(a, "piece", 5) != hash_bytes(b, "piece", 5), "the key makes no difference");
}

void suite_base(void) {
    TEST(a_message_is_one_line_without_control_characters);
    TEST(a_long_message_is_cut);
    TEST(products_that_overflow_are_seen);
    TEST(memory_is_aligned_or_refused);
    TEST(a_file_is_read_whole);
    TEST(dropped_pages_come_back);
    TEST(a_file_is_known_by_any_name);
    TEST(an_output_appears_whole_or_not_at_all);
    TEST(files_beside_the_program_are_found);
    TEST(a_file_is_no_terminal);
    TEST(the_hash_has_the_published_values);
    TEST(keys_are_drawn_anew);
}
