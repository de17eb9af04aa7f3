/* test_sampler.c: from logits to the next token.
 *
 * Compares with a second sampler: softmax in double precision, a full sort, and
 * the filters in the order of model.h. Random numbers are checked against
 * independently computed values.
 */
#include "sampler.h"

#include "tests/support/hashmodel.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 512 };

static const Sampling PLAIN = {
    .temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = 1};

static uint64_t state;

static int any(int n) {
    return (int)(hash64(41, 7, state++) % (uint64_t)n);
}

static double uniform(void) {
    return (double)(hash64(41, 8, state++) >> 11) / 9007199254740992.0;
}

/* ---- the second sampler ------------------------------------------------- */

typedef struct {
    double p;
    int id;
} Choice;

/* The candidates: choices[kept], in the order of the draw. */
typedef struct {
    Choice choices[MAX_VOCAB];
    int kept;
    double sum;
    bool close; /* a decision depended on the last bits of a sum */
} Distribution;

static bool is_close(double a, double b) {
    return fabs(a - b) < 1e-5;
}

/* Applies the repeat penalty once to each of the last tokens of `history`. */
static void penalize(double *logits, int n, const Sampling *o,
                     const int *history, int n_history) {
    int last = o->repeat_last ? o->repeat_last : n_history,
        from = n_history > last ? n_history - last : 0;
    for (int id = 0; id < n; id++) {
        bool recent = false;
        for (int i = from; i < n_history; i++)
            recent |= history[i] == id;
        double penalty = (double)o->repeat_penalty;
        if (recent)
            logits[id] =
                logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
}

static int by_probability(const void *a, const void *b) {
    const Choice *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p)
                        : (x->id > y->id) - (x->id < y->id);
}

static void add_up(Distribution *d) {
    d->sum = 0;
    for (int i = 0; i < d->kept; i++)
        d->sum += d->choices[i].p;
}

static void keep_top_k(Distribution *d, int k) {
    const Choice *c = d->choices;
    if (k <= 0 || k >= d->kept)
        return;
    d->close |= c[k - 1].p != c[k].p && is_close(c[k - 1].p / c[k].p, 1);
    d->kept = k;
    add_up(d);
}

/* The fewest tokens with more than P of the remaining probability. */
static void keep_top_p(Distribution *d, double top_p) {
    double cumulative = 0;
    int k = 0;
    if (top_p <= 0 || top_p >= 1)
        return;
    while (k < d->kept && cumulative <= top_p * d->sum) {
        cumulative += d->choices[k++].p;
        d->close |= is_close(cumulative, top_p * d->sum);
    }
    d->kept = k;
    add_up(d);
}

static void keep_min_p(Distribution *d, double min_p) {
    if (min_p <= 0)
        return;
    double most = d->choices[0].p;
    while (d->kept > 1) {
        double p = d->choices[d->kept - 1].p / most;
        d->close |= is_close(p, min_p);
        if (p >= min_p)
            break;
        d->kept--;
    }
    add_up(d);
}

static void distribute(Distribution *d, const float *logits, int n,
                       const Sampling *o, const int *history, int n_history) {
    double l[MAX_VOCAB], max = -INFINITY;
    for (int i = 0; i < n; i++)
        l[i] = (double)logits[i];
    penalize(l, n, o, history, n_history);
    for (int i = 0; i < n; i++)
        max = fmax(max, l[i]);
    d->close = false;
    d->kept = n;
    for (int i = 0; i < n; i++)
        d->choices[i] = (Choice){exp((l[i] - max) / (double)o->temperature), i};
    add_up(d);
    for (int i = 0; i < n; i++)
        d->choices[i].p /= d->sum;
    add_up(d);
    if (!((o->top_p > 0 && o->top_p < 1) || o->top_k > 0 || o->min_p > 0))
        return; /* then the draw is in the order of ids */
    qsort(d->choices, (size_t)n, sizeof *d->choices, by_probability);
    keep_top_k(d, o->top_k);
    keep_top_p(d, (double)o->top_p);
    keep_min_p(d, (double)o->min_p);
}

