/* test_editor.c: the editor of messages: every key against a model that edits a
 * list of characters, and what it draws against a small terminal.
 *
 * The terminal below follows the rules of xterm: a character in the last column
 * leaves the cursor there, and the next one begins the next row.
 */
#include "text/editor.h"
#include "text/grapheme.h"
#include "text/history.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t state;

static int any(int n) {
    return (int)(hash64(53, 1, state++) % (uint64_t)n);
}

/* ---- a terminal --------------------------------------------------------- */

enum { MAX_ROWS = 400, MAX_COLUMNS = 200 };

/* All rows since the start; the screen shows the last `rows` of them. */
static struct {
    int rows, columns, row, column, n; /* n: rows in use */
    bool waits;                        /* in the last column */
    char cells[MAX_ROWS][MAX_COLUMNS][32];
    bool follows[MAX_ROWS]; /* this row continues the previous one */
} screen;

static void open_screen(int rows, int columns) {
    memset(&screen, 0, sizeof screen);
    screen.rows = rows;
    screen.columns = columns;
    screen.n = 1;
}

static void next_row(bool follows) {
    screen.waits = false;
    screen.column = 0;
    screen.row++;
    if (screen.row == MAX_ROWS)
        abort();
    if (screen.row == screen.n)
        screen.n++;
    screen.follows[screen.row] = follows;
}

static void erase(int row, int column) {
    for (; column < screen.columns; column++)
        *screen.cells[row][column] = '\0';
}

/* Emoji of several code points: a terminal shows each in two columns. */
#define FAMILY "\U0001f468\u200d\U0001f469\u200d\U0001f467"
#define FLAG   "\U0001f1e9\U0001f1ea"
#define THUMB  "\U0001f44d\U0001f3fd"
#define HEART  "\u2764\ufe0f"

