/* pretokenize.c: the steps from text to words: normalization and splitting.
 *
 * Owns normalization, which includes Unicode's form C (Unicode Standard Annex 15; tables in nfc.h): e and a combining
 * acute accent become one character. Owns the patterns that split a text into words: Hugging Face's files have regular
 * expressions; this file matches them by hand-written code in linear time. Letters, numbers and white space are
 * Unicode's (unicode.h). An invalid UTF-8 byte is a character in none of these classes and never composes.
 */
#include "text/pretokenize.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- normalization ------------------------------------------------------------------------- */

/* Korean syllables are computed: leading consonant, vowel, optional trailing consonant (0 = none). */
enum { SYLLABLES = 0xac00, LEADING = 0x1100, VOWELS = 0x1161, TRAILING = 0x11a7 };
enum { N_LEADING = 19, N_VOWELS = 21, N_TRAILING = 28, N_SYLLABLES = N_LEADING * N_VOWELS * N_TRAILING };

/* The value of a code point in a table of runs, each `code << bits | value` of its first code point; 0 for an invalid
 * byte. */
static unsigned value_in(const uint32_t *runs, size_t n, int bits, uint32_t code) {
    size_t next;
    SEARCH(next, 1, n, runs[next] >> bits <= code);
    return code < UTF8_END ? runs[next - 1] & ((1u << bits) - 1) : 0;
}

typedef struct {
    uint32_t code;
    unsigned order; /* combining class, the sort key of marks; 0: not a mark */
    size_t place;   /* in the text, the second sort key */
} Character;

static bool is_below(const uint32_t *row, uint32_t first, uint32_t second) {
    return row[1] < first || (row[1] == first && row[2] < second);
}

/* The composition of two characters; 0 if they do not compose. */
static uint32_t composition(uint32_t first, uint32_t second) {
    if (first - LEADING < N_LEADING && second - VOWELS < N_VOWELS)
        return SYLLABLES + ((first - LEADING) * N_VOWELS + second - VOWELS) * N_TRAILING;
    if (first - SYLLABLES < N_SYLLABLES && (first - SYLLABLES) % N_TRAILING == 0 &&
        second - TRAILING - 1 < N_TRAILING - 1)
        return first + second - TRAILING;
    size_t i;
    SEARCH(i, 0, COUNT(COMPOSITIONS), is_below(DECOMPOSITIONS[COMPOSITIONS[i]], first, second));
    const uint32_t *row = DECOMPOSITIONS[COMPOSITIONS[i < COUNT(COMPOSITIONS) ? i : 0]];
    return row[1] == first && row[2] == second ? row[0] : 0;
}

/* Writes the decomposition of a character. Returns its length, at most 2 characters per byte of UTF-8. */
static size_t decompose(Character *to, uint32_t code) {
    const uint32_t i = code - SYLLABLES;
    if (i < N_SYLLABLES) {
        to[0] = (Character){.code = LEADING + i / (N_VOWELS * N_TRAILING)};
        to[1] = (Character){.code = VOWELS + i / N_TRAILING % N_VOWELS};
        to[2] = (Character){.code = TRAILING + i % N_TRAILING};
        return i % N_TRAILING ? 3 : 2;
    }
    size_t at;
    SEARCH(at, 0, COUNT(DECOMPOSITIONS), DECOMPOSITIONS[at][0] < code);
    const uint32_t *row = DECOMPOSITIONS[at];
    if (at == COUNT(DECOMPOSITIONS) || row[0] != code) {
        *to = (Character){.code = code, .order = value_in(COMBINING_RUNS, COUNT(COMBINING_RUNS), 8, code)};
        return 1;
    }
    const size_t n = decompose(to, row[1]);
    return n + (row[2] ? decompose(to + n, row[2]) : 0);
}

/* Writes a normalized character or invalid byte. */
static char *write_character(const Normalizer *z, char *to, uint32_t code) {
    if (code == 0x2581 && z->replaces_mark) code = ' ';
    if (code >= UTF8_END && z->replaces_invalid) code = 0xfffd;
    if (code < UTF8_END) return to + utf8_encode(to, code);
    *to = (char)(code - UTF8_END);
    return to + 1;
}

static int compare_marks(const void *a, const void *b) {
    const Character *x = a, *y = b;
    return x->order != y->order ? (int)x->order - (int)y->order : x->place < y->place ? -1 : 1;
}

/* Sorts each run of marks by combining class. */
static void order_marks(Character *text, size_t n) {
    for (size_t i = 0; i < n; i++) text[i].place = i;
    for (size_t from = 0, end; from < n; from = end + 1) {
        for (end = from; end < n && text[end].order; end++) continue;
        if (end - from > 1) qsort(text + from, end - from, sizeof *text, compare_marks);
    }
}

