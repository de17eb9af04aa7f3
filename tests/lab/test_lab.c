/* test_lab.c: --norm and -m norms.
 *
 * Tests the syntax of --norm, the logits after a swap (the bits of a checkpoint
 * with these norms), medians, and the output of -m norms, whose numbers depend
 * on the machine and are only checked to exist.
 */
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "kernels/lanes.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "lab/estimate.h"
#include "lab/limits.h"
#include "lab/norm_spec.h"
#include "lab/stopwatch.h"
#include "model.h"
#include "norm.h"
#include "session.h"

#include "tests/support/binary.h"
#include "tests/support/family_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/json_check.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOKENS = 12, N_SITES_HERE = 7 };

static const HashModel MODEL = {64, 96, 3, 4, 2, 60, 40, true, 7};

/* In the order of the forward pass. */
static const char *const SITES[N_SITES_HERE] = {
    "blk.0.attn_norm", "blk.0.ffn_norm", "blk.1.attn_norm", "blk.1.ffn_norm",
    "blk.2.attn_norm", "blk.2.ffn_norm", "output_norm"};

static GgufFile file;

/* ---- syntax -------------------------------------------------------------- */

/* The kinds of all sites, "rlrrrrl". */
static const char *kinds_of(const Model *model) {
    static char kinds[N_SITES_HERE + 1];
    for (int l = 0; l < model->config.n_layers; l++) {
        kinds[2 * l] = model->layers[l].attn_norm.kind == NORM_RMS ? 'r' : 'l';
        kinds[2 * l + 1] =
            model->layers[l].mlp_norm.kind == NORM_RMS ? 'r' : 'l';
    }
    kinds[6] = model->final_norm.kind == NORM_RMS ? 'r' : 'l';
    return kinds;
}

/* Opens the model; sites marked l in `layers` ("lrrrrrr") are LayerNorms with a
 * random bias, or 0 if `width` is 0. */
static int open_file(Model *model, const char *layers, float width) {
    const char *path = temporary("lab.gguf");
    gguf_make(&file, &MODEL, 0);
    for (int i = 0; i < N_SITES_HERE; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.bias", SITES[i]);
        if (layers[i] == 'l')
            gguf_add(&file, name, 1, MODEL.dim, 0, width, (uint64_t)i);
    }
    int status_ = gguf_write(&file, path) || model_open(model, path) ? -1 : 0;
    gguf_free(&file);
    return status_;
}

static const struct {
    const char *spec, *kinds; /* kinds: of a model that had only RMSNorms */
} SPECS[] = {
    {"rms", "rrrrrrr"},
    {"layer", "lllllll"},
    {"attn=layer", "lrlrlrr"},
    {"mlp=layer", "rlrlrlr"},
    {"final=layer", "rrrrrrl"},
    {"0.attn=layer", "lrrrrrr"},
    {"1.mlp=layer", "rrrlrrr"},
    {"0-2.mlp=layer", "rlrlrlr"},
    {"1-2.attn=layer", "rrlrlrr"},
    {"2-2.attn=layer", "rrrrlrr"},
    {"0-2.attn=layer,final=rms", "lrlrlrr"},
    {"0-1.attn=layer,final=layer,2.mlp=layer", "lrlrrll"},
    {"layer,1.attn=rms", "llrllll"}, /* later items override earlier ones */
    {"1.attn=rms,layer", "lllllll"},
    {"layer,mlp=rms,final=rms,1.mlp=layer", "lrlllrr"},
};
enum { N_SPECS = sizeof SPECS / sizeof *SPECS };

static void valid_specifications(void) {
    for (int i = 0; i < N_SPECS; i++) {
        Model model;
        CHECK(!open_file(&model, "rrrrrrr", 0), "no model");
        CHECK(!model_swap_norms(&model, SPECS[i].spec), "%s: refused",
              SPECS[i].spec);
        CHECK(!strcmp(kinds_of(&model), SPECS[i].kinds), "%s: %s, expected %s",
              SPECS[i].spec, kinds_of(&model), SPECS[i].kinds);
        model_close(&model);
    }
}

