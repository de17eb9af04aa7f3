/* test_texts.c: many texts in one run of the program.
 *
 * Each text is byte-identical to the text of a separate run, for any number of
 * concurrent sequences. Also tests the messages about prompts that cannot run.
 */
#include "base/limits.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "formats/open.h"
#include "kv_cache.h"
#include "model.h"
#include "modes/common.h"
#include "modes/prompts.h"
#include "tokenizer.h"

#include "tests/support/binary.h"
#include "tests/support/hashmodel.h"
#include "tests/support/json_check.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The model and its options, as arguments. */
static char model[2 * PATH_MAX + 8];

static bool bundled_model(void) {
    char path[PATH_MAX];
    if (!realpath("models/stories.gguf", path))
        return false;
    snprintf(model, sizeof model, "%s", path);
    return true;
}

static bool real_model(void) {
    char path[PATH_MAX] = "", tokenizer[PATH_MAX] = "";
    const char *found = real_checkpoint("stories260K.bin");
    if (found && !realpath(found, path))
        return false;
    found = found ? real_checkpoint("tok512.bin") : NULL;
    if (!found || !realpath(found, tokenizer))
        return false;
    snprintf(model, sizeof model, "%s -z %s", path, tokenizer);
    return true;
}

/* ---- the expected output ------------------------------------------------ */

typedef struct {
    int line;
    int64_t seed;
    const char *prompt;
} ExpectedText;

static char expected[1 << 18];
static char texts[16][1 << 14]; /* the output of a separate run for each text */

/* -1: a plain run fails. */
static int expect_texts(const ExpectedText *list, int n, const char *options) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const long long seed = list[i].seed;
        if (run("%s %s -s %lld -i '%s'", model, options, seed, list[i].prompt))
            return -1;
        snprintf(texts[i], sizeof texts[i], "%.16000s", out);
        at += (size_t)snprintf(expected + at, sizeof expected - at,
                               "=== prompt %d, seed %lld\n%s", list[i].line,
                               seed, texts[i]);
    }
    return 0;
}

/* The text in JSON: invalid UTF-8 is replaced by U+FFFD. */
static const char *as_json_has_it(const char *text) {
    static char changed[3 << 14];
    char *to = changed;
    for (size_t n; *text; text += n) {
        bool valid = utf8_read(text, strlen(text), &n) < UTF8_END;
        to += sprintf(to, "%.*s", valid ? (int)n : 3,
                      valid ? text : "\xef\xbf\xbd");
    }
    *to = '\0';
    return changed;
}

/* Compares the output of --json with these texts. */
static void check_objects(const ExpectedText *list, int n, const char *reason) {
    const char *line = out;
    for (int i = 0; i < n; i++) {
        JsonFile json;
        int64_t number = 0;
        size_t size = strcspn(line, "\n");
        char text[1 << 14];
        CHECK(line[size] == '\n' && !json_parse(&json, "line", line, size),
              "object %d: %s", i, line);
        const Json *o = json.values;
        CHECK(json_integer(json_get(o, "index"), &number) &&
                  number == list[i].line,
              "object %d: %s", i, line);
        CHECK(json_integer(json_get(o, "seed"), &number) &&
                  number == list[i].seed,
              "object %d: %s", i, line);
        CHECK(json_is(json_get(o, "prompt"), list[i].prompt), "object %d: %s",
              i, line);
        snprintf(text, sizeof text, "%s%s\n", list[i].prompt,
                 json_shown(json_get(o, "completion")));
        CHECK(!strcmp(text, as_json_has_it(texts[i])),
              "object %d: '%s', expected '%s'", i, text, texts[i]);
        CHECK(json_integer(json_get(o, "tokens"), &number) &&
                  (number > 0 || json_is(json_get(o, "finish_reason"), "stop")),
              "object %d: %s", i, line);
        CHECK(!reason || json_is(json_get(o, "finish_reason"), reason),
              "object %d: %s", i, line);
        json_close(&json);
        line += size + 1;
    }
    CHECK(!*line, "more: %s", line);
}

static const char *const WAYS[] = {
    "--parallel 1 -j 1",      "--parallel 3 -j 2",
    "--parallel 8 -j 3",      "-j 1",
    "--parallel 2 -j 2 -b 3", "-b 1"};
static const char *const CHOICES[] = {
    "-t 0", "-t 1", "-t 0.8 -k 40 --min-p 0.02 --repeat-penalty 1.2"};

/* The arguments give these texts for any number of sequences and threads, as
 * text and as JSON. */
