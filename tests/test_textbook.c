/* test_textbook.c: the numbered statements of docs/norms.md.
 *
 * One test for every testable statement; more of them are in
 * test_textbook_today.c and test_textbook_draws.c. The numbers in the chapter
 * and its Chinese translation are compared with the numbers of the tests:
 * closed forms, results in double precision, or PyTorch's, printed by `python
 * scripts/golden/textbook.py`. test_norm.c tests the accuracy of norm.c.
 */
#include "base/file.h"
#include "formats/open.h"
#include "formats/parts.h"
#include "kernels/lanes.h"
#include "kernels/tensor.h"
#include "lab/norm_fused.h"
#include "model.h"
#include "norm.h"

#include "tests/support/chapter.h"
#include "tests/support/norm_half.h"
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
    HOLDS(0, 1 / sqrt(1e-5), 1e-5);
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
    HOLDS(65504, 256, 65536, 8, 1, 300, 4096, sqrt(4096.0 / 256));
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
    HOLDS(4097, 4098, 4099, 4100, 1, 2, 1.25);
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
          4096);
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

/* Directions that a norm ignores have gradient 0: scaling (without eps) and,
 * for LayerNorm, shifting. */
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

/* PyTorch's numbers for the loss sum(w y) and x times s. */
static void the_gradient_shrinks_as_the_input_grows(void) {
    static const double scales[] = {1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100};
    static const double sizes[] = {89.0727194,   81.5296238, 20.7274822,
                                   2.14150636,   0.21422372, 0.0214224451,
                                   0.00214224458};
    float x[TOKENS * DIM], dy[TOKENS * DIM], dx[TOKENS * DIM],
        half[TOKENS * DIM], unused[DIM] = {0};
    fill_random(dy, 4, TOKENS * DIM, 1);
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
 * batch becomes 0. */
static void batch_norm_sees_the_padding(void) {
    float padded[8] = {1, 2, 3, 4};
    float y[8];
    batch_norm(y, ONE_TO_FOUR, 4, 1e-5);
    CHECK_VALUES(y, 4, 1e-7, -1.34163542, -0.447211807, 0.447211807,
                 1.34163542);
    batch_norm(y, padded, 8, 1e-5);
    CHECK_VALUES(y, 4, 2e-7, -0.169030465, 0.507091394, 1.18321325, 1.85933511);
    batch_norm(y, ONE_TO_FOUR, 1, 1e-5);
    CHECK(y[0] == 0, "one token: %g", y[0]);
    HOLDS(1, 2, 3, 4, -1.34163542, 1.34163542, -0.169030465, 1.85933511, 0);
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

/* ---- where norms are placed ---------------------------------------------- */

/* A branch of a pre-norm layer; its output is added to x. */
typedef void Branch(float *out, const float *xn, int n); /* both [n][DIM] */

static void pre_norm_layer(float *x, const Norm *attn_norm, Branch *attention_,
                           const Norm *mlp_norm, Branch *mlp_, int n) {
    float xn[TOKENS * DIM], out[TOKENS * DIM];
    const float *normalized = norm_forward(xn, x, attn_norm, n, DIM);
    attention_(out, normalized, n);
    for (int i = 0; i < n * DIM; i++)
        x[i] += out[i];
    normalized = norm_forward(xn, x, mlp_norm, n, DIM);
    mlp_(out, normalized, n);
    for (int i = 0; i < n * DIM; i++)
        x[i] += out[i];
}

/* out[rows] = W x, with the random matrix W[rows][cols] of number w. */
static void project(float *out, const float *x, uint64_t w, int rows,
                    int cols) {
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int c = 0; c < cols; c++)
            sum += (double)random_float(w, r * cols + c) * x[c];
        out[r] = (float)sum;
    }
}

/* Causal attention with one head, without positions. */
static void plain_attention(float *out, const float *xn, int n) {
    float q[TOKENS][DIM], k[TOKENS][DIM], v[TOKENS][DIM];
    for (int t = 0; t < n; t++) {
        project(q[t], xn + t * DIM, 12, DIM, DIM);
        project(k[t], xn + t * DIM, 13, DIM, DIM);
        project(v[t], xn + t * DIM, 14, DIM, DIM);
        double weights[TOKENS], sum = 0;
        float mixed[DIM] = {0};
        for (int s = 0; s <= t; s++)
            sum += weights[s] = exp(dot(q[t], k[s], DIM) / sqrt(DIM));
        for (int s = 0; s <= t; s++)
            for (int i = 0; i < DIM; i++)
                mixed[i] += (float)(weights[s] / sum * v[s][i]);
        project(out + t * DIM, mixed, 15, DIM, DIM);
    }
}

static void relu_mlp(float *out, const float *xn, int n) {
    for (int t = 0; t < n; t++) {
        float hidden[16];
        project(hidden, xn + t * DIM, 16, 16, DIM);
        for (int i = 0; i < 16; i++)
            hidden[i] = fmaxf(hidden[i], 0);
        project(out + t * DIM, hidden, 17, DIM, 16);
    }
}

