/* test_stream.c: output of text to pipes and terminals, and write errors.
 *
 * Writes to a pseudo-terminal and checks the bytes at its other end.
 */
#include "base/clock.h"
#include "base/process.h"
#include "text/stream.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static uint64_t state;

static int any(int n) {
    return (int)(hash64(51, 7, state++) % (uint64_t)n);
}

/* ---- a pipe or a terminal ----------------------------------------------- */

typedef struct {
    int reader;
    FILE *out;
    Stream stream;
} Channel;

static bool open_pipe(Channel *c) {
    int ends[2];
    if (pipe(ends))
        return false;
    c->reader = ends[0];
    c->out = fdopen(ends[1], "wb");
    stream_open(&c->stream, c->out);
    return true;
}

/* A terminal in raw mode. */
static bool open_terminal(Channel *c) {
    struct termios raw;
    c->reader = posix_openpt(O_RDWR | O_NOCTTY);
    if (c->reader < 0 || grantpt(c->reader) || unlockpt(c->reader))
        return false;
    int end = open(ptsname(c->reader), O_RDWR | O_NOCTTY);
    if (end < 0 || tcgetattr(end, &raw))
        return false;
    cfmakeraw(&raw);
    tcsetattr(end, TCSANOW, &raw);
    c->out = fdopen(end, "wb");
    stream_open(&c->stream, c->out);
    return true;
}

/* The bytes that have arrived, with a zero byte at the end. */
static int receive(Channel *c, char *text, int room) {
    int n = 0;
    fflush(c->out);
    while (poll(&(struct pollfd){.fd = c->reader, .events = POLLIN}, 1, 0) >
           0) {
        ssize_t got = read(c->reader, text + n, (size_t)(room - n - 1));
        if (got <= 0)
            break;
        n += (int)got;
    }
    text[n] = '\0';
    return n;
}

static void close_channel(Channel *c) {
    fclose(c->out);
    close(c->reader);
}

static void write_text(Channel *c, const char *s) {
    stream_write(&c->stream, s, (int)strlen(s));
}

/* ---- a pipe -------------------------------------------------------------- */

static void characters_are_written_whole(void) {
    static const char *const characters[] = {"\xc3\xa9", "\xe4\xb8\xad",
                                             "\xf0\x9f\x99\x82"};
    for (int i = 0; i < 3; i++) {
        Channel c;
        char text[64];
        int n = (int)strlen(characters[i]);
        CHECK(open_pipe(&c), "no pipe");
        write_text(&c, "ab");
        for (int k = 0; k < n; k++) {
            receive(&c, text, sizeof text);
            CHECK(!strcmp(text, k ? "" : "ab"),
                  "after %d bytes of a character: %s", k, text);
            stream_write(&c.stream, characters[i] + k, 1);
        }
        receive(&c, text, sizeof text);
        CHECK(!strcmp(text, characters[i]), "the whole character: %s", text);
        CHECK(stream_close(&c.stream) == 0, "does not close");
        close_channel(&c);
    }
}

/* Random bytes in random pieces; the last character may be incomplete. */
static void a_pipe_gets_every_byte(void) {
    for (int round = 0; round < (test_fast() ? 50 : 1000); round++) {
        Channel c;
        char bytes[512], text[1024];
        int n = any((int)sizeof bytes), low = any(2) ? 0x80 : 0;
        for (int i = 0; i < n; i++)
            bytes[i] = (char)(low + any(256 - low));
        CHECK(open_pipe(&c), "no pipe");
        CHECK(!c.stream.terminal, "the pipe is taken for a terminal");
        for (int at = 0, step; at < n; at += step) {
            step = any(6);
            if (step > n - at)
                step = n - at;
            stream_write(&c.stream, bytes + at, step);
        }
        CHECK(stream_close(&c.stream) == 0, "does not close");
        int got = receive(&c, text, sizeof text);
        CHECK(got == n && !memcmp(text, bytes, (size_t)n),
              "round %d: %d bytes of %d", round, got, n);
        close_channel(&c);
    }
}

