/* process.h: the running program.
 *
 * Owns what only the operating system knows of it.
 */
#ifndef NORMA_PROCESS_H
#define NORMA_PROCESS_H

#include <stdbool.h>
#include <stdio.h>

bool on_terminal(FILE *stream);

#endif
