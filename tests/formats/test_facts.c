/* test_facts.c: every fact of a family's record matters.
 *
 * Opens the models of tests/golden/families, as folders and as GGUF files, with
 * a copy of the record in which one fact that it states is changed. Some model
 * of the family must then be refused, or have other layers or logits. LLaMA's
 * closest relatives have no such models: suites golden and folder test them.
 * Without a fact of the writer, the GGUF file must be another one, or refused.
 */
#include "base/file.h"
#include "formats/family.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "session.h"

#include "tests/support/family_writer.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A field that is a pointer counts with its own size. */
/* NOLINTBEGIN(bugprone-sizeof-expression) */
/* clang-format off */
#define FACT(f) #f, offsetof(ModelFamily, f), sizeof(((ModelFamily *)NULL)->f)
/* Facts, and for some an option of config.json that shows them: its value, or
 * NULL, which removes the option. */
static const struct Fact {
    const char *name;
    size_t offset, bytes;
    const char *option, *value;
} FACTS[] = {
    {FACT(norms), NULL, NULL},
    {FACT(norm_form), NULL, NULL},
    {FACT(head_norms), NULL, NULL},
    {FACT(windowed), NULL, NULL},
    {FACT(rotating), NULL, NULL},
    {FACT(period), NULL, NULL},
    {FACT(activation), NULL, NULL},
    {FACT(ungated), NULL, NULL},
    {FACT(shared_expert), NULL, NULL},
    {FACT(fused_qkv), NULL, NULL},
    {FACT(fused_gate_up), NULL, NULL},
    {FACT(scales), NULL, NULL},
    {FACT(scales_logits), NULL, NULL},
    {FACT(scales_by_dim), NULL, NULL},
    {FACT(caps_scores), NULL, NULL},
    {FACT(caps_logits), NULL, NULL},
    {FACT(tied), "tie_word_embeddings", "false"},
    {FACT(rope_base), "rope_theta", NULL},
    {FACT(local_base), "rope_local_base_freq", NULL},
    {FACT(rotates), "partial_rotary_factor", NULL},
    {FACT(eps), "rms_norm_eps", NULL},
    {FACT(context), "max_position_embeddings", NULL},
    {FACT(head_size), "head_dim", NULL},
    {FACT(n_heads), "num_attention_heads", NULL},
    {FACT(window), "sliding_window", NULL},
    {FACT(attention_cap), "attn_logit_softcapping", NULL},
    {FACT(logit_cap), "final_logit_softcapping", NULL},
    {FACT(gguf.names), NULL, NULL},
    {FACT(gguf.neighbours), NULL, NULL},
    {FACT(gguf.window), NULL, NULL},
    {FACT(gguf.default_window), NULL, NULL},
    {FACT(gguf.layer_norms), NULL, NULL},
    {FACT(gguf.raw_topk), NULL, NULL},
    {FACT(gguf.scaled_queries), NULL, NULL},
    {FACT(gguf.finetuned), NULL, NULL},
    {FACT(gguf.hybrid_sizes), NULL, NULL},
    {FACT(gguf.layers_of_27b), NULL, NULL},
    {FACT(hf.names), NULL, NULL},
    {FACT(hf.gamma_less_one), NULL, NULL},
    {FACT(hf.tied_by_default), "tie_word_embeddings", NULL},
    {FACT(hf.neighbours), NULL, NULL},
    {FACT(hf.qkv_biases), NULL, NULL},
    {FACT(hf.attention_bias), "attention_bias", "true"},
    {FACT(hf.attention_out_bias), "attention_out_bias", "true"},
    {FACT(hf.use_qkv_bias), "use_qkv_bias", "true"},
    {FACT(hf.mlp_bias), "mlp_bias", "true"},
    {FACT(hf.use_bias), "use_bias", "true"},
    {FACT(hf.window), "sliding_window", "7"},
    {FACT(hf.layer_types), "layer_types", "[\"full_attention\"]"},
    {FACT(hf.sliding_window_pattern), "sliding_window_pattern", "0"},
    {FACT(hf.no_rope_layers), "no_rope_layers", "[]"},
    {FACT(hf.needs_window), "sliding_window", "null"},
    {FACT(hf.partial_rotary_factor), "partial_rotary_factor", "0.5"},
    {FACT(hf.rope_local_base_freq), "rope_local_base_freq", "5"},
    {FACT(hf.rounds_yarn), NULL, NULL},
    {FACT(hf.dynamic_alpha), NULL, NULL},
    {FACT(hf.only_longrope), "rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 2}"},
    {FACT(hf.original_context), "original_max_position_embeddings", NULL},
    {FACT(hf.hidden_activation), "hidden_activation", "\"relu2\""},
    {FACT(hf.gelu_is_tanh), "hidden_act", "\"gelu\""},
    {FACT(hf.query_pre_attn_scalar), "query_pre_attn_scalar", "2"},
    {FACT(hf.no_score_cap), "attn_logit_softcapping", "3"},
    {FACT(hf.experts), NULL, NULL},
    {FACT(hf.wide_experts), NULL, NULL},
    {FACT(hf.stacked_experts), NULL, NULL},
    {FACT(hf.n_experts), "num_local_experts", NULL},
    {FACT(hf.n_experts_used), "num_experts_per_tok", NULL},
    {FACT(hf.normalizes_topk), NULL, NULL},
    {FACT(hf.norm_topk_prob), "norm_topk_prob", "true"},
    {FACT(hf.no_dense_layers), "decoder_sparse_step", "2"},
};
/* clang-format on */
/* NOLINTEND(bugprone-sizeof-expression) */
/* Facts of the writer. */
static const struct Fact WRITTEN[] = {
    {FACT(gguf.biases), NULL, NULL},    {FACT(gguf.experts), NULL, NULL},
    {FACT(gguf.factors), NULL, NULL},   {FACT(gguf.partial_rope), NULL, NULL},
    {FACT(gguf.odd_heads), NULL, NULL}, {FACT(gguf.output), NULL, NULL},
};
enum {
    N_FACTS = sizeof FACTS / sizeof *FACTS,
    N_WRITTEN = sizeof WRITTEN / sizeof *WRITTEN,
    MAX_FAMILIES = 64
};

