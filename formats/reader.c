/* reader.c: builds a Model from keys and tensors, with the tables of families,
 * keys and parts.
 *
 * gguf.c and folder.c translate what differs between the formats into the
 * header and lists of layers. What they mean is decided here, once.
 * Tests: families, gguf, folder.
 */
#include "formats/reader.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/parts.h"
#include "kernels/quant.h"
#include "rope.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const Header DEFAULTS = {.config = {.rope = {.base = 10000,
                                             .scale = 1,
                                             .amplitude = 1,
                                             .yarn = {.fast = 32, .slow = 1}}},
                         .scaling = {"linear", 6},
                         .finetuned = 1,
                         .linear_factor = 1,
                         .yarn_attn_factor = 1};

/* ---- the header --------------------------------------------------------- */

static bool is_zero(const void *field, size_t bytes) {
    static const char zeros[sizeof(String)];
    return !memcmp(field, zeros, bytes);
}

/* Reads a key into its field, which holds the default. */
static void read_key(Reader *r, const Key *key, const char *name, void *field) {
    Origin *o = &r->origin;
    const StoredValue v = r->get(r, name);
    int *size = field;
    int64_t *integer = field;
    double *real = field;
    float *number = field;
    String *text = field;
    if (key->is_cap && v.kind == VALUE_NULL) {
        *number = 0;
        return;
    }
    const bool has_default = !key->required || !is_zero(field, key->bytes);
    if (!is_given(v) && has_default)
        return;
    switch (key->kind) {
    case KEY_SIZE: *size = (int)value_integer(o, name, v, 1, INT_MAX); break;
    case KEY_INTEGER:
        *integer = value_integer(o, name, v, INT64_MIN, INT64_MAX);
        break;
    case KEY_REAL: *real = value_real(o, name, v); break;
    case KEY_FLOAT:
        *number = value_float(o, name, v);
        if (key->divides)
            *number = 1 / *number;
        break;
    case KEY_STRING: *text = value_string(o, name, v); break;
    case KEY_NO_FIELD: break;
    }
}

void reader_keys(Reader *r) {
    const ModelFamily *f = r->family;
    Config *c = &r->header.config;
    char *header = (char *)&r->header;
    c->activation = f->activation;
    c->attention_cap = f->attention_cap;
    c->logit_cap = f->logit_cap;
    c->embedding_scale = c->residual_scale = c->logit_scale = 1;
    /* a required key; a Granite folder may lack it */
    if (f->scales_logits || (f->scales && r->naming == NAME_GGUF))
        c->logit_scale = 0;
    KEY_EACH(key) {
        const char *name = r->naming == NAME_GGUF ? key->gguf : key->hf;
        if (name && family_meets(f, key->condition) &&
            !(key->kind == KEY_INTEGER && r->naming == NAME_HF))
            read_key(r, key, name, header + key->field);
    }
    if (!r->header.period)
        r->header.period = f->period;
    if (!c->head_size && c->dim % c->n_heads == 0)
        c->head_size = c->dim / c->n_heads;
    KEY_EACH(key)
        if (key->fallback && is_zero(header + key->field, key->bytes))
            memcpy(header + key->field, header + key->fallback, key->bytes);
}

static void check_sizes(Reader *r) {
    const Config *c = &r->header.config;
    if (c->n_heads % c->n_kv_heads)
        refuse_field(r, config.n_kv_heads, "a divisor of %d", c->n_heads);
    else if (!c->head_size || c->head_size % 2 ||
             c->head_size > INT_MAX / c->n_heads)
        refuse_field(r, config.head_size, "an even number up to %d",
                     INT_MAX / c->n_heads);
    else if (c->head_size != r->header.value_length)
        refuse_field(r, value_length, "%d, as for keys", c->head_size);
    /* bounds memory: a layer has at least 6 tensors */
    else if ((size_t)c->n_layers > r->n_tensors / 6)
        refuse_field(r, config.n_layers, "at most %zu (number of tensors: %zu)",
                     r->n_tensors / 6, r->n_tensors);
}

static void check_experts(Reader *r) {
    Header *h = &r->header;
    Config *c = &h->config;
    if (!h->n_experts)
        return;
    if (h->n_experts < 0 || h->n_experts > MAX_EXPERTS)
        refuse_field(r, n_experts, "at most %d", MAX_EXPERTS);
    else if (h->n_experts_used < 1 || h->n_experts_used > h->n_experts)
        refuse_field(r, n_experts_used, "1 to the %d experts",
                     (int)h->n_experts);
    c->n_experts = (int)h->n_experts;
    c->n_experts_used = (int)h->n_experts_used;
    c->norm_topk = h->norm_weights;
}

