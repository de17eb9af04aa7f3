/* test_amx.c: products in AMX tiles.
 *
 * The three parts of an activation add up to it; BF16 products have the bits of
 * a product in plain C, int8 products those of the vector kernels.
 * kernels/amx.c runs on a model of the instructions (amx_model.c) and, if
 * available, on the processor's.
 */
#include "kernels/lanes.h"
#include "kernels/matmul.h"
#include "kernels/panels.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"
#include "kernels/tile_unit.h"

#include "tests/support/amx_model.h"
#include "tests/support/hashmodel.h"
#include "tests/support/products.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 65, MAX_COLS = 160, MAX_TOKENS = 33, STEP = 32 };

/* ---- the model ---------------------------------------------------------- */

/* x with denormal numbers flushed to zero. */
static float flushed(float x) {
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* The first 8 bits of a number. */
static float first_bits(float x) {
    return float_of_bits(float_bits(x) & 0xffff0000);
}

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
        for (int p = 0; p < 3; p++)
            sums[p] = amx_model_step(sums[p], weights, parts[p]);
    }
    return sums[0] + (sums[1] + sums[2]);
}

/* ---- numbers ------------------------------------------------------------ */

enum { COMMON, ANY, TINY, HUGE_ONES, ZEROS, N_KINDS };

/* Random bits of a float32. Products of TINY underflow, those of HUGE_ONES
 * overflow. */
static uint32_t random_bits(int kind, uint64_t stream, size_t i) {
    uint64_t h = hash64(19, stream, i);
    uint32_t bits = (uint32_t)(h >> 8), mantissa = bits & 0x807fffff,
             few = (uint32_t)(h & 7);
    if (kind == COMMON)
        return mantissa | (124 + few) << 23;
    if (kind == TINY)
        return mantissa | (few < 2 ? few : 58 + few) << 23;
    if (kind == HUGE_ONES)
        return mantissa | (186 + few) << 23;
    if (kind == ZEROS)
        return few ? bits & 0x80000000 : mantissa | 127 << 23;
    return bits;
}

static float random_number(int kind, uint64_t stream, size_t i) {
    return float_of_bits(random_bits(kind, stream, i));
}

/* ---- the parts ---------------------------------------------------------- */

static float part_at(const uint8_t *parts, int part, int c) {
    uint16_t h;
    memcpy(&h,
           parts + (size_t)(c / STEP * 3 + part) * STEP * 2 +
               (size_t)(c % STEP) * 2,
           sizeof h);
    return bf16_to_f32(h);
}

static void three_parts_are_the_activation(void) {
    if (LANES != 16)
        return;
    static float x[MAX_COLS];
    static uint8_t parts[2 * MAX_COLS * 6];
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int cols = 1; cols <= MAX_COLS; cols += 1 + cols / 5) {
            for (int c = 0; c < cols; c++)
                x[c] = random_number(kind, 1, (size_t)c);
            memset(parts, 0xee, sizeof parts);
            amx_model.convert_row(parts, x, cols);
            size_t bytes = amx_model.row_bytes(cols);
            for (size_t i = bytes; i < sizeof parts; i++)
                CHECK(parts[i] == 0xee, "%d columns: wrote past the end", cols);
            for (int c = 0; c < (cols - 1) / STEP * STEP + STEP; c++) {
                float a = part_at(parts, 0, c), b = part_at(parts, 1, c),
                      low = part_at(parts, 2, c);
                double sum = (double)a + (double)b + (double)low;
                if (c >= cols)
                    CHECK(float_bits(a) + float_bits(b) + float_bits(low) == 0,
                          "column %d of %d is not 0", c, cols);
                else if (!isfinite(x[c]))
                    CHECK(!isfinite(sum), "%g has parts %g, %g, %g", x[c], a, b,
                          low);
                else if (fabsf(x[c]) >= 0x1p-102f) /* no part is denormal */
                    CHECK(sum == (double)x[c] && a == flushed(a) &&
                              b == flushed(b) && low == flushed(low),
                          "%a has parts %a, %a, %a", x[c], a, b, low);
                else
                    CHECK(fabs(flushed(a) + (double)flushed(b) + flushed(low) -
                               x[c]) < 0x1p-126,
                          "%a has parts %a, %a, %a", x[c], a, b, low);
            }
        }
}

/* ---- products ----------------------------------------------------------- */

typedef struct {
    Tensor w;
    int n;
    uint8_t *data;
    float *x;
    InputBuffer buffer;
} Problem;

/* Random weights of a type and activations, and an input buffer of this
 * unit. */
