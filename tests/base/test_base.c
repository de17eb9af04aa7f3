/* test_base.c: base/: messages, memory, files, the process.
 *
 * test_stream.c tests UTF-8, test_cli.c Ctrl-C.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/process.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- messages ----------------------------------------------------------- */

static void a_message_is_one_line_without_control_characters(void) {
    stderr_hide();
    int failed = fail("a%sb", "\n\x1b\x7f\t\xc2\x9b"), input = bad_input("in"),
        usage = bad_usage("use %d", 7);
    note("%s %d", "caf\xc3\xa9", 3);
    int lines = stderr_show();
    CHECK(failed == -1 && input == 1 && usage == 2, "%d, %d, %d", failed, input,
          usage);
    CHECK(
        lines == 4 &&
            !strcmp(stderr_text(),
                    "run: a?????b\nrun: in\nrun: use 7\nnote: caf\xc3\xa9 3\n"),
        "stderr: %s", stderr_text());
}

/* One '?' for each control character and for each invalid byte. */
static void control_characters_are_not_printed(void) {
    static const char *const cases[][2] = {
        {"\xc2\x80\xc2\x9f", "??"},               /* the first and last of C1 */
        {"\xc2\xa0\xc3\xbf", "\xc2\xa0\xc3\xbf"}, /* the characters after C1 */
        {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "???"}, /* direction marks */
        /* neighbours of the next case */
        {"\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x80\xa7\xe2\x80\xaf"},
        /* line separators, direction embeddings */
        {"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae", "????"},
        {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9", "\xe2\x81\xa5?"
                                                 "?"}, /* direction isolates */
        {"a\xff\xc3.\xe2\x80", "a??.??"},              /* invalid UTF-8 */
        {"\xe6\x96\x87.\xf0\x9f\x98\x80", "\xe6\x96\x87.\xf0\x9f\x98\x80"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], expected[96];
        strcpy(text, cases[i][0]);
        make_printable(text);
        CHECK(!strcmp(text, cases[i][1]), "case %zu: %s", i, text);
        snprintf(expected, sizeof expected, "note: %s\n", cases[i][1]);
        stderr_hide();
        note("%s", cases[i][0]);
        stderr_show();
        CHECK(!strcmp(stderr_text(), expected), "case %zu: %s", i,
              stderr_text());
    }
}

static void failures_may_be_notes(void) {
    stderr_hide();
    print_failures_as_notes(true);
    int failed = fail("no %s", "tokenizer");
    print_failures_as_notes(false);
    fail("all");
    stderr_show();
    CHECK(failed == -1 &&
              !strcmp(stderr_text(), "note: no tokenizer\nrun: all\n"),
          "stderr: %s", stderr_text());
}

static void a_long_message_is_cut(void) {
    stderr_hide();
    note("%02000d", 0);
    CHECK(stderr_show() == 1, "stderr: %s", stderr_text());
}

/* ---- memory ------------------------------------------------------------- */

static void overflow_of_products_is_detected(void) {
    size_t product = 1;
    CHECK(multiply_sizes(SIZE_MAX / 3, 3, &product) &&
              product == SIZE_MAX / 3 * 3,
          "%zu", product);
    CHECK(multiply_sizes(SIZE_MAX, 1, &product) && product == SIZE_MAX, "%zu",
          product);
    CHECK(multiply_sizes(0, SIZE_MAX, &product) && product == 0, "%zu",
          product);
    CHECK(!multiply_sizes(SIZE_MAX / 2 + 1, 2, &product) &&
              !multiply_sizes(SIZE_MAX, SIZE_MAX, &product),
          "an overflow");
}

static void memory_is_aligned_or_refused(void) {
    static const size_t sizes[] = {
        0, 1, 63, 64, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *p = allocate(sizes[i], 1);
        CHECK(p && (uintptr_t)p % 64 == 0, "%zu bytes at %p", sizes[i],
              (void *)p);
        memset(p, 1, sizes[i]);
        free(p);
    }
    stderr_hide();
    const void *none = allocate_quietly(SIZE_MAX / 2, 3),
               *no_bytes = allocate(SIZE_MAX, 1);
    /* 2^64, which wraps to 0 */
    const void *wrapped = allocate_quietly(SIZE_MAX / 4 + 1, 4);
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "out of memory: "),
          "stderr: %s", stderr_text());
    CHECK(!none && !no_bytes && !wrapped,
          "allocates more than the address space");
}

/* 1,000,000 bytes, a few at a time; then an impossible size: one message, and
 * every later call fails. */
