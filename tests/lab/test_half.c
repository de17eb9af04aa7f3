/* test_half.c: RMSNorm in float16 and bfloat16.
 *
 * Compares with Hugging Face's LlamaRMSNorm, which rounds before the product
 * with gamma, and torch.nn.functional.rms_norm, which rounds after it
 * (tests/golden/norm_half.bin). Double precision gives the values that two
 * roundings of float32 allow.
 */
#include "kernels/lanes.h"
#include "kernels/tensor.h"
#include "norm.h"

#include "tests/support/norm_half.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static NormInputs in;
static uint16_t x[NORM_TOKENS * NORM_MAX_DIM], gamma_[NORM_MAX_DIM],
    y[NORM_TOKENS * NORM_MAX_DIM];

static float widen(uint16_t h, Type type) {
    return type == TYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}
static uint16_t narrow(float f, Type type) {
    return type == TYPE_F16 ? f32_to_f16(f) : f32_to_bf16(f);
}

/* Converts the set to half precision and computes norma's y. */
static void run_half(NormSet set, int dim, Type type, RoundingOrder order) {
    norm_inputs(&in, set, dim);
    for (int i = 0; i < dim; i++)
        gamma_[i] = narrow(in.gamma[i], type);
    for (int i = 0; i < NORM_TOKENS * dim; i++)
        x[i] = narrow(in.x[i], type);
    for (int t = 0; t < NORM_TOKENS; t++)
        rmsnorm_half(y + t * dim, x + t * dim, gamma_, dim, in.eps, type,
                     order);
}

static double exact_scale(int t, Type type) {
    double square = 0;
    for (int i = 0; i < in.dim; i++)
        square += pow((double)widen(x[t * in.dim + i], type), 2) / in.dim;
    return 1 / sqrt(square + (double)in.eps);
}

/* The two results allowed for an exact value: float32 may be 2 ulp off before
 * it is rounded to half precision. Mostly they are equal. */
typedef struct {
    uint16_t low, high;
} Choice;

static Choice choice_of(double value, Type type) {
    return (Choice){narrow((float)(value - 2 * ulp(value)), type),
                    narrow((float)(value + 2 * ulp(value)), type)};
}

/* The results allowed for y[t][i], with the first rounding as in `order`. */
static Choice expected(int t, int i, double scale, Type type,
                       RoundingOrder order) {
    double normalized = (double)widen(x[t * in.dim + i], type) * scale,
           g = (double)widen(gamma_[i], type);
    if (order == SCALE_THEN_ROUND)
        return choice_of(normalized * g, type);
    Choice n = choice_of(normalized, type);
    return (Choice){narrow((float)(widen(n.low, type) * g), type),
                    narrow((float)(widen(n.high, type) * g), type)};
}

/* ---- against Hugging Face and PyTorch ----------------------------------- */

/* Counts of values, of values near a rounding boundary, and of values that
 * differ from theirs. */
typedef struct {
    int n, near, differ;
} Tally;

static void check_token(Tally *tally, const uint16_t *theirs, int t, Type type,
                        RoundingOrder order) {
    double scale = exact_scale(t, type);
    for (int i = 0; i < in.dim; i++) {
        int at = t * in.dim + i;
        Choice c = expected(t, i, scale, type, order);
        tally->n++;
        tally->near += c.low != c.high;
        CHECK(y[at] == c.low || y[at] == c.high,
              "%s, order %d, dim %d: y[%d][%d] is %04x, expected %04x or %04x",
              type_name(type), order, in.dim, t, i, y[at], c.low, c.high);
        if (!theirs)
            continue;
        tally->differ += y[at] != theirs[at];
        CHECK(theirs[at] == c.low || theirs[at] == c.high,
              "%s, order %d, dim %d: theirs[%d][%d] is %04x, not %04x",
              type_name(type), order, in.dim, t, i, theirs[at], c.low);
    }
}

/* The same bits, except for values whose float32 is within 2 ulp of a rounding
 * boundary; these may be rounded either way. */
