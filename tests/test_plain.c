/* test_plain.c: plain.c against Python, and the fast program against plain.c.
 *
 * plain.c agrees with the float64 logits of tests/golden; the fast program
 * agrees with plain.c on every golden and on random models, in random schedules
 * of several sequences, and with any of their norms swapped. If it does not,
 * the failure names the first layer whose output differs, then the first norm
 * in it.
 */
#include "base/process.h"
#include "formats/gguf_file.h"
#include "formats/open.h"
#include "formats/parts.h"
#include "kernels/lanes.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "norm.h"
#include "plain.h"
#include "session.h"

#include "tests/support/binary.h"
#include "tests/support/family_writer.h"
#include "tests/support/folder_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 40, MAX_VOCAB = 131, MAX_LOGITS = TOKENS * MAX_VOCAB };

/* Errors relative to the largest logit: of plain.c against Python, of the fast
 * program against plain.c. */
static const double EXACT = 1e-6, CLOSE = 2e-5;

static int tokens[TOKENS];
static float formulas[MAX_LOGITS], fast[MAX_LOGITS], expected[MAX_LOGITS];

/* ---- running both ------------------------------------------------------- */

static int open_session(Session *s, const Model *m, bool plain) {
    int failed = session_open(s, m, 1, TOKENS, TOKENS, KV_F32);
    s->plain = plain ? &PLAIN : NULL;
    return failed;
}

/* The logits to[n][vocab_size] of the first n tokens. */
static int run_model(const Model *m, bool plain, int n, float *to) {
    Session s;
    if (open_session(&s, m, plain))
        return -1;
    const float *logits = model_forward_text(&s, tokens, n, 0, n);
    if (logits)
        memcpy(to, logits, (size_t)(n * m->config.vocab_size) * sizeof *logits);
    session_close(&s);
    return logits ? 0 : -1;
}

/* Plants a fault in the model while the fast program runs it, or takes it back;
 * NULL: none. */
static void (*plant)(Model *m, bool back);

/* The largest difference of the first n tokens' logits, relative to the largest
 * logit. Infinite if a model does not run. */
static double distance(Model *m, int n) {
    int size = n * m->config.vocab_size;
    if (plant)
        plant(m, false);
    bool failed = size > MAX_LOGITS || run_model(m, false, n, fast);
    if (plant)
        plant(m, true);
    if (failed || run_model(m, true, n, formulas))
        return INFINITY;
    return largest_difference(fast, formulas, size) / largest(formulas, size);
}

static bool differs(Model *m, int n) {
    return !(distance(m, n) <= CLOSE);
}

/* ---- the place of a difference ------------------------------------------ */

enum { MAX_NORMS = 8 };

/* The norms of a layer in the order of the forward pass, or of no layer (-1):
 * the final norm. Returns their number. */
static int norms_of(Model *m, int layer, Norm **norms,
                    char (*names)[PART_NAME]) {
    char prefix[32];
    int n = 0;
    snprintf(prefix, sizeof prefix, layer < 0 ? "final_norm" : "layers.%d.",
             layer);
    PART_EACH(at, m)
        if (part_norm(&at) && n < MAX_NORMS &&
            !strncmp(part_name(names[n], &at, NAME_NORMA), prefix,
                     strlen(prefix)))
            norms[n++] = part_norm(&at);
    return n;
}

/* Without layers the cache has no bytes, and does not grow. */
static int tokens_for(int layers) {
    return layers ? TOKENS : 2;
}

/* Where the fast program leaves plain.c: the first layer after which their
 * logits differ, then the first of its norms with which they do, if they agree
 * without any. The model ends up unchanged. */
