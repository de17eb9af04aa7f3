/* textbook_formulas.c: statements of docs/norms.md and its other pages:
 * the formulas, eps, rounding, scale, tokens and shapes. */
#include "kernels/simd.h"
#include "norm.h"

#include "tests/support/norm_half.h"
#include "tests/support/test.h"
#include "tests/textbook.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the two formulas ---------------------------------------------------- */

static void rmsnorm_of_one_to_four(void) {
    float y[4];
    rmsnorm(y, ONE_TO_FOUR, ONES, 4, 0);
    CHECK_VALUES(y, 4, 1e-7, 1 / sqrt(7.5), 2 / sqrt(7.5), 3 / sqrt(7.5),
                 4 / sqrt(7.5));
    CHECK_VALUES(y, 4, 1e-7, 0.3651484, 0.7302967, 1.0954451, 1.4605935);
    HOLDS(1, 4, 9, 16, 7.5, sqrt(7.5), 1 / sqrt(7.5), 2 / sqrt(7.5),
          3 / sqrt(7.5), 4 / sqrt(7.5));
}

static void layernorm_of_one_to_four(void) {
    float gamma[] = {2, 1, 0, -1}, beta[] = {10, 0, 1, 0};
    float y[4];
    layernorm(y, ONE_TO_FOUR, ONES, NULL, 4, 0);
    CHECK_VALUES(y, 4, 1e-7, -1.5 / sqrt(1.25), -0.5 / sqrt(1.25),
                 0.5 / sqrt(1.25), 1.5 / sqrt(1.25));
    CHECK_VALUES(y, 4, 1e-7, -1.3416408, -0.4472136, 0.4472136, 1.3416408);
    layernorm(y, ONE_TO_FOUR, gamma, beta, 4, 0);
    CHECK_VALUES(y, 4, 1e-6, 10 - 3 / sqrt(1.25), -0.5 / sqrt(1.25), 1,
                 -1.5 / sqrt(1.25));
    HOLDS(2.5, -1.5, -0.5, 0.5, 1.5, 1.25, sqrt(1.25), -1.5 / sqrt(1.25),
          -0.5 / sqrt(1.25), 0.5 / sqrt(1.25), 1.5 / sqrt(1.25));
}

static void every_token_gets_the_same_length(void) {
    enum { N = 64 };
    float x[N], y[N];
    for (int t = 0; t < 10; t++) {
        fill_random(x, 30 + (uint64_t)t, N, exp2f((float)t));
        for (int i = 0; i < N; i++)
            x[i] += (float)t;
        rmsnorm(y, x, ONES, N, 0);
        CHECK(fabs(sqrt(dot(y, y, N)) - 8) < 1e-6, "RMSNorm, length %.9g",
              sqrt(dot(y, y, N)));
        layernorm(y, x, ONES, NULL, N, 0);
        CHECK(fabs(sqrt(dot(y, y, N)) - 8) < 1e-6, "LayerNorm, length %.9g",
              sqrt(dot(y, y, N)));
        CHECK(fabs(mean_of(y, N)) < 1e-6, "LayerNorm, mean %.9g",
              mean_of(y, N));
    }
    HOLDS(1, 2); /* the figure has dim 2 */
}

/* ---- when they coincide -------------------------------------------------- */

static void layernorm_is_rmsnorm_of_the_centered_token(void) {
    enum { N = 64 };
    float centered[] = {-3, -1, 1, 3};
    float x[N], y[N], z[N];
    rmsnorm(y, centered, ONES, 4, 1e-5f);
    layernorm(z, centered, ONES, NULL, 4, 1e-5f);
    CHECK(!memcmp(y, z, 4 * sizeof *y), "a token of mean 0: %.9g and %.9g",
          y[0], z[0]);
    fill_random(x, 40, N, 4);
    layernorm(y, x, ONES, NULL, N, 1e-5f);
    float mean = (float)mean_of(x, N);
    for (int i = 0; i < N; i++)
        x[i] -= mean;
    rmsnorm(z, x, ONES, N, 1e-5f);
    for (int i = 0; i < N; i++)
        CHECK(fabsf(y[i] - z[i]) < 1e-6f, "element %d: %.9g and %.9g", i, y[i],
              z[i]);
    HOLDS(0, -3, -1, 1, 3, 2, 4, 7.5, 6.25, 1.25);
}