static const struct {
    const char *spec, *mention;
} MISTAKES[] = {
    {"", "is not KIND or [LAYERS.]SITE=KIND"},
    {"batch", "is not KIND or [LAYERS.]SITE=KIND"},
    {"Layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"layer ", "is not KIND or [LAYERS.]SITE=KIND"},
    {"attn", "is not KIND or [LAYERS.]SITE=KIND"},
    {"attn=", "is not KIND or [LAYERS.]SITE=KIND"},
    {"attn=rmsnorm", "is not KIND or [LAYERS.]SITE=KIND"},
    {"attn=layer=rms", "is not KIND or [LAYERS.]SITE=KIND"},
    {"=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"norm=layer", "names a norm that this model does not have"},
    {"attn_norm=layer", "names a norm that this model does not have"},
    {"0.=layer", "names a norm that this model does not have"},
    {"att=layer", "names a norm that this model does not have"},
    {"attn=layer.rms", "is not KIND or [LAYERS.]SITE=KIND"},
    {"dyt", "is not KIND or [LAYERS.]SITE=KIND"},
    {"rms:1", "is not KIND or [LAYERS.]SITE=KIND"},
    {"dyt:", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0.attn=dyt:0", "is not KIND or [LAYERS.]SITE=KIND"},
    {"attn=dyt:-1", "is not KIND or [LAYERS.]SITE=KIND"},
    {"dyt:nan", "is not KIND or [LAYERS.]SITE=KIND"},
    {"dyt:inf", "is not KIND or [LAYERS.]SITE=KIND"},
    {"dyt:1x", "is not KIND or [LAYERS.]SITE=KIND"},
    {"layer,", "is not KIND or [LAYERS.]SITE=KIND"},
    {",layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"layer,,rms", "is not KIND or [LAYERS.]SITE=KIND"},
    {"q=layer", "names a norm that this model does not have"},
    {"0.k=rms", "names a norm that this model does not have"},
    {"0.final=layer", "names a norm that this model does not have"},
    {"3.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0-3.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"2-1.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"99999999999999999999.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"-1.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"x.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {".attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0-.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0-x.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0 .attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0-1-2.attn=layer", "is not KIND or [LAYERS.]SITE=KIND"},
    {"0..attn=layer", "names a norm that this model does not have"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=rms",
     "is not KIND or [LAYERS.]SITE=KIND"},
    {"d:1", "is not KIND"},
    {"attn=rms x", "is not KIND"},
};
enum { N_MISTAKES = sizeof MISTAKES / sizeof *MISTAKES };

static void errors_in_specifications(void) {
    Model model;
    CHECK(!open_file(&model, "rrrrrrr", 0), "no model");
    for (int i = 0; i < N_MISTAKES; i++) {
        stderr_hide();
        int found = model_swap_norms(&model, MISTAKES[i].spec),
            lines = stderr_show();
        CHECK(found == -1 && lines == 1, "'%s': %d, %d lines", MISTAKES[i].spec,
              found, lines);
        CHECK(strstr(stderr_text(), "--norm: ") &&
                  strstr(stderr_text(), MISTAKES[i].mention),
              "'%s': no '%s' in %s", MISTAKES[i].spec, MISTAKES[i].mention,
              stderr_text());
    }
    model_close(&model);
}

/* ---- logits after a swap ------------------------------------------------- */

static float logits[2][TOKENS * 60];

/* All logits, after a swap if spec is not NULL. */
static int run_model(Model *model, const char *spec, float *found) {
    int tokens[TOKENS], status_ = -1;
    Session s;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = hash_token(&MODEL, i);
    if (spec && model_swap_norms(model, spec))
        return -1;
    if (session_open(&s, model, 1, TOKENS, 0, KV_F32))
        return -1;
    const float *l = model_forward_text(&s, tokens, TOKENS, 0, TOKENS);
    if (l)
        memcpy(found, l, sizeof logits[0]);
    status_ = l ? 0 : -1;
    session_close(&s);
    return status_;
}

/* A swapped LayerNorm keeps gamma and has beta 0, like a file whose biases are
 * 0. */
static void a_swap_equals_a_checkpoint_with_these_norms(void) {
    for (int i = 0; i < N_SPECS; i++) {
        Model swapped, real;
        CHECK(!open_file(&swapped, "rrrrrrr", 0) &&
                  !run_model(&swapped, SPECS[i].spec, logits[0]),
              "does not run");
        CHECK(!open_file(&real, SPECS[i].kinds, 0) &&
                  !run_model(&real, NULL, logits[1]),
              "does not run");
        CHECK(!strcmp(kinds_of(&real), SPECS[i].kinds),
              "the file's norms are %s", kinds_of(&real));
        CHECK(!memcmp(logits[0], logits[1], sizeof logits[0]),
              "%s: other logits", SPECS[i].spec);
        model_close(&swapped);
        model_close(&real);
    }
}

/* RMSNorm ignores a LayerNorm's beta; swapping back restores it. */
static void layernorms_become_rmsnorms(void) {
    static float plain[TOKENS * 60], layer[TOKENS * 60];
    Model model;
    CHECK(!open_file(&model, "rrrrrrr", 0) && !run_model(&model, NULL, plain),
          "does not run");
    model_close(&model);
    CHECK(!open_file(&model, "lllllll", 1) && !run_model(&model, NULL, layer),
          "does not run");
    CHECK(memcmp(plain, layer, sizeof plain), "LayerNorms have no effect");
    CHECK(!run_model(&model, "rms", logits[0]), "does not run");
    CHECK(!memcmp(logits[0], plain, sizeof plain),
          "--norm rms: not the logits of RMSNorms");
    CHECK(!run_model(&model, "layer", logits[0]), "does not run");
    CHECK(!memcmp(logits[0], layer, sizeof plain),
          "--norm rms, then layer: beta is lost");
    model_close(&model);
    CHECK(!open_file(&model, "lrlrlrl", 1) &&
              !run_model(&model, "attn=rms,final=rms", logits[0]),
          "does not run");
    CHECK(!memcmp(logits[0], plain, sizeof plain),
          "some sites: not the logits of RMSNorms");
    model_close(&model);
}

/* No norm is the identity; the input is used without a copy. */
static void none_is_the_identity(void) {
    Norm none = {.kind = NORM_NONE};
    float y[8] = {0};
    float x[8] = {3, -1, 0.5f, 7, 1e30f, -0.0f, NAN, 2};
    norm_token(y, x, &none, 8);
    CHECK(!memcmp(y, x, sizeof x), "a token is changed");
}

/* dyt:ALPHA reaches the sites that are named, with their gamma; GGUF cannot
 * store it. */
static void dyt_has_an_alpha(void) {
    Model m;
    CHECK(!hashmodel_write(&MODEL, temporary("dyt.bin"), 1, 0) &&
              !model_open(&m, temporary("dyt.bin")),
          "no model");
    CHECK(!model_swap_norms(&m, "1.attn=dyt:0.75,final=dyt:2"), "refused");
    CHECK(m.layers[1].attn_norm.kind == NORM_DYT &&
              m.layers[1].attn_norm.alpha == 0.75f,
          "another alpha");
    CHECK(m.final_norm.kind == NORM_DYT && m.final_norm.alpha == 2 &&
              m.final_norm.gamma,
          "another final norm");
    CHECK(m.layers[0].attn_norm.kind == NORM_RMS &&
              m.layers[1].mlp_norm.kind == NORM_RMS,
          "other sites changed");
    stderr_hide();
    CHECK(gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32}, "m",
                           temporary("dyt.gguf")) == -1,
          "GGUF stores it");
    CHECK(stderr_show() == 1 &&
              strstr(stderr_text(), "differs in: blk.1.attn_norm"),
          "%s", stderr_text());
    model_close(&m);
}

/* ---- norms of heads ------------------------------------------------------ */

static const GoldenRelative *const QWEN3 = &GOLDEN_RELATIVES[1];
static const char *const HEAD_SITES[] = {
    "blk.0.attn_q_norm", "blk.0.attn_k_norm", "blk.1.attn_q_norm",
    "blk.1.attn_k_norm"};

/* The kinds of the four head norms, and of the first layer's other norms:
 * "rlrl/rr". */
static const char *head_kinds_of(const Model *model) {
    static char kinds[8];
    const Layer *l = model->layers;
    NormKind all[] = {l[0].q_norm.kind,    l[0].k_norm.kind,
                      l[1].q_norm.kind,    l[1].k_norm.kind,
                      l[0].attn_norm.kind, l[0].mlp_norm.kind};
    for (int i = 0; i < 6; i++)
        kinds[i + i / 4] = all[i] == NORM_RMS ? 'r' : 'l';
    kinds[4] = '/';
    return kinds;
}

/* Opens the model; those marked l have a bias of zeros. */
static int open_heads(Model *model, const char *layers) {
    const char *path = temporary("heads.gguf");
    gguf_make_relative(&file, &QWEN3->model, &QWEN3->relative);
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.bias", HEAD_SITES[i]);
        if (layers[i] == 'l')
            gguf_add(&file, name, 1, QWEN3->relative.head_size, 0, 0, 1);
    }
    int status_ = gguf_write(&file, path) || model_open(model, path) ? -1 : 0;
    gguf_free(&file);
    return status_;
}

static void head_norms_are_swapped(void) {
    static const struct {
        const char *spec, *kinds;
    } specs[] = {{"q=layer", "lrlr/rr"},
                 {"k=layer", "rlrl/rr"},
                 {"1.q=layer,0.k=layer", "rllr/rr"},
                 {"q=layer,k=layer,0-1.q=rms", "rlrl/rr"}};
    static float plain[TOKENS * 60];
    Model model;
    CHECK(!open_heads(&model, "rrrr") && !run_model(&model, NULL, plain),
          "does not run");
    model_close(&model);
    for (int i = 0; i < 4; i++) {
        Model real;
        CHECK(!open_heads(&model, "rrrr") &&
                  !run_model(&model, specs[i].spec, logits[0]),
              "does not run");
        CHECK(!strcmp(head_kinds_of(&model), specs[i].kinds), "%s: %s",
              specs[i].spec, head_kinds_of(&model));
        CHECK(!open_heads(&real, specs[i].kinds) &&
                  !run_model(&real, NULL, logits[1]),
              "does not run");
        CHECK(!memcmp(logits[0], logits[1], sizeof logits[0]),
              "%s: other logits", specs[i].spec);
        CHECK(memcmp(logits[0], plain, sizeof plain), "%s: no difference",
              specs[i].spec);
        model_close(&model);
        model_close(&real);
    }
    CHECK(!open_heads(&model, "rrrr") && !model_swap_norms(&model, "layer"),
          "refused");
    CHECK(!strcmp(head_kinds_of(&model), "llll/ll"), "layer: %s",
          head_kinds_of(&model));
    model_close(&model);
}

/* ---- --norm ------------------------------------------------------------- */

static const HashModel SPEAKING = {64, 172, 3, 8, 4, 512, 64, false, 11};

static void make_models(void) {
    binary_folder("lab");
    mkdir(inside("out"), 0700);
    hashmodel_write(&SPEAKING, inside("model.bin"), 1, 0);
    hashtokenizer_write(inside("tokenizer.bin"), 512);
    gguf_make(&file, &MODEL, 0); /* LayerNorms with a different eps */
    gguf_set_real(&file, "llama.attention.layer_norm_epsilon", 0.5f);
    gguf_add(&file, "output_norm.bias", 1, MODEL.dim, 0, 1, 1);
    gguf_write(&file, inside("mixed.gguf"));
    gguf_free(&file);
}

static void bad_specifications_are_refused(void) {
    for (int i = 0; i < N_MISTAKES; i += test_fast() ? 8 : 1) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "model.bin -i aa --norm '%s'",
                 MISTAKES[i].spec);
        check_refused(2, MISTAKES[i].mention, arguments);
    }
    check_refused(2, "requires an argument", "model.bin -i aa --norm");
}

