/* utf8.h: characters in bytes.
 *
 * Owns what is a character of UTF-8 (RFC 3629) and what is none.
 */
#ifndef NORMA_UTF__H
#define NORMA_UTF__H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at s, of which `left` bytes are there; 0: there is none. */
int utf8_character(const char *s, size_t left);

/* The code point of the UTF-8 character s[length]. */
uint32_t utf8_code(const char *s, size_t length);

/* Bytes of the character that begins with this byte; 0: none does. */
int utf8_length(uint8_t lead);

bool utf8_is_continuation(uint8_t byte);

/* Whether a lead byte with its continuations is no character all the same: one that
 * has a shorter form, a surrogate, or one beyond U+10FFFF. */
bool utf8_is_forbidden(const char *character);

#endif
