/* test_folder.c: Hugging Face folders.
 *
 * Compares folders with the same models in other formats and with float64
 * logits. Tests the options of config.json and damaged folders, which must run
 * or be refused with one line on stderr.
 */
#include "base/file.h"
#include "formats/open.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "session.h"

#include "tests/support/folder_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
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

enum { TOKENS = 40, MAX_VOCAB = 131 };

static const char *folder(void) {
    return temporary("folder");
}

static const char *in_folder(const char *name) {
    char path[96];
    snprintf(path, sizeof path, "folder/%s", name);
    return temporary(path);
}

static void remove_folder(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", folder());
    if (system(command))
        abort();
}

/* The bytes of a file and a zero byte; the caller frees them. */
static char *load(const char *path, size_t *size) {
    char *bytes = file_read(path, size);
    if (!bytes)
        abort();
    return bytes;
}

static void save(const char *path, const void *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(bytes, 1, size, out) != size || fclose(out))
        abort();
}

/* The logits [n][vocab_size] of n tokens. */
static int run(const Model *m, int n, float *logits) {
    int tokens[TOKENS];
    Session s;
    for (int i = 0; i < n; i++)
        tokens[i] = (7 * i + i * i) % m->config.vocab_size;
    if (session_open(&s, m, 2, n, 0, KV_F32))
        return -1;
    const float *l = model_forward_text(&s, tokens, n, 0, n);
    if (l)
        memcpy(logits, l, (size_t)n * (size_t)m->config.vocab_size * sizeof *l);
    session_close(&s);
    return l ? 0 : -1;
}

static int run_path(const char *path, int n, float *logits) {
    Model m;
    if (model_open(&m, path))
        return -1;
    int status = run(&m, n, logits);
    model_close(&m);
    return status;
}

/* ---- the same models in other formats ------------------------------------ */

static GgufFile file;
static float logits[TOKENS * MAX_VOCAB], expected[TOKENS * MAX_VOCAB];

/* Compares the model in the file `same`, written as a folder, with float64
 * logits. */
static void check_golden(const char *name, const HashModel *m,
                         const FolderForm *form) {
    int n = TOKENS * m->vocab_size;
    Model model;
    Session s;
    int tokens[TOKENS];
    char golden[64];
    snprintf(golden, sizeof golden, "tests/golden/%s.f32", name);
    FILE *in = fopen(golden, "rb");
    CHECK(in && fread(expected, sizeof *expected, (size_t)n, in) == (size_t)n &&
              !fclose(in),
          "cannot read %s", golden);
    CHECK(!model_open(&model, temporary("same")) &&
              !folder_write(&model, folder(), form),
          "cannot write a folder");
    model_close(&model);
    CHECK(!model_open(&model, folder()), "%s does not open", name);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = hash_token(m, i);
    CHECK(!session_open(&s, &model, 2, TOKENS, 0, KV_F32), "no session");
    const float *found = model_forward_text(&s, tokens, TOKENS, 0, TOKENS);
    double error =
        largest_difference(found, expected, n) / largest(expected, n);
    CHECK(error <= 1e-6, "%s in %d files, %d bytes off: error %.3g", name,
          form->n_files, form->misaligned, error);
    session_close(&s);
    model_close(&model);
    remove_folder();
}

static void folders_against_float64(void) {
    static const char *const llamas[] = {"llama", "llama", "mistral"};
    static const char *const relatives[] = {"qwen2", "qwen3", "qwen3_moe",
                                            "qwen3_moe"};
    const HashModel *const models[] = {&GQA_TIED, &MHA_UNTIED, &ODD_MQA, &WIDE};
    static const char *const names[] = {"gqa_tied", "mha_untied", "odd_mqa",
                                        "wide"};
    for (int i = 0; i < 12; i += test_fast() ? 5 : 1) {
        int k = i / 4;
        CHECK(!hashmodel_write(models[i % 4], temporary("same"), 0, 0),
              "no model");
        check_golden(names[i % 4], models[i % 4],
                     &(FolderForm){.model_type = llamas[k],
                                   .n_files = 1 + 2 * k,
                                   .misaligned = k});
    }
    for (int i = 0; i < 8; i += test_fast() ? 3 : 1) {
        const GoldenRelative *g = &GOLDEN_RELATIVES[i % 4];
        gguf_make_relative(&file, &g->model, &g->relative);
        CHECK(!gguf_write(&file, temporary("same")), "no model");
        gguf_free(&file);
        check_golden(
            g->name, &g->model,
            &(FolderForm){.model_type = relatives[i % 4], .fused = i >= 4});
    }
}

static const HashModel SMALL = {64, 96, 2, 4, 2, 60, 40, true, 7};
static const HashModel TIED = {48, 80, 3, 6, 2, 70, 40, false, 9};

static const struct {
    const HashModel *m;
    Relative r;
    FolderForm form;
} MODELS[] = {
    {&SMALL,
     {.architecture = "qwen2", .biases = true},
     {.model_type = "qwen2"}},
    {&TIED,
     {.architecture = "qwen2", .biases = true},
     {.model_type = "qwen2", .type = TYPE_F16, .n_files = 3}},
    {&SMALL,
     {.architecture = "qwen3", .head_size = 24},
     {.model_type = "qwen3", .type = TYPE_BF16}},
    {&TIED,
     {.architecture = "qwen3", .head_size = 80},
     {.model_type = "qwen3", .misaligned = 1}},
    {&TIED,
     {.architecture = "qwen3"},
     {.model_type = "minimind", .type = TYPE_F16, .misaligned = 3}},
    {&SMALL,
     {.architecture = "qwen3moe",
      .n_experts = 5,
      .n_experts_used = 2,
      .expert_dim = 24},
     {.model_type = "qwen3_moe", .n_files = 2}},
    {&SMALL,
     {.architecture = "qwen3moe",
      .n_experts = 6,
      .n_experts_used = 3,
      .expert_dim = 16,
      .plain_weights = true},
     {.model_type = "qwen3_moe",
      .type = TYPE_BF16,
      .misaligned = 1,
      .fused = true}},
    {&TIED,
     {.architecture = "qwen3moe",
      .n_experts = 4,
      .n_experts_used = 2,
      .expert_dim = 40,
      .n_dense = 1},
     {.model_type = "qwen3_moe", .type = TYPE_F16, .fused = true}},
    {&TIED,
     {.architecture = "qwen3moe",
      .n_experts = 4,
      .n_experts_used = 1,
      .expert_dim = 32,
      .plain_weights = true},
     {.model_type = "minimind"}},
    {&SMALL, {.architecture = "llama"}, {.model_type = "llama"}},
    {&SMALL, {.architecture = "llama"}, {.model_type = "mistral"}},
};
enum {
    N_MODELS = sizeof MODELS / sizeof *MODELS,
    LLAMA = N_MODELS - 2,
    MISTRAL
};

/* Model i as a GGUF file, vectors rounded as in the folder. */
static int write_gguf(int i, const char *path) {
    gguf_make_relative(&file, MODELS[i].m, &MODELS[i].r);
    Type type = MODELS[i].form.type;
    gguf_convert(&file, type);
    for (int t = 0; t < file.n_tensors; t++) {
        GgufTensor *v = &file.tensors[t];
        uint8_t bytes[4 * 128];
        if (v->n_dims > 1)
            continue;
        if (v->count > 128)
            abort();
        quantize_row(bytes, type, v->values, (int)v->count);
        dequantize_row(
            v->values,
            &(Tensor){
                .type = type, .rows = 1, .cols = (int)v->count, .data = bytes},
            0);
    }
    gguf_place(&file);
    int status = gguf_write(&file, path);
    gguf_free(&file);
    return status;
}

static int make_folder(int i) {
    Model m;
    if (write_gguf(i, temporary("same.gguf")) ||
        model_open(&m, temporary("same.gguf")))
        return -1;
    int status = folder_write(&m, folder(), &MODELS[i].form);
    model_close(&m);
    return status;
}

