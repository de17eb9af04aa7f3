/* test_bpe.c: byte-pair encoding by ranked merges, and the files it comes from.
 *
 * Owns the comparison with Hugging Face's tokenizers library, on vocabularies
 * that scripts/golden_bpe.py trained and on a real one; what is refused in a
 * tokenizer.json and in the files beside it.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the library's tokens ---------------------------------------------------------------- */

enum { N_LLAMA3 = 903, N_QWEN2 = 911, N_LLAMA2 = 924, N_MINIMIND = 6400 };

static void trained_tokenizers_have_the_library_s_tokens(void) {
    static const struct {
        const char *name, *path;
        int n;
        TextCheck sort;
    } files[] = {{"llama3", "tests/golden/bpe_llama3.json", N_LLAMA3, VALID_TEXT},
                 {"qwen2", "tests/golden/bpe_qwen2.json", N_QWEN2, VALID_TEXT_CHANGES},
                 {"llama2", "tests/golden/bpe_llama2.json", N_LLAMA2, VALID_TEXT_CHANGES}};
    for (int i = 0; i < 3; i++) {
        Tokenizer t;
        CHECK(!tokenizer_open_json(&t, files[i].path, files[i].n), "%s does not open", files[i].path);
        check_golden_tokens(&t, files[i].name, files[i].sort);
        tokenizer_close(&t);
    }
}

/* The same pieces under other pre-tokenizers. */
static void all_pretokenizers_cut_like_the_library(void) {
    static const struct {
        const char *name;
        Pretokenizer cut;
        bool space;
    } cases[] = {{"gpt2", {.steps = {PATTERN_GPT2}, .n_steps = 1}, false},
                 {"smollm", {.steps = {PATTERN_DIGIT, PATTERN_GPT2}, .n_steps = 2}, false},
                 {"numbers", {.steps = {PATTERN_DIGITS, PATTERN_GPT2}, .n_steps = 2}, false},
                 {"space", {.steps = {PATTERN_GPT2}, .n_steps = 1}, true}};
    for (int i = 0; i < 4; i++) {
        Tokenizer t;
        CHECK(!tokenizer_open_json(&t, "tests/golden/bpe_qwen2.json", N_QWEN2), "does not open");
        t.composes = false;
        t.pretokenizer = cases[i].cut;
        t.no_space_prefix = !cases[i].space;
        check_golden_tokens(&t, cases[i].name, VALID_TEXT_CHANGES);
        tokenizer_close(&t);
    }
}

static void a_space_only_in_front_of_a_whole_text(void) {
    Tokenizer t;
    CHECK(!tokenizer_open_json(&t, "tests/golden/bpe_llama2.json", N_LLAMA2), "does not open");
    t.space_if_none = t.space_once = true;
    check_golden_tokens(&t, "llama2_first", VALID_TEXT_CHANGES);
    tokenizer_close(&t);
}

static void minimind_has_the_library_s_tokens(void) {
    const char *path = real_checkpoint("minimind/tokenizer.json");
    Tokenizer t;
    if (!path) {
        test_skip("NORMA_CHECKPOINTS names no folder with minimind/tokenizer.json");
        return;
    }
    CHECK(!tokenizer_open_json(&t, path, N_MINIMIND), "does not open");
    CHECK(t.no_bos && t.bos == 1 && t.eos == 2, "BOS %d, EOS %d", t.bos, t.eos);
    check_golden_tokens(&t, "minimind", VALID_TEXT);
    tokenizer_close(&t);
}

void suite_bpe(void) {
    TEST(trained_tokenizers_have_the_library_s_tokens);
    TEST(all_pretokenizers_cut_like_the_library);
    TEST(a_space_only_in_front_of_a_whole_text);
    TEST(minimind_has_the_library_s_tokens);
}
