/* follow.c: the protocol between the sessions of several ranks.
 *
 * Owns the messages: every change to rank 0's session is broadcast before it happens, and repeated
 * by all other ranks. share.c divides the rows; base/ranks.c exchanges results.
 */
#include "cluster/follow.h"
#include "base/memory.h"
#include "base/ranks.h"
#include <stdlib.h>
#include <string.h>

enum { END = -1 };

typedef struct {
    int change; /* a SessionChange, or END */
    int a, b;   /* its arguments, or the exit status */
    Step steps[];
} Message;

static void mirror(SessionChange change, int a, int b, const Step *steps) {
    const size_t step_bytes = steps ? (size_t)a * sizeof *steps : 0,
                 bytes = sizeof(Message) + step_bytes;
    Message *message = allocate(bytes, 1);
    if (!message) {
        ranks_abort();
        return;
    }
    *message = (Message){.change = (int)change, .a = a, .b = b};
    if (steps)
        memcpy(message->steps, steps, step_bytes);
    ranks_tell(message, bytes);
    free(message);
}

Mirror *follow_mirror(void) {
    return ranks_number() > 1 && ranks_own() == 0 ? mirror : NULL;
}

void follow_end(int status) {
    mirror((SessionChange)END, status, 0, NULL);
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