static void bits_match_llama_and_pytorch(void) {
    static const NormSet sets[] = {SET_RANDOM, SET_CONSTANT, SET_SPIKE,
                                   SET_OFFSET};
    static const int dims[] = {8, 17, 64, 172};
    static uint16_t theirs[NORM_TOKENS * 172];
    FILE *golden = fopen("tests/golden/norm_half.bin", "rb");
    CHECK(golden, "no tests/golden/norm_half.bin");
    Tally tally = {0};
    for (Type type = TYPE_F16; type <= TYPE_BF16; type++)
        for (int s = 0; s < 4; s++)
            for (int d = 0; d < 4; d++)
                for (RoundingOrder order = ROUND_THEN_SCALE;
                     order <= SCALE_THEN_ROUND; order++) {
                    size_t n = (size_t)(NORM_TOKENS * dims[d]);
                    CHECK(fread(theirs, sizeof *theirs, n, golden) == n,
                          "the file is too short");
                    run_half(sets[s], dims[d], type, order);
                    for (int t = 0; t < NORM_TOKENS; t++)
                        check_token(&tally, theirs, t, type, order);
                }
    CHECK(fgetc(golden) == EOF, "the file is too long");
    fclose(golden);
    CHECK(tally.near * 100 < tally.n,
          "%d of %d values are near a boundary: the test lets too much pass",
          tally.near, tally.n);
    CHECK(tally.differ <= tally.near, "%d of %d values differ from theirs",
          tally.differ, tally.n);
}

/* Long tokens, and bfloat16 values whose squares overflow or underflow in
 * float32. */
static void half_precision_matches_double(void) {
    Tally tally = {0};
    for (Type type = TYPE_F16; type <= TYPE_BF16; type++)
        for (NormSet set = 0; set < N_NORM_SETS; set++) {
            if (type == TYPE_F16 &&
                (set == SET_TINY || set == SET_TINY_NO_EPS || set == SET_HUGE))
                continue; /* zeros, infinities */
            for (RoundingOrder order = ROUND_THEN_SCALE;
                 order <= SCALE_THEN_ROUND; order++)
                for (int d = 0; d < N_NORM_DIMS; d++) {
                    run_half(set, NORM_DIMS[d], type, order);
                    for (int t = 0; t < NORM_TOKENS; t++)
                        check_token(&tally, NULL, t, type, order);
                }
        }
    CHECK(tally.near * 100 < tally.n, "%d of %d values are near a boundary",
          tally.near, tally.n);
}

static void half_precision_works_in_place(void) {
    run_half(SET_RANDOM, 1000, TYPE_BF16, ROUND_THEN_SCALE);
    rmsnorm_half(x, x, gamma_, 1000, in.eps, TYPE_BF16, ROUND_THEN_SCALE);
    CHECK(!memcmp(x, y, 1000 * sizeof *x), "the result in place differs");
}

/* ---- the two orders ------------------------------------------------------ */

/* The number of half-precision values between two of one sign is the difference
 * of their bits. */
static int steps_between(uint16_t a, uint16_t b) {
    return abs((int)a - (int)b);
}

/* In 32,768 values, 8 random tokens of dim 4096, 26.2 % of the results differ
 * in float16 and 25.5 % in bfloat16, by one step. The error of one rounding is
 * at most 0.5 steps, that of two 1.40 steps. */
static void check_orders(Type type) {
    static uint16_t first[NORM_TOKENS * 4096];
    int n = NORM_TOKENS * 4096;
    int differ = 0, max = 0;
    double errors[2] = {0};
    run_half(SET_RANDOM, 4096, type, ROUND_THEN_SCALE);
    memcpy(first, y, sizeof first);
    run_half(SET_RANDOM, 4096, type, SCALE_THEN_ROUND);
    for (int t = 0; t < NORM_TOKENS; t++) {
        double scale = exact_scale(t, type);
        for (int i = 0; i < in.dim; i++) {
            int at = t * in.dim + i, steps = steps_between(first[at], y[at]);
            differ += steps > 0;
            max = steps > max ? steps : max;
            double exact = (double)widen(x[at], type) * scale *
                           (double)widen(gamma_[i], type);
            double step = ulp(exact) * (type == TYPE_F16 ? 0x1p13 : 0x1p16);
            if (fabs(exact) < 0x1p-14)
                continue; /* subnormal in float16 */
            errors[0] = fmax(
                errors[0], fabs((double)widen(first[at], type) - exact) / step);
            errors[1] = fmax(errors[1],
                             fabs((double)widen(y[at], type) - exact) / step);
        }
    }
    CHECK(differ > n / 4 && differ < n * 27 / 100, "%s: %d of %d values differ",
          type_name(type), differ, n);
    CHECK(max == 1, "%s: by up to %d steps", type_name(type), max);
    CHECK(errors[0] > 1.3 && errors[0] < 1.5,
          "%s: rounding twice is off by %.4f steps", type_name(type),
          errors[0]);
    CHECK(errors[1] < 0.51, "%s: rounding once is off by %.4f steps",
          type_name(type), errors[1]);
}

static void the_two_orders_differ(void) {
    check_orders(TYPE_F16);
    check_orders(TYPE_BF16);
}

void suite_half(void) {
    TEST(bits_match_llama_and_pytorch);
    TEST(half_precision_matches_double);
    TEST(half_precision_works_in_place);
    TEST(the_two_orders_differ);
}
