/* test_guess.c: speculative decoding, by prompt lookup and by a draft model.
 *
 * Tests the draft tokens and their number, that they do not change the text, and which draft models are refused.
 */
#include "modes/guess.h"
#include "tests/support/binary.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of draft tokens after ids[n], at most `room`. */
static int drafts(Guesser *g, const int *ids, int n, int room) {
    const Tokens text = {.ids = (int *)(uintptr_t)ids, .n = n};
    return guesser_guess(g, &text, NULL, room);
}

static void lookup_drafts_what_followed_last_time(void) {
    static const int ids[] = {7, 1, 2, 3, 40, 41, 9, 1, 2, 3, 50, 8, 2, 3, 60, 8, 1, 2, 3, 61},
                     twice[] = {5, 6, 5, 6, 5};
    Guesser g;
    guesser_open(&g, 4, NULL);
    g.paces[LOOKUP].n = MAX_LOOKUP;
    int n = drafts(&g, ids, 19, 100);
    CHECK(n == 4 && g.tokens[0] == 50 && g.tokens[1] == 8 && g.tokens[3] == 3, "%d, %d first", n, g.tokens[0]);
    CHECK(drafts(&g, ids, 10, 2) == 2 && g.tokens[0] == 40 && g.tokens[1] == 41, "room for 2: %d first", g.tokens[0]);
    CHECK(drafts(&g, ids, 10, 0) == 0 && drafts(&g, ids, 10, -1) == 0, "no room");
    CHECK(drafts(&g, ids, 14, 100) == 0, "only two equal tokens");
    CHECK(drafts(&g, ids, 20, 100) == 0, "a new token");
    for (n = 0; n < 4; n++) CHECK(drafts(&g, ids, n, 100) == 0, "%d tokens are too few", n);
    guesser_open(&g, MAX_LOOKUP, NULL);
    g.paces[LOOKUP].n = 5;
    CHECK(drafts(&g, twice, 5, 100) == 5 && g.tokens[0] == 6 && g.tokens[1] == 5 && g.tokens[4] == 6,
          "a repeating text");
    CHECK(drafts(&g, (const int[]){4, 4, 4, 4}, 4, 100) == 5 && g.tokens[0] == 4 && g.tokens[4] == 4, "one token");
    guesser_open(&g, 0, NULL);
    CHECK(drafts(&g, twice, 5, 100) == 0, "--lookup 0");
}

/* Checks the number of draft tokens of each pass in a repetitive text; passes[i] is {drafted, accepted}. */
static void check_pace(Guesser *g, const int (*passes)[2], int n) {
    static const int twos[] = {2, 2, 2, 2};
    for (int i = 0; i < n; i++) {
        const int found = drafts(g, twos, 4, 100);
        CHECK(found == passes[i][0], "pass %d: %d draft tokens, expected %d", i, found, passes[i][0]);
        guesser_learn(g, passes[i][1]);
    }
}

/* {drafted, accepted}: the number doubles if all are accepted and halves if fewer than half are; after a single
 * rejected token pauses of 1, 2, 4, ... passes. */
static void the_number_follows_acceptance(void) {
    static const int up[][2] = {{1, 1},  {2, 2},  {4, 4}, {8, 8}, {15, 15}, {15, 15},
                                {15, 8}, {15, 7}, {7, 4}, {7, 3}, {3, 2},   {3, 1}},
                     down[][2] = {{1, 0}, {0, 0}, {1, 0}, {0, 0}, {0, 0}, {1, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0},
                                  {1, 1}, {2, 1}, {2, 0}, {1, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 1}};
    Guesser g;
    guesser_open(&g, MAX_LOOKUP, NULL);
    check_pace(&g, up, 12);
    check_pace(&g, down, 19);
    CHECK(g.passes == 31 && g.guessed == 1 + 2 + 4 + 8 + 15 * 4 + 7 * 2 + 3 * 2 + 1 * 4 + 2 * 2 + 1 + 1 &&
              g.accepted == 1 + 2 + 4 + 8 + 15 * 2 + 8 + 7 + 4 + 3 + 2 + 1 + 1 + 1 + 1,
          "%ld passes, %ld of %ld", g.passes, g.accepted, g.guessed);
}

/* If no draft token is accepted, one pass in 65 tries again. */
static void rejected_drafts_become_rare(void) {
    static const int twos[] = {2, 2, 2, 2};
    Guesser g;
    guesser_open(&g, MAX_LOOKUP, NULL);
    for (int i = 0; i < 6500; i++) {
        drafts(&g, twos, 4, 100);
        guesser_learn(&g, 0);
    }
    CHECK(g.guessed >= 100 && g.guessed < 110, "%ld of 6500", g.guessed);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Greedy decoding, in which a small model soon repeats itself, and sampling, up to the end of the context. */
static void texts_are_the_same(void) {
    static const char *const options[] = {"-t 0", "-s 3 -k 2", "-s 4 --repeat-penalty 1.3 -t 0.3 --kv f16",
                                          "-t 0 -n 0 -j 2", "-t 0 -b 2"};
    static char plain[1 << 14];
    bool some = false;
    binary_folder("guess");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0), "cannot make the model");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int max = 0; max <= MAX_LOOKUP; max += test_fast() ? 15 : 5) {
            CHECK(run("m.bin --tokens 3,4,5,3,4,5,3,4 -n 60 %s --lookup %d", options[i], max) == 0, "%s", err);
            if (!max) memcpy(plain, out, sizeof plain);
            CHECK(!strncmp(plain, out, sizeof plain), "%s, %d guesses: %.200s", options[i], max, out);
            some = some || (max && strstr(err, " guesses right, "));
        }
    CHECK(some, "no draft token ran");
}

