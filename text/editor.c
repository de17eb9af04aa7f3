/* editor.c: a message that is edited at the prompt of a terminal.
 *
 * Owns what each key does, and the layout of a text on the screen. The text is
 * drawn as a whole after every key, so that the screen shows the message
 * whatever the keys did. Only editor_read() knows a terminal: elsewhere bytes
 * come in, and bytes go out.
 * Tests: editor, chat.
 */
#include "text/editor.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/grapheme.h"
#include "text/pretokenize.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A yank makes no message longer than this, or than it was: each Ctrl-Y after
 * Ctrl-U could double it. */
enum { MAX_YANKED = 1 << 16 };

Buffer *editor_text(Editor *e) {
    return draft_text(&e->draft);
}

static void forget_edited(Editor *e) {
    for (int i = 0; e->edited && i < e->n_edited; i++)
        free(e->edited[i]);
    free(e->edited);
    e->edited = NULL;
}

int editor_begin(Editor *e) {
    forget_edited(e);
    draft_set(&e->draft, "", 0);
    e->at = e->history.n;
    e->n_edited = e->at + 1;
    e->keys = (KeyReader){0};
    e->last = KEY_NONE;
    e->searching = e->begins_pasted = false;
    return e->draft.text.failed ? -1 : 0;
}

void editor_close(Editor *e) {
    forget_edited(e);
    draft_close(&e->draft);
    ring_close(&e->ring);
    history_close(&e->history);
    free(e->query.bytes);
    free(e->prompt.bytes);
    free(e->candidates.bytes);
}

/* ---- motions ------------------------------------------------------------ */

