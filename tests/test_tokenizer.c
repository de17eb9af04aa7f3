/* test_tokenizer.c: text to tokens and back.
 *
 * Compares with a second encoder, llama2.c's O(n^2) algorithm with a separate
 * parser of tokenizer.bin, and with the tokens that llama2.c and SentencePiece
 * give for published vocabularies (tests/golden/..._ids.txt).
 */
#include "base/file.h"
#include "formats/llama2c.h"
#include "tokenizer.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- making vocabularies ------------------------------------------------ */

static void put_piece(FILE *out, float score, const char *text, int n) {
    fwrite(&score, sizeof score, 1, out);
    fwrite(&n, sizeof n, 1, out);
    fwrite(text, 1, (size_t)n, out);
}

typedef struct {
    const char *text;
    float score;
} Entry;

static FILE *start_vocabulary(const char *path) {
    FILE *out = fopen(path, "wb");
    int max_length = 8;
    fwrite(&max_length, sizeof max_length, 1, out);
    return out;
}

static void write_vocabulary(const char *path, const Entry *entries, int n) {
    FILE *out = start_vocabulary(path);
    for (int i = 0; i < n; i++)
        put_piece(out, entries[i].score, entries[i].text,
                  (int)strlen(entries[i].text));
    fclose(out);
}

static void put_special_and_bytes(FILE *out) {
    put_piece(out, 0, "<unk>", 5);
    put_piece(out, 0, "<s>", 3);
    put_piece(out, 0, "</s>", 4);
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", byte);
        put_piece(out, 0, text, n);
    }
}

/* ---- the second encoder ------------------------------------------------- */

enum { MAX_PIECES = 32000, MAX_TEXT = 1024 };

typedef struct {
    const char *text;
    int length, next; /* next piece with the same first byte */
    float score;
} Entry2;

typedef struct {
    uint8_t *data;
    int n;
    Entry2 pieces[MAX_PIECES];
    int first[256]; /* by first byte; -1: none */
} Vocabulary;

/* The pieces that match text: not the first three, not "<0xNN>". */
static bool is_byte_piece(const Entry2 *p) {
    unsigned byte;
    char text[8] = "";
    if (p->length != 6)
        return false;
    memcpy(text, p->text, 6);
    return strspn(text + 3, "0123456789ABCDEF") == 2 &&
           sscanf(text, "<0x%2X>", &byte) == 1 && text[5] == '>';
}

static Vocabulary *read_vocabulary(const char *path) {
    Vocabulary *v = calloc(1, sizeof *v);
    size_t size;
    v->data = (uint8_t *)file_read(path, &size);
    for (size_t at = 4; at < size; v->n++) {
        Entry2 *p = &v->pieces[v->n];
        memcpy(&p->score, v->data + at, 4);
        memcpy(&p->length, v->data + at + 4, 4);
        p->text = (const char *)v->data + at + 8;
        at += 8 + (size_t)p->length;
    }
    for (int b = 0; b < 256; b++)
        v->first[b] = -1;
    /* backwards, so that the first of equal pieces is found */
    for (int id = v->n - 1; id > 2; id--) {
        Entry2 *p = &v->pieces[id];
        if (p->length == 0 || is_byte_piece(p))
            continue;
        p->next = v->first[(uint8_t)p->text[0]];
        v->first[(uint8_t)p->text[0]] = id;
    }
    return v;
}

static void free_vocabulary(Vocabulary *v) {
    free(v->data);
    free(v);
}

static int find(const Vocabulary *v, const char *s, int n) {
    for (int id = v->first[(uint8_t)s[0]]; id >= 0; id = v->pieces[id].next)
        if (v->pieces[id].length == n &&
            !memcmp(v->pieces[id].text, s, (size_t)n))
            return id;
    return -1;
}

/* Bytes of the character at s: a lead byte with its continuation bytes, else
 * 1. */
static int character(const char *s, int left) {
    uint8_t lead = (uint8_t)s[0];
    int n = lead >= 0xf0 && lead < 0xf5   ? 4
            : lead >= 0xe0 && lead < 0xf0 ? 3
            : lead >= 0xc2 && lead < 0xe0 ? 2
                                          : 1;
    for (int i = 1; i < n; i++)
        if (i >= left || (uint8_t)s[i] >> 6 != 2)
            return 1;
    return n;
}