/* The cosine between the two results is sqrt(variance / mean(x^2)). */
static void the_angle_between_the_two(void) {
    enum { N = 64 };
    float x[N], y[N], z[N];
    rmsnorm(y, ONE_TO_FOUR, ONES, 4, 0);
    layernorm(z, ONE_TO_FOUR, ONES, NULL, 4, 0);
    CHECK(fabs(dot(y, z, 4) / 4 - 0.4082483) < 1e-7, "cosine %.9g",
          dot(y, z, 4) / 4);
    /* mean 0.1, RMS 1 */
    for (int i = 0; i < N; i++)
        x[i] = (float)(0.1 + (i % 2 ? 1 : -1) * sqrt(0.99));
    rmsnorm(y, x, ONES, N, 0);
    layernorm(z, x, ONES, NULL, N, 0);
    CHECK(fabs(dot(y, z, N) / N - 0.994987) < 1e-6, "a small mean: cosine %.9g",
          dot(y, z, N) / N);
    for (int shift = 0; shift < 4; shift++) {
        fill_random(x, 41, N, 4);
        for (int i = 0; i < N; i++)
            x[i] += (float)shift;
        double mean = mean_of(x, N), square = dot(x, x, N) / N;
        rmsnorm(y, x, ONES, N, 0);
        layernorm(z, x, ONES, NULL, N, 0);
        double cosine = dot(y, z, N) / N,
               expected = sqrt((square - mean * mean) / square);
        CHECK(fabs(cosine - expected) < 1e-6,
              "shift %d: cosine %.9g, expected %.9g", shift, cosine, expected);
    }
    HOLDS(1, 2, 3, 4, 1.25, 7.5, sqrt(1.25 / 7.5), sqrt(0.99));
}

static void only_layernorm_ignores_a_shift(void) {
    float shifted[] = {1001, 1002, 1003, 1004};
    float y[4], z[4];
    layernorm(y, ONE_TO_FOUR, ONES, NULL, 4, 0);
    layernorm(z, shifted, ONES, NULL, 4, 0);
    CHECK(!memcmp(y, z, sizeof y), "LayerNorm: %.9g and %.9g", y[0], z[0]);
    rmsnorm(z, shifted, ONES, 4, 0);
    CHECK_VALUES(z, 4, 1e-7, 0.9985031, 0.9995006, 1.0004981, 1.0014956);
    for (int i = 0; i < 4; i++)
        HOLDS(shifted[i], shifted[i] / sqrt(dot(shifted, shifted, 4) / 4));
    HOLDS(2);
    /* pRMSNorm: the RMS of 256 elements against that of all 4,096 */
    enum { N = 4096, PART = 256, DRAWS = 400 };
    double expected = sqrt((1 - 1.0 * PART / N) / (2 * PART));
    double squares = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        double sum = 0, part = 0;
        for (int i = 0; i < N; i++) {
            double a = normal(46000 + (uint64_t)draw, i);
            sum += a * a / N;
            part += i < PART ? a * a / PART : 0;
        }
        double error = sqrt(part / sum) - 1;
        squares += error * error / DRAWS;
    }
    CHECK(fabs(sqrt(squares) / expected - 1) < 4 / sqrt(2 * DRAWS),
          "pRMSNorm: an error of %.9g, expected %.9g", sqrt(squares), expected);
    HOLDS(6.25, PART, N, 1, 2, 100 * expected);
}

/* LayerNorm centers also without beta; RMSNorm does not, even with a beta. */
static void beta_is_not_the_centering(void) {
    float y[4];
    layernorm(y, ONE_TO_FOUR, ONES, NULL, 4, 0);
    CHECK(fabs(mean_of(y, 4)) < 1e-7, "LayerNorm without beta: mean %.9g",
          mean_of(y, 4));
    rmsnorm(y, ONE_TO_FOUR, ONES, 4, 0);
    CHECK(fabs(mean_of(y, 4) - 0.9128709) < 1e-7, "RMSNorm: mean %.9g",
          mean_of(y, 4));
    for (int i = 0; i < 4; i++)
        y[i] += 0.5f; /* an RMSNorm with beta */
    CHECK(fabs(mean_of(y, 4) - 1.4128709) < 1e-6,
          "RMSNorm with beta: mean %.9g", mean_of(y, 4));
    HOLDS(0, 1, 2, 3, 4, 2.5 / sqrt(7.5), 0.5, 2.5 / sqrt(7.5) + 0.5);
}

/* ---- eps ----------------------------------------------------------------- */

/* What a norm with this eps multiplies a token of RMS r by, relative to r = 1
 * without eps. */
