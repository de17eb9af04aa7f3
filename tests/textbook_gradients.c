/* textbook_gradients.c: statements of docs/norms.md and its other pages:
 * gradients, of tokens and of weights before a norm; the loss of
 * the study notes. */
#include "norm.h"

#include "tests/support/test.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the backward pass --------------------------------------------------- */

static void gradient_of_one_to_four(void) {
    float dy[] = {1, 0, 0, 0};
    double s = 1 / sqrt(7.5), t = 1 / sqrt(1.25);
    float dx[4], dgamma[4] = {0}, dbeta[4] = {0};
    rmsnorm_backward(dx, dgamma, dy, ONE_TO_FOUR, ONES, 4, 0);
    CHECK_VALUES(dx, 4, 1e-7, s * 29 / 30, s * -2 / 30, s * -3 / 30,
                 s * -4 / 30);
    CHECK_VALUES(dx, 4, 1e-7, 0.3529768, -0.0243432, -0.0365148, -0.0486864);
    CHECK_VALUES(dgamma, 4, 1e-7, s, 0, 0, 0);
    dgamma[0] = 0;
    layernorm_backward(dx, dgamma, dbeta, dy, ONE_TO_FOUR, ONES, 4, 0);
    CHECK_VALUES(dx, 4, 1e-7, t * 0.3, t * -0.4, t * -0.1, t * 0.2);
    CHECK_VALUES(dx, 4, 1e-7, 0.2683282, -0.3577709, -0.0894427, 0.1788854);
    CHECK_VALUES(dgamma, 4, 1e-6, -1.5 * t, 0, 0, 0);
    CHECK_VALUES(dbeta, 4, 0, 1, 0, 0, 0);
    HOLDS(1, 2, 3, 4, 0, 29, -2, -3, -4, 30, 7.5, s * 29 / 30, s * -2 / 30,
          s * -3 / 30, s * -4 / 30, 0.3, -0.4, -0.1, 0.2, 1.25, t * 0.3,
          t * -0.4, t * -0.1, t * 0.2);
}

enum { FEW = 12 };

/* sum(dy y) in double precision: of LayerNorm if beta is not NULL, else of
 * RMSNorm. */
static double weighted_output(const double *x, const double *gamma,
                              const double *beta, const float *dy, double eps) {
    double mean = 0, square = 0, sum = 0;
    for (int i = 0; i < FEW; i++)
        mean += beta ? x[i] / FEW : 0;
    for (int i = 0; i < FEW; i++)
        square += (x[i] - mean) * (x[i] - mean) / FEW;
    for (int i = 0; i < FEW; i++)
        sum += dy[i] * ((x[i] - mean) / sqrt(square + eps) * gamma[i] +
                        (beta ? beta[i] : 0));
    return sum;
}

/* Compares a gradient with finite differences; `parameters` is x, gamma or
 * beta. */
static int differs_from_slope(const float *gradient, double *parameters,
                              const double *x, const double *gamma,
                              const double *beta, const float *dy) {
    for (int i = 0; i < FEW; i++) {
        double kept = parameters[i], step = 1e-5;
        parameters[i] = kept + step;
        double above = weighted_output(x, gamma, beta, dy, 1e-5);
        parameters[i] = kept - step;
        double below = weighted_output(x, gamma, beta, dy, 1e-5);
        parameters[i] = kept;
        if (!(fabs(gradient[i] - (above - below) / (2 * step)) < 1e-6))
            return i;
    }
    return -1;
}

