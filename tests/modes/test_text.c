/* test_text.c: where a text ends, and log-probabilities. */
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/json.h"

#include "tests/support/binary.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/hashmodel.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char model[PATH_MAX];
static char plain[1 << 14];

static bool open_model(void) {
    if (!*model)
        binary_folder("text");
    return realpath("models/stories.gguf", model);
}

/* The text ends before the first stop string, wherever tokens begin and end,
 * with and without draft tokens, and together with other texts. */
static void stop_strings_end_a_text(void) {
    static const char prompt[] = "Once upon a time", *const options[] = {
                                                         "--lookup 0", "",
                                                         "-b 3 -j 2"};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK_RUN("%s -i '%s' -t 0 -n 120", model, prompt);
    memcpy(plain, out, sizeof plain);
    size_t first = strlen(prompt), n = strlen(plain);
    for (size_t at = first; at + 9 < n; at += test_fast() ? 200 : 90)
        for (size_t size = 1; size < 9; size += 4) {
            char stop[16] = "", expected[1 << 14];
            memcpy(stop, plain + at, size);
            if (strpbrk(stop, "'\n"))
                continue;
            size_t end = (size_t)(strstr(plain + first, stop) - plain);
            snprintf(expected, sizeof expected, "%.*s\n", (int)end, plain);
            for (int i = 0; i < 3; i++) {
                CHECK_RUN("%s -i '%s' -t 0 -n 120 %s --stop never --stop '%s'",
                          model, prompt, options[i], stop);
                CHECK(!strcmp(out, expected),
                      "--stop '%s' %s: '%s', expected '%s'", stop, options[i],
                      out, expected);
            }
            CHECK_RUN(
                "%s -i '%s' -t 0 -n 120 --samples 3 --parallel 2 --no-echo --stop '%s'",
                model, prompt, stop);
            const char *last = strstr(out, "=== prompt 1");
            for (int i = 0; i < 2 && last; i++)
                last = strstr(last + 1, "=== prompt 1");
            CHECK(last && !strcmp(strchr(last, '\n') + 1, expected + first),
                  "samples, --stop '%s': '%s'", stop, out);
        }
}

/* Half of a stop string is written if the other half does not follow, and a
 * stop string may contain part of a character. */
static void parts_of_stop_strings_are_written(void) {
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK_RUN("%s -i 'Once upon a time' -t 0 -n 60", model);
    memcpy(plain, out, sizeof plain);
    for (size_t n = 1; n < 20; n += 6) {
        char stop[64];
        snprintf(stop, sizeof stop, "%.*s#", (int)n,
                 plain + strlen(plain) - n - 1);
        CHECK_RUN("%s -i 'Once upon a time' -t 0 -n 60 --stop '%s'", model,
                  stop);
        CHECK(!strcmp(out, plain), "--stop '%s': '%s', expected '%s'", stop,
              out, plain);
    }
}

/* A stop string may begin inside a character: the bytes before it are written.
 * Almost uniform sampling produces characters of several byte pieces. */
static void stop_strings_begin_inside_characters(void) {
    size_t at = 0, length;
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int seed = 1, i = 4; seed < 200 && !at; seed++) {
        CHECK_RUN("%s -i Once -t 1000 -p 0 -n 256 -s %d", model, seed);
        memcpy(plain, out, sizeof plain);
        for (i = 4; plain[i + 1] && !at; i++)
            if (utf8_read(plain + i, 4, &length) < UTF8_END && length > 1)
                at = (size_t)i;
        for (int from = 0; from < 2 && at; from++) {
            char stop[4] = {0}, expected[1 << 14];
            memcpy(stop, plain + at + from, (size_t)(2 - from));
            size_t end = (size_t)(strstr(plain + 4, stop) - plain);
            snprintf(expected, sizeof expected, "%.*s\n", (int)end, plain);
            CHECK_RUN("%s -i Once -t 1000 -p 0 -n 256 -s %d --stop '%s'", model,
                      seed, stop);
            CHECK(!strcmp(out, expected),
                  "--stop of %zu bytes: '%s', expected '%s'", strlen(stop), out,
                  expected);
        }
    }
    CHECK(at > 0, "no text has a character of several bytes");
}

