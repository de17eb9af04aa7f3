/* safetensors.c: the files with the weights of a Hugging Face folder.
 *
 * Owns the format of a file (8 bytes: the length of the header; the header in JSON; the data) and of the index of
 * several files. reader.c and family.c know the names of tensors. */
#include "formats/safetensors.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/json.h"
#include "formats/parts.h"
#include "formats/stored.h"
#include <limits.h>
#include <stdlib.h>

enum { MAX_SHARDS = 4096 };

typedef struct Shard {
    struct Shard *next; /* the file added before it */
    JsonFile header;    /* owns the tensors' names */
    char path[];
} Shard;

/* Reports a failure with a tensor of a file. Returns -1. */
#define bad_tensor(t, format, ...) fail("%s: %.*s" format, (t)->path, SHOWN((t)->name), ##__VA_ARGS__)

/* Reads the shape; *count becomes the number of elements. */
static int read_dims(Stored *t, const Json *shape, size_t *count) {
    enum { MAX_DIMS = 3 };
    if (!json_has_kind(shape, JSON_ARRAY) || shape->n_members > MAX_DIMS)
        return bad_tensor(t, ": shape is %s, expected a list of at most %d sizes", json_shown(shape), MAX_DIMS);
    int *dim = t->dims + MAX_DIMS - shape->n_members;
    *count = 1;
    for (const Json *size = json_first(shape); size; size = json_next(shape, size)) {
        int64_t n;
        if (!json_integer(size, &n) || n < 0 || n > INT_MAX)
            return bad_tensor(t, ": shape has %s in it, expected 0 to %d", json_shown(size), INT_MAX);
        *dim++ = (int)n;
        if (!multiply(*count, (size_t)n, count)) return bad_tensor(t, ": shape has more elements than any file");
    }
    return 0;
}

static int read_type(Stored *t, const Json *dtype) {
    t->type = json_is(dtype, "BF16") ? TYPE_BF16 : json_is(dtype, "F16") ? TYPE_F16 : TYPE_F32;
    if (t->type != TYPE_F32 || json_is(dtype, "F32")) return 0;
    return bad_tensor(t, ": dtype is %s, expected F32, F16 or BF16", json_shown(dtype));
}

/* Reads [begin, end), the tensor's bytes in the data. Checks that they are in the file and hold `count` elements. */
static int read_offsets(Stored *t, const Json *offsets, size_t count, const File *file, size_t start) {
    const size_t room = file->size - start, width = (size_t)TYPES[t->type].bytes;
    int64_t begin, end;
    if (!json_has_kind(offsets, JSON_ARRAY) || offsets->n_members != 2 || !json_integer(offsets + 1, &begin) ||
        !json_integer(offsets + 2, &end) || begin < 0 || end < begin)
        return bad_tensor(t, ": data_offsets is %s, expected its begin and end", json_shown(offsets));
    if ((uint64_t)end > room)
        return bad_tensor(t, " ends at byte %lld of the data, the file has %zu (truncated?)", (long long)end, room);
    t->bytes = (size_t)(end - begin);
    if (t->bytes / width != count || t->bytes % width)
        return bad_tensor(t, " has %zu bytes, its shape needs %zu elements of %zu", t->bytes, count, width);
    t->offset = start + (size_t)begin;
    t->data = file->data + t->offset;
    return 0;
}

/* Checks that the tensors fill the data without gaps and overlaps. */
static int check_places(Stored *tensors, size_t n, const char *path, const File *file, size_t start) {
    qsort(tensors, n, sizeof *tensors, compare_offsets);
    size_t end = start;
    for (size_t i = 0; i < n; i++) {
        const Stored *t = &tensors[i];
        if (t->offset != end)
            return bad_tensor(t, " begins at byte %zu of the data, the one before it ends at %zu",
                              (size_t)t->offset - start, end - start);
        end += t->bytes;
    }
    if (end == file->size) return 0;
    return fail("%s: has %zu bytes, its tensors end at %zu", path, file->size, end);
}

static int read_header(Safetensors *s, Shard *shard, File *file) {
    uint64_t size = 0;
    const size_t room = file->size - sizeof size, first = s->n_tensors;
    if (file->size < sizeof size)
        return fail("%s: has %zu bytes, expected the length of a header", shard->path, file->size);
    memcpy(&size, file->data, sizeof size);
    if (size > room)
        return fail("%s: header of %llu bytes, expected at most %zu (truncated, or not a safetensors file?)",
                    shard->path, (unsigned long long)size, room);
    const size_t start = file->header = sizeof size + (size_t)size;
    if (json_parse(&shard->header, shard->path, (const char *)file->data + sizeof size, (size_t)size)) return -1;
    const Json *header = shard->header.values;
    if (header->kind != JSON_OBJECT)
        return fail("%s: the header is %s, expected an object", shard->path, json_shown(header));
    Stored *tensors = realloc(s->tensors, (first + header->n_members + 1) * sizeof *tensors);
    if (!tensors) return fail("%s: out of memory", shard->path);
    s->tensors = tensors;
    for (const Json *key = json_first(header); key; key = json_next(header, key)) {
        if (json_is(key, "__metadata__")) continue;
        Stored *t = &tensors[s->n_tensors++];
        *t = (Stored){.name = {key->text, key->length}, .path = shard->path, .dims = {1, 1, 1}};
        size_t count;
        if (read_type(t, json_get(key + 1, "dtype")) || read_dims(t, json_get(key + 1, "shape"), &count) ||
            read_offsets(t, json_get(key + 1, "data_offsets"), count, file, start))
            return -1;
    }
    return check_places(tensors + first, s->n_tensors - first, shard->path, file, start);
}