typedef struct {
    int start, length, id;
} Part;

/* llama2.c's rule: repeatedly merges the pair with the best score. */
static int encode_naively(const Vocabulary *v, const char *text, int size,
                          int *ids) {
    static Part parts[MAX_TEXT + 1];
    static char spaced[MAX_TEXT + 1];
    int n = 0, n_ids = 0;
    spaced[0] = ' ';
    memcpy(spaced + 1, text, (size_t)size);
    for (int at = 0, end = size ? size + 1 : 0; at < end; n++) {
        int length = character(spaced + at, end - at);
        parts[n] = (Part){at, length, find(v, spaced + at, length)};
        at += length;
    }
    for (;;) {
        int best = -1, best_id = -1;
        for (int i = 0; i + 1 < n; i++) {
            if (parts[i].id < 0 || parts[i + 1].id < 0)
                continue;
            int id = find(v, spaced + parts[i].start,
                          parts[i].length + parts[i + 1].length);
            if (id >= 0 &&
                (best < 0 || v->pieces[id].score > v->pieces[best_id].score))
                best = i, best_id = id;
        }
        if (best < 0)
            break;
        parts[best].length += parts[best + 1].length;
        parts[best].id = best_id;
        memmove(parts + best + 1, parts + best + 2,
                (size_t)(--n - best - 1) * sizeof *parts);
    }
    for (int i = 0; i < n; i++)
        if (parts[i].id >= 0)
            ids[n_ids++] = parts[i].id;
        else
            for (int k = 0; k < parts[i].length; k++)
                ids[n_ids++] = 3 + (uint8_t)spaced[parts[i].start + k];
    return n_ids;
}

/* ---- random texts ------------------------------------------------------- */

static uint64_t state;

static int any(int n) {
    return (int)(hash64(31, 7, state++) % (uint64_t)n);
}

/* Each call makes another kind of text. Returns its size. */
static int random_text(char *text) {
    static const char *const words[] = {"aa",    "once",  "ba", "upon",
                                        " time", "  ",    "\n", "fa ca",
                                        "zz",    "<0x41>"};
    static const char *const letters[] = {"\xc3\xa9", "\xe4\xb8\xad",
                                          "\xf0\x9f\x99\x82", "a", " "};
    int sort = any(6), units = any(20);
    int n = 0;
    for (int i = 0; i < units; i++) {
        const char *s = sort == 0 ? words[any(10)] : letters[any(5)];
        switch (sort) {
        case 0:
        case 1: n += (int)strlen(strcpy(text + n, s)); break;
        case 2: text[n++] = (char)('a' + any(4)); break;
        case 3: text[n++] = (char)any(256); break;
        case 4: text[n++] = (char)any(32); break;
        default: text[n++] = any(3) ? (char)('a' + any(3)) : ' '; break;
        }
        if (sort == 1 && !any(4))
            n--; /* truncates a character */
    }
    return n;
}

/* The first of `texts` random texts that the two encoders encode differently,
 * or -1. */
static int first_difference(const char *path, int vocab_size, int texts) {
    static int expected[MAX_TEXT * 4];
    char text[MAX_TEXT];
    Tokenizer t;
    if (tokenizer_open_bin(&t, path, vocab_size))
        return 0;
    Vocabulary *v = read_vocabulary(path);
    int different = -1;
    for (int i = 0; i < texts && different < 0; i++) {
        int size = random_text(text),
            n = encode_naively(v, text, size, expected);
        Tokens tokens;
        if (tokenizer_encode(&t, text, (size_t)size, false, &tokens))
            return i;
        if (tokens.n != n ||
            (n && memcmp(tokens.ids, expected, (size_t)n * sizeof *expected)))
            different = i;
        free(tokens.ids);
    }
    free_vocabulary(v);
    tokenizer_close(&t);
    return different;
}

static void encodes_like_the_plain_encoder(void) {
    const char *path = temporary("tokenizer.bin");
    hashtokenizer_write(path,
                        1800); /* words with and without a leading space */
    int different = first_difference(path, 1800, test_fast() ? 200 : 5000);
    CHECK(different < 0, "text %d", different);
}

/* Pieces of up to five letters from a small alphabet, with few different scores
 * and some duplicates, give many ties, nested merges and outdated
 * candidates. */
