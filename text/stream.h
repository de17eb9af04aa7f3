/* stream.h: text on its way to the reader. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Writes text as it comes, whole UTF-8 characters only. On a terminal control characters other than white space are
 * left out and bytes that are no UTF-8 become U+FFFD; a pipe or a file gets every byte as it is. */
typedef struct {
    FILE *out;
    bool terminal;
    char held[4]; /* [n_held]: bytes of a character that is not whole yet */
    int n_held;
    double flushed; /* when the reader last got something, in seconds of now() */
    int error;      /* errno of a write that failed */
} Stream;

void stream_open(Stream *s, FILE *out);
void stream_write(Stream *s, const char *bytes, int n);

/* Writes what is held and flushes. -1 and a message if a write failed, other than by Ctrl-C. */
int stream_close(Stream *s);
