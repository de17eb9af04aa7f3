/* parts.c: the table of a model's parts, the walk over them, and their
 * memory.
 * Tests: families, convert. */
#include "formats/parts.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/map.h"
#include <limits.h>
#include <stdlib.h>

/* Prefixes of names by owner: printf formats of the layer and the expert. */
static const char *const PREFIXES[][N_NAMINGS] = {
    {"", "", ""},
    {"layers.%d.", "blk.%d.", "model.layers.%d."},
    {"layers.%d.", "blk.%d.", "model.layers.%d.mlp."},
    {"layers.%d.experts.%d.", "blk.%d.", "model.layers.%d.mlp.experts.%d."},
};

/* A part's norma name is its field's name. */
#define PART(owner, type, field, ...)                                          \
    owner, offsetof(type, field), {                                            \
#field, __VA_ARGS__                                                    \
    }
#define MODEL(...)           PART(OF_MODEL, Model, __VA_ARGS__)
#define LAYER(...)           PART(OF_LAYER, Layer, __VA_ARGS__)
#define MLP(...)             PART(OF_MLP, Mlp, __VA_ARGS__)
#define EXPERT(...)          PART(OF_EXPERT, Mlp, __VA_ARGS__)
#define NORM(spec, size, to) SIZE_ONE, SIZE_##size, .site = spec, .feed = to
#define WEIGHT(r, c, ...)    SIZE_##r, SIZE_##c, .feed = __VA_ARGS__
/* before the MLP in Llama, after attention in Gemma */
#define POST_ATTENTION "post_attention_layernorm"

/* The tables in the order of a walk: FIRST, then for each layer LAYERS and for
 * each expert EXPERTS, then LAST. Each ends with an empty row. */
