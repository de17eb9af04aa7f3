/* amx.c: products of BF16 weights in the tile registers of Intel's AMX.
 *
 * Owns the three parts of activations, and the order of sums. The instruction multiplies bfloat16 by bfloat16. A
 * float32 has 24 bits of mantissa: cut off after 8, 16 and 24, it is the sum of three bfloat16 numbers, exactly. So
 * no activation is rounded.
 *
 * A step is 32 columns: 16 rows of a packed panel, as they lie, by the same columns of up to 16 tokens. In a step the
 * instruction sums the products of the even columns from 0 up, fused, and those of the odd columns; then it adds both
 * to each other, and that to the sum of the steps before. A last step that is shorter has zeros behind it. The three
 * parts are summed apart and added last, the smallest first. That is one order for one token and for many.
 *
 * The instruction takes and gives denormal numbers, those below 2^-126, as zeros: of an activation up to 2^-126 is
 * lost. Infinity has parts that are NaN: the outputs of such a token are NaN.
 */
#include "kernels/amx.h"
#include "kernels/panels.h"

enum { STEP = 32, STEP_BYTES = STEP / 2 * VBYTES, PARTS = 3, PART_BYTES = STEP * 2 };

/* Step by step, of each three parts; a cache line more keeps tokens from having the same place in the cache. */
size_t amx_parts_bytes(int cols) { return (size_t)((cols - 1) / STEP + 1) * PARTS * PART_BYTES + CACHE_LINE; }

/* Writes the first 8 bits of x as bfloat16, and returns the rest. */
INLINE vf cut(uint8_t *part, vf x) {
    vstore_cut(part, x);
    return x - (vf)((vi)x & ~0xffff);
}

void amx_split(uint8_t *parts, const float *x, int cols) {
    for (int c = 0; c < (cols - 1) / STEP * STEP + STEP; c += LANES) {
        const int left = cols - c;
        uint8_t *to = parts + (size_t)(c / STEP * PARTS * PART_BYTES + c % STEP * 2);
        vf rest = left >= LANES ? vload(x + c) : left > 0 ? vload_n(x + c, left) : (vf){0};
        for (int i = 0; i < PARTS; i++) rest = cut(to + i * PART_BYTES, rest);
    }
}

/* One token has its parts as the rows of one tile: a product does for all three what it does for one. */
void amx_open(int n) { tiles_open(n == 1 ? PARTS : n, STEP / 2); }
void amx_close(void) { tiles_close(); }

/* Adds a step of a panel, or of two, by the parts of many tokens to the sums: tiles 0 to 2, a tile for each part, a row
 * for each token; 3 to 5 for the second panel. */
INLINE void add_step(const uint8_t *panel, const uint8_t *second, const uint8_t *x, size_t next_token) {
    TILE_LOAD(7, panel, VBYTES);
    TILE_LOAD(6, x, next_token);
    TILE_MULTIPLY(0, 6, 7);
    TILE_LOAD(6, x + PART_BYTES, next_token);
    TILE_MULTIPLY(1, 6, 7);
    TILE_LOAD(6, x + 2 * PART_BYTES, next_token);
    TILE_MULTIPLY(2, 6, 7);
    if (!second) return;
    TILE_LOAD(7, second, VBYTES);
    TILE_MULTIPLY(5, 6, 7);
    TILE_LOAD(6, x + PART_BYTES, next_token);
    TILE_MULTIPLY(4, 6, 7);
    TILE_LOAD(6, x, next_token);
    TILE_MULTIPLY(3, 6, 7);
}

/* The last n columns of a panel with zeros behind them. */
static const uint8_t *padded(uint8_t *step, const uint8_t *panel, int n) {
    memset(step, 0, STEP_BYTES);
    return memcpy(step, panel, (size_t)((n + 1) / 2 * VBYTES));
}

/* The sums of one token with one panel: the rows of tile 0 are its parts'. */
static vf product_1(const uint8_t *panel, const uint8_t *parts, int cols, Request r) {
    uint8_t last[STEP_BYTES];
    vf apart[PARTS];
    TILE_CLEAR(0);
    for (int c = 0; c < cols; c += STEP, panel += STEP_BYTES, parts += PARTS * PART_BYTES) {
        request_ahead(r, panel, STEP_BYTES);
        TILE_LOAD(7, cols - c < STEP ? padded(last, panel, cols - c) : panel, VBYTES);
        TILE_LOAD(6, parts, PART_BYTES);
        TILE_MULTIPLY(0, 6, 7);
    }
    TILE_STORE(0, apart, VBYTES);
    return apart[0] + (apart[1] + apart[2]);
}

void amx_product(vf *sums, const uint8_t *panels, size_t stride, int n_panels, const uint8_t *parts, int n, int cols,
                 Request r) {
    const size_t next_token = amx_parts_bytes(cols);
    uint8_t last[AMX_PANELS][STEP_BYTES];
    vf apart[AMX_PANELS][PARTS][AMX_TOKENS];
    if (n == 1) {
        *sums = product_1(panels, parts, cols, r);
        return;
    }
    TILE_CLEAR(0);
    TILE_CLEAR(1);
    TILE_CLEAR(2);
    TILE_CLEAR(3);
    TILE_CLEAR(4);
    TILE_CLEAR(5);
    for (int c = 0; c < cols; c += STEP, parts += PARTS * PART_BYTES) {
        const uint8_t *first = panels + (size_t)c / STEP * STEP_BYTES, *second = n_panels == 2 ? first + stride : NULL;
        request_ahead(r, first, STEP_BYTES);
        if (n_panels == 2) request_ahead(r, first + stride, STEP_BYTES);
        if (cols - c < STEP) first = padded(last[0], first, cols - c);
        if (cols - c < STEP && second) second = padded(last[1], second, cols - c);
        add_step(first, second, parts, next_token);
    }
    TILE_STORE(0, apart[0][0], VBYTES);
    TILE_STORE(1, apart[0][1], VBYTES);
    TILE_STORE(2, apart[0][2], VBYTES);
    TILE_STORE(3, apart[1][0], VBYTES);
    TILE_STORE(4, apart[1][1], VBYTES);
    TILE_STORE(5, apart[1][2], VBYTES);
    for (int p = 0; p < n_panels; p++)
        for (int i = 0; i < n; i++) sums[p * n + i] = apart[p][0][i] + (apart[p][1][i] + apart[p][2][i]);
}
