/* test_convert.c: convert.c, for other architectures than llama2.c's.
 *
 * A converted model has the same bits if the file has the model's layout, and
 * the same logits up to rounding if rows of queries and keys are permuted.
 * Models that GGUF cannot represent are refused. test_cli.c tests the mode
 * itself.
 */
#include "base/file.h"
#include "base/process.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "formats/parts.h"
#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"
#include "tokenizer.h"

#include "tests/support/binary.h"
#include "tests/support/family_writer.h"
#include "tests/support/folder_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static GgufFile file;

/* Enough layers for every pattern of windows to repeat. */
static const HashModel MANY_LAYERS = {64, 80, 7, 4, 2, 60, 40, true, 38};
static const HashModel MANY_TIED = {64, 80, 7, 4, 2, 60, 40, false, 39};

static int write_relative(const char *name, const HashModel *m,
                          const Relative *r) {
    gguf_make_relative(&file, m, r);
    int status_ = gguf_write(&file, inside(name));
    gguf_free(&file);
    return status_;
}

/* The logits of some tokens; the caller frees them. */
static float *logits_of(const char *model, size_t *n) {
    run("%s -m logits -o out/logits --kv f32 --tokens 1,2,30,17,4,59,5,1,1,44",
        model);
    char *bytes = status == 0 ? file_read(inside("out/logits"), n) : NULL;
    *n /= sizeof(float);
    unlink(inside("out/logits"));
    return (float *)(void *)bytes;
}

/* The largest difference of two models' logits, relative to the largest logit;
 * infinite if a model does not run. */
static double difference(const char *a, const char *b) {
    size_t n = 0, m = 0;
    float *x = logits_of(a, &n), *y = logits_of(b, &m);
    double worst = 0, largest = 0;
    for (size_t i = 0; x && y && n == m && i < n; i++) {
        double d = fabs((double)x[i] - (double)y[i]);
        if (!(d <= worst))
            worst = d;
        largest = fmax(largest, fabs((double)x[i]));
    }
    free(x);
    free(y);
    return largest > 0 ? worst / largest : INFINITY;
}

/* Whether the file contains the key general.architecture with this value. */
static bool is_architecture(const char *name, const char *architecture) {
    size_t size = 0;
    char *bytes = file_read(inside(name), &size), expected[64];
    int n = snprintf(expected, sizeof expected,
                     "general.architecture....%c.......%s",
                     (char)strlen(architecture), architecture);
    for (int i = 20; i < 32; i++)
        expected[i] = (char)(i == 20 ? GGUF_STRING : i == 24 ? expected[i] : 0);
    bool found = bytes && memmem(bytes, size, expected, (size_t)n);
    free(bytes);
    return found;
}

static void an_unchanged_layout_keeps_every_bit(void) {
    if (test_fast()) {
        test_skip("NORMA_FAST: an_unchanged_layout_keeps_every_bit");
        return;
    }
    for (int i = 1; i < 3; i++) { /* qwen3, qwen3moe */
        const GoldenRelative *g = &GOLDEN_RELATIVES[i];
        CHECK(!write_relative("m.gguf", &g->model, &g->relative),
              "cannot write");
        CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
        CHECK(is_architecture("out/a.gguf", g->relative.architecture),
              "%s becomes another", g->name);
        CHECK(difference("m.gguf", "out/a.gguf") == 0, "%s: other logits",
              g->name);
        unlink(inside("out/a.gguf"));
    }
}

/* What a qwen2 cannot store becomes a llama, whose RoPE pairs are adjacent:
 * rows of queries and keys, and of their biases, are permuted. */
static void pairs_in_halves_become_adjacent(void) {
    static const HashModel m = {64, 96, 2, 4, 2, 60, 64, true, 31};
    static const Relative relatives[] = {
        {.architecture = "qwen2",
         .head_size = 24,
         .biases = true,
         .rope_amplitude = 1.25f,
         .rope_factors = true},
        {.architecture = "qwen2",
         .head_size = 80,
         .biases = true,
         .rope_factors = true},
        {.architecture = "qwen2",
         .n_experts = 4,
         .n_experts_used = 2,
         .expert_dim = 32},
    };
    for (int i = test_fast() ? 2 : 0; i < 3; i++) {
        gguf_make_relative(&file, &m, &relatives[i]);
        CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
        gguf_free(&file);
        CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
        CHECK(is_architecture("out/a.gguf", "llama"),
              "model %d does not become a llama", i);
        double found = difference("m.gguf", "out/a.gguf");
        CHECK(found <= 2e-6, "model %d: %g of the largest logit away", i,
              found);
        unlink(inside("out/a.gguf"));
    }
}

/* YaRN is converted to its keys or, for a llama, to rope_freqs and an
 * amplitude. */
static void yarn_is_kept(void) {
    static const HashModel m = {64, 96, 2, 4, 2, 60, 64, true, 33};
    static const Relative relatives[] = {
        {.architecture = "qwen3", .head_size = 24},
        {.architecture = "qwen2", .head_size = 24}};
    if (test_fast()) {
        test_skip("NORMA_FAST: yarn_is_kept");
        return;
    }
    for (int i = 0; i < 2; i++) {
        const Relative *r = &relatives[i];
        gguf_make_relative(&file, &m, r);
        gguf_set_text(&file, gguf_key(r, "rope.scaling.type"), "yarn");
        gguf_set_real(&file, gguf_key(r, "rope.scaling.factor"), 4);
        gguf_set_int(&file, gguf_key(r, "rope.scaling.original_context_length"),
                     40);
        gguf_set_real(&file, gguf_key(r, "rope.scaling.attn_factor"), 0.75f);
        CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
        gguf_remove(&file, gguf_key(r, "rope.scaling.type"));
        gguf_remove(&file, gguf_key(r, "rope.scaling.factor"));
        CHECK(!gguf_write(&file, inside("plain.gguf")), "cannot write");
        gguf_free(&file);
        CHECK(difference("m.gguf", "plain.gguf") > 1e-3, "YaRN has no effect");
        CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
        CHECK(is_architecture("out/a.gguf", r->architecture),
              "wrong architecture");
        double found = difference("m.gguf", "out/a.gguf");
        CHECK(found <= 2e-6, "%s: %g of the largest logit away",
              r->architecture, found);
        unlink(inside("out/a.gguf"));
    }
    /* in llama.cpp yarn_beta_fast and yarn_beta_slow are constants */
    gguf_make_relative(&file, &m, relatives);
    gguf_set_text(&file, "qwen3.rope.scaling.type", "yarn");
    gguf_set_real(&file, "qwen3.rope.scaling.factor", 4);
    gguf_set_real(&file, "qwen3.rope.scaling.yarn_beta_slow", 0.25f);
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    check_refused(1, "qwen3 differs in: rope_scaling",
                  "m.gguf -m convert -q f32 -o out/a.gguf");
}

