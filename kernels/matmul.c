/* matmul.c: linear layers, y = x w^T, for every weight type.
 *
 * Owns the tiles, in which the outputs of a few panels of rows by a few tokens
 * are summed side by side, and the loops around them. It does not own the
 * layouts (panels.h, quant.c) or the threads: callers are inside a parallel
 * region, and its worksharing loops share there.
 *
 * The one rule: a lane is an output. It walks along cols from 0 up, sums 16 of
 * them (a group, exactly, where they are int8) by themselves and adds that to
 * what it has. Tiles change which outputs are computed side by side, never how
 * one is computed. That is why the result does not depend, to the last bit, on
 * chunks and threads.
 */
#include "kernels/matmul.h"

#include "base/memory.h"
#include "kernels/panels.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"

#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 16, /* of floats that are summed by themselves */
    MOST_PANELS = 4,
    TILE_PANELS = 2,                  /* as many outputs in flight */
    TILE_TOKENS = LANES == 16 ? 6 : 3 /* as the registers hold */
};

/* ---- tiles ------------------------------------------------------------------ */

/* Adds columns [col, col + n) of n_panels panels to the sums of `tokens` tokens
 * from t on: sums[n_panels][tokens]. `panels` is at column col of the first
 * panel, the others follow at distances of `stride`. At column 0 sums begin. */
typedef void Tile(vf *sums, const uint8_t *panels, size_t stride, const Input *in, int t, int col, int n);

/* What `n` columns add to the sums. */
INLINE void add_columns(vf *sums, const uint8_t *panels, size_t stride, const float *const *x, Type type, const int n,
                        const int n_panels, const int tokens) {
    vf parts[TILE_PANELS * TILE_TOKENS];
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
                       Type type, const int n_panels, const int tokens) {
    const float *x[TILE_TOKENS];
    const size_t group_bytes = columns_bytes(type, COLUMNS);
    vf totals[TILE_PANELS * TILE_TOKENS];
    UNROLL
    for (int i = 0; i < tokens; i++) x[i] = in->x + (size_t)(t + i) * (size_t)in->cols + (size_t)col;
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) totals[k] = col ? sums[k] : (vf){0};
    for (; n >= COLUMNS; n -= COLUMNS, panels += group_bytes) {
        add_columns(totals, panels, stride, x, type, COLUMNS, n_panels, tokens);
        UNROLL
        for (int i = 0; i < tokens; i++) x[i] += COLUMNS;
    }
    if (n > 0) add_columns(totals, panels, stride, x, type, n, n_panels, tokens);
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) sums[k] = totals[k];
}

/* Where the groups of a panel of bytes are, and what they have. Constants
 * wherever a tile is compiled, but for TYPE_I8's own groups. */
typedef struct {
    Type type; /* TYPE_I8: ready to be multiplied */
    int zero;  /* the byte that stands for 0 */
    int quads; /* in a group */
    bool mins;
    int groups;       /* in a block */
    int input_groups; /* groups that share a group of the activations: 1 or 2 */
    size_t bytes;     /* of a block, for all rows */
} Layout;

INLINE Layout packed_layout(Type type) {
    const int quads = group_weights(type) / 4;
    return (Layout){type,
                    block_zero(type),
                    quads,
                    group_has_min(type),
                    block_groups(type),
                    8 / quads,
                    (size_t)block_parts(type).bytes * LANES};
}

INLINE Layout ready_layout(int quads, bool mins, int input_groups) {
    return (Layout){TYPE_I8, BYTE_OFFSET, quads, mins, 1, input_groups, ready_bytes(quads, mins)};
}

INLINE vb load_quad(const Layout *l, const uint8_t *block, int i, int q) {
    if (l->type != TYPE_I8) return (vb)block_quad(l->type, block, i, q);
    vb v;
    memcpy(&v, block + q * VBYTES, sizeof v);
    return v;
}

INLINE vf load_scale(const Layout *l, const uint8_t *block, int i) {
    return l->type != TYPE_I8 ? block_scale(l->type, block, i)
                              : vload((const float *)(const void *)(block + l->quads * VBYTES));
}