/* [family][fact]: a model has shown it. */
static bool shown[MAX_FAMILIES][N_FACTS], tried[MAX_FAMILIES];
static bool shown_written[MAX_FAMILIES][N_WRITTEN], written[MAX_FAMILIES];

static Family golden;
static const ModelFamily *found;   /* by the last opening */
static const struct Fact *changed; /* NULL: nothing */
static Config usual;               /* of the unchanged model */

static bool states(const ModelFamily *f, const struct Fact *fact) {
    static const char zeros[16];
    return memcmp((const char *)f + fact->offset, zeros, fact->bytes) != 0;
}

/* A copy of the record in which the changed fact is 0, or, if it is a number
 * that a file may lack, another number. */
static const void *change(const void *family) {
    static ModelFamily copy;
    const ModelFamily *f = family;
    found = f;
    copy = *f;
    if (!changed)
        return f;
    memset((char *)&copy + changed->offset, 0, changed->bytes);
    if (changed->offset == offsetof(ModelFamily, rope_base))
        copy.rope_base = 77;
    if (changed->offset == offsetof(ModelFamily, eps))
        copy.eps = 0.25f;
    if (changed->offset == offsetof(ModelFamily, context))
        copy.context = f->context + 1;
    if (changed->offset == offsetof(ModelFamily, period))
        copy.period = f->period + 1;
    if (changed->offset == offsetof(ModelFamily, window) && f->window > 1)
        copy.window = 3;
    if (changed->offset == offsetof(ModelFamily, head_size))
        copy.head_size = usual.head_size;
    if (changed->offset == offsetof(ModelFamily, n_heads))
        copy.n_heads = usual.n_heads;
    if (changed->offset == offsetof(ModelFamily, hf.n_experts))
        copy.hf.n_experts = usual.n_experts;
    if (changed->offset == offsetof(ModelFamily, hf.original_context))
        copy.hf.original_context = 16;
    /* without the names, gate and up would be the same tensor */
    if (changed->offset == offsetof(ModelFamily, ungated))
        copy.gguf.names = copy.hf.names = NULL;
    return &copy;
}

/* What a model is, as a number; 0: it is refused. */
static uint64_t look(const char *path) {
    Model m;
    Session s;
    uint64_t hash = 1;
    stderr_hide();
    int status_ = model_open(&m, path);
    stderr_show();
    if (status_)
        return 0;
    int n = FAMILY_TOKENS < m.config.context ? FAMILY_TOKENS : m.config.context;
    if (session_open(&s, &m, 1, n, n, KV_F32)) {
        model_close(&m);
        return 0;
    }
    const float *l = model_forward_text(&s, golden.tokens, n, 0, n);
    size_t size = (size_t)n * (size_t)m.config.vocab_size * sizeof *l;
    for (size_t i = 0; l && i < size; i++)
        hash = (hash ^ ((const unsigned char *)l)[i]) * 1099511628211U;
    for (int i = 0; i < m.config.n_layers; i++)
        hash = hash * 31 + (uint64_t)m.layers[i].window * 4 + m.layers[i].rope;
    hash = hash * 31 + (uint64_t)m.config.context;
    session_close(&s);
    model_close(&m);
    return hash ? hash : 1;
}

