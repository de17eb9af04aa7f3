/* tiles.h: the inner loops of the products.
 *
 * A tile is the outputs of a few panels for a few tokens, whose sums are all in
 * vector registers. This header owns the loops of a tile. tiles_float.c,
 * tiles_int8.c and tiles_k.c compile them for each weight type, in separate
 * files because they are slow to compile. matmul.c calls them.
 *
 * Each lane is one output, summed over the columns from 0 up; a group of int8
 * weights, or 16 columns of floats, is summed separately and then added. No
 * tile changes that order, so the bits of a result depend neither on chunks nor
 * on threads.
 * Tests: matmul, quant. */
#pragma once

#include "kernels/input.h"
#include "kernels/panels.h"
#include "kernels/simd.h"

enum {
    SUM_COLUMNS = 16, /* float columns that are summed separately */
    TILE_PANELS = 2,  /* max panels of a tile */
    /* max tokens of a tile of 2 panels, limited by the registers */
    TILE_TOKENS = LANES == 16 ? 6 : 4,
    MAX_TILE_TOKENS = LANES == 16 ? 8 : 4, /* max tokens of a tile of 1 panel */
    MAX_SUMS = TILE_PANELS * TILE_TOKENS   /* vectors of sums in a tile */
};

/* What a tile multiplies: columns [col, col + n) of its panels by its tokens,
 * from token t on. */
typedef struct {
    const uint8_t *panels; /* at column col of the first panel */
    size_t stride;         /* bytes from a panel to the next */
    int count; /* 1 panel by 1 token: the number of tiles, panel after panel */
    const Input *in;
    int t, col, n;
} Operands;

/* Adds the products of a tile to sums[panels][tokens]; at column 0 the sums
 * start from 0. */
typedef void Tile(vf *sums, Operands o);

/* Unpacks n columns of a packed panel. */
typedef void Unpack(uint8_t *unpacked, const uint8_t *panel, int n);

/* The functions of a weight type. */
typedef struct {
    Tile *packed[4]; /* packed[k]: 1 packed panel by 2^k tokens; or NULL */
    Tile *const *unpacked; /* 1 and 2 unpacked panels by TILE_TOKENS tokens */
    Unpack *unpack;        /* NULL: packed and unpacked panels are the same */
} Kernels;

#define X(id, ...) extern const Kernels kernels_##id;
WEIGHT_TYPES(X)
#undef X

/* ---- floats ------------------------------------------------------------- */

/* Adds the products of column c to the sums. */
INLINE void add_column(vf *sums, const uint8_t *panels, size_t stride,
                       const float *const *x, Type type, int c, int n_panels,
                       const int tokens) {
    vf w[TILE_PANELS];
    UNROLL(p, n_panels)
        w[p] = load_column(type, panels + p * stride, c);
    UNROLL(i, tokens) {
        vf xi = vset(x[i][c]);
        UNROLL(p, n_panels)
            sums[p * tokens + i] = vfma(w[p], xi, sums[p * tokens + i]);
    }
}

/* Sums n columns separately, then adds the sums to the totals. */
INLINE void add_columns(vf *totals, const uint8_t *panels, size_t stride,
                        const float *const *x, Type type, const int n,
                        int n_panels, const int tokens) {
    vf sums[MAX_SUMS];
    UNROLL(k, n_panels * tokens)
        sums[k] = (vf){0};
    UNROLL(c, n)
        add_column(sums, panels, stride, x, type, c, n_panels, tokens);
    UNROLL(k, n_panels * tokens)
        totals[k] += sums[k];
}

INLINE void float_tile(vf *sums, Operands o, Type type, const int n_panels,
                       const int tokens) {
    const float *x[MAX_TILE_TOKENS];
    size_t step = columns_bytes(type, SUM_COLUMNS);
    vf totals[MAX_SUMS];
    UNROLL(i, tokens)
        x[i] = o.in->x + (size_t)(o.t + i) * o.in->cols + o.col;
    UNROLL(k, n_panels * tokens)
        totals[k] = o.col ? sums[k] : (vf){0};
    for (; o.n >= SUM_COLUMNS; o.n -= SUM_COLUMNS, o.panels += step) {
        add_columns(totals, o.panels, o.stride, x, type, SUM_COLUMNS, n_panels,
                    tokens);
        UNROLL(i, tokens)
            x[i] += SUM_COLUMNS;
    }
    if (o.n)
        add_columns(totals, o.panels, o.stride, x, type, o.n, n_panels, tokens);
    UNROLL(k, n_panels * tokens)
        sums[k] = totals[k];
}

/* ---- int8 --------------------------------------------------------------- */

/* The layout of a panel's groups. A compile-time constant in every tile, except
 * for TYPE_I8. */
