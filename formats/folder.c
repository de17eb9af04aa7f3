/* folder.c: from a Hugging Face folder to a Model.
 *
 * Owns which of the folder's tensors is which part of the model: the table of parts names them and says their
 * shapes, config.json says which parts there are. The latter is folder_config.c's, the files that hold the tensors
 * are safetensors.c's.
 */
#include "formats/folder.h"

#include "base/error.h"
#include "base/memory.h"
#include "formats/build.h"
#include "formats/folder_config.h"
#include "formats/json.h"
#include "formats/parts.h"
#include "formats/safetensors.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *folder;
    Model *model;
    FolderConfig config;
    Safetensors weights;
    float *vectors; /* room for the next norm or bias */
} Folder;

/* ---- stored tensors ------------------------------------------------------------------------ */

/* The tensor `part` with `suffix` behind it; NULL: there is none. */
static StoredTensor *find_tensor(const Folder *f, const char *part, const char *suffix) {
    char name[2 * PART_NAME];
    snprintf(name, sizeof name, "%s%s", part, suffix);
    return safetensors_find(&f->weights, name);
}

/* Sizes as in "2, 3, 4". */
static const char *show_dims(char text[48], const int *dims, int n) {
    int length = 0;
    text[0] = '\0';
    for (int i = 0; i < n; i++) length += snprintf(text + length, 16, i ? ", %d" : "%d", dims[i]);
    return text;
}

/* The tensor, marked as used; NULL and a message if it is missing or of another shape. */
static const StoredTensor *require_tensor(const Folder *f, const char *part, const char *suffix, const int *dims,
                                          int n) {
    char found[48], expected[48];
    StoredTensor *t = find_tensor(f, part, suffix);
    if (t) t->used = true;
    if (t && t->n_dims == n && !memcmp(t->dims, dims, (size_t)n * sizeof *dims)) return t;
    if (t)
        fail("%s: %s is [%s], expected [%s]", t->path, t->name, show_dims(found, t->dims, t->n_dims),
             show_dims(expected, dims, n));
    else
        fail("%s: %s%s is in none of its files", f->folder, part, suffix);
    return NULL;
}

/* The matrix [rows, cols] that begins with element `first` of a tensor. */
static Tensor matrix_at(const StoredTensor *t, size_t first, int rows, int cols) {
    const size_t at = first * t->width;
    return (Tensor){.type = t->type, .rows = rows, .cols = cols, .data = t->data + at, .offset = t->offset + at};
}

/* ---- parts --------------------------------------------------------------------------------- */

/* The values [n] of a norm or a bias as float32; NULL and a message if they are not there. */
static const float *read_vector(Folder *f, const char *part, const char *suffix, int n) {
    const StoredTensor *t = require_tensor(f, part, suffix, &n, 1);
    if (!t) return NULL;
    const Tensor row = matrix_at(t, 0, 1, n);
    float *values = f->vectors;
    f->vectors += n;
    dequantize_row(values, &row, 0);
    return values;
}

static int read_norm(Folder *f, const PartAt *at, const char *name) {
    const int n = part_size(&f->model->config, at->part->cols);
    Norm *norm = part_norm(at);
    *norm = (Norm){.kind = NORM_RMS, .eps = f->config.eps, .gamma = read_vector(f, name, ".weight", n)};
    return norm->gamma ? 0 : -1;
}

static int read_weight(Folder *f, const PartAt *at, const char *name) {
    const Config *c = &f->model->config;
    const int rows = part_size(c, at->part->rows), cols = part_size(c, at->part->cols);
    const StoredTensor *t = require_tensor(f, name, ".weight", (int[]){rows, cols}, 2);
    Tensor *w = part_weight(at);
    if (!t) return -1;
    *w = matrix_at(t, 0, rows, cols);
    if (!f->config.biases[at->part->bias]) return 0;
    w->bias = read_vector(f, name, ".bias", rows);
    return w->bias ? 0 : -1;
}

/* A layer's experts in two tensors: gate_up_proj [n_experts, 2 * expert_dim, dim] and down_proj [n_experts, dim,
 * expert_dim]. */
static int read_fused_experts(const Folder *f, const char *name, Mlp *experts) {
    const Config *c = &f->model->config;
    const int n = c->n_experts, rows = c->expert_dim, dim = c->dim;
    const size_t size = (size_t)rows * (size_t)dim;
    const StoredTensor *in = require_tensor(f, name, "gate_up_proj", (int[]){n, (int)(2u * (unsigned)rows), dim}, 3);
    const StoredTensor *out = in ? require_tensor(f, name, "down_proj", (int[]){n, dim, rows}, 3) : NULL;
    for (size_t e = 0; out && e < (size_t)n; e++)
        experts[e] = (Mlp){.gate = matrix_at(in, 2 * e * size, rows, dim),
                           .up = matrix_at(in, (2 * e + 1) * size, rows, dim),
                           .down = matrix_at(out, e * size, dim, rows)};
    return out ? 0 : -1;
}

