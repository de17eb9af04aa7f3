/* test_textbook_today.c: more numbered statements of docs/norms.md:
 * shapes, placement, weights before a norm, norms of today's models, and the
 * answers to the exercises.
 *
 * Continues test_textbook.c. `python scripts/golden/textbook_today.py` prints
 * PyTorch's numbers.
 */
#include "base/file.h"
#include "formats/open.h"
#include "lab/norm_spec.h"
#include "model.h"
#include "norm.h"
#include "session.h"

#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes -------------------------------------------------------------- */

/* x[2][2][2]; without keepdim the scales [2][2] are broadcast along the last
 * two axes. */
static void three_axes(void) {
    Norm norm = {NORM_RMS, 0, ONES, NULL, 0};
    float x[8], y[8], wrong[8];
    double scales[4];
    for (int i = 0; i < 8; i++)
        x[i] = (float)(i + 1);
    norm_forward(y, x, &norm, 4, 2);
    for (int t = 0; t < 4; t++)
        scales[t] = 1 / rms_of(x + 2 * t, 2);
    for (int i = 0; i < 8; i++)
        wrong[i] = (float)(x[i] * scales[i % 4]);
    CHECK_VALUES(y, 8, 1e-6, 0.632455532, 1.26491106, 0.848528137, 1.13137085,
                 0.90535746, 1.08642895, 0.931266147, 1.06430417);
    CHECK_VALUES(wrong, 8, 1e-6, 0.632455532, 0.565685425, 0.543214476,
                 0.532152084, 3.16227766, 1.69705627, 1.26750044, 1.06430417);
    HOLDS(2, 5, 8, 1, 0, 3, 4, 3 / sqrt(12.5), 4 / sqrt(12.5), 3 / sqrt(30.5),
          4 / sqrt((49 + 64) / 2.0));
}

/* The mean of both tokens is 25.5; their means are 7.5 and 43.5. */
static void one_mean_of_everything(void) {
    float x[8], y[8];
    for (int i = 0; i < 8; i++)
        x[i] = (float)(i + 1);
    double both = dot(x, x, 8) / 8, first = dot(x, x, 4) / 4,
           second = dot(x + 4, x + 4, 4) / 4;
    for (int i = 0; i < 8; i++)
        y[i] = (float)(x[i] / sqrt(both));
    CHECK(fabs(rms_of(y, 4) - 0.542326145) < 1e-7, "token 0: %.9g",
          rms_of(y, 4));
    CHECK(fabs(rms_of(y + 4, 4) - 1.30609431) < 1e-7, "token 1: %.9g",
          rms_of(y + 4, 4));
    HOLDS(1, 2, 3, 4, 5, 6, 7, 8, both, first, second, sqrt(first / both),
          sqrt(second / both));
}

enum { SAMPLES = 2, LENGTH = 3, HEADS = 2, HEAD = DIM / HEADS };

static void project_double(double *out, const double *x, uint64_t w,
                           int first_row, int rows) {
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int c = 0; c < DIM; c++)
            out[r] += random_float(w, (first_row + r) * DIM + c) * x[c];
    }
}

/* Attention among all tokens of x[n][DIM]. */
static void two_heads(double *out, const double *x, int n) {
    double q[LENGTH][DIM], k[LENGTH][DIM], v[LENGTH][DIM];
    for (int t = 0; t < n; t++) {
        project_double(q[t], x + t * DIM, 91, 0, DIM);
        project_double(k[t], x + t * DIM, 91, DIM, DIM);
        project_double(v[t], x + t * DIM, 91, 2 * DIM, DIM);
    }
    for (int t = 0; t < n; t++) {
        double mixed[DIM] = {0};
        for (int h = 0; h < HEADS; h++) {
            double weights[LENGTH], sum = 0;
            for (int s = 0; s < n; s++) {
                double score = 0;
                for (int i = 0; i < HEAD; i++)
                    score += q[t][h * HEAD + i] * k[s][h * HEAD + i];
                sum += weights[s] = exp(score / sqrt(HEAD));
            }
            for (int s = 0; s < n; s++)
                for (int i = 0; i < HEAD; i++)
                    mixed[h * HEAD + i] +=
                        weights[s] / sum * v[s][h * HEAD + i];
        }
        project_double(out + t * DIM, mixed, 92, 0, DIM);
    }
}

/* The largest change of sample 0 of x[SAMPLES][LENGTH][DIM] if sample 1 changes
 * by 1, with attention along the first or the second axis. */
static double moved(bool batch_first) {
    double y[2][LENGTH][DIM], max = 0;
    for (int move = 0; move < 2; move++)
        for (int t = 0; t < LENGTH; t++) {
            double x[LENGTH * DIM], out[LENGTH * DIM];
            int n = batch_first ? LENGTH : SAMPLES;
            for (int s = 0; s < n; s++)
                for (int i = 0; i < DIM; i++) {
                    int sample = batch_first ? 0 : s, at = batch_first ? s : t;
                    x[s * DIM + i] =
                        4 * random_float(90, (sample * LENGTH + at) * DIM + i) +
                        (float)(sample ? move : 0);
                }
            two_heads(out, x, n);
            memcpy(y[move][t], out + (batch_first ? t * DIM : 0),
                   sizeof y[move][t]);
        }
    for (int t = 0; t < LENGTH; t++)
        for (int i = 0; i < DIM; i++)
            max = fmax(max, fabs(y[1][t][i] - y[0][t][i]));
    return max;
}

static void attention_across_the_batch(void) {
    CHECK(fabs(moved(false) - 0.751340123) < 1e-6, "along the batch: %.9g",
          moved(false));
    CHECK(moved(true) == 0, "along the sequence: %.9g", moved(true));
    HOLDS(2, 3, 8, 1, 0, moved(false), moved(true));
}

/* mean(z^4) / mean(z^2)^2 for z = y - mean(y). */
static double kurtosis(const float *y, int n) {
    double mean = mean_of(y, n), fourth = 0, second = 0;
    for (int i = 0; i < n; i++) {
        double square = (y[i] - mean) * (y[i] - mean);
        second += square / n;
        fourth += square * square / n;
    }
    return fourth / (second * second);
}

static void a_norm_keeps_the_shape(void) {
    enum { N = 64 };
    float even[N], two[N], one[N] = {[5] = 1}, y[N];
    for (int i = 0; i < N; i++) {
        even[i] = (float)i;
        two[i] = (float)(i % 2);
    }
    layernorm(y, even, ONES, NULL, N, 0);
    CHECK(fabs(kurtosis(even, N) - 1.79941392) < 1e-6, "evenly spaced: %.9g",
          kurtosis(even, N));
    CHECK(fabs(kurtosis(y, N) - 1.79941392) < 1e-6, "its norm: %.9g",
          kurtosis(y, N));
    layernorm(y, two, ONES, NULL, N, 0);
    CHECK(fabs(kurtosis(y, N) - 1) < 1e-6, "two values: %.9g", kurtosis(y, N));
    rmsnorm(y, one, ONES, N, 0);
    CHECK(y[5] == 8, "one of %d: %.9g", N, y[5]);
    HOLDS(0, 1, 3, N, 3 * (3.0 * N * N - 7) / (5 * (N * N - 1.0)), sqrt(N));
}

/* 2 is added to feature 0 of 256 tokens: its mean over them afterwards, over
 * draws. */