static void experts_in_every_type(void) {
    static const char *const types[] = {"f16", "bf16", "q8_0", "q4_0"};
    static const double tolerances[] = {2e-3, 2e-2, 5e-2, 0.5};
    const GoldenRelative *g = &GOLDEN_RELATIVES[2];
    CHECK(!write_relative("m.gguf", &g->model, &g->relative), "cannot write");
    for (int i = test_fast() ? 3 : 0; i < 4; i++) {
        CHECK_RUN("m.gguf -m convert -q %s -o out/a.gguf", types[i]);
        CHECK_RUN("out/a.gguf -m info -v");
        char expected[64];
        snprintf(expected, sizeof expected,
                 "  layers.1.experts.7.down  %-5s [64, 32]", types[i]);
        CHECK(strstr(out, expected), "%s: no '%s' in %s", types[i], expected,
              out);
        CHECK(strstr(out, "  layers.1.router          f32   [8, 64]"),
              "%s: wrong router: %s", types[i], out);
        CHECK(
            strstr(
                out,
                "\nn_experts       8\nn_experts_used  2\nexpert_dim      32\n"),
            "%s", out);
        double found = difference("m.gguf", "out/a.gguf");
        CHECK(found <= tolerances[i], "%s: %g of the largest logit away",
              types[i], found);
        unlink(inside("out/a.gguf"));
    }
}

/* ---- folded norms ------------------------------------------------------- */

static bool is_one(const float *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] != 1)
            return false;
    return true;
}

/* The sites whose gamma is not 1, separated by spaces. */
static const char *sites_with_gamma(const char *name) {
    static char sites[256];
    Model m;
    sites[0] = '\0';
    if (model_open(&m, inside(name)))
        return "(does not open)";
    PART_EACH(at, &m) {
        size_t n = strlen(sites);
        const Norm *norm = part_norm(&at);
        if (norm && !is_one(norm->gamma, part_size(&m.config, at.part->cols)))
            snprintf(sites + n, sizeof sites - n, "%d.%s ", at.layer,
                     at.part->site);
    }
    model_close(&m);
    return sites;
}

/* W (gamma * n) = (W gamma) n: the logits are equal up to rounding. */
static void folding_is_exact_up_to_rounding(void) {
    static const struct {
        int relative;
        const char *left;
    } cases[] = {
        {0, ""}, {1, "0.q 0.k 1.q 1.k 2.final "}, {2, "0.q 0.k 1.q 1.k "}};
    for (int i = test_fast() ? 1 : 0; i < 3; i++) {
        const GoldenRelative *g = &GOLDEN_RELATIVES[cases[i].relative];
        CHECK(!write_relative("m.gguf", &g->model, &g->relative),
              "cannot write");
        CHECK_RUN("m.gguf -m convert --fold-norms -q f32 -o out/a.gguf");
        CHECK(!strstr(err, "output_norm keeps") == g->model.untied, "%s: %s",
              g->name, err);
        double found = difference("m.gguf", "out/a.gguf");
        CHECK(found > 0 && found <= 2e-6, "%s: %g of the largest logit away",
              g->name, found);
        CHECK(!strcmp(sites_with_gamma("out/a.gguf"), cases[i].left),
              "%s: gamma is left in %s", g->name,
              sites_with_gamma("out/a.gguf"));
        unlink(inside("out/a.gguf"));
    }
}

/* A norm with beta cannot be folded into the weights; it is unchanged. */
static void a_norm_with_beta_is_not_folded(void) {
    static float beta[64];
    Model m;
    for (int i = 0; i < 64; i++)
        beta[i] = 0.01f * (float)i;
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 0, 0) &&
              !model_open(&m, inside("m.bin")),
          "no model");
    for (int l = 0; l < 2; l++) {
        m.layers[l].mlp_norm.kind = NORM_LAYER;
        m.layers[l].mlp_norm.beta = beta;
    }
    stderr_hide();
    CHECK(!gguf_write_model(&m, NULL,
                            (GgufForm){.type = TYPE_F32, .fold = true}, "m.bin",
                            inside("out/a.gguf")),
          "not written");
    CHECK(
        stderr_show() == 4,
        "expected a note for the MLP's norm, the final norm, the tokenizer, and the report");
    model_close(&m);
    CHECK(!strcmp(sites_with_gamma("out/a.gguf"), "0.mlp 1.mlp 2.final "), "%s",
          sites_with_gamma("out/a.gguf"));
    unlink(inside("out/a.gguf"));
}

/* GGUF has one eps for all norms of a kind. */
static void norms_of_one_kind_have_one_eps(void) {
    static const float beta[64] = {1};
    Model m;
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 0, 0) &&
              !model_open(&m, inside("m.bin")),
          "no model");
    for (int l = 0; l < 2; l++) {
        m.layers[l].mlp_norm.kind = NORM_LAYER;
        m.layers[l].mlp_norm.beta = beta;
    }
    m.layers[1].mlp_norm.eps = 0.5f;
    stderr_hide();
    int result = gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32},
                                  "m.bin", inside("out/a.gguf"));
    CHECK(stderr_show() == 1 && result == -1 &&
              strstr(stderr_text(), "llama differs in: blk.0.ffn_norm"),
          "%d, %s", result, stderr_text());
    model_close(&m);
}

/* ---- centered weights --------------------------------------------------- */

/* A model without means in its residual stream has the same logits with RMSNorm
 * as with LayerNorm (statement 50). */
