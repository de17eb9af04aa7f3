/* editor.h: a message that is edited at the prompt of a terminal: keys change
 * the text, and the text is drawn. */
#pragma once

#include "base/memory.h"
#include "base/process.h"
#include "text/draft.h"
#include "text/history.h"
#include "text/keys.h"
#include "text/kill_ring.h"

/* Appends the texts, each with a zero byte, that may replace the end of
 * text[n], from the returned place on. */
typedef size_t (*Completer)(const char *text, size_t n, Buffer *candidates);

/* Initialize with zeros, then editor_begin(). */
typedef struct {
    Completer completer; /* of messages that begin with "/"; NULL: none */
    bool styled;         /* the prompt is dim */
    KeyReader keys;
    Draft draft; /* the message, or the entry of the history at `at` */
    History history;
    int at;        /* history.n: the new message */
    char **edited; /* [n_edited], owned: texts that were left; or NULL */
    int n_edited;
    KillRing ring;
    Key last;       /* the last key; an older kill goes on with a yank */
    size_t yanked;  /* where the text of the last KEY_YANK begins */
    bool searching; /* Ctrl-R: `query` is edited, and entry `found` shown */
    Buffer query, prompt, candidates; /* owned */
    int found;                        /* -1: none; history.n: no query yet */
    bool begins_pasted;               /* a """ at the begin is the message's */
    char bytes[4096];                 /* [n_bytes]: what the terminal sent */
    int n_bytes, n_taken;
} Editor;

/* What a key asks the caller for. LISTED: to show `candidates`; CLEARED: to
 * clear the screen. */
typedef enum {
    EDITED,
    SENT,
    ENDED,
    CANCELED,
    STOPPED,
    LISTED,
    CLEARED
} EditorEvent;

/* Begins a message, an empty one. Returns -1 and a message if out of memory. */
int editor_begin(Editor *e);

/* Takes a byte that the terminal has sent. SENT: the message is complete;
 * ENDED, CANCELED, STOPPED: Ctrl-D without a text, Ctrl-C, Ctrl-Z. Unknown keys
 * do nothing. */
EditorEvent editor_take(Editor *e, char byte);

/* The text, valid until the next editor_take(). */
Buffer *editor_text(Editor *e);

/* Whether a message begins with """ and does not end with it yet. */
bool is_quote_open(const Buffer *text);

/* Appends to `out` what moves the terminal's cursor from its place in the text
 * to the first row drawn; call it before a key changes the text. The width may
 * have changed since. */
void editor_return(Editor *e, Screen s, Buffer *out);

/* Appends what draws the prompt and the text from there, and leaves the cursor
 * at its place. Of a text of more rows than the screen, the rows up to the
 * cursor's. `whole`: all rows, the cursor after the last. */
void editor_draw(Editor *e, Screen s, bool whole, Buffer *out);

/* Reads a message from the terminal on standard input, which is open for it;
 * afterwards open for an answer. Returns 0, 1 after Ctrl-D or two Ctrl-C at an
 * empty prompt, or if the terminal is gone, -1 and a message on failure. */
int editor_read(Editor *e);

void editor_close(Editor *e);
