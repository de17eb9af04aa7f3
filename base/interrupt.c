/* interrupt.c: Ctrl-C.
 *
 * Owns the handler of the signal, the flag that it sets and the pipe that wakes what waits.
 */
#include "base/interrupt.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t interrupted;
int interrupt_fd = -1;
static int interrupt_write_fd = -1;

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
    if (write(interrupt_write_fd, "", 1) < 0) return; /* a flag without its pipe still ends every loop */
}

/* The first Ctrl-C asks to stop, the second one stops. */
int watch_interrupts(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return fail("cannot make a pipe: %s", strerror(errno));
    interrupt_fd = ends[0];
    interrupt_write_fd = ends[1];
    return sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, NULL);
}
