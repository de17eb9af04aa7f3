/* folder.c: the model in a Hugging Face folder.
 *
 * Owns what the options of config.json mean: an option that changes the result
 * is honoured or refused by name; keys that transformers ignores for a family
 * are ignored here, too. family.c has the families and the keys shared with
 * GGUF; safetensors.c reads the weights.
 * Tests: folder, families, growth.
 */
#include "formats/folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/family.h"
#include "formats/json.h"
#include "formats/reader.h"
#include "formats/safetensors.h"
#include "formats/stored.h"
#include "rope.h"
#include <limits.h>
#include <math.h>

/* ---- options ------------------------------------------------------------ */

/* Reader.source */
typedef struct {
    const Json *text; /* the text model's object; NULL: none */
    const Json *file; /* the file's object */
} Sources;

static StoredValue value_of(const Json *json) {
    static const ValueKind kinds[] = {/* by JsonKind */
                                      VALUE_NULL,   VALUE_BOOL, VALUE_REAL,
                                      VALUE_STRING, VALUE_LIST, VALUE_LIST};
    StoredValue v = {.kind = json ? kinds[json->kind] : VALUE_MISSING,
                     .integer = json_true(json),
                     .real = INFINITY,
                     .string = {json_shown(json), strlen(json_shown(json))}};
    if (json_integer(json, &v.integer))
        v.kind = VALUE_INTEGER;
    json_real(json, &v.real);
    return v;
}

/* An option of the model; NULL if it is missing. */
static const Json *find(const Reader *r, const char *key) {
    const Sources *options = r->source;
    const Json *value = json_get(r->inner, key);
    if (!value)
        value = json_get(options->text, key);
    return value ? value : json_get(options->file, key);
}

static StoredValue get(const Reader *r, const char *key) {
    return value_of(find(r, key));
}

static int required_int(Reader *r, const char *key, int min) {
    return (int)value_integer(&r->origin, key, get(r, key), min, INT_MAX);
}

static int get_int(Reader *r, const char *key, int min, int missing) {
    return is_given(get(r, key)) ? required_int(r, key, min) : missing;
}

static bool get_bool(Reader *r, const char *key, bool missing) {
    StoredValue v = get(r, key);
    if (is_given(v) && v.kind != VALUE_BOOL)
        refuse_key(r, key, "true or false");
    return v.kind == VALUE_BOOL ? v.integer : missing;
}

/* An object; NULL if it is missing, null or empty. */
static const Json *get_object(Reader *r, const char *key) {
    const Json *object = find(r, key);
    if (!json_null(object) && object->kind != JSON_OBJECT)
        refuse_key(r, key, "an object");
    return json_members(object, JSON_OBJECT) ? object : NULL;
}

/* The elements of a list, one for each layer; NULL if the key is missing. */
static const Json *get_list(Reader *r, const char *key) {
    const Json *list = find(r, key);
    if (json_null(list))
        return NULL;
    if (list->kind == JSON_ARRAY &&
        list->length >= (uint32_t)r->header.config.n_layers)
        return json_members(list, JSON_ARRAY);
    refuse_key(r, key, "a list of at least num_hidden_layers elements");
    return NULL;
}

/* ---- layers ------------------------------------------------------------- */

static void read_experts(Reader *r) {
    Header *h = &r->header;
    const FolderFacts *f = &r->family->hf;
    bool switched = f->experts == EXPERTS_IF_USE_MOE;
    if (f->experts == NO_EXPERTS ||
        (switched && !get_bool(r, "use_moe", false)))
        return;
    const char *count =
        is_given(get(r, "num_experts")) ? "num_experts" : "num_local_experts";
    const char *used = "num_experts_per_tok";
    const char *width =
        f->wide_experts ? "intermediate_size" : "moe_intermediate_size";
    int min = f->experts == EXPERTS_IF_ROUTER ? 0 : 1;
    h->n_experts = f->n_experts;
    if (!f->n_experts || is_given(get(r, count)))
        h->n_experts =
            value_integer(&r->origin, count, get(r, count), min, MAX_EXPERTS);
    if (!h->n_experts)
        return;
    h->n_experts_used = f->n_experts_used;
    if (!f->n_experts_used || is_given(get(r, used)))
        h->n_experts_used = required_int(r, used, 1);
    h->config.expert_dim = switched ? get_int(r, width, 1, h->config.hidden_dim)
                                    : required_int(r, width, 1);
    h->norm_weights = f->normalizes_topk;
    if (f->norm_topk_prob)
        h->norm_weights = get_bool(r, "norm_topk_prob", f->normalizes_topk);
}

