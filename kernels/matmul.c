/* matmul.c: linear layers, y = x w^T, for every weight type.
 *
 * Owns the tiles, the loops around them and the memory for the activations' side. What panels, blocks, groups and quads
 * are, panels.h says. The threads are the callers', inside a parallel region whose worksharing loops are here.
 *
 * A panel is multiplied packed, that is in the bits of the file, for a few tokens; for many tokens it is unpacked
 * first, once for all of them. A tile computes the outputs of a few panels by a few tokens side by side, in registers.
 *
 * The one rule: a lane is an output. Its sum goes along cols from 0 up; a group of int8 weights, or 16 columns of
 * floats, is summed by itself and then added. Tiles change which outputs are computed side by side, never how one
 * is computed. That is why no bit of a result depends on chunks and threads.
 */
#include "kernels/matmul.h"
#include "base/memory.h"
#include "base/platform.h"
#include "kernels/amx.h"
#include "kernels/panels.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include <omp.h>
#include <stdlib.h>

enum {
    INPUT_GROUP = 32,                  /* activations to a scale, unless the weights are TYPE_I8 */
    COLUMNS = 16,                      /* of floats that are summed by themselves */
    MOST_PANELS = 4,                   /* of a tile for one token */
    TILE_PANELS = 2,                   /* of a tile for more tokens */
    TILE_TOKENS = LANES == 16 ? 6 : 3, /* the registers hold the sums of 2 panels by so many, */
    MOST_TOKENS = LANES == 16 ? 8 : 4, /* and of 1 panel by so many */
    MOST_SUMS = 2 * TILE_TOKENS,       /* of a tile */
    FEW_TOKENS = AMX_TOKENS            /* so many are worth multiplying a panel packed */
};

/* ---- tiles ------------------------------------------------------------------ */

/* Adds the products of columns [col, col + n) of a tile's panels with its tokens, from t on, to sums[panels][tokens];
 * at column 0 it first sets them to 0. `panels` is at column col of the first panel, the others follow at distances of
 * `stride` bytes. A tile of one panel, which reads from memory, asks for what comes. */
typedef void Tile(vf *sums, const uint8_t *panels, size_t stride, const Input *in, int t, int col, int n, Request r);

/* Sums n columns by themselves and adds that to the sums. */
INLINE void add_columns(vf *sums, const uint8_t *panels, size_t stride, const float *const *x, Type type, const int n,
                        const int n_panels, const int tokens) {
    vf parts[MOST_SUMS];
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) parts[k] = (vf){0};
    UNROLL
    for (int c = 0; c < n; c++) {
        vf w[MOST_PANELS];
        UNROLL
        for (int p = 0; p < n_panels; p++) w[p] = load_column(type, panels + (size_t)p * stride, c);
        UNROLL
        for (int i = 0; i < tokens; i++) {
            const vf xi = vset(x[i][c]);
            UNROLL
            for (int p = 0; p < n_panels; p++) parts[p * tokens + i] = vfma(w[p], xi, parts[p * tokens + i]);
        }
    }
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) sums[k] += parts[k];
}

INLINE void float_tile(vf *sums, const uint8_t *panels, size_t stride, const Input *in, int t, int col, int n,
                       Request r, Type type, const int n_panels, const int tokens) {
    const float *x[MOST_TOKENS];
    const size_t step = columns_bytes(type, COLUMNS);
    vf totals[MOST_SUMS];
    UNROLL
    for (int i = 0; i < tokens; i++) x[i] = in->x + (size_t)(t + i) * (size_t)in->cols + (size_t)col;
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) totals[k] = col ? sums[k] : (vf){0};
    for (; n >= COLUMNS; n -= COLUMNS, panels += step) {
        if (n_panels == 1) request_ahead(r, panels, step);
        add_columns(totals, panels, stride, x, type, COLUMNS, n_panels, tokens);
        UNROLL
        for (int i = 0; i < tokens; i++) x[i] += COLUMNS;
    }
    if (n > 0) add_columns(totals, panels, stride, x, type, n, n_panels, tokens);
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) sums[k] = totals[k];
}

/* How the groups of a panel lie. All of it is constant where a tile is compiled, but for the groups of TYPE_I8. */
typedef struct {
    Type type;        /* of packed blocks; TYPE_I8: unpacked groups */
    int zero;         /* the byte that stands for a weight of 0 */
    int quads;        /* of a group */
    int mins;         /* of a group: 1 or none */
    int groups;       /* of a block */
    int input_groups; /* groups to one group of the activations: 1 or 2 */
    size_t bytes;     /* of a block, for all rows */
} Layout;