static double kept(double r, double eps) {
    return 1 / sqrt(1 + eps / (r * r));
}

static void where_eps_matters(void) {
    const double eps = 1e-5, sizes[] = {1, sqrt(eps), 1e-3};
    for (int i = 0; i < 3; i++) {
        double r = sizes[i];
        float x[] = {(float)r, (float)-r, (float)r, (float)-r}, y[4];
        rmsnorm(y, x, ONES, 4, (float)eps);
        CHECK(fabs(rms_of(y, 4) - kept(r, eps)) < 2e-7, "RMS %g: %.9g", r,
              rms_of(y, 4));
        HOLDS(r, kept(r, eps), r / (r + eps));
    }
    HOLDS(eps);
    /* the smallest embeddings of statement 29 */
    const double smallest = 0.0177, own = 1e-6;
    HOLDS(smallest, own,
          100 * (smallest / (smallest + own) - kept(smallest, own)));
}

/* A gradient that is orthogonal to x passes with the factor 1 / sqrt(r^2 + eps)
 * inside; outside, with 1 / (r + eps). */
static void the_slope_at_zero(void) {
    const double r = 1e-3;
    const float x[] = {1e-3f, -1e-3f, 1e-3f, -1e-3f}, zero[4] = {0},
                dy[] = {1, 1, 1, 1};
    float dx[4], dgamma[4] = {0};
    const float sizes[] = {1e-5f, 1e-6f};
    for (int i = 0; i < 2; i++) {
        rmsnorm_backward(dx, dgamma, dy, zero, ONES, 4, sizes[i]);
        CHECK(fabs(dx[0] * sqrt(sizes[i]) - 1) < 1e-5, "eps %g: %g", sizes[i],
              dx[0]);
    }
    rmsnorm_backward(dx, dgamma, dy, x, ONES, 4, 1e-5f);
    CHECK(fabs(dx[0] - 1 / sqrt(r * r + 1e-5)) < 1e-3, "%.9g", dx[0]);
    /* (x + d) / (RMS(x + d) + eps), d orthogonal to x */
    const double d = 1e-9;
    double moved[4], rms = 0;
    for (int i = 0; i < 4; i++) {
        moved[i] = x[i] + d;
        rms += moved[i] * moved[i] / 4;
    }
    rms = sqrt(rms);
    double slope = 0;
    for (int i = 0; i < 4; i++)
        slope +=
            (moved[i] / (rms + 1e-5) - x[i] / ((double)1e-3f + 1e-5)) / d / 4;
    CHECK(fabs(slope - 1 / (r + 1e-5)) < 1e-2, "outside: %.9g", slope);
    HOLDS(1e-5, 1e-6, 1 / sqrt(1e-5), 1 / 1e-5, 1 / sqrt(1e-6), 1 / 1e-6, r,
          1 / sqrt(r * r + 1e-5), 1 / (r + 1e-5), 0);
}

/* A number in float16, near zero: a multiple of its smallest. */
static double in_float16(double x) {
    const double step = 0x1p-24;
    return step * nearbyint(x / step);
}

/* `RMS in` of the first norm of three models, and their eps. */
static const struct {
    double rms, eps;
} FIRST_NORMS[] = {{0.1264, 1e-5}, {0.0177, 1e-6}, {1.031, 1e-6}};

static void eps_for_ones_own_model(void) {
    const double sd = 0.02;
    CHECK(fabs(1 - kept(sd, 0.02 * sd * sd) - 0.01) < 2e-4, "%g",
          1 - kept(sd, 0.02 * sd * sd));
    HOLDS(1, 2, 0.02, 0.02 * sd * sd, 1e-5, 100 * (1 - kept(sd, 1e-5)), 1e-6,
          100 * (1 - kept(sd, 1e-6)));
    HOLDS(1 / sqrt(1e-6), 1 / sqrt(1e-8), 1e-8, 0x1p-24, in_float16(1e-6),
          in_float16(1e-8));
    for (size_t i = 0; i < sizeof FIRST_NORMS / sizeof *FIRST_NORMS; i++) {
        double rms = FIRST_NORMS[i].rms, eps = FIRST_NORMS[i].eps;
        HOLDS(rms, eps, 100 * (1 - kept(rms, eps)),
              100 * (1 - kept(rms, 1e-5)));
    }
}

/* The RMS of the output for a token of RMS r: r / sqrt(r^2 + eps) and r / (r +
 * eps). */
