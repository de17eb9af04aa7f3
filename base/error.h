/* error.h: messages to the user. */
#ifndef NORMA_ERROR_H
#define NORMA_ERROR_H

/* Exit statuses. 130 after Ctrl-C is process.h's. */
enum { EXIT_BAD_INPUT = 1 /* or environment */, EXIT_BAD_USAGE = 2 };

/* Prints "kind: message" on stderr, "run: " of a failure, "note: " of what the user may not expect. A message is
 * one line; its control characters (a hostile file name, say) are shown as '?'. */
void print_message(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* (A function, because compilers warn of a -1 that nobody uses.) */
static inline int minus_one(void) { return -1; }

/* fail(format, ...) prints a failure and is -1, so that a caller can write `return fail(...)`. The
 * next two are the exit status that belongs to the failure. */
#define fail(...)      (print_message("run", __VA_ARGS__), minus_one())
#define bad_input(...) (print_message("run", __VA_ARGS__), EXIT_BAD_INPUT)
#define bad_usage(...) (print_message("run", __VA_ARGS__), EXIT_BAD_USAGE)
#define note(...)      print_message("note", __VA_ARGS__)

#endif
