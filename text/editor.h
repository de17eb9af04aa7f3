/* editor.h: a message that is edited at the prompt of a terminal: keys change
 * the text, and the text is drawn. */
#pragma once

#include "base/memory.h"
#include "base/process.h"

/* Initialize with zeros, then editor_begin(). */
typedef struct {
    Buffer *texts; /* [n], owned: the messages sent, then the new one */
    int n, at;     /* texts[at] is edited */
    size_t cursor; /* in bytes of the text, between characters */
    char key[16];  /* [n_key]: an incomplete key */
    int n_key;
    bool pasting;       /* between the marks of a paste */
    Buffer paste;       /* its text so far, owned */
    bool after_return;  /* the paste's last byte was '\r' */
    bool begins_pasted; /* a """ at the begin is the message's own */
    char bytes[4096];   /* [n_bytes]: what the terminal has sent */
    int n_bytes, n_taken;
} Editor;

/* What a key asks the caller for. */
typedef enum { EDITED, SENT, ENDED, CANCELED, STOPPED } EditorEvent;

/* Begins a message, an empty one. Returns -1 and a message if out of memory. */
int editor_begin(Editor *e);

/* Takes a byte that the terminal has sent. SENT: the message is complete;
 * ENDED, CANCELED, STOPPED: Ctrl-D without a text, Ctrl-C, Ctrl-Z. Unknown keys
 * do nothing, and within a paste all bytes are text or are dropped. */
EditorEvent editor_take(Editor *e, char byte);

/* The text, valid until the next editor_take(). */
Buffer *editor_text(const Editor *e);

/* Whether a message begins with """ and does not end with it yet. */
bool is_quote_open(const Buffer *text);

/* Appends to `out` what moves the terminal's cursor from its place in the text
 * to the first row drawn; call it before a key changes the text. The width may
 * have changed since. */
void editor_return(const Editor *e, Screen s, Buffer *out);

/* Appends what draws the prompt and the text from there, and leaves the cursor
 * at its place. Of a text of more rows than the screen, the rows up to the
 * cursor's. `whole`: all rows, the cursor after the last. */
void editor_draw(const Editor *e, Screen s, bool whole, Buffer *out);

/* Reads a message from the terminal on standard input, which is open for it;
 * afterwards open for an answer. Returns 0, 1 after Ctrl-D or two Ctrl-C at an
 * empty prompt, or if the terminal is gone, -1 and a message on failure. */
int editor_read(Editor *e);

void editor_close(Editor *e);
