/* gguf_file.c: the container of a GGUF file (versions 2 and 3, little-endian).
 *
 * Owns its layout: metadata (keys and typed values), the tensor table and where
 * each tensor's data lies. Every size is checked against the file before it is
 * used. gguf.c and gguf_tokenizer.c interpret keys and tensors.
 * Tests: gguf, damage, mutants.
 */
#include "formats/gguf_file.h"
#include "base/memory.h"
#include "model.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

/* Skips `count` items of `size` bytes. */
static int skip(Gguf *g, uint64_t count, size_t size) {
    if (count > (g->size - g->at) / size)
        return fail("%s: ends in its header, at byte %zu (truncated?)", g->path,
                    g->at);
    g->at += count * size;
    return 0;
}

/* Copies n bytes of the map, reading each once: another process can change the
 * file between a check and a use. */
static void copy_once(void *to, const uint8_t *from, size_t n) {
    const volatile uint8_t *bytes = from;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = bytes[i];
}

static int read_bytes(Gguf *g, void *to, size_t n) {
    if (skip(g, n, 1))
        return -1;
    copy_once(to, g->data + g->at - n, n);
    return 0;
}

#define read_number(g, number) read_bytes(g, &(number), sizeof(number))

static int read_string(Gguf *g, String *s) {
    uint64_t n = 0;
    if (read_number(g, n) || skip(g, n, 1))
        return -1;
    *s = (String){(const char *)g->data + g->at - n, (size_t)n};
    return 0;
}

String gguf_next_string(const GgufValue *array, const uint8_t **at) {
    uint64_t n = 0;
    size_t left = array->at + array->bytes - *at;
    if (left < sizeof n)
        return (String){"", 0};
    copy_once(&n, *at, sizeof n);
    String s = {(const char *)*at + sizeof n, min_size(n, left - sizeof n)};
    *at += sizeof n + s.n;
    return s;
}

/* ---- metadata ----------------------------------------------------------- */

static int read_value(Gguf *g, GgufValue *v) {
    static const uint8_t value_bytes[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4,
                                                      1, 0, 0, 8, 8, 8};
    if (read_string(g, &v->key) || read_number(g, v->type))
        return -1;
    v->is_array = v->type == GGUF_ARRAY;
    v->count = 1;
    if (v->is_array && (read_number(g, v->type) || read_number(g, v->count)))
        return -1;
    if (v->type >= GGUF_N_TYPES || v->type == GGUF_ARRAY)
        return fail(
            "%s: %.*s has values of type %u, expected 0 to 12, and no array in an array",
            g->path, SHOWN(v->key), v->type);
    v->at = g->data + g->at;
    if (v->type != GGUF_STRING && skip(g, v->count, value_bytes[v->type]))
        return -1;
    for (uint64_t i = 0; v->type == GGUF_STRING && i < v->count; i++)
        if (read_string(g, &(String){0}))
            return -1;
    v->bytes = g->data + g->at - v->at;
    return 0;
}

/* Fails if the file is too short for `count` items of at least min_bytes. */
static int check_count(const Gguf *g, uint64_t count, size_t min_bytes,
                       const char *items) {
    return count <= (g->size - g->at) / min_bytes
               ? 0
               : fail("%s: %" PRIu64 " %s do not fit in the file", g->path,
                      count, items);
}

static int read_values(Gguf *g, uint64_t count) {
    if (check_count(g, count, 8 + 4 + 1, "metadata keys"))
        return -1;
    g->values = allocate(count, sizeof *g->values);
    if (!g->values)
        return -1;
    for (; g->n_values < count; g->n_values++)
        if (read_value(g, &g->values[g->n_values]))
            return -1;
    const GgufValue *twice =
        sort_by_name(g->values, g->n_values, sizeof *g->values);
    return twice ? fail("%s: metadata key %.*s appears twice", g->path,
                        SHOWN(twice->key))
                 : 0;
}

const GgufValue *gguf_find_value(const Gguf *g, const char *key) {
    return find_by_name(key, g->values, g->n_values, sizeof *g->values);
}

/* A bool is read as an integer. */
StoredValue gguf_element(const GgufValue *v, int i) {
    GgufType type = v->type;
    size_t bytes = v->bytes / v->count;
    const uint8_t *at = v->at + i * bytes;
    if (type == GGUF_STRING)
        return (StoredValue){VALUE_STRING, .string = gguf_next_string(v, &at)};
    union {
        uint64_t u64;
        float f32;
        double f64;
    } bits = {0};
    copy_once(&bits, at, bytes);
    bool single = type == GGUF_F32;
    if (single || type == GGUF_F64)
        return (StoredValue){VALUE_REAL, .real = single ? bits.f32 : bits.f64};
    int64_t integer = (int64_t)bits.u64;
    if (type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32) {
        const int unused = 64 - 8 * (int)bytes; /* bits above the sign */
        integer = (int64_t)(bits.u64 << unused) >> unused;
    }
    return (StoredValue){VALUE_INTEGER, .integer = integer,
                         .real = (double)integer};
}

StoredValue gguf_get(const Gguf *g, const char *key) {
    const GgufValue *v = gguf_find_value(g, key);
    if (!v)
        return (StoredValue){VALUE_MISSING, .string = {"missing", 7}};
    size_t bytes = v->is_array && v->count && v->type != GGUF_STRING
                       ? v->bytes / v->count
                       : 0;
    if (v->is_array &&
        (!bytes || memcmp(v->at, v->at + bytes, v->bytes - bytes)))
        return (StoredValue){VALUE_LIST, .string = {"a list", 6}};
    return gguf_element(v, 0);
}