static void check_ways(const ExpectedText *list, int n, const char *arguments,
                       const char *options) {
    CHECK(!expect_texts(list, n, options), "no plain texts: %s", err);
    static int turn; /* without NORMA_THOROUGH: two of the ways in turn */
    int step = test_thorough() ? 1 : 3;
    for (int way = turn++ % step; way < 6; way += step) {
        CHECK_RUN("%s %s %s %s", model, options, arguments, WAYS[way]);
        CHECK(!strcmp(out, expected), "%s %s %s: '%s', expected '%s'", options,
              arguments, WAYS[way], out, expected);
        CHECK(strstr(err, " tokens/s"), "no statistics: %s", err);
    }
    CHECK_RUN("%s %s %s --json", model, options, arguments);
    check_objects(list, n, NULL);
}

/* ---- the same texts ----------------------------------------------------- */

/* The seed of sample i > 0 is the i-th number of splitmix64, shifted by 11
 * bits; computed in Python. */
static const ExpectedText SAMPLES[] = {{1, 7, "One day, Tim"},
                                       {1, 3511274219185729, "One day, Tim"},
                                       {1, 151215513962380, "One day, Tim"},
                                       {1, 8113330931062309, "One day, Tim"},
                                       {1, 5250569300928453, "One day, Tim"}};
static const ExpectedText PROMPTS[] = {{1, 3, "Once upon a time"},
                                       {2, 3, ""},
                                       {3, 3, "The \"big\" dog\tran, \xc3\xa9"},
                                       {4, 3, "A"},
                                       {5, 3, "Lily and her cat"}};
static const ExpectedText OBJECTS[] = {
    {1, 9, "Tom \"the\n cat\""},
    {1, 6146177117965836, "Tom \"the\n cat\""},
    {1, 6761658480391677, "Tom \"the\n cat\""},
    {2, 2, "One day"},
    {3, 1, ""},
    {3, 5103132997656651, ""},
    {4, INT64_MAX, "\xe2\x82\xac"}};

static void check_texts(void) {
    for (int i = 0; i < (test_fast() ? 1 : 3); i++) {
        char options[128];
        snprintf(options, sizeof options, "%s -n 70", CHOICES[i]);
        check_ways(SAMPLES, 5, "-s 7 --samples 5 -i 'One day, Tim'", options);
        write_file(
            "prompts.txt",
            "Once upon a time\n\nThe \"big\" dog\tran, \xc3\xa9\r\nA\nLily and her cat");
        check_ways(PROMPTS, 5, "-s 3 --prompts prompts.txt", options);
        write_file(
            "prompts.jsonl",
            "{\"prompt\": \"Tom \\\"the\\n cat\\\"\", \"seed\": 9, \"n\": 3}\n"
            "{\"n\": 1, \"seed\": null, \"prompt\": \"One day\", \"id\": [7]}\r\n"
            "{\"prompt\": \"\", \"seed\": 1, \"n\": 2}\n"
            "{\"seed\": 9223372036854775807, \"prompt\": \"\\u20ac\"}\n");
        check_ways(OBJECTS, 7, "-s 2 --prompts prompts.jsonl", options);
    }
}

static void texts_equal_those_of_separate_runs(void) {
    binary_folder("texts");
    CHECK(bundled_model(), "models/stories.gguf is missing");
    check_texts();
}

static void texts_of_a_real_checkpoint(void) {
    if (real_model())
        check_texts();
    else
        test_skip(NO_CHECKPOINTS);
}

/* Some texts end long before others; their sequences are used again. --samples
 * applies to each prompt. */
static void texts_of_different_lengths(void) {
    static const ExpectedText list[] = {{1, 4, "Once"},
                                        {1, 3886208520046193, "Once"},
                                        {1, 8038086278214422, "Once"},
                                        {2, 4, "Two"},
                                        {2, 3886208520046193, "Two"},
                                        {2, 8038086278214422, "Two"}};
    CHECK(bundled_model(), "models/stories.gguf is missing");
    write_file("two.txt", "Once\nTwo\n");
    check_ways(list, 6, "-s 4 --samples 3 --prompts two.txt", "-n 0");
    check_objects(list, 6, "stop");
    CHECK_RUN("%s --prompts two.txt -n 20 --json", model);
    CHECK(strstr(out, "\"tokens\": 1") &&
              strstr(out, "\"finish_reason\": \"length\""),
          "%s", out);
}

static void standard_input_has_prompts(void) {
    CHECK(bundled_model() && !expect_texts(PROMPTS, 1, "-t 0 -n 30"),
          "no plain text: %s", err);
    setup.input = "Once upon a time\n";
    CHECK_RUN("%s -t 0 -n 30 -s 3 --prompts -", model);
    CHECK(!strcmp(out, expected), "%s", out);
    setup.input = "Once upon a time";
    CHECK_RUN("%s -t 0 -n 30 -s 3 -f - --json", model);
    check_objects(PROMPTS, 1, "length");
}

