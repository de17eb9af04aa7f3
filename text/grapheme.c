/* grapheme.c: grapheme clusters (UAX 29), and their columns on a terminal.
 *
 * Owns the rules GB3 to GB13; clusters.h has the classes of characters. The
 * rules read a text forwards, from any place that is a boundary whatever stands
 * before it.
 * Tests: editor.
 */
#include "text/grapheme.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/clusters.h"
#include "text/pretokenize.h"
#include "text/width.h"

enum { EMOJI_VARIANT = 0xfe0f }; /* VS16: the character before as an emoji */

/* A cluster that is being read. */
typedef struct {
    ClusterClass last;
    bool is_emoji;      /* PICTOGRAPHIC, marks, and maybe a JOINER so far */
    bool is_half_flag;  /* an odd number of REGIONAL */
    bool has_consonant; /* CONSONANT and marks since */
    bool has_linker;    /* one of these marks is a LINKER */
} Cluster;

static ClusterClass class_of(uint32_t code) {
    return value_in(CLUSTER_RUNS, COUNT(CLUSTER_RUNS), code);
}

static bool is_mark(ClusterClass class) {
    return class == EXTEND || class == INDIC_EXTEND || class == LINKER ||
           class == JOINER;
}

/* Whether two classes of Hangul are parts of one syllable. */
static bool is_syllable(ClusterClass a, ClusterClass b) {
    if (a == HANGUL_L)
        return b == HANGUL_L || b == HANGUL_V || b == HANGUL_LV ||
               b == HANGUL_LVT;
    if (a == HANGUL_V || a == HANGUL_LV)
        return b == HANGUL_V || b == HANGUL_T;
    return (a == HANGUL_T || a == HANGUL_LVT) && b == HANGUL_T;
}

/* Whether a character may belong to the cluster of the one before it: false
 * means a boundary whatever stands before both. */
static bool may_join(ClusterClass a, ClusterClass b) {
    if (a == CONTROL || b == CONTROL)
        return false;
    return is_mark(b) || b == SPACING || a == PREPEND || is_syllable(a, b) ||
           (a == JOINER && b == PICTOGRAPHIC) ||
           (a == REGIONAL && b == REGIONAL) || (is_mark(a) && b == CONSONANT);
}

/* Whether the next character belongs to the cluster. */
static bool joins(const Cluster *c, ClusterClass next) {
    if (!may_join(c->last, next))
        return false;
    if (is_mark(next) || next == SPACING || c->last == PREPEND)
        return true;
    if (next == PICTOGRAPHIC)
        return c->is_emoji;
    if (next == REGIONAL)
        return c->is_half_flag;
    if (next == CONSONANT)
        return c->has_consonant && c->has_linker;
    return true; /* Hangul */
}

static void add(Cluster *c, ClusterClass next) {
    const bool goes_on = is_mark(next), links = next == LINKER;
    c->is_emoji =
        next == PICTOGRAPHIC || (c->is_emoji && goes_on && c->last != JOINER);
    c->is_half_flag = next == REGIONAL && !c->is_half_flag;
    c->has_linker = c->has_consonant && goes_on && (c->has_linker || links);
    c->has_consonant =
        next == CONSONANT || (c->has_consonant && goes_on && next != EXTEND);
    c->last = next;
}

size_t grapheme_next(const char *s, size_t n, size_t at) {
    size_t length;
    Cluster c = {0};
    add(&c, class_of(utf8_read(s + at, n - at, &length)));
    at += length;
    if (s[at - 1] == '\r' && at < n && s[at] == '\n')
        return at + 1;
    while (at < n) {
        ClusterClass next = class_of(utf8_read(s + at, n - at, &length));
        if (!joins(&c, next))
            break;
        add(&c, next);
        at += length;
    }
    return at;
}

/* The last place up to s[at] that is a boundary whatever stands before. */
static size_t certain_boundary(const char *s, size_t n, size_t at) {
    size_t length;
    while (at > 0 && at < n) {
        size_t before = at - utf8_before(s + at, s);
        if (!may_join(class_of(utf8_read(s + before, n - before, &length)),
                      class_of(utf8_read(s + at, n - at, &length))) &&
            !(s[before] == '\r' && s[at] == '\n'))
            break;
        at = before;
    }
    return at;
}

size_t grapheme_boundary(const char *s, size_t n, size_t at) {
    size_t begin = certain_boundary(s, n, at);
    while (begin < at)
        begin = grapheme_next(s, n, begin);
    return begin;
}

size_t grapheme_before(const char *s, size_t n, size_t at) {
    if (!at)
        return 0;
    size_t begin = certain_boundary(s, n, at - utf8_before(s + at, s)), next;
    while ((next = grapheme_next(s, n, begin)) < at)
        begin = next;
    return begin;
}

int grapheme_columns(const char *s, size_t n) {
    size_t length;
    uint32_t code = utf8_read(s, n, &length);
    const ClusterClass first = class_of(code);
    int columns = value_in(WIDTH_RUNS, COUNT(WIDTH_RUNS), code);
    const bool is_one_sign = first == PICTOGRAPHIC || first == REGIONAL;
    for (size_t at = length; at < n; at += length) {
        code = utf8_read(s + at, n - at, &length);
        if (code == EMOJI_VARIANT && columns == 1)
            columns = 2;
        else if (!is_one_sign)
            columns += value_in(WIDTH_RUNS, COUNT(WIDTH_RUNS), code);
    }
    return columns;
}
