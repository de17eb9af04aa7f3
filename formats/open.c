/* open.c: finds and opens a checkpoint of any format, and its tokenizer.
 *
 * Owns how formats are recognized, the sizes derived from a complete model, and
 * the search for the tokenizer. The loaders read the files.
 * Tests: checkpoint, gguf, folder.
 */
#include "formats/open.h"
#include "base/error.h"
#include "base/file.h"
#include "base/platform.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "formats/llama2c.h"
#include "formats/parts.h"
#include <limits.h>
#include <stdlib.h>

/* Whether a path that does not exist looks like the name of a repository:
 * "org/name". */
static bool is_repository(const char *path) {
    const char *slash = strchr(path, '/');
    if (!slash || slash == path || !slash[1] || strchr(slash + 1, '/') ||
        strchr(".~", *path) || file_exists(path))
        return false;
    char organization[PATH_MAX];
    snprintf(organization, sizeof organization, "%.*s", (int)(slash - path),
             path);
    return !is_folder(organization) && !has_ending(path, ".gguf") &&
           !has_ending(path, ".bin");
}

const char *model_find(const char *path) {
    static char found[PATH_MAX];
    char snapshots[2 * PATH_MAX], revision[PATH_MAX], models[PATH_MAX];
    size_t n = 0;
    if (is_repository(path)) {
        fail("%s: no such folder; to fetch it from huggingface.co: hf download "
             "%s --local-dir %s",
             path, path, path);
        return NULL;
    }
    snprintf(snapshots, sizeof snapshots, "%s/snapshots", path);
    /* a name in this folder, and nowhere else */
    if (find_line(path, "refs/main", "", revision) && *revision &&
        *revision != '.' && !strchr(revision, '/') &&
        strlen(snapshots) + strlen(revision) + 1 < sizeof found) {
        strcat(strcat(strcpy(found, snapshots), "/"), revision);
        n = is_folder(found) ? 1 : 0;
    }
    if (!n)
        n = list_files(snapshots, "*", found);
    const char *folder = n ? found : path;
    if (n < 2 && (list_files(folder, "config.json", models) ||
                  !list_files(folder, "*.gguf", models)))
        return folder;
    fail("%s: is a folder of models; name one of them: %s", path,
         n < 2 ? models : found);
    return NULL;
}

/* Sets what depends on all parts of a model: the number of parameters, whether
 * some are BF16, and the bytes read per token (one row of the embedding, or all
 * rows if the output is tied; the experts in use). */
static void complete(Model *m) {
    const Config *c = &m->config;
    size_t expert_bytes = 0;
    if (!*m->type)
        strcpy(m->type, type_name(m->layers->wq.type));
    /* Q4_K_M and so on include the type of the output */
    if (m->output.type != m->layers->wq.type && !strstr(m->type, "_K_"))
        strcat(strcat(strcat(m->type, " with "), type_name(m->output.type)),
               " output");
    PART_EACH(at, m) {
        const Tensor *w = part_weight(&at);
        size_t rows = w ? w->rows : 0, cols = part_size(c, at.part->cols);
        bool has_vector = w ? w->bias : part_norm(&at)->beta;
        size_t vectors = w ? has_vector * rows : (1 + has_vector) * cols;
        m->parameters += vectors + rows * cols;
        m->decode_bytes += vectors * sizeof(float);
        if (!w)
            continue;
        const bool is_looked_up = w == &m->embedding && !m->tied;
        const size_t bytes = tensor_bytes(w, is_looked_up ? 1 : w->rows);
        if (at.part->owner == OF_EXPERT)
            expert_bytes += bytes;
        else
            m->decode_bytes += bytes;
    }
    if (expert_bytes)
        m->decode_bytes += expert_bytes / c->n_experts * c->n_experts_used;
}