static void gradients_are_slopes(void) {
    float x[FEW], gamma[FEW], beta[FEW], dy[FEW], dx[FEW], dgamma[FEW] = {0},
                                                           dbeta[FEW] = {0};
    double wide[3][FEW];
    fill_random(x, 60, FEW, 4);
    fill_random(gamma, 61, FEW, 2);
    fill_random(beta, 62, FEW, 2);
    fill_random(dy, 63, FEW, 2);
    for (int i = 0; i < FEW; i++) {
        wide[0][i] = x[i];
        wide[1][i] = gamma[i];
        wide[2][i] = beta[i];
    }
    rmsnorm_backward(dx, dgamma, dy, x, gamma, FEW, 1e-5f);
    int wrong = differs_from_slope(dx, wide[0], wide[0], wide[1], NULL, dy);
    CHECK(wrong < 0, "RMSNorm, dx[%d] is %.9g", wrong, dx[wrong]);
    wrong = differs_from_slope(dgamma, wide[1], wide[0], wide[1], NULL, dy);
    CHECK(wrong < 0, "RMSNorm, dgamma[%d] is %.9g", wrong, dgamma[wrong]);
    memset(dgamma, 0, sizeof dgamma);
    layernorm_backward(dx, dgamma, dbeta, dy, x, gamma, FEW, 1e-5f);
    wrong = differs_from_slope(dx, wide[0], wide[0], wide[1], wide[2], dy);
    CHECK(wrong < 0, "LayerNorm, dx[%d] is %.9g", wrong, dx[wrong]);
    wrong = differs_from_slope(dgamma, wide[1], wide[0], wide[1], wide[2], dy);
    CHECK(wrong < 0, "LayerNorm, dgamma[%d] is %.9g", wrong, dgamma[wrong]);
    wrong = differs_from_slope(dbeta, wide[2], wide[0], wide[1], wide[2], dy);
    CHECK(wrong < 0, "LayerNorm, dbeta[%d] is %.9g", wrong, dbeta[wrong]);
}

/* Directions that a norm ignores have gradient 0: scaling (without eps; with it
 * the formula of the statement) and, for LayerNorm, shifting. */
static void no_gradient_along_what_is_ignored(void) {
    enum { N = 64 };
    float x[N], gamma[N], dy[N], dx[N], unused[2][N];
    memset(unused, 0, sizeof unused);
    fill_random(gamma, 61, N, 2);
    fill_random(dy, 63, N, 2);
    for (int k = -3; k <= 3; k++) {
        fill_random(x, 64, N, exp2f((float)k));
        for (int i = 0; i < N; i++)
            x[i] += 0.25f;
        rmsnorm_backward(dx, unused[0], dy, x, gamma, N, 0);
        double size = sqrt(dot(dx, dx, N)), length = sqrt(dot(x, x, N));
        CHECK(fabs(dot(dx, x, N)) < 1e-6 * size * length,
              "RMSNorm: dx is not orthogonal to x");
        CHECK(fabs(dot(dx, ONES, N)) > 0.01 * size, "RMSNorm: dx sums to %g",
              dot(dx, ONES, N));
        layernorm_backward(dx, unused[0], unused[1], dy, x, gamma, N, 0);
        double layer_size = sqrt(dot(dx, dx, N));
        CHECK(fabs(dot(dx, x, N)) < 1e-6 * layer_size * length,
              "LayerNorm: dx is not orthogonal to x");
        CHECK(fabs(dot(dx, ONES, N)) < 1e-5 * layer_size,
              "LayerNorm: dx sums to %g", dot(dx, ONES, N));
        const double eps = 0.25, m = length * length / N;
        double along = 0;
        for (int i = 0; i < N; i++)
            along += (double)gamma[i] * dy[i] * x[i];
        along *= eps / (m + eps) / sqrt(m + eps);
        rmsnorm_backward(dx, unused[0], dy, x, gamma, N, (float)eps);
        CHECK(fabs(dot(dx, x, N) - along) < 1e-6 * size * length,
              "RMSNorm with eps: dx . x is %g, not %g", dot(dx, x, N), along);
    }
    HOLDS(0);
}

/* dx[TOKENS][DIM] of the norm of x for dL/dy = dy, gamma 1. */
static void backward(float *dx, NormKind kind, const float *dy,
                     const float *x) {
    float unused[2][DIM] = {{0}};
    for (int t = 0; t < TOKENS * DIM; t += DIM)
        if (kind == NORM_RMS)
            rmsnorm_backward(dx + t, unused[0], dy + t, x + t, ONES, DIM,
                             1e-5f);
        else
            layernorm_backward(dx + t, unused[0], unused[1], dy + t, x + t,
                               ONES, DIM, 1e-5f);
}

