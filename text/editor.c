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
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prompt[] = "User: ";

enum { CTRL_C = 3, CTRL_D, CTRL_Z = 26, ESCAPE };

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
    e->cursor = e->n_key = e->pasting = e->begins_pasted = 0;
    return -last->failed;
}

void editor_close(Editor *e) {
    while (e->n--)
        free(e->texts[e->n].bytes);
    free(e->texts);
}

/* ---- keys --------------------------------------------------------------- */

/* What keys send, xterm and its relatives, each with a motion: (h)ome and (e)nd
 * of a line, (l)eft, (r)ight, (u)p, (d)own, (b)ack and (f)orward by a word; a
 * capital deletes up to there. Also (s)end, (n)ew line, [ and ] around a paste.
 * Keys of one byte come first. */
static const char keys[] =
    "\1h\2l\4R\5e\6r\bL\nn\13E\rs\16d\20u\25H\27B\177L"
    "\033bb\033ff\033dF\033\bB\033\177B\033\rn\033\nn"
    "\033[Dl\033[Cr\033[Au\033[Bd\033[Hh\033[Fe\033[1~h\033[3~R\033[4~e"
    "\033ODl\033OCr\033OAu\033OBd\033OHh\033OFe\033[7~h\033[8~e"
    "\033[1;3Db\033[1;3Cf\033[1;5Db\033[1;5Cf\033[200~[\033[201~]";

/* The key that a byte completes: a code point, or the letter of a motion,
 * negative. 0: none, or not yet. */
static int read_key(Editor *e, char byte) {
    char *key = e->key;
    if (byte == ESCAPE || (*key != ESCAPE && !utf8_is_continuation(byte)))
        e->n_key = 0; /* what has begun is no key */
    e->n_key -= e->n_key == sizeof e->key - 1;
    key[e->n_key++] = byte;
    size_t n = e->n_key;
    /* "\033[" or "\033O", parameters, and a letter or "~" */
    if (*key != ESCAPE ? (int)n < utf8_length(*key)
        : n < 3        ? n == 1 || byte == '[' || byte == 'O'
                       : byte < '@' || (n == 3 && byte == '['))
        return 0;
    e->n_key = 0;
    key[n] = '\0';
    const char *found =
        *key && iscntrl((uint8_t)*key) ? strstr(keys, key) : NULL;
    return found ? -found[n] : *key == ESCAPE ? 0 : (int)utf8_read(key, n, &n);
}

/* ---- the text ----------------------------------------------------------- */

/* The place after, or before, a character with its combining marks. */
static size_t step(const Buffer *t, size_t at, bool back) {
    size_t n;
    do {
        if (at == (back ? 0 : t->n))
            break;
        code_at(t, at, &n);
        at += back ? -utf8_before(t->bytes + at, t->bytes) : n;
    } while (at < t->n && !columns_of(code_at(t, at, &n)));
    return at;
}

/* Where a motion within a line or by a word leads to. */
static size_t target(const Buffer *t, size_t at, char motion) {
    bool back = strchr("lhb", motion), in_word = false;
    for (size_t next, n; (next = step(t, at, back)) != at; at = next) {
        uint32_t code = code_at(t, min_size(at, next), &n);
        bool is_space = is_white_space(code);
        if (strchr("lr", motion))
            return next;
        if (strchr("he", motion) ? code == '\n' : in_word && is_space)
            break;
        in_word |= !is_space;
    }
    return at;
}

/* Moves to the line above or below, in it as many characters from its begin, or
 * else to the end of the message sent before or after. */
static void move_vertically(Editor *e, bool up) {
    const Buffer *t = editor_text(e);
    size_t begin = target(t, e->cursor, 'h'), end = target(t, e->cursor, 'e');
    int characters = 0;
    for (size_t at = begin; at < e->cursor; at = step(t, at, false))
        characters++;
    if (up ? begin > 0 : end < t->n) {
        e->cursor = up ? target(t, begin - 1, 'h') : end + 1;
        end = target(t, e->cursor, 'e');
        while (characters-- && e->cursor < end)
            e->cursor = step(t, e->cursor, false);
    } else if (up ? e->at > 0 : e->at < e->n - 1) {
        e->at += up ? -1 : 1;
        e->cursor = editor_text(e)->n;
    }
}

/* Replaces the text between two places, and moves behind it. */
static void replace(Editor *e, size_t from, size_t to, const char *by) {
    Buffer *t = editor_text(e);
    size_t n = strlen(by), rest = t->n - to;
    buffer_append(t, by, n); /* makes room */
    if (t->failed)
        return;
    memmove(t->bytes + from + n, t->bytes + to, rest);
    memcpy(t->bytes + from, by, n);
    e->cursor = from + n;
    t->n = e->cursor + rest;
    t->bytes[t->n] = '\0';
}

