/* memory.h: memory that reports its failure.
 *
 * Owns allocation; what was allocated is freed with free().
 */
#ifndef NORMA_MEMORY_H
#define NORMA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a * b is more than a size_t holds; *product is the product if it is not. */
bool product_overflows(size_t a, size_t b, size_t *product);

/* Memory for count * size bytes, aligned to 64, in huge pages where they are and it
 * fills them, uninitialized; free() frees it. NULL and a message if there is none. */
void *allocate(size_t count, size_t size);

/* The same without the message: for what one can do without. */
void *allocate_quietly(size_t count, size_t size);

#endif
