/* normalize.h: Unicode's normalization form C.
 */
#ifndef NORMA_NORMALIZE_H
#define NORMA_NORMALIZE_H

#include <stddef.h>

/* The text in Unicode's normalization form C, its size in *n; NULL: no memory. O(size).
 * The caller frees it. */
char *normalize_nfc(const char *text, size_t size, size_t *n);

#endif