/* ---- the tensor table --------------------------------------------------- */

/* Types of tensors by their number in GGUF files, also those that norma does
 * not read. */
static const char *const TYPE_NAMES[] = {
    "F32",        "F16",        "Q4_0",       "Q4_1",     "Q4_2",    "Q4_3",
    "Q5_0",       "Q5_1",       "Q8_0",       "Q8_1",     "Q2_K",    "Q3_K",
    "Q4_K",       "Q5_K",       "Q6_K",       "Q8_K",     "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S",    "IQ2_S",   "IQ4_XS",
    "I8",         "I16",        "I32",        "I64",      "F64",     "IQ1_M",
    "BF16",       "Q4_0_4_4",   "Q4_0_4_8",   "Q4_0_8_8", "TQ1_0",   "TQ2_0",
    "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",   "Q1_0"};

static int read_tensor(Gguf *g, Stored *e) {
    enum { MAX_DIMS = 4 };
    static const uint64_t max_dims[MAX_DIMS] = {INT_MAX, INT_MAX, MAX_EXPERTS,
                                                1};
    uint64_t dims[MAX_DIMS] = {1, 1, 1, 1};
    uint32_t n_dims = 0, type = 0;
    *e = (Stored){.path = g->path};
    if (read_string(g, &e->name) || read_number(g, n_dims))
        return -1;
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return bad_tensor(e, " has %u dimensions, expected 1 to %d", n_dims,
                          MAX_DIMS);
    if (read_bytes(g, dims, n_dims * sizeof *dims) || read_number(g, type) ||
        read_number(g, e->offset))
        return -1;
    for (int i = 0; i < MAX_DIMS; i++) {
        if (dims[i] < 1 || dims[i] > max_dims[i])
            return bad_tensor(e,
                              " has size %" PRIu64
                              " in dimension %d, expected 1 to %" PRIu64,
                              dims[i], i + 1, max_dims[i]);
        if (i < 3)
            e->dims[2 - i] = (int)dims[i];
    }
    int cols = e->dims[2];
    if (type_from_gguf(type, &e->type))
        return bad_tensor(
            e, " has type %u (%s), expected one of the types in docs/models.md",
            type, type < COUNT(TYPE_NAMES) ? TYPE_NAMES[type] : "unknown");
    if (cols % TYPES[e->type].weights)
        return bad_tensor(e,
                          " has rows of %d, expected a multiple of %d for %s",
                          cols, TYPES[e->type].weights, type_name(e->type));
    /* one matrix cannot overflow: rows and cols are below 2^31, and no type has
     * more than 4 bytes per weight */
    size_t matrix =
        tensor_bytes(&(Tensor){.type = e->type, .cols = cols}, e->dims[1]);
    if (!multiply_sizes(matrix, e->dims[0], &e->bytes))
        return bad_tensor(e, " has more bytes than any file");
    return 0;
}

/* Every tensor must be inside the file, aligned, and must not overlap
 * another. */
static int read_tensors(Gguf *g, File *file, uint64_t count) {
    size_t first = g->n_tensors;
    if (check_count(g, count, 8 + 4 + 8 + 4 + 8, "tensors"))
        return -1;
    Stored *tensors =
        realloc(g->tensors, (first + count + 1) * sizeof *tensors);
    if (!tensors)
        return fail("%s: out of memory", g->path);
    g->tensors = tensors;
    for (; g->n_tensors < first + count; g->n_tensors++)
        if (read_tensor(g, &g->tensors[g->n_tensors]))
            return -1;
    file->header = g->at;
    StoredValue given = gguf_get(g, "general.alignment");
    int64_t alignment =
        given.kind == VALUE_MISSING ? GGUF_ALIGNMENT : given.integer;
    if (alignment < 4 || alignment > 1 << 20 || (alignment & (alignment - 1)))
        return fail("%s: general.alignment is %" PRId64
                    ", expected a power of two from 4 to 1048576",
                    g->path, alignment);
    size_t start = (g->at + alignment - 1) / alignment * alignment;
    return place_tensors(g->tensors + first, count, file, start, alignment);
}

int gguf_open(Gguf *g, const char *path, File *file) {
    uint32_t magic = 0, version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    g->path = path;
    g->data = file->data;
    g->size = file->size;
    if (read_number(g, magic) || read_number(g, version))
        return -1;
    if (magic != GGUF_MAGIC || (version != 2 && version != 3))
        return fail("%s: GGUF version is %u, expected 2 or 3 (little-endian)",
                    path, version);
    if (read_number(g, n_tensors) || read_number(g, n_values) ||
        read_values(g, n_values))
        return -1;
    StoredValue type = gguf_get(g, "general.type");
    if (type.kind == VALUE_STRING
            ? !string_is(type.string, "model")
            : gguf_find_value(g, "clip.has_vision_encoder") != NULL)
        return fail(
            "%s: general.type is %.*s, expected model (adapters, imatrix and mmproj files are none)",
            path, SHOWN(type.string));
    return read_tensors(g, file, n_tensors);
}

void gguf_close(Gguf *g) {
    free(g->values);
    free(g->tensors);
}
