/* stream.c: text on its way out.
 *
 * Owns what the reader sees: whole UTF-8 characters only, put together across
 * tokens; nothing that would upset a terminal; and the news that a write
 * failed (full disk, closed pipe). Which text is written is not its business.
 */
#include "text/stream.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void stream_open(Stream *s, FILE *out) {
    *s = (Stream){.out = out, .terminal = isatty(fileno(out)) == 1, .flushed = now()};
}

static void put(Stream *s, const char *bytes, int n) {
    if (n > 0 && fwrite(bytes, 1, (size_t)n, s->out) != (size_t)n) s->error = errno;
}

/* One whole character. C0 and C1 control characters stay off a terminal. */
static void put_character(Stream *s, const char *c, int n) {
    const uint8_t first = (uint8_t)c[0];
    const bool space = first == '\t' || first == '\n' || first == '\r' || first == '\v' || first == '\f';
    const bool control =
        (n == 1 && (first < 0x20 || first == 0x7f) && !space) || (n == 2 && first == 0xc2 && (uint8_t)c[1] < 0xa0);
    if (!(s->terminal && control)) put(s, c, n);
}

/* Held bytes that turned out to be no character. */
static void put_invalid(Stream *s) {
    if (s->terminal && s->n_held > 0)
        put(s, "\xef\xbf\xbd", 3); /* U+FFFD */
    else
        put(s, s->held, s->n_held);
    s->n_held = 0;
}

static void write_byte(Stream *s, char byte) {
    if (s->n_held > 0 && !utf8_is_continuation((uint8_t)byte)) put_invalid(s);
    s->held[s->n_held++] = byte;
    const int needed = utf8_length((uint8_t)s->held[0]);
    if (needed == 0 || (s->n_held == needed && utf8_is_forbidden(s->held)))
        put_invalid(s);
    else if (s->n_held == needed) {
        put_character(s, s->held, needed);
        s->n_held = 0;
    }
}

void stream_write(Stream *s, const char *bytes, int n) {
    const double patience = 0.002; /* seconds: faster than that nobody reads */
    for (int i = 0; i < n; i++) write_byte(s, bytes[i]);
    const double t = now();
    if (t - s->flushed < patience) return;
    if (fflush(s->out)) s->error = errno;
    s->flushed = t;
}

int stream_close(Stream *s) {
    put_invalid(s);
    if (fflush(s->out)) s->error = errno;
    return s->error ? fail("cannot write the output: %s", strerror(s->error)) : 0;
}
