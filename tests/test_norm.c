/* test_norm.c: norm.c against the formulas in double precision, and PyTorch.
 *
 * Compares with PyTorch's errors on the input sets of norm_inputs.c. Tests the
 * textbook's worked example, the fused residual add, and that tokens are
 * independent. Half precision and gradients are in lab/.
 */
#include "kernels/matmul.h"
#include "kernels/tensor.h"
#include "lab/norm_fused.h"
#include "norm.h"

#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/products.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIM = 4096, TOKENS = 7 };

static float gamma_[MAX_DIM], beta[MAX_DIM];

static float random_float(uint64_t stream, uint64_t i) { /* [-1, 1) */
    return (float)(hash64(11, stream, i) >> 40) / 8388608.0f - 1;
}

static void fill_parameters(void) {
    for (int i = 0; i < MAX_DIM; i++) {
        gamma_[i] = 1 + random_float(1, (uint64_t)i);
        beta[i] = random_float(2, (uint64_t)i);
    }
}

/* ---- against double precision ------------------------------------------- */

/* One norm of x[dim]; for RMSNorm the mean is 0 by definition. size[i] is the
 * scale of errors of y[i]: a rounding error of x or of the mean is multiplied
 * by scale and gamma. */
static void reference(double *y, double *size, const float *x, const Norm *norm,
                      int dim) {
    double mean = 0, square = 0, largest = 0;
    for (int i = 0; i < dim; i++)
        mean += norm->kind == NORM_LAYER ? x[i] : 0;
    mean /= dim;
    for (int i = 0; i < dim; i++) {
        square += (x[i] - mean) * (x[i] - mean);
        largest = fmax(largest, fabs((double)x[i]));
    }
    double scale = 1 / sqrt(square / dim + (double)norm->eps);
    for (int i = 0; i < dim; i++) {
        double b = norm->beta ? norm->beta[i] : 0, g = norm->gamma[i];
        y[i] = (x[i] - mean) * scale * g + b;
        size[i] = norm->kind == NORM_RMS ? fabs(y[i])
                                         : fabs(g) * largest * scale + fabs(b);
    }
}

typedef enum {
    RANDOM,
    ZEROS,
    TINY,
    LARGE,
    OVERFLOWING,
    SPIKE,
    OFFSET,
    N_KINDS
} Kind;

static void fill(float *x, Kind kind, int dim) {
    for (int i = 0; i < dim; i++) {
        float r = random_float(3, (uint64_t)(i + MAX_DIM * (int)kind));
        switch (kind) {
        case ZEROS: x[i] = 0; break;
        case TINY: x[i] = 1e-30f * r; break;
        case LARGE: x[i] = 1e15f * r; break;
        case OVERFLOWING:
            x[i] = 1e30f * r;
            break; /* squares overflow float32 */
        case SPIKE: x[i] = i == dim / 2 ? 1000 : 0.01f * r; break;
        case OFFSET:
            x[i] = 1000 + r;
            break; /* E[x^2] - E[x]^2 would lose the variance */
        case RANDOM:
        case N_KINDS: x[i] = r; break;
        }
    }
}

static void check_norm(const Norm *norm, Kind kind, int dim) {
    static float x[MAX_DIM], y[MAX_DIM], plain[MAX_DIM];
    static double exact[MAX_DIM], size[MAX_DIM];
    fill(x, kind, dim);
    reference(exact, size, x, norm, dim);
    norm_token(y, x, norm, dim);
    for (int i = 0; i < dim;
         i++) /* measured: at most 3.4 ulp, 4.4 with four lanes */
        CHECK(fabs(y[i] - exact[i]) <= 6 * 0x1p-24 * size[i] + 0x1p-149,
              "%s, dim %d, input %d: y[%d] = %.9g, exact %.9g",
              norm_name(norm->kind), dim, kind, i, y[i], exact[i]);
    norm_by_formula(plain, x, norm, 1, dim);
    for (int i = 0; i < dim; i++) {
        CHECK(fabs(plain[i] - exact[i]) <= 0x1p-24 * size[i] + 0x1p-149,
              "plain %s, dim %d, input %d: y[%d] = %.9g, exact %.9g",
              norm_name(norm->kind), dim, kind, i, plain[i], exact[i]);
        CHECK(fabs((double)y[i] - plain[i]) <= 6 * 0x1p-24 * size[i] + 0x1p-149,
              "%s, dim %d, input %d: y[%d] = %.9g, the plain form %.9g",
              norm_name(norm->kind), dim, kind, i, y[i], plain[i]);
    }
    norm_token(x, x, norm, dim); /* in place */
    CHECK(!memcmp(x, y, (size_t)dim * sizeof *x),
          "%s, dim %d, input %d: in place differs", norm_name(norm->kind), dim,
          kind);
}