/* The bytes of the logits with these arguments; the caller frees them. */
static char *logits_of(const char *arguments, size_t *size) {
    run("%s -m logits --kv f32 --tokens 1,2,300,17,4,99,5 -o out/logits",
        arguments);
    char *bytes = status == 0 ? file_read(inside("out/logits"), size) : NULL;
    unlink(inside("out/logits"));
    return bytes;
}

/* A model converted with --norm has the logits, text and perplexity of the
 * model run with --norm. */
static void conversion_keeps_a_swap(void) {
    static const char *const specs[] = {
        "layer", "rms", "0-1.attn=layer,final=layer", "2.mlp=layer"};
    static char text[1024], perplexity[1024];
    char *plain, *found[2];
    size_t n, sizes[2];
    CHECK((plain = logits_of("model.bin", &n)), "does not run: %s", err);
    for (int i = 0; i < (test_fast() ? 1 : 4); i++) {
        char arguments[128];
        CHECK_RUN("model.bin --norm %s -m convert -q f32 -o out/a.gguf",
                  specs[i]);
        snprintf(arguments, sizeof arguments, "model.bin --norm %s", specs[i]);
        CHECK((found[0] = logits_of(arguments, &sizes[0])) &&
                  (found[1] = logits_of("out/a.gguf", &sizes[1])),
              "does not run: %s", err);
        CHECK(sizes[0] == n && sizes[1] == n && !memcmp(found[0], found[1], n),
              "%s: other logits", specs[i]);
        CHECK(!memcmp(found[0], plain, n) == (i == 1), "%s: %s", specs[i],
              i == 1 ? "changes something" : "changes nothing");
        free(found[0]);
        free(found[1]);
        CHECK_RUN("out/a.gguf -t 0 -i 'aa ba' -n 30");
        snprintf(text, sizeof text, "%.1000s", out);
        CHECK_RUN("model.bin --norm %s -t 0 -i 'aa ba' -n 30", specs[i]);
        CHECK(!strncmp(out, text, 1000) && n_out > 10,
              "%s: '%s', expected '%s'", specs[i], out, text);
        CHECK_RUN("out/a.gguf -m perplexity -i 'aa ba ca da'");
        snprintf(perplexity, sizeof perplexity, "%.1000s", out);
        CHECK_RUN("model.bin --norm %s -m perplexity -i 'aa ba ca da'",
                  specs[i]);
        CHECK(!strcmp(out, perplexity), "%s: %s, expected %s", specs[i], out,
              perplexity);
    }
    free(plain);
    unlink(inside("out/a.gguf"));
}

static void none_is_noted_to_be_only_for_timing(void) {
    static const char note_[] =
        "note: --norm none is for timing only: the model generates meaningless text\n";
    CHECK_RUN("model.bin -t 0 -i aa -n 8");
    CHECK(!strstr(err, "timing"), "%s", err);
    for (int i = 0; i < 2; i++) {
        CHECK_RUN("model.bin -t 0 -i aa -n 8 --norm %s",
                  i ? "1.attn=none,final=rms" : "none");
        CHECK(!strncmp(err, note_, sizeof note_ - 1), "%s", err);
    }
}

static void info_shows_a_swap(void) {
    CHECK_RUN("model.bin -m info -v --norm 1.mlp=layer,final=layer");
    CHECK(strstr(out, "  layers.1.mlp_norm        LayerNorm") &&
              strstr(out, "  layers.1.attn_norm       RMSNorm") &&
              strstr(out, "  final_norm               LayerNorm"),
          "%s", out);
}

/* GGUF has one eps for all LayerNorms, so a swapped site with a different eps
 * cannot be written. */
