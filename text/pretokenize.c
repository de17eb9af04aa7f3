/* pretokenize.c: the steps from text to words: normalization and splitting.
 *
 * Owns normalization, which includes Unicode's form C (Unicode Standard Annex
 * 15; tables in nfc.h): e and a combining acute accent become one character.
 * Owns the patterns that split a text into words, and a matcher for the part of
 * regular expressions that they use: it reads a pattern while it matches,
 * backtracks, and takes linear time with each pattern of the table. Letters,
 * numbers and white space are Unicode's (unicode.h). An invalid UTF-8 byte is a
 * character in none of these classes and never composes.
 * Tests: bpe, growth.
 */
#include "text/pretokenize.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/process.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/unicode.h"
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- normalization ------------------------------------------------------ */

/* Korean syllables are computed: leading consonant, vowel, optional trailing
 * consonant (0 = none). */
enum {
    SYLLABLES = 0xac00,
    LEADING = 0x1100,
    VOWELS = 0x1161,
    TRAILING = 0x11a7,
    N_LEADING = 19,
    N_VOWELS = 21,
    N_TRAILING = 28,
    N_SYLLABLES = N_LEADING * N_VOWELS * N_TRAILING
};

unsigned value_in(const uint32_t *runs, size_t n, uint32_t code) {
    size_t next;
    SEARCH(next, 1, n, runs[next] >> 8 <= code);
    return code < UTF8_END ? runs[next - 1] & 0xff : 0;
}

static CharacterClass class_of(uint32_t code) {
    return value_in(CLASS_RUNS, COUNT(CLASS_RUNS), code); /* OTHER is 0 */
}

bool is_white_space(uint32_t code) {
    return class_of(code) == SPACE;
}

/* Whether a regular expression's \w matches it. */
static bool is_of_word(uint32_t code) {
    switch (class_of(code)) {
    case MARK:
    case NUMBER:
    case LETTER:
    case UPPER:
    case LOWER: return true;
    case OTHER:
    case SPACE:
    case PUNCTUATION:
    case SYMBOL: break;
    }
    return code == '_';
}

bool is_in_word(const char *text, size_t size, size_t at, size_t n) {
    size_t before = utf8_before(text + at, text);
    return (before &&
            is_of_word(utf8_read(text + at - before, before, &before))) ||
           (at + n < size &&
            is_of_word(utf8_read(text + at + n, size - at - n, &before)));
}

typedef struct {
    uint32_t code;
    CharacterClass class; /* for patterns */
    /* for form C: combining class, the sort key of marks; 0: not a mark */
    unsigned order;
    uint32_t place; /* in the text, the second sort key */
} Character;

static uint64_t pair(uint32_t first, uint32_t second) {
    return (uint64_t)first << 32 | second;
}

/* The characters of a composition of the table, which is sorted by them. */
static uint64_t parts_of(size_t composition) {
    const uint32_t *row = DECOMPOSITIONS[COMPOSITIONS[composition]];
    return pair(row[1], row[2]);
}

/* The composition of two characters; 0 if they do not compose. */
static uint32_t composition(uint32_t first, uint32_t second) {
    if (first - LEADING < N_LEADING && second - VOWELS < N_VOWELS)
        return SYLLABLES +
               ((first - LEADING) * N_VOWELS + second - VOWELS) * N_TRAILING;
    if (first - SYLLABLES < N_SYLLABLES &&
        (first - SYLLABLES) % N_TRAILING == 0 &&
        second - TRAILING - 1 < N_TRAILING - 1)
        return first + second - TRAILING;
    size_t i;
    SEARCH(i, 0, COUNT(COMPOSITIONS), parts_of(i) < pair(first, second));
    return i < COUNT(COMPOSITIONS) && parts_of(i) == pair(first, second)
               ? DECOMPOSITIONS[COMPOSITIONS[i]][0]
               : 0;
}

/* Appends the decomposition of a character to text[*n]: at most 2 characters
 * per byte of UTF-8. */
