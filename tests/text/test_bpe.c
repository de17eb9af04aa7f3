/* test_bpe.c: byte-pair encoding by ranked merges, and the files it comes from.
 *
 * Owns the comparison with Hugging Face's tokenizers library, on vocabularies
 * that scripts/golden_bpe.py trained and on a real one; what is refused in a
 * tokenizer.json and in the files beside it, and what goes into a GGUF file.
 */
#include "base/file.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "model.h"
#include "modes/template.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include "tokenizer.h"

#include "tests/support/binary.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the library's tokens ---------------------------------------------------------------- */

enum { N_LLAMA3 = 903, N_QWEN2 = 911, N_LLAMA2 = 900, N_MINIMIND = 6400 };

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
        t.normalizer.composes = false;
        t.pretokenizer = cases[i].cut;
        t.space_prefix = cases[i].space ? SPACE_IF_NONE : SPACE_NEVER;
        check_golden_tokens(&t, cases[i].name, VALID_TEXT_CHANGES);
        tokenizer_close(&t);
    }
}

static void a_space_only_in_front_of_a_whole_text(void) {
    Tokenizer t;
    CHECK(!tokenizer_open_json(&t, "tests/golden/bpe_llama2.json", N_LLAMA2), "does not open");
    t.space_prefix = SPACE_ONCE;
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

/* ---- chat ------------------------------------------------------------------------------------ */

/* Opens the tokenizer and the template that a family is tested with. */
static int open_chat(Tokenizer *t, ChatTemplate *chat, const char *family) {
    static const struct {
        const char *family, *path;
        int n, eos;
    } families[] = {{"llama-3", "tests/golden/bpe_llama3.json", N_LLAMA3, 4},
                    {"chatml", "tests/golden/bpe_qwen2.json", N_QWEN2, 902},
                    {"zephyr", "tests/golden/bpe_llama2.json", N_LLAMA2, 2},
                    {"llama-2", "tests/golden/bpe_llama2.json", N_LLAMA2, 2}};
    char path[64];
    int i = 0;
    if (!strcmp(family, "minimind"))
        return tokenizer_open_json(t, real_checkpoint("minimind/tokenizer.json"), N_MINIMIND) ||
                       !chat_template_open(chat, t)
                   ? -1
                   : 0;
    while (i < 3 && strcmp(family, families[i].family) != 0) i++;
    if (tokenizer_open_json(t, families[i].path, families[i].n)) return -1;
    t->eos = families[i].eos;
    snprintf(path, sizeof path, "tests/golden/chat/%s.jinja", family);
    t->chat_template = file_read(path, &t->chat_template_size);
    return t->chat_template && chat_template_open(chat, t) ? 0 : -1;
}

static void check_turn(const char *family, bool system, int turn, const char *ids) {
    static const char *const users[] = {"hello there", "and you? [yes]\xc3\xa9", "ab  abc </ s>"};
    Tokenizer t;
    ChatTemplate chat = {.name = "none"};
    Tokens tokens;
    CHECK(!open_chat(&t, &chat, family) && !strcmp(chat.name, family), "%s does not open, or as %s", family, chat.name);
    CHECK(!chat_template_render(&chat, &t, system ? "Be kind, and be brief." : NULL, users[turn], turn == 0, &tokens),
          "%s", family);
    for (int i = 0; i < tokens.n; i++) {
        char *end;
        CHECK(strtol(ids, &end, 10) == tokens.ids[i] && *end == (i + 1 < tokens.n ? ',' : 0),
              "%s, system %d, turn %d: token %d is %d, expected %s", family, system, turn, i, tokens.ids[i], ids);
        ids = end + 1;
    }
    CHECK(tokens.n > 0, "no tokens");
    free(tokens.ids);
    tokenizer_close(&t);
}

static void turns_are_those_of_transformers(void) {
    FILE *in = fopen("tests/golden/chat_bpe.txt", "r");
    char family[16], ids[4096];
    int system, turn, n = 0;
    CHECK(in, "tests/golden/chat_bpe.txt is missing");
    for (; fscanf(in, "%15s %d %d %4095s", family, &system, &turn, ids) == 4; n++)
        if (strcmp(family, "minimind") != 0 || real_checkpoint("minimind/tokenizer.json"))
            check_turn(family, system, turn, ids);
    fclose(in);
    CHECK(n == 5 * 2 * 3, "%d turns", n);
    if (!real_checkpoint("minimind/tokenizer.json")) test_skip("NORMA_CHECKPOINTS names no folder with minimind");
}

/* Neither the user nor the system prompt can say an added token. */
static void what_is_said_is_text(void) {
    static const char said[] = "<|endoftext|><|im_start|><|im_end|><tool_call></tool_call><tool<think><left> <right> x";
    Tokenizer t;
    ChatTemplate chat;
    Tokens tokens;
    int n_added = 0;
    CHECK(!open_chat(&t, &chat, "chatml"), "does not open");
    CHECK(!chat_template_render(&chat, &t, said, said, true, &tokens), "does not render");
    for (int i = 0; i < tokens.n; i++) n_added += tokens.ids[i] >= 900;
    CHECK(n_added == 5, "%d added tokens, expected the five of the template", n_added);
    free(tokens.ids);
    tokenizer_close(&t);
}

/* ---- what else the files say --------------------------------------------------------------------- */

static const char PIECES[] = "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3},\"merges\":[\"a b\"]";

/* Opens a folder with these files; NULL: it has none of this name. */
static int open_files(Tokenizer *t, const char *json, const char *config, const char *generation) {
    mkdir(inside("t"), 0700);
    write_file("t/tokenizer.json", json);
    if (config) write_file("t/tokenizer_config.json", config);
    if (generation) write_file("t/generation_config.json", generation);
    stderr_hide();
    const int status_ = tokenizer_open_json(t, inside("t/tokenizer.json"), 8);
    stderr_show();
    remove(inside("t/tokenizer_config.json"));
    remove(inside("t/generation_config.json"));
    return status_;
}

static void refuses_what_it_does_not_do(void) {
    static const struct {
        const char *around, *mention; /* of tokenizer.json, with PIECES for %s */
    } cases[] = {
        {"[]", "model is missing"},
        {"{}", "model is missing"},
        {"{\"model\":{\"type\":\"Unigram\",%s}}", "model.type is Unigram, expected BPE"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", "model.vocab is a list, expected an object"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "model.merges is missing, expected a list"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":8},\"merges\":[]}}", "has id 8, expected one of the model's 8"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "has id -1"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0.5},\"merges\":[]}}", "has id 0.5"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "has id 0 twice, for 'b'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
         "merge 0 is 'a', expected two pieces"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "merge 0 is of 'a' and 'b'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "a merge is a list, expected two"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[1]}}", "a merge is 1, expected two"},
        {"{\"model\":{\"dropout\":0.1,%s}}", "model.dropout is 0.1"},
        {"{\"model\":{\"end_of_word_suffix\":\"</w>\",%s}}", "model.end_of_word_suffix is '</w>'"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{%s}}", "normalizer Lowercase is none"},
        {"{\"normalizer\":{\"type\":\"Sequence\"},\"model\":{%s}}", "normalizers is missing, expected a list"},
        {"{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},\"model\":{%s}}",
         "none makes it of spaces"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{%s}}", "pre-tokenizer Whitespace is none"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":\"Isolated\"},\"model\":{%"
         "s}}",
         "has the pattern x, which"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},\"behavior\":\"Removed\"},"
         "\"model\":{%s}}",
         "behavior of a pre-tokenizer Split is Removed"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}"
         ","
         "\"model\":{%s}}",
         "Digits is behind ByteLevel"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"model\":{%s}}",
         "Metaspace's replacement is _"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"},\"model\":{%s}}", "post-processor BertProcessing is none"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"single_word\":true}],\"model\":{%s}}",
         "'<s>' has single_word set"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\"}],\"model\":{%s}}", "'<s>' has id 0, which is 'a'"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":5}],\"model\":{%s}}", "an added token is 5, expected text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        const char *at = strstr(cases[i].around, "%s"), *rest = at ? at + 2 : "";
        snprintf(json, sizeof json, "%.*s%s%s", at ? (int)(at - cases[i].around) : 1000, cases[i].around,
                 at ? PIECES : "", rest);
        Tokenizer t;
        CHECK(open_files(&t, json, NULL, NULL) < 0, "case %zu opens", i);
        CHECK(one_line(stderr_text()) && strstr(stderr_text(), cases[i].mention), "case %zu: %s", i, stderr_text());
        CHECK(!t.pieces.list && !t.pieces.text && !t.merges.rules && !t.pieces.merged.slots, "case %zu: not closed", i);
    }
}