/* Log-probabilities, JSON, stop strings that do not occur, other texts beside
 * it, draft tokens and the size of a chunk do not change a text. */
static void options_do_not_change_a_text(void) {
    static const char *const options[] = {
        "--json",
        "--json --logprobs 3",
        "--json --stop never --stop '@@'",
        "--json --lookup 0 -j 1",
        "--json -b 3",
        "--json --samples 3 --parallel 3 --logprobs 1"};
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK_RUN("%s -i 'Once upon a time' -s 11 -n 90 --no-echo", model);
    memcpy(plain, out, sizeof plain);
    plain[strlen(plain) - 1] = '\0'; /* the last newline */
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        JsonFile json;
        CHECK_RUN("%s -i 'Once upon a time' -s 11 -n 90 %s", model, options[i]);
        CHECK(!json_parse(&json, "output", out, strcspn(out, "\n")), "%s", out);
        CHECK(json_is(json_get(json.values, "completion"), plain),
              "%s: %s, expected %s", options[i], out, plain);
        json_close(&json);
    }
}

/* JSON has the prompt and what follows it apart; tokens after a stop string do
 * not count. */
static void json_says_why_a_text_ended(void) {
    JsonFile json;
    int64_t tokens[2];
    CHECK(open_model(), "models/stories.gguf is missing");
    for (int i = 0; i < 2; i++) {
        CHECK_RUN(
            "%s -i 'Once upon a time' -t 0 -n 60 --json -s 7 --lookup %d --stop 'quiet v'",
            model, 15 * i);
        CHECK(!json_parse(&json, "output", out, strlen(out)), "%s", out);
        const Json *completion = json_get(json.values, "completion");
        CHECK(json_is(json_get(json.values, "prompt"), "Once upon a time") &&
                  json_has_kind(completion, JSON_STRING) &&
                  json_is(json_get(json.values, "finish_reason"), "stop") &&
                  !strcmp(json_shown(json_get(json.values, "seed")), "7") &&
                  !strstr(completion->text, "quiet v"),
              "%s", out);
        CHECK(json_integer(json_get(json.values, "tokens"), &tokens[i]) &&
                  tokens[i] > 3,
              "%s", out);
        json_close(&json);
    }
    CHECK(tokens[0] == tokens[1], "%lld and %lld tokens", (long long)tokens[0],
          (long long)tokens[1]);
}

/* The logarithm of the sum of exp. */
static double log_sum(const float *logits, int n) {
    double sum = 1;
    for (int i = 1; i < n; i++)
        sum += exp((double)logits[i] - (double)logits[0]);
    return log(sum) + (double)logits[0];
}

/* Each log-probability equals a softmax in double of the logits that -m logits
 * writes, and the likeliest tokens are in order. */