static void a_centered_model_needs_no_layernorm(void) {
    static const char spec[] = "attn=layer,mlp=layer,final=layer",
                      all[] = "layer";
    static const struct {
        int relative;
        const char *norms;
    } cases[] = {{0, all}, {1, spec}, {2, spec}};
    char original[128];
    for (int i = test_fast() ? 2 : 0; i < 3; i++) {
        const GoldenRelative *g = &GOLDEN_RELATIVES[cases[i].relative];
        CHECK(!write_relative("m.gguf", &g->model, &g->relative),
              "cannot write");
        CHECK_RUN("m.gguf -m convert --norm %s --center -q f32 -o out/a.gguf",
                  cases[i].norms);
        snprintf(original, sizeof original, "m.gguf --norm %s", cases[i].norms);
        double found = difference(original, "out/a.gguf"),
               to_rms = difference("m.gguf", "out/a.gguf");
        CHECK(found > 0 && found <= 1e-5, "%s: %g of the largest logit away",
              g->name, found);
        CHECK(to_rms > 1e-3, "%s: LayerNorm makes no difference: %g", g->name,
              to_rms);
        CHECK_RUN("out/a.gguf -m info -v");
        CHECK(!strstr(out, "LayerNorm") &&
                  strstr(out, "output          separate\n"),
              "%s: %s", g->name, out);
        unlink(inside("out/a.gguf"));
    }
}

static void what_cannot_be_centered_is_refused(void) {
    static const float beta[64] = {1};
    static const char *const places[] = {
        "layers.0.attn_norm", "layers.1.mlp_norm", "layers.1.wo", "final_norm"};
    char expected[96];
    gguf_make_family(&file, &MANY_TIED, "gemma2");
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    check_refused(1, "m.gguf: --center cannot change layers.0.attn_norm",
                  "m.gguf -m convert --center -q f32 -o out/a");
    check_refused(1, "--center cannot change layers.0.attn_post_norm",
                  "m.gguf -m convert --center --norm layer -q f32 -o out/a");
    for (int i = 0; i < 4; i++) {
        Model m;
        CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 0, 0) &&
                  !model_open(&m, inside("m.bin")),
              "no model");
        PART_EACH(at, &m)
            if (part_norm(&at))
                part_norm(&at)->kind = NORM_LAYER;
        *(i == 0   ? &m.layers[0].attn_norm.beta
          : i == 1 ? &m.layers[1].mlp_norm.beta
          : i == 2 ? &m.layers[1].wo.bias
                   : &m.final_norm.beta) = beta;
        stderr_hide();
        int result = model_center(&m, "m.bin");
        CHECK(stderr_show() == 1 && result == -1, "case %d: %d, %s", i, result,
              stderr_text());
        snprintf(
            expected, sizeof expected,
            "m.bin: --center cannot change %s; it needs LayerNorms without beta",
            places[i]);
        CHECK(strstr(stderr_text(), expected), "case %d: %s", i, stderr_text());
        model_close(&m);
    }
}

/* ---- families ----------------------------------------------------------- */

static void families_are_kept(void) {
    for (int i = 0; i < 2 * N_GGUF_FAMILIES; i++) {
        const char *architecture = GGUF_FAMILIES[i / 2];
        bool tied = i % 2 || !strcmp(architecture, "gemma2");
        if (test_fast() && i % 3)
            continue;
        gguf_make_family(&file, tied ? &MANY_TIED : &MANY_LAYERS, architecture);
        Relative r = {.architecture = architecture};
        if (!strcmp(architecture, "olmo2") ||
            (tied && !strcmp(architecture, "gemma3"))) {
            /* only layers without windows */
            gguf_set_text(&file, gguf_key(&r, "rope.scaling.type"), "yarn");
            gguf_set_int(&file,
                         gguf_key(&r, "rope.scaling.original_context_length"),
                         20);
        }
        if (!strcmp(architecture, "olmo2") || !strcmp(architecture, "gemma3"))
            gguf_set_real(&file, gguf_key(&r, "rope.scaling.factor"), 8);
        if (!strcmp(architecture, "gemma3"))
            gguf_set_real(&file, "gemma3.final_logit_softcapping", 4);
        CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
        gguf_free(&file);
        CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
        CHECK(is_architecture("out/a.gguf", architecture), "%s becomes another",
              architecture);
        CHECK(difference("m.gguf", "out/a.gguf") == 0, "%s: other logits",
              architecture);
        CHECK_RUN("out/a.gguf -m convert -q q8_0 -o out/b.gguf");
        double found = difference("m.gguf", "out/b.gguf");
        CHECK(found > 0 && found < 0.1, "%s: %g of the largest logit away",
              architecture, found);
        unlink(inside("out/a.gguf"));
        unlink(inside("out/b.gguf"));
    }
}

/* A Granite may have no RoPE at all; only a key that is copied says so. */
static void a_granite_without_rope_is_kept(void) {
    gguf_make_family(&file, &MANY_TIED, "granite");
    gguf_set(&file, "granite.rope.scaling.finetuned", GGUF_BOOL, &(bool){false},
             1);
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
    CHECK(is_architecture("out/a.gguf", "granite"), "another");
    CHECK(difference("m.gguf", "out/a.gguf") == 0, "other logits");
    unlink(inside("out/a.gguf"));
}

/* In a llama RoPE rotates whole heads. */
static void partial_rope_becomes_phi3(void) {
    Relative r = {.architecture = "qwen2"};
    gguf_make_relative(&file, &MANY_LAYERS, &r);
    gguf_set_int(&file, "qwen2.rope.dimension_count", 10);
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
    CHECK(is_architecture("out/a.gguf", "phi3"), "another");
    CHECK(difference("m.gguf", "out/a.gguf") == 0, "other logits");
    unlink(inside("out/a.gguf"));
}

/* A row names the architectures that store what its own cannot: LayerNorms and
 * RMSNorms of --norm, and MiniMind's head norms, for which GGUF has no name. */