/* dx of c x with eps is dx of x with eps / c^2, divided by c. */
static void dx_of_a_multiple(const float *dy) {
    const float c = 0x1p-7f, eps = 1e-5f;
    float x[DIM], dx[DIM], multiple[DIM], unused[DIM] = {0};
    fill_random(x, 3, DIM, 4);
    rmsnorm_backward(dx, unused, dy, x, ONES, DIM, eps / (c * c));
    for (int i = 0; i < DIM; i++)
        x[i] *= c;
    rmsnorm_backward(multiple, unused, dy, x, ONES, DIM, eps);
    for (int i = 0; i < DIM; i++)
        CHECK(fabsf(multiple[i] - dx[i] / c) <= 1e-5f * fabsf(multiple[i]),
              "c x: %.9g, expected %.9g", multiple[i], dx[i] / c);
}

/* The weights of the loss sum(w y) are uniform in [-0.5, 0.5): dx has their
 * size. */
static void check_weights(const float *w) {
    for (int i = 0; i < TOKENS * DIM; i++)
        CHECK(w[i] >= -0.5f && w[i] < 0.5f, "w[%d] is %.9g", i, w[i]);
    HOLDS(-0.5, 0.5);
}

/* PyTorch's numbers for the loss sum(w y) and x times s. */
static void the_gradient_shrinks_as_the_input_grows(void) {
    static const double scales[] = {1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100};
    static const double sizes[] = {89.0727194,   81.5296238, 20.7274822,
                                   2.14150636,   0.21422372, 0.0214224451,
                                   0.00214224458};
    float x[TOKENS * DIM], dy[TOKENS * DIM], dx[TOKENS * DIM],
        half[TOKENS * DIM], unused[DIM] = {0};
    fill_random(dy, 4, TOKENS * DIM, 1);
    check_weights(dy);
    for (int k = 0; k < 7; k++) {
        for (int i = 0; i < TOKENS * DIM; i++)
            x[i] = (float)(scales[k] * 4 * random_float(3, i));
        backward(dx, NORM_RMS, dy, x);
        double size = rms_of(dx, TOKENS * DIM);
        CHECK(fabs(size - sizes[k]) < 1e-5 * sizes[k],
              "x times %g: %.9g, expected %.9g", scales[k], size, sizes[k]);
        HOLDS(scales[k], sizes[k], 1 / sqrt(1e-5), TOKENS, DIM);
    }
    fill_random(x, 3, DIM,
                4); /* without eps and with a factor of 2: the same bits */
    rmsnorm_backward(dx, unused, dy, x, ONES, DIM, 0);
    for (int i = 0; i < DIM; i++)
        x[i] *= 2;
    rmsnorm_backward(half, unused, dy, x, ONES, DIM, 0);
    for (int i = 0; i < DIM; i++)
        CHECK(half[i] == dx[i] / 2, "2 x: %.9g, expected %.9g", half[i],
              dx[i] / 2);
    dx_of_a_multiple(dy);
}

typedef enum { MEAN_OF_Y, SUM_OF_SQUARES, WEIGHTED_SUM, N_LOSSES } Loss;

static void loss_backward(float *dy, Loss loss, NormKind kind, const float *x) {
    for (int i = 0; i < TOKENS * DIM; i += DIM) {
        float y[DIM];
        if (kind == NORM_RMS)
            rmsnorm(y, x + i, ONES, DIM, 1e-5f);
        else
            layernorm(y, x + i, ONES, NULL, DIM, 1e-5f);
        for (int k = 0; k < DIM; k++)
            dy[i + k] = loss == MEAN_OF_Y        ? 1.0f / (TOKENS * DIM)
                        : loss == SUM_OF_SQUARES ? 2 * y[k]
                                                 : random_float(4, i + k);
    }
}