static void norms_match_double_precision(void) {
    static const int dims[] = {1, 2, 15, 16, 17, 64, 172, 288, 4096};
    Norm norms[] = {{NORM_RMS, 1e-5f, gamma_, NULL, 0},
                    {NORM_LAYER, 1e-5f, gamma_, beta, 0},
                    {NORM_LAYER, 1e-6f, gamma_, NULL, 0}};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t n = 0; n < 3; n++)
            for (Kind kind = RANDOM; kind < N_KINDS; kind++)
                check_norm(&norms[n], kind, dims[d]);
}

/* ---- against PyTorch ----------------------------------------------------- */

/* Each y of RMSNorm is within 3 ulp, that of LayerNorm within 4 ulp of the
 * largest if the mean is at most 10 standard deviations; and no set has a
 * larger error than PyTorch's largest. PyTorch's errors are listed with six
 * digits, so an equal error may exceed the listed one by 1e-5. (LayerNorm of a
 * constant is exactly beta; of the tiny set it is beta, rounded.) */
static void check_set(NormKind kind, NormSet set) {
    static NormInputs in;
    static ExactNorm exact;
    static float y[NORM_MAX_DIM];
    double max = kind == NORM_RMS ? 3 : set == SET_FAR_OFFSET ? INFINITY : 4;
    double worst = 0;
    for (int d = 0; d < N_NORM_DIMS; d++) {
        norm_inputs(&in, set, NORM_DIMS[d]);
        norm_exactly(&exact, &in, kind);
        Norm norm = {kind, in.eps, in.gamma, in.beta, 0};
        for (int t = 0; t < NORM_TOKENS; t++) {
            norm_token(y, in.x + t * in.dim, &norm, in.dim);
            worst = fmax(worst, error_in_ulp(y, exact.y + t * in.dim, in.dim,
                                             kind == NORM_RMS));
        }
    }
    double theirs = pytorch_error(kind, "y", set);
    CHECK(worst <= max, "%s, %s: off by %.3g ulp", norm_name(kind),
          NORM_SETS[set], worst);
    CHECK(worst <= theirs * 1.00001, "%s, %s: off by %.3g ulp, PyTorch by %.3g",
          norm_name(kind), NORM_SETS[set], worst, theirs);
}

static void norms_are_no_worse_than_pytorch_s(void) {
    for (NormKind kind = NORM_RMS; kind <= NORM_LAYER; kind++)
        for (NormSet set = 0; set < N_NORM_SETS; set++)
            check_set(kind, set);
}

/* ---- fused with the residual add ---------------------------------------- */

static void check_fused(Kind x_kind, Kind r_kind, int dim, float eps) {
    static float x[MAX_DIM], r[MAX_DIM], sum[MAX_DIM], expected[MAX_DIM],
        y[MAX_DIM];
    fill(x, x_kind, dim);
    fill(r, r_kind, dim);
    for (int i = 0; i < dim; i++)
        r[i] *= 0.7f; /* r differs from x even if both are of one kind */
    for (int i = 0; i < dim; i++)
        sum[i] = x[i] + r[i];
    rmsnorm(expected, sum, gamma_, dim, eps);
    add_rmsnorm(y, x, r, &(Norm){.eps = eps, .gamma = gamma_}, dim);
    CHECK(!memcmp(x, sum, (size_t)dim * sizeof *x),
          "dim %d, inputs %d, %d: the sum differs", dim, x_kind, r_kind);
    CHECK(!memcmp(y, expected, (size_t)dim * sizeof *y),
          "dim %d, inputs %d, %d: the norm differs", dim, x_kind, r_kind);
}

