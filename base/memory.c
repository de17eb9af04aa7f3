/* memory.c: allocation with alignment, huge pages and messages.
 * Tests: base, memory. */
#include "base/memory.h"
#include "base/error.h"
#include "base/platform.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

/* Allocates whole cache lines, so that no vector straddles two. Hardware
 * prefetching stops at the end of a page, so large allocations get huge
 * pages. The pages of others are made at once, which takes a fraction of the
 * time of as many page faults: the first prompt of a small model is up to 1.3
 * times as fast (docs/notebook.md). */
void *allocate_quietly(size_t count, size_t size) {
    size_t bytes;
    if (!multiply_sizes(count, size, &bytes) || bytes > SIZE_MAX - HUGE_PAGE)
        return NULL;
    size_t unit = bytes < 16 * PAGE   ? CACHE_LINE
                  : bytes < HUGE_PAGE ? PAGE
                                      : HUGE_PAGE;
    void *p = aligned_alloc(unit, (bytes + unit) / unit * unit);
#ifdef MADV_HUGEPAGE
    /* may fail; 23: MADV_POPULATE_WRITE, Linux 5.14 */
    if (p && unit > CACHE_LINE)
        advise_pages(p, bytes, unit == PAGE ? 23 : MADV_HUGEPAGE);
#endif
    return p;
}

void *allocate(size_t count, size_t size) {
    void *p = allocate_quietly(count, size);
    if (!p)
        fail("out of memory: %zu x %zu bytes", count, size);
    return p;
}

void *allocate_zeroed(size_t count, size_t size) {
    void *p = allocate(count, size);
    return p ? memset(p, 0, count * size) : NULL;
}

/* At least one byte after each array stays free; AddressSanitizer
 * reports its use. */
void *arena_take(Arena *a, double count, size_t size) {
    double bytes = count * (double)size,
           room = (floor(bytes / CACHE_LINE) + 1) * CACHE_LINE;
    char *p = a->memory ? a->memory + (size_t)a->used : NULL;
#ifdef __SANITIZE_ADDRESS__
    if (p)
        __asan_poison_memory_region(p + (size_t)bytes, (size_t)(room - bytes));
#endif
    a->used += room;
    return p;
}

void memory_advise(const void *data, size_t bytes, bool soon) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + page - 1) / page * page,
              end = ((uintptr_t)data + bytes) / page * page;
    /* the kernel reads only the beginning of a longer range ahead */
    size_t step = soon ? 1 << 17 : end - first;
    for (uintptr_t at = first; at < end; at += step) /* may fail */
        advise_pages((void *)at, min_size(end - at, step),
                     soon ? MADV_WILLNEED : MADV_DONTNEED);
}

void buffer_append(Buffer *b, const void *bytes, size_t n) {
    if (b->failed)
        return;
    if (n >= b->room - b->n) {
        /* no overflow: b->n bytes exist */
        size_t room = 2 * (b->n + n) + 64;
        char *grown = n < SIZE_MAX / 4 ? realloc(b->bytes, room) : NULL;
        if (!grown) {
            fail("out of memory: %zu bytes", n);
            b->failed = true;
            return;
        }
        b->bytes = grown;
        b->room = room;
    }
    if (n) /* else `bytes` may be NULL */
        memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    b->bytes[b->n] = '\0';
}