/* PyTorch's means and root mean squares of dL/dx, in float64. */
static void layernorms_gradient_has_mean_zero(void) {
    static const double expected[N_LOSSES][2][2] = {
        [MEAN_OF_Y] =
            {[NORM_RMS] = {0.00981516502, 0.0100266771}, [NORM_LAYER] = {0, 0}},
        [SUM_OF_SQUARES] = {[NORM_RMS] = {2.09759992e-07, 1.1247082e-05},
                            [NORM_LAYER] = {0, 1.19525276e-05}},
        [WEIGHTED_SUM] = {[NORM_RMS] = {0.0190428486, 0.21422372},
                          [NORM_LAYER] = {0, 0.206965145}},
    };
    float x[TOKENS * DIM], dy[TOKENS * DIM], dx[TOKENS * DIM];
    fill_random(x, 3, TOKENS * DIM, 4);
    for (Loss loss = 0; loss < N_LOSSES; loss++)
        for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++) {
            loss_backward(dy, loss, kind, x);
            if (loss == WEIGHTED_SUM)
                check_weights(dy);
            backward(dx, kind, dy, x);
            double mean = mean_of(dx, TOKENS * DIM),
                   size = rms_of(dx, TOKENS * DIM);
            const double *e = expected[loss][kind],
                         rounding = 1e-7 * fmax(1, rms_of(dy, TOKENS * DIM));
            CHECK(fabs(mean - e[0]) < (kind == NORM_RMS ? rounding : 5e-8),
                  "%s, loss %d: mean %.9g, expected %.9g", norm_name(kind),
                  loss, mean, e[0]);
            CHECK(fabs(size - e[1]) < rounding,
                  "%s, loss %d: RMS %.9g, expected %.9g", norm_name(kind), loss,
                  size, e[1]);
            HOLDS(TOKENS, DIM);
            if (loss == WEIGHTED_SUM || (loss == MEAN_OF_Y && kind == NORM_RMS))
                HOLDS(e[1]);
            if (loss != SUM_OF_SQUARES && kind == NORM_RMS)
                HOLDS(e[0]);
            if (loss == MEAN_OF_Y && kind == NORM_LAYER)
                HOLDS(e[0]);
        }
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

/* ---- weights before a norm, in training ---------------------------------- */

enum { SIDE = DIM, N_WEIGHTS = SIDE * SIDE, STEPS = 2000, TRAININGS = 20 };

/* y = norm(W x), without gamma and eps; returns its scale. */
static double norm_of_product(double y[SIDE], const double w[N_WEIGHTS],
                              const float x[SIDE]) {
    double squares = 0;
    for (int r = 0; r < SIDE; r++) {
        y[r] = 0;
        for (int c = 0; c < SIDE; c++)
            y[r] += w[r * SIDE + c] * x[c];
        squares += y[r] * y[r] / SIDE;
    }
    for (int r = 0; r < SIDE; r++)
        y[r] /= sqrt(squares);
    return 1 / sqrt(squares);
}

/* g = dL/dW for L = mean((norm(W x) - norm(V x) - noise)^2). */
static void noisy_gradient(double g[N_WEIGHTS], const double w[N_WEIGHTS],
                           const double v[N_WEIGHTS], const float x[SIDE],
                           const float noise[SIDE]) {
    double y[SIDE], target[SIDE], dy[SIDE], along = 0;
    norm_of_product(target, v, x);
    double scale = norm_of_product(y, w, x);
    for (int r = 0; r < SIDE; r++) {
        dy[r] = 2 * (y[r] - target[r] - noise[r]) / SIDE;
        along += dy[r] * y[r] / SIDE;
    }
    for (int i = 0; i < N_WEIGHTS; i++)
        g[i] = scale * (dy[i / SIDE] - along * y[i / SIDE]) * x[i % SIDE];
}

static double length_of(const double w[N_WEIGHTS]) {
    double squares = 0;
    for (int i = 0; i < N_WEIGHTS; i++)
        squares += w[i] * w[i];
    return sqrt(squares);
}

typedef enum { DESCENT, ADAM } Optimizer;

/* The share of the steps in which |W| shrinks, in percent, and how many times
 * as long W is at the end. */