static void folders_and_gguf_files_are_bit_identical(void) {
    /* GGUF orders llama's rows differently */
    for (int i = 0; i < LLAMA; i += test_fast() ? 3 : 1) {
        int n = TOKENS * MODELS[i].m->vocab_size;
        CHECK(!make_folder(i), "model %d cannot be written", i);
        CHECK(!run_path(temporary("same.gguf"), TOKENS, expected),
              "GGUF file %d does not run", i);
        CHECK(!run_path(folder(), TOKENS, logits), "folder %d does not run", i);
        CHECK(!memcmp(logits, expected, (size_t)n * sizeof *logits),
              "model %d (%s): differs by %.3g", i, MODELS[i].form.model_type,
              largest_difference(logits, expected, n));
        remove_folder();
    }
}

/* ---- config.json -------------------------------------------------------- */

/* A small folder, with `old` in its config.json replaced. Returns whether it
 * opens. */
static bool open_changed(Model *m, int i, const char *old, const char *new) {
    if (make_folder(i))
        abort();
    replace_in_file(in_folder("config.json"), old, new);
    stderr_hide();
    bool opened = model_open(m, folder()) == 0;
    int lines = stderr_show();
    if (lines != !opened)
        test_fail(__FILE__, __LINE__, "%s: %d lines on stderr", new, lines);
    remove_folder();
    return opened;
}

/* Frequencies as transformers' modeling_rope_utils computes them in float32,
 * for head_dim 16 and max_position_embeddings 4096, and MiniMind's
 * precompute_freqs_cis. */
static void rope_matches_transformers(void) {
#define LONGROPE_SHORT                                                         \
    {                                                                          \
        1.0, 0.3011693, 0.09090909, 0.02635231, 0.007692308, 0.002108185,      \
            0.0005714286, 0.0001581139                                         \
    }
    static const struct {
        int model;
        const char *options;
        double amplitude, frequencies[8];
    } cases[] = {
        {0,
         "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}",
         1,
         {0.4, 0.1264911, 0.04, 0.01264911, 0.004, 0.001264911, 0.0004,
          0.0001264911}},
        {0,
         "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.5, \"rope_theta\": 10000}",
         1,
         {0.4, 0.1264911, 0.04, 0.01264911, 0.004, 0.001264911, 0.0004,
          0.0001264911}},
        {0,
         "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000.0, \"factor\": 8.0, "
         "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 256}",
         1,
         {1.0, 0.1939228, 0.01053823, 0.0009115831, 0.0001767767, 3.428102e-05,
          6.64787e-06, 1.289173e-06}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 16, \"original_max_position_embeddings\": 256}",
         1.2772588722239782,
         {1.0, 0.2421119, 0.053125, 0.009388013, 0.000625, 0.0001976424,
          6.25e-05, 1.976424e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, "
         "\"beta_fast\": 16, \"beta_slow\": 2, \"truncate\": false, \"attention_factor\": 1.25}",
         1.25,
         {1.0, 0.3162278, 0.1, 0.0187018, 0.0025, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0, \"mscale_all_dim\": 0.5}",
         1.1557219901962608,
         {1.0, 0.3162278, 0.1, 0.02391472, 0.005125, 0.0008498622, 2.5e-05,
          7.905694e-06}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4}",
         1,
         {1.0, 0.3162278, 0.1, 0.03162278, 0.01, 0.003162278, 0.001,
          0.0003162278}},
        /* a whole number as a float; zeros that mean absent; null is false */
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024.0}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"original_max_position_embeddings\": 256.0, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024}",
         1.138629436111989,
         {1.0, 0.2569351, 0.0625, 0.01383497, 0.0025, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, \"mscale\": 1.0, \"mscale_all_dim\": 0}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, \"mscale\": 0, \"mscale_all_dim\": 1.0}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, \"mscale\": 0.0, \"mscale_all_dim\": 0.0}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, \"beta_fast\": 0, \"beta_slow\": 0.0}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, \"mscale\": 0.7, \"mscale_all_dim\": 1.0}",
         0.9634746568860826,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 1024, \"truncate\": null}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08539864, 0.01912678, 0.003556971, 0.0007905695,
          0.00025, 7.905695e-05}},
        {0,
         "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, \"original_max_position_embeddings\": 1024.0}",
         1,
         {1.0, 0.3162278, 0.1, 0.03162278, 0.003086761, 0.0003952847, 0.000125,
          3.952847e-05}},
        /* the original context of the model counts before that of RoPE */
        {0,
         "\"original_max_position_embeddings\": 256, \"rope_scaling\": {\"type\": \"yarn\", "
         "\"factor\": 16, \"original_max_position_embeddings\": 1024}",
         1.2772588722239782,
         {1.0, 0.2421119, 0.053125, 0.009388013, 0.000625, 0.0001976424,
          6.25e-05, 1.976424e-05}},
        {0,
         "\"original_max_position_embeddings\": 1024, \"rope_parameters\": {\"rope_type\": \"yarn\", "
         "\"factor\": 4, \"original_max_position_embeddings\": 64}",
         1.138629436111989,
         {1.0, 0.3162278, 0.08125, 0.01976424, 0.004375, 0.0007905695, 0.00025,
          7.905695e-05}},
        {0,
         "\"original_max_position_embeddings\": 256, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
         "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}",
         1,
         {1.0, 0.3162278, 0.1, 0.006613107, 0.00125, 0.0003952847, 0.000125,
          3.952847e-05}},
        {0,
         "\"original_max_position_embeddings\": 256, \"rope_scaling\": {\"type\": \"longrope\", "
         "\"short_factor\": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0], "
         "\"long_factor\": [2.0, 2.1, 2.2, 2.4, 2.6, 3.0, 3.5, 4.0], \"original_max_position_embeddings\": 2048}",
         1.224744871391589, LONGROPE_SHORT},
        {0,
         "\"rope_scaling\": {\"type\": \"longrope\", "
         "\"short_factor\": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0], "
         "\"long_factor\": [2.0, 2.1, 2.2, 2.4, 2.6, 3.0, 3.5, 4.0], \"original_max_position_embeddings\": 2048}",
         1.044465935734187, LONGROPE_SHORT},
        {4,
         "\"inference_rope_scaling\": false",
         1,
         {1.0, 0.1778279, 0.03162278, 0.005623413, 0.001, 0.0001778279,
          3.162277e-05, 5.623413e-06}},
    };
    static const HashModel heads_of_16 = {64, 96, 2, 4, 2, 60, 4096, true, 7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool minimind = cases[i].model == 4;
        Relative r = {.architecture = minimind ? "qwen3" : "llama"};
        FolderForm form = {.model_type = minimind ? "minimind" : "llama",
                           .options = cases[i].options};
        Model m;
        Session s;
        gguf_make_relative(&file, &heads_of_16, &r);
        gguf_set_real(&file, gguf_key(&r, "rope.freq_base"),
                      minimind ? 1e6f : 1e4f);
        gguf_place(&file);
        CHECK(!gguf_write(&file, temporary("rope.gguf")) &&
                  !model_open(&m, temporary("rope.gguf")),
              "no model");
        gguf_free(&file);
        CHECK(!folder_write(&m, folder(), &form), "no folder");
        model_close(&m);
        CHECK(!model_open(&m, folder()) &&
                  !session_open(&s, &m, 1, 1, 0, KV_F32),
              "%s does not open", form.options);
        CHECK(fabs(m.config.rope.amplitude - cases[i].amplitude) < 1e-12,
              "%s: amplitude %.17g", form.options, m.config.rope.amplitude);
        for (int k = 0; k < 8; k++)
            CHECK(fabs(s.ropes[ROPE_GLOBAL].frequencies[k] /
                           cases[i].frequencies[k] -
                       1) < 1e-6,
                  "%s: frequency %d is %.9g", form.options, k,
                  s.ropes[ROPE_GLOBAL].frequencies[k]);
        session_close(&s);
        model_close(&m);
        remove_folder();
    }
}

