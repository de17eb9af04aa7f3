/* test_bpe.c: byte-pair encoding by ranked merges, and tokenizer.json files.
 *
 * Compares with Hugging Face's tokenizers library, on vocabularies trained by
 * scripts/golden/golden_bpe.py and on a real one. Checks what is refused in
 * tokenizer.json and in the other files of its folder, and the tokenizer in a
 * converted GGUF file.
 */
#include "base/file.h"
#include "base/utf8.h"
#include "formats/folder.h"
#include "formats/gguf.h"
#include "formats/open.h"
#include "kernels/tensor.h"
#include "model.h"
#include "modes/template.h"
#include "text/pieces.h"
#include "text/pretokenize.h"
#include "tokenizer.h"

#include "tests/support/binary.h"
#include "tests/support/chat.h"
#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/texts.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the library's tokens ----------------------------------------------- */

enum { N_LLAMA3 = 903, N_QWEN2 = 911, N_LLAMA2 = 900, N_MINIMIND = 6400 };

static void trained_tokenizers_match_the_library(void) {
    static const struct {
        const char *name, *path;
        int n;
        TextCheck sort;
    } files[] = {
        {"llama3", "tests/golden/bpe_llama3.json", N_LLAMA3, VALID_TEXT},
        {"qwen2", "tests/golden/bpe_qwen2.json", N_QWEN2, VALID_TEXT_CHANGES},
        {"llama2", "tests/golden/bpe_llama2.json", N_LLAMA2,
         VALID_TEXT_CHANGES}};
    for (int i = 0; i < 3; i++) {
        Tokenizer t;
        CHECK(!tokenizer_open_folder(&t, files[i].path, files[i].n),
              "%s does not open", files[i].path);
        check_golden_tokens(&t, files[i].name, files[i].sort);
        tokenizer_close(&t);
    }
}

/* The patterns of some families, from the table. */
#define LLAMA_3    named("dbrx")->steps[0]
#define QWEN_2     named("qwen2")->steps[0]
#define GPT_4O     named("gpt-4o")->steps[0]
#define TEKKEN     named("tekken")->steps[0]
#define SEED_CODER named("seed-coder")->steps[0]

static const Pretokenizer *named(const char *name) {
    for (const Pretokenizer *p = PRETOKENIZERS; p->names; p++)
        if (!strcmp(p->names[0], name))
            return p;
    abort();
}

/* The same vocabulary with different pre-tokenizers. */
static void pretokenizers_match_the_library(void) {
    const struct {
        const char *name;
        Pretokenizer cut;
        bool space;
    } cases[] = {{"gpt2", {.steps = {PATTERN_GPT2}}, false},
                 {"smollm", {.steps = {PATTERN_DIGIT, PATTERN_GPT2}}, false},
                 {"numbers", {.steps = {PATTERN_DIGITS, PATTERN_GPT2}}, false},
                 {"gpt4o", {.steps = {GPT_4O}}, false},
                 {"tekken", {.steps = {TEKKEN}}, false},
                 {"deepseek_llm", *named("deepseek-llm"), false},
                 {"deepseek_coder", *named("deepseek-coder"), false},
                 {"deepseek_v3", *named("deepseek-v3"), false},
                 {"minicpm5", *named("minicpm5"), false},
                 {"space", {.steps = {PATTERN_GPT2}}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer t;
        CHECK(
            !tokenizer_open_folder(&t, "tests/golden/bpe_qwen2.json", N_QWEN2),
            "does not open");
        t.normalizer.composes = false;
        t.pretokenizer = cases[i].cut;
        t.space_prefix = cases[i].space ? SPACE_IF_NONE : SPACE_NEVER;
        check_golden_tokens(&t, cases[i].name, VALID_TEXT_CHANGES);
        tokenizer_close(&t);
    }
}

/* Replaces the regular expression in Qwen 2's tokenizer.json by each known
 * one. */
static void patterns_are_recognized_by_their_regular_expressions(void) {
    const char *const patterns[] = {LLAMA_3, QWEN_2, GPT_4O, TEKKEN};
    size_t size, old = strlen("\"Regex\":");
    char *json = file_read("tests/golden/bpe_qwen2.json", &size), line[1024];
    char *at = json ? strstr(json, "\"Regex\":") : NULL,
         *end = at ? strstr(at, "},\"behavior\"") : NULL;
    FILE *list = fopen("tests/golden/patterns.txt", "rb");
    CHECK(end && list, "no pattern in bpe_qwen2.json, or no patterns.txt");
    for (int i = 0; end && list && fgets(line, sizeof line, list); i++) {
        Tokenizer t;
        FILE *out_ = fopen(inside("pattern.json"), "wb");
        line[strcspn(line, "\n")] = '\0';
        if (!out_)
            abort();
        fprintf(out_, "%.*s%s%s", (int)(at + old - json), json,
                strchr(line, ' ') + 1, end);
        fclose(out_);
        CHECK(i < 4 &&
                  !tokenizer_open_folder(&t, inside("pattern.json"), N_QWEN2),
              "%s does not open", line);
        CHECK(!strcmp(t.pretokenizer.steps[0], patterns[i]), "%s: pattern %s",
              line, t.pretokenizer.steps[0]);
        tokenizer_close(&t);
    }
    free(json);
    if (list)
        fclose(list);
}

static void a_space_is_prepended_only_to_a_whole_text(void) {
    Tokenizer t;
    CHECK(!tokenizer_open_folder(&t, "tests/golden/bpe_llama2.json", N_LLAMA2),
          "does not open");
    t.space_prefix = SPACE_ONCE;
    check_golden_tokens(&t, "llama2_first", VALID_TEXT_CHANGES);
    tokenizer_close(&t);
}

static void minimind_matches_the_library(void) {
    const char *path = real_checkpoint("minimind/tokenizer.json");
    Tokenizer t;
    if (!path) {
        test_skip(NO_CHECKPOINTS);
        return;
    }
    CHECK(!tokenizer_open_folder(&t, path, N_MINIMIND), "does not open");
    CHECK(!t.n_before && t.bos == 1 && t.eos == 2, "BOS %d, EOS %d", t.bos,
          t.eos);
    check_golden_tokens(&t, "minimind", VALID_TEXT);
    tokenizer_close(&t);
}

/* ---- chat --------------------------------------------------------------- */

/* Opens the tokenizer and the chat template of a family's test. */
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
    Options options = {.model = "model"};
    if (!strcmp(family, "minimind"))
        return tokenizer_open_folder(
                   t, real_checkpoint("minimind/tokenizer.json"), N_MINIMIND) ||
                       chat_template_open(chat, t, &options)
                   ? -1
                   : 0;
    while (i < 3 && strcmp(family, families[i].family) != 0)
        i++;
    if (tokenizer_open_folder(t, families[i].path, families[i].n))
        return -1;
    t->eos = families[i].eos;
    snprintf(path, sizeof path, "tests/golden/chat/%s.jinja", family);
    t->chat_template.bytes = file_read(path, &t->chat_template.n);
    return t->chat_template.bytes && !chat_template_open(chat, t, &options)
               ? 0
               : -1;
}

static void check_turn(const char *family, bool system, int turn,
                       const char *ids) {
    static const Exchange messages[] = {{"hello there", "good day"},
                                        {"and you? [yes]\xc3\xa9", "I am well"},
                                        {"ab  abc </ s>", NULL}};
    Tokenizer t;
    ChatTemplate chat;
    Tokens tokens;
    CHECK(!open_chat(&t, &chat, family), "%s does not open", family);
    CHECK(!chat_tokens(&chat, &t, system ? "Be kind, and be brief." : NULL,
                       messages, turn + 1, &tokens),
          "%s", family);
    for (int i = 0; i < tokens.n; i++) {
        char *end;
        CHECK(strtol(ids, &end, 10) == tokens.ids[i] &&
                  *end == (i + 1 < tokens.n ? ',' : 0),
              "%s, system %d, turn %d: token %d is %d, expected %s", family,
              system, turn, i, tokens.ids[i], ids);
        ids = end + 1;
    }
    CHECK(tokens.n > 0, "no tokens");
    free(tokens.ids);
    chat_template_close(&chat);
    tokenizer_close(&t);
}

static void turns_match_transformers(void) {
    FILE *in = fopen("tests/golden/chat_bpe.txt", "r");
    char family[16], ids[4096];
    int system, turn, n = 0;
    CHECK(in, "tests/golden/chat_bpe.txt is missing");
    for (; fscanf(in, "%15s %d %d %4095s", family, &system, &turn, ids) == 4;
         n++)
        if (strcmp(family, "minimind") != 0 ||
            real_checkpoint("minimind/tokenizer.json"))
            check_turn(family, system, turn, ids);
    fclose(in);
    CHECK(n == 5 * 2 * 3, "%d turns", n);
    if (!real_checkpoint("minimind/tokenizer.json"))
        test_skip(NO_CHECKPOINTS);
}

/* The names of added tokens in a user or system prompt are encoded as plain
 * text. */
static void messages_contain_no_added_tokens(void) {
    static const char message[] =
        "<|endoftext|><|im_start|><|im_end|><tool_call></tool_call><tool<think><left> <right> x";
    Tokenizer t;
    ChatTemplate chat;
    Tokens tokens;
    int n_added = 0;
    CHECK(!open_chat(&t, &chat, "chatml"), "does not open");
    CHECK(!chat_tokens(&chat, &t, message, &(Exchange){message, NULL}, 1,
                       &tokens),
          "does not render");
    for (int i = 0; i < tokens.n; i++)
        n_added += tokens.ids[i] >= 900;
    CHECK(n_added == 5, "%d added tokens, expected the five of the template",
          n_added);
    free(tokens.ids);
    chat_template_close(&chat);
    tokenizer_close(&t);
}

/* Added tokens that match the raw text match only bytes that are open. */
static void closed_bytes_are_in_no_added_token(void) {
    static const char text[] = "<|im_end|><|im_end|>    <|im_end|>";
    bool open[sizeof text] = {false};
    Tokenizer t;
    Tokens tokens = {0}, all = {0};
    int n_ends = 0, n_spaces = 0;
    CHECK(!tokenizer_open_folder(&t, "tests/golden/bpe_qwen2.json", N_QWEN2),
          "does not open");
    for (int id = 0; id < N_QWEN2; id++)
        t.pieces.list[id].raw = true;
    CHECK(!tokenizer_append(&t, text, sizeof text - 1, NULL, true, &all) &&
              all.n == 4,
          "%d tokens", all.n);
    t.pieces.list[all.ids[2]].raw = false; /* white space */
    CHECK(!pieces_index(&t.pieces), "no index");
    for (int at = 10; at < 20; at++)
        open[at] = true;
    open[26] = true;
    CHECK(!tokenizer_append(&t, text, sizeof text - 1, open, true, &tokens),
          "does not encode");
    for (int i = 0; i < tokens.n; i++)
        n_ends += tokens.ids[i] == 902, n_spaces += tokens.ids[i] == all.ids[2];
    CHECK(n_ends == 1 && n_spaces == 1, "%d ends, %d spaces", n_ends, n_spaces);
    free(tokens.ids);
    free(all.ids);
    tokenizer_close(&t);
}

/* ---- options of the files ----------------------------------------------- */

static const char PIECES[] =
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3},\"merges\":[\"a b\"]";

/* Opens a folder with these files; NULL: the file is absent. */
static int open_files(Tokenizer *t, const char *json, const char *config,
                      const char *generation) {
    mkdir(inside("t"), 0700);
    write_file("t/tokenizer.json", json);
    if (config)
        write_file("t/tokenizer_config.json", config);
    if (generation)
        write_file("t/generation_config.json", generation);
    stderr_hide();
    int status_ = tokenizer_open_folder(t, inside("t/tokenizer.json"), 8);
    stderr_show();
    remove(inside("t/tokenizer_config.json"));
    remove(inside("t/generation_config.json"));
    return status_;
}

