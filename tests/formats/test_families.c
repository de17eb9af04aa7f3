/* test_families.c: models of other families than LLaMA.
 *
 * Compares folders with transformers' logits, and with the same model in
 * chunks, in half precision and as a GGUF file. Tests missing and refused
 * options of config.json. family_writer.c writes the models.
 */
#include "formats/family.h"
#include "formats/gguf.h"
#include "formats/gguf_file.h"
#include "formats/open.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "norm.h"
#include "session.h"

#include "tests/support/family_writer.h"
#include "tests/support/folder_writer.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_VOCAB = 64, MAX_LOGITS = FAMILY_TOKENS * MAX_VOCAB };

/* Max error, relative to the largest golden logit. */
static const double EXACT = 2e-5, HALF = 0.02;

static const struct {
    const char *name, *architectures; /* allowed in its GGUF file */
    /* llama.cpp does not run it completely: refused, or a shorter context */
    bool limited;
} MODELS[] = {
    {"gemma2", "gemma2", false},
    {"gemma2_caps", "gemma2", true}, /* scale of scores, kinds of layers */
    {"gemma3_270m", "gemma3", false},
    {"gemma3_1b", "gemma3", false},
    {"gemma3_nested", "gemma3",
     true}, /* the same, and RoPE scaling only in full layers */
    {"olmo2", "olmo2", false},
    {"olmo3", "olmo2", true}, /* YaRN only in full layers */
    {"phi3", "phi3", false},  /* window */
    {"phi4", "phi3", false},  /* longrope */
    {"phi4_long", "phi3", false},
    {"granite", "granite", false},
    {"smollm3", "smollm3", false},
    {"stablelm", "stablelm", false},
    {"olmo", "olmo", false},
    {"mixtral", "llama", false},
    {"mistral_v01", "llama", true}, /* window */
    {"mistral_v03", "llama", false},
    {"gemma", "gemma", false},
    {"ernie4_5", "ernie4_5", false},
    {"exaone4", "exaone4", false},
    {"exaone4_window", "exaone4", false},
    {"glm4", "glm4", false},
    {"ministral3", "mistral3", true}, /* context */
    {"olmoe", "olmoe", false},
    {"granitemoe", "granitemoe", false},
    {"qwen2_moe", "qwen2moe", false},
    {"seed_oss", "seed_oss", false},
    {"seed_oss_biases", "seed_oss llama", false},
    {"hunyuan", "hunyuan-dense", false},
    {"cohere2", "cohere2", false},
    {"arcee", "arcee", false},
    {"arcee_biases", "arcee", true},
};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static Family family;
static float logits[MAX_LOGITS], expected[MAX_LOGITS];

static const char *folder(void) {
    return temporary("family");
}

static size_t n_logits(void) {
    return (size_t)FAMILY_TOKENS * (size_t)family.vocab_size;
}

/* The logits [n][vocab_size] of the first n tokens. */
static int run(const Model *m, int n, float *to) {
    Session s;
    if (session_open(&s, m, 2, FAMILY_TOKENS, FAMILY_TOKENS, KV_F32))
        return -1;
    const float *l = model_forward_text(&s, family.tokens, n, 0, n);
    if (l)
        memcpy(to, l, (size_t)n * (size_t)family.vocab_size * sizeof *l);
    session_close(&s);
    return l ? 0 : -1;
}

/* Opens the folder; stderr_text() has the notes or the message. */
static int open_folder(Model *m) {
    stderr_hide();
    int status = model_open(m, folder());
    stderr_show();
    return status;
}

static int run_folder(float *to) {
    Model m;
    if (open_folder(&m))
        return -1;
    int status = run(&m, FAMILY_TOKENS, to);
    model_close(&m);
    return status;
}

/* Opens a family and its golden logits. */
static int open_golden(const char *name) {
    char path[96];
    if (family_open(&family, name) || family.vocab_size > MAX_VOCAB)
        return -1;
    snprintf(path, sizeof path, "tests/golden/families/%s.f32", name);
    FILE *in = fopen(path, "rb");
    return in &&
                   fread(expected, sizeof *expected, n_logits(), in) ==
                       n_logits() &&
                   !fclose(in)
               ? 0
               : -1;
}

/* The largest error of the first tokens' logits, relative to the largest
 * expected logit. */
static double distance_of(int n_tokens) {
    int n = n_tokens * family.vocab_size;
    return largest_difference(logits, expected, n) / largest(expected, n);
}

static double distance(void) {
    return distance_of(FAMILY_TOKENS);
}

/* ---- numbers ------------------------------------------------------------- */

static void check_logits_of(const char *name) {
    CHECK(!open_golden(name), "no %s in tests/golden/families", name);
    CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
          "cannot write %s", name);
    CHECK(!run_folder(logits), "%s does not run: %s", name, stderr_text());
    CHECK(distance() <= (test_plain() ? 1e-6 : EXACT),
          "%s: error %.3g of the largest logit", name, distance());
    family_close(&family);
}

/* A folder in half precision is close to the golden logits, and bit-identical
 * to a float32 folder with rounded weights. */
static void check_halves_of(const char *name) {
    static const FolderForm halves[] = {{.type = TYPE_F16, .misaligned = 2},
                                        {.type = TYPE_BF16, .misaligned = 1}};
    for (int i = 0; i < 2; i++) {
        CHECK(!open_golden(name), "no %s in tests/golden/families", name);
        CHECK(!family_write(&family, folder(), &halves[i]), "cannot write %s",
              name);
        CHECK(!run_folder(logits), "%s in type %d does not run: %s", name,
              halves[i].type, stderr_text());
        CHECK(distance() <= HALF, "%s in type %d: error %.3g", name,
              halves[i].type, distance());
        family_round(&family, halves[i].type);
        CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
              "cannot write %s", name);
        CHECK(!run_folder(expected), "%s with rounded weights does not run: %s",
              name, stderr_text());
        CHECK(!memcmp(logits, expected, n_logits() * sizeof *logits),
              "%s in type %d: differs by %.3g from itself", name,
              halves[i].type, distance());
        family_close(&family);
    }
}