INLINE Layout packed_layout(Type type) {
    const int quads = TYPES[type].group / 4, groups = TYPES[type].weights / TYPES[type].group;
    const size_t bytes = (size_t)TYPES[type].bytes * LANES;
    return (Layout){type, block_zero(type), quads, TYPES[type].min, groups, INPUT_GROUP / 4 / quads, bytes};
}

INLINE Layout unpacked_layout(int quads, int mins, int input_groups) {
    return (Layout){TYPE_I8, BYTE_OFFSET, quads, mins, 1, input_groups, group_bytes(quads, mins)};
}

INLINE vb load_quad(const Layout *l, const uint8_t *block, int i, int q) {
    if (l->type != TYPE_I8) return (vb)block_quad(l->type, block, i, q);
    vb v;
    memcpy(&v, block + q * VBYTES, sizeof v);
    return v;
}

/* The scale of group i, or its min. */
INLINE vf load_scale(const Layout *l, const uint8_t *block, int i, bool min) {
    if (l->type != TYPE_I8) return block_scale(l->type, block, i, min);
    return vload((const float *)(const void *)(block + (l->quads + min) * VBYTES));
}

/* What the sum of a group's products begins with: it makes up for `zero`, which every weight has too much. */
INLINE vi first_sum(const Layout *l, const InputGroup *x, int group) {
    const int total = l->input_groups == 1 ? x->total : group % 2 ? x->total - x->first_half : x->first_half;
    return vset_int(-l->zero * total);
}

/* Adds a group's sums of products with one panel to the totals, times the scales, and its min. */
INLINE void add_scaled(vf *sums, const vi *dots, const Layout *l, const uint8_t *block, int i, const InputGroup *x,
                       size_t next, const int tokens) {
    const vf scale = load_scale(l, block, i, false);
    UNROLL
    for (int j = 0; j < tokens; j++) sums[j] = vfma(vfloat(dots[j]), scale * x[(size_t)j * next].scale, sums[j]);
    if (!l->mins) return;
    const vf min = load_scale(l, block, i, true);
    UNROLL
    for (int j = 0; j < tokens; j++) sums[j] = vfma(min, vset(x[(size_t)j * next].sum), sums[j]);
}

/* Adds the products of group i of a block, which is group `group` of the row. */
INLINE void add_group(vf *sums, const Layout *l, const uint8_t *block, size_t stride, int i, const int8_t *q,
                      const InputGroup *x, const Input *in, int group, const int n_panels, const int tokens) {
    const size_t next = (size_t)(in->cols / in->group); /* from a token's groups to the next's */
    vi dots[MOST_PANELS][MOST_TOKENS];
    UNROLL
    for (int j = 0; j < tokens; j++) UNROLL
    for (int p = 0; p < n_panels; p++) dots[p][j] = first_sum(l, x + (size_t)j * next, group);
    UNROLL
    for (int k = 0; k < l->quads; k++) {
        vb w[MOST_PANELS];
        UNROLL
        for (int p = 0; p < n_panels; p++) w[p] = load_quad(l, block + (size_t)p * stride, i, k);
        UNROLL
        for (int j = 0; j < tokens; j++) {
            const vb xj = vset_quad(q + (size_t)j * (size_t)in->cols + (size_t)k * 4);
            UNROLL
            for (int p = 0; p < n_panels; p++) dots[p][j] = vdot(dots[p][j], w[p], xj);
        }
    }
    UNROLL
    for (int p = 0; p < n_panels; p++)
        add_scaled(sums + p * tokens, dots[p], l, block + (size_t)p * stride, i, x, next, tokens);
}

INLINE void byte_tile(vf *sums, const uint8_t *panels, size_t stride, const Input *in, int t, int col, int n, Request r,
                      const Layout l, const int n_panels, const int tokens) {
    const int first = col / (4 * l.quads), n_groups = n / (4 * l.quads);
    const int8_t *q = in->q + (size_t)t * (size_t)in->cols + (size_t)col;
    const InputGroup *x = in->groups + (size_t)t * (size_t)(in->cols / in->group);
    vf totals[MOST_SUMS];
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) totals[k] = col ? sums[k] : (vf){0};
    for (int g = 0; g < n_groups; g += l.groups, panels += l.bytes) {
        if (n_panels == 1) request_ahead(r, panels, l.bytes);
        UNROLL
        for (int i = 0; i < l.groups; i++)
            add_group(totals, &l, panels, stride, i, q + (size_t)(g + i) * 4 * (size_t)l.quads,
                      x + (first + g + i) / l.input_groups, in, first + g + i, n_panels, tokens);
    }
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) sums[k] = totals[k];
}

