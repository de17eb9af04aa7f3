/* test_facts.c: every fact of a family's record matters.
 *
 * Opens the models of tests/golden/families, as folders and as GGUF files, with
 * a copy of the record in which one fact that it states is changed. Some model
 * of the family must then be refused, or have other layers or logits. LLaMA's
 * closest relatives have no such models: suites golden and folder test them.
 * Facts that only gguf_write.c reads are tested by test_convert.c and
 * test_families.c.
 */
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
enum { N_FACTS = sizeof FACTS / sizeof *FACTS, MAX_FAMILIES = 64 };

/* [family][fact]: a model has shown it. */
static bool shown[MAX_FAMILIES][N_FACTS], tried[MAX_FAMILIES];

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
    int written =
        opened &&
        !gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32}, folder, path);
    stderr_show();
    CHECK(opened, "%s does not open", name);
    usual = m.config;
    model_close(&m);
    if (written)
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
        for (int i = 0; tried[f] && i < N_FACTS; i++)
            CHECK(!states(&FAMILIES[f], &FACTS[i]) || shown[f][i] ||
                      is_unshown(&FAMILIES[f], &FACTS[i]),
                  "%s: %s changes nothing", FAMILIES[f].hf.name, FACTS[i].name);
}

void suite_facts(void) {
    TEST(every_stated_fact_matters);
}