/* Whether the logits of n tokens from position `first` on are the expected
 * ones. */
static bool same_bits(const float *found, int first, int n) {
    size_t row = (size_t)family.vocab_size;
    return found && !memcmp(found, expected + (size_t)first * row,
                            (size_t)n * row * sizeof *found);
}

/* In one call, in one call for each chunk, and with a draft of which one token
 * is accepted. */
static void check_session(const char *name, const Model *m, KvType kv,
                          int batch, int threads) {
    int end = threads == 1 || 10 * batch + 10 > FAMILY_TOKENS ? FAMILY_TOKENS
                                                              : 10 * batch + 10;
    Session s;
    CHECK(!session_open(&s, m, threads, batch, FAMILY_TOKENS, kv),
          "no session");
    CHECK(
        same_bits(model_forward_text(&s, family.tokens, end, 0, 1), end - 1, 1),
        "%s, batch %d, %d threads: differs", name, batch, threads);
    for (int t = 0; t < end; t += batch) {
        int n = end - t < batch ? end - t : batch;
        CHECK(
            same_bits(model_forward_text(&s, family.tokens + t, n, t, n), t, n),
            "%s, batch %d, %d threads: differs in %d tokens from %d on", name,
            batch, threads, n, t);
    }
    int drafted[] = {family.tokens[end - 6], 1, 2, 3};
    CHECK(model_forward_text(&s, family.tokens, end - 6, 0, 0) &&
              model_forward_text(&s, drafted, 4, end - 6, 0),
          "no draft");
    CHECK(same_bits(
              model_forward_text(&s, family.tokens + end - 5, 5, end - 5, 1),
              end - 1, 1),
          "%s, batch %d, %d threads: differs after a draft", name, batch,
          threads);
    session_close(&s);
}

static void check_bits_of(const char *name, KvType kv) {
    static const int batches[] = {1, 2, 7, 16, 40};
    Model m;
    Session s;
    CHECK(!family_open(&family, name), "no %s in tests/golden/families", name);
    CHECK(!family_write(&family, folder(),
                        &(FolderForm){.type = TYPE_F32, .n_files = 2}),
          "cannot write %s", name);
    CHECK(!open_folder(&m), "%s does not open: %s", name, stderr_text());
    m.decode_bytes = 1 << 30; /* large enough for any number of threads */
    CHECK(!session_open(&s, &m, 1, FAMILY_TOKENS, FAMILY_TOKENS, kv),
          "no session");
    const float *l =
        model_forward_text(&s, family.tokens, FAMILY_TOKENS, 0, FAMILY_TOKENS);
    CHECK(l, "%s does not run", name);
    memcpy(expected, l, n_logits() * sizeof *l);
    session_close(&s);
    /* without NORMA_THOROUGH four of them */
    for (int i = 0; i < 15; i += test_thorough() ? 1 : 4)
        check_session(name, &m, kv, batches[i / 3], 1 + i % 3);
    model_close(&m);
    family_close(&family);
}

/* ---- GGUF --------------------------------------------------------------- */

/* The value of general.architecture. */
static const char *architecture_in(const char *path) {
    static const char key[] = "general.architecture";
    static char bytes[1 << 12], found[32];
    FILE *in = fopen(path, "rb");
    size_t size = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    const char *at = size ? memmem(bytes, size, key, strlen(key)) : NULL;
    if (in)
        fclose(in);
    snprintf(found, sizeof found, "%s", "none");
    uint64_t length = 0;
    if (at)
        memcpy(&length, at + strlen(key) + 4, sizeof length);
    if (length > 0 && length < sizeof found)
        snprintf(found, sizeof found, "%.*s", (int)length,
                 at + strlen(key) + 12);
    return found;
}

static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* Exact if rows of heads are not permuted, and neither RoPE's factors nor its
 * base (`rounded`) are rounded to float32. In double precision a scale of
 * scores is a rounded number of a folder, but computed from the head size for a
 * GGUF file. */
static void check_written(const char *name, const char *architectures,
                          const char *path, bool limited, bool halves,
                          bool rounded) {
    Model m;
    CHECK(has_word(architectures, architecture_in(path)), "%s: is a file of %s",
          name, architecture_in(path));
    CHECK(!model_open(&m, path), "%s: the GGUF file does not open", name);
    int max = m.long_factors ? m.long_context : m.config.context,
        n = max < FAMILY_TOKENS ? max : FAMILY_TOKENS;
    bool exact = m.config.rope.halves == halves && !m.rope_factors &&
                 !rounded && !test_plain();
    int status = run(&m, n, logits);
    model_close(&m);
    CHECK(!status, "%s: the GGUF file does not run", name);
    CHECK(limited || n == FAMILY_TOKENS,
          "%s: the GGUF file has a context of %d", name, n);
    CHECK(distance_of(n) <= (exact ? 0 : 1e-6),
          "%s: the GGUF file differs by %.3g", name, distance_of(n));
}

/* The rows of KEYS that some written file has. */
static bool written[64];

/* Converts the GGUF file again: every key of the first file is in the second
 * one, with the same bytes, but for those of the layout. */
static void check_written_again(const char *name, const char *path) {
    char again[512];
    Model m;
    Gguf given = {0}, found = {0};
    File files[2];
    snprintf(again, sizeof again, "%s", temporary("again.gguf"));
    CHECK(!model_open(&m, path), "%s: the GGUF file does not open", name);
    stderr_hide();
    const int status =
        gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32}, path, again);
    stderr_show();
    model_close(&m);
    CHECK(!status && !file_map(&files[0], path) &&
              !file_map(&files[1], again) &&
              !gguf_open(&given, path, &files[0]) &&
              !gguf_open(&found, again, &files[1]),
          "%s: is not written again: %s", name, stderr_text());
    CHECK(given.n_values == found.n_values, "%s: %llu keys, then %llu", name,
          (unsigned long long)given.n_values,
          (unsigned long long)found.n_values);
    for (size_t i = 0; i < given.n_values; i++) {
        const GgufValue *a = &given.values[i], *b = &found.values[i];
        CHECK(a->key.n == b->key.n &&
                  !memcmp(a->key.text, b->key.text, a->key.n) &&
                  a->type == b->type && a->bytes == b->bytes &&
                  !memcmp(a->at, b->at, a->bytes),
              "%s: %.*s is lost or changed", name, SHOWN(a->key));
    }
    int row = 0;
    KEY_EACH(key) {
        char whole[128];
        snprintf(whole, sizeof whole, "%s.%s", architecture_in(path),
                 key->gguf ? key->gguf : "");
        written[row++] |= gguf_find_value(&given, whole) != NULL;
    }
    gguf_close(&given);
    gguf_close(&found);
    file_unmap(&files[0]);
    file_unmap(&files[1]);
    unlink(again);
}