/* The window of the layers that have it; 0: none. */
static int read_window(Reader *r) {
    FolderWindow window = r->family->hf.window;
    if (window == WINDOW_IGNORED ||
        (window == WINDOW_IF_USED &&
         !get_bool(r, "use_sliding_window", false)) ||
        get(r, "sliding_window").kind == VALUE_NULL)
        return 0;
    return get_int(r, "sliding_window", 1, r->family->window);
}

/* A list with an element for each layer. NULL and status -1: out of memory. */
static bool *allocate_layers(Reader *r) {
    bool *list = allocate(r->header.config.n_layers, sizeof *list);
    if (!list)
        r->origin.status = -1;
    return list;
}

/* Reads which layers have the window, as names of their kinds. */
static void read_types(Reader *r, const Json *types) {
    r->windowed = allocate_layers(r);
    for (int l = 0; r->windowed && l < r->header.config.n_layers; l++) {
        r->windowed[l] = json_is(&types[l], "sliding_attention");
        if (!r->windowed[l] && !json_is(&types[l], "full_attention"))
            refuse_key(r, "layer_types",
                       "full_attention and sliding_attention");
    }
}

/* Reads which layers have RoPE: their number is not 0. */
static void read_rotating(Reader *r, const Json *ropes) {
    r->rotating = allocate_layers(r);
    for (int l = 0; r->rotating && l < r->header.config.n_layers; l++) {
        int64_t rotates = 1;
        if (!json_integer(&ropes[l], &rotates))
            refuse_key(r, "no_rope_layers", "whole numbers");
        r->rotating[l] = rotates != 0;
    }
}

/* Reads which layers have the sliding window, and which have RoPE: lists, or
 * the numbers of the family's rule. */
static void read_layers(Reader *r) {
    Header *h = &r->header;
    const FolderFacts *f = &r->family->hf;
    const WindowedLayers windowed = r->family->windowed;
    const Json *types = f->layer_types ? get_list(r, "layer_types") : NULL;
    const Json *ropes =
        f->no_rope_layers ? get_list(r, "no_rope_layers") : NULL;
    h->window = read_window(r);
    if (types)
        read_types(r, types);
    else if (f->sliding_window_pattern)
        h->period = get_int(r, "sliding_window_pattern", 1, h->period);
    if (ropes)
        read_rotating(r, ropes);
    else if (f->no_rope_layers)
        h->period = get_int(r, "no_rope_layer_interval", 1, h->period);
    if (windowed == FROM_MAX_WINDOW_LAYERS ||
        windowed == EVEN_BELOW_MAX_WINDOW_LAYERS)
        h->max_window_layers = get_int(r, "max_window_layers", 0, 28);
    r->needs_window = types || f->needs_window;
}

/* ---- RoPE: the formulas are those of transformers' modeling_rope_utils.py  */

static double required_real(Reader *r, const char *key) {
    return value_real(&r->origin, key, get(r, key));
}

static double get_real(Reader *r, const char *key, double missing) {
    return is_given(get(r, key)) ? required_real(r, key) : missing;
}

static float get_float(Reader *r, const char *key, float missing) {
    const StoredValue v = get(r, key);
    return is_given(v) ? value_float(&r->origin, key, v) : missing;
}

/* The same; 0 means that the key is missing, as for transformers. */
static double real_or(Reader *r, const char *key, double missing) {
    return get(r, key).real == 0 ? missing : get_real(r, key, missing);
}

