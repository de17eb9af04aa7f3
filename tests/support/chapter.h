/* chapter.h: the numbered statements of a chapter, and the numbers in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    MAX_STATEMENTS = 99,
    MAX_NUMBERS = 2000,
    PROSE = 0 /* text outside of statements */
};

typedef struct {
    double value, half; /* half a unit of the last digit shown */
    char text[32]; /* as in the chapter, without commas, with an ASCII minus */
} Number;

typedef struct {
    const char *path;
    char *text; /* owned */
    int n_statements;
    /* of statements 1 to n_statements */
    const char *start[MAX_STATEMENTS + 1], *end[MAX_STATEMENTS + 1];
    /* [MAX_STATEMENTS + 1][n_numbers], owned; PROSE and the statements */
    Number *numbers[MAX_STATEMENTS + 1];
    int n_numbers[MAX_STATEMENTS + 1];
} Chapter;

/* The text of a chapter x.md, followed by its other pages, if there are such:
 * x_depth.md, x_published.md, x_exercises.md, x_appendix.md. The caller frees
 * it. NULL if the file is missing. */
char *chapter_text(const char *path);

/* A statement begins with "**N.** " at the start of a line and ends at the next
 * statement or heading ("# " or "## "). Digits in names (float32), code,
 * commands, addresses and pictures are not numbers. Returns -1 if the file is
 * missing. */
int chapter_open(Chapter *c, const char *path);
void chapter_close(Chapter *c);

/* Whether the value, rounded to the number's digits, equals the number. */
bool number_shows(const Number *n, double value);

/* Reads a number at the beginning of a text. Returns its length; 0: no
 * number. */
size_t number_read(Number *n, const char *text);
