/* json.c: a small strict JSON reader (RFC 8259).
 *
 * Owns the grammar. Parses an untrusted text into a flat array of values.
 * JSON_DEPTH bounds the stack. The memory for the max number of values in the
 * text is allocated at once. Strings are decoded within a copy of the text.
 * Tests: json, growth.
 */
#include "formats/json.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/map.h"
#include "formats/stored.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    JsonFile *json;
    char *at, *end; /* the text, zero-terminated, from json->text + 1 on */
    char *out;      /* where the next string or number goes, before `at` */
    size_t n_values;
    int depth; /* number of lists around the next value */
} Parser;

static bool syntax_error(const Parser *p, const char *error) {
    fail("%s: byte %zu: %s", p->json->path, (size_t)(p->at - p->json->text),
         error);
    return false;
}

/* The next byte that is not white space; 0 at the end. */
static char peek(Parser *p) {
    while (*p->at && strchr(" \n\r\t", *p->at))
        p->at++;
    return *p->at;
}

/* The four hexadecimal digits after \u; -1 if they are missing. */
static int read_hex(Parser *p) {
    char digits[5] = "";
    if (strspn(p->at, "0123456789abcdefABCDEF") < 4)
        return -1;
    memcpy(digits, p->at, 4);
    p->at += 4;
    return (int)strtol(digits, NULL, 16);
}

/* Reads XXXX of \uXXXX. A character above U+FFFF is a pair of escapes: a high
 * and a low surrogate. */
