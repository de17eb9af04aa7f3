/* book.c: compares a chapter and its translation with the tests of their
 * statements.
 *
 * Records the numbers that the tests computed for their statements and compares
 * them with the numbers in the chapters.
 */
#include "base/file.h"

#include "tests/support/book.h"
#include "tests/support/chapter.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const Book *book;

/* The numbers that each test computed, and its statement. */
static struct {
    double values[MAX_NUMBERS];
    size_t n;
    bool unknown;
    int number; /* of the statement; 0: unknown */
} computed[MAX_STATEMENTS], *current;

void holds(const double *values, size_t n) {
    for (size_t i = 0; i < n && current->n < MAX_NUMBERS; i++)
        current->values[current->n++] = values[i];
}

void holds_unknown(void) {
    current->unknown = true;
}

static int tests_of(const Book *b) {
    int n = 0;
    for (const Table *const *table = b->tables; *table; table++)
        n += (*table)->n;
    return n;
}

static const Statement *statement(int i) {
    const Table *const *table = book->tables;
    for (; i >= (*table)->n; table++)
        i -= (*table)->n;
    return &(*table)->tests[i];
}

/* The index of the test named after a statement's arrow; tests_of(book) for a
 * command or the file `given`; else -1. */
static int shown_by(const char *text, const char *end) {
    const char *arrow =
        memmem(text, (size_t)(end - text), "→ `", strlen("→ `"));
    if (!arrow)
        return -1;
    const char *name = arrow + strlen("→ `");
    for (int i = 0; i < tests_of(book); i++) {
        size_t n = strlen(statement(i)->name);
        if (!strncmp(name, statement(i)->name, n) && name[n] == '`')
            return i;
    }
    bool command =
        !strncmp(name, "./run ", 6) || !strncmp(name, "python scripts/", 15);
    return command || !strncmp(name, book->given, strlen(book->given))
               ? tests_of(book)
               : -1;
}

/* Every test is named in the chapter, of the same statement in both languages;
 * every statement names its test, command or file. */
static void every_statement_is_shown(void) {
    int tests = tests_of(book);
    for (int c = 0; c < 2; c++) {
        Chapter chapter;
        int named = 0;
        CHECK(!chapter_open(&chapter, book->chapters[c]), "%s does not open",
              book->chapters[c]);
        CHECK(chapter.n_statements == book->n_statements, "%s: %d statements",
              chapter.path, chapter.n_statements);
        for (int i = 1; i <= chapter.n_statements; i++) {
            int shown = shown_by(chapter.start[i], chapter.end[i]);
            CHECK(shown >= 0, "%s: statement %d names no test and no command",
                  chapter.path, i);
            if (shown < 0 || shown == tests)
                continue;
            CHECK(computed[shown].number == (c ? i : 0),
                  "%s: statement %d is shown by %s, as another one",
                  chapter.path, i, statement(shown)->name);
            computed[shown].number = i;
            named++;
        }
        CHECK(named == tests, "%s names %d tests of %d", chapter.path, named,
              tests);
        chapter_close(&chapter);
    }
}

/* Statements are numbered in the order of the text. */
static void numbers_rise(void) {
    for (int c = 0; c < 2; c++) {
        Chapter chapter;
        CHECK(!chapter_open(&chapter, book->chapters[c]), "%s does not open",
              book->chapters[c]);
        for (int i = 2; i <= chapter.n_statements; i++)
            CHECK(chapter.start[i - 1] < chapter.start[i],
                  "%s: statement %d is before statement %d", chapter.path, i,
                  i - 1);
        chapter_close(&chapter);
    }
}

/* Numbers that no test computes, because they are given or measured. Lines
 * "STATEMENT: ..." list each number as often as it occurs in the statement. */
typedef struct {
    Number numbers[MAX_STATEMENTS + 1][MAX_NUMBERS];
    int n[MAX_STATEMENTS + 1];
} Given;

static Given *read_given(const char *path) {
    size_t size;
    Given *given = calloc(1, sizeof *given);
    char *text = file_read(path, &size), *rest = text, *line;
    if (!text || !given)
        abort();
    while ((line = strsep(&rest, "\n"))) {
        char *at;
        long i = strtol(line, &at, 10);
        if (*at != ':' || i < 0 || i > book->n_statements)
            continue; /* a comment line */
        for (at++; *at; at++) {
            Number n;
            size_t length = number_read(&n, at);
            if (!length)
                continue;
            given->numbers[i][given->n[i]++] = n;
            at += length - 1;
        }
    }
    free(text);
    return given;
}

