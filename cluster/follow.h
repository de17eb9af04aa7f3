/* follow.h: the sessions of other ranks repeat rank 0's session. */
#pragma once

#include "lab/tune.h"
#include "session.h"

/* The mirror of rank 0's session; NULL on other ranks and with one rank. */
Mirror *follow_mirror(void);

/* On the other ranks, whose session was opened like rank 0's: repeats rank 0's
 * changes until it ends. Returns rank 0's exit status. A failure here ends all
 * ranks. */
int follow(Session *s, Tuning *tuning);

/* On rank 0: ends the ranks that follow, with this exit status. */
void follow_end(int status);