static int problem_open(Problem *p, const TileUnit *unit, Type type, int kind,
                        int rows, int cols, int n) {
    *p = (Problem){.w = {.type = type, .rows = rows, .cols = cols}, .n = n};
    size_t bytes = tensor_bytes(&p->w, rows), block = (size_t)TYPES[type].bytes;
    p->data = malloc(bytes);
    p->x = malloc((size_t)(n * cols) * sizeof *p->x);
    for (size_t i = 0; i < bytes; i++)
        p->data[i] = (uint8_t)(random_bits(kind, 2, i / 2) >> (16 + i % 2 * 8));
    /* scale and min are small, as float16 */
    for (size_t b = 0; type != TYPE_BF16 && b < bytes; b += block)
        for (size_t i = 0; i < 1 + (size_t)(TYPES[type].mins > 0); i++)
            p->data[b + (size_t)TYPES[type].at + 2 * i + 1] = 0x2c;
    for (int i = 0; i < n * cols; i++)
        p->x[i] = random_number(kind, 3, (size_t)i);
    p->w.data = p->data;
    if (input_buffer_open(&p->buffer, MAX_TOKENS, cols, 3, true))
        return -1;
    p->buffer.unit = unit;
    p->buffer.unit_rows =
        unit ? malloc(MAX_TOKENS * unit->row_bytes(cols)) : NULL;
    return 0;
}

static void problem_close(Problem *p) {
    free(p->data);
    free(p->x);
    free(p->buffer.unit_rows); /* of problem_open() */
    input_buffer_close(&p->buffer);
}

/* y has room for 16 more tokens, which must not change. */
static void multiply_problem(Problem *p, float *y) {
    Input in = input_prepare(&p->buffer, &p->w, p->x, p->n);
    int end = p->n * p->w.rows;
    for (int i = 0; i < 16 * p->w.rows; i++)
        y[end + i] = -9;
    matmul(y, &p->w, &in, p->n);
    for (int i = 0; i < 16 * p->w.rows; i++)
        CHECK(y[end + i] == -9, "%s %d x %d: wrote token %d of %d",
              type_name(p->w.type), p->w.rows, p->w.cols, p->n + i / p->w.rows,
              p->n);
}

/* The same bits, or both NaN. */
static bool same_number(float a, float b) {
    return float_bits(a) == float_bits(b) || (isnan(a) && isnan(b));
}

static void check_bf16(const TileUnit *unit, int kind, int rows, int cols,
                       int n) {
    static float y[(MAX_TOKENS + 16) * MAX_ROWS], w[MAX_COLS];
    Problem p;
    CHECK(!problem_open(&p, unit, TYPE_BF16, kind, rows, cols, n), "no memory");
    multiply_problem(&p, y);
    for (int r = 0; r < rows; r++) {
        dequantize_row(w, &p.w, r);
        for (int t = 0; t < n; t++) {
            const float *x = p.x + (size_t)(t * cols),
                        model = model_product(w, x, cols);
            double exact = 0, magnitude = 0;
            for (int c = 0; c < cols; c++) {
                exact += (double)w[c] * (double)x[c];
                magnitude += fabs((double)w[c] * (double)x[c]);
            }
            CHECK(same_number(y[t * rows + r], model),
                  "kind %d, %d x %d, %d tokens: y[%d][%d] = %a, model %a", kind,
                  rows, cols, n, t, r, y[t * rows + r], model);
            CHECK(kind != COMMON ||
                      fabs((double)model - exact) <= 4 * 0x1p-24 * magnitude,
                  "%d columns: the model gives %.9g, exact %.9g", cols, model,
                  exact);
            if (isnan(exact) || (kind == ANY && !isfinite((float)exact)))
                CHECK(!isfinite(model), "NaN or infinity is lost");
        }
    }
    if (kind == COMMON)
        check_divisions(&(Product){&p.w, &p.buffer, p.x, y, n, false});
    problem_close(&p);
}

/* Unit 0: the model; 1: the processor's tiles. NULL: not available. */
static const TileUnit *unit_at(int i) {
    return i ? tile_unit() : LANES == 16 ? &amx_model : NULL;
}