static void unsupported_options_are_refused(void) {
    static const struct {
        /* around: tokenizer.json, with %s for PIECES; mention: part of the
         * message */
        const char *around, *mention;
    } cases[] = {
        {"[]", "model.type is missing"},
        {"{}", "model.type is missing"},
        {"{\"model\":{\"type\":\"Unigram\",%s}}",
         "model.type is Unigram, expected BPE"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}",
         "model.vocab is a list, expected an object"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}",
         "model.merges is missing, expected a list"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":8},\"merges\":[]}}",
         "has id 8, expected one of the model's 8"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
         "has id -1"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0.5},\"merges\":[]}}",
         "has id 0.5"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
         "has id 0 twice, also for 'b'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
         "merge 0 is of 'a' and '', expected pieces"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
         "merge 0 is of 'a' and 'b'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}",
         "a merge is a list, expected two"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[1]}}",
         "a merge is 1, expected two"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"1\":0,\"a\":1,\"1a\":2},\"merges\":[[1,\"a\"]]}}",
         "a merge is a list, expected two"},
        {"{\"model\":{\"dropout\":0.1,%s}}", "dropout is 0.1, expected none"},
        {"{\"model\":{\"end_of_word_suffix\":\"</w>\",%s}}",
         "end_of_word_suffix is </w>, expected none"},
        {"{\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{%s}}",
         "a normalizer is Lowercase, expected NFC"},
        {"{\"normalizer\":{\"type\":\"Sequence\"},\"model\":{%s}}",
         "normalizers is missing, expected a list"},
        {"{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},\"model\":{%s}}",
         "are not supported together"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{%s}}",
         "a pre-tokenizer is Whitespace, expected ByteLevel"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":\"Isolated\"},\"model\":{%"
         "s}}",
         "the pattern of a pre-tokenizer Split is x, expected one of"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Removed\"},"
         "\"model\":{%s}}",
         "behavior of a pre-tokenizer Split is Removed"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}"
         ","
         "\"model\":{%s}}",
         "this normalizer and pre-tokenizer are not supported together"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"model\":{%s}}",
         "Metaspace's replacement is _"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\"},\"model\":{%s}}",
         "a post-processor is BertProcessing, expected ByteLevel"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\"}],\"model\":{%s}}",
         "'<s>' has id 0 of another piece"},
        {"{\"added_tokens\":[{\"id\":0,\"content\":5}],\"model\":{%s}}",
         "an added token is 5, expected text"},
        {"{\"model\":5}", "model.type is missing, expected BPE"},
        {"{\"model\":{\"type\":\"BPE\",\"merges\":[]}}",
         "model.vocab is missing, expected an object"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":{}}}",
         "model.merges is an object, expected a list"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"1\":0,\"a\":1,\"a1\":2},\"merges\":[[\"a\",1]]}}",
         "a merge is a list, expected two pieces"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[[\"a\",\"b\",\"a\"]]}}",
         "a merge is a list, expected two"},
        {"{\"model\":{\"continuing_subword_prefix\":\"##\",%s}}",
         "continuing_subword_prefix is ##, expected none"},
        {"{\"model\":{\"dropout\":\"0\",%s}}", "dropout is 0, expected none"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"\"}],\"model\":{%s}}",
         "an added token is , expected text"},
        {"{\"added_tokens\":[{\"content\":\"<s>\"}],\"model\":{%s}}",
         "<s> has id missing, expected one of the model's 8"},
        {"{\"added_tokens\":[{\"id\":3,\"content\":\"<t>\"}],\"model\":{%s}}",
         "'<t>' has id 3 of another piece"},
        {"{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"_\"},\"model\":{%s}}",
         "a normalizer is Prepend, expected NFC"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"},\"model\":{%s}}",
         "a normalizer is Replace, expected NFC"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\"" SPACE_MARK
         "\"},\"model\":{%s}}",
         "a normalizer is Replace, expected NFC"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"},\"content\":\"" SPACE_MARK
         "\"},\"model\":{%s}}",
         "a normalizer is Replace, expected NFC"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"NFKC\"}]},\"model\":{%"
         "s}}",
         "a normalizer is NFKC, expected NFC"},
        {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE_MARK
         "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
         "\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\"},\"model\":{%s}}",
         "are not supported together"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
         "\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{%s}}",
         "are not supported together"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"Digits\"},{"
         "\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},"
         "{\"type\":\"Digits\"},{\"type\":\"Digits\"}]},\"model\":{%s}}",
         "more than 7 pre-tokenizers"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\","
         "\"add_prefix_space\":true}]},\"model\":{%s}}",
         "are not supported together"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"Metaspace\","
         "\"replacement\":\"" SPACE_MARK "\"}]},\"model\":{%s}}",
         "a pre-tokenizer is Metaspace, expected ByteLevel"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" "
         "\"},\"behavior\":\"Isolated\"},\"model\":{%s}}",
         "the pattern of a pre-tokenizer Split is  , expected one of"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\"},\"model\":{%s}}",
         "the pattern of a pre-tokenizer Split is missing, expected one of"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Removed\","
         "\"invert\":true},\"model\":{%s}}",
         "behavior of a pre-tokenizer Split is Removed"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| "
         "?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Removed\"},\"model\":{%s}}",
         "behavior of a pre-tokenizer Split is Removed"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| "
         "?\\\\p{N}+| "
         "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Contiguous\"},\"model\":{%s}}",
         "behavior of a pre-tokenizer Split is Contiguous"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\",\"prepend_scheme\":\"last\"},\"model\":{%s}}",
         "Metaspace's prepend_scheme is last"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":5},\"model\":{%s}}",
         "pretokenizers is 5, expected a list"},
        {"{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"RobertaProcessing\"}]},\"model\":{%s}"
         "}",
         "a post-processor is RobertaProcessing, expected ByteLevel"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{}}]},\"model\":{%s}}",
         "a token of TemplateProcessing is missing, expected a piece"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]},"
         "\"model\":{%s}}",
         "a token of TemplateProcessing is x, expected a piece"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}},{"
         "\"SpecialToken\":{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[3]}}},\"model\":{%s}}",
         "a token of TemplateProcessing is x, expected a piece"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        const char *at = strstr(cases[i].around, "%s"),
                   *rest = at ? at + 2 : "";
        snprintf(json, sizeof json, "%.*s%s%s",
                 at ? (int)(at - cases[i].around) : 1000, cases[i].around,
                 at ? PIECES : "", rest);
        Tokenizer t;
        CHECK(open_files(&t, json, NULL, NULL) < 0, "case %zu opens", i);
        CHECK(one_line(stderr_text()) &&
                  strstr(stderr_text(), cases[i].mention),
              "case %zu: %s", i, stderr_text());
        CHECK(!t.pieces.list && !*t.pieces.texts && !t.pieces.rules &&
                  !t.pieces.slots,
              "case %zu: not closed", i);
    }
}

/* BOS from the post-processor or, if set there, from tokenizer_config.json;
 * EOS; end tokens; the chat template. */
static void other_files_of_the_folder_are_read(void) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[3]}}},\"model\":{%s}}";
    char text[1024];
    Tokenizer t;
    snprintf(text, sizeof text, json, PIECES);
    CHECK(!open_files(&t, text, NULL, NULL) && t.n_before && t.bos == 3 &&
              t.eos < 0,
          "BOS %d, EOS %d", t.bos, t.eos);
    tokenizer_close(&t);
    CHECK(!open_files(
              &t, text,
              "{\"add_bos_token\":false,\"eos_token\":{\"content\":\"b\"}}",
              "{\"eos_token_id\":[2,1]}"),
          "%s", stderr_text());
    CHECK(t.n_before && t.eos == 1 && t.ends.n == 2 && t.ends.ids[0] == 2 &&
              t.ends.ids[1] == 1,
          "EOS %d, %d ends", t.eos, t.ends.n);
    tokenizer_close(&t);
    CHECK(
        !open_files(
            &t, text,
            "{\"chat_template\":[{\"name\":\"x\",\"template\":\"1\"},{\"name\":\"default\","
            "\"template\":\"23\"}]}",
            "{\"eos_token_id\":2}"),
        "%s", stderr_text());
    CHECK(t.chat_template.n == 2 && !memcmp(t.chat_template.bytes, "23", 2) &&
              t.eos == 2,
          "template of %zu bytes", t.chat_template.n);
    tokenizer_close(&t);
    CHECK(!open_files(
              &t, text,
              "{\"chat_template\":[{\"name\":\"default\"},{\"name\":\"x\"}]}",
              NULL),
          "%s", stderr_text());
    CHECK(!t.chat_template.bytes, "a default template without text is used");
    tokenizer_close(&t);
    CHECK(!open_files(
              &t, text, NULL,
              "{\"eos_token_id\":[null,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2,3]}"),
          "%s", stderr_text());
    CHECK(t.eos == 1 && t.ends.n == 17 && t.ends.ids[14] == 1 &&
              t.ends.ids[16] == 3,
          "%d ends", t.ends.n);
    tokenizer_close(&t);
    CHECK(!open_files(&t, text, NULL, "{\"eos_token_id\":null}") &&
              t.ends.n == 0 && t.eos < 0,
          "%d ends", t.ends.n);
    tokenizer_close(&t);
    char *name = strstr(text, "SpecialToken");
    memcpy(name, "SpecialToken\":{\"id\":\"a\"  }",
           26); /* token 0 is a valid BOS and EOS */
    CHECK(!open_files(&t, text, "{\"bos_token\":\"b\",\"eos_token\":\"a\"}",
                      "{\"eos_token_id\":2}"),
          "%s", stderr_text());
    CHECK(*t.before == 0 && t.eos == 0 && t.ends.ids[0] == 2, "BOS %d, EOS %d",
          t.bos, t.eos);
    tokenizer_close(&t);
    snprintf(text, sizeof text, json, PIECES);
    CHECK(!open_files(&t, text, NULL, "{\"eos_token_id\":[8,-1]}") &&
              strstr(stderr_text(), "eos_token_id is 8, and the vocabulary") &&
              strstr(stderr_text(), "eos_token_id is -1, and") && t.eos < 0,
          "%s", stderr_text());
    tokenizer_close(&t);
    CHECK(
        !open_files(
            &t, text, NULL,
            "{\"eos_token_id\":[0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,3,3,3,3,3,3,3,3]}"),
        "%s", stderr_text());
    CHECK(t.ends.n == 24 && t.ends.ids[15] == 7 && t.bos == 3, "%d ends",
          t.ends.n);
    tokenizer_close(&t);
    CHECK(open_files(&t, text, "{", NULL) < 0 &&
              strstr(stderr_text(), "t/tokenizer_config.json"),
          "%s", stderr_text());
}

/* The fields that the normalizer and the pre-tokenizer set. */
static void normalizer_and_pretokenizer_set_the_pipeline(void) {
    static const struct {
        const char *pipeline;
        SpacePrefix prefix;
        int n_steps;
        const char *last;
        bool replaces_mark, composes, byte_level;
    } cases[] = {
        {"", SPACE_NEVER, 0, NULL, false, false, false},
        {"\"normalizer\":null,\"pre_tokenizer\":null,", SPACE_NEVER, 0, NULL,
         false, false, false},
        {"\"normalizer\":{\"type\":\"NFC\"},", SPACE_NEVER, 0, NULL, false,
         true, false},
        {"\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
         "\"},",
         SPACE_NEVER, 0, NULL, true, false, false},
        {"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE_MARK
         "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
         "\"},{\"type\":\"NFC\"}]},",
         SPACE_ALWAYS, 0, NULL, true, true, false},
        {"\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
         "\"},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" "
         "\"},\"behavior\":\"MergedWithPrevious\",\"invert\":false},",
         SPACE_NEVER, 0, NULL, true, false, false}, /* Gemma's */
        {"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]},",
         SPACE_NEVER, 0, NULL, false, false, false},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\"},", SPACE_NEVER, 1,
         PATTERN_GPT2, false, false, true},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":true,\"add_prefix_space\":true},",
         SPACE_IF_NONE, 1, PATTERN_GPT2, false, false, true},
        {"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false},",
         SPACE_NEVER, 0, NULL, false, false, true},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"Digits\","
         "\"individual_digits\":true},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":"
         "\"Isolated\"},{\"type\":\"ByteLevel\"}]},",
         SPACE_NEVER, 4, PATTERN_GPT2, false, false, true},
        {"\"pre_tokenizer\":{\"type\":\"Digits\"},", SPACE_NEVER, 1,
         PATTERN_DIGITS, false, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},",
         SPACE_NEVER, 1, PATTERN_DIGIT, false, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| "
         "?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":true},",
         SPACE_NEVER, 1, PATTERN_GPT2, false, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| "
         "?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Removed\",\"invert\":true},",
         SPACE_NEVER, 1, PATTERN_GPT2, false, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\"},",
         SPACE_NEVER, 1, "\\p{N}{1,3}", false, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\"},",
         SPACE_IF_NONE, 1, PATTERN_SPACED, true, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\",\"add_prefix_space\":false,\"split\":true},",
         SPACE_NEVER, 1, PATTERN_SPACED, true, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\",\"add_prefix_space\":true,\"split\":false},",
         SPACE_IF_NONE, 0, NULL, true, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\",\"prepend_scheme\":\"never\",\"add_prefix_space\":true},",
         SPACE_NEVER, 1, PATTERN_SPACED, true, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\",\"prepend_scheme\":\"always\",\"add_prefix_space\":false},",
         SPACE_IF_NONE, 1, PATTERN_SPACED, true, false, false},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
         "\",\"prepend_scheme\":\"first\"},",
         SPACE_ONCE, 1, PATTERN_SPACED, true, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        Tokenizer t;
        snprintf(json, sizeof json, "{%s\"model\":{%s}}", cases[i].pipeline,
                 PIECES);
        CHECK(!open_files(&t, json, NULL, NULL), "case %zu: %s", i,
              stderr_text());
        const Pretokenizer *p = &t.pretokenizer;
        int n = 0;
        while (p->steps[n])
            n++;
        CHECK(t.space_prefix == cases[i].prefix && n == cases[i].n_steps,
              "case %zu: prefix %d, %d steps", i, t.space_prefix, n);
        CHECK(!n || !strcmp(p->steps[n - 1], cases[i].last),
              "case %zu: the last step is %s", i, p->steps[n - 1]);
        CHECK(t.normalizer.replaces_mark == cases[i].replaces_mark &&
                  t.normalizer.composes == cases[i].composes,
              "case %zu: the normalizer", i);
        CHECK(t.pieces.byte_level == cases[i].byte_level,
              "case %zu: byte level?", i);
        CHECK(!t.pieces.fuses_unknown && !p->whole_words && t.pieces.unk < 0,
              "case %zu: the model", i);
        tokenizer_close(&t);
    }
}