static void nothing(float *out, const float *xn, int n) {
    (void)xn;
    memset(out, 0, (size_t)(n * DIM) * sizeof *out);
}

/* The numbers of pre_norm_layer() in scripts/golden/textbook.py, in float64. */
static void a_pre_norm_layer_with_relu(void) {
    float x[3 * DIM], gammas[2 * DIM];
    fill_random(x, 10, 3 * DIM, 4);
    fill_random(gammas, 11, 2 * DIM, 1);
    for (int i = 0; i < 2 * DIM; i++)
        gammas[i] += 1;
    Norm norms[] = {{NORM_RMS, 1e-5f, gammas, NULL, 0},
                    {NORM_RMS, 1e-5f, gammas + DIM, NULL, 0}};
    pre_norm_layer(x, &norms[0], plain_attention, &norms[1], relu_mlp, 3);
    CHECK_VALUES(x, 3 * DIM, 2e-6, 0.204324335, -1.5217078, -0.760427164,
                 1.20871657, 0.197776343, -1.06017899, -0.310442325,
                 0.377527749, -0.0140095405, 1.9739592, -1.08573829,
                 -1.57688451, 0.527898125, -0.331616794, -0.626830208,
                 0.737133936, 1.67522911, 2.47991422, 0.319845393, 0.978552723,
                 -1.09217681, -0.280698154, 0.741724542, -1.66155138);
    HOLDS(3 * DIM, DIM);
}

/* A layer whose branches return 0 does not change x; the norm does. */
static void the_layer_is_the_identity_not_the_norm(void) {
    Norm norm = {NORM_RMS, 1e-5f, ONES, NULL, 0};
    float x[3 * DIM], kept[3 * DIM], y[3 * DIM], again[3 * DIM];
    fill_random(x, 10, 3 * DIM, 4);
    memcpy(kept, x, sizeof x);
    pre_norm_layer(x, &norm, nothing, &norm, nothing, 3);
    CHECK(!memcmp(x, kept, sizeof x), "an empty layer changes x");
    norm_forward(y, x, &norm, 3, DIM);
    CHECK(fabs(rms_of(x, DIM) - 1.0297) < 5e-5, "RMS of x: %.9g",
          rms_of(x, DIM));
    CHECK(fabs(rms_of(y, DIM) - 1) < 1e-5, "RMS of the norm of x: %.9g",
          rms_of(y, DIM));
    norm_forward(again, y, &norm, 3,
                 DIM); /* a projection: applying it twice changes nothing */
    for (int i = 0; i < 3 * DIM; i++)
        CHECK(fabsf(again[i] - y[i]) < 3e-5f, "twice: %.9g, %.9g", again[i],
              y[i]);
    HOLDS(1, 0, 1.02970);
}

enum { SUBLAYERS = 12 };

/* The numbers of placement() in scripts/golden/textbook.py: the RMS at the end;
 * the gradient at the beginning relative to that at the end. */
static void twelve_sublayers_before_and_after(void) {
    float x[SUBLAYERS + 1][MAX_DIM], added[SUBLAYERS][MAX_DIM],
        gradient[2][MAX_DIM], unused[MAX_DIM] = {0};
    fill_random(added[0], 20, SUBLAYERS * MAX_DIM, 1);
    for (int l = 0; l < SUBLAYERS; l++)
        rmsnorm(added[l], added[l], ONES, MAX_DIM, 0);
    fill_random(x[0], 22, MAX_DIM, 1);
    rmsnorm(x[0], x[0], ONES, MAX_DIM, 0);
    float pre[MAX_DIM], post[MAX_DIM];
    memcpy(pre, x[0], sizeof pre);
    memcpy(post, x[0], sizeof post);
    for (int l = 0; l < SUBLAYERS; l++) {
        for (int i = 0; i < MAX_DIM; i++)
            pre[i] += added[l][i]; /* dx equals dy at any depth */
        for (int i = 0; i < MAX_DIM; i++)
            x[l][i] = post[i] + added[l][i];
        rmsnorm(post, x[l], ONES, MAX_DIM, 1e-5f);
    }
    CHECK(fabs(rms_of(pre, MAX_DIM) - 3.56660432) < 1e-5, "pre-norm, RMS %.9g",
          rms_of(pre, MAX_DIM));
    CHECK(fabs(rms_of(post, MAX_DIM) - 0.999997414) < 1e-6,
          "post-norm, RMS %.9g", rms_of(post, MAX_DIM));
    fill_random(gradient[0], 21, MAX_DIM, 1);
    double size = rms_of(gradient[0], MAX_DIM);
    for (int l = SUBLAYERS - 1, k = 0; l >= 0; l--, k ^= 1)
        rmsnorm_backward(gradient[k ^ 1], unused, gradient[k], x[l], ONES,
                         MAX_DIM, 1e-5f);
    double left = rms_of(gradient[SUBLAYERS % 2], MAX_DIM) / size;
    CHECK(fabs(left - 0.0159023039) < 1e-6,
          "post-norm leaves %.9g of the gradient", left);
    HOLDS(SUBLAYERS, 1, MAX_DIM, 3.56660432, SUBLAYERS + 1, 2, -SUBLAYERS,
          0.0159023039);
}