static void adding_first_gives_the_same_bits(void) {
    static const int dims[] = {1,   2,   3,   15,   16,  17,  64,
                               127, 128, 129, 172,  255, 257, 288,
                               511, 512, 513, 1000, 4096};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (Kind x = RANDOM; x < N_KINDS; x++) {
            check_fused(x, x, dims[d], 1e-5f);
            check_fused(x, RANDOM, dims[d], 1e-5f);
            check_fused(ZEROS, x, dims[d], 1e-6f);
        }
}

/* ---- folded and deferred ------------------------------------------------ */

/* y[rows] = w x, w [rows, dim] */
static void product(float *y, const float *w, const float *x, int rows,
                    int dim) {
    Tensor t = {
        .type = TYPE_F32, .rows = rows, .cols = dim, .data = (const void *)w};
    InputBuffer buffer;
    if (input_buffer_open(&buffer, 1, dim, 1))
        return;
    Input in = input_prepare(&buffer, &t, x, 1);
    matmul_rows(y, (size_t)rows, &t, 0, rows, &in, 1, false);
    input_buffer_close(&buffer);
}

/* W (gamma x / RMS(x)) = (W gamma) x / RMS(x): gamma can be folded into the
 * weights, and 1 / RMS applied after the product (Graef et al. 2024,
 * "FlashNorm", sec. 2). */
static void one_over_rms_may_follow_the_product(void) {
    enum { ROWS = 7, DIM = 96 };
    static float x[MAX_DIM], w[ROWS * DIM], folded[ROWS * DIM], xn[DIM],
        ones[DIM], y[ROWS], late[ROWS];
    for (Kind kind = RANDOM; kind < N_KINDS; kind++) {
        fill(x, kind, DIM);
        for (int i = 0; i < ROWS * DIM; i++)
            w[i] = (float)(hash64(5, 0, (uint64_t)i) >> 40) / 8388608.0f - 1;
        for (int i = 0; i < ROWS * DIM; i++)
            folded[i] = w[i] * gamma_[i % DIM];
        for (int i = 0; i < DIM; i++)
            ones[i] = 1;
        rmsnorm(xn, x, gamma_, DIM, 1e-5f);
        product(y, w, xn, ROWS, DIM);
        rmsnorm(xn, x, ones, DIM, 1e-5f);
        product(late, folded, x, ROWS, DIM);
        int largest = 0;
        /* sum of the summands' magnitudes, the scale of rounding errors */
        double sizes = 0;
        for (int i = 0; i < DIM; i++)
            largest = fabsf(x[i]) > fabsf(x[largest]) ? i : largest;
        for (int i = 0; i < DIM; i++)
            sizes += fabs((double)xn[i] * (double)gamma_[i]);
        double inverse =
            x[largest] != 0 ? (double)xn[largest] / (double)x[largest] : 0;
        for (int r = 0; r < ROWS; r++)
            CHECK(fabs((double)late[r] * inverse - (double)y[r]) <=
                      1e-6 * sizes,
                  "input %d, row %d: %g, not %g", kind, r,
                  (double)late[r] * inverse, (double)y[r]);
    }
}

/* ---- known numbers ------------------------------------------------------ */

static void check_values(const char *what, const float *y,
                         const double *expected, int n) {
    for (int i = 0; i < n; i++)
        CHECK(fabs(y[i] - expected[i]) <= 2e-7,
              "%s: y[%d] = %.9g, expected %.9g", what, i, y[i], expected[i]);
}