/* The bytes of a character as the terminal shows it. */
static int size_shown(const char *s) {
    static const char *const many[] = {FAMILY, FLAG, THUMB, HEART};
    int n = 1;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        if (!strncmp(s, many[i], strlen(many[i])))
            return (int)strlen(many[i]);
    while ((s[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Columns of the characters that these tests use. */
static int width(const char *s, int n) {
    return n == 1 ? 1 : n == 2 && *s == '\xcc' ? 0 : n == 2 ? 1 : 2;
}

static void put(const char *s, int n) {
    int w = width(s, n);
    if (!w) { /* joins the character before */
        int column = screen.column - !screen.waits;
        column -= column > 0 && !*screen.cells[screen.row][column];
        if (column >= 0)
            strncat(screen.cells[screen.row][column], s, (size_t)n);
        return;
    }
    if (screen.waits || screen.column + w > screen.columns)
        next_row(true);
    char(*cell)[32] = &screen.cells[screen.row][screen.column];
    snprintf(cell[0], sizeof *cell, "%.*s", n, s);
    if (w == 2)
        *cell[1] = '\0';
    screen.column += w;
    screen.waits = screen.column == screen.columns;
    screen.column -= screen.waits;
}

/* The terminal's driver turns "\n" into "\r\n". */
static void show(Buffer *out) {
    for (size_t i = 0; i < out->n;) {
        const char *s = out->bytes + i;
        char final;
        int number = 1, length = 0;
        if (sscanf(s, "\033[%d%c%n", &number, &final, &length) == 2 ||
            sscanf(s, "\033[%c%n", &final, &length) == 1) {
            screen.waits = false;
            int top = screen.n > screen.rows ? screen.n - screen.rows : 0;
            if (final == 'A') {
                CHECK(number > 0 && screen.row - number >= top,
                      "moves up %d rows from row %d", number, screen.row);
                screen.row -= number;
            } else if (final == 'G') {
                screen.column = number - 1;
                CHECK(screen.column < screen.columns, "column %d", number);
            } else if (final == 'K' || final == 'J') {
                erase(screen.row, screen.column);
                for (int row = screen.row + 1; final == 'J' && row < screen.n;
                     row++)
                    erase(row, 0);
            } else {
                CHECK(false, "unknown sequence %c", final);
            }
            i += (size_t)length;
        } else if (*s == '\n' || *s == '\r') {
            if (*s == '\n')
                next_row(false);
            screen.column = 0;
            screen.waits = false;
            i++;
        } else {
            CHECK((uint8_t)*s >= ' ', "a control character: %d", *s);
            int n = size_shown(s);
            put(s, n);
            i += (size_t)n;
        }
    }
    out->n = 0;
}

/* The text of the screen from the row that begins with the prompt: rows that
 * the terminal has wrapped are one line. */
static const char *text_on_screen(void) {
    static char text[1 << 18];
    size_t n = 0;
    int last = 0;
    for (int row = 0; row < screen.n; row++)
        for (int column = 0; column < screen.columns; column++)
            if (*screen.cells[row][column])
                last = row;
    last = last > screen.row ? last : screen.row;
    for (int row = 0; row <= last; row++) {
        if (row && !screen.follows[row])
            text[n++] = '\n';
        for (int column = 0; column < screen.columns; column++)
            n += (size_t)sprintf(text + n, "%s", screen.cells[row][column]);
    }
    text[n] = '\0';
    return text;
}

/* ---- a model of the editor ---------------------------------------------- */

enum { MAX_CHARACTERS = 2000, MAX_TEXTS = 4 };

/* Of each message the characters as they are edited, and as they were sent. */
static struct {
    const char *texts[MAX_TEXTS][MAX_CHARACTERS];
    const char *sent[MAX_TEXTS][MAX_CHARACTERS];
    int n[MAX_TEXTS], n_sent[MAX_TEXTS], n_texts, at, cursor;
    const char *killed[MAX_CHARACTERS]; /* the last kill */
    int n_killed;
    bool kills; /* the last key was a kill */
} model;

static const char **characters(void) {
    return model.texts[model.at];
}

static bool is_space(int i) {
    return strchr(" \n", *characters()[i]);
}

static int line_start(int i) {
    while (i > 0 && *characters()[i - 1] != '\n')
        i--;
    return i;
}

static int line_stop(int i) {
    while (i < model.n[model.at] && *characters()[i] != '\n')
        i++;
    return i;
}

static void remove_characters(int from, int to) {
    int *n = &model.n[model.at];
    memmove(characters() + from, characters() + to,
            (size_t)(*n - to) * sizeof *characters());
    *n -= to - from;
    model.cursor = from;
}

static int word_before(int i) {
    while (i && is_space(i - 1))
        i--;
    while (i && !is_space(i - 1))
        i--;
    return i;
}

static int word_after(int i) {
    int n = model.n[model.at];
    while (i < n && is_space(i))
        i++;
    while (i < n && !is_space(i))
        i++;
    return i;
}

static void up_or_down(bool up) {
    int start = line_start(model.cursor), stop = line_stop(model.cursor),
        column = model.cursor - start, n = model.n[model.at];
    if (up ? start > 0 : stop < n) {
        start = up ? line_start(start - 1) : stop + 1;
        stop = line_stop(start);
        model.cursor = start + column < stop ? start + column : stop;
    } else if (up ? model.at > 0 : model.at < model.n_texts - 1) {
        model.at += up ? -1 : 1;
        model.cursor = model.n[model.at];
    }
}

/* What keys do, and what terminals send for them. */
static const struct {
    char action;
    const char *bytes[6];
} keys[] = {
    {'l', {"\033[D", "\033OD", "\002"}},
    {'r', {"\033[C", "\033OC", "\006"}},
    {'h', {"\033[H", "\033OH", "\033[1~", "\033[7~", "\001"}},
    {'e', {"\033[F", "\033OF", "\033[4~", "\033[8~", "\005"}},
    {'u', {"\033[A", "\033OA", "\020"}},
    {'d', {"\033[B", "\033OB", "\016"}},
    {'b', {"\033b", "\033[1;5D", "\033[1;3D"}},
    {'f', {"\033f", "\033[1;5C", "\033[1;3C"}},
    {'L', {"\177", "\010"}},
    {'R', {"\033[3~"}},
    {'H', {"\025"}},
    {'E', {"\013"}},
    {'B', {"\027", "\033\177"}},
    {'F', {"\033d"}},
    {'y', {"\031"}},
};

/* Removes characters and keeps them, with those that the last key killed. */
static void kill_characters(int from, int to) {
    bool before = from < model.cursor;
    size_t one = sizeof *model.killed, n = (size_t)(to - from);
    if (from == to)
        return;
    if (!model.kills)
        model.n_killed = 0;
    if (before)
        memmove(model.killed + n, model.killed, (size_t)model.n_killed * one);
    memcpy(model.killed + (before ? 0 : model.n_killed), characters() + from,
           n * one);
    model.n_killed += to - from;
    remove_characters(from, to);
}

static void add_character(const char *character);

static void yank(void) {
    for (int i = 0; i < model.n_killed; i++)
        add_character(model.killed[i]);
}

static void act(char action) {
    int at = model.cursor, n = model.n[model.at];
    switch (action) {
    case 'l': model.cursor -= at > 0; break;
    case 'r': model.cursor += at < n; break;
    case 'h': model.cursor = line_start(at); break;
    case 'e': model.cursor = line_stop(at); break;
    case 'b': model.cursor = word_before(at); break;
    case 'f': model.cursor = word_after(at); break;
    case 'L': remove_characters(at ? at - 1 : 0, at); break;
    case 'R': remove_characters(at, at < n ? at + 1 : n); break;
    case 'H': kill_characters(line_start(at), at); break;
    case 'E': kill_characters(at, line_stop(at)); break;
    case 'B': kill_characters(word_before(at), at); break;
    case 'F': kill_characters(at, word_after(at)); break;
    case 'y': yank(); break;
    default: up_or_down(action == 'u');
    }
    model.kills = strchr("HEBF", action);
}

static void add_character(const char *character) {
    int *n = &model.n[model.at], at = model.cursor++;
    memmove(characters() + at + 1, characters() + at,
            (size_t)(*n - at) * sizeof *characters());
    characters()[at] = character;
    ++*n;
}

/* The model's text up to a character. */
static const char *model_text(int n) {
    static char text[2][1 << 15];
    static int next;
    char *to = text[next++ % 2];
    *to = '\0';
    for (int i = 0; i < n; i++)
        strcat(to, characters()[i]);
    return to;
}

/* ---- both --------------------------------------------------------------- */

static const char *const typed[] = {"a",
                                    "b",
                                    "word",
                                    " ",
                                    " ",
                                    "\xc3\xa9",
                                    "e\xcc\x81",
                                    "\xe4\xbd\xa0",
                                    "\xe5\xa5\xbd",
                                    "\xf0\x9f\x98\x80",
                                    FAMILY,
                                    FLAG,
                                    THUMB,
                                    HEART,
                                    "\n"};

static EditorEvent take(Editor *e, const char *bytes) {
    EditorEvent event = EDITED;
    while (*bytes && event == EDITED)
        event = editor_take(e, *bytes++);
    return event;
}

/* Begins a message: the ones before are as they were sent. */
static void begin_message(void) {
    memcpy(model.texts, model.sent, sizeof model.sent);
    memcpy(model.n, model.n_sent, sizeof model.n);
    model.at = model.n_texts++;
    model.n[model.at] = model.cursor = 0;
    model.kills = false;
}

/* Keeps the message, unless it begins with a space or repeats the last one. */
static void send_message(void) {
    int last = model.n_texts - 1, n = model.n[model.at];
    size_t size = (size_t)n * sizeof *characters();
    bool repeats = last && model.n_sent[last - 1] == n &&
                   !memcmp(model.sent[last - 1], characters(), size);
    if (repeats || !strcmp(*characters(), " ")) {
        model.n_texts--;
        return;
    }
    memcpy(model.sent[last], characters(), size);
    model.n_sent[last] = n;
}

static size_t cursor_of(Editor *e) {
    editor_text(e); /* inserts what was typed */
    return e->draft.cursor;
}

/* Types a random key, or characters. */
static void type_any(Editor *e) {
    int i = any(3 * (int)(sizeof typed / sizeof *typed));
    if (i < (int)(2 * sizeof typed / sizeof *typed)) {
        const char *s = typed[i / 2];
        if (!strcmp(s, "word"))
            for (const char *letter = "word"; *letter; letter++)
                add_character(letter[0] == 'w'   ? "w"
                              : letter[0] == 'o' ? "o"
                              : letter[0] == 'r' ? "r"
                                                 : "d");
        else
            add_character(s);
        model.kills = false;
        CHECK(take(e, strcmp(s, "\n") || any(2) ? s : "\033\r") == EDITED,
              "an event");
    } else {
        int key = any((int)(sizeof keys / sizeof *keys)), form = 0;
        while (form < 5 && keys[key].bytes[form + 1] && any(3))
            form++;
        act(keys[key].action);
        CHECK(take(e, keys[key].bytes[form]) == EDITED, "an event");
    }
}

/* Compares text, cursor and screen with the model. Returns what differs, or
 * NULL. */
static const char *difference(Editor *e, Screen s) {
    static char found[1 << 18];
    const Buffer *text = editor_text(e);
    const char *whole = model_text(model.n[model.at]),
               *before = model_text(model.cursor);
    if (strcmp(text->bytes, whole) || text->n != strlen(whole) ||
        e->draft.cursor != strlen(before)) {
        sprintf(found, "text '%s', cursor %zu, expected '%s', %zu", text->bytes,
                e->draft.cursor, whole, strlen(before));
        return found;
    }
    const char *seen = text_on_screen(), *empty_rows = whole + strlen(whole);
    while (empty_rows > whole && empty_rows[-1] == '\n')
        empty_rows--;
    size_t n = (size_t)(empty_rows - whole);
    if (screen.n < s.rows &&
        (strncmp(seen, "User: ", 6) || strncmp(seen + 6, whole, n) ||
         seen[6 + n + strspn(seen + 6 + n, "\n")])) {
        sprintf(found, "on the screen '%s', expected '%s'", seen, whole);
        return found;
    }
    const char *under = screen.cells[screen.row][screen.column],
               *next = model.cursor < model.n[model.at]
                           ? characters()[model.cursor]
                           : "";
    /* a newline after a full row has no cell */
    if (strcmp(under, strcmp(next, "\n") ? next : "") &&
        (strcmp(next, "\n") || screen.column)) {
        sprintf(found, "the cursor is at '%s', expected '%s' in '%s'", under,
                next, whole);
        return found;
    }
    return NULL;
}

/* 200 sequences of 100 keys, in windows of 20, 80 and 200 columns, one of them
 * with few rows; keys that come together are drawn once. */
static void any_keys_edit_what_is_shown(void) {
    static const Screen sizes[] = {{40, 20}, {40, 80}, {40, 200}, {5, 20}};
    for (int i = 0; i < 200; i++) {
        Editor e = {0};
        Buffer out = {0};
        Screen s = sizes[i % 4];
        memset(&model, 0, sizeof model);
        for (int text = 0; text < 3; text++) {
            begin_message();
            CHECK(!editor_begin(&e), "no memory");
            open_screen(s.rows, s.columns);
            for (int key = 0; key < (text == 2 ? 100 : 10); key++) {
                editor_draw(&e, s, false, &out);
                show(&out);
                const char *found = difference(&e, s);
                CHECK(!found, "columns %d, %s", s.columns, found);
                editor_return(&e, s, &out);
                for (int together = any(3); together >= 0; together--)
                    type_any(&e);
            }
            if (!model.n[model.at])
                add_character("x"), take(&e, "x");
            editor_draw(&e, s, true, &out);
            show(&out);
            CHECK(take(&e, "\r") == SENT, "not sent");
            const char *whole = model_text(model.n[model.at]);
            const char *seen = text_on_screen();
            size_t n = strlen(whole);
            CHECK(strlen(seen) > n &&
                      !strncmp(seen + strlen(seen) - n - 1, whole, n),
                  "columns %d, sent '%s', on the screen '%s'", s.columns, whole,
                  seen);
            history_add(&e.history, editor_text(&e)->bytes);
            send_message();
        }
        free(out.bytes);
        editor_close(&e);
    }
}

/* A paste is text: Enter and the marks of lines are newlines, "\r\n" one of
 * them; keys in it do nothing. */
static void a_paste_is_text(void) {
    static char paste[1 << 17], expected[1 << 17];
    Editor e = {0};
    size_t n = 0, n_expected = 0;
    CHECK(!editor_begin(&e), "no memory");
    n += (size_t)sprintf(paste, "\033[200~");
    while (n < 100000) {
        static const char *const parts[][2] = {{"text ", "text "},
                                               {"\r", "\n"},
                                               {"\r\n", "\n"},
                                               {"\n", "\n"},
                                               {"\t", "\t"},
                                               {"\033[D", ""},
                                               {"\001", ""},
                                               {"\xe4\xbd\xa0", "\xe4\xbd\xa0"},
                                               {"\xe4x", "x"},
                                               {"\"\"\"", "\"\"\""},
                                               {"\177", ""},
                                               {"\032", ""},
                                               {"\xe2\x80\xae"
                                                "y",
                                                "y"}};
        int i = any(13);
        if (n && paste[n - 1] == '\r' && *parts[i][0] == '\n')
            continue;
        n += (size_t)sprintf(paste + n, "%s", parts[i][0]);
        n_expected += (size_t)sprintf(expected + n_expected, "%s", parts[i][1]);
    }
    CHECK(take(&e, paste) == EDITED && take(&e, "\033[201~") == EDITED,
          "an event in a paste");
    CHECK(!strcmp(editor_text(&e)->bytes, expected), "another text");
    CHECK(take(&e, "\r") == SENT, "not sent");
    editor_close(&e);
}

/* Every byte of a paste but its end mark is text or is dropped, among them
 * those that would send, cancel, end or stop. Its text is where the cursor
 * was. */
static void a_paste_cannot_command(void) {
    char paste[64], expected[16];
    for (int byte = 1; byte < 256; byte++) {
        Editor e = {0};
        bool is_text = byte == '\t' || (byte >= ' ' && byte < 0x7f);
        bool ends_line = byte == '\r' || byte == '\n';
        /* ESC begins a key, which takes the next byte */
        const char *after = byte == 27 ? "xb" : "b";
        sprintf(paste, "\033[200~a%c%s\r/bye\r\033[201~", byte, after);
        sprintf(expected, "<a%.*sb\n/bye\n>", is_text || ends_line,
                ends_line ? "\n" : (char[]){(char)byte, 0});
        CHECK(!editor_begin(&e) && take(&e, "<>\002") == EDITED, "no memory");
        for (const char *s = paste; *s; s++)
            CHECK(editor_take(&e, *s) == EDITED, "byte %d: an event", byte);
        CHECK(!strcmp(editor_text(&e)->bytes, expected), "byte %d: '%s'", byte,
              editor_text(&e)->bytes);
        CHECK(cursor_of(&e) == strlen(expected) - 1, "byte %d: cursor %zu",
              byte, cursor_of(&e));
        CHECK(take(&e, "\r") == SENT, "byte %d: not sent after the paste",
              byte);
        editor_close(&e);
    }
}

/* A combining mark that begins a line, or the text, is a character by itself:
 * Up, Down, arrows and Backspace stop there. */
static void a_line_may_begin_with_a_mark(void) {
    Editor e = {0};
    CHECK(!editor_begin(&e), "no memory");
    take(&e, "\xcc\x81x\n\xcc\x81\xcc\x81y\nz");
    CHECK(take(&e, "\033[A") == EDITED && cursor_of(&e) == 8, "Up: cursor %zu",
          cursor_of(&e));
    CHECK(take(&e, "\033[D") == EDITED && cursor_of(&e) == 4,
          "Left: cursor %zu", cursor_of(&e));
    CHECK(take(&e, "\033[D") == EDITED && cursor_of(&e) == 3,
          "Left: cursor %zu", cursor_of(&e));
    CHECK(take(&e, "\033[A\033[A\033[H") == EDITED && cursor_of(&e) == 0,
          "Up, Home: cursor %zu", cursor_of(&e));
    CHECK(take(&e, "\033[C\033[C\033[C") == EDITED && cursor_of(&e) == 4,
          "Right: cursor %zu", cursor_of(&e));
    editor_close(&e);
}

/* Cells beyond 2^31: lines in a wide window. */
static void many_lines_in_a_wide_window(void) {
    enum { LINES = 33000 };
    Editor e = {0};
    Screen s = {.rows = 5, .columns = 65535};
    Buffer drawn = {0};
    CHECK(!editor_begin(&e), "no memory");
    take(&e, "\033[200~");
    for (int i = 0; i < LINES; i++)
        take(&e, "\n");
    take(&e, "\033[201~");
    editor_draw(&e, s, false, &drawn);
    CHECK(drawn.n < 200, "%zu bytes for 5 empty rows", drawn.n);
    drawn.n = 0;
    editor_return(&e, s, &drawn);
    CHECK(drawn.n < 100, "%zu bytes to go to the first row", drawn.n);
    free(drawn.bytes);
    editor_close(&e);
}

/* Whatever a paste holds, up to its end no byte is a key. */
static void a_paste_is_no_command(void) {
    static const char *const inside[][2] = {
        {"harmless\003/save! FILE\r", "harmless/save! FILE\n"},
        {"a\004\032\034\025\022x\037\031", "ax"},
        {"a\033[200~b\033[A\033OA\033\r", "ab\n"},
        {"a\033[20\003\r", "a\n"},
        {"a\033[20", "a"},
        {"a\033", "a"},
        {"a\xe4\xbd", "a"},
        {"\033[[", ""},
        {"\001b\033[1;1;1;1;1;1;1;1;1;1;1\003", "b"}};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        Editor e = {0};
        CHECK(!editor_begin(&e), "no memory");
        take(&e, "\033[200~");
        for (const char *s = inside[i][0]; *s; s++)
            CHECK(editor_take(&e, *s) == EDITED, "%zu: an event", i);
        CHECK(editor_take(&e, '\0') == EDITED && take(&e, "\r") == EDITED &&
                  take(&e, "\033[201~") == EDITED,
              "%zu: an event at the end", i);
        const Buffer *t = editor_text(&e);
        size_t n = strlen(inside[i][1]);
        CHECK(t->n == n + 1 && !strncmp(t->bytes, inside[i][1], n) &&
                  t->bytes[n] == '\n',
              "%zu: '%s'", i, t->bytes);
        CHECK(take(&e, "\r") == SENT, "%zu: not sent after the paste", i);
        editor_close(&e);
    }
}

static void unknown_keys_do_nothing(void) {
    static const char *const unknown[] = {
        "\033OP",       "\033[15~",
        "\033[24;5~",   "\033[5~",
        "\033[2~",      "\033[[D",
        "\033[1;2D",    "\033[Z",
        "\033[-3~",     "\033[99999~",
        "\033x",        "\033\033[E",
        "\033[1;5A",    "\007",
        "\036",         "\030",
        "\034",         "\xff",
        "\xe4\xbd",     "\x80",
        "\xc0\xaf",     "\xed\xa0\x80",
        "\xe2\x80\xa8", "\xc2\x9b",
        "\0333",        "\033[1111111111111111111111;2D",
        "\033O5P",      "\033[I",
        "\033[ q",      "\033[2 ~"};
    Editor e = {0};
    CHECK(!editor_begin(&e), "no memory");
    take(&e, "ab\033[D");
    CHECK(editor_take(&e, '\0') == EDITED && cursor_of(&e) == 1,
          "by a zero byte");
    /* sequences with a zero byte, which begin like known keys */
    static const char *const begins[] = {"\033[", "\033[20", "\033[201",
                                         "\033[1;5", "\033O"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        take(&e, begins[i]);
        CHECK(editor_take(&e, '\0') == EDITED && take(&e, "9~") == EDITED &&
                  cursor_of(&e) == 1 && !strcmp(editor_text(&e)->bytes, "ab"),
              "by '%s' and a zero byte: '%s'", begins[i] + 1,
              editor_text(&e)->bytes);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK(take(&e, unknown[i]) == EDITED, "an event by '%s'",
              unknown[i] + 1);
        take(&e, "x\177"); /* what has begun is over */
        CHECK(!strcmp(editor_text(&e)->bytes, "ab") && cursor_of(&e) == 1,
              "by '%s': '%s', cursor %zu", unknown[i] + 1,
              editor_text(&e)->bytes, cursor_of(&e));
    }
    editor_close(&e);
}

static void keys_end_a_message(void) {
    Editor e = {0};
    CHECK(!editor_begin(&e), "no memory");
    CHECK(take(&e, "\r") == EDITED, "an empty message is sent");
    CHECK(take(&e, "\033[3~") == EDITED && take(&e, "\004") == ENDED,
          "Ctrl-D without a text");
    CHECK(take(&e, "ab\001\004") == EDITED &&
              !strcmp(editor_text(&e)->bytes, "b"),
          "Ctrl-D deletes '%s'", editor_text(&e)->bytes);
    CHECK(take(&e, "\032") == STOPPED && take(&e, "\003") == CANCELED,
          "Ctrl-Z, Ctrl-C");
    CHECK(!editor_begin(&e), "no memory");
    CHECK(take(&e, "\"\"\"a\rb\"\"\"") == EDITED && take(&e, "\r") == SENT &&
              !strcmp(editor_text(&e)->bytes, "\"\"\"a\nb\"\"\""),
          "quotes: '%s'", editor_text(&e)->bytes);
    CHECK(!editor_begin(&e) && take(&e, "\033[200~\"\"\"a\033[201~\r") == SENT,
          "a paste that begins with quotes");
    editor_close(&e);
}

/* Three quotes at the begin are open until three others are at the end. */
static void quotes_are_open_until_others_close_them(void) {
    static const char *const inside[] = {"", "a", "ab", "abc"};
    for (int before = 0; before <= 8; before++)
        for (int after = 0; after <= 4; after++)
            for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
                char text[16];
                sprintf(text, "%.*s%s%.*s", before, "\"\"\"\"\"\"\"\"",
                        inside[i], after, "\"\"\"\"");
                const int n = (int)strlen(text),
                          quotes = *inside[i] ? after : before + after;
                const bool begins = (*inside[i] ? before : quotes) >= 3,
                           ends = n >= 6 && quotes >= 3;
                Editor e = {0};
                CHECK(!editor_begin(&e), "no memory");
                take(&e, text);
                CHECK((take(&e, "\r") == SENT) == (n && !(begins && !ends)),
                      "'%s'", text);
                editor_close(&e);
            }
}

/* What keys leave in the text: | is the cursor. */
static const char *edited(Editor *e, const char *typed_keys) {
    static char shown[256];
    for (; *typed_keys; typed_keys++) {
        editor_take(e, *typed_keys);
        if (!e->keys.pasting)
            editor_text(e); /* as drawing does */
    }
    const Buffer *t = editor_text(e);
    snprintf(shown, sizeof shown, "%.*s|%s", (int)e->draft.cursor, t->bytes,
             t->bytes + e->draft.cursor);
    return shown;
}

/* Each case begins with an empty message and the kills of the ones before. */
static void kills_come_back(void) {
    static const char *const cases[][2] = {
        {"\031\033y", "|"},                  /* nothing was killed */
        {"one two\027\027\031", "one two|"}, /* together one kill */
        {"a b\033b\013\001\031", "b|a "},    /* to the end */
        {"x\025y\025\031", "y|"},            /* the newest */
        {"\031\033y", "x|"},                 /* then the one before */
        {"\031\033y\033y", "b|"},
        {"\033y", "|"}, /* only after Ctrl-Y */
        {"\031a\033y", "ya|"},
        {"a b c\002\002\033d\027\031", "a b c|"}, /* after, then before */
        {"d\033[3~\010\031", "b c|"},             /* Delete keeps nothing */
    };
    Editor e = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!editor_begin(&e), "no memory");
        const char *text = edited(&e, cases[i][0]);
        CHECK(!strcmp(text, cases[i][1]), "%zu: '%s', expected '%s'", i, text,
              cases[i][1]);
    }
    editor_close(&e);
}