static void a_feature_may_shift(void) {
    enum { N = 256, WIDTH = 64, DRAWS = 200 };
    /* PyTorch's, and their standard errors */
    static const double expected[2][2] = {{1.6760339, 0.00417992},
                                          {1.66206711, 0.00417565}};
    static float x[N * WIDTH], y[N * WIDTH];
    Draws means[2] = {{0}};
    for (int draw = 0; draw < DRAWS; draw++) {
        fill_random(x, 40000 + (uint64_t)draw, N * WIDTH, 4);
        for (int t = 0; t < N; t++)
            x[t * WIDTH] += 2;
        for (int k = 0; k < 2; k++) {
            Norm norm = {k ? NORM_LAYER : NORM_RMS, 1e-5f, ONES, NULL, 0};
            double mean = 0;
            norm_forward(y, x, &norm, N, WIDTH);
            for (int t = 0; t < N; t++)
                mean += (double)y[t * WIDTH] / N;
            add_draw(&means[k], mean);
        }
    }
    for (int k = 0; k < 2; k++) {
        CHECK(fabs(mean_of_draws(&means[k]) - expected[k][0]) < 1e-5 &&
                  fabs(error_of_draws(&means[k]) - expected[k][1]) < 1e-5,
              "%s: %.9g +- %.9g", k ? "LayerNorm" : "RMSNorm",
              mean_of_draws(&means[k]), error_of_draws(&means[k]));
        HOLDS(expected[k][0], expected[k][1]);
    }
    HOLDS(N, WIDTH, 2, 0, DRAWS);
}

static void two_defaults_of_eps(void) {
    static const double sizes[] = {1, 0.1, 0.01, 0.001};
    for (int i = 0; i < 4; i++) {
        double r = sizes[i], five = r / sqrt(r * r + 1e-5),
               six = r / sqrt(r * r + 1e-6);
        float x[] = {(float)r, (float)-r, (float)r, (float)-r};
        float y[4];
        rmsnorm(y, x, ONES, 4, 1e-5f);
        CHECK(fabs(rms_of(y, 4) - five) < 2e-7, "1e-5, RMS %g: %.9g", r,
              rms_of(y, 4));
        rmsnorm(y, x, ONES, 4, 1e-6f);
        CHECK(fabs(rms_of(y, 4) - six) < 2e-7, "1e-6, RMS %g: %.9g", r,
              rms_of(y, 4));
        HOLDS(r, five, six);
    }
    HOLDS(1e-5, 1e-6);
}

enum { RATIO_DRAWS = 4000 };

/* The mean of norm(10 x) / norm(x), less 1, in double precision by its closed
 * form, over the tokens of a draw: uniform elements of [-2, 2) or normal
 * ones. */
static double ratio_of_draw(int draw, bool gaussian) {
    double excess = 0;
    for (int t = 0; t < TOKENS; t++) {
        double square = 0;
        for (int i = 0; i < DIM; i++) {
            int at = t * DIM + i;
            double x = gaussian
                           ? normal(50000 + (uint64_t)draw, at)
                           : 4.0 * random_float(60000 + (uint64_t)draw, at);
            square += x * x / DIM;
        }
        excess += (sqrt((square + 1e-6) / (square + 1e-8)) - 1) / TOKENS;
    }
    return excess;
}

/* mean(norm(10 x) / norm(x)) in double precision by its closed form; norm.c in
 * float32 is close, and without eps it is 1. */
static void the_ratio_is_eps(void) {
    double ulp_of_one = ldexp(1, -23);
    float x[DIM], scaled[DIM], y[DIM], z[DIM];
    double exact = 0, with = 0, without = 0;
    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < DIM; i++)
            scaled[i] = 10 * (x[i] = 4 * random_float(3, t * DIM + i));
        double square = dot(x, x, DIM) / DIM;
        exact += sqrt((square + 1e-6) / (square + 1e-8)) / TOKENS;
        for (int k = 0; k < 2; k++) {
            rmsnorm(y, x, ONES, DIM, k ? 0 : 1e-6f);
            rmsnorm(z, scaled, ONES, DIM, k ? 0 : 1e-6f);
            for (int i = 0; i < DIM; i++)
                *(k ? &without : &with) += (double)z[i] / y[i] / (TOKENS * DIM);
        }
    }
    CHECK(fabs(exact - 1 - 3.30802116e-07) < 1e-14, "float64: 1 + %.9g",
          exact - 1);
    CHECK(fabs(with - exact) < 5e-8, "norm.c: 1 + %.9g", with - 1);
    CHECK(fabs(without - 1) < 5e-8, "norm.c without eps: 1 + %.9g",
          without - 1);
    HOLDS(1, 10, 1e-6, 100, 8, 5, -23, 2, 0, 1.2e-7, 1 + 5 * ulp_of_one,
          exact - 1, ulp_of_one);
    Draws uniform = {0}, gaussian = {0};
    for (int draw = 0; draw < RATIO_DRAWS; draw++) {
        add_draw(&uniform, ratio_of_draw(draw, false));
        add_draw(&gaussian, ratio_of_draw(draw, true));
    }
    double u = mean_of_draws(&uniform), g = mean_of_draws(&gaussian);
    /* eps / 2 * 0.99 times the mean of 1 / m; for normal elements 8 / 6 */
    CHECK(fabs(g - 0.495e-6 * 8 / 6) < 4 * error_of_draws(&gaussian),
          "normal elements: 1 + %.9g +- %.9g", g, error_of_draws(&gaussian));
    double expected = 4.2076e-7; /* for uniform elements, integrated */
    CHECK(fabs(u - expected) < 4 * error_of_draws(&uniform),
          "uniform elements: 1 + %.9g +- %.9g", u, error_of_draws(&uniform));
    HOLDS(RATIO_DRAWS, expected, 0.495e-6 * 8 / 6, 0.495e-6 * 8 / 6 / expected,
          u, error_of_draws(&uniform), g, error_of_draws(&gaussian));
}

/* ---- the notes' own loss ------------------------------------------------- */

/* Mean and variance (with n - 1, as torch.var) of dL/dx for L = mean((norm(x) -
 * target)^2). */
static void notes_gradient(double *mean, double *variance, NormKind kind,
                           const float *x, const float *target) {
    enum { N = TOKENS * DIM };
    Norm norm = {kind, 1e-6f, ONES, NULL, 0};
    float y[N], dy[N], dx[N], unused[2][DIM];
    norm_forward(y, x, &norm, TOKENS, DIM);
    for (int i = 0; i < N; i++)
        dy[i] = 2 * (y[i] - target[i]) / N;
    for (int t = 0; t < N; t += DIM)
        if (kind == NORM_RMS)
            rmsnorm_backward(dx + t, unused[0], dy + t, x + t, ONES, DIM,
                             1e-6f);
        else
            layernorm_backward(dx + t, unused[0], unused[1], dy + t, x + t,
                               ONES, DIM, 1e-6f);
    *mean = mean_of(dx, N);
    *variance = (dot(dx, dx, N) - N * *mean * *mean) / (N - 1);
}

