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
        buffer_append(&message, steps, a * sizeof *steps);
    if (message.failed)
        ranks_abort();
    ranks_tell(message.bytes, message.n);
    free(message.bytes);
}

Mirror *follow_mirror(void) {
    return n_ranks > 1 && !own_rank ? mirror : NULL;
}

void follow_end(int status) {
    mirror(END, status, 0, NULL);
}

int follow(Session *s, Tuning *tuning) {
    Message *m;
    while ((m = ranks_hear()) && m->change != END) {
        bool fork = m->change == SESSION_FORK;
        if (fork ? session_fork(s, m->a, m->b)
                 : !model_forward(s, m->steps, m->a))
            ranks_abort();
        tune(tuning, fork ? 0 : m->a);
        free(m);
    }
    int status = m ? m->a : 0;
    free(m);
    return status;
}