void reader_begin(Reader *r) {
    Config *c = &r->header.config;
    check_sizes(r);
    check_experts(r);
    if (r->origin.status)
        return;
    family_set_formulas(r->family, c);
    r->model->config = *c;
    r->model->family =
        r->family->gguf.name ? r->family->gguf.name : r->family->stored_as;
    size_t n = 0; /* floats of all norms and biases */
    EACH(const Stored, t, r->tensors, r->n_tensors) {
        size_t cols = t->dims[2];
        if (t->dims[0] == 1 && t->dims[1] == 1)
            n += cols;
        /* a tensor without rows has no bytes, but may claim columns */
        if (cols > r->widest && t->dims[0] && t->dims[1])
            r->widest = cols;
    }
    r->ones = r->model->vectors = allocate(r->widest + n, sizeof(float));
    r->vectors = r->ones + r->widest;
    if (!r->ones || model_allocate_layers(r->model))
        r->origin.status = -1;
}

/* ---- tensors ------------------------------------------------------------ */

Stored *reader_find(const Reader *r, const char *name, const char *suffix) {
    char full[2 * PART_NAME];
    if (r->bare && !strncmp(name, "model.", 6))
        name += 6;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    return find_by_name(full, r->tensors, r->n_tensors, sizeof *r->tensors);
}

/* Finds a tensor, checks its shape [depth, rows, cols], and marks it as used.
 * Returns NULL if it is missing; prints a message if it is needed or has
 * another shape. */
static const Stored *find_tensor(Reader *r, const char *name,
                                 const char *suffix, bool needed, int depth,
                                 int rows, int cols) {
    int dims[] = {depth, rows, cols};
    Stored *t = reader_find(r, name, suffix);
    if (r->origin.status || (!t && !needed))
        return NULL;
    if (t)
        t->used = true;
    if (t && t->doubles)
        r->has_doubles = true;
    if (t && t->other_type.n) {
        r->origin.status = bad_tensor(
            t,
            " has type %.*s, expected F32, F16, BF16 or F64; use a model that is not quantized, or a GGUF file",
            SHOWN(t->other_type));
        return NULL;
    }
    if (t && !memcmp(t->dims, dims, sizeof dims))
        return t;
    r->origin.status =
        t ? fail("%s: tensor %s%s is [%d, %d, %d], expected [%d, %d, %d]",
                 t->path, name, suffix, t->dims[0], t->dims[1], t->dims[2],
                 depth, rows, cols)
          : fail("%s: tensor %s%s is missing", r->path, name, suffix);
    return NULL;
}

float *reader_vector(Reader *r, const char *name, const char *suffix,
                     bool needed, int n) {
    const Stored *t = find_tensor(r, name, suffix, needed, 1, 1, n);
    float *values = r->vectors;
    if (!t)
        return NULL;
    dequantize_row(
        values,
        &(Tensor){.type = t->type, .rows = 1, .cols = n, .data = t->data}, 0);
    r->vectors += n;
    return values;
}

double *reader_factors(Reader *r) {
    double *factors =
        allocate((size_t)r->header.config.rope.dims / 2, sizeof *factors);
    if (!factors)
        r->origin.status = -1;
    return factors;
}

/* ---- RoPE and windows --------------------------------------------------- */

/* Ends the context at the original one. */
static void end_context(Reader *r, const char *why) {
    Config *c = &r->header.config;
    r->model->long_context = c->context;
    if (r->header.original_context >= c->context)
        return;
    c->context = r->header.original_context;
    r->model->ended_by = why;
}

/* Sets RoPE's scaling and the base of local layers, which norma never scales.
 * With LongRoPE (Ding et al. 2024) the short factors apply up to the original
 * context; a session can choose a longer one, with the long factors. */
static void set_rope(Reader *r) {
    const Header *h = &r->header;
    Config *c = &r->header.config;
    const double local_base = r->family->local_base;
    if (string_is(h->scaling, "yarn")) {
        c->rope.yarn.factor = h->factor;
        c->rope.yarn.context = h->original_context;
    } else if (string_is(h->scaling, "linear") ||
               string_is(h->scaling, "longrope"))
        c->rope.scale = h->factor;
    else if (!string_is(h->scaling, "none"))
        refuse_field(r, scaling, "none, linear, yarn or longrope");
    if (c->local_base == 0)
        c->local_base = local_base > 0 ? local_base : c->rope.base;
    if (h->query_scale != 0)
        end_context(r, "beyond it queries are scaled");
    if (r->model->long_factors)
        end_context(r, "-c chooses a longer one, with LongRoPE's long factors");
}