static void the_loss_of_the_notes(void) {
    enum { N = TOKENS * DIM, DRAWS = 4000 };
    double factor = 4.0 / (N * N), rms = factor * N * 7 / 8 * 8 / 6 / N,
           layer = factor * 6 / 8 * 8 / 5, unbiased = layer * N / (N - 1);
    double variances[2] = {0}, squares = 0;
    int larger = 0; /* draws in which RMSNorm's is */
    for (int draw = 0; draw < DRAWS; draw++) {
        float x[N], target[N];
        double mean, variance;
        for (int i = 0; i < N; i++) {
            x[i] = (float)normal(94, draw * N + i);
            target[i] = (float)normal(95, draw * N + i);
        }
        notes_gradient(&mean, &variance, NORM_LAYER, x, target);
        CHECK(fabs(mean) < 1e-8, "LayerNorm, draw %d: mean %g", draw, mean);
        variances[1] += variance / DRAWS;
        double other = variance;
        notes_gradient(&mean, &variance, NORM_RMS, x, target);
        variances[0] += variance / DRAWS;
        larger += variance > other;
        squares += mean * mean / DRAWS;
    }
    CHECK(fabs(variances[0] / rms - 1) < 0.02,
          "RMSNorm: variance %g, expected %g", variances[0], rms);
    CHECK(fabs(variances[1] / unbiased - 1) < 0.02,
          "LayerNorm: variance %g, expected %g", variances[1], unbiased);
    CHECK(abs(larger - DRAWS * 43 / 100) < DRAWS * 3 / 100,
          "RMSNorm's is the larger in %d of %d", larger, DRAWS);
    CHECK(fabs(sqrt(squares / (rms / N)) - 1) < 0.05,
          "RMSNorm: the means spread by %g", sqrt(squares));
    HOLDS(TOKENS, DIM, N, 1, 2, 4, N * N, rms, layer, unbiased, N - 1, 43,
          sqrt(rms / N), DIM - 1, DIM - 2, DIM - 3, 8.0 / 6, 8.0 / 5);
}

/* ---- where norms are placed ---------------------------------------------- */

enum { BREADTH = 64, DEEP = 12 };
typedef enum { PRE, POST, INSIDE, SANDWICH, N_PLACES } Place;
typedef struct {
    float w[DEEP][BREADTH * BREADTH];
    /* inputs and outputs of the matrices */
    float x[DEEP + 1][BREADTH], in[DEEP][BREADTH], out[DEEP][BREADTH];
} Depth;

static void apply_matrix(float *out, const float *w, const float *x,
                         bool transposed) {
    for (int r = 0; r < BREADTH; r++) {
        double sum = 0;
        for (int c = 0; c < BREADTH; c++)
            sum += (double)w[transposed ? c * BREADTH + r : r * BREADTH + c] *
                   x[c];
        out[r] = (float)sum;
    }
}

/* Runs the sublayers, which are linear maps, from d->x[0] on. */
static void go_deep(Depth *d, Place place) {
    for (int l = 0; l < DEEP; l++) {
        float *x = d->x[l], *y = d->x[l + 1], branch[BREADTH];
        if (place == PRE || place == SANDWICH)
            rmsnorm(d->in[l], x, ONES, BREADTH, 0);
        else
            memcpy(d->in[l], x, sizeof d->in[l]);
        apply_matrix(d->out[l], d->w[l], d->in[l], false);
        memcpy(branch, d->out[l], sizeof branch);
        if (place == INSIDE || place == SANDWICH)
            rmsnorm(branch, branch, ONES, BREADTH, 0);
        for (int i = 0; i < BREADTH; i++)
            y[i] = x[i] + branch[i];
        if (place == POST) {
            memcpy(d->out[l], y, sizeof d->out[l]); /* the norm's input */
            rmsnorm(y, y, ONES, BREADTH, 0);
        }
    }
}

/* |dL/dx| / |loss| at every depth, and |dL/dW| / |loss| of every matrix, for
 * L = sum(loss norm(x)) at the end. */
static void come_back(double *sizes, double *slopes, const Depth *d,
                      Place place, const float *loss) {
    float g[BREADTH], dx[BREADTH], branch[BREADTH], unused[BREADTH] = {0};
    rmsnorm_backward(g, unused, loss, d->x[DEEP], ONES, BREADTH, 0);
    for (int l = DEEP; l >= 0; l--) {
        sizes[l] = sqrt(dot(g, g, BREADTH) / dot(loss, loss, BREADTH));
        if (!l)
            break;
        if (place == POST) {
            rmsnorm_backward(dx, unused, g, d->out[l - 1], ONES, BREADTH, 0);
            memcpy(g, dx, sizeof g);
        }
        memcpy(branch, g, sizeof branch);
        if (place == INSIDE || place == SANDWICH)
            rmsnorm_backward(branch, unused, g, d->out[l - 1], ONES, BREADTH,
                             0);
        slopes[l - 1] = sqrt(dot(branch, branch, BREADTH) *
                             dot(d->in[l - 1], d->in[l - 1], BREADTH) /
                             dot(loss, loss, BREADTH));
        apply_matrix(dx, d->w[l - 1], branch, true);
        memcpy(branch, dx, sizeof branch);
        if (place == PRE || place == SANDWICH)
            rmsnorm_backward(branch, unused, dx, d->x[l - 1], ONES, BREADTH, 0);
        for (int i = 0; i < BREADTH; i++)
            g[i] += branch[i];
    }
}

/* The seed of a draw's weights; the next three are those of their changes, the
 * loss and the token. */
static int seed_of(int draw) {
    return draw ? 1000 + 4 * draw : 100;
}

static void set_weights(Depth *d, int draw, double factor, double move) {
    double size = sqrt(12.0 / BREADTH);
    for (int l = 0; l < DEEP; l++)
        for (int i = 0; i < BREADTH * BREADTH; i++) {
            int at = l * BREADTH * BREADTH + i;
            double change =
                move != 0 ? move * random_float(seed_of(draw) + 1, at) : 0;
            d->w[l][i] =
                (float)(size *
                        (factor * random_float(seed_of(draw), at) + change));
        }
    fill_random(d->x[0], seed_of(draw) + 3, BREADTH, 1);
    rmsnorm(d->x[0], d->x[0], ONES, BREADTH, 0);
}

/* Means over draws: RMS at the end; the gradient at depths 0, 4, 8, 12; that of
 * the first and of the last matrix; the change of the result, in percent, if
 * the weights change by 1 %. PLACES has PyTorch's. */
enum { END_RMS, AT_DEPTH, FIRST_W = AT_DEPTH + 4, LAST_W, MOVES, N_MEANS };
static const double PLACES[N_PLACES][N_MEANS] = {
    [PRE] = {3.58054579, 0.990222162, 0.447978176, 0.334986332, 0.279778138,
             5.65716336, 2.23822511, 1.49583442},
    [POST] = {1, 1.01585406, 1.01122114, 1.00394705, 0.992441415, 5.77981585,
              5.6999947, 2.49436757},
    [INSIDE] = {3.57609645, 0.996102223, 0.451675538, 0.335958778, 0.279898739,
                5.69912077, 2.25767069, 1.50815355},
    [SANDWICH] = {3.57609645, 0.996102223, 0.451675538, 0.335958778,
                  0.279898739, 5.69912077, 2.25767069, 1.50815355},
};
enum { DEPTH_DRAWS = 200 };

