/* memory.h: memory that reports its failure, and is freed with free(); sizes that may overflow. */
#ifndef NORMA_MEMORY_H
#define NORMA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* *product = a * b; false: it overflows. */
static inline bool multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* Memory for count * size bytes, uninitialized, aligned to 64 bytes; in huge pages where the
 * system has them and one is filled. NULL and a message: there is none. */
void *allocate(size_t count, size_t size);

/* allocate() without the message, for memory that a caller can do without. */
void *allocate_quietly(size_t count, size_t size);

/* Gives back the pages that lie wholly in data[bytes] of a mapped file: whoever reads them again
 * gets them from the file. */
void memory_drop(const void *data, size_t bytes);

#endif