static void options_are_applied_or_refused_by_name(void) {
    static const struct {
        int model;
        const char *old, *new, *message; /* NULL: it opens */
    } cases[] = {
        {0, "\"silu\"", "\"gelu\"", "hidden_act is 'gelu', expected silu"},
        {0, "\"silu\"", "\"swish\"", NULL},
        {0, "\"qwen2\"", "\"gpt2\"",
         "model_type is 'gpt2', expected one of the families"},
        {0, "\"model_type\"", "\"type\"", "model_type is missing"},
        {0, "\"qwen2\"", "\"gemma4_text\"",
         "model_type is gemma4_text and not supported: it has per-layer emb"},
        {0, "\"qwen2\"", "\"qwen3_next\"", "it has recurrent layers"},
        {0, "\"vocab_size\": 60", "\"vocab_size\": \"60\"",
         "vocab_size is '60', expected a whole number"},
        {0, "\"vocab_size\": 60", "\"vocab_size\": 60.0",
         "vocab_size is 60.0, expected a whole number from 1"},
        {0, "\"vocab_size\": 60", "\"vocab_size\": 61",
         "model.embed_tokens.weight is [1, 60, 64], expected [1, 61, 64]"},
        {0, "\"hidden_size\": 64", "\"hidden_size\": 0",
         "hidden_size is 0, expected a whole number from 1"},
        {0, "\"hidden_size\": 64", "\"hidden_size\": 2147483648",
         "hidden_size is 2147483648"},
        {0, "\"hidden_size\": 64,", "", "hidden_size is missing"},
        {0, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
         "model.layers.2.self_attn.q_proj.weight is missing"},
        {0, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
         "model.layers.1.input_layernorm.weight is not supported"},
        {0, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2147483647",
         "num_hidden_layers is 2147483647, expected at most 4"},
        {0, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3",
         "num_key_value_heads is 3, expected a divisor"},
        {0, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": null",
         "k_proj.weight is [1, 32, 64], expected [1, 64"},
        {0, "\"head_dim\": 16", "\"head_dim\": 15",
         "head_dim is 15, expected an even number"},
        {0, "\"head_dim\": 16", "\"head_dim\": 1",
         "head_dim is 1, expected an even number"},
        {0, "\"head_dim\": 16", "\"head_dim\": 536870912",
         "head_dim is 536870912, expected an even number up to 536870911"},
        {0, "\"head_dim\": 16", "\"head_dim\": 536870910",
         "q_proj.weight is [1, 64, 64], expected [1, 2147483640, 64]"},
        {0, "\"head_dim\": 16", "\"head_dim\": null", NULL}, /* 64 / 4 */
        {0, "\"rms_norm_eps\": 9.99999975e-06", "\"rms_norm_eps\": 0",
         "rms_norm_eps is 0, expected a positive number"},
        {0, "\"rms_norm_eps\": 9.99999975e-06", "\"rms_norm_eps\": 1e-60",
         "rms_norm_eps is 1e-60, expected a positive number in"},
        {0, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 0",
         "tie_word_embeddings is 0, expected true"},
        {0, "\"rope_theta\"", "\"partial_rotary_factor\": 0.5, \"rope_theta\"",
         "partial_rotary_factor is 0.5"},
        {0, "\"rope_theta\"",
         "\"quantization_config\": {\"quant_method\": \"awq\"}, \"rope_theta\"",
         "quantization_config is 'awq'"},
        {0, "\"rope_theta\"",
         "\"rope_scaling\": {\"type\": \"longrope\"}, \"rope_theta\"",
         "short_factor is missing, expected a list"},
        {0, "\"rope_theta\"",
         "\"rope_scaling\": {\"type\": \"linear\"}, \"rope_theta\"",
         "factor is missing"},
        {0, "\"rope_theta\"",
         "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 2, \"high_freq_factor\": 2}, "
         "\"rope_theta\"",
         "high_freq_factor is 2, expected more than low_freq_factor"},
        {0, "\"rope_theta\"",
         "\"rope_scaling\": {\"full_attention\": {}}, \"rope_theta\"",
         "full_attention is an obj"},
        {0, "\"rope_theta\"", "\"rope_scaling\": 4, \"rope_theta\"",
         "rope_scaling is 4, expected an object"},
        {0, "\"rope_theta\"", "\"anything_else\": {\"a\": [1]}, \"rope_theta\"",
         NULL},
        {0, "\"hidden_size\"", "\"vocab_size\": 60, \"hidden_size\"",
         "vocab_size is given twice, expected a whole number"},
        {0, "\"hidden_size\"", "hidden_size",
         "config.json: byte 54: expected a key in quotes"},
        {3, "\"qwen3\"", "\"llama\"",
         "self_attn.k_norm.weight is not supported"},
        {2, "\"qwen3\"", "\"qwen3\", \"attention_bias\": true",
         "q_proj.bias is missing"},
        {5, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 6",
         "num_experts_per_tok is 6, expected 1 to the"},
        {5, "\"num_experts\": 5", "\"num_experts\": 100000",
         "num_experts is 100000, expected a whole number from 0 to 1024"},
        {5, "\"num_experts\": 5", "\"num_local_experts\": 5", NULL},
        {5, "\"num_experts\": 5,", "", "num_local_experts is missing"},
        {5, "\"moe_intermediate_size\": 24", "\"moe_intermediate_size\": 25",
         "gate_proj.weight is [1, 24, 64], expected"},
        /* no dense layer uses it */
        {5, "\"intermediate_size\": 24", "\"intermediate_size\": 2147483647",
         NULL},
        {6, "\"moe_intermediate_size\": 16",
         "\"moe_intermediate_size\": 2147483647",
         "gate_up_proj is [6, 32, 64]"},
        {5, "\"mlp_only_layers\": []", "\"decoder_sparse_step\": 2", NULL},
        {8, "\"use_moe\"", "\"inference_rope_scaling\": true, \"use_moe\"",
         "inference_rope_scaling is true"},
        {8, "\"use_moe\": true", "\"use_moe\": false",
         "model.layers.0.mlp.gate_proj.weight is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases;
         i += test_fast() ? 4 : 1) {
        Model m;
        bool opened =
            open_changed(&m, cases[i].model, cases[i].old, cases[i].new);
        CHECK(opened == !cases[i].message, "%s: %s", cases[i].new,
              opened ? "opens" : stderr_text());
        if (opened) {
            CHECK(!run(&m, 2, logits), "%s does not run", cases[i].new);
            model_close(&m);
            continue;
        }
        CHECK(strstr(stderr_text(), cases[i].message), "%s: no '%s' in: %s",
              cases[i].new, cases[i].message, stderr_text());
    }
}

/* A small folder whose model.safetensors has one more tensor. Returns whether
 * it opens. */
static bool open_with_tensor(const char *dtype, const char *name,
                             const char *shape, size_t bytes_of) {
    size_t size;
    char entry[160];
    Model m;
    if (make_folder(0))
        abort();
    char *bytes = load(in_folder("model.safetensors"), &size);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    size_t end = sizeof header + header, data = size - end;
    int n = snprintf(
        entry, sizeof entry,
        ", \"%s\": {\"dtype\": \"%s\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}}",
        name, dtype, shape, data, data + bytes_of);
    size_t last = end;
    while (bytes[last - 1] != '}')
        last--;
    header = last - 1 - sizeof header + (size_t)n;
    FILE *out = fopen(in_folder("model.safetensors"), "wb");
    if (!out)
        abort();
    fwrite(&header, 1, sizeof header, out);
    fwrite(bytes + sizeof header, 1, last - 1 - sizeof header, out);
    fwrite(entry, 1, (size_t)n, out);
    fwrite(bytes + end, 1, data, out);
    fwrite((float[2]){1, 2}, 1, bytes_of, out);
    fclose(out);
    free(bytes);
    stderr_hide();
    bool opened = model_open(&m, folder()) == 0;
    if (stderr_show() != !opened)
        abort();
    if (opened)
        model_close(&m);
    remove_folder();
    return opened;
}

/* Older folders store RoPE's inv_freq, which is ignored: it follows from
 * config.json. */
static void stored_inv_freq_is_ignored(void) {
    static const struct {
        const char *name;
        bool opens;
    } cases[] = {{"model.layers.0.self_attn.rotary_emb.inv_freq", true},
                 {".rotary_emb.inv_freq", true},
                 {"a.rotary_emb.inv_freq", true},
                 {"rotary_emb.inv_freq", false},
                 {"a.rotary_emb.inv_fre", false},
                 {"a.inv_freq", false},
                 {"model.layers.0.self_attn.other", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool opens = open_with_tensor("F32", cases[i].name, "2", 8);
        CHECK(opens == cases[i].opens, "%s: opens %d, %s", cases[i].name, opens,
              stderr_text());
        CHECK(opens || strstr(stderr_text(), " is not supported"), "%s: %s",
              cases[i].name, stderr_text());
    }
}

/* A tensor of a type that weights do not have is not judged, unless a weight
 * has it. */
static void buffers_that_are_no_weights_are_ignored(void) {
    static const struct {
        const char *dtype, *shape;
        size_t bytes;
        bool opens;
    } cases[] = {{"I64", "1", 8, true},  {"I64", "", 8, true},
                 {"I32", "2", 8, true},  {"U8", "2, 4", 8, true},
                 {"BOOL", "8", 8, true}, {"F64", "1", 8, true},
                 {"F32", "2", 8, false}, {"BF16", "4", 8, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool opens =
            open_with_tensor(cases[i].dtype, "model.layers.0.position_ids",
                             cases[i].shape, cases[i].bytes);
        CHECK(opens == cases[i].opens, "%s: opens %d, %s", cases[i].dtype,
              opens, stderr_text());
        CHECK(opens || strstr(stderr_text(), "position_ids is not supported"),
              "%s: %s", cases[i].dtype, stderr_text());
    }
    static const char key[] = "\"model.norm.weight\": {\"dtype\": \"F";
    Model m;
    size_t size;
    CHECK(!make_folder(0), "no folder");
    char *bytes = load(in_folder("model.safetensors"), &size),
         *at = memmem(bytes, size, key, sizeof key - 1);
    CHECK(at, "no %s", key);
    at[sizeof key - 2] = 'I';
    save(in_folder("model.safetensors"), bytes, size);
    free(bytes);
    stderr_hide();
    int status = model_open(&m, folder()), lines = stderr_show();
    CHECK(status == -1 && lines == 1 &&
              strstr(stderr_text(),
                     "model.norm.weight has type I32, expected F32, F16"),
          "a weight of integers: %s", stderr_text());
    remove_folder();
}

/* Opens the folder and computes logits. */
static bool run_tied(bool expected_tied) {
    Model m;
    if (model_open(&m, folder()))
        return false;
    bool tied = m.tied;
    int status = run(&m, 3, logits);
    model_close(&m);
    return !status && tied == expected_tied;
}

/* A stored output counts although config.json ties it to the embedding, unless
 * it is a copy of the embedding. */
static void a_stored_output_that_differs_counts(void) {
    static const char untied[] = "\"tie_word_embeddings\": false",
                      tied[] = "\"tie_word_embeddings\": true";
    for (int copy = 0; copy < 2; copy++) {
        Model m;
        CHECK(!write_gguf(0, temporary("same.gguf")) &&
                  !model_open(&m, temporary("same.gguf")),
              "no model");
        Tensor output = m.output;
        m.output = copy ? m.embedding : output;
        int status = folder_write(&m, folder(), &MODELS[0].form);
        m.output = output;
        model_close(&m);
        CHECK(!status && run_tied(false), "an untied model does not run");
        memcpy(expected, logits, sizeof expected);
        replace_in_file(in_folder("config.json"), untied, tied);
        CHECK(run_tied(copy), "copy %d: another output", copy);
        CHECK(!memcmp(logits, expected,
                      3 * (size_t)MODELS[0].m->vocab_size * sizeof *logits),
              "copy %d: other logits", copy);
        remove_folder();
    }
}

/* A tensor of no bytes may claim any number of columns. */
static void columns_without_rows_take_no_memory(void) {
#ifndef SANITIZED
    struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
    int state = 0;
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_AS, &limit);
        _exit(!open_with_tensor("F32", "a.rotary_emb.inv_freq", "0, 2147483647",
                                0));
    }
    waitpid(pid, &state, 0);
    CHECK(state == 0, "does not open: %d", state);
#endif
}

/* The defaults of transformers' configurations. LLaMA 1's key is older than
 * they are. */
static void the_context_has_a_default(void) {
    static const char old[] = "\"max_position_embeddings\": 40,";
    static const struct {
        int model, context;
        const char *keys;
    } cases[] = {
        {LLAMA, 2048, ""},
        {LLAMA, 2048, "\"max_position_embeddings\": null,"},
        {LLAMA, 1024, "\"max_sequence_length\": 1024,"},
        {LLAMA, 512,
         "\"max_sequence_length\": 1024, \"max_position_embeddings\": 512,"},
        {MISTRAL, 131072, "\"sliding_window\": null,"},
        {0, 32768, ""},
        {2, 32768, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Model m;
        CHECK(open_changed(&m, cases[i].model, old, cases[i].keys), "%s: %s",
              cases[i].keys, stderr_text());
        CHECK(m.config.context == cases[i].context, "case %zu: context %d", i,
              m.config.context);
        model_close(&m);
    }
}

/* Two layers have the windows of transformers' configurations; the context is
 * unchanged. */
static void windows_of_each_layer(void) {
    enum { QWEN2 = 0, QWEN3 = 2, QWEN3_MOE = 5 };
#define USED "\"use_sliding_window\": true, "
    static const struct {
        int model;
        int windows[2];
        const char *options;
    } cases[] = {
        {MISTRAL, {4096, 4096}, ""},
        {MISTRAL, {0, 0}, "\"sliding_window\": null,"},
        {MISTRAL, {16, 16}, "\"sliding_window\": 16,"},
        {MISTRAL, {10001, 10001}, "\"sliding_window\": 10001,"},
        {MISTRAL, {0, 0}, USED "\"sliding_window\": null,"},
        {QWEN2, {0, 0}, ""},
        {QWEN2, {0, 0}, USED},
        {QWEN2, {0, 4096}, USED "\"max_window_layers\": 1,"},
        {QWEN2, {0, 0}, USED "\"max_window_layers\": 2,"},
        {QWEN2,
         {0, 0},
         USED "\"max_window_layers\": 0, \"sliding_window\": null,"},
        {QWEN2,
         {16, 16},
         USED "\"max_window_layers\": 0, \"sliding_window\": 16,"},
        {QWEN2,
         {0, 0},
         "\"use_sliding_window\": false, \"max_window_layers\": 0, \"sliding_window\": 16,"},
        {QWEN2, {0, 0}, "\"max_window_layers\": 0, \"sliding_window\": 16,"},
        {QWEN2,
         {0, 4096},
         USED "\"layer_types\": [\"full_attention\", \"sliding_attention\"],"},
        {QWEN2,
         {4096, 0},
         USED "\"layer_types\": [\"sliding_attention\", \"full_attention\"],"},
        {QWEN2,
         {0, 0},
         USED
         "\"max_window_layers\": 0, \"layer_types\": [\"full_attention\", \"full_attention\"],"},
        {QWEN3, {0, 4096}, USED "\"max_window_layers\": 1,"},
        {QWEN3, {0, 0}, USED},
        {QWEN3_MOE, {4096, 4096}, USED},
        {QWEN3_MOE, {4096, 4096}, USED "\"max_window_layers\": 48,"},
        {QWEN3_MOE, {0, 0}, ""},
        {QWEN3_MOE, {0, 0}, USED "\"sliding_window\": null,"},
        {LLAMA, {0, 0}, USED "\"sliding_window\": 16,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases;
         i += test_fast() ? 5 : 1) {
        Model m;
        char text[256];
        snprintf(text, sizeof text, "\"max_position_embeddings\": 10000, %s",
                 cases[i].options);
        CHECK(open_changed(&m, cases[i].model,
                           "\"max_position_embeddings\": 40,", text),
              "%s: %s", cases[i].options, stderr_text());
        CHECK(m.config.context == 10000, "case %zu, %s: context %d", i,
              cases[i].options, m.config.context);
        for (int l = 0; l < 2; l++)
            CHECK(m.layers[l].window == cases[i].windows[l],
                  "case %zu, %s: window %d in layer %d", i, cases[i].options,
                  m.layers[l].window, l);
        model_close(&m);
    }
}

/* Without layer_types, layers from 28 on have a window in Qwen 2. */
static void windows_of_qwen2_begin_at_layer_28(void) {
    HashModel form = {8, 8, 29, 2, 1, 8, 10000, true, 6};
    FolderForm with = {.model_type = "qwen2",
                       .options = "\"use_sliding_window\": true"};
    Relative r = {.architecture = "qwen2", .biases = true};
    Model m;
    gguf_make_relative(&file, &form, &r);
    CHECK(!gguf_write(&file, temporary("many.gguf")) &&
              !model_open(&m, temporary("many.gguf")),
          "no model");
    gguf_free(&file);
    CHECK(!folder_write(&m, folder(), &with), "no folder");
    model_close(&m);
    CHECK(!model_open(&m, folder()), "does not open");
    for (int l = 0; l < 29; l++)
        CHECK(m.layers[l].window == (l < 28 ? 0 : 4096), "layer %d: window %d",
              l, m.layers[l].window);
    model_close(&m);
    remove_folder();
}

/* Options of other families than LLaMA. A folder with LLaMA's tensor names
 * opens as granite or smollm3; other options are refused before the tensors are
 * searched. */
static void options_of_families(void) {
#define SLIDING "\"layer_types\": [\"full_attention\", \"sliding_attention\"]"
#define LONGROPE(rest)                                                         \
    "phi3\", \"rope_scaling\": {\"type\": \"longrope\"" rest "}, \"x\": \""
    static const struct {
        const char *type_and_options, *message; /* NULL: it opens */
    } cases[] = {
        {"granite\", \"logits_scaling\": 8, \"embedding_multiplier\": 1.0, \"x\": \"",
         NULL},
        {"granite\", \"logits_scaling\": 0, \"x\": \"",
         "logits_scaling is 0, expected a positive number"},
        {"granite\", \"residual_multiplier\": -1, \"x\": \"",
         "residual_multiplier is -1, expected a positive number"},
        {"granite\", \"logits_scaling\": 1e-42, \"x\": \"",
         "logits_scaling is 1e-42, expected a positive number in"},
        {"granite\", \"embedding_multiplier\": 1e39, \"x\": \"",
         "embedding_multiplier is 1e39, expected a positive"},
        {"granite\", \"attention_bias\": true, \"x\": \"",
         "q_proj.bias is missing"},
        {"smollm3", NULL},
        {"smollm3\", \"no_rope_layers\": [1, 0], \"use_sliding_window\": true, \"sliding_window\": 3, \"x\": \"",
         NULL},
        {"smollm3\", \"no_rope_layers\": [1], \"x\": \"",
         "no_rope_layers is a list, expected a list of at least nu"},
        {"smollm3\", \"no_rope_layers\": [1, 0.5], \"x\": \"",
         "no_rope_layers is a list, expected whole numbers"},
        {"smollm3\", \"no_rope_layer_interval\": 0, \"x\": \"",
         "no_rope_layer_interval is 0, expected a whole number"},
        {"smollm3\", \"sliding_window\": 3, " SLIDING ", \"x\": \"",
         "sliding_window is 3, expected a window in use"},
        {"smollm3\", \"use_sliding_window\": true, " SLIDING ", \"x\": \"",
         "sliding_window is missing"},
        {"smollm3\", \"layer_types\": [\"full_attention\", \"chunked_attention\"], \"x\": \"",
         "layer_types is a list, expected full_attention and sliding_attention"},
        {"gemma2\", \"use_bidirectional_attention\": true, \"x\": \"",
         "use_bidirectional_attention is true"},
        {"gemma2\", \"attn_logit_softcapping\": 0, \"x\": \"",
         "attn_logit_softcapping is 0, expected a positive"},
        {"gemma2\", \"final_logit_softcapping\": \"30\", \"x\": \"",
         "final_logit_softcapping is '30', expected a positi"},
        {"gemma2\", \"query_pre_attn_scalar\": -256, \"x\": \"",
         "query_pre_attn_scalar is -256, expected a positive"},
        {"gemma2\", \"hidden_activation\": \"gelu\", \"x\": \"",
         "hidden_activation is 'gelu', expected gelu_pytorch_tanh"},
        {"gemma2\", \"sliding_window\": null, \"x\": \"",
         "sliding_window is null, expected a window in use, for"},
        {"gemma3_text\", \"attn_logit_softcapping\": 50.0, \"x\": \"",
         "attn_logit_softcapping is 50.0, expected null"},
        {"gemma3_text\", \"sliding_window_pattern\": 0, \"x\": \"",
         "sliding_window_pattern is 0, expected a whole numb"},
        {"gemma3_text\", \"rope_parameters\": {\"rope_type\": \"linear\"}, \"x\": \"",
         "rope_parameters is an object, expected only full_attention"},
        {"gemma3_text\", \"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"yarn\"}}, \"x\": \"",
         "rope_type is 'yarn', expected default, in sliding_attention"},
        {"gemma3_text\", \"rope_scaling\": {\"a\": 1}, \"rope_parameters\": {\"full_attention\": {}}, \"x\": \"",
         "rope_scaling is an object, expected null, because full_attention is given"},
        {"olmo\", \"clip_qkv\": 8.0, \"x\": \"",
         "clip_qkv is 8.0, expected null"},
        {"olmo", "input_layernorm.weight is not supported"},
        {"olmo3",
         "rope_theta is 10000, expected rope_theta in sliding_attention, too"},
        {"stablelm\", \"use_parallel_residual\": true, \"x\": \"",
         "use_parallel_residual is true"},
        {"stablelm\", \"qk_layernorm\": true, \"x\": \"",
         "qk_layernorm is true"},
        {"qwen2_moe\", \"mlp_only_layers\": [1], \"x\": \"",
         "mlp_only_layers is a list, expected an empty list"},
        {"qwen2_moe\", \"decoder_sparse_step\": 2, \"x\": \"",
         "decoder_sparse_step is 2, expected true or 1"},
        {"qwen2_moe\", \"decoder_sparse_step\": 1.5, \"x\": \"",
         "decoder_sparse_step is 1.5, expected"},
        {"qwen2_moe\", \"qkv_bias\": false, \"x\": \"",
         "qkv_bias is false, expected true"},
        {"qwen2_moe\", \"qkv_bias\": true, \"decoder_sparse_step\": 1, "
         "\"mlp_only_layers\": [], \"x\": \"",
         "num_local_experts is missing"},
        {"cohere2\", \"attention_bias\": true, \"x\": \"",
         "attention_bias is true, expected null"},
        {"cohere2\", \"attention_bias\": false, \"x\": \"",
         "logit_scale is missing"},
        {"olmo\", \"clip_qkv\": 0, \"x\": \"", "clip_qkv is 0, expected null"},
        {"stablelm\", \"partial_rotary_factor\": 0, \"x\": \"",
         "partial_rotary_factor is 0, expected a positive number"},
        {"stablelm\", \"partial_rotary_factor\": 0.1, \"x\": \"",
         "partial_rotary_factor is 0.1, expected a share"},
        {"stablelm", "input_layernorm.bias is missing"},
        {"phi3", "model.layers.0.self_attn.qkv_proj.weight is missing"},
        {"phi3\", \"rope_scaling\": {\"type\": \"linear\"}, \"x\": \"",
         ": type is 'linear', expected default or longrope"},
        {LONGROPE(""),
         "short_factor is missing, expected a list with a positive number for each rotating pair"},
        {LONGROPE(", \"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1, 1]"),
         "short_factor is a list, expected a list with"},
        {LONGROPE(", \"short_factor\": [1, 1, 1, 1, 1, 1, 1, 0]"),
         "short_factor is a list, expected a list with a positive number"},
        {"mixtral", "block_sparse_moe.gate.weight is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases;
         i += test_fast() ? 4 : 1) {
        Model m;
        bool opened =
            open_changed(&m, LLAMA, "llama", cases[i].type_and_options);
        CHECK(opened == !cases[i].message, "%s: %s", cases[i].type_and_options,
              opened ? "opens" : stderr_text());
        if (opened) {
            CHECK(!run(&m, 2, logits), "%s does not run",
                  cases[i].type_and_options);
            model_close(&m);
            continue;
        }
        CHECK(strstr(stderr_text(), cases[i].message), "%s: no '%s' in: %s",
              cases[i].type_and_options, cases[i].message, stderr_text());
    }
}

/* ---- safetensors -------------------------------------------------------- */

/* Puts another header before the data; returns whether the folder opens. */
static bool open_with_header(const char *header, size_t n_data) {
    uint64_t size = strlen(header);
    FILE *out = fopen(in_folder("model.safetensors"), "wb");
    Model m;
    if (!out || fwrite(&size, 8, 1, out) != 1 || fputs(header, out) < 0)
        abort();
    for (size_t i = 0; i < n_data; i++)
        fputc(0, out);
    if (fclose(out))
        abort();
    stderr_hide();
    bool opened = model_open(&m, folder()) == 0;
    stderr_show();
    if (opened)
        model_close(&m);
    return opened;
}

static void headers_are_checked(void) {
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"[]", "the header is a list, expected an object"},
        {"{", "model.safetensors: byte 2"},
        {"{\"a\": 1}", "a: shape is missing"},
        {"{\"a\": {\"dtype\": \"I64\"}}", "a: shape is missing"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": 4}}",
         "a: shape is 4, expected a list"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1, 1, 1, 1, 1, 1]}}",
         "a: shape is a list, expected a list of at most 5"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-1]}}",
         "a: shape has -1 in it"},
        /* a size of 0 hides no other one */
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [0, -1]}}",
         "a: shape has -1 in it"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-2, 0]}}",
         "a: shape has -2 in it"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [0, 2147483648]}}",
         "a: shape has 2147483648 in it"},
        {"{\"a\": {\"dtype\": \"I8\", \"shape\": [4294967297, 0]}}",
         "a: shape has 4294967297 in it"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [0, 2147483647]}}",
         "a: data_offsets is missing"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2147483647, 2147483647, 2147483647]}}",
         "a: shape has 2147483647 in it"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4]}}",
         "a: data_offsets is missing"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16, 16]}}",
         "a: data_offsets is a list"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [16, 0]}}",
         "a: data_offsets is a list"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [-16, 0]}}",
         "a: data_offsets is a list"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 15]}}",
         "a has 15 bytes, its shape needs"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 15]}}",
         "a has 15 bytes, its shape needs"},
        {"{\"a\": {\"dtype\": \"F16\", \"shape\": [8], \"data_offsets\": [0, 17]}}",
         "a has 17 bytes, its shape needs 16"},
        {"{\"a\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [0, 16]}}",
         "a has 16 bytes, its shape needs"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 15]}}",
         "a has 15 bytes, its shape needs"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 32]}}",
         "a ends after the end of the file (truncated?)"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [13, 17]}}",
         "a ends after the end of the file (truncated?)"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 17]}}",
         "a has 17 bytes, its shape needs 16"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [1, 17]}}",
         "a ends after the end of the file (truncated?)"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 13]}}",
         "a has 13 bytes, its shape needs 12"},
        {"{\"a\": {\"dtype\": \"F16\", \"shape\": [7], \"data_offsets\": [0, 15]}}",
         "a has 15 bytes, its shape needs 14"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 18446744073709551615]}}",
         "is a list"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [4, 16]}}",
         "has 16 bytes of data, its tensors have 12"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 12]}}",
         "has 16 bytes of data, its tensors have 12"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 12]}, "
         "\"b\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [8, 16]}}",
         "b begins at byte 8 of the data, inside another one"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]}, \"a\": {}}",
         "a: shape is missing"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]}}",
         "expected at most 0 (number of tensors: 1)"},
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1, 1, 1, 2, 2], \"data_offsets\": [0, 16]}}",
         "expected at most 0 (number of tensors: 1)"},
        {"{\"a\": {\"dtype\": \"I8\", \"shape\": [1, 2, 2, 4], \"data_offsets\": [0, 16]}}",
         "expected at most 0 (number of tensors: 1)"},
        /* empty tensors come first */
        {"{\"a\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}, "
         "\"b\": {\"dtype\": \"F32\", \"shape\": [4], \"data_offsets\": [0, 16]}}",
         "expected at most 0 (number of tensors: 2)"},
        {"{}", "has 16 bytes of data, its tensors have 0"},
    };
    CHECK(!make_folder(0), "no folder");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!open_with_header(cases[i].header, 16), "%s opens",
              cases[i].header);
        CHECK(strstr(stderr_text(), cases[i].message), "%s: no '%s' in: %s",
              cases[i].header, cases[i].message, stderr_text());
    }
    CHECK(
        !open_with_header("{}", 0) &&
            strstr(stderr_text(), "expected at most 0 (number of tensors: 0)"),
        "%s", stderr_text());
    static const uint64_t sizes[] = {9, UINT64_MAX, UINT64_MAX - 7};
    for (int i = 0; i < 3; i++) {
        Model m;
        uint8_t bytes[16] = {0};
        memcpy(bytes, &sizes[i], 8);
        save(in_folder("model.safetensors"), bytes, sizeof bytes);
        stderr_hide();
        int status = model_open(&m, folder());
        CHECK(stderr_show() == 1 && status, "a header of %llu bytes: %s",
              (unsigned long long)sizes[i], stderr_text());
    }
    for (int n = 1; n < 8; n++) { /* not even the header's size */
        Model m;
        char message[64];
        sprintf(message, "has %d bytes, its header needs", n);
        save(in_folder("model.safetensors"), (uint8_t[8]){0}, (size_t)n);
        stderr_hide();
        int status = model_open(&m, folder());
        CHECK(stderr_show() == 1 && status && strstr(stderr_text(), message),
              "a file of %d bytes: %s", n, stderr_text());
    }
    remove_folder();
}