static const struct {
    double rms, inside, outside;
} EPS_TABLE[] = {
    {1, 0.99999500, 0.99999000},    {0.1, 0.99950037, 0.99990001},
    {1e-2, 0.95346259, 0.99900100}, {3.16227766017e-3, 0.70710678, 0.99684769},
    {1e-3, 0.30151134, 0.99009901}, {1e-4, 0.03160698, 0.90909091},
    {1e-5, 0.00316226, 0.50000000}};

static void eps_inside_and_outside_the_root(void) {
    double eps = 1e-5;
    for (size_t i = 0; i < sizeof EPS_TABLE / sizeof *EPS_TABLE; i++) {
        double r = EPS_TABLE[i].rms, outside = r / (r + eps);
        float x[] = {(float)r, (float)-r, (float)r, (float)-r};
        float y[4];
        rmsnorm(y, x, ONES, 4, (float)eps);
        CHECK(fabs(rms_of(y, 4) - EPS_TABLE[i].inside) < 2e-7, "RMS %g: %.9g",
              r, rms_of(y, 4));
        layernorm(y, x, ONES, NULL, 4, (float)eps); /* the mean is 0 */
        CHECK(fabs(rms_of(y, 4) - EPS_TABLE[i].inside) < 2e-7,
              "LayerNorm, RMS %g: %.9g", r, rms_of(y, 4));
        CHECK(fabs(outside - EPS_TABLE[i].outside) < 1e-8,
              "outside, RMS %g: %.9g", r, outside);
        HOLDS(r, EPS_TABLE[i].inside, outside);
    }
}

/* LayerNorm of equal elements is beta, RMSNorm the sign; without eps, 0 / 0. */
static void equal_elements(void) {
    enum { N = 64 };
    float x[N], zeros[N] = {0}, beta[N], y[N], z[N];
    for (int i = 0; i < N; i++) {
        x[i] = -1000.1f;
        beta[i] = random_float(76, i);
    }
    layernorm(y, x, ONES, beta, N, 1e-5f);
    CHECK(!memcmp(y, beta, sizeof y), "y[0] = %.9g, beta %.9g", y[0], beta[0]);
    rmsnorm(y, x, ONES, N, 1e-5f);
    CHECK(fabsf(y[0] + 1) < 2e-7f, "RMSNorm: %.9g", y[0]);
    layernorm(y, x, ONES, NULL, N, 0);
    CHECK(isnan(y[0]), "LayerNorm without eps: %.9g", y[0]);
    rmsnorm(y, zeros, ONES, N, 0);
    layernorm(z, zeros, ONES, NULL, N, 0);
    CHECK(isnan(y[0]) && isnan(z[0]), "zeros without eps: %.9g, %.9g", y[0],
          z[0]);
}

/* The result is 0, not 0 / 0; the derivative at 0 is 1 / sqrt(eps). */
static void a_token_of_zeros_stays_zero(void) {
    float x[4] = {0}, dy[] = {1, 2, 3, 4};
    float y[4], dx[4], dgamma[4] = {0};
    rmsnorm(y, x, ONES, 4, 1e-5f);
    CHECK_VALUES(y, 4, 0, 0, 0, 0, 0);
    layernorm(y, x, ONES, NULL, 4, 1e-5f);
    CHECK_VALUES(y, 4, 0, 0, 0, 0, 0);
    rmsnorm_backward(dx, dgamma, dy, x, ONES, 4, 1e-5f);
    CHECK_VALUES(dx, 4, 1e-3, 316.22777, 632.45553, 948.68330, 1264.91106);
    equal_elements();
    HOLDS(0, 1 / sqrt(1e-5), 1e-5, 64, 1000.1);
}

/* ---- float32 inside ------------------------------------------------------ */

