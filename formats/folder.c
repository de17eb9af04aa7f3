/* folder.c: from a Hugging Face folder to a Model.
 *
 * Owns which stored tensor is which part of a model. What config.json says is hf_config.c's, names and shapes of
 * tensors are the table of parts', but for those that some architectures have of their own.
 */
#include "formats/folder.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include "formats/parts.h"
#include "formats/safetensors.h"
#include "kernels/quant.h"
#include <limits.h>
#include <stdlib.h>

typedef struct {
    const char *folder;
    Model *model;
    HfConfig config;
    Safetensors weights;
    float *vectors;    /* room for the next norm or bias */
    const float *ones; /* [dim], the gamma of norms that have none */
} Folder;

/* Names that the architectures with one of these features give to parts, by norma's name of the part. */
static const struct {
    int feature;
    const char *part, *name; /* a format of the numbers of layer and expert */
} OTHER_NAMES[] = {
    {POST_NORMS, "mlp_norm", "model.layers.%d.pre_feedforward_layernorm"},
    {FUSED, "wq", "model.layers.%d.self_attn.qkv_proj"},
    {FUSED, "wk", "model.layers.%d.self_attn.qkv_proj"},
    {FUSED, "wv", "model.layers.%d.self_attn.qkv_proj"},
    {FUSED, "gate", "model.layers.%d.mlp.gate_up_proj"},
    {FUSED, "up", "model.layers.%d.mlp.gate_up_proj"},
    {MIXTRAL_EXPERTS, "router", "model.layers.%d.block_sparse_moe.gate"},
    {MIXTRAL_EXPERTS, "gate", "model.layers.%d.block_sparse_moe.experts.%d.w1"},
    {MIXTRAL_EXPERTS, "up", "model.layers.%d.block_sparse_moe.experts.%d.w3"},
    {MIXTRAL_EXPERTS, "down", "model.layers.%d.block_sparse_moe.experts.%d.w2"},
};

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

/* The values [n] of a norm or a bias as float32; NULL and a message if they are not there. */
static float *read_vector(Folder *f, const char *part, const char *suffix, int n) {
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
    const bool bare = has(&f->config, BARE_NORMS), layer = has(&f->config, LAYER_NORMS);
    *norm = (Norm){.kind = bare || layer ? NORM_LAYER : NORM_RMS, .eps = f->config.eps};
    if (bare && !f->ones) {
        f->ones = f->vectors;
        for (int i = 0; i < n; i++) *f->vectors++ = 1;
    }
    float *gamma = bare ? NULL : read_vector(f, name, ".weight", n);
    norm->gamma = bare ? f->ones : gamma;
    for (int i = 0; gamma && has(&f->config, GEMMA) && i < n; i++) gamma[i] += 1;
    if (norm->gamma && layer) norm->beta = read_vector(f, name, ".bias", n);
    return norm->gamma && (norm->beta || !layer) ? 0 : -1;
}

/* A weight: a tensor of its own, or rows of one. Phi-3 has one for q, k and v and one for gate and up; newer files have
 * gate_up_proj [n_experts, 2 * expert_dim, dim] and down_proj [n_experts, dim, expert_dim] for all experts of a layer.
 */
static int read_weight(Folder *f, const PartAt *at, const char *name) {
    const Config *c = &f->model->config;
    const int rows = part_size(c, at->part->rows), cols = part_size(c, at->part->cols);
    Tensor *w = part_weight(at);
    char experts[PART_NAME];
    snprintf(experts, sizeof experts, "model.layers.%d.mlp.experts.", at->layer);
    const bool stacked = at->part->owner == OF_EXPERT && find_tensor(f, experts, "gate_up_proj");
    const PartRows part = stacked || has(&f->config, FUSED) ? part_fused(at) : (PartRows){0, rows};
    const int dims[] = {c->n_experts, part.all, cols};
    const StoredTensor *t =
        stacked ? require_tensor(f, experts, at->part->feed == MLP_FEED ? "gate_up_proj" : "down_proj", dims, 3)
                : require_tensor(f, name, ".weight", dims + 1, 2);
    if (!t) return -1;
    const size_t first = (size_t)(stacked ? at->expert : 0) * (size_t)part.all + (size_t)part.first;
    *w = matrix_at(t, first * (size_t)cols, rows, cols);
    if (!f->config.biases[at->part->bias]) return 0;
    w->bias = read_vector(f, name, ".bias", rows);
    return w->bias ? 0 : -1;
}

