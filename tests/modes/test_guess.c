/* test_guess.c: guessing what a text says next.
 *
 * Owns what is guessed, how many guesses run, and that a text is the same with guesses as without.
 */
#include "modes/guess.h"
#include "tests/support/binary.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

/* Says tokens[n]; the results of the last. */
static int say(Guesser *g, const int *tokens, int n) {
    int last = 0;
    for (int i = 0; i < n; i++) last = guesser_say(g, tokens[i]);
    return last;
}

static void what_followed_the_last_time_is_guessed(void) {
    static const int text[] = {7, 1, 2, 3, 40, 41, 9, 2, 3, 50, 8, 1, 2, 3}, twice[] = {5, 6, 5, 6};
    Guesser g;
    guesser_open(&g, 4);
    CHECK(!say(&g, text, 14), "no memory");
    guesser_guess(&g, 100);
    CHECK(g.n_guesses == 4 && g.guesses[0] == 40 && g.guesses[3] == 2, "three tokens: %d guesses, %d first",
          g.n_guesses, g.guesses[0]);
    CHECK(!guesser_say(&g, 2) && !guesser_say(&g, 3), "no guess has run");
    guesser_guess(&g, 2);
    CHECK(g.n_guesses == 2 && g.guesses[0] == 2, "room for 2: %d guesses, %d first", g.n_guesses, g.guesses[0]);
    CHECK(!guesser_say(&g, 99), "no guess has run");
    guesser_guess(&g, 100);
    CHECK(!g.n_guesses && !g.n_run, "a new token: %d guesses", g.n_guesses);
    guesser_close(&g);
    guesser_open(&g, 5);
    CHECK(!say(&g, twice, 4), "no memory");
    guesser_guess(&g, 100);
    CHECK(g.n_guesses == 5 && g.guesses[0] == 5 && g.guesses[1] == 6 && g.guesses[2] == 5, "no end of repeating");
    guesser_close(&g);
}

/* Repeats four tokens, guess for guess right or always wrong, with passes of these seconds. How many run in the end. */
static int guesses_that_run(double alone, double more, bool right, long *accepted) {
    Guesser g;
    guesser_open(&g, 8);
    for (int i = 0, token = 0; i < 400; i++) {
        token = right || i < 12 ? i % 4 : g.n_guesses ? 100 + i % 4 : token;
        if (guesser_say(&g, token) == 1) continue;
        if (i >= 12 && !right) say(&g, (const int[]){0, 1, 2, 3}, 4);
        guesser_guess(&g, 100);
        guesser_learn(&g, alone + g.n_run * more);
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
    guesser_open(&g, 0);
    CHECK(!say(&g, (const int[]){1, 2, 1, 2, 1, 2}, 6) && !g.ends && !g.said.ids, "it keeps the text");
    guesser_guess(&g, 100);
    CHECK(!g.n_guesses && !g.n_run, "%d guesses", g.n_guesses);
    guesser_close(&g);
}

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

void suite_guess(void) {
    TEST(what_followed_the_last_time_is_guessed);
    TEST(as_many_run_as_pay);
    TEST(nothing_is_guessed_unasked);
    TEST(texts_are_the_same);
}