/* Each sample runs the last token of the prompt again, so a window must keep
 * the keys that this token sees. */
static void windows_keep_what_samples_need(void) {
    static const char tokens[] = "1,5,9,14,3,20,8,31,2,17,39,6";
    CHECK(!samples_write(folder) && !samples_write_families(folder),
          "no samples");
    static const char *const models[] = {"gemma2.gguf", "gemma3.gguf", "v1.bin",
                                         "moe.gguf"};
    for (int i = 0; i < 4; i += test_fast() ? 3 : 1) {
        char *at = expected;
        for (int n = 0; n < 4; n++) {
            static const long long seeds[] = {
                1, 5103132997656651, 6717404888216029, 8746015278458442};
            CHECK_RUN("%s --tokens %s -n 0 -b 4 -s %lld", models[i], tokens,
                      seeds[n]);
            at += sprintf(at, "=== prompt 1, seed %lld\n", seeds[n]);
            memcpy(at, out, n_out);
            at += n_out;
        }
        CHECK_RUN("%s --tokens %s -n 0 -b 4 -s 1 --samples 4 --parallel 3",
                  models[i], tokens);
        CHECK(n_out == (size_t)(at - expected) && !memcmp(out, expected, n_out),
              "%s: %s, expected %s", models[i], out, expected);
    }
    CHECK_RUN("gemma2.gguf --tokens 3 -n 4 -t 0 --json");
    CHECK(!strncmp(out, "{\"index\": 1, \"prompt\": \"3\", \"completion\": \",",
                   43),
          "%s", out);
}

static int write_lines(const char *name, const char *first, const char *line,
                       int n) {
    FILE *f = fopen(inside(name), "wb");
    fputs(first, f);
    for (int i = 0; i < n; i++)
        fputs(line, f);
    return fclose(f);
}

/* -n that leaves no room for a token after the prompt: that line fails, or the
 * run, before anything is written. The other texts have as many tokens as -n
 * says, BOS not counted. */
static void steps_must_exceed_the_prompt(void) {
    CHECK(bundled_model(), "models/stories.gguf is missing");
    write_file("prompts.txt", "\nThe \"big\" dog ran and ran, \xc3\xa9\r\n");
    for (int steps = 1; steps < 7; steps += test_fast() ? 5 : 1) {
        run("%s -t 0 -n %d --prompts prompts.txt --json", model, steps);
        char tokens[32];
        snprintf(tokens, sizeof tokens, "\"tokens\": %d, ", steps);
        CHECK(status == 1 && strstr(err, "prompts.txt: line 2: -n ") &&
                  strstr(out, "\"index\": 1, ") && strstr(out, tokens),
              "status %d, %s%s", status, err, out);
        run("%s -t 0 -n %d -i 'The big dog ran and ran'", model, steps);
        CHECK(status == 2 && !n_out && one_line(err), "status %d, %s%s", status,
              err, out);
    }
}

/* A byte order mark is no part of a text, in any text that is read; UTF-16 is
 * refused by name. */
static void texts_begin_after_a_byte_order_mark(void) {
    static const struct {
        const char *name, *text, *arguments;
    } cases[] = {
        {"bom.txt", "Once upon", "-t 0 -n 8 -f"},
        {"bom.txt", "Once upon", "-m tokenize -f"},
        {"bom.txt", "Once upon a time", "-m perplexity -f"},
        {"bom.txt", "Once upon\nA dog\n", "-s 3 -n 8 --prompts"},
        {"bom.jsonl", "{\"prompt\": \"Once upon\"}\n{\"prompt\": \"A\"}\n",
         "-s 3 -n 8 --prompts"},
        {"bom.jsonl", "{\"prompt\": \"Once upon\"}\n",
         "-s 3 -n 8 -m chat --template llama-2 --prompts"},
    };
    CHECK(bundled_model(), "models/stories.gguf is missing");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char plain[1 << 14];
        char bytes[128];
        write_file(cases[i].name, cases[i].text);
        CHECK_RUN("%s %s %s", model, cases[i].arguments, cases[i].name);
        snprintf(plain, sizeof plain, "%.16000s", out);
        CHECK(*plain, "no output");
        snprintf(bytes, sizeof bytes, "\xef\xbb\xbf%s", cases[i].text);
        write_file(cases[i].name, bytes);
        CHECK_RUN("%s %s %s", model, cases[i].arguments, cases[i].name);
        CHECK(!strcmp(out, plain), "%s: '%s', expected '%s'",
              cases[i].arguments, out, plain);
        if (strstr(cases[i].name, ".txt")) {
            setup.input = bytes;
            CHECK_RUN("%s %s -", model, cases[i].arguments);
            CHECK(!strcmp(out, plain), "%s -: '%s', expected '%s'",
                  cases[i].arguments, out, plain);
        }
        for (int big = 0; big < 2; big++) {
            char arguments[2 * PATH_MAX + 64];
            snprintf(bytes, sizeof bytes, "%sA", big ? "\xfe\xff" : "\xff\xfe");
            write_file(cases[i].name, bytes);
            snprintf(arguments, sizeof arguments, "%s %s %s", model,
                     cases[i].arguments, cases[i].name);
            check_refused(1, "is UTF-16, expected UTF-8", arguments);
        }
    }
}