static bool read_unicode_escape(Parser *p) {
    int c = read_hex(p);
    if (c < 0)
        return syntax_error(p, "\\u without four hexadecimal digits");
    if (c >= 0xd800 && c < 0xe000) {
        int low = 0;
        if (c < 0xdc00 && !strncmp(p->at, "\\u", 2)) {
            p->at += 2;
            low = read_hex(p);
        }
        if (low < 0xdc00 || low > 0xdfff)
            return syntax_error(p, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    p->out += utf8_encode(p->out, c);
    return true;
}

static const char ESCAPES[] = "\"\\bfnrt/", ESCAPED[] = "\"\\\b\f\n\r\t/";
enum { N_ESCAPES = sizeof ESCAPES - 1 };

static bool read_escape(Parser *p) {
    const char *place = memchr(ESCAPES, *++p->at, N_ESCAPES);
    if (!place && *p->at != 'u')
        return syntax_error(p, "an invalid escape");
    p->at++;
    if (!place)
        return read_unicode_escape(p);
    *p->out++ = ESCAPED[place - ESCAPES];
    return true;
}

static Json *add_value(Parser *p, JsonKind kind, const char *text) {
    Json *value = &p->json->values[p->n_values++];
    *value = (Json){.kind = kind, .text = text};
    return value;
}

/* Ends the text of a value with a zero byte. A byte precedes the text, and at
 * least one byte separates two values, so `out` stays before `at`. */
static void end_text(Parser *p, Json *value) {
    value->length = (uint32_t)(p->out - value->text);
    *p->out++ = '\0';
}

/* Reads a string. It never takes more bytes than its JSON form. */
static bool read_string(Parser *p) {
    Json *value = add_value(p, JSON_STRING, p->out);
    for (p->at++; *p->at != '"';) {
        if (*p->at == '\\') {
            if (!read_escape(p))
                return false;
            continue;
        }
        if (p->at == p->end)
            return syntax_error(p, "an unterminated string");
        if ((uint8_t)*p->at < 0x20)
            return syntax_error(p, "a control character in a string");
        size_t n;
        if (utf8_read(p->at, p->end - p->at, &n) >= UTF8_END)
            return syntax_error(p, "invalid UTF-8");
        for (size_t i = 0; i < n; i++)
            *p->out++ = *p->at++;
    }
    p->at++;
    end_text(p, value);
    return true;
}

/* What strtod() reads, but with digits before and after a point, no leading 0,
 * and no hexadecimal digits. */
static bool is_number(const char *s) {
    char *end;
    if (*s == '-')
        s++;
    if (!strcmp(s, "Infinity") || !strcmp(s, "NaN"))
        return true; /* Python writes them */
    const char *point = strchr(s, '.');
    strtod(s, &end);
    if (!isdigit((uint8_t)*s) || (point && !isdigit((uint8_t)point[1])))
        return false;
    return !*end && !strpbrk(s, "xX") && !(*s == '0' && isdigit((uint8_t)s[1]));
}

/* Reads true, false, null or a number. */
static bool read_word(Parser *p) {
    Json *value = add_value(p, JSON_NUMBER, p->out);
    char *begin = p->at;
    while (!strchr(",:]} \n\r\t", *p->at))
        *p->out++ = *p->at++; /* also ends at a zero byte */
    end_text(p, value);
    if (!strcmp(value->text, "true") || !strcmp(value->text, "false"))
        value->kind = JSON_BOOL;
    if (!strcmp(value->text, "null"))
        value->kind = JSON_NULL;
    if (value->kind != JSON_NUMBER || is_number(value->text))
        return true;
    p->at = begin;
    return syntax_error(p, "expected a value");
}

/* ---- lists -------------------------------------------------------------- */

/* Skips white space and one expected byte. */
static bool expect(Parser *p, char byte, const char *error) {
    if (peek(p) != byte)
        return syntax_error(p, error);
    p->at++;
    return true;
}

static bool read_value(Parser *p);

static bool read_list(Parser *p, JsonKind kind) {
    bool object = kind == JSON_OBJECT;
    if (p->depth == JSON_DEPTH)
        return syntax_error(p, "lists nested too deeply");
    Json *list = add_value(p, kind, object ? "an object" : "a list");
    Json *member = NULL;
    p->depth++;
    for (p->at++; peek(p) != (object ? '}' : ']'); list->length++) {
        Json *next = &p->json->values[p->n_values];
        if (member && !expect(p, ',', "expected ',' or the end of the list"))
            return false;
        if (member)
            member->next = next;
        member = next;
        if (object && peek(p) != '"')
            return syntax_error(p, "expected a key in quotes");
        if ((object && (!read_string(p) || !expect(p, ':', "expected ':'"))) ||
            !read_value(p))
            return false;
    }
    p->at++;
    p->depth--;
    return true;
}

static bool read_value(Parser *p) {
    switch (peek(p)) {
    case '{': return read_list(p, JSON_OBJECT);
    case '[': return read_list(p, JSON_ARRAY);
    case '"': return read_string(p);
    default: return read_word(p);
    }
}

/* Counts the values: each one after the first follows a comma, a colon or an
 * opening bracket. There is always room for two. The copy of a mapped file
 * cannot change after they are counted. */
int json_parse(JsonFile *json, const char *path, const void *text,
               size_t size) {
    *json = (JsonFile){.path = path};
    if (size > JSON_BYTES)
        return fail("%s: %zu bytes of JSON, expected at most %d", path, size,
                    JSON_BYTES);
    json->text = allocate(size + 2, 1);
    if (!json->text)
        return -1;
    Parser p = {.json = json,
                .at = json->text + 1,
                .end = json->text + 1 + size,
                .out = json->text};
    memcpy(p.at, text, size);
    *p.end = '\0';
    size_t room = 2;
    for (const char *s = p.at; s < p.end; s++)
        room += *s == ',' || *s == ':' || *s == '[' || *s == '{';
    json->values = allocate(room, sizeof *json->values);
    if (json->values && read_value(&p)) {
        peek(&p);
        if (p.at == p.end)
            return 0;
        syntax_error(&p, "text after the end");
    }
    json_close(json);
    return -1;
}

int json_open(JsonFile *json, const char *path) {
    File file;
    if (map_model_file(&file, path))
        return -1;
    int status = json_parse(json, path, file.data, file.size);
    file_unmap(&file);
    return status;
}

void json_close(JsonFile *json) {
    free(json->values);
    free(json->text);
    *json = (JsonFile){0};
}

/* ---- values of a document ------------------------------------------------ */

bool json_has_kind(const Json *value, JsonKind kind) {
    return value && value->kind == kind;
}
bool json_true(const Json *value) {
    return json_has_kind(value, JSON_BOOL) && *value->text == 't';
}
bool json_null(const Json *value) {
    return !value || value->kind == JSON_NULL;
}
const char *json_shown(const Json *value) {
    return value ? value->text : "missing";
}

bool json_is(const Json *value, const char *text) {
    return json_has_kind(value, JSON_STRING) &&
           string_is((String){value->text, value->length}, text);
}

const char *json_escape(const char *s, size_t left, size_t *length) {
    static char text[16];
    uint32_t code = utf8_read(s, left, length);
    /* the last one, '/', needs no escape */
    const char *place = memchr(ESCAPED, *s, N_ESCAPES - 1);
    if (place)
        snprintf(text, sizeof text, "\\%c", ESCAPES[place - ESCAPED]);
    else if (!utf8_is_printable(code))
        snprintf(text, sizeof text, "\\u%04x", code < UTF8_END ? code : 0xfffd);
    else
        snprintf(text, sizeof text, "%.*s", (int)*length, s);
    return text;
}

bool json_integer(const Json *value, int64_t *integer) {
    char *end;
    if (!json_has_kind(value, JSON_NUMBER))
        return false;
    errno = 0;
    const long long number = strtoll(value->text, &end, 10);
    if (*end || errno)
        return false;
    *integer = number;
    return true;
}

bool json_real(const Json *value, double *real) {
    double number = json_has_kind(value, JSON_NUMBER)
                        ? strtod(value->text, NULL)
                        : INFINITY;
    if (isfinite(number))
        *real = number;
    return isfinite(number);
}

const Json *json_members(const Json *value, JsonKind kind) {
    return json_has_kind(value, kind) && value->length ? value + 1 : NULL;
}

const Json *json_get(const Json *object, const char *key) {
    static const Json twice = {.kind = JSON_ARRAY, .text = "given twice"};
    const Json *value = NULL;
    JSON_EACH(k, object, JSON_OBJECT)
        if (json_is(k, key))
            value = value ? &twice : k + 1;
    return value;
}