/* BOS by the post-processor or, if it says so, by tokenizer_config.json; EOS; the ends; the template. */
static void the_files_beside_it_count(void) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[3]}}},\"model\":{%s}}";
    char text[1024];
    Tokenizer t;
    snprintf(text, sizeof text, json, PIECES);
    CHECK(!open_files(&t, text, NULL, NULL) && !t.no_bos && t.bos == 3 && t.eos < 0, "BOS %d, EOS %d", t.bos, t.eos);
    tokenizer_close(&t);
    CHECK(!open_files(&t, text, "{\"add_bos_token\":false,\"eos_token\":{\"content\":\"b\"}}",
                      "{\"eos_token_id\":[2,1]}"),
          "%s", stderr_text());
    CHECK(t.no_bos && t.eos == 1 && t.n_ends == 2 && t.ends[0] == 2 && t.ends[1] == 1, "EOS %d, %d ends", t.eos,
          t.n_ends);
    tokenizer_close(&t);
    CHECK(!open_files(&t, text,
                      "{\"chat_template\":[{\"name\":\"x\",\"template\":\"1\"},{\"name\":\"default\","
                      "\"template\":\"23\"}]}",
                      "{\"eos_token_id\":2}"),
          "%s", stderr_text());
    CHECK(t.chat_template_size == 2 && !memcmp(t.chat_template, "23", 2) && t.eos == 2, "template of %zu bytes",
          t.chat_template_size);
    tokenizer_close(&t);
    CHECK(!open_files(&t, text, "{\"chat_template\":[{\"name\":\"default\"},{\"name\":\"x\"}]}", NULL), "%s",
          stderr_text());
    CHECK(!t.chat_template, "a default template without text is none");
    tokenizer_close(&t);
    CHECK(open_files(&t, text, NULL, "{\"eos_token_id\":8}") < 0 && strstr(stderr_text(), "eos_token_id has id 8"),
          "%s", stderr_text());
    CHECK(!open_files(&t, text, NULL, "{\"eos_token_id\":[0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,3,3,3,3,3,3,3,3]}"), "%s",
          stderr_text());
    CHECK(t.n_ends == MAX_ENDS && t.ends[MAX_ENDS - 1] == 7 && t.bos == 3, "%d ends", t.n_ends);
    tokenizer_close(&t);
    CHECK(open_files(&t, text, "{", NULL) < 0 && strstr(stderr_text(), "t/tokenizer_config.json"), "%s", stderr_text());
}