/* Accepted and run draft tokens, from the statistics. */
static void read_guesses(long *right, long *ran) {
    const char *at = strstr(err, "tokens/s; ");
    for (*right = *ran = 0; at; at = strstr(at + 1, "; "))
        if (sscanf(at, "; %ld of %ld guesses right", right, ran) == 2) return;
}

static const HashModel SMALLER = {32, 48, 1, 4, 2, 97, 40, false, 9}; /* also has a shorter context */

/* With a draft model and `percent` of its tokens made wrong, a run writes `plain`. */
static void check_draft(const char *options, const char *draft, const char *percent, const char *plain, long *right,
                        long *ran) {
    static char environment[32];
    snprintf(environment, sizeof environment, "NORMA_ORACLE=%s", percent);
    setup.environment = environment;
    CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s --draft %s", options, draft);
    CHECK(!strncmp(plain, out, 1 << 14), "%s, %s, %s %% wrong: %.200s", options, draft, percent, out);
    read_guesses(right, ran);
    CHECK(*ran > 10, "%s, %s, %s %% wrong: %s", options, draft, percent, err);
    CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s --draft %s", options, draft);
    CHECK(!strncmp(plain, out, 1 << 14), "%s, %s: %.200s", options, draft, out);
}

/* If draft and model are the same file, all draft tokens are accepted, unless some are made wrong. */
static void texts_with_a_draft_are_the_same(void) {
    static const char *const options[] = {"--lookup 0 -t 0", "--lookup 0 -s 3 -k 9",
                                          "--lookup 0 -s 4 --repeat-penalty 1.3 -t 0.7 --kv f16",
                                          "--lookup 0 -t 0 -n 0 -j 2 -b 2", "-s 5 --lookup 5 -p 0.5"};
    static char plain[1 << 14];
    long right = 0, ran = 0, wrong = 0;
    binary_folder("draft");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0) && !hashmodel_write(&SMALLER, inside("d.bin"), 1, 0),
          "cannot make the models");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s", options[i]);
        memcpy(plain, out, sizeof plain);
        check_draft(options[i], "m.bin", "0", plain, &right, &ran);
        CHECK(right == ran || i == 4, "%s, draft = model: %ld of %ld", options[i], right, ran);
        check_draft(options[i], "m.bin", "30", plain, &right, &ran);
        CHECK(right > ran / 5 && (right < ran || i == 4), "%s, a third wrong: %ld of %ld", options[i], right, ran);
        check_draft(options[i], "m.bin", "100", plain, &right, &ran);
        CHECK(right == 0 || i == 4, "%s, all wrong: %ld of %ld", options[i], right, ran);
        check_draft(options[i], "d.bin", "0", plain, &right, &ran);
        wrong += ran - right;
    }
    CHECK(wrong > 10, "%ld draft tokens of another model were wrong", wrong);
}

/* Most tokens of the bundled draft are accepted, greedy and sampled. */
static void the_bundled_pair_agrees(void) {
    static const char *const options[] = {"-t 0", "-s 2", "-s 3 --lookup 4"};
    static char plain[1 << 14], model[PATH_MAX], draft[PATH_MAX];
    long right, ran;
    CHECK(realpath("models/stories.gguf", model) && realpath("models/draft.gguf", draft), "a model is missing");
    binary_folder("pair");
    for (size_t i = 0; i < sizeof options / sizeof *options; i += test_fast() ? 2 : 1) {
        CHECK_RUN("'%s' -n 120 %s", model, options[i]);
        memcpy(plain, out, sizeof plain);
        setup.environment = "NORMA_ORACLE=0";
        CHECK_RUN("'%s' -n 120 %s --draft '%s'", model, options[i], draft);
        CHECK(!strncmp(plain, out, sizeof plain), "%s: %s", options[i], out);
        read_guesses(&right, &ran);
        CHECK(ran > 100 && 3 * right > ran, "%s: %s", options[i], err);
    }
}

/* The draft's cache is rewound and extended with the conversation's. */
static void chats_with_a_draft_are_the_same(void) {
    static const char lines[] = "aa\nba ca\naa\n";
    static char plain[1 << 14];
    binary_folder("draft_chat");
    CHECK(samples_write(folder) == 0, "no samples");
    setup.input = lines;
    CHECK_RUN("-m chat spm.gguf -t 0");
    memcpy(plain, out, sizeof plain);
    for (int lookup = 0; lookup < 8; lookup += 4) {
        setup.input = lines;
        setup.environment = "NORMA_ORACLE=0";
        CHECK_RUN("-m chat spm.gguf -t 0 --draft spm.gguf --lookup %d", lookup);
        CHECK(!strncmp(plain, out, sizeof plain), "%s", out);
    }
}

