/* chapter.h: the chapters as tests read them: their numbered statements, and the numbers in each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MOST_STATEMENTS = 99, MOST_NUMBERS = 400, PROSE = 0 /* what belongs to no statement */ };

typedef struct {
    double value, half; /* half a unit of the last digit shown */
    char text[32];      /* as it stands there, without commas, with a plain minus */
} Number;

typedef struct {
    const char *path;
    char *text; /* owned */
    int n_statements;
    const char *start[MOST_STATEMENTS + 1], *end[MOST_STATEMENTS + 1]; /* of statements 1 to n_statements */
    Number *numbers[MOST_STATEMENTS + 1]; /* [MOST_STATEMENTS + 1][n_numbers], owned; PROSE and the statements */
    int n_numbers[MOST_STATEMENTS + 1];
} Chapter;

/* A statement begins at "**N.** " at the beginning of a line, and ends at the next one or at a heading "## ". Numbers
 * are all digits but those of names (float32), code, commands, addresses and pictures. -1: no such file. */
int chapter_open(Chapter *c, const char *path);
void chapter_close(Chapter *c);

/* Whether a value, rounded to as many digits as the number shows, is the number. */
bool number_shows(const Number *n, double value);

/* Reads one number from the beginning of a text. Returns its length; 0: there is none. */
size_t number_read(Number *n, const char *text);
