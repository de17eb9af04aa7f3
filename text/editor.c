/* editor.c: a message that is edited at the prompt of a terminal.
 *
 * Owns the keys, the messages sent before, and the layout of a text on the
 * screen. The text is drawn as a whole after every key, so that the screen
 * shows the message whatever the keys did. Only editor_read() knows a terminal:
 * elsewhere bytes come in, and bytes go out.
 * Tests: editor, chat.
 */
#include "text/editor.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/pretokenize.h"
#include "text/width.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prompt[] = "User: ";

enum { CTRL_C = 3, CTRL_D = 4, CTRL_Z = 26, ESCAPE = 27 };

Buffer *editor_text(const Editor *e) {
    return e->texts + e->at;
}

static uint32_t code_at(const Buffer *text, size_t at, size_t *n) {
    return utf8_read(text->bytes + at, text->n - at, n);
}

static int columns_of(uint32_t code) {
    return value_in(WIDTH_RUNS, COUNT(WIDTH_RUNS), code);
}

int editor_begin(Editor *e) {
    Buffer *texts = realloc(e->texts, (e->n + 1) * sizeof *texts), *last;
    if (!texts)
        return fail("out of memory: messages: %d", e->n);
    e->texts = texts;
    last = texts + e->n;
    if (e->at < e->n - 1) { /* an earlier message was sent again */
        last[-1].n = 0;
        buffer_append(last - 1, texts[e->at].bytes, texts[e->at].n);
    }
    *last = (Buffer){0};
    buffer_append(last, "", 0); /* `bytes` is not NULL */
    e->at = e->n++;
    e->cursor = 0;
    e->n_key = 0;
    e->pasting = false;
    e->begins_pasted = false;
    e->paste.n = 0;
    buffer_append(&e->paste, "", 0); /* `bytes` is not NULL */
    return last->failed || e->paste.failed ? -1 : 0;
}

void editor_close(Editor *e) {
    EACH(Buffer, text, e->texts, e->n)
        free(text->bytes);
    free(e->texts);
    free(e->paste.bytes);
}

/* ---- keys --------------------------------------------------------------- */

/* Where a key moves the cursor. */
typedef enum {
    NOWHERE,
    LINE_BEGIN,
    LINE_END,
    LEFT,
    RIGHT,
    WORD_LEFT,
    WORD_RIGHT,
    UP,
    DOWN
} Motion;

/* What a key does; MOVE and DELETE have a motion. */
typedef enum { MOVE, DELETE, SEND, NEW_LINE, PASTE_BEGIN, PASTE_END } Action;

typedef struct {
    const char *bytes;
    Action action;
    Motion motion;
} Key;

/* What keys send, xterm and its relatives. */
static const Key KEYS[] = {
    {"\1", MOVE, LINE_BEGIN},
    {"\5", MOVE, LINE_END},
    {"\2", MOVE, LEFT},
    {"\6", MOVE, RIGHT},
    {"\20", MOVE, UP},
    {"\16", MOVE, DOWN},
    {"\r", SEND, NOWHERE},
    {"\n", NEW_LINE, NOWHERE},
    {"\4", DELETE, RIGHT},
    {"\b", DELETE, LEFT},
    {"\177", DELETE, LEFT},
    {"\13", DELETE, LINE_END},
    {"\25", DELETE, LINE_BEGIN},
    {"\27", DELETE, WORD_LEFT},
    {"\033b", MOVE, WORD_LEFT},
    {"\033f", MOVE, WORD_RIGHT},
    {"\033d", DELETE, WORD_RIGHT},
    {"\033\b", DELETE, WORD_LEFT},
    {"\033\177", DELETE, WORD_LEFT},
    {"\033\r", NEW_LINE, NOWHERE},
    {"\033\n", NEW_LINE, NOWHERE},
    {"\033[D", MOVE, LEFT},
    {"\033[C", MOVE, RIGHT},
    {"\033[A", MOVE, UP},
    {"\033[B", MOVE, DOWN},
    {"\033[H", MOVE, LINE_BEGIN},
    {"\033[F", MOVE, LINE_END},
    {"\033[1~", MOVE, LINE_BEGIN},
    {"\033[4~", MOVE, LINE_END},
    {"\033[7~", MOVE, LINE_BEGIN},
    {"\033[8~", MOVE, LINE_END},
    {"\033[3~", DELETE, RIGHT},
    {"\033OD", MOVE, LEFT},
    {"\033OC", MOVE, RIGHT},
    {"\033OA", MOVE, UP},
    {"\033OB", MOVE, DOWN},
    {"\033OH", MOVE, LINE_BEGIN},
    {"\033OF", MOVE, LINE_END},
    {"\033[1;3D", MOVE, WORD_LEFT},
    {"\033[1;3C", MOVE, WORD_RIGHT},
    {"\033[1;5D", MOVE, WORD_LEFT},
    {"\033[1;5C", MOVE, WORD_RIGHT},
    {"\033[200~", PASTE_BEGIN, NOWHERE},
    {"\033[201~", PASTE_END, NOWHERE},
};

