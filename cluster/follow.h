/* follow.h: the sessions of other ranks repeat rank 0's session. */
#pragma once

#include "model.h"

/* The mirror of rank 0's session; NULL on other ranks and with one rank. */
Mirror *follow_mirror(void);

/* On the other ranks, whose session was opened like rank 0's: waits for rank 0's next change and repeats it. Returns
 * the number of steps that ran; -1: rank 0 has ended, with this exit status. A failure here ends all ranks. */
int follow_next(Session *s, int *status);

/* On rank 0: ends the ranks that follow, with this exit status. */
void follow_end(int status);