static void decompose(Character *text, size_t *n, uint32_t code) {
    uint32_t i = code - SYLLABLES, trailing = i % N_TRAILING;
    uint32_t first = code, second = 0;
    size_t at;
    SEARCH(at, 0, COUNT(DECOMPOSITIONS), DECOMPOSITIONS[at][0] < code);
    if (i < N_SYLLABLES) {
        first =
            trailing ? code - trailing : LEADING + i / (N_VOWELS * N_TRAILING);
        second =
            trailing ? TRAILING + trailing : VOWELS + i / N_TRAILING % N_VOWELS;
    } else if (at < COUNT(DECOMPOSITIONS) && DECOMPOSITIONS[at][0] == code) {
        first = DECOMPOSITIONS[at][1];
        second = DECOMPOSITIONS[at][2];
    }
    if (first != code) {
        decompose(text, n, first);
        if (second)
            decompose(text, n, second);
        return;
    }
    text[*n] = (Character){
        .code = code,
        .order = value_in(COMBINING_RUNS, COUNT(COMBINING_RUNS), code),
        .place = (uint32_t)*n};
    ++*n;
}

/* Writes a normalized character or invalid byte. */
static char *write_character(const Normalizer *z, char *to, uint32_t code) {
    if (code == 0x2581 && z->replaces_mark)
        code = ' ';
    if (code >= UTF8_END && z->replaces_invalid)
        code = 0xfffd;
    if (code < UTF8_END)
        return to + utf8_encode(to, code);
    *to = (char)(code - UTF8_END);
    return to + 1;
}

static int compare_marks(const void *a, const void *b) {
    const Character *x = a, *y = b;
    return pair(x->order, x->place) < pair(y->order, y->place) ? -1 : 1;
}

/* Sorts each run of marks by combining class. */
static void order_marks(Character *text, size_t n) {
    for (size_t from = 0, end; from < n; from = end + 1) {
        for (end = from; end < n && text[end].order; end++)
            continue;
        if (end - from > 1)
            qsort(text + from, end - from, sizeof *text, compare_marks);
    }
}

/* A mark composes with the last character before it that is not a mark, unless
 * a mark of the same or a higher class is between them. */
static size_t compose(Character *text, size_t n) {
    size_t out = 0, base = n; /* n = none yet */
    for (size_t i = 0; i < n; i++) {
        Character c = text[i];
        bool blocked =
            base == n || (out - 1 > base && text[out - 1].order >= c.order);
        uint32_t both = blocked ? 0 : composition(text[base].code, c.code);
        if (both) {
            text[base].code = both;
            continue;
        }
        if (!c.order)
            base = out;
        text[out++] = c;
    }
    return out;
}

char *normalize(const Normalizer *z, const char *text, size_t size, size_t *n) {
    /* the max size: a byte becomes at most 3 */
    char *normalized = allocate(3 * size + 1, 1), *to = normalized;
    Character *list = z->composes ? allocate(2 * size, sizeof *list) : NULL;
    size_t n_list = 0;
    if (!normalized || (z->composes && !list)) {
        free(normalized);
        free(list);
        return NULL;
    }
    *to++ = ' ';
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code = utf8_read(text + at, size - at, &length);
        if (list)
            decompose(list, &n_list, code);
        else
            to = write_character(z, to, code);
    }
    order_marks(list, n_list);
    n_list = compose(list, n_list);
    for (size_t i = 0; list && i < n_list; i++)
        to = write_character(z, to, list[i].code);
    free(list);
    *n = to - normalized - 1;
    return normalized;
}

/* ---- matching ----------------------------------------------------------- */

/* Moves *p past a character of a pattern, which may have a backslash before
 * it. */
static uint32_t read_character(const char **p) {
    bool escaped = **p == '\\';
    size_t n;
    uint32_t code = utf8_read(*p + escaped, 4, &n);
    *p += escaped + n;
    if (escaped && code == 'r')
        return '\r';
    return escaped && code == 'n' ? '\n' : code;
}

/* Reads an element of a set: \p{..}, \s, \S, a character or a range. Returns
 * its end; sets *found if c is in it. */
static const char *read_element(const char *p, Character c, bool *found) {
    /* \p{Lt} and \p{Lm} match nothing: patterns have them together with \p{Lu}
     * and \p{Lo}, which include them */
    /* by CharacterClass */
    static const char names[][3] = {"",   "M",  "N", "", "Lo",
                                    "Lu", "Ll", "P", "S"};
    char escape = *p == '\\' ? p[1] : '\0';
    if (escape == 'p') {
        size_t n = strcspn(p, "}");
        *found |= !strncmp(names[c.class], p + 3, n - 3);
        return p + n + 1;
    }
    if (escape == 's' || escape == 'S') {
        *found |= (c.class == SPACE) == (escape == 's');
        return p + 2;
    }
    uint32_t first = read_character(&p);
    bool range = *p == '-';
    p += range;
    uint32_t last = range ? read_character(&p) : first;
    *found |= first <= c.code && c.code <= last;
    return p;
}