/* CR LF stays in a text, with a note; of --prompts it ends a line. */
static void a_text_keeps_its_line_ends(void) {
    static const char *const modes[] = {"-t 0 -n 12", "-m tokenize",
                                        "-m perplexity", "-m logits -o x"};
    CHECK(bundled_model(), "models/stories.gguf is missing");
    write_file("crlf.txt", "Once\r\nupon\r\n");
    write_file("lf.txt", "Once\nupon\r");
    for (int i = 0; i < 4; i++) {
        CHECK_RUN("%s %s -f crlf.txt", model, modes[i]);
        CHECK(strstr(err, "note: crlf.txt: lines end in CR LF"), "%s: %s",
              modes[i], err);
        CHECK(i || !strncmp(out, "Once\r\nupon", 10), "%s", out);
        CHECK_RUN("%s %s -f lf.txt", model, modes[i]);
        CHECK(!strstr(err, "CR LF"), "%s: %s", modes[i], err);
    }
    CHECK_RUN("%s -t 0 -n 8 --prompts crlf.txt", model);
    CHECK(!strstr(err, "CR LF") && !strchr(out, '\r'), "%s, %s", out, err);
}

/* The content says whether lines are JSON, whatever the file is called. Other
 * objects are texts, and a note says so. */
static void the_content_says_what_prompts_are(void) {
    static const struct {
        const char *line, *prompt;
        bool is_noted;
    } cases[] = {{"{\"prompt\": \"Once\"}", "Once", false},
                 {"Once", "Once", false},
                 {"{Once}", "{Once}", false},
                 {"{\"text\": 1}", "{\"text\": 1}", true}};
    CHECK(bundled_model(), "models/stories.gguf is missing");
    for (size_t i = 0; i < COUNT(cases); i++) {
        char line[64], shown[64];
        snprintf(line, sizeof line, "%s\n", cases[i].line);
        write_file("prompts.JSON", line);
        CHECK_RUN("%s -t 0 -n 30 --prompts prompts.JSON", model);
        snprintf(shown, sizeof shown, "\n%s", cases[i].prompt);
        CHECK(strstr(out, shown), "%s gives %s", line, out);
        CHECK(!!strstr(err, "its lines are texts") == cases[i].is_noted,
              "%s: %s", line, err);
    }
}

/* Without -n 256 tokens follow the prompt. */
static void a_long_prompt_is_continued(void) {
    CHECK(bundled_model(), "models/stories.gguf is missing");
    write_lines("prompt.txt", "Once upon a time", " and once again", 80);
    CHECK_RUN("%s -t 0 -f prompt.txt --json", model);
    const char *tokens = strstr(out, "\"tokens\": ");
    CHECK(tokens && atoi(tokens + 10) > 0, "%s", out);
}

/* ---- prompts that cannot run, and other mistakes ------------------------ */

