/* normalize.c: what becomes of a text before it is cut into words.
 *
 * Owns what a Normalizer asks for, above all Unicode's normalization form C (Unicode Standard
 * Annex 15; tables: nfc.h): e and a combining acute accent become one e with an acute accent. A
 * byte that is no UTF-8 stays, and nothing composes across it. Where texts are cut is pretokenize.c's.
 */
#include "text/normalize.h"

#include "base/memory.h"
#include "base/search.h"
#include "base/utf8.h"
#include "text/nfc.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Korean syllables are computed: leading consonant, vowel, perhaps a trailing consonant (number 0: none). */
enum { SYLLABLES = 0xac00, LEADING = 0x1100, VOWELS = 0x1161, TRAILING = 0x11a7 };
enum { N_LEADING = 19, N_VOWELS = 21, N_TRAILING = 28, N_SYLLABLES = N_LEADING * N_VOWELS * N_TRAILING };

/* A character and its combining class, by which marks are ordered; 0: it is no mark. */
typedef struct {
    uint32_t code;
    unsigned order;
} Character;

static unsigned class_of(uint32_t code) {
    size_t next;
    SEARCH(next, 1, COUNT(COMBINING_RUNS), COMBINING_RUNS[next] >> 8 <= code);
    return code < UTF8_END ? COMBINING_RUNS[next - 1] & 0xff : 0;
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

/* Writes what a character decomposes into; returns how many, at most 2 to a byte of UTF-8, for which there is room. */
static size_t decompose(Character *to, uint32_t code) {
    const uint32_t i = code - SYLLABLES;
    if (i < N_SYLLABLES) {
        to[0] = (Character){LEADING + i / (N_VOWELS * N_TRAILING), 0};
        to[1] = (Character){VOWELS + i / N_TRAILING % N_VOWELS, 0};
        to[2] = (Character){TRAILING + i % N_TRAILING, 0};
        return i % N_TRAILING ? 3 : 2;
    }
    size_t at;
    SEARCH(at, 0, COUNT(DECOMPOSITIONS), DECOMPOSITIONS[at][0] < code);
    const uint32_t *row = DECOMPOSITIONS[at];
    if (at == COUNT(DECOMPOSITIONS) || row[0] != code) {
        *to = (Character){code, class_of(code)};
        return 1;
    }
    const size_t n = decompose(to, row[1]);
    return n + (row[2] ? decompose(to + n, row[2]) : 0);
}

/* Writes a character, or a byte that is none, as the normalizer leaves it. */
static char *write_character(const Normalizer *z, char *to, uint32_t code) {
    if (code == 0x2581 && z->replaces_mark) code = ' ';
    if (code >= UTF8_END && z->replaces_invalid) code = 0xfffd;
    if (code < UTF8_END) return to + utf8_encode(to, code);
    *to = (char)(code - UTF8_END);
    return to + 1;
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

/* Writes the form of text[size]; NULL: no memory. */
static char *write_composed(const Normalizer *z, char *to, const char *text, size_t size) {
    Character *characters = allocate(2 * size, 2 * sizeof *characters);
    if (!characters) return NULL;
    size_t n = 0;
    for (size_t at = 0, length; at < size; at += length)
        n += decompose(characters + n, utf8_read(text + at, size - at, &length));
    order_marks(characters, n, characters + 2 * size);
    n = compose(characters, n);
    for (size_t i = 0; i < n; i++) to = write_character(z, to, characters[i].code);
    free(characters);
    return to;
}

char *normalize(const Normalizer *z, const char *text, size_t size, bool space, size_t *n) {
    char *normalized = allocate(3 * size + 1, 1), *to = normalized; /* no text grows by more */
    if (!normalized) return NULL;
    if (space) *to++ = ' ';
    size_t unchanged = 0; /* what is all below U+0300, which begins with 0xcc, is in the form */
    while (z->composes && unchanged < size && (uint8_t)text[unchanged] < 0xcc) unchanged++;
    if (z->composes && unchanged < size) {
        to = write_composed(z, to, text, size);
    } else if (z->replaces_invalid || z->replaces_mark) {
        for (size_t at = 0, length; at < size; at += length)
            to = write_character(z, to, utf8_read(text + at, size - at, &length));
    } else {
        memcpy(to, text, size);
        to += size;
    }
    if (!to) {
        free(normalized);
        return NULL;
    }
    *n = (size_t)(to - normalized);
    return normalized;
}