INLINE void multiply_group(const int8_t *q, size_t cols, const uint8_t *group) {
    TILE_CLEAR(0);
    TILE_LOAD(6, q, cols);
    TILE_LOAD(7, group, VBYTES);
    TILE_MULTIPLY_BYTES(0, 6, 7);
}

/* What a tile asks for that computes from an unpacked copy of a stream. */
typedef struct {
    Request request;
    const uint8_t *packed; /* the columns that the tile computes */
    size_t bytes;          /* of a group of them */
} Stream;

/* The same as Tile for columns of one panel, unpacked to signed bytes, and AMX_TOKENS tokens. */
typedef void AmxTile(vf *sums, const uint8_t *panel, const Input *in, int t, int col, int n, Stream s);

/* While a group is multiplied, the one before is stored, and the one before that is scaled. The sums of a group are
 * exact, so they are those of vdot. */
INLINE void amx_byte_tile(vf *sums, const uint8_t *panel, const Input *in, int t, int col, int n, Stream s,
                          const Layout l) {
    const size_t cols = (size_t)in->cols, next = cols / (size_t)in->group;
    const int8_t *q = in->q + (size_t)t * cols + (size_t)col;
    const InputGroup *x = in->groups + (size_t)t * next + col / in->group;
    const int n_groups = n / (4 * l.quads);
    vi dots[2][AMX_TOKENS];
    vf totals[AMX_TOKENS];
    UNROLL
    for (int k = 0; k < AMX_TOKENS; k++) totals[k] = col ? sums[k] : (vf){0};
    multiply_group(q, cols, panel);
    for (int g = 0; g <= n_groups; g++, panel += l.bytes) {
        if (g < n_groups) TILE_STORE(0, dots[g % 2], VBYTES);
        if (g + 1 < n_groups) multiply_group(q += 4 * l.quads, cols, panel + l.bytes);
        if (g < n_groups) request_ahead(s.request, s.packed + (size_t)g * s.bytes, s.bytes);
        if (g)
            add_scaled(totals, dots[(g - 1) % 2], &l, panel - l.bytes, 0, x + (g - 1) / l.input_groups, next,
                       AMX_TOKENS);
    }
    UNROLL
    for (int k = 0; k < AMX_TOKENS; k++) sums[k] = totals[k];
}

/* Each tile is a function of its own, because the compiler keeps the sums in registers only if it does not see all
 * tiles at once. NAME_PxT is for P panels and T tokens; M stands for the most. NAME[0, 1, 2] are for 1, 2 and 4
 * panels, and of these [0, 1, 2] for 1, 2 and M tokens. */
#define TILE(name, tile, layout, panels, tokens)                                                                       \
    NOINLINE void name(vf *sums, const uint8_t *p, size_t stride, const Input *in, int t, int col, int n, Request r) { \
        tile(sums, p, stride, in, t, col, n, r, layout, panels, tokens);                                               \
    }
