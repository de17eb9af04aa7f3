/* test_guess.c: speculative decoding by prompt lookup.
 *
 * Tests the draft tokens and their number, and that right and wrong ones do not
 * change the text. */
#include "modes/guess.h"
#include "tests/support/binary.h"
#include "tests/support/hashmodel.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of draft tokens after ids[n], at most `room`. */
static int drafts(Guesser *g, const int *ids, int n, int room) {
    Tokens text = {.ids = (int *)(uintptr_t)ids, .n = n};
    return guesser_guess(g, &text, room);
}

static void lookup_drafts_what_followed_last_time(void) {
    static const int ids[] = {7,  1, 2, 3, 40, 41, 9, 1, 2, 3,
                              50, 8, 2, 3, 60, 8,  1, 2, 3, 61},
                     twice[] = {5, 6, 5, 6, 5};
    Guesser g;
    guesser_open(&g, 4);
    g.next = MAX_LOOKUP;
    int n = drafts(&g, ids, 19, 100);
    CHECK(n == 4 && g.tokens[0] == 50 && g.tokens[1] == 8 && g.tokens[3] == 3,
          "%d, %d first", n, g.tokens[0]);
    CHECK(drafts(&g, ids, 10, 2) == 2 && g.tokens[0] == 40 && g.tokens[1] == 41,
          "room for 2: %d first", g.tokens[0]);
    CHECK(drafts(&g, ids, 10, 0) == 0 && drafts(&g, ids, 10, -1) == 0,
          "no room");
    CHECK(drafts(&g, ids, 14, 100) == 0, "only two equal tokens");
    CHECK(drafts(&g, ids, 20, 100) == 0, "a new token");
    for (n = 0; n < 4; n++)
        CHECK(drafts(&g, ids, n, 100) == 0, "%d tokens are too few", n);
    guesser_open(&g, MAX_LOOKUP);
    g.next = 5;
    CHECK(drafts(&g, twice, 5, 100) == 5 && g.tokens[0] == 6 &&
              g.tokens[1] == 5 && g.tokens[4] == 6,
          "a repeating text");
    CHECK(drafts(&g, (const int[]){4, 4, 4, 4}, 4, 100) == 5 &&
              g.tokens[0] == 4 && g.tokens[4] == 4,
          "one token");
    guesser_open(&g, 0);
    CHECK(drafts(&g, twice, 5, 100) == 0, "--lookup 0");
}

/* Checks the number of draft tokens of each pass in a repetitive text;
 * passes[i] is {drafted, accepted}. */
static void check_pace(Guesser *g, const int (*passes)[2], int n) {
    static const int twos[] = {2, 2, 2, 2};
    for (int i = 0; i < n; i++) {
        int found = drafts(g, twos, 4, 100);
        CHECK(found == passes[i][0], "pass %d: %d draft tokens, expected %d", i,
              found, passes[i][0]);
        guesser_learn(g, passes[i][1]);
    }
}

/* {drafted, accepted}: the number doubles if all are accepted and halves if
 * fewer than half are; after a single rejected token pauses of 1, 2, 4, ...
 * passes. */
static void the_number_follows_acceptance(void) {
    static const int up[][2] = {{1, 1},   {2, 2},   {4, 4},  {8, 8},
                                {15, 15}, {15, 15}, {15, 8}, {15, 7},
                                {7, 4},   {7, 3},   {3, 2},  {3, 1}},
                     down[][2] = {{1, 0}, {0, 0}, {1, 0}, {0, 0}, {0, 0},
                                  {1, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0},
                                  {1, 1}, {2, 1}, {2, 0}, {1, 0}, {0, 0},
                                  {0, 0}, {0, 0}, {0, 0}, {1, 1}};
    Guesser g;
    guesser_open(&g, MAX_LOOKUP);
    check_pace(&g, up, 12);
    check_pace(&g, down, 19);
    CHECK(g.guessed == 1 + 2 + 4 + 8 + 15 * 4 + 7 * 2 + 3 * 2 + 1 * 4 + 2 * 2 +
                           1 + 1 &&
              g.accepted ==
                  1 + 2 + 4 + 8 + 15 * 2 + 8 + 7 + 4 + 3 + 2 + 1 + 1 + 1 + 1,
          "%ld of %ld", g.accepted, g.guessed);
}

