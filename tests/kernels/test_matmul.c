/* test_matmul.c: matmul.c and quant.c against exact sums.
 *
 * Tests products of unusual sizes, that no subdivision of rows and tokens
 * changes a bit, that nothing is read after the last weight, and quantization
 * to int8.
 */
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kernels/tensor.h"

#include "tests/support/hashmodel.h"
#include "tests/support/products.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ROWS = PRODUCT_ROWS, MAX_COLS = 384, MAX_TOKENS = PRODUCT_TOKENS };

static float random_float(uint64_t stream, size_t i) { /* [-1, 1) */
    return (float)(hash64(13, stream, i) >> 40) / 8388608.0f - 1;
}

/* ---- a tensor that ends at an inaccessible page ------------------------- */

/* `bytes` bytes that end at an inaccessible page: reading past them is fatal,
 * as at the end of a mapped file. */
typedef struct {
    char *pages, *start;
    size_t size;
} Fence;

static int fence_open(Fence *f, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           whole = (bytes + page - 1) / page * page;
    f->size = whole + page;
    f->pages = mmap(NULL, f->size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->pages == MAP_FAILED || mprotect(f->pages + whole, page, PROT_NONE))
        return -1;
    f->start = f->pages + whole - bytes;
    return 0;
}

static void fence_close(Fence *f) {
    munmap(f->pages, f->size);
}

/* One product: weights and activations, each followed by a fence. */
typedef struct {
    Tensor w;
    int n; /* tokens */
    float *x;
    InputBuffer buffer;
    Fence data, scales, activations;
} Problem;

/* group 0: float32. In a file scales may be unaligned: with `unaligned` they
 * end one byte before the fence, else at the fence. */
static int problem_open(Problem *p, int rows, int cols, int n, int group,
                        bool unaligned) {
    size_t count = (size_t)rows * (size_t)cols,
           floats = group ? count / (size_t)group : count;
    *p = (Problem){.w = {.type = group ? TYPE_I8 : TYPE_F32,
                         .rows = rows,
                         .cols = cols,
                         .group = group},
                   .n = n};
    if (fence_open(&p->data, group ? count : count * sizeof(float)) ||
        fence_open(&p->scales, floats * sizeof(float) + unaligned) ||
        fence_open(&p->activations, (size_t)n * (size_t)cols * sizeof(float)) ||
        input_buffer_open(&p->buffer, MAX_TOKENS, cols, 3))
        return -1;
    p->w.data = p->data.start;
    p->w.scales = group ? p->scales.start : NULL;
    p->x = (float *)(void *)p->activations.start;
    for (size_t i = 0; i < (size_t)n * (size_t)cols; i++)
        p->x[i] = random_float(1, i);
    for (size_t i = 0; i < count; i++)
        if (group)
            /* any byte, including -128 */
            p->data.start[i] = (char)hash64(13, 2, i);
        else
            ((float *)(void *)p->data.start)[i] = random_float(3, i);
    for (size_t i = 0; group && i < floats; i++) {
        float scale = 0.001f * (1.5f + random_float(4, i));
        memcpy(p->scales.start + i * sizeof scale, &scale, sizeof scale);
    }
    return 0;
}

static void problem_close(Problem *p) {
    fence_close(&p->data);
    fence_close(&p->scales);
    fence_close(&p->activations);
    input_buffer_close(&p->buffer);
}

/* ---- the exact product --------------------------------------------------- */

static double scale_at(const Tensor *w, size_t i) {
    float scale;
    memcpy(&scale, (const char *)w->scales + i * sizeof scale, sizeof scale);
    return scale;
}

/* Output (t, r) in double precision from the kernel's inputs, and the sum of
 * the magnitudes of its summands. */