/* Sets the window and the kind of RoPE of each layer. */
static void set_layers(Reader *r) {
    const ModelFamily *f = r->family;
    const Header *h = &r->header;
    int window = 0;
    if (h->window > 0)
        window = h->window < INT_MAX ? (int)h->window : INT_MAX;
    EACH(Layer, layer, r->model->layers, h->config.n_layers) {
        const int l = layer->index;
        const bool rotates =
            r->rotating ? r->rotating[l] : family_rotates(f, h, l);
        const bool slides =
            r->windowed ? r->windowed[l] : family_windows(f, h, l, rotates);
        if (slides && !window && r->needs_window)
            refuse_field(r, window, "a window in use, for some layers");
        layer->window = slides ? window : 0;
        layer->rope = rotates ? family_rope(f, window, slides) : ROPE_NONE;
    }
}

/* ---- parts -------------------------------------------------------------- */

/* Whether all layers have experts, if the model has experts. */
static bool has_no_dense_layers(const Reader *r) {
    ExpertLayers experts = r->family->hf.experts;
    return r->naming == NAME_HF &&
           (experts == EXPERTS_IN_ALL || experts == EXPERTS_IF_USE_MOE);
}

/* Whether the model has this part. A layer without a router is dense. */
static bool is_there(const Reader *r, const PartAt *at, const char *name) {
    const Layer *layer = &r->model->layers[at->layer];
    if (part_weight(at) == &layer->router)
        return r->model->config.n_experts &&
               (has_no_dense_layers(r) || reader_find(r, name, ".weight"));
    if (at->part->condition == WITH_HEAD_NORMS &&
        r->family->head_norms == HEAD_NORMS_IF_STORED)
        return part_norm(at) == &layer->q_norm
                   ? reader_find(r, name, ".weight") != NULL
                   : layer->q_norm.gamma != NULL;
    return family_meets(r->family, at->part->condition);
}

/* Reads a norm. A norm with a bias is a LayerNorm; in GGUF files of some
 * families the bias is optional. */
static void read_norm(Reader *r, const PartAt *at, const char *name) {
    int n = part_size(&r->model->config, at->part->cols);
    NormForm form = r->family->norm_form;
    bool bare = form == LAYER_NORMS_BARE, is_layer_norm = form != RMS_NORMS;
    bool gguf = r->naming == NAME_GGUF;
    bool less_one = !gguf && r->family->hf.gamma_less_one;
    bool may_have_beta = is_layer_norm || (gguf && r->family->gguf.layer_norms);
    Norm *norm = part_norm(at);
    /* transformers sets a missing gamma to 1, too (FlashNorm folds it) */
    bool folded = !gguf && !is_layer_norm && !reader_find(r, name, ".weight");
    if (folded && !r->n_folded++)
        strcpy(r->first_folded, name);
    bool ones = bare || folded;
    float *gamma = ones ? r->ones : reader_vector(r, name, ".weight", true, n);
    for (int i = 0; gamma && i < n; i++)
        if (ones)
            gamma[i] = 1;
        else if (less_one)
            gamma[i] += 1;
    norm->gamma = gamma;
    if (may_have_beta && !bare)
        norm->beta = reader_vector(r, name, ".bias", form == LAYER_NORMS, n);
    norm->kind = is_layer_norm || norm->beta ? NORM_LAYER : NORM_RMS;
    norm->eps =
        norm->kind == NORM_LAYER ? r->header.layer_eps : r->header.rms_eps;
    if (!(norm->eps > 0) && !r->origin.status)
        r->origin.status =
            fail("%s: the epsilon of its norms is missing", r->path);
}

/* Reads a weight from a tensor, or from some rows of one: q, k and v, or gate
 * and up, may be fused. Experts are stacked in GGUF files, and in newer folders
 * as gate_up_proj [n_experts, 2 * expert_dim, dim] and down_proj. */