/* Options with their default values are accepted. */
static void default_values_are_accepted(void) {
    static const struct {
        const char *options;
        int unk;
        bool fuses, whole;
    } cases[] = {
        {"\"continuing_subword_prefix\":null,\"end_of_word_suffix\":\"\",\"dropout\":null,\"fuse_unk\":false,",
         -1, false, false},
        {"\"type\":\"BPE\",\"dropout\":0.0,\"unk_token\":\"<s>\",\"fuse_unk\":true,",
         3, true, false},
        {"\"unk_token\":\"<t>\",\"ignore_merges\":true,", -1, false, true},
        {"\"unk_token\":\"\",", -1, false, false},
        {"\"unk_token\":{\"content\":\"a\"},", 0, false, false},
        {"\"unk_token\":3,", -1, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        Tokenizer t;
        snprintf(json, sizeof json,
                 "{\"post_processor\":null,\"model\":{%s%s}}", cases[i].options,
                 PIECES);
        CHECK(!open_files(&t, json, NULL, NULL), "case %zu: %s", i,
              stderr_text());
        CHECK(t.pieces.unk == cases[i].unk &&
                  t.pieces.fuses_unknown == cases[i].fuses &&
                  t.pretokenizer.whole_words == cases[i].whole,
              "case %zu: <unk> is %d", i, t.pieces.unk);
        CHECK(!t.n_before && t.chat_has_bos && t.eot == -1 && !t.ends.n &&
                  !*stderr_text(),
              "case %zu: other fields changed", i);
        tokenizer_close(&t);
    }
}

/* The options of an added token. A token without an embedding row is
 * ignored. */
static void added_tokens_match_by_their_options(void) {
    static const struct {
        const char *added;
        int id;
        Piece piece;
    } cases[] = {
        {"{\"id\":7,\"content\":\"<u>\"}",
         7,
         {.kind = PIECE_USER, .raw = true}},
        {"{\"id\":8,\"content\":\"<u>\"}", -1, {.kind = PIECE_CONTROL}},
        {"{\"id\":5,\"content\":\"<u>\",\"special\":true,\"normalized\":true,\"single_word\":false}",
         5,
         {.kind = PIECE_SPECIAL}},
        {"{\"id\":2,\"content\":\"ab\",\"lstrip\":true}",
         2,
         {.kind = PIECE_USER,
          .also_merged = true,
          .raw = true,
          .strips_left = true}},
        {"{\"id\":0,\"content\":\"a\",\"rstrip\":true,\"normalized\":false}",
         0,
         {.kind = PIECE_USER,
          .also_merged = true,
          .raw = true,
          .strips_right = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        Tokenizer t;
        snprintf(json, sizeof json, "{\"added_tokens\":[%s],\"model\":{%s}}",
                 cases[i].added, PIECES);
        CHECK(!open_files(&t, json, NULL, NULL), "case %zu: %s", i,
              stderr_text());
        for (int id = 4; id < 8; id++)
            CHECK((t.pieces.list[id].length > 0) == (id == cases[i].id),
                  "case %zu: wrong presence of token %d", i, id);
        if (cases[i].id >= 0) {
            const Piece *p = &t.pieces.list[cases[i].id], *e = &cases[i].piece;
            CHECK(p->kind == e->kind && p->also_merged == e->also_merged &&
                      p->raw == e->raw && p->strips_left == e->strips_left &&
                      p->strips_right == e->strips_right,
                  "case %zu: kind %d", i, p->kind);
        }
        tokenizer_close(&t);
    }
}

/* A normalizer prepends a space; it also does so to the name of a token that
 * matches normalized text. */
static void normalized_special_tokens_match_after_a_space(void) {
    static const struct {
        const char *text;
        int n, tokens[3];
    } cases[] = {
        {"<s>", 1, {3}},
        {"<s><s>",
         1,
         {3}}, /* the vocabulary has no other characters of these texts */
        {"<s> <s>", 2, {3, 3}},
        {"a<s>", 1, {0}},
        {"a <s>b", 3, {0, 3, 1}}};
    char json[1024];
    Tokenizer t;
    snprintf(
        json, sizeof json,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"" SPACE_MARK
        "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
        "\"}]},\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true,\"normalized\":true}],"
        "\"model\":{%s}}",
        PIECES);
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokens tokens;
        CHECK(!tokenizer_encode(&t, cases[i].text, strlen(cases[i].text), false,
                                &tokens),
              "does not encode");
        CHECK(tokens.n == cases[i].n && !memcmp(tokens.ids, cases[i].tokens,
                                                (size_t)tokens.n * sizeof(int)),
              "'%s': %d tokens", cases[i].text, tokens.n);
        free(tokens.ids);
    }
    tokenizer_close(&t);
}

/* A text and its tokens. */
typedef struct {
    const char *text;
    int n, ids[8];
} TextTokens;

/* Opens a folder with this tokenizer.json and encodes texts; `before`: with the
 * tokens before a text. */
static void check_tokens(const char *json, bool before, const TextTokens *cases,
                         int n) {
    Tokenizer t;
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    for (int i = 0; i < n; i++) {
        Tokens tokens;
        CHECK(!tokenizer_encode(&t, cases[i].text, strlen(cases[i].text),
                                before, &tokens),
              "does not encode");
        CHECK(tokens.n == cases[i].n &&
                  (!tokens.n || !memcmp(tokens.ids, cases[i].ids,
                                        (size_t)tokens.n * sizeof(int))),
              "'%s' in %s: %d tokens, the first is %d", cases[i].text, json,
              tokens.n, tokens.n ? *tokens.ids : -1);
        free(tokens.ids);
    }
    tokenizer_close(&t);
}

/* Without byte_fallback a character without a piece is the unknown token, or
 * nothing, although the vocabulary has byte pieces. Tokens of Hugging Face's
 * tokenizers library. */
static void byte_pieces_need_byte_fallback(void) {
    static const struct {
        const char *options[2]; /* the same tokens with each */
        TextTokens texts[3];
    } cases[] = {
        {{"", "\"byte_fallback\":false,\"fuse_unk\":true,"},
         {{"aX\xc3\xa9"
           "b",
           1,
           {2}},
          {"\xe2\x82\xac"
           "ab",
           1,
           {2}},
          {"X\xc3\xa9\xe2\x82\xac", 0, {0}}}},
        {{"\"unk_token\":\"<s>\",",
          "\"byte_fallback\":false,\"unk_token\":\"<s>\","},
         {{"aX\xc3\xa9"
           "b",
           4,
           {0, 3, 3, 1}},
          {"\xe2\x82\xac"
           "ab",
           2,
           {3, 2}},
          {"X\xc3\xa9\xe2\x82\xac", 3, {3, 3, 3}}}},
        {{"\"unk_token\":\"<s>\",\"fuse_unk\":true,",
          "\"byte_fallback\":null,\"unk_token\":\"<s>\",\"fuse_unk\":true,"},
         {{"aX\xc3\xa9"
           "b",
           3,
           {0, 3, 1}},
          {"\xe2\x82\xac"
           "ab",
           2,
           {3, 2}},
          {"X\xc3\xa9\xe2\x82\xac", 1, {3}}}},
        {{"\"byte_fallback\":true,",
          "\"byte_fallback\":true,\"fuse_unk\":true,"},
         {{"aX\xc3\xa9"
           "b",
           5,
           {0, 6, 4, 5, 1}},
          {"\xe2\x82\xac"
           "ab",
           1,
           {2}},
          {"X\xc3\xa9\xe2\x82\xac", 3, {6, 4, 5}}}},
        {{"\"byte_fallback\":true,\"unk_token\":\"<s>\",",
          "\"byte_fallback\":true,\"unk_token\":\"<s>\",\"fuse_unk\":true,"},
         {{"aX\xc3\xa9"
           "b",
           5,
           {0, 6, 4, 5, 1}},
          {"\xe2\x82\xac"
           "ab",
           2,
           {3, 2}},
          {"X\xc3\xa9\xe2\x82\xac", 4, {6, 4, 5, 3}}}},
    };
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        char json[512];
        snprintf(
            json, sizeof json,
            "{\"model\":{%s\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3,\"<0xC3>\":4,\"<0xA9>\":5,"
            "\"<0x58>\":6},\"merges\":[\"a b\"]}}",
            cases[i / 2].options[i % 2]);
        check_tokens(json, false, cases[i / 2].texts, 3);
    }
}

/* A token with single_word does not match beside a letter, a mark, a digit or
 * a connector. Tokens of Hugging Face's tokenizers library. */
static void single_words_stand_alone(void) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<t>\",\"single_word\":%s}],\"model\":{\"vocab\":{"
        "\"a\":0,\"b\":1,\"ab\":2,\"<s>\":3,\"<\":5,\"t\":6,\">\":7},\"merges\":[\"a b\"]}}";
    static const TextTokens alone[] = {
        {"<t>", 1, {4}},
        {"a <t> b", 3, {0, 4, 1}},
        {"-<t>-", 1, {4}},
        {"<t><t>", 2, {4, 4}},
        {"<t> <t>", 2, {4, 4}},
        {"a<t>", 4, {0, 5, 6, 7}},
        {"<t>b", 4, {5, 6, 7, 1}},
        {"_<t>", 3, {5, 6, 7}},
        {"1<t>", 3, {5, 6, 7}},
        {"\xc3\xa9<t>", 3, {5, 6, 7}},
        {"<t>\xc3\xa9", 3, {5, 6, 7}},
        {"\xd9\xa1<t>", 3, {5, 6, 7}},
        {"<t>\xcc\x81"
         "a",
         4,
         {5, 6, 7, 0}},
        {"\xe2\x82\xac<t>\xe4\xb8\x80", 3, {5, 6, 7}},
        {"a<t>\n<t>", 5, {0, 5, 6, 7, 4}},
    };
    static const TextTokens anywhere[] = {{"a<t>", 2, {0, 4}},
                                          {"<t>\xc3\xa9", 1, {4}}};
    char text[512];
    snprintf(text, sizeof text, json, "true");
    check_tokens(text, false, alone, sizeof alone / sizeof *alone);
    snprintf(text, sizeof text, json, "false");
    check_tokens(text, false, anywhere, 2);
}

/* The post-processor may add up to four tokens before a text; the first is
 * BOS. */
static void several_tokens_precede_a_text(void) {
    static const TextTokens with[] = {{"a", 3, {3, 1, 0}}, {"", 2, {3, 1}}};
    static const TextTokens without[] = {{"a", 1, {0}}, {"", 0, {0}}};
    char json[1024], list[512] = "";
    Tokenizer t;
    for (int n = 1; n <= 5; n++) {
        snprintf(list + strlen(list), sizeof list - strlen(list),
                 "{\"SpecialToken\":{\"id\":\"%s\"}},", n == 2 ? "b" : "<s>");
        snprintf(
            json, sizeof json,
            "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s{\"Sequence\":{\"id\":"
            "\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[3]},\"b\":{\"ids\":[1]}}},\"model\":{%s}}",
            list, PIECES);
        int status_ = open_files(&t, json, NULL, NULL);
        CHECK(n < 5 ? !status_ : strstr(stderr_text(), "at most 4") != NULL,
              "%d tokens: %s", n, stderr_text());
        if (status_)
            continue;
        CHECK(t.n_before == n && t.bos == 3, "%d tokens, BOS %d", t.n_before,
              t.bos);
        tokenizer_close(&t);
        if (n == 2) {
            check_tokens(json, true, with, 2);
            check_tokens(json, false, without, 2);
        }
    }
}

/* Merges as "a b" and as ["a", "b"] are equivalent. */
static void merges_have_two_notations(void) {
    static const char *const merges[] = {"\"a b\"", "[\"a\",\"b\"]"};
    for (int i = 0; i < 2; i++) {
        char json[256];
        Tokenizer t;
        snprintf(
            json, sizeof json,
            "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[%s]}}",
            merges[i]);
        CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
        const MergeRule *rule = merges_rule(&t.pieces, 0, 1);
        CHECK(rule && rule->result == 2 && rule->rank == 0 &&
                  !merges_rule(&t.pieces, 1, 0),
              "no rule");
        tokenizer_close(&t);
    }
}

/* BOS, EOS and the template of tokenizer_config.json; the note about an EOS
 * that follows every text. */
