/* stream.c: text on its way to the reader.
 *
 * Owns what the reader sees: whole UTF-8 characters only, put together across
 * tokens; no control characters on a terminal; and the report of a write that
 * failed (full disk, closed pipe). Which text is written is not its business.
 */
#include "text/stream.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>

void stream_open(Stream *s, FILE *out) { *s = (Stream){.out = out, .terminal = on_terminal(out), .flushed = now()}; }

static void write_bytes(Stream *s, const char *bytes, int n) {
    if (n > 0 && fwrite(bytes, 1, (size_t)n, s->out) != (size_t)n) s->error = errno;
}

/* Writes one whole character; C0 and C1 control characters not to a terminal. */
static void write_character(Stream *s, const char *c, int n) {
    const uint8_t first = (uint8_t)c[0];
    const bool space = first == '\t' || first == '\n' || first == '\r' || first == '\v' || first == '\f';
    const bool control =
        (n == 1 && (first < 0x20 || first == 0x7f) && !space) || (n == 2 && first == 0xc2 && (uint8_t)c[1] < 0xa0);
    if (!(s->terminal && control)) write_bytes(s, c, n);
}

/* Writes the held bytes: a character, or bytes that are none, which a terminal gets as U+FFFD. */
static void write_held(Stream *s) {
    if (utf8_character(s->held, (size_t)s->n_held) == s->n_held)
        write_character(s, s->held, s->n_held);
    else if (s->terminal)
        write_bytes(s, "\xef\xbf\xbd", 3);
    else
        write_bytes(s, s->held, s->n_held);
    s->n_held = 0;
}

static void write_byte(Stream *s, char byte) {
    if (s->n_held > 0 && !utf8_is_continuation((uint8_t)byte)) write_held(s);
    s->held[s->n_held++] = byte;
    if (s->n_held >= utf8_length((uint8_t)s->held[0])) write_held(s);
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
    if (s->n_held) write_held(s);
    if (fflush(s->out)) s->error = errno;
    return s->error ? fail("cannot write the output: %s", strerror(s->error)) : 0;
}
