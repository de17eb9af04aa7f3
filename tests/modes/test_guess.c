/* test_guess.c: guessing what a text says next, by lookup and by a draft.
 *
 * Owns what is guessed, how many guesses run, that a text is the same with guesses as without, and which drafts are
 * refused.
 */
#include "modes/guess.h"
#include "tests/support/binary.h"
#include "tests/support/samples.h"
#include "tests/support/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Says tokens[n]; the results of the last. */
static int say(Guesser *g, const int *tokens, int n) {
    int last = 0;
    for (int i = 0; i < n; i++) last = guesser_say(g, tokens[i]);
    return last;
}

/* What lookup finds, whether it runs or not. */
static const Guesses *look(Guesser *g, int room) {
    const int *tokens;
    if (guesser_guess(g, room, &tokens) != g->n_run || tokens != g->guesses[BY_LOOKUP].tokens)
        test_fail(__FILE__, __LINE__, "not lookup's");
    return &g->guesses[BY_LOOKUP];
}

static void what_followed_the_last_time_is_guessed(void) {
    static const int text[] = {7, 1, 2, 3, 40, 41, 9, 2, 3, 50, 8, 1, 2, 3}, twice[] = {5, 6, 5, 6};
    Guesser g;
    guesser_open(&g, 4, NULL);
    CHECK(!say(&g, text, 14), "no memory");
    const Guesses *found = look(&g, 100);
    CHECK(found->n == 4 && found->tokens[0] == 40 && found->tokens[3] == 2, "three tokens: %d guesses, %d first",
          found->n, found->tokens[0]);
    CHECK(!guesser_say(&g, 2) && !guesser_say(&g, 3), "no guess has run");
    look(&g, 2);
    CHECK(found->n == 2 && found->tokens[0] == 2, "room for 2: %d guesses, %d first", found->n, found->tokens[0]);
    CHECK(!guesser_say(&g, 99), "no guess has run");
    look(&g, 100);
    CHECK(!found->n && !g.n_run, "a new token: %d guesses", found->n);
    guesser_close(&g);
    guesser_open(&g, 5, NULL);
    CHECK(!say(&g, twice, 4), "no memory");
    look(&g, 100);
    CHECK(found->n == 5 && found->tokens[0] == 5 && found->tokens[1] == 6 && found->tokens[2] == 5,
          "no end of repeating");
    guesser_close(&g);
}

/* A conversation may forget what was said: that is no past, though the table has it. */
static void what_was_cut_is_forgotten(void) {
    static const int text[] = {1, 2, 3, 4, 5, 6, 7}, again[] = {9, 4, 5};
    Guesser g;
    guesser_open(&g, 4, NULL);
    CHECK(!say(&g, text, 7), "no memory");
    guesser_cut(&g, 2);
    CHECK(!say(&g, again, 3) && g.said.n == 5, "%d tokens", g.said.n);
    CHECK(look(&g, 100)->n == 0, "it guesses what is not there");
    CHECK(!say(&g, (const int[]){1, 2}, 2) && look(&g, 100)->tokens[0] == 9, "not what followed");
    guesser_close(&g);
}

/* Repeats four tokens, guess for guess right or always wrong, with passes of these seconds. How many run in the end. */
static int guesses_that_run(double alone, double more, bool right, long *accepted) {
    Guesser g;
    guesser_open(&g, 8, NULL);
    for (int i = 0, token = 0; i < 400; i++) {
        token = right || i < 12 ? i % 4 : g.guesses[BY_LOOKUP].n ? 100 + i % 4 : token;
        if (guesser_say(&g, token) == 1) continue;
        if (i >= 12 && !right) say(&g, (const int[]){0, 1, 2, 3}, 4);
        look(&g, 100);
        guesser_learn(&g, alone + g.n_run * more, true);
    }
    const int n = g.n_run;
    *accepted = g.accepted;
    guesser_close(&g);
    return n;
}

