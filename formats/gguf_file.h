/* gguf_file.h: the container of a GGUF file: metadata and tensor table. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "kernels/tensor.h"

enum { GGUF_MAGIC = 0x46554747, GGUF_VERSION = 3, GGUF_ALIGNMENT = 32 };

typedef uint32_t GgufType; /* of a value: a number in the file */
enum { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY };
enum { GGUF_U64 = GGUF_ARRAY + 1, GGUF_I64, GGUF_F64, GGUF_N_TYPES };

typedef struct {
    const char *text; /* not zero-terminated */
    size_t n;
} GgufString;

#define SHOWN(s) (int)((s).n < 64 ? (s).n : 64), (s).text /* a GgufString for %.*s */

typedef struct {
    GgufString key;
    GgufType type; /* of the elements, if it is an array */
    bool is_array;
    uint64_t count;    /* elements; 1 if it is no array */
    const uint8_t *at; /* the first element */
    size_t bytes;      /* of all elements */
} GgufValue;

typedef struct {
    GgufString name;
    Type type;
    int depth, rows, cols; /* depth: number of matrices, up to MAX_EXPERTS */
    const uint8_t *data;
    uint64_t offset; /* in the data section */
    size_t bytes;    /* of all matrices */
    bool used;       /* by a reader; gguf_open leaves it false */
} GgufEntry;

typedef struct {
    const char *path;
    const uint8_t *data;
    size_t size, at;
    GgufValue *values; /* [n_values], sorted by key, owned */
    size_t n_values;
    GgufEntry *entries; /* [n_entries], sorted by name, owned */
    size_t n_entries;
} Gguf;

/* Failures that name a metadata key (a C string) or a tensor (a GgufString) of the file; -1. */
#define bad_key(g, key, format, ...)     fail("%s: metadata key %s " format, (g)->path, key, ##__VA_ARGS__)
#define bad_tensor(g, name, format, ...) fail("%s: tensor %.*s " format, (g)->path, SHOWN(name), ##__VA_ARGS__)

/* Reads the metadata and the tensor table of a mapped file. The caller closes it, also after a failure. */
int gguf_open(Gguf *g, const char *path, const File *file);
void gguf_close(Gguf *g);

/* NULL: the file has none of this name. */
const GgufValue *gguf_find_value(const Gguf *g, const char *key);
GgufEntry *gguf_find_entry(const Gguf *g, const char *name);

/* What a key says, and the type that it is read into. */
typedef enum {
    KEY_SIZE,    /* int: an integer from 1 to 2^31 - 1 */
    KEY_INTEGER, /* int64_t: an integer or a bool */
    KEY_FLOAT,   /* float: a real number that is finite as such */
    KEY_REAL,    /* double: a real number, finite */
    KEY_NUMBER,  /* double: an integer, a bool or a real number */
    KEY_STRING,  /* GgufString */
    KEY_NO_FIELD /* nothing that is read */
} KeyKind;

/* Leaves *value unchanged where the key is missing. -1: it has a value of another kind, or is missing, and *value is no
 * size where one is expected. */
int gguf_get(const Gguf *g, const char *key, KeyKind kind, void *value);

/* An element of an array that is there and has it; -1: it is no integer. */
int gguf_get_element(const Gguf *g, const char *key, int i, int64_t *value);

/* The next string, at *at, of an array of strings that ends at `end`; *at moves behind it. It lies inside the array,
 * also where another process has changed its length since gguf_open walked along all. */
GgufString gguf_next_string(const uint8_t **at, const uint8_t *end);

bool gguf_string_is(GgufString s, const char *text);
