/* wrap.h: what tests replace in the program, besides the functions of
 * wrap.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Called before each allocation, if not NULL. */
extern void (*before_allocation)(void);

/* Replaces the clock nanoseconds(), if not NULL. */
extern uint64_t (*virtual_clock)(void);

/* Replaces the number of involuntary context switches; -1: the system's
 * number. */
extern long processors_lost;

/* Replaces the ModelFamily that a reader or the writer has found, if not
 * NULL. */
extern const void *(*replaced_family)(const void *found);

/* Replace the available memory, in bytes, and the processors that limits
 * allow; 0: the system's numbers. */
extern size_t bytes_available, processors_available;