static int open_any(Model *m, const char *path) {
    if (is_folder(path))
        return folder_read_model(m, path);
    if (model_map(m, path))
        return -1;
    if (gguf_is(m->files))
        return gguf_read_model(m, path);
    /* of a folder: JSON, or the length of a JSON header and the header */
    const File *file = m->files;
    if (*file->data == '{' ||
        (file->size > 9 && !memcmp(file->data + 8, "{\"", 2)))
        return fail("%s: is a file of a Hugging Face folder; name the folder",
                    path);
    return llama2c_read_model(m, path);
}

int model_open_vocabulary(Model *m, const char *path) {
    *m = (Model){.bos = -1, .eos = -1, .eos_ends = true};
    if (open_any(m, path)) {
        model_close(m);
        return -1;
    }
    m->kv_type = m->embedding.type == TYPE_F32 ? KV_F32 : KV_F16;
    if (m->layers)
        complete(m);
    return 0;
}

int model_open(Model *m, const char *path) {
    if (model_open_vocabulary(m, path))
        return -1;
    if (m->layers)
        return 0;
    model_close(m);
    return fail(
        "%s: has a vocabulary but no tensors; it works only with -m tokenize",
        path);
}

void model_close(Model *m) {
    free(m->shares);
    free(m->panels);
    for (int l = 0; m->layers && l < m->config.n_layers; l++)
        free(m->layers[l].experts);
    free(m->layers);
    free(m->rope_factors);
    free(m->long_factors);
    free(m->vectors);
    free(m->rounded);
    for (int i = 0; i < m->n_files; i++)
        file_unmap(&m->files[i]);
    free(m->files);
    *m = (Model){0};
}

/* Finds a tokenizer file. Writes its path, or the path of the missing file, to
 * path[PATH_MAX]. */
static bool find_tokenizer(char *path, const char *model_path) {
    if (is_folder(model_path)) {
        /* .json is looked for, and named if there is neither */
        for (int i = 0; i < 3; i++) {
            snprintf(path, PATH_MAX, "%s/tokenizer.%s", model_path,
                     i == 1 ? "model" : "json");
            if (file_exists(path))
                return true;
        }
        return false;
    }
    snprintf(path, PATH_MAX, "%.*stokenizer.bin", (int)folder_size(model_path),
             model_path);
    return file_exists(path) || file_exists(strcpy(path, "tokenizer.bin"));
}

/* Names the file that was not found, and those that norma does not read. */
static int refuse_tokenizer(const char *path, const char *folder) {
    char others[PATH_MAX] = "";
    /* tekken.json, vocab.json */
    list_files(folder, "[tv][eo][kc]*[bn].json", others);
    return fail("no tokenizer: %s not found%s%s; name one with -z", path,
                *others ? ", norma does not read " : "", others);
}

int model_open_tokenizer(Tokenizer *t, const Model *model,
                         const char *model_path, const char *path,
                         TokenizerUse use) {
    int vocab_size = model->config.vocab_size;
    char found[PATH_MAX];
    Tokenizer none = NO_TOKENIZER;
    none.n_before = model->bos >= 0;
    none.bos = model->bos;
    none.eos = model->eos;
    *t = none;
    if (use == TOKENIZER_UNUSED)
        return 0;
    if (!path) {
        bool needed = use == TOKENIZER_NEEDED;
        if (gguf_is(model->files))
            return gguf_read_tokenizer(t, model->files, model_path, vocab_size,
                                       needed);
        path = found;
        if (!find_tokenizer(found, model_path))
            return needed ? refuse_tokenizer(found, model_path) : 0;
    }
    bool of_folder = has_ending(path, ".json") || has_ending(path, ".model");
    bool optional =
        use == TOKENIZER_TO_SHOW || (of_folder && use == TOKENIZER_IF_READABLE);
    print_failures_as_notes(optional);
    int status = of_folder ? tokenizer_open_folder(t, path, vocab_size)
                           : tokenizer_open_bin(t, path, vocab_size);
    print_failures_as_notes(false);
    if (!status)
        return 1;
    *t = none;
    return optional ? 0 : -1;
}
