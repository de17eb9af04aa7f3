/* test_quant.c: quant.c's weight types, and matmul.c's products with them.
 *
 * Compares with the Python library gguf (tests/golden/blocks.bin, to the bit)
 * and products of every type with sums in double precision; no subdivision of
 * products changes a bit. Checks the table of types.
 */
#include "base/file.h"
#include "kernels/lanes.h"
#include "kernels/matmul.h"
#include "kernels/panels.h"
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

/* The layout of a type: GGUF's number, weights and bytes of a block, offsets of
 * its float16 scale and offset (-1: none). */
typedef struct {
    const char *name;
    Type type;
    uint32_t number;
    int block, bytes, scale, offset;
} Layout;

static const Layout LAYOUTS[] = {
    {"f32", TYPE_F32, 0, 1, 4, -1, -1},
    {"f16", TYPE_F16, 1, 1, 2, 0, -1},
    {"bf16", TYPE_BF16, 30, 1, 2, -1, -1},
    {"q8_0", TYPE_Q8_0, 8, 32, 34, 0, -1},
    {"q4_0", TYPE_Q4_0, 2, 32, 18, 0, -1},
    {"q4_1", TYPE_Q4_1, 3, 32, 20, 0, 2},
    {"q5_0", TYPE_Q5_0, 6, 32, 22, 0, -1},
    {"q5_1", TYPE_Q5_1, 7, 32, 24, 0, 2},
    {"q4_K", TYPE_Q4_K, 12, 256, 144, 0, 2},
    {"q5_K", TYPE_Q5_K, 13, 256, 176, 0, 2},
    {"q6_K", TYPE_Q6_K, 14, 256, 210, 208, -1},
    {"q2_K", TYPE_Q2_K, 10, 256, 84, 80, 82},
    {"q3_K", TYPE_Q3_K, 11, 256, 110, 108, -1},
    {"iq4_nl", TYPE_IQ4_NL, 20, 32, 18, 0, -1},
    {"iq4_xs", TYPE_IQ4_XS, 23, 256, 136, 0, -1},
};

enum {
    N_LAYOUTS = sizeof LAYOUTS / sizeof *LAYOUTS,
    MAX_ROWS = 33,
    MAX_COLS = 512,
    MAX_TOKENS = 19
};

/* ---- the table ---------------------------------------------------------- */

static void types_match_gguf(void) {
    Type type;
    int known = 0;
    for (uint32_t number = 0; number < 64; number++) {
        if (type_from_gguf(number, &type))
            continue;
        const Layout *l = LAYOUTS;
        while (l < LAYOUTS + N_LAYOUTS && l->number != number)
            l++;
        CHECK(l < LAYOUTS + N_LAYOUTS && l->type == type &&
                  !strcmp(type_name(type), l->name),
              "number %u is %s", number, type_name(type));
        known++;
    }
    CHECK(known == N_LAYOUTS, "%d types, expected %d", known, N_LAYOUTS);
    CHECK(type_from_gguf(UINT32_MAX, &type) &&
              type_from_gguf(0x80000000, &type),
          "large numbers are types");
}

/* quantize_row() writes every byte of each type that norma writes, whatever was
 * there, and the row of zeros has zeros. */
static void the_types_of_files_are_written(void) {
    enum { N = 256 };
    for (Type type = 0; type < (Type)N_TYPES; type++) {
        uint8_t bytes[2][N * sizeof(float)];
        float x[N] = {0}, y[N];
        size_t size = type_bytes(type, N);
        if (TYPES[type].file < 0)
            continue;
        for (int i = 0; i < 2; i++) {
            memset(bytes[i], i ? 0xee : 0x11, sizeof bytes[i]);
            quantize_row(bytes[i], type, x, N);
        }
        Tensor w = {.type = type, .rows = 1, .cols = N, .data = bytes[0]};
        dequantize_row(y, &w, 0);
        CHECK(!memcmp(bytes[0], bytes[1], size), "%s: bytes are not written",
              type_name(type));
        for (int i = 0; i < N; i++)
            CHECK(y[i] == 0, "%s: 0 is written as %g", type_name(type), y[i]);
    }
}

