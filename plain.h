/* plain.h: the decoder by its formulas, as a session calls it: model_forward()
 * and session_fork() in double precision, independent of the rest of the
 * decoder. It needs a session's `model`, `ropes` and `sequences`, zeroed;
 * forward() returns NULL also after Ctrl-C. */
#pragma once

#include "session.h"

extern const Formulas PLAIN;