/* Sets or removes an option that stands in a line of its own. */
static void set_option(char **config, const char *key, const char *value) {
    char line[64], *text;
    snprintf(line, sizeof line, "  \"%s\": ", key);
    char *at = strstr(*config, line), *end = at ? strchr(at, '\n') : NULL;
    if (at && end && end[-1] == ',')
        memmove(at, end + 1, strlen(end));
    char *brace = strchr(*config, '{');
    if (!value)
        return;
    if (asprintf(&text, "{\n  \"%s\": %s,%s", key, value, brace + 1) < 0)
        abort();
    free(*config);
    *config = text;
}

/* Whether a folder with the option of the fact shows it. */
static bool shows_with_option(const struct Fact *fact, const ModelFamily *row,
                              const char *folder) {
    bool is_layer_norm = fact->offset == offsetof(ModelFamily, eps) &&
                         row->norm_form != RMS_NORMS;
    char *given = golden.config;
    golden.config = strdup(given);
    set_option(&golden.config, is_layer_norm ? "layer_norm_eps" : fact->option,
               fact->value);
    bool shows = false;
    if (!family_write(&golden, folder, &(FolderForm){.type = TYPE_F32})) {
        changed = NULL;
        uint64_t before = look(folder);
        changed = fact;
        shows = look(folder) != before;
        changed = NULL;
    }
    free(golden.config);
    golden.config = given;
    return shows;
}

/* Marks the facts of the file's family that it shows as it is. Returns the
 * family. */
static const ModelFamily *look_at_file(const char *path) {
    changed = NULL;
    uint64_t before = look(path);
    const ModelFamily *row = found;
    for (int i = 0; i < N_FACTS; i++) {
        changed = &FACTS[i];
        if (states(row, changed) && !shown[row - FAMILIES][i])
            shown[row - FAMILIES][i] = look(path) != before;
    }
    changed = NULL;
    return row;
}