static void as_many_run_as_pay(void) {
    long accepted;
    CHECK(guesses_that_run(1, 0.02, true, &accepted) == 8 && accepted > 300, "cheap and right: %ld", accepted);
    CHECK(guesses_that_run(1, 0.02, false, &accepted) <= 1 && accepted < 12, "wrong: %ld accepted", accepted);
    CHECK(guesses_that_run(1, 1.1, true, &accepted) == 0, "dear: some run, %ld accepted", accepted);
}

static void nothing_is_guessed_unasked(void) {
    Guesser g;
    guesser_open(&g, 0, NULL);
    CHECK(!say(&g, (const int[]){1, 2, 1, 2, 1, 2}, 6) && !g.ends && !g.said.ids, "it keeps the text");
    CHECK(!look(&g, 100)->n && !g.n_run, "%d guesses", g.n_run);
    guesser_close(&g);
}

/* ---- a source, in virtual seconds ------------------------------------------------------------ */

/* Guesses that token i is i, which is right in the tokens that say so. */
typedef struct {
    Source source;
    double seconds;      /* that it took */
    long worked;         /* tokens that it has worked through */
    int worked_on[2048]; /* [n_ran] the last of them */
} Counter;

static int count_on(Source *s, const Tokens *said, int *guesses, int n) {
    Counter *c = (Counter *)s;
    if (s->n_ran >= said->n || memcmp(c->worked_on, said->ids, (size_t)s->n_ran * sizeof *said->ids) != 0)
        test_fail(__FILE__, __LINE__, "it has worked through another text");
    for (int i = 0; i < n; i++) guesses[i] = said->n + i;
    memcpy(c->worked_on, said->ids, (size_t)said->n * sizeof *said->ids);
    memcpy(c->worked_on + said->n, guesses, (size_t)(n - 1) * sizeof *guesses);
    c->worked += said->n - s->n_ran + n - 1;
    c->seconds += n * s->each.median + (said->n - 1 - s->n_ran) * s->missed.median;
    s->n_ran = said->n + n - 1;
    return n;
}

/* What 2000 tokens take, where a pass takes 1 second and a guess `more`; of 100 tokens from each multiple of `period`
 * on the source is right. */
static double counted(Counter *c, double more, double each, double missed, int period, int most) {
    Guesser g;
    double seconds = 0;
    *c = (Counter){.source = {.guess = count_on, .each = {each, 1}, .missed = {missed, 1}}};
    guesser_open(&g, most, &c->source);
    for (int i = 0; i < 2000; i++) {
        const int *tokens, ran = guesser_say(&g, i % period < 100 ? i : most ? 5 + i % 3 : 5000 + i);
        if (ran) continue;
        const int n = guesser_guess(&g, 2000 - i, &tokens);
        guesser_learn(&g, 1 + n * more, true);
        seconds += 1 + n * more;
    }
    guesser_close(&g);
    return seconds + c->seconds;
}

static void a_source_is_asked_where_that_pays(void) {
    Counter c;
    const double right = counted(&c, 0.05, 0.05, 0.02, 100, 0), wrong = counted(&c, 0.2, 0.1, 0.03, 1 << 20, 0);
    CHECK(right < 600, "always right: %g s", right);
    CHECK(wrong > 1900 && wrong < 2000 / 0.98, "right for 100 tokens of 2000: %g s", wrong);
    CHECK(c.worked < 400, "it has worked through %ld tokens", c.worked);
    const double dear = counted(&c, 0.2, 2, 0.5, 100, 0);
    CHECK(dear < 2000 / 0.98, "dear: %g s", dear);
    const double never = counted(&c, 0.2, 0.1, 0.03, 1 << 20, 0) - counted(&c, 0.2, 1e9, 1e9, 1 << 20, 0);
    CHECK(never < 20, "%g", never);
}

