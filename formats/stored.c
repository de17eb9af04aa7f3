/* stored.c: checks the values of keys and the places of tensors; searches lists
 * sorted by name. family.c has the keys, json.c and gguf_file.c the file
 * formats.
 * Tests: folder, gguf. */
#include "formats/stored.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
    const String *x = a, *y = b;
    int order = memcmp(x->text, y->text, min_size(x->n, y->n));
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

const void *sort_by_name(void *items, size_t n, size_t size) {
    if (n)
        qsort(items, n, size, compare_names);
    for (char *item = items; n > 1; n--, item += size)
        if (!compare_names(item, item + size))
            return item;
    return NULL;
}

int sort_tensors(Stored *tensors, size_t n) {
    const Stored *t = sort_by_name(tensors, n, sizeof *tensors);
    return t ? fail("%s: tensor %.*s is also in %s", t->path, SHOWN(t->name),
                    t[1].path)
             : 0;
}

void *find_by_name(const char *name, const void *items, size_t n, size_t size) {
    return n ? bsearch(&(String){name, strlen(name)}, items, n, size,
                       compare_names)
             : NULL;
}

void refuse_value(Origin *o, const char *key, StoredValue v) {
    char number[32];
    if (v.kind == VALUE_INTEGER)
        snprintf(number, sizeof number, "%" PRId64, v.integer);
    else
        snprintf(number, sizeof number, "%g", v.real);
    if (!v.string.text)
        v.string = (String){number, strlen(number)};
    const char *quote = v.kind == VALUE_STRING ? "'" : "";
    if (!o->status)
        fail("%s: %s%s is %s%.*s%s, expected %s", o->path, o->prefix, key,
             quote, SHOWN(v.string), quote, o->expected);
    o->status = -1;
}

int64_t value_integer(Origin *o, const char *key, StoredValue v, int64_t min,
                      int64_t max) {
    if (v.kind == VALUE_INTEGER && v.integer >= min && v.integer <= max)
        return v.integer;
    refuse_stored(o, key, v, "a whole number from %" PRId64 " to %" PRId64, min,
                  max);
    return min;
}

double value_real(Origin *o, const char *key, StoredValue v) {
    if ((v.kind == VALUE_INTEGER || v.kind == VALUE_REAL) && v.real > 0 &&
        isfinite(v.real))
        return v.real;
    refuse_stored(o, key, v, "a positive number");
    return 1;
}

float value_float(Origin *o, const char *key, StoredValue v) {
    const double real = value_real(o, key, v);
    if (!isnormal((float)real))
        refuse_stored(o, key, v, "a positive number in float32");
    return (float)real;
}

String value_string(Origin *o, const char *key, StoredValue v) {
    if (is_given(v) && v.kind != VALUE_STRING)
        refuse_stored(o, key, v, "a string");
    return v.kind == VALUE_STRING ? v.string : (String){"", 0};
}

/* Empty tensors are first. */
static int compare_offsets(const void *a, const void *b) {
    const Stored *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int place_tensors(Stored *tensors, size_t n, const File *file, size_t start,
                  size_t alignment) {
    size_t room = start < file->size ? file->size - start : 0;
    uint64_t end = 0;
    qsort(tensors, n, sizeof *tensors, compare_offsets);
    EACH(Stored, t, tensors, n) {
        uint64_t offset = t->offset;
        if (offset % alignment || offset < end)
            return bad_tensor(
                t, " begins at byte %" PRIu64 " of the data, %s", offset,
                offset < end ? "inside another one" : "which is not aligned");
        if (offset > room || t->bytes > room - offset)
            return bad_tensor(t,
                              " ends after the end of the file (truncated?)");
        end = offset + t->bytes;
        t->offset = start + offset;
        t->data = file->data + t->offset;
    }
    return 0;
}