static void other_architectures_store_what_a_row_lacks(void) {
    static const struct {
        const char *family, *norms, *architecture;
    } cases[] = {{"ernie4_5", "layer", "llama"},
                 {"ministral3", "layer", "llama"},
                 {"seed_oss", "layer", "llama"},
                 {"olmo", "rms", "llama"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Family f;
        char changed[64];
        CHECK(
            !family_open(&f, cases[i].family) &&
                !family_write(&f, inside("f"), &(FolderForm){.type = TYPE_F32}),
            "no %s", cases[i].family);
        family_close(&f);
        snprintf(changed, sizeof changed, "f --norm %s", cases[i].norms);
        CHECK_RUN("%s -m convert -q f32 -o out/a.gguf", changed);
        CHECK(is_architecture("out/a.gguf", cases[i].architecture),
              "%s becomes another", cases[i].family);
        double found = difference(changed, "out/a.gguf");
        CHECK(found <= 4e-6, "%s: %g of the largest logit away",
              cases[i].family, found);
        unlink(inside("out/a.gguf"));
    }
}

static void minimind_becomes_a_qwen3(void) {
    for (int experts = 0; experts <= 4; experts += 4) {
        const char *architecture = experts ? "qwen3moe" : "qwen3";
        Relative r = {.architecture = architecture,
                      .n_experts = experts,
                      .n_experts_used = experts / 2,
                      .expert_dim = experts ? 32 : 0};
        Model m;
        CHECK(!write_relative("m.gguf", &MANY_LAYERS, &r) &&
                  !model_open(&m, inside("m.gguf")) &&
                  !folder_write(&m, inside("minimind"),
                                &(FolderForm){.model_type = "minimind"}),
              "cannot write");
        model_close(&m);
        CHECK_RUN("minimind -m convert -q f32 -o out/a.gguf");
        CHECK(is_architecture("out/a.gguf", architecture), "not a %s",
              architecture);
        CHECK(difference("minimind", "out/a.gguf") == 0, "other logits");
        unlink(inside("out/a.gguf"));
    }
}

/* Other programs ignore a llama's window, so the context is cut to it. */
static void the_context_is_cut_to_a_llama_s_window(void) {
    Model m;
    gguf_make(&file, &MANY_LAYERS, 0);
    gguf_set_int(&file, "llama.attention.sliding_window", 10);
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf");
    CHECK(strstr(err, "note: GGUF's llama cannot store windows"), "%s", err);
    CHECK(difference("m.gguf", "out/a.gguf") == 0, "other logits");
    CHECK(!model_open(&m, inside("out/a.gguf")) && m.config.context == 10,
          "context %d", m.config.context);
    CHECK(m.layers[0].window == 10, "a window of %d", m.layers[0].window);
    model_close(&m);
    unlink(inside("out/a.gguf"));
}

static void check_unrepresentable(const char *architecture, int change,
                                  const char *expected) {
    Model m;
    gguf_make_family(&file, &MANY_TIED, architecture);
    CHECK(!gguf_write(&file, inside("m.gguf")) &&
              !model_open(&m, inside("m.gguf")),
          "no model");
    gguf_free(&file);
    Layer *layers = m.layers;
    switch (change) {
    case 0: layers[1].window = 4; break;
    case 1: layers[6].window = 0; break;
    case 2: layers[5].rope = ROPE_LOCAL; break;
    case 3: layers[2].rope = ROPE_NONE; break;
    case 4: m.config.local_base = 500; break;
    case 5: m.config.attention_scale = 0.5f; break;
    case 6: m.config.embedding_scale = 1; break;
    case 7: m.config.activation = !m.config.activation; break;
    case 8: layers[6].mlp_post_norm.gamma = NULL; break;
    case 9: layers[6].attn_norm = (Norm){.kind = NORM_NONE}; break;
    case 10: m.config.attention_cap = 0; break;
    case 11: m.config.attention_cap = 50; break;
    case 12: layers[0].wo.bias = layers[0].attn_norm.gamma; break;
    case 13: m.config.n_kv_heads = m.config.n_heads = 2; break;
    case 14: m.tied = false; break;
    case 15: m.config.rope.halves = false; break;
    case 16: m.config.rope.amplitude = 1.25; break;
    case 17: m.config.logit_scale = 0.5f; break;
    }
    stderr_hide();
    int status_ = gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32},
                                   "m.gguf", inside("out/a.gguf"));
    CHECK(
        stderr_show() == 1 && status_ == -1 && strstr(stderr_text(), expected),
        "%s, change %d: %d, %s", architecture, change, status_, stderr_text());
    model_close(&m);
}

static void families_that_gguf_cannot_represent_are_refused(void) {
    const char *const layers =
        "differs in: the windows or the RoPE of its layers";
    check_unrepresentable("gemma2", 0, layers);
    check_unrepresentable("gemma2", 1, layers);
    check_unrepresentable("gemma3", 1, layers);
    check_unrepresentable("gemma3", 2, layers);
    check_unrepresentable("smollm3", 3, layers);
    check_unrepresentable("olmo2", 3, layers);
    check_unrepresentable("olmo2", 4,
                          "olmo2: olmo2.rope.freq_base_swa is 500, expected ");
    check_unrepresentable("gemma2", 5, "gemma2 differs in: attention.scale");
    check_unrepresentable("gemma3", 6, "gemma3 differs in: embedding_scale");
    check_unrepresentable("smollm3", 5,
                          /* has granite's layout, but layers without RoPE */
                          "smollm3 differs in: attention.scale");
    check_unrepresentable("olmo2", 17, "olmo2 differs in: logit_scale");
    check_unrepresentable("gemma3", 7, "gemma3 differs in: the activation");
    /* has gemma's activation, but factors */
    check_unrepresentable("granite", 7, "granite differs in: the activation");
    check_unrepresentable(
        "olmo2", 8, "olmo2: tensor blk.6.post_ffw_norm.weight is missing");
    check_unrepresentable("granite", 9,
                          "granite: tensor blk.6.attn_norm.weight is missing");
    check_unrepresentable("gemma2", 10,
                          "gemma2 differs in: attn_logit_softcapping");
    check_unrepresentable("gemma3", 11,
                          "gemma3 differs in: attn_logit_softcapping");
    check_unrepresentable("gemma3", 12, "differs in: blk.0.attn_output");
    check_unrepresentable(
        "phi3", 13,
        "phi3: tensor blk.0.attn_output.weight is [1, 64, 64], expected");
    check_unrepresentable("gemma2", 14, "gemma2 differs in: a tied output");
    check_unrepresentable("gemma3", 15,
                          "gemma3 differs in: RoPE that pairs neighbours");
    check_unrepresentable(
        "gemma3", 16,
        "gemma3: gemma3.rope.scaling.attn_factor is 1.25, expected 1");
}