INLINE vf load_min(const Layout *l, const uint8_t *block, int i) {
    return l->type != TYPE_I8 ? block_min(l->type, block, i)
                              : vload((const float *)(const void *)(block + (l->quads + 1) * VBYTES));
}

/* What the exact sum of a group begins with: it takes zero off every weight. */
INLINE vi begin(const Layout *l, const InputGroup *x, int group) {
    const int total = l->input_groups == 1 ? x->total : group % 2 ? x->total - x->first_half : x->first_half;
    return vset_int(-l->zero * total);
}

/* Group i of a block, group `group` of the row. */
INLINE void add_group(vf *sums, const Layout *l, const uint8_t *block, size_t stride, int i, const int8_t *q,
                      const InputGroup *x, const Input *in, int group, const int n_panels, const int tokens) {
    const size_t next = (size_t)(in->cols / in->group); /* from a token's groups to the next's */
    vi dots[MOST_PANELS][TILE_TOKENS];
    UNROLL
    for (int j = 0; j < tokens; j++) UNROLL
    for (int p = 0; p < n_panels; p++) dots[p][j] = begin(l, x + (size_t)j * next, group);
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
    for (int p = 0; p < n_panels; p++) {
        const vf scale = load_scale(l, block + (size_t)p * stride, i);
        UNROLL
        for (int j = 0; j < tokens; j++) {
            vf *sum = &sums[p * tokens + j];
            *sum = vfma(vfloat(dots[p][j]), scale * x[(size_t)j * next].scale, *sum);
        }
        if (!l->mins) continue;
        const vf min = load_min(l, block + (size_t)p * stride, i);
        UNROLL
        for (int j = 0; j < tokens; j++) {
            vf *sum = &sums[p * tokens + j];
            *sum = vfma(min, vset(x[(size_t)j * next].sum), *sum);
        }
    }
}

INLINE void byte_tile(vf *sums, const uint8_t *panels, size_t stride, const Input *in, int t, int col, int n,
                      const Layout l, const int n_panels, const int tokens) {
    const int first = col / (4 * l.quads), n_groups = n / (4 * l.quads);
    const int8_t *q = in->q + (size_t)t * (size_t)in->cols + (size_t)col;
    const InputGroup *x = in->groups + (size_t)t * (size_t)(in->cols / in->group);
    vf totals[TILE_PANELS * TILE_TOKENS];
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) totals[k] = col ? sums[k] : (vf){0};
    for (int g = 0; g < n_groups; g += l.groups, panels += l.bytes) {
        UNROLL
        for (int i = 0; i < l.groups; i++)
            add_group(totals, &l, panels, stride, i, q + (size_t)(g + i) * 4 * (size_t)l.quads,
                      x + (first + g + i) / l.input_groups, in, first + g + i, n_panels, tokens);
    }
    UNROLL
    for (int k = 0; k < n_panels * tokens; k++) sums[k] = totals[k];
}

/* Each tile is a function of its own: the compiler keeps its sums in registers
 * only if it does not see all of them at once. NAME[0, 1, 2] are for one panel, two,
 * four, and in these [0, 1, 2] for one token, two, TILE_TOKENS. */
#define TILE(name, tile, layout, panels, tokens)                                                                       \
    static __attribute__((noinline)) void name(vf *sums, const uint8_t *p, size_t stride, const Input *in, int t,      \
                                               int col, int n) {                                                       \
        tile(sums, p, stride, in, t, col, n, layout, panels, tokens);                                                  \
    }