static const char *place_of_difference(Model *m) {
    static char names[MAX_NORMS][PART_NAME];
    static char layer[32];
    const char *place = layer;
    Norm *norms[MAX_NORMS];
    NormKind kinds[MAX_NORMS];
    int n_layers = m->config.n_layers;
    int layers = 0, n = 0;
    for (;; layers++) {
        if (layers > n_layers)
            return "nowhere";
        m->config.n_layers = layers;
        if (differs(m, tokens_for(layers)))
            break;
    }
    snprintf(layer, sizeof layer, layers ? "layers.%d" : "embedding or output",
             layers - 1);
    n = norms_of(m, layers - 1, norms, names);
    for (int i = 0; i < n; i++) {
        kinds[i] = norms[i]->kind;
        norms[i]->kind = NORM_NONE;
    }
    bool found = differs(m, tokens_for(layers));
    for (int i = 0; i < n; i++) {
        norms[i]->kind = kinds[i];
        if (!found && (found = differs(m, tokens_for(layers))))
            place = names[i];
    }
    m->config.n_layers = n_layers;
    return place;
}

/* Checks that the fast program agrees with plain.c. */
static void check_fast(Model *m, const char *name) {
    double error = distance(m, TOKENS);
    CHECK(
        error <= CLOSE,
        "%s: the fast program differs by %.3g of the largest logit; first: %s",
        name, error, place_of_difference(m));
}

/* ---- models ------------------------------------------------------------- */

static int read_expected(const char *name, int vocab_size) {
    char path[96];
    size_t n = (size_t)(TOKENS * vocab_size);
    snprintf(path, sizeof path, "tests/golden/%s.f32", name);
    FILE *in = n <= MAX_LOGITS ? fopen(path, "rb") : NULL;
    bool whole = in && fread(expected, sizeof *expected, n, in) == n;
    if (in)
        fclose(in);
    return whole ? 0 : -1;
}

static int open_hash(Model *model, const HashModel *m) {
    const char *path = temporary("plain.bin");
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = hash_token(m, i);
    return hashmodel_write(m, path, 0, 0) || model_open(model, path) ? -1 : 0;
}

static int open_gguf(Model *model, GgufFile *file, const HashModel *m) {
    const char *path = temporary("plain.gguf");
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = hash_token(m, i);
    int failed = gguf_write(file, path);
    gguf_free(file);
    return failed || model_open(model, path) ? -1 : 0;
}

static int open_relative(Model *model, const GoldenRelative *g) {
    static GgufFile file;
    gguf_make_relative(&file, &g->model, &g->relative);
    return open_gguf(model, &file, &g->model);
}

static int open_family(Model *model, const char *name) {
    Family family;
    const char *path = temporary("plain");
    if (family_open(&family, name))
        return -1;
    memcpy(tokens, family.tokens, sizeof tokens);
    int failed = family_write(&family, path, &(FolderForm){.type = TYPE_F32});
    family_close(&family);
    stderr_hide();
    int unopened = failed || model_open(model, path);
    stderr_show();
    return unopened ? -1 : 0;
}

/* Calls visit() for every model of tests/golden. */
static void each_golden(void (*visit)(Model *, const char *)) {
    static const struct {
        const char *name;
        const HashModel *model;
    } llamas[] = {{"gqa_tied", &GQA_TIED},
                  {"mha_untied", &MHA_UNTIED},
                  {"odd_mqa", &ODD_MQA},
                  {"wide", &WIDE}};
    Model m;
    for (int i = 0; i < 4; i++) {
        CHECK(!open_hash(&m, llamas[i].model), "cannot make %s",
              llamas[i].name);
        visit(&m, llamas[i].name);
        model_close(&m);
    }
    for (int i = 0; i < N_GOLDEN_RELATIVES; i++) {
        CHECK(!open_relative(&m, &GOLDEN_RELATIVES[i]), "cannot make %s",
              GOLDEN_RELATIVES[i].name);
        visit(&m, GOLDEN_RELATIVES[i].name);
        model_close(&m);
    }
    DIR *families = opendir("tests/golden/families");
    int n = 0, seen = 0;
    for (struct dirent *entry; families && (entry = readdir(families));) {
        char name[64] = "families/";
        const char *end = strstr(entry->d_name, ".json");
        if (!end || (test_fast() && seen++ % 6))
            continue;
        strncat(name, entry->d_name, (size_t)(end - entry->d_name));
        CHECK(!open_family(&m, strchr(name, '/') + 1), "cannot make %s", name);
        visit(&m, name);
        model_close(&m);
        n++;
    }
    closedir(families);
    CHECK(n >= (test_fast() ? 5 : 32), "%d families", n);
}