static void models_that_gguf_cannot_represent_are_refused(void) {
    static const HashModel m = {64, 96, 2, 4, 2, 60, 64, true, 32};
    Relative r = {.architecture = "qwen3moe",
                  .n_experts = 4,
                  .n_experts_used = 2,
                  .expert_dim = 32};
#define REFUSED(expected)                                                      \
    do {                                                                       \
        CHECK(!write_relative("m.gguf", &m, &r), "cannot write");              \
        check_refused(1, expected, "m.gguf -m convert -q f32 -o out/a.gguf");  \
    } while (0)
    r.n_dense = 1;
    REFUSED("differs in: blk.0.ffn_gate_inp");
    if (test_fast())
        return; /* the other cases differ only in the message */
    r.n_dense = 0;
    r.plain_weights = true;
    CHECK(!write_relative("m.gguf", &m, &r), "cannot write");
    CHECK_RUN("m.gguf -m convert -q f32 -o out/a.gguf"); /* a key of its own */
    CHECK(difference("m.gguf", "out/a.gguf") == 0, "other logits");
    unlink(inside("out/a.gguf"));
    r = (Relative){
        .architecture = "qwen3", .head_size = 16, .rope_factors = true};
    REFUSED("qwen3 differs in: rope_scaling");
    gguf_make_relative(&file, &m, &(Relative){.architecture = "qwen3"});
    gguf_add(&file, "blk.1.attn_output.bias", 1, m.dim, 0, 1, 1);
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    check_refused(1, "differs in: blk.1.attn_output",
                  "m.gguf -m convert -q f32 -o out/a.gguf");
    CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
#undef REFUSED
}

static void ctrl_c_leaves_no_file(void) {
    Model m;
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 0, 0) &&
              !model_open(&m, inside("m.bin")),
          "no model");
    for (int i = 0; i < 2; i++) {
        interrupted = i == 0;
        int result = gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32},
                                      "m.bin", inside("out/a.gguf"));
        CHECK(result == 0 && files_in("out") == i,
              "interrupted %d: %d, %d files", i == 0, result, files_in("out"));
    }
    model_close(&m);
    unlink(inside("out/a.gguf"));
}

/* Values that are not finite in float32 are refused before a file is
 * written. */
static void numbers_beyond_float32_are_refused(void) {
    static const HashModel m = {64, 96, 2, 4, 2, 60, 64, true, 34};
    static const struct {
        double base; /* of RoPE */
        const char *options, *mention;
    } cases[] = {
        {1e300, NULL,
         "llama.rope.freq_base would be 1e+300, which float32 cannot represent"},
        {1e-60, NULL,
         "llama.rope.freq_base would be 1e-60, which float32 cannot represent"},
        {1e4, "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 1e39}",
         "llama.rope.scaling.factor would be 1e+39"},
        {1e4,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": 1e200}",
         "llama.rope.scaling.attn_factor would be "},
        {1e4,
         "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 1e100, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 1}",
         "of rope_freqs would be 1e+100, which float32 cannot represent"},
    };
    Model model;
    CHECK(!hashmodel_write(&m, inside("m.bin"), 0, 0) &&
              !model_open(&model, inside("m.bin")),
          "cannot make the model");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FolderForm form = {
            .model_type = "llama", .n_files = 1, .options = cases[i].options};
        model.config.rope.base = cases[i].base;
        CHECK(!folder_write(&model, inside("big"), &form), "cannot write");
        check_refused(1, cases[i].mention,
                      "big -m convert -q f32 -o out/a.gguf");
        CHECK(files_in("out") == 0, "%d files left over", files_in("out"));
    }
    model_close(&model);
}

/* GGUF stores EOS and one more end token, preferably chat's. Any token may be
 * an end, also token 0. */
static void a_file_has_two_end_tokens(void) {
    static const struct {
        int eot, n_ends, ends[2], expected;
    } cases[] = {{-1, 0, {0}, -1},   {-1, 1, {2}, -1},   {-1, 1, {5}, 5},
                 {-1, 2, {2, 5}, 5}, {-1, 2, {5, 6}, 5}, {-1, 2, {0, 5}, 0},
                 {0, 1, {5}, 0},     {7, 1, {5}, 7},     {7, 0, {0}, 7}};
    static const HashModel form = {16, 16, 1, 2, 1, 300, 16, true, 36};
    Model m, again;
    Tokenizer t, t_again;
    CHECK(!hashtokenizer_write(inside("tokenizer.bin"), 300) &&
              !hashmodel_write(&form, inside("m.bin"), 0, 0) &&
              !model_open(&m, inside("m.bin")) &&
              !tokenizer_open_bin(&t, inside("tokenizer.bin"), 300),
          "no model");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        t.eos = 2;
        t.eot = cases[i].eot;
        t.ends.n = 0;
        for (int k = 0; k < cases[i].n_ends; k++)
            CHECK(!tokens_add(&t.ends, cases[i].ends[k]), "no memory");
        CHECK(!gguf_write_model(&m, &t, (GgufForm){.type = TYPE_F32}, "m.bin",
                                inside("ends.gguf")),
              "case %zu: not written", i);
        CHECK(!model_open(&again, inside("ends.gguf")),
              "case %zu does not open", i);
        CHECK(gguf_read_tokenizer(&t_again, again.files, "ends.gguf", 300,
                                  true) == 1,
              "case %zu: no tokenizer", i);
        CHECK(t_again.eos == 2 && t_again.eot == cases[i].expected,
              "case %zu: EOS %d and %d, expected %d", i, t_again.eos,
              t_again.eot, cases[i].expected);
        tokenizer_close(&t_again);
        model_close(&again);
    }
    tokenizer_close(&t);
    model_close(&m);
    unlink(inside("tokenizer.bin"));
}

/* The tokenizer is read back, too. GGUF has a type of pieces for bytes, but
 * finds them by their names. */