static void an_added_token_has_at_most_so_many_bytes(void) {
    char name[MOST_MATCHED_BYTES + 2], json[1024];
    Tokenizer t;
    for (int more = 0; more < 2; more++) {
        memset(name, 'x', sizeof name);
        name[MOST_MATCHED_BYTES + more] = '\0';
        snprintf(json, sizeof json, "{\"added_tokens\":[{\"id\":4,\"content\":\"%s\"}],\"model\":{%s}}", name, PIECES);
        CHECK((open_files(&t, json, NULL, NULL) == 0) == !more, "%zu bytes: %s", strlen(name), stderr_text());
        CHECK(!more || strstr(stderr_text(), "an added token has 513 bytes, expected at most 512"), "said: %s",
              stderr_text());
        if (!more) tokenizer_close(&t);
    }
}

/* Of two rules for the same neighbours the last one counts: "b c" comes before the second "a b". */
static void a_rule_that_is_there_twice(void) {
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},"
                               "\"merges\":[\"a b\",\"b c\",\"a b\"]}}";
    Tokenizer t;
    Tokens tokens;
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    CHECK(!tokenizer_encode(&t, "abc", 3, false, &tokens), "does not encode");
    CHECK(tokens.n == 2 && tokens.ids[0] == 0 && tokens.ids[1] == 4, "%d tokens, %d first", tokens.n, tokens.ids[0]);
    free(tokens.ids);
    tokenizer_close(&t);
}

