/* safetensors.c: the files with the weights of a Hugging Face folder.
 *
 * Owns the format of a file (8 bytes: the length of the header; the header in
 * JSON; the data) and of the index of several files. reader.c and family.c know
 * the names of tensors.
 * Tests: folder, damage. */
#include "formats/safetensors.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/json.h"
#include "formats/parts.h"
#include <limits.h>
#include <stdlib.h>

typedef struct Shard {
    struct Shard *next; /* the file added before it */
    JsonFile header;    /* owns the tensors' names */
    char path[];
} Shard;

/* Reads a tensor's type, shape and place. place_tensors() checks that it is in
 * the file. */
static int read_tensor(Stored *t, const Json *tensor) {
    enum {
        USED_DIMS = 3,
        MAX_DIMS = 5
    }; /* tensors with more than 3 sizes are never used */
    const Json *dtype = json_get(tensor, "dtype"),
               *shape = json_get(tensor, "shape"),
               *place = json_get(tensor, "data_offsets");
    int64_t begin, end, n;
    t->type = json_is(dtype, "BF16")  ? TYPE_BF16
              : json_is(dtype, "F16") ? TYPE_F16
                                      : TYPE_F32;
    bool other = t->type == TYPE_F32 && !json_is(dtype, "F32");
    if (!json_has_kind(shape, JSON_ARRAY) || shape->length > MAX_DIMS)
        return bad_tensor(t,
                          ": shape is %s, expected a list of at most %d sizes",
                          json_shown(shape), MAX_DIMS);
    size_t bytes = TYPES[t->type].bytes;
    int *dim = t->dims + USED_DIMS - min_size(shape->length, USED_DIMS);
    JSON_EACH(size, shape, JSON_ARRAY) {
        if (!json_integer(size, &n) || n < 0 || n > INT_MAX ||
            !multiply_sizes(bytes, n, &bytes))
            return bad_tensor(
                t, ": shape has %s in it, expected the sizes of a tensor",
                json_shown(size));
        if (dim < t->dims + USED_DIMS)
            *dim++ = (int)n;
    }
    if (!json_has_kind(place, JSON_ARRAY) || place->length != 2 ||
        !json_integer(place + 1, &begin) || !json_integer(place + 2, &end) ||
        begin < 0 || end < begin)
        return bad_tensor(t, ": data_offsets is %s, expected its begin and end",
                          json_shown(place));
    t->bytes = end - begin;
    t->offset = begin;
    /* no weight: not judged, unless it is read */
    t->used = other;
    if (other)
        memset(t->dims, 0, sizeof t->dims);
    if (t->bytes == bytes || other)
        return 0;
    return bad_tensor(t, " has %zu bytes, its shape needs %zu", t->bytes,
                      bytes);
}

static int read_header(Safetensors *s, Shard *shard, File *file) {
    uint64_t size = 0;
    size_t first = s->n_tensors;
    size_t data = 0; /* bytes of the tensors, which fill the data */
    memcpy(&size, file->data, min_size(file->size, sizeof size));
    if (file->size < sizeof size || size > file->size - sizeof size)
        return fail(
            "%s: has %zu bytes, its header needs %llu (truncated, or not a safetensors file?)",
            shard->path, file->size, (unsigned long long)size);
    size_t start = file->header = sizeof size + size;
    if (json_parse(&shard->header, shard->path, file->data + sizeof size, size))
        return -1;
    const Json *header = shard->header.values;
    if (header->kind != JSON_OBJECT)
        return fail("%s: the header is %s, expected an object", shard->path,
                    json_shown(header));
    Stored *tensors =
        realloc(s->tensors, (first + header->length + 1) * sizeof *tensors);
    if (!tensors)
        return fail("%s: out of memory", shard->path);
    s->tensors = tensors;
    JSON_EACH(key, header, JSON_OBJECT) {
        if (json_is(key, "__metadata__"))
            continue;
        Stored *t = &tensors[s->n_tensors++];
        *t = (Stored){.name = {key->text, key->length},
                      .path = shard->path,
                      .dims = {1, 1, 1}};
        if (read_tensor(t, key + 1))
            return -1;
        data += t->bytes;
    }
    if (place_tensors(tensors + first, s->n_tensors - first, file, start, 1))
        return -1;
    if (data == file->size - start)
        return 0;
    return fail("%s: has %zu bytes of data, its tensors have %zu", shard->path,
                file->size - start, data);
}

static int add_shard(Safetensors *s, Model *m, const char *folder,
                     const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    Shard *shard = allocate(1, sizeof *shard + size);
    if (!shard)
        return -1;
    *shard = (Shard){.next = s->shards};
    s->shards = shard;
    snprintf(shard->path, size, "%s/%s", folder, name);
    return -(model_map(m, shard->path) ||
             read_header(s, shard, &m->files[m->n_files - 1]));
}

/* Maps each file of the index once, in the order of names. Which tensor is in
 * which file is read from the files. */
static int add_shards(Safetensors *s, Model *m, const char *folder,
                      const JsonFile *index) {
    const Json *map = json_get(index->values, "weight_map");
    if (!json_has_kind(map, JSON_OBJECT))
        return fail("%s: weight_map is %s, expected an object", index->path,
                    json_shown(map));
    String *names = allocate((size_t)map->length + 1, sizeof *names);
    size_t n = 0;
    int status = 0;
    if (!names)
        return -1;
    JSON_EACH(key, map, JSON_OBJECT) {
        const Json *name = key + 1;
        if (name->kind != JSON_STRING || strlen(name->text) != name->length ||
            strchr(name->text, '/')) {
            status = fail(
                "%s: weight_map: %.64s is in '%.64s', expected a file name in the same folder",
                index->path, key->text, name->text);
            break;
        }
        names[n++] = (String){name->text, name->length};
    }
    sort_by_name(names, n, sizeof *names);
    for (size_t i = 0; i < n && !status; i++)
        if (!i || !string_is(names[i], names[i - 1].text))
            status = add_shard(s, m, folder, names[i].text);
    free(names);
    return status;
}

int safetensors_open(Safetensors *s, Model *m, const char *folder) {
    /* also of a file whose path is too long to exist */
    char path[PATH_MAX + 64];
    JsonFile index = {0};
    int status;
    *s = (Safetensors){0};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (file_exists(path))
        status = add_shard(s, m, folder, "model.safetensors");
    else if (file_exists(strcat(path, ".index.json")))
        status = json_open(&index, path) || add_shards(s, m, folder, &index);
    else
        status = fail(
            "%s: is a directory without model.safetensors and its index; scripts/bin_to_safetensors.py converts PyTorch's files",
            folder);
    json_close(&index);
    return status ? -1 : sort_tensors(s->tensors, s->n_tensors);
}

void safetensors_close(Safetensors *s) {
    for (Shard *next; s->shards; s->shards = next) {
        next = s->shards->next;
        json_close(&s->shards->header);
        free(s->shards);
    }
    free(s->tensors);
}
