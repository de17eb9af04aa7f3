/* book.h: a chapter of docs/ whose numbered statements are tests. */
#pragma once

#include <stddef.h>

/* A test that is the proof of a statement, by the name that stands behind the statement's arrow. */
typedef struct {
    const char *name;
    void (*test)(void);
} Statement;

#define STATEMENT(f)                                                                                                   \
    { #f, f }

/* The tests stand in the chapter's order, in up to two tables. */
typedef struct {
    const char *chapters[2]; /* English, Chinese */
    const char *given;       /* the numbers that no test computes: lines "NUMBER: ...", 0 for what is in no statement */
    int n_statements;        /* of each chapter */
    const Statement *tables[2];
    int n[2];
} Book;

/* Runs the tests. Then: every statement names what shows it: a test, a command, or, what was measured elsewhere, the
 * file `given`; its numbers are those that its test holds, or given; both languages have the same. */
void book_test(const Book *book);

/* The numbers that the statement of the running test has: each stands in it, and no other number does but those that
 * are given. Double precision, closed forms or computed here. */
#define HOLDS(...) holds((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
void holds(const double *values, size_t n);

/* The numbers of the running test's statement are not known here: what it needs is missing. */
void holds_unknown(void);

/* Each statement of two chapters has the same numbers, as often, to the digit. */
void same_numbers(const char *english, const char *chinese);