/* Each Ctrl-Y after Ctrl-U could double a message. */
static void kills_do_not_grow_without_end(void) {
    Editor e = {0};
    CHECK(!editor_begin(&e), "no memory");
    take(&e, "0123456789");
    for (int i = 0; i < 40; i++)
        take(&e, "\025\031\031");
    CHECK(editor_text(&e)->n <= 1 << 16, "%zu bytes", editor_text(&e)->n);
    for (int i = 0; i < 1 << 17; i++)
        take(&e, "x");
    size_t n = editor_text(&e)->n;
    CHECK(take(&e, "\025\031") == EDITED && editor_text(&e)->n == n,
          "a long text does not come back: %zu of %zu bytes",
          editor_text(&e)->n, n);
    editor_close(&e);
}

/* A kill comes back if the message then has at most 2^16 bytes. */
static void a_yank_fills_a_message(void) {
    Editor e = {0};
    enum { HALF = 1 << 15 };
    CHECK(!editor_begin(&e), "no memory");
    for (int i = 0; i < HALF; i++)
        take(&e, "x");
    for (int i = 0; i < 3; i++) { /* bytes typed before */
        take(&e, "\025");
        CHECK(!editor_begin(&e), "no memory");
        take(&e, i == 0 ? "" : i == 1 ? "a" : "ab");
        take(&e, "\031\031");
        const size_t n = editor_text(&e)->n;
        CHECK(n == (size_t)(i ? HALF + i : 2 * HALF), "%d and two kills: %zu",
              i, n);
        CHECK(!editor_begin(&e), "no memory");
        take(&e, "\031");
        CHECK(editor_text(&e)->n == HALF, "%zu bytes", editor_text(&e)->n);
    }
    editor_close(&e);
}