/* Whether c is in the set at p: an element, or elements in brackets. */
static bool is_in_set(const char *p, Character c) {
    bool list = *p == '[', negated = list && p[1] == '^';
    bool found = false;
    p += list + negated;
    do
        p = read_element(p, c, &found);
    while (list && !found && *p != ']');
    return found != negated;
}

static const char *end_of_set(const char *p) {
    if (*p == '[') {
        p = strpbrk(p, "\\]");
        while (*p == '\\')
            p = strpbrk(p + 2, "\\]");
        return p + 1;
    }
    if (*p != '\\')
        return p + 1;
    return p[1] == 'p' ? strchr(p, '}') + 1 : p + 2;
}

/* Reads ?, *, +, {1}, {1,digit} or nothing. Returns its end. */
static const char *read_quantifier(const char *p, int *min, int *max) {
    *min = 1;
    *max = 1;
    switch (*p) {
    case '?': *min = 0; return p + 1;
    case '*':
        *min = 0;
        *max = INT_MAX;
        return p + 1;
    case '+': *max = INT_MAX; return p + 1;
    case '{': *max = p[p[2] == ',' ? 3 : 1] - '0'; return strchr(p, '}') + 1;
    default: return p;
    }
}

/* The text to match. */
typedef struct {
    const char *end;
    bool ignores_case;
} Subject;

static Character character_at(const Subject *t, const char *s, size_t *length) {
    uint32_t code = utf8_read(s, t->end - s, length);
    enum { LONG_S = 0x17f };
    if (t->ignores_case && code == LONG_S)
        code = 's';
    else if (t->ignores_case && code < 0x80)
        code = tolower((int)code);
    return (Character){.code = code, .class = class_of(code)};
}

static const char *match_any(const Subject *t, const char *p, const char *s);

static const char *match_items(const Subject *t, const char *p, const char *s);

/* The end of a match of the group at p, which is the last item: (?!..), (?i:..)
 * or (?i:..)?. NULL: no match. */
static const char *match_group(const Subject *t, const char *p, const char *s) {
    const Subject without_case = {.end = t->end, .ignores_case = true};
    const char *inside = p + strcspn(p, ":!") + 1;
    const char *match = match_any(&without_case, inside, s);
    const bool is_refused = p[2] == '!';
    const bool is_optional = strchr(p, ')')[1] == '?';
    if (is_refused)
        return match ? NULL : s;
    return match || !is_optional ? match : s;
}

/* The end of a match of the set at p, as often as its quantifier says, and of
 * the items after it; NULL: no match. Takes as many characters as possible,
 * then gives back one after the other until the rest matches. */
static const char *match_set(const Subject *t, const char *p, const char *s) {
    int n = 0, min, max;
    const char *rest = read_quantifier(end_of_set(p), &min, &max), *at = s;
    while (n < max && at < t->end) {
        size_t length;
        if (!is_in_set(p, character_at(t, at, &length)))
            break;
        at += length;
        n++;
    }
    for (; n >= min; n--) {
        const char *match = match_items(t, rest, at);
        if (match || n == 0)
            return match;
        at -= utf8_before(at, s);
    }
    return NULL;
}

/* The end of a match of the items at p, up to the end of their alternative, at
 * s; NULL: no match. */
static const char *match_items(const Subject *t, const char *p, const char *s) {
    switch (*p) {
    case '\0':
    case '|':
    case ')': return s;
    case '$': return s == t->end ? s : NULL;
    case '(': return match_group(t, p, s);
    default: return match_set(t, p, s);
    }
}

/* The end of a match of the first matching alternative. */
static const char *match_any(const Subject *t, const char *p, const char *s) {
    for (;; p++) {
        const char *match = match_items(t, p, s);
        if (match)
            return match;
        while (*p && *p != '|' && *p != ')')
            p = *p == '(' ? strchr(p, ')') + 1 : end_of_set(p);
        if (*p != '|')
            return NULL;
    }
}

/* Where the pattern may match next, if it does not match at `at`. If it begins
 * with a run of a set's characters, it matches nowhere in this run. */
static const char *after_run(const Subject *t, const char *pattern,
                             const char *at) {
    const bool begins_with_run = *end_of_set(pattern) == '+';
    bool in_run = true;
    while (in_run && at < t->end) {
        size_t length;
        const Character c = character_at(t, at, &length);
        in_run = begins_with_run && is_in_set(pattern, c);
        at += length;
    }
    return at;
}