/* Moves by a motion of `keys`, or deletes up to there. */
static void move(Editor *e, char letter) {
    char motion = (char)tolower(letter);
    if (motion == 'u' || motion == 'd') {
        move_vertically(e, motion == 'u');
        return;
    }
    size_t at = e->cursor, to = target(editor_text(e), at, motion),
           from = min_size(at, to);
    if (letter == motion)
        e->cursor = to;
    else
        replace(e, from, at + to - from, "");
}

bool is_quote_open(const Buffer *t) {
    return !strncmp(t->bytes, "\"\"\"", 3) &&
           (t->n < 6 || strcmp(t->bytes + t->n - 3, "\"\"\""));
}

EditorEvent editor_take(Editor *e, char byte) {
    const Buffer *t = editor_text(e);
    size_t at = e->cursor;
    int key = read_key(e, byte);
    bool second = e->after_return && byte == '\n'; /* of "\r\n" in a paste */
    e->after_return = e->pasting && byte == '\r';
    if (key == CTRL_C)
        return CANCELED;
    if (!e->pasting) {
        if (key == CTRL_Z)
            return STOPPED;
        if (byte == CTRL_D && !t->n)
            return ENDED;
        if (key == -'s' && (e->begins_pasted || !is_quote_open(t)))
            return t->n ? SENT : EDITED;
    }
    if (key == -'s' || key == -'n')
        replace(e, at, at, second ? "" : "\n");
    else if (key == '\t' || utf8_is_printable(key))
        replace(e, at, at, e->key);
    else if (key == -'[' || key == -']') {
        e->pasting = key == -'[';
        e->begins_pasted |= e->pasting && !t->n;
    } else if (key < 0 && !e->pasting)
        move(e, (char)-key);
    return EDITED;
}

/* ---- the screen --------------------------------------------------------- */

/* Cells are counted from the first of the prompt, row after row. Returns the
 * cell of the byte text[end]. Appends to `out`, unless it is NULL, what stands
 * before it in a screen of rows from `first` on; the terminal wraps full
 * rows. */
static int lay_out(const Editor *e, Screen s, size_t end, int first,
                   Buffer *out) {
    const Buffer *t = editor_text(e);
    int cell = sizeof prompt - 1;
    for (size_t at = 0, n = 0;; at += n) {
        uint32_t code = at < t->n ? code_at(t, at, &n) : ' ';
        int width = columns_of(code), left = s.columns - cell % s.columns;
        bool ends = code == '\n',
             /* a newline after a full row only leaves this row */
            is_full = ends && left == s.columns && t->bytes[at - 1] != '\n';
        if (width > left)
            cell++; /* too wide for the last column */
        if (at == end)
            return cell;
        int row = cell / s.columns - is_full - first;
        if (out && row >= 0 && row + ends < s.rows)
            buffer_append(out, code == '\t' ? " " : t->bytes + at, n);
        cell += !ends ? width : is_full ? 0 : left;
    }
}

/* Appends what moves the terminal's cursor up, and to a column. */
static void go(Buffer *out, int rows_up, int column) {
    char text[16];
    while (rows_up--)
        buffer_append(out, "\033[A", 3);
    buffer_append(out, text,
                  snprintf(text, sizeof text, "\033[%dG", column + 1));
}

void editor_return(const Editor *e, Screen s, Buffer *out) {
    int row = lay_out(e, s, e->cursor, 0, NULL) / s.columns;
    go(out, min_int(row, s.rows - 1), 0);
}

void editor_draw(const Editor *e, Screen s, bool whole, Buffer *out) {
    int cursor = lay_out(e, s, e->cursor, 0, NULL), row = cursor / s.columns;
    if (whole)
        s.rows = INT_MAX;
    int first = row - min_int(row, s.rows - 1);
    buffer_append(out, "\r\033[J", 4);
    if (!first)
        buffer_append(out, prompt, sizeof prompt - 1);
    int end = lay_out(e, s, editor_text(e)->n, first, out),
        last = min_int(end / s.columns, first + s.rows - 1);
    if (whole) {
        buffer_append(out, "\n", 1);
        return;
    }
    /* after a full row the terminal waits for the next character */
    if (end == last * s.columns)
        buffer_append(out, " \r\033[K", 5);
    go(out, last - row, cursor % s.columns);
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