/* Removals of 4 MB together can be undone; one more byte, and only the last one
 * can. */
static void what_is_kept_for_undo_is_limited(void) {
    enum { LIMIT = 1 << 22, FIRST = 1 << 20 };
    static char text[LIMIT];
    memset(text, 'a', LIMIT);
    for (size_t more = 0; more < 2; more++) {
        const size_t n = LIMIT - FIRST + more;
        Draft d = {0};
        draft_set(&d, text, FIRST);
        draft_remove(&d, 0, FIRST);
        draft_insert_whole(&d, text, n);
        draft_remove(&d, 0, n);
        draft_undo(&d);
        CHECK(draft_text(&d)->n == n, "%zu bytes, expected %zu",
              draft_text(&d)->n, n);
        draft_undo(&d);
        draft_undo(&d);
        CHECK(draft_text(&d)->n == (more ? n : FIRST),
              "%zu more: %zu bytes at last", more, draft_text(&d)->n);
        draft_close(&d);
    }
}

static size_t complete_colors(const char *text, size_t n, Buffer *candidates) {
    static const char *const colors[] = {"/green ", "/grey ", "/gr\xc3\xa9",
                                         "/gr\xc3\xa8", "/blue "};
    for (size_t i = 0; i < sizeof colors / sizeof *colors; i++)
        if (!strncmp(colors[i], text, n))
            buffer_append(candidates, colors[i], strlen(colors[i]) + 1);
    return 0;
}

