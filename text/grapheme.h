/* grapheme.h: grapheme clusters (UAX 29): the characters that a reader takes
 * for one, such as a letter with its accents, a flag or a family. */
#pragma once

#include <stddef.h>

/* The end of the cluster that begins at s[at], at < n. */
size_t grapheme_next(const char *s, size_t n, size_t at);

/* The begin of the last cluster that begins before s[at]; 0 if at is 0. Also
 * linear in a text without any boundary. */
size_t grapheme_before(const char *s, size_t n, size_t at);

/* The first boundary of clusters at or after s[at], a begin of a character. */
size_t grapheme_boundary(const char *s, size_t n, size_t at);

/* The columns of the cluster s[n], n > 0, on a terminal: 0, 1, 2 or, of
 * several consonants, more. Tabs count as one. */
int grapheme_columns(const char *s, size_t n);
