/* book.h: a chapter of docs/ whose numbered statements are tests. */
#pragma once

#include <stddef.h>

/* The test of a statement; its name follows the statement's arrow in the
 * chapter. */
typedef struct {
    const char *name;
    void (*test)(void);
} Statement;

#define STATEMENT(f)                                                           \
    { #f, f }

/* The tests of a file. */
typedef struct {
    const Statement *tests;
    int n;
} Table;

#define TABLE(statements)                                                      \
    { statements, sizeof(statements) / sizeof *(statements) }

enum { MAX_TABLES = 8 };

/* A chapter and its tests. */
typedef struct {
    const char *chapters[2]; /* English, Chinese */
    /* file of numbers that no test computes: lines "STATEMENT: ...", 0 for
     * other prose */
    const char *given;
    int n_statements;                    /* of each chapter */
    const Table *tables[MAX_TABLES + 1]; /* up to a NULL */
} Book;

/* Runs the tests, then checks the chapters: every statement names a test, a
 * command or, for measurements made elsewhere, the file `given`. Each of its
 * numbers is computed by its test or given. Both languages have the same
 * numbers. */
void book_test(const Book *book);

/* Declares the numbers of the running test's statement: it must contain each of
 * them and, except for given numbers, no others. They are closed forms or
 * computed in double precision. */
#define HOLDS(...)                                                             \
    holds((const double[]){__VA_ARGS__},                                       \
          sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
void holds(const double *values, size_t n);

/* Declares that the numbers of the running test's statement cannot be computed,
 * because a file is missing. */
void holds_unknown(void);

/* Checks that the statements of two chapters have the same numbers, equally
 * often, to the digit. */
void same_numbers(const char *english, const char *chinese);