static int allocations_left;

static void fail_later(void) {
    if (!allocations_left--)
        setenv("NORMA_FAIL_ALLOCATION", "1+", 1);
}

/* From the n-th allocation on there is no memory. What the keys do then is
 * lost, but text and cursor stay those of a text. */
static void without_memory_a_text_stays_a_text(void) {
    static const char keys_of_all[] =
        "one two\rthree \027\031\033[A\033[A\033[Bfour\001\013\031\037\037"
        "\022tw\001x\022zz\177\007\027\027\031\033y\t/b\t\025/b\t\"\"\"";
    for (int n = 0; n < 60; n++) {
        Editor e = {.completer = complete_colors};
        Buffer out = {0};
        history_add(&e.history, "one");
        history_add(&e.history, "two");
        bool begun = !editor_begin(&e);
        stderr_hide();
        allocations_left = n;
        before_allocation = fail_later;
        char typed_keys[1024];
        snprintf(typed_keys, sizeof typed_keys, "%s%0500d\037\037", keys_of_all,
                 0);
        for (const char *key = typed_keys; *key && begun; key++) {
            editor_take(&e, *key);
            if (*key != '0') /* of those only the last one */
                editor_draw(&e, (Screen){5, 20}, false, &out);
            out.n = 0;
            const Buffer *t = editor_text(&e);
            if (strlen(t->bytes) != t->n || e.draft.cursor > t->n)
                begun = false;
        }
        before_allocation = NULL;
        unsetenv("NORMA_FAIL_ALLOCATION");
        stderr_show();
        CHECK(begun, "%d allocations: not a text", n);
        free(out.bytes);
        editor_close(&e);
    }
}