/* gguf_files_have_the_same_logits has seen every key of the table that norma
 * writes survive: folder to GGUF by the logits, GGUF to GGUF by the bytes. */
static void every_key_was_written(void) {
    /* read only. A folder that needs one of them is refused, or its context
     * ends where the key would matter; those of a GGUF file are copied */
    static const char *const only_read[] = {"vocab_size",
                                            "expert_weights_norm",
                                            "attention.sliding_window_pattern",
                                            "attention.temperature_scale",
                                            "rope.scale_linear",
                                            "rope.scaling.finetuned",
                                            "rope.scaling.yarn_attn_factor",
                                            "rope.scaling.yarn_beta_fast",
                                            "rope.scaling.yarn_beta_slow",
                                            "rope.scaling.yarn_ext_factor",
                                            "rope.scaling.yarn_log_multiplier",
                                            "tensor_data_layout"};
    char missing[1024] = "";
    int row = 0;
    KEY_EACH(key) {
        bool is_written = key->gguf != NULL;
        for (size_t i = 0; i < sizeof only_read / sizeof *only_read; i++)
            is_written &= !key->gguf || strcmp(key->gguf, only_read[i]) != 0;
        if (is_written && !written[row])
            snprintf(missing + strlen(missing),
                     sizeof missing - strlen(missing), " %s", key->gguf);
        row++;
    }
    CHECK(!*missing, "in no written file:%s", missing);
    CHECK(row <= (int)(sizeof written / sizeof *written), "%d rows", row);
}

/* gamma multiplied into the weights that follow changes nothing but
 * rounding. */
static void check_folded(const char *name, const char *path) {
    Model m;
    CHECK(!open_folder(&m), "%s does not open: %s", name, stderr_text());
    stderr_hide();
    int status = gguf_write_model(
        &m, NULL, (GgufForm){.type = TYPE_F32, .fold = true}, folder(), path);
    stderr_show();
    model_close(&m);
    if (status)
        return; /* as without folding */
    CHECK(!model_open(&m, path), "%s: the folded file does not open", name);
    int max = m.long_factors ? m.long_context : m.config.context,
        n = max < FAMILY_TOKENS ? max : FAMILY_TOKENS;
    CHECK(!run(&m, n, logits), "%s: the folded file does not run", name);
    model_close(&m);
    CHECK(distance_of(n) <= 1e-5, "%s: the folded file differs by %.3g", name,
          distance_of(n));
}

static void check_gguf_of(const char *name, const char *architectures,
                          bool limited) {
    char path[512];
    Model m;
    snprintf(path, sizeof path, "%s", temporary("family.gguf"));
    unlink(path);
    CHECK(!family_open(&family, name), "no %s in tests/golden/families", name);
    CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
          "cannot write %s", name);
    CHECK(!open_folder(&m), "%s does not open: %s", name, stderr_text());
    CHECK(!run(&m, FAMILY_TOKENS, expected), "%s does not run", name);
    bool halves = m.config.rope.halves,
         rounded = m.config.rope.base != (float)m.config.rope.base;
    stderr_hide();
    int status = gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32},
                                  folder(), path);
    int lines = stderr_show();
    model_close(&m);
    CHECK(!status || limited, "%s is not written: %s", name, stderr_text());
    CHECK(!status || (lines == 1 && access(path, F_OK)),
          "%s is refused, with %d lines: %s", name, lines, stderr_text());
    if (!status) {
        check_written(name, architectures, path, limited, halves, rounded);
        check_written_again(name, path);
    }
    check_folded(name, path);
    family_close(&family);
}

/* A GGUF file of a parallel family may have a beta. */
static void beta_of_a_parallel_family_is_kept(void) {
    static const float beta[512] = {0, 0.5f};
    char path[512];
    Model m;
    snprintf(path, sizeof path, "%s", temporary("beta.gguf"));
    CHECK(!family_open(&family, "cohere2") &&
              !family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
          "no cohere2");
    CHECK(!open_folder(&m) && m.config.dim <= 512, "does not open: %s",
          stderr_text());
    m.layers[0].attn_norm.beta = beta;
    CHECK(!gguf_write_model(&m, NULL, (GgufForm){.type = TYPE_F32}, folder(),
                            path),
          "not written");
    model_close(&m);
    CHECK(!model_open(&m, path), "the file does not open");
    CHECK(m.layers[0].attn_norm.beta && m.layers[0].attn_norm.beta[1] == 0.5f &&
              !m.layers[1].attn_norm.beta,
          "another beta");
    model_close(&m);
    family_close(&family);
}

/* OLMo 1, whose LayerNorms have no gamma, is a llama once its weights are
 * centered. */
