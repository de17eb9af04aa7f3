/* test_bits.c: the bits of logits, pinned.
 *
 * Compares the logits of small random models with the hashes in
 * tests/golden/bits.txt: every weight type, llama2.c's models and the other
 * architectures; a prompt, then single tokens. A change of the order of sums
 * changes the bits and fails here; the commit must mention it. test_golden.c
 * tests the accuracy of logits.
 */
#include "base/process.h"
#include "formats/open.h"
#include "kernels/lanes.h"
#include "kernels/tensor.h"
#include "model.h"
#include "session.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 13, TOKENS = PROMPT + 4 };

/* Bits depend on FMA, but not on the width of vectors, on compilers and their
 * flags. */
#if defined(__FMA__) || defined(__ARM_NEON) || defined(__wasm_relaxed_simd__)
static const char *const KIND = "fma";
#else
static const char *const KIND = "no_fma";
#endif

/* All numbers of columns are multiples of 256, as the K types require. */
static const HashModel BLOCKS = {256, 512, 1, 4, 2, 64, 64, false, 5};

/* ---- hashes ------------------------------------------------------------- */

/* FNV-1a (Fowler, Noll, Vo), 64 bits, continued with n bytes. */
static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3;
    return hash;
}

/* The hash of the logits of every token: PROMPT tokens at once, then one by
 * one. 0: the model does not run. */
static uint64_t hash_logits(const HashModel *m, const char *path) {
    Model model;
    Session s;
    int tokens[TOKENS];
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = hash_token(m, i);
    if (model_open(&model, path))
        return 0;
    if (!session_open(&s, &model, 2, PROMPT, 0, model.kv_type)) {
        for (int t = 0, n; hash && t < TOKENS; t += n) {
            n = t ? 1 : PROMPT;
            size_t n_logits = (size_t)n * (size_t)m->vocab_size;
            const float *logits = model_forward_text(&s, tokens + t, n, t, n);
            hash = logits && !check_logits(logits, n_logits)
                       ? fnv1a(hash, logits, n_logits * sizeof *logits)
                       : 0;
        }
        session_close(&s);
    }
    model_close(&model);
    return hash;
}

/* The hash of a model in bits.txt, whose lines are "kind name hash"; 0: not
 * listed. */
static uint64_t pinned(const char *name) {
    char kind[16], model[32];
    uint64_t hash = 0, value;
    FILE *in = fopen("tests/golden/bits.txt", "r");
    while (in && fscanf(in, "%15s %31s %" SCNx64, kind, model, &value) == 3)
        if (!strcmp(kind, KIND) && !strcmp(model, name))
            hash = value;
    if (in)
        fclose(in);
    return hash;
}

/* Compares, or with NORMA_PRINT_BITS prints the line of bits.txt. */
static void check_bits(const char *model, Type type, uint64_t hash) {
    char name[32];
    snprintf(name, sizeof name, "%s-%s", model, type_name(type));
    if (getenv("NORMA_PRINT_BITS"))
        printf("%s %s %016" PRIx64 "\n", KIND, name, hash);
    else
        CHECK(hash && hash == pinned(name),
              "%s %s: the bits are %016" PRIx64 ", pinned are %016" PRIx64,
              KIND, name, hash, pinned(name));
}

/* ---- the models --------------------------------------------------------- */

static void check_gguf(const char *name, const HashModel *m, const Relative *r,
                       Type type) {
    static GgufFile file;
    const char *path = temporary("bits.gguf");
    gguf_make_relative(&file, m, r);
    gguf_convert(&file, type);
    int failed = gguf_write(&file, path);
    check_bits(name, type, failed ? 0 : hash_logits(m, path));
    gguf_free(&file);
}

/* group 0: float32 */
static void check_llama2c(const char *name, const HashModel *m, int group) {
    const char *path = temporary("bits.bin");
    check_bits(name, group ? TYPE_I8 : TYPE_F32,
               hashmodel_write(m, path, group ? 2 : 0, group)
                   ? 0
                   : hash_logits(m, path));
}

static void logits_have_the_pinned_bits(void) {
    Type type;
    Relative llama = {.architecture = "llama"};
    check_llama2c("gqa_tied", &GQA_TIED, 0);
    check_llama2c("gqa_tied", &GQA_TIED, 4);
    check_llama2c("mha_untied", &MHA_UNTIED, 0);
    check_llama2c("mha_untied", &MHA_UNTIED, 2);
    check_llama2c("odd_mqa", &ODD_MQA, 0);
    check_gguf("odd_mqa", &ODD_MQA, &llama, TYPE_F16);
    check_gguf("odd_mqa", &ODD_MQA, &llama, TYPE_BF16);
    check_llama2c("wide", &WIDE, 0);
    check_llama2c("wide", &WIDE, 32);
    for (uint32_t number = 0; number < 64; number++)
        if (!type_from_gguf(number, &type))
            check_gguf("blocks", &BLOCKS, &llama, type);
    for (int i = 0; i < N_GOLDEN_RELATIVES; i++) {
        const GoldenRelative *g = &GOLDEN_RELATIVES[i];
        check_gguf(g->name, &g->model, &g->relative, TYPE_F32);
        if (!strcmp(g->name, "qwen2"))
            check_gguf(g->name, &g->model, &g->relative, TYPE_F16);
        if (!strcmp(g->name, "qwen3moe"))
            check_gguf(g->name, &g->model, &g->relative, TYPE_Q8_0);
    }
}

void suite_bits(void) {
    TEST(logits_have_the_pinned_bits);
}
