/* error.c: messages to the user. */
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>

void print_message(const char *kind, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    fprintf(stderr, "%s: %s\n", kind, line);
}