static void a_buffer_grows_and_remembers_a_failure(void) {
    Buffer b = {0};
    buffer_append(&b, "", 0);
    CHECK(!b.failed && b.n == 0 && b.bytes && !b.bytes[0], "%zu bytes", b.n);
    for (int i = 0; b.n < 1000000; i++)
        buffer_append(&b, "0123456", (size_t)(i % 8));
    CHECK(!b.failed && strlen(b.bytes) == b.n, "%zu bytes", b.n);
    for (size_t i = 0, at = 0; at < b.n; at += i++ % 8)
        CHECK(!strncmp(b.bytes + at, "0123456", i % 8),
              "other bytes from %zu on", at);
    size_t n = b.n;
    stderr_hide();
    buffer_append(&b, "x", SIZE_MAX - n);
    bool failed = b.failed;
    buffer_append(&b, "x", 1);
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "out of memory: "),
          "stderr: %s", stderr_text());
    CHECK(failed && b.failed && b.n == n && !b.bytes[n], "%zu bytes, failed %d",
          b.n, b.failed);
    free(b.bytes);
}

/* ---- available memory --------------------------------------------------- */

/* Writes a file of a simulated /proc and /sys in the folder "system". */
static void write_system(const char *name, const char *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", temporary("system"), name);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "wb");
    if (!f)
        abort();
    fputs(text, f);
    fclose(f);
}

/* Quotas of control groups, rounded up, and memory limits of version 1. */
static void limits_of_control_groups(void) {
#define MANY 1000000 /* at least: no limit */
    static const struct {
        const char *name, *text;
        /* with this file and the earlier ones */
        size_t processors, memory;
    } steps[] = {
        {"proc/meminfo", "MemAvailable:   9000000 kB\n", MANY, 9216000000},
        {"proc/self/cgroup",
         "12:memory:/docker/m\n5:cpu,cpuacct:/docker/c\n1:name=systemd:/\n"
         "0::/c/d\n",
         MANY, 9216000000},
        {"sys/fs/cgroup/c/d/cpu.max", "max 100000\n", MANY, 9216000000},
        {"sys/fs/cgroup/c/d/cpu.max", "400000 100000\n", 4, 9216000000},
        {"sys/fs/cgroup/c/d/cpu.max", "350000 50000\n", 7, 9216000000},
        {"sys/fs/cgroup/c/d/cpu.max", "450001 150000\n", 4, 9216000000},
        {"sys/fs/cgroup/c/cpu.max", "150000 100000\n", 2, 9216000000},
        {"sys/fs/cgroup/cpu.max", "1000 100000\n", 1, 9216000000},
        {"sys/fs/cgroup/cpu.max", "max 100000\n", 2, 9216000000},
        {"sys/fs/cgroup/c/cpu.max", "max 100000\n", 4, 9216000000},
        {"sys/fs/cgroup/c/d/cpu.max", "max 100000\n", MANY, 9216000000},
        /* version 1: a group, and the container's own, at the root */
        {"sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_period_us", "50000\n",
         MANY, 9216000000},
        {"sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_quota_us", "-1\n", MANY,
         9216000000},
        {"sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_quota_us", "300000\n", 6,
         9216000000},
        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n", 6,
         9216000000},
        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n", 3,
         9216000000},
        {"sys/fs/cgroup/memory/docker/m/memory.limit_in_bytes",
         "9223372036854771712\n", 3, 9216000000},
        {"sys/fs/cgroup/memory/docker/m/memory.limit_in_bytes", "8000000000\n",
         3, 8000000000},
        {"sys/fs/cgroup/memory/docker/m/memory.usage_in_bytes", "3000000000\n",
         3, 5000000000},
        {"sys/fs/cgroup/memory/docker/m/memory.stat",
         "inactive_file 1000000000\nactive_file 500000000\n", 3, 6500000000},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000000\n", 3,
         4000000000},
    };
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf %s", temporary("system"));
    CHECK(!system(command), "%s", command);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        write_system(steps[i].name, steps[i].text);
        Limits found = limits_of(temporary("system"));
        CHECK((steps[i].processors == MANY
                   ? found.processors >= MANY
                   : found.processors == steps[i].processors) &&
                  found.memory == steps[i].memory,
              "step %zu, from %s on %zu processors, expected %zu, %zu bytes", i,
              steps[i].name, found.processors, steps[i].processors,
              found.memory);
    }
    CHECK(!system(command), "%s", command);
}

/* OMP_NUM_THREADS counts before the quota. */
static void threads_are_limited_by_quotas(void) {
    int usual = omp_get_max_threads();
    const char *given = getenv("OMP_NUM_THREADS");
    char kept[16] = "";
    omp_set_num_threads(7);
    if (given)
        snprintf(kept, sizeof kept, "%s", given);
    setenv("OMP_NUM_THREADS", "7", 1);
    processors_available = 3;
    CHECK(usual_threads() == 7, "%d threads of OMP_NUM_THREADS",
          usual_threads());
    unsetenv("OMP_NUM_THREADS");
    CHECK(usual_threads() == 3, "%d threads, a quota of 3", usual_threads());
    processors_available = 100;
    CHECK(usual_threads() == 7, "%d threads, a quota of 100", usual_threads());
    processors_available = 0;
    if (given)
        setenv("OMP_NUM_THREADS", kept, 1);
    omp_set_num_threads(usual);
}

