/* gguf_file.c: the container of a GGUF file (versions 2 and 3, little-endian).
 *
 * Owns its layout: metadata (keys and typed values), the tensor table and where
 * each tensor's data lies. Every size is checked against the file before it is
 * used. What the keys and tensors mean is gguf.c's and gguf_tokenizer.c's.
 */
#include "formats/gguf_file.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "kernels/tensor.h"
#include "model.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 32, MAX_DIMS = 4 };

static const uint8_t VALUE_BYTES[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* ---- reading ------------------------------------------------------------------------- */

static bool has(const Gguf *g, uint64_t bytes) { return bytes <= g->size - g->at; }

static int cut_off(const Gguf *g) { return fail("%s: ends in its header, at byte %zu (truncated?)", g->path, g->at); }

static int read_u32(Gguf *g, uint32_t *value) {
    if (!has(g, sizeof *value)) return cut_off(g);
    memcpy(value, g->data + g->at, sizeof *value);
    g->at += sizeof *value;
    return 0;
}

static int read_u64(Gguf *g, uint64_t *value) {
    if (!has(g, sizeof *value)) return cut_off(g);
    memcpy(value, g->data + g->at, sizeof *value);
    g->at += sizeof *value;
    return 0;
}

int gguf_read_string(Gguf *g, GgufString *s) {
    uint64_t n = 0;
    if (read_u64(g, &n)) return -1;
    if (!has(g, n)) return cut_off(g);
    *s = (GgufString){(const char *)g->data + g->at, (size_t)n};
    g->at += (size_t)n;
    return 0;
}

static int compare_strings(GgufString a, GgufString b) {
    const int order = memcmp(a.text, b.text, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

#define SHOWN(s) (int)((s).n < 64 ? (s).n : 64), (s).text /* for %.*s */

/* ---- metadata ------------------------------------------------------------------------- */

static int read_value(Gguf *g, GgufValue *v) {
    uint32_t type = 0;
    if (gguf_read_string(g, &v->key) || read_u32(g, &type)) return -1;
    v->is_array = type == GGUF_ARRAY;
    v->count = 1;
    if (v->is_array && (read_u32(g, &type) || read_u64(g, &v->count))) return -1;
    if (type >= GGUF_N_TYPES || type == GGUF_ARRAY)
        return fail("%s: %.*s has values of type %u, expected 0 to 12 and no arrays in arrays", g->path, SHOWN(v->key),
                    type);
    v->type = (GgufType)type;
    v->at = g->data + g->at;
    if (v->type != GGUF_STRING) {
        if (v->count > (g->size - g->at) / VALUE_BYTES[type]) return cut_off(g);
        g->at += (size_t)v->count * VALUE_BYTES[type];
    } else {
        for (uint64_t i = 0; i < v->count; i++) {
            GgufString s = {0};
            if (gguf_read_string(g, &s)) return -1;
        }
    }
    v->bytes = (size_t)(g->data + g->at - v->at);
    return 0;
}

static int compare_values(const void *a, const void *b) {
    return compare_strings(((const GgufValue *)a)->key, ((const GgufValue *)b)->key);
}

static int read_values(Gguf *g, uint64_t count) {
    const size_t least = 8 + 4 + 1; /* bytes of the shortest */
    if (count > (g->size - g->at) / least)
        return fail("%s: %llu metadata keys do not fit in the file", g->path, (unsigned long long)count);
    g->n_values = (size_t)count;
    g->values = allocate(g->n_values, sizeof *g->values);
    if (!g->values) return -1;
    for (size_t i = 0; i < g->n_values; i++)
        if (read_value(g, &g->values[i])) return -1;
    qsort(g->values, g->n_values, sizeof *g->values, compare_values);
    for (size_t i = 1; i < g->n_values; i++)
        if (!compare_values(&g->values[i - 1], &g->values[i]))
            return fail("%s: metadata key %.*s is there twice", g->path, SHOWN(g->values[i].key));
    return 0;
}

const GgufValue *gguf_find_value(const Gguf *g, const char *key) {
    const GgufValue wanted = {.key = {key, strlen(key)}};
    return bsearch(&wanted, g->values, g->n_values, sizeof *g->values, compare_values);
}

static int wrong_type(const Gguf *g, const char *key, const char *expected) {
    return fail("%s: metadata key %s has another type than expected (%s)", g->path, key, expected);
}

/* The getters leave *value alone where the key is missing; -1: it is something else. */

int gguf_get_integer(const Gguf *g, const char *key, int64_t *value) {
    const GgufValue *v = gguf_find_value(g, key);
    if (!v) return 0;
    uint64_t bits = 0;
    if (v->is_array || v->type == GGUF_STRING || v->type == GGUF_F32 || v->type == GGUF_F64)
        return wrong_type(g, key, "an integer");
    memcpy(&bits, v->at, VALUE_BYTES[v->type]);
    if (v->type == GGUF_I8) bits = (uint64_t)(int8_t)bits;
    if (v->type == GGUF_I16) bits = (uint64_t)(int16_t)bits;
    if (v->type == GGUF_I32) bits = (uint64_t)(int32_t)bits;
    *value = (int64_t)bits;
    return 0;
}

/* A size: 1 to 2^31 - 1. */
int gguf_get_size(const Gguf *g, const char *key, int *value) {
    int64_t wide = *value;
    if (gguf_get_integer(g, key, &wide)) return -1;
    if (wide < 1 || wide > INT_MAX)
        return fail("%s: metadata key %s is %lld, expected 1 to %d", g->path, key, (long long)wide, INT_MAX);
    *value = (int)wide;
    return 0;
}

int gguf_get_real(const Gguf *g, const char *key, double *value) {
    const GgufValue *v = gguf_find_value(g, key);
    float narrow;
    if (!v) return 0;
    if (v->is_array || (v->type != GGUF_F32 && v->type != GGUF_F64)) return wrong_type(g, key, "a real number");
    if (v->type == GGUF_F64) {
        memcpy(value, v->at, sizeof *value);
    } else {
        memcpy(&narrow, v->at, sizeof narrow);
        *value = narrow;
    }
    return isfinite(*value) ? 0 : fail("%s: metadata key %s is no finite number", g->path, key);
}

int gguf_get_string(const Gguf *g, const char *key, GgufString *value) {
    const GgufValue *v = gguf_find_value(g, key);
    uint64_t n;
    if (!v) return 0;
    if (v->is_array || v->type != GGUF_STRING) return wrong_type(g, key, "a string");
    memcpy(&n, v->at, sizeof n);
    *value = (GgufString){(const char *)v->at + sizeof n, (size_t)n};
    return 0;
}

bool gguf_string_is(GgufString s, const char *text) { return s.n == strlen(text) && !memcmp(s.text, text, s.n); }

/* ---- the tensor table ------------------------------------------------------------------ */

static int read_entry(Gguf *g, GgufEntry *e) {
    uint64_t dims[MAX_DIMS] = {1, 1, 1, 1};
    uint32_t n_dims = 0, type = 0;
    if (gguf_read_string(g, &e->name) || read_u32(g, &n_dims)) return -1;
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return fail("%s: tensor %.*s has %u dimensions, expected 1 to %d", g->path, SHOWN(e->name), n_dims, MAX_DIMS);
    for (uint32_t i = 0; i < n_dims; i++)
        if (read_u64(g, &dims[i])) return -1;
    if (read_u32(g, &type) || read_u64(g, &e->offset)) return -1;
    e->cols = dims[0];
    e->rows = dims[1];
    e->depth = dims[2];
    if (e->cols < 1 || e->rows < 1 || e->cols > INT_MAX || e->rows > INT_MAX || e->depth < 1 ||
        e->depth > MOST_EXPERTS || dims[3] != 1)
        return fail("%s: tensor %.*s has shape [%llu, %llu, %llu, %llu], expected a vector, a matrix or up to %d",
                    g->path, SHOWN(e->name), (unsigned long long)dims[0], (unsigned long long)dims[1],
                    (unsigned long long)dims[2], (unsigned long long)dims[3], MOST_EXPERTS);
    if (type_from_gguf(type, &e->type))
        return fail("%s: tensor %.*s has type %u, which norma does not know", g->path, SHOWN(e->name), type);
    if (e->cols % (uint64_t)type_block(e->type))
        return fail("%s: tensor %.*s has rows of %llu, expected a multiple of %d for %s", g->path, SHOWN(e->name),
                    (unsigned long long)e->cols, type_block(e->type), type_name(e->type));
    /* rows and cols are below 2^31, and no type has more than 4 bytes a weight */
    const size_t matrix = tensor_bytes(&(Tensor){.type = e->type, .cols = (int)e->cols}, (int)e->rows);
    if (__builtin_mul_overflow(matrix, e->depth, &e->bytes))
        return fail("%s: tensor %.*s has more bytes than any file", g->path, SHOWN(e->name));
    return 0;
}

static int compare_entries(const void *a, const void *b) {
    return compare_strings(((const GgufEntry *)a)->name, ((const GgufEntry *)b)->name);
}

static int compare_offsets(const void *a, const void *b) {
    const uint64_t x = ((const GgufEntry *)a)->offset, y = ((const GgufEntry *)b)->offset;
    return (x > y) - (x < y);
}

/* Every tensor must lie in the file, aligned, and over no other. */
static int place_entries(Gguf *g) {
    int64_t alignment = DEFAULT_ALIGNMENT;
    if (gguf_get_integer(g, "general.alignment", &alignment)) return -1;
    if (alignment < 4 || alignment > 1 << 20 || (alignment & (alignment - 1)))
        return fail("%s: general.alignment is %lld, expected a power of two from 4 on", g->path, (long long)alignment);
    const uint64_t a = (uint64_t)alignment, start = (g->at + a - 1) / a * a,
                   room = g->size < start ? 0 : g->size - start;
    qsort(g->entries, g->n_entries, sizeof *g->entries, compare_offsets);
    uint64_t end = 0;
    for (size_t i = 0; i < g->n_entries; i++) {
        GgufEntry *e = &g->entries[i];
        if (e->offset % a || e->offset < end)
            return fail("%s: tensor %.*s begins at byte %llu of the data, %s", g->path, SHOWN(e->name),
                        (unsigned long long)e->offset, e->offset % a ? "which is not aligned" : "inside another one");
        if (e->offset > room || e->bytes > room - e->offset)
            return fail("%s: tensor %.*s ends behind the end of the file (truncated?)", g->path, SHOWN(e->name));
        e->data = g->data + start + e->offset;
        end = e->offset + e->bytes;
    }
    qsort(g->entries, g->n_entries, sizeof *g->entries, compare_entries);
    for (size_t i = 1; i < g->n_entries; i++)
        if (!compare_entries(&g->entries[i - 1], &g->entries[i]))
            return fail("%s: tensor %.*s is there twice", g->path, SHOWN(g->entries[i].name));
    return 0;
}

static int read_entries(Gguf *g, uint64_t count) {
    const size_t least = 8 + 4 + 8 + 4 + 8;
    if (count > (g->size - g->at) / least)
        return fail("%s: %llu tensors do not fit in the file", g->path, (unsigned long long)count);
    g->n_entries = (size_t)count;
    g->entries = allocate(g->n_entries, sizeof *g->entries);
    if (!g->entries) return -1;
    for (size_t i = 0; i < g->n_entries; i++) {
        g->entries[i] = (GgufEntry){0};
        if (read_entry(g, &g->entries[i])) return -1;
    }
    return place_entries(g);
}

int gguf_open(Gguf *g, const char *path, const File *file) {
    uint32_t magic = 0, version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    *g = (Gguf){.path = path, .data = file->data, .size = file->size};
    if (read_u32(g, &magic) || read_u32(g, &version)) return -1;
    if (version != 2 && version != 3)
        return fail("%s: GGUF version is %u, expected 2 or 3 (little-endian)", path, version);
    if (read_u64(g, &n_tensors) || read_u64(g, &n_values)) return -1;
    return read_values(g, n_values) || read_entries(g, n_tensors) ? -1 : 0;
}

void gguf_close(Gguf *g) {
    free(g->values);
    free(g->entries);
}

GgufEntry *gguf_find_entry(const Gguf *g, const char *name) {
    const GgufEntry wanted = {.name = {name, strlen(name)}};
    return bsearch(&wanted, g->entries, g->n_entries, sizeof *g->entries, compare_entries);
}