/* If no draft token is accepted, one pass in 65 tries again. */
static void rejected_drafts_become_rare(void) {
    static const int twos[] = {2, 2, 2, 2};
    Guesser g;
    guesser_open(&g, MAX_LOOKUP);
    for (int i = 0; i < 6500; i++) {
        drafts(&g, twos, 4, 100);
        guesser_learn(&g, 0);
    }
    CHECK(g.guessed >= 100 && g.guessed < 110, "%ld of 6500", g.guessed);
}

/* ---- the program -------------------------------------------------------- */

/* The reference output, and the draft tokens of the last run: right ones and
 * all. */
static char plain[1 << 14];
static long right, ran;

/* Greedy decoding, in which a small model soon repeats itself, and sampling, up
 * to the end of the context. */
static void texts_are_the_same(void) {
    static const char *const options[] = {
        "-t 0", "-s 3 -k 2", "-s 4 --repeat-penalty 1.3 -t 0.3 --kv f16",
        "-t 0 -n 0 -j 2", "-t 0 -b 2"};
    bool some = false;
    binary_folder("guess");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0),
          "cannot make the model");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int max = 0; max <= MAX_LOOKUP; max += test_fast() ? 15 : 5) {
            CHECK(run("m.bin --tokens 3,4,5,3,4,5,3,4 -n 60 %s --lookup %d",
                      options[i], max) == 0,
                  "%s", err);
            if (!max)
                memcpy(plain, out, sizeof plain);
            CHECK(!strncmp(plain, out, sizeof plain), "%s, %d guesses: %.200s",
                  options[i], max, out);
            some = some || (max && strstr(err, " draft tokens accepted"));
        }
    CHECK(some, "no draft token ran");
}

static void read_guesses(void) {
    const char *at = strstr(err, "tokens/s; ");
    for (right = ran = 0; at; at = strstr(at + 1, "; "))
        if (sscanf(at, "; %ld of %ld draft tokens accepted", &right, &ran) == 2)
            return;
}

/* Runs the program without draft tokens; its text is what the oracle drafts
 * from then on. */
static void record(const char *arguments, const char *input) {
    setup.input = input;
    setup.environment = "NORMA_ORACLE=record";
    CHECK_RUN("%s", arguments);
    memcpy(plain, out, sizeof plain);
}

/* With `percent` of the draft tokens wrong, the program writes the same. */
static void check_same(const char *arguments, const char *input, int percent) {
    char environment[32];
    snprintf(environment, sizeof environment, "NORMA_ORACLE=%d", percent);
    setup.input = input;
    setup.environment = environment;
    CHECK_RUN("%s", arguments);
    CHECK(!strncmp(plain, out, sizeof plain), "%s, %d %% wrong: %.200s",
          arguments, percent, out);
    read_guesses();
}

static void right_and_wrong_draft_tokens_give_the_same_text(void) {
    static const char *const options[] = {
        "-t 0", "-s 3 -k 9", "-s 4 --repeat-penalty 1.3 -t 0.7 --kv f16",
        "-t 0 -n 0 -j 2 -b 2", "-s 5 -p 0.5"};
    char stories[PATH_MAX], arguments[2 * PATH_MAX];
    CHECK(realpath("models/stories.gguf", stories),
          "models/stories.gguf is missing");
    binary_folder("oracle");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0),
          "cannot make the model");
    const char *const models[] = {"m.bin", stories};
    for (size_t i = 0; i < 2 * sizeof options / sizeof *options;
         i += test_thorough() ? 1 : 3) {
        snprintf(arguments, sizeof arguments, "%s --tokens 3,4,5 -n 60 %s",
                 models[i % 2], options[i / 2]);
        record(arguments, NULL);
        check_same(arguments, NULL, 0);
        CHECK(right > 30 && right > ran - MAX_LOOKUP,
              "%s, none wrong: %ld of %ld", arguments, right, ran);
        check_same(arguments, NULL, 30);
        CHECK(right > 20 && right < ran - MAX_LOOKUP,
              "%s, 30 %% wrong: %ld of %ld", arguments, right, ran);
        check_same(arguments, NULL, 100);
        CHECK(right == 0 && ran > 300, "%s, all wrong: %ld of %ld", arguments,
              right, ran);
    }
}

