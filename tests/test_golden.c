/* test_golden.c: whole models against float64.
 *
 * Compares with tests/golden (see README.md there): four small models of
 * llama2.c's architecture and five of others, 40 tokens each, with logits from
 * a float64 forward pass and the float32 error of stock Hugging Face on the
 * same weights.
 */
#include "formats/open.h"
#include "kv_cache.h"
#include "model.h"
#include "session.h"

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

enum { TOKENS = 40, MAX_VOCAB = 131 };

typedef struct {
    const char *name;
    const HashModel *model;
    int group;         /* of version 2; 0: no version 2 */
    double int8_error; /* max error relative to the largest logit, version 2 */
} Golden;

/* Version 2 quantizes activations to int8, the reference does not: an error of
 * up to 0.5 / 127 of a group's largest value in every product. Measured:
 * 1.00e-2, 7.18e-3 and 4.84e-3 of the largest logit, on every machine, also for
 * llama2.c's runq. */
static const Golden goldens[] = {{"gqa_tied", &GQA_TIED, 4, 1.2e-2},
                                 {"mha_untied", &MHA_UNTIED, 2, 8.6e-3},
                                 {"odd_mqa", &ODD_MQA, 0, 0},
                                 {"wide", &WIDE, 32, 5.8e-3}};
enum { N_GOLDENS = 4 };

/* ---- expected logits ---------------------------------------------------- */

static float expected[TOKENS * MAX_VOCAB], logits[TOKENS * MAX_VOCAB];

static int read_expected(const char *name, const char *suffix, int vocab_size) {
    char path[64];
    size_t n = (size_t)(TOKENS * vocab_size);
    snprintf(path, sizeof path, "tests/golden/%s%s.f32", name, suffix);
    FILE *in = fopen(path, "rb");
    if (!in)
        return -1;
    bool right_size =
        fread(expected, sizeof *expected, n, in) == n && fgetc(in) == EOF;
    fclose(in);
    return right_size ? 0 : -1;
}

/* The error of stock Hugging Face in logits; -1: not listed. */
static double stock_error(const char *name) {
    char found[32];
    double error = -1, value;
    FILE *in = fopen("tests/golden/stock.txt", "r");
    while (in && fscanf(in, "%31s %lf", found, &value) == 2)
        if (!strcmp(found, name))
            error = value;
    if (in)
        fclose(in);
    return error;
}

/* ---- computed logits ----------------------------------------------------- */

/* The logits of all tokens, in one chunk or one token after the other. */
static int run_model(const HashModel *m, const char *path, bool decode) {
    Model model;
    Session s;
    int tokens[TOKENS], status = -1;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = hash_token(m, i);
    if (model_open(&model, path))
        return -1;
    int step = decode ? 1 : TOKENS;
    size_t row = (size_t)m->vocab_size;
    if (!session_open(&s, &model, 2, TOKENS, 0, KV_F32)) {
        int t = 0;
        for (; t < TOKENS; t += step) {
            const float *l = model_forward_text(&s, tokens + t, step, t, step);
            if (!l)
                break;
            memcpy(logits + (size_t)t * row, l, (size_t)step * row * sizeof *l);
        }
        status = t == TOKENS ? 0 : -1;
        session_close(&s);
    }
    model_close(&model);
    return status;
}

static double largest_logit(int n) {
    double largest = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    return largest;
}

static double largest_error(int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) {
        double error = fabs((double)logits[i] - (double)expected[i]);
        if (!(error <= worst))
            worst = error; /* also for NaN */
    }
    return worst;
}

/* ---- the tests ---------------------------------------------------------- */

/* Computes the error of a model's logits and the largest logit. */
static int measure(const char *name, const HashModel *m, const char *path,
                   bool decode, double *error, double *largest) {
    int n = TOKENS * m->vocab_size;
    if (read_expected(name, "", m->vocab_size) || run_model(m, path, decode))
        return -1;
    *error = largest_error(n);
    *largest = largest_logit(n);
    return 0;
}

/* The error must not exceed stock's, which was computed with float64 logits;
 * the logits in the files are rounded by up to 2^-24 of the largest. Measured:
 * 0.57, 0.75, 0.73 and 0.25 of stock's error with AVX-512; 0.68, 0.95, 0.88 and
 * 0.38 with four lanes and no fma. */