static void mixed_eps_is_refused_in_gguf(void) {
    CHECK_RUN("mixed.gguf -m convert -q f32 -o out/a.gguf");
    CHECK(unlink(inside("out/a.gguf")) == 0, "no file");
    run("mixed.gguf -m convert -q f32 -o out/a.gguf --norm 0.attn=layer");
    CHECK(status == 1 && one_line(err) && strstr(err, "differs in: blk."),
          "status %d, %s", status, err);
    run("mixed.gguf -m convert -q f32 -o out/a.gguf --norm rms");
    CHECK(status == 1 && one_line(err) && strstr(err, "differs in: blk."),
          "status %d, %s", status, err);
    CHECK(files_in("out") == 0, "a file was written");
}

/* ---- the stopwatch ------------------------------------------------------ */

/* One value increases with the rounds, one is constant, one decreases; the
 * round after `last` fails. Round -1 is the warm-up. */
typedef struct {
    int round, last;
} Script;

static int play_round(void *context, double *values) {
    Script *s = context;
    if (s->round == s->last)
        return -1;
    values[0] = s->round;
    values[1] = 4;
    values[2] = -s->round;
    s->round++;
    return 0;
}

static int play_steady_round(void *context, double *values) {
    Script *s = context;
    values[0] = s->round < 9
                    ? s->round
                    : 100 + 0.001 * s->round; /* converges after 9 rounds */
    s->round++;
    return 0;
}

static void check_estimate(Estimate e, double median, double low, double high) {
    CHECK(e.value == median && e.low == low && e.high == high,
          "%g in [%g, %g], expected %g in [%g, %g]", e.value, e.low, e.high,
          median, low, high);
}

/* y = 2 x + errors of -1, 0, -1 and 2, whose squares sum to 6; x sums to 6. */
static void a_ratio_has_an_interval(void) {
    double x[] = {1, 1, 2, 2}, y[] = {1, 2, 3, 6},
           error = 1.959964 * sqrt(6 * 4 / 3.0) / 6;
    Ratio r = {0};
    CHECK(estimate_ratio(&r).value == 0, "a ratio without values");
    ratio_add(&r, 3, 2);
    CHECK(estimate_ratio(&r).value == 1.5 && !isfinite(estimate_ratio(&r).low),
          "a single pair has an interval");
    r = (Ratio){0};
    for (int i = 0; i < 4; i++)
        ratio_add(&r, y[i], x[i]);
    Estimate e = estimate_ratio(&r);
    CHECK(e.value == 2 && fabs(e.high - 2 - error) < 1e-4 &&
              fabs(2 - e.low - error) < 1e-4,
          "%g in [%g, %g]", e.value, e.low, e.high);
}

/* The ranks of the median's interval follow from the binomial distribution: the
 * first and the last of 7 values, the 228th and the 274th of 501 (n / 2 -+ 0.98
 * sqrt(n)). */
static void measuring_estimates_medians(void) {
    Estimate found[4] = {[3] = {-7, -7, -7}};
    Script script = {-1, 1000};
    CHECK(measure(play_round, &script, 3, 0, found) == 1 && script.round == 1,
          "%d rounds", script.round);
    check_estimate(found[1], 4, 4, 4);
    check_estimate(found[3], -7, -7, -7);
    check_estimate(
        estimate_median((const double[]){-6, -5, -4, -3, -2, -1, 0}, 7), -3, -6,
        0);
    script = (Script){-1, 1000};
    CHECK(measure(play_round, &script, 3, 1e6, found) == 501 &&
              script.round == 501,
          "%d rounds", script.round);
    check_estimate(found[0], 250, 227, 273);
    check_estimate(found[2], -250, -273, -227);
    script = (Script){-1, 3};
    CHECK(measure(play_round, &script, 3, 1e6, found) == -1 &&
              script.round == 3,
          "a failed round is ignored");
}

/* Measuring ends when the interval is within 2 % of the median: when the first
 * 9 rounds are below its lower rank. */
static void check_usable(double value, double low, double high, int n,
                         bool usable) {
    const char *why = estimate_unusable((Estimate){value, low, high}, n);
    CHECK(!why == usable, "%g in [%g, %g], %d values: %s", value, low, high, n,
          why ? why : "usable");
}

static void few_rounds_and_wide_intervals_are_not_measurable(void) {
    check_usable(1, 0.9, 1.1, 5, true);
    check_usable(1, 0.9, 1.1, 4, false);
    check_usable(0.59, 0.59, 0.59, 1, false);
    check_usable(1, 0.5, 1.5, 99, true);
    check_usable(1, 0.5, 1.51, 99, false);
    check_usable(976, -606057, 608009, 99, false);
    check_usable(-2, -2.5, -1.5, 9, true);
    check_usable(0, 0, 0, 9, true);
    check_usable(NAN, NAN, NAN, 9, false);
    CHECK_RUN("model.bin -m norms -j 1 --seconds 0");
    CHECK(strstr(out, "not measurable here: fewer than five rounds") &&
              strstr(out, " of decode is not measurable here: ") &&
              !strstr(out, "+-"),
          "an interval of one round: %s", out);
    CHECK_RUN("model.bin -m norms -j 1 --seconds 0 --json");
    CHECK(strstr(out, "\"decode_percent_not_measurable\": \"fewer than"), "%s",
          out);
}

static void measuring_ends_at_2_percent(void) {
    Estimate found;
    Script script = {-1, 1000};
    int rounds = measure(play_steady_round, &script, 1, 1e6, &found);
    int rank = (int)(0.5 * (rounds - 1.96 * sqrt(rounds))),
        before = (int)(0.5 * (rounds - 1 - 1.96 * sqrt(rounds - 1)));
    CHECK(rank == 10 && before == 9, "%d rounds", rounds);
    CHECK(found.low > 100 && found.high < 101, "[%g, %g]", found.low,
          found.high);
}

/* ---- -m norms ----------------------------------------------------------- */

static const char *const KEYS[] = {"dim",
                                   "tokens",
                                   "threads",
                                   "rmsnorm_ns",
                                   "add_then_rmsnorm_ns",
                                   "layernorm_to_rmsnorm",
                                   "layernorm_no_beta_to_rmsnorm",
                                   "copy_to_rmsnorm",
                                   "fused_to_separate"};
enum { N_KEYS = 9 };

/* The number of a key in the object that begins at s; NAN: the key is
 * missing. */
static double number_of(const char *s, const char *key, const char *suffix) {
    char name[64];
    const char *end = strchr(s, '}');
    snprintf(name, sizeof name, "\"%s%s\": ", key, suffix);
    const char *at = strstr(s, name);
    return at && at < end ? strtod(at + strlen(name), NULL) : (double)NAN;
}

/* Reads the cases on stdout, one object per line, each with these keys and
 * intervals; -1 if a number is missing. Skips the objects of whole models. */