enum { FIRST, LAYERS, EXPERTS, LAST, N_TABLES, MAX_ROWS = 20 };
static const Part PARTS[N_TABLES][MAX_ROWS] = {
    [FIRST] =
        {
            {MODEL(embedding, "token_embd", "model.embed_tokens"),
             WEIGHT(VOCAB, DIM, NO_FEED)},
        },
    /* in the order of the forward pass, except for the norm after the MLP */
    [LAYERS] =
        {
            {LAYER(attn_norm, "attn_norm", "input_layernorm"),
             NORM("attn", DIM, QKV_FEED), .condition = WITH_PRE_NORMS},
            {LAYER(wq, "attn_q", "self_attn.q_proj"),
             WEIGHT(QUERIES, DIM, QKV_FEED, QKV_BIAS), .rotates = true},
            {LAYER(wk, "attn_k", "self_attn.k_proj"),
             WEIGHT(KEYS, DIM, QKV_FEED, QKV_BIAS), .rotates = true},
            {LAYER(wv, "attn_v", "self_attn.v_proj"),
             WEIGHT(KEYS, DIM, QKV_FEED, QKV_BIAS)},
            {LAYER(q_norm, "attn_q_norm", "self_attn.q_norm"),
             NORM("q", Q_NORM, NO_FEED), .condition = WITH_HEAD_NORMS},
            {LAYER(k_norm, "attn_k_norm", "self_attn.k_norm"),
             NORM("k", K_NORM, NO_FEED), .condition = WITH_HEAD_NORMS},
            {LAYER(wo, "attn_output", "self_attn.o_proj"),
             WEIGHT(DIM, QUERIES, NO_FEED, OUT_BIAS)},
            {LAYER(attn_post_norm, "post_attention_norm", POST_ATTENTION),
             NORM("attn_post", DIM, NO_FEED), .condition = WITH_POST_NORMS},
            {LAYER(mlp_norm, "ffn_norm", POST_ATTENTION),
             NORM("mlp", DIM, MLP_FEED), .condition = WITH_MLP_NORM},
            {LAYER(mlp_post_norm, "post_ffw_norm",
                   "post_feedforward_layernorm"),
             NORM("mlp_post", DIM, NO_FEED), .condition = WITH_POST_NORMS},
            {LAYER(router, "ffn_gate_inp", "mlp.gate"),
             WEIGHT(EXPERTS, DIM, MLP_FEED), .routes = true},
            {LAYER(mlp.weight, "ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
             WEIGHT(ONE, DIM, MLP_FEED), .routes = true,
             .condition = WITH_SHARED_EXPERT},
            {MLP(gate, "ffn_gate", "gate_proj"),
             WEIGHT(HIDDEN, DIM, MLP_FEED, MLP_BIAS)},
            {MLP(up, "ffn_up", "up_proj"),
             WEIGHT(HIDDEN, DIM, MLP_FEED, MLP_BIAS), .condition = WITH_GATES},
            {MLP(down, "ffn_down", "down_proj"),
             WEIGHT(DIM, HIDDEN, NO_FEED, MLP_BIAS)},
        },
    [EXPERTS] =
        {
            {EXPERT(gate, "ffn_gate_exps", "gate_proj"),
             WEIGHT(EXPERT_HIDDEN, DIM, MLP_FEED)},
            {EXPERT(up, "ffn_up_exps", "up_proj"),
             WEIGHT(EXPERT_HIDDEN, DIM, MLP_FEED)},
            {EXPERT(down, "ffn_down_exps", "down_proj"),
             WEIGHT(DIM, EXPERT_HIDDEN, NO_FEED)},
        },
    [LAST] = {
        {MODEL(final_norm, "output_norm", "model.norm"),
         NORM("final", DIM, OUT_FEED)},
        {MODEL(output, "output", "lm_head"), WEIGHT(VOCAB, DIM, OUT_FEED)},
    }};

int part_size(const Config *c, PartSize size) {
    int queries = c->n_heads * c->head_size,
        keys = c->n_kv_heads * c->head_size;
    int sizes[N_PART_SIZES] = {/* in the order of PartSize */
                               1,
                               c->dim,
                               c->hidden_dim,
                               queries,
                               keys,
                               c->wide_head_norms ? queries : c->head_size,
                               c->wide_head_norms ? keys : c->head_size,
                               c->vocab_size,
                               c->n_experts,
                               c->expert_dim};
    return sizes[size];
}

const Part *part_named(const char *name) {
    for (int table = 0;; table++)
        for (const Part *part = PARTS[table]; part->names[0]; part++)
            if (!strcmp(part->names[NAME_NORMA], name))
                return part;
}

PartAt parts_of(const Model *model) {
    return (PartAt){.model = (Model *)(uintptr_t)model};
}

static void *field_of(const PartAt *at) {
    PartOwner owner = at->part->owner;
    Layer *layer = &at->model->layers[at->layer];
    void *start = at->model;
    if (owner == OF_EXPERT)
        start = &layer->experts[at->expert];
    else if (owner == OF_MLP)
        start = &layer->mlp;
    else if (owner == OF_LAYER)
        start = layer;
    return (char *)start + at->part->offset;
}

Norm *part_norm(const PartAt *at) {
    return at->part->site ? field_of(at) : NULL;
}
Tensor *part_weight(const PartAt *at) {
    return at->part->site ? NULL : field_of(at);
}

Tensor *part_multiplied(const PartAt *at) {
    Model *m = at->model;
    Tensor *w = part_weight(at);
    return w != &m->embedding ? w : m->tied ? &m->output : NULL;
}

const float *part_folded(const PartAt *at) {
    const Model *m = at->model;
    const Layer *layer = &m->layers[at->layer];
    const Norm *norm = &m->final_norm;
    switch (at->part->feed) {
    case NO_FEED: return NULL;
    case QKV_FEED: norm = &layer->attn_norm; break;
    case MLP_FEED:
        norm = layer->mlp_norm.gamma ? &layer->mlp_norm : &layer->attn_norm;
        break;
    case OUT_FEED:
        if (m->tied)
            return NULL;
    }
    return norm->beta ? NULL : norm->gamma;
}

PartRows part_rows(const PartAt *at, bool fused) {
    int64_t first = 0, all = 0;
    for (const Part *p = PARTS[at->table]; p->names[0]; p++) {
        if (p->site || p->owner != at->part->owner ||
            p->feed != at->part->feed || (!fused && p != at->part))
            continue;
        int rows = part_size(&at->model->config, p->rows);
        if (p < at->part)
            first += rows;
        all += rows;
    }
    return (PartRows){(int)first, all > INT_MAX ? -1 : (int)all};
}

/* Moves to the table after the one that has ended. Returns false after the
 * last. */
static bool next_table(PartAt *at) {
    const Model *m = at->model;
    if (at->table == LAST)
        return false;
    if (at->table == LAYERS && m->layers[at->layer].experts)
        at->table = EXPERTS;
    else if (at->table != EXPERTS || ++at->expert == m->config.n_experts) {
        at->layer += at->table != FIRST;
        at->expert = 0;
        at->table = at->layer < m->config.n_layers ? LAYERS : LAST;
    }
    at->part = PARTS[at->table];
    return true;
}

static bool may_be_there(const PartAt *at) {
    const Model *m = at->model;
    if (at->part->owner == OF_MLP)
        return !m->layers[at->layer].experts ||
               m->layers[at->layer].mlp.weight.data;
    return !m->tied || part_weight(at) != &m->output;
}

bool next_slot(PartAt *at) {
    do {
        at->part = at->part ? at->part + 1 : PARTS[FIRST];
        if (!at->part->names[0] && !next_table(at))
            return false;
    } while (!may_be_there(at));
    return true;
}

bool part_is_there(const PartAt *at) {
    return at->part->site ? part_norm(at)->gamma != NULL
                          : part_weight(at)->data != NULL;
}

bool next_part(PartAt *at) {
    while (next_slot(at))
        if (part_is_there(at))
            return true;
    return false;
}

char *part_name(char *name, const PartAt *at, Naming naming) {
    int n = snprintf(name, PART_NAME, PREFIXES[at->part->owner][naming],
                     at->layer, at->expert);
    snprintf(name + n, PART_NAME - (size_t)n, "%s", at->part->names[naming]);
    return name;
}

int model_map(Model *m, const char *path) {
    File *files = realloc(m->files, ((size_t)m->n_files + 1) * sizeof *files);
    if (!files)
        return fail("%s: out of memory", path);
    m->files = files;
    if (map_model_file(&files[m->n_files], path))
        return -1;
    m->n_files++;
    return 0;
}

int model_allocate_layers(Model *m) {
    int n = m->config.n_layers;
    m->layers = allocate_zeroed(n, sizeof *m->layers);
    if (!m->layers)
        return -1;
    for (int l = 0; l < n; l++)
        m->layers[l].index = l;
    for (PartAt at = parts_of(m); next_slot(&at);)
        if (part_norm(&at))
            part_norm(&at)->kind = NORM_NONE;
    return 0;
}