/* Invalid lines between two valid ones. */
static void bad_lines_are_reported_and_skipped(void) {
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{\"prompt: 3}", "byte 13: an unterminated string"},
        {"", "byte 1: expected a value"},
        {"[1]", "\"prompt\" is missing, expected a string"},
        {"{\"prompt\": \"Tom\", \"seed\": -1}",
         "\"seed\" is -1, expected a whole number from 0 to 9223372036854775807"},
        {"{\"prompt\": \"B\", \"n\": 0}",
         "\"n\" is 0, expected a whole number from 1 to 2147483647"},
        {"{\"prompt\": 3}", "\"prompt\" is 3, expected a string"},
        {"{\"prompt\": \"1 2 3 4 5 6 7 8 9 1 \"}",
         "22 positions do not fit in a context of 20"},
        {"{\"prompt\": \"A\"} B", "byte 17: text after the end"},
        {"{\"n\": 1, \"n\": 2}",
         "\"n\" is given twice, expected a whole number from 1 to 2147483647"},
        {"{\"prompt\": \"\", \"n\": 2147483648}",
         "\"n\" is 2147483648, expected a whole number from 1 to 2147483647"},
        {"{\"prompt\": \"\", \"seed\": 1.5}",
         "\"seed\" is 1.5, expected a whole number from 0 to 9223372036854775807"},
    };
    enum { N_CASES = sizeof cases / sizeof *cases, A_FILE = 4 };
    for (int first = 0; first < N_CASES; first += A_FILE) {
        int n = N_CASES - first < A_FILE ? N_CASES - first : A_FILE;
        ExpectedText list[] = {{1, 9, "A"}, {n + 2, 9, "B"}};
        char lines[1 << 10] = "{\"prompt\": \"A\"}\n",
                        *at = lines + strlen(lines);
        CHECK(bundled_model() && !expect_texts(list, 2, "-t 1 -c 20"),
              "no plain texts: %s", err);
        for (int i = first; i < first + n; i++)
            at += sprintf(at, "%s\n", cases[i].line);
        strcpy(at, "{\"prompt\": \"B\"}\n");
        write_file("bad.jsonl", lines);
        for (int parallel = 1; parallel < 4; parallel += test_fast() ? 2 : 1) {
            run("%s --prompts bad.jsonl -c 20 -s 9 --parallel %d", model,
                parallel);
            CHECK(status == 1 && !strcmp(out, expected),
                  "status %d: '%s', expected '%s'", status, out, expected);
            CHECK(strstr(err, "prompts: 2 (") &&
                      !strstr(err, "could not run: "),
                  "%s", err);
            for (int i = first; i < first + n; i++) {
                char message[128];
                snprintf(message, sizeof message,
                         "run: bad.jsonl: line %d: %s\n", i - first + 2,
                         cases[i].message);
                CHECK(strstr(err, message), "no '%s' in %s", message, err);
            }
        }
    }
    write_file("bad.jsonl", "{]\n");
    check_refused(1, "bad.jsonl: line 1: byte 2: expected a key",
                  "spm.gguf --prompts bad.jsonl");
    check_refused(1, "run: prompt: 7 positions do not fit in a context of 6",
                  "spm.gguf -c 6 -i ABCDE --samples 2");
}