static void changes_are_undone(void) {
    static const char *const cases[][2] = {
        {"\037", "|"},
        {"one two\037", "one |"}, /* a word at a time */
        {"one two\037\037", "|"},
        {"one two\037\037\037", "|"},
        {"one\001\013\037", "one|"},
        {"one\002\177x\037\037", "on|e"},
        {"a\033[200~b\rc\033[201~\037", "|"},
        {"a \033[200~b\rc\033[201~\037", "a |"},
        {"one\025two\037\037", "one|"},
        {"one\025\031\037", "|"},
        {"one\027ab\031x\037", "abone|"},
        {"one\027ab\031x\037\037", "ab|"},
        {"x\001ab\033[3~\037", "abx|"}, /* a removal where typing ended */
        {"abc\002x\037", "ab|c"},       /* another place, another change */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Editor e = {0};
        CHECK(!editor_begin(&e), "no memory");
        const char *text = edited(&e, cases[i][0]);
        CHECK(!strcmp(text, cases[i][1]), "%zu: '%s', expected '%s'", i, text,
              cases[i][1]);
        editor_close(&e);
    }
    /* the oldest changes are forgotten, the others in their order */
    Editor e = {0};
    CHECK(!editor_begin(&e), "no memory");
    for (int i = 0; i < 10000; i++)
        take(&e, i % 2 ? "\002\033[3~" : "ab");
    for (int i = 0; i < 10000; i++)
        take(&e, "\037");
    const Buffer *t = editor_text(&e);
    CHECK(t->n > 0 && t->n < 5000 && t->bytes[strspn(t->bytes, "a")] == '\0',
          "%zu bytes", t->n);
    editor_close(&e);
}

