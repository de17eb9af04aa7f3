/* test_backward.c: the gradients of both norms.
 *
 * References: the formula in double precision (norm_inputs.c), which is checked
 * with float64 autograd (tests/golden/norm_backward.bin) and finite
 * differences; and properties of the formula, for directions and scales.
 */
#include "lab/norm_backward.h"
#include "norm.h"

#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static NormInputs in;
static ExactNorm exact;

/* The gradients by norm.c for token t of `in`; dgamma and dbeta accumulate. */
static float dx[NORM_TOKENS * NORM_MAX_DIM], dgamma[NORM_MAX_DIM],
    dbeta[NORM_MAX_DIM];

static void backward(NormKind kind, int t) {
    int at = t * in.dim;
    Norm norm = {.kind = kind, .eps = in.eps, .gamma = in.gamma};
    norm_backward(dx + at, dgamma, kind == NORM_RMS ? NULL : dbeta, in.dy + at,
                  in.x + at, &norm, in.dim);
}

static void reset_gradients(float start) {
    for (int i = 0; i < NORM_MAX_DIM; i++)
        dgamma[i] = dbeta[i] = start;
}

/* ---- the formula is right ----------------------------------------------- */

static const int SMALL_DIMS[] = {8, 17, 64, 172};

/* Compares the next n values of a golden file with found[n], relative to the
 * largest. */
static void check_golden(FILE *golden, const char *what, const double *found,
                         int n) {
    static double expected[NORM_TOKENS * 172];
    double largest = 0;
    CHECK(fread(expected, sizeof *expected, (size_t)n, golden) == (size_t)n,
          "%s: the file is short", what);
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int i = 0; i < n; i++)
        CHECK(fabs(found[i] - expected[i]) <= 1e-13 * largest,
              "dim %d, %s[%d] = %.17g, autograd has %.17g", in.dim, what, i,
              found[i], expected[i]);
}

static void sum_tokens(double *sum, const double *values, int dim) {
    for (int i = 0; i < dim; i++) {
        sum[i] = 0;
        for (int t = 0; t < NORM_TOKENS; t++)
            sum[i] += values[t * dim + i];
    }
}

static void formula_matches_float64_autograd(void) {
    FILE *golden = fopen("tests/golden/norm_backward.bin", "rb");
    CHECK(golden, "no tests/golden/norm_backward.bin");
    for (int d = 0; d < 4; d++)
        for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++) {
            static double sum[172], dy[NORM_TOKENS * 172];
            norm_inputs(&in, SET_RANDOM, SMALL_DIMS[d]);
            norm_exactly(&exact, &in, kind);
            for (int i = 0; i < NORM_TOKENS * in.dim; i++)
                dy[i] = (double)in.dy[i];
            check_golden(golden, "dx", exact.dx, NORM_TOKENS * in.dim);
            sum_tokens(sum, exact.dgamma, in.dim);
            check_golden(golden, "dgamma", sum, in.dim);
            sum_tokens(sum, dy, in.dim);
            if (kind == NORM_LAYER)
                check_golden(golden, "dbeta", sum, in.dim);
        }
    CHECK(fgetc(golden) == EOF, "the file is too long");
    fclose(golden);
}

/* dy . norm(x) by the textbook's formulas in double precision. */
static double loss(NormKind kind, const double *x, const double *gamma,
                   const double *beta) {
    double mean = 0, square = 0, sum = 0;
    for (int i = 0; i < in.dim; i++)
        mean += kind == NORM_LAYER ? x[i] / in.dim : 0;
    for (int i = 0; i < in.dim; i++)
        square += (x[i] - mean) * (x[i] - mean) / in.dim;
    for (int i = 0; i < in.dim; i++) {
        double y = (x[i] - mean) / sqrt(square + (double)in.eps) * gamma[i];
        sum += (double)in.dy[i] * (kind == NORM_LAYER ? y + beta[i] : y);
    }
    return sum;
}

/* A finite difference of fourth order: the loss is smooth, and h^4
 * negligible. */
static double slope(NormKind kind, double *value, const double *x,
                    const double *gamma, const double *beta) {
    static const double weights[] = {1 / 12.0, -2 / 3.0, 2 / 3.0, -1 / 12.0},
                        steps[] = {-2, -1, 1, 2};
    double h = 1e-3, at = *value;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        *value = at + steps[i] * h;
        sum += weights[i] * loss(kind, x, gamma, beta);
    }
    *value = at;
    return sum / h;
}