static void a_centered_olmo_is_a_llama(void) {
    char path[512];
    Model m;
    snprintf(path, sizeof path, "%s", temporary("centered.gguf"));
    CHECK(!family_open(&family, "olmo") &&
              !family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
          "no olmo");
    CHECK(!open_folder(&m) && !run(&m, FAMILY_TOKENS, expected),
          "olmo does not run: %s", stderr_text());
    CHECK(!model_center(&m, folder()), "not centered");
    CHECK(!gguf_write_model(&m, NULL,
                            (GgufForm){.type = TYPE_F32, .center = true},
                            folder(), path),
          "not written");
    model_close(&m);
    CHECK(!strcmp(architecture_in(path), "llama"), "is a file of %s",
          architecture_in(path));
    CHECK(!model_open(&m, path) && m.final_norm.kind == NORM_RMS &&
              !run(&m, FAMILY_TOKENS, logits),
          "does not run");
    model_close(&m);
    CHECK(distance_of(FAMILY_TOKENS) <= 1e-5, "differs by %.3g",
          distance_of(FAMILY_TOKENS));
    unlink(path);
    family_close(&family);
}

/* ---- config.json --------------------------------------------------------- */

/* Opens the folder. message NULL: same logits; "": it opens; else: it is
 * refused with this message. */
static void check_opening(const char *name, const char *what,
                          const char *message) {
    Model m;
    stderr_hide();
    bool opened = model_open(&m, folder()) == 0;
    int lines = stderr_show();
    CHECK(opened ? !lines || !strncmp(stderr_text(), "note: ", 6) : lines == 1,
          "%s: %s: %d lines on stderr: %s", name, what, lines, stderr_text());
    if (message && message[0]) {
        CHECK(!opened, "%s: %s: opens", name, what);
        CHECK(strstr(stderr_text(), message), "%s: %s: no '%s' in: %s", name,
              what, message, stderr_text());
        return;
    }
    CHECK(opened, "%s: %s: %s", name, what, stderr_text());
    int status = run(&m, FAMILY_TOKENS, logits);
    model_close(&m);
    CHECK(!status, "%s: %s: does not run", name, what);
    CHECK(message || distance() <= EXACT, "%s: %s: error %.3g", name, what,
          distance());
}

typedef struct {
    const char *family, *old, *new, *message; /* message: as in check_opening */
} Change;

static void check_changes(const Change *changes, int n) {
    for (int i = 0; i < n; i += test_fast() ? 3 : 1) {
        char path[512];
        CHECK(!open_golden(changes[i].family), "no %s in tests/golden/families",
              changes[i].family);
        CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
              "cannot write %s", changes[i].family);
        snprintf(path, sizeof path, "%s/config.json", folder());
        replace_in_file(path, changes[i].old, changes[i].new);
        check_opening(changes[i].family, changes[i].new, changes[i].message);
        family_close(&family);
    }
}

#define CHECK_CHANGES(changes)                                                 \
    check_changes(changes, sizeof changes / sizeof *changes)

#define LAYER_TYPES                                                            \
    "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]"

static void gemma_options(void) {
    static const char caps[] = "\"attn_logit_softcapping\": 50.0",
                      logit_caps[] = "\"final_logit_softcapping\": 30.0";
    static const char none[] = "\"attn_logit_softcapping\": null",
                      bidirectional[] = "use_bidirectional_attention";
    static const Change changes[] = {
        {"gemma2", "\"hidden_activation\": \"gelu_pytorch_tanh\"",
         "\"hidden_activation\": \"gelu\"", "hidden_activation is 'gelu'"},
        /* not read */
        {"gemma2", "\"hidden_act\": \"gelu_pytorch_tanh\"",
         "\"hidden_act\": \"relu\"", NULL},
        {"gemma2", caps, "\"attn_logit_softcapping\": 0",
         "attn_logit_softcapping is 0"},
        {"gemma2", caps, "\"attn_logit_softcapping\": -50.0",
         "attn_logit_softcapping is -50.0"},
        {"gemma2", caps, "\"attn_logit_softcapping\": \"50\"",
         "attn_logit_softcapping is '50'"},
        {"gemma2", caps, "\"attn_logit_softcapping\": 1e60",
         "attn_logit_softcapping is 1e60"},
        {"gemma2", caps, none, ""},
        {"gemma2", logit_caps, "\"final_logit_softcapping\": 0.0",
         "final_logit_softcapping is 0.0"},
        {"gemma2", logit_caps, "\"final_logit_softcapping\": -1",
         "final_logit_softcapping is -1"},
        {"gemma2", logit_caps, "\"final_logit_softcapping\": null", ""},
        {"gemma2", "scalar\": 20", "scalar\": 0", "query_pre_attn_scalar is 0"},
        {"gemma2", "scalar\": 20", "scalar\": -20",
         "query_pre_attn_scalar is -20"},
        {"gemma2", "\"sliding_window\": 8", "\"sliding_window\": 0",
         "sliding_window is 0"},
        {"gemma2", "\"sliding_window\": 8", "\"sliding_window\": -8",
         "sliding_window is -8"},
        {"gemma2", "\"sliding_window\": 8", "\"sliding_window\": 9.5",
         "sliding_window is 9.5"},
        {"gemma2", "\"attention_bias\": false", "\"attention_bias\": true",
         "bias"},
        {"gemma2", "\"head_dim\": 20", "\"head_dim\": 19", "head_dim is 19"},
        {"gemma2_caps", LAYER_TYPES,
         "\"layer_types\": [\"sliding_attention\", \"full_attention\"]",
         "layer_types"},
        {"gemma2_caps", LAYER_TYPES, "\"layer_types\": \"sliding_attention\"",
         "layer_types"},
        {"gemma2_caps", "\"full_attention\", \"sl",
         "\"chunked_attention\", \"sl", "layer_types"},
        {"gemma2_caps", "\"full_attention\", \"sl", "1, \"sl", "layer_types"},
        {"gemma3_270m", "\"gemma3_text\"", "\"gemma3\"",
         "model_type is 'gemma3'"},
        {"gemma3_270m", "\"use_bidirectional_attention\": false",
         "\"use_bidirectional_attention\": true", bidirectional},
        {"gemma3_270m", "_base_freq\": 10000.0", "_base_freq\": 0",
         "rope_local_base_freq is 0"},
        {"gemma3_270m", "_base_freq\": 10000.0", "_base_freq\": \"1\"",
         "rope_local_base_freq is '1'"},
        {"gemma3_270m", "\"rope_scaling\": null",
         "\"rope_scaling\": {\"rope_type\": \"spiral\"}", "rope_type"},
        {"gemma3_270m", "\"rope_scaling\": null",
         "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}", ""},
        /* transformers reads it and ignores it */
        {"gemma3_270m", none, caps, "attn_logit_softcapping is 50.0"},
        {"gemma3_1b", "_pattern\": 6", "_pattern\": 0",
         "sliding_window_pattern is 0"},
        {"gemma3_1b", "_pattern\": 6", "_pattern\": \"LLG\"",
         "sliding_window_pattern is 'LLG'"},
        {"gemma3_nested", "\"factor\": 8.0", "\"factor\": 0", "factor is 0"},
        {"gemma3_nested", "\"rope_theta\": 20000.0", "\"rope_theta\": -1",
         "rope_theta is -1"},
        {"gemma3_nested", "\"rope_type\": \"default\"",
         "\"rope_type\": \"spiral\"", "rope_type"},
    };
    CHECK_CHANGES(changes);
}