/* A mark composes with the last character before it that is not a mark, unless a mark of the same or a higher class is
 * between them. */
static size_t compose(Character *text, size_t n) {
    size_t out = 0, base = n; /* n = none yet */
    for (size_t i = 0; i < n; i++) {
        const Character c = text[i];
        const bool blocked = base == n || (out - 1 > base && text[out - 1].order >= c.order);
        const uint32_t both = blocked ? 0 : composition(text[base].code, c.code);
        if (both) {
            text[base].code = both;
            continue;
        }
        if (!c.order) base = out;
        text[out++] = c;
    }
    return out;
}

/* Writes text[size] in form C. Returns NULL if out of memory. */
static char *write_composed(const Normalizer *z, char *to, const char *text, size_t size) {
    Character *characters = allocate(2 * size, sizeof *characters);
    if (!characters) return NULL;
    size_t n = 0;
    for (size_t at = 0, length; at < size; at += length)
        n += decompose(characters + n, utf8_read(text + at, size - at, &length));
    order_marks(characters, n);
    n = compose(characters, n);
    for (size_t i = 0; i < n; i++) to = write_character(z, to, characters[i].code);
    free(characters);
    return to;
}

char *normalize(const Normalizer *z, const char *text, size_t size, bool space, size_t *n) {
    char *normalized = allocate(3 * size + 1, 1), *to = normalized; /* the max size: a byte becomes at most 3 */
    size_t unchanged = 0; /* bytes before the first 0xcc: characters below U+0300 are in form C */
    if (!normalized) return NULL;
    if (space) *to++ = ' ';
    while (unchanged < size && (uint8_t)text[unchanged] < 0xcc) unchanged++;
    if (z->composes && unchanged < size)
        to = write_composed(z, to, text, size);
    else
        for (size_t at = 0, length; at < size; at += length)
            to = write_character(z, to, utf8_read(text + at, size - at, &length));
    if (to) {
        *n = (size_t)(to - normalized);
        return normalized;
    }
    free(normalized);
    return NULL;
}

/* ---- characters ------------------------------------------------------------------------ */

static CharacterClass class_of(uint32_t code) {
    return (CharacterClass)value_in(CLASS_RUNS, COUNT(CLASS_RUNS), 3, code); /* OTHER is 0 */
}

/* The rest of a text and its first character. */
typedef struct {
    const char *s, *end;
    size_t length;        /* of the character in bytes; 0 at the end */
    CharacterClass exact; /* its class */
    CharacterClass class; /* the same, but OTHER for marks and LETTER for all letters */
} Cursor;

static void classify(Cursor *c) {
    c->length = 0;
    c->exact = c->s < c->end ? class_of(utf8_read(c->s, (size_t)(c->end - c->s), &c->length)) : OTHER;
    c->class = c->exact >= LETTER ? LETTER : c->exact == MARK ? OTHER : c->exact;
}

static void step(Cursor *c) {
    c->s += c->length;
    classify(c);
}

static bool at_class(const Cursor *c, CharacterClass class) { return c->length && c->class == class; }
static bool at_newline(const Cursor *c) { return c->length && (*c->s == '\n' || *c->s == '\r'); }

/* Skips at most `max` characters of the class. */
static void skip(Cursor *c, CharacterClass class, int max) {
    for (int i = 0; i < max && at_class(c, class); i++) step(c);
}

bool is_white_space(uint32_t code) { return class_of(code) == SPACE; }

/* ---- patterns ---------------------------------------------------------------------------- */

enum { ANY = 1 << 30 };

/* 's 't 're 've 'm 'll 'd. `capitals`: ignores case, as the patterns of Llama 3, Qwen 2 and GPT-4o do. */
static bool skip_contraction(Cursor *c, bool capitals) {
    /* the last one is the long s (U+017F): ignoring case, it equals s */
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d", "\xc5\xbf"};
    const size_t left = (size_t)(c->end - c->s);
    for (int i = 0; i < (capitals ? 8 : 7) && *c->s == '\''; i++) {
        const size_t n = strlen(endings[i]);
        if (n >= left || (capitals ? strncasecmp : strncmp)(c->s + 1, endings[i], n)) continue;
        c->s += 1 + n;
        classify(c);
        return true;
    }
    return false;
}

