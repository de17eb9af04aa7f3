/* test_amx.c: products of BF16 weights in tiles, bit for bit against a model of the instruction in plain C.
 *
 * Owns the model, and the promise that the three parts of an activation are the activation. On a machine without
 * tiles the model is held against exact sums, and the kernel is not run.
 */
#include "base/platform.h"
#include "base/process.h"
#include "kernels/amx.h"
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"

#include "tests/support/test.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 65, MAX_COLS = 160, MAX_TOKENS = 33, STEP = 32 };

/* ---- the model --------------------------------------------------------------------------- */

/* Denormal numbers are zeros, as operands and as results. */
static float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

static float multiply_add(float a, float b, float c) { return flushed(fmaf(flushed(a), flushed(b), c)); }

/* What one step adds to a sum: even columns, odd columns, both, and that to the sum. */
static float add_step(float sum, const float *w, const float *x) {
    float even = 0, odd = 0;
    for (int c = 0; c < STEP; c += 2) {
        even = multiply_add(w[c], x[c], even);
        odd = multiply_add(w[c + 1], x[c + 1], odd);
    }
    return flushed(sum + flushed(even + odd));
}

/* The first 8 bits of a number. */
static float first_bits(float x) { return float_of_bits(float_bits(x) & 0xffff0000); }

/* The product of a row with a token. */
static float model_product(const float *w, const float *x, int cols) {
    float sums[3] = {0};
    for (int c = 0; c < cols; c += STEP) {
        float weights[STEP] = {0}, parts[3][STEP] = {{0}};
        for (int i = 0; i < STEP && c + i < cols; i++) {
            float rest = x[c + i];
            weights[i] = w[c + i];
            for (int p = 0; p < 3; p++) {
                parts[p][i] = first_bits(rest);
                rest -= parts[p][i];
            }
        }
        for (int p = 0; p < 3; p++) sums[p] = add_step(sums[p], weights, parts[p]);
    }
    return sums[0] + (sums[1] + sums[2]);
}

/* ---- numbers ------------------------------------------------------------------------------- */

enum { COMMON, ANY, TINY, HUGE_ONES, ZEROS, N_KINDS };

/* The bits of a float32. The exponents of TINY and HUGE_ONES let products leave the range of floats. */
static uint32_t random_bits(int kind, uint64_t stream, size_t i) {
    const uint64_t h = hash64(19, stream, i);
    const uint32_t bits = (uint32_t)(h >> 8), mantissa = bits & 0x807fffff, few = (uint32_t)(h & 7);
    if (kind == COMMON) return mantissa | (124 + few) << 23;
    if (kind == TINY) return mantissa | (few < 2 ? few : 58 + few) << 23;
    if (kind == HUGE_ONES) return mantissa | (186 + few) << 23;
    if (kind == ZEROS) return few ? bits & 0x80000000 : mantissa | 127 << 23;
    return bits;
}

static float random_number(int kind, uint64_t stream, size_t i) { return float_of_bits(random_bits(kind, stream, i)); }

/* ---- the parts ------------------------------------------------------------------------------- */

static float part_at(const uint8_t *parts, int part, int c) {
    uint16_t h;
    memcpy(&h, parts + (size_t)(c / STEP * 3 + part) * STEP * 2 + (size_t)(c % STEP) * 2, sizeof h);
    return bf16_to_f32(h);
}

static void three_parts_are_the_activation(void) {
    static float x[MAX_COLS];
    static uint8_t parts[2 * MAX_COLS * 6];
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int cols = 1; cols <= MAX_COLS; cols += 1 + cols / 5) {
            for (int c = 0; c < cols; c++) x[c] = random_number(kind, 1, (size_t)c);
            memset(parts, 0xee, sizeof parts);
            amx_split(parts, x, cols);
            const size_t bytes = amx_parts_bytes(cols);
            for (size_t i = bytes; i < sizeof parts; i++)
                CHECK(parts[i] == 0xee, "%d columns: wrote behind them", cols);
            for (int c = 0; c < (cols - 1) / STEP * STEP + STEP; c++) {
                const float a = part_at(parts, 0, c), b = part_at(parts, 1, c), low = part_at(parts, 2, c);
                const double sum = (double)a + (double)b + (double)low;
                if (c >= cols)
                    CHECK(float_bits(a) + float_bits(b) + float_bits(low) == 0, "column %d of %d is not 0", c, cols);
                else if (!isfinite(x[c]))
                    CHECK(!isfinite(sum), "%g has parts %g, %g, %g", x[c], a, b, low);
                else if (fabsf(x[c]) >= 0x1p-102f) /* no part is denormal */
                    CHECK(sum == (double)x[c] && a == flushed(a) && b == flushed(b) && low == flushed(low),
                          "%a has parts %a, %a, %a", x[c], a, b, low);
                else
                    CHECK(fabs(flushed(a) + (double)flushed(b) + flushed(low) - x[c]) < 0x1p-126,
                          "%a has parts %a, %a, %a", x[c], a, b, low);
            }
        }
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct {
    Tensor w;
    int n;
    uint16_t *data;
    float *x, *weights; /* weights[rows][cols] in float32 */
    InputBuffer buffer;
} Problem;