static void a_tokenizer_that_changes_is_refused(void) {
    static const HashModel form = {16, 16, 1, 2, 1, 300, 16, true, 36};
    Model m;
    Tokenizer t;
    CHECK(!hashtokenizer_write(inside("tokenizer.bin"), 300) &&
              !hashmodel_write(&form, inside("m.bin"), 0, 0) &&
              !model_open(&m, inside("m.bin")) &&
              !tokenizer_open_bin(&t, inside("tokenizer.bin"), 300),
          "no model");
    for (int i = 0; i < 2; i++) {
        t.pieces.list[280].kind = i ? PIECE_BYTE : PIECE_USER;
        stderr_hide();
        int result = gguf_write_model(&m, &t, (GgufForm){.type = TYPE_F32},
                                      "m.bin", inside("out/a.gguf"));
        CHECK(stderr_show() == 1 && result == -i, "case %d: %d, %s", i, result,
              stderr_text());
        CHECK(!i || strstr(stderr_text(), "m.bin: GGUF cannot store it; "
                                          "llama differs in: the "
                                          "pieces of its tokenizer"),
              "%s", stderr_text());
    }
    tokenizer_close(&t);
    model_close(&m);
    unlink(inside("tokenizer.bin"));
    unlink(inside("out/a.gguf"));
}

/* ---- keys that are kept ------------------------------------------------- */

/* The keys of a, whose bytes b has unless the list names them: " name name
 * ". */
static void check_keys_kept(const char *a, const char *b, const char *changed) {
    Gguf given = {0}, found = {0};
    File files[2];
    CHECK(!file_map(&files[0], inside(a)) && !file_map(&files[1], inside(b)) &&
              !gguf_open(&given, a, &files[0]) &&
              !gguf_open(&found, b, &files[1]),
          "%s or %s does not open", a, b);
    for (size_t i = 0; i < given.n_values; i++) {
        const GgufValue *v = &given.values[i];
        char name[80], listed[84];
        snprintf(name, sizeof name, "%.*s", (int)v->key.n, v->key.text);
        snprintf(listed, sizeof listed, " %s ", name);
        const GgufValue *w = gguf_find_value(&found, name);
        CHECK(strstr(changed, listed) ||
                  (w && w->type == v->type && w->is_array == v->is_array &&
                   w->bytes == v->bytes && !memcmp(w->at, v->at, v->bytes)),
              "%s: %s is %s", b, name, w ? "changed" : "lost");
    }
    gguf_close(&given);
    gguf_close(&found);
    file_unmap(&files[0]);
    file_unmap(&files[1]);
}

/* Converted twice, a file has the same keys: names, tokenizer, what only its
 * architecture has. Token types too: an unknown token may be a control token
 * (SmolLM2), a user-defined one spaces (Gemma). */
static void every_key_is_kept(void) {
    static const HashModel m = {64, 96, 2, 4, 2, 300, 64, true, 40};
    static const GgufPiece last[] = {{"<|end|>", 3}, {"a b", 4}, {"  ", 4}};
    static const uint8_t tags[] = {8,   0, 0, 0, 2, 0, 0, 0, 0, 0,
                                   0,   0, 1, 0, 0, 0, 0, 0, 0, 0,
                                   'x', 1, 0, 0, 0, 0, 0, 0, 0, 'y'};
    static const char same[] =
        " general.file_type general.alignment split.count split.no ";
    Relative r = {.architecture = "qwen2", .biases = true};
    gguf_make_relative(&file, &m, &r);
    CHECK(!gguf_add_tokenizer(&file, m.vocab_size, last, 3), "no tokenizer");
    gguf_set_int(&file, "tokenizer.ggml.unknown_token_id", 297);
    gguf_set_int(&file, "tokenizer.ggml.padding_token_id", 297);
    gguf_set_int(&file, "tokenizer.ggml.add_sep_token", 0);
    gguf_set_text(&file, "tokenizer.chat_template", "{{ 1 }}");
    gguf_set_text(&file, "general.name", "A name");
    gguf_set_text(&file, "general.license", "mit");
    gguf_set(&file, "general.tags", GGUF_ARRAY, tags, sizeof tags);
    gguf_set_int(&file, "general.file_type", 0);
    gguf_set_int(&file, "general.alignment", 64);
    gguf_set_int(&file, "split.count", 0);
    gguf_set_int(&file, "qwen2.attention.causal", 1);
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    CHECK_RUN("m.gguf -m convert -q q8_0 -o out/a.gguf");
    CHECK_RUN("out/a.gguf -m convert -q f16 -o out/b.gguf");
    check_keys_kept("m.gguf", "out/a.gguf", same);
    check_keys_kept("out/a.gguf", "out/b.gguf", same);
    unlink(inside("out/a.gguf"));
    /* another architecture: its keys go, the others stay */
    gguf_make_relative(&file, &m,
                       &(Relative){.architecture = "qwen2",
                                   .head_size = 16,
                                   .rope_factors = true});
    gguf_set_text(&file, "general.name", "A name");
    CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
    gguf_free(&file);
    CHECK_RUN("m.gguf -m convert -q f32 -o out/b.gguf");
    CHECK(is_architecture("out/b.gguf", "llama"), "another architecture");
    Gguf g = {0};
    File mapped;
    CHECK(!file_map(&mapped, inside("out/b.gguf")) &&
              !gguf_open(&g, "b", &mapped),
          "does not open");
    CHECK(gguf_find_value(&g, "general.name"), "the name is lost");
    for (size_t i = 0; i < g.n_values; i++)
        CHECK(g.values[i].key.n < 6 ||
                  memcmp(g.values[i].key.text, "qwen2.", 6),
              "a key of qwen2 is left");
    gguf_close(&g);
    file_unmap(&mapped);
    unlink(inside("out/b.gguf"));
}

/* The embedding and the output of a q4_0 file are q8_0, tied or not, unless
 * --pure is given. What is quantized already gets a note when it is quantized
 * again, and only then. */