/* Replaces a string in the index of a sharded folder; returns whether it
 * opens. */
static bool open_with_index(const char *old, const char *new) {
    Model m;
    if (make_folder(1))
        abort();
    replace_in_file(in_folder("model.safetensors.index.json"), old, new);
    stderr_hide();
    bool opened = model_open(&m, folder()) == 0;
    stderr_show();
    if (opened)
        model_close(&m);
    remove_folder();
    return opened;
}

static void an_index_names_files_of_its_folder(void) {
    static const char first[] = "\"model-00001-of-00003.safetensors\"";
    static const struct {
        const char *old, *new, *message;
    } cases[] = {
        {first, "\"../same.gguf\"",
         "is in '../same.gguf', expected a file name in the same folder"},
        {first, "\"/etc/passwd\"",
         "is in '/etc/passwd', expected a file name in the same folder"},
        {first, "\"..\"", "/..: is a directory"},
        {first, "\"\"", "/: is a directory"},
        {first, "\"model-00001-of-00003.safetensors\\u0000\"",
         "expected a file name in the same folder"},
        {first, "7", "is in '7', expected a file name in the same folder"},
        {first, "\"model-00004-of-00003.safetensors\"", "No such file"},
        {"\"weight_map\"", "\"map\"",
         "weight_map is missing, expected an object"},
        {"\"metadata\": {", "\"metadata\": [", "index.json: byte "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!open_with_index(cases[i].old, cases[i].new), "%s opens",
              cases[i].new);
        CHECK(strstr(stderr_text(), cases[i].message), "%s: no '%s' in: %s",
              cases[i].new, cases[i].message, stderr_text());
    }
    CHECK(open_with_index("\"total_size\": 1", "\"total_size\": 2"), "%s",
          stderr_text());
    /* which tensor is in which file is read from the files */
    CHECK(open_with_index("\"model.norm.weight\"", "\"model.morn.weight\""),
          "%s", stderr_text());
    CHECK(open_with_index(first, "\"model-00002-of-00003.safetensors\""), "%s",
          stderr_text());
}