static void tokenizer_config_sets_bos_and_eos(void) {
    static const char model[] = "{\"model\":{%s}}";
    static const struct {
        const char *config;
        int bos, eos;
        bool no_bos, noted;
        const char *template;
    } cases[] = {
        {"{}", -1, -1, true, false, NULL},
        {"{\"pad_token\":{\"content\":\"ab\"}}", -1, -1, true, false, NULL},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":true}", 3, -1, true, false,
         NULL},
        {"{\"bos_token\":\"<s>\",\"add_bos_token\":null}", 3, -1, true, false,
         NULL},
        {"{\"add_bos_token\":true}", -1, -1, true, false, NULL},
        {"{\"eos_token\":\"ab\",\"add_eos_token\":true}", -1, 2, true, false,
         NULL},
        {"{\"eos_token\":null,\"add_eos_token\":false,\"chat_template\":\"x\"}",
         -1, -1, true, false, "x"},
        {"{\"chat_template\":[{\"name\":\"tool\",\"template\":\"x\"}]}", -1, -1,
         true, false, NULL},
        {"{\"chat_template\":5}", -1, -1, true, false, NULL},
    };
    char json[256];
    snprintf(json, sizeof json, model, PIECES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer t;
        CHECK(!open_files(&t, json, cases[i].config, NULL), "case %zu: %s", i,
              stderr_text());
        CHECK(t.bos == cases[i].bos && t.eos == cases[i].eos &&
                  !t.n_before == cases[i].no_bos,
              "case %zu: BOS %d, EOS %d", i, t.bos, t.eos);
        CHECK(*t.named == (strstr(cases[i].config, "pad") ? 2 : -1),
              "case %zu: pad %d", i, *t.named);
        const char *found = t.chat_template.bytes,
                   *expected = cases[i].template;
        CHECK(!found == !expected && (!found || !strcmp(found, expected)),
              "case %zu: the template", i);
        CHECK(cases[i].noted
                  ? one_line(stderr_text()) &&
                        strstr(stderr_text(), "adds tokens after every text")
                  : !*stderr_text(),
              "case %zu: %s", i, stderr_text());
        tokenizer_close(&t);
    }
}

/* Added tokens may stand in tokenizer_config.json only, and its flags count. */
static void tokenizer_config_adds_tokens(void) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<s>\"},{\"id\":4,\"content\":\"<t>\"}],\"model\":{%s}}";
    char text[512];
    Tokenizer t;
    Tokens tokens;
    snprintf(text, sizeof text, json, PIECES);
    CHECK(
        !open_files(
            &t, text,
            "{\"added_tokens_decoder\":{\"4\":{\"content\":\"<t>\",\"rstrip\":true},\"5\":{\"content\":"
            "\"<u>\",\"special\":true}}}",
            NULL),
        "%s", stderr_text());
    CHECK(t.pieces.list[5].kind == PIECE_SPECIAL &&
              t.pieces.list[4].strips_right && !t.pieces.list[4].also_merged &&
              t.pieces.list[3].also_merged,
          "kind %d", t.pieces.list[5].kind);
    CHECK(!tokenizer_encode(&t, "<u>ab<t> a", 10, true, &tokens),
          "does not encode");
    CHECK(tokens.n == 4 && tokens.ids[0] == 5 && tokens.ids[1] == 2 &&
              tokens.ids[2] == 4 && tokens.ids[3] == 0,
          "%d tokens", tokens.n);
    free(tokens.ids);
    tokenizer_close(&t);
    CHECK(open_files(&t, text,
                     "{\"added_tokens_decoder\":{\"1\":{\"content\":\"<u>\"}}}",
                     NULL) < 0 &&
              strstr(stderr_text(), "'<u>' has id 1 of another piece"),
          "%s", stderr_text());
}

/* A special token that the vocabulary lacks gets the next id: first the tokens
 * with keys, then the others; none beyond the embedding's rows. */
static void named_tokens_get_the_next_ids(void) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<a>\"}],\"model\":{\"vocab\":{\"a\":0,\"<\":1,\">\":2},\"merges\":[]}}";
    Tokenizer t;
    CHECK(
        !open_files(
            &t, json,
            "{\"extra_special_tokens\":[\"<x>\",\"<y>\",\"<z>\"],\"eos_token\":\"<e>\",\"image_token\":\"<i>\",\"unk_token\":\"<a>\"}",
            NULL),
        "%s", stderr_text());
    static const char *const names[] = {"<e>", "<i>", "<x>", "<y>"};
    for (int i = 0; i < 4; i++) {
        const Piece *p = &t.pieces.list[4 + i];
        CHECK(p->kind == PIECE_SPECIAL && p->length == 3 &&
                  !memcmp(p->text, names[i], 3),
              "token %d is %.*s", 4 + i, p->length, p->text);
    }
    const NamedToken *image = (const void *)t.variables.bytes;
    CHECK(t.eos == 4 && t.unk == 3 && t.variables.n == sizeof *image &&
              image->id == 5 && !strcmp(image->name, "image_token"),
          "EOS %d, unk %d", t.eos, t.unk);
    tokenizer_close(&t);
    CHECK(open_files(&t, json, "{\"split_special_tokens\":true}", NULL) < 0 &&
              strstr(stderr_text(), "split_special_tokens is true"),
          "%s", stderr_text());
}

/* LlamaTokenizer's rule for the space before a text does not hold for types of
 * models that transformers gives another class. */
static void the_type_decides_about_the_class(void) {
    static const struct {
        const char *type, *config;
        SpacePrefix prefix;
    } cases[] = {
        {"llama", "\"tokenizer_class\":\"LlamaTokenizer\"", SPACE_ONCE},
        {"llama", "\"tokenizer_class\":\"Other\"", SPACE_ALWAYS},
        {"llama", "\"x\":1", SPACE_ALWAYS},
        {"smollm3", "\"tokenizer_class\":\"LlamaTokenizerFast\"", SPACE_ONCE},
        {"phi3", "\"tokenizer_class\":\"LlamaTokenizer\"", SPACE_ALWAYS},
        {"mistral", "\"tokenizer_class\":\"LlamaTokenizer\"", SPACE_ALWAYS},
        {"phi3",
         "\"tokenizer_class\":\"LlamaTokenizer\",\"auto_map\":{\"AutoTokenizer\":[\"a\",null]}",
         SPACE_ONCE},
        {"llama\",\"tokenizer_class\":\"LlamaTokenizer", "\"x\":1", SPACE_ONCE},
    };
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    for (size_t i = 0; i < COUNT(cases); i++) {
        char type[128], config[256];
        Tokenizer t;
        snprintf(type, sizeof type, "{\"model_type\":\"%s\"}", cases[i].type);
        snprintf(config, sizeof config, "{%s}", cases[i].config);
        mkdir(inside("t"), 0700);
        write_file("t/config.json", type);
        int opened = open_files(&t, json, config, NULL);
        remove(inside("t/config.json"));
        CHECK(!opened && t.space_prefix == cases[i].prefix, "case %zu: %d, %s",
              i, t.space_prefix, stderr_text());
        tokenizer_close(&t);
    }
}

/* A piece of the vocabulary is special if a file only names it, as in
 * transformers 5. */
static void names_make_pieces_special(void) {
    static const char json[] =
        "{\"model\":{\"vocab\":{\"a\":0,\"<\":1,\"t\":2,\">\":3,\"<t>\":4},\"merges\":[]}}";
    static const struct {
        const char *file, *contents;
        int kind;
    } cases[] = {
        {"t/tokenizer_config.json", "{}", PIECE_TEXT},
        {"t/tokenizer_config.json",
         "{\"additional_special_tokens\":[\"<u>\",\"<t>\"]}", PIECE_SPECIAL},
        {"t/tokenizer_config.json",
         "{\"additional_special_tokens\":[{\"content\":\"<t>\"}]}",
         PIECE_SPECIAL},
        {"t/tokenizer_config.json", "{\"mask_token\":\"<t>\"}", PIECE_SPECIAL},
        {"t/special_tokens_map.json", "{\"sep_token\":{\"content\":\"<t>\"}}",
         PIECE_SPECIAL},
        {"t/special_tokens_map.json",
         "{\"additional_special_tokens\":[\"<t>\"]}", PIECE_SPECIAL},
        {"t/special_tokens_map.json", "{\"image_token\":\"<t>\"}",
         PIECE_SPECIAL},
        {"t/tokenizer_config.json", "{\"extra_special_tokens\":[\"<t>\"]}",
         PIECE_SPECIAL},
        {"t/tokenizer_config.json",
         "{\"extra_special_tokens\":{\"x\":\"<t>\"}}", PIECE_SPECIAL},
        {"t/tokenizer_config.json",
         "{\"model_specific_special_tokens\":{\"x\":{\"content\":\"<t>\"}}}",
         PIECE_SPECIAL},
        {"t/added_tokens.json", "{\"<t>\":4,\"<beyond>\":99}", PIECE_USER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer t;
        Tokens tokens;
        mkdir(inside("t"), 0700);
        write_file(cases[i].file, cases[i].contents);
        int opened = open_files(&t, json, NULL, NULL);
        remove(inside(cases[i].file));
        CHECK(!opened && !*stderr_text(), "case %zu: %s", i, stderr_text());
        CHECK(t.pieces.list[4].kind == (PieceKind)cases[i].kind,
              "case %zu: kind %d", i, t.pieces.list[4].kind);
        CHECK(!tokenizer_encode(&t, "a<t>a", 5, true, &tokens), "case %zu", i);
        CHECK(cases[i].kind == PIECE_TEXT ? tokens.n == 5
                                          : tokens.n == 3 && tokens.ids[1] == 4,
              "case %zu: %d tokens", i, tokens.n);
        free(tokens.ids);
        tokenizer_close(&t);
    }
    Tokenizer t;
    write_file("t/added_tokens.json", "{\"<u>\":4}");
    int opened = open_files(&t, json, NULL, NULL);
    remove(inside("t/added_tokens.json"));
    CHECK(opened == -1 && one_line(stderr_text()) &&
              strstr(stderr_text(), "'<u>' has id 4 of another piece"),
          "%s", stderr_text());
}

/* In transformers 5 the class LlamaTokenizer inserts a space before a text,
 * whatever tokenizer.json says, unless the text begins with one; with `legacy`
 * also after a special token. */
static void the_class_decides_where_a_space_is_inserted(void) {
    static const char metaspace[] =
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"%s\",\"split\":false},"
        "\"model\":{%s}}";
    static const char bytes[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{%s}}";
    static const struct {
        const char *scheme, *config; /* no scheme: ByteLevel */
        SpacePrefix space;
    } cases[] = {
        {"always", "{}", SPACE_IF_NONE},
        {"always", "{\"tokenizer_class\":\"LlamaTokenizerFast\"}", SPACE_ONCE},
        {"never", "{\"tokenizer_class\":\"LlamaTokenizer\"}", SPACE_ONCE},
        {"first", "{\"tokenizer_class\":\"LlamaTokenizer\",\"legacy\":true}",
         SPACE_IF_NONE},
        {"first", "{\"legacy\":true}", SPACE_ONCE},
        {"always",
         "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_prefix_space\":false}",
         SPACE_NEVER},
        {"always", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}",
         SPACE_IF_NONE},
        {NULL, "{\"tokenizer_class\":\"LlamaTokenizerFast\"}", SPACE_NEVER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        Tokenizer t;
        if (cases[i].scheme)
            snprintf(json, sizeof json, metaspace, cases[i].scheme, PIECES);
        else
            snprintf(json, sizeof json, bytes, PIECES);
        CHECK(!open_files(&t, json, cases[i].config, NULL), "case %zu: %s", i,
              stderr_text());
        CHECK(t.space_prefix == cases[i].space, "case %zu: %d", i,
              t.space_prefix);
        tokenizer_close(&t);
    }
}

/* sep, cls and mask tokens are variables of a chat template. */
static void templates_know_all_named_tokens(void) {
    static const char *const names[] = {"pad_token", "sep_token", "cls_token",
                                        "mask_token"};
    char json[256], config[64];
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    for (int i = 0; i < 4; i++) {
        Tokenizer t;
        snprintf(config, sizeof config, "{\"%s\":\"ab\"}", names[i]);
        CHECK(!open_files(&t, json, config, NULL), "%s", stderr_text());
        for (int k = 0; k < 4; k++)
            CHECK(t.named[k] == (k == i ? 2 : -1), "%s: %d is %d", names[i], k,
                  t.named[k]);
        tokenizer_close(&t);
    }
}

/* Two older files count: chat_template.json after tokenizer_config.json,
 * special_tokens_map.json before it. */
static void older_files_of_the_folder_are_read(void) {
    char json[256];
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    mkdir(inside("t"), 0700);
    for (int i = 0; i < 2; i++) {
        Tokenizer t;
        write_file("t/chat_template.json", "{\"chat_template\":\"old\"}");
        write_file("t/special_tokens_map.json",
                   "{\"bos_token\":\"b\",\"eos_token\":{\"content\":\"ab\"}}");
        int opened = open_files(
            &t, json,
            i ? "{\"bos_token\":\"a\",\"chat_template\":\"new\"}" : "{}", NULL);
        remove(inside("t/chat_template.json"));
        remove(inside("t/special_tokens_map.json"));
        CHECK(!opened && t.bos == 1 && t.eos == 2 && !t.n_before,
              "BOS %d, EOS %d", t.bos, t.eos);
        CHECK(t.chat_template.n == 3 &&
                  !memcmp(t.chat_template.bytes, i ? "new" : "old", 3),
              "case %d: another template", i);
        tokenizer_close(&t);
    }
}

/* The end tokens of generation_config.json override those of config.json. */
static void end_tokens_come_from_two_files(void) {
    char json[256];
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    mkdir(inside("t"), 0700);
    for (int i = 0; i < 3; i++) {
        Tokenizer t;
        write_file("t/config.json", i < 2 ? "{\"eos_token_id\":1}"
                                          : "{\"eos_token_id\":[true]}");
        int opened = open_files(&t, json, NULL,
                                i == 0 ? "{\"eos_token_id\":[2]}" : "{}");
        remove(inside("t/config.json"));
        if (i == 2) {
            CHECK(opened < 0 && strstr(stderr_text(),
                                       "t/config.json: eos_token_id is true"),
                  "%s", stderr_text());
            continue;
        }
        CHECK(!opened && t.ends.n == 1 && t.ends.ids[0] == 2 - i &&
                  t.eos == 2 - i,
              "%d ends, %s", t.ends.n, stderr_text());
        tokenizer_close(&t);
    }
}

/* A path without a folder uses the current folder's files; a nearly too long
 * path has no other files. */
static void paths_of_any_length(void) {
    char json[256], here[PATH_MAX], path[PATH_MAX];
    Tokenizer t;
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    tokenizer_close(&t);
    write_file("t/tokenizer_config.json", "{\"eos_token\":\"b\"}");
    snprintf(path, sizeof path, "%s", inside("t"));
    CHECK(getcwd(here, sizeof here) && !chdir(path),
          "cannot change the folder");
    int opened = tokenizer_open_folder(&t, "tokenizer.json", 8);
    CHECK(!chdir(here), "cannot change the folder back");
    CHECK(!opened && t.eos == 1, "EOS %d", t.eos);
    tokenizer_close(&t);
    size_t n = strlen(path);
    while (n + 22 < PATH_MAX)
        n += (size_t)snprintf(path + n, sizeof path - n, "/.");
    snprintf(path + n, sizeof path - n, "/tokenizer.json");
    CHECK(!tokenizer_open_folder(&t, path, 8) && t.eos == -1, "EOS %d", t.eos);
    tokenizer_close(&t);
    remove(inside("t/tokenizer_config.json"));
}

/* All tokens of a list are ends, however many there are. */
static void any_number_of_end_tokens(void) {
    enum { MANY = 1000 };
    char json[256], generation[4 * MANY], *to = generation;
    Tokenizer t;
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    to += sprintf(to, "{\"eos_token_id\":[null");
    for (int i = 0; i < MANY; i++)
        to += sprintf(to, ",%d", i < MANY - 1 ? i % 4 : 5);
    sprintf(to, "]}");
    CHECK(!open_files(&t, json, NULL, generation), "%s", stderr_text());
    CHECK(t.ends.n == MANY && t.eos == 0 && tokenizer_is_end(&t, 5, false) &&
              !tokenizer_is_end(&t, 4, false),
          "%d ends", t.ends.n);
    tokenizer_close(&t);
}

/* A repeated merge has the rank of its last occurrence: "b c" precedes the
 * second "a b". */
static void a_repeated_merge_has_its_last_rank(void) {
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},"
        "\"merges\":[\"a b\",\"b c\",\"a b\"]}}";
    Tokenizer t;
    Tokens tokens;
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    CHECK(!tokenizer_encode(&t, "abc", 3, false, &tokens), "does not encode");
    CHECK(tokens.n == 2 && tokens.ids[0] == 0 && tokens.ids[1] == 4,
          "%d tokens, %d first", tokens.n, tokens.ids[0]);
    free(tokens.ids);
    tokenizer_close(&t);
}

