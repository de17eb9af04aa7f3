/* pretokenize.c: where a text is cut into words.
 *
 * Owns the patterns. In Hugging Face's files they are regular expressions; here
 * each is matched by hand, in time linear in the text. What files call them is
 * formats/gguf_tokenizer.c's and formats/tokenizer_json.c's; how words become
 * tokens is merges.c's.
 *
 * Letters, numbers and white space are Unicode's (unicode.h). A byte that is no
 * UTF-8 is a character of its own that is none of these.
 */
#include "text/pretokenize.h"

#include "base/search.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <string.h>
#include <strings.h>

/* ---- characters ------------------------------------------------------------------------ */

static CharacterClass class_of_code(uint32_t code) {
    size_t next;
    SEARCH(next, 1, sizeof CLASS_RUNS / sizeof *CLASS_RUNS, CLASS_RUNS[next] >> 2 <= code);
    return (CharacterClass)(CLASS_RUNS[next - 1] & 3);
}

/* What is left of a text, and the character it begins with. */
typedef struct {
    const char *s, *end;
    size_t length; /* of the character in bytes; 0 at the end */
    CharacterClass class;
} Cursor;

/* Reads the character at the cursor. */
static void look(Cursor *c) {
    const size_t left = (size_t)(c->end - c->s);
    c->class = OTHER;
    c->length = left ? (size_t)utf8_character(c->s, left) : 0;
    if (c->length)
        c->class = class_of_code(utf8_code(c->s, c->length));
    else
        c->length = left > 0;
}

static void step(Cursor *c) {
    c->s += c->length;
    look(c);
}

static bool at_class(const Cursor *c, CharacterClass class) { return c->length && c->class == class; }
static bool at_newline(const Cursor *c) { return c->length && (*c->s == '\n' || *c->s == '\r'); }

/* Steps over at most `most` characters of the class. */
static void skip(Cursor *c, CharacterClass class, int most) {
    for (int i = 0; i < most && at_class(c, class); i++) step(c);
}

bool is_white_space(const char *s, size_t length) { return length && class_of_code(utf8_code(s, length)) == SPACE; }

/* ---- patterns ---------------------------------------------------------------------------- */

enum { ANY = 1 << 30 };

/* 's 't 're 've 'm 'll 'd, in Llama 3's and Qwen 2's pattern also in capitals. */
static bool skip_contraction(Cursor *c, bool capitals) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    static const char long_s[] = "'\xc5\xbf"; /* a lower-case s, too, where case does not count */
    const size_t left = (size_t)(c->end - c->s);
    size_t n = 0;
    if (left < 2 || *c->s != '\'') return false;
    for (int i = 0; i < 7 && !n; i++) {
        const size_t length = strlen(endings[i]);
        if (length >= left) continue;
        if (!(capitals ? strncasecmp : strncmp)(c->s + 1, endings[i], length)) n = 1 + length;
    }
    if (!n && capitals && left >= 3 && !memcmp(c->s, long_s, 3)) n = 3;
    c->s += n;
    look(c);
    return n > 0;
}

/* \s+(?!\S)|\s+ : white space, but its last character goes with what follows. */
static void skip_space(Cursor *c) {
    Cursor last = *c;
    const char *start = c->s;
    while (at_class(c, SPACE)) {
        last = *c;
        step(c);
    }
    if (c->length && last.s > start) *c = last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static void next_gpt2(Cursor *c) {
    if (skip_contraction(c, false)) return;
    Cursor word = *c;
    if (*word.s == ' ') step(&word);
    if (!word.length || word.class == SPACE) {
        skip_space(c);
        return;
    }
    skip(&word, word.class, ANY);
    *c = word;
}

/* \s*[\r\n]+ : white space up to its last newline. */
static bool skip_lines(Cursor *c) {
    Cursor last = *c;
    bool found = false;
    for (Cursor at = *c; at_class(&at, SPACE);) {
        const bool newline = at_newline(&at);
        step(&at);
        if (newline) last = at, found = true;
    }
    *c = last;
    return found;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
 * \s+(?!\S)|\s+ */
static void next_llama3(Cursor *c, int digits) {
    if (skip_contraction(c, true)) return;
    Cursor word = *c;
    if (word.class != LETTER && word.class != NUMBER && !at_newline(&word)) step(&word);
    if (at_class(&word, LETTER)) {
        skip(&word, LETTER, ANY);
        *c = word;
        return;
    }
    if (c->class == NUMBER) {
        skip(c, NUMBER, digits);
        return;
    }
    word = *c;
    if (*word.s == ' ') step(&word);
    if (at_class(&word, OTHER)) {
        skip(&word, OTHER, ANY);
        while (at_newline(&word)) step(&word);
        *c = word;
        return;
    }
    if (!skip_lines(c)) skip_space(c);
}

/* Numbers by themselves, so many digits at a time, and what is between them. */
static void next_number(Cursor *c, int digits) {
    if (c->class == NUMBER)
        skip(c, NUMBER, digits);
    else
        while (c->length && c->class != NUMBER) step(c);
}

/* Spaces with what follows up to the next one. */
static void next_spaced(Cursor *c) {
    do step(c);
    while (c->length && *c->s != ' ');
}

/* Moves to the end of the word that begins at the cursor. */
static void next_word(Cursor *c, Pattern pattern) {
    switch (pattern) {
    case PATTERN_GPT2: next_gpt2(c); break;
    case PATTERN_LLAMA3: next_llama3(c, 3); break;
    case PATTERN_QWEN2: next_llama3(c, 1); break;
    case PATTERN_DIGIT: next_number(c, 1); break;
    case PATTERN_DIGITS3: next_number(c, 3); break;
    case PATTERN_DIGITS: next_number(c, ANY); break;
    case PATTERN_SPACED: next_spaced(c); break;
    }
}

/* Cuts s[n] by step `at` and those after it. */
static int cut(const Pretokenizer *p, int at, const char *s, size_t n, WordFunction word, void *arg) {
    if (at == p->n_steps) return n ? word(arg, s, n) : 0;
    Cursor c = {.s = s, .end = s + n};
    look(&c);
    while (c.length) {
        const char *start = c.s;
        next_word(&c, p->steps[at]);
        if (cut(p, at + 1, start, (size_t)(c.s - start), word, arg)) return -1;
    }
    return 0;
}

int pretokenize(const Pretokenizer *p, const char *text, size_t size, WordFunction word, void *arg) {
    return cut(p, 0, text, size, word, arg);
}

const char *pretokenizer_shown(const Pretokenizer *p) {
    static const char *const names[] = {[PATTERN_GPT2] = "GPT-2's pattern",   [PATTERN_LLAMA3] = "Llama 3's pattern",
                                        [PATTERN_QWEN2] = "Qwen 2's pattern", [PATTERN_DIGIT] = "digits",
                                        [PATTERN_DIGITS3] = "three digits",   [PATTERN_DIGITS] = "numbers",
                                        [PATTERN_SPACED] = "spaces"};
    return p->n_steps ? names[p->steps[0]] : "none";
}