/* ---- whole models ------------------------------------------------------- */

/* Python, plain.c and the fast program. */
static void check_golden(Model *m, const char *name) {
    int n = TOKENS * m->config.vocab_size;
    CHECK(!read_expected(name, m->config.vocab_size), "cannot read %s", name);
    check_fast(m, name);
    double error =
        largest_difference(formulas, expected, n) / largest(expected, n);
    CHECK(error <= EXACT, "%s: plain.c differs by %.3g of the largest logit",
          name, error);
}

/* Measured: 2.7e-8 to 9.6e-7. */
static void all_goldens_match(void) {
    each_golden(check_golden);
}

/* Each norm in turn is of another kind, or none: --norm works everywhere. */
static void check_norms(Model *m, const char *name) {
    char part[PART_NAME];
    PART_EACH(at, m) {
        Norm *norm = part_norm(&at);
        if (!norm)
            continue;
        Norm kept = *norm;
        norm->alpha = 0.7f;
        for (NormKind kind = 0; kind <= NORM_DYT; kind++) {
            norm->kind = kind;
            double error = distance(m, 4);
            CHECK(error <= CLOSE, "%s, %s is %s: differs by %.3g", name,
                  part_name(part, &at, NAME_NORMA), norm_name(kind), error);
        }
        *norm = kept;
    }
}

static void any_norm_may_be_swapped(void) {
    each_golden(check_norms);
}

/* ---- the place of a planted fault --------------------------------------- */

static const float *kept;
static float doubled[MAX_VOCAB];

static void plant_norm(Norm *norm, int dim, bool back) {
    if (!back) {
        kept = norm->gamma;
        for (int i = 0; i < dim; i++)
            doubled[i] = kept[i] * 1.001f;
    }
    norm->gamma = back ? kept : doubled;
}

static void plant_mlp_norm(Model *m, bool back) {
    plant_norm(&m->layers[1].mlp_norm, m->config.dim, back);
}
static void plant_k_norm(Model *m, bool back) {
    plant_norm(&m->layers[0].k_norm, m->config.head_size, back);
}
static void plant_final_norm(Model *m, bool back) {
    plant_norm(&m->final_norm, m->config.dim, back);
}
static void plant_window(Model *m, bool back) {
    m->layers[1].window = back ? 0 : 7;
}
static void plant_scale(Model *m, bool back) {
    m->config.logit_scale = back ? 1 : 1.5f;
}

static void failures_name_the_place(void) {
    static const struct {
        void (*plant)(Model *, bool);
        const char *place;
    } cases[] = {{plant_mlp_norm, "layers.1.mlp_norm"},
                 {plant_k_norm, "layers.0.k_norm"},
                 {plant_final_norm, "final_norm"},
                 {plant_window, "layers.1"},
                 {plant_scale, "embedding or output"},
                 {NULL, "nowhere"}};
    Model m;
    CHECK(!open_relative(&m, &GOLDEN_RELATIVES[1]), "cannot make qwen3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plant = cases[i].plant;
        const char *place = place_of_difference(&m);
        plant = NULL;
        CHECK(!strcmp(place, cases[i].place), "%s, expected %s", place,
              cases[i].place);
    }
    model_close(&m);
}

/* ---- random models ------------------------------------------------------ */

/* Odd sizes, and the weights of half precision: activations are float32 in all
 * of them. */
