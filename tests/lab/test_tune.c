/* test_tune.c: tune.c: its choice of threads, with durations that the test
 * sets.
 *
 * test_invariance.c checks that threads change no bit.
 */
#include "formats/open.h"
#include "lab/tune.h"
#include "model.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const HashModel MEDIUM = {256, 704, 3, 4, 2, 97, 64, true, 41};

static Model m;
static Session s;
static Tuning t;

static void open_all(void) {
    const char *path = temporary("tune.bin");
    CHECK(!hashmodel_write(&MEDIUM, path, 0, 0) && !model_open(&m, path),
          "cannot make the model");
    CHECK(!session_open(&s, &m, 2, 8, 0, KV_F32), "cannot open");
    tuning_open(&t, &s);
}

static void close_all(void) {
    session_close(&s);
    model_close(&m);
}

/* Sets the duration of a token on a machine where `threads` threads are faster.
 * Sometimes another program takes the processor. */
static void run_token(int threads, double factor, int token) {
    s.seconds = 10.0 * (s.decode_threads == threads ? 1 : factor) +
                (token * 7 % 11 == 0 ? 50 : 0);
}

/* Checks the number of threads after the last trial. */
static void check_choice(int faster, double factor, int expected) {
    open_all();
    int n = 0;
    for (int last = -1; t.tried > last && n < 200;
         n++) { /* until nothing more is tried */
        last = t.tried;
        run_token(faster, factor, n);
        tune(&t, 1);
    }
    CHECK(n > 1 && n < 200 && s.decode_threads == expected,
          "after %d tokens %d threads", n, s.decode_threads);
    close_all();
}

static void the_fastest_is_chosen(void) {
    check_choice(2, 1.5, 2);
    check_choice(1, 1.5, 1);
}

static void two_threads_need_a_gain(void) {
    check_choice(2, 1.01, 1);
    check_choice(2, 1.05, 2);
}

/* Only passes of one step are timed, by the session itself. */
static void prompts_are_not_timed(void) {
    int tokens[] = {1, 2, 3};
    open_all();
    CHECK(model_forward_text(&s, tokens, 3, 0, 1) != NULL, "cannot run");
    tune(&t, 3);
    CHECK(t.tried == 0, "%d tokens were timed, a prompt ran", t.tried);
    s.seconds = -1;
    CHECK(model_forward_text(&s, tokens, 1, 3, 1) != NULL && s.seconds > 0 &&
              s.seconds < 100,
          "%g s", s.seconds);
    tune(&t, 1);
    CHECK(t.tried == 1, "%d tokens were timed, one ran", t.tried);
    close_all();
}

/* A profile's shares depend on the number of threads, so nothing is tried. */
static void an_observed_session_keeps_its_threads(void) {
    open_all();
    s.probe = &(Probe){0};
    tuning_open(&t, &s);
    for (int i = 0; i < 200; i++) {
        CHECK(s.decode_threads == 2, "token %d runs on %d threads", i,
              s.decode_threads);
        run_token(1, 1.5, i);
        tune(&t, 1);
    }
    close_all();
}

/* All weights are packed before the first token. */
static void nothing_is_packed_while_tokens_run(void) {
    open_all();
    for (int i = 0; i < 100; i++)
        tune(&t, 1);
    CHECK(!m.panels, "packed by the tuner");
    close_all();
}

void suite_tune(void) {
    TEST(the_fastest_is_chosen);
    TEST(two_threads_need_a_gain);
    TEST(an_observed_session_keeps_its_threads);
    TEST(prompts_are_not_timed);
    TEST(nothing_is_packed_while_tokens_run);
}