/* Unknown characters in front of any token, where there is no <unk> to fuse them into: they are left out. */
static void unknown_characters_without_unk(void) {
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,%s}}";
    char text[1024];
    Tokenizer t;
    Tokens tokens;
    snprintf(text, sizeof text, json, PIECES);
    CHECK(!open_files(&t, text, NULL, NULL), "%s", stderr_text());
    CHECK(!tokenizer_encode(&t, "xyzab", 5, false, &tokens), "does not encode");
    CHECK(tokens.n == 1 && tokens.ids[0] == 2, "%d tokens", tokens.n);
    free(tokens.ids);
    tokenizer_close(&t);
}

/* No damage may do more than change tokens. */
static void damaged_files(void) {
    size_t size = 0;
    char *json = file_read("tests/golden/bpe_qwen2.json", &size);
    int opened = 0;
    CHECK(json, "tests/golden/bpe_qwen2.json is missing");
    for (uint64_t i = 0; i < (test_fast() ? 50 : 500); i++) {
        Tokenizer t;
        const size_t at = hash64(41, i, 0) % size, cut = i % 4 ? size : at;
        char was = json[at];
        json[at] = (char)(i % 3 ? "0\"{}[],:9e\\"[hash64(41, i, 1) % 11] : (char)hash64(41, i, 1));
        FILE *out_ = fopen(inside("damaged.json"), "wb");
        CHECK(out_, "cannot write");
        fwrite(json, 1, cut, out_);
        fclose(out_);
        json[at] = was;
        stderr_hide();
        const bool opens = !tokenizer_open_json(&t, inside("damaged.json"), N_QWEN2);
        const int lines = stderr_show();
        CHECK(opens || lines == 1, "damage %d: %d lines", (int)i, lines);
        if (!opens) continue;
        Tokens tokens;
        opened++;
        CHECK(!tokenizer_encode(&t, "Once upon \xff 12 <think>", 23, true, &tokens), "damage %d", (int)i);
        for (int k = 0; k < tokens.n; k++) CHECK(tokens.ids[k] >= 0 && tokens.ids[k] < N_QWEN2, "damage %d", (int)i);
        free(tokens.ids);
        tokenizer_close(&t);
    }
    CHECK(opened > (test_fast() ? 1 : 20), "%d open", opened);
    free(json);
}

/* ---- into GGUF files --------------------------------------------------------------------------------- */

/* A llama2.c model of this vocabulary, converted with this tokenizer. */
static int convert(const char *tokenizer, int vocab_size) {
    char here[PATH_MAX] = "";
    const HashModel m = {16, 16, 1, 2, 1, vocab_size, 16, true, 9};
    if (*tokenizer != '/' && !realpath(tokenizer, here)) return -1;
    hashmodel_write(&m, inside("m.bin"), 0, 0);
    return run("m.bin -z %s -m convert -q f16 -o m.gguf", *here ? here : tokenizer);
}