static void worked_example(void) {
    float x[] = {1, 2, 3, 4}, ones[] = {1, 1, 1, 1}, g[] = {2, 1, 0, -1},
          b[] = {10, 0, 1, 0};
    float y[4];
    rmsnorm(y, x, ones, 4, 0); /* rms = sqrt(30 / 4) = 2.7386128 */
    check_values("RMSNorm", y,
                 (const double[]){0.3651483717, 0.7302967433, 1.0954451150,
                                  1.4605934867},
                 4);
    layernorm(y, x, ones, NULL, 4, 0); /* mean 2.5, biased variance 5 / 4 */
    check_values("LayerNorm", y,
                 (const double[]){-1.3416407865, -0.4472135955, 0.4472135955,
                                  1.3416407865},
                 4);
    rmsnorm(y, x, g, 4, 0);
    check_values("RMSNorm, gamma", y,
                 (const double[]){0.7302967433, 0.7302967433, 0, -1.4605934867},
                 4);
    layernorm(y, x, g, b, 4, 0);
    CHECK(fabs(y[0] - 7.3167184270) <= 1e-6,
          "LayerNorm, gamma and beta: y[0] = %.9g", y[0]);
    check_values("LayerNorm, gamma and beta", y + 1,
                 (const double[]){-0.4472135955, 1, -1.3416407865}, 3);
}

/* The mean, 2^24 + 0.5, is not representable in float32; the variance about the
 * rounded mean would be 1, not 0.75. */
static void a_mean_between_two_floats(void) {
    float x[4] = {16777216, 16777216, 16777216, 16777218},
          ones[4] = {1, 1, 1, 1};
    float y[4];
    layernorm(y, x, ones, NULL, 4, 0);
    for (int i = 0; i < 4; i++) {
        double expected = (i < 3 ? -1 : 3) / sqrt(3); /* -0.577, 1.732 */
        CHECK(fabs(y[i] - expected) < 1e-6, "element %d is %g, expected %g", i,
              (double)y[i], expected);
    }
}

/* Outside the root eps would change these values by 0.1%, inside it by 30%. */
static void eps_is_inside_the_root(void) {
    float x[] = {1e-3f, -1e-3f, 1e-3f, -1e-3f}, ones[] = {1, 1, 1, 1};
    double expected[] = {0.70710678, -0.70710678, 0.70710678, -0.70710678};
    float y[4];
    rmsnorm(y, x, ones, 4, 1e-6f);
    check_values("RMSNorm", y, expected, 4);
    layernorm(y, x, ones, NULL, 4, 1e-6f);
    check_values("LayerNorm", y, expected, 4);
}

/* Without eps 2^k x gives the bits of x, and 3 x nearly the same values. */
static void scale_of_the_input_does_not_matter(void) {
    float x[172], y[172], z[172];
    Norm norms[] = {{NORM_RMS, 1e-30f, gamma_, NULL, 0},
                    {NORM_LAYER, 1e-30f, gamma_, beta, 0}};
    for (int k = 0; k < 2; k++) {
        fill(x, RANDOM, 172);
        norm_token(y, x, &norms[k], 172);
        for (int i = 0; i < 172; i++)
            x[i] *= 1024;
        norm_token(z, x, &norms[k], 172);
        CHECK(!memcmp(y, z, sizeof y), "%s: 1024 x differs from x",
              norm_name(norms[k].kind));
        for (int i = 0; i < 172; i++)
            x[i] *= 3;
        norm_token(z, x, &norms[k], 172);
        for (int i = 0; i < 172; i++)
            CHECK(fabsf(y[i] - z[i]) <= 1e-6f * (1 + fabsf(y[i])),
                  "%s: %.9g and %.9g", norm_name(norms[k].kind), y[i], z[i]);
    }
}