static void memory_limits_of_the_system(void) {
    static const struct {
        const char *name, *text;
        /* available memory with this file and the earlier ones */
        size_t expected;
    } steps[] = {
        {"proc/meminfo",
         "MemTotal:       24684084 kB\nMemFree:            1 kB\nMemAvailable:   9000000 kB\n",
         9216000000},
        {"proc/self/cgroup", "12:cpu:/x\n0::/c/d\n", 9216000000},
        /* no limit, then a limit; used memory without file pages; the parent
         * group */
        {"sys/fs/cgroup/c/d/memory.max", "max\n", 9216000000},
        {"sys/fs/cgroup/c/d/memory.max", "8000000000\n", 8000000000},
        {"sys/fs/cgroup/c/d/memory.current", "3000000000\n", 5000000000},
        {"sys/fs/cgroup/c/d/memory.stat",
         "anon 5\nactive_file 500000000\ninactive_file 1000000000\n",
         6500000000},
        {"sys/fs/cgroup/c/memory.max", "4000000000\n", 4000000000},
        {"sys/fs/cgroup/memory.max", "3900000000\n", 3900000000},
        /* a limit below the used memory */
        {"sys/fs/cgroup/memory.current", "3900000001\n", 0},
    };
    CHECK(limits_of(temporary("no system")).memory >= SIZE_MAX >> 1,
          "a limit without a file");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        write_system(steps[i].name, steps[i].text);
        size_t found = limits_of(temporary("system")).memory;
        CHECK(found == steps[i].expected, "from %s on %zu bytes, expected %zu",
              steps[i].name, found, steps[i].expected);
    }
    size_t here = limits_of("").memory;
    CHECK(here > 0 && here < (size_t)sysconf(_SC_PHYS_PAGES) *
                                 (size_t)sysconf(_SC_PAGESIZE),
          "%zu bytes here", here);
}

/* ---- files -------------------------------------------------------------- */

enum { BYTES = 200001 };

/* Writes BYTES bytes, some of them zero; returns the path. */
static const char *write_bytes(const char *name) {
    const char *path = temporary(name);
    FILE *f = fopen(path, "wb");
    for (int i = 0; i < BYTES; i++)
        fputc(i * 7 % 256, f);
    fclose(f);
    return path;
}

static bool are_the_bytes(const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != i * 7 % 256)
            return false;
    return size == BYTES;
}

static void a_file_is_read_completely(void) {
    size_t size = 1;
    char *text = file_read(write_bytes("bytes"), &size);
    CHECK(text && are_the_bytes(text, size) && !text[size], "%zu bytes", size);
    free(text);
    fclose(fopen(temporary("nothing"), "wb"));
    text = file_read(temporary("nothing"), &size);
    CHECK(text && !size && !*text, "%zu bytes of an empty file", size);
    free(text);
    stderr_hide();
    char *missing = file_read(temporary("missing"), &size),
         *tree = file_read(temporary("."), &size);
    CHECK(stderr_show() == 2 && !missing && !tree, "stderr: %s", stderr_text());
}

static void dropped_pages_are_read_again(void) {
    File file;
    CHECK(!file_map(&file, write_bytes("pages")) &&
              are_the_bytes(file.data, file.size),
          "not mapped");
    memory_advise(file.data, file.size, false);
    CHECK(are_the_bytes(file.data, file.size), "other bytes");
    memory_advise(file.data + 5000, 10000, false);
    memory_advise(file.data + 1, 1, false);
    memory_advise(file.data, 0, false);
    CHECK(are_the_bytes(file.data, file.size), "other bytes");
    file_unmap(&file);
}

static void holes_are_detected(void) {
    static const struct {
        /* offset of the last byte; before it only the first bytes are
         * written */
        long at;
        bool sparse;
    } cases[] = {{BYTES, false},
                 {BYTES + 50000, false},
                 {10 * BYTES, true},
                 {1000 * BYTES, true}};
    for (int i = 0; i < 4; i++) {
        File file;
        FILE *f = fopen(write_bytes("holes"), "r+b");
        CHECK(f && !fseek(f, cases[i].at, SEEK_SET) && fputc(1, f) == 1 &&
                  !fclose(f),
              "not written");
        CHECK(!file_map(&file, temporary("holes")) &&
                  file.sparse == cases[i].sparse,
              "%ld bytes: sparse %d", cases[i].at, file.sparse);
        file_unmap(&file);
    }
}

/* Reads the byte at offset `after` from a file's end in a child process;
 * returns whether the child is killed. */