static void olmo_options(void) {
    static const Change changes[] = {
        {"olmo", "\"clip_qkv\": null", "\"clip_qkv\": 8.0", "clip_qkv is 8.0"},
        {"olmo", "\"clip_qkv\": null", "\"rms_norm_eps\": 0",
         NULL}, /* eps is always 1e-5 */
        {"olmo", "\"clip_qkv\": null", "\"layer_norm_eps\": 1", NULL},
        {"olmo", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
        {"olmo2", "\"silu\"", "\"gelu_pytorch_tanh\"", ""},
        {"olmo2", "\"silu\"", "\"swish\"", NULL},
        {"olmo2", "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0",
         "rms_norm_eps is 0"},
        {"olmo2", "\"attention_bias\": false", "\"attention_bias\": true",
         "bias"},
        {"olmo2", "\"use_cache\": false", "\"sliding_window\": 8",
         NULL}, /* OLMo 2 ignores it */
        {"olmo3", "\"sliding_window\": 8", "\"sliding_window\": 0",
         "sliding_window is 0"},
        {"olmo3", "\"full_attention\", ", "", "layer_types"},
        {"olmo3", "\"full_attention\"", "\"half_attention\"", "layer_types"},
        {"olmo3", "\"factor\": 8.0", "\"factor\": -8.0", "factor is -8.0"},
        {"olmo3", "\"rope_type\": \"yarn\"", "\"rope_type\": \"spiral\"",
         "rope_type"},
        {"olmo3", "\"attention_factor\": 1.2079441541679836, ", "",
         NULL}, /* 0.1 log(8) + 1 */
    };
    CHECK_CHANGES(changes);
}

static void phi_options(void) {
    static const char partial[] = "\"partial_rotary_factor\": 0.75";
    static const Change changes[] = {
        {"phi3", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
        {"phi3", "\"sliding_window\": 9", "\"sliding_window\": 0",
         "sliding_window is 0"},
        {"phi3", "\"rope_scaling\": null",
         "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
         ": type is"},
        {"phi3", "\"rope_scaling\": null",
         "\"rope_scaling\": {\"type\": \"longrope\"}",
         "short_factor is missing"},
        {"phi3", "_size\": 72", "_size\": 1073741823",
         "up_proj.weight is [1, 144, 40], expected [1, 2147483646, 40]"},
        {"phi3", "_size\": 72", "_size\": 1073741824",
         "up_proj.weight is [1, 144, 40], expected [1, -1, 40]"},
        {"phi3", "\"attention_bias\": false", "\"attention_bias\": true",
         NULL}, /* not read */
        {"phi4", "\"mlp_bias\": false", "\"mlp_bias\": true", NULL},
        {"phi4", partial, "\"partial_rotary_factor\": 0",
         "partial_rotary_factor is 0"},
        {"phi4", partial, "\"partial_rotary_factor\": 1.5",
         "partial_rotary_factor is 1.5"},
        {"phi4", partial, "\"partial_rotary_factor\": \"half\"",
         "partial_rotary_factor is 'half'"},
        /* 11 elements */
        {"phi4", partial, "\"partial_rotary_factor\": 0.7",
         "partial_rotary_factor"},
        {"phi4", partial, "\"partial_rotary_factor\": 0.5",
         "short_factor"}, /* 4 pairs */
        {"phi4", "\"short_factor\": [1.0, ", "\"short_factor\": [",
         "short_factor"},
        {"phi4", "\"short_factor\": [1.0, ", "\"short_factor\": [0, ",
         "short_factor"},
        {"phi4", "\"short_factor\": [1.0, ", "\"short_factor\": [-1.0, ",
         "short_factor"},
        {"phi4", "\"short_factor\": [1.0, ", "\"short_factor\": [null, ",
         "short_factor"},
        {"phi4", "\"short_factor\": [1.0, ", "\"short_factors\": [1.0, ",
         "short_factor is missing"},
        {"phi4", "\"original_max_position_embeddings\": 48",
         "\"original_max_position_embeddings\": 0",
         "original_max_position_embeddings is 0"},
    };
    CHECK_CHANGES(changes);
}

static void granite_options(void) {
    static const Change changes[] = {
        {"granite", "\"attention_multiplier\": 0.1",
         "\"attention_multiplier\": 0", "attention_multiplier is 0"},
        {"granite", "\"attention_multiplier\": 0.1",
         "\"attention_multiplier\": 1e60", "attention_multiplier is 1e60"},
        {"granite", "\"embedding_multiplier\": 12.0",
         "\"embedding_multiplier\": 0.0", "embedding_multiplier is 0.0"},
        {"granite", "\"embedding_multiplier\": 12.0",
         "\"embedding_multiplier\": \"12\"", "embedding_multiplier is '12'"},
        {"granite", "\"residual_multiplier\": 0.22",
         "\"residual_multiplier\": 0", "residual_multiplier is 0"},
        {"granite", "\"residual_multiplier\": 0.22",
         "\"residual_multiplier\": [0.22]", "residual_multiplier is a list"},
        {"granite", "\"logits_scaling\": 8.0", "\"logits_scaling\": 0",
         "logits_scaling is 0"},
        {"granite", "\"logits_scaling\": 8.0", "\"logits_scaling\": 1e-60",
         "logits_scaling is 1e-60"},
        {"granite", "\"mlp_bias\": false", "\"mlp_bias\": true", "bias"},
        {"granite", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
        {"granite", "\"use_cache\": true", "\"sliding_window\": 8", NULL},
    };
    CHECK_CHANGES(changes);
}

static void smollm3_options(void) {
    static const char layers[] = "\"no_rope_layers\": [1, 1, 1, 0, 1]",
                      window[] = "\"sliding_window\": null";
    static const Change changes[] = {
        {"smollm3", layers, "\"no_rope_layers\": [1, 1, 1, 0]",
         "no_rope_layers"},
        {"smollm3", layers, "\"no_rope_layers\": [1, 1, 1, \"0\", 1]",
         "no_rope_layers"},
        {"smollm3", layers, "\"no_rope_layers\": 4", "no_rope_layers is 4"},
        {"smollm3", layers, "\"no_rope_layers\": null",
         NULL}, /* every fourth */
        {"smollm3", layers, "\"no_rope_layers\": [1, 1, 1, 0, 1, 0]", NULL},
        {"smollm3", "_interval\": 4", "_interval\": 0",
         NULL}, /* ignored if there is a list */
        {"smollm3",
         "_interval\": 4,\n  "
         "\"no_rope_layers\": [1, 1, 1, 0, 1]",
         "_interval\": 0", "no_rope_layer_interval is 0"},
        {"smollm3", "\"full_attention\", ", "\"half_attention\", ",
         "layer_types"},
        /* all layers are full */
        {"smollm3", "\"use_sliding_window\": false",
         "\"use_sliding_window\": true", NULL},
        {"smollm3", window, "\"sliding_window\": 8", NULL},
        {"smollm3", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
        {"smollm3", "\"attention_bias\": false", "\"attention_bias\": true",
         "bias"},
    };
    CHECK_CHANGES(changes);
}

static void newer_options(void) {
    static const Change changes[] = {
        {"seed_oss", "\"attention_out_bias\": false",
         "\"attention_out_bias\": true", "bias"},
        {"seed_oss", "\"attention_bias\": true", "\"attention_bias\": false",
         "bias"},
        {"seed_oss", "\"attention_bias\": true", "\"attention_bias\": 1",
         "attention_bias is 1"},
        {"hunyuan", "\"alpha\": 1000.0", "\"beta\": 1000.0",
         "alpha is missing"},
        {"hunyuan", "\"alpha\": 1000.0", "\"alpha\": 0", "alpha is 0"},
        {"hunyuan", "\"alpha\": 1000.0", "\"alpha\": \"1000\"",
         "alpha is '1000'"},
        /* not read by transformers */
        {"hunyuan", "\"use_qk_norm\": true", "\"use_qk_norm\": false", NULL},
        {"cohere2", "\"logit_scale\": 0.25", "\"logit_scale\": 0",
         "logit_scale is 0"},
        {"cohere2", "\"logit_scale\": 0.25", "\"scale\": 0.25",
         "logit_scale is missing"},
        {"cohere2", "\"sliding_window\": 9", "\"sliding_window\": 0",
         "sliding_window is 0"},
        {"cohere2", "_pattern\": 4", "_pattern\": 0",
         "sliding_window_pattern is 0"},
        {"arcee", "\"relu2\"", "\"silu\"", ""},
        {"arcee", "\"relu2\"", "\"relu\"",
         "hidden_act is 'relu', expected relu2"},
        {"arcee", "\"mlp_bias\": false", "\"mlp_bias\": true", "bias"},
    };
    CHECK_CHANGES(changes);
}

static void stablelm_options(void) {
    static const char partial[] = "\"partial_rotary_factor\": 0.25",
                      cache[] = "\"use_cache\": true";
    static const Change changes[] = {
        {"stablelm", cache, "\"use_parallel_residual\": true",
         "use_parallel_residual is true"},
        {"stablelm", cache,
         "\"use_parallel_residual\": false, \"qk_layernorm\": false", NULL},
        {"stablelm", cache, "\"qk_layernorm\": true", "qk_layernorm is true"},
        {"stablelm", cache, "\"rms_norm_eps\": 0", NULL},
        {"stablelm", partial, "\"partial_rotary_factor\": 0",
         "partial_rotary_factor is 0"},
        /* 5 elements */
        {"stablelm", partial, "\"partial_rotary_factor\": 0.21",
         "partial_rotary_factor"},
        {"stablelm", partial, "\"partial_rotary_factor\": 2",
         "partial_rotary_factor is 2"},
        {"stablelm", "\"layer_norm_eps\": 1e-05", "\"layer_norm_eps\": 0",
         "layer_norm_eps is 0"},
        {"stablelm", "\"use_qkv_bias\": true", "\"use_qkv_bias\": false",
         "bias"},
        {"stablelm", "\"use_qkv_bias\": true", "\"use_qkv_bias\": 1",
         "use_qkv_bias is 1"},
        {"stablelm", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
    };
    CHECK_CHANGES(changes);
}

static void mistral_options(void) {
    static const char layers[] =
        "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"]";
    static const Change changes[] = {
        {"mistral_v01", "\"sliding_window\": 8", "\"sliding_window\": 0",
         "sliding_window is 0"},
        {"mistral_v01", "\"sliding_window\": 8", "\"sliding_window\": \"8\"",
         "sliding_window is '8'"},
        {"mistral_v01", "\"use_cache\": true", layers, NULL}, /* not read */
        {"mistral_v01", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
        {"mistral_v03", "\"sliding_window\": null", "\"sliding_window\": 40",
         NULL},
        {"mixtral", "\"sliding_window\": null", "\"sliding_window\": 40", NULL},
        {"mixtral", "\"sliding_window\": null", "\"sliding_window\": 0",
         "sliding_window is 0"},
        /* always true */
        {"mixtral", "\"sliding_window\": null", "\"norm_topk_prob\": false",
         NULL},
        {"mixtral", "_per_tok\": 2", "_per_tok\": 6",
         "num_experts_per_tok is 6"},
        {"mixtral", "_per_tok\": 2", "_per_tok\": 0",
         "num_experts_per_tok is 0"},
        {"mixtral", "_experts\": 5", "_experts\": 0", "num_local_experts is 0"},
        {"mixtral", "_experts\": 5", "_experts\": 4",
         "block_sparse_moe.gate.weight is [1, 5, 40], expected [1, 4, 40]"},
        {"mixtral", "_experts\": 5", "_experts\": 100000",
         "num_local_experts is 100000"},
        {"mixtral", "\"silu\"", "\"gelu\"", "hidden_act is 'gelu'"},
    };
    CHECK_CHANGES(changes);
}

/* A missing key has the default of the family's configuration in
 * transformers. */
static void missing_keys_have_their_defaults(void) {
    static const struct {
        const char *family, *key;
    } missing[] = {
        {"gemma2", "hidden_activation"},
        {"gemma2", "attn_logit_softcapping"},
        {"gemma2", "final_logit_softcapping"},
        {"gemma2", "rope_theta"},
        {"gemma2", "rms_norm_eps"},
        {"gemma2_caps", "tie_word_embeddings"},
        {"gemma3_270m", "layer_types"},
        {"gemma3_270m", "rope_theta"},
        {"gemma3_270m", "rope_local_base_freq"},
        {"gemma3_270m", "rms_norm_eps"},
        {"gemma3_1b", "hidden_activation"},
        {"gemma3_1b", "sliding_window_pattern"},
        {"olmo2", "tie_word_embeddings"},
        {"olmo3", "layer_types"},
        {"olmo3", "rope_theta"},
        {"phi3", "rms_norm_eps"},
        {"phi3", "rope_theta"},
        {"phi3", "tie_word_embeddings"},
        {"phi3", "num_key_value_heads"},
        {"granite", "rope_theta"},
        {"smollm3", "no_rope_layers"},
        {"smollm3", "layer_types"},
        {"smollm3", "rms_norm_eps"},
        {"stablelm", "partial_rotary_factor"},
        {"stablelm", "layer_norm_eps"},
        {"stablelm", "rope_theta"},
        {"olmo", "rope_theta"},
        {"mixtral", "rms_norm_eps"},
        {"mixtral", "rope_theta"},
        {"mistral_v01", "rope_theta"},
        {"mistral_v03", "sliding_window"},
        {"mistral_v03", "tie_word_embeddings"},
        {"glm4", "attention_bias"},
        {"seed_oss", "attention_bias"},
        {"seed_oss", "attention_out_bias"},
        {"seed_oss", "mlp_bias"},
        {"hunyuan", "rope_theta"},
        {"hunyuan", "rms_norm_eps"},
        {"cohere2", "layer_norm_eps"},
        {"cohere2", "sliding_window_pattern"},
        {"arcee", "hidden_act"},
        {"arcee", "rms_norm_eps"},
    };
    for (size_t i = 0; i < sizeof missing / sizeof *missing;
         i += test_fast() ? 3 : 1) {
        char line[64];
        CHECK(!open_golden(missing[i].family), "no %s in tests/golden/families",
              missing[i].family);
        snprintf(line, sizeof line, "  \"%s\": ", missing[i].key);
        char *at = strstr(family.config, line),
             *end = at ? strchr(at, '\n') : NULL;
        CHECK(end, "%s has no %s", missing[i].family, missing[i].key);
        memmove(at, end + 1, strlen(end));
        CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
              "no folder");
        check_opening(missing[i].family, missing[i].key, NULL);
        family_close(&family);
    }
}

/* Beyond the original context LongRoPE uses other factors for all positions, so
 * the context is cut to it. */
static void longrope_ends_at_its_original_context(void) {
    Model m;
    Session s;
    CHECK(!family_open(&family, "phi4"), "no phi4 in tests/golden/families");
    CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
          "cannot write phi4");
    CHECK(!open_folder(&m), "phi4 does not open: %s", stderr_text());
    CHECK(m.config.context == 48, "context %d", m.config.context);
    CHECK(!session_open(&s, &m, 1, FAMILY_TOKENS, 0, KV_F32), "no session");
    CHECK(model_forward_text(&s, family.tokens, 40, 0, 0) &&
              model_forward_text(&s, family.tokens, 8, 40, 1),
          "does not run");
    stderr_hide();
    const float *l = model_forward_text(&s, family.tokens, 1, 48, 1);
    CHECK(stderr_show() == 1 && !l && strstr(stderr_text(), "LongRoPE"),
          "position 48: %s", stderr_text());
    session_close(&s);
    model_close(&m);
    family_close(&family);
}

/* Names of tensors in older and newer folders of multimodal models. The vision
 * model is skipped, others are refused. */
static void text_models_of_multimodal_folders(void) {
    static const char *const forms[] = {"language_model.model.",
                                        "model.language_model."};
    static const char *const others[] = {"vision_tower.patch.weight",
                                         "model.multi_modal_projector.x",
                                         "audio_tower.x"};
    for (int i = 0; i < 3; i++) {
        char *config, name[96];
        CHECK(!open_golden("gemma3_270m"),
              "no gemma3_270m in tests/golden/families");
        for (FolderPart *p = family.parts; p < family.parts + family.n_parts;
             p++) {
            CHECK(!strncmp(p->name, "model.", 6), "%s", p->name);
            snprintf(name, sizeof name, "%s%s", forms[i % 2], p->name + 6);
            memcpy(p->name, name, sizeof name);
        }
        family.parts = realloc(family.parts, (size_t)(family.n_parts + 1) *
                                                 sizeof *family.parts);
        FolderPart *other = &family.parts[family.n_parts++];
        *other = (FolderPart){.n_dims = 3,
                              .dims = {2, 3, 4},
                              .count = 24,
                              .values = calloc(24, sizeof(float))};
        snprintf(other->name, sizeof other->name, "%s", others[i]);
        /* Gemma 3 4B has none */
        char *vocab = strstr(family.config, "\"vocab_size\"");
        vocab[1] = 'x';
        if (asprintf(&config,
                     "{\"model_type\": \"gemma3\", \"text_config\": %s}",
                     family.config) < 0)
            abort();
        free(family.config);
        family.config = config;
        CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
              "cannot write");
        check_opening("gemma3_270m", forms[i % 2],
                      i == 2 ? "audio_tower.x is not supported" : NULL);
        family_close(&family);
    }
}

/* A base model's tensors have no "model." in their names. */
static void names_of_base_models(void) {
    static const char *const names[] = {"olmo2", "gemma3_270m", "qwen2_moe",
                                        "phi4"};
    for (int i = 0; i < 4; i++) {
        CHECK(!open_golden(names[i]), "no %s in tests/golden/families",
              names[i]);
        for (FolderPart *p = family.parts; p < family.parts + family.n_parts;
             p++)
            if (!strncmp(p->name, "model.", 6))
                memmove(p->name, p->name + 6, sizeof p->name - 6);
        CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
              "cannot write");
        check_opening(names[i], "names of a base model", NULL);
        family_close(&family);
    }
}

/* Makes a family deeper by copies of its layer 0. */
static void add_layers(int first, int end) {
    static const char prefix[] = "model.layers.0.";
    int n = family.n_parts;
    int n_copied = 0;
    for (int i = 0; i < n; i++)
        n_copied += !strncmp(family.parts[i].name, prefix, sizeof prefix - 1);
    family.parts =
        realloc(family.parts,
                (size_t)(n + (end - first) * n_copied) * sizeof *family.parts);
    for (int l = first; l < end; l++)
        for (int i = 0; i < n; i++) {
            const FolderPart *from = &family.parts[i];
            if (strncmp(from->name, prefix, sizeof prefix - 1) != 0)
                continue;
            FolderPart *to = &family.parts[family.n_parts++];
            char name[sizeof to->name];
            *to = *from;
            snprintf(name, sizeof name, "model.layers.%d.%s", l,
                     from->name + sizeof prefix - 1);
            memcpy(to->name, name, sizeof name);
            to->values = malloc(from->count * sizeof *to->values);
            if (!to->values)
                abort();
            memcpy(to->values, from->values, from->count * sizeof *to->values);
        }
}

/* Without layer_types the layers 0, 2, ... of Qwen 2 MoE below
 * max_window_layers have the window: layer_types of transformers'
 * Qwen2MoeConfig. */
static void windows_of_qwen2_moe(void) {
    static const struct {
        const char *old, *new, *sliding; /* [5]: s if the layer has it */
    } cases[] = {
        {"\"max_window_layers\": 21", "\"max_window_layers\": 21", "sfsfs"},
        {"  \"max_window_layers\": 21,\n", "", "sfsfs"}, /* 28 */
        {"\"max_window_layers\": 21", "\"max_window_layers\": 3", "sfsff"},
        {"\"max_window_layers\": 21", "\"max_window_layers\": 2", "sffff"},
        {"\"max_window_layers\": 21", "\"max_window_layers\": 1", "sffff"},
        {"\"max_window_layers\": 21", "\"max_window_layers\": 0", "fffff"},
        {"\"use_sliding_window\": true", "\"use_sliding_window\": false",
         "fffff"},
        {"\"max_window_layers\": 21",
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\", "
         "\"full_attention\", \"sliding_attention\"]",
         "fsffs"},
    };
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", folder());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Model m;
        CHECK(!open_golden("qwen2_moe"), "no qwen2_moe");
        add_layers(2, 5);
        CHECK(!family_write(&family, folder(), &(FolderForm){.type = TYPE_F32}),
              "cannot write");
        replace_in_file(path, "\"num_hidden_layers\": 2",
                        "\"num_hidden_layers\": 5");
        replace_in_file(path, "\"use_sliding_window\": false",
                        "\"use_sliding_window\": true");
        replace_in_file(path, cases[i].old, cases[i].new);
        CHECK(!open_folder(&m), "case %zu: %s", i, stderr_text());
        for (int l = 0; l < 5; l++)
            CHECK(m.layers[l].window == (cases[i].sliding[l] == 's' ? 32 : 0),
                  "case %zu: window %d in layer %d", i, m.layers[l].window, l);
        model_close(&m);
        family_close(&family);
    }
}