static void nan_and_infinity_propagate(void) {
    float x[172], y[172];
    Norm norms[] = {{NORM_RMS, 1e-5f, gamma_, NULL, 0},
                    {NORM_LAYER, 1e-5f, gamma_, beta, 0}};
    for (int k = 0; k < 2; k++)
        for (int at = 0; at < 172; at++) {
            fill(x, RANDOM, 172);
            x[at] = NAN;
            norm_token(y, x, &norms[k], 172);
            for (int i = 0; i < 172; i++)
                CHECK(isnan(y[i]), "%s: x[%d] is NaN, y[%d] = %g",
                      norm_name(norms[k].kind), at, i, y[i]);
            x[at] = -INFINITY;
            norm_token(y, x, &norms[k], 172);
            CHECK(isnan(y[at]), "%s: x[%d] is infinite, y = %g",
                  norm_name(norms[k].kind), at, y[at]);
        }
}

static void norms_have_names(void) {
    CHECK(!strcmp(norm_name(NORM_RMS), "RMSNorm"), "%s", norm_name(NORM_RMS));
    CHECK(!strcmp(norm_name(NORM_LAYER), "LayerNorm"), "%s",
          norm_name(NORM_LAYER));
}

/* ---- tokens are independent ---------------------------------------------- */

/* Tokens of very different magnitudes, so that an influence on another token is
 * visible. */
static void fill_tokens(float *x, int dim) {
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < dim; i++)
            x[t * dim + i] =
                ldexpf(random_float(5, (uint64_t)(t * dim + i)), 4 * t - 10) +
                (float)t;
}

static void check_tokens(const Norm *norm, int dim, int n, int threads) {
    static float x[TOKENS * MAX_DIM], y[TOKENS * MAX_DIM], single[MAX_DIM];
    fill_tokens(x, dim);
    memset(y, 0xff, sizeof y);
    const float *got = y;
#pragma omp parallel num_threads(threads)
    {
        const float *row = norm_forward(y, x, norm, n, dim);
#pragma omp master
        got = row;
    }
    CHECK(got == y, "n = %d: the result is not at y", n);
    for (int t = 0; t < n; t++) {
        norm_token(single, x + t * dim, norm, dim);
        CHECK(!memcmp(single, y + t * dim, (size_t)dim * sizeof *y),
              "%s, dim %d, %d tokens, %d threads: token %d differs",
              norm_name(norm->kind), dim, n, threads, t);
    }
    for (int i = n * dim; i < TOKENS * dim; i++)
        CHECK(isnan(y[i]), "wrote beyond token %d", n);
}

/* gamma tanh(alpha x) + beta in double, at small, usual and saturated elements,
 * and at the end of a vector. */
static void dyt_is_its_formula(void) {
    static const float alphas[] = {0.1f, 1, 7};
    float x[37], y[37], plain[37];
    for (int a = 0; a < 3; a++)
        for (int with_beta = 0; with_beta < 2; with_beta++) {
            Norm norm = {NORM_DYT, 0, gamma_, with_beta ? beta : NULL,
                         alphas[a]};
            for (int i = 0; i < 37; i++)
                x[i] = (float)(i - 18) * (i % 3 ? 1e-3f : 1) *
                       (i == 5 ? 1e30f : 1);
            norm_token(y, x, &norm, 37);
            norm_by_formula(plain, x, &norm, 1, 37);
            for (int i = 0; i < 37; i++) {
                double expected = tanh((double)alphas[a] * x[i]) * gamma_[i] +
                                  (with_beta ? (double)beta[i] : 0);
                CHECK(fabs(y[i] - expected) <= 4e-7,
                      "alpha %g: %g becomes %.9g, expected %.9g",
                      (double)alphas[a], (double)x[i], (double)y[i], expected);
                CHECK(fabs(plain[i] - expected) <=
                          1e-7 * fmax(1, fabs(expected)),
                      "alpha %g: the formula makes %.9g of %g",
                      (double)alphas[a], (double)plain[i], (double)x[i]);
            }
        }
    Norm norm = {NORM_DYT, 0, gamma_, NULL, 1};
    x[3] = NAN;
    norm_token(x, x, &norm, 37);
    CHECK(isnan(x[3]) && !isnan(x[4]), "NaN becomes %g", (double)x[3]);
}

