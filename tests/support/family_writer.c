/* family_writer.c: small models of other families than LLaMA, as folders.
 *
 * Reads tests/golden/families/NAME.json, written by
 * scripts/golden/families.py, and computes the weights that this script
 * defines. folder_writer.c writes the folders.
 */
#include "base/file.h"
#include "formats/json.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"

#include "tests/support/family_writer.h"
#include "tests/support/folder_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int integer(const Json *value) {
    int64_t number = 0;
    if (!json_integer(value, &number))
        abort();
    return (int)number;
}

/* Extracts the text of config.json, which is between two lines of the file. */
static char *config_of(const char *path) {
    static const char begins[] = "\n\"config\": {\n", ends[] = "\n},\n";
    size_t size;
    char *text = file_read(path, &size), *config = NULL;
    const char *from = text ? strstr(text, begins) : NULL,
               *to = from ? strstr(from, ends) : NULL;
    if (!to || asprintf(&config, "{\n%.*s\n}\n",
                        (int)(to - from - (int)strlen(begins)),
                        from + strlen(begins)) < 0)
        abort();
    free(text);
    return config;
}

/* Reads a tensor's name and shape, such as ["model.norm.weight", [48]]. */
static void read_part(FolderPart *p, const Json *tensor) {
    const Json *name = json_members(tensor, JSON_ARRAY), *dims = name->next;
    *p = (FolderPart){.dims = {1, 1, 1}, .count = 1};
    snprintf(p->name, sizeof p->name, "%s", name->text);
    JSON_EACH(dim, dims, JSON_ARRAY) {
        if (p->n_dims == 3)
            abort();
        p->dims[p->n_dims] = integer(dim);
        p->count *= (size_t)p->dims[p->n_dims++];
    }
    p->values = malloc(p->count * sizeof *p->values);
    if (!p->values)
        abort();
}

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), length = strlen(end);
    return n >= length && !strcmp(name + n - length, end);
}

/* Computes the values of a tensor: a bias, a norm, the embedding or another
 * matrix. adds_one: gamma
 * - 1 is stored. */
static void fill_part(FolderPart *p, uint64_t seed, uint64_t id,
                      bool adds_one) {
    bool bias = ends_with(p->name, ".bias"), norm = p->n_dims == 1 && !bias;
    double mean = norm && !adds_one ? 1 : 0;
    double factor = bias   ? 1
                    : norm ? 0.5
                    : strstr(p->name, "embed_tokens")
                        ? 2
                        : (double)hash_factor(p->dims[p->n_dims - 1]);
    for (size_t i = 0; i < p->count; i++)
        p->values[i] =
            (float)(mean + factor * (double)hash_uniform(seed, id, i));
}

int family_open(Family *f, const char *name) {
    char path[96];
    JsonFile json;
    snprintf(path, sizeof path, "tests/golden/families/%s.json", name);
    *f = (Family){0};
    if (json_open(&json, path))
        return -1;
    const Json *config = json_get(json.values, "config"),
               *tensors = json_get(json.values, "tensors");
    const Json *tokens = json_get(json.values, "tokens"),
               *type = json_get(config, "model_type");
    uint64_t seed = (uint64_t)integer(json_get(json.values, "seed"));
    f->config = config_of(path);
    f->vocab_size = integer(json_get(config, "vocab_size"));
    f->parts = calloc(tensors->length, sizeof *f->parts);
    if (!f->parts || tokens->length != FAMILY_TOKENS)
        abort();
    JSON_EACH(t, tensors, JSON_ARRAY) {
        FolderPart *part = &f->parts[f->n_parts];
        read_part(part, t);
        fill_part(part, seed, (uint64_t)f->n_parts++,
                  !strncmp(type->text, "gemma", 5));
    }
    int n = 0;
    JSON_EACH(t, tokens, JSON_ARRAY)
        f->tokens[n++] = integer(t);
    json_close(&json);
    return 0;
}

void family_close(Family *f) {
    for (int i = 0; i < f->n_parts; i++)
        free(f->parts[i].values);
    free(f->parts);
    free(f->config);
}

int family_write(const Family *f, const char *folder, const FolderForm *form) {
    char path[512];
    if (folder_write_parts(f->parts, f->n_parts, folder, form))
        return -1;
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *out = fopen(path, "wb");
    return out && fputs(f->config, out) >= 0 && !fclose(out) ? 0 : -1;
}

void family_round(Family *f, Type type) {
    for (int i = 0; i < f->n_parts; i++) {
        FolderPart *p = &f->parts[i];
        uint8_t *bytes = malloc(2 * p->count);
        if (!bytes)
            abort();
        quantize_row(bytes, type, p->values, (int)p->count);
        dequantize_row(
            p->values,
            &(Tensor){
                .type = type, .rows = 1, .cols = (int)p->count, .data = bytes},
            0);
        free(bytes);
    }
}
