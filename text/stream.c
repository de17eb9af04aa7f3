/* stream.c: output of generated text.
 *
 * Owns the assembly of UTF-8 characters across tokens, the filter for
 * terminals, and the report of a failed write (full disk, closed pipe).
 * Tests: stream.
 */
#include "text/stream.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/utf8.h"
#include <errno.h>
#include <string.h>

void stream_open(Stream *s, FILE *out) {
    *s = (Stream){
        .out = out, .terminal = on_terminal(out), .flushed = clock_seconds()};
}

/* Writes the held bytes: a character or invalid UTF-8. */
static void write_held(Stream *s) {
    const char *bytes = s->held;
    size_t n = s->n_held, length;
    uint32_t code = utf8_read(s->held, n, &length);
    if (s->terminal && !utf8_is_printable(code) && code != '\t' && code != '\n')
        n = 0;
    if (s->terminal && code >= UTF8_END) {
        bytes = "\xef\xbf\xbd"; /* the replacement character */
        n = 3;
    }
    if (!s->error && fwrite(bytes, 1, n, s->out) != n)
        s->error = errno;
    s->n_held = 0;
}

void stream_write(Stream *s, const char *bytes, int n) {
    double interval = 0.002; /* min seconds between flushes */
    for (int i = 0; i < n; i++) {
        if (s->n_held > 0 && !utf8_is_continuation(bytes[i]))
            write_held(s);
        s->held[s->n_held++] = bytes[i];
        if (s->n_held >= utf8_length(s->held[0]))
            write_held(s);
    }
    double t = clock_seconds();
    if (s->error || t - s->flushed < interval)
        return;
    if (fflush(s->out))
        s->error = errno;
    s->flushed = t;
}

int stream_close(Stream *s) {
    if (s->n_held)
        write_held(s);
    /* if Ctrl-C ended a write, a flush would block */
    if (!s->error && fflush(s->out))
        s->error = errno;
    return s->error && !interrupted
               ? fail("cannot write the output: %s", strerror(s->error))
               : 0;
}