/* Without <unk>, unknown characters are dropped. */
static void unknown_characters_without_unk(void) {
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,%s}}";
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

/* With <unk>, each unknown character or, with fuse_unk, each run of them is one
 * <unk>, as in the library. */
static void unknown_characters_with_unk(void) {
    static const int ids[][6] = {{0, 0, 0, 1, 2, 0}, {0, 1, 2, 0}};
    for (int fuse = 0; fuse < 2; fuse++) {
        char json[256];
        Tokenizer t;
        Tokens tokens;
        int n = fuse ? 4 : 6;
        snprintf(
            json, sizeof json,
            "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":%s,"
            "\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2},\"merges\":[]}}",
            fuse ? "true" : "false");
        CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
        CHECK(!tokenizer_encode(&t, "x\xc3\xa9zabx", 7, false, &tokens),
              "does not encode");
        CHECK(tokens.n == n &&
                  !memcmp(tokens.ids, ids[fuse], (size_t)n * sizeof **ids),
              "%d tokens", tokens.n);
        free(tokens.ids);
        tokenizer_close(&t);
    }
}

/* Without <unk>, characters without a piece are dropped, and their neighbours
 * may merge. */
static void unknown_characters_are_dropped(void) {
    char json[256];
    Tokenizer t;
    Tokens tokens;
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    CHECK(!tokenizer_encode(&t,
                            "xaz\xc3\xa9"
                            "bz",
                            7, false, &tokens),
          "does not encode");
    CHECK(tokens.n == 1 && tokens.ids[0] == 2, "%d tokens", tokens.n);
    free(tokens.ids);
    tokenizer_close(&t);
}

/* An added token has at most 512 bytes, because each position of a text is
 * compared with it. */
static void added_tokens_have_a_max_size(void) {
    for (int n = 512; n <= 513; n++) {
        char json[1024], name[514] = "";
        Tokenizer t;
        Tokens tokens;
        memset(name, 'z', (size_t)n);
        snprintf(
            json, sizeof json,
            "{\"added_tokens\":[{\"id\":5,\"content\":\"%.*s\"}],\"model\":{%s}}",
            n, name, PIECES);
        CHECK((open_files(&t, json, NULL, NULL) == 0) == (n == 512),
              "%d bytes: %s", n, stderr_text());
        if (n > 512) {
            CHECK(strstr(stderr_text(),
                         "special piece 5 has 513 bytes, expected at most 512"),
                  "%s", stderr_text());
            continue;
        }
        CHECK(!tokenizer_encode(&t, name, 512, false, &tokens),
              "does not encode");
        CHECK(tokens.n == 1 && tokens.ids[0] == 5, "%d tokens", tokens.n);
        free(tokens.ids);
        tokenizer_close(&t);
    }
}

/* As in Gemma: runs of U+2581 are user-defined tokens. They match these
 * characters and decode to spaces. */
static void user_defined_names_are_decoded(void) {
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
        "\"},"
        "\"added_tokens\":[{\"id\":1,\"content\":\"" SPACE_MARK SPACE_MARK
        "\",\"special\":false,\"normalized\":false}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"" SPACE_MARK
        "\":0,"
        "\"" SPACE_MARK SPACE_MARK "\":1,\"a\":2},\"merges\":[\"" SPACE_MARK
        " " SPACE_MARK "\"]}}";
    static const char *const texts[] = {"a  a", "a" SPACE_MARK SPACE_MARK "a"};
    Tokenizer t;
    CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
    for (int i = 0; i < 2; i++) {
        Tokens tokens;
        char back[16] = "";
        CHECK(!tokenizer_encode(&t, texts[i], strlen(texts[i]), false, &tokens),
              "text %d does not encode", i);
        CHECK(tokens.n == 3 && tokens.ids[1] == 1, "text %d: %d tokens", i,
              tokens.n);
        for (int k = 0, n; k < 3; k++) {
            const char *piece = tokenizer_decode(&t, -1, tokens.ids[k], &n);
            strncat(back, piece, (size_t)n);
        }
        CHECK(!strcmp(back, "a  a"), "text %d decodes to '%s'", i, back);
        free(tokens.ids);
    }
    tokenizer_close(&t);
}

/* Without a tokenizer file the end tokens are those of the model. */
static void without_a_tokenizer_the_model_sets_the_ends(void) {
    HashModel m = {16, 16, 1, 2, 1, 300, 16, true, 9};
    Model model;
    Tokenizer t;
    write_file("broken.json", "{");
    CHECK(!hashmodel_write(&m, inside("m.bin"), 0, 0) &&
              !model_open(&model, inside("m.bin")),
          "cannot make the model");
    stderr_hide();
    int found = model_open_tokenizer(&t, &model, "m.bin", inside("broken.json"),
                                     TOKENIZER_IF_READABLE);
    CHECK(stderr_show() == 1 && found == 0, "status %d: %s", found,
          stderr_text());
    CHECK(t.bos == 1 && t.eos == 2 && t.eot == -1 && !t.pieces.n,
          "BOS %d, EOS %d", t.bos, t.eos);
    model_close(&model);
}

/* One note, for any number of tokens that the post-processor appends. */
static void appended_tokens_cause_one_note(void) {
    static const char start[] =
        "{\"model\":{%s},\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}";
    static const char processor[] =
        ",{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},{\"SpecialToken\":{\"id\":\"x\"}}],"
        "\"special_tokens\":{\"x\":{\"ids\":[1]}}}";
    for (int n = 0; n < 4; n++) {
        char json[2048];
        Tokenizer t;
        int length = snprintf(json, sizeof json, start, PIECES);
        for (int i = 0; i < n; i++)
            length += snprintf(json + length, sizeof json - (size_t)length,
                               "%s", processor);
        snprintf(json + length, sizeof json - (size_t)length, "]}}");
        CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
        CHECK(!t.n_before && t.bos < 0, "BOS %d", t.bos);
        tokenizer_close(&t);
        CHECK(n ? one_line(stderr_text()) &&
                      strstr(stderr_text(),
                             "adds tokens after every text; norma does not\n")
                : !*stderr_text(),
              "%d: %s", n, stderr_text());
    }
}

/* A FIFO or a device in place of a file of the folder is refused; it neither
 * blocks nor is read without end. */
static void other_files_of_the_folder_are_regular_files(void) {
    static const char *const names[] = {
        "chat_template.jinja", "tokenizer_config.json",
        "generation_config.json", "config.json", "tokenizer.json"};
    char json[256], name[64];
    Tokenizer t;
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "t/%s", names[i / 2]);
        CHECK(!open_files(&t, json, NULL, NULL), "%s", stderr_text());
        tokenizer_close(&t);
        remove(inside(name));
        CHECK(!(i % 2 ? symlink("/dev/zero", inside(name))
                      : mkfifo(inside(name), 0600)),
              "no %s", name);
        stderr_hide();
        int opened = tokenizer_open_folder(&t, inside("t/tokenizer.json"), 8);
        stderr_show();
        remove(inside(name));
        CHECK(opened < 0 && one_line(stderr_text()) &&
                  strstr(stderr_text(), ": is not a regular file\n") &&
                  strstr(stderr_text(), names[i / 2]),
              "%s: %s", name, stderr_text());
    }
}

static void a_template_may_be_a_separate_file(void) {
    Tokenizer t;
    char json[256];
    snprintf(json, sizeof json, "{\"model\":{%s}}", PIECES);
    mkdir(inside("t"), 0700);
    write_file("t/chat_template.jinja", "xxxxx");
    CHECK(!open_files(&t, json, "{\"chat_template\":\"y\"}", NULL), "%s",
          stderr_text());
    CHECK(t.chat_template.n == 5 && !strcmp(t.chat_template.bytes, "xxxxx"),
          "%s", t.chat_template.bytes);
    tokenizer_close(&t);
    remove(inside("t/chat_template.jinja"));
}

/* ---- rules --------------------------------------------------------------- */

/* A repeated merge has the rank of its last occurrence: compared with a linear
 * search. */
