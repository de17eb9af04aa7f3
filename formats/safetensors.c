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

/* Reads a tensor's type, and returns the bytes of a number in the file; 0: it
 * is no type of weights. */
static size_t read_type(Stored *t, const Json *dtype) {
    static const struct {
        const char *name;
        Type type; /* in memory */
        size_t bytes;
    } types[] = {{"F32", TYPE_F32, 4},
                 {"F16", TYPE_F16, 2},
                 {"BF16", TYPE_BF16, 2},
                 {"F64", TYPE_F32, 8}};
    for (size_t i = 0; i < COUNT(types); i++)
        if (json_is(dtype, types[i].name)) {
            t->type = types[i].type;
            t->doubles = types[i].bytes == sizeof(double);
            return types[i].bytes;
        }
    const char *name = json_shown(dtype);
    t->type = TYPE_F32;
    t->other_type = (String){name, strlen(name)};
    return 0;
}

/* Reads a tensor's shape into its dims, those beyond the last 3 left out: such
 * tensors are never used. Multiplies *bytes by its sizes. */
static int read_shape(Stored *t, const Json *shape, size_t *bytes) {
    enum { USED_DIMS = 3, MAX_DIMS = 5 };
    if (!json_has_kind(shape, JSON_ARRAY) || shape->length > MAX_DIMS)
        return bad_tensor(t,
                          ": shape is %s, expected a list of at most %d sizes",
                          json_shown(shape), MAX_DIMS);
    int dim = USED_DIMS - (int)min_size(shape->length, USED_DIMS);
    JSON_EACH(size, shape, JSON_ARRAY) {
        int64_t n;
        if (!json_integer(size, &n) || n < 0 || n > INT_MAX ||
            !multiply_sizes(*bytes, n, bytes))
            return bad_tensor(
                t, ": shape has %s in it, expected the sizes of a tensor",
                json_shown(size));
        if (dim < USED_DIMS)
            t->dims[dim++] = (int)n;
    }
    return 0;
}

/* Reads a tensor's type, shape and place. place_tensors() checks that it is in
 * the file. A tensor of a type that norma does not read is not judged, unless
 * the model uses it. */
static int read_tensor(Stored *t, const Json *tensor) {
    const Json *place = json_get(tensor, "data_offsets");
    int64_t begin, end;
    size_t bytes = read_type(t, json_get(tensor, "dtype"));
    if (read_shape(t, json_get(tensor, "shape"), &bytes))
        return -1;
    if (!json_has_kind(place, JSON_ARRAY) || place->length != 2 ||
        !json_integer(place + 1, &begin) || !json_integer(place + 2, &end) ||
        begin < 0 || end < begin)
        return bad_tensor(t, ": data_offsets is %s, expected its begin and end",
                          json_shown(place));
    t->bytes = end - begin;
    t->offset = begin;
    if (t->other_type.n) {
        t->used = true; /* need not be */
        memset(t->dims, 0, sizeof t->dims);
        return 0;
    }
    if (t->bytes == bytes)
        return 0;
    return bad_tensor(t, " has %zu bytes, its shape needs %zu", t->bytes,
                      bytes);
}