int pretokenize(const char *const *steps, const char *text, size_t size,
                WordFunction word, void *arg) {
    Subject t = {.end = text + size};
    if (interrupted)
        return -1;
    if (!*steps)
        return size ? word(arg, text, size) : 0;
    const char *from = text, *at = text;
    while (from < t.end) {
        const char *match = at < t.end ? match_any(&t, *steps, at) : at;
        if (!match) {
            at = after_run(&t, *steps, at);
            continue;
        }
        if (pretokenize(steps + 1, from, at - from, word, arg) ||
            pretokenize(steps + 1, at, match - at, word, arg))
            return -1;
        from = match;
        at = match;
    }
    return 0;
}

/* ---- patterns ----------------------------------------------------------- */

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD        "[^\\r\\n\\p{L}\\p{N}]?"
#define LLAMA3(numbers)                                                        \
    CONTRACTION "|" WORD "\\p{L}+|" numbers                                    \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define CASED(ending, numbers)                                                       \
    WORD                                                                             \
        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" ending \
        "|" WORD                                                                     \
        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" ending \
        "|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

#define EAST_ASIAN "[一-龥ࠀ-一가-퟿]+"
#define DEEPSEEK_LETTERS                                                       \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ"                                 \
    "-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯ"                         \
    "Ա-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ"         \
    "-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ"     \
    "-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-"       \
    "ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-"   \
    "ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ"     \
    "-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
#define DEEPSEEK_V3                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                    \
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

/* A list of names. */
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

const Pretokenizer PRETOKENIZERS[] = {
    {.names = NAMES("gpt-2", "mpt", "olmo", "jais", "phi-2", "exaone4",
                    "granite-docling", "trillion", "gigachat", "a.x-4.0",
                    "mellum", "modern-bert"),
     .steps = {PATTERN_GPT2}},
    {.names = NAMES("smollm", "starcoder", "refact", "command-r", "codeshell",
                    "exaone", "minerva-7b", "mellum2"),
     .steps = {PATTERN_DIGIT, PATTERN_GPT2}},
    {.names = NAMES("qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan",
                    "megrez", "kormo", "solar-open", "grok-2"),
     .steps = {LLAMA3("\\p{N}")}},
    {.names = NAMES("seed-coder"),
     .steps = {CONTRACTION
               "|" WORD
               "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES}},
    {.names = NAMES("llama-bpe", "llama-v3", "llama3", "falcon3", "falcon-h1",
                    "pixtral", "midm-2.0", "lfm2"),
     .steps = {LLAMA3("\\p{N}{1,3}")},
     .whole_words = true,
     .adds_bos = true},
    {.names = NAMES("glm4", "glm5"),
     .steps = {LLAMA3("\\p{N}{1,3}")},
     .whole_words = true},
    {.names = NAMES("minicpm5"),
     .steps = {"\\p{N}{1,3}", LLAMA3("\\p{N}+")},
     .whole_words = true},
    {.names = NAMES("dbrx", "smaug-bpe", "chatglm-bpe"),
     .steps = {LLAMA3("\\p{N}{1,3}")}},
    {.names = NAMES("gpt-4o", "llama4", "kanana2"),
     .steps = {CASED(CONTRACTION "?", "\\p{N}{1,3}")}},
    {.names = NAMES("tekken"),
     .steps = {CASED("", "\\p{N}")},
     .whole_words = true,
     .adds_bos = true},
    {.names = NAMES("deepseek-llm"),
     .steps = {"[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
               "\\s+$", EAST_ASIAN, PATTERN_DIGIT}},
    {.names = NAMES("deepseek-coder"),
     .steps = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST_ASIAN,
               PATTERN_DIGIT}},
    {.names = NAMES("deepseek-v3", "hunyuan-dense", "joyai-llm"),
     .steps = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3}},
    {.adds_bos = true}, /* SentencePiece vocabularies */
};

const char *pretokenizer_name(const Pretokenizer *p) {
    for (const Pretokenizer *named = PRETOKENIZERS; named->names; named++) {
        const char *const *a = p->steps, *const *b = named->steps;
        while (*a && *b && !strcmp(*a, *b)) {
            a++;
            b++;
        }
        if (!*a && !*b && p->whole_words == named->whole_words)
            return named->names[0];
    }
    return NULL;
}