/* xorshift64* (Vigna 2016), 24 bits. */
static double coin(uint64_t *s) {
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return (double)(*s * 0x2545f4914f6cdd1du >> 40) / 16777216;
}

static int draw(Distribution *d, double where) {
    double cumulative = 0;
    int id = -1;
    for (int i = 0; i < d->kept; i++) {
        cumulative += d->choices[i].p;
        d->close |= is_close(where * d->sum, cumulative);
        if (id < 0 && where * d->sum < cumulative)
            id = d->choices[i].id;
    }
    return id;
}

/* ---- comparison --------------------------------------------------------- */

static Sampling random_options(int n) {
    float top_ps[] = {0, 1, 0.9f, 0.5f, 0.99f, 1e-4f, (float)uniform()};
    Sampling o;
    o.temperature = (float)(0.2 + 1.8 * uniform());
    o.top_p = top_ps[any(7)];
    o.top_k = (int[]){0, 0, 1, 5, 40, n, n + 5}[any(7)];
    o.min_p = (float[]){0, 0, 0.05f, 0.5f, 1}[any(5)];
    o.repeat_penalty = (float[]){1, 1, 1.3f, 0.7f}[any(4)];
    o.repeat_last = (int[]){64, 0, 1, 7, 1000}[any(5)];
    o.seed = 1 + (uint64_t)any(1 << 30);
    return o;
}

static void random_logits(float *logits, int n) {
    float width = (float[]){0, 0.1f, 3, 20}[any(4)];
    bool coarse = any(3) == 0; /* equal logits */
    for (int i = 0; i < n; i++) {
        logits[i] = width * (float)(uniform() + uniform() - 1);
        if (coarse)
            logits[i] = roundf(logits[i]);
        if (any(20) == 0)
            logits[i] = -INFINITY;
    }
    logits[any(n)] = 0; /* at least one possible token */
}

static void draws_match_the_sorting_sampler(void) {
    int draws = 0, close = 0;
    for (int round = 0; round < (test_fast() ? 20 : 400); round++) {
        static Distribution d;
        float logits[MAX_VOCAB];
        int history[200];
        int n = (int[]){1, 2, 17, 100, MAX_VOCAB}[any(5)], start = any(150);
        Sampling o = random_options(n);
        uint64_t seed = o.seed;
        Sampler s;
        CHECK(sampler_open(&s, &o, n) == 0, "does not open");
        for (int i = 0; i < start; i++)
            sampler_accept(&s, history[i] = any(n));
        for (int i = start; i < start + 20; i++, draws++) {
            random_logits(logits, n);
            distribute(&d, logits, n, &o, history, i);
            int expected = draw(&d, coin(&seed)),
                token = sampler_next(&s, logits);
            CHECK(
                token == expected || d.close,
                "round %d: token %d of %d, expected %d (t %g, p %g, k %d, min-p %g, penalty %g)",
                round, token, n, expected, (double)o.temperature,
                (double)o.top_p, o.top_k, (double)o.min_p,
                (double)o.repeat_penalty);
            close += token != expected;
            sampler_accept(&s, history[i] = token);
        }
        sampler_close(&s);
    }
    CHECK(close <= draws / 200, "%d of %d draws differ for rounding", close,
          draws);
}

/* ---- random numbers ----------------------------------------------------- */

/* With 2^16 equal logits every p is exactly 2^-16, and the token is the upper
 * 16 bits of the random number. Expected: xorshift64* (Vigna 2016) computed in
 * Python: x ^= x >> 12; x ^= x << 25; x ^= x >> 27; x * 0x2545f4914f6cdd1d >>
 * 48. */
