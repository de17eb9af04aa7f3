/* wrap.c: replaces system functions: mapped files end at an inaccessible page,
 * and allocations can fail.
 *
 * The tests, and the program that they run (build/VARIANT/tests/run), are
 * linked with --wrap for the functions in WRAPPED of the Makefile: calls of
 * malloc in the sources become calls of __wrap_malloc.
 *
 * - Guard pages. A mapped file is a copy that ends at an inaccessible page, so
 *   reading past its end is fatal. NORMA_REAL_MAPS in the environment disables
 *   this.
 * - Sessions. With NORMA_PLAIN in the environment every session is plain, as
 *   with --plain.
 * - Slow messages. With MPI every exchange takes NORMA_MESSAGE_DELAY
 *   microseconds longer.
 * - The clock. `virtual_clock`, if set by a test, replaces nanoseconds().
 * - Involuntary context switches. `processors_lost`, if set by a test, replaces
 *   the system's number.
 * - Available memory and processors. `bytes_available` and
 *   `processors_available`, if set by a test, replace the system's numbers.
 * - Failing allocations. NORMA_FAIL_ALLOCATION=K in the environment makes the
 *   K-th allocation fail, "K+" all from the K-th on;
 *   NORMA_COUNT_ALLOCATIONS=PATH writes their number to a file. Allocations
 *   inside the C library never fail.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "formats/family.h"
#include "model.h"
#include "plain.h"
#include "session.h"

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS
#endif
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size)   ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

/* Declares the original function and its replacement. */
#define WRAP(type, name, ...)                                                  \
    type __real_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

/* ---- clock, context switches, available memory -------------------------- */

uint64_t (*virtual_clock)(void);

WRAP(uint64_t, nanoseconds, void) {
    return virtual_clock ? virtual_clock() : __real_nanoseconds();
}

const void *(*replaced_family)(const void *found);

WRAP(const ModelFamily *, family_find, Origin *o, Naming naming,
     const char *key, StoredValue name) {
    const ModelFamily *f = __real_family_find(o, naming, key, name);
    return f && replaced_family ? replaced_family(f) : f;
}

WRAP(const ModelFamily *, family_of_gguf, const char *architecture) {
    const ModelFamily *f = __real_family_of_gguf(architecture);
    return f && replaced_family ? replaced_family(f) : f;
}

long processors_lost = -1;

WRAP(long, lost_processors, void) {
    return processors_lost >= 0 ? processors_lost : __real_lost_processors();
}

size_t bytes_available, processors_available;

WRAP(Limits, limits_of, const char *root) {
    Limits limits = __real_limits_of(root);
    if (bytes_available)
        limits.memory = bytes_available;
    if (processors_available)
        limits.processors = processors_available;
    return limits;
}

/* ---- failing allocations ------------------------------------------------ */

static atomic_long n_allocations;

/* which: "K": the K-th; "K+": the K-th and all later ones. */
static bool is_selected(const char *which, long n) {
    char *end;
    long first = which ? strtol(which, &end, 10) : 0;
    return first && (n == first || (n > first && *end == '+'));
}

void (*before_allocation)(void);

static bool fails(void) {
    if (before_allocation)
        before_allocation();
    const char *which = getenv("NORMA_FAIL_ALLOCATION");
    if (!is_selected(which, ++n_allocations))
        return false;
    errno = ENOMEM;
    return true;
}

/* Allocations after main() do not fail, because gcov allocates. With
 * GCOV_PREFIX gcov cannot write, and its messages are dropped. */
__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("NORMA_COUNT_ALLOCATIONS");
    long allocations = n_allocations;
    unsetenv("NORMA_FAIL_ALLOCATION");
    if (getenv("GCOV_PREFIX"))
        close(STDERR_FILENO);
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return;
    fprintf(out, "%ld\n", allocations);
    fclose(out);
}