/* The name of a part in the files. */
static void stored_name(const Folder *f, char *name, const PartAt *at) {
    part_name(name, at, NAME_HF);
    for (size_t i = 0; i < sizeof OTHER_NAMES / sizeof *OTHER_NAMES; i++)
        if (has(&f->config, OTHER_NAMES[i].feature) && !strcmp(OTHER_NAMES[i].part, at->part->names[NAME_NORMA]))
            snprintf(name, PART_NAME, OTHER_NAMES[i].name, at->layer, at->expert);
    if (f->model->tied && part_weight(at) == &f->model->embedding && !find_tensor(f, name, ".weight"))
        snprintf(name, PART_NAME, "lm_head"); /* a tied model may store its table as the output */
}

/* Whether the model has this part. */
static bool is_there(const Folder *f, const PartAt *at, const char *name) {
    const HfConfig *h = &f->config;
    const Layer *layer = &f->model->layers[at->layer];
    if (part_weight(at) == &layer->router) return h->is_sparse && h->is_sparse[at->layer];
    if (part_weight(at)) return true;
    if (at->part->post) return has(h, POST_NORMS);
    if (!at->part->of_heads) return at->part->owner == OF_MODEL || !has(h, NO_PRE_NORMS);
    if (!has(h, HEAD_NORMS_IF_STORED)) return has(h, HEAD_NORMS);
    return part_norm(at) == &layer->q_norm ? find_tensor(f, name, ".weight") != NULL : layer->q_norm.gamma != NULL;
}

static int read_parts(Folder *f) {
    Model *m = f->model;
    char name[PART_NAME];
    for (PartAt at = parts_of(m); next_slot(&at);) {
        const Layer *layer = &m->layers[at.layer];
        stored_name(f, name, &at);
        if (is_there(f, &at, name)) {
            if ((part_norm(&at) ? read_norm : read_weight)(f, &at, name)) return -1;
            if (part_weight(&at) == &layer->router && model_allocate_experts(m, at.layer)) return -1;
        } else if (part_norm(&at)) {
            part_norm(&at)->kind = NORM_NONE;
        }
    }
    if (m->tied) m->output = m->embedding;
    return 0;
}

/* A model can do without the output if it is the embedding, and without the angles that older files hold. */
static int check_all_used(const Folder *f) {
    static const char stored_angles[] = ".rotary_emb.inv_freq";
    for (const StoredTensor *t = f->weights.tensors; t < f->weights.tensors + f->weights.n_tensors; t++) {
        const char *angles = strstr(t->name, stored_angles);
        if (!t->used && !(f->model->tied && !strcmp(t->name, "lm_head.weight")) &&
            !(angles && !strcmp(angles, stored_angles)))
            return fail("%s: %.96s belongs to no part of a %s model that norma has", t->path, t->name,
                        f->config.architecture->model_type);
    }
    return 0;
}

static int read_weights(Folder *f) {
    const Safetensors *w = &f->weights;
    Model *m = f->model;
    size_t n = 0, all = 0; /* elements of all vectors, and of all tensors */
    for (size_t i = 0; i < w->n_tensors; i++) {
        all += w->tensors[i].count;
        if (w->tensors[i].n_dims == 1) n += w->tensors[i].count;
    }
    if (has(&f->config, BARE_NORMS)) n += all < (size_t)m->config.dim ? all : (size_t)m->config.dim; /* ones */
    f->vectors = m->vectors = allocate(n, sizeof *f->vectors);
    return !f->vectors || read_parts(f) || check_all_used(f) ? -1 : 0;
}

int folder_read_model(Model *m, const char *folder) {
    char path[PATH_MAX];
    Folder f = {.folder = folder, .model = m};
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= PATH_MAX) return fail("%s: name too long", folder);
    if (safetensors_open(&f.weights, m, folder)) return -1;
    const int status = hf_config_open(&f.config, m, path, f.weights.n_tensors) || read_weights(&f) ? -1 : 0;
    m->format = "Hugging Face folder";
    hf_config_close(&f.config);
    safetensors_close(&f.weights);
    return status;
}
