/* build.c: a Model while it is built, and its end.
 *
 * Owns the memory of a model: mapped files, layers, what is counted once it is whole. What is
 * in a file is its loader's.
 */
#include "formats/build.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/parts.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Model *model;
    size_t expert_bytes; /* of all experts */
} Count;

static void count_vector(Model *m, size_t n) {
    m->parameters += n;
    m->decode_bytes += n * sizeof(float);
}

static void count_tensor(void *arg, const char *name, const Tensor *w) {
    Count *count = arg;
    Model *m = count->model;
    m->parameters += (size_t)w->rows * (size_t)w->cols;
    if (w->bias) count_vector(m, (size_t)w->rows);
    const bool row_only = !strcmp(name, "embedding") && !m->tied;
    *(strstr(name, ".experts.") ? &count->expert_bytes : &m->decode_bytes) += tensor_bytes(w, row_only ? 1 : w->rows);
}

static void count_norm(void *arg, const char *name, const Norm *norm, int dim) {
    (void)name;
    count_vector(((Count *)arg)->model, (size_t)dim * (norm->beta ? 2 : 1));
}

void model_count(Model *m) {
    Count count = {.model = m};
    model_visit(m, count_tensor, count_norm, &count);
    if (count.expert_bytes) m->decode_bytes += count.expert_bytes / m->config.n_experts * m->config.n_experts_used;
}

int model_map(Model *m, const char *path) {
    File *files = realloc(m->files, ((size_t)m->n_files + 1) * sizeof *files);
    if (!files) return fail("%s: out of memory", path);
    m->files = files;
    if (file_map(&files[m->n_files], path)) return -1;
    m->n_files++;
    return 0;
}

int model_allocate_layers(Model *m) {
    m->layers = allocate((size_t)m->config.n_layers, sizeof *m->layers);
    if (!m->layers) return -1;
    memset(m->layers, 0, (size_t)m->config.n_layers * sizeof *m->layers);
    for (int l = 0; l < m->config.n_layers; l++) m->layers[l].index = l;
    return 0;
}

static void free_panels(void *arg, const char *name, const Tensor *w) {
    (void)arg;
    (void)name;
    free(w->panels);
}

void model_close(Model *m) {
    if (m->layers) model_visit(m, free_panels, NULL, NULL);
    if (m->tied) free(m->output.panels);
    for (int l = 0; m->layers && l < m->config.n_layers; l++) free(m->layers[l].experts);
    free(m->layers);
    free(m->rope_factors);
    free(m->vectors);
    for (int i = 0; i < m->n_files; i++) file_unmap(&m->files[i]);
    free(m->files);
    *m = (Model){0};
}