static bool dies_after(const char *path, size_t after) {
    pid_t pid = fork();
    if (!pid) {
        File file;
        if (file_map(&file, path) || !freopen("/dev/null", "w", stderr))
            _exit(0);
        const volatile uint8_t *data = file.data;
        _exit(data[file.size - 1] + data[file.size + after] < 0);
    }
    int state = 0;
    waitpid(pid, &state, 0);
    return pid > 0 && !(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

/* Tests tests/support/wrap.c: reading past the end of a mapped file is fatal,
 * for a text from the first byte on. */
static void reading_past_a_file_is_fatal(void) {
    char text[100];
    memset(text, 'a', sizeof text);
    for (size_t size = 1; size <= sizeof text; size += 33) {
        FILE *f = fopen(temporary("text"), "wb");
        fwrite(text, 1, size, f);
        fclose(f);
        CHECK(dies_after(temporary("text"), 0),
              "a text of %zu bytes: bytes after it are readable", size);
    }
    CHECK(dies_after(write_bytes("numbers"), -BYTES % 4 + 4),
          "bytes after %d bytes are readable", BYTES);
}

static void do_nothing(int signal_number) {
    (void)signal_number;
}

/* A signal ends a write to a full pipe after some of its bytes. */
static void an_interrupted_write_goes_on(void) {
    enum { SIZE = 1 << 16 };
    static char text[SIZE], read_back[SIZE];
    int ends[2];
    for (int i = 0; i < SIZE; i++)
        text[i] = (char)(i * 7 + i / 256);
    CHECK(!pipe(ends), "no pipe");
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = do_nothing}, NULL);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {0};
    pid_t pid = fork();
    if (pid == 0) {
        setitimer(ITIMER_REAL, &often, NULL);
        int status = write_whole(ends[1], text, SIZE);
        setitimer(ITIMER_REAL, &never, NULL);
        _exit(status ? 1 : 0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < SIZE; n += (size_t)got) {
        usleep(5000);
        got = read(ends[0], read_back + n, SIZE - n);
        if (got < 0)
            break;
    }
    close(ends[0]);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status %d", status);
    CHECK(n == SIZE && !memcmp(text, read_back, SIZE), "%zu bytes", n);
    signal(SIGALRM, SIG_DFL);
}

static void an_output_is_complete_or_missing(void) {
    OutputFile output;
    const char *path = temporary("output");
    CHECK(!output_open(&output, path) && fputs("new", output.stream) >= 0,
          "not open");
    CHECK(!file_exists(path), "exists before the close");
    CHECK(!output_close(&output, false) && !file_exists(path),
          "exists after a failure");
    for (int i = 0; i < 2; i++) {
        CHECK(!output_open(&output, path) &&
                  fputs(i ? "newer" : "new", output.stream) >= 0,
              "not open");
        CHECK(!output_close(&output, true) && file_exists(path), "missing");
    }
    size_t size;
    char *text = file_read(path, &size);
    CHECK(text && !strcmp(text, "newer"), "holds %s", text);
    free(text);
}

/* The text of a file, valid until the next call. */
static const char *text_of(const char *path) {
    static char text[256];
    FILE *in = fopen(path, "rb");
    text[in ? fread(text, 1, sizeof text - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    return text;
}

/* Makes the folder of a test's outputs. */
static const char *make_folder(const char *name) {
    const char *path = temporary(name);
    if (mkdir(path, 0700))
        abort();
    return path;
}

static int files_in_folder(const char *name) {
    int n = -2; /* . and .. */
    DIR *dir = opendir(temporary(name));
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static int write_output(const char *path, const char *text) {
    OutputFile output;
    if (output_open(&output, path))
        return -1;
    fputs(text, output.stream);
    return output_close(&output, true);
}

/* Reads or maps the file. */
static bool read_input(const char *path, bool maps) {
    File file;
    size_t size;
    char *text = NULL;
    bool done =
        maps ? !file_map(&file, path) : (text = file_read(path, &size)) != NULL;
    if (maps && done)
        file_unmap(&file);
    free(text);
    return done;
}

static void no_output_is_an_input(void) {
    make_folder("inputs");
    char names[3][PATH_MAX], *path = names[0];
    strcpy(names[0], write_bytes("inputs/file"));
    strcpy(names[1], temporary("inputs/other"));
    strcpy(names[2], temporary("inputs/soft"));
    CHECK(!link(path, names[1]) && !symlink("other", names[2]), "no links");
    for (int i = 0; i < 3 * 3 * 2 * 2; i++) {
        const char *input = names[i % 3], *written = names[i / 3 % 3];
        outputs_announce(i / 18 ? NULL : written,
                         i / 18 ? written : temporary("inputs/none"));
        stderr_hide();
        bool read = read_input(input, i / 9 % 2);
        CHECK(stderr_show() == 1 && strstr(stderr_text(), input) &&
                  strstr(stderr_text(), "is also an output"),
              "%s: %s", input, stderr_text());
        CHECK(!read, "%s is read, %s would be written", input, written);
    }
    outputs_announce(NULL, path);
    CHECK(read_input(write_bytes("inputs/third"), true) &&
              !write_output(path, "new"),
          "another file is not read");
    CHECK(!strcmp(text_of(path), "new"), "%s", text_of(path));
    outputs_announce("/dev/null", NULL);
    CHECK(read_input("/dev/null", false), "a device is not read");
    outputs_announce(NULL, NULL);
}

static unsigned mode_of(const char *path) {
    struct stat st;
    return lstat(path, &st) ? 0 : st.st_mode & (S_IFMT | 07777);
}

static void an_output_follows_links_and_keeps_permissions(void) {
    static const mode_t modes[] = {0600, 0640, 0666, 0755};
    mode_t mask = umask(027);
    make_folder("there");
    make_folder("links");
    CHECK(!symlink("../there/file", temporary("links/link")), "no link");
    CHECK(!write_output(temporary("there/file"), "new") &&
              mode_of(temporary("there/file")) == (S_IFREG | 0640),
          "mode %o", mode_of(temporary("there/file")));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK(!chmod(temporary("there/file"), modes[i]), "no mode");
        CHECK(!write_output(temporary("links/link"), "newer"), "not written");
        CHECK(mode_of(temporary("there/file")) == (S_IFREG | modes[i]),
              "mode %o, expected %o", mode_of(temporary("there/file")),
              (unsigned)modes[i]);
        CHECK(S_ISLNK(mode_of(temporary("links/link"))), "the link is gone");
        CHECK(!strcmp(text_of(temporary("there/file")), "newer"), "%s",
              text_of(temporary("there/file")));
    }
    umask(mask);
    CHECK(files_in_folder("there") == 1 && files_in_folder("links") == 1,
          "%d, %d files", files_in_folder("there"), files_in_folder("links"));
}

/* A link, or a chain of links, to a missing file: the file is written, as by
 * fopen(). */
static void an_output_follows_links_to_missing_files(void) {
    static const struct {
        const char *link, *to, *file;
    } cases[] = {
        {"missing/first", "new1", "missing/new1"},
        {"missing/second", "third", "target/new2"},
        {"missing/third", "../target/new2", "target/new2"},
        {"missing/fourth", "", "target/new3"}, /* an absolute path */
        {"missing/fifth", "away/new4", "target/new4"},
    };
    char absolute[PATH_MAX];
    make_folder("missing");
    make_folder("target");
    CHECK(realpath(temporary("target"), absolute) &&
              !symlink("../target", temporary("missing/away")),
          "no link");
    strcat(absolute, "/new3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(!symlink(*cases[i].to ? cases[i].to : absolute,
                       temporary(cases[i].link)),
              "no link");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OutputFile output;
        CHECK(!output_open(&output, temporary(cases[i].link)),
              "%s does not open", cases[i].link);
        CHECK(i == 2 || !file_exists(temporary(cases[i].file)),
              "%s exists before the close", cases[i].file);
        fputs(cases[i].link, output.stream);
        CHECK(!output_close(&output, true) &&
                  S_ISLNK(mode_of(temporary(cases[i].link))) &&
                  S_ISREG(mode_of(temporary(cases[i].file))) &&
                  !strcmp(text_of(temporary(cases[i].file)), cases[i].link),
              "%s: the link has mode %o, the file holds '%s'", cases[i].link,
              mode_of(temporary(cases[i].link)),
              text_of(temporary(cases[i].file)));
    }
    CHECK(files_in_folder("missing") == 7 && files_in_folder("target") == 3,
          "%d and %d files", files_in_folder("missing"),
          files_in_folder("target"));
    CHECK(!symlink("no/such", temporary("missing/folder")) &&
              !symlink("circle", temporary("missing/circle")),
          "no links");
    stderr_hide();
    int failed = write_output(temporary("missing/folder"), "new") +
                 write_output(temporary("missing/circle"), "new");
    CHECK(stderr_show() == 2 && failed == -2 && files_in_folder("missing") == 9,
          "%d, %s", failed, stderr_text());
}

/* What was read is known by device and inode, until inputs_end(), which only
 * chat calls: run it in a child. */
static void inputs_are_remembered(void) {
    make_folder("read");
    int state = 0;
    pid_t pid = fork();
    if (pid == 0) {
        char path[PATH_MAX];
        strcpy(path, write_bytes("read/file"));
        int ok = !is_input(path) && read_input(path, true) && is_input(path) &&
                 !link(path, temporary("read/other")) &&
                 is_input(temporary("read/other")) &&
                 !is_input(temporary("read/none"));
        strcpy(path, write_bytes("read/text"));
        ok = ok && read_input(path, false) && is_input(path);
        inputs_end();
        strcpy(path, write_bytes("read/later"));
        ok = ok && read_input(path, false) && !is_input(path) &&
             !is_input("/dev/null");
        _exit(!ok);
    }
    waitpid(pid, &state, 0);
    CHECK(state == 0, "state %d", state);
}

/* Replaces the system's fsync. */
static int n_synced, sync_fails;
int fsync(int fd) {
    n_synced += fd >= 0;
    errno = EIO;
    return -sync_fails;
}

/* The data does not reach the disk, or the rename fails. */
static void a_failed_output_leaves_no_file(void) {
    OutputFile output;
    make_folder("failed");
    n_synced = 0;
    CHECK(!write_output(temporary("failed/file"), "old") && n_synced == 1,
          "synced %d times", n_synced);
    stderr_hide();
    sync_fails = 1;
    int no_sync = write_output(temporary("failed/file"), "new");
    sync_fails = 0;
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "failed/file: "),
          "stderr: %s", stderr_text());
    CHECK(no_sync == -1 && files_in_folder("failed") == 1, "%d files",
          files_in_folder("failed"));
    CHECK(!strcmp(text_of(temporary("failed/file")), "old"), "%s",
          text_of(temporary("failed/file")));
    CHECK(!output_open(&output, temporary("failed/name")) &&
              !mkdir(temporary("failed/name"), 0700),
          "not open");
    stderr_hide();
    int no_name = output_close(&output, true);
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "failed/name: "),
          "stderr: %s", stderr_text());
    CHECK(no_name == -1 && files_in_folder("failed") == 2, "%d files",
          files_in_folder("failed"));
}