static void check_slopes(NormKind kind) {
    static double x[172], gamma[172], beta[172];
    for (int i = 0; i < in.dim; i++) {
        x[i] = (double)in.x[i];
        gamma[i] = (double)in.gamma[i];
        beta[i] = (double)in.beta[i];
    }
    reset_gradients(0);
    backward(kind, 0);
    for (int i = 0; i < in.dim; i++) {
        double slopes[] = {
            slope(kind, x + i, x, gamma, beta),
            slope(kind, gamma + i, x, gamma, beta),
            kind == NORM_LAYER ? slope(kind, beta + i, x, gamma, beta) : 0};
        float found[] = {dx[i], dgamma[i], dbeta[i]};
        for (int k = 0; k < 3; k++)
            CHECK(fabs((double)found[k] - slopes[k]) <= 1e-6,
                  "%s, dim %d, gradient %d of element %d: %.9g, slope %.9g",
                  norm_name(kind), in.dim, k, i, (double)found[k], slopes[k]);
    }
}

static void gradients_match_finite_differences(void) {
    for (int d = 0; d < 4; d++)
        for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++) {
            norm_inputs(&in, SET_RANDOM, SMALL_DIMS[d]);
            check_slopes(kind);
            in.eps = 0.5f; /* comparable to mean(x^2) */
            check_slopes(kind);
        }
}

/* ---- how exact it is ---------------------------------------------------- */

/* Errors in ulp of a token's largest value. Measured with 4 to 16 lanes: at
 * most 2.6 for dx, 2.5 for dgamma. PyTorch's errors are listed with six digits,
 * so an equal error may exceed the listed one by 1e-5. */
static void check_exactness(NormKind kind, NormSet set) {
    double of_dx = 0, of_dgamma = 0;
    for (int d = 0; d < N_NORM_DIMS; d++) {
        norm_inputs(&in, set, NORM_DIMS[d]);
        norm_exactly(&exact, &in, kind);
        for (int t = 0; t < NORM_TOKENS; t++) {
            int at = t * in.dim;
            reset_gradients(0);
            backward(kind, t);
            of_dx = fmax(of_dx,
                         error_in_ulp(dx + at, exact.dx + at, in.dim, false));
            of_dgamma = fmax(of_dgamma, error_in_ulp(dgamma, exact.dgamma + at,
                                                     in.dim, false));
            CHECK(kind == NORM_RMS || !memcmp(dbeta, in.dy + at,
                                              (size_t)in.dim * sizeof *dbeta),
                  "dbeta is not dy");
        }
    }
    double dx_theirs = pytorch_error(kind, "dx", set),
           dgamma_theirs = pytorch_error(kind, "dgamma", set);
    CHECK(of_dx <= 4 && of_dx <= dx_theirs * 1.00001,
          "%s, %s: dx is off by %.3g ulp, PyTorch's by %.3g", norm_name(kind),
          NORM_SETS[set], of_dx, dx_theirs);
    CHECK(of_dgamma <= 4 && of_dgamma <= dgamma_theirs * 1.00001,
          "%s, %s: dgamma is off by %.3g ulp, PyTorch's by %.3g",
          norm_name(kind), NORM_SETS[set], of_dgamma, dgamma_theirs);
}

static void gradients_are_no_worse_than_pytorch_s(void) {
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++)
        for (NormSet set = 0; set < N_NORM_SETS; set++)
            check_exactness(kind, set);
}

/* dgamma and dbeta are added to the buffers: float32 sums, one rounding for
 * each token. */
static void tokens_accumulate(void) {
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++) {
        norm_inputs(&in, SET_RANDOM, 172);
        norm_exactly(&exact, &in, kind);
        reset_gradients(0.5f);
        for (int t = 0; t < NORM_TOKENS; t++)
            backward(kind, t);
        for (int i = 0; i < in.dim; i++) {
            double gamma_sum = 0.5, beta_sum = 0.5, gamma_size = 0.5,
                   beta_size = 0.5;
            for (int t = 0; t < NORM_TOKENS; t++) {
                double g = exact.dgamma[t * in.dim + i],
                       b = kind == NORM_RMS ? 0 : (double)in.dy[t * in.dim + i];
                gamma_sum += g;
                beta_sum += b;
                gamma_size += fabs(g);
                beta_size += fabs(b);
            }
            CHECK(fabs((double)dgamma[i] - gamma_sum) <=
                      0x1p-24 * (NORM_TOKENS + 1) * gamma_size,
                  "%s: dgamma[%d] = %.9g, expected %.9g", norm_name(kind), i,
                  (double)dgamma[i], gamma_sum);
            CHECK(fabs((double)dbeta[i] - beta_sum) <=
                      0x1p-24 * (NORM_TOKENS + 1) * beta_size,
                  "%s: dbeta[%d] = %.9g, expected %.9g", norm_name(kind), i,
                  (double)dbeta[i], beta_sum);
        }
    }
}