/* ---- measurements of stories260K ----------------------------------------- */

/* stories260K and its tokenizer as command-line arguments; NULL: no
 * checkpoint. */
static const char *story_model(void) {
    static char words[2 * 4096 + 16];
    const char *path = real_checkpoint("stories260K.bin");
    if (!path)
        return NULL;
    int n = snprintf(words, sizeof words, "'%s' -z ", path);
    path = real_checkpoint("tok512.bin");
    if (!path)
        return NULL;
    snprintf(words + n, sizeof words - (size_t)n, "'%s'", path);
    return words;
}

/* Runs the program on a model, with stdout to `out` and stderr to `errors`; -1:
 * no checkpoint, or it failed. */
static int run_model(const char *model, const char *options, const char *out,
                     const char *errors) {
    char command[3 * 8192];
    const char *binary = getenv("NORMA_RUN");
    if (!model)
        return -1;
    snprintf(command, sizeof command, "'%s' %s %s >'%s' 2>'%s'",
             binary ? binary : "./run", model, options, out, errors);
    return system(command) ? -1 : 0;
}

#define ON_STORY "-m perplexity -f tests/golden/stories260K_greedy.txt "

void story_missing(void) {
    holds_unknown();
    test_skip(NO_CHECKPOINTS);
}

static int profile_of(StorySite *sites, int max_sites, const char *on) {
    char line[512], options[8192];
    const char *csv = temporary("norms.csv");
    snprintf(options, sizeof options, "%s --profile='%s'", on, csv);
    FILE *in = run_model(story_model(), options, "/dev/null", "/dev/null")
                   ? NULL
                   : fopen(csv, "r");
    int n = 0;
    while (in && n < max_sites && fgets(line, sizeof line, in)) {
        /* columns of the CSV file */
        enum { PHASE, SITE = 2, RMS_IN = 10, MEAN = 14, MAX_ABS, N_COLUMNS };
        char *column[N_COLUMNS], *at = line;
        for (int i = 0; i < N_COLUMNS; i++)
            column[i] = at ? strsep(&at, ",") : line;
        if (strcmp(column[PHASE], "prefill") || !strstr(column[SITE], "_norm"))
            continue;
        sites[n++] = (StorySite){atof(column[RMS_IN]), atof(column[MEAN]),
                                 atof(column[MAX_ABS])};
    }
    if (in)
        fclose(in);
    return n;
}

int profile_of_story(StorySite *sites, int max_sites) {
    return profile_of(sites, max_sites, ON_STORY);
}

int first_token_of_story(double *first, double *others) {
    enum { DIM_HERE = 64, HEADER = 128 };
    char options[4096], file[2048];
    size_t size = 0;
    const char *dump = temporary("dump");
    snprintf(
        options, sizeof options,
        "-m logits -f tests/golden/stories260K_greedy.txt -o /dev/null --dump '%s'",
        dump);
    if (run_model(story_model(), options, "/dev/null", "/dev/null"))
        return -1;
    snprintf(file, sizeof file, "%s/layers.1.attn_norm.in.npy", dump);
    char *bytes = file_read(file, &size);
    const float *x = (const float *)(void *)(bytes + HEADER);
    size_t n = (size - HEADER) / sizeof *x;
    double squares[2] = {0};
    for (size_t i = 0; i < n; i++)
        squares[i >= DIM_HERE] += (double)x[i] * x[i];
    *first = sqrt(squares[0] / DIM_HERE);
    *others = sqrt(squares[1] / (double)(n - DIM_HERE));
    free(bytes);
    folder_remove(dump);
    return 0;
}

/* Nats per token; -1: failed. */
static double loss_of(const char *model, const char *options) {
    size_t size;
    const char *out = temporary("loss.txt");
    char *text = run_model(model, options, out, "/dev/null")
                     ? NULL
                     : file_read(out, &size);
    const char *at = text ? strstr(text, "NLL per token") : NULL;
    double nats = at ? atof(at + strlen("NLL per token")) : -1;
    free(text);
    return nats;
}

static double story_loss(const char *norms) {
    char options[128];
    snprintf(options, sizeof options, ON_STORY "--norm %s", norms);
    return loss_of(story_model(), options);
}

int story_converted(const char *path, const char *type, bool fold) {
    char options[8192];
    snprintf(options, sizeof options, "-m convert -q %s --pure%s -o '%s'", type,
             fold ? " --fold-norms" : "", path);
    return run_model(story_model(), options, "/dev/null", "/dev/null");
}

double story_loss_converted(const char *type, bool fold) {
    const char *converted = temporary("story.gguf");
    char model[8192];
    if (story_converted(converted, type, fold))
        return -1;
    snprintf(model, sizeof model, "'%s'", converted);
    double nats = loss_of(model, ON_STORY);
    remove(converted);
    return nats;
}

