/* utf8.c: UTF-8 (RFC 3629). Character classes are in text/pretokenize.c.
 * Tests: base, stream. */
#include "base/utf8.h"

int utf8_length(uint8_t lead) {
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead >= 0xf5)
        return 0;
    if (lead < 0xe0)
        return 2;
    return lead < 0xf0 ? 3 : 4;
}

bool utf8_is_continuation(uint8_t byte) {
    return (byte & 0xc0) == 0x80;
}

uint32_t utf8_read(const char *s, size_t left, size_t *length) {
    static const uint8_t lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = utf8_length(s[0]);
    uint32_t code = s[0] & lead[n];
    int i = 1;
    for (; i < n && (size_t)i < left && utf8_is_continuation(s[i]); i++)
        code = code << 6 | (s[i] & 0x3f);
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool valid = i == n && code >= smallest[n] && code < UTF8_END && !surrogate;
    *length = valid ? n : 1;
    return valid ? code : (uint32_t)UTF8_END + (uint8_t)s[0];
}

bool utf8_is_printable(uint32_t code) {
    bool control = code < ' ' || (code >= 0x7f && code < 0xa0);
    bool line_or_direction = code == 0x61c || code == 0x200e ||
                             code == 0x200f ||
                             (code >= 0x2028 && code <= 0x202e) ||
                             (code >= 0x2066 && code <= 0x2069);
    return !control && !line_or_direction && code < UTF8_END;
}

int utf8_encode(char *to, uint32_t code) {
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int n = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
    for (int i = n - 1; i > 0; i--, code >>= 6)
        to[i] = 0x80 | (code & 0x3f);
    to[0] = (char)(lead[n] | code);
    return n;
}

size_t utf8_before(const char *s, const char *start) {
    size_t n = s - start < 4 ? s - start : 4;
    for (; n > 1; n--) {
        size_t length;
        utf8_read(s - n, n, &length);
        if (length == n)
            break;
    }
    return n;
}