/* Llama 3.1: high frequencies are unchanged, low frequencies are divided by
 * `factor`, with a ramp between the two. */
static void read_llama3(Reader *r) {
    const Rope *out = &r->header.config.rope;
    const double context = r->header.original_context;
    double factor = required_real(r, "factor");
    double low = required_real(r, "low_freq_factor"),
           high = required_real(r, "high_freq_factor");
    if (high <= low)
        refuse_key(r, "high_freq_factor", "more than low_freq_factor");
    double *factors = r->model->rope_factors = reader_factors(r);
    for (int i = 0; factors && i < out->dims / 2; i++) {
        double turns = context * rope_frequency(out, i) / (2 * M_PI);
        double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        factors[i] = 1 / ((1 - smooth) / factor + smooth);
    }
}

static void read_yarn(Reader *r) {
    Header *h = &r->header;
    Rope *out = &h->config.rope;
    const double mscale = real_or(r, "mscale", 0);
    const double all_dim = real_or(r, "mscale_all_dim", 0);
    /* null is false */
    const bool missing = get(r, "truncate").kind == VALUE_MISSING;
    const bool truncates = get_bool(r, "truncate", missing);
    out->yarn = (Yarn){.fast = real_or(r, "beta_fast", 32),
                       .slow = real_or(r, "beta_slow", 1),
                       .fractional = !r->family->hf.rounds_yarn && !truncates};
    h->scaling = (String){"yarn", 4};
    h->factor =
        get_real(r, "factor", (double)h->config.context / h->original_context);
    double amplitude = yarn_amplitude(h->factor, 1);
    if (mscale > 0 && all_dim > 0)
        amplitude = yarn_amplitude(h->factor, mscale) /
                    yarn_amplitude(h->factor, all_dim);
    out->amplitude = get_real(r, "attention_factor", amplitude);
}

/* Reads a list of positive factors, one for each rotating pair. */
static double *read_factors(Reader *r, const char *key) {
    const Json *list = find(r, key), *values = json_members(list, JSON_ARRAY);
    int n = r->header.config.rope.dims / 2;
    double *factors =
        values && list->length == (uint32_t)n ? reader_factors(r) : NULL;
    bool positive = factors;
    for (int i = 0; positive && i < n; i++)
        positive = json_real(&values[i], &factors[i]) && factors[i] > 0;
    if (!positive)
        refuse_key(r, key,
                   "a list with a positive number for each rotating pair");
    return factors;
}

static void read_longrope(Reader *r) {
    Config *c = &r->header.config;
    const double original = r->header.original_context;
    const double factor = get_real(r, "factor", c->context / original);
    const double amplitude =
        factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
    c->rope.amplitude = get_real(r, "attention_factor", amplitude);
    r->model->rope_factors = read_factors(r, "short_factor");
    if (c->context > original)
        r->model->long_factors = read_factors(r, "long_factor");
}

static void read_scaling(Reader *r, const Json *rope) {
    Header *h = &r->header;
    Config *c = &h->config;
    /* no tensor has the columns of `wo`; reader_end() fails */
    if ((size_t)c->rope.dims > r->widest)
        return;
    const char *key = json_get(rope, "rope_type") ? "rope_type" : "type";
    StoredValue v = value_of(json_get(rope, key));
    String type = v.string;
    bool longrope = r->family->hf.only_longrope, yarn = string_is(type, "yarn");
    if (!is_given(v) || string_is(type, "default"))
        return;
    /* older names are accepted */
    if (string_is(type, "longrope") ||
        (longrope && (yarn || string_is(type, "su"))))
        read_longrope(r);
    else if (longrope)
        refuse_key(r, key, "default or longrope");
    else if (string_is(type, "llama3"))
        read_llama3(r);
    else if (yarn)
        read_yarn(r);
    else if (string_is(type, "linear"))
        h->factor = required_real(r, "factor");
    else if (string_is(type, "dynamic") && r->family->hf.dynamic_alpha)
        c->rope.base *=
            pow(required_real(r, "alpha"), c->rope.dims / (c->rope.dims - 2.0));
    /* changes only positions after the original context: end there */
    else if (string_is(type, "dynamic"))
        c->context = h->original_context;
    else
        refuse_key(r, key,
                   "default, linear, dynamic, llama3, longrope or yarn");
}