enum { STORY_SITES = 11 };

static void eps_and_the_size_of_embeddings(void) {
    StorySite sites[STORY_SITES];
    if (profile_of_story(sites, STORY_SITES) != STORY_SITES)
        return story_missing();
    double rms = sites[0].rms_in, taken = 1e-5 / (2 * rms * rms);
    CHECK(fabs(1 - rms / sqrt(rms * rms + 1e-5) - taken) < 1e-3 * taken,
          "eps takes %.9g", taken);
    HOLDS(rms, 1e-5, 2, 100 * taken, 33, 1.1920929e-7);
}

static void the_residual_stream_grows(void) {
    StorySite sites[STORY_SITES];
    if (profile_of_story(sites, STORY_SITES) != STORY_SITES)
        return story_missing();
    for (int i = 1; i < STORY_SITES; i++)
        CHECK(sites[i].rms_in > sites[i - 1].rms_in, "norm %d: RMS %g after %g",
              i, sites[i].rms_in, sites[i - 1].rms_in);
    HOLDS(sites[0].rms_in, sites[STORY_SITES - 1].rms_in, sites[0].max,
          sites[STORY_SITES - 1].max);
}

/* Nats per token of the sampled stories with other norms, less those with the
 * model's own: mean and standard error. scripts/measure/published.py has the
 * same in float64. */
static const struct {
    const char *norms;
    double more, error;
} EXCHANGED[] = {
    {"rms", 0, 0},
    {"0.attn=layer", 0.0020384, 0.00098918},
    {"attn=layer", 0.0227431, 0.00411911},
    {"final=layer", 0.0228765, 0.00345534},
    {"mlp=layer", 0.0781537, 0.005037},
    {"layer", 0.1064952, 0.00792654},
    {"none", 3.4059385, 0.0223931},
};
static const double SAMPLED_NATS = 1.3015561, SAMPLED_NONE = 4.7074946;

/* Adds the price of other norms in each of the sampled stories. False: no
 * checkpoint. */
static bool price_of_norms(Draws *price, Draws *nats, const char *norms) {
    const char *path = real_checkpoint("stories260K.bin");
    double losses[2][N_STORIES];
    if (!path ||
        losses_of_stories(losses[0], SAMPLED, path, "rms") != N_STORIES ||
        losses_of_stories(losses[1], SAMPLED, path, norms) != N_STORIES)
        return false;
    for (int i = 0; i < N_STORIES; i++) {
        add_draw(price, losses[1][i] - losses[0][i]);
        add_draw(nats, losses[1][i]);
    }
    return true;
}

static double correlation(const double *a, const double *b, int n) {
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        mean_a += a[i] / n;
        mean_b += b[i] / n;
    }
    for (int i = 0; i < n; i++) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return ab / sqrt(aa * bb);
}

/* `--norm` with LayerNorm at site i of stories260K only. */
static const char *exchange_at(int i) {
    static char norms[32];
    snprintf(norms, sizeof norms, "%d.%s=layer", i / 2, i % 2 ? "mlp" : "attn");
    return i == STORY_SITES - 1 ? "final=layer" : norms;
}

/* |mean| / RMS at each site, over the sampled stories. False: failed. */
static bool means_of_stories(double means[STORY_SITES]) {
    size_t size;
    char *text = file_read(SAMPLED, &size), *rest = text, *line, options[8192];
    bool found = text;
    for (int i = 0; i < STORY_SITES; i++)
        means[i] = 0;
    while (found && (line = strsep(&rest, "\n")) && *line) {
        StorySite sites[STORY_SITES];
        snprintf(options, sizeof options, "-m perplexity --tokens %s",
                 line + strlen("1,"));
        found = profile_of(sites, STORY_SITES, options) == STORY_SITES;
        for (int i = 0; i < STORY_SITES && found; i++)
            means[i] += sites[i].mean / N_STORIES;
    }
    free(text);
    return found;
}

/* The correlation of |mean| / RMS with the price of LayerNorm over the sites:
 * 0.25 on the greedy story, -0.34 on the sampled ones. */
static const double CORRELATIONS[] = {0.248, -0.339};
static void price_and_mean_do_not_correlate(void) {
    StorySite sites[STORY_SITES];
    double means[STORY_SITES], prices[STORY_SITES];
    if (profile_of(sites, STORY_SITES, ON_STORY) != STORY_SITES)
        return story_missing();
    for (int i = 0; i < STORY_SITES; i++) {
        means[i] = sites[i].mean;
        prices[i] = story_loss(exchange_at(i));
    }
    double found = correlation(means, prices, STORY_SITES);
    CHECK(fabs(found - CORRELATIONS[0]) < 0.02, "the story: %.9g", found);
    HOLDS(CORRELATIONS[0], CORRELATIONS[1]);
    if (!test_thorough())
        return;
    CHECK(means_of_stories(means), "no profiles of the stories");
    for (int i = 0; i < STORY_SITES; i++) {
        Draws price = {0}, nats = {0};
        CHECK(price_of_norms(&price, &nats, exchange_at(i)), "site %d", i);
        prices[i] = mean_of_draws(&price);
    }
    found = correlation(means, prices, STORY_SITES);
    CHECK(fabs(found - CORRELATIONS[1]) < 0.03, "20 stories: %.9g", found);
}

