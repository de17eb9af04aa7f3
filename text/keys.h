/* keys.h: what the keys of a terminal mean. */
#pragma once

#include <stdbool.h>

typedef enum {
    KEY_NONE, /* unknown, or not complete yet */
    KEY_TEXT, /* a character or a tab: `bytes` */
    KEY_ENTER,
    KEY_NEW_LINE,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_WORD_LEFT,
    KEY_WORD_RIGHT,
    KEY_LINE_BEGIN,
    KEY_LINE_END,
    KEY_UP,
    KEY_DOWN,
    KEY_DELETE_LEFT,
    KEY_DELETE_RIGHT,
    KEY_KILL_WORD_LEFT,
    KEY_KILL_WORD_RIGHT,
    KEY_KILL_LINE_BEGIN,
    KEY_KILL_LINE_END,
    KEY_YANK,
    KEY_YANK_OLDER,
    KEY_UNDO,
    KEY_COMPLETE,
    KEY_SEARCH,
    KEY_CLEAR_SCREEN,
    KEY_ABORT, /* Ctrl-G */
    KEY_CANCEL,
    KEY_END_OF_INPUT,
    KEY_STOP,
    KEY_PASTE_BEGIN,
    KEY_PASTE_END
} Key;

/* Reads keys from bytes. Initialize with zeros. */
typedef struct {
    char bytes[16]; /* [n] and a zero byte: the key, maybe incomplete */
    int n;
    bool is_complete; /* the next byte begins another key */
    bool pasting;     /* between the marks of a paste */
    bool after_return;
} KeyReader;

/* The key that a byte completes. Inside a paste only KEY_TEXT, KEY_NEW_LINE and
 * KEY_PASTE_END: all else that is pasted is discarded. */
Key key_take(KeyReader *k, char byte);