static void merge_lookup_matches_a_linear_search(void) {
    enum { N = 12, N_RULES = 60 };
    static const char *const names[N] = {"a",  "b",  "c",  "aa", "ab", "ac",
                                         "ba", "bb", "bc", "ca", "cb", "cc"};
    int twice = 0;
    for (uint64_t round = 0; round < 50; round++) {
        Pieces p = {.unk = -1, .byte_level = true};
        int expected[3][3];
        memset(expected, -1, sizeof expected);
        p.texts[p.n_texts++] = malloc(2 * N);
        CHECK(!pieces_open(&p, N) && *p.texts, "no memory");
        for (int id = 0; id < N; id++) {
            memcpy(*p.texts + 2 * id, names[id], strlen(names[id]));
            p.list[id] = (Piece){.text = *p.texts + 2 * id,
                                 .length = (int)strlen(names[id]),
                                 .kind = PIECE_TEXT};
        }
        CHECK(!merges_begin(&p, N_RULES), "no memory");
        int n = (int)(hash64(78, round, 0) % N_RULES);
        for (int i = 0; i < n; i++) {
            int left = (int)(hash64(79, round, (uint64_t)i) % 3),
                right = (int)(hash64(80, round, (uint64_t)i) % 3);
            twice += expected[left][right] >= 0;
            expected[left][right] = i;
            CHECK(!merges_add_pair(&p, "x", names[left], 1, names[right], 1),
                  "rule %d", i);
        }
        CHECK(!merges_end(&p), "no memory");
        for (int left = 0; left < N; left++)
            for (int right = 0; right < N; right++) {
                const MergeRule *rule = merges_rule(&p, left, right);
                int rank = left < 3 && right < 3 ? expected[left][right] : -1;
                CHECK((rule ? rule->rank : -1) == rank,
                      "%d and %d: rank %d, expected %d", left, right,
                      rule ? rule->rank : -1, rank);
                CHECK(!rule || (rule->left == left && rule->right == right &&
                                rule->result == 3 + 3 * left + right),
                      "%d and %d become %d", left, right,
                      rule ? rule->result : -1);
            }
        pieces_close(&p);
    }
    CHECK(twice > 100, "%d repeated pairs", twice);
}

/* A float represents every rank up to this limit exactly. */
static void the_number_of_merges_has_a_limit(void) {
    Pieces p = {.unk = -1};
    CHECK(!pieces_open(&p, 1), "no memory");
    stderr_hide();
    int max = merges_begin(&p, 1 << 24);
    free(p.rules);
    p.rules = NULL;
    int more = merges_begin(&p, (1 << 24) + 1);
    int lines = stderr_show();
    pieces_close(&p);
    CHECK(max == 0 && more == -1 && lines == 1, "%d, %d", max, more);
    CHECK(!strcmp(stderr_text(),
                  "run: 16777217 merges, expected at most 16777216\n"),
          "%s", stderr_text());
}

/* With ignore_merges a word that is a piece is one token, even with id 0 and
 * without a merge. */
static void whole_words_may_be_token_0(void) {
    Tokenizer t;
    Tokens tokens;
    CHECK(
        !open_files(
            &t,
            "{\"model\":{\"ignore_merges\":true,\"vocab\":{\"ab\":0,\"a\":1,\"b\":2},\"merges\":[]}}",
            NULL, NULL),
        "%s", stderr_text());
    CHECK(!tokenizer_encode(&t, "ab", 2, false, &tokens), "does not encode");
    CHECK(tokens.n == 1 && tokens.ids[0] == 0, "%d tokens", tokens.n);
    free(tokens.ids);
    tokenizer_close(&t);
}

/* Token 0 may be the result of a merge, by merge rules and by scores. */
static void merges_may_make_token_0(void) {
    Tokenizer t;
    Tokens tokens;
    CHECK(
        !open_files(
            &t,
            "{\"model\":{\"vocab\":{\"ab\":0,\"a\":1,\"b\":2},\"merges\":[\"a b\"]}}",
            NULL, NULL),
        "%s", stderr_text());
    for (int rules = 1; rules >= 0; rules--) {
        CHECK(!tokenizer_encode(&t, "abbab", 5, false, &tokens),
              "does not encode");
        CHECK(tokens.n == 3 && tokens.ids[0] == 0 && tokens.ids[1] == 2 &&
                  tokens.ids[2] == 0,
              "%d tokens", tokens.n);
        free(tokens.ids);
        free(t.pieces.rules);
        t.pieces.rules = NULL;
        t.pieces.n_rules = 0;
    }
    tokenizer_close(&t);
}

