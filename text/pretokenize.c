/* pretokenize.c: where a text is cut into words.
 *
 * Owns the patterns: regular expressions in Hugging Face's files, here matched by hand, in time
 * linear in the text. Letters, numbers and white space are Unicode's (unicode.h); a byte that is no
 * UTF-8 is a character of its own that is none of these. What files call the patterns is
 * formats/gguf_tokenizer.c's and formats/tokenizer_json.c's; how words become tokens is merges.c's.
 */
#include "text/pretokenize.h"

#include "base/search.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <string.h>

/* ---- characters ------------------------------------------------------------------------ */

static CharacterClass class_of(uint32_t code) {
    size_t next;
    SEARCH(next, 1, sizeof CLASS_RUNS / sizeof *CLASS_RUNS, CLASS_RUNS[next] >> 2 <= code);
    return code < UTF8_END ? (CharacterClass)(CLASS_RUNS[next - 1] & 3) : OTHER;
}

/* What is left of a text, and the character it begins with. */
typedef struct {
    const char *s, *end;
    size_t length; /* of the character in bytes; 0 at the end */
    CharacterClass class;
} Cursor;

/* Reads the character at the cursor. */
static void look(Cursor *c) {
    c->length = 0;
    c->class = c->s < c->end ? class_of(utf8_read(c->s, (size_t)(c->end - c->s), &c->length)) : OTHER;
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

bool is_white_space(uint32_t code) { return class_of(code) == SPACE; }

/* ---- patterns ---------------------------------------------------------------------------- */

enum { ANY = 1 << 30 };

/* 's 't 're 've 'm 'll 'd, in Llama 3's and Qwen 2's pattern also in capitals. */
static bool skip_contraction(Cursor *c, bool capitals) {
    /* the long s comes last: it is a lower-case s, too, where case does not count */
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d", "\xc5\xbf"};
    const size_t left = (size_t)(c->end - c->s);
    for (int i = 0; i < (capitals ? 8 : 7) && *c->s == '\''; i++) {
        const size_t n = strlen(endings[i]);
        if (n >= left || (capitals ? strncasecmp : strncmp)(c->s + 1, endings[i], n)) continue;
        c->s += 1 + n;
        look(c);
        return true;
    }
    return false;
}

/* \s+(?!\S)|\s+ : white space, but its last character goes with what follows.
 * `lines`: first of all \s*[\r\n]+, white space up to its last newline. */
static void skip_space(Cursor *c, bool lines) {
    Cursor at = *c, last = *c, line = *c;
    while (at_class(&at, SPACE)) {
        last = at;
        step(&at);
        if (at_newline(&last)) line = at;
    }
    if (lines && line.s > c->s)
        *c = line;
    else
        *c = at.length && last.s > c->s ? last : at;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static void next_gpt2(Cursor *c, int digits) {
    (void)digits;
    if (skip_contraction(c, false)) return;
    Cursor word = *c;
    if (*word.s == ' ') step(&word);
    if (!word.length || word.class == SPACE) {
        skip_space(c, false);
        return;
    }
    skip(&word, word.class, ANY);
    *c = word;
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
    if (*c->s != ' ') word = *c;
    if (at_class(&word, OTHER)) {
        skip(&word, OTHER, ANY);
        while (at_newline(&word)) step(&word);
        *c = word;
        return;
    }
    skip_space(c, true);
}

/* Numbers by themselves, so many digits at a time, and what is between them. */
static void next_number(Cursor *c, int digits) {
    if (c->class == NUMBER)
        skip(c, NUMBER, digits);
    else
        while (c->length && c->class != NUMBER) step(c);
}

/* Spaces with what follows up to the next one. */
static void next_spaced(Cursor *c, int digits) {
    (void)digits;
    do step(c);
    while (c->length && *c->s != ' ');
}

static const struct {
    const char *shown;
    void (*next)(Cursor *c, int digits); /* moves to the end of the word that begins at the cursor */
    int digits;                          /* most of a number in one word, where the pattern limits it */
} PATTERNS[] = {
    [PATTERN_GPT2] = {"GPT-2's pattern", next_gpt2, 0},     [PATTERN_LLAMA3] = {"Llama 3's pattern", next_llama3, 3},
    [PATTERN_QWEN2] = {"Qwen 2's pattern", next_llama3, 1}, [PATTERN_DIGIT] = {"digits", next_number, 1},
    [PATTERN_DIGITS3] = {"three digits", next_number, 3},   [PATTERN_DIGITS] = {"numbers", next_number, ANY},
    [PATTERN_SPACED] = {"spaces", next_spaced, 0},
};

int pretokenize(const Pattern *steps, int n_steps, const char *text, size_t size, WordFunction word, void *arg) {
    if (!n_steps) return size ? word(arg, text, size) : 0;
    Cursor c = {.s = text, .end = text + size};
    look(&c);
    while (c.length) {
        const char *start = c.s;
        PATTERNS[*steps].next(&c, PATTERNS[*steps].digits);
        if (pretokenize(steps + 1, n_steps - 1, start, (size_t)(c.s - start), word, arg)) return -1;
    }
    return 0;
}

const char *pretokenizer_shown(const Pretokenizer *p) { return p->n_steps ? PATTERNS[p->steps[0]].shown : "none"; }