/* A model with windows of 4 evicts keys more than 64 positions back, except in a chat, where long answers are encoded
 * again. */
static void chats_with_windows_and_a_draft_are_the_same(void) {
    static char plain[1 << 14];
    int answered = 0;
    binary_folder("draft_windows");
    CHECK(!samples_write(folder), "no samples");
    replace_in_file(inside("words/config.json"), "\"model_type\": \"llama\"",
                    "\"model_type\": \"mistral\", \"sliding_window\": 4");
    replace_in_file(inside("words/config.json"), "\"max_position_embeddings\": 40",
                    "\"max_position_embeddings\": 3000");
    for (int seed = 1; seed < 5; seed++) {
        static const char lines[] = "aa\nba ca\naa\n";
        setup.input = lines;
        CHECK_RUN("-m chat words --template llama-2 -b 4 -p 0 -t 5 -s %d", seed);
        memcpy(plain, out, sizeof plain);
        for (const char *c = out; *c; c++) answered += *c == '\n';
        setup.input = lines;
        setup.environment = "NORMA_ORACLE=0";
        CHECK_RUN("-m chat words --template llama-2 -b 4 -p 0 -t 5 -s %d --draft words", seed);
        CHECK(!strncmp(plain, out, sizeof plain), "%s", out);
    }
    CHECK(answered > 6, "%d answers", answered);
}

/* A profile counts passes that verify draft tokens as decode. */
static void profiles_count_verification_as_decode(void) {
    long right, ran;
    binary_folder("draft_profile");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0) && !hashmodel_write(&SMALLER, inside("d.bin"), 1, 0),
          "cannot make the models");
    setup.environment = "NORMA_ORACLE=0";
    CHECK_RUN("m.bin --tokens 3,4,5 -n 60 -t 0 --draft m.bin --profile");
    read_guesses(&right, &ran);
    CHECK(ran > 10 && right > 0, "%s", err);
    int passes = 0; /* passes of the prompt */
    const char *prefill = strstr(err, "\nprefill\n"), *embed = prefill ? strstr(prefill, "\nembed ") : NULL;
    CHECK(embed && sscanf(embed, " embed %d", &passes) == 1 && passes == 1, "%d passes of a prompt: %s", passes, err);
}

/* Copies a file of `folder` and replaces the n bytes `old` by `new`. */
static int copy_with(const char *from, const char *to, const char *old, const char *new, size_t n) {
    static char bytes[1 << 20];
    FILE *in = fopen(inside(from), "rb"), *copy = fopen(inside(to), "wb");
    const size_t size = in ? fread(bytes, 1, sizeof bytes, in) : 0;
    char *at = size ? memmem(bytes, size, old, n) : NULL;
    if (at) memcpy(at, new, n);
    if (copy) fwrite(bytes, 1, size, copy);
    if (in) fclose(in);
    return copy && !fclose(copy) && at ? 0 : -1;
}

static void other_vocabularies_are_refused(void) {
    static const char bos[] = "tokenizer.ggml.bos_token_id\4\0\0\0\1",
                      other_bos[] = "tokenizer.ggml.bos_token_id\4\0\0\0\5";
    binary_folder("draft_refused");
    CHECK(samples_write(folder) == 0, "no samples");
    CHECK(!copy_with("spm.gguf", "piece.gguf", "<0x7E>", "<0x7F>", 6), "no such piece");
    CHECK(!copy_with("spm.gguf", "bos.gguf", bos, other_bos, sizeof bos - 1), "no such key");
    static const struct {
        int status;
        const char *mention, *arguments;
    } refused[] = {
        {1, "--draft bpe.gguf: its vocabulary is 903, expected 300, as of spm.gguf", "spm.gguf -i aa --draft bpe.gguf"},
        {1, "--draft piece.gguf: its piece ", "spm.gguf -i aa --draft piece.gguf"},
        {1, "--draft bos.gguf: its BOS is 5, expected 1, as of spm.gguf", "spm.gguf -i aa --draft bos.gguf"},
        {1, "missing.gguf: No such file", "spm.gguf -i aa --draft missing.gguf"},
        {2, "--draft is for modes generate and chat, not perplexity", "spm.gguf -m perplexity -i aa --draft spm.gguf"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refused(refused[i].status, refused[i].mention, refused[i].arguments);
}

void suite_guess(void) {
    TEST(lookup_drafts_what_followed_last_time);
    TEST(the_number_follows_acceptance);
    TEST(rejected_drafts_become_rare);
    TEST(texts_are_the_same);
    TEST(texts_with_a_draft_are_the_same);
    TEST(the_bundled_pair_agrees);
    TEST(chats_with_a_draft_are_the_same);
    TEST(chats_with_windows_and_a_draft_are_the_same);
    TEST(profiles_count_verification_as_decode);
    TEST(other_vocabularies_are_refused);
}
