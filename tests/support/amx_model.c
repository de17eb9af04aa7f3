/* amx_model.c: a model of Intel's AMX in plain C.
 *
 * Models the tile instructions as in Intel's manual (Software Developer's
 * Manual, volume 2): shapes, loads, stores and the order of sums. kernels/amx.c
 * is compiled here again with the model in place of the instructions.
 */
#define amx_unit amx_model
#include "tests/support/amx_model.h"
#include "kernels/lanes.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, COLUMNS = 32 };

/* Denormal operands and results are flushed to zero. */
static float flushed(float x) {
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

static float multiply_add(float a, float b, float c) {
    return flushed(fmaf(flushed(a), flushed(b), c));
}

/* Sums the even and the odd columns separately, adds the two sums, and adds the
 * result to `sum`. */
float amx_model_step(float sum, const float *w, const float *x) {
    float even = 0, odd = 0;
    for (int c = 0; c < COLUMNS; c += 2) {
        even = multiply_add(w[c], x[c], even);
        odd = multiply_add(w[c + 1], x[c + 1], odd);
    }
    return flushed(sum + flushed(even + odd));
}

#if SIMD_AVX512 /* elsewhere kernels/amx.c is empty */

/* The memory operand of ldtilecfg, byte by byte. */
static _Thread_local uint8_t tile_shapes[64];
static _Thread_local uint8_t tiles[TILES][ROWS][ROW_BYTES];

static int row_bytes(int tile) {
    return tile_shapes[16 + 2 * tile] | tile_shapes[17 + 2 * tile] << 8;
}
static int rows(int tile) {
    return tile_shapes[48 + tile];
}

static void clear(int tile) {
    memset(tiles[tile], 0, sizeof tiles[tile]);
}

static void configure(const void *memory) {
    memcpy(tile_shapes, memory, sizeof tile_shapes);
    memset(tiles, 0, sizeof tiles);
}

static void release(void) {
    static const uint8_t none[64];
    configure(none);
}

static void load(int tile, const void *p, size_t stride) {
    clear(tile);
    for (int i = 0; i < rows(tile); i++)
        memcpy(tiles[tile][i], (const uint8_t *)p + (size_t)i * stride,
               (size_t)row_bytes(tile));
}

static void store(int tile, void *p, size_t stride) {
    for (int i = 0; i < rows(tile); i++)
        memcpy((uint8_t *)p + (size_t)i * stride, tiles[tile][i],
               (size_t)row_bytes(tile));
}

static float bfloat16_at(const uint8_t *p) {
    return bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* tdpbf16ps: row k of tile w has columns 2 k and 2 k + 1 of each output. */
static void multiply_bfloat16(int sum, int x, int w) {
    for (int i = 0; i < rows(sum); i++)
        for (int j = 0; j < row_bytes(sum) / 4; j++) {
            float weights[COLUMNS] = {0}, activations[COLUMNS] = {0}, total;
            for (int c = 0; c < row_bytes(x) / 2; c++) {
                weights[c] = bfloat16_at(&tiles[w][c / 2][j * 4 + c % 2 * 2]);
                activations[c] = bfloat16_at(&tiles[x][i][c * 2]);
            }
            memcpy(&total, &tiles[sum][i][j * 4], sizeof total);
            total = amx_model_step(total, weights, activations);
            memcpy(&tiles[sum][i][j * 4], &total, sizeof total);
        }
}

/* tdpbssd: row k of tile w has columns 4 k to 4 k + 3 of each output. */
static void multiply_int8(int sum, int x, int w) {
    for (int i = 0; i < rows(sum); i++)
        for (int j = 0; j < row_bytes(sum) / 4; j++) {
            int32_t total;
            memcpy(&total, &tiles[sum][i][j * 4], sizeof total);
            for (int c = 0; c < row_bytes(x); c++)
                total += (int8_t)tiles[x][i][c] *
                         (int8_t)tiles[w][c / 4][j * 4 + c % 4];
            memcpy(&tiles[sum][i][j * 4], &total, sizeof total);
        }
}

#define TILE_CONFIGURE(shapes)         configure(&(shapes))
#define TILE_RELEASE()                 release()
#define TILE_LOAD(tile, p, stride)     load(tile, p, stride)
#define TILE_STORE(tile, p, stride)    store(tile, p, stride)
#define TILE_CLEAR(tile)               clear(tile)
#define TILE_MULTIPLY(sum, x, w)       multiply_bfloat16(sum, x, w)
#define TILE_MULTIPLY_BYTES(sum, x, w) multiply_int8(sum, x, w)

#endif

#include "kernels/amx.c" /* NOLINT: compiled again on purpose */