typedef struct {
    Type type;        /* packed blocks of this type; TYPE_I8: unpacked groups */
    int weights;      /* weights per group */
    int quads;        /* quads per group */
    int mins;         /* minimums per group */
    int groups;       /* groups per block */
    int input_groups; /* weight groups per activation group: 1 or 2 */
    int zero;         /* the byte that stands for 0 */
    int added;        /* quads_added() */
    size_t bytes;     /* bytes of a block, for all rows */
} Layout;

/* Products of a panel's group with the same group of each token. */
typedef vi Dots[MAX_TILE_TOKENS];

/* The layout of TYPE_I8's groups of `weights`, or of other types' groups once
 * they are unpacked. */
INLINE Layout unpacked_layout(Type type, int weights) {
    int quads = group_quads(weights), mins = TYPES[type].mins,
        input_groups = TYPES[type].group == 16 ? 2 : 1;
    return (Layout){.type = TYPE_I8,
                    .weights = weights,
                    .quads = quads,
                    .mins = mins,
                    .groups = input_groups,
                    .input_groups = input_groups,
                    .zero = zero_byte(type),
                    .added = quads_added(type),
                    .bytes = group_bytes(quads, mins) * input_groups};
}

INLINE Layout packed_layout(Type type) {
    Layout l = unpacked_layout(type, TYPES[type].group);
    l.type = type;
    l.groups = TYPES[type].weights / l.weights;
    l.bytes = (size_t)TYPES[type].bytes * LANES;
    return l;
}

/* Quad q of group i. */
INLINE vb load_quad(const Layout *l, const uint8_t *block, int i, int q) {
    if (l->type != TYPE_I8)
        return (vb)block_quad(l->type, block, i, q);
    vb v;
    memcpy(&v, block + i * group_bytes(l->quads, l->mins) + q * VBYTES,
           sizeof v);
    return v;
}

/* The scale of group i (part 0), or its min `part`. */
INLINE vf load_scale(const Layout *l, const uint8_t *block, int i, int part) {
    if (l->type != TYPE_I8)
        return block_scale(l->type, block, i, part);
    const uint8_t *group = block + i * group_bytes(l->quads, l->mins);
    return vload(
        (const float *)(const void *)(group + (l->quads + part) * VBYTES));
}

/* The sum of the activations' bytes of group i. */
INLINE int32_t group_total(const Layout *l, const InputGroup *x, int i) {
    return l->input_groups == 1 ? x->total
           : i % 2              ? x->total - x->first_half
                                : x->first_half;
}

/* The sum of the activations that min `part` of a group is added to. */
INLINE float min_sum(const Layout *l, const InputGroup *x, int part) {
    return l->mins == 1 ? x->sum
           : part == 0  ? x->first_sum
                        : x->sum - x->first_sum;
}

/* Adds the scaled dot products of group i with one panel to the sums, then its
 * mins. The activation groups of consecutive tokens are `next` apart. */
INLINE void add_scaled(vf *sums, const vi *dots, const Layout *l,
                       const uint8_t *block, int i, const InputGroup *x,
                       size_t next, const int tokens) {
    vf scale = load_scale(l, block, i, 0);
    UNROLL(j, tokens)
        sums[j] = vfma(vfloat(dots[j] >> quad_shift(l->type, i)),
                       scale * x[j * next].scale, sums[j]);
    UNROLL(part, l->mins) {
        vf min = load_scale(l, block, i, 1 + part);
        UNROLL(j, tokens)
            sums[j] = vfma(min, vset(min_sum(l, x + j * next, part)), sums[j]);
    }
}

/* Adds the products of quad k of group i of a block to the dots, or to the
 * pairs and then to the dots. q: the group's activations of the first token. */
INLINE void add_quad(Dots *dots, Dots *pairs, const Operands *o,
                     const Layout *l, int i, int k, const int8_t *q,
                     int n_panels, const int tokens) {
    int last = l->added - 1;
    vb w[TILE_PANELS];
    UNROLL(p, n_panels)
        w[p] = load_quad(l, o->panels + p * o->stride, i, k);
    UNROLL(j, tokens) {
        vb xj = vset_quad(q + (size_t)j * o->in->cols + (size_t)k * 4);
        UNROLL(p, n_panels) {
            if (last < 0) {
                dots[p][j] = vdot(dots[p][j], w[p], xj);
                continue;
            }
            pairs[p][j] =
                vdot_pairs(k & last ? pairs[p][j] : (vi){0}, w[p], xj);
            if ((k & last) == last)
                dots[p][j] = vadd_pairs(dots[p][j], pairs[p][j]);
        }
    }
}

/* Adds the products of group i of a block. q and x: the group's activations of
 * the first token. */