static int read_cases(double cases[][N_KEYS], int max) {
    int n = 0;
    char *end;
    for (char *s = out; n < max && *s; s = end + 1) {
        if (!(end = strchr(s, '\n')))
            return -1;
        *end = '\0';
        bool is_object = json_valid(s) && !strncmp(s, "{\"model\": ", 10),
             is_case = strstr(s, "\"dim\": ");
        for (int k = 0; k < N_KEYS && is_case; k++) {
            cases[n][k] = number_of(s, KEYS[k], "");
            double low = number_of(s, KEYS[k], "_low"),
                   high = number_of(s, KEYS[k], "_high");
            if (isnan(cases[n][k]) ||
                (k > 2 && !(low <= cases[n][k] && cases[n][k] <= high)))
                return -1;
        }
        *end = '\n';
        n += is_case;
        if (!is_object)
            return -1;
    }
    return n;
}

static void check_case(const double *values, int dim, int tokens, int threads) {
    CHECK(values[0] == dim && values[1] == tokens &&
              values[2] == (tokens < threads ? tokens : threads),
          "dim %g, %g tokens, %g threads; expected %d, %d", values[0],
          values[1], values[2], dim, tokens);
    for (int k = 3; k < N_KEYS; k++)
        CHECK(isfinite(values[k]) && values[k] > 0,
              "dim %d, %d tokens: %s is %g", dim, tokens, KEYS[k], values[k]);
}

static const int COUNTS[] = {1, 8, 64, 512};
static double cases[64][N_KEYS];

static void the_bench_of_a_model_s_sites(void) {
    CHECK_RUN("model.bin -m norms --json -j 2 --seconds 0.02");
    CHECK(*err == '\0' && read_cases(cases, 64) == 4, "other objects: %s%s",
          out, err);
    for (int i = 0; i < 4; i++)
        check_case(cases[i], 64, COUNTS[i], 2);
    static const char *const names[] = {"unchanged", "none", "LayerNorm",
                                        "RMSNorm"};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "\"norms\": \"%s\"", names[i]);
        const char *way = strstr(out, name);
        CHECK(way, "no %s in %s", name, out);
        double share = number_of(way, "decode_percent", ""),
               us = number_of(way, "decode_us_per_token", "");
        double over[] = {number_of(way, "prefill_over_none", ""),
                         number_of(way, "decode_over_none", "")};
        CHECK(share >= 0 && share < 100 && us > 0, "%s: %g, %g", name, share,
              us);
        for (int k = 0; k < 2; k++) /* the time without norms is the divisor */
            CHECK(i == 1 ? over[k] == 1 : over[k] > 0, "%s: %g", name, over[k]);
    }
    CHECK_RUN("model.bin -m norms -j 1 --seconds 0.02");
    static const char *const words[] = {
        "Layer/RMS",       "no beta/RMS",   "copy/RMS",     "\n   64      1 ",
        "\n   64    512 ", "\nprefill of ", "\nunchanged ", "\nnone ",
        "\nRMSNorm ",      "\nLayerNorm "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(strstr(out, words[i]), "no '%s' in %s", words[i], out);
    CHECK(!strstr(out, "\n  128 "), "other dims than the model's: %s", out);
    for (const char *line = out; *line; line += strcspn(line, "\n") + 1)
        CHECK(strcspn(line, "\n") <= 80, "a line of %zu columns: %s",
              strcspn(line, "\n"), line);
}

/* The text is as long as the options say, or shorter, if it has to end in time
 * or would take more than half of the context for either. */
static void the_text_of_the_bench_of_norms(void) {
    static const struct {
        const char *arguments;
        double prompt, steps;
    } cases_[] = {{"-n 3 --prompt-tokens 5", 5, 3},
                  {"-n 60 --prompt-tokens 2", 2, 32},
                  {"-n 2 --prompt-tokens 60", 32, 2}};
    for (int i = 0; i < 3; i++) {
        char arguments[128];
        double prompt, steps, seconds = 0.4;
        bool whole;
        do { /* a busy machine needs more time for the same text */
            snprintf(arguments, sizeof arguments,
                     "model.bin -m norms --json -c 64 --seconds %g %s", seconds,
                     cases_[i].arguments);
            CHECK_RUN("%s", arguments);
            prompt = number_of(out, "prompt", "");
            steps = number_of(out, "steps", "");
            whole = prompt == cases_[i].prompt && steps == cases_[i].steps;
            CHECK(prompt <= cases_[i].prompt && steps <= cases_[i].steps,
                  "%s: %g + %g tokens", arguments, prompt, steps);
            seconds *= 4;
        } while (!whole && seconds < 30);
        CHECK(whole, "%s: %g + %g tokens", arguments, prompt, steps);
        CHECK(number_of(out, "prefill_percent", "_low") <=
                  number_of(out, "prefill_percent", "_high"),
              "no interval: %s", out);
    }
}

/* The width of its norms, then that of its head norms. */
static void the_bench_of_a_model_with_head_norms(void) {
    gguf_make_relative(&file, &QWEN3->model, &QWEN3->relative);
    gguf_write(&file, inside("heads.gguf"));
    gguf_free(&file);
    CHECK_RUN("heads.gguf -m norms --json -j 2 --seconds 0.02");
    CHECK(*err == '\0' && read_cases(cases, 64) == 8, "other objects: %s%s",
          out, err);
    for (int i = 0; i < 8; i++)
        check_case(cases[i], i < 4 ? 64 : 24, COUNTS[i % 4], 2);
    CHECK_RUN("heads.gguf -m info -v --norm 1.k=layer");
    CHECK(strstr(out, "  layers.1.q_norm          RMSNorm") &&
              strstr(out, "  layers.1.k_norm          LayerNorm"),
          "%s", out);
}

/* The read bandwidth is measured on at most 512 MB, whatever size a sparse file
 * has. */
static void the_memory_that_is_read_is_limited(void) {
#ifndef SANITIZED
    struct rlimit little = {64 << 20, RLIM_INFINITY};
    struct rlimit before;
    size_t n = 0, size = 0;
    if (test_fast())
        return; /* valgrind needs the memory */
    getrlimit(RLIMIT_AS, &before);
    setrlimit(RLIMIT_AS, &little);
    stderr_hide();
    double rate = read_rate((size_t)64 << 30, 1);
    stderr_show();
    setrlimit(RLIMIT_AS, &before);
    CHECK(rate == 0 && sscanf(stderr_text(), "run: out of memory: %zu x %zu",
                              &n, &size) == 2,
          "%s", stderr_text());
    CHECK(n * size <= 513 << 20, "%zu bytes", n * size);
#endif
}