/* The GGUF file of a model, as a number; 0: it is refused. */
static uint64_t look_at_written(const Model *m, const char *folder,
                                const char *path) {
    uint64_t hash = 1;
    size_t n = 0;
    stderr_hide();
    int status_ =
        gguf_write_model(m, NULL, (GgufForm){.type = TYPE_F32}, folder, path);
    stderr_show();
    char *bytes = status_ ? NULL : file_read(path, &n);
    for (size_t i = 0; bytes && i < n; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211U;
    free(bytes);
    return status_ ? 0 : hash;
}

/* Marks the facts that a written file shows. */
static void write_each(const Model *m, const char *folder, const char *path) {
    changed = NULL;
    uint64_t before = look_at_written(m, folder, path);
    const ModelFamily *row = found;
    for (int i = 0; before && i < N_WRITTEN; i++) {
        changed = &WRITTEN[i];
        written[row - FAMILIES] = true;
        if (states(row, changed) && !shown_written[row - FAMILIES][i])
            shown_written[row - FAMILIES][i] =
                look_at_written(m, folder, path) != before;
    }
    changed = NULL;
}

/* Writes the model as it is, and with what some models of its family have: a
 * tied output, partial RoPE, factors of RoPE, biases. */
static void write_variants(const Model *m, const char *folder,
                           const char *path) {
    static double factors[64];
    static float biases[512];
    Model tied = *m, partial = *m, scaled = *m;
    static Layer layers[16];
    CHECK(m->config.n_layers <= 16 && m->config.head_size <= 128 &&
              m->config.dim <= 512,
          "larger than expected");
    write_each(m, folder, path);
    tied.tied = true;
    tied.output = tied.embedding;
    write_each(&tied, folder, path);
    partial.config.rope.dims /= 2;
    write_each(&partial, folder, path);
    for (int i = 0; i < 64; i++)
        factors[i] = 1.5;
    if (!m->rope_factors) {
        scaled.rope_factors = factors;
        write_each(&scaled, folder, path);
    }
    memcpy(layers, m->layers, (size_t)m->config.n_layers * sizeof *layers);
    for (int l = 0; l < m->config.n_layers; l++)
        m->layers[l].wo.bias = biases;
    write_each(m, folder, path);
    memcpy(m->layers, layers, (size_t)m->config.n_layers * sizeof *layers);
}

static void look_at(const char *name) {
    char path[512], folder[512];
    Model m;
    snprintf(folder, sizeof folder, "%s", temporary("facts"));
    snprintf(path, sizeof path, "%s", temporary("facts.gguf"));
    CHECK(!family_open(&golden, name) &&
              !family_write(&golden, folder, &(FolderForm){.type = TYPE_F32}),
          "no %s", name);
    stderr_hide();
    int opened = !model_open(&m, folder);
    stderr_show();
    CHECK(opened, "%s does not open", name);
    usual = m.config;
    write_variants(&m, folder, path);
    uint64_t is_written = look_at_written(&m, folder, path);
    model_close(&m);
    if (is_written)
        look_at_file(path);
    const ModelFamily *row = look_at_file(folder);
    tried[row - FAMILIES] = true;
    for (int i = 0; i < N_FACTS; i++)
        if (FACTS[i].option && states(row, &FACTS[i]) &&
            !shown[row - FAMILIES][i])
            shown[row - FAMILIES][i] =
                shows_with_option(&FACTS[i], row, folder);
    family_close(&golden);
}

/* Facts that no model here shows, because its files give the value themselves,
 * or lack the tensor or the second option that it takes. test_families.c or
 * test_gguf.c tests them. */
static const struct {
    const char *family, *fact; /* NULL: all families */
} UNSHOWN[] = {
    {"qwen2_moe", "windowed"},
    {"qwen2_moe", "window"},
    {"qwen2_moe", "hf.window"},
    {"smollm3", "windowed"},
    {"smollm3", "hf.window"},
    {"granite", "gguf.finetuned"},
    {NULL, "gguf.hybrid_sizes"},
    {"granitemoe", "gguf.finetuned"},
    {"olmo3", "hf.needs_window"},
    {NULL, "hf.rounds_yarn"},
    {"gemma2", "tied"},
    {"gemma", "tied"},
    {"gemma2", "gguf.default_window"},
    {NULL, "gguf.layers_of_27b"},
    {"exaone4", "hf.sliding_window_pattern"},
    {"ministral3", "rope_base"},
    {"ministral3", "context"},
    {"ministral3", "gguf.scaled_queries"},
    {"llama", "gguf.odd_heads"},
    {"smollm3", "gguf.odd_heads"},
    {"granite", "gguf.odd_heads"},
    {"granitemoe", "gguf.odd_heads"},
};

static bool is_unshown(const ModelFamily *f, const struct Fact *fact) {
    for (size_t i = 0; i < sizeof UNSHOWN / sizeof *UNSHOWN; i++)
        if (!strcmp(UNSHOWN[i].fact, fact->name) &&
            (!UNSHOWN[i].family || !strcmp(UNSHOWN[i].family, f->hf.name)))
            return true;
    return false;
}

static void every_stated_fact_matters(void) {
    DIR *all = opendir("tests/golden/families");
    CHECK(all && N_FAMILIES <= MAX_FAMILIES, "no families");
    replaced_family = change;
    for (const struct dirent *entry; (entry = readdir(all));) {
        char name[64];
        const char *end = strstr(entry->d_name, ".json");
        if (!end)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(end - entry->d_name),
                 entry->d_name);
        look_at(name);
    }
    closedir(all);
    replaced_family = NULL;
    for (int f = 0; f < N_FAMILIES; f++)
        for (int i = 0; written[f] && i < N_WRITTEN; i++)
            CHECK(!states(&FAMILIES[f], &WRITTEN[i]) || shown_written[f][i] ||
                      is_unshown(&FAMILIES[f], &WRITTEN[i]),
                  "%s: %s changes nothing", FAMILIES[f].hf.name,
                  WRITTEN[i].name);
    for (int f = 0; f < N_FAMILIES; f++)
        for (int i = 0; tried[f] && i < N_FACTS; i++)
            CHECK(!states(&FAMILIES[f], &FACTS[i]) || shown[f][i] ||
                      is_unshown(&FAMILIES[f], &FACTS[i]),
                  "%s: %s changes nothing", FAMILIES[f].hf.name, FACTS[i].name);
}

void suite_facts(void) {
    TEST(every_stated_fact_matters);
}
