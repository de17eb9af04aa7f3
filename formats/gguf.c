/* gguf.c: reads the model in a GGUF file.
 *
 * Owns the keys that only GGUF files have: each key that changes the result is
 * honoured or refused by name. gguf_file.c reads the container,
 * gguf_tokenizer.c the tokenizer, kernels/quant.c the blocks of quantized
 * tensors.
 * Tests: gguf, families.
 */
#include "formats/gguf.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/family.h"
#include "formats/parts.h"
#include "formats/reader.h"
#include "formats/stored.h"
#include "rope.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys of unsupported features, with the value that has no effect. */
static const struct Neutral {
    const char *key;
    int value;
} NEUTRAL_KEYS[] = {
    {"attention.clamp_kqv", 0},
    {"attn_logit_softcapping", 0},
    {"expert_shared_count", 0},
    {"expert_shared_feed_forward_length", 0},
    {"final_logit_softcapping", 0},
    {"leading_dense_block_count", 0},
    {"nextn_predict_layers", 0},
    {"pooling_type", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"use_parallel_residual", 0},
    {"attention.causal", 1},
    {"embedding_scale", 1},
    {"expert_gating_func", 1}, /* softmax */
    {"expert_group_count", 1},
    {"expert_group_used_count", 1},
    {"expert_weights_scale", 1},
    {"logit_scale", 1},
    {"residual_scale", 1},
};

/* ---- keys --------------------------------------------------------------- */

static StoredValue get(const Reader *r, const char *key) {
    char name[GGUF_KEY_NAME];
    snprintf(name, sizeof name, "%s%s", r->origin.prefix, key);
    StoredValue v = gguf_get(r->source, name);
    /* for llama.cpp, RoPE's scaling by 0 is not set */
    bool factor = !strcmp(key, "rope.scaling.factor") ||
                  !strcmp(key, "rope.scale_linear");
    if (factor && (v.kind == VALUE_REAL || v.kind == VALUE_INTEGER) &&
        v.real == 0)
        v.kind = VALUE_MISSING;
    return v;
}

/* Refuses an unsupported key of the architecture if it may change the
 * result. */
static void check_key(Reader *r, String key) {
    /* Converters write true if config.json lacks the option. A parallel
     * StableLM has no norm before the MLP. */
    if (string_is(key, "use_parallel_residual") &&
        reader_find(r, "blk.0.ffn_norm", ".weight"))
        return;
    /* a dense Granite 4; tensors of recurrent layers would be refused */
    if (r->family->gguf.hybrid_sizes &&
        (!strncmp(key.text, "ssm.", 4) ||
         string_is(key, "expert_shared_feed_forward_length")))
        return;
    KEY_EACH(known)
        if (known->gguf && string_is(key, known->gguf) &&
            family_meets(r->family, known->condition))
            return;
    EACH(const struct Neutral, neutral, NEUTRAL_KEYS, COUNT(NEUTRAL_KEYS)) {
        if (!string_is(key, neutral->key))
            continue;
        StoredValue v = get(r, neutral->key);
        if (v.kind == VALUE_STRING || v.kind == VALUE_LIST ||
            v.real != neutral->value)
            refuse_stored(&r->origin, neutral->key, v, "%d", neutral->value);
        return;
    }
    if (!r->origin.status)
        r->origin.status = fail("%s: metadata key %s%.*s is not supported",
                                r->origin.path, r->origin.prefix, SHOWN(key));
}

/* ---- RoPE and windows --------------------------------------------------- */

/* Checks the keys of RoPE's scaling, and makes the amplitude one number.
 * Without a type the scaling is linear. */
static void translate_rope(Reader *r) {
    const Header *h = &r->header;
    Rope *rope = &r->header.config.rope;
    const int head_size = h->config.head_size;
    const bool is_yarn = string_is(h->scaling, "yarn");
    const double amplitude = is_yarn ? yarn_amplitude(h->factor, 1) : 1;
    const StoredValue extrapolates = get(r, "rope.scaling.yarn_ext_factor");
    if (rope->dims % 2 || rope->dims > head_size)
        refuse_field(r, config.rope.dims,
                     "an even number up to the head size %d", head_size);
    if (extrapolates.kind != VALUE_MISSING &&
        !(extrapolates.real < 0 || extrapolates.real == is_yarn))
        refuse_key(r, "rope.scaling.yarn_ext_factor", "%d", is_yarn);
    if (h->yarn_attn_factor != 1 &&
        !(fabs(h->yarn_attn_factor / amplitude - 1) < 1e-5))
        refuse_key(r, "rope.scaling.yarn_attn_factor", "%g", amplitude);
    if (is_yarn)
        rope->amplitude *=
            amplitude / yarn_amplitude(h->factor, h->log_multiplier);
}