/* Removes a number from a statement's given numbers. Returns false if it is not
 * there. */
static bool take_given(Given *given, int number, const char *text) {
    for (int i = 0; i < given->n[number]; i++) {
        if (strcmp(text, given->numbers[number][i].text) != 0)
            continue;
        given->numbers[number][i] = given->numbers[number][--given->n[number]];
        return true;
    }
    return false;
}

/* Whether a statement's number is given or computed by its test. Outside of
 * statements, a number of four characters or more may be computed by any
 * test. */
static bool is_covered(const Number *n, int number, Given *given) {
    bool prose = number == PROSE;
    if (take_given(given, number, n->text))
        return true;
    for (int t = 0; t < tests_of(book) && !(prose && strlen(n->text) < 4);
         t++) {
        if (computed[t].number != number && !prose)
            continue;
        if (computed[t].unknown)
            return true;
        for (size_t i = 0; i < computed[t].n; i++)
            if (number_shows(n, computed[t].values[i]))
                return true;
    }
    return false;
}

/* Whether the value is one of the statement's numbers. */
static bool is_shown(double value, const Chapter *c, int number) {
    for (int i = 0; i < c->n_numbers[number]; i++)
        if (number_shows(&c->numbers[number][i], value))
            return true;
    return false;
}

/* Every number of the chapters is computed by a test or given; every computed
 * number is in the chapters. */
static void every_number_is_covered(void) {
    for (int c = 0; c < 2; c++) {
        Chapter chapter;
        if (chapter_open(&chapter, book->chapters[c])) {
            test_fail(__FILE__, __LINE__, "%s does not open",
                      book->chapters[c]);
            continue;
        }
        Given *given = read_given(book->given);
        for (int i = 0; i <= book->n_statements; i++)
            for (int k = 0; k < chapter.n_numbers[i]; k++)
                if (!is_covered(&chapter.numbers[i][k], i, given))
                    test_fail(__FILE__, __LINE__,
                              "%s, statement %d: no test computes %s",
                              chapter.path, i, chapter.numbers[i][k].text);
        for (int t = 0; t < tests_of(book); t++)
            for (size_t i = 0; i < computed[t].n; i++)
                if (!is_shown(computed[t].values[i], &chapter,
                              computed[t].number))
                    test_fail(__FILE__, __LINE__,
                              "%s, statement %d: %.9g is not in it",
                              chapter.path, computed[t].number,
                              computed[t].values[i]);
        for (int i = 0; i <= book->n_statements; i++)
            for (int k = 0; k < given->n[i]; k++)
                test_fail(__FILE__, __LINE__,
                          "%s, statement %d: %s is given, but not in it",
                          chapter.path, i, given->numbers[i][k].text);
        chapter_close(&chapter);
        free(given);
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(((const Number *)a)->text, ((const Number *)b)->text);
}

void same_numbers(const char *english, const char *chinese) {
    Chapter twins[2];
    CHECK(!chapter_open(&twins[0], english), "%s does not open", english);
    CHECK(!chapter_open(&twins[1], chinese), "%s does not open", chinese);
    for (int i = 0; i <= MAX_STATEMENTS; i++) {
        for (int c = 0; c < 2; c++)
            qsort(twins[c].numbers[i], (size_t)twins[c].n_numbers[i],
                  sizeof(Number), by_text);
        for (int k = 0; k < twins[0].n_numbers[i] || k < twins[1].n_numbers[i];
             k++) {
            const char *a = twins[0].numbers[i][k].text,
                       *b = twins[1].numbers[i][k].text;
            if (!strcmp(a, b))
                continue;
            test_fail(__FILE__, __LINE__,
                      "%s, statement %d: %s in English, %s in Chinese", chinese,
                      i, a, b);
            break;
        }
    }
    for (int c = 0; c < 2; c++)
        chapter_close(&twins[c]);
}

static void twins_have_the_same_numbers(void) {
    same_numbers(book->chapters[0], book->chapters[1]);
}

void book_test(const Book *b) {
    book = b;
    memset(computed, 0, sizeof computed);
    for (int i = 0; i < tests_of(b); i++) {
        current = &computed[i];
        test_run(statement(i)->name, statement(i)->test);
    }
    TEST(every_statement_is_shown);
    TEST(numbers_rise);
    TEST(every_number_is_covered);
    TEST(twins_have_the_same_numbers);
}