/* It is wrong for 100 tokens of 200, and is asked again where it is right. */
static void a_source_is_tried_again(void) {
    Counter c;
    const double seconds = counted(&c, 0.05, 0.02, 0.001, 200, 0);
    CHECK(seconds < 1700, "%g s", seconds);
}

/* A conversation goes back to its 20th token, with another one behind it. */
static void a_source_goes_back_with_the_text(void) {
    Counter c = {.source = {.guess = count_on}};
    Guesser g;
    const int *tokens;
    guesser_open(&g, 0, &c.source);
    for (int turn = 0; turn < 3; turn++) {
        guesser_cut(&g, 20 * turn);
        CHECK(!guesser_say(&g, 999) && c.source.n_ran <= 20 * turn, "%d tokens have run", c.source.n_ran);
        for (int i = 0; i < 40; i++) {
            if (guesser_say(&g, g.said.n)) continue;
            guesser_guess(&g, 100, &tokens);
            guesser_learn(&g, 1, true);
        }
        CHECK(c.source.n_ran > 20 * turn + 20, "%d tokens have run", c.source.n_ran);
    }
    guesser_close(&g);
}

/* Of the two the one that gives more: lookup, which costs nothing, in a text of three tokens again and again. */
static void lookup_and_a_source_take_turns(void) {
    Counter c;
    const double lookup = counted(&c, 0.05, 1e9, 1e9, 200, 15), source = counted(&c, 0.05, 0.05, 0.02, 200, 0);
    const double both = counted(&c, 0.05, 0.05, 0.02, 200, 15);
    CHECK(both < 0.7 * lookup && both < 0.7 * source, "lookup %g s, source %g s, both %g s", lookup, source, both);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Greedy, where a small model soon repeats itself, and sampled, also at the end of the context. */
static void texts_are_the_same(void) {
    static const char *const options[] = {"-t 0", "-s 3 -k 2", "-s 4 --repeat-penalty 1.3 -t 0.3 --kv f16",
                                          "-t 0 -n 0 -j 2", "-t 0 -b 2"};
    static char plain[1 << 14];
    bool some = false;
    binary_folder("guess");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0), "cannot make the model");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int most = 0; most <= MOST_GUESSES; most += test_fast() ? 15 : 5) {
            CHECK(run("m.bin --tokens 3,4,5,3,4,5,3,4 -n 60 %s --lookup %d", options[i], most) == 0, "%s", err);
            if (!most) memcpy(plain, out, sizeof plain);
            CHECK(!strncmp(plain, out, sizeof plain), "%s, %d guesses: %.200s", options[i], most, out);
            some = some || (most && strstr(err, " guesses right, "));
        }
    CHECK(some, "no guess ran");
}

/* Guesses right of those that ran, from the statistics. */
static void read_guesses(long *right, long *ran) {
    const char *at = strstr(err, "tokens/s; ");
    for (*right = *ran = 0; at; at = strstr(at + 1, "; "))
        if (sscanf(at, "; %ld of %ld guesses right", right, ran) == 2) return;
}

/* As it was asked for: the guesses are what the plain run said, but for so many percent. */
static void texts_with_good_and_bad_guesses_are_the_same(void) {
    static const char *const options[] = {"--lookup 0 -t 0", "--lookup 0 -s 3 -k 9",
                                          "--lookup 0 -s 4 --repeat-penalty 1.3 -t 0.7 --kv f16",
                                          "-t 0 -n 0 -b 3 --lookup 4"};
    static const int percents[] = {0, 20, 100};
    static char plain[1 << 14], environment[64];
    long right, ran;
    binary_folder("oracle");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0), "cannot make the model");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        remove(inside("said"));
        setup.environment = "NORMA_ORACLE=said";
        CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s", options[i]);
        memcpy(plain, out, sizeof plain);
        for (int p = 0; p < 3; p++) {
            snprintf(environment, sizeof environment, "NORMA_ORACLE=said:%d:%zu:free", percents[p], i);
            setup.environment = environment;
            CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s", options[i]);
            CHECK(!strncmp(plain, out, sizeof plain), "%s, %d %% wrong: %.200s", options[i], percents[p], out);
            read_guesses(&right, &ran);
            if (strstr(options[i], "lookup 4")) continue; /* its guesses count, too */
            CHECK(ran > 10 && (percents[p] == 20 ? right > ran / 3 && right < ran : right == (p ? 0 : ran)),
                  "%s, %d %% wrong: %s", options[i], percents[p], err);
        }
    }
}