static void random_models_match(void) {
    static const Type types[] = {TYPE_F32, TYPE_F16, TYPE_BF16};
    static GgufFile file;
    for (int i = 0; i < (test_fast() ? 6 : 48); i++) {
        int group = 1 + i % 4, kv_heads = 1 + i % 3,
            size = 2 * (1 + (int)(hash64(9, 1, (uint64_t)i) % 20));
        HashModel sizes = {group * kv_heads * size,
                           1 + (int)(hash64(9, 2, (uint64_t)i) % 150),
                           1 + i % 5,
                           group * kv_heads,
                           kv_heads,
                           64 + i,
                           64,
                           i % 2 == 0,
                           900 + (uint64_t)i};
        const char *family = GGUF_FAMILIES[i % N_GGUF_FAMILIES];
        Model m;
        gguf_make_family(&file, &sizes, family);
        gguf_convert(&file, types[i % 3]);
        CHECK(!open_gguf(&m, &file, &sizes), "cannot make model %d (%s)", i,
              family);
        check_fast(&m, family);
        model_close(&m);
    }
}

/* ---- quantized weights -------------------------------------------------- */

/* The mean KL divergence of the fast program's distributions from plain.c's, in
 * nats. */
static double mean_kl(const Model *m) {
    int n = m->config.vocab_size;
    double total = 0;
    for (int t = 0; t < TOKENS; t++) {
        const float *p = formulas + t * n, *q = fast + t * n;
        double sum_p = 0, sum_q = 0;
        for (int i = 0; i < n; i++) {
            sum_p += exp((double)p[i]);
            sum_q += exp((double)q[i]);
        }
        for (int i = 0; i < n; i++)
            total += exp((double)p[i]) / sum_p *
                     ((double)p[i] - log(sum_p) - (double)q[i] + log(sum_q));
    }
    return total / TOKENS;
}

/* Activations are rounded to int8, so the logits differ, a little. The limits
 * are three times what was measured; the random weights of the types are of
 * very different sizes. */
static void quantized_models_are_close(void) {
    static const HashModel sizes = {256, 256, 1, 4, 2, 97, 64, false, 77};
    static const double limits[] = {
        [TYPE_Q8_0] = 1e-11, [TYPE_Q4_0] = 1.5e-4, [TYPE_Q4_1] = 2.5e-4,
        [TYPE_Q5_0] = 1e-3,  [TYPE_Q5_1] = 2e-3,   [TYPE_IQ4_NL] = 0.36,
        [TYPE_Q2_K] = 4e-9,  [TYPE_Q3_K] = 4e-8,   [TYPE_Q4_K] = 1.2e-5,
        [TYPE_Q5_K] = 9e-5,  [TYPE_Q6_K] = 2.1e-3, [TYPE_IQ4_XS] = 1.8e-3};
    static GgufFile file;
    for (Type type = TYPE_Q8_0; type <= TYPE_IQ4_XS; type++) {
        Model m;
        gguf_make(&file, &sizes, 0);
        gguf_convert(&file, type);
        CHECK(!open_gguf(&m, &file, &sizes), "cannot make %s",
              TYPES[type].name);
        double error = distance(&m, TOKENS), kl = mean_kl(&m);
        CHECK(error > 1e-4 && kl <= limits[type],
              "%s: the mean KL divergence is %.3g, expected at most %.3g; the "
              "largest error is %.3g",
              TYPES[type].name, kl, limits[type], error);
        model_close(&m);
    }
}

/* ---- sequences ---------------------------------------------------------- */

enum { SEQUENCES = 3, LENGTH = 120, MAX_PASS = SEQUENCES * 9 };

static int texts[SEQUENCES][LENGTH], lengths[SEQUENCES];

static int roll(int n) {
    static uint64_t count;
    return (int)(hash64(31, 7, count++) % (uint64_t)n);
}

/* Adds up to 9 steps to a text, perhaps after a return to an earlier position.
 * Returns their number. */