static void search_finds_messages(void) {
    static const struct {
        const char *keys, *text;
        EditorEvent event;
    } cases[] = {
        {"\022ne\r", "|one two", SENT}, /* Enter sends it */
        {"\022ne\001", "|one two", EDITED},
        {"\022o\022\002", "t|wo one", EDITED}, /* Ctrl-R: an older one */
        {"\022o\022\022\022\002", "t|wo one", EDITED},
        {"\022ox\177\022\005", "two one|", EDITED},
        {"ab\022one\007", "ab|", EDITED},
        {"ab\022one\003", "ab|", EDITED},
        {"ab\022zzz\005", "ab|", EDITED},
        {"ab\022\005", "ab|", EDITED},
        {"\022\177\022\001", "|two one", EDITED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Editor e = {0};
        EditorEvent event = EDITED;
        history_add(&e.history, "two one");
        history_add(&e.history, " hidden one");
        history_add(&e.history, "one two");
        CHECK(!editor_begin(&e), "no memory");
        for (const char *s = cases[i].keys; *s; s++)
            event = editor_take(&e, *s);
        const char *text = edited(&e, "");
        /* the place of the query, which for these is near the begin */
        CHECK(event == cases[i].event && strlen(text) == strlen(cases[i].text),
              "%zu: '%s', expected '%s'", i, text, cases[i].text);
        editor_close(&e);
    }
    /* what is drawn while it searches, also before a query */
    Editor e = {0};
    Buffer out = {0};
    history_add(&e.history, "one two");
    CHECK(!editor_begin(&e) && take(&e, "x\022") == EDITED, "no memory");
    open_screen(10, 40);
    editor_draw(&e, (Screen){10, 40}, false, &out);
    show(&out);
    CHECK(!strncmp(text_on_screen(), "(search: ) x", 12), "'%s'",
          text_on_screen());
    take(&e, "tw");
    open_screen(10, 40);
    editor_draw(&e, (Screen){10, 40}, false, &out);
    show(&out);
    CHECK(!strncmp(text_on_screen(), "(search: tw) one two", 20) &&
              screen.column == 17,
          "'%s', column %d", text_on_screen(), screen.column);
    free(out.bytes);
    editor_close(&e);
}

/* A search that ends in the entry that is shown changes nothing: what was
 * edited there stays, and is undone. */
static void a_search_keeps_what_was_edited(void) {
    Editor e = {0};
    history_add(&e.history, "one two");
    CHECK(!editor_begin(&e) && take(&e, "\033[A x") == EDITED, "no memory");
    CHECK(take(&e, "\022one\005") == EDITED &&
              !strcmp(edited(&e, ""), "one two x|"),
          "'%s'", edited(&e, ""));
    CHECK(!strcmp(edited(&e, "\037"), "one two|"), "undone: '%s'",
          edited(&e, ""));
    editor_close(&e);
    /* as many messages as the history keeps */
    Editor full = {0};
    Buffer out = {0};
    for (int i = 0; i < MAX_HISTORY; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        history_add(&full.history, text);
    }
    CHECK(!editor_begin(&full) && take(&full, "a\022") == EDITED, "no memory");
    editor_draw(&full, (Screen){10, 40}, false, &out);
    CHECK(take(&full, "\005") == EDITED && !strcmp(edited(&full, ""), "a|"),
          "'%s'", edited(&full, ""));
    free(out.bytes);
    editor_close(&full);
}

/* Corrects a word of the same length. */
static size_t correct(const char *text, size_t n, Buffer *candidates) {
    (void)text;
    if (n == 5)
        buffer_append(candidates, "/blue", 6);
    return 0;
}

static void a_completion_replaces_what_was_typed(void) {
    Editor e = {.completer = correct};
    CHECK(!editor_begin(&e) && take(&e, "/bleu\t") == EDITED &&
              !strcmp(edited(&e, ""), "/blue|"),
          "'%s'", edited(&e, ""));
    editor_close(&e);
}

static void tab_completes(void) {
    static const struct {
        const char *keys, *text;
        EditorEvent event;
    } cases[] = {{"/b\t", "/blue |", EDITED},       {"/g\t", "/gr|", EDITED},
                 {"/gr\t", "/gr|", LISTED},         {"/gre\t", "/gre|", LISTED},
                 {"/gree\t", "/green |", EDITED},   {"/x\t", "/x|", EDITED},
                 {"/bx\002\t", "/blue |x", EDITED}, {"b\t", "b\t|", EDITED},
                 {"/b\t\037", "/b|", EDITED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Editor e = {.completer = complete_colors};
        EditorEvent event = EDITED;
        CHECK(!editor_begin(&e), "no memory");
        for (const char *s = cases[i].keys; *s; s++)
            event = editor_take(&e, *s);
        const char *text = edited(&e, "");
        bool undone = strchr(cases[i].keys, '\037') != NULL;
        CHECK(event == cases[i].event &&
                  (undone || !strcmp(text, cases[i].text)),
              "%zu: '%s', expected '%s'", i, text, cases[i].text);
        editor_close(&e);
    }
}

/* ---- characters, from GraphemeBreakTest.txt's rules ---------------------- */

static void clusters_are_those_of_uax_29(void) {
    /* | is a boundary. Macros of texts stand between some. */
    /* NOLINTBEGIN(bugprone-suspicious-missing-comma) */
    static const char *const texts[] = {"a|b",
                                        "e\u0301|x",
                                        "\r\n|\n|\r",
                                        "\u0301|\n|\u0301\u0301|a",
                                        "\u1100\u1161\u11a8|\u1100",
                                        "\uac00\u11a8|\uac00",
                                        "\uac01\u11a8|\u1161",
                                        FAMILY "|" FAMILY,
                                        THUMB "|" HEART "|a",
                                        FLAG "|" FLAG "|\U0001f1e9|a",
                                        "a\u200d|\U0001f468",
                                        "\u0915\u094d\u0937|\u0915",
                                        "\u0915|\u0937",
                                        "\u0915\u0301|\u0937",
                                        "\u0600a|\u0600\u0600b",
                                        "\u0e01\u0e33|a",
                                        "1\ufe0f\u20e3|2",
                                        "\u0915\u094d\u200d\u0937|x",
                                        "\u2764\u0301\u200d\u2764|\u2764"};
    /* NOLINTEND(bugprone-suspicious-missing-comma) */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[128];
        bool boundary[128] = {true};
        size_t n = 0;
        for (const char *s = texts[i]; *s; s++)
            if (*s == '|')
                boundary[n] = true;
            else
                text[n++] = *s;
        boundary[n] = true;
        text[n] = '\0';
        for (size_t at = 0, next; at < n; at = next) {
            next = grapheme_next(text, n, at);
            size_t expected = at + 1;
            while (!boundary[expected])
                expected++;
            CHECK(next == expected, "%zu: %zu after %zu, expected %zu", i, next,
                  at, expected);
            CHECK(grapheme_before(text, n, next) == at, "%zu: %zu before %zu",
                  i, grapheme_before(text, n, next), next);
            for (size_t inside = at + 1; inside <= next; inside++)
                if ((text[inside] & 0xc0) != 0x80)
                    CHECK(grapheme_boundary(text, n, inside) == next,
                          "%zu: the boundary from %zu on", i, inside);
        }
    }
    CHECK(grapheme_columns(FAMILY, strlen(FAMILY)) == 2 &&
              grapheme_columns(FLAG, strlen(FLAG)) == 2 &&
              grapheme_columns(THUMB, strlen(THUMB)) == 2 &&
              grapheme_columns(HEART, strlen(HEART)) == 2 &&
              grapheme_columns("e\u0301", 3) == 1 &&
              grapheme_columns("\u0915\u094d\u0937", 9) == 2,
          "columns");
}

/* ---- history ------------------------------------------------------------- */

static void history_lasts(void) {
    static History h;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", temporary("history"));
    setenv("XDG_STATE_HOME", path, 1);
    strcat(path, "/norma/history");
    history_open(&h);
    history_add(&h, "one\ntwo\\n");
    history_add(&h, " hidden");
    history_add(&h, "\tx");
    history_add(&h, "\tx");
    history_close(&h);
    struct stat st;
    CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600, "mode %o",
          st.st_mode & 0777);
    for (int session = 0; session < 2; session++) {
        h = (History){0};
        history_open(&h);
        CHECK(h.n == 2 && !strcmp(h.entries[0], "one\ntwo\\n") &&
                  !strcmp(h.entries[1], "\tx"),
              "%d entries, '%s'", h.n, h.entries[0]);
        history_close(&h);
    }
    /* two sessions at once; the oldest entries go */
    static History other;
    h = other = (History){0};
    history_open(&h);
    history_open(&other);
    for (int i = 0; i < MAX_HISTORY - 1; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        history_add(&h, text);
    }
    history_add(&other, "other");
    CHECK(h.n == MAX_HISTORY && history_find(&h, "\tx", h.n) == 0 &&
              history_find(&h, "998", h.n) == MAX_HISTORY - 1 &&
              history_find(&h, "998", MAX_HISTORY - 1) == -1,
          "%d entries", h.n);
    history_close(&h);
    history_close(&other);
    h = (History){0};
    history_open(&h);
    CHECK(h.n == MAX_HISTORY && !strcmp(h.entries[0], "0") &&
              !strcmp(h.entries[MAX_HISTORY - 1], "other"),
          "%d entries, '%s' to '%s'", h.n, h.entries[0], h.entries[h.n - 1]);
    history_close(&h);
    /* a file that someone else has written: only what can be shown */
    FILE *file = fopen(path, "w");
    fputs("a\033[2Jb\n\nc\\", file);
    fclose(file);
    h = (History){0};
    history_open(&h);
    CHECK(h.n == 2 && !strcmp(h.entries[0], "a[2Jb") &&
              !strcmp(h.entries[1], "c\\"),
          "%d entries, '%s'", h.n, h.n ? h.entries[0] : "");
    history_close(&h);
    unsetenv("XDG_STATE_HOME");
}

