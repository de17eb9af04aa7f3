/* follow.c: the protocol between the sessions of several ranks.
 *
 * Owns the messages: every change to rank 0's session is broadcast before it
 * happens, and repeated by all other ranks. share.c divides the rows;
 * base/ranks.c exchanges results.
 * Tests: ranks, sequences.
 */
#include "cluster/follow.h"
#include "base/memory.h"
#include "base/ranks.h"
#include <stdlib.h>

static const SessionChange END = SESSION_RUN + 1;

typedef struct {
    SessionChange change; /* or END */
    int a, b;             /* its arguments, or the exit status */
    Step steps[];
} Message;

static void mirror(SessionChange change, int a, int b, const Step *steps) {
    Buffer message = {0};
    buffer_append(&message, &(Message){change, a, b}, sizeof(Message));
    if (steps)
        buffer_append(&message, steps, (size_t)a * sizeof *steps);
    if (message.failed)
        ranks_abort();
    ranks_tell(message.bytes, message.n);
    free(message.bytes);
}

Mirror *follow_mirror(void) {
    return n_ranks > 1 && own_rank == 0 ? mirror : NULL;
}

void follow_end(int status) {
    mirror(END, status, 0, NULL);
}

/* Repeats a change. Returns the number of steps, or -1 on failure. */
static int repeat(Session *s, const Message *m) {
    if (m->change == SESSION_FORK)
        return session_fork(s, m->a, m->b);
    return model_forward(s, m->steps, m->a) ? m->a : -1;
}

int follow(Session *s, Tuning *tuning) {
    Message *m;
    while ((m = ranks_hear()) && m->change != END) {
        const int n = repeat(s, m);
        if (n < 0)
            ranks_abort();
        tune(tuning, n);
        free(m);
    }
    const int status = m ? m->a : 0;
    free(m);
    return status;
}