static void sums_in_half_precision_fail(void) {
    enum { N = 4096 };
    static uint16_t x[N], gamma[N], y[N];
    float square = f16_to_f32(f32_to_f16(256.0f * 256.0f));
    CHECK(isinf(square) && square > 0, "256^2 in float16: %g", square);
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum = bf16_to_f32(f32_to_bf16(sum + 1));
    CHECK(sum == 256, "4096 ones added in bfloat16: %g", sum);
    for (int i = 0; i < N; i++) {
        x[i] = f32_to_f16(300);
        gamma[i] = f32_to_f16(1);
    }
    rmsnorm_half(y, x, gamma, N, 1e-5f, TYPE_F16, ROUND_THEN_SCALE);
    for (int i = 0; i < N; i++)
        CHECK(y[i] == f32_to_f16(1), "y[%d] = %g", i, f16_to_f32(y[i]));
    for (int i = 0; i < N; i++)
        x[i] = gamma[i] = f32_to_bf16(1);
    rmsnorm_half(y, x, gamma, N, 1e-5f, TYPE_BF16, ROUND_THEN_SCALE);
    for (int i = 0; i < N; i++)
        CHECK(y[i] == f32_to_bf16(1), "y[%d] = %g", i, bf16_to_f32(y[i]));
    const float lost = 1.72e-4f, found = 1.73e-4f;
    CHECK(!f32_to_f16(lost * lost) && f32_to_f16(found * found),
          "the smallest square is not that of sqrt(2^-25)");
    HOLDS(65504, 256, 65536, 8, 1, 300, 4096, sqrt(4096.0 / 256), 0,
          sqrt(0x1p-25), 0x1p-24);
}

static void squares_beyond_float32(void) {
    float same[] = {1e20f, 1e20f, 1e20f, 1e20f},
          rising[] = {1e20f, 2e20f, 3e20f, 4e20f};
    float y[4];
    CHECK(isinf(same[0] * same[0]), "1e20^2 is %g", same[0] * same[0]);
    rmsnorm(y, same, ONES, 4, 1e-5f);
    CHECK_VALUES(y, 4, 0, 1, 1, 1, 1);
    layernorm(y, rising, ONES, NULL, 4, 1e-5f);
    CHECK_VALUES(y, 4, 2e-7, -1.3416408, -0.4472136, 0.4472136, 1.3416408);
    HOLDS(1e20, 2e20, 3e20, 4e20, 1, 0);
}

static void a_variance_takes_two_passes(void) {
    float x[] = {4097, 4098, 4099, 4100};
    float y[4];
    volatile float square = 0, mean = 0; /* every step rounded to float32 */
    for (int i = 0; i < 4; i++) {
        square += x[i] * x[i] / 4;
        mean += x[i] / 4;
    }
    const volatile float mean_squared = mean * mean;
    CHECK(square - mean_squared != 1.25f, "one pass got it right: %g",
          square - mean_squared);
    layernorm(y, x, ONES, NULL, 4, 0);
    CHECK_VALUES(y, 4, 1e-7, -1.3416408, -0.4472136, 0.4472136, 1.3416408);
    HOLDS(4097, 4098, 4099, 4100, 2, 1.25);
}

/* Bits of LlamaRMSNorm and of torch.nn.functional.rms_norm, and how many of
 * 4096 differ. A float32 value next to a rounding boundary may be rounded
 * differently on another machine, hence the margin. */
static const struct {
    Type type;
    uint16_t bits[2][8];
    int differing;
} ROUNDED[] = {
    {TYPE_BF16,
     {{0x3f3a, 0x3f39, 0xbf30, 0xc005, 0xbf60, 0xbfca, 0xbf2f, 0x3fae},
      {0x3f3a, 0x3f3a, 0xbf30, 0xc005, 0xbf60, 0xbfca, 0xbf2f, 0x3fae}},
     1104},
    {TYPE_F16,
     {{0x39ce, 0x39c9, 0xb982, 0xc02a, 0xbb07, 0xbe52, 0xb97c, 0x3d6c},
      {0x39ce, 0x39c9, 0xb981, 0xc02a, 0xbb07, 0xbe53, 0xb97b, 0x3d6c}},
     1059},
};

static void two_orders_of_rounding(void) {
    enum { N = 4096 };
    static uint16_t x[N], gamma[N], y[2][N];
    for (int k = 0; k < 2; k++) {
        Type type = ROUNDED[k].type;
        int differing = 0;
        for (int i = 0; i < N; i++) {
            float a = 4 * random_float(1, i), b = 1 + random_float(2, i);
            x[i] = type == TYPE_F16 ? f32_to_f16(a) : f32_to_bf16(a);
            gamma[i] = type == TYPE_F16 ? f32_to_f16(b) : f32_to_bf16(b);
        }
        rmsnorm_half(y[0], x, gamma, N, 1e-5f, type, ROUND_THEN_SCALE);
        rmsnorm_half(y[1], x, gamma, N, 1e-5f, type, SCALE_THEN_ROUND);
        for (int order = 0; order < 2; order++)
            for (int i = 0; i < 8; i++)
                CHECK(y[order][i] == ROUNDED[k].bits[order][i],
                      "%s, order %d: y[%d] is %04x, expected %04x",
                      type_name(type), order, i, y[order][i],
                      ROUNDED[k].bits[order][i]);
        for (int i = 0; i < N; i++) {
            differing += y[0][i] != y[1][i];
            CHECK(abs(y[0][i] - y[1][i]) <= 1, "%s: y[%d] is %04x and %04x",
                  type_name(type), i, y[0][i], y[1][i]);
        }
        CHECK(abs(differing - ROUNDED[k].differing) <= 4, "%s: %d differ",
              type_name(type), differing);
        HOLDS(N, ROUNDED[k].differing);
    }
}

