/* test_batching.c: the numbered statements of docs/batching.md.
 *
 * One test for every testable statement, in the chapter's order. The chapter
 * uses a few texts of the bundled model; test_sequences.c runs random schedules
 * of all weight types and architectures. */
#include "formats/open.h"
#include "kernels/quant.h"
#include "model.h"
#include "norm.h"
#include "session.h"
#include "tokenizer.h"

#include "tests/support/binary.h"
#include "tests/support/book.h"
#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tests/textbook.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the bundled model -------------------------------------------------- */

enum { TEXTS = 16, OTHERS = 8, LENGTH = 24, MAX_VOCAB = 2048 };

static const char *const BEGINNINGS[TEXTS + OTHERS] = {
    "One day, Tuck",  "Once upon a time", "Lily",         "A fox",
    "The old owl",    "In the forest",    "Mom said",     "It was cold",
    "Two friends",    "Every morning",    "The red kite", "\"Help!\"",
    "On a sunny day", "Barley baked",     "At night",     "The little boat",
    "Grandma had",    "Near the river",   "Tom was sad",  "They found a box",
    "Under a tree",   "The king",         "A loud bell",  "Snow fell"};

static Model model;
static int vocab_size;

/* The texts' tokens, and the logits of each text without the others:
 * [TEXTS][LENGTH][vocab_size]. */
static int tokens[TEXTS + OTHERS][LENGTH], n_prompt[TEXTS + OTHERS];
static float *reference;

static float *reference_logits(int text, int pos) {
    return reference + (size_t)(text * LENGTH + pos) * (size_t)vocab_size;
}