static void sizes_match_the_file(void) {
    for (int i = 0; i < N_LAYOUTS; i++) {
        const Layout *l = &LAYOUTS[i];
        Tensor w = {.type = l->type, .rows = 7, .cols = 3 * l->block};
        CHECK(TYPES[l->type].weights == l->block, "%s: blocks of %d", l->name,
              TYPES[l->type].weights);
        CHECK(l->block == 1 || (TYPES[l->type].mins > 0) == (l->offset >= 0),
              "%s: offsets", l->name);
        CHECK(l->block == 1 || TYPES[l->type].bytes == l->bytes, "%s: parts",
              l->name);
        CHECK(type_takes_int8(l->type) == (l->block > 1),
              "%s: int8 activations", l->name);
        for (int rows = 1; rows <= 7; rows += 6)
            CHECK(tensor_bytes(&w, rows) == (size_t)(rows * 3 * l->bytes),
                  "%s: %d rows take %zu bytes", l->name, rows,
                  tensor_bytes(&w, rows));
    }
    /* more than 2^32 weights, and more than 2^32 bytes */
    Tensor tall = {.type = TYPE_Q6_K, .rows = 40000000, .cols = 256};
    CHECK(tensor_bytes(&tall, tall.rows) == 40000000 * (size_t)210, "%zu bytes",
          tensor_bytes(&tall, tall.rows));
    Tensor largest = {.type = TYPE_F32, .cols = 0x7fffffff};
    CHECK(tensor_bytes(&largest, 0x7fffffff) == 0xfffffffc00000004, "%zu bytes",
          tensor_bytes(&largest, 0x7fffffff));
}

/* ---- the blocks of the Python library ----------------------------------- */

static void check_blocks(const Layout *l, const uint8_t *blocks,
                         const float *expected, int n) {
    float y[2048];
    for (int rows = 1; rows <= 4; rows *= 2) { /* as one row, and as several */
        Tensor w = {
            .type = l->type, .rows = rows, .cols = n / rows, .data = blocks};
        for (int r = 0; r < rows; r++)
            dequantize_row(y + r * w.cols, &w, r);
        for (int i = 0; i < n; i++)
            CHECK(!memcmp(&y[i], &expected[i], sizeof *y),
                  "%s: weight %d in %d rows is %.9g, expected %.9g", l->name, i,
                  rows, y[i], expected[i]);
    }
}

static void dequantization_matches_the_library(void) {
    size_t size, at = 0;
    uint8_t *data = (uint8_t *)file_read("tests/golden/blocks.bin", &size);
    CHECK(data, "no file");
    int found = 0;
    for (uint32_t head[2]; at < size; found++) { /* number, weights */
        memcpy(head, data + at, sizeof head);
        at += sizeof head;
        const Layout *l = LAYOUTS;
        while (l->number != head[0])
            l++;
        size_t n = head[1], bytes = n / (size_t)l->block * (size_t)l->bytes;
        float expected[2048];
        CHECK(n <= 2048 && at + bytes + n * sizeof *expected <= size,
              "%s: %zu weights", l->name, n);
        /* exact size, so that a sanitizer detects reads past it */
        uint8_t *blocks = malloc(bytes);
        memcpy(blocks, data + at, bytes);
        memcpy(expected, data + at + bytes, n * sizeof *expected);
        check_blocks(l, blocks, expected, (int)n);
        free(blocks);
        at += bytes + n * sizeof *expected;
    }
    free(data);
    CHECK(found == N_LAYOUTS - 1, "%d types in the file, expected all but f32",
          found);
}

/* ---- products ----------------------------------------------------------- */

static float random_float(uint64_t stream, int i) { /* [-1, 1) */
    return (float)(hash64(17, stream, (uint64_t)i) >> 40) / 8388608.0f - 1;
}

typedef struct {
    Tensor w;
    int n; /* tokens */
    uint8_t *data;
    float *x, *bias;
    InputBuffer buffer;
} Problem;

static void put_half(uint8_t *block, int at, float value) {
    uint16_t half = f32_to_f16(value);
    if (at >= 0)
        memcpy(block + at, &half, sizeof half);
}