/* A message shows 32 bytes of a name. */
static void long_names_are_cut_in_messages(void) {
    char expected[256];
    for (int n = 31; n <= 34; n++) {
        static const char left[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop",
                          right[] = "0123456789012345678901234567890123456789";
        Pieces p = {.unk = -1};
        int shown = n < 32 ? n : 32;
        CHECK(!pieces_open(&p, 1) && !merges_begin(&p, 1), "no memory");
        stderr_hide();
        int pair = merges_add_pair(&p, "x", left, (size_t)n, right, (size_t)n);
        stderr_show();
        snprintf(
            expected, sizeof expected,
            "run: x: merge 0 is of '%.*s' and '%.*s', expected pieces whose concatenation is a piece\n",
            shown, left, shown, right);
        CHECK(pair == -1 && !strcmp(stderr_text(), expected), "%s",
              stderr_text());
        stderr_hide();
        int one = merges_add(&p, "x", left, (size_t)n);
        stderr_show();
        snprintf(
            expected, sizeof expected,
            "run: x: merge 0 is of '%.*s' and '', expected pieces whose concatenation is a piece\n",
            shown, left);
        CHECK(one == -1 && !p.n_rules && !strcmp(stderr_text(), expected), "%s",
              stderr_text());
        pieces_close(&p);
    }
}

/* A damaged file opens with other tokens or is refused with one line. */
static void damaged_files(void) {
    size_t size = 0;
    char *json = file_read("tests/golden/bpe_qwen2.json", &size);
    int opened = 0;
    CHECK(json, "tests/golden/bpe_qwen2.json is missing");
    for (uint64_t i = 0; i < (test_thorough() ? 500 : 100); i++) {
        Tokenizer t;
        size_t at = hash64(41, i, 0) % size, cut = i % 4 ? size : at;
        char was = json[at];
        json[at] = (char)(i % 3 ? "0\"{}[],:9e\\"[hash64(41, i, 1) % 11]
                                : (char)hash64(41, i, 1));
        FILE *out_ = fopen(inside("damaged.json"), "wb");
        CHECK(out_, "cannot write");
        fwrite(json, 1, cut, out_);
        fclose(out_);
        json[at] = was;
        stderr_hide();
        bool opens =
            !tokenizer_open_folder(&t, inside("damaged.json"), N_QWEN2);
        int lines = stderr_show();
        CHECK(opens || lines == 1, "damage %d: %d lines", (int)i, lines);
        if (!opens)
            continue;
        Tokens tokens;
        opened++;
        CHECK(!tokenizer_encode(&t, "Once upon \xff 12 <think>", 23, true,
                                &tokens),
              "damage %d", (int)i);
        for (int k = 0; k < tokens.n; k++)
            CHECK(tokens.ids[k] >= 0 && tokens.ids[k] < N_QWEN2, "damage %d",
                  (int)i);
        free(tokens.ids);
        tokenizer_close(&t);
    }
    CHECK(opened > (test_thorough() ? 20 : 1), "%d open", opened);
    free(json);
}

/* ---- normal forms and patterns ------------------------------------------ */

/* The normalized text and its length. */
static void texts_are_normalized(void) {
    static const struct {
        Normalizer normalizer;
        bool space;
        const char *text, *expected;
    } cases[] = {
        {{0}, false, "", ""},
        {{0}, true, "", " "},
        {{0}, true, "\xe2\x96\x81\xff", " \xe2\x96\x81\xff"},
        {{.composes = true},
         false,
         "\xe2\x84\xab",
         "\xc3\x85"}, /* the Angstrom sign */
        {{.composes = true}, true, "e\xcc\x81", " \xc3\xa9"},
        {{.composes = true},
         false,
         "\xcc\x81"
         "e",
         "\xcc\x81"
         "e"},
        /* blocked by its own class */
        {{.composes = true}, false, "a\xcc\x81\xcc\x81", "\xc3\xa1\xcc\x81"},
        /* in order of their classes */
        {{.composes = true},
         false,
         "a\xcc\x81\xcc\xa3",
         "\xe1\xba\xa1\xcc\x81"},
        {{.composes = true}, false, "\xff\xcc\x81", "\xff\xcc\x81"},
        /* Korean: first and last syllables */
        {{.composes = true}, false, "\xe1\x84\x80\xe1\x85\xa1", "\xea\xb0\x80"},
        {{.composes = true},
         false,
         "\xe1\x84\x92\xe1\x85\xb5\xe1\x87\x82",
         "\xed\x9e\xa3"},
        {{.composes = true},
         false,
         "\xed\x9e\xa4\xe1\x86\xa8",
         "\xed\x9e\xa4\xe1\x86\xa8"}, /* after the last syllable */
        {{.composes = true},
         false,
         "\xea\xb0\x80\xe1\x86\xa7",
         "\xea\xb0\x80\xe1\x86\xa7"}, /* trailing index 0 does not compose */
        {{.composes = true}, false, "\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81"},
        {{.composes = true},
         false,
         "\xea\xb0\x81\xe1\x86\xa8",
         "\xea\xb0\x81\xe1\x86\xa8"}, /* has a trailing consonant already */
        {{.composes = true},
         false,
         "\xe1\x84\x93\xe1\x85\xa1",
         "\xe1\x84\x93\xe1\x85\xa1"}, /* next to the composing range */
        {{.composes = true},
         false,
         "\xe1\x84\x80\xe1\x85\xb6",
         "\xe1\x84\x80\xe1\x85\xb6"},
        {{.composes = true},
         false,
         "\xea\xb0\x80\xe1\x87\x83",
         "\xea\xb0\x80\xe1\x87\x83"},
        {{.composes = true, .replaces_invalid = true, .replaces_mark = true},
         false,
         "\xff\xe2\x96\x81\xcc\x81",
         "\xef\xbf\xbd \xcc\x81"},
        {{.replaces_invalid = true},
         false,
         "a\x80\xe2\x96\x81",
         "a\xef\xbf\xbd\xe2\x96\x81"},
        {{.replaces_mark = true}, true, "\xe2\x96\x81\xff", "  \xff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = 0;
        char *found = normalize(&cases[i].normalizer, cases[i].text,
                                strlen(cases[i].text), &n);
        const char *from = found && !cases[i].space ? found + 1 : found;
        n += cases[i].space;
        CHECK(found && n == strlen(cases[i].expected) &&
                  !memcmp(from, cases[i].expected, n),
              "case %zu: '%.*s'", i, (int)n, from);
        free(found);
    }
}

typedef struct {
    char words[64];
    size_t n;
    int left; /* words before the callback stops the search */
} Cut;

static int add_word(void *arg, const char *s, size_t n) {
    Cut *cut = arg;
    if (cut->n)
        cut->words[cut->n++] = '|';
    memcpy(cut->words + cut->n, s, n);
    cut->n += n;
    return --cut->left == 0 ? 7 : 0;
}

/* The words of a text, separated by |. */
static void texts_are_cut(void) {
    const struct {
        const char *steps[3], *text, *expected;
    } cases[] = {
        {{NULL}, "a b", "a b"},
        {{NULL}, "", ""},
        {{PATTERN_GPT2}, "", ""},
        {{PATTERN_GPT2}, "it's I'LL 've", "it|'s| I|'|LL| '|ve"},
        {{PATTERN_GPT2}, "'s'd'", "'s|'d|'"},
        {{PATTERN_GPT2}, "a  b \n c  ", "a| | b| \n| c|  "},
        {{PATTERN_GPT2}, " 12a?! b", " 12|a|?!| b"},
        {{LLAMA_3}, "it'S I'lL'", "it|'S| I|'lL|'"},
        {{LLAMA_3}, "it'\xc5\xbf", "it|'\xc5\xbf"},
        {{LLAMA_3}, "12345 6", "123|45| |6"},
        {{LLAMA_3}, "(a) ?!\n\r\nb", "(a|)| ?!\n\r\n|b"},
        {{LLAMA_3}, " \n \n  a", " \n \n| | a"},
        {{LLAMA_3}, "\ta  \t1", "\ta|  |\t|1"},
        {{LLAMA_3}, "\na\n", "\n|a|\n"},
        {{QWEN_2}, "123 a", "1|2|3| a"},
        /* as Hugging Face's library cuts them */
        {{SEED_CODER},
         "a!\n\nb (42)  don'T\n",
         "a|!|\n\n|b| (|4|2|)| | don|'T|\n"},
        {{SEED_CODER},
         " {\r\n\t}; \n 1\xc2\xb2 \xc3\xa9!\n",
         " {|\r\n|\t|};| \n| |1|\xc2\xb2| \xc3\xa9|!|\n"},
        {{PATTERN_DIGIT}, "ab 12 c3", "ab |1|2| c|3"},
        {{"\\p{N}{1,3}"}, "1234567a", "123|456|7|a"},
        {{PATTERN_DIGITS}, "1234567a12", "1234567|a|12"},
        {{PATTERN_SPACED}, "a b  c ", "a| b| | c| "},
        {{PATTERN_DIGIT, PATTERN_GPT2}, "a 12 b", "a| |1|2| b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Cut cut = {.left = -1};
        size_t size = strlen(cases[i].text);
        CHECK(!pretokenize(cases[i].steps, cases[i].text, size, add_word, &cut),
              "case %zu", i);
        CHECK(!strcmp(cut.words, cases[i].expected),
              "case %zu: '%s', expected '%s'", i, cut.words, cases[i].expected);
        cut = (Cut){.left = 1};
        int status_ =
            pretokenize(cases[i].steps, cases[i].text, size, add_word, &cut);
        CHECK((status_ != 0) == (size > 0), "case %zu: status %d", i, status_);
    }
}

/* ---- memory ------------------------------------------------------------- */

/* Opens, encodes, closes; also opens a refused file. */
static void use_memory(const char *json, const char *refused) {
    static const char text[] =
        "Once upon e\xcc\x81 \xff 12<think>  x<s> y\xf0\x9f\x99\x82";
    static const char *const paths[] = {"tests/golden/bpe_llama2.json",
                                        "tests/golden/bpe_qwen2.json"};
    for (int i = 0; i < 4; i++) {
        Tokenizer t;
        Tokens tokens;
        int opened = i < 2 ? tokenizer_open_folder(&t, paths[i], N_QWEN2)
                           : open_files(&t, i == 2 ? json : refused,
                                        "{\"chat_template\":\"y\"}", NULL);
        if (opened)
            continue;
        if (i == 2)
            t.space_prefix = SPACE_IF_NONE;
        if (tokenizer_set_chat_template(&t, text, 20))
            abort();
        if (tokenizer_encode(&t, text, sizeof text - 1, true, &tokens))
            abort();
        free(tokens.ids);
        tokenizer_close(&t);
    }
}

/* Repeated use leaves no more memory allocated than one use. */
static void memory_is_freed(void) {
    char json[512], refused[512];
    snprintf(json, sizeof json,
             "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{%s}}",
             PIECES);
    snprintf(refused, sizeof refused,
             "{\"model\":{%s,\"x\":{\"y\":1,\"y\":2}}}", PIECES);
    use_memory(json, refused);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 3; i++)
        use_memory(json, refused);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks + after.hblkhd <= before.uordblks + before.hblkhd,
          "%zu bytes more",
          after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
}

/* ---- into GGUF files ---------------------------------------------------- */

/* A llama2.c model of this vocabulary, converted with this tokenizer. */
static int convert(const char *tokenizer, int vocab_size) {
    char here[PATH_MAX] = "";
    HashModel m = {16, 16, 1, 2, 1, vocab_size, 16, true, 9};
    if (*tokenizer != '/' && !realpath(tokenizer, here))
        return -1;
    hashmodel_write(&m, inside("m.bin"), 0, 0);
    return run("m.bin -z %s -m convert -q f16 -o m.gguf",
               *here ? here : tokenizer);
}

static int reopen(Tokenizer *t, Model *model, const char *name,
                  int vocab_size) {
    if (model_open(model, inside(name)))
        return -1;
    return gguf_read_tokenizer(t, model->files, name, vocab_size, true) == 1
               ? 0
               : -1;
}

static void a_gguf_file_has_the_same_tokens(void) {
    static const struct {
        const char *path;
        int n;
    } files[] = {{"tests/golden/bpe_llama3.json", N_LLAMA3},
                 {"tests/golden/bpe_qwen2.json", N_QWEN2},
                 {"tests/golden/bpe_llama2.json", N_LLAMA2}};
    for (int i = 0; i < 3; i += test_fast() ? 2 : 1) {
        Tokenizer t, t_gguf;
        Model model;
        CHECK(!tokenizer_open_folder(&t, files[i].path, files[i].n),
              "%s does not open", files[i].path);
        CHECK(convert(files[i].path, files[i].n) == 0, "%s: %s", files[i].path,
              err);
        CHECK(!reopen(&t_gguf, &model, "m.gguf", files[i].n),
              "%s does not open", files[i].path);
        CHECK(t.bos == t_gguf.bos && t.n_before == t_gguf.n_before &&
                  t.normalizer.composes == t_gguf.normalizer.composes,
              "BOS %d", t_gguf.bos);
        /* not stored in GGUF, or different in SentencePiece */
        for (int id = 0; id < t.pieces.n; id++) {
            t.pieces.list[id].raw = true;
            t.pieces.list[id].strips_left = t.pieces.list[id].strips_right =
                false;
            if (i == 2 && t.pieces.list[id].kind == PIECE_SPECIAL)
                t.pieces.list[id].kind = PIECE_CONTROL;
        }
        check_same_tokens(&t, &t_gguf);
        tokenizer_close(&t);
        tokenizer_close(&t_gguf);
        model_close(&model);
    }
}

#define QWEN2  "tests/golden/bpe_qwen2.json", N_QWEN2
#define LLAMA2 "tests/golden/bpe_llama2.json", N_LLAMA2
#define LLAMA2_NORMALIZER                                                                                    \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":" \
    "\"Replace\","                                                                                           \
    "\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},\"pre_tokenizer\":null"
#define METASPACE(scheme)                                                                                          \
    "null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"" scheme \
    "\",\"split\":false}"

/* Converts with a tokenizer.json in which the string `from` is replaced by
 * `to`. */
static int convert_changed(const char *path, int vocab_size, const char *from,
                           const char *to) {
    size_t size = 0;
    char *json = file_read(path, &size), *at = json ? strstr(json, from) : NULL,
         changed[PATH_MAX];
    FILE *out_ = at ? fopen(inside("changed.json"), "wb") : NULL;
    if (!out_)
        abort();
    fprintf(out_, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    fclose(out_);
    free(json);
    snprintf(changed, sizeof changed, "%s", inside("changed.json"));
    return convert(changed, vocab_size);
}

static void differences_in_gguf_are_noted(void) {
    static const char
        white_space[] =
            "note: some added tokens treat the white space in them or next to them "
            "differently in GGUF\n",
        spaces[] =
            "note: GGUF always inserts a space before a text; the folder does so only if the text has "
            "none\n";
    static const struct {
        const char *from, *to, *note;
    } cases[] = {{"\"lstrip\":false", "\"lstrip\":false", ""},
                 {"\"lstrip\":false", "\"lstrip\":true", white_space},
                 {"\"rstrip\":false", "\"rstrip\":true", white_space},
                 {LLAMA2_NORMALIZER, METASPACE("first"), spaces},
                 /* as in Phi-3 */
                 {"false,\"special\":true},{\"id\":2",
                  "false,\"special\":false},{\"id\":2", white_space},
                 {LLAMA2_NORMALIZER, METASPACE("always"), spaces},
                 {LLAMA2_NORMALIZER, METASPACE("never"), ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(convert_changed(LLAMA2, cases[i].from, cases[i].to) == 0,
              "case %zu: %s", i, err);
        CHECK(strstr(err, cases[i].note) == err &&
                  !strncmp(err + strlen(cases[i].note), "note: wrote ", 12),
              "case %zu: '%s', expected '%s'", i, err, cases[i].note);
    }
}

static void tokenizers_that_gguf_cannot_represent_are_refused(void) {
    static const struct {
        const char *path;
        int n;
        const char *from, *to, *mention;
    } cases[] = {
        {QWEN2, "\"ignore_merges\":false", "\"ignore_merges\":true",
         "no name for its pre-tokenizer ((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}, ignore"},
        {QWEN2, "\\\\p{N}|", "\\\\p{N}{1,3}|", NULL},
        {QWEN2, "\"add_prefix_space\":false", "\"add_prefix_space\":true",
         "are not supported together"},
        {QWEN2, "\"pre_tokenizer\":{",
         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true},\"before\":{",
         "ByteLevel inserts a space before a text"},
        {LLAMA2, "<0x41>", "<0xXX>", "byte pieces are missing"},
        {LLAMA2, "<0xE4>", "<0xXX>",
         "tokenize differently: characters without a piece"},
        {LLAMA2, "<0x01>", "<0xXX>",
         "tokenize differently: characters without a piece"},
        {LLAMA2,
         "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
         "\"content\":\"\xe2\x96\x81\"}",
         "null", "tokenize differently: U+2581"},
        {LLAMA2, "[{\"id\":0,",
         "[{\"id\":821,\"content\":\"used\",\"special\":true},{\"id\":0,",
         "tokenize differently: merges of added tokens"},
        {LLAMA2, "\"ignore_merges\":false", "\"ignore_merges\":true",
         "no name for its pre-tokenizer ("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status_ = convert_changed(cases[i].path, cases[i].n, cases[i].from,
                                      cases[i].to);
        CHECK((status_ == 0) == !cases[i].mention, "case %zu: %s", i, err);
        CHECK(!cases[i].mention ||
                  (strstr(err, cases[i].mention) && one_line(err)),
              "case %zu: %s", i, err);
    }
}

/* A piece this long is not searched for splits without a merge. */
static void pieces_too_long_to_check_are_refused(void) {
    static char json[1 << 14];
    char path[PATH_MAX];
    for (int n = 512; n <= 513; n++) {
        size_t at = (size_t)sprintf(
            json,
            "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
            "\"content\":\"" SPACE_MARK "\"},\"model\":{\"vocab\":{");
        for (int b = 0; b < 256; b++)
            at +=
                (size_t)sprintf(json + at, "\"<0x%02X>\":%d,", (unsigned)b, b);
        sprintf(json + at,
                "\"%0*d\":256},\"byte_fallback\":true,\"merges\":[]}}", n, 0);
        write_file("long.json", json);
        snprintf(path, sizeof path, "%s", inside("long.json"));
        CHECK(convert(path, 300) == (n > 512), "%d bytes: status %d, %s", n,
              status, err);
        CHECK(n == 512 ||
                  strstr(
                      err,
                      "its merges are not those of a SentencePiece vocabulary"),
              "%s", err);
    }
}

/* As in Gemma: added tokens for line ends and for runs of spaces, which merge
 * first. Only U+2581 in a text differs. A run of spaces that merges do not
 * produce is refused. */
static void runs_of_spaces_are_kept(void) {
    static const char *const texts[] = {"a  a\n\na", "   aa", "  ",
                                        "a    a a\n   a\n\n\n", " a<b> a"};
    static char json[1 << 14], path[PATH_MAX];
    for (int merges = 1; merges >= 0; merges--) {
        Tokenizer t, t_gguf;
        Model model;
        size_t at = (size_t)sprintf(
            json,
            "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
            "\"},"
            "\"added_tokens\":[{\"id\":256,\"content\":\"" SPACE_MARK SPACE_MARK
            "\"},"
            "{\"id\":257,\"content\":\"\\n\\n\"},{\"id\":258,\"content\":\"<b>\"}],\"model\":{\"vocab\":{");
        for (int b = 0; b < 256; b++)
            at +=
                (size_t)sprintf(json + at, "\"<0x%02X>\":%d,", (unsigned)b, b);
        sprintf(
            json + at,
            "\"" SPACE_MARK SPACE_MARK
            "\":256,\"\\n\\n\":257,\"<b>\":258,\"" SPACE_MARK
            "\":259,\"a\":260,"
            "\"\\n\":261,\"" SPACE_MARK
            "a\":262,\"aa\":263},\"byte_fallback\":true,\"merges\":[%s\"\\n \\n\",\"" SPACE_MARK
            " a\",\"a a\"]}}",
            merges ? "\"" SPACE_MARK " " SPACE_MARK "\"," : "");
        write_file("spaces.json", json);
        snprintf(path, sizeof path, "%s", inside("spaces.json"));
        CHECK(convert(path, 300) == !merges, "status %d, %s", status, err);
        CHECK(strstr(err, merges
                              ? "note: some added tokens treat the white space"
                              : "text next to an added token"),
              "%s", err);
        if (!merges)
            return;
        size_t size = 0;
        char *bytes = file_read(inside("m.gguf"), &size);
        CHECK(bytes && memmem(bytes, size, "\2\0\0\0\0\0\0\0  ", 10),
              "the piece is not two spaces in the file");
        free(bytes);
        CHECK(!tokenizer_open_folder(&t, path, 300) &&
                  !reopen(&t_gguf, &model, "m.gguf", 300),
              "does not open");
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            Tokens a, b;
            CHECK(!tokenizer_encode(&t, texts[i], strlen(texts[i]), true, &a) &&
                      !tokenizer_encode(&t_gguf, texts[i], strlen(texts[i]),
                                        true, &b),
                  "no memory");
            CHECK(a.n == b.n && (!a.n || !memcmp(a.ids, b.ids,
                                                 (size_t)a.n * sizeof *a.ids)),
                  "'%s': %d tokens, %d in GGUF", texts[i], a.n, b.n);
            free(a.ids);
            free(b.ids);
        }
        tokenizer_close(&t);
        tokenizer_close(&t_gguf);
        model_close(&model);
    }
}

/* ---- random tokenizers, into GGUF files --------------------------------- */

enum { N_RANDOM = 300 }; /* max pieces */

/* A tokenizer.json under construction. */
typedef struct {
    uint64_t seed, drawn;
    FILE *out;
    int n, n_texts;
    char texts[24]
              [32]; /* of the merged pieces, each made of two earlier ones */
} Random;

static int draw(Random *r, int n) {
    return n > 0 ? (int)(hash64(r->seed, 77, r->drawn++) % (uint64_t)n) : 0;
}

static void add_piece(Random *r, const char *text) {
    fprintf(r->out, "%s\"%s\":%d", r->n ? "," : "", text, r->n), r->n++;
}

static bool has_text(const Random *r, const char *text, int n) {
    for (int i = 0; i < r->n_texts; i++)
        if ((int)strlen(r->texts[i]) == n &&
            !strncmp(r->texts[i], text, (size_t)n))
            return true;
    return false;
}

/* Single characters, then pieces of two pieces. */
static void add_texts(Random *r, const char *const *characters, int n) {
    r->n_texts = 0;
    for (int i = 0; i < n; i++)
        if (i < 4 || draw(r, 2))
            strcpy(r->texts[r->n_texts++], characters[i]);
    for (int i = 0; i < 10; i++) {
        char text[64];
        const char *left = r->texts[draw(r, r->n_texts)],
                   *right = r->texts[draw(r, r->n_texts)];
        int length = snprintf(text, sizeof text, "%s%s", left, right);
        if (length < 32 && !has_text(r, text, length))
            strcpy(r->texts[r->n_texts++], text);
    }
    for (int i = 0; i < r->n_texts; i++)
        add_piece(r, r->texts[i]);
}

/* Every pair that makes a piece, ordered by this piece, then by the longer left
 * part. */
static void add_merges(const Random *r) {
    bool first = true;
    for (int i = 0; i < r->n_texts; i++)
        for (int n = (int)strlen(r->texts[i]) - 1; n > 0; n--) {
            const char *rest = r->texts[i] + n;
            if (!has_text(r, r->texts[i], n) ||
                !has_text(r, rest, (int)strlen(rest)))
                continue;
            fprintf(r->out, "%s[\"%.*s\",\"%s\"]", first ? "" : ",", n,
                    r->texts[i], rest);
            first = false;
        }
}

/* With all, most or no byte pieces; with U+2581 for spaces in one of five ways,
 * or not at all. */
static void write_characters(Random *r) {
    static const char *const characters[] = {
        SPACE_MARK, "a", "b", "c", "\xc3\xa9", "\xe4\xb8\xad"};
    static const char replace[] =
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\" \"},\"content\":\"" SPACE_MARK "\"}]},";
    static const char *const ways[] = {"first", "always", "never"};
    int bytes = draw(r, 4), way = draw(r, 11), missing = draw(r, 256);
    if (way > 7)
        fprintf(
            r->out,
            "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE_MARK
            "\",\"prepend_scheme\":\"%s\",\"split\":false},",
            ways[way - 8]);
    else if (way)
        fprintf(r->out, replace,
                way > 2 ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE_MARK
                          "\"},"
                        : "");
    fprintf(r->out,
            "\"model\":{\"type\":\"BPE\",\"fuse_unk\":%s%s%s,\"vocab\":{",
            draw(r, 2) ? "true" : "false",
            draw(r, 2) ? ",\"unk_token\":\"<unk>\"" : "",
            r->seed % 16 ? ",\"byte_fallback\":true" : "");
    add_piece(r, "<unk>");
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        if (bytes > 1 || (bytes == 1 && b != missing))
            add_piece(r, name);
    }
    add_texts(r, characters, 6);
}

static void write_byte_level(Random *r) {
    static const char *const letters[] = {"a", "b", "c", "d"};
    int missing = draw(r, 2) ? 'z' : -1;
    fprintf(
        r->out,
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\"%s,\"vocab\":{",
        draw(r, 2) ? ",\"unk_token\":\"<unk>\"" : "");
    add_piece(r, "<unk>");
    for (int b = 0; b < 256; b++) {
        char name[3] = {0};
        byte_name(name, (uint8_t)b);
        if ((b < 'a' || b > 'd') && b != missing && b != '"' && b != '\\')
            add_piece(r, name);
    }
    add_piece(r, "\\\"");
    add_piece(r, "\\\\");
    add_texts(r, letters, 4);
}

/* At most one added token: user-defined or special, raw or normalized, with or
 * without merges that make it. */
static int write_random(Random *r, bool *byte_level) {
    const char *path = inside("random.json");
    if (!(r->out = fopen(path, "wb")))
        return -1;
    fputc('{', r->out);
    *byte_level = draw(r, 4) == 0;
    (*byte_level ? write_byte_level : write_characters)(r);
    fputs("},\"merges\":[", r->out);
    add_merges(r);
    fputs("]}", r->out);
    int kind = draw(r, 10);
    if (kind < 5) {
        bool own = draw(r, 3) > 0;
        fprintf(
            r->out,
            ",\"added_tokens\":[{\"id\":%d,\"content\":\"%s\",\"special\":%s,\"normalized\":%s}]",
            own ? r->n : r->n - 1, own ? "<u>" : r->texts[r->n_texts - 1],
            kind == 4 ? "true" : "false", kind % 2 ? "true" : "false");
    }
    fputc('}', r->out);
    return fclose(r->out);
}

/* Whether the text contains an added token that is a control token in the GGUF
 * file. */
static bool has_control(const Tokenizer *t, const char *text) {
    for (const Piece *p = t->pieces.list;
         p < t->pieces.list + t->pieces.n && t->space_prefix != SPACE_NEVER;
         p++)
        if (p->kind == PIECE_USER && p->raw &&
            memmem(text, strlen(text), p->text, (size_t)p->length))
            return true;
    return false;
}

/* Random texts have the same ids, except for the leading space and added
 * tokens, which notes mention. */
static void check_random(const Tokenizer *t, const Tokenizer *gguf, Random *r) {
    static const char *const parts[] = {"a",
                                        "b",
                                        "c",
                                        "ab",
                                        " ",
                                        "\xc3\xa9",
                                        "\xe4\xb8\xad",
                                        "z",
                                        "zz",
                                        "0",
                                        "\n",
                                        "\xc3\x9f",
                                        "<u>",
                                        "d",
                                        "<unk>",
                                        "\xf0\x9f\x99\x82",
                                        "a",
                                        "b"};
    bool noted =
        t->space_prefix == SPACE_IF_NONE || t->space_prefix == SPACE_ONCE;
    const Piece *last = &t->pieces.list[r->n];
    bool special = last->kind == PIECE_SPECIAL ||
                   t->pieces.list[r->n - 1].kind == PIECE_SPECIAL;
    for (int i = 0; i < 50; i++) {
        char text[64] = "";
        for (int k = draw(r, 12); k >= 0; k--)
            strcat(text, parts[draw(r, 18)]);
        if ((noted && *text == ' ') || special || has_control(t, text))
            continue;
        Tokens a, b;
        CHECK(!tokenizer_encode(t, text, strlen(text), true, &a) &&
                  !tokenizer_encode(gguf, text, strlen(text), true, &b),
              "no memory");
        bool same =
            a.n == b.n &&
            (!a.n || !memcmp(a.ids, b.ids, (size_t)a.n * sizeof *a.ids));
        CHECK(same, "tokenizer %d, '%s': %d tokens, %d in the GGUF file",
              (int)r->seed, text, a.n, b.n);
        free(a.ids);
        free(b.ids);
    }
}

static void random_tokenizers_convert_exactly_or_are_refused(void) {
    static Random r;
    HashModel m = {16, 16, 1, 2, 1, N_RANDOM, 16, true, 9};
    int written[2] = {0}, refused[2] = {0}, closed = 0;
    Model model;
    CHECK(!hashmodel_write(&m, inside("m.bin"), 0, 0) &&
              !model_open(&model, inside("m.bin")),
          "cannot make the model");
    for (uint64_t seed = 0; seed < (test_thorough() ? 600 : 60); seed++) {
        Tokenizer t, t_gguf;
        Model again;
        bool byte_level;
        r = (Random){.seed = seed};
        CHECK(!write_random(&r, &byte_level) && r.n < N_RANDOM, "cannot write");
        stderr_hide();
        bool opens =
            !tokenizer_open_folder(&t, inside("random.json"), N_RANDOM);
        bool representable =
            opens && !gguf_write_model(&model, &t, (GgufForm){.type = TYPE_F16},
                                       "m.bin", inside("m.gguf"));
        int lines = stderr_show();
        CHECK(representable || lines == 1, "tokenizer %d: %d lines: %s",
              (int)seed, lines, stderr_text());
        (representable ? written : refused)[byte_level]++;
        if (opens && !representable)
            closed++;
        if (representable) {
            CHECK(!reopen(&t_gguf, &again, "m.gguf", N_RANDOM),
                  "tokenizer %d does not open", (int)seed);
            check_random(&t, &t_gguf, &r);
            tokenizer_close(&t_gguf);
            model_close(&again);
        }
        if (opens)
            tokenizer_close(&t);
    }
    model_close(&model);
    CHECK(!test_thorough() ||
              (written[0] > 50 && written[1] > 30 && refused[0] > 50 &&
               refused[1] > 10 && closed > 100),
          "%d and %d written, %d and %d refused", written[0], written[1],
          refused[0], refused[1]);
}

static int count_word(void *n, const char *s, size_t size) {
    (void)s;
    (void)size;
    return ++*(int *)n < 0;
}

/* Every character is a digit, or none, as for the tokenizers library: 13 are
 * not in \p{N} of Unicode 17. */
static void digits_are_those_of_the_library(void) {
    static const char *const steps[] = {PATTERN_DIGIT, NULL};
    unsigned first = 0, last = 0;
    int n_digits = 0;
    FILE *in = fopen("tests/golden/digits.txt", "r");
    CHECK(in && fscanf(in, "%x %x", &first, &last) == 2,
          "no tests/golden/digits.txt");
    for (unsigned code = 0; code < 0x110000; code++) {
        char text[8] = "a";
        int words = 0;
        if (code >= 0xd800 && code < 0xe000)
            continue;
        if (code > last && fscanf(in, "%x %x", &first, &last) != 2)
            first = last = UINT_MAX;
        bool is_digit = code >= first && code <= last;
        size_t n = 1 + (size_t)utf8_encode(text + 1, code);
        text[n] = 'b';
        CHECK(!pretokenize(steps, text, n + 1, count_word, &words) &&
                  words == (is_digit ? 3 : 1),
              "U+%04X: %d words", code, words);
        n_digits += is_digit;
    }
    fclose(in);
    CHECK(n_digits > 1900, "%d digits", n_digits);
}

void suite_bpe(void) {
    binary_folder("bpe");
    TEST(trained_tokenizers_match_the_library);
    TEST(pretokenizers_match_the_library);
    TEST(patterns_are_recognized_by_their_regular_expressions);
    TEST(a_space_is_prepended_only_to_a_whole_text);
    TEST(digits_are_those_of_the_library);
    TEST(minimind_matches_the_library);
    TEST(turns_match_transformers);
    TEST(messages_contain_no_added_tokens);
    TEST(closed_bytes_are_in_no_added_token);
    TEST(unsupported_options_are_refused);
    TEST(other_files_of_the_folder_are_read);
    TEST(normalizer_and_pretokenizer_set_the_pipeline);
    TEST(default_values_are_accepted);
    TEST(added_tokens_match_by_their_options);
    TEST(normalized_special_tokens_match_after_a_space);
    TEST(byte_pieces_need_byte_fallback);
    TEST(single_words_stand_alone);
    TEST(several_tokens_precede_a_text);
    TEST(merges_have_two_notations);
    TEST(tokenizer_config_sets_bos_and_eos);
    TEST(tokenizer_config_adds_tokens);
    TEST(names_make_pieces_special);
    TEST(named_tokens_get_the_next_ids);
    TEST(the_type_decides_about_the_class);
    TEST(the_class_decides_where_a_space_is_inserted);
    TEST(templates_know_all_named_tokens);
    TEST(older_files_of_the_folder_are_read);
    TEST(end_tokens_come_from_two_files);
    TEST(paths_of_any_length);
    TEST(any_number_of_end_tokens);
    TEST(a_repeated_merge_has_its_last_rank);
    TEST(unknown_characters_without_unk);
    TEST(unknown_characters_with_unk);
    TEST(unknown_characters_are_dropped);
    TEST(added_tokens_have_a_max_size);
    TEST(user_defined_names_are_decoded);
    TEST(without_a_tokenizer_the_model_sets_the_ends);
    TEST(appended_tokens_cause_one_note);
    TEST(other_files_of_the_folder_are_regular_files);
    TEST(a_template_may_be_a_separate_file);
    TEST(merge_lookup_matches_a_linear_search);
    TEST(the_number_of_merges_has_a_limit);
    TEST(whole_words_may_be_token_0);
    TEST(merges_may_make_token_0);
    TEST(long_names_are_cut_in_messages);
    TEST(damaged_files);
    TEST(texts_are_normalized);
    TEST(texts_are_cut);
    TEST(memory_is_freed);
    TEST(a_gguf_file_has_the_same_tokens);
    TEST(differences_in_gguf_are_noted);
    TEST(tokenizers_that_gguf_cannot_represent_are_refused);
    TEST(pieces_too_long_to_check_are_refused);
    TEST(runs_of_spaces_are_kept);
    TEST(random_tokenizers_convert_exactly_or_are_refused);
}
