/* texts.c: compares the tokens of random texts with
 * tests/golden/tokens_NAME.bin.
 *
 * scripts/golden/golden_tokens.py defines the texts and writes these files.
 * This file makes the same texts, from the same integer hash.
 */
#include "base/file.h"
#include "text/pieces.h"
#include "tokenizer.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/texts.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts -------------------------------------------------------------- */

enum { SEED = 23, N_TEXTS = 12000, MAX_TEXT = 1 << 16 };

/* A text under construction. */
typedef struct {
    const Tokenizer *t;
    uint64_t text, k;
    char bytes[MAX_TEXT];
    int n;
} Draw;

static unsigned any(Draw *d, unsigned n) {
    return (unsigned)(hash64(SEED, d->text, d->k++) % n);
}

static void put(Draw *d, const char *bytes, int n) {
    memcpy(d->bytes + d->n, bytes, (size_t)n);
    d->n += n;
}

static void put_byte(Draw *d, unsigned byte) {
    d->bytes[d->n++] = (char)byte;
}

/* Appends a code point in UTF-8, also a surrogate. */
static void put_code(Draw *d, unsigned code) {
    if (code < 0x80) {
        put_byte(d, code);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    unsigned leads[] = {0, 0xc0, 0xe0, 0xf0};
    put_byte(d, leads[more] | code >> 6 * more);
    for (int i = more - 1; i >= 0; i--)
        put_byte(d, 0x80 | (code >> 6 * i & 0x3f));
}

static const struct {
    unsigned start, count;
} SCRIPTS[] = {
    {0x21, 94},      {0xa1, 95},      {0x100, 384},  {0x250, 96},
    {0x300, 112},    {0x370, 144},    {0x400, 304},  {0x531, 86},
    {0x591, 100},    {0x600, 256},    {0x700, 80},   {0x780, 50},
    {0x7c0, 60},     {0x900, 128},    {0x980, 128},  {0xa00, 128},
    {0xa80, 128},    {0xb00, 128},    {0xb80, 128},  {0xc00, 128},
    {0xc80, 128},    {0xd00, 128},    {0xd80, 128},  {0xe01, 91},
    {0xe80, 96},     {0xf00, 256},    {0x1000, 160}, {0x10a0, 96},
    {0x1100, 256},   {0x1200, 384},   {0x13a0, 96},  {0x1400, 640},
    {0x1680, 29},    {0x16a0, 89},    {0x1700, 96},  {0x1780, 128},
    {0x1800, 176},   {0x1e00, 512},   {0x2000, 112}, {0x2070, 48},
    {0x20a0, 33},    {0x2100, 80},    {0x2190, 112}, {0x2200, 256},
    {0x2500, 128},   {0x25a0, 96},    {0x2600, 256}, {0x2800, 256},
    {0x2c00, 96},    {0x2d30, 80},    {0x3001, 63},  {0x3041, 191},
    {0x3105, 43},    {0x4e00, 20000}, {0x4e00, 500}, {0xa000, 1165},
    {0xac00, 11172}, {0xac00, 300},   {0xe000, 100}, {0xf900, 300},
    {0xfb00, 80},    {0xfb50, 600},   {0xfe00, 16},  {0xff01, 94},
    {0xfff9, 7},     {0x10000, 128},  {0x10330, 27}, {0x12000, 900},
    {0x13000, 1000}, {0x1d400, 1000}, {0x1f000, 44}, {0x20000, 9000},
    {0xe0100, 240},
};

static unsigned script_of(Draw *d) {
    return any(d, sizeof SCRIPTS / sizeof *SCRIPTS);
}

static void put_of_script(Draw *d, unsigned script) {
    put_code(d, SCRIPTS[script].start + any(d, SCRIPTS[script].count));
}

static void word(Draw *d) {
    int start = d->n;
    for (unsigned n = 1 + any(d, 8); n > 0; n--)
        put_byte(d, 'a' + any(d, 26));
    if (any(d, 4) == 0)
        d->bytes[start] -= 'a' - 'A';
    if (any(d, 4))
        put_byte(d, ' ');
}

static void script(Draw *d) {
    unsigned which = script_of(d);
    for (unsigned n = 1 + any(d, 6); n > 0; n--)
        put_of_script(d, which);
}

static void emoji(Draw *d) {
    if (any(d, 6) == 0) {
        put_code(d, 0x1f1e6 + any(d, 26));
        put_code(d, 0x1f1e6 + any(d, 26));
        return;
    }
    put_code(d, 0x1f300 + any(d, 0x350));
    for (unsigned n = any(d, 4); n > 0; n--) {
        unsigned tone = 0x1f3fb + any(d, 5), person = 0x1f466 + any(d, 4),
                 kind = any(d, 3);
        if (kind == 2)
            put_code(d, 0x200d);
        put_code(d, kind == 0 ? tone : kind == 1 ? 0xfe0f : person);
    }
}

static void spaces(Draw *d) {
    static const unsigned kinds[] = {0x20, 0x20, 0x20, 0x09,   0x0a,   0x0a,
                                     0x0d, 0x0b, 0xa0, 0x2009, 0x3000, 0x2028};
    unsigned kind = kinds[any(d, 12)];
    for (unsigned n = 1 + any(d, 9); n > 0; n--)
        put_code(d, kind);
}

static void controls(Draw *d) {
    for (unsigned n = 1 + any(d, 3); n > 0; n--) {
        unsigned c0 = 1 + any(d, 31), c1 = 0x7f + any(d, 33);
        put_code(d, any(d, 2) ? c1 : c0);
    }
}

static void invalid(Draw *d) {
    static const char *const kinds[] = {"\xc0\xaf", "\xe0\x9f\xbf",
                                        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                                        "\xf8\x88\x80\x80\x80"};
    switch (any(d, 4)) {
    case 0: put_byte(d, 0x80 + any(d, 128)); break;
    case 1:
        put_of_script(d, script_of(d));
        d->n--;
        break;
    case 2: put_code(d, 0xd800 + any(d, 2048)); break;
    default: {
        const char *kind = kinds[any(d, 5)];
        put(d, kind, (int)strlen(kind));
    }
    }
}

static void numbers(Draw *d) {
    for (unsigned n = 1 + any(d, 9); n > 0; n--)
        if (any(d, 3))
            put_byte(d, '0' + any(d, 10));
        else
            put_byte(d, 0x21 + any(d, 15));
}

static void contraction(Draw *d) {
    static const char *const endings[] = {
        "s", "t", "re", "ve", "m", "ll", "d", "S", "LL", "Re", "\xc5\xbf", "x"};
    const char *ending = endings[any(d, 12)];
    put_code(d, any(d, 8) ? '\'' : 0x2019);
    put(d, ending, (int)strlen(ending));
    if (any(d, 3) == 0)
        put_byte(d, ' ');
}

/* Runs of different white space. */
static void lines(Draw *d) {
    for (unsigned n = 1 + any(d, 8); n > 0; n--)
        put_byte(d, (unsigned)"  \n\n\r\t\v"[any(d, 7)]);
    if (any(d, 2))
        put_byte(d, 'a' + any(d, 26));
}

static void digits(Draw *d) {
    for (unsigned n = 1 + any(d, 40); n > 0; n--)
        put_byte(d, '0' + any(d, 10));
    if (any(d, 4) == 0)
        put_code(d, 0x660 + any(d, 10));
}

static void marks(Draw *d) {
    put_byte(d, 'a' + any(d, 26));
    for (unsigned n = 1 + any(d, 4); n > 0; n--)
        put_code(d, 0x300 + any(d, 0x46));
}

static void anywhere(Draw *d) {
    unsigned code = 1 + any(d, 0x10ffff);
    put_code(d, (code >= 0xd800 && code < 0xe000) || code == 0x2581 ? 0xfffd
                                                                    : code);
}

/* A piece of the vocabulary, often one of the last 20. */
static void piece(Draw *d) {
    unsigned n = (unsigned)d->t->pieces.n;
    const Piece *p =
        &d->t->pieces.list[any(d, 2) ? any(d, n) : n - 1 - any(d, 20)];
    if (p->kind == PIECE_CONTROL)
        put(d, "</s>", 4);
    else if (p->kind == PIECE_BYTE)
        put_byte(d, *p->decoded ? *p->decoded : 'x');
    else
        put(d, p->text, p->length);
}

static void make_text(Draw *d, int i) {
    static void (*const kinds[])(Draw *) = {
        word,     script, emoji,       spaces, controls, invalid, numbers,
        anywhere, piece,  contraction, lines,  digits,   marks};
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    unsigned kind = (unsigned)i % (N_KINDS + 4);
    d->text = (uint64_t)i;
    d->k = 0;
    d->n = 0;
    for (unsigned n = 1 + any(d, 24); n > 0; n--)
        kinds[kind < N_KINDS ? kind : any(d, N_KINDS)](d);
}

/* ---- tokens ------------------------------------------------------------- */

static const uint32_t HASH_START = 2166136261u;

static uint32_t hash_word(uint32_t h, uint32_t word_) {
    return (h ^ word_) * 16777619u;
}

static uint32_t hash_vocabulary(const Tokenizer *t) {
    uint32_t h = HASH_START, bits;
    for (int id = 0; id < t->pieces.n; id++) {
        const Piece *p = &t->pieces.list[id];
        if (p->kind == PIECE_BYTE || p->kind == PIECE_CONTROL)
            continue;
        memcpy(&bits, &p->score, sizeof bits);
        h = hash_word(hash_word(hash_word(h, (uint32_t)id), bits),
                      (uint32_t)p->length);
        for (int i = 0; i < p->length; i++)
            h = hash_word(h, (uint8_t)p->text[i]);
    }
    return h;
}

/* The text with invalid UTF-8 replaced by U+FFFD, without norma's code. Returns
 * whether it was valid. */
static bool replace_invalid(Draw *d, char *to, int *n) {
    bool valid = true;
    *n = 0;
    for (int at = 0; at < d->n;) {
        const uint8_t *s = (const uint8_t *)d->bytes + at;
        int length = s[0] < 0x80       ? 1
                     : s[0] >> 5 == 6  ? 2
                     : s[0] >> 4 == 14 ? 3
                     : s[0] >> 3 == 30 ? 4
                                       : 0;
        static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
        uint32_t code = length > 1 ? s[0] & (0x7fu >> length) : 0;
        bool good = length > 0 && at + length <= d->n;
        for (int i = 1; i < length && good; i++) {
            good = s[i] >> 6 == 2;
            code = code << 6 | (s[i] & 0x3f);
        }
        if (length > 1)
            good = good && code >= min[length] && code <= 0x10ffff &&
                   code >> 11 != 0x1b;
        memcpy(to + *n, good ? (const char *)s : "\xef\xbf\xbd",
               good ? (size_t)length : 3);
        *n += good ? length : 3;
        at += good ? length : 1;
        valid &= good;
    }
    return valid;
}

/* Whether the tokens after BOS decode to this text. */
static bool decodes_to(const Tokenizer *t, const Tokens *tokens,
                       const char *text, int n) {
    int at = 0;
    for (int i = 0; i < tokens->n; i++) {
        int length;
        const char *s = tokenizer_decode(t, i ? tokens->ids[i - 1] : t->bos,
                                         tokens->ids[i], &length);
        if (length > n - at || memcmp(s, text + at, (size_t)length))
            return false;
        at += length;
    }
    return at == n;
}

static Draw draw;

static void check_text(const Tokenizer *t, const char *name, int i,
                       TextCheck check, uint32_t *h) {
    static char replaced[3 * MAX_TEXT];
    Tokens tokens;
    int n;
    bool valid = replace_invalid(&draw, replaced, &n);
    bool valid_only = check != ALL_BYTES;
    const char *text = valid_only ? replaced : draw.bytes;
    CHECK(!tokenizer_encode(t, text, (size_t)(valid_only ? n : draw.n), false,
                            &tokens),
          "text %d", i);
    CHECK(check == VALID_TEXT_CHANGES || decodes_to(t, &tokens, replaced, n),
          "%s, text %d: '%.*s' decodes to another text", name, i, draw.n,
          draw.bytes);
    *h = hash_word(*h, (uint32_t)tokens.n);
    for (int k = 0; k < tokens.n; k++)
        *h = hash_word(*h, (uint32_t)tokens.ids[k]);
    free(tokens.ids);
    if (valid || check != VALID_TEXT)
        return;
    CHECK(!tokenizer_encode(t, draw.bytes, (size_t)draw.n, false, &tokens),
          "text %d", i);
    CHECK(decodes_to(t, &tokens, draw.bytes, draw.n),
          "%s, text %d: '%.*s' decodes to another text", name, i, draw.n,
          draw.bytes);
    free(tokens.ids);
}

void check_golden_tokens(const Tokenizer *t, const char *name,
                         TextCheck check) {
    char path[64];
    size_t size;
    snprintf(path, sizeof path, "tests/golden/tokens_%s.bin", name);
    uint32_t *golden = (void *)file_read(path, &size);
    CHECK(golden && size >= 12 && golden[1] == N_TEXTS && golden[2] > 0 &&
              size == 4 * (3 + N_TEXTS / golden[2]),
          "%s has %zu bytes", path, golden ? size : 0);
    CHECK(golden[0] == hash_vocabulary(t),
          "%s has a different tokenizer: run scripts/golden/golden_tokens.py",
          path);
    int group = (int)golden[2];
    uint32_t h = HASH_START;
    draw.t = t;
    for (int i = 0; i < (test_thorough() ? N_TEXTS : N_TEXTS / 10); i++) {
        make_text(&draw, i);
        check_text(t, name, i, check, &h);
        if (i % group < group - 1)
            continue;
        CHECK(h == golden[3 + i / group],
              "%s: one of the texts %d to %d has other tokens", name,
              i - group + 1, i);
        h = HASH_START;
    }
    free(golden);
}

void check_same_tokens(const Tokenizer *a, const Tokenizer *b) {
    static char text[3 * MAX_TEXT];
    draw.t = a;
    for (int i = 0; i < 1000; i++) {
        Tokens x, y;
        int n;
        make_text(&draw, i);
        replace_invalid(&draw, text, &n);
        CHECK(!tokenizer_encode(a, text, (size_t)n, true, &x) &&
                  !tokenizer_encode(b, text, (size_t)n, true, &y),
              "text %d", i);
        CHECK(x.n == y.n &&
                  (!x.n || !memcmp(x.ids, y.ids, (size_t)x.n * sizeof *x.ids)),
              "text %d: '%.*s'", i, n, text);
        free(x.ids);
        free(y.ids);
    }
}

void check_all_bytes_return(const Tokenizer *t) {
    draw.t = t;
    for (int i = 0; i < 1000; i++) {
        Tokens tokens;
        make_text(&draw, i);
        CHECK(!tokenizer_encode(t, draw.bytes, (size_t)draw.n, false, &tokens),
              "text %d", i);
        CHECK(decodes_to(t, &tokens, draw.bytes, draw.n),
              "text %d: '%.*s' decodes to another text", i, draw.n, draw.bytes);
        free(tokens.ids);
    }
}
