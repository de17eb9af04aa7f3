/* memory.c: memory that reports its failure.
 *
 * Owns allocation: alignment, huge pages, the message when there is none.
 */
#include "base/memory.h"

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

bool product_overflows(size_t a, size_t b, size_t *product) { return __builtin_mul_overflow(a, b, product); }

/* Whole cache lines, on the boundary of one, so that vectors straddle none. Prefetching
 * stops at the end of a page: what is large gets large ones. */
void *allocate_quietly(size_t count, size_t size) {
    size_t bytes;
    if (product_overflows(count, size, &bytes) || bytes > SIZE_MAX - HUGE_PAGE) return NULL;
    const size_t unit = bytes < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    void *p = aligned_alloc(unit, (bytes + unit) / unit * unit);
    if (p && unit == HUGE_PAGE) madvise(p, bytes, MADV_HUGEPAGE); /* where there are none, small ones do */
    return p;
}

void *allocate(size_t count, size_t size) {
    void *p = allocate_quietly(count, size);
    if (!p) fail("out of memory: %zu x %zu bytes", count, size);
    return p;
}
