/* gguf_file.h: the container of a GGUF file: metadata and tensor table. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "formats/stored.h"

enum { GGUF_MAGIC = 0x46554747, GGUF_VERSION = 3, GGUF_ALIGNMENT = 32 };

typedef uint32_t GgufType; /* the type of a value, as the file numbers it */
enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

typedef struct {
    String key;
    GgufType type; /* the elements' type, if it is an array */
    bool is_array;
    uint64_t count;    /* elements; 1 if not an array */
    const uint8_t *at; /* the value, or the first element */
    size_t bytes;      /* bytes of all elements */
} GgufValue;

typedef struct {
    const char *path;
    const uint8_t *data;
    size_t size;       /* bytes of the file */
    size_t at;         /* bytes read so far */
    GgufValue *values; /* [n_values], sorted by key, owned */
    size_t n_values;
    Stored *tensors; /* [n_tensors], owned */
    size_t n_tensors;
} Gguf;

/* Reads the metadata of a mapped file, and adds its tensors to those of g,
 * which is otherwise empty. The caller closes g, even after a failure. */
int gguf_open(Gguf *g, const char *path, File *file);
void gguf_close(Gguf *g);

/* Finds a key. Returns NULL if the file does not have it. */
const GgufValue *gguf_find_value(const Gguf *g, const char *key);

/* The value of a key: VALUE_MISSING if the file does not have it, VALUE_LIST if
 * it is an array, except that an array of equal numbers counts as this number
 * (some converters write a size for each layer). And element i of an array. */
StoredValue gguf_get(const Gguf *g, const char *key);
StoredValue gguf_element(const GgufValue *array, int i);

/* Reads the string at *at in an array of strings; moves *at to the next. The
 * string is inside the array, even if another process has changed its length
 * since gguf_open() read it. */
String gguf_next_string(const GgufValue *array, const uint8_t **at);