/* Whether key[n], which begins with ESC, is complete: one more byte, or "[" or
 * "O", parameters, and a letter or "~". */
static bool is_sequence_complete(const char *key, int n) {
    char last = key[n - 1];
    if (n < 3)
        return n == 2 && last != '[' && last != 'O';
    return last >= '@' && !(n == 3 && last == '[');
}

/* Adds a byte to e->key. Returns the length of the key that it completes, 0 if
 * it completes none. */
static int read_key(Editor *e, char byte) {
    bool continues = e->n_key > 0 && byte != ESCAPE &&
                     (e->key[0] == ESCAPE || utf8_is_continuation(byte));
    if (!continues)
        e->n_key = 0; /* what has begun is no key */
    if (e->n_key == sizeof e->key - 1)
        e->n_key--; /* too long to be known: keeps its first bytes */
    e->key[e->n_key++] = byte;
    int n = e->n_key;
    bool complete = e->key[0] == ESCAPE ? is_sequence_complete(e->key, n)
                                        : n >= utf8_length(e->key[0]);
    if (!complete)
        return 0;
    e->key[n] = '\0';
    e->n_key = 0;
    return n;
}

/* The known key of these bytes, or NULL. */
static const Key *find_key(const char *bytes, int n) {
    EACH(const Key, key, KEYS, COUNT(KEYS))
        if (strlen(key->bytes) == (size_t)n && !memcmp(key->bytes, bytes, n))
            return key;
    return NULL;
}

/* ---- the text ----------------------------------------------------------- */

/* Whether the character at `at` combines with the one before it. A newline
 * takes no marks: one that begins a line is a character by itself. */
static bool is_mark(const Buffer *t, size_t at) {
    size_t n;
    return at > 0 && at < t->n && t->bytes[at - 1] != '\n' &&
           columns_of(code_at(t, at, &n)) == 0;
}

/* The place after, or before, a character with its combining marks. */
static size_t step(const Buffer *t, size_t at, bool back) {
    size_t n, end = back ? 0 : t->n;
    while (at != end) {
        if (back) {
            at -= utf8_before(t->bytes + at, t->bytes);
        } else {
            code_at(t, at, &n);
            at += n;
        }
        if (!is_mark(t, at))
            break;
    }
    return at;
}