#define TILES(name, tile, layout, ...)                                                                                 \
    TILE(name##_1x1, tile, layout, 1, 1)                                                                               \
    TILE(name##_2x1, tile, layout, 2, 1)                                                                               \
    TILE(name##_1x2, tile, layout, 1, 2)                                                                               \
    TILE(name##_2x2, tile, layout, 2, 2)                                                                               \
    TILE(name##_1xM, tile, layout, 1, TILE_TOKENS)                                                                     \
    TILE(name##_2xM, tile, layout, 2, TILE_TOKENS)                                                                     \
    static Tile *const name[][3] = {                                                                                   \
        {name##_1x1, name##_1x2, name##_1xM}, {name##_2x1, name##_2x2, name##_2xM}, __VA_ARGS__};
/* Tiles of one packed panel, for PACKED_SIZES tokens. */
#define PACKED_TILES(name, tile, layout)                                                                               \
    TILE(name##_1xM, tile, layout, 1, MOST_TOKENS)                                                                     \
    TILE(name##_1x4, tile, layout, 1, 4)                                                                               \
    TILE(name##_1x2, tile, layout, 1, 2)                                                                               \
    TILE(name##_1x1, tile, layout, 1, 1)                                                                               \
    static Tile *const name##_packed[] = {name##_1xM, name##_1x4, name##_1x2, name##_1x1};
static const int PACKED_SIZES[] = {MOST_TOKENS, 4, 2, 1};

/* Tiles of unpacked panels: float32; groups of TYPE_I8; groups of 32 weights without and with a min, of 16 without. */
TILE(floats_4x1, float_tile, TYPE_F32, 4, 1)
TILES(floats, float_tile, TYPE_F32, {floats_4x1})
TILE(groups_4x1, byte_tile, unpacked_layout(in->group / 4, 0, 1), 4, 1)
TILES(groups, byte_tile, unpacked_layout(in->group / 4, 0, 1), {groups_4x1})
TILES(groups_32_0, byte_tile, unpacked_layout(8, 0, 1), )
TILES(groups_32_1, byte_tile, unpacked_layout(8, 1, 1), )
TILES(groups_16_0, byte_tile, unpacked_layout(4, 0, 2), )
#define AMX_TILE(name, layout)                                                                                         \
    NOINLINE void name(vf *sums, const uint8_t *p, const Input *in, int t, int col, int n, Stream s) {                 \
        amx_byte_tile(sums, p, in, t, col, n, s, layout);                                                              \
    }
AMX_TILE(amx_32_0, unpacked_layout(8, 0, 1))
AMX_TILE(amx_32_1, unpacked_layout(8, 1, 1))
AMX_TILE(amx_16_0, unpacked_layout(4, 0, 2))

/* ---- what each type has -------------------------------------------------------------------- */

INLINE void unpack_columns(uint8_t *unpacked, Type type, const uint8_t *panel, int n, int offset, Request r) {
    (void)offset;
    request_ahead(r, panel, columns_bytes(type, n));
    for (int c = 0; c < n; c++) vstore((float *)(void *)unpacked + c * LANES, load_column(type, panel, c));
}

/* `offset` is added to the weights: BYTE_OFFSET, or, for tiles, 0. */
INLINE void unpack_blocks(uint8_t *unpacked, Type type, const uint8_t *panel, int n, int offset, Request r) {
    const Layout l = packed_layout(type);
    request_ahead(r, panel, (size_t)(n / TYPES[type].weights) * l.bytes);
    for (int c = 0; c < n; c += TYPES[type].weights, panel += l.bytes)
        for (int i = 0; i < l.groups; i++, unpacked += group_bytes(l.quads, l.mins)) {
            UNROLL
            for (int k = 0; k < l.quads; k++) {
                const vub quad = (vub)block_quad(type, panel, i, k) + (uint8_t)(offset - l.zero);
                memcpy(unpacked + k * VBYTES, &quad, sizeof quad);
            }
            for (int min = 0; min <= l.mins; min++)
                vstore((float *)(void *)(unpacked + (l.quads + min) * VBYTES), block_scale(type, panel, i, min));
        }
}

/* For every type with two layouts: the tiles of one packed panel, and the unpacking of n columns. */
#define PACKED(id, tile, layout, unpack)                                                                               \
    PACKED_TILES(id, tile, layout)                                                                                     \
    static void unpack_##id(uint8_t *unpacked, const uint8_t *panel, int n, int offset, Request r) {                   \
        unpack(unpacked, TYPE_##id, panel, n, offset, r);                                                              \
    }
#define FLOATS(id, ...) PACKED(id, float_tile, TYPE_##id, unpack_columns)
#define BYTES(id, ...)  PACKED(id, byte_tile, packed_layout(TYPE_##id), unpack_blocks)
FLOAT16_TYPES(FLOATS)
BLOCK_TYPES(BYTES)
PACKED_TILES(F32, float_tile, TYPE_F32)
PACKED_TILES(I8, byte_tile, unpacked_layout(in->group / 4, 0, 1))

static const struct {
    Tile *const (*unpacked)[3];
    Tile *const *packed;
    void (*unpack)(uint8_t *unpacked, const uint8_t *panel, int n, int offset, Request r); /* NULL: one layout */
    AmxTile *amx;                                                                          /* NULL: has none */
} KERNELS[] = {
#define FLOAT16_KERNELS(id, ...) [TYPE_##id] = {floats, id##_packed, unpack_##id, NULL},
#define BLOCK_KERNELS(id, name, gguf, file, weights, bytes, group, min, ...)                                           \
    [TYPE_##id] = {groups_##group##_##min, id##_packed, unpack_##id, amx_##group##_##min},
    [TYPE_F32] = {floats, F32_packed, NULL, NULL},
    [TYPE_I8] = {groups, I8_packed, NULL, NULL},
    FLOAT16_TYPES(FLOAT16_KERNELS) BLOCK_TYPES(BLOCK_KERNELS)};

/* ---- products ------------------------------------------------------------------- */

/* How many columns are packed at a time on the way: whole groups and blocks that stay in the first-level cache. */
static int columns_at_once(const Tensor *w) {
    if (!type_wants_bytes(w->type)) return 128;
    const int whole = w->type == TYPE_I8 ? w->group : 256;
    return whole < 256 ? 256 / whole * whole : whole;
}

/* What the tile of the tokens from t on asks for: the first for what comes, unless panels are made on the way. */
static Request requests_of(const Tensor *w, int t) {
    const Request none = {0};
    return w->panels && t == 0 ? w->request : none;
}

/* Columns [col, col + n) of n_panels packed panels: those that w has, or new ones in `room`. */
static const uint8_t *packed_panels(const Tensor *w, int panel, int n_panels, int col, int n, uint8_t *room,
                                    size_t *stride) {
    *stride = packed_bytes(w, w->panels ? w->cols : n);
    if (w->panels) return w->panels + (size_t)panel * *stride + (col ? packed_bytes(w, col) : 0);
    for (int p = 0; p < n_panels; p++) panel_pack(room + (size_t)p * *stride, w, panel + p, col, n);
    return room;
}

/* All columns of n_panels unpacked panels: those that w has, or new ones in the second half of the scratch. */
static const uint8_t *unpacked_panels(const Tensor *w, int panel, int n_panels, const Input *in, int offset,
                                      size_t *stride) {
    const bool one_layout = !KERNELS[w->type].unpack;
    if (w->panels && one_layout) return packed_panels(w, panel, n_panels, 0, w->cols, NULL, stride);
    uint8_t *const unpacked = in->scratch + in->scratch_bytes / 2;
    const int step = columns_at_once(w);
    *stride = unpacked_bytes(w, w->cols);
    for (int col = 0; col < w->cols; col += step) {
        const int n = w->cols - col < step ? w->cols - col : step;
        for (int p = 0; p < n_panels; p++) {
            uint8_t *to = unpacked + (size_t)p * *stride + unpacked_bytes(w, col);
            size_t packed_stride;
            if (one_layout)
                panel_pack(to, w, panel + p, col, n);
            else
                KERNELS[w->type].unpack(to, packed_panels(w, panel + p, 1, col, n, in->scratch, &packed_stride), n,
                                        offset, requests_of(w, 0));
        }
    }
    return unpacked;
}

/* Where a tile writes: the outputs of its panels, as far as they are asked for. */
typedef struct {
    float *y; /* of token 0, row `row` */
    size_t stride;
    int row, n_rows; /* that are asked for */
    int panel, n_panels;
    bool add;
} Output;

/* y[0 .. n) (+)= lanes [first, first + n) of v. */
INLINE void store_lanes(float *y, vf v, int first, int n, bool add) {
    if (n == LANES) {
        vstore(y, add ? vload(y) + v : v);
        return;
    }
    for (int j = 0; j < n; j++) y[j] = add ? y[j] + v[first + j] : v[first + j];
}

/* Writes sums[panels][tokens], from token t on. */
static void store_sums(const Output *out, const vf *sums, int t, int tokens) {
    for (int p = 0; p < out->n_panels; p++) {
        const int top = (out->panel + p) * LANES, end = out->row + out->n_rows;
        const int first = top < out->row ? out->row - top : 0, last = end - top < LANES ? end - top : LANES;
        float *y = out->y + (size_t)t * out->stride + (top + first - out->row);
        for (int i = 0; i < tokens; i++, y += out->stride)
            store_lanes(y, sums[p * tokens + i], first, last - first, out->add);
    }
}

/* Prefetches what store_sums will write, before the tile is computed. */
static void prefetch_outputs(const Output *out, int t, int tokens) {
    for (int i = t; i < t + tokens; i++)
        for (int p = 0; p < out->n_panels; p++)
            prefetch_write(out->y + (size_t)i * out->stride + (out->panel + p) * LANES - out->row);
}

/* Whether n tokens by w are a tile of AMX. */
static bool is_amx(const Tensor *w, const Input *in, int n) {
    return n >= AMX_TOKENS && in->tiles && KERNELS[w->type].amx;
}

/* Columns from col on of one packed panel by AMX_TOKENS tokens. */
static void amx_columns(vf *sums, const Tensor *w, const uint8_t *panel, const Input *in, int col, int n) {
    uint8_t *const unpacked = in->scratch + in->scratch_bytes / 2;
    const Stream s = {requests_of(w, 0), panel, packed_bytes(w, n) / (size_t)(n / TYPES[w->type].group)};
    KERNELS[w->type].unpack(unpacked, panel, n, 0, (Request){0});
    KERNELS[w->type].amx(sums, unpacked, in, 0, col, n, s);
}

/* Columns from col on of one packed panel by n tokens. The first tile asks for what comes, so that it is on its way
 * while the others compute. */
static void few_columns(vf *sums, const Tensor *w, const uint8_t *panel, const Input *in, int n, int col, int columns) {
    for (int t = 0, k = 0; t < n; t += PACKED_SIZES[k]) {
        while (t + PACKED_SIZES[k] > n) k++;
        KERNELS[w->type].packed[k](sums + t, panel, 0, in, t, col, columns, requests_of(w, t));
    }
}

/* A panel as it streams by: a few columns for all tokens, then the next. For one token it may be several panels. */
static void few_tokens(const Output *out, const Tensor *w, const Input *in, int n) {
    vf sums[FEW_TOKENS];
    const int step = n == 1 && w->panels ? w->cols : columns_at_once(w);
    if (is_amx(w, in, n)) tiles_open(n, TYPES[w->type].group / 4);
    for (int col = 0; col < w->cols; col += step) {
        const int columns = w->cols - col < step ? w->cols - col : step;
        const bool last = col + step >= w->cols;
        if (!w->panels && in->weights_exceed_l2) panel_prefetch(w, out->panel + last, last ? 0 : col + step, step);
        size_t stride;
        const uint8_t *panels = packed_panels(w, out->panel, out->n_panels, col, columns, in->scratch, &stride);
        if (is_amx(w, in, n))
            amx_columns(sums, w, panels, in, col, columns);
        else if (out->n_panels == 1)
            few_columns(sums, w, panels, in, n, col, columns);
        else
            KERNELS[w->type].unpacked[out->n_panels / 2][0](sums, panels, stride, in, 0, col, columns, (Request){0});
    }
    if (is_amx(w, in, n)) tiles_close();
    for (int t = 0; t < n; t++) store_sums(out, sums + t, t, 1);
}

static void many_tokens(const Output *out, const Tensor *w, const Input *in, int n) {
    static const int sizes[] = {TILE_TOKENS, 2, 1};
    size_t stride;
    const uint8_t *panels = unpacked_panels(w, out->panel, out->n_panels, in, BYTE_OFFSET, &stride);
    for (int t = 0, k = 0; t < n; t += sizes[k]) {
        while (t + sizes[k] > n) k++;
        vf sums[TILE_PANELS * TILE_TOKENS];
        prefetch_outputs(out, t, sizes[k]);
        KERNELS[w->type].unpacked[out->n_panels / 2][2 - k](sums, panels, stride, in, t, 0, w->cols, (Request){0});
        store_sums(out, sums, t, sizes[k]);
    }
}

/* The same for at least AMX_TOKENS tokens. The last tile ends with the last token: it computes some tokens again. */
static void amx_tokens(const Output *out, const Tensor *w, const Input *in, int n) {
    size_t stride;
    const uint8_t *panels = unpacked_panels(w, out->panel, out->n_panels, in, 0, &stride);
    tiles_open(AMX_TOKENS, TYPES[w->type].group / 4);
    for (int t = 0; t < n; t += AMX_TOKENS) {
        const int tokens = n - t < AMX_TOKENS ? n - t : AMX_TOKENS, from = t + tokens - AMX_TOKENS;
        for (Output one = *out; one.panel < out->panel + out->n_panels; one.panel++) {
            vf sums[AMX_TOKENS];
            one.n_panels = 1;
            prefetch_outputs(&one, t, tokens);
            KERNELS[w->type].amx(sums, panels + (size_t)(one.panel - out->panel) * stride, in, from, 0, w->cols,
                                 (Stream){0});
            store_sums(&one, sums + (t - from), t, tokens);
        }
    }
    tiles_close();
}

/* One output of int8 groups that are no whole quads. */
static float plain_product(const Tensor *w, int row, const Input *in, int t) {
    const size_t n_groups = (size_t)(w->cols / w->group), first = (size_t)row * n_groups;
    const int8_t *p = (const int8_t *)w->data + (size_t)row * (size_t)w->cols, *q = in->q + (size_t)t * (size_t)w->cols;
    float sum = 0;
    for (size_t g = 0; g < n_groups; g++, p += w->group, q += w->group) {
        int64_t dot = 0;
        for (int i = 0; i < w->group; i++) dot += p[i] * q[i];
        sum = fma_float((float)dot, tensor_scale(w, first + g) * in->groups[(size_t)t * n_groups + g].scale, sum);
    }
    return sum;
}

/* How many of `left` panels the next tile takes, for n tokens. */
static int panels_at_once(const Tensor *w, const Input *in, int left, int n) {
    if (n <= FEW_TOKENS && (n > 1 || in->weights_exceed_l2 || KERNELS[w->type].unpack))
        return 1; /* one stream of memory to a thread */
    return n == 1 && left >= MOST_PANELS ? MOST_PANELS : left >= TILE_PANELS ? TILE_PANELS : 1;
}

/* ---- products of BF16 in AMX's tiles ------------------------------------------------- */

static bool in_tiles(const Tensor *w, const Input *in) { return w->type == TYPE_BF16 && in->parts; }

/* How many panels of w stay in the second-level cache while many tokens pass by, and fit into the scratch. */
static int amx_panels(const Tensor *w) {
    const int fit = (int)((1 << 20) / packed_bytes(w, w->cols)), most = 2 * MOST_PANELS * VBYTES / (2 * LANES);
    return fit < AMX_PANELS ? AMX_PANELS : fit > most ? most : fit / AMX_PANELS * AMX_PANELS;
}

/* The outputs of n tokens: 16 tokens by all panels of a block, then the next 16. */
static void rows_in_tiles(Output *out, const Tensor *w, const Input *in, int n) {
    const int end = (out->row + out->n_rows - 1) / LANES + 1, most = n == 1 ? 1 : amx_panels(w);
    int opened = 0;
    for (int block = out->panel; block < end; block += most) {
        const int block_end = end - block < most ? end : block + most;
        size_t stride;
        const uint8_t *panels = packed_panels(w, block, block_end - block, 0, w->cols, in->scratch, &stride);
        for (int t = 0; t < n; t += AMX_TOKENS) {
            const Input own = input_from(in, t);
            const int tokens = n - t < AMX_TOKENS ? n - t : AMX_TOKENS;
            if (tokens != opened) amx_open(opened = tokens);
            for (out->panel = block; out->panel < block_end; out->panel += out->n_panels) {
                vf sums[AMX_PANELS * AMX_TOKENS];
                out->n_panels = tokens > 1 && block_end - out->panel >= AMX_PANELS ? AMX_PANELS : 1;
                const uint8_t *at = panels + (size_t)(out->panel - block) * stride;
                amx_product(sums, at, stride, out->n_panels, own.parts, tokens, w->cols, requests_of(w, t));
                store_sums(out, sums, t, tokens);
            }
        }
    }
    amx_close();
}

/* ---- products of any type --------------------------------------------------------- */

void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add) {
    const int end = row + n_rows;
    const bool fit = panels_fit(w);
    Output out = {.y = y + row, .stride = stride, .row = row, .n_rows = n_rows, .panel = row / LANES, .add = add};
    if (in_tiles(w, in)) rows_in_tiles(&out, w, in, n); /* up to the last panel */
    for (; fit && out.panel * LANES < end; out.panel += out.n_panels) {
        out.n_panels = panels_at_once(w, in, (end - 1) / LANES - out.panel + 1, n);
        if (n <= FEW_TOKENS)
            few_tokens(&out, w, in, n);
        else if (is_amx(w, in, n))
            amx_tokens(&out, w, in, n);
        else
            many_tokens(&out, w, in, n);
    }
    for (int t = 0; t < n && !fit; t++)
        for (int r = row; r < end; r++) {
            float *const at = y + (size_t)t * stride + r, sum = plain_product(w, r, in, t);
            *at = add ? *at + sum : sum;
        }
    for (int t = 0; t < n && w->bias; t++)
        for (int r = row; r < end; r++) y[(size_t)t * stride + (size_t)r] += w->bias[r];
}

/* The rows of one thread, in whole panels. */
static int share_of(int rows) {
    const int panels = (rows - 1) / LANES + 1, threads = omp_get_num_threads();
    return ((panels - 1) / threads + 1) * LANES;
}

int matmul_task_rows(const Tensor *w, const Input *in, int n) {
    const int share = share_of(w->rows), panels = share / LANES;
    if (n <= FEW_TOKENS) return share;
    if (!in_tiles(w, in)) return TILE_PANELS * LANES;
    const int tasks = (panels - 1) / amx_panels(w) + 1; /* of a thread */
    return ((panels - 1) / tasks + 1) * LANES;
}

static void all_rows(float *y, const Tensor *w, const Input *in, int n, bool add) {
    const int step = share_of(w->rows);
    const size_t stride = (size_t)tensor_all_rows(w);
    y += tensor_first_row(w);
#pragma omp for schedule(static) nowait
    for (int row = 0; row < w->rows; row += step)
        matmul_rows(y, stride, w, row, w->rows - row < step ? w->rows - row : step, in, n, add);
}

void matmul(float *y, const Tensor *w, const Input *in, int n) { all_rows(y, w, in, n, false); }
void matmul_add(float *y, const Tensor *w, const Input *in, int n) { all_rows(y, w, in, n, true); }

/* ---- the activations' side ---------------------------------------------------- */

/* One half is for packed panels, the other for unpacked ones, MOST_PANELS each. */
static size_t scratch_bytes(int max_cols) { return 2 * (size_t)MOST_PANELS * ((size_t)max_cols + 32) * VBYTES; }

double input_buffer_bytes(double rows, int cols, int n_threads, bool bf16) {
    const InputBuffer *b;
    const double row_bytes = (double)cols * (double)(sizeof *b->q + sizeof *b->groups);
    return rows * (row_bytes + (bf16 ? (double)amx_parts_bytes(cols) : 0)) + n_threads * (double)scratch_bytes(cols);
}

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols, int n_threads, bool bf16) {
    const size_t n = (size_t)max_rows * (size_t)max_cols;
    *buffer = (InputBuffer){.q = allocate(n, sizeof *buffer->q), .scratch_bytes = scratch_bytes(max_cols)};
    if (!buffer->q || !(buffer->groups = allocate(n, sizeof *buffer->groups))) return -1;
    buffer->tiles = SIMD_TILES && processor_has_tiles();
    if (buffer->tiles && bf16 && !(buffer->parts = allocate((size_t)max_rows, amx_parts_bytes(max_cols)))) return -1;
    buffer->scratch = allocate((size_t)n_threads, buffer->scratch_bytes);
    return buffer->scratch ? 0 : -1;
}

void input_buffer_close(InputBuffer *buffer) {
    free(buffer->q);
    free(buffer->groups);
    free(buffer->parts);
    free(buffer->scratch);
    *buffer = (InputBuffer){0};
}

Input input_from(const Input *in, int row) {
    Input rest = *in;
    rest.x += (size_t)row * (size_t)in->cols;
    rest.q += (size_t)row * (size_t)in->cols;
    rest.groups += (size_t)row * (size_t)(in->cols / in->group);
    if (in->parts) rest.parts += (size_t)row * amx_parts_bytes(in->cols);
    return rest;
}

/* Writes the row of x that in begins with as int8, if w wants that, and in parts. */
static void prepare_row(const Input *in, const Tensor *w) {
    if (type_wants_bytes(w->type)) quantize_i8(in->q, in->groups, in->x, in->cols, in->group);
    if (in->parts) amx_split(in->parts, in->x, in->cols);
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n) {
    const int thread = omp_get_thread_num();
    Input in = *buffer;
    in.x = x;
    in.cols = w->cols;
    in.group = w->type == TYPE_I8 ? w->group : INPUT_GROUP;
    in.scratch += (size_t)thread * in.scratch_bytes;
    if (!type_wants_bytes(w->type) && !in.parts) return in;
    if (each_thread_computes(n)) {
        in = input_from(&in, thread);
        in.x = x;
        prepare_row(&in, w);
        return in;
    }
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        const Input row = input_from(&in, t);
        prepare_row(&row, w);
    }
    team_barrier(); /* each thread reads all rows */
    return in;
}
