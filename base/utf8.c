/* utf8.c: characters as bytes (UTF-8, RFC 3629). Their classes are text/pretokenize.c's. */
#include "base/utf8.h"

int utf8_length(uint8_t lead) {
    return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

bool utf8_is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/* Whether a lead byte with continuation bytes is invalid: overlong, a surrogate, or above U+10FFFF. */
static bool is_forbidden(const char *c) {
    const uint8_t lead = (uint8_t)c[0], second = (uint8_t)c[1];
    return (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
           (lead == 0xf4 && second > 0x8f);
}

int utf8_character(const char *s, size_t left) {
    const int n = left > 0 ? utf8_length((uint8_t)s[0]) : 0;
    if ((size_t)n > left) return 0;
    for (int i = 1; i < n; i++)
        if (!utf8_is_continuation((uint8_t)s[i])) return 0;
    return n > 1 && is_forbidden(s) ? 0 : n;
}

uint32_t utf8_read(const char *s, size_t left, size_t *length) {
    static const uint8_t lead[] = {0xff, 0x7f, 0x1f, 0x0f, 0x07};
    const int n = utf8_character(s, left);
    uint32_t code = (uint8_t)s[0] & lead[n];
    for (int i = 1; i < n; i++) code = code << 6 | ((uint8_t)s[i] & 0x3f);
    *length = n ? (size_t)n : 1;
    return n ? code : UTF8_END + code;
}

int utf8_encode(char *to, uint32_t code) {
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[n] | code);
    return n;
}