/* ---- biased and unbiased ------------------------------------------------- */

static void the_variance_is_biased(void) {
    /* (x - mean) / torch.std(x) */
    double unbiased[] = {-1.1618950, -0.3872983, 0.3872983, 1.1618950};
    float y[4];
    layernorm(y, ONE_TO_FOUR, ONES, NULL, 4, 0);
    CHECK(fabs(dot(y, y, 4) / 4 - 1) < 1e-6, "variance of the output: %.9g",
          dot(y, y, 4) / 4);
    for (int i = 0; i < 4; i++) {
        double expected = unbiased[i] * sqrt(4.0 / 3);
        CHECK(fabs(y[i] - expected) < 1e-7, "y[%d] = %.9g, expected %.9g", i,
              y[i], expected);
    }
    CHECK(fabs(sqrt(7.0 / 8) - 0.9354) < 5e-5 &&
              fabs(sqrt(4095.0 / 4096) - 0.99988) < 5e-6,
          "factors");
    HOLDS(1, 2, 3, 4, 5.0 / 3, 1.25, unbiased[0], unbiased[1], unbiased[2],
          unbiased[3], sqrt(3.0 / 4), sqrt(7.0 / 8), 8, sqrt(4095.0 / 4096),
          4096, 1 - sqrt(4095.0 / 4096));
}

/* ---- scale --------------------------------------------------------------- */

/* y = norm(W x) for TOKENS tokens of dim DIM, without eps. A token's norm
 * (NormKind), or BatchNorm (NORM_NONE), which normalizes a feature. */
static void norm_of_product(double y[TOKENS][DIM], double w[DIM][DIM],
                            double x[TOKENS][DIM], NormKind kind) {
    bool batch = kind == NORM_NONE;
    int lines = batch ? DIM : TOKENS, n = batch ? TOKENS : DIM;
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < DIM; i++) {
            y[t][i] = 0;
            for (int k = 0; k < DIM; k++)
                y[t][i] += w[i][k] * x[t][k];
        }
    for (int line = 0; line < lines; line++) {
        double mean = 0, square = 0;
        for (int i = 0; i < n && kind != NORM_RMS; i++)
            mean += (batch ? y[i][line] : y[line][i]) / n;
        for (int i = 0; i < n; i++) {
            double *value = batch ? &y[i][line] : &y[line][i];
            *value -= mean;
            square += *value * *value / n;
        }
        for (int i = 0; i < n; i++)
            *(batch ? &y[i][line] : &y[line][i]) /= sqrt(square);
    }
}

/* The table of invariances: six changes of W and of the tokens. */
static void check_invariances(void) {
    static const NormKind kinds[] = {NORM_LAYER, NORM_RMS, NORM_NONE};
    static const bool unchanged[6][3] = {
        {true, true, true}, {true, false, false}, {false, false, true},
        {true, true, true}, {false, false, true}, {true, true, false}};
    for (int change = 0; change < 6; change++)
        for (int kind = 0; kind < 3; kind++) {
            double w[DIM][DIM], x[TOKENS][DIM], y[2][TOKENS][DIM], most = 0;
            for (int after = 0; after < 2; after++) {
                for (int i = 0; i < DIM; i++)
                    for (int k = 0; k < DIM; k++) {
                        w[i][k] = normal(51, DIM * i + k);
                        if (after && (change == 0 || (change == 2 && i == 3)))
                            w[i][k] *= 3;
                        if (after && change == 1)
                            w[i][k] += normal(52, k);
                    }
                for (int t = 0; t < TOKENS; t++)
                    for (int k = 0; k < DIM; k++) {
                        x[t][k] = normal(53, DIM * t + k);
                        if (after && (change == 3 || (change == 5 && t == 4)))
                            x[t][k] *= 3;
                        if (after && change == 4)
                            x[t][k] += normal(54, k);
                    }
                norm_of_product(y[after], w, x, kinds[kind]);
            }
            for (int t = 0; t < TOKENS; t++)
                for (int i = 0; i < DIM; i++)
                    most = fmax(most, fabs(y[0][t][i] - y[1][t][i]));
            CHECK(unchanged[change][kind] ? most < 1e-12 : most > 0.1,
                  "change %d, norm %d: %g", change, kind, most);
        }
}