/* Memory for a layer's experts, which the walk then visits, and the experts themselves if they are fused. */
static int begin_experts(const Folder *f, int layer) {
    char name[PART_NAME];
    if (model_allocate_experts(f->model, layer)) return -1;
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.", layer);
    return find_tensor(f, name, "gate_up_proj") ? read_fused_experts(f, name, f->model->layers[layer].experts) : 0;
}

/* Whether the model has this part and it is not read yet. A layer has q_norm and k_norm, or neither. */
static bool is_to_be_read(const Folder *f, const PartAt *at, const char *name) {
    const Layer *layer = &f->model->layers[at->layer];
    const HeadNorms head_norms = f->config.architecture->head_norms;
    if (part_weight(at) == &layer->router) return folder_config_is_sparse(&f->config, at->layer);
    if (at->part->owner == OF_EXPERT) return !part_weight(at)->data; /* fused experts have it */
    if (!at->part->of_heads || head_norms == HEAD_NORMS) return true;
    if (head_norms == NO_HEAD_NORMS) return false;
    return part_norm(at) == &layer->q_norm ? find_tensor(f, name, ".weight") != NULL : layer->q_norm.gamma != NULL;
}

/* The name of a part in the files. A tied model may store its table as the output. */
static void stored_name(const Folder *f, const PartAt *at, char *name) {
    const Model *m = f->model;
    part_name(name, at, NAME_HF);
    if (m->tied && part_weight(at) == &m->embedding && !find_tensor(f, name, ".weight"))
        snprintf(name, PART_NAME, "lm_head");
}

static int read_parts(Folder *f) {
    Model *m = f->model;
    char name[PART_NAME];
    for (PartAt at = parts_of(m); next_slot(&at);) {
        stored_name(f, &at, name);
        if (!is_to_be_read(f, &at, name)) continue;
        if (part_norm(&at) ? read_norm(f, &at, name) : read_weight(f, &at, name)) return -1;
        if (part_weight(&at) == &m->layers[at.layer].router && begin_experts(f, at.layer)) return -1;
    }
    if (m->tied) m->output = m->embedding;
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What a model can do without: the output if it is the embedding, and the angles that older files hold. */
static bool is_redundant(const Model *m, const char *name) {
    static const char angles[] = ".rotary_emb.inv_freq";
    const size_t n = strlen(name), n_angles = sizeof angles - 1;
    return (m->tied && !strcmp(name, "lm_head.weight")) || (n >= n_angles && !strcmp(name + n - n_angles, angles));
}

static int check_all_used(const Folder *f) {
    for (size_t i = 0; i < f->weights.n_tensors; i++) {
        const StoredTensor *t = &f->weights.tensors[i];
        if (!t->used && !is_redundant(f->model, t->name))
            return fail("%s: %.96s belongs to no part of a %s model that norma has", t->path, t->name,
                        f->config.architecture->model_type);
    }
    return 0;
}

/* Memory for every vector in the files as float32. */
static int allocate_vectors(Folder *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->weights.n_tensors; i++)
        if (f->weights.tensors[i].n_dims == 1) n += f->weights.tensors[i].count;
    f->vectors = f->model->vectors = allocate(n, sizeof *f->vectors);
    return f->vectors ? 0 : -1;
}

static int read_weights(Folder *f) {
    Model *m = f->model;
    /* a layer has 9 tensors: no more memory for layers than the files justify */
    if ((size_t)m->config.n_layers > f->weights.n_tensors / 9)
        return fail("%s: num_hidden_layers is %d, the files have %zu tensors", f->config.json.path, m->config.n_layers,
                    f->weights.n_tensors);
    return allocate_vectors(f) || model_allocate_layers(m) || read_parts(f) || check_all_used(f) ? -1 : 0;
}

int folder_read_model(Model *m, const char *folder) {
    char path[PATH_MAX];
    Folder f = {.folder = folder, .model = m};
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= PATH_MAX) return fail("%s: name too long", folder);
    if (safetensors_open(&f.weights, m, folder)) return -1;
    const int status = folder_config_read(&f.config, m, path) || read_weights(&f) ? -1 : 0;
    m->format = "Hugging Face folder";
    json_close(&f.config.json);
    safetensors_close(&f.weights);
    return status;
}