/* The cache is rewound and extended with the conversation's. */
static void chats_are_the_same(void) {
    static const char arguments[] = "-m chat spm.gguf -t 0",
                      lines[] = "aa\nba ca\naa\n";
    binary_folder("oracle_chat");
    CHECK(samples_write(folder) == 0, "no samples");
    record(arguments, lines);
    for (int percent = 0; percent <= 100; percent += 25)
        check_same(arguments, lines, percent);
}

/* Draft tokens after a stop string are not sampled: the random numbers of the
 * next answer stay. */
static void chats_go_on_after_a_stop(void) {
    static const char lines[] = "Once\nThen\n";
    char stories[PATH_MAX], arguments[PATH_MAX + 80];
    CHECK(realpath("models/stories.gguf", stories),
          "models/stories.gguf is missing");
    binary_folder("oracle_stop");
    for (int seed = 1; seed < 5; seed++) {
        snprintf(arguments, sizeof arguments,
                 "-m chat %s --template chatml -n 30 -s %d", stories, seed);
        record(arguments, "Once\n");
        strcat(arguments, " --stop a");
        setup.input = lines;
        CHECK_RUN("%s --lookup 0", arguments);
        memcpy(plain, out, sizeof plain);
        check_same(arguments, lines, 0);
    }
}

/* A model with windows of 4 evicts keys more than 64 positions back, except in
 * a chat, where long answers are encoded again. */
static void chats_with_windows_are_the_same(void) {
    static const char lines[] = "aa\nba ca\naa\n";
    char arguments[80];
    int answered = 0;
    binary_folder("oracle_windows");
    CHECK(!samples_write(folder), "no samples");
    replace_in_file(inside("words/config.json"), "\"model_type\": \"llama\"",
                    "\"model_type\": \"mistral\", \"sliding_window\": 4");
    replace_in_file(inside("words/config.json"),
                    "\"max_position_embeddings\": 40",
                    "\"max_position_embeddings\": 3000");
    for (int seed = 1; seed < 5; seed++) {
        snprintf(arguments, sizeof arguments,
                 "-m chat words --template llama-2 -b 4 -p 0 -t 5 -s %d", seed);
        record(arguments, lines);
        for (const char *c = out; *c; c++)
            answered += *c == '\n';
        check_same(arguments, lines, 0);
        check_same(arguments, lines, 30);
    }
    CHECK(answered > 6, "%d answers", answered);
}

/* A profile counts passes that verify draft tokens as decode. */
static void profiles_count_verification_as_decode(void) {
    static const char arguments[] =
        "m.bin --tokens 3,4,5 -n 60 -t 0 -v --profile";
    binary_folder("oracle_profile");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0),
          "cannot make the model");
    record(arguments, NULL);
    check_same(arguments, NULL, 30);
    CHECK(right > 10 && right < ran, "%s", err);
    int passes = 0; /* passes of the prompt */
    const char *prefill = strstr(err, "\nprefill, "),
               *embed = prefill ? strstr(prefill, "\nembed ") : NULL;
    CHECK(embed && sscanf(embed, " embed %d", &passes) == 1 && passes == 1,
          "%d passes of a prompt: %s", passes, err);
}

void suite_guess(void) {
    TEST(lookup_drafts_what_followed_last_time);
    TEST(the_number_follows_acceptance);
    TEST(rejected_drafts_become_rare);
    TEST(texts_are_the_same);
    TEST(right_and_wrong_draft_tokens_give_the_same_text);
    TEST(chats_are_the_same);
    TEST(chats_go_on_after_a_stop);
    TEST(chats_with_windows_are_the_same);
    TEST(profiles_count_verification_as_decode);
}