static int problem_open(Problem *p, const Layout *l, int rows, int cols, int n,
                        bool bias) {
    *p = (Problem){.w = {.type = l->type, .rows = rows, .cols = cols}, .n = n};
    size_t bytes = tensor_bytes(&p->w, rows), n_x = (size_t)(n * cols);
    p->data = malloc(bytes);
    p->x = malloc(n_x * sizeof *p->x);
    p->bias = malloc((size_t)rows * sizeof *p->bias);
    for (size_t i = 0; i < bytes; i++)
        p->data[i] = (uint8_t)hash64(17, 1, i);
    for (int i = 0; i < rows * cols / l->block; i++) {
        uint8_t *block = p->data + (size_t)(i * l->bytes);
        float weight = random_float(2, i);
        put_half(block, l->scale, weight / 16);
        put_half(block, l->offset, random_float(3, i));
        if (l->type == TYPE_F32)
            memcpy(block, &weight, sizeof weight);
        /* any bits would include NaN */
        if (l->type == TYPE_BF16)
            memcpy(block, (const char *)&weight + 2, 2);
    }
    for (int i = 0; i < n * cols; i++)
        p->x[i] = random_float(4, i);
    for (int i = 0; i < rows; i++)
        p->bias[i] = 10 * random_float(5, i);
    p->w.data = p->data;
    p->w.bias = bias ? p->bias : NULL;
    return input_buffer_open(&p->buffer, MAX_TOKENS, cols, 3);
}

static void problem_close(Problem *p) {
    free(p->data);
    free(p->x);
    free(p->bias);
    input_buffer_close(&p->buffer);
}

/* Compares y with sums in double precision of dequantize_row's weights times
 * the activations, which block types use as int8 in groups of 32. */
static void check_against_exact(const Problem *p, const float *y, bool add) {
    float w[MAX_COLS], x[MAX_COLS];
    InputGroup scales[MAX_COLS / 32];
    int8_t q[MAX_COLS];
    int rows = p->w.rows, cols = p->w.cols;
    for (int t = 0; t < p->n; t++) {
        memcpy(x, p->x + (size_t)(t * cols), (size_t)cols * sizeof *x);
        bool bytes = type_takes_int8(p->w.type);
        if (bytes)
            quantize_i8(q, scales, x, cols, 32);
        for (int r = 0; r < rows; r++) {
            int i = t * rows + r;
            double sum = add ? (double)product_before(i) : 0, largest = 0,
                   magnitude = 16;
            dequantize_row(w, &p->w, r);
            for (int c = 0; c < cols; c++)
                largest = fmax(largest, (double)fabsf(w[c]));
            for (int c = 0; c < cols; c++) {
                double activation =
                    bytes ? q[c] * (double)scales[c / 32].scale : (double)x[c];
                sum += (double)w[c] * activation;
                magnitude += largest * fabs(activation);
            }
            if (p->w.bias)
                sum += (double)p->w.bias[r];
            CHECK(
                fabs(y[i] - sum) <= 0x1p-23 * magnitude,
                "%s %d x %d, %d tokens, add %d, bias %d: y[%d][%d] = %.9g, exact %.9g",
                type_name(p->w.type), rows, cols, p->n, add, p->w.bias != NULL,
                t, r, y[i], sum);
        }
    }
}

static void check_product(const Layout *l, int rows, int cols, int n) {
    static float y[MAX_TOKENS * MAX_ROWS];
    for (int kind = 0; kind < 4; kind++) {
        bool add = kind % 2, bias = kind / 2;
        Problem p;
        CHECK(!problem_open(&p, l, rows, cols, n, bias), "no memory");
        for (int i = 0; i < n * rows; i++)
            y[i] = product_before(i);
        Input in = input_prepare(&p.buffer, &p.w, p.x, n);
        (add ? matmul_add : matmul)(y, &p.w, &in, n);
        check_against_exact(&p, y, add);
        check_divisions(&(Product){&p.w, &p.buffer, p.x, y, n, add});
        problem_close(&p);
    }
}