static const HashModel SMALLER = {32, 48, 1, 4, 2, 97, 40, false, 9}; /* its context is shorter, too */

/* A draft that is the model draws what the model draws, also where it is cut, and where the draft is another model. */
static void texts_with_a_draft_are_the_same(void) {
    static const char *const options[] = {"--lookup 0 -t 0", "--lookup 0 -s 3 -k 9",
                                          "--lookup 0 -s 4 --repeat-penalty 1.3 -t 0.7",
                                          "--lookup 0 -t 0 -n 0 -j 2 -b 2", "-s 5 --lookup 5 -p 0.5"};
    static char plain[1 << 14];
    long right, ran, wrong = 0;
    binary_folder("draft");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0) && !hashmodel_write(&SMALLER, inside("d.bin"), 1, 0),
          "cannot make the models");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s", options[i]);
        memcpy(plain, out, sizeof plain);
        setup.environment = "NORMA_ORACLE=free";
        CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s --draft m.bin", options[i]);
        CHECK(!strncmp(plain, out, sizeof plain), "%s, the model itself: %.200s", options[i], out);
        read_guesses(&right, &ran);
        CHECK(ran > 10 && (right == ran || i == 4), "%s, the model itself: %s", options[i], err);
        setup.environment = "NORMA_ORACLE=free";
        CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s --draft d.bin", options[i]);
        CHECK(!strncmp(plain, out, sizeof plain), "%s, another model: %.200s", options[i], out);
        read_guesses(&right, &ran);
        CHECK(ran > 10, "%s, another model: %s", options[i], err);
        wrong += ran - right;
        CHECK_RUN("m.bin --tokens 3,4,5 -n 60 %s --draft d.bin", options[i]); /* as many guesses as pay */
        CHECK(!strncmp(plain, out, sizeof plain), "%s, in time: %.200s", options[i], out);
    }
    CHECK(wrong > 10, "%ld guesses of another model were wrong", wrong);
}

/* The draft that is trained for the bundled model: most of its guesses are right, greedy and sampled. */
static void the_bundled_pair_agrees(void) {
    static const char *const options[] = {"-t 0", "-s 2", "-s 3 --lookup 4"};
    static char plain[1 << 14], model[PATH_MAX], draft[PATH_MAX];
    long right, ran;
    CHECK(realpath("models/stories.gguf", model) && realpath("models/draft.gguf", draft), "a model is missing");
    binary_folder("pair");
    for (size_t i = 0; i < sizeof options / sizeof *options; i += test_fast() ? 2 : 1) {
        CHECK_RUN("'%s' -n 120 %s", model, options[i]);
        memcpy(plain, out, sizeof plain);
        setup.environment = "NORMA_ORACLE=free";
        CHECK_RUN("'%s' -n 120 %s --draft '%s'", model, options[i], draft);
        CHECK(!strncmp(plain, out, sizeof plain), "%s: %s", options[i], out);
        read_guesses(&right, &ran);
        CHECK(ran > 100 && 3 * right > ran, "%s: %s", options[i], err);
    }
}