static void nan_and_infinity_propagate(void) {
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++)
        for (int at = 0; at < 17; at++) {
            norm_inputs(&in, SET_RANDOM, 17);
            in.x[at] = NAN;
            backward(kind, 0);
            for (int i = 0; i < 17; i++)
                CHECK(isnan(dx[i]), "x[%d] is NaN, dx[%d] = %g", at, i,
                      (double)dx[i]);
        }
}

/* ---- directions ---------------------------------------------------------- */

/* Sums over a token: dx x, g x with g = gamma dy, x^2, dx, |dx|, |dx x|. */
typedef struct {
    double dx_x, g_x, square, dx, size, dx_x_size;
} Sums;

static Sums sums_of(int t) {
    Sums s = {0};
    for (int i = 0; i < in.dim; i++) {
        double x = (double)in.x[t * in.dim + i], d = (double)dx[t * in.dim + i];
        s.dx_x += d * x;
        s.g_x += (double)in.gamma[i] * (double)in.dy[t * in.dim + i] * x;
        s.square += x * x;
        s.dx += d;
        s.size += fabs(d);
        s.dx_x_size += fabs(d * x);
    }
    return s;
}

/* RMSNorm does not depend on the length of x, so its gradient is orthogonal to
 * x, up to eps: dx . x = s (g . x) eps / (mean(x^2) + eps), with s the
 * scale. */
static void rmsnorm_s_gradient_is_orthogonal_to_x(void) {
    static const float epsilons[] = {1e-12f, 1e-5f, 0.5f, 100};
    for (int d = 0; d < N_NORM_DIMS; d++)
        for (int e = 0; e < 4; e++) {
            norm_inputs(&in, SET_RANDOM, NORM_DIMS[d]);
            in.eps = epsilons[e];
            for (int t = 0; t < NORM_TOKENS; t++) {
                backward(NORM_RMS, t);
                Sums s = sums_of(t);
                double eps = (double)in.eps, root = s.square / in.dim + eps,
                       expected = s.g_x / sqrt(root) * eps / root;
                CHECK(fabs(s.dx_x - expected) <= 3e-7 * s.dx_x_size,
                      "dim %d, eps %g: dx . x = %g, expected %g", in.dim, eps,
                      s.dx_x, expected);
                if (e == 0)
                    CHECK(fabs(s.dx_x) <= 3e-7 * s.dx_x_size,
                          "dim %d: dx . x = %g", in.dim, s.dx_x);
            }
        }
}

/* LayerNorm does not depend on the mean of x either, so its dx sum to 0, for
 * any eps. RMSNorm's do not. */
static void layernorm_s_gradient_sums_to_zero(void) {
    double least_of_rmsnorm = 1;
    for (int d = 0; d < N_NORM_DIMS; d++) {
        norm_inputs(&in, SET_RANDOM, NORM_DIMS[d]);
        double largest = 0;
        for (int t = 0; t < NORM_TOKENS; t++) {
            backward(NORM_LAYER, t);
            Sums s = sums_of(t);
            CHECK(fabs(s.dx) <= 5e-7 * s.size,
                  "dim %d: LayerNorm's dx sum to %g of %g", in.dim, s.dx,
                  s.size);
            backward(NORM_RMS, t);
            s = sums_of(t);
            largest = fmax(largest, fabs(s.dx) / s.size);
        }
        least_of_rmsnorm = fmin(least_of_rmsnorm, largest);
    }
    CHECK(least_of_rmsnorm > 1e-3,
          "RMSNorm's dx sum to 0, too: %g of their sizes", least_of_rmsnorm);
}

/* ---- scales -------------------------------------------------------------- */

/* y and dx of the first token of `in`. */
static void both_ways(NormKind kind, float *y) {
    if (kind == NORM_RMS)
        rmsnorm(y, in.x, in.gamma, in.dim, in.eps);
    else
        layernorm(y, in.x, in.gamma, NULL, in.dim, in.eps);
    backward(kind, 0);
}

/* The ratios of y and of dx for factor * x to those for x, by sums of
 * magnitudes. */
