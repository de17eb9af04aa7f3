/* interrupt.h: Ctrl-C.
 */
#ifndef NORMA_INTERRUPT_H
#define NORMA_INTERRUPT_H

#include <signal.h>

/* Set by Ctrl-C; loops that generate or measure look at it. What waits for
 * input polls the file descriptor, which becomes readable then. */
extern volatile sig_atomic_t interrupted;
extern int interrupt_fd;

/* Exit status of a run that Ctrl-C ended. */
enum { EXIT_INTERRUPTED = 130 };

/* From here on the first Ctrl-C asks to stop, the second one stops. */
int watch_interrupts(void);

#endif
