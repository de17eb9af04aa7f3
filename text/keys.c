/* keys.c: what the keys of a terminal mean.
 *
 * Owns the bytes that xterm and its relatives send for keys, and the rule that
 * a paste is text: until its end mark no byte of it is a command.
 * Tests: editor.
 */
#include "text/keys.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <string.h>

enum { ESCAPE = 27 };

static const struct {
    const char *bytes;
    Key key;
} KEYS[] = {
    {"\1", KEY_LINE_BEGIN},
    {"\2", KEY_LEFT},
    {"\3", KEY_CANCEL},
    {"\4", KEY_END_OF_INPUT},
    {"\5", KEY_LINE_END},
    {"\6", KEY_RIGHT},
    {"\7", KEY_ABORT},
    {"\b", KEY_DELETE_LEFT},
    {"\t", KEY_COMPLETE},
    {"\n", KEY_NEW_LINE},
    {"\13", KEY_KILL_LINE_END},
    {"\14", KEY_CLEAR_SCREEN},
    {"\r", KEY_ENTER},
    {"\16", KEY_DOWN},
    {"\20", KEY_UP},
    {"\22", KEY_SEARCH},
    {"\25", KEY_KILL_LINE_BEGIN},
    {"\27", KEY_KILL_WORD_LEFT},
    {"\31", KEY_YANK},
    {"\32", KEY_STOP},
    {"\37", KEY_UNDO},
    {"\177", KEY_DELETE_LEFT},
    {"\033b", KEY_WORD_LEFT},
    {"\033f", KEY_WORD_RIGHT},
    {"\033d", KEY_KILL_WORD_RIGHT},
    {"\033y", KEY_YANK_OLDER},
    {"\033\b", KEY_KILL_WORD_LEFT},
    {"\033\177", KEY_KILL_WORD_LEFT},
    {"\033\r", KEY_NEW_LINE},
    {"\033\n", KEY_NEW_LINE},
    {"\033[A", KEY_UP},
    {"\033[B", KEY_DOWN},
    {"\033[C", KEY_RIGHT},
    {"\033[D", KEY_LEFT},
    {"\033[H", KEY_LINE_BEGIN},
    {"\033[F", KEY_LINE_END},
    {"\033OA", KEY_UP},
    {"\033OB", KEY_DOWN},
    {"\033OC", KEY_RIGHT},
    {"\033OD", KEY_LEFT},
    {"\033OH", KEY_LINE_BEGIN},
    {"\033OF", KEY_LINE_END},
    {"\033[1~", KEY_LINE_BEGIN},
    {"\033[7~", KEY_LINE_BEGIN},
    {"\033[4~", KEY_LINE_END},
    {"\033[8~", KEY_LINE_END},
    {"\033[3~", KEY_DELETE_RIGHT},
    {"\033[1;3D", KEY_WORD_LEFT},
    {"\033[1;3C", KEY_WORD_RIGHT},
    {"\033[1;5D", KEY_WORD_LEFT},
    {"\033[1;5C", KEY_WORD_RIGHT},
    {"\033[200~", KEY_PASTE_BEGIN},
    {"\033[201~", KEY_PASTE_END},
};

static bool is_control(char byte) {
    return (uint8_t)byte < ' ' || byte == '\177';
}

/* Whether a byte ends "\033", "\033[", "\033O" or such a sequence with
 * parameters. */
static bool ends_sequence(const KeyReader *k, char byte) {
    if (k->n == 1)
        return byte != '[' && byte != 'O';
    bool is_linux_function_key = k->n == 2 && byte == '[';
    return byte >= '@' && !is_linux_function_key;
}

/* Whether a byte belongs to the key that has begun. */
static bool continues(const KeyReader *k, char byte) {
    if (!k->n || k->is_complete || byte == ESCAPE)
        return false;
    if (*k->bytes != ESCAPE)
        return utf8_is_continuation(byte);
    /* Alt with a control character; else these end a sequence. A zero byte
     * does not: it makes the sequence unknown */
    return k->n == 1 || !byte || ((uint8_t)byte >= ' ' && byte != '\177');
}

static Key find_key(const KeyReader *k) {
    for (size_t i = 0; i < COUNT(KEYS); i++)
        if (strlen(KEYS[i].bytes) == (size_t)k->n &&
            !memcmp(k->bytes, KEYS[i].bytes, k->n))
            return KEYS[i].key;
    return KEY_NONE;
}

/* The key of the bytes, if they are one. */
static Key read_key(KeyReader *k, char byte) {
    if (!continues(k, byte))
        k->n = 0;
    const bool is_sequence = k->n && *k->bytes == ESCAPE;
    k->is_complete = is_sequence && ends_sequence(k, byte);
    /* of a sequence longer than any key the end does not matter */
    if (k->n < (int)sizeof k->bytes - 1)
        k->bytes[k->n++] = byte;
    k->bytes[k->n] = '\0';
    if (*k->bytes == ESCAPE)
        return k->is_complete ? find_key(k) : KEY_NONE;
    if (is_control(byte)) {
        k->is_complete = true;
        return find_key(k);
    }
    if (k->n < utf8_length(*k->bytes))
        return KEY_NONE;
    size_t length;
    k->is_complete = true;
    return utf8_is_printable(utf8_read(k->bytes, k->n, &length)) ? KEY_TEXT
                                                                 : KEY_NONE;
}

Key key_take(KeyReader *k, char byte) {
    Key key = read_key(k, byte);
    const bool after_return = k->after_return; /* only the byte before */
    k->after_return = byte == '\r';
    if (key == KEY_PASTE_BEGIN || key == KEY_PASTE_END) {
        const bool begins = key == KEY_PASTE_BEGIN,
                   changes = k->pasting != begins;
        k->pasting = begins;
        return changes ? key : KEY_NONE;
    }
    if (!k->pasting || key == KEY_TEXT)
        return key;
    if (key == KEY_COMPLETE)
        return KEY_TEXT;
    if (key == KEY_NEW_LINE && byte == '\n' && after_return)
        return KEY_NONE; /* of "\r\n" */
    return key == KEY_ENTER || key == KEY_NEW_LINE ? KEY_NEW_LINE : KEY_NONE;
}
