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
    int columns;    /* of the terminal; 0: lines are not wrapped at words */
    int column;     /* columns written in this row */
    char word[256]; /* [n_word]: the last word, if it can move */
    int n_word, word_columns;
} Stream;

void stream_open(Stream *s, FILE *out);
/* Wraps lines at words: a word that does not fit in a row of the terminal moves
 * to the next one, also if its begin has been written. `column`: those before
 * the text. Words without spaces, such as Chinese, are wrapped anywhere. */
void stream_wrap(Stream *s, int columns, int column);

void stream_write(Stream *s, const char *bytes, int n);

/* Writes the held bytes and flushes. Returns -1 and a message if a write
 * failed, unless Ctrl-C interrupted it. */
int stream_close(Stream *s);

/* Writes a text without a newline in lines of at most `columns` columns,
 * wrapped at spaces, and a newline; the first one begins at `column`. A longer
 * word has its own line. Characters are one column wide. */
void write_words(FILE *out, const char *text, int column, int columns);
