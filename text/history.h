/* history.h: the messages sent before, also in earlier sessions. */
#pragma once

#include "base/memory.h"

enum { MAX_HISTORY = 1000 };

/* Initialize with zeros. */
typedef struct {
    char *entries[MAX_HISTORY]; /* [n], owned; the last one is the newest */
    int n;
    char *path; /* owned; NULL = this session only */
} History;

/* Reads the history of earlier sessions: $XDG_STATE_HOME/norma/history, or
 * ~/.local/state/norma/history. Later entries are added there. Without a home,
 * the history is this session's. */
void history_open(History *h);

/* Adds a text, unless it begins with a space or repeats the newest entry. With
 * a failure's note, the file is not used any more. */
void history_add(History *h, const char *text);

/* The newest entry before `before` that contains a text; -1: none. */
int history_find(const History *h, const char *text, int before);

void history_close(History *h);
