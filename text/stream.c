/* stream.c: output of generated text.
 *
 * Owns the assembly of UTF-8 characters across tokens, the filter for
 * terminals, and the report of a failed write (full disk, closed pipe).
 * Tests: stream, saved.
 */
#include "text/stream.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/utf8.h"
#include "text/pretokenize.h"
#include "text/width.h"
#include <errno.h>
#include <string.h>

void stream_open(Stream *s, FILE *out) {
    *s = (Stream){
        .out = out, .terminal = on_terminal(out), .flushed = clock_seconds()};
}

void stream_wrap(Stream *s, int columns, int column) {
    s->columns = columns;
    s->column = column % columns;
}

static void put(Stream *s, const char *bytes, size_t n) {
    if (!s->error && fwrite(bytes, 1, n, s->out) != n)
        s->error = errno;
}

/* Moves the last word to the next row. */
static void move_word(Stream *s) {
    char erase[32];
    int n = snprintf(erase, sizeof erase, "\033[%dG\033[K\n",
                     s->column - s->word_columns + 1);
    put(s, erase, n);
    put(s, s->word, s->n_word);
    s->column = s->word_columns;
}

static void end_word(Stream *s) {
    s->n_word = s->word_columns = 0;
}

/* Writes a character of a text that is wrapped at words. */
static void put_wrapped(Stream *s, uint32_t code, const char *bytes, size_t n) {
    int width = value_in(WIDTH_RUNS, COUNT(WIDTH_RUNS), code);
    if (code == '\t')
        width = 8 - s->column % 8;
    const bool is_space = code == ' ' || code == '\t', is_wide = width > 1,
               fits = s->column + width <= s->columns;
    if (code == '\n' || (is_space && !fits)) {
        put(s, "\n", 1);
        s->column = 0;
        end_word(s);
        return;
    }
    if (is_wide || is_space)
        end_word(s);
    if (!fits && s->n_word && s->word_columns < s->column)
        move_word(s);
    else if (!fits)
        s->column = 0; /* the terminal wraps */
    put(s, bytes, n);
    s->column += width;
    if (is_wide || is_space)
        return;
    if (s->n_word + n > sizeof s->word)
        end_word(s); /* wraps anywhere */
    memcpy(s->word + s->n_word, bytes, n);
    s->n_word += (int)n;
    s->word_columns += width;
}

/* Writes the held bytes: a character or invalid UTF-8. */
static void write_held(Stream *s) {
    const char *bytes = s->held;
    size_t n = s->n_held, length;
    uint32_t code = utf8_read(s->held, n, &length);
    if (s->terminal && !utf8_is_printable(code) && code != '\t' && code != '\n')
        n = 0;
    if (s->terminal && code >= UTF8_END) {
        code = 0xfffd; /* the replacement character */
        bytes = "\xef\xbf\xbd";
        n = 3;
    }
    if (s->columns && n)
        put_wrapped(s, code, bytes, n);
    else
        put(s, bytes, n);
    s->n_held = 0;
}

void stream_write(Stream *s, const char *bytes, int n) {
    double interval = 0.002; /* min seconds between flushes */
    hide_status();
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

void write_words(FILE *out, const char *text, int column, int columns) {
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + n > columns) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, column > 0 ? " %.*s" : "%.*s", n, text);
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}