/* Adds a draw, first with move 0. ends[place]: the result without a move. */
static void add_depth_draw(Draws found[N_PLACES][N_MEANS], Depth *d, int draw,
                           float (*ends)[BREADTH], double move) {
    float loss[BREADTH], end[BREADTH];
    double sizes[DEEP + 1], slopes[DEEP];
    fill_random(loss, seed_of(draw) + 2, BREADTH, 1);
    set_weights(d, draw, 1, move);
    for (Place place = 0; place < N_PLACES; place++) {
        Draws *means = found[place];
        go_deep(d, place);
        rmsnorm(end, d->x[DEEP], ONES, BREADTH, 0);
        for (int i = 0; i < BREADTH && move != 0; i++)
            end[i] -= ends[place][i];
        if (move != 0) {
            add_draw(&means[MOVES], 100 * rms_of(end, BREADTH));
            continue;
        }
        memcpy(ends[place], end, sizeof end);
        come_back(sizes, slopes, d, place, loss);
        add_draw(&means[END_RMS], rms_of(d->x[DEEP], BREADTH));
        for (int i = 0; i < 4; i++)
            add_draw(&means[AT_DEPTH + i], sizes[4 * i]);
        add_draw(&means[FIRST_W], slopes[0]);
        add_draw(&means[LAST_W], slopes[DEEP - 1]);
    }
}

static void four_places_by_depth(void) {
    Depth *d = malloc(sizeof *d);
    float ends[N_PLACES][BREADTH] = {{0}};
    Draws found[N_PLACES][N_MEANS] = {{{0}}};
    for (int draw = 0; draw < DEPTH_DRAWS; draw++) {
        add_depth_draw(found, d, draw, ends, 0);
        add_depth_draw(found, d, draw, ends, 0.01);
    }
    free(d);
    for (Place place = 0; place < N_PLACES; place++)
        for (int i = 0; i < N_MEANS; i++) {
            double mean = mean_of_draws(&found[place][i]),
                   error = error_of_draws(&found[place][i]);
            CHECK(fabs(mean / PLACES[place][i] - 1) < 1e-4,
                  "place %d, mean %d: %.9g", place, i, mean);
            CHECK(error < 0.03 * mean, "place %d, mean %d: %.9g +- %.9g", place,
                  i, mean, error);
            HOLDS(PLACES[place][i]);
        }
    HOLDS(DEEP, BREADTH, DEPTH_DRAWS, 0, 4, 8, 1, 3);
}

/* With weights times 4 a norm after the branch has the same bits. */
static void a_post_norm_bounds_the_branch(void) {
    Depth *d = malloc(sizeof *d);
    float end[BREADTH];
    double sizes[2];
    for (int k = 0; k < 2; k++) {
        set_weights(d, 0, k ? 4 : 1, 0);
        go_deep(d, SANDWICH);
        if (k)
            CHECK(!memcmp(end, d->x[DEEP], sizeof end),
                  "sandwich: %.9g and %.9g", end[0], d->x[DEEP][0]);
        memcpy(end, d->x[DEEP], sizeof end);
        set_weights(d, 0, k ? 4 : 1, 0);
        go_deep(d, PRE);
        sizes[k] = rms_of(d->x[DEEP], BREADTH);
    }
    CHECK(fabs(sizes[1] - 14.8452172) < 1e-4, "pre: %.9g", sizes[1]);
    free(d);
    HOLDS(4, sizes[0], sizes[1], rms_of(end, BREADTH), DEEP);
}

/* ---- QK-norm ------------------------------------------------------------- */

static void qk_norm_bounds_the_scores(void) {
    static const int heads[] = {64, 128};
    for (int k = 0; k < 2; k++) {
        int n = heads[k];
        float q[MAX_DIM], key[MAX_DIM];
        double max = 0;
        /* random keys; the last is the query itself, the worst case */
        for (int t = 0; t < 200; t++) {
            fill_random(q, 120, n, 1e3f);
            fill_random(key, t == 199 ? 120 : 121 + (uint64_t)t, n, 1e5f);
            rmsnorm(q, q, ONES, n, 0);
            rmsnorm(key, key, ONES, n, 0);
            max = fmax(max, fabs(dot(q, key, n)) / sqrt(n));
        }
        CHECK(fabs(max - sqrt(n)) < 1e-5, "head of %d: %.9g", n, max);
        HOLDS(n, sqrt(n));
    }
    /* a query along the first element of a pair, turned by RoPE to the second
     * one; a key along that */
    float q[64] = {[0] = 1}, key[64] = {[1] = 1}, gamma_q[64], gamma_k[64];
    for (int i = 0; i < 64; i++)
        gamma_q[i] = gamma_k[i] = 1;
    gamma_q[0] = gamma_k[1] = 4;
    gamma_q[1] = gamma_k[0] = 0.25f;
    rmsnorm(q, q, gamma_q, 64, 0);
    rmsnorm(key, key, gamma_k, 64, 0);
    q[1] = q[0];
    q[0] = 0;
    double score = dot(q, key, 64) / sqrt(64);
    CHECK(fabs(score - 128) < 1e-4, "a score of %.9g", score);
    HOLDS(64, 4, 1, score);
    double dim = 4096, extra = (32 + 8) * 128; /* Qwen3 8B */
    HOLDS(1, 10, 100, 3, 8, 2, dim, 32, 40, extra, 2 * dim,
          100 * extra / (2 * dim), 2 * 128);
}

/* ---- when the mean is small; large elements; folding --------------------- */

typedef enum { UNIFORM, NORMAL, LAPLACE, CAUCHY, DOMINATED } Distribution;

/* An element of a token; DOMINATED: normal elements, and one of 1e6. */
static double element(Distribution distribution, uint64_t tensor, int i) {
    double u = random_float(tensor, i) + 0x1p-25;
    switch (distribution) {
    case UNIFORM: return u;
    case LAPLACE: return (u < 0 ? 1 : -1) * log(1 - 2 * fabs(u));
    case CAUCHY: return tan(3.14159265358979 * u);
    case NORMAL:
    case DOMINATED: break;
    }
    return distribution == DOMINATED && !i ? 1e6 : normal(tensor, i);
}

enum { MEAN_DRAWS = 4000, MEAN_DIM = 256 };

/* dim (mean / RMS)^2, and |mean| / RMS relative to sqrt(2 / (pi dim)). */
static void mean_over_rms(Draws *squares, Draws *sizes,
                          Distribution distribution) {
    for (int draw = 0; draw < MEAN_DRAWS; draw++) {
        double mean = 0, square = 0;
        for (int i = 0; i < MEAN_DIM; i++) {
            double x = element(distribution, 44000 + (uint64_t)draw, i);
            mean += x / MEAN_DIM;
            square += x * x / MEAN_DIM;
        }
        add_draw(squares, MEAN_DIM * mean * mean / square);
        add_draw(sizes, fabs(mean) / sqrt(square) /
                            sqrt(2 / (3.14159265358979 * MEAN_DIM)));
    }
}