/* Names of any length: all files are counted, and as many named as fit. */
static void files_of_a_folder_are_listed(void) {
    struct {
        char paths[PATH_MAX], after[PATH_MAX];
    } found;
    char name[256], path[PATH_MAX];
    make_folder("many");
    snprintf(path, sizeof path, "%s", temporary("many"));
    for (int n = 0; n < 40; n++) {
        memset(&found, '#', sizeof found);
        CHECK(list_files(path, "a*.x", found.paths) == (size_t)n, "of %d files",
              n);
        CHECK(!n || (strlen(found.paths) < PATH_MAX &&
                     !strncmp(found.paths, path, strlen(path))),
              "%d files: '%s'", n, found.paths);
        for (size_t i = 0; i < sizeof found.after; i++)
            CHECK(found.after[i] == '#', "%d files: byte %zu after the paths",
                  n, i);
        snprintf(name, sizeof name, "many/a%0200d.x", n);
        write_bytes(name);
        snprintf(name, sizeof name, "many/b%d.x", n);
        write_bytes(name);
    }
}

/* ---- the running program ------------------------------------------------ */

static void files_of_the_program_s_folder_are_found(void) {
    char own[PATH_MAX] = {0}; /* this program's own name */
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "no name");
    const char *path = program_file(strrchr(own, '/') + 1);
    CHECK(path && !strcmp(path, own), "%s, expected %s", path, own);
    CHECK(!program_file("no/such.file"), "finds a missing file");
}