/* Text is flushed after a while, before the buffer is full. */
static void text_is_flushed_after_a_while(void) {
    Channel c;
    char byte;
    CHECK(open_pipe(&c), "no pipe");
    c.stream.flushed = 0; /* long ago */
    write_text(&c, "a");
    CHECK(poll(&(struct pollfd){.fd = c.reader, .events = POLLIN}, 1, 0) == 1,
          "nothing came");
    CHECK(read(c.reader, &byte, 1) == 1 && byte == 'a', "not the byte written");
    CHECK(stream_close(&c.stream) == 0, "does not close");
    close_channel(&c);
}

/* ---- a terminal ---------------------------------------------------------- */

static void a_terminal_gets_only_text(void) {
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain text\n", "plain text\n"},
        {"\t\n\r\v\f ", "\t\n "},
        {"secret\rpublic\x1b[31m", "secretpublic[31m"},
        {"a\xe2\x80\xae"
         "b\xe2\x80\xa8", /* writing direction, line separator */
         "ab"},
        {"\x1b[31mred\x1b[0m\a\b\x7f", "[31mred[0m"},
        {"\x01\x02\x1f", ""},
        {"\xc2\x9b"
         "31m \xc2\x85 \xc2\xa0", /* C1: CSI, NEL; then a no-break space */
         "31m  \xc2\xa0"},
        {"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82",
         "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82"},
        {"a\xff"
         "b\x80"
         "c",
         "a\xef\xbf\xbd"
         "b\xef\xbf\xbd"
         "c"},
        {"\xe4\xb8", "\xef\xbf\xbd"}, /* incomplete at the end */
        {"\xe4\xb8z",
         "\xef\xbf\xbdz"}, /* incomplete before another character */
        {"\xf0\x9f\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"},
        {"\xc0\x9b", "\xef\xbf\xbd\xef\xbf\xbd"}, /* ESC in two bytes */
        {"\xe0\x80\x9b", "\xef\xbf\xbd"},         /* in three */
        {"\xf0\x80\x80\x9b", "\xef\xbf\xbd"},     /* in four */
        {"\xed\xa0\x80", "\xef\xbf\xbd"},         /* a surrogate */
        {"\xed\x9f\xbf\xee\x80\x80",
         "\xed\x9f\xbf\xee\x80\x80"},         /* next to surrogates */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd"}, /* beyond U+10FFFF */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        /* the first characters of 3 and 4 bytes */
        {"\xe0\xa0\x80\xf0\x90\x80\x80", "\xe0\xa0\x80\xf0\x90\x80\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            Channel c;
            char text[64];
            int n = (int)strlen(cases[i].in);
            CHECK(open_terminal(&c), "no terminal");
            for (int k = 0; k < n; k += bytewise ? 1 : n)
                stream_write(&c.stream, cases[i].in + k, bytewise ? 1 : n);
            CHECK(stream_close(&c.stream) == 0, "does not close");
            receive(&c, text, sizeof text);
            CHECK(!strcmp(text, cases[i].out), "case %zu: '%s', expected '%s'",
                  i, text, cases[i].out);
            close_channel(&c);
        }
}