static int add_shard(Safetensors *s, Model *m, const char *folder, const char *name) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    Shard *shard = allocate(1, sizeof *shard + size);
    if (!shard) return -1;
    *shard = (Shard){.next = s->shards};
    s->shards = shard;
    snprintf(shard->path, size, "%s/%s", folder, name);
    return model_map(m, shard->path) || read_header(s, shard, &m->files[m->n_files - 1]) ? -1 : 0;
}

/* Whether a value of the index is the name of a file in the same folder. */
static bool is_plain_name(const Json *name) {
    return name->kind == JSON_STRING && name->length > 0 && strlen(name->text) == name->length &&
           !strchr(name->text, '/') && strcmp(name->text, ".") && strcmp(name->text, "..");
}

static int compare_strings(const void *a, const void *b) {
    return strcmp((*(const Json *const *)a)->text, (*(const Json *const *)b)->text);
}

/* Maps each file of the index once, in the order of names. */
static int add_shards(Safetensors *s, Model *m, const char *folder, const char *index, const Json *map) {
    const Json **names = allocate(map->n_members, sizeof(Json *));
    size_t n = 0, n_files = 0;
    for (const Json *key = names ? json_first(map) : NULL; key; key = json_next(map, key)) names[n++] = key + 1;
    if (n) qsort(names, n, sizeof(Json *), compare_strings);
    for (size_t i = 0; i < n; i++)
        if (!n_files || compare_strings(&names[n_files - 1], &names[i])) names[n_files++] = names[i];
    int status = names ? 0 : -1;
    if (n_files > MAX_SHARDS) status = fail("%s: names %zu files, expected at most %d", index, n_files, MAX_SHARDS);
    for (size_t i = 0; i < n_files && !status; i++) status = add_shard(s, m, folder, names[i]->text);
    free(names);
    return status;
}

/* Maps the files of the index, and checks that each tensor is in its file. */
static int read_index(Safetensors *s, Model *m, const char *folder, const JsonFile *index) {
    const Json *map = json_get(index->values, "weight_map");
    const size_t start = strlen(folder) + 1;
    if (!json_has_kind(map, JSON_OBJECT))
        return fail("%s: weight_map is %s, expected an object", index->path, json_shown(map));
    for (const Json *key = json_first(map); key; key = json_next(map, key))
        if (!is_plain_name(key + 1))
            return fail("%s: weight_map: %.64s is in '%.64s', expected a file name in the same folder", index->path,
                        key->text, json_shown(key + 1));
    if (add_shards(s, m, folder, index->path, map)) return -1;
    if (sort_tensors(s->tensors, s->n_tensors)) return -1;
    for (const Json *key = json_first(map); key; key = json_next(map, key)) {
        const Stored *t = find_by_name(key->text, s->tensors, s->n_tensors, sizeof *t);
        if (!t || strcmp(t->path + start, key[1].text) != 0)
            return fail("%s: weight_map: %.64s is not in %.64s", index->path, key->text, key[1].text);
    }
    return 0;
}

/* Whether the folder has this file; its path goes into path[PATH_MAX]. */
static bool has_file(const char *folder, const char *name, char *path) {
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && file_exists(path);
}

static int no_weights(const char *folder) {
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_file(folder, others[i], path))
            return fail("%s: its weights are only in %s, a format that can run programs; "
                        "convert them with scripts/bin_to_safetensors.py",
                        folder, others[i]);
    return fail("%s: is a directory without model.safetensors or model.safetensors.index.json", folder);
}

int safetensors_open(Safetensors *s, Model *m, const char *folder) {
    char path[PATH_MAX];
    JsonFile index = {0};
    *s = (Safetensors){0};
    const int status = has_file(folder, "model.safetensors", path)
                           ? add_shard(s, m, folder, "model.safetensors") || sort_tensors(s->tensors, s->n_tensors)
                       : has_file(folder, "model.safetensors.index.json", path)
                           ? json_open(&index, path) || read_index(s, m, folder, &index)
                           : no_weights(folder);
    json_close(&index);
    if (status) safetensors_close(s);
    return status ? -1 : 0;
}

void safetensors_close(Safetensors *s) {
    for (Shard *next; s->shards; s->shards = next) {
        next = s->shards->next;
        json_close(&s->shards->header);
        free(s->shards);
    }
    free(s->tensors);
    *s = (Safetensors){0};
}