static void a_file_is_not_a_terminal(void) {
    FILE *f = fopen(write_bytes("plain"), "rb");
    CHECK(f && !on_terminal(f), "a terminal");
    fclose(f);
}

/* ---- the hash ----------------------------------------------------------- */

/* Polynomials modulo 2^61 - 1 of 0 to 63 bytes 00 01 02 ..., computed with
 * Python's integers. */
static void the_hash_is_a_polynomial(void) {
    static const uint64_t values[64] = {
        0x0000000000000000, 0x1974335dfb11a8e0, 0x104cd22e6fa3f274,
        0x050516d65fe897d4, 0x196332fa02890922, 0x1398cad000f5696e,
        0x054a1501cb50c6e9, 0x12adbaff84a9531f, 0x1186d17aab1eef11,
        0x1a8cd7dcfd2cd6ca, 0x1cacae62690fa1bb, 0x189ca801a9d5a475,
        0x04afbb75cdd36ffe, 0x13dca3cd299a0a07, 0x1cde6f5c4e2f2529,
        0x1dad8c848597c314, 0x18e0fa78b52148f3, 0x086862db9ca23976,
        0x0bea39f67b8dcd9b, 0x09dac908c51d0460, 0x16834f85b24edaf8,
        0x1b2340a642208506, 0x18124ac053edb527, 0x0573204660f2d92c,
        0x02621a86c411ef40, 0x0d75cf1d412314d0, 0x1d43d9cdb043b6d1,
        0x0767fe702ee0c9f9, 0x07a6152229ef02f3, 0x0e3ebbcf68ccb73b,
        0x0dccf8e7534d7965, 0x18238505320ab50a, 0x0ac917174d416c06,
        0x0c749d65e1f37944, 0x1414602df1fbc8fa, 0x0ff09c71584690e0,
        0x19255151954ac20d, 0x0ae0f5fb5d47225d, 0x029f13f6b7a28394,
        0x1cd6838470fecbfa, 0x105f85712b424475, 0x157ae65eccb5d0ba,
        0x0cf548339e3d278c, 0x0505dd5b5df60c62, 0x08eee997036e0ad7,
        0x0e14996fd967919f, 0x0fdde67930e96b71, 0x1544640410be4f28,
        0x17db6317439d17fc, 0x0af3ea7d8060fdba, 0x0cf616156a578735,
        0x030c89e2ed4b23d0, 0x1599cb993ee2d029, 0x1ef4f61e348a3b66,
        0x1638ef4739f08a5a, 0x164b8c7ffe3a8fbd, 0x05023977a63b0467,
        0x07a69625ef566776, 0x0fea71854fc5a236, 0x0fdf45191cfb7421,
        0x00cc4d19b0c870ca, 0x09edc1e0dbc02afa, 0x077bfd3f31756cec,
        0x11d0cfc844b27081,
    };
    HashKey key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    char bytes[64];
    for (int n = 0; n < 64; n++) {
        bytes[n] = (char)n;
        uint64_t hash = hash_bytes(key, bytes, (size_t)n);
        CHECK(hash % (((uint64_t)1 << 61) - 1) == values[n],
              "of %d bytes %016llx", n, (unsigned long long)hash);
    }
}