static void train_before_norm(double *shrinks, double *growth, int draw,
                              Optimizer optimizer, double rate) {
    double w[N_WEIGHTS], v[N_WEIGHTS], g[N_WEIGHTS], m[N_WEIGHTS] = {0},
                                                     squares[N_WEIGHTS] = {0};
    for (int i = 0; i < N_WEIGHTS; i++) {
        w[i] = random_float(30000 + (uint64_t)draw, i);
        v[i] = random_float(30100 + (uint64_t)draw, i);
    }
    double start = length_of(w);
    double length = start;
    int shrunk = 0;
    for (int step = 0; step < STEPS; step++) {
        float x[SIDE], noise[SIDE];
        for (int i = 0; i < SIDE; i++) {
            x[i] = random_float(30200 + (uint64_t)draw, step * SIDE + i);
            noise[i] = random_float(30300 + (uint64_t)draw, step * SIDE + i);
        }
        noisy_gradient(g, w, v, x, noise);
        for (int i = 0; i < N_WEIGHTS; i++) {
            m[i] += 0.1 * (g[i] - m[i]);
            squares[i] += 0.001 * (g[i] * g[i] - squares[i]);
            double mean = m[i] / (1 - pow(0.9, step + 1)),
                   square = squares[i] / (1 - pow(0.999, step + 1));
            w[i] -= rate *
                    (optimizer == ADAM ? mean / (sqrt(square) + 1e-8) : g[i]);
        }
        double now = length_of(w);
        shrunk += now < length;
        length = now;
    }
    *shrinks = 100.0 * shrunk / STEPS;
    *growth = length / start;
}

/* PyTorch's mean and standard error of the share and of the growth. */
static const struct {
    Optimizer optimizer;
    double rate;
    Figure shrinks, growth;
} TRAINED[] = {
    {DESCENT, 0.1, {0, 0}, {1.63169888, 0.0129910072}},
    {ADAM, 0.01, {3.7275, 0.589619358}, {1.50684534, 0.00986884413}},
    {ADAM, 0.001, {66.2925, 2.50709067}, {0.984438211, 0.00255163388}},
};

static void weights_before_a_norm_may_shrink(void) {
    for (size_t k = 0; k < sizeof TRAINED / sizeof *TRAINED; k++) {
        Draws shares = {0}, lengths = {0};
        for (int draw = 0; draw < TRAININGS; draw++) {
            double shrinks, growth;
            train_before_norm(&shrinks, &growth, draw, TRAINED[k].optimizer,
                              TRAINED[k].rate);
            add_draw(&shares, shrinks);
            add_draw(&lengths, growth);
        }
        const Figure *s = &TRAINED[k].shrinks, *g = &TRAINED[k].growth;
        CHECK(fabs(mean_of_draws(&shares) - s->mean) < 0.02 &&
                  fabs(error_of_draws(&shares) - s->error) < 0.02,
              "case %zu: |W| shrinks in %.9g %% of the steps +- %.9g", k,
              mean_of_draws(&shares), error_of_draws(&shares));
        CHECK(fabs(mean_of_draws(&lengths) - g->mean) < 1e-5 &&
                  fabs(error_of_draws(&lengths) - g->error) < 1e-5,
              "case %zu: |W| grows %.9g times +- %.9g", k,
              mean_of_draws(&lengths), error_of_draws(&lengths));
        HOLDS(TRAINED[k].rate, s->mean, g->mean, g->error);
        if (TRAINED[k].optimizer == ADAM)
            HOLDS(s->error);
    }
    HOLDS(STEPS, TRAININGS, DIM);
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(gradient_of_one_to_four),
    STATEMENT(gradients_are_slopes),
    STATEMENT(no_gradient_along_what_is_ignored),
    STATEMENT(the_gradient_shrinks_as_the_input_grows),
    STATEMENT(layernorms_gradient_has_mean_zero),
    STATEMENT(the_ratio_is_eps),
    STATEMENT(the_loss_of_the_notes),
    STATEMENT(the_gradient_of_weights_before_a_norm),
    STATEMENT(curvature_falls_with_the_square),
    STATEMENT(weights_before_a_norm_may_shrink),
};
const Table textbook_gradients = TABLE(STATEMENTS);