static void norms_exchanged(void) {
    double last = 0;
    for (size_t i = 0; i < sizeof EXCHANGED / sizeof *EXCHANGED; i++) {
        double nats = story_loss(EXCHANGED[i].norms);
        Draws price = {0}, sampled = {0};
        if (!(nats > 0) ||
            !price_of_norms(&price, &sampled, EXCHANGED[i].norms))
            return story_missing();
        CHECK(nats > last - 0.001, "%s: %g nats after %g", EXCHANGED[i].norms,
              nats, last);
        last = nats;
        HOLDS(nats, exp(nats));
        CHECK(fabs(mean_of_draws(&price) - EXCHANGED[i].more) < 2e-5 &&
                  fabs(error_of_draws(&price) - EXCHANGED[i].error) < 1e-5,
              "%s: %.9g more on the sampled stories, +- %.9g",
              EXCHANGED[i].norms, mean_of_draws(&price),
              error_of_draws(&price));
        if (i)
            HOLDS(EXCHANGED[i].more, EXCHANGED[i].error);
        if (!i || !strcmp(EXCHANGED[i].norms, "none")) {
            double expected = i ? SAMPLED_NONE : SAMPLED_NATS;
            CHECK(fabs(mean_of_draws(&sampled) - expected) < 1e-4, "%s: %.9g",
                  EXCHANGED[i].norms, mean_of_draws(&sampled));
            HOLDS(expected);
        }
    }
    price_and_mean_do_not_correlate();
    HOLDS(0, N_STORIES, STORY_SITES);
}

/* ---- the kernel, operations, parameters ---------------------------------- */

static int operations;
static double plus(double a, double b) {
    return operations++, a + b;
}
static double times(double a, double b) {
    return operations++, a * b;
}

/* The formulas, with arithmetic that counts operations. */
static void counted_rmsnorm(double *y, const float *x, const float *gamma) {
    double sum = 0;
    for (int i = 0; i < MAX_DIM; i++)
        sum = plus(sum, times(x[i], x[i]));
    double scale = 1 / sqrt(sum / MAX_DIM + 1e-5);
    for (int i = 0; i < MAX_DIM; i++)
        y[i] = times(times(x[i], scale), gamma[i]);
}

static void counted_layernorm(double *y, const float *x, const float *gamma,
                              const float *beta) {
    double mean = 0, sum = 0;
    for (int i = 0; i < MAX_DIM; i++)
        mean = plus(mean, x[i]);
    mean /= MAX_DIM;
    for (int i = 0; i < MAX_DIM; i++) {
        y[i] = plus(x[i], -mean);
        sum = plus(sum, times(y[i], y[i]));
    }
    double scale = 1 / sqrt(sum / MAX_DIM + 1e-5);
    for (int i = 0; i < MAX_DIM; i++)
        y[i] = plus(times(times(y[i], scale), gamma[i]), beta[i]);
}

/* As in norm.c, which adds differences from x[0], subtracts the mean once more
 * for the output, and then the mean's rounding error. */
static void counted_layernorm_as_run(double *y, const float *x,
                                     const float *gamma, const float *beta) {
    double shift = 0, sum = 0;
    for (int i = 0; i < MAX_DIM; i++)
        shift = plus(shift, plus(x[i], -x[0]));
    double mean = x[0] + shift / MAX_DIM, rounded = (float)mean;
    for (int i = 0; i < MAX_DIM; i++) {
        double d = plus(x[i], -rounded);
        sum = plus(sum, times(d, d));
    }
    double rest = mean - rounded,
           scale = 1 / sqrt(sum / MAX_DIM - rest * rest + 1e-5);
    for (int i = 0; i < MAX_DIM; i++) {
        double d = plus(times(plus(x[i], -rounded), scale), -rest * scale);
        y[i] = plus(times(d, gamma[i]), beta[i]);
    }
}