WRAP(void *, malloc, size_t size) {
    return fails() ? NULL : __real_malloc(size);
}
WRAP(void *, calloc, size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
WRAP(void *, realloc, void *old, size_t size) {
    return fails() ? NULL : __real_realloc(old, size);
}
WRAP(void *, aligned_alloc, size_t unit, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(unit, size);
}
WRAP(char *, strdup, const char *s) {
    return fails() ? NULL : __real_strdup(s);
}
WRAP(char *, strndup, const char *s, size_t max) {
    return fails() ? NULL : __real_strndup(s, max);
}
WRAP(char *, realpath, const char *path, char *to) {
    return !to && fails() ? NULL : __real_realpath(path, to);
}
WRAP(FILE *, fopen, const char *path, const char *mode) {
    return fails() ? NULL : __real_fopen(path, mode);
}
WRAP(FILE *, fdopen, int fd, const char *mode) {
    return fails() ? NULL : __real_fdopen(fd, mode);
}

WRAP(int, asprintf, char **to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = fails() ? -1 : vasprintf(to, format, args);
    va_end(args);
    return n;
}

/* ---- sessions ----------------------------------------------------------- */

WRAP(int, session_open, Session *s, const Model *model, int n_threads,
     int batch, int context, KvType kv_type) {
    int status =
        __real_session_open(s, model, n_threads, batch, context, kv_type);
    s->plain = test_plain() ? &PLAIN : NULL;
    return status;
}

bool test_plain(void) {
    return getenv("NORMA_PLAIN") != NULL;
}

/* ---- guard pages -------------------------------------------------------- */

enum {
    /* bytes of a file; larger files are mapped without a guard page */
    MAX_GUARDED = 16 << 20,
    MAX_MAPS = 256
};

typedef struct {
    uint8_t *start; /* of all pages, including the guard; NULL: unused */
    size_t bytes;
    uint8_t *data; /* the caller's address */
} Guarded;

static Guarded maps[MAX_MAPS];

/* Bytes between the end of the file and the guard page. Data of binary files
 * must stay aligned to 4 bytes (the smallest general.alignment of GGUF); texts
 * need no alignment. */
static size_t bytes_before_guard(int fd, size_t size) {
    char start[64];
    ssize_t n = pread(fd, start, sizeof start, 0);
    return n > 0 && memchr(start, 0, (size_t)n) ? -size % 4 : 0;
}

/* Copies a file to a file in memory, so that pages dropped by memory_advise()
 * can be read again. */
static int copy_of(int fd, size_t size, size_t at, size_t bytes) {
    int copy = memfd_create("norma", MFD_CLOEXEC);
    off_t from = 0;
    if (copy < 0)
        return -1;
    if (ftruncate(copy, (off_t)bytes) == 0 &&
        lseek(copy, (off_t)at, SEEK_SET) >= 0)
        while (from < (off_t)size &&
               sendfile(copy, fd, &from, size - (size_t)from) > 0) {
        }
    if (from == (off_t)size)
        return copy;
    close(copy);
    return -1;
}

static Guarded *find_map(const uint8_t *data) {
    for (int i = 0; i < MAX_MAPS; i++)
        if (maps[i].data == data)
            return &maps[i];
    return NULL;
}

void *__real_mmap(void *at, size_t size, int access, int flags, int fd,
                  off_t offset);
int __real_munmap(void *data, size_t size);

/* Maps a copy of the file before a guard page. Returns NULL on failure. */
static void *map_guarded(int fd, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           pages = (size + 3 + page - 1) / page * page;
    size_t at = pages - bytes_before_guard(fd, size) - size;
    Guarded *map = find_map(NULL);
    int copy = map ? copy_of(fd, size, at, pages) : -1;
    if (copy < 0)
        return NULL;
    uint8_t *start = __real_mmap(NULL, pages + page, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool mapped = start != MAP_FAILED &&
                  __real_mmap(start, pages, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                              copy, 0) == (void *)start;
    close(copy);
    if (!mapped && start != MAP_FAILED)
        __real_munmap(start, pages + page);
    if (!mapped)
        return NULL;
    *map = (Guarded){start, pages + page, start + at};
    ASAN_POISON_MEMORY_REGION(start, at);
    ASAN_POISON_MEMORY_REGION(map->data + size, pages - at - size);
    return map->data;
}

WRAP(void *, mmap, void *at, size_t size, int access, int flags, int fd,
     off_t offset) {
    struct stat st;
    if (fails())
        return MAP_FAILED;
    bool whole = !at && access == PROT_READ && flags == MAP_PRIVATE &&
                 fd >= 0 && !offset && size <= MAX_GUARDED &&
                 fstat(fd, &st) == 0 && st.st_size == (off_t)size;
    void *data =
        whole && !getenv("NORMA_REAL_MAPS") ? map_guarded(fd, size) : NULL;
    return data ? data : __real_mmap(at, size, access, flags, fd, offset);
}

WRAP(int, munmap, void *data, size_t size) {
    Guarded *map = find_map(data);
    if (!map)
        return __real_munmap(data, size);
    Guarded old = *map;
    *map = (Guarded){0};
    ASAN_UNPOISON_MEMORY_REGION(old.start, old.bytes);
    return __real_munmap(old.start, old.bytes);
}

#ifdef NORMA_MPI
#include <mpi.h>
#include <time.h>

/* Polls instead of sleeping, because a sleep may last much longer. Lets MPI
 * process other messages. */
static void wait_longer(void) {
    int there;
    const char *delay = getenv("NORMA_MESSAGE_DELAY");
    double seconds = delay ? 1e-6 * atof(delay) : 0;
    struct timespec start, t;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        if (delay)
            MPI_Iprobe(MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, &there,
                       MPI_STATUS_IGNORE);
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((double)(t.tv_sec - start.tv_sec) +
                 1e-9 * (double)(t.tv_nsec - start.tv_nsec) <
             seconds);
}

int __real_MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses);
int __wrap_MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses);
int __wrap_MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses) {
    int result = __real_MPI_Waitall(n, requests, statuses);
    if (n > 0)
        wait_longer();
    return result;
}

int __real_MPI_Recv(void *to, int n, MPI_Datatype type, int from, int tag,
                    MPI_Comm comm, MPI_Status *status);
int __wrap_MPI_Recv(void *to, int n, MPI_Datatype type, int from, int tag,
                    MPI_Comm comm, MPI_Status *status);
int __wrap_MPI_Recv(void *to, int n, MPI_Datatype type, int from, int tag,
                    MPI_Comm comm, MPI_Status *status) {
    int result = __real_MPI_Recv(to, n, type, from, tag, comm, status);
    wait_longer();
    return result;
}
#endif
