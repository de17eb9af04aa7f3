/* test_pieces.c: the tokens that the sentencepiece library gives.
 *
 * Owns the tokenizers of that sort; the texts and the comparison are texts.c's.
 */
#include "formats/gguf.h"
#include "formats/llama2c.h"
#include "formats/open.h"
#include "model.h"
#include "tokenizer.h"

#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void stories_has_the_library_s_tokens(void) {
    Model model;
    Tokenizer t;
    CHECK(!model_open(&model, "models/stories.gguf"), "does not open");
    CHECK(gguf_read_tokenizer(&t, model.files, "models/stories.gguf", model.config.vocab_size, true) == 1,
          "no tokenizer");
    CHECK(t.normalizer.replaces_invalid, "not as the library");
    check_golden_tokens(&t, "stories", ALL_BYTES);
    tokenizer_close(&t);
    model_close(&model);
}

static void llama_2_has_the_library_s_tokens(void) {
    const char *path = real_checkpoint("llama32k.bin");
    Tokenizer t;
    if (!path) {
        test_skip("NORMA_CHECKPOINTS names no folder with llama32k.bin");
        return;
    }
    CHECK(!tokenizer_open_bin(&t, path, 32000), "does not open");
    t.normalizer.replaces_invalid = true; /* as in a SentencePiece model, whatever file it came from */
    check_golden_tokens(&t, "llama32k", ALL_BYTES);
    t.normalizer.replaces_invalid = false; /* llama2.c's rule: every byte comes back */
    check_all_bytes_return(&t);
    tokenizer_close(&t);
}

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4 };

static void user_defined_pieces_match_as_in_the_library(void) {
    static const GgufPiece pieces[] = {{"<|im_start|>", USER_DEFINED},
                                       {"<|im_end|>", USER_DEFINED},
                                       {"Ab", USER_DEFINED},
                                       {"Abc", USER_DEFINED},
                                       {"Abcab", USER_DEFINED},
                                       {" Us", USER_DEFINED},
                                       {"  ", USER_DEFINED},
                                       {"C d", USER_DEFINED},
                                       {"\n", USER_DEFINED},
                                       {"\n\n", USER_DEFINED},
                                       {"\xc3\xa9", USER_DEFINED},
                                       {"h\xc3\xa9", USER_DEFINED},
                                       {"</s>x", USER_DEFINED},
                                       {" \xe3\x80\x80", USER_DEFINED},
                                       {"x y  z", USER_DEFINED},
                                       {"Abq", NORMAL},
                                       {"qAb", NORMAL},
                                       {"\xc3\xa9"
                                        "a",
                                        NORMAL},
                                       {"<|control|>", CONTROL}};
    static const HashModel speaking = {16, 16, 1, 2, 1, 1600, 16, false, 9};
    static GgufFile file;
    Model model;
    Tokenizer t;
    gguf_make(&file, &speaking, 0);
    gguf_add_tokenizer(&file, speaking.vocab_size, pieces, (int)(sizeof pieces / sizeof *pieces));
    CHECK(!gguf_reopen(&file, &model, &t), "does not open");
    check_golden_tokens(&t, "user", ALL_BYTES);
    tokenizer_close(&t);
    model_close(&model);
}

void suite_pieces(void) {
    TEST(stories_has_the_library_s_tokens);
    TEST(llama_2_has_the_library_s_tokens);
    TEST(user_defined_pieces_match_as_in_the_library);
}