static int lines_of(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Five messages, then one with the number of other lines. */
static void many_bad_lines_are_counted(void) {
    write_lines("many.txt", "", "aa ba ca aa ba ca\n", 7);
    run("spm.gguf -n 3 --prompts many.txt");
    CHECK(status == 1 && lines_of(err) == 6 &&
              strstr(err, "line 5: -n 3 includes") && !strstr(err, "line 6:"),
          "%s", err);
    CHECK(
        strstr(
            err,
            "note: many.txt: messages about 2 more lines are not shown; lines that could not run: 7\n"),
        "%s", err);
    /* a file of llama2.c runs, with a note */
    static const HashModel tiny = {16, 16, 1, 2, 1, 300, 64, false, 9};
    hashmodel_write(&tiny, inside("notes.bin"), 0, 0);
    hashtokenizer_write(inside("notes.tok"), tiny.vocab_size);
    CHECK_RUN("notes.bin -z notes.tok -n 3 --prompts many.txt");
    CHECK(
        strstr(err, "line 5: -n 3 includes") && !strstr(err, "line 6:") &&
            strstr(
                err,
                "about 2 more lines are not shown; lines that could not run: 0\n"),
        "%s", err);
    write_lines("many.jsonl", "{\"prompt\": \"a\"}\n", "{}\n", 6);
    run("spm.gguf -n 8 --prompts many.jsonl");
    CHECK(status == 1 && lines_of(err) == 7 && strstr(err, "line 6: ") &&
              !strstr(err, "line 7: "),
          "%s", err);
    CHECK(
        strstr(
            err,
            "many.jsonl: messages about 1 more lines are not shown; lines that could not run: 6\n"),
        "%s", err);
    write_lines("many.jsonl", "", "{\"prompt\": \"aa ba ca aa\"}\n", 6);
    run("spm.gguf -c 3 --prompts many.jsonl");
    CHECK(status == 1 && lines_of(err) == 6 &&
              strstr(err, "could not run: 6\n"),
          "%s", err);
}

/* Texts that end at once are written immediately and freed: 20,000 samplers
 * would take 980 MB. */
static void texts_that_end_at_once_take_no_memory(void) {
#ifndef SANITIZED
    CHECK(bundled_model(), "models/stories.gguf is missing");
    write_lines("long.txt", "A\n",
                "One day, Tim went to the park and saw a big dog\n", 20000);
    setup.memory = 400 << 20;
    run("%s -j 1 -n 6 --prompts long.txt --parallel 3", model);
    CHECK(status == 1 && strstr(err, "texts: 1 (tokens: 5)"), "%s", err);
    /* these texts are not kept until the first one ends */
    write_lines("long.txt", "a\n", "aa ba ca\n", 400000);
    setup.memory = 100 << 20;
    run("spm.gguf -j 1 -n 3 -t 0 --prompts long.txt --parallel 3");
    CHECK(status == 1 && strstr(err, "texts: 1 ("), "%s", err);
#endif
}

/* ---- mutated files of prompts ------------------------------------------- */

static uint64_t mutant, choice;

static size_t any(size_t n) {
    return n ? (size_t)(hash64(mutant, 5, choice++) % n) : 0;
}

/* Mutates bytes[n], which has room for 4 KB more. Returns the new size. */
static size_t mutate(char *bytes, size_t n) {
    static const char *const inserted[] = {"\"",
                                           "\\",
                                           "\\u",
                                           "\\ud800",
                                           "{",
                                           "}",
                                           "[",
                                           ",",
                                           ":",
                                           "\n",
                                           "\r\n",
                                           "\n\n",
                                           "1e999",
                                           "-0",
                                           "0.5",
                                           "9223372036854775808",
                                           "null",
                                           "true",
                                           "\"seed\":",
                                           "\"n\":",
                                           "\xff",
                                           "\xe2\x82",
                                           "\xed\xa0\x80",
                                           "{\"prompt\":",
                                           "[[[[[[[[[[[[[[[[",
                                           "2147483647",
                                           "\x7f",
                                           " "};
    size_t at = any(n + 1), count = any(n - at < 40 ? n - at + 1 : 40);
    const char *new = inserted[any(sizeof inserted / sizeof *inserted)];
    size_t size = strlen(new);
    switch (any(5)) {
    case 0: /* another byte, also NUL */
        if (at < n)
            bytes[at] = (char)any(256);
        return n;
    case 1: /* bytes are missing */
        memmove(bytes + at, bytes + at + count, n - at - count);
        return n - count;
    case 2: /* bytes occur twice */
        memmove(bytes + at + count, bytes + at, n - at);
        return n + count;
    case 3: return at; /* the end is missing */
    default: break;
    }
    memmove(bytes + at + size, bytes + at, n - at);
    for (size_t i = 0; i < size; i++)
        bytes[at + i] = new[i];
    return n + size;
}

/* Reads a file of prompts as texts.c does; returns whether the results are as
 * prompts.h documents. */
static bool check_prompts(const Run *run, const char *bytes, size_t n) {
    Prompts prompts;
    int lines = n && bytes[n - 1] != '\n', last = 0, found = 0, more;
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    if (prompts_open(&prompts, run, NULL)) {
        prompts_close(&prompts);
        return n == 0;
    }
    bool good = n > 0;
    while ((more = prompts_next(&prompts)) > 0) {
        Prompt prompt = prompts.prompt;
        good = good && prompt.line > last && prompt.line <= lines &&
               prompt.samples > 0 && prompt.seed > 0;
        good = good && prompt.ids.n > 0 &&
               prompt.ids.n <= run->session.context && prompt.size <= n;
        for (int i = 0; i < prompt.ids.n; i++)
            good = good && prompt.ids.ids[i] >= 0 &&
                   prompt.ids.ids[i] < run->model.config.vocab_size;
        last = prompt.line;
        found++;
    }
    good = good && more == 0 && found + prompts.n_failed == lines &&
           (prompts_report(&prompts) < 0) == (found < lines);
    prompts_close(&prompts);
    return good;
}

static void mutated_prompts_are_read_or_refused(void) {
    static const char *const seeds[] = {
        "Once upon a time\n\nA \"dog\"\tran, \xc3\xa9\r\nLily\n",
        "{\"prompt\": \"aa ba\", \"seed\": 5, \"n\": 3}\n{\"n\": null, \"prompt\": \"\\u20ac \\ud83d\\ude00\\n\"}\n"
        "{\"prompt\": \"\", \"id\": [1, {\"a\": 2.5e3}]}\r\n{\"seed\": 12, \"prompt\": \"ca\"}"};
    static char bytes[1 << 13], name[PATH_MAX];
    Options options[] = {
        {.prompts = inside("mutant.txt"), .sampling.seed = 7, .steps = 6},
        {.prompts = inside("mutant.jsonl"), .sampling.seed = 7, .steps = 6}};
    Run run = {0};
    int bad = 0;
    snprintf(name, sizeof name, "%s", inside("spm.gguf"));
    CHECK(!model_open(&run.model, name) &&
              model_open_tokenizer(&run.tokenizer, &run.model, name, NULL,
                                   TOKENIZER_NEEDED) > 0,
          "no tokenizer");
    run.session.model = &run.model;
    run.session.context = 20;
    int n_mutants = test_thorough() ? 10000 : test_fast() ? 40 : 400;
    stderr_hide();
    for (mutant = 0; mutant < (uint64_t)n_mutants && !bad; mutant++) {
        size_t n = strlen(seeds[mutant % 2]);
        memcpy(bytes, seeds[mutant % 2], n);
        choice = 0;
        for (size_t i = any(4); i < 4; i++)
            n = mutate(bytes, n);
        run.options = &options[mutant % 2];
        FILE *f = fopen(run.options->prompts, "wb");
        bad = !f || fwrite(bytes, 1, n, f) != n || fclose(f) ||
              !check_prompts(&run, bytes, n);
    }
    stderr_show();
    CHECK(!bad, "mutant %d", (int)mutant - 1);
    tokenizer_close(&run.tokenizer);
    model_close(&run.model);
}

static void bad_usage_is_refused(void) {
    static const struct {
        int status;
        const char *mention, *arguments;
    } cases[] = {
        {2, "-i, -f, --tokens and --prompts are mutually exclusive",
         "spm.gguf -i a --prompts b"},
        {2, "mutually exclusive", "spm.gguf -f a --prompts b"},
        {2, "mutually exclusive", "spm.gguf --tokens 1 --prompts b"},
        {2, "--samples works in generate, not in chat",
         "spm.gguf -m chat --samples 2"},
        {2, "not in perplexity", "spm.gguf -m perplexity --prompts b"},
        {2, "not in bench", "spm.gguf -m bench --parallel 2"},
        {2, "--samples is '0', expected a whole number from 1",
         "spm.gguf --samples 0"},
        {2, "--parallel is '0', expected a whole number from 1",
         "spm.gguf --samples 2 --parallel 0"},
        {1, "missing.txt: No such file", "spm.gguf --prompts missing.txt"},
        {1, "empty.txt: contains no prompt", "spm.gguf --prompts empty.txt"},
        {1, "standard input: contains no prompt", "spm.gguf --prompts -"},
        {1, "expected ids below", "spm.gguf --tokens 1,99999 --samples 2"},
        {1, "cannot write the output: No space",
         "spm.gguf --samples 2 -n 4 --json"},
    };
    write_file("empty.txt", "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strstr(cases[i].mention, "No space"))
            setup.output = "/dev/full";
        check_refused(cases[i].status, cases[i].mention, cases[i].arguments);
    }
}

static void memory_and_batch_limit_the_sequences(void) {
    CHECK_RUN("spm.gguf -i a -n 8 --samples 3 --parallel 3 -b 2");
    CHECK(strstr(err, "note: --parallel 3: running 2 at once, limited by -b\n"),
          "%s", err);
    CHECK_RUN("spm.gguf -i a -n 8 --samples 3 -b 2");
    CHECK(!strstr(err, "note"), "%s", err);
    HashModel longer = {64, 172, 2, 8, 4, 300, 1 << 30, false, 11};
    mkdir(inside("long"), 0700);
    hashmodel_write(&longer, inside("long/model.bin"), 1, 0);
    setup.closed_output = true;
    run("long/model.bin --tokens 3 -n 0 --samples 2 --parallel 2 --kv f32");
    CHECK(status == KILLED + SIGPIPE &&
              strstr(
                  err,
                  "note: --parallel 2: running 1 at once, limited by memory\n"),
          "status %d, %s", status, err);
}

/* Two texts and the root need three caches; if each takes 45 % of the available
 * memory, one text runs. */
static void the_root_cache_counts_as_memory(void) {
    /* bytes: layers, keys and values, heads, head size, float32 */
    int position = 2 * 2 * 4 * 8 * 4;
    double positions = 0.45 * (double)limits_of("").memory / position;
    int context = positions < INT_MAX ? (int)positions : INT_MAX;
    setup.closed_output = true;
    run("long/model.bin --tokens 3 -n 0 -c %d --samples 2 --parallel 2 --kv f32 -j 1",
        context);
    CHECK(status == KILLED + SIGPIPE &&
              strstr(
                  err,
                  "note: --parallel 2: running 1 at once, limited by memory\n"),
          "status %d, %s", status, err);
}

/* kv_bytes is at least the memory that a filled cache takes, and at most twice
 * as much. */
static void cache_size_estimate(void) {
    for (int n = 1; n < 300; n += 7) {
        KvCache kv;
        double blocks = 0;
        CHECK(!kv_open(&kv, KV_F16, 3, 2, 24), "no cache");
        kv.layers[1].kept = 40;
        double estimate = kv_bytes(&kv, n, 200 + n);
        for (int i = 1; i <= n; i++)
            CHECK(!kv_reserve(&kv, i, 200 + n), "no memory");
        for (int l = 0; l < 3; l++)
            blocks += kv.layers[l].blocks;
        double taken = blocks * KV_BLOCK * 2 * 2 * 24 * 2;
        CHECK(taken <= estimate && estimate <= 2 * taken,
              "%d positions: %g bytes, estimate %g", n, taken, estimate);
        kv_close(&kv);
    }
}

/* ---- Ctrl-C ------------------------------------------------------------- */

/* The number after `words` on standard error; -1: the words are missing. */
static int number_after(const char *words) {
    const char *at = strstr(err, words);
    return at ? atoi(at + strlen(words)) : -1;
}

/* Prompts that cannot run and texts that end at once need no forward pass;
 * Ctrl-C must end these loops too. */
static void ctrl_c_ends_prompts_that_run_nothing(void) {
    enum { LINES = 1000000 };
    write_lines("bad.jsonl", "", "{}\n", LINES);
    setup.interrupt = WHEN_HANDLED;
    run("spm.gguf --prompts bad.jsonl");
    CHECK(status == 130 && number_after("could not run: ") < LINES,
          "bad lines: status %d, %s", status, err);
    setup.interrupt = AT_OUTPUT;
    run("spm.gguf -n 8 -i 'aa ba' --samples 2000000000");
    CHECK(status == 130 && strstr(err, "prompts: 1 ("),
          "samples: status %d, %s", status, err);
}

static void ctrl_c_ends_a_line_cleanly(void) {
    CHECK(bundled_model(), "models/stories.gguf is missing");
    for (int json = 0; json < 2; json++) {
        setup.interrupt = AT_OUTPUT;
        run("%s -n 60 --samples 1000000 %s", model, json ? "--json" : "");
        CHECK(status == 130 && one_line(err) && strstr(err, " tokens/s"),
              "status %d, %s", status, err);
        CHECK(n_out > 0 && n_out < sizeof out && out[n_out - 1] == '\n',
              "no newline at the end of: %s", out);
        for (char *line = out, *end; json && (end = strchr(line, '\n'));
             line = end + 1) {
            *end = '\0';
            CHECK(json_valid(line), "half an object: %s", line);
        }
        setup.interrupt = WHEN_BLOCKED;
        setup.blocked_output = true;
        run("%s -n 60 --samples 1000000 %s", model, json ? "--json" : "");
        CHECK(status == 130 && one_line(err) && strstr(err, " tokens/s"),
              "blocked: status %d, %s", status, err);
        setup.closed_output = true;
        run("%s -n 60 --samples 1000000 %s", model, json ? "--json" : "");
        CHECK(status == KILLED + SIGPIPE && !*err, "closed pipe: status %d, %s",
              status, err);
    }
    setup.interrupt = WHEN_HANDLED;
    setup.endless_input = true;
    run("%s --prompts -", model);
    CHECK(status == 130 && !*err && !n_out, "status %d, %s", status, err);
}

void suite_texts(void) {
    TEST(texts_equal_those_of_separate_runs);
    TEST(texts_of_a_real_checkpoint);
    TEST(texts_of_different_lengths);
    TEST(standard_input_has_prompts);
    TEST(windows_keep_what_samples_need);
    TEST(steps_must_exceed_the_prompt);
    TEST(the_content_says_what_prompts_are);
    TEST(a_long_prompt_is_continued);
    TEST(texts_begin_after_a_byte_order_mark);
    TEST(a_text_keeps_its_line_ends);
    TEST(bad_lines_are_reported_and_skipped);
    TEST(many_bad_lines_are_counted);
    TEST(texts_that_end_at_once_take_no_memory);
    TEST(mutated_prompts_are_read_or_refused);
    TEST(bad_usage_is_refused);
    TEST(memory_and_batch_limit_the_sequences);
    TEST(the_root_cache_counts_as_memory);
    TEST(cache_size_estimate);
    TEST(ctrl_c_ends_prompts_that_run_nothing);
    TEST(ctrl_c_ends_a_line_cleanly);
}