/* Rounds the tensors of doubles to float32, in memory that the model owns. */
static int round_doubles(Safetensors *s, Model *m) {
    size_t n = 0;
    EACH(Stored, t, s->tensors, s->n_tensors)
        if (t->doubles)
            n += t->bytes / sizeof(double);
    if (!n)
        return 0;
    float *to = m->rounded = allocate(n, sizeof *to);
    if (!to)
        return -1;
    EACH(Stored, t, s->tensors, s->n_tensors) {
        if (!t->doubles)
            continue;
        const uint8_t *from = t->data;
        t->data = (const uint8_t *)to;
        t->bytes /= 2;
        for (size_t left = t->bytes; left; left -= sizeof *to) {
            double number;
            memcpy(&number, from, sizeof number);
            *to++ = (float)number;
            from += sizeof number;
        }
    }
    return 0;
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

/* Where the index says that a tensor is. */
typedef struct {
    String tensor, file;
} Place;

static bool is_name(const Json *name) {
    return name->kind == JSON_STRING && strlen(name->text) == name->length &&
           !strchr(name->text, '/');
}

/* Maps each file of the index once, in the order of names. */
static int add_files(Safetensors *s, Model *m, const char *folder,
                     const Place *places, size_t n) {
    String *names = allocate(n + 1, sizeof *names);
    if (!names)
        return -1;
    for (size_t i = 0; i < n; i++)
        names[i] = places[i].file;
    sort_by_name(names, n, sizeof *names);
    int status = 0;
    for (size_t i = 0; i < n && !status; i++)
        if (!i || !string_is(names[i], names[i - 1].text))
            status = add_shard(s, m, folder, names[i].text);
    free(names);
    return status;
}

/* Of tensors with the same name in several files, keeps those of the file that
 * the index names. */
static void drop_copies(Safetensors *s, const Place *places, size_t n) {
    Stored *all = s->tensors, *end = all + s->n_tensors, *kept = all;
    sort_by_name(all, s->n_tensors, sizeof *all);
    for (Stored *t = all; t < end; t++) {
        const Place *place =
            find_by_name(t->name.text, places, n, sizeof *places);
        String before = t > all ? t[-1].name : (String){"", 0};
        String after = t + 1 < end ? t[1].name : (String){"", 0};
        bool copied =
            string_is(t->name, before.text) || string_is(t->name, after.text);
        const char *file = t->path + folder_size(t->path);
        if (!copied || !place || string_is(place->file, file))
            *kept++ = *t;
    }
    s->n_tensors = kept - all;
}

/* Reads the index of several files. Which tensor is in which file is read from
 * the files; the index decides if it is in several. */
static int add_shards(Safetensors *s, Model *m, const char *folder,
                      const JsonFile *index) {
    const Json *map = json_get(index->values, "weight_map");
    if (!json_has_kind(map, JSON_OBJECT))
        return fail("%s: weight_map is %s, expected an object", index->path,
                    json_shown(map));
    Place *places = allocate((size_t)map->length + 1, sizeof *places);
    size_t n = 0;
    int status = places ? 0 : -1;
    JSON_EACH(key, map, JSON_OBJECT) {
        const Json *name = key + 1;
        if (!status && !is_name(name))
            status = fail(
                "%s: weight_map: %.64s is in '%.64s', expected a file name in the same folder",
                index->path, key->text, name->text);
        if (!status)
            places[n++] =
                (Place){{key->text, key->length}, {name->text, name->length}};
    }
    if (!status)
        status = add_files(s, m, folder, places, n);
    if (!status) {
        sort_by_name(places, n, sizeof *places);
        drop_copies(s, places, n);
    }
    free(places);
    return status;
}

/* Says why a folder has no weights that norma reads. */
static int refuse_folder(const char *folder) {
    char found[PATH_MAX];
    if (list_files(folder, "adapter_config.json", found))
        return fail(
            "%s: is an adapter, not a model; merge it into its base model first (peft: merge_and_unload, then save_pretrained)",
            folder);
    if (list_files(folder, "*-of-*.safetensors", found))
        return fail(
            "%s: model.safetensors.index.json is missing, which names the parts of the model",
            folder);
    return fail(
        "%s: is a directory without model.safetensors and its index; scripts/bin_to_safetensors.py converts PyTorch's files",
        folder);
}

/* Adds the file, or the files that an index names. */
static int add_weights(Safetensors *s, Model *m, const char *folder,
                       const char *name) {
    char path[2 * PATH_MAX];
    JsonFile index = {0};
    const char *ending = strstr(name, ".safetensors.index.json");
    if (!ending || strcmp(ending, ".safetensors.index.json"))
        return add_shard(s, m, folder, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int status = json_open(&index, path) || add_shards(s, m, folder, &index);
    json_close(&index);
    return status ? -1 : 0;
}

int safetensors_open(Safetensors *s, Model *m, const char *folder,
                     const Json *named) {
    static const char *const usual[] = {"model.safetensors",
                                        "model.safetensors.index.json"};
    char path[PATH_MAX + 64];
    const char *name = NULL;
    *s = (Safetensors){0};
    if (!json_null(named)) {
        if (!is_name(named) || !named->length)
            return fail(
                "%s: transformers_weights is %s, expected a file name in the folder",
                folder, json_shown(named));
        name = named->text;
    }
    for (size_t i = 0; i < COUNT(usual) && !name; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, usual[i]);
        if (file_exists(path))
            name = usual[i];
    }
    if (!name)
        return refuse_folder(folder);
    if (add_weights(s, m, folder, name) ||
        sort_tensors(s->tensors, s->n_tensors))
        return -1;
    return round_doubles(s, m);
}

void safetensors_close(Safetensors *s) {
    for (Shard *next; s->shards; s->shards = next) {
        next = s->shards->next;
        json_close(&s->shards->header);
        free(s->shards);
    }
    free(s->tensors);
}