/* Refuses what llama.cpp applies to layers with a window, too, but norma does
 * not: another base than the family's, and Gemma's amplitude, unless it is
 * YaRN's. */
static void check_local_rope(Reader *r) {
    const ModelFamily *f = r->family;
    const Config *c = &r->header.config;
    const bool is_local = f->rotating == ROPE_LOCAL_IN_WINDOWED_LAYERS;
    double amplitude = c->rope.amplitude;
    if (string_is(r->header.scaling, "yarn"))
        amplitude /= yarn_amplitude(r->header.factor, 1);
    if (f->local_base == 0 && c->local_base != 0 &&
        c->local_base != c->rope.base)
        refuse_key(r, "rope.freq_base_swa", "%g", c->rope.base);
    if (is_local && r->header.window > 0 && f->local_base > 0 && amplitude != 1)
        refuse_stored(&r->origin, "rope.scaling.attn_factor",
                      (StoredValue){.real = amplitude}, "1");
}

/* Reads which layers have the window, if the file says it. */
static void translate_windows(Reader *r) {
    static const char key[] = "attention.sliding_window_pattern";
    Header *h = &r->header;
    const int n = h->config.n_layers;
    char name[GGUF_KEY_NAME];
    /* Within the window all layers are the same: it ends the context if the
     * file cannot say which layers have it. */
    if (r->family->gguf.window == WINDOW_ENDS_CONTEXT && h->window > 0) {
        if (h->window < h->config.context)
            h->config.context = (int)h->window;
        h->window = 0;
    }
    snprintf(name, sizeof name, "%s%s", r->origin.prefix, key);
    const GgufValue *pattern = gguf_find_value(r->source, name);
    if (!pattern || h->window <= 0)
        return;
    if (!pattern->is_array || pattern->count != (uint64_t)n ||
        gguf_element(pattern, 0).kind != VALUE_INTEGER) {
        refuse_key(r, key, "an array of %d integers, one for each layer", n);
        return;
    }
    r->windowed = allocate(n, sizeof *r->windowed);
    if (!r->windowed)
        r->origin.status = -1;
    for (int l = 0; r->windowed && l < n; l++)
        r->windowed[l] = gguf_element(pattern, l).integer;
}

static double *read_factors(Reader *r, const char *name, bool needed) {
    int n = r->header.config.rope.dims / 2;
    const float *stored = reader_vector(r, name, ".weight", needed, n);
    double *factors = stored ? reader_factors(r) : NULL;
    for (int i = 0; factors && i < n; i++)
        factors[i] = stored[i];
    return factors;
}

/* ---- the model ---------------------------------------------------------- */

static int read_model(Reader *r) {
    Header *h = &r->header;
    Origin *o = &r->origin;
    const Gguf *g = r->source;
    const Stored *embedding = reader_find(r, "token_embd", ".weight");
    static const char key[] = "general.architecture";
    const ModelFamily *f = r->family =
        family_find(o, NAME_GGUF, key, gguf_get(g, key));
    if (!f)
        return -1;
    snprintf(o->prefix, sizeof o->prefix, "%s.", f->gguf.name);
    if (f->gguf.default_window)
        h->window = f->window;
    h->norm_weights = !f->gguf.raw_topk;
    h->config.rope.halves = !f->gguf.neighbours;
    h->config.vocab_size = 1; /* the key may be missing */
    size_t n = strlen(o->prefix);
    EACH(const GgufValue, v, g->values, g->n_values)
        if (v->key.n > n && !memcmp(v->key.text, o->prefix, n))
            check_key(r, (String){v->key.text + n, v->key.n - n});
    reader_keys(r);
    if (embedding)
        h->config.vocab_size = embedding->dims[1];
    r->model->tied = !reader_find(r, "output", ".weight");
    reader_begin(r);
    if (o->status)
        return -1;
    if (h->config.n_layers == f->gguf.layers_of_27b) {
        const int width = h->config.dim / h->config.n_heads;
        h->config.attention_scale = 1 / sqrtf((float)width);
    }
    translate_rope(r);
    check_local_rope(r);
    translate_windows(r);
    if (!string_is(h->scaling, "yarn")) {
        Model *m = r->model;
        m->long_factors = read_factors(r, "rope_factors_long", false);
        m->rope_factors = read_factors(
            r, m->long_factors ? "rope_factors_short" : "rope_freqs",
            m->long_factors);
    }
    return reader_end(r);
}