static void random_numbers_are_xorshift64_star(void) {
    static const struct {
        uint64_t seed;
        int numbers[8];
    } known[] = {
        {1, {18404, 43983, 47569, 19892, 3681, 51303, 53330, 44145}},
        {42, {22222, 51265, 51782, 61868, 50095, 54771, 13383, 28823}},
        {0xdeadbeefcafef00d,
         {20813, 31750, 40766, 13142, 52374, 10022, 44933, 63590}},
    };
    static float logits[1 << 16];
    for (int k = 0; k < 3; k++) {
        Sampling o = PLAIN;
        Sampler s;
        o.seed = known[k].seed;
        CHECK(sampler_open(&s, &o, 1 << 16) == 0, "does not open");
        for (int i = 0; i < 8; i++) {
            int token = sampler_next(&s, logits);
            CHECK(token == known[k].numbers[i], "number %d is %d, expected %d",
                  i, token, known[k].numbers[i]);
        }
        sampler_close(&s);
    }
}

/* The first numbers of splitmix64's reference implementation for seed 1234567,
 * shifted by 11 bits. */
static void seeds_of_samples_are_splitmix64(void) {
    static const uint64_t published[] = {
        6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
        4593380528125082431u, 16408922859458223821u};
    CHECK(sample_seed(1234567, 0) == 1234567 &&
              sample_seed(UINT64_MAX, 0) == UINT64_MAX,
          "sample 0");
    for (int i = 1; i <= 5; i++)
        CHECK(sample_seed(1234567, i) == published[i - 1] >> 11,
              "sample %d: %llu", i,
              (unsigned long long)sample_seed(1234567, i));
}

/* The first draws of a seed's samples are uniform: chi-squared with 10 classes
 * exceeds 27.9 in 0.1 % of cases. */
static void first_draws_of_samples_are_uniform(void) {
    float logits[10] = {0};
    for (uint64_t seed = 1; seed < 6; seed++) {
        int found[10] = {0};
        double squares = 0;
        for (int i = 0; i < 1000; i++) {
            Sampler s;
            Sampling o = {.temperature = 1,
                          .repeat_penalty = 1,
                          .seed = sample_seed(seed, i)};
            CHECK(!sampler_open(&s, &o, 10), "no memory");
            found[sampler_next(&s, logits)]++;
            sampler_close(&s);
        }
        for (int k = 0; k < 10; k++)
            squares += (found[k] - 100) * (found[k] - 100) / 100.0;
        CHECK(squares < 27.9, "seed %d: chi-squared %g", (int)seed, squares);
    }
}

/* Pearson's chi-square of many draws; with 11 degrees of freedom it exceeds 50
 * once in a million. */
static void frequencies_match(Sampling o) {
    enum { N = 12, DRAWS = 50000 };
    static const float logits[N] = {0, 1,  2, -1,   0.5f, 0.25f,
                                    3, -2, 1, 1.5f, 0,    -0.5f};
    static Distribution d;
    int counts[N] = {0};
    double chi = 0;
    Sampler s;
    distribute(&d, logits, N, &o, &(int){0}, 0);
    CHECK(sampler_open(&s, &o, N) == 0, "does not open");
    for (int i = 0; i < DRAWS; i++)
        counts[sampler_next(&s, logits)]++;
    sampler_close(&s);
    for (int i = 0; i < d.kept; i++) {
        double expected = d.choices[i].p / d.sum * DRAWS,
               off = counts[d.choices[i].id] - expected;
        chi += off * off / expected;
        counts[d.choices[i].id] = 0;
    }
    for (int i = 0; i < N; i++)
        CHECK(counts[i] == 0, "token %d came %d times, expected never", i,
              counts[i]);
    CHECK(chi < 50, "chi-square is %g", chi);
}

static void frequencies_match_plain(void) {
    frequencies_match(PLAIN);
}

static void frequencies_match_truncated(void) {
    Sampling o = PLAIN;
    o.seed = 5;
    o.temperature = 0.7f;
    frequencies_match(o);
    o.top_p = 0.8f;
    frequencies_match(o);
    o.top_k = 7;
    frequencies_match(o);
    o.top_p = 0;
    o.min_p = 0.1f;
    frequencies_match(o);
}

/* ---- greedy ------------------------------------------------------------- */