static int problem_open(Problem *p, int kind, int rows, int cols, int n) {
    *p = (Problem){.w = {.type = TYPE_BF16, .rows = rows, .cols = cols}, .n = n};
    p->data = malloc((size_t)(rows * cols) * sizeof *p->data);
    p->weights = malloc((size_t)(rows * cols) * sizeof *p->weights);
    p->x = malloc((size_t)(n * cols) * sizeof *p->x);
    for (int i = 0; i < rows * cols; i++) p->data[i] = (uint16_t)(random_bits(kind, 2, (size_t)i) >> 16);
    for (int i = 0; i < rows * cols; i++) p->weights[i] = bf16_to_f32(p->data[i]);
    for (int i = 0; i < n * cols; i++) p->x[i] = random_number(kind, 3, (size_t)i);
    p->w.data = p->data;
    return input_buffer_open(&p->buffer, MAX_TOKENS, cols, 3, true);
}

static void problem_close(Problem *p) {
    free(p->data);
    free(p->weights);
    free(p->x);
    input_buffer_close(&p->buffer);
}

/* NaN is NaN: which one is nobody's business. */
static bool same_number(float a, float b) { return float_bits(a) == float_bits(b) || (isnan(a) && isnan(b)); }

static void check_product(int kind, int rows, int cols, int n) {
    static float y[MAX_TOKENS * MAX_ROWS];
    Problem p;
    CHECK(!problem_open(&p, kind, rows, cols, n), "no memory");
    const bool tiles = p.buffer.parts != NULL;
    const Input in = input_prepare(&p.buffer, &p.w, p.x, n);
    matmul(y, &p.w, &in, n);
    for (int t = 0; t < n; t++)
        for (int r = 0; r < rows; r++) {
            const float *w = p.weights + (size_t)(r * cols), *x = p.x + (size_t)(t * cols);
            const float model = model_product(w, x, cols);
            double exact = 0, magnitude = 0;
            for (int c = 0; c < cols; c++) {
                exact += (double)w[c] * (double)x[c];
                magnitude += fabs((double)w[c] * (double)x[c]);
            }
            CHECK(!tiles || same_number(y[t * rows + r], model),
                  "kind %d, %d x %d, %d tokens: y[%d][%d] = %a, model %a", kind, rows, cols, n, t, r, y[t * rows + r],
                  model);
            CHECK(kind != COMMON || fabs((double)model - exact) <= 4 * 0x1p-24 * magnitude,
                  "%d columns: the model gives %.9g, exact %.9g", cols, model, exact);
            if (isnan(exact) || (kind == ANY && !isfinite((float)exact))) CHECK(!isfinite(model), "damage is hidden");
        }
    if (kind == COMMON) check_divisions(&(Product){&p.w, &p.buffer, p.x, y, n, false});
    problem_close(&p);
}

static void products_are_the_model_s(void) {
    static const int rows[] = {1, 15, 16, 17, 32, 33, 65}, cols[] = {1, 2, 31, 32, 33, 64, 97, 160};
    static const int tokens[] = {1, 2, 5, 15, 16, 17, 33};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 7; k++)
                for (int kind = 0; kind < N_KINDS; kind++) {
                    if ((kind && (i + j + k + kind) % 3) || (test_fast() && (i + j + k) % 7)) continue;
                    check_product(kind, rows[i], cols[j], tokens[k]);
                }
    if (!SIMD_TILES || !processor_has_tiles()) printf("amx: this processor has no tiles, so no product ran in them\n");
}

/* Activations that an int8 weight asked for serve a BF16 weight beside it. */
static void mixed_weights_share_an_input(void) {
    enum { ROWS = 33, COLS = 64, N = 17 };
    static float alone[N * ROWS], beside[N * ROWS];
    static const uint8_t blocks[COLS / 32 * 34];
    const Tensor q8 = {.type = TYPE_Q8_0, .rows = 1, .cols = COLS, .data = blocks};
    for (int n = 1; n <= N; n += N - 1) {
        Problem p;
        CHECK(!problem_open(&p, COMMON, ROWS, COLS, n), "no memory");
        Input in = input_prepare(&p.buffer, &p.w, p.x, n);
        matmul(alone, &p.w, &in, n);
        in = input_prepare(&p.buffer, &q8, p.x, n);
        matmul(beside, &p.w, &in, n);
        CHECK(!memcmp(alone, beside, sizeof *alone * (size_t)(n * ROWS)), "%d tokens: other bits", n);
        problem_close(&p);
    }
}

/* One weight of 1: the activation comes back, what is denormal in it as zero. */
static void denormals_are_zeros(void) {
    static const float xs[] = {1, 0x1.fffffep-103f, 0x1p-126f, 0x1.8p-127f, 0x1p-149f, -0x1p-130f, 0x1.fffffep-110f};
    for (int i = 0; i < 7; i++) {
        const float one = 1, model = model_product(&one, &xs[i], 1);
        CHECK(fabs((double)model - (double)xs[i]) < 0x1p-126, "%a becomes %a", xs[i], model);
        CHECK(fabsf(xs[i]) >= FLT_MIN || model == 0, "%a becomes %a, not 0", xs[i], model);
        const float small = 0x1p-127f;
        CHECK(model_product(&small, &xs[i], 1) == 0, "a denormal weight is not 0");
    }
}

void suite_amx(void) {
    TEST(three_parts_are_the_activation);
    TEST(products_are_the_model_s);
    TEST(mixed_weights_share_an_input);
    TEST(denormals_are_zeros);
}
