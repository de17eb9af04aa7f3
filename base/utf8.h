/* utf8.h: UTF-8 validation, decoding and encoding. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_END = 0x110000 }; /* all code points are below */

/* The code point at the start of s[left], left > 0, and its size in *length.
 * For invalid UTF-8: UTF8_END + the first byte, and size 1. */
uint32_t utf8_read(const char *s, size_t left, size_t *length);

/* Size of the character, or 1 for an invalid byte, that ends before s
 * > start. */
size_t utf8_before(const char *s, const char *start);

/* Writes the UTF-8 of a code point below UTF8_END to to[4]. Returns its size,
 * 1 to 4. */
int utf8_encode(char *to, uint32_t code);

/* Size of a character with this first byte; 0 if it is not a first byte. */
int utf8_length(uint8_t lead);

bool utf8_is_continuation(uint8_t byte);

/* Whether a result of utf8_read() may be shown on a terminal: no control
 * character, line end, change of writing direction or invalid byte. */
bool utf8_is_printable(uint32_t code);
