/* memory.h: memory that reports its failure, and is freed with free(); sizes that may overflow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* *product = a * b; false: it overflows. */
static inline bool multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* Memory for count * size bytes, uninitialized, aligned to 64 bytes; in huge pages where the
 * system has them and one is filled. NULL and a message: there is none. */
void *allocate(size_t count, size_t size);

/* allocate(), and every byte is 0 and in a page that is there. */
void *allocate_zeroed(size_t count, size_t size);

/* allocate() without the message, for memory that a caller can do without. */
void *allocate_quietly(size_t count, size_t size);

/* Gives back the pages wholly in data[bytes] of a mapped file: whoever reads them again gets them from the file. */
void memory_drop(const void *data, size_t bytes);

/* Bytes that this process can still get before the machine, a control group that it is in or `ulimit -v` stops it, as
 * the system's files below the folder `root` say ("": the system's own). Pages of files count as free: the system takes
 * them back. Where a file is missing, it limits nothing. */
size_t memory_available(const char *root);

/* Bytes that grow as they are appended. Zero to begin with; the caller frees `bytes`. */
typedef struct {
    char *bytes; /* [n], and a zero byte; NULL: nothing was appended */
    size_t n, room;
    bool failed; /* there was no memory, and a message; what was appended since is lost */
} Buffer;

void buffer_append(Buffer *b, const void *bytes, size_t n);