static void products_of_every_type(void) {
    static const int rows[] = {1, 7, 8, 9, 33},
                     cols[] = {1, 17, 32, 64, 96, 172, 173, 256, 512},
                     tokens[] = {1, 2, 5, 7, 19};
    for (int type = 0; type < N_LAYOUTS; type++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 9; j++)
                for (int k = 0; k < 5; k++) {
                    if (cols[j] % LAYOUTS[type].block ||
                        (type + i + j + k) % (test_thorough() ? 1 : 7))
                        continue;
                    check_product(&LAYOUTS[type], rows[i], cols[j], tokens[k]);
                }
}

/* The largest bytes of each type, times activations of 127 and -127: no sum of
 * products overflows on its way to 32 bits. */
static void the_largest_products_do_not_overflow(void) {
    static float y[MAX_TOKENS * 33];
    for (int type = 0; type < N_LAYOUTS; type++) {
        const Layout *l = &LAYOUTS[type];
        for (int n = 1; type_takes_int8(l->type) && n <= 19; n += 18) {
            Problem p;
            CHECK(!problem_open(&p, l, 33, 256, n, false), "no memory");
            memset(p.data, 0xff, tensor_bytes(&p.w, 33));
            for (int i = 0; i < 33 * 256 / l->block; i++) {
                put_half(p.data + (size_t)(i * l->bytes), l->scale, 1);
                put_half(p.data + (size_t)(i * l->bytes), l->offset, 0);
            }
            for (int i = 0; i < n * 256; i++)
                p.x[i] = i / 256 % 2 ? -1 : 1;
            Input in = input_prepare(&p.buffer, &p.w, p.x, n);
            matmul(y, &p.w, &in, n);
            check_against_exact(&p, y, false);
            problem_close(&p);
        }
    }
}

/* An input prepared for int8 weights also serves float weights. */
static void mixed_weights_share_an_input(void) {
    enum { ROWS = 33, COLS = 64, TOKENS = 19 };
    static float own[TOKENS * ROWS], shared[TOKENS * ROWS];
    Tensor q8 = {.type = TYPE_Q8_0, .cols = COLS};
    for (int type = TYPE_F32; type <= TYPE_BF16; type++)
        for (int n = 1; n <= TOKENS; n += TOKENS - 1) {
            Problem p;
            CHECK(!problem_open(&p, &LAYOUTS[type], ROWS, COLS, n, false),
                  "no memory");
            Input in = input_prepare(&p.buffer, &p.w, p.x, n);
            matmul(own, &p.w, &in, n);
            in = input_prepare(&p.buffer, &q8, p.x, n);
            matmul(shared, &p.w, &in, n);
            CHECK(!memcmp(own, shared, sizeof *own * (size_t)(n * ROWS)),
                  "%s, %d tokens: other bits", type_name(p.w.type), n);
            problem_close(&p);
        }
}

/* Compares weight c of every row of a panel with dequantize_row. */
static void check_column(const Problem *p, const uint8_t *panel,
                         const float *weights, int cols, int c) {
    Type type = p->w.type;
    int n = TYPES[type].group, block = TYPES[type].weights;
    const uint8_t *at = panel + (size_t)(c / block * TYPES[type].bytes * LANES);
    int group = c % block / n;
    vb quad =
        (vb)(block_quad(type, at, group, c % n / 4) >> quad_shift(type, group));
    vf scale = block_scale(type, at, group, 0);
    vf min = TYPES[type].mins ? block_scale(type, at, group,
                                            1 + c % n * TYPES[type].mins / n)
                              : (vf){0};
    for (int r = 0; r < LANES && r < p->w.rows; r++) {
        int8_t byte = quad[4 * r + c % 4];
        int weight = BYTE_OFFSET ? (uint8_t)byte - zero_byte(type)
                                 : byte - zero_byte(type);
        float product = (float)weight * scale[r];
        double expected = (double)product + (double)min[r],
               found = (double)weights[r * cols + c];
        CHECK(fabs(found - expected) <=
                  0x1p-24 * (fabs((double)product) + fabs((double)min[r])),
              "%s [%d][%d] is %.9g, in its panel %.9g", type_name(type), r, c,
              found, expected);
    }
}

/* Columns of two-byte types are stored in pairs, the last one padded with
 * zeros; nothing is written after them. */