static void the_embedding_of_q4_0_is_q8_0(void) {
    static const char again[] = "note: the weights are quantized already";
    for (int untied = 0; untied < 2; untied++) {
        HashModel m = {64, 96, 2, 4, 2, 60, 64, untied, 41};
        CHECK(
            !write_relative("m.gguf", &m, &(Relative){.architecture = "qwen3"}),
            "cannot write");
        for (int pure = 0; pure < 2; pure++) {
            CHECK_RUN("m.gguf -m convert -q q4_0 %s -o out/a.gguf",
                      pure ? "--pure" : "");
            CHECK(!strstr(err, again), "%s", err);
            CHECK_RUN("out/a.gguf -m info -v");
            const char *expected = pure ? "  embedding                q4_0"
                                        : "  embedding                q8_0";
            CHECK(strstr(out, expected) &&
                      strstr(out, "  layers.1.down            q4_0"),
                  "no '%s' in %s", expected, out);
            CHECK(!untied ||
                      strstr(out, pure ? "  output                   q4_0"
                                       : "  output                   q8_0"),
                  "%s", out);
        }
        CHECK_RUN("out/a.gguf -m convert -q q8_0 -o out/b.gguf");
        CHECK(strstr(err, again), "%s", err);
        CHECK_RUN("out/a.gguf -m convert -q f16 -o out/b.gguf");
        CHECK(!strstr(err, again), "%s", err);
        unlink(inside("out/a.gguf"));
        unlink(inside("out/b.gguf"));
    }
}

/* Infinity, NaN, and numbers that become one of these in the type of the file
 * are refused, for every type, from a folder and from a GGUF file, in a weight
 * and in a norm. */
static void no_file_has_infinity_or_nan(void) {
    static const struct {
        const char *tensor;
        float value;
        int accepted; /* by f32 and bf16 */
    } cases[] = {{"blk.1.attn_q.weight", INFINITY, 0},
                 {"blk.0.ffn_down.weight", NAN, 0},
                 {"blk.1.ffn_norm.weight", NAN, 0},
                 {"output_norm.weight", -INFINITY, 0},
                 {"token_embd.weight", 9e6f, 1},
                 {"blk.0.ffn_up.weight", -9e7f, 1}};
    static const char *const types[] = {"f32", "bf16", "f16", "q8_0", "q4_0"};
    static const HashModel m = {64, 96, 2, 4, 2, 60, 64, true, 34};
    Model model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_make_relative(&file, &m, &(Relative){.architecture = "llama"});
        gguf_tensor(&file, cases[i].tensor)->values[5] = cases[i].value;
        CHECK(!gguf_write(&file, inside("m.gguf")), "cannot write");
        gguf_free(&file);
        CHECK(!model_open(&model, inside("m.gguf")) &&
                  !folder_write(&model, inside("huge"),
                                &(FolderForm){"llama", .n_files = 1}),
              "no folder");
        model_close(&model);
        for (int k = 0; k < 10; k++) {
            const char *input = k % 2 ? "huge" : "m.gguf";
            run("%s -m convert -q %s -o out/a.gguf", input, types[k / 2]);
            bool accepted = cases[i].accepted && k / 2 < 2;
            CHECK(status == !accepted && files_in("out") == accepted,
                  "%s, %s, %s: status %d, %s", cases[i].tensor, input,
                  types[k / 2], status, err);
            unlink(inside("out/a.gguf"));
            char name[40];
            snprintf(name, sizeof name, "%.*s",
                     (int)strlen(cases[i].tensor) - 7, cases[i].tensor);
            CHECK(accepted || (strstr(err, name) && strstr(err, ", 5] is ")),
                  "%s: %s", name, err);
        }
    }
}

/* What a text ends at, the tokens that a template can name, and how to sample
 * are the same after a conversion, and after another one. */
static void ends_and_sampling_are_kept(void) {
    static const HashModel form = {16, 16, 1, 2, 1, 300, 16, true, 36};
    Model m, again;
    Tokenizer t, back;
    CHECK(!hashtokenizer_write(inside("tokenizer.bin"), 300) &&
              !hashmodel_write(&form, inside("m.bin"), 0, 0) &&
              !model_open(&m, inside("m.bin")) &&
              !tokenizer_open_bin(&t, inside("tokenizer.bin"), 300),
          "no model");
    for (int n = 0; n < 6; n++) {
        bool failed = n > 0 && tokens_add(&t.ends, 270 + n);
        for (int i = 0; i < N_NAMED_TOKENS; i++)
            t.named[i] = 280 + i + n;
        for (int i = 0; i < N_ADVICE; i++)
            t.advice[i] = (Advice){i != n, i == ADVICE_TOP_K ? 20 : 0.25 * i};
        if (n % 2)
            t.advice[ADVICE_REPEAT_LAST].value = 0;
        t.advice[ADVICE_REPEAT_LAST].value =
            floor(t.advice[ADVICE_REPEAT_LAST].value);
        stderr_hide();
        failed |= gguf_write_model(&m, &t, (GgufForm){.type = TYPE_F32},
                                   "m.bin", inside("ends.gguf")) != 0;
        stderr_show();
        CHECK(!failed, "%d ends: %s", n, stderr_text());
        CHECK_RUN("ends.gguf -m convert -q q8_0 -o again.gguf");
        CHECK(!model_open(&again, inside("again.gguf")) &&
                  gguf_read_tokenizer(&back, again.files, "again.gguf", 300,
                                      true) == 1,
              "%d ends: does not open", n);
        for (int id = 0; id < 300; id++)
            CHECK(id == 2 || tokenizer_is_end(&t, id, true) ==
                                 tokenizer_is_end(&back, id, true),
                  "%d ends: token %d", n, id);
        for (int i = 0; i < N_NAMED_TOKENS; i++)
            CHECK(back.named[i] == t.named[i], "%s: %d, expected %d",
                  NAMED_TOKEN_KEYS[i], back.named[i], t.named[i]);
        for (int i = 0; i < N_ADVICE; i++)
            CHECK(back.advice[i].given == t.advice[i].given &&
                      (!t.advice[i].given ||
                       back.advice[i].value == t.advice[i].value),
                  "%s: %g, expected %g", ADVICE_KEYS[i], back.advice[i].value,
                  t.advice[i].value);
        tokenizer_close(&back);
        model_close(&again);
    }
    tokenizer_close(&t);
    model_close(&m);
    unlink(inside("tokenizer.bin"));
    unlink(inside("ends.gguf"));
    unlink(inside("again.gguf"));
}

