/* memory.c: memory: its alignment, huge pages, and the message where there is none. */
#include "base/memory.h"
#include "base/error.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

/* Whole cache lines that begin at one, so that no vector straddles two. Hardware prefetching stops
 * at the end of a page: large memory gets huge pages. */
void *allocate_quietly(size_t count, size_t size) {
    size_t bytes;
    if (!multiply(count, size, &bytes) || bytes > SIZE_MAX - HUGE_PAGE) return NULL;
    const size_t unit = bytes < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    void *p = aligned_alloc(unit, (bytes + unit) / unit * unit);
    if (p && unit == HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE); /* if it fails, the pages are small */
    return p;
}

void *allocate(size_t count, size_t size) {
    void *p = allocate_quietly(count, size);
    if (!p) fail("out of memory: %zu x %zu bytes", count, size);
    return p;
}

void memory_drop(const void *data, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + bytes) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED); /* if it fails, the pages stay */
}