/* Turns are cut and go on; the draft follows. */
static void chats_with_a_draft_are_the_same(void) {
    static const char said[] = "aa\nba ca\naa\n";
    static char plain[1 << 14];
    binary_folder("draft_chat");
    CHECK(samples_write(folder) == 0, "no samples");
    setup.input = said;
    CHECK_RUN("-m chat spm.gguf -t 0");
    memcpy(plain, out, sizeof plain);
    for (int lookup = 0; lookup < 8; lookup += 4) {
        setup.input = said;
        setup.environment = "NORMA_ORACLE=free";
        CHECK_RUN("-m chat spm.gguf -t 0 --draft spm.gguf --lookup %d", lookup);
        CHECK(!strncmp(plain, out, sizeof plain), "%s", out);
    }
}

/* The profile's table has steps that verify in decode, and says how many were rejected. */
static void profiles_count_guesses(void) {
    long right, ran, verified, rejected;
    binary_folder("draft_profile");
    CHECK(!hashmodel_write(&GQA_TIED, inside("m.bin"), 1, 0) && !hashmodel_write(&SMALLER, inside("d.bin"), 1, 0),
          "cannot make the models");
    setup.environment = "NORMA_ORACLE=free";
    CHECK_RUN("m.bin --tokens 3,4,5 -n 60 -t 0 --draft m.bin --profile");
    read_guesses(&right, &ran);
    const char *line = strstr(err, "guesses: decode verified ");
    CHECK(line && sscanf(line, "guesses: decode verified %ld, and rejected %ld", &verified, &rejected) == 2 &&
              verified == ran && rejected == ran - right && ran > 10,
          "%s", err);
    int passes = 0; /* of the prompt */
    const char *parts = strstr(err, "parts: ");
    CHECK(parts && sscanf(parts, "parts: %*f ms, %*f %% of the %*f ms of %d forward passes", &passes) == 1 &&
              passes == 1,
          "%d passes of a prompt: %s", passes, err);
    setup.environment = "NORMA_ORACLE=free";
    CHECK_RUN("m.bin --tokens 3,4,5 -n 60 -s 3 -k 9 --draft d.bin --profile");
    read_guesses(&right, &ran);
    line = strstr(err, "guesses: decode verified ");
    CHECK(line && sscanf(line, "guesses: decode verified %ld, and rejected %ld", &verified, &rejected) == 2 &&
              verified == ran && rejected == ran - right && rejected > 0,
          "%s", err);
}

/* Copies a file of `folder`, with other bytes of the same number in place of some. */
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
        {1, "--draft bpe.gguf: its vocabulary has 903 tokens, expected 300, as spm.gguf has",
         "spm.gguf -i aa --draft bpe.gguf"},
        {1, "--draft piece.gguf: its piece ", "spm.gguf -i aa --draft piece.gguf"},
        {1, "--draft bos.gguf: its BOS and EOS are 5 and 2, expected 1 and 2, as in spm.gguf",
         "spm.gguf -i aa --draft bos.gguf"},
        {1, "missing.gguf: No such file", "spm.gguf -i aa --draft missing.gguf"},
        {2, "--draft is for modes generate and chat, not perplexity", "spm.gguf -m perplexity -i aa --draft spm.gguf"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refused(refused[i].status, refused[i].mention, refused[i].arguments);
}

void suite_guess(void) {
    TEST(what_followed_the_last_time_is_guessed);
    TEST(what_was_cut_is_forgotten);
    TEST(as_many_run_as_pay);
    TEST(nothing_is_guessed_unasked);
    TEST(a_source_is_asked_where_that_pays);
    TEST(a_source_is_tried_again);
    TEST(a_source_goes_back_with_the_text);
    TEST(lookup_and_a_source_take_turns);
    TEST(texts_are_the_same);
    TEST(texts_with_good_and_bad_guesses_are_the_same);
    TEST(texts_with_a_draft_are_the_same);
    TEST(the_bundled_pair_agrees);
    TEST(chats_with_a_draft_are_the_same);
    TEST(profiles_count_guesses);
    TEST(other_vocabularies_are_refused);
}