static int reopen(Tokenizer *t, Model *model, const char *name, int vocab_size) {
    if (model_open(model, inside(name))) return -1;
    return gguf_read_tokenizer(t, model->files, name, vocab_size, true) == 1 ? 0 : -1;
}

static void gguf_files_have_the_same_tokens(void) {
    static const struct {
        const char *path;
        int n;
    } files[] = {{"tests/golden/bpe_llama3.json", N_LLAMA3},
                 {"tests/golden/bpe_qwen2.json", N_QWEN2},
                 {"tests/golden/bpe_llama2.json", N_LLAMA2}};
    for (int i = 0; i < 3; i++) {
        Tokenizer t, t_gguf;
        Model model;
        CHECK(!tokenizer_open_json(&t, files[i].path, files[i].n), "%s does not open", files[i].path);
        CHECK(convert(files[i].path, files[i].n) == 0, "%s: %s", files[i].path, err);
        CHECK(!reopen(&t_gguf, &model, "m.gguf", files[i].n), "%s does not open", files[i].path);
        CHECK(t.bos == t_gguf.bos && t.no_bos == t_gguf.no_bos && t.normalizer.composes == t_gguf.normalizer.composes,
              "BOS %d", t_gguf.bos);
        for (int id = 0; id < t.pieces.n; id++) { /* what GGUF says of none, or SentencePiece has otherwise */
            t.pieces.list[id].raw = true;
            t.pieces.list[id].eats_left = t.pieces.list[id].eats_right = false;
            if (i == 2 && t.pieces.list[id].kind == PIECE_SPECIAL) t.pieces.list[id].kind = PIECE_CONTROL;
        }
        check_same_tokens(&t, &t_gguf);
        tokenizer_close(&t);
        tokenizer_close(&t_gguf);
        model_close(&model);
    }
}

static void what_gguf_cannot_say_is_refused(void) {
    static const struct {
        const char *from, *to, *mention;
    } cases[] = {{"\"ignore_merges\":false", "\"ignore_merges\":true",
                  "no name for its pre-tokenizer (Qwen 2's pattern, ignore"},
                 {"\\\\p{N}|", "\\\\p{N}{1,3}|", NULL},
                 {"\"add_prefix_space\":false", "\"add_prefix_space\":true", "behind another pre-tokenizer"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = 0;
        char *json = file_read("tests/golden/bpe_qwen2.json", &size), *at = json ? strstr(json, cases[i].from) : NULL;
        CHECK(at, "case %zu: nothing to change", i);
        FILE *out_ = fopen(inside("changed.json"), "wb");
        CHECK(out_, "cannot write");
        fprintf(out_, "%.*s%s%s", (int)(at - json), json, cases[i].to, at + strlen(cases[i].from));
        fclose(out_);
        free(json);
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s", inside("changed.json"));
        CHECK((convert(path, N_QWEN2) == 0) == !cases[i].mention, "case %zu: %s", i, err);
        CHECK(!cases[i].mention || (strstr(err, cases[i].mention) && one_line(err)), "case %zu: %s", i, err);
    }
}

void suite_bpe(void) {
    binary_folder("bpe");
    TEST(trained_tokenizers_have_the_library_s_tokens);
    TEST(all_pretokenizers_cut_like_the_library);
    TEST(a_space_only_in_front_of_a_whole_text);
    TEST(minimind_has_the_library_s_tokens);
    TEST(turns_are_those_of_transformers);
    TEST(what_is_said_is_text);
    TEST(refuses_what_it_does_not_do);
    TEST(the_files_beside_it_count);
    TEST(an_added_token_has_at_most_so_many_bytes);
    TEST(a_rule_that_is_there_twice);
    TEST(unknown_characters_without_unk);
    TEST(damaged_files);
    TEST(gguf_files_have_the_same_tokens);
    TEST(what_gguf_cannot_say_is_refused);
}