INLINE void add_group(vf *sums, const Operands *o, const Layout *l, int i,
                      const int8_t *q, const InputGroup *x, const int n_panels,
                      const int tokens) {
    size_t next = o->in->row_groups;
    int step = l->weights == 16 ? 4 : 8; /* unrolled */
    Dots dots[TILE_PANELS], pairs[TILE_PANELS];
    int k = 0;
    /* corrects for the byte that stands for 0 */
    UNROLL(j, tokens)
        UNROLL(p, n_panels)
            dots[p][j] = vset_int(-(l->zero << quad_shift(l->type, i)) *
                                  group_total(l, x + j * next, i));
    for (; k + step <= l->quads; k += step) {
        UNROLL(s, step)
            add_quad(dots, pairs, o, l, i, k + s, q, n_panels, tokens);
    }
    for (; k < l->quads; k++)
        add_quad(dots, pairs, o, l, i, k, q, n_panels, tokens);
    UNROLL(p, n_panels)
        add_scaled(sums + p * tokens, dots[p], l, o->panels + p * o->stride, i,
                   x, next, tokens);
}

INLINE void byte_tile(vf *sums, Operands o, const Layout l, const int n_panels,
                      const int tokens) {
    const int columns = l.weights; /* columns of a group */
    const int8_t *q = o.in->q + (size_t)o.t * o.in->cols + o.col;
    const InputGroup *x = o.in->groups + (size_t)o.t * o.in->row_groups +
                          o.col / columns / l.input_groups;
    vf totals[MAX_SUMS];
    UNROLL(k, n_panels * tokens)
        totals[k] = o.col ? sums[k] : (vf){0};
    for (int g = 0; g < o.n / columns; g += l.groups) {
        UNROLL(i, l.groups)
            add_group(totals, &o, &l, i, q + i * columns,
                      x + i / l.input_groups, n_panels, tokens);
        q += l.groups * columns;
        x += l.groups / l.input_groups;
        o.panels += l.bytes;
    }
    UNROLL(k, n_panels * tokens)
        sums[k] = totals[k];
}

/* Unpacks whole blocks. */
INLINE void unpack_blocks(uint8_t *unpacked, Type type, const uint8_t *panel,
                          int n) {
    Layout l = packed_layout(type);
    for (int c = 0; c < n; c += TYPES[type].weights, panel += l.bytes) {
        for (int i = 0; i < l.groups;
             i++, unpacked += group_bytes(l.quads, l.mins)) {
            UNROLL(k, l.quads) {
                vi quad = block_quad(type, panel, i, k) >> quad_shift(type, i);
                memcpy(unpacked + k * VBYTES, &quad, sizeof quad);
            }
            for (int part = 0; part <= l.mins; part++)
                vstore((float *)(void *)(unpacked + (l.quads + part) * VBYTES),
                       block_scale(type, panel, i, part));
        }
    }
}

/* ---- compiling tiles ---------------------------------------------------- */

/* Each tile is a separate function, because the compiler keeps the sums in
 * registers only if it does not see all tiles at once. NAME_PxT has P panels
 * and T tokens; M is the max. */
#define TILE(name, tile, layout, panels, tokens)                               \
    NOINLINE void name(vf *sums, Operands o) {                                 \
        tile(sums, o, layout, panels, tokens);                                 \
    }

/* The tiles of one packed panel, and their list. `eight`: whether 8 tokens are
 * faster in one tile than in two. Only processors with 16 lanes have enough
 * registers. */
#define PACKED_TILES(name, tile, layout)                                       \
    NOINLINE void name##_1x1(vf *sums, Operands o) {                           \
        for (; o.count > 0; o.count--, o.panels += o.stride)                   \
            tile(sums++, o, layout, 1, 1);                                     \
    }                                                                          \
    TILE(name##_1x2, tile, layout, 1, 2)                                       \
    TILE(name##_1x4, tile, layout, 1, 4)                                       \
    TILE(name##_1x8, tile, layout, 1, MAX_TILE_TOKENS)
#define PACKED(name, eight)                                                    \
    {                                                                          \
        name##_1x1, name##_1x2, name##_1x4,                                    \
            (eight) && MAX_TILE_TOKENS == 8 ? name##_1x8 : NULL                \
    }

/* The tiles of unpacked panels. */
#define UNPACKED_TILES(name, tile, layout)                                     \
    TILE(name##_1xM, tile, layout, 1, TILE_TOKENS)                             \
    TILE(name##_2xM, tile, layout, 2, TILE_TOKENS)                             \
    static Tile *const name[] = {name##_1xM, name##_2xM};

/* The kernels of a block type. */
#define BLOCK_KERNELS(id, eight)                                               \
    PACKED_TILES(id, byte_tile, packed_layout(TYPE_##id))                      \
    UNPACKED_TILES(id##_groups, byte_tile,                                     \
                   unpacked_layout(TYPE_##id, TYPES[TYPE_##id].group))         \
    static void unpack_##id(uint8_t *unpacked, const uint8_t *panel, int n) {  \
        unpack_blocks(unpacked, TYPE_##id, panel, n);                          \
    }                                                                          \
    const Kernels kernels_##id = {PACKED(id, eight), id##_groups, unpack_##id};