/* Of a tensor in two files, the index decides which one counts; without its
 * word the message names both. A new first file has the norm of the last one,
 * with other values. */
#define NEW_FILE "\"model-00000-of-00003.safetensors\""
static void the_index_decides_where_a_tensor_is(void) {
    static const struct {
        const char *index; /* before the file that has the norm */
        float gamma;       /* 0: refused */
    } cases[] = {{"\"model.norm.weight\": " NEW_FILE ", \"another\": ", 7},
                 {"\"other\": " NEW_FILE ", \"model.norm.weight\": ", -1},
                 {"\"other\": " NEW_FILE ", \"another\": ", 0}};
    static const char header[] =
        "{\"model.norm.weight\": {\"dtype\": \"F64\", \"shape\": [48], "
        "\"data_offsets\": [0, 384]}}      ";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Model m;
        char bytes[1024];
        uint64_t n = strlen(header);
        CHECK(!make_folder(1), "no folder");
        memcpy(bytes, &n, 8);
        strcpy(bytes + 8, header);
        for (int k = 0; k < 48; k++)
            memcpy(bytes + 8 + n + 8 * k, &(double){7}, 8);
        save(in_folder("model-00000-of-00003.safetensors"), bytes, 392 + n);
        replace_in_file(in_folder("model.safetensors.index.json"),
                        "\"model.norm.weight\": ", cases[i].index);
        stderr_hide();
        int status = model_open(&m, folder());
        stderr_show();
        CHECK(status == (cases[i].gamma != 0 ? 0 : -1), "case %zu: %s", i,
              stderr_text());
        if (status)
            CHECK(strstr(stderr_text(), "model-00000-of-00003") &&
                      strstr(stderr_text(), " is also in "),
                  "%s", stderr_text());
        else {
            CHECK((m.final_norm.gamma[47] == 7) == (cases[i].gamma == 7),
                  "case %zu: gamma is %g", i, (double)m.final_norm.gamma[47]);
            model_close(&m);
        }
        remove_folder();
    }
}