/* One token with the given options. */
static int next(const Sampling *o, const float *logits, int n) {
    Sampler s;
    if (sampler_open(&s, o, n))
        return -1;
    int token = sampler_next(&s, logits);
    sampler_close(&s);
    return token;
}

static void greedy_takes_the_largest_logit(void) {
    Sampling greedy = PLAIN, top_1 = PLAIN;
    greedy.temperature = 0;
    top_1.top_k = 1;
    for (int round = 0; round < 300; round++) {
        float logits[MAX_VOCAB];
        int n = 1 + any(MAX_VOCAB);
        int best = 0;
        random_logits(logits, n);
        for (int i = n - 1; i >= 0; i--)
            if (logits[i] >= logits[best])
                best = i; /* the first of equal ones */
        top_1.seed++;
        CHECK(next(&greedy, logits, n) == best, "greedy: %d, expected %d",
              next(&greedy, logits, n), best);
        CHECK(next(&top_1, logits, n) == best, "top-k 1: %d, expected %d",
              next(&top_1, logits, n), best);
    }
}

/* Greedy decoding draws no random number, so later draws do not change. */
static void greedy_draws_no_number(void) {
    static const float logits[3] = {1, 2, 3};
    Sampling o = PLAIN;
    Sampler s;
    o.temperature = 0;
    CHECK(sampler_open(&s, &o, 3) == 0, "does not open");
    sampler_next(&s, logits);
    CHECK(s.state == o.seed, "the state changed");
    s.options.temperature = 1;
    sampler_next(&s, logits);
    CHECK(s.state != o.seed, "the state did not change");
    sampler_close(&s);
}

/* ---- repeat penalty ----------------------------------------------------- */

/* The greedy choice after `token` was accepted `times` times, then token 0
 * n_others times; the penalty looks `last` tokens back. */
static int after_last(int last, const float *logits, int n, float penalty,
                      int token, int times, int n_others) {
    Sampling o = PLAIN;
    o.repeat_last = last;
    Sampler s;
    o.temperature = 0;
    o.repeat_penalty = penalty;
    if (sampler_open(&s, &o, n))
        return -1;
    for (int i = 0; i < times; i++)
        sampler_accept(&s, token);
    for (int i = 0; i < n_others; i++)
        sampler_accept(&s, 0);
    int result = sampler_next(&s, logits);
    sampler_close(&s);
    return result;
}

static int after(const float *logits, int n, float penalty, int token,
                 int times, int n_others) {
    return after_last(64, logits, n, penalty, token, times, n_others);
}

static void repeat_penalty_works_on_both_signs(void) {
    static const float above[4] = {-9, 1.5f, 2, 1},
                       below[4] = {-9, -1.5f, -1, -2};
    CHECK(after(above, 4, 1, 2, 1, 0) == 2, "no penalty");
    CHECK(after(above, 4, 2, 2, 1, 0) == 1, "2 / 2 < 1.5");
    CHECK(after(below, 4, 2, 2, 1, 0) == 1, "-1 * 2 < -1.5");
    CHECK(after(above, 4, 0.5f, 3, 1, 0) == 2,
          "1 / 0.5 == 2: the first of equals");
    CHECK(after(above, 4, 0.4f, 3, 1, 0) == 3, "1 / 0.4 > 2");
}

static void repeat_penalty_counts_a_token_once(void) {
    static const float logits[3] = {-9, 1.5f, 4};
    CHECK(after(logits, 3, 2, 2, 50, 0) == 2,
          "4 / 2 > 1.5, for any number of occurrences");
}

static void repeat_penalty_looks_back_on_its_window(void) {
    static const float logits[3] = {-9, 1.5f, 2};
    static const int windows[] = {1, 10, 64, 500};
    for (int before = 1; before < 300; before += 37) {
        for (int i = 0; i < 4; i++) {
            int last = windows[i];
            CHECK(after_last(last, logits, 3, 2, 2, before, last - 1) == 1,
                  "%d, then %d: still in the window", before, last - 1);
            CHECK(after_last(last, logits, 3, 2, 2, before, last) == 2,
                  "%d, then %d: out of it", before, last);
            CHECK(after_last(last, logits, 3, 2, 2, before, 6 * last) == 2,
                  "%d, then %d: long out of it", before, 6 * last);
        }
        CHECK(after_last(0, logits, 3, 2, 2, before, 2000) == 1,
              "%d, then 2000: without a window", before);
    }
}