static int most_likely(const float *logits) {
    int best = 0;
    for (int i = 1; i < vocab_size; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* -1: the model or its tokenizer does not open. */
static int open_model(void) {
    const char *path = "models/stories.gguf";
    Tokenizer t;
    if (model_open(&model, path))
        return -1;
    vocab_size = model.config.vocab_size;
    if (vocab_size > MAX_VOCAB ||
        model_open_tokenizer(&t, &model, path, NULL, TOKENIZER_NEEDED) != 1)
        return -1;
    for (int i = 0; i < TEXTS + OTHERS; i++) {
        Tokens prompt;
        if (tokenizer_encode(&t, BEGINNINGS[i], strlen(BEGINNINGS[i]), true,
                             &prompt))
            return -1;
        n_prompt[i] = prompt.n < LENGTH ? prompt.n : LENGTH;
        memcpy(tokens[i], prompt.ids, (size_t)n_prompt[i] * sizeof **tokens);
        free(prompt.ids);
    }
    tokenizer_close(&t);
    return 0;
}

/* Runs each text without the others: greedy, token by token, with one
 * thread. */
static void run_reference(void) {
    Session s;
    reference = malloc((size_t)(TEXTS * LENGTH) * (size_t)vocab_size *
                       sizeof *reference);
    CHECK(reference && !session_open(&s, &model, 1, 64, 0, KV_F16),
          "no memory");
    for (int i = 0; i < TEXTS; i++)
        for (int t = 0; t < LENGTH; t++) {
            const float *logits =
                model_forward_text(&s, &tokens[i][t], 1, t, 1);
            CHECK(logits, "text %d does not run", i);
            memcpy(reference_logits(i, t), logits,
                   (size_t)vocab_size * sizeof *logits);
            if (t + 1 >= n_prompt[i] && t + 1 < LENGTH)
                tokens[i][t + 1] = most_likely(logits);
        }
    session_close(&s);
}

/* ---- 1: what is shared -------------------------------------------------- */

static void one_reading_for_all(void) {
    CHECK(!open_model(), "models/stories.gguf does not open");
    double bytes = (double)model.decode_bytes;
    CHECK(bytes > 2 * 0.99 * (double)model.parameters, "%g bytes",
          bytes); /* float16 */
    HOLDS(bytes, TEXTS, bytes / TEXTS);
}

/* ---- 2, 3: norms -------------------------------------------------------- */

/* BatchNorm of one feature over the n tokens of the batch; `apart` is the
 * stride of x and y. */
static void batch_norm(float *y, const float *x, int n, int apart, double eps) {
    double mean = 0, variance = 0;
    for (int t = 0; t < n; t++)
        mean += (double)x[t * apart] / n;
    for (int t = 0; t < n; t++)
        variance += (x[t * apart] - mean) * (x[t * apart] - mean) / n;
    for (int t = 0; t < n; t++)
        y[t * apart] = (float)((x[t * apart] - mean) / sqrt(variance + eps));
}

static void batch_norm_depends_on_other_texts(void) {
    float above[] = {1, 3}, below[] = {1, -1};
    float y[2];
    batch_norm(y, above, 1, 1, 1e-5);
    CHECK(y[0] == 0, "without others: %g", y[0]);
    batch_norm(y, above, 2, 1, 1e-5);
    CHECK_VALUES(y, 2, 1e-7, -0.999995, 0.999995);
    batch_norm(y, below, 2, 1, 1e-5);
    CHECK_VALUES(y, 2, 1e-7, 0.999995, -0.999995);
    HOLDS(1, 0, 3, -0.999995, -1, 0.999995, 1e-5);
}

/* A text's logits in a pass, and its next token. */
typedef struct {
    float logits[MAX_VOCAB];
    int next;
} Row;

/* The logits of n normalized tokens y[dim]: gamma, then the output matrix. */
static void finish(Row *rows, const float *y, int n) {
    int dim = model.config.dim;
    static float w[MAX_DIM];
    for (int k = 0; k < vocab_size; k++) {
        dequantize_row(w, &model.output, k);
        for (int i = 0; i < dim; i++)
            w[i] *= model.final_norm.gamma[i];
        for (int t = 0; t < n; t++)
            rows[t].logits[k] = (float)dot(w, y + (size_t)(t * dim), dim);
    }
    for (int t = 0; t < n; t++)
        rows[t].next = most_likely(rows[t].logits);
}

/* Runs one token of each of 16 texts in one pass: the first 8 texts, and 8
 * others from `others` on. Computes their logits with norma, with the plain
 * formula of the final norm, and with a BatchNorm as the final norm. */
static void run_together(int others, Row *own, Row *plain, Row *by_batch) {
    static float y[TEXTS * MAX_DIM];
    int dim = model.config.dim;
    Session s;
    Step last[TEXTS];
    CHECK(!session_open(&s, &model, 1, 64, 0, KV_F16) &&
              !session_reserve(&s, TEXTS),
          "no session");
    for (int i = 0; i < TEXTS; i++) {
        int text = i < 8 ? i : others + i - 8, n = n_prompt[text];
        Step steps[LENGTH];
        for (int t = 0; t < n; t++)
            steps[t] = (Step){tokens[text][t], i, t, false};
        last[i] = (Step){tokens[text][n - 1], i, n - 1, true};
        CHECK(n == 1 || model_forward(&s, steps, n - 1), "does not run");
    }
    const float *logits = model_forward(&s, last, TEXTS);
    CHECK(logits, "does not run");
    for (int i = 0; i < TEXTS; i++) {
        memcpy(own[i].logits, logits + (size_t)i * (size_t)vocab_size,
               (size_t)vocab_size * sizeof *logits);
        own[i].next = most_likely(own[i].logits);
    }
    norm_by_formula(
        y, s.chunk.x,
        &(Norm){.kind = NORM_RMS, .eps = model.final_norm.eps, .gamma = ONES},
        TEXTS, dim);
    finish(plain, y, TEXTS);
    for (int i = 0; i < dim; i++)
        batch_norm(y + i, s.chunk.x + i, TEXTS, dim, 1e-5);
    finish(by_batch, y, TEXTS);
    session_close(&s);
}

static void a_norm_over_the_batch(void) {
    static Row own[2][TEXTS], plain[2][TEXTS], by_batch[2][TEXTS];
    int rows = 0, rows_by_batch = 0, next_by_batch = 0;
    CHECK(model.config.dim <= MAX_DIM, "dim %d", model.config.dim);
    for (int k = 0; k < 2; k++)
        run_together(8 + 8 * k, own[k], plain[k], by_batch[k]);
    for (int i = 0; i < 8; i++) {
        CHECK(own[0][i].next == plain[0][i].next,
              "text %d: the residual stream gives token %d", i,
              plain[0][i].next);
        rows += memcmp(own[0] + i, own[1] + i, sizeof **own) != 0;
        rows_by_batch +=
            memcmp(by_batch[0] + i, by_batch[1] + i, sizeof **own) != 0;
        next_by_batch += by_batch[0][i].next != by_batch[1][i].next;
    }
    CHECK(!rows, "RMSNorm: %d rows have other bits", rows);
    HOLDS(TEXTS, 8, rows, rows_by_batch, next_by_batch);
}

/* ---- 4 to 7: other conditions ------------------------------------------- */

static void a_sum_depends_on_its_order(void) {
    volatile float large = 16777216, one = 1, sum = large + one;
    sum += one;
    CHECK(sum == large, "%.9g", sum);
    HOLDS(large, 1, sum);
    sum = one + one;
    sum += large;
    HOLDS(large + 2.0, sum);
}

/* Of 1,000 dot products of 768 numbers: how many change if 16 partial sums are
 * used. */
static void products_in_two_orders(void) {
    enum { N = 768, PRODUCTS = 1000, SUMS = 16 };
    int others = 0;
    for (int k = 0; k < PRODUCTS; k++) {
        float x[N], w[N], sums[SUMS] = {0}, one = 0, many = 0;
        fill_random(x, 500 + (uint64_t)k, N, 4);
        fill_random(w, 5000 + (uint64_t)k, N, 1);
        for (int i = 0; i < N; i++) {
            one = fmaf(x[i], w[i], one);
            sums[i % SUMS] = fmaf(x[i], w[i], sums[i % SUMS]);
        }
        for (int i = 0; i < SUMS; i++)
            many += sums[i];
        others += one != many;
    }
    HOLDS(PRODUCTS, N, SUMS, others);
}

static void one_scale_for_two_tokens(void) {
    enum { GROUP = 32 };
    const float x[2 * GROUP] = {1, 2, [GROUP] = 100};
    int8_t q[2 * GROUP];
    InputGroup groups[2];
    quantize_i8(q, groups, x, 2 * GROUP,
                GROUP); /* norma's groups never span two tokens */
    float own[] = {(float)q[0] * groups[0].scale,
                   (float)q[1] * groups[0].scale};
    CHECK_VALUES(own, 2, 1e-6, 64 * 2 / 127.0, 2);
    double scale = 100 / 127.0,
           shared[] = {scale * round(1 / scale), scale * round(2 / scale)};
    HOLDS(1, 2, 127, 100, 64 * 2 / 127.0, shared[0], shared[1]);
}

/* Runs n steps and compares the logits of the first `good` rows with the
 * reference. Returns how many rows differ. */
static int other_rows(Session *s, const Step *steps, int n, int good) {
    const float *logits = model_forward(s, steps, n);
    int others = 0;
    for (int i = 0; i < good && logits; i++)
        others += memcmp(logits + (size_t)i * (size_t)vocab_size,
                         reference_logits(steps[i].sequence, steps[i].pos),
                         (size_t)vocab_size * sizeof *logits) != 0;
    return logits ? others : n;
}

/* Runs all texts, `count` texts at a time; returns how many rows differ. */
static int together(Session *s, int count) {
    int others = 0;
    for (int first = 0; first < TEXTS; first += count)
        for (int t = 0; t < LENGTH; t++) {
            Step steps[TEXTS];
            for (int i = 0; i < count; i++)
                steps[i] = (Step){tokens[first + i][t], first + i, t, true};
            others += other_rows(s, steps, count, count);
        }
    return others;
}

/* Runs all texts, `count` tokens at a time, followed by two wrong draft tokens;
 * returns how many rows differ. */
static int with_guesses(Session *s, int count) {
    int others = 0;
    for (int i = 0; i < TEXTS; i++)
        for (int t = 0; t < LENGTH; t += count) {
            Step steps[LENGTH + 2];
            for (int k = 0; k < count; k++)
                steps[k] = (Step){tokens[i][t + k], i, t + k, true};
            for (int k = count; k < count + 2; k++)
                steps[k] =
                    (Step){(tokens[i][t] + k) % vocab_size, i, t + k, true};
            others += other_rows(s, steps, count + 2, count);
        }
    return others;
}

static void no_bit_of_a_logit(void) {
    Session s;
    int others = 0;
    run_reference();
    CHECK(!session_open(&s, &model, 1, 64, 0, KV_F16) &&
              !session_reserve(&s, TEXTS),
          "no session");
    for (int count = test_fast() ? TEXTS : 2; count <= TEXTS; count *= 2)
        others += together(&s, count);
    others +=
        (test_fast() ? 0 : with_guesses(&s, 3)) + with_guesses(&s, LENGTH);
    session_close(&s);
    free(reference);
    model_close(&model);
    CHECK(!others, "%d rows have other bits", others);
    HOLDS(TEXTS, LENGTH, 2, 4, 8, 3, 6 * TEXTS * LENGTH, others);
}

/* ---- 8: whole texts ----------------------------------------------------- */

enum { PROMPTS = 8, WAYS = 3 };

/* How many of the n texts in `plain` are missing in the output, which has a
 * line before each text. */
static int missing_texts(char plain[][1 << 11], int n, const char *from) {
    int missing = 0;
    for (int i = 0; i < n; i++) {
        const char *text = strstr(from, "=== prompt "),
                   *end = text ? strchr(text, '\n') : NULL;
        missing += !end || strncmp(end + 1, plain[i], strlen(plain[i])) != 0;
        from = end ? end : from;
    }
    return missing;
}

/* How many texts of the bundled model with these options differ from separate
 * runs, over all ways; -1: a separate run failed. */
static int other_texts(const char *options) {
    static char plain[PROMPTS][1 << 11];
    int n = test_fast() ? 2 : PROMPTS;
    int others = 0;
    for (int i = 0; i < n; i++) {
        if (run("model.gguf -j 1 %s -i '%s'", options, BEGINNINGS[i]) ||
            n_out >= sizeof plain[i])
            return -1;
        strcpy(plain[i], out);
        others += run("model.gguf -j 1 %s -i '%s' --lookup 8", options,
                      BEGINNINGS[i]) ||
                  strcmp(out, plain[i]);
    }
    others +=
        run("model.gguf %s --prompts prompts.txt --parallel 3 -j 1", options)
            ? n
            : missing_texts(plain, n, out);
    others +=
        run("model.gguf %s --prompts prompts.txt --parallel 16 -j 1", options)
            ? n
            : missing_texts(plain, n, out);
    return others;
}

static void no_byte_of_a_text(void) {
    char path[PATH_MAX];
    CHECK(realpath("models/stories.gguf", path),
          "models/stories.gguf is missing");
    binary_folder("batching");
    CHECK(!symlink(path, inside("model.gguf")), "no link");
    FILE *f = fopen(inside("prompts.txt"), "w");
    for (int i = 0; i < (test_fast() ? 2 : PROMPTS); i++)
        fprintf(f, "%s\n", BEGINNINGS[i]);
    CHECK(!fclose(f), "cannot write");
    int greedy = other_texts("-n 64 -t 0"),
        sampled = other_texts("-n 64 -t 1 -s 5");
    CHECK(!greedy && !sampled,
          "%d greedy texts and %d sampled ones are others: %s", greedy, sampled,
          err);
    HOLDS(PROMPTS, 3, 16, 2 * WAYS * PROMPTS, greedy + sampled, 64);
}

/* ---- 9 to 11: speculative decoding -------------------------------------- */

static double uniform(uint64_t salt, int i) {
    return (double)(hash64(9, salt, (uint64_t)i) >> 11) * 0x1p-53;
}

/* The token drawn from p[3] with the random number `coin`. */
static int drawn(const double *p, double coin) {
    return coin < p[0] ? 0 : coin < p[0] + p[1] ? 1 : 2;
}

/* Leviathan et al. 2023: a token drawn from q is accepted with probability
 * min(1, p / q); otherwise a token is drawn from max(0, p - q), normalized.
 * *kept: whether it was accepted. */
static int leviathan(const double *p, const double *q, int i, bool *kept) {
    int guess = drawn(q, uniform(1, i));
    double rest[3], sum = 0;
    *kept = uniform(2, i) * q[guess] < p[guess];
    if (*kept)
        return guess;
    for (int k = 0; k < 3; k++)
        sum += rest[k] = fmax(p[k] - q[k], 0);
    for (int k = 0; k < 3; k++)
        rest[k] /= sum;
    return drawn(rest, uniform(3, i));
}

static void two_ways_to_accept(void) {
    enum { DRAWS = 100000 };
    double p[] = {0.5, 0.3, 0.2}, q[] = {0.6, 0.3, 0.1};
    double overlap = 0, n_kept = 0, right = 0, same = 0, counts[3] = {0};
    for (int k = 0; k < 3; k++)
        overlap += fmin(p[k], q[k]);
    for (int i = 0; i < DRAWS; i++) {
        bool kept;
        int token = leviathan(p, q, i, &kept), plain = drawn(p, uniform(4, i));
        n_kept += kept;
        counts[token]++;
        same += token == plain;
        right += plain == 0; /* the most likely token as the draft */
    }
    CHECK(fabs(n_kept / DRAWS - overlap) < 0.01, "%g are kept", n_kept / DRAWS);
    for (int k = 0; k < 3; k++)
        CHECK(fabs(counts[k] / DRAWS - p[k]) < 0.01, "token %d: %g", k,
              counts[k] / DRAWS);
    CHECK(fabs(right / DRAWS - p[0]) < 0.01, "%g are right", right / DRAWS);
    double chance = 0; /* that two independent draws are equal */
    for (int k = 0; k < 3; k++)
        chance += p[k] * p[k];
    CHECK(fabs(same / DRAWS - chance) < 0.01, "%g are those of plain decoding",
          same / DRAWS);
    HOLDS(p[0], p[1], p[2], q[0], q[1], q[2], overlap, chance);
}

/* Expected tokens of a pass with k draft tokens, each correct with probability
 * a if the earlier ones are. */
static double tokens_of(double a, int k) {
    return (1 - pow(a, k + 1)) / (1 - a);
}

static void tokens_of_a_pass(void) {
    static const double likely[] = {0.5, 0.8, 0.95};
    static const int lengths[] = {1, 2, 4, 8, 15};
    for (int i = 0; i < 3; i++) {
        HOLDS(likely[i]);
        for (int j = 0; j < 5; j++) {
            enum { PASSES = 20000 };
            double made = 0;
            for (int pass = 0, coin = 0; pass < PASSES; pass++) {
                int right = 0;
                while (right < lengths[j] &&
                       uniform(10 + (uint64_t)(5 * i + j), coin++) < likely[i])
                    right++;
                /* the pass also yields the token after the last correct draft
                 * token */
                made += right + 1;
            }
            double expected = tokens_of(likely[i], lengths[j]);
            CHECK(fabs(made / PASSES / expected - 1) < 0.02,
                  "a %g, k %d: %g, expected %g", likely[i], lengths[j],
                  made / PASSES, expected);
            HOLDS(lengths[j], expected);
        }
    }
    HOLDS(pow(0.8, 5), 0.2, 5);
}

/* The speedup with k draft tokens if each adds 0.1 of a pass. */
static double gain_of(double a, int k) {
    return tokens_of(a, k) / (1 + 0.1 * k);
}

static void longest_is_not_best(void) {
    static const double likely[] = {0.5, 0.8, 0.95};
    enum { MAX_K = 15 };
    for (int i = 0; i < 3; i++) {
        int best = 1;
        for (int k = 2; k <= MAX_K; k++)
            if (gain_of(likely[i], k) > gain_of(likely[i], best))
                best = k;
        HOLDS(likely[i], best, gain_of(likely[i], best));
    }
    CHECK(fabs(gain_of(0.1, 1) - 1) < 1e-12 && gain_of(0.09, 1) < 1 &&
              gain_of(0.11, 1) > 1,
          "one guess: %g", gain_of(0.1, 1));
    for (int k = 1; k <= MAX_K; k++)
        CHECK(gain_of(0.1, k) < 1 + 1e-12, "%d guesses: %g", k,
              gain_of(0.1, k));
    HOLDS(0.1, MAX_K, 1, 4, tokens_of(0.8, 4), 1.4, gain_of(0.8, 4),
          gain_of(0.8, MAX_K));
}

static const Statement STATEMENTS[] = {
    STATEMENT(one_reading_for_all),
    STATEMENT(batch_norm_depends_on_other_texts),
    STATEMENT(a_norm_over_the_batch),
    STATEMENT(a_sum_depends_on_its_order),
    STATEMENT(products_in_two_orders),
    STATEMENT(one_scale_for_two_tokens),
    STATEMENT(no_bit_of_a_logit),
    STATEMENT(no_byte_of_a_text),
    STATEMENT(two_ways_to_accept),
    STATEMENT(tokens_of_a_pass),
    STATEMENT(longest_is_not_best),
};

static const Table TABLE_OF_TESTS = TABLE(STATEMENTS);
static const Book BOOK = {
    .chapters = {"docs/batching.md", "docs/batching.zh.md"},
    .given = "tests/golden/batching.txt",
    .n_statements = 15,
    .tables = {&TABLE_OF_TESTS}};

void suite_batching(void) {
    book_test(&BOOK);
}