/* The code point at s, its length in *n; -1 for invalid UTF-8 (RFC 3629). */
static int decode(const char *s, int left, int *n) {
    static const int min[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = (uint8_t)s[0];
    *n = lead < 0x80       ? 1
         : lead >> 5 == 6  ? 2
         : lead >> 4 == 14 ? 3
         : lead >> 3 == 30 ? 4
                           : 0;
    if (*n == 0 || *n > left)
        return -1;
    int code = *n == 1 ? lead : lead & (0x7f >> *n);
    for (int i = 1; i < *n; i++) {
        if ((uint8_t)s[i] >> 6 != 2)
            return -1;
        code = code << 6 | ((uint8_t)s[i] & 0x3f);
    }
    return code < min[*n] || code > 0x10ffff ||
                   (code >= 0xd800 && code < 0xe000)
               ? -1
               : code;
}

/* For random bytes, many of them lead and continuation bytes, the output is
 * UTF-8 without control characters. */
static void a_terminal_gets_only_utf8(void) {
    static const uint8_t leads[] = {0xc2, 0xe0, 0xe1, 0xed, 0xef,
                                    0xf0, 0xf1, 0xf4, 0xf5};
    Channel c;
    CHECK(open_terminal(&c), "no terminal");
    for (int round = 0; round < (test_fast() ? 100 : 3000); round++) {
        char bytes[32], text[256];
        for (int i = 0; i < 32; i++)
            bytes[i] = (char)(any(3) == 0 ? leads[any(9)]
                              : any(2)    ? 0x80 + any(64)
                                          : any(256));
        stream_write(&c.stream, bytes, 32);
        stream_write(&c.stream, "|", 1); /* ends an incomplete character */
        int n = receive(&c, text, sizeof text);
        CHECK(n > 0 && text[n - 1] == '|', "round %d: the end is missing",
              round);
        for (int at = 0, length; at < n; at += length) {
            int code = decode(text + at, n - at, &length);
            CHECK(code >= 0x20 || code == '\t' || code == '\n',
                  "round %d: code %d at %d", round, code, at);
            CHECK(code < 0x7f || code >= 0xa0,
                  "round %d: control character %#x", round, (unsigned)code);
        }
    }
    CHECK(stream_close(&c.stream) == 0, "does not close");
    close_channel(&c);
}

/* ---- failures ----------------------------------------------------------- */

static void check_failing(FILE *out, int bytes) {
    Stream s;
    stream_open(&s, out);
    for (int i = 0; i < bytes; i++)
        stream_write(&s, "x", 1);
    stderr_hide();
    int status = stream_close(&s), lines = stderr_show();
    CHECK(status == -1 && lines == 1, "%d bytes: status %d, %d lines on stderr",
          bytes, status, lines);
}

static void a_full_disk_is_an_error(void) {
    for (int bytes = 1; bytes <= 100000;
         bytes *= 100) { /* less and more than a buffer */
        FILE *out = fopen("/dev/full", "wb");
        CHECK(out, "no /dev/full");
        check_failing(out, bytes);
        fclose(out);
    }
}

static void a_closed_pipe_is_an_error(void) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* as main does */
    Channel c;
    CHECK(open_pipe(&c), "no pipe");
    close(c.reader);
    check_failing(c.out, 10);
    fclose(c.out);
    signal(SIGPIPE, before);
}

/* An error of a flush or of a full buffer is remembered although later writes
 * succeed. */
static void check_early_error(bool flush) {
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    FILE *out = fopen("/dev/full", "wb");
    Stream s;
    stream_open(&s, out);
    s.flushed =
        flush ? 0
              : clock_seconds() + 1e6; /* long ago, or not for a long time */
    for (int i = 0; i < (flush ? 1 : 20000); i++)
        stream_write(&s, "lost", 4);
    CHECK(s.error != 0, "no error yet");
    dup2(ends[1], fileno(out)); /* room again */
    stderr_hide();
    int status = stream_close(&s), lines = stderr_show();
    CHECK(status == -1 && lines == 1, "status %d, %d lines", status, lines);
    fclose(out);
    close(ends[0]);
    close(ends[1]);
}

static void an_early_error_is_remembered(void) {
    check_early_error(true);
    check_early_error(false);
}

static int writes;

static ssize_t fail_to_write(void *cookie, const char *bytes, size_t n) {
    (void)cookie, (void)bytes, (void)n;
    writes++;
    return 0;
}

/* No write follows a write that failed or that Ctrl-C ended, since it could
 * block again. */
static void no_write_follows_an_error(void) {
    for (int length = 1; length <= 32; length++) {
        static const char text[] = "0123456789abcdef\xc3\xa4"
                                   "0123456789\xc3";
        static char buffer[16];
        FILE *out = fopencookie(
            NULL, "w", (cookie_io_functions_t){.write = fail_to_write});
        Stream s;
        CHECK(out && !setvbuf(out, buffer, _IOFBF, sizeof buffer), "no stream");
        stream_open(&s, out);
        s.flushed = 0; /* long ago */
        writes = 0;
        stream_write(&s, text, length < 29 ? length : 29);
        stderr_hide();
        CHECK(stream_close(&s) == -1 && stderr_show() == 1 && writes == 1,
              "%d bytes: %d writes", length, writes);
        fclose(out);
    }
}

/* ---- wrapping ------------------------------------------------------------ */

/* The rows of a terminal after the text, by the rules of xterm: a full row
 * wraps with the next character. Wide characters take two columns. */