static void bf16_products_match_the_model(void) {
    static const int rows[] = {1, 15, 16, 17, 32, 33, 65},
                     cols[] = {1, 2, 31, 32, 33, 64, 97, 160};
    static const int tokens[] = {1, 2, 5, 15, 16, 17, 33};
    for (int i = 0; i < 7 * 8 * 7 * N_KINDS * 2; i++) {
        int r = i % 7, c = i / 7 % 8, n = i / 56 % 7, kind = i / 392 % N_KINDS;
        const TileUnit *unit = unit_at(i / (392 * N_KINDS));
        bool thin = unit == &amx_model || test_fast();
        if (!unit || (kind && (r + c + n + kind) % 3) ||
            (thin && (r + c + n) % 7))
            continue;
        check_bf16(unit, kind, rows[r], cols[c], tokens[n]);
    }
    if (!tile_unit())
        printf("amx: this processor has no tiles; %s\n",
               LANES == 16 ? "a model of them ran" : "none ran");
}

/* Computes y with a unit, or with vectors (NULL); `packed` weights have
 * panels. */
static void int8_product(float *y, const TileUnit *unit, Type type, int rows,
                         int cols, int n, bool packed) {
    Problem p;
    CHECK(!problem_open(&p, unit, type, COMMON, rows, cols, n), "no memory");
    uint8_t *panels = aligned_alloc(CACHE_LINE, panels_bytes(&p.w));
    if (packed)
        tensor_pack(&p.w, panels, 1);
    multiply_problem(&p, y);
    free(panels);
    problem_close(&p);
}

/* Sums of a group are exact, so tiles and vectors have the same bits. */
static void check_bytes(const TileUnit *unit, Type type, int rows, int cols,
                        int n, bool packed) {
    static float y[(MAX_TOKENS + 16) * MAX_ROWS],
        vectors[(MAX_TOKENS + 16) * MAX_ROWS];
    int8_product(y, unit, type, rows, cols, n, packed);
    int8_product(vectors, NULL, type, rows, cols, n, packed);
    for (int i = 0; i < n * rows; i++)
        CHECK(float_bits(y[i]) == float_bits(vectors[i]),
              "%s %d x %d, %d tokens, packed %d: y[%d] = %a, vectors %a",
              type_name(type), rows, cols, n, packed, i, y[i], vectors[i]);
}

static void int8_products_match_the_vectors(void) {
    static const int rows[] = {1, 33, 65}, tokens[] = {16, 17, 33};
    for (int unit = 0; unit < 2; unit++)
        for (Type type = TYPE_Q8_0; unit_at(unit) && type <= TYPE_IQ4_XS;
             type++)
            for (int i = 0; i < 9; i++)
                check_bytes(unit_at(unit), type, rows[i % 3],
                            TYPES[type].weights * (1 + i % 2), tokens[i / 3],
                            i % 2);
}

/* An input prepared for an int8 weight also works for a BF16 weight. */
static void mixed_weights_share_an_input(void) {
    enum { N_ROWS = 33, COLS = 64, N = 17 };
    static float one[(N + 16) * N_ROWS], shared[N * N_ROWS];
    static const uint8_t blocks[COLS / 32 * 34];
    Tensor q8 = {.type = TYPE_Q8_0, .rows = 1, .cols = COLS, .data = blocks};
    for (int n = 1; n <= N; n += N - 1) {
        Problem p;
        CHECK(!problem_open(&p, unit_at(0), TYPE_BF16, COMMON, N_ROWS, COLS, n),
              "no memory");
        multiply_problem(&p, one);
        Input in = input_prepare(&p.buffer, &q8, p.x, n);
        matmul(shared, &p.w, &in, n);
        CHECK(!memcmp(one, shared, sizeof *one * (size_t)(n * N_ROWS)),
              "%d tokens: other bits", n);
        problem_close(&p);
    }
}

/* One weight of 1 returns the activation; denormal activations become zero. */
static void denormals_are_zeros(void) {
    static const float xs[] = {
        1,         0x1.fffffep-103f, 0x1p-126f,       0x1.8p-127f,
        0x1p-149f, -0x1p-130f,       0x1.fffffep-110f};
    for (int i = 0; i < 7; i++) {
        float one = 1, model = model_product(&one, &xs[i], 1);
        CHECK(fabs((double)model - (double)xs[i]) < 0x1p-126, "%a becomes %a",
              xs[i], model);
        CHECK(fabsf(xs[i]) >= FLT_MIN || model == 0, "%a becomes %a, not 0",
              xs[i], model);
        float small = 0x1p-127f;
        CHECK(model_product(&small, &xs[i], 1) == 0,
              "a denormal weight is not 0");
    }
}

void suite_amx(void) {
    TEST(three_parts_are_the_activation);
    TEST(bf16_products_match_the_model);
    TEST(int8_products_match_the_vectors);
    TEST(mixed_weights_share_an_input);
    TEST(denormals_are_zeros);
}