static size_t line_begin(const Buffer *t, size_t at) {
    while (at > 0 && t->bytes[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const Buffer *t, size_t at) {
    const char *newline = memchr(t->bytes + at, '\n', t->n - at);
    return newline ? (size_t)(newline - t->bytes) : t->n;
}

/* The end of the next word, or the begin of the word before. */
static size_t word_edge(const Buffer *t, size_t at, bool back) {
    bool in_word = false;
    while (at != (back ? 0 : t->n)) {
        size_t from = at, n;
        if (back)
            from -= utf8_before(t->bytes + at, t->bytes);
        bool is_space =
            is_white_space(utf8_read(t->bytes + from, t->n - from, &n));
        if (is_space && in_word)
            break;
        in_word = !is_space;
        at = back ? from : from + n;
    }
    return at;
}

/* Where a key of a motion within a line or by a word leads to. */
static size_t target(const Buffer *t, size_t at, Key key) {
    switch ((int)key) { /* few of all keys */
    case KEY_LEFT:
    case KEY_DELETE_LEFT: return grapheme_before(t->bytes, t->n, at);
    case KEY_RIGHT:
    case KEY_DELETE_RIGHT:
        return at < t->n ? grapheme_next(t->bytes, t->n, at) : at;
    case KEY_LINE_BEGIN:
    case KEY_KILL_LINE_BEGIN: return line_begin(t, at);
    case KEY_LINE_END:
    case KEY_KILL_LINE_END: return line_end(t, at);
    case KEY_WORD_LEFT:
    case KEY_KILL_WORD_LEFT: return word_edge(t, at, true);
    case KEY_WORD_RIGHT:
    case KEY_KILL_WORD_RIGHT: return word_edge(t, at, false);
    default: return at;
    }
}

/* Shows another entry of the history, or the new message; the edited text of
 * this one is kept until a message is sent. */
static void show_entry(Editor *e, int to) {
    const Buffer *t = editor_text(e);
    if (to < 0 || to > e->history.n || to == e->at)
        return;
    if (!e->edited)
        e->edited = calloc(e->n_edited, sizeof *e->edited);
    char *text = e->edited ? strdup(t->bytes) : NULL;
    if (!text)
        return;
    free(e->edited[e->at]);
    e->edited[e->at] = text;
    e->at = to;
    if (e->edited[to])
        text = e->edited[to];
    else
        text = to < e->history.n ? e->history.entries[to] : "";
    draft_set(&e->draft, text, strlen(text));
}

/* Moves to the line above or below, in it as many clusters from its begin, or
 * else to the end of the message sent before or after. */
static void move_vertically(Editor *e, bool up) {
    const Buffer *t = editor_text(e);
    const size_t cursor = e->draft.cursor, begin = line_begin(t, cursor),
                 end = line_end(t, cursor);
    if (up ? !begin : end == t->n) {
        show_entry(e, up ? e->at - 1 : e->at + 1);
        return;
    }
    size_t to = up ? line_begin(t, begin - 1) : end + 1, from = begin;
    const size_t stop = line_end(t, to);
    while (from < cursor && to < stop) {
        from = grapheme_next(t->bytes, t->n, from);
        to = grapheme_next(t->bytes, t->n, to);
    }
    draft_move(&e->draft, to);
}

/* ---- kills -------------------------------------------------------------- */

static bool is_kill(Key key) {
    return key == KEY_KILL_WORD_LEFT || key == KEY_KILL_WORD_RIGHT ||
           key == KEY_KILL_LINE_BEGIN || key == KEY_KILL_LINE_END;
}

/* Removes up to where a motion leads; of a kill, the ring keeps it. Kills
 * without another key between them are one. */
static void erase(Editor *e, Key key) {
    const Buffer *t = editor_text(e);
    const size_t at = e->draft.cursor, to = target(t, at, key);
    const bool before = to < at;
    const size_t from = before ? to : at, end = before ? at : to;
    if (is_kill(key) && from < end) {
        if (is_kill(e->last))
            ring_extend(&e->ring, t->bytes + from, end - from, before);
        else
            ring_add(&e->ring, t->bytes + from, end - from);
    }
    draft_remove(&e->draft, from, end);
}

/* Inserts a kill, if there is one that fits. */
static void insert_kill(Editor *e, const Buffer *kill) {
    const Buffer *t = editor_text(e);
    e->yanked = e->draft.cursor;
    if (!kill)
        return;
    const bool fits =
        t->n + kill->n <= MAX_YANKED || t->n + kill->n <= e->draft.longest;
    if (fits)
        draft_insert_whole(&e->draft, kill->bytes, kill->n);
}

/* Replaces the text that was just brought back by an older one. */
static void yank_older(Editor *e) {
    editor_text(e);
    if (e->last != KEY_YANK)
        return;
    draft_remove(&e->draft, e->yanked, e->draft.cursor);
    insert_kill(e, ring_older(&e->ring));
}

/* ---- search ------------------------------------------------------------- */

static bool has_found(const Editor *e) {
    return e->found >= 0 && e->found < e->history.n;
}

/* The place of the query in the entry that is found. */
static size_t place_found(const Editor *e) {
    const char *entry = e->history.entries[e->found],
               *place = strstr(entry, e->query.bytes);
    return place ? place - entry : 0;
}

/* Ends the search with the entry that it found. */
static void accept_found(Editor *e) {
    e->searching = false;
    if (!has_found(e))
        return;
    size_t place = place_found(e);
    show_entry(e, e->found);
    if (place <= editor_text(e)->n)
        draft_move(&e->draft, place);
}

/* Takes a key of a search. Returns whether it belonged to it. */
static bool search(Editor *e, Key key) {
    Buffer *query = &e->query;
    if (key == KEY_SEARCH && !e->searching) {
        e->found = e->history.n;
        query->n = 0;
        buffer_append(query, "", 0);
        e->searching = !query->failed;
    } else if (!e->searching) {
        return false;
    } else if (key == KEY_TEXT) {
        buffer_append(query, e->keys.bytes, e->keys.n);
        e->found = history_find(&e->history, query->bytes, e->history.n);
    } else if (key == KEY_DELETE_LEFT) {
        query->n = grapheme_before(query->bytes, query->n, query->n);
        query->bytes[query->n] = '\0';
        e->found = history_find(&e->history, query->bytes, e->history.n);
    } else if (key == KEY_SEARCH) {
        int older = history_find(&e->history, query->bytes, e->found);
        e->found = older >= 0 ? older : e->found;
    } else if (key == KEY_ABORT || key == KEY_CANCEL) {
        e->searching = false;
    } else if (key != KEY_NONE) {
        accept_found(e);
        return false;
    }
    return true;
}

/* ---- completion --------------------------------------------------------- */

/* The number of bytes that all candidates begin with: whole characters. */
static size_t common_size(const Buffer *candidates) {
    const char *first = candidates->bytes, *end = first + candidates->n;
    size_t n = strlen(first), same;
    for (const char *c = first; c < end; c += strlen(c) + 1) {
        for (same = 0; same < n && c[same] == first[same]; same++)
            continue;
        n = same;
    }
    while (n && utf8_is_continuation(first[n]))
        n--;
    return n;
}

/* Completes a command up to the cursor. */
static EditorEvent complete(Editor *e) {
    const Buffer *t = editor_text(e);
    const size_t cursor = e->draft.cursor;
    Buffer *candidates = &e->candidates;
    candidates->n = 0;
    size_t from = e->completer(t->bytes, cursor, candidates);
    if (!candidates->n || candidates->failed)
        return EDITED;
    const size_t n = common_size(candidates);
    const char *text = candidates->bytes;
    if (from + n == cursor && !memcmp(t->bytes + from, text, n))
        return strlen(text) + 1 < candidates->n ? LISTED : EDITED;
    draft_remove(&e->draft, from, cursor);
    draft_insert(&e->draft, text, n);
    return EDITED;
}

/* ---- keys --------------------------------------------------------------- */

bool is_quote_open(const Buffer *t) {
    return !strncmp(t->bytes, "\"\"\"", 3) &&
           (t->n < 6 || strcmp(t->bytes + t->n - 3, "\"\"\""));
}

/* Takes a key that inserts or moves. */
static EditorEvent edit(Editor *e, Key key) {
    Draft *d = &e->draft;
    switch ((int)key) { /* few of all keys */
    case KEY_TEXT: draft_insert(d, e->keys.bytes, e->keys.n); break;
    case KEY_ENTER:
    case KEY_NEW_LINE: draft_insert(d, "\n", 1); break;
    case KEY_COMPLETE:
        if (e->completer && *editor_text(e)->bytes == '/')
            return complete(e);
        draft_insert(d, "\t", 1);
        break;
    case KEY_UP:
    case KEY_DOWN: move_vertically(e, key == KEY_UP); break;
    case KEY_DELETE_LEFT:
    case KEY_DELETE_RIGHT:
    case KEY_KILL_WORD_LEFT:
    case KEY_KILL_WORD_RIGHT:
    case KEY_KILL_LINE_BEGIN:
    case KEY_KILL_LINE_END: erase(e, key); break;
    case KEY_YANK: insert_kill(e, ring_newest(&e->ring)); break;
    case KEY_YANK_OLDER: yank_older(e); break;
    case KEY_UNDO: draft_undo(d); break;
    default: {
        const Buffer *t = editor_text(e);
        draft_move(d, target(t, d->cursor, key));
    }
    }
    return EDITED;
}

static EditorEvent act(Editor *e, Key key) {
    if (search(e, key))
        return EDITED;
    switch ((int)key) { /* few of all keys */
    case KEY_NONE:
    case KEY_ABORT:
    case KEY_PASTE_END: return EDITED;
    case KEY_PASTE_BEGIN: e->begins_pasted |= !editor_text(e)->n; return EDITED;
    case KEY_CANCEL: return CANCELED;
    case KEY_STOP: return STOPPED;
    case KEY_CLEAR_SCREEN: return CLEARED;
    case KEY_END_OF_INPUT:
        return editor_text(e)->n ? edit(e, KEY_DELETE_RIGHT) : ENDED;
    case KEY_ENTER:
        if (e->begins_pasted || !is_quote_open(editor_text(e)))
            return editor_text(e)->n ? SENT : EDITED;
        return edit(e, KEY_NEW_LINE);
    default: return edit(e, key);
    }
}

EditorEvent editor_take(Editor *e, char byte) {
    Key key = key_take(&e->keys, byte);
    EditorEvent event = act(e, key);
    if (key != KEY_NONE && key != KEY_YANK_OLDER)
        e->last = key;
    return event;
}

/* ---- the screen --------------------------------------------------------- */

/* A text that is laid out on a screen. Cells are counted from the first of the
 * prompt, row after row; the terminal wraps full rows. */
typedef struct {
    int columns;
    int64_t cell;
    bool after_cluster;  /* not after a newline */
    int64_t first, rows; /* the rows that are written */
    Buffer *out;         /* NULL: nothing is written */
} Layout;

static int columns_of(const char *s, size_t n) {
    return *s == '\n' ? 1 : grapheme_columns(s, n);
}

/* Moves to the next row if a cluster of this width does not fit in this one. */
static void make_room(Layout *l, int width) {
    const int columns = l->columns, left = columns - (int)(l->cell % columns);
    if (width > left && left < columns)
        l->cell += left;
}

static void lay_cluster(Layout *l, const char *s, size_t n) {
    const int columns = l->columns, width = columns_of(s, n);
    const bool ends_row = *s == '\n';
    make_room(l, width);
    /* a newline after a full row only leaves this row */
    const bool is_full = ends_row && l->cell % columns == 0 && l->after_cluster;
    const int64_t row = l->cell / columns - is_full - l->first;
    if (l->out && row >= 0 && row + ends_row < l->rows)
        buffer_append(l->out, *s == '\t' ? " " : s, n);
    if (!ends_row)
        l->cell += width;
    else if (!is_full)
        l->cell += columns - l->cell % columns;
    l->after_cluster = !ends_row;
}

/* Lays out the first `end` bytes of s[n]. Returns the cell of what follows. */
static int64_t lay_out(Layout *l, const char *s, size_t n, size_t end) {
    size_t at = 0, next;
    for (; at < end; at = next) {
        next = grapheme_next(s, n, at);
        lay_cluster(l, s + at, next - at);
    }
    Layout after = *l;
    if (at < n)
        make_room(&after, columns_of(s + at, grapheme_next(s, n, at) - at));
    return after.cell;
}

/* What is shown: the message, or the entry that a search has found. */
typedef struct {
    const char *prompt, *text;
    size_t n, cursor; /* of the text */
} View;

static View view_of(Editor *e) {
    const Buffer *t = editor_text(e);
    View v = {"User: ", t->bytes, t->n, e->draft.cursor};
    if (!e->searching)
        return v;
    Buffer *prompt = &e->prompt;
    const char *before = e->found < 0 ? "(not found: " : "(search: ";
    prompt->n = 0;
    buffer_append(prompt, before, strlen(before));
    buffer_append(prompt, e->query.bytes, e->query.n);
    buffer_append(prompt, ") ", 2);
    v.prompt = prompt->failed ? before : prompt->bytes;
    if (has_found(e)) {
        v.text = e->history.entries[e->found];
        v.n = strlen(v.text);
        v.cursor = place_found(e);
    }
    return v;
}

/* The cell of the cursor. */
static int64_t cursor_cell(const View *v, Screen s) {
    Layout l = {.columns = s.columns};
    size_t n = strlen(v->prompt);
    lay_out(&l, v->prompt, n, n);
    return lay_out(&l, v->text, v->n, v->cursor);
}

/* Appends what moves the terminal's cursor up, and to a column. */
static void go(Buffer *out, int rows_up, int column) {
    char text[32];
    if (rows_up)
        buffer_append(out, text,
                      snprintf(text, sizeof text, "\033[%dA", rows_up));
    buffer_append(out, text,
                  snprintf(text, sizeof text, "\033[%dG", column + 1));
}

/* Rows of the text above the cursor's that a screen shows. */
static int rows_above(int64_t cursor_row, Screen s) {
    return cursor_row < s.rows ? (int)cursor_row : s.rows - 1;
}

void editor_return(Editor *e, Screen s, Buffer *out) {
    View v = view_of(e);
    go(out, rows_above(cursor_cell(&v, s) / s.columns, s), 0);
}

void editor_draw(Editor *e, Screen s, bool whole, Buffer *out) {
    View v = view_of(e);
    const size_t n_prompt = strlen(v.prompt);
    const int64_t cursor = cursor_cell(&v, s), row = cursor / s.columns;
    Layout l = {.columns = s.columns,
                .rows = whole ? INT64_MAX : s.rows,
                .first = whole ? 0 : row - rows_above(row, s),
                .out = out};
    buffer_append(out, "\r\033[J", 4);
    if (e->styled)
        buffer_append(out, STYLE_DIM, strlen(STYLE_DIM));
    lay_out(&l, v.prompt, n_prompt, n_prompt);
    if (e->styled)
        buffer_append(out, NOT_DIM, strlen(NOT_DIM));
    const int64_t end = lay_out(&l, v.text, v.n, v.n);
    if (whole) {
        buffer_append(out, "\n", 1);
        return;
    }
    int64_t last = end / s.columns, bottom = l.first + s.rows - 1;
    if (last > bottom)
        last = bottom;
    /* after a full row the terminal waits for the next character */
    if (end == last * s.columns)
        buffer_append(out, " \r\033[K", 5);
    go(out, (int)(last - row), (int)(cursor % s.columns));
}

/* ---- reading ------------------------------------------------------------ */

/* Shows the candidates of a completion. */
static void list(const Buffer *candidates) {
    const char *end = candidates->bytes + candidates->n;
    for (const char *c = candidates->bytes; c < end; c += strlen(c) + 1)
        fprintf(stderr, "%s  ", c);
    fputc('\n', stderr);
}

/* Takes what the terminal sends, up to an event or a pause. Appends to `out`
 * what moves the terminal's cursor back to where the message begins. */
static EditorEvent take_keys(Editor *e, Buffer *out) {
    EditorEvent event = EDITED;
    bool is_first = true;
    while (event == EDITED) {
        if (e->n_taken == e->n_bytes) {
            e->n_taken = 0;
            e->n_bytes = terminal_read(e->bytes, sizeof e->bytes);
        }
        if (is_first) /* the window may have another size now */
            editor_return(e, terminal_size(), out);
        is_first = false;
        if (e->n_bytes <= 0)
            return ENDED;
        while (event == EDITED && e->n_taken < e->n_bytes)
            event = editor_take(e, e->bytes[e->n_taken++]);
        /* a paste is drawn at its end, and keys that come together once */
        if (!e->keys.pasting && !terminal_sends())
            break;
    }
    return event;
}

/* Does what an event other than EDITED and SENT asks for. Returns 0 to go on, 1
 * to leave, -1 on failure. *asked: whether to leave. */
static int follow(Editor *e, EditorEvent event, bool *asked) {
    switch ((int)event) {
    case STOPPED: raise(SIGTSTP); return 0;
    case LISTED: list(&e->candidates); return 0;
    case CLEARED:
        /* not in the first row: tmux keeps what is erased from there */
        fputs("\033[H\033[2J\n", stderr);
        return 0;
    case CANCELED:
        if (editor_text(e)->n) {
            *asked = false;
            return editor_begin(e);
        }
        if (!*asked) {
            note("Ctrl-C again, or /bye, leaves");
            *asked = true;
            return 0;
        }
        interrupted = 1;
        return 1;
    default: return 1;
    }
}

int editor_read(Editor *e) {
    Buffer out = {0};
    EditorEvent event = EDITED;
    bool asked = false;
    int status = editor_begin(e);
    while (!status && event != SENT) {
        editor_draw(e, terminal_size(), false, &out);
        write_whole(fileno(stdin), out.bytes, out.n);
        out.n = 0;
        event = take_keys(e, &out);
        if (event == EDITED)
            continue;
        editor_draw(e, terminal_size(), true, &out);
        write_whole(fileno(stdin), out.bytes, out.n);
        out.n = 0;
        if (event != SENT)
            status = follow(e, event, &asked);
    }
    if (!status)
        history_add(&e->history, editor_text(e)->bytes);
    terminal_open(false);
    free(out.bytes);
    return status;
}