static void ratios(NormKind kind, float factor, double *of_y, double *of_dx) {
    static float y[NORM_MAX_DIM], y_of_x[NORM_MAX_DIM], dx_of_x[NORM_MAX_DIM];
    double sums[4] = {0};
    both_ways(kind, y_of_x);
    memcpy(dx_of_x, dx, sizeof dx_of_x);
    for (int i = 0; i < in.dim; i++)
        in.x[i] *= factor;
    both_ways(kind, y);
    for (int i = 0; i < in.dim; i++) {
        double found[] = {(double)y[i], (double)y_of_x[i], (double)dx[i],
                          (double)dx_of_x[i]};
        for (int k = 0; k < 4; k++)
            sums[k] += fabs(found[k]);
    }
    *of_y = sums[0] / sums[1];
    *of_dx = sums[2] / sums[3];
}

/* With powers of two the bits are equal. */
static void scaled_inputs_scale_gradients_inversely(void) {
    static float y[NORM_MAX_DIM], y_of_x[NORM_MAX_DIM], dx_of_x[NORM_MAX_DIM];
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++)
        for (int d = 0; d < N_NORM_DIMS; d++) {
            norm_inputs(&in, SET_RANDOM, NORM_DIMS[d]);
            in.eps = 0;
            both_ways(kind, y_of_x);
            memcpy(dx_of_x, dx, sizeof dx_of_x);
            for (int i = 0; i < in.dim; i++)
                in.x[i] *= 1024;
            both_ways(kind, y);
            for (int i = 0; i < in.dim; i++) {
                CHECK(y[i] == y_of_x[i], "%s, dim %d: y of 1024 x differs",
                      norm_name(kind), in.dim);
                CHECK(dx[i] * 1024 == dx_of_x[i],
                      "%s, dim %d: dx of 1024 x is not dx / 1024",
                      norm_name(kind), in.dim);
            }
        }
}

/* If eps is small compared with mean(x^2) = 1/3, it changes the result by 1e-5;
 * if eps is large, the norm multiplies by 1/sqrt(eps): y is proportional to x,
 * and dx constant. */
static void eps_limits_the_scale_invariance(void) {
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++) {
        double y, gradient;
        norm_inputs(&in, SET_RANDOM, 4096);
        ratios(kind, 3, &y, &gradient);
        CHECK(fabs(y - 1) > 5e-6 && fabs(y - 1) < 5e-5,
              "%s, small eps: y(3x) is %.9g y(x)", norm_name(kind), y);
        CHECK(fabs(3 * gradient - 1) > 5e-6 && fabs(3 * gradient - 1) < 5e-5,
              "%s, small eps: dx(3x) is %.9g dx(x)", norm_name(kind), gradient);
        norm_inputs(&in, SET_RANDOM, 4096);
        in.eps = 1e6f;
        ratios(kind, 3, &y, &gradient);
        CHECK(fabs(y - 3) < 3e-5, "%s, large eps: y(3x) is %.9g y(x)",
              norm_name(kind), y);
        CHECK(fabs(gradient - 1) < 1e-5, "%s, large eps: dx(3x) is %.9g dx(x)",
              norm_name(kind), gradient);
        norm_inputs(&in, SET_RANDOM, 4096);
        double square = 0, mean = 0;
        for (int i = 0; i < in.dim && kind == NORM_LAYER; i++)
            mean += (double)in.x[i] / in.dim;
        for (int i = 0; i < in.dim; i++)
            square += pow((double)in.x[i] - mean, 2) / in.dim;
        /* between the two: y(3x) / y(x) is 3 sqrt((v + eps) / (9 v + eps)) */
        in.eps = 0.25f;
        ratios(kind, 3, &y, &gradient);
        double expected = 3 * sqrt((square + 0.25) / (9 * square + 0.25));
        CHECK(fabs(y / expected - 1) < 1e-6,
              "%s: y(3x) is %.9g y(x), expected %.9g", norm_name(kind), y,
              expected);
    }
}

void suite_backward(void) {
    TEST(formula_matches_float64_autograd);
    TEST(gradients_match_finite_differences);
    TEST(gradients_are_no_worse_than_pytorch_s);
    TEST(tokens_accumulate);
    TEST(nan_and_infinity_propagate);
    TEST(rmsnorm_s_gradient_is_orthogonal_to_x);
    TEST(layernorm_s_gradient_sums_to_zero);
    TEST(scaled_inputs_scale_gradients_inversely);
    TEST(eps_limits_the_scale_invariance);
}
