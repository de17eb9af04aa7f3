/* error.h: messages to the user. */
#pragma once

#include <stdbool.h>

/* Exit statuses. 130, after Ctrl-C, is in process.h. */
enum { EXIT_BAD_INPUT = 1 /* or environment */, EXIT_BAD_USAGE = 2 };

/* Whether a terminal moves its cursor: not with TERM=dumb. */
bool has_escapes(void);

/* Whether texts are UTF-8, by the environment: LC_ALL, else LC_CTYPE, else
 * LANG. */
bool shows_utf8(void);

/* Whether a terminal may show dim text: has_escapes(), and no NO_COLOR. */
bool may_style(void);

#define STYLE_DIM "\033[2m"
#define NOT_DIM   "\033[0m"

/* Prints "kind: message" on stderr as one printable line. kind: "note"; NULL
 * for failures: the program's name. */
void print_message(const char *kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shows what the program is doing, dim, on the terminal on stderr, until the
 * next message or hide_status(). The caller knows that it is one; with
 * TERM=dumb nothing is shown. */
void show_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Also for handlers of signals. */
void hide_status(void);

/* Replaces with '?' the characters that could corrupt a terminal's output:
 * control characters, line ends, changes of writing direction and invalid
 * UTF-8. File names may contain them. */
void make_printable(char *text);

/* Sets whether failures are printed as notes, for optional input. */
void print_failures_as_notes(bool as_notes);

/* While messages are held, nothing is printed and the last failure is kept.
 * Used on ranks other than 0 and to limit the number of reported failures. */
void hold_messages(bool hold);

/* If messages are held, prints the failure with its rank: "norma: rank
 * 2: ...". */
void print_held_message(int rank);

/* A function, because compilers warn about an unused -1. */
static inline int minus_one(void) {
    return -1;
}

/* fail(format, ...) prints a failure and evaluates to -1; the next two evaluate
 * to an exit status. */
#define fail(...)      (print_message(NULL, __VA_ARGS__), minus_one())
#define bad_input(...) (print_message(NULL, __VA_ARGS__), EXIT_BAD_INPUT)
#define bad_usage(...) (print_message(NULL, __VA_ARGS__), EXIT_BAD_USAGE)
#define note(...)      print_message("note", __VA_ARGS__)