static void check_float(const Golden *g, bool decode) {
    const char *path = temporary("golden.bin");
    double error = 0, largest = 0;
    CHECK(!hashmodel_write(g->model, path, 0, 0) &&
              !measure(g->name, g->model, path, decode, &error, &largest),
          "cannot run %s", g->name);
    double stock = stock_error(g->name);
    CHECK(error <= (test_plain() ? 1e-6 : 2e-5) * largest,
          "%s: error %.3g, largest logit %.3g", g->name, error, largest);
    CHECK(error <= stock + 0x1p-24 * largest, "%s: error %.3g, stock has %.3g",
          g->name, error, stock);
}

static void float_models_are_no_worse_than_stock(void) {
    for (int i = 0; i < N_GOLDENS; i++) {
        check_float(&goldens[i], false);
        check_float(&goldens[i], true);
    }
}

/* Measured: 2.0e-7 to 5.8e-7 of the largest logit with AVX-512, AVX2, and four
 * lanes without fma; stock: 4.3e-7 to 7.9e-7. */
static void check_relative(const GoldenRelative *g, bool decode) {
    static GgufFile file;
    const char *path = temporary("golden.gguf");
    double error = 0, largest = 0;
    gguf_make_relative(&file, &g->model, &g->relative);
    CHECK(!gguf_write(&file, path) &&
              !measure(g->name, &g->model, path, decode, &error, &largest),
          "cannot run %s", g->name);
    gguf_free(&file);
    CHECK(error <= 1e-6 * largest, "%s: error %.3g, largest logit %.3g",
          g->name, error, largest);
}

static void other_architectures(void) {
    for (int i = 0; i < N_GOLDEN_RELATIVES; i++) {
        check_relative(&GOLDEN_RELATIVES[i], false);
        if (!test_fast())
            check_relative(&GOLDEN_RELATIVES[i], true);
    }
}

/* The same weights in another order in the file: the same bits. */
static void version_1_has_the_bits_of_version_0(void) {
    static float v0[TOKENS * MAX_VOCAB];
    for (int i = 0; i < N_GOLDENS; i++) {
        const HashModel *m = goldens[i].model;
        for (int version = 0; version < 2; version++) {
            const char *path = temporary("golden.bin");
            CHECK(!hashmodel_write(m, path, version, 0) &&
                      !run_model(m, path, false),
                  "cannot run %s version %d", goldens[i].name, version);
            if (version == 0)
                memcpy(v0, logits, sizeof v0);
        }
        CHECK(
            !memcmp(v0, logits, (size_t)(TOKENS * m->vocab_size) * sizeof *v0),
            "%s: the bits differ", goldens[i].name);
    }
}

static void check_int8(const Golden *g, bool decode) {
    const char *path = temporary("golden.bin");
    int n = TOKENS * g->model->vocab_size;
    CHECK(!read_expected(g->name, "_v2", g->model->vocab_size),
          "cannot read tests/golden/%s_v2.f32", g->name);
    CHECK(!hashmodel_write(g->model, path, 2, g->group) &&
              !run_model(g->model, path, decode),
          "cannot run %s", g->name);
    double error = largest_error(n) / largest_logit(n);
    CHECK(error <= g->int8_error,
          "%s: error %.3g of the largest logit, expected at most %.3g", g->name,
          error, g->int8_error);
}

static void int8_models_are_close(void) {
    for (int i = 0; i < N_GOLDENS; i++) {
        if (!goldens[i].group)
            continue;
        check_int8(&goldens[i], false);
        check_int8(&goldens[i], true);
    }
}

/* Values of scripts/golden/random_model.py: both sides make the same model. */
static void hash_matches_the_reference(void) {
    const struct {
        uint64_t seed, tensor, i, expected;
    } cases[] = {{1, 0, 0, 0xe220a8397b1dcdaf},
                 {1, 0, 1, 0x910a2dec89025cc1},
                 {4, 23, 1000003, 0xf932a248927743ac}};
    for (int i = 0; i < 3; i++) {
        uint64_t found = hash64(cases[i].seed, cases[i].tensor, cases[i].i);
        CHECK(found == cases[i].expected, "case %d: %llx", i,
              (unsigned long long)found);
    }
    int tokens[] = {40, 97, 74, 70};
    for (int i = 0; i < 4; i++)
        CHECK(hash_token(&MHA_UNTIED, i) == tokens[i], "token %d: %d", i,
              hash_token(&MHA_UNTIED, i));
}

void suite_golden(void) {
    TEST(hash_matches_the_reference);
    TEST(float_models_are_no_worse_than_stock);
    TEST(other_architectures);
    TEST(version_1_has_the_bits_of_version_0);
    TEST(int8_models_are_close);
}