static void keys_are_random(void) {
    HashKey a = {0}, b = {0};
    CHECK(!hash_key(&a) && !hash_key(&b), "no key");
    CHECK(a.point != b.point && a.factor != b.factor, "equal keys");
    CHECK(hash_bytes(a, "piece", 5) != hash_bytes(b, "piece", 5),
          "the hash does not depend on the key");
}

/* ---- the process -------------------------------------------------------- */

/* The exit status of a child process that calls act, or KILLED + its signal;
 * stderr_text() has its messages. */
enum { KILLED = 1000 };
static int status_of(void (*act)(void)) {
    int state = 0;
    stderr_hide();
    pid_t pid = fork();
    if (pid == 0) {
        alarm(300); /* long enough for valgrind */
        act();
        _exit(0);
    }
    waitpid(pid, &state, 0);
    stderr_show();
    return WIFEXITED(state) ? WEXITSTATUS(state) : KILLED + WTERMSIG(state);
}

static int deadly;

static void begin_output(OutputFile *output) {
    handle_signals();
    ends_soon = true;
    if (output_open(output, temporary("signals/output")))
        _exit(2);
    if (files_in_folder("signals") != 1)
        _exit(3); /* the temporary file */
}

static void die_while_writing(void) {
    OutputFile output;
    signal(deadly, SIG_DFL); /* background processes of a shell may ignore it */
    begin_output(&output);
    raise(deadly);
    if (deadly == SIGINT && interrupted)
        raise(deadly); /* the first one only sets a flag */
}

/* A folder of temporary files. */
static void die_with_a_folder(void) {
    static char names[1024];
    char *at = names;
    static const char *const files[] = {"signals/folder/a", "signals/folder/b",
                                        "signals/folder/none",
                                        "signals/folder"};
    signal(deadly, SIG_DFL);
    handle_signals();
    make_folder("signals/folder");
    for (int i = 0; i < 4; i++) {
        if (i < 2)
            write_bytes(files[i]);
        at += sprintf(at, "%s", temporary(files[i])) + 1;
    }
    temporary_names = names;
    raise(deadly);
    if (deadly == SIGINT)
        raise(deadly);
}

static void ignore_a_signal(void) {
    OutputFile output;
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    begin_output(&output);
    raise(SIGHUP);
    raise(SIGINT);
    if (interrupted)
        _exit(4);
    raise(SIGXFSZ);
    output_close(&output, true);
}

static void deadly_signals_leave_no_temporary_file(void) {
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGBUS};
    make_folder("signals");
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        deadly = signals[i];
        int died = status_of(die_while_writing);
        CHECK(died == KILLED + deadly, "signal %d: %d, %s", deadly, died,
              stderr_text());
        CHECK(files_in_folder("signals") == 0, "signal %d: %d files", deadly,
              files_in_folder("signals"));
        CHECK(status_of(die_with_a_folder) ==
                      (deadly == SIGINT ? EXIT_INTERRUPTED : KILLED + deadly) &&
                  files_in_folder("signals") == 0,
              "signal %d: %d files", deadly, files_in_folder("signals"));
    }
    CHECK(status_of(ignore_a_signal) == 0 && files_in_folder("signals") == 1,
          "nohup: %d files", files_in_folder("signals"));
    unlink(temporary("signals/output"));
}

/* As PID 1 of a container, which no signal ends by itself. */
static void die_as_pid_1(void) {
    int state = 0;
    if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
        _exit(77);
    pid_t pid = fork();
    if (pid == 0) {
        if (getpid() != 1)
            _exit(78);
        die_while_writing();
        _exit(79);
    }
    waitpid(pid, &state, 0);
    _exit(WIFEXITED(state) ? WEXITSTATUS(state) : 80);
}

