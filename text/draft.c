/* draft.c: a text that is edited at a cursor, and its undo.
 *
 * Owns the text, the cursor and the changes. Insertions are collected and then
 * made at once, so that typing or pasting n bytes anywhere takes O(n). What is
 * kept for undo is limited; the oldest changes go first.
 * Tests: editor.
 */
#include "text/draft.h"
#include "base/error.h"
#include "text/grapheme.h"
#include "text/pretokenize.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANGES = 4096, MAX_REMOVED = 1 << 22 /* bytes */ };

static void forget_changes(Draft *d) {
    d->n_changes = d->removed.n = 0;
}

void draft_set(Draft *d, const char *bytes, size_t n) {
    d->text.n = d->typed.n = 0;
    buffer_append(&d->text, bytes, n);
    d->cursor = d->longest = d->text.n;
    forget_changes(d);
}

/* Forgets the older half of the changes. */
static void forget_half(Draft *d) {
    size_t half = d->n_changes / 2, n = 0;
    for (size_t i = 0; i < half; i++)
        n += d->changes[i].n_removed;
    d->n_changes -= half;
    d->removed.n -= n;
    memmove(d->changes, d->changes + half, d->n_changes * sizeof *d->changes);
    if (n) /* else `bytes` may be NULL */
        memmove(d->removed.bytes, d->removed.bytes + n, d->removed.n);
}

/* Whether an insertion goes on with the last change: one undo takes a word. */
static bool goes_on(const Draft *d, size_t at, size_t n_removed) {
    if (!d->n_changes || n_removed || !at || d->is_closed)
        return false;
    const Change *last = &d->changes[d->n_changes - 1];
    const char *t = d->text.bytes;
    return !last->n_removed && last->at + last->n_inserted == at &&
           !(strchr(" \n", t[at - 1]) && !strchr(" \n", t[at]));
}

/* Notes a change that has replaced removed[n_removed] at `at`. */
static void note_change(Draft *d, Change change, const char *removed) {
    if (goes_on(d, change.at, change.n_removed)) {
        d->changes[d->n_changes - 1].n_inserted += change.n_inserted;
        return;
    }
    d->is_closed = false;
    if (d->removed.n + change.n_removed > MAX_REMOVED)
        forget_changes(d);
    if (d->n_changes == MAX_CHANGES)
        forget_half(d);
    if (d->n_changes == d->room) {
        size_t room = 2 * d->room + 16;
        Change *changes = realloc(d->changes, room * sizeof *changes);
        if (!changes) {
            forget_changes(d);
            return;
        }
        d->changes = changes;
        d->room = room;
    }
    if (change.n_removed)
        buffer_append(&d->removed, removed, change.n_removed);
    if (change.n_removed && d->removed.failed)
        forget_changes(d);
    else
        d->changes[d->n_changes++] = change;
}

/* Replaces [from, to) by s[n], which is not part of the text, and moves after
 * it. Without memory nothing changes, and nothing can be undone. */
static bool splice(Draft *d, size_t from, size_t to, const char *s, size_t n) {
    Buffer *t = &d->text;
    const size_t rest = t->n - to;
    buffer_append(t, s, n); /* makes room */
    if (t->failed) {
        forget_changes(d);
        return false;
    }
    memmove(t->bytes + from + n, t->bytes + to, rest);
    memcpy(t->bytes + from, s, n);
    t->n = from + n + rest;
    t->bytes[t->n] = '\0';
    d->cursor = from + n;
    return true;
}

void draft_insert(Draft *d, const char *bytes, size_t n) {
    buffer_append(&d->typed, bytes, n);
}

void draft_move(Draft *d, size_t at) {
    const Buffer *t = draft_text(d);
    d->cursor = grapheme_boundary(t->bytes, t->n, at);
}

Buffer *draft_text(Draft *d) {
    Change change = {d->cursor, 0, d->typed.n};
    if (!change.n_inserted)
        return &d->text;
    d->typed.n = 0;
    if (splice(d, d->cursor, d->cursor, d->typed.bytes, change.n_inserted)) {
        note_change(d, change, NULL);
        if (d->longest < d->text.n)
            d->longest = d->text.n;
        draft_move(d, d->cursor);
    }
    return &d->text;
}

void draft_insert_whole(Draft *d, const char *bytes, size_t n) {
    draft_text(d);
    d->is_closed = true;
    draft_insert(d, bytes, n);
    draft_text(d);
    d->is_closed = true;
}

void draft_remove(Draft *d, size_t from, size_t to) {
    const Buffer *t = draft_text(d);
    if (from == to)
        return;
    note_change(d, (Change){from, to - from, 0}, t->bytes + from);
    splice(d, from, to, "", 0);
    draft_move(d, from);
}

void draft_undo(Draft *d) {
    draft_text(d);
    if (!d->n_changes)
        return;
    Change last = d->changes[--d->n_changes];
    d->removed.n -= last.n_removed;
    const char *removed = last.n_removed ? d->removed.bytes + d->removed.n : "";
    splice(d, last.at, last.at + last.n_inserted, removed, last.n_removed);
    draft_move(d, d->cursor);
}

void draft_close(Draft *d) {
    free(d->text.bytes);
    free(d->typed.bytes);
    free(d->removed.bytes);
    free(d->changes);
}