static int add_steps(Step *steps, int text, int vocab_size) {
    int *pos = &lengths[text];
    if (*pos > 0 && !roll(3))
        *pos -= roll(*pos < 20 ? *pos : 20) + 1;
    int left = LENGTH - *pos, n = roll(left < 10 ? left + 1 : 10);
    for (int i = 0; i < n; i++, ++*pos) {
        texts[text][*pos] = roll(vocab_size);
        steps[i] = (Step){texts[text][*pos], text, *pos, roll(2)};
    }
    return n;
}

/* Both programs run the same random steps of several sequences, and forks. */
static void check_schedule(const Model *m, const char *name) {
    int vocab_size = m->config.vocab_size;
    Session s[2];
    memset(lengths, 0, sizeof lengths);
    for (int plain = 0; plain < 2; plain++) {
        CHECK(!session_open(&s[plain], m, 1, 7, LENGTH, KV_F32), "no session");
        s[plain].plain = plain ? &PLAIN : NULL;
    }
    for (int pass = 0; pass < 60; pass++) {
        Step steps[MAX_PASS];
        int n = 0, rows = 0;
        int to = roll(SEQUENCES), from = roll(SEQUENCES);
        if (to != from && lengths[from] > 0 && !roll(3)) {
            CHECK(!session_fork(&s[0], to, from) &&
                      !session_fork(&s[1], to, from),
                  "no fork");
            memcpy(texts[to], texts[from], sizeof texts[to]);
            lengths[to] = lengths[from];
        }
        for (int i = 0; i < SEQUENCES; i++)
            n += add_steps(steps + n, i, vocab_size);
        for (int i = 0; i < n; i++)
            rows += steps[i].logits != NO_LOGITS;
        if (!n)
            continue;
        const float *found[] = {model_forward(&s[0], steps, n),
                                model_forward(&s[1], steps, n)};
        CHECK(found[0] && found[1], "%s does not run", name);
        double error =
            largest_difference(found[0], found[1], rows * vocab_size);
        CHECK(error <= CLOSE * largest(found[1], rows * vocab_size),
              "%s, pass %d: differs by %.3g", name, pass, error);
    }
    for (int plain = 0; plain < 2; plain++)
        session_close(&s[plain]);
}

/* Windows, experts, and neither; a context of 128. */
static void sequences_and_forks(void) {
    static const char *const families[] = {"gemma2", "gemma3", "phi3"};
    static const HashModel sizes = {48, 40, 4, 4, 2, 61, 128, false, 41};
    static GgufFile file;
    Model m;
    for (int i = 0; i < 3; i++) {
        gguf_make_family(&file, &sizes, families[i]);
        CHECK(!open_gguf(&m, &file, &sizes), "cannot make %s", families[i]);
        check_schedule(&m, families[i]);
        model_close(&m);
    }
    Relative moe = GOLDEN_RELATIVES[2].relative;
    for (moe.n_experts_used = 1; moe.n_experts_used <= 2;
         moe.n_experts_used++) {
        gguf_make_relative(&file, &sizes, &moe);
        CHECK(!open_gguf(&m, &file, &sizes), "cannot make a mixture");
        check_schedule(&m, "a mixture");
        model_close(&m);
    }
}

/* The bits of a step depend on the tokens before it only; a plain session goes
 * back to any position, also with a window. */