/* The gamma of an RMSNorm that a folder does not store is 1, with a note: the
 * logits are those of a folder that stores ones. */
static void a_norm_without_weights_is_one(void) {
    static const float ones[64] = {[0 ... 63] = 1};
    static float found[2][2048];
    Model m;
    for (int i = 0; i < 2; i++) {
        CHECK(!hashmodel_write(&GQA_TIED, temporary("folded.bin"), 0, 0) &&
                  !model_open(&m, temporary("folded.bin")),
              "no model");
        for (int l = 0; l < m.config.n_layers; l++)
            m.layers[l].mlp_norm.gamma = i ? ones : NULL;
        int status = folder_write(
            &m, folder(), &(FolderForm){.model_type = "llama", .n_files = 1});
        model_close(&m);
        stderr_hide();
        status |= model_open(&m, folder());
        int lines = stderr_show();
        CHECK(!status && lines == !i, "%d: %s", i, stderr_text());
        CHECK(i || strstr(stderr_text(), "2 norms have no weights, the first "
                                         "is model.layers.0.post_attention_"),
              "%s", stderr_text());
        CHECK(!run(&m, 2, found[i]), "does not run");
        model_close(&m);
        remove_folder();
    }
    CHECK(!memcmp(found[0], found[1], sizeof *found), "other logits");
}

