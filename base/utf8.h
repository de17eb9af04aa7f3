/* utf8.h: which bytes are a character, and the way from a code point to its bytes and back. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at s, of which `left` bytes are there; 0: there is none. */
int utf8_character(const char *s, size_t left);

enum { UTF8_END = 0x110000 }; /* all code points are below */

/* The code point of the UTF-8 character at s, of which `left` > 0 bytes are there, its bytes in *length; where there is
 * none, UTF8_END + the byte at s, and 1. */
uint32_t utf8_read(const char *s, size_t left, size_t *length);

/* Writes the UTF-8 of a code point (below 0x110000) to to[4]; returns its bytes, 1 to 4. */
int utf8_encode(char *to, uint32_t code);

/* Bytes of the character that begins with this byte; 0: none does. */
int utf8_length(uint8_t lead);

bool utf8_is_continuation(uint8_t byte);
