/* stream.h: output of generated text. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Writes text in whole UTF-8 characters. On a terminal, control characters
 * other than newline and tab, and changes of writing direction, are dropped and
 * invalid UTF-8 becomes U+FFFD; a pipe or a file gets every byte unchanged. */
typedef struct {
    FILE *out;
    bool terminal;
    char held[4]; /* [n_held]: bytes of an incomplete character */
    int n_held;
    double flushed; /* time of the last flush, in seconds of clock_seconds() */
    int error;      /* errno of the failed write; 0: none */
} Stream;

void stream_open(Stream *s, FILE *out);
void stream_write(Stream *s, const char *bytes, int n);

/* Writes the held bytes and flushes. Returns -1 and a message if a write
 * failed, unless Ctrl-C interrupted it. */
int stream_close(Stream *s);