static void signals_end_pid_1(void) {
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGBUS};
    if (test_fast())
        return; /* valgrind fails where a signal does not end PID 1 */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        deadly = signals[i];
        int died = status_of(die_as_pid_1);
        if (died == 77) {
            test_skip("no permission to make a PID namespace");
            return;
        }
        CHECK(died == 128 + deadly && files_in_folder("signals") == 0,
              "signal %d: status %d, %d files", deadly, died,
              files_in_folder("signals"));
    }
}

static void read_a_file_that_shrinks(void) {
    OutputFile output;
    File file;
    begin_output(&output);
    setenv("NORMA_REAL_MAPS", "1", 1); /* else tests map copies */
    if (file_map(&file, write_bytes("mapped")) ||
        truncate(temporary("mapped"), 5000))
        _exit(4);
    if (*(const volatile uint8_t *)(file.data + BYTES - 1))
        _exit(5);
}

static void a_file_that_shrinks_is_an_error(void) {
    int died = status_of(read_a_file_that_shrinks);
    CHECK(died == 1 && strstr(stderr_text(),
                              "run: a mapped file cannot be read any more: ") ==
                           stderr_text(),
          "%d: %s", died, stderr_text());
    CHECK(files_in_folder("signals") == 0, "%d files",
          files_in_folder("signals"));
}

static bool interrupt_comes_later;

/* Standard input is a pipe that stays empty. */
static void interrupt_reading(void) {
    int ends[2];
    size_t size;
    handle_signals();
    ends_soon = true;
    if (pipe(ends) || dup2(ends[0], STDIN_FILENO))
        _exit(2);
    if (!interrupt_comes_later)
        raise(SIGINT);
    else if (fork() == 0) {
        usleep(50000);
        kill(getppid(), SIGINT);
        _exit(0);
    }
    if (file_read("-", &size))
        _exit(3);
    if (interrupted)
        _exit(EXIT_INTERRUPTED);
}

static void ctrl_c_ends_reading_without_a_message(void) {
    for (int later = 0; later < 2; later++) {
        interrupt_comes_later = later;
        int died = status_of(interrupt_reading);
        CHECK(died == EXIT_INTERRUPTED && !*stderr_text(), "later %d: %d, %s",
              later, died, stderr_text());
    }
}

static void use_closed_streams(void) {
    char c;
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    open_standard_streams();
    if (read(0, &c, 1) != 0 || write(1, "x", 1) != -1 || write(2, "x", 1) != -1)
        _exit(3);
    if (open("/dev/null", O_RDONLY) < 3)
        _exit(4);
}

static void use_open_streams(void) {
    open_standard_streams();
    if (write(2, "x", 1) != 1)
        _exit(2);
}

static void closed_streams_are_opened(void) {
    int closed = status_of(use_closed_streams);
    CHECK(closed == 0, "%d", closed);
    int stays_open = status_of(use_open_streams);
    CHECK(stays_open == 0 && !strcmp(stderr_text(), "x"), "%d, %s", stays_open,
          stderr_text());
}

void suite_base(void) {
    TEST(control_characters_are_not_printed);
    TEST(failures_may_be_notes);
    TEST(no_output_is_an_input);
    TEST(an_output_follows_links_and_keeps_permissions);
    TEST(a_failed_output_leaves_no_file);
    TEST(an_output_follows_links_to_missing_files);
    TEST(inputs_are_remembered);
    TEST(files_of_a_folder_are_listed);
    TEST(deadly_signals_leave_no_temporary_file);
    TEST(signals_end_pid_1);
    TEST(a_file_that_shrinks_is_an_error);
    TEST(ctrl_c_ends_reading_without_a_message);
    TEST(closed_streams_are_opened);
    TEST(a_message_is_one_line_without_control_characters);
    TEST(a_long_message_is_cut);
    TEST(overflow_of_products_is_detected);
    TEST(memory_is_aligned_or_refused);
    TEST(a_buffer_grows_and_remembers_a_failure);
    TEST(memory_limits_of_the_system);
    TEST(limits_of_control_groups);
    TEST(threads_are_limited_by_quotas);
    TEST(a_file_is_read_completely);
    TEST(dropped_pages_are_read_again);
    TEST(holes_are_detected);
    if (!test_fast())
        /* valgrind reports the expected crash */
        TEST(reading_past_a_file_is_fatal);
    TEST(an_interrupted_write_goes_on);
    TEST(an_output_is_complete_or_missing);
    TEST(files_of_the_program_s_folder_are_found);
    TEST(a_file_is_not_a_terminal);
    TEST(the_hash_is_a_polynomial);
    TEST(keys_are_random);
}
