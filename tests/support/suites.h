/* suites.h: the list of all suites, the longest first. Suite X is in test_X.c,
 * whose head says what it tests; the line `Tests:` in a source's head names the
 * suites that test it. */
#pragma once

/* clang-format off */
#define SUITE_LIST(SUITE) \
    SUITE(lab) SUITE(texts) SUITE(text) SUITE(chat) SUITE(memory) SUITE(sequences) \
    SUITE(convert) SUITE(cli) SUITE(bpe) SUITE(families) SUITE(facts) SUITE(gguf) SUITE(tokenizer) \
    SUITE(quant) SUITE(folder) SUITE(profile) SUITE(mutants) SUITE(invariance) SUITE(growth) \
    SUITE(damage) SUITE(batching) SUITE(matmul) SUITE(pieces) SUITE(jinja) SUITE(template) \
    SUITE(guess) SUITE(json) SUITE(base) SUITE(team) SUITE(simd) SUITE(norm) \
    SUITE(half) SUITE(backward) SUITE(attention) SUITE(plain) SUITE(golden) \
    SUITE(bits) SUITE(sampler) SUITE(stream) SUITE(checkpoint) SUITE(pack) SUITE(norms) \
    SUITE(tune) SUITE(saved) SUITE(editor) SUITE(stories) SUITE(textbook) SUITE(ranks)
/* clang-format on */

/* NULL if the suite's file is not linked. */
#define SUITE_FUNCTION(name) void suite_##name(void) __attribute__((weak));
SUITE_LIST(SUITE_FUNCTION)
#undef SUITE_FUNCTION