/* \s+(?!\S)|\s+ : white space without its last character if text follows. `lines`: first tries \s*[\r\n]+, white space
 * up to its last newline. */
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
    if (c->class != LETTER && c->class != NUMBER && !at_newline(c)) step(&word);
    if (!at_class(&word, LETTER) && *c->s != ' ') word = *c;
    const CharacterClass class = word.class;
    if (c->class == NUMBER) {
        skip(c, NUMBER, digits);
    } else if (at_class(&word, LETTER) || at_class(&word, OTHER)) {
        skip(&word, class, ANY);
        while (class == OTHER && at_newline(&word)) step(&word);
        *c = word;
    } else {
        skip_space(c, true);
    }
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ : uppercase letters, then at least one other letter.
 * `capitals`: at least one uppercase letter, then other letters. Letters and marks without case match both parts.
 * Returns false if there is no match. */
static bool skip_cased(Cursor *c, bool capitals) {
    Cursor at = *c, caseless = *c; /* after the last letter or mark without case */
    for (; at.length && (at.exact == UPPER || at.exact == LETTER || at.exact == MARK); step(&at)) {
        if (at.exact == UPPER) continue;
        caseless = at;
        step(&caseless);
    }
    const bool lower = at.length && at.exact == LOWER;
    while (lower && at.length && (at.exact == LOWER || at.exact == LETTER || at.exact == MARK)) step(&at);
    const Cursor end = lower || capitals ? at : caseless;
    const bool found = end.s > c->s;
    *c = end;
    return found;
}

/* GPT-4o's pattern. First a word: [^\r\n\p{L}\p{N}]?, the letters of skip_cased(), then a contraction, if any. It is
 * tried without and with capitals, each time with and without its first character. Else:
 * \p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * Mistral's pattern has 1 digit and no contractions. */
static void next_cased(Cursor *c, int digits) {
    const Cursor start = *c;
    for (int i = 0; i < 4; i++) {
        *c = start;
        const bool prefix = i % 2 == 0;
        if (prefix && (c->class == LETTER || c->class == NUMBER || at_newline(c))) continue;
        if (prefix) step(c);
        if (!skip_cased(c, i / 2)) continue;
        if (digits > 1 && c->length) skip_contraction(c, true);
        return;
    }
    *c = start;
    if (c->class == NUMBER) {
        skip(c, NUMBER, digits);
        return;
    }
    if (*c->s == ' ') step(c);
    if (!at_class(c, OTHER)) {
        *c = start;
        skip_space(c, true);
        return;
    }
    skip(c, OTHER, ANY);
    while (at_newline(c) || (c->length && *c->s == '/')) step(c);
}

/* Groups of at most `digits` digits, and the text between numbers. */
static void next_number(Cursor *c, int digits) {
    if (c->class == NUMBER)
        skip(c, NUMBER, digits);
    else
        while (c->length && c->class != NUMBER) step(c);
}

/* A character, usually a space, and the text up to the next space. */
static void next_spaced(Cursor *c, int digits) {
    (void)digits;
    do step(c);
    while (c->length && *c->s != ' ');
}

static const struct {
    const char *shown;
    void (*next)(Cursor *c, int digits); /* moves to the end of the word that begins at the cursor */
    int digits;                          /* max digits of a word, if the pattern limits them */
} PATTERNS[] = {
    [PATTERN_GPT2] = {"GPT-2's pattern", next_gpt2, 0},     [PATTERN_LLAMA3] = {"Llama 3's pattern", next_llama3, 3},
    [PATTERN_QWEN2] = {"Qwen 2's pattern", next_llama3, 1}, [PATTERN_GPT4O] = {"GPT-4o's pattern", next_cased, 3},
    [PATTERN_TEKKEN] = {"Tekken's pattern", next_cased, 1}, [PATTERN_DIGIT] = {"digits", next_number, 1},
    [PATTERN_DIGITS3] = {"three digits", next_number, 3},   [PATTERN_DIGITS] = {"numbers", next_number, ANY},
    [PATTERN_SPACED] = {"spaces", next_spaced, 0},
};

int pretokenize(const Pattern *steps, int n_steps, const char *text, size_t size, WordFunction word, void *arg) {
    if (!n_steps) return size ? word(arg, text, size) : 0;
    Cursor c = {.s = text, .end = text + size};
    classify(&c);
    while (c.length) {
        const char *start = c.s;
        PATTERNS[*steps].next(&c, PATTERNS[*steps].digits);
        if (pretokenize(steps + 1, n_steps - 1, start, (size_t)(c.s - start), word, arg)) return -1;
    }
    return 0;
}

const char *pretokenizer_shown(const Pretokenizer *p) { return p->n_steps ? PATTERNS[p->steps[0]].shown : "none"; }
