/* process.c: the running program.
 *
 * Owns what only the operating system knows of it.
 */
#include "base/process.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

bool on_terminal(FILE *stream) { return isatty(fileno(stream)) == 1; }