static void encodes_with_ties_and_duplicates(void) {
    static const char *const letters[] = {"a", "b",        "c",
                                          " ", "\xc3\xa9", "\xe4\xb8\xad"};
    int n_random = 150, n = 3 + 256 + n_random;
    for (int round = 0; round < (test_fast() ? 5 : 60); round++) {
        const char *path = temporary("tokenizer.bin");
        FILE *out = start_vocabulary(path);
        put_special_and_bytes(out);
        for (int i = 0; i < n_random; i++) {
            char text[32] = "";
            for (int units = i < 5 ? 1 : 1 + any(5); units > 0; units--)
                strcat(text, letters[i < 5 ? i : any(6)]);
            put_piece(out, (float)-any(4), text, (int)strlen(text));
        }
        fclose(out);
        int different = first_difference(path, n, 100);
        CHECK(different < 0, "vocabulary %d, text %d", round, different);
    }
}

/* ---- round trips --------------------------------------------------------- */

/* Whether decoding returns the text, with BOS, or without BOS (then with the
 * space that encoding prepends). */
static bool decodes_back(const Tokenizer *t, const char *text, size_t size,
                         bool bos) {
    Tokens tokens;
    if (tokenizer_encode(t, text, size, bos, &tokens))
        return false;
    size_t at = 0;
    bool same = !bos || tokens.ids[0] == t->bos;
    bool space = !bos && size > 0;
    for (int i = bos; i < tokens.n && same; i++) {
        int n;
        const char *piece =
            tokenizer_decode(t, i ? tokens.ids[i - 1] : -1, tokens.ids[i], &n);
        for (int k = 0; k < n && same; k++, at++)
            same = at < size + space &&
                   piece[k] == (space && at == 0 ? ' ' : text[at - space]);
    }
    free(tokens.ids);
    return same && at == size + space;
}

static void decoding_returns_the_text(void) {
    char text[MAX_TEXT];
    static const int sizes[] = {1800, 300, 259}; /* 259: only bytes */
    for (int v = 0; v < 3; v++) {
        const char *path = temporary("tokenizer.bin");
        Tokenizer t;
        hashtokenizer_write(path, sizes[v]);
        CHECK(tokenizer_open_bin(&t, path, sizes[v]) == 0, "vocabulary of %d",
              sizes[v]);
        for (int i = 0; i < (test_fast() ? 100 : 2000); i++) {
            size_t size = (size_t)random_text(text);
            CHECK(decodes_back(&t, text, size, true),
                  "vocabulary of %d, text %d after BOS", sizes[v], i);
            CHECK(decodes_back(&t, text, size, false),
                  "vocabulary of %d, text %d", sizes[v], i);
        }
        tokenizer_close(&t);
    }
}

/* ---- single rules ------------------------------------------------------- */

/* Whether the ids of the text are those listed, which end at -1. */
static bool gives(const Tokenizer *t, const char *text, bool bos,
                  const int *ids) {
    Tokens tokens;
    int n = 0;
    while (ids[n] >= 0)
        n++;
    if (tokenizer_encode(t, text, strlen(text), bos, &tokens))
        return false;
    bool same = tokens.n == n &&
                (!n || !memcmp(tokens.ids, ids, (size_t)n * sizeof *ids));
    free(tokens.ids);
    return same;
}

static void control_and_byte_pieces_never_match_text(void) {
    static const Entry entries[] = {
        {"<unk>", 0}, {"<s>", 9},  {"</s>", 9},   {"<0x41>", 9}, {" ", -1},
        {"<", -2},    {"s", -3},   {">", -4},     {"0", -5},     {"x", -6},
        {"4", -7},    {"1", -8},   {"<s", -9},    {"<0", -10},   {"<0x", -1},
        {"<0x4", -1}, {"1>", -20}, {"<0x41", -1}, {"", 0},       {"<0x42>", -9},
        {"A", -9},    {"a", -9},   {"ab", -9},
    };
    int n = (int)(sizeof entries / sizeof *entries);
    const char *path = temporary("tokenizer.bin");
    Tokenizer t;
    write_vocabulary(path, entries, n);
    CHECK(tokenizer_open_bin(&t, path, n) == 0, "does not open");
    CHECK(gives(&t, "<s>", true, (int[]){1, 4, 12, 7, -1}), "<s>");
    CHECK(gives(&t, "<0x41>", false, (int[]){4, 17, 7, -1}), "<0x41>");
    CHECK(gives(&t, "A", false, (int[]){4, 20, -1}),
          "a piece precedes the byte");
    CHECK(gives(&t, "B", false, (int[]){4, 19, -1}),
          "without a piece, the byte");
    CHECK(gives(&t, "C", false, (int[]){4, 0, -1}), "no piece, no byte: <unk>");
    CHECK(gives(&t, "\xc3\xa9", false, (int[]){4, 0, 0, -1}),
          "two unknown bytes");
    CHECK(gives(&t, "ab", false, (int[]){4, 21, 0, -1}),
          "'b' is not a piece, so it does not merge");
    tokenizer_close(&t);
}

