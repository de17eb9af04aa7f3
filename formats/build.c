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

#include <stdlib.h>
#include <string.h>

/* For one token one row of the embedding is read (all if the output is tied to it), and the experts that it uses. */
void model_complete(Model *m) {
    Config *c = &m->config;
    size_t expert_bytes = 0;
    bool dense = false;
    for (PartAt at = parts_of(m); next_part(&at);) {
        const Tensor *w = part_weight(&at);
        const size_t cols = (size_t)part_size(c, at.part->cols);
        const bool has_vector = w ? w->bias != NULL : part_norm(&at)->beta != NULL;
        const size_t vectors = w ? has_vector * (size_t)w->rows : cols * (1 + (size_t)has_vector);
        m->parameters += vectors + (w ? (size_t)w->rows * cols : 0);
        m->decode_bytes += vectors * sizeof(float);
        if (!w) continue;
        const bool row_only = w == &m->embedding && !m->tied;
        *(at.part->owner == OF_EXPERT ? &expert_bytes : &m->decode_bytes) += tensor_bytes(w, row_only ? 1 : w->rows);
        dense |= at.part->owner == OF_MLP;
    }
    if (!dense) c->hidden_dim = c->expert_dim;
    if (expert_bytes) m->decode_bytes += expert_bytes / (size_t)c->n_experts * (size_t)c->n_experts_used;
}

int model_map(Model *m, const char *path) {
    File *files = realloc(m->files, ((size_t)m->n_files + 1) * sizeof *files);
    if (!files) return fail("%s: out of memory", path);
    m->files = files;
    if (file_map(&files[m->n_files], path)) return -1;
    m->n_files++;
    return 0;
}

static void *allocate_zeroed(int count, size_t size) {
    void *p = allocate((size_t)count, size);
    return p ? memset(p, 0, (size_t)count * size) : NULL;
}

int model_allocate_layers(Model *m) {
    const int n = m->config.n_layers;
    m->layers = allocate_zeroed(n, sizeof *m->layers);
    for (int l = 0; m->layers && l < n; l++) m->layers[l].index = l;
    return m->layers ? 0 : -1;
}

int model_allocate_experts(Model *m, int layer) {
    m->layers[layer].experts = allocate_zeroed(m->config.n_experts, sizeof(Mlp));
    return m->layers[layer].experts ? 0 : -1;
}

void model_close(Model *m) {
    PartAt at = parts_of(m);
    while (m->layers && next_part(&at))
        if (part_weight(&at)) free(part_weight(&at)->panels);
    if (m->tied) free(m->output.panels);
    for (int l = 0; m->layers && l < m->config.n_layers; l++) free(m->layers[l].experts);
    free(m->layers);
    free(m->rope_factors);
    free(m->vectors);
    for (int i = 0; i < m->n_files; i++) file_unmap(&m->files[i]);
    free(m->files);
    *m = (Model){0};
}