static void a_mean_is_one_over_the_root_of_dim(void) {
    static const int dims[] = {64, 256, 1024, 4096};
    for (int k = 0; k < 4; k++)
        HOLDS(dims[k], sqrt(2 / (3.14159265358979 * dims[k])),
              sqrt(1 - 1.0 / dims[k]));
    for (Distribution d = UNIFORM; d <= DOMINATED; d++) {
        Draws squares = {0}, sizes = {0};
        mean_over_rms(&squares, &sizes, d);
        double square = mean_of_draws(&squares), size = mean_of_draws(&sizes),
               expected = d == CAUCHY      ? 1.09
                          : d == DOMINATED ? sqrt(3.14159265358979 / 2)
                                           : 1;
        CHECK(fabs(square - 1) < 4 * error_of_draws(&squares) + 1e-3,
              "distribution %d: the square is %.9g +- %.9g", d, square,
              error_of_draws(&squares));
        CHECK(fabs(size - expected) < 4 * error_of_draws(&sizes) + 1e-3,
              "distribution %d: the size is %.9g +- %.9g", d, size,
              error_of_draws(&sizes));
        if (d == CAUCHY)
            HOLDS(square, error_of_draws(&squares), 100 * (size - 1),
                  100 * error_of_draws(&sizes));
        if (d == DOMINATED)
            HOLDS(100 * (expected - 1));
    }
    HOLDS(1, 2, MEAN_DRAWS, MEAN_DIM);
}

/* The bundled model with LayerNorm, on stories that it sampled. float64 without
 * quantized activations has 0.332 and 0.004 +- 0.003. */
static void bundled_model_with_layernorm(void) {
    double losses[2][N_STORIES];
    Draws nats = {0}, more = {0};
    for (int k = 0; k < 2; k++)
        CHECK(losses_of_stories(losses[k], BUNDLED_SAMPLED,
                                "models/stories.gguf",
                                k ? "layer" : "rms") == N_STORIES,
              "models/stories.gguf does not run");
    for (int i = 0; i < N_STORIES; i++) {
        add_draw(&nats, losses[0][i]);
        add_draw(&more, losses[1][i] - losses[0][i]);
    }
    CHECK(fabs(mean_of_draws(&nats) - 0.332) < 0.002, "%.9g nats",
          mean_of_draws(&nats));
    CHECK(fabs(mean_of_draws(&more) - 0.004) < 0.003 &&
              fabs(error_of_draws(&more) - 0.003) < 0.001,
          "LayerNorm: %.9g more nats +- %.9g", mean_of_draws(&more),
          error_of_draws(&more));
}

static void a_real_models_mean_is_chance(void) {
    enum { SITES = 11 };
    StorySite sites[SITES];
    double min = 1, max = 0;
    bundled_model_with_layernorm();
    if (profile_of_story(sites, SITES) != SITES) {
        story_missing();
        return;
    }
    for (int i = 0; i < SITES; i++) {
        min = fmin(min, sites[i].mean);
        max = fmax(max, sites[i].mean);
    }
    CHECK(min > 0.5 * 0.0997 && max < 0.0997, "mean / RMS from %.9g to %.9g",
          min, max);
    HOLDS(SITES, 64, 0, min, max, sqrt(2 / (3.14159265358979 * 64)));
}

static void one_large_element_silences_the_others(void) {
    enum { N = 4096 };
    static float x[N], y[N], ones[N];
    for (int i = 0; i < N; i++)
        x[i] = ones[i] = 1;
    x[7] = 1000;
    rmsnorm(y, x, ones, N, 0);
    double scale = 1 / sqrt((1e6 + N - 1) / N);
    CHECK(fabs(y[0] - scale) < 1e-7 && fabs(y[7] - 1000 * scale) < 1e-4,
          "%.9g and %.9g", y[0], y[7]);
    HOLDS(N, 1, 1000, 1 / scale, scale, 1000 * scale, sqrt(N));
    double first, others;
    if (first_token_of_story(&first, &others))
        return story_missing();
    CHECK(first > 2 * others, "the first token has %g, the others %g", first,
          others);
    HOLDS(0, 1, first, others);
}

/* A block of 32 weights quantized with one step of max / levels: the error of
 * the products if one gamma is 16, folded relative to separate. */
static double widening(int draw, Distribution distribution, int levels) {
    enum { BLOCK = 32, BLOCKS = 200 };
    double errors[2] = {0};
    for (int b = 0; b < BLOCKS; b++)
        for (int fold = 0; fold < 2; fold++) {
            double w[BLOCK], max = 0;
            for (int i = 0; i < BLOCK; i++) {
                w[i] = element(distribution, 48000 + (uint64_t)draw,
                               b * BLOCK + i) *
                       (fold && !i ? 16 : 1);
                max = fmax(max, fabs(w[i]));
            }
            for (int i = 0; i < BLOCK; i++) {
                double step = max / levels,
                       error = w[i] - step * round(w[i] / step);
                double gamma = !fold && !i ? 16 : 1;
                errors[fold] += error * error * gamma * gamma;
            }
        }
    return sqrt(errors[1] / errors[0]);
}

/* How many more nats per token the sampled stories take if gamma is folded,
 * with stories260K as a GGUF file of this type. False: no checkpoint. */
static bool price_of_folding(Draws *price, const char *type) {
    double losses[2][N_STORIES];
    for (int fold = 0; fold < 2; fold++) {
        const char *file = temporary("folded.gguf");
        if (story_converted(file, type, fold) ||
            losses_of_stories(losses[fold], SAMPLED, file, "rms") != N_STORIES)
            return false;
        remove(file);
    }
    for (int i = 0; i < N_STORIES; i++)
        add_draw(price, losses[1][i] - losses[0][i]);
    return true;
}

static void folding_widens_a_block(void) {
    enum { BLOCK = 32, DRAWS = 40 };
    static const Distribution distributions[] = {UNIFORM, NORMAL, LAPLACE};
    for (int k = 0; k < 6; k++) {
        Draws ratios = {0};
        for (int draw = 0; draw < DRAWS; draw++)
            add_draw(&ratios,
                     widening(draw, distributions[k / 2], k % 2 ? 7 : 127));
        CHECK(error_of_draws(&ratios) < 0.03, "case %d: %.9g +- %.9g", k,
              mean_of_draws(&ratios), error_of_draws(&ratios));
        HOLDS(mean_of_draws(&ratios));
    }
    HOLDS(BLOCK, 16, DRAWS, 0.03, 127, 7);
    static const struct {
        const char *type;
        bool fold;
        /* with other vector widths a few activations have other bytes */
        double nats;
    } LOSSES[] = {{"f32", 0, 0.494},  {"f32", 1, 0.494},  {"q8_0", 0, 0.495},
                  {"q8_0", 1, 0.497}, {"q4_0", 0, 0.566}, {"q4_0", 1, 0.609}};
    for (int k = 0; k < 6; k++) {
        double nats = story_loss_converted(LOSSES[k].type, LOSSES[k].fold);
        if (nats < 0)
            return story_missing();
        CHECK(fabs(nats - LOSSES[k].nats) < (k < 2 ? 0.0005 : 0.005),
              "%s%s: %.9g", LOSSES[k].type, LOSSES[k].fold ? ", folded" : "",
              nats);
        HOLDS(LOSSES[k].nats, 0.005);
    }
    static const struct {
        const char *type;
        double mean, error;
    } PRICES[] = {{"q8_0", -0.0001, 0.0006}, {"q4_0", 0.026, 0.008}};
    for (int k = 0; k < 2; k++) {
        Draws price = {0};
        if (!price_of_folding(&price, PRICES[k].type))
            return story_missing();
        CHECK(fabs(mean_of_draws(&price) - PRICES[k].mean) <
                      2 * PRICES[k].error &&
                  fabs(error_of_draws(&price) / PRICES[k].error - 1) < 0.3,
              "%s: folding takes %.9g nats +- %.9g", PRICES[k].type,
              mean_of_draws(&price), error_of_draws(&price));
        HOLDS(PRICES[k].mean, PRICES[k].error, N_STORIES);
    }
}