/* 4 and 7 operations per element; norm.c's LayerNorm takes 10. */
static void operations_counted(void) {
    float x[MAX_DIM], gamma[MAX_DIM], beta[MAX_DIM], y[MAX_DIM];
    double exact[MAX_DIM];
    fill_random(x, 82, MAX_DIM, 4);
    fill_random(gamma, 83, MAX_DIM, 4);
    fill_random(beta, 84, MAX_DIM, 4);
    operations = 0;
    counted_rmsnorm(exact, x, gamma);
    CHECK(operations == 4 * MAX_DIM, "RMSNorm: %d", operations);
    rmsnorm(y, x, gamma, MAX_DIM, 1e-5f);
    int wrong = first_wrong(y, exact, MAX_DIM, 2e-6);
    CHECK(wrong < 0, "RMSNorm: y[%d] = %.9g", wrong, y[wrong]);
    operations = 0;
    counted_layernorm(exact, x, gamma, beta);
    CHECK(operations == 7 * MAX_DIM, "LayerNorm: %d", operations);
    layernorm(y, x, gamma, beta, MAX_DIM, 1e-5f);
    wrong = first_wrong(y, exact, MAX_DIM, 2e-6);
    CHECK(wrong < 0, "LayerNorm: y[%d] = %.9g", wrong, y[wrong]);
    operations = 0;
    counted_layernorm_as_run(exact, x, gamma, beta);
    CHECK(operations == 10 * MAX_DIM, "LayerNorm as run: %d", operations);
    wrong = first_wrong(y, exact, MAX_DIM, 2e-6);
    CHECK(wrong < 0, "LayerNorm as run: y[%d] = %.9g", wrong, y[wrong]);
    HOLDS(2, 4, 7, 10, 100 * 4 / 7.0, 8, 8 * 372 / 34.0);
}

static void fused_gives_the_same_bits(void) {
    static const int dims[] = {1, 8, 17, 64, 172, 256};
    for (int k = 0; k < 6; k++) {
        float x[MAX_DIM], twin[MAX_DIM], r[MAX_DIM], y[MAX_DIM], z[MAX_DIM];
        int dim = dims[k];
        size_t size = (size_t)dim * sizeof *x;
        fill_random(x, 80, dim, 4);
        fill_random(r, 81, dim, 1);
        for (int i = 0; i < dim; i++)
            twin[i] = x[i] + r[i];
        rmsnorm(z, twin, ONES, dim, 1e-5f);
        add_rmsnorm(y, x, r, &(Norm){.eps = 1e-5f, .gamma = ONES}, dim);
        CHECK(!memcmp(x, twin, size) && !memcmp(y, z, size),
              "dim %d: other bits", dim);
    }
    HOLDS(5 * 4, 4 * 4);
}

/* Parameters of the bundled model, and of Llama 2 7B by its published shape. */
static void parameters_counted(void) {
    Model m;
    int norms = 0;
    CHECK(!model_open(&m, "models/stories.gguf"),
          "models/stories.gguf does not open");
    PART_EACH(at, &m)
        norms += part_norm(&at) != NULL;
    size_t parameters = m.parameters;
    norms *= m.config.dim;
    model_close(&m);
    CHECK(norms == 1728 && parameters == 1958592, "%d of %zu", norms,
          parameters);
    const long long dim = 4096, hidden = 11008, layers = 32, vocab = 32000,
                    gammas = (2 * layers + 1) * dim;
    const long long all =
        2 * vocab * dim + layers * (4 * dim * dim + 3 * dim * hidden) + gammas;
    CHECK(gammas == 266240 && all == 6738415616, "%lld of %lld", gammas, all);
    HOLDS(2, 7, norms, (double)parameters, 100.0 * norms / (double)parameters,
          (double)gammas, (double)all, 100 * (double)gammas / (double)all);
}

/* ---- the chapter itself ------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(rmsnorm_of_one_to_four),
    STATEMENT(layernorm_of_one_to_four),
    STATEMENT(every_token_gets_the_same_length),
    STATEMENT(layernorm_is_rmsnorm_of_the_centered_token),
    STATEMENT(the_angle_between_the_two),
    STATEMENT(only_layernorm_ignores_a_shift),
    STATEMENT(beta_is_not_the_centering),
    STATEMENT(eps_inside_and_outside_the_root),
    STATEMENT(a_token_of_zeros_stays_zero),
    STATEMENT(eps_and_the_size_of_embeddings),
    STATEMENT(sums_in_half_precision_fail),
    STATEMENT(squares_beyond_float32),
    STATEMENT(a_variance_takes_two_passes),
    STATEMENT(two_orders_of_rounding),
    STATEMENT(the_variance_is_biased),
    STATEMENT(both_norms_ignore_the_scale),
    STATEMENT(eps_sets_a_smallest_scale),
    STATEMENT(gradient_of_one_to_four),
    STATEMENT(gradients_are_slopes),
    STATEMENT(no_gradient_along_what_is_ignored),
    STATEMENT(the_gradient_shrinks_as_the_input_grows),
    STATEMENT(layernorms_gradient_has_mean_zero),
    STATEMENT(neighbors_change_nothing),
    STATEMENT(batch_norm_sees_the_padding),
    STATEMENT(keepdim_is_one_number_for_each_token),
    STATEMENT(a_pre_norm_layer_with_relu),
    STATEMENT(the_layer_is_the_identity_not_the_norm),
    STATEMENT(twelve_sublayers_before_and_after),
    STATEMENT(the_residual_stream_grows),
    STATEMENT(norms_exchanged),
    STATEMENT(operations_counted),
    STATEMENT(fused_gives_the_same_bits),
    STATEMENT(parameters_counted),
};
static const Book BOOK = {
    .chapters = {"docs/norms.md", "docs/norms.zh.md"},
    .given = "tests/golden/textbook.txt",
    .n_statements = 68,
    .tables = {STATEMENTS, STATEMENTS_TODAY},
    .n = {sizeof STATEMENTS / sizeof *STATEMENTS, N_STATEMENTS_TODAY}};

static void twins_of_the_experiment(void) {
    same_numbers("docs/experiment.md", "docs/experiment.zh.md");
}

static void twins_of_the_published_models(void) {
    same_numbers("docs/norms_published.md", "docs/norms_published.zh.md");
}

/* Reads a line of docs/experiment.csv: a run and its loss. 0 at the end. */
static int next_run(char **at, char *norms, char *rate, double *loss) {
    char *line = *at ? strchr(*at, '\n') : NULL;
    *at = line ? line + 1 : NULL;
    return *at &&
           sscanf(*at, "%15[^,],%15[^,],%*d,%lf", norms, rate, loss) == 3;
}