static void odd_columns_are_packed(void) {
    enum { ROWS = LANES + 3, MAX = 33 };
    static uint16_t words[ROWS * MAX], panel[67 * LANES];
    for (int type = TYPE_F16; type <= TYPE_BF16; type++)
        for (int cols = 1; cols <= MAX; cols++) {
            Tensor w = {
                .type = (Type)type, .rows = ROWS, .cols = cols, .data = words};
            for (int i = 0; i < ROWS * cols; i++)
                words[i] = (uint16_t)(i + 1);
            for (int p = 0; p < 2; p++) {
                memset(panel, 0xee, sizeof panel);
                panel_pack((uint8_t *)panel, &w, p, 0, cols);
                for (int i = 0; i < 67 * LANES; i++) {
                    int c = i / (2 * LANES) * 2 + i % 2,
                        r = p * LANES + i % (2 * LANES) / 2;
                    int row = r < ROWS ? r : ROWS - 1;
                    int found = panel[i], value = c < cols ? row * cols + c + 1
                                                  : c < cols + cols % 2
                                                      ? 0
                                                      : 0xeeee;
                    CHECK(found == value,
                          "%s, %d columns, panel %d, [%d][%d]: %d, expected %d",
                          type_name(w.type), cols, p, r, c, found, value);
                }
            }
        }
}

static void panels_have_the_same_weights(void) {
    enum { COLS = 512 };
    static float weights[LANES * COLS];
    static uint8_t panel[LANES * COLS * 2];
    for (int type = 0; type < N_LAYOUTS; type++) {
        if (LAYOUTS[type].block == 1)
            continue;
        Problem p;
        CHECK(!problem_open(&p, &LAYOUTS[type], 7, COLS, 1, false),
              "no memory");
        panel_pack(panel, &p.w, 0, 0, COLS);
        for (int r = 0; r < LANES && r < 7; r++)
            dequantize_row(weights + (size_t)(r * COLS), &p.w, r);
        for (int c = 0; c < COLS; c++)
            check_column(&p, panel, weights, COLS, c);
        problem_close(&p);
    }
}

/* ---- quantization ------------------------------------------------------- */

enum { SIDE = 32 };

/* The weights of write_quantized() in scripts/golden/make_golden.py. */
static void awkward_weights(float w[SIDE][SIDE]) {
    for (int r = 0; r < SIDE; r++)
        for (int i = 0; i < SIDE; i++) {
            uint64_t h = hash64(6, 1, (uint64_t)(r * SIDE + i));
            w[r][i] = ldexpf((float)(h >> 40) / 16777216.0f - 0.5f, r - 16);
            if (r == 0)
                w[r][i] = 0;
            if (r == 1)
                w[r][i] = (float)(i - 16) / 16;
            if (r == 2)
                w[r][i] = (float)(i * 8 - 127) / 2;
        }
}

static void quantization_matches_the_library(void) {
    static const Type types[] = {TYPE_F16, TYPE_BF16, TYPE_Q8_0, TYPE_Q4_0};
    float w[SIDE][SIDE];
    size_t size, at = 0;
    uint8_t *expected =
                (uint8_t *)file_read("tests/golden/quantized.bin", &size),
            row[SIDE * 4];
    CHECK(expected, "no golden bytes");
    awkward_weights(w);
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < SIDE; r++) {
            size_t bytes =
                tensor_bytes(&(Tensor){.type = types[i], .cols = SIDE}, 1);
            quantize_row(row, types[i], w[r], SIDE);
            CHECK(at + bytes <= size && !memcmp(row, expected + at, bytes),
                  "%s, row %d differs", type_name(types[i]), r);
            at += bytes;
        }
    CHECK(at == size, "%zu of %zu bytes compared", at, size);
    free(expected);
}

void suite_quant(void) {
    TEST(quantization_matches_the_library);
    TEST(types_match_gguf);
    TEST(the_types_of_files_are_written);
    TEST(sizes_match_the_file);
    TEST(dequantization_matches_the_library);
    TEST(products_of_every_type);
    TEST(the_largest_products_do_not_overflow);
    TEST(mixed_weights_share_an_input);
    TEST(odd_columns_are_packed);
    TEST(panels_have_the_same_weights);
}