/* With AVX2, a product of int8 takes four instructions. The limit counts all of
 * them: the compiler must not move one out of the loop. (Without objdump or
 * AVX2 there is nothing to count.) */
static void limit_multiplies(const char *function, int signs_each,
                             int products_each) {
    char command[3 * PATH_MAX], text[512];
    const char *binary = getenv("NORMA_RUN");
    snprintf(command, sizeof command,
             "objdump -d --no-show-raw-insn --disassemble=%s '%s' 2>/dev/null",
             function, binary ? binary : "./run");
    FILE *in = LANES == 8 ? popen(command, "r") : NULL;
    int signs = 0, products = 0, sums = 0;
    while (in && fgets(text, sizeof text, in)) {
        signs += strstr(text, "vpsignb") != NULL;
        products += strstr(text, "vpmaddubsw") != NULL;
        sums += strstr(text, "vpmaddwd") != NULL;
    }
    if (in)
        pclose(in);
    CHECK(signs == signs_each * sums && products == products_each * sums,
          "%s: %d signs and %d products in %d sums", function, signs, products,
          sums);
}

static void the_limit_of_int8_multiplies_all_it_counts(void) {
    limit_multiplies("multiply_bytes", 1, 1);
    limit_multiplies("multiply_2_quads", 0, 2);
    limit_multiplies("multiply_4_quads", 0, 4);
}

/* Copies the program, with the bundled model next to it, and makes run() use
 * the copy until NORMA_RUN is restored. */
static bool copy_with_bundled_model(void) {
    char models[PATH_MAX], program[PATH_MAX];
    size_t size = 0;
    char *bytes =
        realpath(getenv("NORMA_RUN") ? getenv("NORMA_RUN") : "./run", program)
            ? file_read(program, &size)
            : NULL;
    if (!bytes || !realpath("models", models) || mkdir(inside("with"), 0700))
        return false;
    snprintf(program, sizeof program, "%s", inside("with/run"));
    FILE *out_ = fopen(program, "wb");
    bool whole = out_ && fwrite(bytes, 1, size, out_) == size && !fclose(out_);
    free(bytes);
    return whole && !chmod(program, 0700) &&
           !symlink(models, inside("with/models")) &&
           !setenv("NORMA_RUN", program, 1);
}

/* Of the bundled model, then dim 8 with the notes' 10 tokens and every dim. */
static void the_bench_of_all_dims(void) {
    if (test_fast()) {
        test_skip("NORMA_FAST: -m norms of all dims");
        return;
    }
    char before[PATH_MAX];
    snprintf(before, sizeof before, "%s",
             getenv("NORMA_RUN") ? getenv("NORMA_RUN") : "./run");
    CHECK(copy_with_bundled_model(), "no copy of the program");
    run("-m norms --json -j 2 --seconds 0.02");
    setenv("NORMA_RUN", before, 1);
    unlink(inside("with/models"));
    unlink(inside("with/run"));
    rmdir(inside("with"));
    CHECK(status == 0, "status %d: %s", status, err);
    CHECK(*err == '\0' && read_cases(cases, 64) == 37, "other objects: %s%s",
          out, err);
    CHECK(strstr(out, "stories.gguf\"") && strstr(out, "\"decode_percent\": "),
          "the bundled model is not measured: %s", out);
    check_case(cases[0], 8, 10, 2);
    for (int i = 0; i < 36; i++)
        check_case(cases[1 + i], i < 4 ? 8 : 32 << i / 4, COUNTS[i % 4], 2);
}

/* ---- --norm-sweep and --dump -------------------------------------------- */

static double nats(const char *arguments) {
    run("model.bin -m perplexity --tokens 4,9,300,17,8,99,5,2,77 %s",
        arguments);
    const char *at = strstr(out, "NLL per token");
    return at ? strtod(at + strlen("NLL per token"), NULL) : (double)NAN;
}

/* The NLL of each of the text's n tokens in `model.bin` with these norms. */
static void nats_of_tokens(const char *norms, double *nll, int n) {
    char list[64] = "4";
    static const char *const more[] = {",9",  ",300", ",17", ",8",
                                       ",99", ",5",   ",2",  ",77"};
    double before = 0;
    for (int i = 0; i < n; i++) {
        run("model.bin -m perplexity --tokens %s %s", list, norms);
        const char *at = strstr(out, "total NLL");
        double total =
            at ? strtod(at + strlen("total NLL"), NULL) : (double)NAN;
        nll[i] = total - before;
        before = total;
        strcat(list, i < 8 ? more[i] : "");
    }
}

/* The standard error of the mean difference of 9 tokens: blocks of 3. */
static double paired_error(const char *norms) {
    double own[9], other[9], mean = 0, squares = 0, sums[3] = {0};
    nats_of_tokens("", own, 9);
    nats_of_tokens(norms, other, 9);
    for (int i = 0; i < 9; i++) {
        sums[i / 3] += (other[i] - own[i]) / 3;
        mean += (other[i] - own[i]) / 9;
    }
    for (int i = 0; i < 3; i++)
        squares += (sums[i] - mean) * (sums[i] - mean);
    return sqrt(squares / 2 / 3);
}

/* Each number of the sweep is the difference of two separate runs, although the
 * sweep's passes begin at the swapped layer; the model's own norms are back at
 * the end. `windows`: options that divide the text into windows and chunks. */
static void sweep_equals_separate_runs(const char *windows) {
    static const char *const sites[] = {"layers.0.attn_norm", "0.attn",
                                        "layers.2.mlp_norm",  "2.mlp",
                                        "final_norm",         "final"};
    char table[1 << 13], arguments[64];
    snprintf(arguments, sizeof arguments, "%s --norm-sweep", windows);
    double base = nats(arguments);
    CHECK(status == 0 &&
              strncmp(err, "note: 7 norms, at most about ", 29) == 0 &&
              one_line(err),
          "status %d: %s", status, err);
    snprintf(table, sizeof table, "%.8000s", out);
    for (int i = 0; i < 6; i += 2) {
        double layer, none, error;
        const char *row = strstr(table, sites[i]);
        CHECK(row && sscanf(row, "%*s LayerNorm %lf +- %lf none %lf +-", &layer,
                            &error, &none) == 3,
              "no row of %s in %s", sites[i], table);
        snprintf(arguments, sizeof arguments, "%s --norm %s=layer", windows,
                 sites[i + 1]);
        CHECK(fabs(nats(arguments) - base - layer) < 2.1e-6, "%s: LayerNorm %g",
              sites[i], layer);
        if (!*windows)
            CHECK(fabs(paired_error(arguments) - error) < 2e-4, "%s: error %g",
                  sites[i], error);
        snprintf(arguments, sizeof arguments, "%s --norm %s=none", windows,
                 sites[i + 1]);
        CHECK(fabs(nats(arguments) - base - none) < 2.1e-6, "%s: none %g",
              sites[i], none);
    }
    int rows = 0;
    for (const char *at = table; (at = strstr(at, "_norm  ")); at++)
        rows++;
    CHECK(rows == 7, "%d rows: %s", rows, table);
}