static void logprobs_follow_from_the_logits(void) {
    enum { N = 12, TOP = 4, PROMPT = 3 };
    char ids[1024] = "5,9,300", *at = ids + strlen(ids);
    JsonFile json;
    CHECK(open_model(), "models/stories.gguf is missing");
    CHECK_RUN("%s --tokens %s -s 3 -n %d --json --logprobs %d", model, ids,
              N + PROMPT, TOP);
    CHECK(!json_parse(&json, "output", out, strlen(out)), "%s", out);
    const Json *list = json_get(json.values, "logprobs");
    CHECK(list && list->length == N, "%s", out);
    JSON_EACH(t, list, JSON_ARRAY)
        at += sprintf(at, ",%s", json_shown(json_get(t, "token")));
    CHECK_RUN("%s --tokens %s -m logits -o l", model, ids);
    size_t size;
    float *logits = (void *)file_read(inside("l"), &size);
    int vocab_size = (int)(size / sizeof *logits / (N + PROMPT));
    const float *row = logits + (PROMPT - 1) * vocab_size;
    for (const Json *t = json_members(list, JSON_ARRAY); t;
         t = t->next, row += vocab_size) {
        const Json *top = json_get(t, "top");
        double found, before = 0;
        int64_t id;
        CHECK(json_integer(json_get(t, "token"), &id) &&
                  json_real(json_get(t, "logprob"), &found),
              "%s", out);
        CHECK(fabs(found - ((double)row[id] - log_sum(row, vocab_size))) < 1e-5,
              "token %d: %g", (int)id, found);
        CHECK(top && top->length == TOP &&
                  json_members(json_get(t, "bytes"), JSON_ARRAY),
              "%s", out);
        for (const Json *k = json_members(top, JSON_ARRAY); k;
             k = k->next, before = found) {
            int better = 0;
            CHECK(json_integer(json_get(k, "token"), &id) &&
                      json_real(json_get(k, "logprob"), &found),
                  "%s", out);
            for (int i = 0; i < vocab_size; i++)
                better += row[i] > row[id];
            CHECK(better < TOP && found <= before, "token %d: %d are likelier",
                  (int)id, better);
            CHECK(fabs(found - ((double)row[id] - log_sum(row, vocab_size))) <
                      1e-5,
                  "token %d: %g", (int)id, found);
        }
    }
    free(logits);
    json_close(&json);
}

/* The sampling of a model's files applies unless the user chooses; values
 * outside an option's range are ignored. */
static void files_recommend_a_sampling(void) {
    static GgufFile file;
    CHECK(open_model() && !samples_write(folder), "no samples");
    gguf_make(&file, &MHA_UNTIED, 0);
    gguf_set_real(&file, "general.sampling.temp", 0.25f);
    gguf_set_int(&file, "general.sampling.top_k", 3);
    gguf_set_real(&file, "general.sampling.top_p", 1.5f);
    gguf_set_real(&file, "general.sampling.min_p", (float)NAN);
    gguf_set_real(&file, "general.sampling.penalty_repeat", -1);
    gguf_add_tokenizer(&file, MHA_UNTIED.vocab_size, NULL, 0);
    CHECK(!gguf_write(&file, inside("advice.gguf")), "cannot write");
    gguf_free(&file);
    const struct {
        const char *files, *own, *note;
    } cases[] = {
        {"advice.gguf", "-t 0.25 -k 3",
         "--temperature 0.25 --top-k 3; --sampling llama2c turns it off"},
        {"bpe", "-t 0",
         "--temperature 0 --top-p 0.5; --sampling llama2c turns it off"}};
    write_file(
        "bpe/generation_config.json",
        "{\"do_sample\": false, \"temperature\": 0.6, \"top_p\": 0.5, \"top_k\": -1, \"min_p\": 1e999}");
    for (int i = 0; i < 2; i++) {
        CHECK_RUN("%s -i a -n 30 -s 5 %s", cases[i].files, cases[i].own);
        memcpy(plain, out, sizeof plain);
        CHECK(!strstr(err, "sampling"), "%s", err);
        CHECK_RUN("%s -i a -n 30 -s 5", cases[i].files);
        CHECK(!strcmp(out, plain) && strstr(err, cases[i].note),
              "%s: '%s', expected '%s'; %s", cases[i].files, out, plain, err);
        CHECK(strstr(err, "note: --top-"), "no note of a bad value: %s", err);
        CHECK_RUN("%s -i a -n 30 -s 5 -t 1", cases[i].files);
        memcpy(plain, out, sizeof plain);
        CHECK_RUN("%s -i a -n 30 -s 5 --sampling llama2c", cases[i].files);
        CHECK(!strcmp(out, plain) && !strstr(err, "sampling:"),
              "'%s', expected '%s'; %s", out, plain, err);
        CHECK_RUN("%s -m tokenize -i a", cases[i].files);
        CHECK(!*err, "%s", err);
    }
    check_refused(2, "--sampling is 'x', expected llama2c",
                  "advice.gguf --sampling x");
}

/* Without do_sample transformers is greedy. Rules that norma lacks are named,
 * if they have an effect. */