static void both_norms_ignore_the_scale(void) {
    enum { N = 64 };
    float x[N], scaled[N], y[2][N], z[2][N];
    fill_random(x, 50, N, 4);
    rmsnorm(y[0], x, ONES, N, 0);
    layernorm(y[1], x, ONES, NULL, N, 0);
    for (int k = -20; k <= 20; k++) { /* powers of two: the same bits */
        for (int i = 0; i < N; i++)
            scaled[i] = ldexpf(x[i], k);
        rmsnorm(z[0], scaled, ONES, N, 0);
        layernorm(z[1], scaled, ONES, NULL, N, 0);
        CHECK(!memcmp(y, z, sizeof y), "2^%d x differs from x", k);
    }
    /* a negative factor only changes the sign */
    for (int i = 0; i < N; i++)
        scaled[i] = -10 * x[i];
    rmsnorm(z[0], scaled, ONES, N, 0);
    layernorm(z[1], scaled, ONES, NULL, N, 0);
    for (int i = 0; i < N; i++) {
        CHECK(fabsf(y[0][i] + z[0][i]) < 1e-6f, "RMSNorm: %.9g and %.9g",
              y[0][i], z[0][i]);
        CHECK(fabsf(y[1][i] + z[1][i]) < 1e-6f, "LayerNorm: %.9g and %.9g",
              y[1][i], z[1][i]);
    }
    float doubled[] = {2, 4, 6, 8};
    rmsnorm(y[0], ONE_TO_FOUR, ONES, 4, 0);
    rmsnorm(z[0], doubled, ONES, 4, 0);
    CHECK(!memcmp(y[0], z[0], sizeof doubled), "[2, 4, 6, 8]: %.9g, not %.9g",
          z[0][0], y[0][0]);
    check_invariances();
    HOLDS(0, 6, 1, 2, 3, 4, 8);
}

/* norm(s x) with eps equals norm(x) with eps / s^2. */
static void eps_sets_a_smallest_scale(void) {
    static const double scales[] = {1, 0.1, 0.01, 0.001},
                        first[] = {0.3651481, 0.3651240, 0.3627381, 0.2390457};
    for (int k = 0; k < 4; k++) {
        float x[4], y[4], z[4];
        for (int i = 0; i < 4; i++)
            x[i] = (float)(scales[k] * ONE_TO_FOUR[i]);
        rmsnorm(y, x, ONES, 4, 1e-5f);
        rmsnorm(z, ONE_TO_FOUR, ONES, 4,
                (float)(1e-5 / (scales[k] * scales[k])));
        CHECK(fabs(y[0] - first[k]) < 1e-7, "scale %g: %.9g, expected %.9g",
              scales[k], y[0], first[k]);
        HOLDS(scales[k], scales[k] / sqrt(7.5 * scales[k] * scales[k] + 1e-5),
              1e-5, k + 1);
        for (int i = 0; i < 4; i++)
            CHECK(fabsf(y[i] - z[i]) < 3e-7f, "scale %g: %.9g, %.9g", scales[k],
                  y[i], z[i]);
    }
}

/* ---- per token, shapes --------------------------------------------------- */

static void neighbors_change_nothing(void) {
    enum { N = 5, WIDTH = 64 };
    float x[N * WIDTH], single[WIDTH], y[N * WIDTH];
    Norm norms[] = {{NORM_RMS, 1e-5f, ONES, NULL, 0},
                    {NORM_LAYER, 1e-5f, ONES, NULL, 0}};
    for (int k = 0; k < 2; k++) {
        fill_random(x, 70, N * WIDTH, 4);
        norm_forward(single, x, &norms[k], 1, WIDTH);
        for (int neighbors = 1; neighbors < N; neighbors++) {
            for (int i = WIDTH; i < N * WIDTH; i++)
                x[i] = 1e6f * random_float(71 + (uint64_t)neighbors, i);
            norm_forward(y, x, &norms[k], 1 + neighbors, WIDTH);
            CHECK(!memcmp(y, single, sizeof single),
                  "%s with %d other tokens: the result changes",
                  norm_name(norms[k].kind), neighbors);
        }
    }
}