/* Reads a file without tensors. */
static int read_vocabulary(const Gguf *g, Model *m) {
    const GgufValue *pieces = gguf_find_value(g, "tokenizer.ggml.tokens");
    if (!pieces || !pieces->is_array || pieces->count < 1 ||
        pieces->count > INT32_MAX)
        return fail("%s: has neither tensors nor a vocabulary", g->path);
    m->config.vocab_size = (int)pieces->count;
    return 0;
}

bool gguf_is(const File *file) {
    return file->size >= 4 && !memcmp(file->data, "GGUF", 4);
}

/* If the file is part of a split model, g becomes the metadata of the first
 * part and the tensors of all parts. Merged files have a split.count of 0. */
static int open_parts(Gguf *g, Model *m, const char *path) {
    enum {
        ENDING = 20,
        MAX_PARTS = 4096
    }; /* bytes of "-00001-of-00003.gguf" */
    Origin o = {.path = path};
    char name[PATH_MAX];
    const StoredValue parts = gguf_get(g, "split.count");
    if (!is_given(parts))
        return 0;
    const int count =
        (int)value_integer(&o, "split.count", parts, 0, MAX_PARTS);
    if (count < 2)
        return o.status;
    size_t n = strlen(path);
    snprintf(name, sizeof name, "-of-%05d.gguf", count);
    if (n < ENDING || strcmp(path + n - 14, name))
        return fail(
            "%s: is a part of a split model, or several joined; its parts must be named NAME-00001%s and so on",
            path, name);
    gguf_close(g);
    *g = (Gguf){0};
    o.path = name;
    file_unmap(&m->files[--m->n_files]);
    for (int i = 0; i < count; i++) {
        Gguf part = {.tensors = g->tensors, .n_tensors = g->n_tensors};
        snprintf(name, sizeof name, "%.*s-%05d-of-%05d.gguf", (int)n - ENDING,
                 path, i + 1, count);
        if (model_map(m, name))
            return -1;
        o.status = gguf_open(&part, name, &m->files[i]);
        value_integer(&o, "split.no", gguf_get(&part, "split.no"), i, i);
        value_integer(&o, "split.count", gguf_get(&part, "split.count"), count,
                      count);
        if (i > 0) {
            free(part.values);
            part.values = g->values;
            part.n_values = g->n_values;
        }
        *g = part;
        if (o.status)
            return -1;
    }
    g->path = path;
    EACH(Stored, t, g->tensors, g->n_tensors)
        t->path = path;
    return 0;
}

/* By general.file_type: the type of most weights. */
static const char *const FILE_TYPES[] = {
    "F32",    "F16",     "Q4_0",   "Q4_1",   "Q4_1_SOME_F16", "Q4_2",
    "Q4_3",   "Q8_0",    "Q5_0",   "Q5_1",   "Q2_K",          "Q3_K_S",
    "Q3_K_M", "Q3_K_L",  "Q4_K_S", "Q4_K_M", "Q5_K_S",        "Q5_K_M",
    "Q6_K",   "IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS",        "IQ3_XXS",
    "IQ1_S",  "IQ4_NL",  "IQ3_S",  "IQ3_M",  "IQ2_S",         "IQ2_M",
    "IQ4_XS", "IQ1_M",   "BF16"};

int gguf_read_model(Model *m, const char *path) {
    Gguf g = {0};
    m->format = "GGUF";
    bool failed = gguf_open(&g, path, m->files) || open_parts(&g, m, path) ||
                  sort_tensors(g.tensors, g.n_tensors);
    Reader r = {.path = path,
                .origin = {.path = path},
                .naming = NAME_GGUF,
                .model = m,
                .get = get,
                .source = &g,
                .tensors = g.tensors,
                .n_tensors = g.n_tensors,
                .header = DEFAULTS};
    failed = failed || (r.n_tensors ? read_model(&r) : read_vocabulary(&g, m));
    StoredValue type = gguf_get(&g, "general.file_type");
    if (type.kind == VALUE_INTEGER && type.integer >= 0 &&
        type.integer < (int64_t)COUNT(FILE_TYPES))
        snprintf(m->type, sizeof m->type, "%s", FILE_TYPES[type.integer]);
    reader_close(&r);
    gguf_close(&g);
    return -failed;
}