/* Writes the table row of the losses of `norms`: a cell for each learning rate,
 * a number for each seed. */
static void write_row(char row[256], char *csv, const char *norms) {
    static const char *const rates[] = {"0.001", "0.002", "0.004", "0.008",
                                        "0.016"};
    char found[16], rate[16];
    double loss;
    int n = snprintf(row, 256, "\n| %s |", norms);
    for (int i = 0; i < 5; i++) {
        const char *separator = " ";
        for (char *at = csv; next_run(&at, found, rate, &loss) && n < 200;) {
            if (strcmp(found, norms) || strcmp(rate, rates[i]))
                continue;
            n += snprintf(row + n, 256 - (size_t)n, "%s%.3f", separator, loss);
            separator = ", ";
        }
        n += snprintf(row + n, 256 - (size_t)n, " |");
    }
}

/* The mean loss over the seeds. */
static double mean_loss(char *csv, const char *norms, const char *rate) {
    char found_norms[16], found_rate[16];
    double loss, sum = 0;
    int n = 0;
    for (char *at = csv; next_run(&at, found_norms, found_rate, &loss);)
        if (!strcmp(found_norms, norms) && !strcmp(found_rate, rate))
            sum += loss, n++;
    return sum / n;
}

/* The losses with and without QK-norm in statement 38. */
static void qk_norm_tolerates_a_larger_rate(void) {
    size_t size;
    char *csv = file_read("docs/experiment.csv", &size),
         *text = file_read("docs/norms.md", &size), sentence[64];
    CHECK(csv && text, "no files");
    double with = mean_loss(csv, "qk", "0.016") - mean_loss(csv, "qk", "0.004");
    double without =
        mean_loss(csv, "rms", "0.016") - mean_loss(csv, "rms", "0.004");
    snprintf(sentence, sizeof sentence,
             "rises by %.3f with it, by %.3f without", with, without);
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    free(csv);
    free(text);
}

/* The tables of losses in docs/experiment.md match docs/experiment.csv. */
static void the_experiment_matches_its_files(void) {
    static const char *const cases[] = {
        "none",         "rms",       "layer",       "mixed",
        "post",         "sandwich",  "olmo2",       "qk",
        "dyt",          "rms_cold",  "post_cold",   "none_apart",
        "rms_apart",    "dyt_apart", "post_scaled", "sandwich_scaled",
        "olmo2_scaled", "rms_scaled"};
    size_t size;
    char *csv = file_read("docs/experiment.csv", &size),
         *text = file_read("docs/experiment.md", &size), row[256];
    CHECK(csv && text, "no files");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_row(row, csv, cases[i]);
        CHECK(strstr(text, row), "no row%s", row);
    }
    free(csv);
    free(text);
}

/* The slowest training step relative to the one without norms, from the list of
 * steps per second. */
static void steps_with_norms_take_longer(void) {
    size_t size;
    char *text = file_read("docs/experiment.md", &size), *at, sentence[64];
    double none, speed, min;
    CHECK(text && (at = strstr(text, "Training steps per second")) &&
              (at = strstr(at, "`none` ")) &&
              sscanf(at, "`none` %lf", &none) == 1,
          "no list of steps per second");
    min = none;
    for (const char *end = strstr(at, "Norms take"); at && at < end;
         at = strchr(at + 1, '`'))
        if (sscanf(at, "` %lf", &speed) == 1)
            min = fmin(min, speed);
    snprintf(sentence, sizeof sentence, "at most %.1f %% more time",
             100 * (none / min - 1));
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    free(text);
}

/* Means and spreads in docs/experiment.md follow from the losses in its
 * table. */