/* ---- weights before a norm ----------------------------------------------- */

/* dw[DIM][DIM] = dL/dW for y = rmsnorm(W x), L = sum(v y). */
static void weight_gradient(float *dw, const float *w, const float *x,
                            const float *v) {
    float z[DIM], dz[DIM], unused[DIM] = {0};
    for (int r = 0; r < DIM; r++)
        z[r] = (float)dot(w + r * DIM, x, DIM);
    rmsnorm_backward(dz, unused, v, z, ONES, DIM, 0);
    for (int i = 0; i < DIM * DIM; i++)
        dw[i] = dz[i / DIM] * x[i % DIM];
}

static void the_gradient_of_weights_before_a_norm(void) {
    enum { N = DIM * DIM };
    float x[DIM], twice_x[DIM], v[DIM], w[N], twice_w[N], g[3][N], stepped[N];
    fill_random(x, 110, DIM, 4);
    fill_random(v, 111, DIM, 1);
    fill_random(w, 112, N, 1);
    for (int i = 0; i < N; i++)
        twice_w[i] = 2 * w[i];
    for (int i = 0; i < DIM; i++)
        twice_x[i] = 2 * x[i];
    weight_gradient(g[0], w, x, v);
    weight_gradient(g[1], twice_w, x, v);
    weight_gradient(g[2], w, twice_x, v);
    double size = sqrt(dot(g[0], g[0], N)), length = sqrt(dot(w, w, N));
    CHECK(fabs(dot(g[0], w, N)) < 1e-6 * size * length, "<dL/dW, W> is %g",
          dot(g[0], w, N));
    for (int i = 0; i < N; i++)
        CHECK(g[1][i] == g[0][i] / 2 && g[2][i] == g[0][i], "element %d", i);
    CHECK(fabs(size - 2.20048353) < 1e-6 && fabs(length - 2.55611814) < 1e-6,
          "|dL/dW| %.9g, |W| %.9g", size, length);
    for (int i = 0; i < N; i++)
        stepped[i] = w[i] - 0.1f * g[0][i];
    double grown = sqrt(dot(stepped, stepped, N)),
           expected = sqrt(length * length + 0.01 * size * size);
    CHECK(fabs(grown - expected) < 1e-6, "a step: |W| %.9g, expected %.9g",
          grown, expected);
    HOLDS(size, sqrt(dot(g[1], g[1], N)), length, expected, 0.1, 2, DIM, 0, 1);
}

/* The curvature, the change of the gradient along a direction, falls with 1 /
 * |W|^2. */
static void curvature_falls_with_the_square(void) {
    enum { N = DIM * DIM };
    float x[DIM], v[DIM], w[N], moved_w[N], g[N], before[N], after[N];
    double changes[2];
    fill_random(x, 110, DIM, 4);
    fill_random(v, 111, DIM, 1);
    fill_random(w, 112, N, 1);
    weight_gradient(g, w, x, v);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N; i++) {
            w[i] *= k ? 2 : 1;
            moved_w[i] = w[i] + 0.01f * g[i];
        }
        weight_gradient(before, w, x, v);
        weight_gradient(after, moved_w, x, v);
        for (int i = 0; i < N; i++)
            after[i] -= before[i];
        changes[k] = sqrt(dot(after, after, N));
    }
    CHECK(fabs(changes[0] / changes[1] - 4) < 0.05, "%.9g times",
          changes[0] / changes[1]);
    HOLDS(2, 1, 4, 0);
}

/* ---- no norm; names ------------------------------------------------------ */

static void a_tanh_for_a_norm(void) {
    static const double scales[] = {0.1, 1, 10};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 4; i++)
            HOLDS(tanh(0.5 * scales[k] * ONE_TO_FOUR[i]));
        HOLDS(scales[k]);
    }
    double step = 1e-4,
           slope = (tanh(0.5 * step) - tanh(-0.5 * step)) / (2 * step);
    CHECK(fabs(slope - 0.5) < 1e-8, "the slope at 0 is %.9g", slope);
    HOLDS(1, 2, 3, 4, 0.5, 0);
}

static void names_that_mislead(void) {
    float shifted[] = {1001, 1002, 1003, 1004};
    float y[4];
    rmsnorm(y, ONE_TO_FOUR, ONES, 4, 0);
    CHECK_VALUES(y, 4, 1e-7, 0.365148372, 0.730296743, 1.09544512, 1.46059349);
    /* T5LayerNorm computes this too: it does not ignore the shift */
    rmsnorm(y, shifted, ONES, 4, 0);
    CHECK_VALUES(y, 4, 2e-7, 0.998503122, 0.999500628, 1.00049813, 1.00149564);
    HOLDS(1, 2, 3, 4, 7.5, 1.25, 4, 1001, 1002, 1003, 1004,
          1001 / sqrt(dot(shifted, shifted, 4) / 4));
}

/* ---- the answers to the exercises ---------------------------------------- */

static void answer_by_hand(void) {
    float x[] = {3, 4}, dy[] = {1, 0};
    double s = 1 / sqrt(12.5);
    float y[2], dx[2], unused[2] = {0};
    rmsnorm(y, x, ONES, 2, 0);
    CHECK_VALUES(y, 2, 1e-7, 3 * s, 4 * s);
    rmsnorm_backward(dx, unused, dy, x, ONES, 2, 0);
    CHECK_VALUES(dx, 2, 1e-7, s * 0.64, s * -0.48);
    HOLDS(12.5, 3 * s, 4 * s, s * 0.64, s * -0.48, 3, 4, 0.64, -0.48);
}

static void answer_of_two_elements(void) {
    for (int t = 0; t < 50; t++) {
        float x[2], y[2];
        fill_random(x, 140 + (uint64_t)t, 2, 100);
        layernorm(y, x, ONES, NULL, 2, 0);
        CHECK(fabsf(fabsf(y[0]) - 1) < 1e-5f && fabsf(y[0] + y[1]) < 1e-5f,
              "[%g, %g]", y[0], y[1]);
    }
    HOLDS(1, -1, 2);
}

static void answer_of_eps(void) {
    double r = sqrt(0.81 * 1e-6 / 0.19); /* r / sqrt(r^2 + eps) = 0.9 */
    float x[] = {(float)r, (float)-r};
    float y[2];
    rmsnorm(y, x, ONES, 2, 1e-6f);
    CHECK(fabs(y[0] - 0.9) < 1e-6, "%.9g", y[0]);
    HOLDS(r, 0.9, 0.81, 0.19, 1e-6);
}

static void answer_of_the_spike(void) {
    float x[100] = {[3] = -5}, y[100];
    rmsnorm(y, x, ONES, 100, 0);
    CHECK(fabsf(y[3] + 10) < 1e-5f, "%.9g", y[3]);
    layernorm(y, x, ONES, NULL, 100, 0);
    CHECK(fabs(y[3] + 9.9498744) < 1e-5, "%.9g", y[3]);
    HOLDS(0, -10, 99, -sqrt(99));
}

/* ---- the answers to more exercises --------------------------------------- */

/* sum(dy x / (RMS(x) + eps)) */
static double weighted_outside(const double x[DIM], const float *dy,
                               double eps) {
    double squares = 0, sum = 0;
    for (int i = 0; i < DIM; i++) {
        squares += x[i] * x[i] / DIM;
        sum += dy[i] * x[i];
    }
    return sum / (sqrt(squares) + eps);
}

