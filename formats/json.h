/* json.h: JSON texts as flat arrays of values; strings as JSON writes them.
 *
 * "List" means an array or an object. Functions that look at a value take NULL, a value that is missing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH = 64, JSON_BYTES = 1 << 30 }; /* most levels of lists in lists; most bytes of a text */

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

/* A value. Values are in the order of the text: a list is followed by its members, and in an object each key, a
 * string, is followed by its value. */
typedef struct {
    JsonKind kind;
    uint32_t length;    /* of a string in bytes, zero bytes among them */
    uint32_t n_members; /* of a list: elements, or keys; else 0 */
    uint32_t n_values;  /* the value and all values in it */
    const char *text;   /* a string's characters, UTF-8; else as written, or "a list", "an object"; zero-terminated */
} Json;

typedef struct {
    const char *path; /* not owned */
    Json *values;     /* owned; the first one is the whole text */
    char *text;       /* owned; of strings and numbers */
} JsonFile;

/* Reads one JSON value (RFC 8259), more strictly than the RFC asks: UTF-8 without lone surrogates, no object with a
 * key twice, lists at most JSON_DEPTH deep. Takes a byte of memory for a byte of text, 24 for each comma, colon and
 * opening bracket, and while it reads 8 for a key. `path` is for messages. -1 and a message on failure, and nothing to
 * close; else the caller closes it. */
int json_parse(JsonFile *json, const char *path, const char *text, size_t size);
int json_open(JsonFile *json, const char *path);
void json_close(JsonFile *json);

/* What a value is: of this kind, `true`, null or missing, this string. */
bool json_has_kind(const Json *value, JsonKind kind);
bool json_true(const Json *value);
bool json_null(const Json *value);
bool json_is(const Json *value, const char *text);

/* False if it is no number, no integer (1e3 and 1.0 are none), or too large; *integer and *real stay as they are. */
bool json_integer(const Json *value, int64_t *integer);
bool json_real(const Json *value, double *real);

/* The value's text for a message: "missing" if it is. */
const char *json_shown(const Json *value);

/* The first member of a list, or of a list of this kind; NULL if there is none. In an object members are the keys,
 * and behind each (key + 1) is its value. */
const Json *json_first(const Json *list);
const Json *json_members(const Json *value, JsonKind kind);

/* The member behind this one; NULL: it is the last. */
const Json *json_next(const Json *list, const Json *member);

/* How the UTF-8 character at s, of which `left` > 0 bytes are there, is written in a string: itself, or an escape;
 * bytes that are none as U+FFFD. Its bytes go to *length; what is returned ends with a zero byte and stays until the
 * next. */
const char *json_escape(const char *s, size_t left, size_t *length);

/* The value of a key, by comparing all keys; NULL if there is none, or it is no object. */
const Json *json_get(const Json *object, const char *key);
