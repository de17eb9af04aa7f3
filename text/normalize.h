/* normalize.h: what becomes of a text before it is cut into words. */
#ifndef NORMA_NORMALIZE_H
#define NORMA_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    bool composes;         /* into Unicode's normalization form C, first */
    bool replaces_invalid; /* a byte that is no UTF-8 becomes U+FFFD, as in the sentencepiece library */
    bool replaces_mark;    /* U+2581 becomes a space, as in Hugging Face's tokenizers that name spaces by it */
} Normalizer;

/* The text as the normalizer leaves it, behind a space if asked for; its size in *n. NULL and a
 * message: no memory. O(size). The caller frees it. */
char *normalize(const Normalizer *z, const char *text, size_t size, bool space, size_t *n);

#endif