/* BatchNorm of one feature, with statistics over n tokens, as in training. */
static void batch_norm(float *y, const float *x, int n, double eps) {
    double mean = mean_of(x, n), variance = dot(x, x, n) / n - mean * mean;
    for (int i = 0; i < n; i++)
        y[i] = (float)((x[i] - mean) / sqrt(variance + eps));
}

/* PyTorch's BatchNorm1d gives the same numbers; a token without others in its
 * batch becomes 0; the last token changes the first. */
static void batch_norm_sees_the_padding(void) {
    float padded[8] = {1, 2, 3, 4};
    float y[8];
    batch_norm(y, ONE_TO_FOUR, 4, 1e-5);
    CHECK_VALUES(y, 4, 1e-7, -1.34163542, -0.447211807, 0.447211807,
                 1.34163542);
    batch_norm(y, padded, 8, 1e-5);
    CHECK_VALUES(y, 4, 2e-7, -0.169030465, 0.507091394, 1.18321325, 1.85933511);
    batch_norm(y, (float[]){1, 2, 3, 8}, 4, 1e-5);
    CHECK_VALUES(y, 1, 2e-7, -0.928476);
    batch_norm(y, ONE_TO_FOUR, 1, 1e-5);
    CHECK(y[0] == 0, "one token: %g", y[0]);
    HOLDS(1, 2, 3, 4, -1.34163542, 1.34163542, -0.169030465, 1.85933511, 0, 8,
          -0.928476);
}

/* Without keepdim the scales are broadcast along columns: token 1's first
 * element gets token 0's scale. */
static void keepdim_is_one_number_for_each_token(void) {
    Norm norm = {NORM_RMS, 0, ONES, NULL, 0};
    float y[4], wrong[4];
    norm_forward(y, ONE_TO_FOUR, &norm, 2, 2);
    CHECK_VALUES(y, 4, 2e-7, 0.632455532, 1.26491106, 0.848528137, 1.13137085);
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++) {
            /* of token i */
            double square =
                dot(ONE_TO_FOUR + i * 2, ONE_TO_FOUR + i * 2, 2) / 2;
            wrong[t * 2 + i] = (float)(ONE_TO_FOUR[t * 2 + i] / sqrt(square));
        }
    CHECK_VALUES(wrong, 4, 2e-7, 0.632455532, 0.565685425, 1.8973666,
                 1.13137085);
    HOLDS(1, 2, 3, 4, 0, 0.632455532, 1.26491106, 0.848528137, 1.13137085,
          0.565685425, 1.8973666);
}

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
    /* mean(1, keepdim=True): by feature, over the tokens of the sample */
    HOLDS(3 / sqrt((1 + 9) / 2.0), 4 / sqrt((4 + 16) / 2.0));
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

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(rmsnorm_of_one_to_four),
    STATEMENT(layernorm_of_one_to_four),
    STATEMENT(every_token_gets_the_same_length),
    STATEMENT(layernorm_is_rmsnorm_of_the_centered_token),
    STATEMENT(the_angle_between_the_two),
    STATEMENT(only_layernorm_ignores_a_shift),
    STATEMENT(beta_is_not_the_centering),
    STATEMENT(where_eps_matters),
    STATEMENT(the_slope_at_zero),
    STATEMENT(eps_for_ones_own_model),
    STATEMENT(eps_inside_and_outside_the_root),
    STATEMENT(a_token_of_zeros_stays_zero),
    STATEMENT(sums_in_half_precision_fail),
    STATEMENT(squares_beyond_float32),
    STATEMENT(a_variance_takes_two_passes),
    STATEMENT(two_orders_of_rounding),
    STATEMENT(the_variance_is_biased),
    STATEMENT(both_norms_ignore_the_scale),
    STATEMENT(eps_sets_a_smallest_scale),
    STATEMENT(neighbors_change_nothing),
    STATEMENT(batch_norm_sees_the_padding),
    STATEMENT(keepdim_is_one_number_for_each_token),
    STATEMENT(three_axes),
    STATEMENT(one_mean_of_everything),
    STATEMENT(attention_across_the_batch),
    STATEMENT(a_norm_keeps_the_shape),
    STATEMENT(a_feature_may_shift),
    STATEMENT(two_defaults_of_eps),
    STATEMENT(a_tanh_for_a_norm),
    STATEMENT(names_that_mislead),
};
const Table textbook_formulas = TABLE(STATEMENTS);