static double exact_product(const Problem *p, const Input *in, int t, int r,
                            double *magnitude) {
    size_t cols = (size_t)p->w.cols, row = (size_t)r * cols;
    double sum = 0;
    *magnitude = 0;
    for (size_t c = 0; c < cols; c++) {
        double term;
        if (p->w.type == TYPE_F32) {
            term = (double)((const float *)p->w.data)[row + c] *
                   (double)in->x[(size_t)t * cols + c];
        } else {
            size_t group = (size_t)p->w.group;
            term = (double)((const int8_t *)p->w.data)[row + c] *
                   in->q[(size_t)t * cols + c] *
                   scale_at(&p->w, (row + c) / group) *
                   (double)in->groups[((size_t)t * cols + c) / group].scale;
        }
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

static void check_against_exact(const Problem *p, const Input *in,
                                const float *y, bool add) {
    for (int t = 0; t < p->n; t++)
        for (int r = 0; r < p->w.rows; r++) {
            int i = t * p->w.rows + r;
            double magnitude, sum = exact_product(p, in, t, r, &magnitude);
            if (add)
                sum += product_before(i), magnitude += product_before(i);
            /* a chain of cols / lanes sums and a tree; measured: at most 2.2 */
            CHECK(
                fabs(y[i] - sum) <= 4 * 0x1p-24 * magnitude,
                "%d x %d, %d tokens, group %d, add %d: y[%d][%d] = %.9g, exact %.9g",
                p->w.rows, p->w.cols, p->n, p->w.group, add, t, r, y[i], sum);
        }
}

static void check_product(int rows, int cols, int n, int group,
                          bool unaligned) {
    static float y[MAX_TOKENS * MAX_ROWS];
    Problem p;
    CHECK(!problem_open(&p, rows, cols, n, group, unaligned), "no memory");
    for (int add = 0; add < 2; add++) {
        for (int i = 0; i < n * rows; i++)
            y[i] = product_before(i);
        Input in = input_prepare(&p.buffer, &p.w, p.x, n);
        (add ? matmul_add : matmul)(y, &p.w, &in, n);
        check_against_exact(&p, &in, y, add);
        check_divisions(&(Product){&p.w, &p.buffer, p.x, y, n, add});
    }
    problem_close(&p);
}

static void float_products(void) {
    static const int sizes[] = {1, 3, 7, 15, 16, 17, 63, 64, 65, 172},
                     tokens[] = {1, 2, 5, 6, 7, 13};
    int n_sizes = 10;
    for (int i = 0; i < n_sizes; i++)
        for (int j = 0; j < n_sizes; j++)
            for (int k = 0; k < 6; k++) {
                if (test_fast() && (i + j + k) % 11)
                    continue;
                check_product(sizes[i], sizes[j], tokens[k], 0, false);
            }
}

static void int8_products(void) {
    static const int groups[] = {1, 2, 3, 4, 8, 12, 16, 32, 64, 96, 128},
                     rows[] = {1, 3, 8, 13, 65};
    static const int tokens[] = {1, 2, 4, 5, 7}, groups_per_row[] = {1, 2, 3};
    for (int i = 0; i < 11; i++)
        for (int j = 0; j < 5; j++)
            for (int k = 0; k < 5; k++)
                for (int l = 0; l < 3; l++) {
                    if (test_fast() && (i + j + k + l) % 13)
                        continue;
                    check_product(rows[j], groups[i] * groups_per_row[l],
                                  tokens[k], groups[i], (i + j + k + l) % 2);
                }
    check_product(17, 172, 5, 4,
                  true); /* many small groups, a remainder of 3 vectors */
    check_product(17, 172, 5, 2, true);
    /* a scale for each weight: chunks must fit into the scratch memory */
    check_product(65, 200, 1, 1, true);
    check_product(9, 360, 3, 8, false);
}

/* ---- awkward values ----------------------------------------------------- */

static const int all_groups[] = {2, 4, 16, 32, 64, 128};

static void groups_of_zeros_add_nothing(void) {
    for (int k = 0; k < 6; k++) {
        Problem p;
        float y[3];
        int group = all_groups[k], cols = 3 * group;
        CHECK(!problem_open(&p, 3, cols, 1, group, true), "no memory");
        for (int c = 0; c < cols; c++) {
            int in_group = c / group;
            /* activations of group 1 are zeros */
            p.x[c] = in_group == 1 ? 0 : 1;
            for (int r = 0; r < 3; r++)
                p.data.start[r * cols + c] = (char)(in_group == 2 ? 0 : 2);
        }
        for (int i = 0; i < 9; i++)
            memcpy(p.scales.start + i * 4, &(float){1}, 4);
        Input in = input_prepare(&p.buffer, &p.w, p.x, 1);
        CHECK(in.groups[1].scale == 0, "group %d: scale %g, expected 0", group,
              in.groups[1].scale);
        matmul(y, &p.w, &in, 1);
        for (int r = 0; r < 3; r++)
            CHECK(fabsf(y[r] - 2 * (float)group) <= 1e-6f * (float)group,
                  "group %d: %.9g, expected %d", group, y[r], 2 * group);
        problem_close(&p);
    }
}

/* -128 x 127 everywhere would overflow or saturate int16. With scales of 1 and
 * 2 every sum is exact in float32. */
static void extreme_bytes_do_not_overflow(void) {
    for (int k = 0; k < 6; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            Problem p;
            float y[26];
            int group = all_groups[k], cols = 384, n = 2;
            CHECK(!problem_open(&p, 13, cols, n, group, true), "no memory");
            for (int i = 0; i < n * cols; i++)
                p.x[i] = (float)(127 * sign);
            memset(p.data.start, -128, 13 * 384);
            for (int i = 0; i < 13 * cols / group; i++)
                memcpy(p.scales.start + i * 4, &(float){2}, 4);
            Input in = input_prepare(&p.buffer, &p.w, p.x, n);
            matmul(y, &p.w, &in, n);
            for (int i = 0; i < 26; i++)
                CHECK(y[i] == (float)(-128 * 127 * 2 * sign * cols),
                      "group %d: %.9g, expected %d", group, y[i],
                      -128 * 127 * 2 * sign * cols);
            problem_close(&p);
        }
}

/* NaN and infinity in a token's activations reach all outputs of this token and
 * of no other. */
static void nan_and_infinity_propagate(void) {
    static const int groups[] = {0, 2, 4, 32, 64};
    for (int k = 0; k < 5; k++)
        for (int bad = 0; bad < 2; bad++) {
            Problem p;
            float y[3 * 9];
            CHECK(!problem_open(&p, 9, 192, 3, groups[k], true), "no memory");
            p.x[192 + 77] = bad ? INFINITY : NAN;
            Input in = input_prepare(&p.buffer, &p.w, p.x, 3);
            matmul(y, &p.w, &in, 3);
            for (int i = 0; i < 27; i++)
                CHECK(!isfinite(y[i]) == (i / 9 == 1),
                      "group %d: y[%d][%d] = %g", groups[k], i / 9, i % 9,
                      y[i]);
            problem_close(&p);
        }
}

/* ---- quantization ------------------------------------------------------- */

static void check_quantized(const float *x, int n, int group) {
    int8_t q[256];
    InputGroup scales[256] = {0};
    quantize_i8(q, scales, x, n, group);
    for (int g = 0; g < n / group; g++) {
        float max = 0;
        for (int i = g * group; i < (g + 1) * group; i++)
            max = fmaxf(max, fabsf(x[i]));
        CHECK(scales[g].scale == max / 127.0f,
              "group %d: scale %.9g, expected %.9g", g, scales[g].scale,
              max / 127.0f);
        float inverse = 1.0f / scales[g].scale;
        for (int i = g * group; i < (g + 1) * group; i++) {
            /* a variable, so that it is rounded to float */
            float scaled = x[i] * inverse;
            int expected = (int)rintf(scaled);
            CHECK(q[i] == expected, "x[%d] = %.9g, scale %.9g: %d, expected %d",
                  i, x[i], scales[g].scale, q[i], expected);
            double error = fabs(q[i] * (double)scales[g].scale - (double)x[i]);
            CHECK(error <= 0.50001 * (double)scales[g].scale,
                  "x[%d] = %.9g, scale %.9g, q %d", i, x[i], scales[g].scale,
                  q[i]);
        }
    }
}

static void quantizing_rounds_to_nearest(void) {
    static const int groups[] = {1, 2, 3, 4, 12, 16, 32, 64, 192};
    float x[192];
    for (int k = 0; k < 9; k++)
        for (int exponent = -88; exponent <= 120; exponent += 8) {
            for (size_t i = 0; i < 192; i++)
                x[i] = ldexpf(random_float(6 + (uint64_t)k, i), exponent);
            check_quantized(x, 192, groups[k]);
        }
    /* scale 1: ties are rounded to even */
    float middles[8] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 125.5f};
    int8_t even[8] = {127, 0, 2, 2, 0, -2, -2, 126};
    int8_t q[8];
    InputGroup group = {0};
    quantize_i8(q, &group, middles, 8, 8);
    CHECK(group.scale == 1, "scale %g", group.scale);
    for (int i = 0; i < 8; i++)
        CHECK(q[i] == even[i], "%g becomes %d, expected %d", middles[i], q[i],
              even[i]);
}

static void quantizing_odd_values(void) {
    int8_t q[16];
    InputGroup scales[4] = {0};
    float x[16] = {0, -0.0f, 0,         0, 1,      NAN,     2,      3,
                   4, 5,     -INFINITY, 6, 1e-40f, -2e-42f, 1e-45f, 0};
    memset(q, 99, sizeof q);
    quantize_i8(q, scales, x, 16, 4);
    CHECK(scales[0].scale == 0 && !q[0] && !q[1] && !q[2] && !q[3],
          "zeros: scale %g", scales[0].scale);
    CHECK(isnan(scales[1].scale), "a group with NaN has scale %g",
          scales[1].scale);
    CHECK(isinf(scales[2].scale), "a group with infinity has scale %g",
          scales[2].scale);
    /* such a group may become zeros, but nothing larger than its values */
    for (int i = 12; i < 16; i++) {
        double value = q[i] * (double)scales[3].scale;
        CHECK(fabs(value) <= 1.01e-40, "%g becomes %g", x[i], value);
    }
    /* neither its sign nor infinity in the same group may hide a NaN */
    x[3] = -NAN;
    x[2] = INFINITY;
    quantize_i8(q, scales, x, 4, 4);
    CHECK(isnan(scales[0].scale), "NaN and infinity give scale %g",
          scales[0].scale);
}

static void dequantizing_is_exact(void) {
    float y[MAX_COLS];
    Problem p;
    CHECK(!problem_open(&p, 5, 96, 1, 12, true), "no memory");
    CHECK(!strcmp(type_name(p.w.type), "int8") &&
              tensor_bytes(&p.w, 5) == 5 * (96 + 8 * 4),
          "%s, %zu bytes", type_name(p.w.type), tensor_bytes(&p.w, 5));
    for (int r = 0; r < 5; r++) {
        dequantize_row(y, &p.w, r);
        for (int c = 0; c < 96; c++) {
            int i = r * 96 + c;
            float expected = (float)((int8_t)p.data.start[i] *
                                     scale_at(&p.w, (size_t)(i / 12)));
            CHECK(y[c] == expected, "int8 [%d][%d]: %.9g, expected %.9g", r, c,
                  y[c], expected);
        }
    }
    problem_close(&p);
    CHECK(!problem_open(&p, 5, 17, 1, 0, false), "no memory");
    CHECK(!strcmp(type_name(p.w.type), "f32") &&
              tensor_bytes(&p.w, 2) == 2 * 17 * 4,
          "%s, %zu bytes", type_name(p.w.type), tensor_bytes(&p.w, 2));
    for (int r = 0; r < 5; r++) {
        dequantize_row(y, &p.w, r);
        CHECK(!memcmp(y, p.data.start + r * 17 * 4, 17 * 4),
              "float32 row %d differs", r);
    }
    problem_close(&p);
}

/* The int8 form of an input equals that of quantize_i8; a group's sum is the
 * sum of its dequantized values. */
static void inputs_are_quantized_rows(void) {
    Problem p;
    int8_t q[172];
    InputGroup scales[43] = {0};
    CHECK(!problem_open(&p, 3, 172, 4, 4, false), "no memory");
    Input in = input_prepare(&p.buffer, &p.w, p.x, 4);
    for (int t = 0; t < 4; t++) {
        quantize_i8(q, scales, p.x + (size_t)t * 172, 172, 4);
        CHECK(!memcmp(in.q + (size_t)t * 172, q, sizeof q), "token %d differs",
              t);
        for (int g = 0; g < 43; g++) {
            const InputGroup *group = &in.groups[t * 43 + g];
            int sum = q[4 * g] + q[4 * g + 1] + q[4 * g + 2] + q[4 * g + 3];
            CHECK(group->scale == scales[g].scale,
                  "token %d, group %d: scale %g", t, g, group->scale);
            CHECK(group->sum == (float)sum * scales[g].scale,
                  "token %d, group %d: sum %g", t, g, group->sum);
        }
    }
    problem_close(&p);
}

void suite_matmul(void) {
    TEST(float_products);
    TEST(int8_products);
    TEST(groups_of_zeros_add_nothing);
    TEST(extreme_bytes_do_not_overflow);
    TEST(nan_and_infinity_propagate);
    TEST(quantizing_rounds_to_nearest);
    TEST(quantizing_odd_values);
    TEST(dequantizing_is_exact);
    TEST(inputs_are_quantized_rows);
}