static void answer_of_eps_outside(void) {
    double eps = 1e-5, step = 1e-6;
    double x[DIM], r = 0, along = 0;
    float dy[DIM];
    fill_random(dy, 142, DIM, 1);
    for (int i = 0; i < DIM; i++) {
        x[i] = (double)random_float(143, i) / 1000;
        r += x[i] * x[i] / DIM;
        along += dy[i] * x[i] / DIM;
    }
    r = sqrt(r);
    for (int i = 0; i < DIM; i++) {
        double kept = x[i], dx = dy[i] / (r + eps) -
                                 kept * along / (r * (r + eps) * (r + eps));
        x[i] = kept + step * r;
        double above = weighted_outside(x, dy, eps);
        x[i] = kept - step * r;
        double below = weighted_outside(x, dy, eps),
               slope = (above - below) / (2 * step * r);
        x[i] = kept;
        CHECK(fabs(dx - slope) < 1e-6 * fmax(fabs(slope), 1),
              "dx[%d] is %.9g, the slope %.9g", i, dx, slope);
    }
    HOLDS(1 / eps, eps, 1 / sqrt(eps));
}

/* The first dim at which an element of size y has an error of at most 0.001
 * with a variance over dim - 1. */
static int first_dim_within(double y) {
    int dim = 2;
    while (y * (1 - sqrt(1 - 1.0 / dim)) > 0.001)
        dim++;
    return dim;
}

static void answer_of_the_tolerance(void) {
    CHECK(first_dim_within(1) == 501 && first_dim_within(4) == 2001,
          "relative: %d; an element of 4: %d", first_dim_within(1),
          first_dim_within(4));
    HOLDS(1, 0.001, 501, 4, 2001);
}

static void answer_of_the_part(void) {
    double n = 1 / (2 * 0.01 * 0.01 + 1.0 / 4096);
    HOLDS(1, 2, 0.01, 4096, ceil(n));
}

/* ---- a model with LayerNorm as one with RMSNorm, and rotations ----------- */

typedef struct {
    double up[DEEP][BREADTH][BREADTH], down[DEEP][BREADTH][BREADTH],
        head[BREADTH][BREADTH], bias[DEEP + 1][BREADTH];
    double gamma[DEEP + 1][BREADTH], beta[DEEP + 1][BREADTH], x[BREADTH];
} Sublayers;