static void a_space_is_prepended(void) {
    static const Entry entries[] = {{"<unk>", 0}, {"<s>", 0}, {"</s>", 0},
                                    {" ", -1},    {"a", -2},  {" a", -3},
                                    {"  ", -9}};
    const char *path = temporary("tokenizer.bin");
    Tokenizer t;
    write_vocabulary(path, entries, 7);
    CHECK(tokenizer_open_bin(&t, path, 7) == 0, "does not open");
    CHECK(gives(&t, "a", false, (int[]){5, -1}), "a");
    CHECK(gives(&t, " a", true, (int[]){1, 3, 5, -1}), "space, a");
    CHECK(gives(&t, "a a", true, (int[]){1, 5, 5, -1}), "'a a'");
    CHECK(gives(&t, "   ", true, (int[]){1, 6, 6, -1}),
          "spaces: the leftmost pairs merge");
    CHECK(gives(&t, "", true, (int[]){1, -1}), "empty: only BOS");
    CHECK(gives(&t, "", false, (int[]){-1}), "empty, no BOS");
    tokenizer_close(&t);
}

/* Decoding drops one space after BOS only; byte pieces become bytes. */
static void decodes_pieces(void) {
    static const Entry entries[] = {{"<unk>", 0}, {"<s>", 0},    {"</s>", 0},
                                    {"  a", -1},  {"<0xFE>", 0}, {"", 0}};
    const char *path = temporary("tokenizer.bin");
    Tokenizer t;
    int n;
    write_vocabulary(path, entries, 6);
    CHECK(tokenizer_open_bin(&t, path, 6) == 0, "does not open");
    const char *s = tokenizer_decode(&t, 1, 3, &n);
    CHECK(n == 2 && !memcmp(s, " a", 2), "after BOS: %.*s", n, s);
    s = tokenizer_decode(&t, 0, 3, &n);
    CHECK(n == 3 && !memcmp(s, "  a", 3), "elsewhere: %.*s", n, s);
    s = tokenizer_decode(&t, 1, 4, &n);
    CHECK(n == 1 && (uint8_t)s[0] == 0xfe, "byte: %d bytes", n);
    tokenizer_decode(&t, 1, 5, &n);
    CHECK(n == 0, "empty piece: %d bytes", n);
    tokenizer_close(&t);
}

/* ---- long texts --------------------------------------------------------- */

/* A megabyte without a newline, far too long for an O(n^2) merge. */
static void encodes_a_long_line(void) {
    static const Entry entries[] = {{"<unk>", 0}, {"<s>", 0},      {"</s>", 0},
                                    {" ", -9},    {"a", -9},       {"aa", -1},
                                    {"aaaa", -2}, {"aaaaaaaa", -3}};
    static char text[1 << 20];
    size_t n = test_fast() ? 1 << 14 : sizeof text;
    const char *path = temporary("tokenizer.bin");
    Tokenizer t;
    Tokens tokens;
    memset(text, 'a', n);
    write_vocabulary(path, entries, 8);
    CHECK(tokenizer_open_bin(&t, path, 8) == 0, "does not open");
    CHECK(tokenizer_encode(&t, text, n, true, &tokens) == 0, "does not encode");
    CHECK(tokens.n == (int)(n / 8) + 2, "%d tokens", tokens.n);
    for (int i = 2; i < tokens.n; i++)
        CHECK(tokens.ids[i] == 7, "token %d is %d", i, tokens.ids[i]);
    free(tokens.ids);
    tokenizer_close(&t);

    path = temporary("tokenizer.bin");
    hashtokenizer_write(path, 1800);
    CHECK(tokenizer_open_bin(&t, path, 1800) == 0, "does not open");
    for (size_t i = 0; i < n; i++)
        text[i] = any(5) ? (char)('a' + any(26)) : ' ';
    CHECK(decodes_back(&t, text, n, true), "a long text of words");
    tokenizer_close(&t);
}

