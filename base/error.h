/* error.h: how a failure is told.
 *
 * Owns the one line on stderr that says what went wrong.
 */
#ifndef NORMA_ERROR_H
#define NORMA_ERROR_H

#include <stdio.h>

/* Prints "run: " and the message as one line on stderr; returns -1, so that
 * a caller can write `return fail(...)`. Control characters (a hostile file
 * name, say) are shown as '?'. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int minus_one(int status) { return status < 0 ? status : -1; }
#define fail(...) minus_one(fail(__VA_ARGS__)) /* so that the compiler knows the sign, too */

/* Prints "note: " and the message as one line on stderr: what the user may not expect of a run that goes on. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