static void a_sweep_equals_runs_of_a_window(void) {
    sweep_equals_separate_runs("");
}
static void a_sweep_equals_runs_of_windows(void) {
    sweep_equals_separate_runs("-c 5 -b 3");
}

/* The floats of an .npy file [n][width] that dump_rows() wrote; NULL: it has
 * another form. The caller frees the bytes. */
static float *npy(const char *name, char **bytes, int n, int width) {
    char shape[64];
    size_t size = 0;
    *bytes = file_read(inside(name), &size);
    snprintf(shape, sizeof shape,
             "'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d)}", n,
             width);
    bool right = *bytes && size == 128 + 4 * (size_t)n * (size_t)width &&
                 !memcmp(*bytes, "\x93NUMPY\1\0v\0{", 11) &&
                 (*bytes)[127] == '\n' && strstr(*bytes + 10, shape);
    return right ? (float *)(void *)(*bytes + 128) : NULL;
}

/* An output of the dump is the norm of its input, in double; the residual
 * stream begins with the embeddings, and its last norm gives the logits. */
static void check_dump(const char *dump, const Model *m, const int *ids, int n,
                       const float *logits_) {
    static const char *const names[] = {"layers.0.attn_norm",
                                        "layers.1.mlp_norm",
                                        "layers.2.attn_norm", "final_norm"};
    const Norm *norms[] = {&m->layers[0].attn_norm, &m->layers[1].mlp_norm,
                           &m->layers[2].attn_norm, &m->final_norm};
    int dim = m->config.dim;
    char name[96], *in_bytes, *out_bytes;
    for (int k = 0; k < 4; k++) {
        snprintf(name, sizeof name, "%s/%s.in.npy", dump, names[k]);
        const float *x = npy(name, &in_bytes, n, dim);
        snprintf(name, sizeof name, "%s/%s.out.npy", dump, names[k]);
        const float *y = npy(name, &out_bytes, n, dim);
        CHECK(x && y, "%s: no such array", name);
        for (int t = 0; t < n; t++) {
            float expected[64], row[64];
            norm_by_formula(expected, x + t * dim, norms[k], 1, dim);
            for (int i = 0; i < dim; i++)
                CHECK(fabsf(y[t * dim + i] - expected[i]) <= 1e-5f,
                      "%s: %g, expected %g", name, (double)y[t * dim + i],
                      (double)expected[i]);
            dequantize_row(row, &m->embedding, ids[t]);
            CHECK(k || !memcmp(row, x + t * dim, sizeof row),
                  "token %d is not its embedding", t);
            for (int v = 0; k == 3 && v < m->config.vocab_size; v++) {
                double logit = 0;
                dequantize_row(row, &m->output, v);
                for (int i = 0; i < dim; i++)
                    logit += (double)row[i] * y[t * dim + i];
                CHECK(fabs(logit - logits_[t * m->config.vocab_size + v]) <
                          1e-4,
                      "token %d, logit %d", t, v);
            }
        }
        free(in_bytes);
        free(out_bytes);
    }
}

static void a_dump_has_every_norm(void) {
    static const int ids[] = {1, 2, 300, 17, 4, 99, 5};
    size_t size, plain_size;
    Model m;
    char *plain = logits_of("model.bin", &plain_size), arguments[64];
    CHECK(plain && !model_open(&m, inside("model.bin")), "does not run");
    for (int i = 0; i < 4;
         i++) { /* chunks; a chunk of one token; two threads */
        static const char *const ways[] = {"-j 1", "-b 3 -j 2", "-b 1", "-j 2"};
        snprintf(arguments, sizeof arguments, "model.bin %s --dump out/d",
                 ways[i]);
        char *bytes = logits_of(arguments, &size);
        CHECK(bytes && size == plain_size && !memcmp(bytes, plain, size),
              "%s: other logits: %s", ways[i], err);
        CHECK(strstr(err, "--dump writes 0.0 MB"), "%s", err);
        CHECK(files_in("out/d") == 14 && files_in("out") == 1, "%s: %d files",
              ways[i], files_in("out/d"));
        check_dump("out/d", &m, ids, 7, (const float *)(void *)bytes);
        free(bytes);
        if (i == 3)
            check_refused(
                1, "--dump out/d: the path exists",
                "model.bin -m logits --tokens 1 -o out/l --dump out/d");
        folder_remove(inside("out/d"));
    }
    check_refused(1, "No such file or directory",
                  "model.bin -m logits --tokens 1 -o out/l --dump out/no/d");
    CHECK(files_in("out") == 0, "%d files are left", files_in("out"));
    model_close(&m);
    free(plain);
}

/* A site whose norm is none has no files; all others have whole arrays. */
static void a_dump_has_no_norm_that_is_none(void) {
    static const struct {
        const char *spec;
        int files;
        const char *missing;
    } specs[] = {{"final=none", 12, "final_norm"},
                 {"1.mlp=none,2.attn=none", 10, "layers.1.mlp_norm"},
                 {"attn=none,final=layer", 8, "layers.2.attn_norm"},
                 {"none", 0, "layers.0.attn_norm"}};
    static const char *const names[] = {"layers.0.attn_norm",
                                        "layers.1.mlp_norm",
                                        "layers.2.attn_norm", "final_norm"};
    for (int i = 0; i < 4; i++) {
        char arguments[96], name[96], *bytes;
        size_t size;
        snprintf(arguments, sizeof arguments,
                 "model.bin --dump out/d --norm %s", specs[i].spec);
        char *rows = logits_of(arguments, &size);
        CHECK(rows, "%s: %s", specs[i].spec, err);
        free(rows);
        CHECK(files_in("out/d") == specs[i].files, "%s: %d files",
              specs[i].spec, files_in("out/d"));
        snprintf(name, sizeof name, "out/d/%s.in.npy", specs[i].missing);
        CHECK(!file_exists(inside(name)), "%s: %s exists", specs[i].spec, name);
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "out/d/%s.out.npy", names[k]);
            bool exists = file_exists(inside(name));
            CHECK(!exists || npy(name, &bytes, 7, 64), "%s: %s is not whole",
                  specs[i].spec, name);
            if (exists)
                free(bytes);
        }
        folder_remove(inside("out/d"));
    }
}