static void rules_of_generation_are_honoured_or_named(void) {
    static const struct {
        const char *config, *same, *note;
    } cases[] = {
        {"\"temperature\": 0.7", "-t 0",
         "--temperature 0; --sampling llama2c turns it off"},
        {"\"do_sample\": null, \"top_k\": 3", "-t 0",
         "--temperature 0 --top-k 3; --sampling"},
        {"\"do_sample\": true, \"temperature\": 0.7", "-t 0.7",
         "--temperature 0.7; --sampling"},
        {"\"do_sample\": true, \"top_k\": 2, \"no_repeat_ngram_size\": 3, "
         "\"suppress_tokens\": [1], \"bad_words_ids\": [[1], [2, 3]], "
         "\"typical_p\": 0.5, \"num_beams\": 4",
         "-k 2",
         "--top-k 2 (ignored: no_repeat_ngram_size suppress_tokens "
         "bad_words_ids typical_p num_beams); --sampling"},
        {"\"do_sample\": true, \"begin_suppress_tokens\": [1]", "",
         "sampling: (ignored: begin_suppress_tokens); --sampling"},
        {"\"no_repeat_ngram_size\": 0, \"suppress_tokens\": [], "
         "\"bad_words_ids\": null, \"typical_p\": 1.0, \"num_beams\": 1",
         "-t 0", "--temperature 0; --sampling"},
    };
    char config[512];
    CHECK(open_model() && !samples_write(folder), "no samples");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remove(inside("bpe/generation_config.json"));
        CHECK_RUN("bpe -i a -n 30 -s 5 %s", cases[i].same);
        memcpy(plain, out, sizeof plain);
        snprintf(config, sizeof config, "{%s}", cases[i].config);
        write_file("bpe/generation_config.json", config);
        CHECK_RUN("bpe -i a -n 30 -s 5");
        CHECK(!strcmp(out, plain) && strstr(err, cases[i].note),
              "%s: '%s', expected '%s'; %s", config, out, plain, err);
        CHECK_RUN("bpe -i a -n 30 -s 5 -t 1");
        CHECK(!strstr(err, "ignored"), "%s", err);
        CHECK_RUN("bpe -m tokenize -i a");
        CHECK(!*err, "%s", err);
    }
}

/* In a folder the penalty covers the prompt and the whole text, in a GGUF file
 * as many tokens as it says. */
static void files_recommend_a_penalty_and_its_window(void) {
    static GgufFile file;
    static const struct {
        int last; /* of the GGUF file; -2: a folder */
        const char *own, *note;
    } cases[] = {
        {-2, "--repeat-last 0", "--repeat-penalty 100 --repeat-last 0;"},
        {-1, "--repeat-last 0", "--repeat-penalty 100 --repeat-last 0;"},
        {5, "--repeat-last 5", "--repeat-penalty 100 --repeat-last 5;"},
        {64, "", "--repeat-penalty 100 --repeat-last 64;"},
    };
    CHECK(open_model() && !samples_write(folder), "no samples");
    write_file("bpe/generation_config.json",
               "{\"temperature\": 0, \"repetition_penalty\": 100}");
    for (int i = 0; i < 4; i++) {
        const char *name = cases[i].last < -1 ? "bpe" : "penalty.gguf";
        gguf_make(&file, &MHA_UNTIED, 0);
        gguf_set_real(&file, "general.sampling.temp", 0);
        gguf_set_real(&file, "general.sampling.penalty_repeat", 100);
        gguf_set_real(&file, "general.sampling.penalty_last_n",
                      (float)cases[i].last);
        gguf_add_tokenizer(&file, MHA_UNTIED.vocab_size, NULL, 0);
        CHECK(!gguf_write(&file, inside("penalty.gguf")), "cannot write");
        gguf_free(&file);
        CHECK_RUN("%s -i a -n 100 -t 0 --repeat-penalty 100 %s", name,
                  cases[i].own);
        memcpy(plain, out, sizeof plain);
        CHECK_RUN("%s -i a -n 100", name);
        CHECK(!strcmp(out, plain) && strstr(err, cases[i].note),
              "%s, %d: '%s', expected '%s'; %s", name, cases[i].last, out,
              plain, err);
        CHECK_RUN("%s -i a -n 100 --samples 2", name);
        CHECK(strstr(out, plain), "two samples: '%s'", out);
        CHECK_RUN("%s -i a -n 100 -t 0 --repeat-penalty 100 --repeat-last 2",
                  name);
        CHECK(strcmp(out, plain) != 0, "%s, %d: no other text", name,
              cases[i].last);
    }
}