/* ---- the suite ---------------------------------------------------------- */

static int current;

static void logits_match_transformers(void) {
    check_logits_of(MODELS[current].name);
}
static void half_precision_is_close_and_exact(void) {
    check_halves_of(MODELS[current].name);
}
static void bits_depend_only_on_tokens(void) {
    check_bits_of(MODELS[current].name, current % 2 ? KV_F16 : KV_F32);
}
static void gguf_files_have_the_same_logits(void) {
    check_gguf_of(MODELS[current].name, MODELS[current].architectures,
                  MODELS[current].limited);
}

void suite_families(void) {
    for (current = 0; current < N_MODELS; current++) {
        TEST(logits_match_transformers);
        if (test_fast() && current % 3)
            continue;
        TEST(half_precision_is_close_and_exact);
        TEST(bits_depend_only_on_tokens);
        TEST(gguf_files_have_the_same_logits);
    }
    if (!test_fast())
        TEST(every_key_was_written);
    TEST(gemma_options);
    TEST(beta_of_a_parallel_family_is_kept);
    TEST(a_centered_olmo_is_a_llama);
    TEST(olmo_options);
    TEST(phi_options);
    TEST(granite_options);
    TEST(smollm3_options);
    TEST(stablelm_options);
    TEST(mistral_options);
    TEST(newer_options);
    TEST(missing_keys_have_their_defaults);
    TEST(longrope_ends_at_its_original_context);
    TEST(text_models_of_multimodal_folders);
    TEST(names_of_base_models);
    TEST(windows_of_qwen2_moe);
}
