/* json.h: reads JSON texts into flat arrays of values; escapes characters for
 * JSON.
 *
 * "List" means an array or an object. NULL is a missing value, which all
 * functions accept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* max nesting of lists; max bytes of a text */
enum { JSON_DEPTH = 64, JSON_BYTES = 1 << 30 };

typedef enum {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} JsonKind;

/* A value. Values are in the order of the text: a list is followed by its
 * members; in an object, each key (a string) is followed by its value. */
typedef struct Json {
    JsonKind kind;
    /* bytes of a string, which may contain zero bytes; elements of an array;
     * keys of an object */
    uint32_t length;
    const struct Json *next; /* the next element or key; NULL: none */
    /* zero-terminated: a string in UTF-8; a number, bool or null as written; "a
     * list", "an object" */
    const char *text;
} Json;

typedef struct {
    const char *path; /* not owned */
    Json *values;     /* owned; the first value contains all others */
    char *text;       /* owned: the text of strings and numbers */
} JsonFile;

/* Reads one JSON value (RFC 8259), and as numbers Python's NaN and Infinity.
 * Stricter than the RFC: UTF-8 without lone surrogates, lists at most
 * JSON_DEPTH deep. Uses 1 byte of memory per byte of text, and 24 per comma,
 * colon and opening bracket. `path` is for messages. Returns -1 and a message
 * on failure, with nothing to close; else the caller closes it. */
int json_parse(JsonFile *json, const char *path, const void *text, size_t size);
int json_open(JsonFile *json, const char *path);
void json_close(JsonFile *json);

/* Whether a value is of this kind, is true, is null or missing, is this
 * string. */
bool json_has_kind(const Json *value, JsonKind kind);
bool json_true(const Json *value);
bool json_null(const Json *value);
bool json_is(const Json *value, const char *text);

/* Returns false, and leaves *integer or *real unchanged, if the value is not a
 * number, too large, or not an integer (1e3 and 1.0 are not integers). */
bool json_integer(const Json *value, int64_t *integer);
bool json_real(const Json *value, double *real);

/* The value's text for a message; "missing" for NULL. */
const char *json_shown(const Json *value);

/* The first member of a list; NULL if it is empty, or the value is not a list
 * of this kind. The members of an object are its keys; the value of a key is
 * key + 1. */
const Json *json_members(const Json *value, JsonKind kind);

/* for each member v of a list, or key of an object */
#define JSON_EACH(v, value, kind)                                              \
    for (const Json *v = json_members(value, kind); v; v = v->next)

/* The JSON form of the UTF-8 character at s[left], left > 0: itself or an
 * escape; U+FFFD for invalid bytes. Sets *length to the number of bytes read.
 * The result ends with a zero byte and is valid until the next call. */
const char *json_escape(const char *s, size_t left, size_t *length);

/* The value of a key, by linear search; NULL if the key is missing or `object`
 * is not an object; an empty list, shown as "given twice", if it stands there
 * twice. */
const Json *json_get(const Json *object, const char *key);
