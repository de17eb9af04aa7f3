/* json.c: a small strict JSON reader (RFC 8259).
 *
 * Owns the grammar: from a text that nobody trusts to a flat array of values.
 * Nothing here calls itself, so that no text decides how deep the stack gets,
 * and all memory is asked for at once, in proportion to the text. What the
 * values mean is for the callers.
 *
 * Stricter than the RFC asks for: one object has no key twice, text is UTF-8
 * and says no lone surrogates, lists are at most JSON_DEPTH deep.
 */
#include "formats/json.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    JsonFile *json;
    const char *begin, *at, *end; /* the text */
    char *out;                    /* where the next string or number goes */
    size_t n_values;
    size_t open[JSON_DEPTH]; /* the lists that are not closed yet, by their place in values */
    int depth;
    const char *error; /* NULL: already told */
} Parser;

static bool wrong(Parser *p, const char *error) {
    p->error = error;
    return false;
}

/* ---- text ----------------------------------------------------------------------------- */

/* The next byte that is no white space; -1 at the end. */
static int peek(Parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')) p->at++;
    return p->at < p->end ? (uint8_t)*p->at : -1;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind \u; -1: they are not there. */
static int read_hex(Parser *p) {
    int value = 0;
    if (p->end - p->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(p->at[i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    p->at += 4;
    return value;
}

/* \uXXXX; characters beyond U+FFFF take two of them, a high and a low surrogate. */
static bool read_unicode_escape(Parser *p) {
    int c = read_hex(p);
    if (c < 0) return wrong(p, "\\u without four hexadecimal digits");
    if (c >= 0xd800 && c < 0xe000) {
        const bool pair = c < 0xdc00 && p->end - p->at > 2 && p->at[0] == '\\' && p->at[1] == 'u';
        if (pair) p->at += 2;
        const int low = pair ? read_hex(p) : -1;
        if (low < 0xdc00 || low > 0xdfff) return wrong(p, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    p->out += utf8_encode(p->out, (uint32_t)c);
    return true;
}

static bool read_escape(Parser *p) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = ++p->at < p->end ? *p->at++ : '\0';
    if (c == 'u') return read_unicode_escape(p);
    const char *place = c ? strchr(from, c) : NULL;
    if (!place) return wrong(p, "an escape that JSON has not");
    *p->out++ = to[place - from];
    return true;
}

/* Up to the closing quote. What it says is never longer than how it is written. */
static bool read_characters(Parser *p) {
    while (p->at < p->end && *p->at != '"') {
        const uint8_t c = (uint8_t)*p->at;
        if (c == '\\') {
            if (!read_escape(p)) return false;
        } else if (c < 0x20) {
            return wrong(p, "a control character in a string");
        } else if (c < 0x80) {
            *p->out++ = *p->at++;
        } else {
            const int n = utf8_character(p->at, (size_t)(p->end - p->at));
            if (!n) return wrong(p, "a byte that is no UTF-8");
            memcpy(p->out, p->at, (size_t)n);
            p->out += n;
            p->at += n;
        }
    }
    return p->at < p->end || wrong(p, "a string without an end");
}

/* ---- values ----------------------------------------------------------------------------- */

static Json *add(Parser *p, JsonKind kind, const char *text) {
    Json *value = &p->json->values[p->n_values++];
    *value = (Json){.kind = kind, .text = text, .n_values = 1};
    return value;
}

/* The text of a string or number has a zero byte behind it: for that there is room,
 * because something stands between two of them. */
static void end_text(Parser *p, Json *value) {
    value->length = (uint32_t)(p->out - value->text);
    *p->out++ = '\0';
}

static bool read_string(Parser *p) {
    Json *value = add(p, JSON_STRING, p->out);
    p->at++;
    if (!read_characters(p)) return false;
    p->at++;
    end_text(p, value);
    return true;
}

static bool read_word(Parser *p, const char *word, JsonKind kind) {
    const size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n)) return wrong(p, "expected a value");
    add(p, kind, word)->length = (uint32_t)n;
    p->at += n;
    return true;
}

static bool is_digit(const Parser *p) { return p->at < p->end && *p->at >= '0' && *p->at <= '9'; }

static bool take(Parser *p, char a, char b) {
    if (p->at == p->end || (*p->at != a && *p->at != b)) return false;
    p->at++;
    return true;
}

static bool read_digits(Parser *p) {
    if (!is_digit(p)) return wrong(p, "expected a digit");
    while (is_digit(p)) p->at++;
    return true;
}

static bool read_number(Parser *p) {
    const char *begin = p->at;
    take(p, '-', '-');
    if (!is_digit(p)) return wrong(p, "expected a value");
    if (!take(p, '0', '0')) read_digits(p); /* nothing follows a 0 in front */
    if (take(p, '.', '.') && !read_digits(p)) return false;
    if (take(p, 'e', 'E')) {
        take(p, '+', '-');
        if (!read_digits(p)) return false;
    }
    Json *value = add(p, JSON_NUMBER, p->out);
    memcpy(p->out, begin, (size_t)(p->at - begin));
    p->out += p->at - begin;
    end_text(p, value);
    return true;
}

/* ---- lists ------------------------------------------------------------------------------- */

static Json *innermost(const Parser *p) { return p->depth ? &p->json->values[p->open[p->depth - 1]] : NULL; }

static bool open_list(Parser *p, JsonKind kind) {
    if (p->depth == JSON_DEPTH) return wrong(p, "lists in lists, too many levels deep");
    p->open[p->depth++] = p->n_values;
    add(p, kind, kind == JSON_OBJECT ? "an object" : "a list");
    p->at++;
    return true;
}

typedef struct {
    uint64_t hash;
    const Json *key;
} HashedKey;

static uint64_t hash_text(const Json *s) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < s->length; i++) hash = (hash ^ (uint8_t)s->text[i]) * 0x100000001b3u;
    return hash;
}

static int compare_texts(const Json *a, const Json *b) {
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return memcmp(a->text, b->text, a->length);
}

static int compare_keys(const void *a, const void *b) {
    const HashedKey *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return compare_texts(x->key, y->key);
}

static bool key_twice(Parser *p, const Json *key) {
    fail("%s: an object has the key \"%.64s\" twice", p->json->path, key->text);
    return wrong(p, NULL);
}

/* Sorted by hash, so that 150,000 keys take milliseconds and, where somebody made all
 * hashes the same, no more than any sort does. */
static bool check_many_keys(Parser *p, const Json *object) {
    HashedKey *keys = allocate(object->n_members, sizeof *keys);
    size_t n = 0;
    if (!keys) return wrong(p, NULL);
    for (const Json *key = json_first(object); key; key = json_next(object, key))
        keys[n++] = (HashedKey){hash_text(key), key};
    qsort(keys, n, sizeof *keys, compare_keys);
    const Json *twice = NULL;
    for (size_t i = 1; i < n && !twice; i++)
        if (!compare_keys(&keys[i - 1], &keys[i])) twice = keys[i].key;
    free(keys);
    return !twice || key_twice(p, twice);
}

static bool check_keys(Parser *p, const Json *object) {
    if (object->n_members > 16) return check_many_keys(p, object);
    for (const Json *a = json_first(object); a; a = json_next(object, a))
        for (const Json *b = json_first(object); b != a; b = json_next(object, b))
            if (!compare_texts(a, b)) return key_twice(p, a);
    return true;
}

/* Ends every list that ends here. */
static bool close_lists(Parser *p) {
    for (Json *list; (list = innermost(p)) && peek(p) == (list->kind == JSON_OBJECT ? '}' : ']'); p->depth--) {
        list->n_values = (uint32_t)(p->n_values - p->open[p->depth - 1]);
        if (list->kind == JSON_OBJECT && !check_keys(p, list)) return false;
        p->at++;
    }
    return true;
}

static bool read_key(Parser *p) {
    if (peek(p) != '"') return wrong(p, "expected a key in quotes");
    if (!read_string(p)) return false;
    if (peek(p) != ':') return wrong(p, "expected ':'");
    p->at++;
    return true;
}

/* One value with its key, if it is in an object. A list is only opened. */
static bool read_value(Parser *p) {
    Json *list = innermost(p);
    if (list) list->n_members++;
    if (list && list->kind == JSON_OBJECT && !read_key(p)) return false;
    switch (peek(p)) {
    case '{': return open_list(p, JSON_OBJECT);
    case '[': return open_list(p, JSON_ARRAY);
    case '"': return read_string(p);
    case 't': return read_word(p, "true", JSON_BOOL);
    case 'f': return read_word(p, "false", JSON_BOOL);
    case 'n': return read_word(p, "null", JSON_NULL);
    default: return read_number(p);
    }
}

static bool read_text(Parser *p) {
    do {
        if (!read_value(p) || !close_lists(p)) return false;
        const Json *list = innermost(p);
        if (!list || list->n_members == 0) continue; /* the end, or the beginning of a list */
        if (peek(p) != ',') return wrong(p, "expected ',' or the end of the list");
        p->at++;
    } while (p->depth);
    return peek(p) < 0 || wrong(p, "something behind the end");
}

/* ---- documents ------------------------------------------------------------------------------ */

/* Values in a text, at most: before each but the first stands one of these. */
static size_t count_values(const char *text, size_t size) {
    size_t n = 1;
    for (size_t i = 0; i < size; i++)
        n += (size_t)((text[i] == ',') + (text[i] == ':') + (text[i] == '[') + (text[i] == '{'));
    return n;
}

static int fail_at(const Parser *p) {
    size_t line = 1;
    const char *start = p->begin;
    for (const char *c = p->begin; c < p->at; c++)
        if (*c == '\n') {
            line++;
            start = c + 1;
        }
    return fail("%s: line %zu, byte %zu: %s", p->json->path, line, (size_t)(p->at - start) + 1, p->error);
}

int json_parse(JsonFile *json, const char *path, const char *text, size_t size) {
    *json = (JsonFile){.path = path};
    if (size > JSON_MOST) return fail("%s: %zu bytes of JSON, expected at most %d", path, size, JSON_MOST);
    json->values = allocate(count_values(text, size), sizeof *json->values);
    json->text = allocate(size + 1, 1);
    Parser p = {.json = json, .begin = text, .at = text, .end = text + size, .out = json->text};
    if (json->values && json->text && read_text(&p)) return 0;
    if (p.error) fail_at(&p);
    json_close(json);
    return -1;
}

int json_open(JsonFile *json, const char *path) {
    File file;
    *json = (JsonFile){0};
    if (file_map(&file, path)) return -1;
    const int status = json_parse(json, path, (const char *)file.data, file.size);
    file_unmap(&file);
    return status;
}

void json_close(JsonFile *json) {
    free(json->values);
    free(json->text);
    *json = (JsonFile){0};
}

/* ---- looking things up -------------------------------------------------------------------------- */

const Json *json_first(const Json *list) { return list && list->n_members > 0 ? list + 1 : NULL; }

const Json *json_next(const Json *list, const Json *member) {
    if (list->kind == JSON_OBJECT) member++; /* from the key to its value */
    member += member->n_values;
    return member < list + list->n_values ? member : NULL;
}

bool json_is(const Json *value, const char *text) {
    return value && value->kind == JSON_STRING && value->length == strlen(text) &&
           !memcmp(value->text, text, value->length);
}

const Json *json_get(const Json *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (const Json *k = json_first(object); k; k = json_next(object, k))
        if (json_is(k, key)) return k + 1;
    return NULL;
}

bool json_integer(const Json *value, int64_t *integer) {
    char *end;
    if (!value || value->kind != JSON_NUMBER) return false;
    errno = 0;
    const long long wide = strtoll(value->text, &end, 10);
    if (*end || errno) return false;
    *integer = wide;
    return true;
}

bool json_real(const Json *value, double *real) {
    if (!value || value->kind != JSON_NUMBER) return false;
    const double wide = strtod(value->text, NULL);
    if (!isfinite(wide)) return false;
    *real = wide;
    return true;
}

const char *json_shown(const Json *value) { return value ? value->text : "missing"; }

const Json *json_members(const Json *value, JsonKind kind) {
    return json_has_kind(value, kind) ? json_first(value) : NULL;
}

bool json_has_kind(const Json *value, JsonKind kind) { return value && value->kind == kind; }

bool json_true(const Json *value) { return json_has_kind(value, JSON_BOOL) && *value->text == 't'; }

bool json_null(const Json *value) { return !value || value->kind == JSON_NULL; }
