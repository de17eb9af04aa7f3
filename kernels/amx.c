/* amx.c: products in the tile registers of Intel AMX, a unit for tile_unit.h.
 *
 * To remove it, delete this file, its row in tile_unit.c, its line in
 * tile_unit.h and tests/kernels/test_amx.c.
 *
 * int8: used for 16 tokens or more. Groups are unpacked to signed bytes and
 * multiplied by 16 tokens at a time. Sums of a group are exact, so the result
 * has the same bits as the vector code's.
 *
 * BF16: used for any number of tokens. The instruction multiplies bfloat16 by
 * bfloat16. The 24-bit mantissa of a float32 is split into three parts of 8
 * bits: three bfloat16 numbers whose sum is exact, so no activation is rounded.
 *
 * A step is 32 columns: 16 rows of a packed panel by the same columns of up to
 * 16 tokens. In a step the instruction sums the products of the even columns in
 * ascending order, with fused multiply-adds, and likewise those of the odd
 * columns; it adds the two sums, then adds the result to the sum of the
 * preceding steps. A short last step is padded with zeros. The sums of the
 * three parts are added last, the smallest first. This order is the same for
 * any number of tokens.
 *
 * The instruction treats denormal numbers (below 2^-126) as zeros, in inputs
 * and outputs, so an activation may lose up to 2^-126. The parts of an infinite
 * activation contain NaN, so its token's outputs are NaN.
 * Tests: amx.
 */
#include "base/platform.h"
#include "kernels/input.h"
#include "kernels/tile_unit.h"
#include "kernels/tiles.h"

#if LANES == 16

enum {
    AMX_TOKENS = MANY_SUMS, /* max tokens of a tile */
    AMX_PANELS = 2,         /* max panels that are multiplied together */
    STEP = 32,              /* columns */
    STEP_BYTES = STEP / 2 * VBYTES,
    PARTS = 3,
    PART_BYTES = STEP * 2
};

/* ---- instructions ------------------------------------------------------- */

/* The shapes of the eight tiles. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileShapes;

#ifndef TILE_LOAD /* the tests define an emulation of the instructions */
#define TILE_CONFIGURE(shapes) __asm__ volatile("ldtilecfg %0" ::"m"(shapes))
#define TILE_RELEASE()         __asm__ volatile("tilerelease")

/* Rows are `stride` bytes apart in memory. */
#define TILE_LOAD(tile, p, stride)                                             \
    __asm__ volatile("tileloadd (%0,%1), %%tmm" #tile ::"r"(p),                \
                     "r"((size_t)(stride))                                     \
                     : "memory")
#define TILE_STORE(tile, p, stride)                                            \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1)" ::"r"(p),            \
                     "r"((size_t)(stride))                                     \
                     : "memory")
#define TILE_CLEAR(tile) __asm__ volatile("tilezero %%tmm" #tile ::)

/* sum[i][j] += x[i] . w[j] for rows x[i] and lanes w[j] of quads. A quad is two
 * bfloat16 numbers or four bytes. */
