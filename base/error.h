/* error.h: messages to the user. */
#pragma once

#include <stdbool.h>

/* Exit statuses. 130 after Ctrl-C is process.h's. */
enum { EXIT_BAD_INPUT = 1 /* or environment */, EXIT_BAD_USAGE = 2 };

/* Prints "kind: message" on stderr, one printable line: "run" of a failure, "note" of what the user may not expect. */
void print_message(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts '?' in place of what a terminal may not show as it is (in a hostile file name, say): control characters, ends of
 * lines, characters that turn the direction of writing, and bytes that are no UTF-8. */
void make_printable(char *text);

/* From here on failures are printed as notes, for what the run can do without; false: as failures again. */
void print_failures_as_notes(bool as_notes);

/* While messages are held, none is printed, and the last failure is kept: for ranks other than 0, and for failures that
 * repeat. */
void hold_messages(bool hold);

/* Prints it, and which rank's it is: "run: rank 2: ...". */
void print_held_message(int rank);

/* (A function, because compilers warn of a -1 that nobody uses.) */
static inline int minus_one(void) { return -1; }

/* fail(format, ...) prints a failure and is -1, to `return` it. The next two are the exit status that belongs to it. */
#define fail(...)      (print_message("run", __VA_ARGS__), minus_one())
#define bad_input(...) (print_message("run", __VA_ARGS__), EXIT_BAD_INPUT)
#define bad_usage(...) (print_message("run", __VA_ARGS__), EXIT_BAD_USAGE)
#define note(...)      print_message("note", __VA_ARGS__)