/* ---- edges * ------------------------------------------------------------- */

static void impossible_tokens_are_never_drawn(void) {
    enum { N = 300 };
    float logits[N];
    for (int round = 0; round < 2000; round++) {
        Sampling o = random_options(N);
        for (int i = 0; i < N; i++)
            logits[i] = i % 3 == 1 ? (float)(4 * uniform()) : -INFINITY;
        /* the first number is the largest, 1 - 2^-24 */
        if (round % 10 == 0)
            o.seed = 0xa8d395be4b19cce8;
        if (round % 20 == 0)
            o.top_p = o.min_p = 0, o.top_k = 0;
        int token = next(&o, logits, N);
        CHECK(token >= 0 && token < N && logits[token] >= 0,
              "round %d: token %d", round, token);
    }
}

static void equal_logits(void) {
    float logits[100] = {0};
    int counts[100] = {0};
    Sampling o = PLAIN;
    o.top_k = 3;
    for (o.seed = 1; o.seed < 1000; o.seed++)
        counts[next(&o, logits, 100)]++;
    CHECK(counts[0] && counts[1] && counts[2] &&
              counts[0] + counts[1] + counts[2] == 999,
          "not tokens 0, 1 and 2");
    o = PLAIN;
    o.top_p = 0.001f; /* less than any token's probability */
    for (o.seed = 1; o.seed < 100; o.seed++)
        CHECK(next(&o, logits, 100) == 0, "top-p 0.001 gave token %d",
              next(&o, logits, 100));
}

static void a_vocabulary_of_one(void) {
    for (int round = 0; round < 500; round++) {
        Sampling o = random_options(1);
        float logit = (float)(100 * uniform() - 50);
        CHECK(next(&o, &logit, 1) == 0, "token %d", next(&o, &logit, 1));
    }
}

/* For infinite logits, with any penalty, the choice is a valid token. */
static void infinite_logits_give_a_token(void) {
    static const float values[] = {INFINITY, -INFINITY, FLT_MAX,
                                   -FLT_MAX, FLT_MIN,   0};
    for (int round = 0; round < 3000; round++) {
        float logits[20];
        Sampling o = random_options(20);
        Sampler s;
        int kinds = 1 + any(6);
        bool certain = false;
        o.repeat_penalty = (float[]){1, 100, 0.01f}[any(3)];
        for (int i = 0; i < 20; i++)
            certain |= (logits[i] = values[any(kinds)]) > FLT_MAX;
        CHECK(sampler_open(&s, &o, 20) == 0, "does not open");
        for (int i = 0; i < 5; i++)
            sampler_accept(&s, any(20));
        int token = sampler_next(&s, logits);
        sampler_close(&s);
        CHECK(token >= 0 && token < 20, "round %d: token %d", round, token);
        CHECK(!certain || o.repeat_penalty < 1 || logits[token] > FLT_MAX,
              "round %d: not the infinite one", round);
    }
}

void suite_sampler(void) {
    TEST(draws_match_the_sorting_sampler);
    TEST(random_numbers_are_xorshift64_star);
    TEST(seeds_of_samples_are_splitmix64);
    TEST(first_draws_of_samples_are_uniform);
    TEST(frequencies_match_plain);
    TEST(frequencies_match_truncated);
    TEST(greedy_takes_the_largest_logit);
    TEST(greedy_draws_no_number);
    TEST(repeat_penalty_works_on_both_signs);
    TEST(repeat_penalty_counts_a_token_once);
    TEST(repeat_penalty_looks_back_on_its_window);
    TEST(impossible_tokens_are_never_drawn);
    TEST(equal_logits);
    TEST(a_vocabulary_of_one);
    TEST(infinite_logits_give_a_token);
}