static double mean_of_doubles(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

/* The norm of n numbers; without gamma and beta. */
static void norm_doubles(double *y, const double *x, int n, NormKind kind) {
    double mean = kind == NORM_LAYER ? mean_of_doubles(x, n) : 0;
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    for (int i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(squares / n);
}

static void fill_doubles(double *x, uint64_t tensor, int n, double size,
                         double center) {
    for (int i = 0; i < n; i++)
        x[i] = center + size * (double)random_float(tensor, i);
}

static void random_sublayers(Sublayers *m) {
    double size = sqrt(12.0 / BREADTH);
    memset(m, 0, sizeof *m);
    fill_doubles(m->up[0][0], 150, DEEP * BREADTH * BREADTH, size, 0);
    /* columns with a mean */
    fill_doubles(m->down[0][0], 151, DEEP * BREADTH * BREADTH, size, 0.02);
    fill_doubles(m->head[0], 152, BREADTH * BREADTH, size, 0);
    fill_doubles(m->gamma[0], 153, (DEEP + 1) * BREADTH, 1, 1);
    fill_doubles(m->beta[0], 154, (DEEP + 1) * BREADTH, 1, 0);
    fill_doubles(m->x, 155, BREADTH, 1, 0.5);
}

static double dot_doubles(const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < BREADTH; i++)
        sum += a[i] * b[i];
    return sum;
}

/* logits = head norm(x), after x += down tanh(up norm(x)) for each sublayer. */
static void run_sublayers(double *logits, const Sublayers *m, NormKind kind) {
    double x[BREADTH], n[BREADTH], hidden[BREADTH];
    memcpy(x, m->x, sizeof x);
    for (int l = 0; l <= DEEP; l++) {
        norm_doubles(n, x, BREADTH, kind);
        for (int i = 0; i < BREADTH; i++)
            n[i] = m->gamma[l][i] * n[i] + m->beta[l][i];
        const double(*const matrix)[BREADTH] = l < DEEP ? m->up[l] : m->head;
        for (int i = 0; i < BREADTH; i++)
            hidden[i] = dot_doubles(matrix[i], n) + m->bias[l][i];
        if (l == DEEP)
            break;
        for (int i = 0; i < BREADTH; i++)
            hidden[i] = tanh(hidden[i]);
        for (int i = 0; i < BREADTH; i++)
            x[i] += dot_doubles(m->down[l][i], hidden);
    }
    memcpy(logits, hidden, sizeof hidden);
}

/* Folds gamma and beta into the next matrix and its bias. */
static void fold_sublayers(Sublayers *m) {
    for (int l = 0; l <= DEEP; l++)
        for (int i = 0; i < BREADTH; i++) {
            double *row = l < DEEP ? m->up[l][i] : m->head[i];
            m->bias[l][i] += dot_doubles(row, m->beta[l]);
            for (int k = 0; k < BREADTH; k++)
                row[k] *= m->gamma[l][k];
        }
    memset(m->beta, 0, sizeof m->beta);
    fill_doubles(m->gamma[0], 0, (DEEP + 1) * BREADTH, 0, 1);
}

/* Subtracts the means of all that is added to the residual stream. */
static void center_sublayers(Sublayers *m) {
    double mean = mean_of_doubles(m->x, BREADTH);
    for (int i = 0; i < BREADTH; i++)
        m->x[i] -= mean;
    for (int l = 0; l < DEEP; l++)
        for (int k = 0; k < BREADTH; k++) {
            double column = 0;
            for (int i = 0; i < BREADTH; i++)
                column += m->down[l][i][k] / BREADTH;
            for (int i = 0; i < BREADTH; i++)
                m->down[l][i][k] -= column;
        }
}

static double largest_gap(const double *a, const double *b, int n) {
    double max = 0;
    for (int i = 0; i < n; i++)
        max = fmax(max, fabs(a[i] - b[i]));
    return max;
}

/* Subtracts the mean of the n numbers w[0], w[step], w[2 * step], ... */
static void center(float *w, int n, int step) {
    double mean = 0;
    for (int i = 0; i < n; i++)
        mean += (double)w[i * step] / n;
    for (int i = 0; i < n; i++)
        w[i * step] = (float)(w[i * step] - mean);
}

/* Centers the embeddings, `wo` and `down` of a llama2.c checkpoint, all that is
 * added to the residual stream. */
static void center_checkpoint(char *file) {
    /* dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context */
    int c[7];
    memcpy(c, file, sizeof c);
    int dim = c[0], hidden = c[1], layers = c[2], kv_dim = dim / c[3] * c[4],
        vocab = c[5];
    float *embedding = (float *)(void *)(file + sizeof c);
    float *wo = embedding + vocab * dim + layers * dim * (1 + dim + 2 * kv_dim);
    float *down = wo + layers * dim * (dim + 1 + hidden);
    for (int i = 0; i < vocab; i++)
        center(embedding + i * dim, dim, 1);
    for (int l = 0; l < layers; l++) {
        for (int k = 0; k < dim; k++)
            center(wo + l * dim * dim + k, dim, dim);
        for (int k = 0; k < hidden; k++)
            center(down + l * dim * hidden + k, dim, hidden);
    }
}

/* Writes the checkpoint, centered, with the original embeddings as its
 * classifier. -1 on failure. */
static int write_centered(const char *path, const char *original) {
    size_t size;
    char *file = file_read(original, &size);
    FILE *out = file ? fopen(path, "wb") : NULL;
    if (!out)
        return free(file), -1;
    int c[7];
    memcpy(c, file, sizeof c);
    size_t embeddings = (size_t)c[0] * (size_t)c[5] * sizeof(float);
    char *classifier = malloc(embeddings);
    memcpy(classifier, file + sizeof c, embeddings);
    center_checkpoint(file);
    c[5] = -c[5]; /* a separate classifier */
    memcpy(file, c, sizeof c);
    bool written = fwrite(file, 1, size, out) == size &&
                   fwrite(classifier, 1, embeddings, out) == embeddings;
    free(classifier);
    free(file);
    return fclose(out) || !written ? -1 : 0;
}

enum { LOGIT_TOKENS = 64, MAX_LOGITS = LOGIT_TOKENS * 512 };

/* The logits of LOGIT_TOKENS tokens with these norms (`--norm`). Returns their
 * number; 0 on failure. */
static int logits_with_norms(double *logits, const char *path,
                             const char *norms) {
    int tokens[LOGIT_TOKENS], n = 0;
    Model m;
    Session session;
    if (model_open(&m, path))
        return 0;
    for (int i = 0; i < LOGIT_TOKENS; i++)
        tokens[i] = (1 + 37 * i) % m.config.vocab_size;
    if (!model_swap_norms(&m, norms) &&
        !session_open(&session, &m, 1, LOGIT_TOKENS, 0, KV_F32)) {
        const float *found =
            model_forward_text(&session, tokens, LOGIT_TOKENS, 0, LOGIT_TOKENS);
        n = LOGIT_TOKENS * m.config.vocab_size;
        for (int i = 0; i < n && i < MAX_LOGITS; i++)
            logits[i] = (double)found[i];
        session_close(&session);
    }
    model_close(&m);
    return n;
}

/* The largest logit of stories260K with LayerNorm, and the gaps to its centered
 * form with RMSNorm and to RMSNorm without centering. NAN: failed. -1: no
 * checkpoint. */
static int gaps_of_the_story_model(double *max, double *centered,
                                   double *uncentered) {
    static double layer[MAX_LOGITS], rms[MAX_LOGITS];
    const char *path = real_checkpoint("stories260K.bin"),
               *copy = temporary("centered.bin");
    if (!path)
        return -1;
    *max = *centered = *uncentered = NAN;
    if (logits_with_norms(layer, path, "layer") == MAX_LOGITS)
        *max = 0;
    for (int i = 0; i < MAX_LOGITS; i++)
        *max = layer[i] > *max ? layer[i] : *max;
    if (!write_centered(copy, path) &&
        logits_with_norms(rms, copy, "rms") == MAX_LOGITS)
        *centered = largest_gap(layer, rms, MAX_LOGITS);
    if (logits_with_norms(rms, path, "rms") == MAX_LOGITS)
        *uncentered = largest_gap(layer, rms, MAX_LOGITS);
    remove(copy);
    return 0;
}

static void layernorm_folds_into_rmsnorm(void) {
    Sublayers *m = malloc(sizeof *m);
    double layer[BREADTH], rms[BREADTH];
    random_sublayers(m);
    run_sublayers(layer, m, NORM_LAYER);
    fold_sublayers(m);
    run_sublayers(rms, m, NORM_RMS);
    double uncentered = largest_gap(layer, rms, BREADTH);
    center_sublayers(m);
    run_sublayers(rms, m, NORM_RMS);
    double difference = largest_gap(layer, rms, BREADTH);
    CHECK(difference < 1e-13, "the logits differ by %g", difference);
    free(m);
    double max, gap, other;
    if (gaps_of_the_story_model(&max, &gap, &other))
        return story_missing();
    CHECK(gap > 0 && gap < 1e-5 * max,
          "stories260K: the logits differ by %g, the largest is %g", gap, max);
    HOLDS(DEEP, BREADTH, 1e-13, uncentered, 1e-5, other);
}

static void rmsnorm_commutes_with_rotations(void) {
    double x[] = {1, 2, 3, 4}, turned[] = {-2, 1, 3, 4};
    double y[4], v[BREADTH], a[BREADTH], b[BREADTH], c[BREADTH];
    norm_doubles(y, turned, 4, NORM_RMS);
    HOLDS(1, 2, 3, 4, -2, y[0], y[1], y[2], y[3]);
    norm_doubles(y, turned, 4, NORM_LAYER);
    HOLDS(y[0], y[1], y[2], y[3]);
    norm_doubles(y, x, 4, NORM_LAYER);
    HOLDS(-y[1], y[0], y[2], y[3]);
    fill_doubles(v, 160, BREADTH, 1, 0);
    fill_doubles(a, 161, BREADTH, 1, 0.5);
    norm_doubles(b, a, BREADTH, NORM_RMS);
    double p = 2 * dot_doubles(v, a) / dot_doubles(v, v),
           q = 2 * dot_doubles(v, b) / dot_doubles(v, v);
    for (int i = 0; i < BREADTH; i++)
        a[i] -= p * v[i], b[i] -= q * v[i]; /* a reflection of both */
    norm_doubles(c, a, BREADTH, NORM_RMS);
    CHECK(largest_gap(b, c, BREADTH) < 1e-14, "they differ by %g",
          largest_gap(b, c, BREADTH));
    HOLDS(BREADTH, 1e-14);
}

const Statement STATEMENTS_TODAY[N_STATEMENTS_TODAY] = {
    STATEMENT(three_axes),
    STATEMENT(one_mean_of_everything),
    STATEMENT(attention_across_the_batch),
    STATEMENT(a_norm_keeps_the_shape),
    STATEMENT(a_feature_may_shift),
    STATEMENT(two_defaults_of_eps),
    STATEMENT(the_ratio_is_eps),
    STATEMENT(the_loss_of_the_notes),
    STATEMENT(four_places_by_depth),
    STATEMENT(a_post_norm_bounds_the_branch),
    STATEMENT(qk_norm_bounds_the_scores),
    STATEMENT(a_mean_is_one_over_the_root_of_dim),
    STATEMENT(a_real_models_mean_is_chance),
    STATEMENT(one_large_element_silences_the_others),
    STATEMENT(folding_widens_a_block),
    STATEMENT(the_gradient_of_weights_before_a_norm),
    STATEMENT(curvature_falls_with_the_square),
    STATEMENT(a_tanh_for_a_norm),
    STATEMENT(names_that_mislead),
    STATEMENT(answer_by_hand),
    STATEMENT(answer_of_two_elements),
    STATEMENT(answer_of_eps),
    STATEMENT(answer_of_the_spike),
    STATEMENT(layernorm_folds_into_rmsnorm),
    STATEMENT(rmsnorm_commutes_with_rotations),
    STATEMENT(four_places_with_attention),
    STATEMENT(weights_before_a_norm_may_shrink),
    STATEMENT(answer_of_eps_outside),
    STATEMENT(answer_of_the_tolerance),
    STATEMENT(answer_of_the_part),
};