static size_t line_begin(const Buffer *t, size_t at) {
    while (at > 0 && t->bytes[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const Buffer *t, size_t at) {
    while (at < t->n && t->bytes[at] != '\n')
        at++;
    return at;
}

/* The end of the next word, or the begin of the previous one. */
static size_t step_word(const Buffer *t, size_t at, bool back) {
    bool in_word = false;
    for (;;) {
        size_t n, next = step(t, at, back);
        if (next == at)
            return at;
        bool is_space = is_white_space(code_at(t, min_size(at, next), &n));
        if (in_word && is_space)
            return at;
        in_word |= !is_space;
        at = next;
    }
}

/* Where a motion within the text leads to. */
static size_t target(const Buffer *t, size_t at, Motion motion) {
    switch (motion) {
    case LINE_BEGIN: return line_begin(t, at);
    case LINE_END: return line_end(t, at);
    case LEFT: return step(t, at, true);
    case RIGHT: return step(t, at, false);
    case WORD_LEFT: return step_word(t, at, true);
    case WORD_RIGHT: return step_word(t, at, false);
    case UP:
    case DOWN:
    case NOWHERE: break;
    }
    return at;
}

/* Moves to the line above or below, in it as many characters from its begin, or
 * else to the end of the message sent before or after. */
static void move_vertically(Editor *e, bool up) {
    const Buffer *t = editor_text(e);
    size_t begin = line_begin(t, e->cursor), end = line_end(t, e->cursor);
    if (up ? begin > 0 : end < t->n) {
        int characters = 0;
        for (size_t at = begin; at < e->cursor; at = step(t, at, false))
            characters++;
        size_t at = up ? line_begin(t, begin - 1) : end + 1;
        size_t last = line_end(t, at);
        for (; characters > 0 && at < last; characters--)
            at = step(t, at, false);
        e->cursor = at;
    } else if (up ? e->at > 0 : e->at < e->n - 1) {
        e->at += up ? -1 : 1;
        e->cursor = editor_text(e)->n;
    }
}

/* Replaces the text between two places by bytes[n], and moves after it. */
static void replace(Editor *e, size_t from, size_t to, const char *bytes,
                    size_t n) {
    Buffer *t = editor_text(e);
    size_t rest = t->n - to;
    buffer_append(t, bytes, n); /* makes room */
    if (t->failed)
        return;
    memmove(t->bytes + from + n, t->bytes + to, rest);
    memcpy(t->bytes + from, bytes, n);
    e->cursor = from + n;
    t->n = e->cursor + rest;
    t->bytes[t->n] = '\0';
}

static void insert(Editor *e, const char *bytes, size_t n) {
    replace(e, e->cursor, e->cursor, bytes, n);
}

static void move(Editor *e, Motion motion) {
    if (motion == UP || motion == DOWN)
        move_vertically(e, motion == UP);
    else
        e->cursor = target(editor_text(e), e->cursor, motion);
}

/* Deletes up to where a motion leads. */
static void delete_to(Editor *e, Motion motion) {
    size_t at = e->cursor, to = target(editor_text(e), at, motion);
    if (to < at)
        replace(e, to, at, "", 0);
    else
        replace(e, at, to, "", 0);
}

bool is_quote_open(const Buffer *t) {
    return !strncmp(t->bytes, "\"\"\"", 3) &&
           (t->n < 6 || strcmp(t->bytes + t->n - 3, "\"\"\""));
}

/* Whether a character that was typed or pasted becomes text. */
static bool is_text(const char *bytes, int n) {
    size_t length;
    uint32_t code = utf8_read(bytes, n, &length);
    return code == '\t' || utf8_is_printable(code);
}

/* A byte within a paste. Whatever it is, it is text, or is dropped: a paste can
 * send no message and end no chat. The text is inserted at once at its end, so
 * that a long paste before a long text takes as many steps as it has bytes. */
static void take_pasted(Editor *e, char byte) {
    bool second = e->after_return && byte == '\n'; /* of "\r\n" */
    int n = read_key(e, byte);
    const Key *key = n ? find_key(e->key, n) : NULL;
    e->after_return = byte == '\r';
    if (key && key->action == PASTE_END) {
        insert(e, e->paste.bytes, e->paste.n);
        e->paste.n = 0;
        e->pasting = false;
    } else if (key && (key->action == SEND || key->action == NEW_LINE)) {
        if (!second)
            buffer_append(&e->paste, "\n", 1);
    } else if (n && is_text(e->key, n)) {
        buffer_append(&e->paste, e->key, n);
    }
}

EditorEvent editor_take(Editor *e, char byte) {
    const Buffer *t = editor_text(e);
    if (e->pasting) {
        take_pasted(e, byte);
        return EDITED;
    }
    int n = read_key(e, byte);
    if (n == 0)
        return EDITED;
    if (e->key[0] == CTRL_C)
        return CANCELED;
    if (e->key[0] == CTRL_Z)
        return STOPPED;
    if (e->key[0] == CTRL_D && t->n == 0)
        return ENDED;
    const Key *key = find_key(e->key, n);
    if (!key) {
        if (is_text(e->key, n))
            insert(e, e->key, n);
        return EDITED;
    }
    switch (key->action) {
    case SEND:
        if (e->begins_pasted || !is_quote_open(t))
            return t->n ? SENT : EDITED;
        insert(e, "\n", 1);
        break;
    case NEW_LINE: insert(e, "\n", 1); break;
    case PASTE_BEGIN:
        e->pasting = true;
        e->after_return = false;
        e->begins_pasted |= t->n == 0;
        break;
    case PASTE_END: break;
    case MOVE: move(e, key->motion); break;
    case DELETE: delete_to(e, key->motion); break;
    }
    return EDITED;
}

/* ---- the screen --------------------------------------------------------- */

/* Cells are counted from the first of the prompt, row after row; a text of many
 * lines in a wide window has more than an int can count. Returns the cell of
 * the byte text[end]. Appends to `out`, unless it is NULL, what stands before
 * it in a screen of rows from `first` on; the terminal wraps full rows. */
static int64_t lay_out(const Editor *e, Screen s, size_t end, int64_t first,
                       Buffer *out) {
    const Buffer *t = editor_text(e);
    int64_t cell = sizeof prompt - 1;
    for (size_t at = 0, n = 0;; at += n) {
        uint32_t code = at < t->n ? code_at(t, at, &n) : ' ';
        int width = columns_of(code);
        int left = s.columns - (int)(cell % s.columns);
        bool ends = code == '\n';
        /* a newline after a full row only leaves this row */
        bool is_full = ends && left == s.columns && t->bytes[at - 1] != '\n';
        if (width > left)
            cell++; /* too wide for the last column */
        if (at == end)
            return cell;
        int64_t row = cell / s.columns - is_full - first;
        if (out && row >= 0 && row + ends < s.rows)
            buffer_append(out, code == '\t' ? " " : t->bytes + at, n);
        if (!ends)
            cell += width;
        else if (!is_full)
            cell += left;
    }
}

/* Appends what moves the terminal's cursor up, and to a column. */
static void go(Buffer *out, int64_t rows_up, int column) {
    char text[16];
    for (; rows_up > 0; rows_up--)
        buffer_append(out, "\033[A", 3);
    buffer_append(out, text,
                  snprintf(text, sizeof text, "\033[%dG", column + 1));
}

/* The first row on the screen if the cursor is in `row`. */
static int64_t first_row(int64_t row, Screen s) {
    return row < s.rows ? 0 : row - (s.rows - 1);
}

void editor_return(const Editor *e, Screen s, Buffer *out) {
    int64_t row = lay_out(e, s, e->cursor, 0, NULL) / s.columns;
    go(out, row - first_row(row, s), 0);
}

void editor_draw(const Editor *e, Screen s, bool whole, Buffer *out) {
    int64_t cursor = lay_out(e, s, e->cursor, 0, NULL),
            row = cursor / s.columns;
    if (whole)
        s.rows = INT_MAX;
    int64_t first = first_row(row, s);
    buffer_append(out, "\r\033[J", 4);
    if (first == 0)
        buffer_append(out, prompt, sizeof prompt - 1);
    int64_t end = lay_out(e, s, editor_text(e)->n, first, out),
            last = end / s.columns;
    if (last > first + s.rows - 1)
        last = first + s.rows - 1;
    if (whole) {
        buffer_append(out, "\n", 1);
        return;
    }
    /* after a full row the terminal waits for the next character */
    if (end == last * s.columns)
        buffer_append(out, " \r\033[K", 5);
    go(out, last - row, (int)(cursor % s.columns));
}

/* ---- reading ------------------------------------------------------------ */

int editor_read(Editor *e) {
    Buffer out = {0};
    EditorEvent event = EDITED;
    bool asked = false; /* whether to leave */
    int status = editor_begin(e);
    while (!status) {
        bool draws = event != EDITED || !e->pasting; /* a paste at its end */
        if (draws) {
            editor_draw(e, terminal_size(), event != EDITED, &out);
            write_whole(fileno(stdin), out.bytes, out.n);
            out.n = 0;
        }
        if (event == SENT)
            break;
        if (event == STOPPED)
            raise(SIGTSTP);
        if (event == CANCELED && editor_text(e)->n) {
            status = editor_begin(e);
            asked = false;
        } else if (event == CANCELED && !asked) {
            note("again, or /bye, to leave");
            asked = true;
        } else if (event == CANCELED || event == ENDED) {
            interrupted |= event == CANCELED;
            status = 1;
        } else if (event == EDITED) {
            if (e->n_taken == e->n_bytes) {
                e->n_taken = 0;
                e->n_bytes = terminal_read(e->bytes, sizeof e->bytes);
            }
            event = e->n_bytes > 0 ? EDITED : ENDED;
            if (draws) /* the window may have another size now */
                editor_return(e, terminal_size(), &out);
            while (event == EDITED && e->n_taken < e->n_bytes)
                event = editor_take(e, e->bytes[e->n_taken++]);
            continue;
        }
        event = EDITED;
    }
    terminal_open(false);
    free(out.bytes);
    return status;
}