/* ---- bad files ---------------------------------------------------------- */

static bool refused(const char *path, int vocab_size) {
    Tokenizer t;
    stderr_hide();
    bool opened = tokenizer_open_bin(&t, path, vocab_size) == 0;
    int lines = stderr_show();
    if (opened)
        tokenizer_close(&t);
    return !opened && lines == 1;
}

/* Overwrites 4 bytes; or cuts the file there if value is NULL. */
static void damage(const char *path, long at, const void *value) {
    hashtokenizer_write(path, 300);
    FILE *f = fopen(path, "r+b");
    if (value) {
        fseek(f, at, SEEK_SET);
        fwrite(value, 4, 1, f);
    }
    fclose(f);
    if (!value && truncate(path, at))
        perror(path);
}

static void refuses_bad_files(void) {
    /* 4 bytes, then <unk>: score at 4, length at 8 */
    const char *path = temporary("tokenizer.bin");
    Tokenizer t;
    hashtokenizer_write(path, 300);
    CHECK(tokenizer_open_bin(&t, path, 300) == 0,
          "the unchanged file is refused");
    tokenizer_close(&t);
    CHECK(refused(path, 299) && refused(path, 301),
          "wrong vocabulary sizes are accepted");
    CHECK(refused(path, INT_MAX), "a vocabulary of INT_MAX");
    damage(path, 4, &(float){NAN});
    CHECK(refused(path, 300), "a score that is not a number");
    for (int i = 0; i < 5; i++) {
        damage(path, 8, &(int){(int[]){-1, INT_MIN, INT_MAX, 6, 1 << 20}[i]});
        CHECK(refused(path, 300), "length %d", i);
    }
    damage(path, 4, &(float){-INFINITY}); /* a valid score */
    CHECK(tokenizer_open_bin(&t, path, 300) == 0, "a score of minus infinity");
    tokenizer_close(&t);
    for (long at = 0; at < 60; at++) {
        damage(path, at, NULL);
        CHECK(refused(path, 300), "cut at %ld", at);
        /* where the four pieces end */
        CHECK(refused(path, 4) == (at != 58), "truncated at %ld, four pieces",
              at);
    }
    CHECK(refused(temporary("nothing-here"), 300), "missing");
}