static void plain_sessions_go_back(void) {
    static const HashModel sizes = {48, 40, 4, 4, 2, 61, 128, false, 41};
    static GgufFile file;
    static int text[LENGTH];
    static float first[LENGTH * 61];
    Model m;
    Session s;
    gguf_make_family(&file, &sizes, "gemma2");
    CHECK(!open_gguf(&m, &file, &sizes), "cannot make gemma2");
    for (int i = 0; i < LENGTH; i++)
        text[i] = hash_token(&sizes, i);
    for (int plain = 0; plain < 2; plain++) {
        CHECK(!session_open(&s, &m, 2, 7, LENGTH, KV_F32), "no session");
        s.plain = plain ? &PLAIN : NULL;
        const float *logits = model_forward_text(&s, text, LENGTH, 0, LENGTH);
        CHECK(logits, "does not run");
        memcpy(first, logits, sizeof first);
        stderr_hide();
        logits = model_forward_text(&s, text + 3, 20, 3, 20);
        stderr_show();
        CHECK(plain ? logits && !memcmp(logits, first + 3 * 61,
                                        20 * 61 * sizeof *logits)
                    : !logits && strstr(stderr_text(), "cannot rewind"),
              "plain %d: %s", plain, stderr_text());
        session_close(&s);
    }
    model_close(&m);
}

/* Element i of a key or value in the cache of the fast program. */
static float kv_read(const KvCache *kv, int layer, KvKind kind, int head,
                     int pos, int i) {
    const KvLayer *l = &kv->layers[layer];
    int part = kind == KV_KEYS ? kv->head_size : KV_VALUE_PART;
    const float *cache = kind == KV_KEYS ? l->keys : l->values;
    return cache[(size_t)head * kv_head_elements(kv->head_size, l->blocks) +
                 kv_at(kv->head_size, part, l->blocks, pos / KV_BLOCK, i) +
                 pos % KV_BLOCK];
}

/* Keys and values of every position, layer and head. */
static void caches_agree(void) {
    Model m;
    Session s[2];
    CHECK(!open_relative(&m, &GOLDEN_RELATIVES[1]), "cannot make qwen3");
    const Config *c = &m.config;
    for (int plain = 0; plain < 2; plain++)
        CHECK(!open_session(&s[plain], &m, plain) &&
                  model_forward_text(&s[plain], tokens, TOKENS, 0, 0),
              "does not run");
    const double *formula = s[1].sequences->plain;
    for (int pos = 0; pos < TOKENS; pos++)
        for (int l = 0; l < c->n_layers; l++)
            for (KvKind kind = KV_KEYS; kind <= KV_VALUES; kind++)
                for (int i = 0; i < c->n_kv_heads * c->head_size; i++) {
                    float found =
                        kv_read(&s[0].sequences->kv, l, kind, i / c->head_size,
                                pos, i % c->head_size);
                    CHECK(fabs(found - *formula) <= 2e-5,
                          "position %d, layer %d, kind %d, element %d: %.9g, "
                          "expected %.9g",
                          pos, l, kind, i, (double)found, *formula);
                    formula++;
                }
    for (int plain = 0; plain < 2; plain++)
        session_close(&s[plain]);
    model_close(&m);
}

/* ---- Ctrl-C ------------------------------------------------------------- */

/* A pass that Ctrl-C ends has no logits, and runs no further layer; it can run
 * again. */
static void ctrl_c_ends_a_pass(void) {
    Model m;
    Session s;
    CHECK(!open_hash(&m, &GQA_TIED), "cannot make the model");
    CHECK(!run_model(&m, true, TOKENS, formulas), "does not run");
    CHECK(!open_session(&s, &m, true), "no session");
    CHECK(model_forward_text(&s, tokens, 20, 0, 0), "does not run");
    const void *rows = m.layers[0].mlp.gate.data;
    m.layers[0].mlp.gate.data = NULL;
    interrupted = 1;
    bool ended = !model_forward_text(&s, tokens + 20, 20, 20, 20);
    interrupted = 0;
    m.layers[0].mlp.gate.data = rows;
    CHECK(ended, "Ctrl-C does not end a pass");
    const float *logits = model_forward_text(&s, tokens + 20, 20, 20, 20);
    CHECK(logits &&
              !memcmp(logits, formulas + 20 * m.config.vocab_size,
                      (size_t)(20 * m.config.vocab_size) * sizeof *logits),
          "the pass does not run again");
    session_close(&s);
    model_close(&m);
}

/* ---- the program -------------------------------------------------------- */

