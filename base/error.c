/* error.c: how a failure is told.
 *
 * Owns the one line on stderr that says what went wrong, and that what a hostile file is
 * called or says upsets no terminal.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

int(fail)(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    fprintf(stderr, "run: %s\n", line);
    return -1;
}