/* The number of elements of a head that rotate. */
static int rotating_dims(Reader *r) {
    double usual = r->family->rotates > 0 ? r->family->rotates : 1;
    double partial = get_real(r, "partial_rotary_factor", usual);
    int dims = partial <= 1 ? (int)(r->header.config.head_size * partial) : 0;
    if (!r->family->hf.partial_rotary_factor && partial < 1)
        refuse_key(r, "partial_rotary_factor", "1");
    if (dims < 2 || dims % 2)
        refuse_key(r, "partial_rotary_factor",
                   "a share of the head that is an even number of elements");
    return dims;
}

/* RoPE of layers with a sliding window is not scaled. Its base is given by
 * sliding_attention, by rope_local_base_freq, or by the family's default. */
static void read_local_rope(Reader *r, const Json *sliding) {
    double local = r->family->local_base,
           usual = local > 0 ? local : r->family->rope_base;
    r->inner = sliding;
    const Json *object = json_get(sliding, "rope_theta");
    const Json *type = json_get(sliding, "rope_type");
    if (!json_null(type) && !json_is(type, "default"))
        refuse_key(r, "rope_type", "default, in sliding_attention");
    bool has_key = r->family->hf.rope_local_base_freq;
    const char *key =
        has_key && !object ? "rope_local_base_freq" : "rope_theta";
    double base = r->header.config.local_base = get_real(r, key, usual);
    if (!object && !has_key && base != usual)
        refuse_key(
            r, key,
            "rope_theta in sliding_attention, too: transformers' default differs between versions");
}

/* Newer files have rope_parameters (with LOCAL_ROPE: one object for each type
 * of layer), older files rope_scaling and rope_theta. */
static void read_rope(Reader *r) {
    bool local = r->family->rotating == ROPE_LOCAL_IN_WINDOWED_LAYERS;
    int usual = r->family->hf.original_context;
    int context = usual ? usual : r->header.config.context;
    const Json *newer = get_object(r, "rope_parameters"),
               *rope = get_object(r, "rope_scaling");
    const Json *full = local ? json_get(newer, "full_attention") : newer;
    const Json *sliding = json_get(newer, "sliding_attention");
    if (local && newer && newer->length != (uint32_t) !!full + !!sliding)
        refuse_key(r, "rope_parameters",
                   "only full_attention and sliding_attention");
    if (local && rope && full)
        refuse_key(r, "rope_scaling", "null, because full_attention is given");
    if (!rope)
        rope = full;
    JSON_EACH(item, rope, JSON_OBJECT)
        if (item[1].kind == JSON_OBJECT)
            refuse_stored(&r->origin, item->text, value_of(item + 1),
                          "a value for all layers");
    static const char key[] = "original_max_position_embeddings";
    /* of two, that of the model counts, unless each type of layer has its
     * own */
    if (!is_given(get(r, key)) || (local && rope == full))
        r->inner = rope;
    const double original = get_real(r, key, context);
    if (original != floor(original) || original > INT_MAX)
        refuse_key(r, key, "a whole number");
    r->header.original_context = (int)fmin(original, INT_MAX);
    r->inner = rope;
    r->header.config.rope =
        (Rope){.base = get_real(r, "rope_theta", r->family->rope_base),
               .scale = 1,
               .amplitude = 1,
               .dims = rotating_dims(r),
               .halves = !r->family->hf.neighbours};
    if (!r->origin.status)
        read_scaling(r, rope);
    r->header.query_scale = real_or(r, "llama_4_scaling_beta", 0);
    if (local)
        read_local_rope(r, sliding);
}

/* ---- the model ---------------------------------------------------------- */

/* Options that norma supports only if they are false. */
static const char *const REFUSED_OPTIONS[] = {
    "clip_qkv", "use_parallel_residual", "qk_layernorm",
    "use_bidirectional_attention", "inference_rope_scaling"};

