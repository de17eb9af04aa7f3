/* error.c: how a failure is told.
 *
 * Owns the one line on stderr that says what went wrong, and that what a hostile file is
 * called or says upsets no terminal.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static void print_line(const char *kind, const char *format, va_list args) {
    char line[1024];
    vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    fprintf(stderr, "%s: %s\n", kind, line);
}

int(fail)(const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_line("run", format, args);
    va_end(args);
    return -1;
}

void note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_line("note", format, args);
    va_end(args);
}
