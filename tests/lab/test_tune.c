/* test_tune.c: tune.c: its choice of threads and prefetching, with durations that the test sets.
 *
 * test_matmul.c and test_invariance.c check that neither changes a bit.
 */
#include "formats/open.h"
#include "formats/parts.h"
#include "lab/tune.h"

#include "tests/support/test.h"

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
    tuning_open(&t, &m, &s);
}

static void close_all(void) {
    session_close(&s);
    model_close(&m);
}

/* The fastest settings of the simulated machine. */
typedef struct {
    int threads;
    Prefetch prefetch;
    double gain; /* share of the time that the prefetch saves */
} Likes;

static bool same_prefetch(Prefetch a, Prefetch b) {
    return a.distance == b.distance && a.near == b.near;
}

/* Sets the duration of a token. Sometimes another program takes the processor. */
static void run_token(const Likes *likes, int token) {
    s.seconds =
        10.0 *
            (same_prefetch(m.output.prefetch, likes->prefetch) ? 1 - likes->gain
                                                               : 1) *
            (s.decode_threads == likes->threads ? 1 : 1.5) +
        (token * 7 % 11 == 0 ? 50 : 0);
}

/* Checks the number of threads and the prefetch of every weight after the last trial. */
static void check_choice(Likes likes, int threads, Prefetch expected) {
    open_all();
    int n = 0;
    for (int last = -1; t.tried > last && n < 200;
         n++) { /* until nothing more is tried */
        last = t.tried;
        run_token(&likes, n);
        tune(&t, 1);
    }
    CHECK(n > 1 && n < 200 && s.decode_threads == threads,
          "after %d tokens %d threads", n, s.decode_threads);
    for (PartAt at = parts_of(&m); next_part(&at);) {
        const Tensor *w = part_weight(&at);
        CHECK(!w || same_prefetch(w->prefetch, expected),
              "prefetches %d bytes distance, not %d", w->prefetch.distance,
              expected.distance);
    }
    CHECK(same_prefetch(m.output.prefetch, expected),
          "the output prefetches %d bytes ahead", m.output.prefetch.distance);
    close_all();
}

static void the_fastest_is_chosen(void) {
    check_choice((Likes){2, {4096, false}, 0.3}, 2, (Prefetch){4096, false});
    check_choice((Likes){1, {2048, true}, 0.1}, 1, (Prefetch){2048, true});
}

static void prefetching_needs_a_gain(void) {
    check_choice((Likes){2, {8192, false}, 0.01}, 2, (Prefetch){0, false});
    check_choice((Likes){2, {0, false}, 0.2}, 2, (Prefetch){0, false});
}

/* Only passes of one step are timed, by the session itself. */
static void prompts_are_not_timed(void) {
    const int tokens[] = {1, 2, 3};
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

/* A profile's shares depend on the number of threads, so only prefetching is tried. */
static void an_observed_session_keeps_its_threads(void) {
    open_all();
    s.probe = &(Probe){0};
    tuning_open(&t, &m, &s);
    for (int i = 0; i < 200; i++) {
        CHECK(s.decode_threads == 2, "token %d runs on %d threads", i,
              s.decode_threads);
        run_token(&(Likes){1, {4096, false}, 0.3}, i);
        tune(&t, 1);
    }
    CHECK(m.output.prefetch.distance == 4096, "prefetches %d bytes ahead",
          m.output.prefetch.distance);
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
    TEST(prefetching_needs_a_gain);
    TEST(an_observed_session_keeps_its_threads);
    TEST(prompts_are_not_timed);
    TEST(nothing_is_packed_while_tokens_run);
}