/* Refuses an option that is neither false nor missing. */
static void refuse_option(Reader *r, const char *key) {
    StoredValue v = get(r, key);
    if (is_given(v) && (v.kind != VALUE_BOOL || v.integer))
        refuse_key(r, key, "null or false");
}

/* Refuses an option that is neither true, 1 nor missing. */
static void require_option(Reader *r, const char *key) {
    StoredValue v = get(r, key);
    bool is_number = v.kind == VALUE_BOOL || v.kind == VALUE_INTEGER;
    if (is_given(v) && (!is_number || v.integer != 1))
        refuse_key(r, key, "true or 1");
}

static void read_biases(Reader *r) {
    const FolderFacts *f = &r->family->hf;
    if (f->qkv_biases)
        r->biases |= QKV_BIAS;
    if (f->use_bias && get_bool(r, "use_bias", false))
        r->biases |= QKV_BIAS | OUT_BIAS | MLP_BIAS;
    if (f->attention_bias == BIAS_OF_ATTENTION &&
        get_bool(r, "attention_bias", false))
        r->biases |= QKV_BIAS | OUT_BIAS;
    if (f->attention_bias == BIAS_OF_QKV && get_bool(r, "attention_bias", true))
        r->biases |= QKV_BIAS;
    if (f->attention_out_bias && get_bool(r, "attention_out_bias", false))
        r->biases |= OUT_BIAS;
    if (f->use_qkv_bias && get_bool(r, "use_qkv_bias", false))
        r->biases |= QKV_BIAS;
    if (f->mlp_bias && get_bool(r, "mlp_bias", false))
        r->biases |= MLP_BIAS;
}

/* Refuses options of features that norma lacks. */
static void check_options(Reader *r) {
    const FolderFacts *f = &r->family->hf;
    if (f->attention_bias == BIAS_REFUSED)
        refuse_option(r, "attention_bias");
    if (f->no_dense_layers) {
        require_option(r, "decoder_sparse_step");
        require_option(r, "qkv_bias");
    }
    EACH(const char *const, key, REFUSED_OPTIONS, COUNT(REFUSED_OPTIONS))
        refuse_option(r, *key);
    /* transformers reads it, but applies no cap */
    if (f->no_score_cap)
        refuse_option(r, "attn_logit_softcapping");
    if (f->no_dense_layers &&
        json_members(find(r, "mlp_only_layers"), JSON_ARRAY))
        refuse_key(r, "mlp_only_layers", "an empty list");
    const Json *quantization = get_object(r, "quantization_config");
    if (quantization)
        refuse_stored(&r->origin, "quantization_config",
                      value_of(json_get(quantization, "quant_method")),
                      "none: norma reads F32, F16 and BF16");
}

static void read_activation(Reader *r) {
    const char *key =
        r->family->hf.hidden_activation ? "hidden_activation" : "hidden_act";
    const Json *name = find(r, key);
    if (json_null(name) ||
        (r->family->hf.gelu_is_tanh && json_is(name, "gelu")))
        return;
    for (Activation a = 0; a < N_ACTIVATIONS; a++)
        if (json_is(name, ACTIVATIONS[a].hf) ||
            json_is(name, ACTIVATIONS[a].also_hf)) {
            r->header.config.activation = a;
            return;
        }
    refuse_key(r, key, "%s or another activation in docs/models.md",
               ACTIVATIONS[r->family->activation].hf);
}

