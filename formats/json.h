/* json.h: JSON texts as flat arrays of values.
 */
#ifndef NORMA_JSON_H
#define NORMA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH = 64, JSON_MOST = 1 << 30 }; /* levels of lists in lists; bytes of a text */

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

/* A value. Values stand in the order of the text: those in a list follow it, and
 * in an object each value follows its key, a string. */
typedef struct {
    JsonKind kind;
    uint32_t length;    /* of a string in bytes, which may be zero bytes, too */
    uint32_t n_members; /* of a list: elements, or keys */
    uint32_t n_values;  /* the value and all that is in it */
    const char *text;   /* what a string says, UTF-8; else how it is written, or "a list"; zero-terminated */
} Json;

typedef struct {
    const char *path; /* not owned */
    Json *values;     /* owned; the first one is the whole text */
    char *text;       /* owned; of strings and numbers */
} JsonFile;

/* Reads one JSON value (RFC 8259): UTF-8 without lone surrogates, no object with a
 * key twice, at most JSON_DEPTH levels. Takes at most 16 bytes of memory for a byte
 * of text. `path` is for messages. The caller closes it. */
int json_parse(JsonFile *json, const char *path, const char *text, size_t size);
int json_open(JsonFile *json, const char *path);
void json_close(JsonFile *json);

/* The members of a list, one after the other; NULL: no more. In an object they
 * are the keys, and behind each (key + 1) is its value. */
const Json *json_first(const Json *list);
const Json *json_next(const Json *list, const Json *member);

/* The value of a key, by looking through them all; NULL if there is none, or
 * `object` is NULL or no object. */
const Json *json_get(const Json *object, const char *key);

/* Whether it is this string. */
bool json_is(const Json *value, const char *text);

/* False if it is NULL, no number, no integer (1e3 and 1.0 are none), or too large. */
bool json_integer(const Json *value, int64_t *integer);
bool json_real(const Json *value, double *real);

/* The value's text for a message; NULL is "missing". */
const char *json_shown(const Json *value);

/* What the value is; NULL (a missing one) is only null. */
bool json_has_kind(const Json *value, JsonKind kind);
bool json_true(const Json *value);
bool json_null(const Json *value);

/* The first member of a list of this kind; NULL if it has none, is NULL or something else. */
const Json *json_members(const Json *value, JsonKind kind);

#endif