/* transformers_weights names the file of the weights, or an index. */
static void the_config_names_the_weights(void) {
    static const struct {
        const char *name, *message;
    } cases[] = {{"others.safetensors", NULL},
                 {"../others.safetensors", "expected a file name"},
                 {"", "expected a file name"},
                 {"nothing.safetensors", "nothing.safetensors: No such"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Model m;
        char option[128], path[4096];
        CHECK(!make_folder(0), "no folder");
        snprintf(option, sizeof option,
                 "\"transformers_weights\": \"%s\", \"hidden_size\"",
                 cases[i].name);
        replace_in_file(in_folder("config.json"), "\"hidden_size\"", option);
        snprintf(path, sizeof path, "%s", in_folder("others.safetensors"));
        CHECK(!rename(in_folder("model.safetensors"), path), "no file");
        save(in_folder("model.safetensors"), "{}", 2); /* does not count */
        stderr_hide();
        int status = model_open(&m, folder());
        stderr_show();
        CHECK(!status == !cases[i].message, "%s: %s", cases[i].name,
              stderr_text());
        CHECK(!status || strstr(stderr_text(), cases[i].message), "%s",
              stderr_text());
        if (!status)
            model_close(&m);
        unlink(in_folder("others.safetensors"));
        remove_folder();
    }
}

/* A file of 8 bytes, the length of an empty header. */
static void the_smallest_header(void) {
    static const uint8_t bytes[8];
    Model m;
    CHECK(!make_folder(0), "no folder");
    save(in_folder("model.safetensors"), bytes, sizeof bytes);
    stderr_hide();
    int status = model_open(&m, folder());
    CHECK(stderr_show() == 1 && status == -1, "opens: %s", stderr_text());
    CHECK(!strstr(stderr_text(), "expected the length of a header"), "%s",
          stderr_text());
    remove_folder();
}

/* A FIFO or device is refused without waiting for it. */
static void only_regular_files_are_opened(void) {
    static const char *const names[] = {"config.json", "model.safetensors",
                                        "model.safetensors.index.json",
                                        "model-00002-of-00003.safetensors"};
    for (int i = 0; i < 8; i++) {
        Model m;
        CHECK(!make_folder(i / 2 < 2 ? 0 : 1), "no folder");
        unlink(in_folder(names[i / 2]));
        CHECK(!(i % 2 ? symlink("/dev/zero", in_folder(names[i / 2]))
                      : mkfifo(in_folder(names[i / 2]), 0600)),
              "cannot make it");
        stderr_hide();
        int status = model_open(&m, folder());
        CHECK(stderr_show() == 1 && status == -1, "opens with %s",
              names[i / 2]);
        CHECK(strstr(stderr_text(), names[i / 2]) &&
                  strstr(stderr_text(), ": is not a regular file\n"),
              "%s", stderr_text());
        remove_folder();
    }
}

static void check_missing(const char *removed, const char *added,
                          const char *message) {
    Model m;
    CHECK(!make_folder(1) && !unlink(in_folder(removed)), "no folder");
    if (added)
        save(in_folder(added), "PK", 2);
    stderr_hide();
    int status = model_open(&m, folder());
    CHECK(stderr_show() == 1 && status == -1, "opens without %s", removed);
    CHECK(strstr(stderr_text(), message), "no '%s' in: %s", message,
          stderr_text());
    remove_folder();
}

static void missing_tensors_and_files_are_named(void) {
    static const char index[] = "model.safetensors.index.json";
    check_missing("config.json", NULL, "config.json: No such file");
    check_missing("model-00002-of-00003.safetensors", NULL,
                  "model-00002-of-00003.safetensors: No such file");
    check_missing(index, NULL, "model.safetensors.index.json is missing");
    check_missing(index, "adapter_config.json", "is an adapter, not a model");
}

/* ---- damaged folders ---------------------------------------------------- */

static uint64_t state;

static int any(int n) {
    return (int)(hash64(67, 7, state++) % (uint64_t)n);
}

typedef struct {
    uint8_t bytes[1 << 17];
    size_t size;
} Image;

static bool is_number_byte(uint8_t c) {
    return (c >= '0' && c <= '9') || c == '-';
}

/* Puts text in place of n bytes. */
static void replace(Image *image, size_t at, size_t n, const char *text) {
    size_t length = strlen(text);
    if (image->size - n + length > sizeof image->bytes)
        return;
    memmove(image->bytes + at + length, image->bytes + at + n,
            image->size - at - n);
    memcpy(image->bytes + at, text, length);
    image->size += length - n;
}

/* Replaces a number of the text. */
static void damage_number(Image *image, size_t first, size_t end) {
    static const char *const evil[] = {"0",
                                       "-1",
                                       "1",
                                       "2147483647",
                                       "2147483648",
                                       "4294967296",
                                       "18446744073709551616",
                                       "1e9",
                                       "0.5",
                                       "null",
                                       "\"1\"",
                                       "[]",
                                       "1e400",
                                       "9223372036854775807"};
    size_t at = first + (size_t)any((int)(end - first));
    for (size_t i = 0; i < end - first && !is_number_byte(image->bytes[at]);
         i++)
        at = at + 1 < end ? at + 1 : first;
    size_t n = 0;
    while (at + n < end && is_number_byte(image->bytes[at + n]))
        n++;
    if (n == 0)
        return;
    char near[32];
    const unsigned long long old =
        strtoull((const char *)image->bytes + at, NULL, 10);
    snprintf(near, sizeof near, "%llu", old + 1 - 2 * (unsigned)any(2));
    replace(image, at, n, any(3) ? near : evil[any(14)]);
}

/* Bytes first to end, excluded, are JSON. */
static void damage_text(Image *image, size_t first, size_t end) {
    size_t at = first + (size_t)any((int)(end - first)), left = end - at;
    size_t n = (size_t)any(left < 40 ? (int)left : 40);
    switch (any(6)) {
    case 0:
    case 1:
    case 2: damage_number(image, first, end); break;
    case 3: replace(image, at, n, ""); break;
    case 4: image->bytes[at] ^= (uint8_t)(1 << any(8)); break;
    default: {
        static const char *const pieces[] = {"{",    "}",    "[",          "]",
                                             ",",    ":",    "\"",         "\\",
                                             "\xff", "null", "\"a\": {}, "};
        replace(image, at, 0, pieces[any(11)]);
    }
    }
}

/* Damages one or two of: the header's text (mostly with its length adapted),
 * the length, the end, weights. */
static void damage_safetensors(Image *image) {
    uint64_t size;
    memcpy(&size, image->bytes, 8);
    size_t before = image->size, data = 8 + (size_t)size;
    switch (any(7)) {
    case 0:
    case 1:
    case 2:
        damage_text(image, 8, data);
        size += image->size - before;
        if (any(8))
            memcpy(image->bytes, &size, 8);
        break;
    case 3: image->bytes[any(8)] ^= (uint8_t)(1 << any(8)); break;
    case 4: image->size = any(3) ? (size_t)any((int)before) : before + 1; break;
    default:
        for (int i = 0; i < 20; i++) {
            static const float values[] = {NAN,   INFINITY, -INFINITY,
                                           3e38f, -3e38f,   1e-45f};
            memcpy(image->bytes + data + any((int)(before - data) - 4),
                   &values[any(6)], 4);
        }
    }
    if (image->size == 0)
        image->size = 1;
}

typedef struct {
    int refused, ran, not_a_number;
} Counts;

/* Opens the folder and, if it opens, runs it. */
static void try_folder(Counts *counts) {
    Model m;
    stderr_hide();
    bool opened = model_open(&m, folder()) == 0;
    bool finite = true, runs = true;
    if (opened) {
        Session s;
        int tokens[6];
        for (int i = 0; i < 6; i++)
            tokens[i] = any(m.config.vocab_size);
        runs = !session_open(&s, &m, 2, 4, tokens[0] % 2 ? 0 : 8, KV_F32);
        int n = !runs ? 0 : s.context < 6 ? s.context : 6;
        const float *l = runs ? model_forward_text(&s, tokens, n, 0, 1) : NULL;
        runs = l != NULL;
        finite = !l || !check_logits(l, (size_t)m.config.vocab_size);
        if (s.model)
            session_close(&s);
        model_close(&m);
    }
    int lines = stderr_show();
    bool noted = strstr(stderr_text(), " norms have no weights") != NULL;
    counts->refused += !opened;
    counts->ran += opened;
    counts->not_a_number += !finite;
    CHECK(runs, "opens, and does not run: %s", stderr_text());
    CHECK(lines == (!opened || !finite) + noted,
          "%s, with %d lines on stderr: %s", opened ? "opened" : "refused",
          lines, stderr_text());
}

static void damaged_folders(void) {
    static const HashModel tiny = {16, 24, 2, 2, 1, 40, 40, false, 11};
    static const Relative sparse = {.architecture = "qwen3moe",
                                    .n_experts = 3,
                                    .n_experts_used = 2,
                                    .expert_dim = 8};
    static const Relative dense = {.architecture = "qwen3", .head_size = 12};
    static const struct {
        const Relative *r;
        FolderForm form;
        const char *files[4];
    } folders[] = {
        {&dense,
         {.model_type = "qwen3",
          .options = "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}"},
         {"config.json", "model.safetensors"}},
        {&sparse,
         {.model_type = "qwen3_moe",
          .type = TYPE_BF16,
          .n_files = 2,
          .misaligned = 1},
         {"config.json", "model.safetensors.index.json",
          "model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors"}},
        {&sparse,
         {.model_type = "minimind", .type = TYPE_F16, .fused = true},
         {"config.json", "model.safetensors"}},
    };
    static Image image, good;
    Counts counts = {0};
    int n = test_fast() ? 30 : 340;
    for (int k = 0; k < 3; k++) {
        Model m;
        gguf_make_relative(&file, &tiny, folders[k].r);
        gguf_place(&file);
        CHECK(!gguf_write(&file, temporary("tiny.gguf")) &&
                  !model_open(&m, temporary("tiny.gguf")),
              "no model");
        gguf_free(&file);
        CHECK(!folder_write(&m, folder(), &folders[k].form), "no folder");
        model_close(&m);
        Counts undamaged = {0};
        try_folder(&undamaged);
        CHECK(undamaged.ran == 1 && !undamaged.not_a_number,
              "folder %d is not good to begin with", k);
        for (int i = 0; i < n; i++) {
            state = (uint64_t)k << 40 | (uint64_t)i << 16;
            int n_files = folders[k].files[2] ? 4 : 2;
            const char *name = folders[k].files[any(n_files)];
            FILE *in = fopen(in_folder(name), "rb");
            good.size = in ? fread(good.bytes, 1, sizeof good.bytes, in) : 0;
            CHECK(in && !fclose(in) && good.size > 0 &&
                      good.size < sizeof good.bytes - 1000,
                  "%zu bytes", good.size);
            image = good;
            for (int d = any(2); d >= 0; d--)
                if (strstr(name, ".json"))
                    damage_text(&image, 0, image.size);
                else if (d == 0)
                    damage_safetensors(&image);
            save(in_folder(name), image.bytes, image.size);
            try_folder(&counts);
            save(in_folder(name), good.bytes, good.size);
        }
        remove_folder();
    }
    printf(
        "folders: %d refused, %d ran, %d of them with a logit that is not finite\n",
        counts.refused, counts.ran, counts.not_a_number);
    int min = (counts.refused + counts.ran) / 10;
    CHECK(counts.refused >= min && counts.ran >= min,
          "too few refused or too few run");
}

void suite_folder(void) {
    TEST(folders_against_float64);
    TEST(folders_and_gguf_files_are_bit_identical);
    TEST(rope_matches_transformers);
    TEST(options_are_applied_or_refused_by_name);
    TEST(stored_inv_freq_is_ignored);
    TEST(buffers_that_are_no_weights_are_ignored);
    TEST(a_stored_output_that_differs_counts);
    TEST(columns_without_rows_take_no_memory);
    TEST(the_context_has_a_default);
    TEST(windows_of_each_layer);
    TEST(windows_of_qwen2_begin_at_layer_28);
    TEST(options_of_families);
    TEST(headers_are_checked);
    TEST(an_index_names_files_of_its_folder);
    TEST(the_index_decides_where_a_tensor_is);
    TEST(a_norm_without_weights_is_one);
    TEST(the_config_names_the_weights);
    TEST(the_smallest_header);
    TEST(only_regular_files_are_opened);
    TEST(missing_tensors_and_files_are_named);
    TEST(damaged_folders);
}