static void read_weight(Reader *r, const PartAt *at, const char *name) {
    const Config *c = &r->model->config;
    const int rows = part_size(c, at->part->rows);
    const int cols = part_size(c, at->part->cols);
    const bool gguf = r->naming == NAME_GGUF;
    const bool expert = at->part->owner == OF_EXPERT;
    const bool fused = family_fuses(r->family, at->part);
    Tensor *w = part_weight(at);
    char newer[PART_NAME]; /* the name of a layer's stacked experts */
    snprintf(newer, sizeof newer, "model.layers.%d.mlp.experts.%s", at->layer,
             at->part->feed == MLP_FEED ? "gate_up_proj" : "down_proj");
    const bool is_newer = expert && !gguf && reader_find(r, newer, "");
    const bool stacked =
        expert && (gguf || is_newer || r->family->hf.stacked_experts);
    const int depth = stacked ? c->n_experts : 1;
    const PartRows part = part_rows(at, fused || (stacked && !gguf));
    const Stored *t =
        is_newer ? find_tensor(r, newer, "", true, depth, part.all, cols)
                 : find_tensor(r, name, ".weight", true, depth, part.all, cols);
    if (!t)
        return;
    *w = (Tensor){.type = t->type, .rows = rows, .cols = cols};
    size_t first = part.first;
    if (stacked)
        first += (size_t)at->expert * part.all;
    const size_t begin = first * tensor_bytes(w, 1);
    w->data = t->data + begin;
    w->offset = t->offset + begin;
    const bool may_have_bias =
        gguf && !expert && !fused && w != &r->model->embedding;
    if (may_have_bias || r->biases & at->part->bias)
        w->bias = reader_vector(r, name, ".bias", !gguf, rows);
}

/* Reads a part. A folder may store a tied embedding only under the name of the
 * output. */
static void read_part(Reader *r, const PartAt *at) {
    Model *m = r->model;
    char name[PART_NAME];
    family_part_name(r->family, name, at, r->naming);
    if (r->naming == NAME_HF && m->tied && part_weight(at) == &m->embedding &&
        !reader_find(r, name, ".weight"))
        strcpy(name, "lm_head");
    if (!is_there(r, at, name))
        return;
    if (part_norm(at))
        read_norm(r, at, name);
    else
        read_weight(r, at, name);
    Layer *layer = &m->layers[at->layer];
    if (part_weight(at) != &layer->router || r->origin.status)
        return;
    layer->experts = allocate_zeroed(m->config.n_experts, sizeof(Mlp));
    if (!layer->experts)
        r->origin.status = -1;
}

/* Corrects what no layer confirms, because sessions allocate by it: without
 * dense layers hidden_dim becomes expert_dim, without sparse layers there are
 * no experts, without local layers there is no base for them. */
static void confirm(Model *m) {
    Config *c = &m->config;
    bool dense = false, sparse = false, local = false;
    EACH(const Layer, layer, m->layers, c->n_layers) {
        dense |= layer->mlp.gate.data != NULL;
        sparse |= layer->experts != NULL;
        local |= layer->rope == ROPE_LOCAL;
    }
    if (!local)
        c->local_base = 0;
    if (!sparse)
        c->n_experts = c->n_experts_used = c->expert_dim = 0;
    if (!dense)
        c->hidden_dim = c->expert_dim;
}

int reader_end(Reader *r) {
    Model *m = r->model;
    if (!r->origin.status)
        set_rope(r);
    if (!r->origin.status)
        set_layers(r);
    m->config = r->header.config;
    for (PartAt at = parts_of(m); !r->origin.status && next_slot(&at);)
        read_part(r, &at);
    if (r->origin.status)
        return -1;
    confirm(m);
    if (m->tied)
        m->output = m->embedding;
    if (m->config.rope.yarn.factor > 0) {
        m->rope_factors = yarn_factors(&m->config.rope);
        if (!m->rope_factors)
            return -1;
    }
    EACH(const Stored, t, r->tensors, r->n_tensors)
        /* the copy of a tied embedding, RoPE's tables */
        if (!t->used && (!t->doubles || r->has_doubles) &&
            !(m->tied && string_is(t->name, "lm_head.weight")) &&
            !string_contains(t->name, ".rotary_emb.inv_freq"))
            return fail("%s: tensor %.*s is not supported", t->path,
                        SHOWN(t->name));
    if (r->has_doubles)
        note("%s: F64 weights are rounded to F32", r->path);
    if (r->n_folded)
        note("%s: %d norms have no weights, the first is %s: their gamma is 1",
             r->path, r->n_folded, r->first_folded);
    return 0;
}

void reader_close(Reader *r) {
    free(r->windowed);
    free(r->rotating);
}
