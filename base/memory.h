/* memory.h: allocation with error messages (free with free())
 * and checked sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* *product = a * b. Returns false on overflow. */
static inline bool multiply_sizes(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline int min_int(int a, int b) {
    return a < b ? a : b;
}

enum { CACHE_LINE = 64 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A loop over the n items of a list. */
#define EACH(type, item, list, n)                                              \
    for (type *item = list; item < (list) + (n); item++)

/* Memory for count * size bytes, uninitialized, aligned to 64 bytes; in
 * huge pages if the system has them and the memory fills one. NULL and a
 * message on failure. */
void *allocate(size_t count, size_t size);

/* allocate(), zeroed and faulted in. */
void *allocate_zeroed(size_t count, size_t size);

/* allocate() without a message, for optional memory. */
void *allocate_quietly(size_t count, size_t size);

/* Memory of several arrays, allocated at once: a first pass over them with
 * memory NULL counts the bytes, a second one assigns their places. */
typedef struct Arena {
    char *memory; /* aligned to 64 bytes, or NULL */
    double used;  /* bytes of the arrays so far */
} Arena;

/* The place of the next array of count * size bytes, aligned to 64 bytes;
 * NULL while counting. */
void *arena_take(Arena *a, double count, size_t size);

/* Begins to read the whole pages in data[bytes] of a mapped file, which are
 * used soon; or releases them: then the next access reads the file again. */
void memory_advise(const void *data, size_t bytes, bool soon);

/* A growing array of bytes. Initialize with zeros; the caller frees `bytes`. */
typedef struct {
    char *bytes; /* [n] and a final zero byte; NULL = empty */
    size_t n, room;
    bool failed; /* out of memory, as reported; later bytes are discarded */
} Buffer;

void buffer_append(Buffer *b, const void *bytes, size_t n);