static void the_experiment_adds_up(void) {
    size_t size;
    char *text = file_read("docs/experiment.md", &size), *at = text;
    double means[4] = {0}, spreads[4] = {0};
    int n = 0;
    while (at && n < 4 && (at = strstr(at, " | 0.002 | "))) {
        double loss[3], mean;
        at += strlen(" | 0.002 | ");
        if (sscanf(at, "%lf, %lf, %lf | %lf", &loss[0], &loss[1], &loss[2],
                   &mean) != 4)
            break;
        means[n] = (loss[0] + loss[1] + loss[2]) / 3;
        spreads[n] = fmax(fmax(loss[0], loss[1]), loss[2]) -
                     fmin(fmin(loss[0], loss[1]), loss[2]);
        if (fabs(means[n] - mean) > 0.0005001)
            test_fail(__FILE__, __LINE__, "row %d: mean %.5f", n, means[n]);
        n++;
    }
    CHECK(n == 4, "%d rows of three seeds", n);
    char sentence[128];
    double higher = means[3] - means[0];
    snprintf(
        sentence, sizeof sentence,
        "ends %.2f nats higher: %.1f times the spread of its own seeds (%.3f)",
        higher, higher / spreads[3], spreads[3]);
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    snprintf(sentence, sizeof sentence, "differ by up to\n  %.3f",
             fmax(fmax(spreads[0], spreads[1]), spreads[2]));
    CHECK(strstr(text, sentence), "it does not say: %s", sentence);
    free(text);
}

/* Names with digits in the chapters. */
static const char *const NAMES[] = {"L2",
                                    "Float32",
                                    "float16",
                                    "int8",
                                    "v2",
                                    "T4",
                                    "float32",
                                    "float64",
                                    "bf16",
                                    "bfloat16",
                                    "q8_0",
                                    "q4_0",
                                    "stories260K",
                                    "tok512",
                                    "Qwen3",
                                    "SmolLM2",
                                    "Qwen2",
                                    "T5",
                                    "T5LayerNorm",
                                    "e20",
                                    "H100",
                                    "squares_beyond_float32",
                                    "stories260K_greedy"};

static bool is_known(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strlen(NAMES[i]) == n && !strncmp(name, NAMES[i], n))
            return true;
    return false;
}

/* An address matches the number before it, names are spelled correctly, and
 * named files exist. */
static void addresses_and_names_are_correct(void) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_",
                      digits[] = "0123456789";
    static const char *const folders[] = {"tests/", "scripts/", "models/"};
    for (size_t c = 0; c < 2; c++) {
        char *text = chapter_text(BOOK.chapters[c]), first[64], second[64];
        int papers = 0, files = 0, names = 0;
        CHECK(text, "%s does not open", BOOK.chapters[c]);
        for (const char *at = text; (at = strstr(at, "[arXiv:"));
             at++, papers++)
            CHECK(sscanf(at,
                         "[arXiv:%63[0-9.]](https://arxiv.org/abs/%63[0-9.])",
                         first, second) == 2 &&
                      !strcmp(first, second),
                  "%s: %.60s", BOOK.chapters[c], at);
        for (const char *at = text, *end; (at = strpbrk(at, letters));
             at = end) {
            for (end = at + strspn(at, letters);
                 strspn(end, digits) + strspn(end, letters);)
                end += strspn(end, digits) + strspn(end, letters);
            bool digit = strcspn(at, digits) < (size_t)(end - at);
            CHECK(!digit || is_known(at, (size_t)(end - at)),
                  "%s: %.*s is not known", BOOK.chapters[c], (int)(end - at),
                  at);
            names += digit;
        }
        for (int i = 0; i < 3; i++)
            for (const char *at = text; (at = strstr(at, folders[i])); at++) {
                FILE *in = sscanf(at, "%63[a-zA-Z0-9_./]", first) == 1 &&
                                   strchr(first, '.')
                               ? fopen(first, "r")
                               : NULL;
                CHECK(in || !strchr(first, '.'), "%s: %s does not exist",
                      BOOK.chapters[c], first);
                if (in)
                    fclose(in);
                files += in != NULL;
            }
        CHECK(papers > 8 && names > 40 && files > 14, "%s: %d, %d, %d",
              BOOK.chapters[c], papers, names, files);
        free(text);
    }
}

/* README's rows of measurements are rows of docs/performance.md, too. */
static void readme_measurements_match_the_pages(void) {
    size_t size;
    char *readme = file_read("README.md", &size), row[1024];
    char *page = chapter_text("docs/performance.md");
    const char *at = readme ? strstr(readme, "\n## How fast?\n") : NULL,
               *end = at ? strstr(at + 1, "\n## ") : NULL;
    int rows = 0;
    CHECK(page && end, "README.md has no section on speed");
    while ((at = strstr(at, "\n| ")) && at < end) {
        const char *after = strchr(at + 1, '\n');
        snprintf(row, sizeof row, "%.*s\n", (int)(after - at), at);
        at = after;
        CHECK(strstr(page, row), "docs/performance.md has no row%s", row);
        rows++;
    }
    CHECK(rows == 7, "README.md has %d rows of speed", rows);
    free(page);
    free(readme);
}

void suite_textbook(void) {
    book_test(&BOOK);
    TEST(twins_of_the_experiment);
    TEST(twins_of_the_published_models);
    TEST(the_experiment_adds_up);
    TEST(steps_with_norms_take_longer);
    TEST(the_experiment_matches_its_files);
    TEST(qk_norm_tolerates_a_larger_rate);
    TEST(addresses_and_names_are_correct);
    TEST(readme_measurements_match_the_pages);
}