static int read_model(Reader *r) {
    Header *h = &r->header;
    const Stored *embedding = reader_find(r, "model.embed_tokens", ".weight");
    const ModelFamily *f = r->family =
        family_find(&r->origin, NAME_HF, "model_type", get(r, "model_type"));
    if (!f)
        return -1;
    Config *c = &h->config;
    c->attention_scale = f->scales ? 1 : 0;
    c->context = f->context;
    c->head_size = f->head_size;
    c->n_heads = f->n_heads;
    c->n_kv_heads = f->n_heads / 2;
    c->vocab_size = embedding ? embedding->dims[1] : 0;
    /* by FALLBACK in KEYS also the eps of LayerNorms */
    const char *eps =
        f->norm_form == RMS_NORMS ? "rms_norm_eps" : "layer_norm_eps";
    h->rms_eps = f->eps;
    if (f->norm_form != LAYER_NORMS_BARE)
        h->rms_eps = get_float(r, eps, h->rms_eps);
    read_biases(r);
    check_options(r);
    reader_keys(r);
    read_activation(r);
    read_experts(r);
    const Stored *output = reader_find(r, "lm_head", ".weight");
    r->model->tied = get_bool(r, "tie_word_embeddings", f->hf.tied_by_default);
    /* it counts, although the file says that the embedding is the output */
    if (output && embedding && !f->tied)
        r->model->tied &= output->bytes == embedding->bytes &&
                          !memcmp(output->data, embedding->data, output->bytes);
    reader_begin(r);
    if (r->origin.status)
        return -1;
    if (f->hf.query_pre_attn_scalar)
        c->attention_scale =
            1 / sqrtf(get_float(r, "query_pre_attn_scalar", 256));
    read_layers(r);
    read_rope(r);
    return reader_end(r);
}

/* In the folder of a multimodal model: shortens the names of the text model's
 * tensors, and skips the others'. */
static int select_text(Reader *r) {
    /* bytes of "language_model." or "model.language_", which the names begin
     * with */
    enum { LONGER = 15 };
    EACH(Stored, t, r->tensors, r->n_tensors) {
        t->used |= string_contains(t->name, "vision_tower.") ||
                   string_contains(t->name, "multi_modal_projector.");
        if (!string_contains(t->name, "language_model."))
            continue;
        t->name.text += LONGER;
        t->name.n -= LONGER;
    }
    return sort_tensors(r->tensors, r->n_tensors);
}

/* Refuses names that begin with more than this format's, as of a model that was
 * saved inside another object. */
static int check_prefix(const Reader *r) {
    static const char layers[] = "layers.0.";
    String prefixed = {"", 0};
    size_t longer = 0;
    EACH(const Stored, t, r->tensors, r->n_tensors) {
        const char *at = memmem(t->name.text, t->name.n, layers, 9);
        if (!at)
            continue;
        size_t n = at - t->name.text;
        if (n == 0 || (n == 6 && !memcmp(t->name.text, "model.", 6)))
            return 0;
        bool in_model = n > 6 && !memcmp(at - 6, "model.", 6);
        prefixed = t->name;
        longer = n - (in_model ? 6 : 0);
    }
    if (!longer)
        return 0;
    return fail(
        "%s: names of tensors begin with '%.*s', as %.*s: save the model that is inside (state_dict), or rename them",
        r->path, (int)min_size(longer, 64), prefixed.text, SHOWN(prefixed));
}

int folder_read_model(Model *m, const char *folder) {
    char path[PATH_MAX + 16];
    JsonFile json = {0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    m->format = "Hugging Face folder";
    bool has_config = file_exists(path);
    Safetensors weights = {0};
    bool failed =
        (has_config && json_open(&json, path)) ||
        safetensors_open(&weights, m, folder,
                         json_get(json.values, "transformers_weights")) ||
        (!has_config && json_open(&json, path));
    Sources options = {.file = json.values};
    Reader r = {.path = folder,
                .origin = {.path = path},
                .naming = NAME_HF,
                .model = m,
                .get = get,
                .source = &options,
                .tensors = weights.tensors,
                .n_tensors = weights.n_tensors,
                .header = DEFAULTS};
    r.bare = !failed && reader_find(&r, "embed_tokens", ".weight");
    const Json *text = options.text = get_object(&r, "text_config");
    failed = failed || (text && select_text(&r)) || check_prefix(&r) ||
             read_model(&r);
    if (!failed && text)
        note("%s: only its text model is used", folder);
    reader_close(&r);
    json_close(&json);
    safetensors_close(&weights);
    return -failed;
}