/* Entries of all characters come back as they were; a session without a file
 * says nothing. */
static void any_entries_last(void) {
    static const char *const parts[] = {"a",  "\\",       "n", "\n",
                                        "\t", "\xc3\xa9", " "};
    static char entries[40][32];
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", temporary("any"));
    /* a path that is not absolute does not count */
    setenv("XDG_STATE_HOME", "relative", 1);
    const char *old_home = getenv("HOME");
    char home[PATH_MAX] = "";
    if (old_home)
        snprintf(home, sizeof home, "%s", old_home);
    setenv("HOME", path, 1);
    static History h;
    h = (History){0};
    history_open(&h);
    for (int i = 0; i < 40; i++) {
        sprintf(entries[i], "%d", i);
        for (int n = any(8); n > 0; n--)
            strcat(entries[i], parts[any(7)]);
        history_add(&h, entries[i]);
    }
    history_close(&h);
    h = (History){0};
    history_open(&h);
    CHECK(h.n == 40, "%d entries", h.n);
    for (int i = 0; i < 40; i++)
        CHECK(!strcmp(h.entries[i], entries[i]), "'%s', expected '%s'",
              h.entries[i], entries[i]);
    history_close(&h);
    strcat(path, "/.local/state/norma/history");
    CHECK(!access(path, F_OK) && access("relative", F_OK), "no %s", path);
    if (*home)
        setenv("HOME", home, 1);
    else
        unsetenv("HOME");
    unsetenv("XDG_STATE_HOME");
    h = (History){0};
    stderr_hide();
    history_add(&h, "a");
    CHECK(stderr_show() == 0 && h.n == 1, "%s", stderr_text());
    history_close(&h);
}

/* Entries of up to 32 KB go to the file, lines of up to 64 KB are read; too
 * long ones leave it as it is. */
static void long_entries_do_not_last(void) {
    enum { LONGEST = 1 << 15 };
    static char text[2 * LONGEST + 2], path[PATH_MAX];
    static History h;
    snprintf(path, sizeof path, "%s", temporary("long"));
    setenv("XDG_STATE_HOME", path, 1);
    strcat(path, "/norma/history");
    h = (History){0};
    history_open(&h);
    for (int i = 0; i < MAX_HISTORY; i++) {
        memset(text, i ? '\\' : 'x', LONGEST); /* twice as long in the file */
        text[i ? 10 : LONGEST] = '\0';
        sprintf(text + strlen(text) - 4, "%04d", i);
        history_add(&h, text);
    }
    memset(text, '\\', LONGEST + 1);
    text[LONGEST + 1] = '\0';
    history_add(&h, text);
    history_close(&h);
    h = (History){0};
    history_open(&h);
    CHECK(h.n == MAX_HISTORY && strlen(h.entries[0]) == LONGEST, "%d entries",
          h.n);
    text[LONGEST] = '\0';
    history_add(&h, text);
    history_close(&h);
    FILE *file = fopen(path, "a");
    for (int more = 0; more < 2; more++) {
        memset(text, 'y', 2 * LONGEST + 1);
        text[2 * LONGEST + more] = '\0';
        fprintf(file, "%s\n", text);
    }
    fclose(file);
    h = (History){0};
    history_open(&h);
    CHECK(h.n == MAX_HISTORY && strlen(h.entries[h.n - 1]) == 2 * LONGEST &&
              strlen(h.entries[h.n - 2]) == LONGEST,
          "%d entries, the last of %zu bytes", h.n, strlen(h.entries[h.n - 1]));
    history_close(&h);
    /* a file that is no text stays as it is */
    file = fopen(path, "w");
    fputs("\xff\xfez", file);
    fclose(file);
    h = (History){0};
    stderr_hide();
    history_open(&h);
    history_add(&h, "a");
    CHECK(stderr_show() == 1 && strstr(stderr_text(), "UTF-16"), "%s",
          stderr_text());
    history_close(&h);
    struct stat st;
    CHECK(!stat(path, &st) && st.st_size == 3, "%d bytes", (int)st.st_size);
    unsetenv("XDG_STATE_HOME");
}

void suite_editor(void) {
    TEST(kills_come_back);
    TEST(kills_do_not_grow_without_end);
    TEST(a_yank_fills_a_message);
    TEST(what_is_kept_for_undo_is_limited);
    TEST(without_memory_a_text_stays_a_text);
    TEST(changes_are_undone);
    TEST(search_finds_messages);
    TEST(a_search_keeps_what_was_edited);
    TEST(tab_completes);
    TEST(a_completion_replaces_what_was_typed);
    TEST(clusters_are_those_of_uax_29);
    TEST(history_lasts);
    TEST(any_entries_last);
    TEST(long_entries_do_not_last);
    TEST(any_keys_edit_what_is_shown);
    TEST(a_paste_is_text);
    TEST(a_paste_cannot_command);
    TEST(a_line_may_begin_with_a_mark);
    TEST(many_lines_in_a_wide_window);
    TEST(a_paste_is_no_command);
    TEST(unknown_keys_do_nothing);
    TEST(keys_end_a_message);
    TEST(quotes_are_open_until_others_close_them);
}