static void tokens_are_independent(void) {
    Norm norms[] = {{NORM_RMS, 1e-5f, gamma_, NULL, 0},
                    {NORM_LAYER, 1e-5f, gamma_, beta, 0},
                    {NORM_LAYER, 1e-5f, gamma_, NULL, 0},
                    {NORM_DYT, 0, gamma_, beta, 0.7f}};
    for (int k = 0; k < 4; k++)
        for (int threads = 1; threads <= 3; threads++)
            for (int n = 2; n <= TOKENS; n++) {
                check_tokens(&norms[k], 172, n, threads);
                check_tokens(&norms[k], 17, n, threads);
            }
}

/* One token: every thread gets its own copy of the result. */
static void one_token_is_copied_for_each_thread(void) {
    enum { DIM = 172, THREADS = 3 };
    float x[DIM], y[THREADS * DIM], single[DIM];
    const float *rows[THREADS] = {NULL};
    int threads = 0;
    Norm norm = {NORM_LAYER, 1e-5f, gamma_, beta, 0};
    fill(x, RANDOM, DIM);
    norm_token(single, x, &norm, DIM);
    memset(y, 0xff, sizeof y);
#pragma omp parallel num_threads(THREADS)
    {
        rows[omp_get_thread_num()] = norm_forward(y, x, &norm, 1, DIM);
#pragma omp master
        threads = omp_get_num_threads();
    }
    CHECK(threads == THREADS, "%d threads, expected %d", threads, THREADS);
    for (int t = 0; t < THREADS; t++) {
        CHECK(rows[t] == y + t * DIM, "thread %d reads from elsewhere", t);
        CHECK(!memcmp(rows[t], single, sizeof single),
              "thread %d: the result differs", t);
    }
}

/* Memory after a token is neither read nor written. */
static void memory_after_a_token_is_not_touched(void) {
    for (int dim = 1; dim < 70; dim += 17) {
        float token[72], results[6][72], weight[72], shift[72];
        for (int i = 0; i < 72; i++) {
            token[i] = i < dim ? (float)(i % 5) - 1.5f : NAN;
            weight[i] = i < dim ? 1 + 0.125f * (float)(i % 3) : NAN;
            shift[i] = i < dim ? 0.5f : NAN;
            for (int k = 0; k < 6; k++)
                results[k][i] = 7;
        }
        Norm norms[] = {{NORM_RMS, 1e-5f, weight, NULL, 0},
                        {NORM_LAYER, 1e-5f, weight, shift, 0},
                        {NORM_LAYER, 1e-5f, weight, NULL, 0}};
        for (int k = 0; k < 3; k++) {
            norm_by_formula(results[k], token, &norms[k], 1, dim);
            norm_token(results[k + 3], token, &norms[k], dim);
        }
        for (int k = 0; k < 6; k++)
            for (int i = 0; i < 72; i++)
                CHECK(i < dim ? fabsf(results[k][i] - results[(k + 3) % 6][i]) <
                                    1e-5f
                              : results[k][i] == 7,
                      "%d, dim %d: y[%d] is %g", k, dim, i,
                      (double)results[k][i]);
    }
}

void suite_norm(void) {
    fill_parameters();
    TEST(norms_match_double_precision);
    TEST(norms_are_no_worse_than_pytorch_s);
    TEST(adding_first_gives_the_same_bits);
    TEST(one_over_rms_may_follow_the_product);
    TEST(worked_example);
    TEST(a_mean_between_two_floats);
    TEST(memory_after_a_token_is_not_touched);
    TEST(eps_is_inside_the_root);
    TEST(scale_of_the_input_does_not_matter);
    TEST(nan_and_infinity_propagate);
    TEST(norms_have_names);
    TEST(dyt_is_its_formula);
    TEST(tokens_are_independent);
    TEST(one_token_is_copied_for_each_thread);
}