#define ONE_PANEL(name, tile, layout)                                                                                  \
    TILE(name##_1x1, tile, layout, 1, 1)                                                                               \
    static Tile *const name[][3] = {{name##_1x1}};
#define ANY_TOKENS(name, tile, layout, ...)                                                                            \
    TILE(name##_1x1, tile, layout, 1, 1)                                                                               \
    TILE(name##_2x1, tile, layout, 2, 1)                                                                               \
    TILE(name##_1x2, tile, layout, 1, 2)                                                                               \
    TILE(name##_2x2, tile, layout, 2, 2)                                                                               \
    TILE(name##_1xm, tile, layout, 1, TILE_TOKENS)                                                                     \
    TILE(name##_2xm, tile, layout, 2, TILE_TOKENS)                                                                     \
    static Tile *const name[][3] = {                                                                                   \
        {name##_1x1, name##_1x2, name##_1xm}, {name##_2x1, name##_2x2, name##_2xm}, __VA_ARGS__};

/* unpacked: float32, groups of 32 weights, of 16, of TYPE_I8 */
TILE(floats_4x1, float_tile, TYPE_F32, 4, 1)
ANY_TOKENS(floats, float_tile, TYPE_F32, {floats_4x1})
ANY_TOKENS(bytes, byte_tile, ready_layout(8, false, 1), )
ANY_TOKENS(mins, byte_tile, ready_layout(8, true, 1), )
ANY_TOKENS(halves, byte_tile, ready_layout(4, false, 2), )
TILE(groups_4x1, byte_tile, ready_layout(in->group / 4, false, 1), 4, 1)
ANY_TOKENS(groups, byte_tile, ready_layout(in->group / 4, false, 1), {groups_4x1})
/* one token, from panels as they are packed */
ONE_PANEL(f16, float_tile, TYPE_F16)
ONE_PANEL(bf16, float_tile, TYPE_BF16)
ONE_PANEL(q8_0, byte_tile, packed_layout(TYPE_Q8_0))
ONE_PANEL(q4_0, byte_tile, packed_layout(TYPE_Q4_0))
ONE_PANEL(q4_1, byte_tile, packed_layout(TYPE_Q4_1))
ONE_PANEL(q5_0, byte_tile, packed_layout(TYPE_Q5_0))
ONE_PANEL(q5_1, byte_tile, packed_layout(TYPE_Q5_1))
ONE_PANEL(q4_k, byte_tile, packed_layout(TYPE_Q4_K))
ONE_PANEL(q5_k, byte_tile, packed_layout(TYPE_Q5_K))
ONE_PANEL(q6_k, byte_tile, packed_layout(TYPE_Q6_K))

static const struct {
    Tile *const (*unpacked)[3];
    Tile *const (*packed)[3]; /* NULL: the same layout */
} TILES[] = {
    [TYPE_F32] = {floats, NULL}, [TYPE_F16] = {floats, f16},  [TYPE_BF16] = {floats, bf16},
    [TYPE_I8] = {groups, NULL},  [TYPE_Q8_0] = {bytes, q8_0}, [TYPE_Q4_0] = {bytes, q4_0},
    [TYPE_Q4_1] = {mins, q4_1},  [TYPE_Q5_0] = {bytes, q5_0}, [TYPE_Q5_1] = {mins, q5_1},
    [TYPE_Q4_K] = {mins, q4_k},  [TYPE_Q5_K] = {mins, q5_k},  [TYPE_Q6_K] = {halves, q6_k},
};

/* ---- many tokens: panels are unpacked once -------------------------------------- */

INLINE void unpack_columns(uint8_t *ready, Type type, const uint8_t *panel, int n) {
    for (int c = 0; c < n; c++) {
        const vf column = load_column(type, panel, c);
        memcpy(ready + (size_t)c * sizeof column, &column, sizeof column);
    }
}

/* n groups of a block type. */
INLINE void unpack_groups(uint8_t *ready, Type type, const uint8_t *panel, int n) {
    const Layout l = packed_layout(type);
    for (int g = 0; g < n; g += l.groups, panel += l.bytes)
        for (int i = 0; i < l.groups; i++, ready += ready_bytes(l.quads, l.mins)) {
            UNROLL
            for (int k = 0; k < l.quads; k++) {
                const vb quad = ready_quad(type, panel, i, k);
                memcpy(ready + k * VBYTES, &quad, sizeof quad);
            }
            const vf scale = block_scale(type, panel, i);
            memcpy(ready + l.quads * VBYTES, &scale, sizeof scale);
            if (!l.mins) continue;
            const vf min = block_min(type, panel, i);
            memcpy(ready + (l.quads + 1) * VBYTES, &min, sizeof min);
        }
}

/* n columns of a packed panel. */
static void unpack(uint8_t *ready, Type type, const uint8_t *panel, int n) {
    switch (type) {
    case TYPE_F16: unpack_columns(ready, TYPE_F16, panel, n); break;
    case TYPE_BF16: unpack_columns(ready, TYPE_BF16, panel, n); break;
    case TYPE_Q8_0: unpack_groups(ready, TYPE_Q8_0, panel, n / 32); break;
    case TYPE_Q4_0: unpack_groups(ready, TYPE_Q4_0, panel, n / 32); break;
    case TYPE_Q4_1: unpack_groups(ready, TYPE_Q4_1, panel, n / 32); break;
    case TYPE_Q5_0: unpack_groups(ready, TYPE_Q5_0, panel, n / 32); break;
    case TYPE_Q5_1: unpack_groups(ready, TYPE_Q5_1, panel, n / 32); break;
    case TYPE_Q4_K: unpack_groups(ready, TYPE_Q4_K, panel, n / 32); break;
    case TYPE_Q5_K: unpack_groups(ready, TYPE_Q5_K, panel, n / 32); break;
    default: unpack_groups(ready, TYPE_Q6_K, panel, n / 16); break;
    }
}

/* Bytes of n columns of a panel once they are unpacked. */
static size_t unpacked_bytes(const Tensor *w, int n) {
    if (!type_wants_bytes(w->type)) return (size_t)n * VBYTES;
    if (w->type == TYPE_I8) return (size_t)(n / w->group) * ready_bytes(w->group / 4, false);
    const int weights = group_weights(w->type);
    return (size_t)(n / weights) * ready_bytes(weights / 4, group_has_min(w->type));
}

/* ---- products ------------------------------------------------------------------- */

/* Columns that are packed at a time where panels are made on the way: they stay
 * in the first-level cache, and groups and blocks stay whole. */
static int stretch(const Tensor *w) {
    if (!type_wants_bytes(w->type)) return 128;
    const int whole = w->type == TYPE_I8 ? w->group : 256;
    return whole < 256 ? 256 / whole * whole : whole;
}

/* Columns [col, col + n) of n_panels panels, packed: in the model's panels, or made in `room`. */
static const uint8_t *packed(const Tensor *w, int panel, int n_panels, int col, int n, uint8_t *room, size_t *stride) {
    *stride = panel_bytes(w, w->panels ? w->cols : n);
    if (w->panels) return w->panels + (size_t)panel * *stride + (col ? panel_bytes(w, col) : 0);
    for (int p = 0; p < n_panels; p++) panel_pack(room + (size_t)p * *stride, w, panel + p, col, n);
    return room;
}

/* The same, whole and unpacked. */
static const uint8_t *unpacked(const Tensor *w, int panel, int n_panels, uint8_t *room, uint8_t *ready,
                               size_t *stride) {
    const bool as_packed = !TILES[w->type].packed;
    if (w->panels && as_packed) return packed(w, panel, n_panels, 0, w->cols, room, stride);
    const size_t ready_stride = unpacked_bytes(w, w->cols);
    for (int col = 0; col < w->cols; col += stretch(w)) {
        const int n = w->cols - col < stretch(w) ? w->cols - col : stretch(w);
        for (int p = 0; p < n_panels; p++) {
            uint8_t *to = ready + (size_t)p * ready_stride + unpacked_bytes(w, col);
            if (as_packed)
                panel_pack(to, w, panel + p, col, n);
            else
                unpack(to, w->type, packed(w, panel + p, 1, col, n, room, stride), n);
        }
    }
    *stride = ready_stride;
    return ready;
}

/* y[0 .. n) (+)= lanes [first, first + n) of v. */
INLINE void store_lanes(float *y, vf v, int first, int n, bool add) {
    if (n == LANES) {
        vstore(y, add ? vload(y) + v : v);
        return;
    }
    for (int j = 0; j < n; j++) y[j] = add ? y[j] + v[first + j] : v[first + j];
}

/* The part of a product that the panels of one tile make. */
typedef struct {
    float *y; /* of token 0, row `row` */
    size_t stride;
    int row, n_rows; /* that are asked for */
    int panel, n_panels;
    bool add;
} Part;

static void store(const Part *part, const vf *sums, int t, int tokens) {
    for (int p = 0; p < part->n_panels; p++) {
        const int top = (part->panel + p) * LANES, end = part->row + part->n_rows;
        const int first = top < part->row ? part->row - top : 0, last = end - top < LANES ? end - top : LANES;
        float *y = part->y + (size_t)t * part->stride + (top + first - part->row);
        for (int i = 0; i < tokens; i++, y += part->stride)
            store_lanes(y, sums[p * tokens + i], first, last - first, part->add);
    }
}

/* Asks for what `store` will write: while a tile is computed it comes for nothing. */
static void fetch(const Part *part, int t, int tokens) {
    for (int i = t; i < t + tokens; i++)
        for (int p = 0; p < part->n_panels; p++)
            __builtin_prefetch(part->y + (size_t)i * part->stride + (part->panel + p) * LANES - part->row, 1);
}

static void one_token(const Part *part, const Tensor *w, const Input *in) {
    vf sums[MOST_PANELS];
    const int step = w->panels ? w->cols : stretch(w);
    for (int col = 0; col < w->cols; col += step) {
        const int n = w->cols - col < step ? w->cols - col : step;
        const bool last = col + step >= w->cols;
        if (!w->panels && in->far) panel_fetch(w, part->panel + last, last ? 0 : col + step, step);
        size_t stride;
        const uint8_t *panels = packed(w, part->panel, part->n_panels, col, n, in->scratch, &stride);
        Tile *const(*tiles)[3] = TILES[w->type].packed ? TILES[w->type].packed : TILES[w->type].unpacked;
        tiles[part->n_panels / 2][0](sums, panels, stride, in, 0, col, n);
    }
    store(part, sums, 0, 1);
}

static void many_tokens(const Part *part, const Tensor *w, const Input *in, int n) {
    static const int sizes[] = {TILE_TOKENS, 2, 1};
    size_t stride;
    const uint8_t *panels =
        unpacked(w, part->panel, part->n_panels, in->scratch, in->scratch + in->scratch_bytes / 2, &stride);
    for (int t = 0, k = 0; t < n; t += sizes[k]) {
        while (t + sizes[k] > n) k++;
        vf sums[TILE_PANELS * TILE_TOKENS];
        fetch(part, t, sizes[k]);
        TILES[w->type].unpacked[part->n_panels / 2][2 - k](sums, panels, stride, in, t, 0, w->cols);
        store(part, sums, t, sizes[k]);
    }
}

/* int8 groups that vectors do not fit: group by group, one product at a time. */
static void rows_plain(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n,
                       bool add) {
    const size_t n_groups = (size_t)(w->cols / w->group);
    for (int t = 0; t < n; t++)
        for (int r = row; r < row + n_rows; r++) {
            const int8_t *q = in->q + (size_t)t * (size_t)w->cols;
            const int8_t *p = (const int8_t *)w->data + (size_t)r * (size_t)w->cols;
            const char *scales = (const char *)w->scales + (size_t)r * n_groups * sizeof(float);
            float sum = 0;
            for (size_t g = 0; g < n_groups; g++, p += w->group, q += w->group) {
                int64_t dot = 0;
                for (int i = 0; i < w->group; i++) dot += p[i] * q[i];
                float scale;
                memcpy(&scale, scales + g * sizeof scale, sizeof scale);
                sum += (float)dot * (scale * in->groups[(size_t)t * n_groups + g].scale);
            }
            float *out = y + (size_t)t * stride + r;
            *out = add ? *out + sum : sum;
        }
}

static bool fits_vectors(const Tensor *w) { return w->type != TYPE_I8 || w->group % 4 == 0; }

static void add_bias(float *y, size_t stride, const Tensor *w, int row, int n_rows, int n) {
    for (int t = 0; t < n; t++)
        for (int r = row; r < row + n_rows; r++) y[(size_t)t * stride + (size_t)r] += w->bias[r];
}

/* Of `left` panels, as many as there is a tile for. */
static int panels_at_once(Type type, bool far, int left, int n) {
    if (n == 1 && (far || TILES[type].packed)) return 1; /* one stream is what the hardware follows best */
    return n == 1 && left >= MOST_PANELS ? MOST_PANELS : left >= TILE_PANELS ? TILE_PANELS : 1;
}

void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add) {
    const int end = row + n_rows;
    Part part = {.y = y + row, .stride = stride, .row = row, .n_rows = n_rows, .add = add};
    for (int panel = row / LANES; fits_vectors(w) && panel * LANES < end; panel += part.n_panels) {
        part.panel = panel;
        part.n_panels = panels_at_once(w->type, in->far, (end - 1) / LANES - panel + 1, n);
        if (n == 1)
            one_token(&part, w, in);
        else
            many_tokens(&part, w, in, n);
    }
    if (!fits_vectors(w)) rows_plain(y, stride, w, row, n_rows, in, n, add);
    if (w->bias) add_bias(y, stride, w, row, n_rows, n);
}

/* The rows of one thread, in whole panels. */
static int share_of(int rows) {
    const int panels = (rows - 1) / LANES + 1, threads = omp_get_num_threads();
    return ((panels - 1) / threads + 1) * LANES;
}

int matmul_task_rows(int rows, int n) { return n == 1 ? share_of(rows) : TILE_PANELS * LANES; }

void matmul(float *y, const Tensor *w, const Input *in, int n, bool add) {
    const int step = share_of(w->rows);
#pragma omp for schedule(static)
    for (int row = 0; row < w->rows; row += step)
        matmul_rows(y, (size_t)w->rows, w, row, w->rows - row < step ? w->rows - row : step, in, n, add);
}

/* ---- the activations' side ---------------------------------------------------- */

enum { INPUT_GROUP = 32 }; /* activations to a scale, unless the weights say otherwise */

/* Room for two stretches of packed panels, and then for two unpacked ones. */
static size_t scratch_bytes(int cols) { return 2 * (size_t)MOST_PANELS * (size_t)(cols + 32) * VBYTES; }

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols, int n_threads) {
    const size_t n = (size_t)max_rows * (size_t)max_cols;
    *buffer = (InputBuffer){.q = allocate(n, sizeof *buffer->q),
                            .groups = allocate(n, sizeof *buffer->groups),
                            .scratch = allocate((size_t)n_threads, scratch_bytes(max_cols)),
                            .scratch_bytes = scratch_bytes(max_cols)};
    return buffer->q && buffer->groups && buffer->scratch ? 0 : -1;
}

void input_buffer_close(InputBuffer *buffer) {
    free(buffer->q);
    free(buffer->groups);
    free(buffer->scratch);
    *buffer = (InputBuffer){0};
}

static void prepare_row(const Input *in, const float *x, size_t row) {
    const size_t cols = (size_t)in->cols;
    quantize_i8(in->q + row * cols, in->groups + row * (cols / (size_t)in->group), x, in->cols, in->group);
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n) {
    const size_t thread = (size_t)omp_get_thread_num();
    const int cols = w->cols;
    Input in = {.x = x,
                .q = buffer->q,
                .groups = buffer->groups,
                .cols = cols,
                .far = buffer->far,
                .group = w->type == TYPE_I8 ? w->group : INPUT_GROUP,
                .scratch = buffer->scratch + thread * buffer->scratch_bytes,
                .scratch_bytes = buffer->scratch_bytes};
    if (!type_wants_bytes(w->type)) return in;
    if (n == 1) {
        in.q += thread * (size_t)cols;
        in.groups += thread * (size_t)(cols / in.group);
        prepare_row(&in, x, 0);
        return in;
    }
#pragma omp for schedule(static)
    for (int t = 0; t < n; t++) prepare_row(&in, x + (size_t)t * (size_t)cols, (size_t)t);
    return in;
}

Input input_from(const Input *in, int row) {
    Input rest = *in;
    rest.x += (size_t)row * (size_t)in->cols;
    rest.q += (size_t)row * (size_t)in->cols;
    rest.groups += (size_t)row * (size_t)(in->cols / in->group);
    return rest;
}