#define TILE_MULTIPLY(sum, x, w)                                               \
    __asm__ volatile("tdpbf16ps %%tmm" #w ", %%tmm" #x ", %%tmm" #sum ::)
#define TILE_MULTIPLY_BYTES(sum, x, w)                                         \
    __asm__ volatile("tdpbssd %%tmm" #w ", %%tmm" #x ", %%tmm" #sum ::)
#endif

/* Tiles 0 to 5 hold sums and tile 6 activations, a row for each token; tile 7
 * holds quads of weights. */
static void tiles_open(int tokens, int quads) {
    TileShapes shapes = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        shapes.row_bytes[tile] = tile == 6 ? (uint16_t)(4 * quads) : VBYTES;
        shapes.rows[tile] = (uint8_t)(tile == 7 ? quads : tokens);
    }
    TILE_CONFIGURE(shapes);
}

/* ---- int8 --------------------------------------------------------------- */

INLINE void multiply_group(const int8_t *q, size_t cols, const uint8_t *group) {
    TILE_CLEAR(0);
    TILE_LOAD(6, q, cols);
    TILE_LOAD(7, group, VBYTES);
    TILE_MULTIPLY_BYTES(0, 6, 7);
}

/* A Tile of one panel, unpacked to signed bytes, and AMX_TOKENS tokens. While a
 * group is multiplied, the previous one is stored and the one before that is
 * scaled. */
static void byte_tile_16(vf *sums, Operands o) {
    int group = TYPES[o.w->type].group, n_groups = o.n / group,
        halves = INPUT_GROUP / group;
    Layout l = unpacked_layout(o.w->type, group);
    size_t cols = o.in->cols, next = o.in->row_groups,
           bytes = group_bytes(l.quads, l.mins);
    const int8_t *q = o.in->q + o.t * cols;
    const InputGroup *x = o.in->groups + o.t * next;
    vi dots[2][AMX_TOKENS];
    vf totals[AMX_TOKENS] = {0};
    multiply_group(q, cols, o.panels);
    for (int g = 0; g <= n_groups; g++) {
        if (g < n_groups)
            TILE_STORE(0, dots[g % 2], VBYTES);
        if (g + 1 < n_groups)
            multiply_group(q += group, cols, o.panels + (g + 1) * bytes);
        if (g)
            add_scaled(totals, dots[(g - 1) % 2], &l, o.panels, g - 1,
                       x + (g - 1) / halves, next, AMX_TOKENS);
    }
    memcpy(sums, totals, sizeof totals);
}

static void multiply_bytes(const Task *p) {
    tiles_open(AMX_TOKENS, TYPES[p->w->type].group / 4);
    for (int panel = p->panel; panel < p->end; panel++)
        many_tokens(p, panel, 1, byte_tile_16, AMX_TOKENS, 0);
    TILE_RELEASE();
}

/* ---- the three parts of activations ------------------------------------- */

/* Bytes of a token's parts, plus one cache line, so that different tokens do
 * not fall into the same cache sets. */
static size_t parts_bytes(int cols) {
    return (size_t)((cols - 1) / STEP + 1) * PARTS * PART_BYTES + CACHE_LINE;
}

/* Writes the upper 8 mantissa bits of x as bfloat16 and returns the
 * remainder. */
INLINE vf cut(uint8_t *part, vf x) {
    vstore_cut(part, x);
    return x - (vf)((vi)x & ~0xffff);
}

/* Writes x[cols] as three bfloat16 parts, which sum to x. */
static void split(uint8_t *parts, const float *x, int cols) {
    for (int c = 0; c < (cols - 1) / STEP * STEP + STEP; c += LANES) {
        int left = cols - c;
        uint8_t *to = parts + c / STEP * PARTS * PART_BYTES + c % STEP * 2;
        vf rest = left >= LANES ? vload(x + c)
                  : left > 0    ? vload_n(x + c, left)
                                : (vf){0};
        for (int i = 0; i < PARTS; i++)
            rest = cut(to + i * PART_BYTES, rest);
    }
}

/* ---- BF16 --------------------------------------------------------------- */

/* Returns the outputs of one token and one panel. The token's parts are the
 * rows of tile 0, so one product serves all three. */
static vf one_token(const uint8_t *panel, const uint8_t *parts, int cols) {
    vf sums[PARTS];
    TILE_CLEAR(0);
    for (int c = 0; c < cols;
         c += STEP, panel += STEP_BYTES, parts += PARTS * PART_BYTES) {
        TILE_LOAD(7, panel, VBYTES);
        TILE_LOAD(6, parts, PART_BYTES);
        TILE_MULTIPLY(0, 6, 7);
    }
    TILE_STORE(0, sums, VBYTES);
    return sums[0] + (sums[1] + sums[2]);
}

/* Multiplies a step of one or two panels by the parts of several tokens and
 * adds it to the sums. Tiles 0 to 2 are the sums of the first panel, a tile for
 * each part and a row for each token; tiles 3 to 5, of the second. */
INLINE void add_step(const uint8_t *panel, const uint8_t *second,
                     const uint8_t *x, size_t next_token) {
    TILE_LOAD(7, panel, VBYTES);
    TILE_LOAD(6, x, next_token);
    TILE_MULTIPLY(0, 6, 7);
    TILE_LOAD(6, x + PART_BYTES, next_token);
    TILE_MULTIPLY(1, 6, 7);
    TILE_LOAD(6, x + 2 * PART_BYTES, next_token);
    TILE_MULTIPLY(2, 6, 7);
    if (!second)
        return;
    TILE_LOAD(7, second, VBYTES);
    TILE_MULTIPLY(5, 6, 7);
    TILE_LOAD(6, x + PART_BYTES, next_token);
    TILE_MULTIPLY(4, 6, 7);
    TILE_LOAD(6, x, next_token);
    TILE_MULTIPLY(3, 6, 7);
}

/* sums[n_panels][n] = the products of packed panels, `stride` bytes apart, with
 * the parts of n > 1 tokens. */
static void several_tokens(vf *sums, const uint8_t *panels, size_t stride,
                           int n_panels, const uint8_t *parts, int n,
                           int cols) {
    size_t next_token = parts_bytes(cols);
    vf by_part[AMX_PANELS][PARTS][AMX_TOKENS];
    TILE_CLEAR(0);
    TILE_CLEAR(1);
    TILE_CLEAR(2);
    TILE_CLEAR(3);
    TILE_CLEAR(4);
    TILE_CLEAR(5);
    for (int c = 0; c < cols;
         c += STEP, panels += STEP_BYTES, parts += PARTS * PART_BYTES) {
        const uint8_t *second = n_panels == 2 ? panels + stride : NULL;
        add_step(panels, second, parts, next_token);
    }
    TILE_STORE(0, by_part[0][0], VBYTES);
    TILE_STORE(1, by_part[0][1], VBYTES);
    TILE_STORE(2, by_part[0][2], VBYTES);
    TILE_STORE(3, by_part[1][0], VBYTES);
    TILE_STORE(4, by_part[1][1], VBYTES);
    TILE_STORE(5, by_part[1][2], VBYTES);
    for (int i = 0; i < n_panels; i++)
        for (int t = 0; t < n; t++)
            *sums++ = by_part[i][0][t] + (by_part[i][1][t] + by_part[i][2][t]);
}

/* Number of panels of w that fit into the second-level cache and into the
 * scratch, for many tokens. */
static int cached_panels(const Tensor *w) {
    int fit = (int)((1 << 20) / packed_bytes(w, w->cols)),
        max = 2 * SCRATCH_PANELS * VBYTES / (2 * LANES);
    return fit < AMX_PANELS ? AMX_PANELS
           : fit > max      ? max
                            : fit / AMX_PANELS * AMX_PANELS;
}

/* The outputs of tokens [t, t + tokens) for packed panels [panel, end) at
 * `panels`. */
static void multiply_block(const Task *p, const uint8_t *panels, size_t stride,
                           int panel, int end, int t, int tokens) {
    Input from_t = input_from(p->in, t);
    for (int n_panels; panel < end;
         panel += n_panels, panels += (size_t)n_panels * stride) {
        vf sums[AMX_PANELS * AMX_TOKENS];
        n_panels = tokens > 1 && end - panel >= AMX_PANELS ? AMX_PANELS : 1;
        if (tokens == 1)
            *sums = one_token(panels, from_t.unit_rows, p->w->cols);
        else
            several_tokens(sums, panels, stride, n_panels, from_t.unit_rows,
                           tokens, p->w->cols);
        store_sums(p, sums, panel, n_panels, t, tokens, 0);
    }
}

/* Multiplies each block of panels by 16 tokens, then by the next 16. */
static void multiply_bf16(const Task *p) {
    int max = p->n == 1 ? 1 : cached_panels(p->w);
    int opened = 0;
    for (int panel = p->panel; panel < p->end; panel += max) {
        int block_end = p->end - panel < max ? p->end : panel + max;
        size_t stride;
        const uint8_t *panels =
            packed_panels(p, panel, block_end - panel, 0, p->w->cols, &stride);
        for (int t = 0; t < p->n; t += AMX_TOKENS) {
            int tokens = min_int(p->n - t, AMX_TOKENS);
            if (tokens != opened)
                tiles_open(tokens == 1 ? PARTS : tokens, STEP / 2);
            opened = tokens;
            multiply_block(p, panels, stride, panel, block_end, t, tokens);
        }
    }
    TILE_RELEASE();
}

/* ---- the unit ----------------------------------------------------------- */

static bool multiply_task(const Task *p) {
    bool bytes = TYPES[p->w->type].group > 0 && p->n >= AMX_TOKENS;
    bool bf16 = p->w->type == TYPE_BF16 && p->in->unit_rows;
    if (bytes)
        multiply_bytes(p);
    if (bf16)
        multiply_bf16(p);
    return bytes || bf16;
}

static int task_panels(const Tensor *w) {
    return w->type == TYPE_BF16 ? cached_panels(w) : 0;
}

const TileUnit amx_unit = {processor_has_tiles, parts_bytes, split,
                           multiply_task, task_panels};

#else /* a row of a tile is a vector of 16 lanes */
static bool never(void) {
    return false;
}
const TileUnit amx_unit = {.available = never};
#endif
