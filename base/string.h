/* string.h: a text without a zero byte at its end.
 * Tests: folder, gguf. */
#pragma once

#include <stdbool.h>
#include <string.h>

typedef struct {
    const char *text;
    size_t n;
} String;

#define SHOWN(s)                                                               \
    (int)((s).n < 64 ? (s).n : 64), (s).text /* a String for %.*s */

static inline bool string_is(String s, const char *text) {
    return s.n == strlen(text) && !memcmp(s.text, text, s.n);
}

static inline bool string_begins(String s, const char *text) {
    size_t n = strlen(text);
    return s.n >= n && !memcmp(s.text, text, n);
}

static inline bool string_contains(String s, const char *text) {
    return memmem(s.text, s.n, text, strlen(text));
}
