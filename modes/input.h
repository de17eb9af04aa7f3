/* input.h: messages from a terminal or a pipe. */
#pragma once

#include "base/memory.h"
#include "text/editor.h"

enum { MAX_LINE = 1 << 24 }; /* bytes; a chat template writes as many */

/* Standard input. Initialize with zeros. */
typedef struct {
    Buffer line;    /* the last line of a pipe */
    Buffer message; /* the last message, without an editor */
    Editor editor;  /* of a terminal that moves its cursor */
} Messages;

/* Opens the terminal for the editor, which reads a message `now` or waits.
 * Returns false if there is none, or one that edits lines itself. */
bool input_edits(bool now);

/* Reads a message: a line, or at a terminal what its user edits, or lines
 * between two """. *message has *size bytes and a zero byte, and is valid until
 * the next call. Returns 0, 1 at the end of the input or after Ctrl-C, -1 and a
 * message on failure. */
int input_read(Messages *in, char **message, size_t *size);

/* Discards what the terminal is still sending, and frees the memory. */
void input_close(Messages *in);