/* Cohere's one norm feeds attention and the MLP; without it the site copies its
 * input, which is not a norm. */
static void a_dump_has_no_copies(void) {
    static Family family;
    CHECK(!family_open(&family, "cohere2") &&
              !family_write(&family, inside("cohere"),
                            &(FolderForm){.type = TYPE_F32}),
          "no cohere2");
    CHECK_RUN(
        "cohere -m logits --tokens 1,2,3 -o out/l --dump out/d --norm attn=none");
    CHECK(files_in("out/d") == 2, "%d files", files_in("out/d"));
    folder_remove(inside("out/d"));
    folder_remove(inside("cohere"));
    unlink(inside("out/l"));
    family_close(&family);
}

/* The inputs and outputs of head norms have the elements of all heads. */
static void a_dump_has_head_norms(void) {
    char *bytes;
    gguf_make_relative(&file, &QWEN3->model, &QWEN3->relative);
    gguf_write(&file, inside("heads.gguf"));
    gguf_free(&file);
    CHECK_RUN(
        "heads.gguf -m logits --tokens 1,2,3,4,5 -j 3 -b 4 -o out/l --dump out/d");
    const float *y = npy("out/d/layers.1.q_norm.out.npy", &bytes, 5, 4 * 24);
    CHECK(y, "no q_norm");
    Model m;
    CHECK(!model_open(&m, inside("heads.gguf")), "does not open");
    char *in_bytes;
    const float *x = npy("out/d/layers.1.q_norm.in.npy", &in_bytes, 5, 4 * 24);
    for (int h = 0; h < 5 * 4; h++) {
        float expected[24];
        norm_by_formula(expected, x + h * 24, &m.layers[1].q_norm, 1, 24);
        for (int i = 0; i < 24; i++)
            CHECK(fabsf(y[h * 24 + i] - expected[i]) <= 1e-5f,
                  "head %d: %g, expected %g", h, (double)y[h * 24 + i],
                  (double)expected[i]);
    }
    free(in_bytes);
    free(bytes);
    CHECK(npy("out/d/layers.0.k_norm.in.npy", &bytes, 5, 2 * 24), "no k_norm");
    free(bytes);
    model_close(&m);
    folder_remove(inside("out/d"));
    /* threads without heads */
    for (int threads = 4; threads <= 9; threads++) {
        CHECK_RUN(
            "heads.gguf -m logits --tokens 1,2,3,4,5,6,7 -j %d -o out/l --dump out/d",
            threads);
        folder_remove(inside("out/d"));
    }
    unlink(inside("out/l"));
}

/* TERM and HUP, at many times: neither the output nor the folder remains, and
 * the next run can use the path. */
static void a_signal_leaves_no_dump(void) {
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
    char program[PATH_MAX], stories[PATH_MAX], text[1024] = "";
    int n_killed = 0;
    for (int i = 0; i < 100; i++)
        strcat(text, "the cat ");
    CHECK(realpath("models/stories.gguf", stories) &&
              realpath(getenv("NORMA_RUN") ? getenv("NORMA_RUN") : "./run",
                       program),
          "no program");
    for (int i = 0; i < 12; i++) {
        int state;
        pid_t pid = fork();
        if (pid == 0) {
            if (chdir(folder) || !freopen("/dev/null", "w", stderr))
                _exit(127);
            for (int k = 0; k < 4; k++)
                signal(signals[k], SIG_DFL);
            execl(program, program, stories, "-m", "logits", "-i", text, "-b",
                  "1", "-o", "out/l", "--dump", "out/d", NULL);
            _exit(127);
        }
        for (int k = 0; k < 3000 && access(inside("out/d.part"), F_OK); k++)
            usleep(1000);
        usleep(1000 * (useconds_t)i);
        kill(pid, signals[i % 4]);
        waitpid(pid, &state, 0);
        n_killed += WIFSIGNALED(state) || WEXITSTATUS(state) == 130;
        CHECK(access(inside("out/d.part"), F_OK), "signal %d: a folder is left",
              signals[i % 4]);
        if (!access(inside("out/d"), F_OK))
            folder_remove(inside("out/d"));
        unlink(inside("out/l"));
        CHECK(files_in("out") == 0, "signal %d: %d files are left",
              signals[i % 4], files_in("out"));
    }
    CHECK(n_killed >= 6, "%d runs were killed", n_killed);
}

/* After Ctrl-C the finished cases are whole lines. */
static void ctrl_c_ends_the_bench_cleanly(void) {
    setup.interrupt = AT_OUTPUT;
    run("model.bin -m norms --json -j 1 --seconds 0");
    CHECK(status == 130 && *err == '\0', "status %d, %s", status, err);
    CHECK(*out && read_cases(cases, 64) == 0, "not whole lines: %s", out);
}

static void the_bench_reports_a_full_disk(void) {
    setup.output = "/dev/full";
    run("model.bin -m norms --json --seconds 0");
    CHECK(status == 1 && strstr(err, "cannot write the output"),
          "status %d, %s", status, err);
}

void suite_lab(void) {
    TEST(valid_specifications);
    TEST(errors_in_specifications);
    TEST(a_swap_equals_a_checkpoint_with_these_norms);
    TEST(layernorms_become_rmsnorms);
    TEST(none_is_the_identity);
    TEST(dyt_has_an_alpha);
    TEST(head_norms_are_swapped);
    make_models();
    TEST(bad_specifications_are_refused);
    TEST(conversion_keeps_a_swap);
    TEST(none_is_noted_to_be_only_for_timing);
    TEST(info_shows_a_swap);
    TEST(mixed_eps_is_refused_in_gguf);
    TEST(measuring_estimates_medians);
    TEST(a_ratio_has_an_interval);
    TEST(measuring_ends_at_2_percent);
    TEST(few_rounds_and_wide_intervals_are_not_measurable);
    TEST(the_bench_of_a_model_s_sites);
    TEST(the_text_of_the_bench_of_norms);
    TEST(the_bench_of_a_model_with_head_norms);
    TEST(the_memory_that_is_read_is_limited);
    TEST(the_bench_of_all_dims);
    TEST(the_limit_of_int8_multiplies_all_it_counts);
    TEST(a_sweep_equals_runs_of_a_window);
    TEST(a_sweep_equals_runs_of_windows);
    TEST(a_dump_has_every_norm);
    TEST(a_dump_has_no_norm_that_is_none);
    TEST(a_dump_has_no_copies);
    TEST(a_dump_has_head_norms);
    TEST(a_signal_leaves_no_dump);
    TEST(ctrl_c_ends_the_bench_cleanly);
    TEST(the_bench_reports_a_full_disk);
}