static const char *rows_of(const char *text, int columns, int column) {
    static char shown[4096];
    char row[256];
    size_t n = 0, n_row = (size_t)column;
    memset(row, '.', n_row);
    int length, at = column;
    shown[0] = '\0';
    while (*text) {
        int to, n_bytes = 1;
        if (sscanf(text, "\033[%dG\033[K%n", &to, &length) == 1) {
            at = to - 1;
            n_row = (size_t)at; /* of one byte each in these tests */
            text += length;
            continue;
        }
        while ((text[n_bytes] & 0xc0) == 0x80)
            n_bytes++;
        int w = n_bytes > 1 ? 2 : 1;
        if (*text == '\n' || at + w > columns) {
            n += (size_t)sprintf(shown + n, "%.*s\n", (int)n_row, row);
            n_row = 0;
            at = 0;
        }
        if (*text != '\n') {
            memcpy(row + n_row, text, (size_t)n_bytes);
            n_row += (size_t)n_bytes;
            at += w;
        }
        text += n_bytes;
    }
    sprintf(shown + n, "%.*s", (int)n_row, row);
    return shown;
}

static void lines_wrap_at_words(void) {
    static const struct {
        const char *text;
        int column;
        const char *rows;
    } cases[] = {
        {"some words here", 0, "some words\nhere"},
        {"some words, here", 0, "some \nwords, \nhere"},
        {"0123456789 ab", 0, "0123456789\nab"},
        {"0123456789ab cd", 0, "0123456789\nab cd"},
        {"a 0123456789ab cd", 0, "a \n0123456789\nab cd"},
        {"abc de", 6, "......abc \nde"},
        {"abcde fg", 6, "......\nabcde fg"},
        {"a\nb c d e f g h", 0, "a\nb c d e f \ng h"},
        {"\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0 \xe4\xbd\xa0\xe4\xbd\xa0",
         0,
         "\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0 \n\xe4\xbd\xa0\xe4\xbd\xa0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int step = 1; step < 8; step += 3) { /* bytes that come together */
            Channel c;
            char text[4096];
            CHECK(open_terminal(&c), "no terminal");
            stream_wrap(&c.stream, 10, cases[i].column);
            int n = (int)strlen(cases[i].text);
            for (int at = 0; at < n; at += step)
                stream_write(&c.stream, cases[i].text + at,
                             at + step < n ? step : n - at);
            CHECK(stream_close(&c.stream) == 0, "does not close");
            receive(&c, text, sizeof text);
            const char *rows = rows_of(text, 10, cases[i].column);
            CHECK(!strcmp(rows, cases[i].rows), "%zu: '%s', expected '%s'", i,
                  rows, cases[i].rows);
            close_channel(&c);
        }
    /* any words: only spaces become newlines, and no word is split that fits */
    for (int i = 0; i < 200; i++) {
        Channel c;
        char words[512] = "", text[4096];
        int columns = 20 + any(60);
        for (int k = 0; k < 40; k++)
            sprintf(words + strlen(words), "%.*s ", 1 + any(12),
                    "abcdefghijklm");
        CHECK(open_terminal(&c), "no terminal");
        stream_wrap(&c.stream, columns, 0);
        write_text(&c, words);
        CHECK(stream_close(&c.stream) == 0, "does not close");
        receive(&c, text, sizeof text);
        const char *rows = rows_of(text, columns, 0);
        const char *w = words;
        for (const char *r = rows; *r; r++) {
            if (*r == *w)
                w++;
            else
                CHECK(*r == '\n' && (w == words || w[-1] == ' ' || *w == ' '),
                      "a word is split: '%s'", rows);
            if (*r == '\n' && *w == ' ')
                w++;
        }
        close_channel(&c);
    }
}

void suite_stream(void) {
    TEST(lines_wrap_at_words);
    TEST(characters_are_written_whole);
    TEST(a_pipe_gets_every_byte);
    TEST(text_is_flushed_after_a_while);
    TEST(a_terminal_gets_only_text);
    TEST(a_terminal_gets_only_utf8);
    TEST(a_full_disk_is_an_error);
    TEST(a_closed_pipe_is_an_error);
    TEST(an_early_error_is_remembered);
    TEST(no_write_follows_an_error);
}