static const char STORIES[] = "models/stories.gguf";
static char story_model[PATH_MAX], first_out[sizeof out];

static bool open_stories(void) {
    if (!*folder)
        binary_folder("plain_run");
    return realpath(STORIES, story_model);
}

/* A greedy text is the fast program's; no option changes a byte. */
static void plain_works_in_every_mode(void) {
    static const char *const modes[] = {
        "-i 'Once upon a time' -t 0 -n 30",
        "-i 'Once upon a time' -s 3 -n 20 --samples 2",
        "-i 'Once upon' -s 3 -n 12 --json --logprobs 2",
        "-m chat --template llama-2 -i Hello -n 6 -s 2",
        "-m perplexity -i 'Once upon a time, there was a dog.'",
        "-m perplexity --tokens 5 --norm-sweep --json"};
    static const char *const options[] = {"-j 2 -b 3 --kv f32", "-j 1 -b 1"};
    CHECK(open_stories(), "models/stories.gguf is missing");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK_RUN("%s %s --plain", story_model, modes[i]);
        memcpy(first_out, out, sizeof out);
        for (int k = 0; k < (test_thorough() ? 2 : 1) && i < 5; k++) {
            CHECK_RUN("%s %s --plain %s", story_model, modes[i], options[k]);
            CHECK(!strcmp(out, first_out), "%s %s: '%s', expected '%s'",
                  modes[i], options[k], out, first_out);
        }
    }
    CHECK_RUN("%s %s --plain --lookup 4", story_model, modes[0]);
    memcpy(first_out, out, sizeof out);
    CHECK_RUN("%s %s", story_model, modes[0]);
    CHECK(!strcmp(out, first_out), "'%s', fast '%s'", first_out, out);
}

static void plain_excludes_what_it_lacks(void) {
    static const struct {
        const char *options, *mention;
    } cases[] = {{"--profile", "--plain excludes --profile"},
                 {"-m logits --dump d -o l -i a", "--dump"},
                 {"--kv f16", "--kv f16"},
                 {"-m bench", "--plain works in generate"},
                 {"-m norms", "not in norms"},
                 {"-m info", "not in info"},
                 {"-m tokenize -i a", "not in tokenize"},
                 {"-m convert -o a.gguf", "not in convert"}};
    CHECK(open_stories(), "models/stories.gguf is missing");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[PATH_MAX + 64];
        snprintf(arguments, sizeof arguments, "%s %s --plain", story_model,
                 cases[i].options);
        check_refused(2, cases[i].mention, arguments);
    }
}

/* Ctrl-C ends a text with the statistics, and at a terminal only the answer. */
static void ctrl_c_works(void) {
    static const char *const typed[] = {"hello\n\3", "hello\n\3", "/bye\n",
                                        NULL};
    CHECK(open_stories(), "models/stories.gguf is missing");
    setup.interrupt = AT_OUTPUT;
    run("%s --plain -s 1 -n 0", story_model);
    CHECK(status == 130 && one_line(err) && strstr(err, "tokens/s"),
          "status %d, %s", status, err);
    setup.interrupt = AT_OUTPUT;
    run("%s --plain -m perplexity --norm-sweep -i 'Once upon a time'",
        story_model);
    CHECK(status == 130, "perplexity: status %d, %s", status, err);
    setup.terminal = true;
    setup.typed = typed;
    CHECK_RUN("%s --plain -m chat --template llama-2 -s 1", story_model);
}

void suite_plain(void) {
    TEST(all_goldens_match);
    TEST(any_norm_may_be_swapped);
    TEST(failures_name_the_place);
    TEST(random_models_match);
    TEST(quantized_models_are_close);
    TEST(sequences_and_forks);
    TEST(plain_sessions_go_back);
    TEST(caches_agree);
    TEST(ctrl_c_ends_a_pass);
    TEST(plain_works_in_every_mode);
    TEST(plain_excludes_what_it_lacks);
    TEST(ctrl_c_works);
}
