/* draft.h: a text that is edited at a cursor, and its undo. */
#pragma once

#include "base/memory.h"

/* A change: at `at`, n_removed bytes, the last ones of Draft.removed not
 * belonging to later changes, gave way to n_inserted. */
typedef struct {
    size_t at, n_removed, n_inserted;
} Change;

/* Initialize with zeros. */
typedef struct {
    Buffer text;     /* owned; read it by draft_text() */
    size_t cursor;   /* in bytes, between clusters */
    size_t longest;  /* bytes of the text since draft_set(), at most */
    Buffer typed;    /* owned: text to insert at the cursor */
    Change *changes; /* [n_changes], owned; the last one is undone first */
    size_t n_changes, room;
    Buffer removed; /* owned: what the changes removed */
    bool is_closed; /* an insertion does not go on with the last change */
} Draft;

/* Replaces the text, with the cursor at its end and nothing to undo. */
void draft_set(Draft *d, const char *bytes, size_t n);

/* Inserts at the cursor and moves after it. Takes O(n): the text itself is
 * moved when something else than an insertion follows. */
void draft_insert(Draft *d, const char *bytes, size_t n);

/* The text; `bytes` is not NULL unless out of memory. */
Buffer *draft_text(Draft *d);

/* Removes [from, to) and moves there. */
void draft_remove(Draft *d, size_t from, size_t to);

/* Moves to the first boundary of clusters from `at` on. */
void draft_move(Draft *d, size_t at);

/* Inserts a text that is undone by itself. */
void draft_insert_whole(Draft *d, const char *bytes, size_t n);

/* Undoes the last change, if there is one. */
void draft_undo(Draft *d);

void draft_close(Draft *d);