/* The last piece is checked up to its last byte. */
static void the_last_piece_is_checked(void) {
    static const struct {
        int length; /* longer than the piece */
        float score;
        const char *message;
    } cases[] = {
        {0, -1, NULL},
        {1, -1, "length of piece 299 is 2, the file has 1 bytes left"},
        {-1, -1, "1 bytes follow the model's 300 pieces"},
        {-2, -1, "length of piece 299 is -1, the file has 1 bytes left"},
        {0, NAN, "score of piece 299 is not a number"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = temporary("tokenizer.bin");
        Tokenizer t;
        hashtokenizer_write(path, 300); /* the last piece is one letter */
        FILE *f = fopen(path, "r+b");
        fseek(f, -9, SEEK_END);
        fwrite(&cases[i].score, 4, 1, f);
        fwrite(&(int){1 + cases[i].length}, 4, 1, f);
        fclose(f);
        stderr_hide();
        int status = tokenizer_open_bin(&t, path, 300), lines = stderr_show();
        if (!status)
            tokenizer_close(&t);
        CHECK((status == 0) == !cases[i].message && lines == (status != 0),
              "case %zu: %s", i, stderr_text());
        CHECK(!status || strstr(stderr_text(), cases[i].message),
              "case %zu: %s", i, stderr_text());
    }
}

/* The text is refused before a byte of it is read. */
static void a_text_has_a_max_size(void) {
    const char *path = temporary("tokenizer.bin");
    Tokenizer t;
    hashtokenizer_write(path, 300);
    CHECK(tokenizer_open_bin(&t, path, 300) == 0, "does not open");
    for (int i = 0; i < 2; i++) {
        Tokens tokens = {0};
        stderr_hide();
        int status = tokenizer_append(&t, "a", i ? SIZE_MAX : INT_MAX / 3, NULL,
                                      true, &tokens),
            lines = stderr_show();
        CHECK(status == -1 && lines == 1 && !tokens.ids, "%s", stderr_text());
        CHECK(!strcmp(
                  stderr_text(),
                  i ? "run: a text of 18446744073709551615 bytes is too long\n"
                    : "run: a text of 715827882 bytes is too long\n"),
              "%s", stderr_text());
    }
    tokenizer_close(&t);
}

/* BOS is token 1 and EOS token 2, so there must be three. */
static void refuses_a_vocabulary_without_bos(void) {
    static const Entry entries[] = {{"<unk>", 0}, {"<s>", 0}, {"</s>", 0}};
    const char *path = temporary("tokenizer.bin");
    for (int n = 1; n <= 3; n++) {
        write_vocabulary(path, entries, n);
        CHECK(refused(path, n) == (n < 3), "a vocabulary of %d", n);
    }
}

/* ---- the published vocabularies ----------------------------------------- */

/* Undoes \n, \t, \r, \\ and \xNN in place; returns the size. */
static size_t unescape(char *s) {
    char *to = s;
    for (const char *from = s; *from; to++) {
        unsigned byte;
        if (*from != '\\') {
            *to = *from++;
        } else if (from[1] == 'x' && sscanf(from + 2, "%2x", &byte) == 1) {
            *to = (char)byte;
            from += 4;
        } else {
            *to = from[1] == 'n'   ? '\n'
                  : from[1] == 't' ? '\t'
                  : from[1] == 'r' ? '\r'
                                   : from[1];
            from += 2;
        }
    }
    return (size_t)(to - s);
}

/* The fixture has lines of ids, a space, and the text in quotation marks. */
static void matches_fixture(const char *checkpoint, int vocab_size,
                            const char *fixture, int min) {
    const char *path = real_checkpoint(checkpoint);
    if (!path) {
        test_skip(NO_CHECKPOINTS);
        return;
    }
    Tokenizer t;
    FILE *in = fopen(fixture, "r");
    CHECK(in, "%s is missing", fixture);
    CHECK(tokenizer_open_bin(&t, path, vocab_size) == 0, "%s does not open",
          path);
    char *line = NULL;
    size_t room = 0;
    int n_lines = 0;
    for (ssize_t n; (n = getline(&line, &room, in)) > 0; n_lines++) {
        /* before the last quotation mark */
        char *text = strchr(line, ' ') + 2, *end = line + n - 2;
        *end = '\0';
        size_t size = unescape(text);
        Tokens tokens;
        CHECK(tokenizer_encode(&t, text, size, true, &tokens) == 0, "line %d",
              n_lines + 1);
        const char *s = line;
        for (int i = 0; i < tokens.n; i++) {
            char *after;
            long id = strtol(s, &after, 10);
            CHECK(id == tokens.ids[i], "line %d, token %d is %d, expected %ld",
                  n_lines + 1, i, tokens.ids[i], id);
            CHECK(*after == (i + 1 < tokens.n ? ',' : ' '),
                  "line %d has %d tokens", n_lines + 1, tokens.n);
            s = after + 1;
        }
        free(tokens.ids);
        CHECK(decodes_back(&t, text, size, true), "line %d does not come back",
              n_lines + 1);
    }
    CHECK(n_lines >= min, "%s has %d lines", fixture, n_lines);
    free(line);
    fclose(in);
    tokenizer_close(&t);
}

static void same_tokens_as_llama2_c(void) {
    matches_fixture("tok512.bin", 512, "tests/golden/tok512_ids.txt", 50);
}

static void same_tokens_as_sentencepiece(void) {
    matches_fixture("llama32k.bin", 32000, "tests/golden/llama32k_ids.txt",
                    200);
}

void suite_tokenizer(void) {
    TEST(encodes_like_the_plain_encoder);
    TEST(encodes_with_ties_and_duplicates);
    TEST(decoding_returns_the_text);
    TEST(control_and_byte_pieces_never_match_text);
    TEST(a_space_is_prepended);
    TEST(decodes_pieces);
    TEST(encodes_a_long_line);
    TEST(refuses_bad_files);
    TEST(the_last_piece_is_checked);
    TEST(a_text_has_a_max_size);
    TEST(refuses_a_vocabulary_without_bos);
    TEST(same_tokens_as_llama2_c);
    TEST(same_tokens_as_sentencepiece);
}
