/* normalize.c: what becomes of a text before it is cut into words.
 *
 * Owns what a Normalizer asks for, above all Unicode's normalization form C
 * (Unicode Standard Annex 15): e and a combining acute accent become one e with
 * an acute accent. Its tables are nfc.h. Where texts are cut is pretokenize.c's.
 *
 * To the form a byte that is no UTF-8 stays what it is, and nothing composes across it.
 */
#include "text/normalize.h"

#include "base/memory.h"
#include "base/search.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/pieces.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Korean syllables are computed: leading consonant, vowel, perhaps a trailing consonant. */
enum {
    SYLLABLES = 0xac00,
    LEADING = 0x1100,
    VOWELS = 0x1161,
    TRAILING = 0x11a7, /* one before the first: 0 means none */
    N_LEADING = 19,
    N_VOWELS = 21,
    N_TRAILING = 28,
    N_SYLLABLES = N_LEADING * N_VOWELS * N_TRAILING,
    FIRST_MARK = 0xcc /* first byte of U+0300 */
};

static const uint32_t NO_CHARACTER = 0x110000; /* + a byte that is no UTF-8 */

/* A character and its combining class, by which marks are ordered; 0: it is no mark. */
typedef struct {
    uint32_t code;
    unsigned order;
} Character;

/* ---- tables ------------------------------------------------------------------------------ */

static unsigned class_of(uint32_t code) {
    size_t next;
    SEARCH(next, 1, COUNT(COMBINING_RUNS), COMBINING_RUNS[next] >> 8 <= code);
    return code < NO_CHARACTER ? COMBINING_RUNS[next - 1] & 0xff : 0;
}

static const uint32_t *decomposition(uint32_t code) {
    size_t i;
    SEARCH(i, 0, COUNT(DECOMPOSITIONS), DECOMPOSITIONS[i][0] < code);
    return i < COUNT(DECOMPOSITIONS) && DECOMPOSITIONS[i][0] == code ? DECOMPOSITIONS[i] : NULL;
}

static bool is_below(const uint32_t *row, uint32_t first, uint32_t second) {
    return row[1] < first || (row[1] == first && row[2] < second);
}

/* What two characters compose into; 0: nothing. */
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

/* ---- the form ------------------------------------------------------------------------------ */

/* Writes what a character decomposes into; returns how many, at most 2 to a byte of UTF-8. */
static size_t decompose(Character *to, uint32_t code) {
    const uint32_t *row = decomposition(code);
    if (code - SYLLABLES < N_SYLLABLES) {
        const uint32_t i = code - SYLLABLES, trailing = i % N_TRAILING;
        to[0] = (Character){LEADING + i / (N_VOWELS * N_TRAILING), 0};
        to[1] = (Character){VOWELS + i / N_TRAILING % N_VOWELS, 0};
        if (trailing) to[2] = (Character){TRAILING + trailing, 0};
        return trailing ? 3 : 2;
    }
    if (!row) {
        *to = (Character){code, class_of(code)};
        return 1;
    }
    const size_t n = decompose(to, row[1]);
    return n + (row[2] ? decompose(to + n, row[2]) : 0);
}

static size_t decompose_text(Character *to, const char *text, size_t size) {
    size_t n = 0;
    for (size_t at = 0, length; at < size; at += length) {
        length = (size_t)utf8_character(text + at, size - at);
        n += decompose(to + n, length ? utf8_code(text + at, length) : NO_CHARACTER + (uint8_t)text[at]);
        if (!length) length = 1;
    }
    return n;
}

/* Puts marks[n] in the order of their classes, equal ones as they are; spare[n] is scratch. */
static void sort_marks(Character *marks, size_t n, Character *spare) {
    size_t starts[257] = {0};
    for (size_t i = 0; i < n; i++) starts[marks[i].order + 1]++;
    for (int i = 0; i < 256; i++) starts[i + 1] += starts[i];
    memcpy(spare, marks, n * sizeof *marks);
    for (size_t i = 0; i < n; i++) marks[starts[spare[i].order]++] = spare[i];
}

static void order_marks(Character *text, size_t n, Character *spare) {
    for (size_t from = 0, end; from < n; from = end + 1) {
        for (end = from; end < n && text[end].order; end++) continue;
        if (end - from > 1) sort_marks(text + from, end - from, spare);
    }
}

/* A mark joins the last character before it that is none, unless a mark of its own class, or above, stands between. */
static size_t compose(Character *text, size_t n) {
    size_t out = 0, base = n; /* n: none yet */
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

static size_t write_text(char *to, const Character *text, size_t n) {
    char *start = to;
    for (size_t i = 0; i < n; i++)
        if (text[i].code < NO_CHARACTER)
            to += utf8_encode(to, text[i].code);
        else
            *to++ = (char)(text[i].code - NO_CHARACTER);
    return (size_t)(to - start);
}

/* Whether the form may differ from the text: what is all below U+0300 stays as it is. */
static bool may_change(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)text[i] >= FIRST_MARK) return true;
    return false;
}

char *normalize_nfc(const char *text, size_t size, size_t *n) {
    char *composed = allocate(3 * size + 1, 1); /* no text grows by more */
    if (!composed) return NULL;
    *n = size;
    if (!may_change(text, size)) return memcpy(composed, text, size);
    Character *characters = allocate(2 * size, 2 * sizeof *characters);
    if (characters) {
        size_t count = decompose_text(characters, text, size);
        order_marks(characters, count, characters + 2 * size);
        count = compose(characters, count);
        *n = write_text(composed, characters, count);
    } else {
        free(composed);
        composed = NULL;
    }
    free(characters);
    return composed;
}

/* ---- the normalizer ------------------------------------------------------------------------ */

/* Writes the UTF-8 character s[length], or a byte that is none (length 0), as the normalizer leaves it. */
static char *write_character(const Normalizer *z, char *to, const char *s, size_t length) {
    if (z->replaces_mark && length == 3 && !memcmp(s, SPACE_MARK, 3)) {
        *to = ' ';
        return to + 1;
    }
    if (!length && z->replaces_invalid) return to + utf8_encode(to, 0xfffd);
    if (!length) length = 1;
    memcpy(to, s, length);
    return to + length;
}

static char *replace(const Normalizer *z, const char *text, size_t size, bool space, size_t *n) {
    char *replaced = allocate((z->replaces_invalid ? 3 : 1) * size + 1, 1), *to = replaced;
    if (!replaced) return NULL;
    if (space) *to++ = ' ';
    if (z->replaces_invalid || z->replaces_mark) {
        for (size_t at = 0, length; at < size; at += length ? length : 1) {
            length = (size_t)utf8_character(text + at, size - at);
            to = write_character(z, to, text + at, length);
        }
    } else {
        memcpy(to, text, size);
        to += size;
    }
    *n = (size_t)(to - replaced);
    return replaced;
}

char *normalize(const Normalizer *z, const char *text, size_t size, bool space, size_t *n) {
    if (!z->composes) return replace(z, text, size, space, n);
    char *composed = normalize_nfc(text, size, &size);
    char *normalized = composed ? replace(z, composed, size, space, n) : NULL;
    free(composed);
    return normalized;
}