static void shell(const char *script) {
    char command[PATH_MAX + 512];
    snprintf(command, sizeof command, "cd %s && %s", folder, script);
    if (system(command))
        abort();
}

/* The folder of a repository in Hugging Face's cache is its snapshot of
 * refs/main, or its only one; a folder of GGUF files lists them. */
static void repositories_of_the_cache_open(void) {
    CHECK(open_model() && !samples_write(folder), "no samples");
    shell("mkdir -p hub/blobs hub/snapshots/c1 hub/snapshots/c2 hub/refs && "
          "mv bpe/* hub/blobs && cd hub/snapshots/c2 && "
          "for f in ../../blobs/*; do ln -s $f .; done && "
          "printf c2 >../../refs/main");
    CHECK_RUN("hub/snapshots/c2 -i a -n 20 -t 0");
    memcpy(plain, out, sizeof plain);
    CHECK_RUN("hub -i a -n 20 -t 0");
    CHECK(!strcmp(out, plain), "'%s', expected '%s'", out, plain);
    /* refs/main is a name, not a pattern, a path or something to wait for */
    static const char *const refs[] = {
        "mkfifo hub/refs/main",       "ln -s /dev/zero hub/refs/main",
        "printf '?2' >hub/refs/main", "printf '../../*/*' >hub/refs/main",
        "printf .. >hub/refs/main",   "printf ../snapshots/c2 >hub/refs/main"};
    for (size_t i = 0; i < COUNT(refs); i++) {
        shell("rm hub/refs/main");
        shell(refs[i]);
        check_refused(1,
                      "hub: is a folder of models; name one of them: "
                      "hub/snapshots/c1, hub/snapshots/c2",
                      "hub -i a");
    }
    /* the names of folders are no patterns */
    shell("cp -r hub '[h]ub' && cd '[h]ub' && rm -r snapshots/c1 refs");
    CHECK_RUN("[h]ub -i a -n 20 -t 0");
    shell("rm -r '[h]ub' hub/refs");
    check_refused(1,
                  "hub: is a folder of models; name one of them: "
                  "hub/snapshots/c1, hub/snapshots/c2",
                  "hub -i a");
    shell("rmdir hub/snapshots/c1");
    CHECK_RUN("hub/ -i a -n 20 -t 0");
    CHECK(!strcmp(out, plain), "one snapshot: '%s'", out);
    shell("cp spm.gguf hub/snapshots/c2");
    CHECK_RUN("hub -i a -n 20 -t 0");
    CHECK(!strcmp(out, plain), "with a GGUF file: '%s'", out);
    shell("rm hub/snapshots/c2/*.json && cp moe.gguf hub/snapshots/c2");
    check_refused(1,
                  "hub: is a folder of models; name one of them: "
                  "hub/snapshots/c2/moe.gguf, hub/snapshots/c2/spm.gguf",
                  "hub -i a");
    shell("mkdir files && mv spm.gguf files");
    check_refused(
        1, "files: is a folder of models; name one of them: files/spm.gguf",
        "files -i a");
}

void suite_text(void) {
    TEST(repositories_of_the_cache_open);
    TEST(rules_of_generation_are_honoured_or_named);
    TEST(files_recommend_a_penalty_and_its_window);
    TEST(files_recommend_a_sampling);
    TEST(stop_strings_end_a_text);
    TEST(parts_of_stop_strings_are_written);
    TEST(options_do_not_change_a_text);
    TEST(stop_strings_begin_inside_characters);
    TEST(json_says_why_a_text_ended);
    TEST(logprobs_follow_from_the_logits);
}
