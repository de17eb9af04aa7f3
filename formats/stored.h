/* stored.h: the named contents of model files: values of keys, and tensors. */
#pragma once

#include "base/file.h"
#include "base/string.h"
#include "kernels/tensor.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Sorts n items of `size` bytes that begin with their name, a String. Returns
 * an item with a duplicate name; NULL if all names differ. */
const void *sort_by_name(void *items, size_t n, size_t size);

/* The item with this name in a sorted list; NULL if not found. */
void *find_by_name(const char *name, const void *items, size_t n, size_t size);

typedef enum {
    VALUE_MISSING,
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_STRING,
    VALUE_LIST
} ValueKind;

typedef struct {
    ValueKind kind;
    int64_t integer; /* an integer, or a bool as 0 or 1 */
    double real;     /* an integer or a real number */
    /* a string; other values as text for messages, or NULL */
    String string;
} StoredValue;

/* Whether a file gives the key a value; null counts as absent. */
static inline bool is_given(StoredValue v) {
    return v.kind != VALUE_MISSING && v.kind != VALUE_NULL;
}

/* The source of values, for messages. */
typedef struct {
    const char *path;
    char prefix[32]; /* what messages put before keys */
    int status; /* -1 after the first message; later ones are not printed */
    char expected[512]; /* refuse_stored()'s text after "expected" */
} Origin;

/* Prints "path: key is value, expected ..." and sets the status. */
#define refuse_stored(origin, key, v, ...)                                     \
    (snprintf((origin)->expected, sizeof(origin)->expected, __VA_ARGS__),      \
     refuse_value(origin, key, v))
void refuse_value(Origin *o, const char *key, StoredValue v);

/* Checks a value, which a missing one and null fail. Returns it, or after a
 * refusal a value within the limits. */
int64_t value_integer(Origin *o, const char *key, StoredValue v, int64_t min,
                      int64_t max);
/* finite and positive */
double value_real(Origin *o, const char *key, StoredValue v);
/* positive and normal in float32 */
float value_float(Origin *o, const char *key, StoredValue v);

/* The same for a string; an empty one if it is missing or null. */
String value_string(Origin *o, const char *key, StoredValue v);

/* A tensor in a file. */
typedef struct {
    String name;
    const char *path; /* its file */
    Type type;
    /* the name of a type that norma does not read; no text: it reads it */
    String other_type;
    /* matrices, rows, columns; 1 for dimensions that the file does not have;
     * zeros with other_type */
    int dims[3];
    const uint8_t *data;
    uint64_t offset; /* where data begins in the file */
    size_t bytes;
    bool used;    /* initially false */
    bool doubles; /* float64 in the file */
} Stored;

/* Reports a bad tensor. Returns -1. */
#define bad_tensor(t, format, ...)                                             \
    fail("%s: tensor %.*s" format, (t)->path, SHOWN((t)->name), ##__VA_ARGS__)

/* Places tensors, whose offsets are from the start of the data on, in their
 * file. Returns -1 and a message if one is not inside the file, not aligned, or
 * overlaps another. */
int place_tensors(Stored *tensors, size_t n, const File *file, size_t start,
                  size_t alignment);

/* Sorts tensors by name. Returns -1 and a message if two have the same name. */
int sort_tensors(Stored *tensors, size_t n);