/* A terminal gets no binary output; a file that cannot be written is refused
 * before the model runs. */
static void outputs_are_checked_first(void) {
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 0, 0), "no model");
    check_refused(1, "nowhere/a.gguf: No such file or directory",
                  "m.bin -m convert -q f32 -o nowhere/a.gguf");
    check_refused(1, "nowhere/a.csv: No such file or directory",
                  "m.bin --tokens 1 --profile=nowhere/a.csv");
    check_refused(1, "out: is a directory, expected a file",
                  "m.bin -m logits --tokens 1 -o out");
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal),
          "no terminal");
    CHECK(run("m.bin -m convert -q f32 -o %s", ptsname(terminal)) == 1 &&
              strstr(err, "is a terminal; write to a file or a pipe"),
          "status %d, %s", status, err);
    close(terminal);
}

/* ---- the bytes ---------------------------------------------------------- */

/* A pipe receives the same bytes as a file. */
static void a_pipe_gets_the_same_file(void) {
    const GoldenRelative *g = &GOLDEN_RELATIVES[1];
    size_t n = 0;
    CHECK(!write_relative("m.gguf", &g->model, &g->relative), "cannot write");
    CHECK_RUN("m.gguf -m convert -q q8_0 -o out/a.gguf");
    static char piped[1 << 18];
    char *bytes = file_read(inside("out/a.gguf"), &n);
    CHECK(bytes && !mkfifo(inside("fifo"), 0600), "no pipe");
    int fd = open(inside("fifo"), O_RDONLY | O_NONBLOCK);
    CHECK(fd >= 0 && fcntl(fd, F_SETPIPE_SZ, sizeof piped) > (int)n,
          "no pipe for %zu bytes",
          n); /* the pipe holds the whole file, so the program never waits */
    CHECK_RUN("m.gguf -m convert -q q8_0 -o fifo");
    ssize_t got = read(fd, piped, sizeof piped);
    CHECK(got == (ssize_t)n && !memcmp(piped, bytes, n),
          "%zd bytes through the pipe, expected %zu", got, n);
    close(fd);
    free(bytes);
    unlink(inside("fifo"));
    unlink(inside("out/a.gguf"));
}

/* Converts a vocabulary with one long piece, whose name is built in memory,
 * with less and less memory until the tokenizer does not open. The file is
 * complete, or missing, with one line on stderr. */
static void without_memory_no_partial_file_is_left(void) {
    static const HashModel m = {16, 16, 1, 2, 1, 301, 16, true, 35};
    int length = 8 << 20;
    size_t step = test_thorough() ? 2 << 20 : 7 << 20;
    size_t n = 0;
    int whole = 0, refused = 0;
#ifdef __SANITIZE_ADDRESS__
    test_skip("the address sanitizer maps terabytes");
    return;
#endif
    if (test_fast()) {
        test_skip("NORMA_FAST: without_memory_no_partial_file_is_left");
        return;
    }
    CHECK(!hashmodel_write(&m, inside("m.bin"), 0, 0) &&
              !hashtokenizer_write(inside("tokenizer.bin"), 300),
          "no model");
    FILE *pieces = fopen(inside("tokenizer.bin"), "ab");
    CHECK(pieces && fwrite(&(float){-9}, 4, 1, pieces) &&
              fwrite(&length, 4, 1, pieces),
          "cannot write");
    for (int i = 0; i < length; i++)
        fputc('x', pieces);
    fclose(pieces);
    CHECK_RUN("m.bin -m convert -q f32 -o out/a.gguf");
    char *bytes = file_read(inside("out/a.gguf"), &n);
    CHECK(bytes && n > (size_t)length, "%zu bytes", n);
    for (size_t max = 100 << 20; max > step; max -= step) {
        size_t found = 0;
        unlink(inside("out/a.gguf"));
        setup.memory = max;
        if (run("m.bin -m tokenize -i a"))
            break;
        setup.memory = max;
        run("m.bin -m convert -q f32 -o out/a.gguf");
        char *again = status ? NULL : file_read(inside("out/a.gguf"), &found);
        CHECK(status == 0 || (status == 1 && one_line(err) &&
                              strstr(err, "out of memory") && !files_in("out")),
              "%zu bytes: status %d, %d files, %s", max, status,
              files_in("out"), err);
        CHECK(status || (found == n && !memcmp(again, bytes, n)),
              "%zu bytes: a file of %zu", max, found);
        *(status ? &refused : &whole) += 1;
        free(again);
    }
    CHECK(whole > 0 && refused > 0, "%d files, %d refused", whole, refused);
    free(bytes);
    unlink(inside("out/a.gguf"));
    unlink(inside("tokenizer.bin"));
}

void suite_convert(void) {
    binary_folder("convert");
    mkdir(inside("out"), 0700);
    TEST(an_unchanged_layout_keeps_every_bit);
    TEST(pairs_in_halves_become_adjacent);
    TEST(yarn_is_kept);
    TEST(experts_in_every_type);
    TEST(folding_is_exact_up_to_rounding);
    TEST(a_norm_with_beta_is_not_folded);
    TEST(norms_of_one_kind_have_one_eps);
    TEST(a_centered_model_needs_no_layernorm);
    TEST(what_cannot_be_centered_is_refused);
    TEST(families_are_kept);
    TEST(a_granite_without_rope_is_kept);
    TEST(partial_rope_becomes_phi3);
    TEST(other_architectures_store_what_a_row_lacks);
    TEST(minimind_becomes_a_qwen3);
    TEST(the_context_is_cut_to_a_llama_s_window);
    TEST(families_that_gguf_cannot_represent_are_refused);
    TEST(models_that_gguf_cannot_represent_are_refused);
    TEST(ctrl_c_leaves_no_file);
    TEST(numbers_beyond_float32_are_refused);
    TEST(a_file_has_two_end_tokens);
    TEST(a_tokenizer_that_changes_is_refused);
    TEST(every_key_is_kept);
    TEST(the_embedding_of_q4_0_is_q8_0);
    TEST(no_file_has_infinity_or_nan);
    TEST(ends_and_sampling_are_kept);
    TEST(outputs_are_checked_first);
    TEST(a_pipe_gets_the_same_file);
    TEST(without_memory_no_partial_file_is_left);
}
