/* matmul.c: linear layers, y = x w^T, for every weight type.
 *
 * Owns the loops around the tiles (tiles.h), and finds, packs and unpacks their
 * panels. panels.h explains panels, blocks, groups and quads. The caller opens
 * the parallel region; the worksharing loops are here.
 *
 * There are two ways to compute a product. For a few tokens, a packed panel is
 * multiplied as it is read from memory. For many tokens, panels are unpacked
 * first, once for all tokens.
 * Tests: matmul, quant.
 */
#include "kernels/matmul.h"
#include "kernels/panels.h"
#include "kernels/tiles.h"
#include <omp.h>

/* max tokens for which a panel is multiplied packed */
enum { FEW_TOKENS = 16 };

static const Kernels *const KERNELS[] = {
#define X(id, ...) [TYPE_##id] = &kernels_##id,
    WEIGHT_TYPES(X)
#undef X
};

/* y[t][r] (+)= the product of row r of w with token t, for rows [row, row +
 * n_rows) and n tokens. */
typedef struct {
    float *y;
    size_t stride; /* floats from a token of y to the next */
    const Tensor *w;
    const Kernels *kernels; /* the inner loops of w's type */
    int row, n_rows;
    const Input *in;
    int n; /* tokens */
    bool add;
    /* this thread's scratch: panels that are packed or unpacked during the
     * product */
    uint8_t *packed, *unpacked;
} Task;

/* ---- panels ------------------------------------------------------------- */

/* Returns columns [col, col + n) of n_panels packed panels, `stride` bytes
 * apart: from w, or packed now into the scratch. */
static const uint8_t *packed_panels(const Task *p, int panel, int n_panels,
                                    int col, int n, size_t *stride) {
    const Tensor *w = p->w;
    *stride = packed_bytes(w, w->panels ? w->cols : n);
    if (w->panels)
        return w->panels + panel * *stride + packed_bytes(w, col);
    for (int i = 0; i < n_panels; i++)
        panel_pack(p->packed + i * *stride, w, panel + i, col, n);
    return p->packed;
}

/* Returns all columns of n_panels unpacked panels: from w, or unpacked now into
 * the scratch. */
static const uint8_t *unpacked_panels(const Task *p, int panel, int n_panels,
                                      size_t *stride) {
    const Tensor *w = p->w;
    const uint8_t *packed =
        packed_panels(p, panel, n_panels, 0, w->cols, stride);
    if (!p->kernels->unpack)
        return packed;
    size_t next = unpacked_bytes(w->type, w->cols);
    for (int i = 0; i < n_panels; i++, packed += *stride)
        p->kernels->unpack(p->unpacked + i * next, packed, w->cols);
    *stride = next;
    return p->unpacked;
}

/* ---- outputs ------------------------------------------------------------ */

/* y[0 .. n) (+)= lanes [first, first + n) of v. */
INLINE void store_lanes(float *y, vf v, int first, int n, bool add) {
    if (n == LANES) {
        vstore(y, add ? vload(y) + v : v);
        return;
    }
    for (int j = 0; j < n; j++)
        y[j] = add ? y[j] + v[first + j] : v[first + j];
}

/* Stores sums[n_panels][tokens] as the outputs of tokens from t on, except the
 * first `skip` tokens. */
static void store_sums(const Task *p, const vf *sums, int panel, int n_panels,
                       int t, int tokens, int skip) {
    for (int k = 0; k < n_panels; k++, sums += tokens) {
        int top = (panel + k) * LANES, end = p->row + p->n_rows;
        int first = top < p->row ? p->row - top : 0,
            last = min_int(end - top, LANES);
        for (int i = skip; i < tokens; i++)
            store_lanes(p->y + (t + i) * p->stride + (top + first), sums[i],
                        first, last - first, p->add);
    }
}

/* ---- a few tokens -------------------------------------------------------- */

/* Multiplies n_panels panels, a few columns at a time, by all tokens.
 * n_panels > 1 only with one token. */
static void few_tokens(const Task *p, int panel, int n_panels) {
    const Tensor *w = p->w;
    Tile *const *tiles = p->kernels->packed;
    vf sums[FEW_TOKENS]; /* [n_panels][p->n] */
    /* about 256 columns stay in the first-level cache */
    int whole = w->type == TYPE_I8 ? w->group : 256;
    int step = p->n == 1 ? w->cols : (255 / whole + 1) * whole;
    for (int col = 0; col < w->cols; col += step) {
        Operands o = {.count = n_panels, .in = p->in, .col = col};
        o.n = min_int(w->cols - col, step);
        o.panels = packed_panels(p, panel, n_panels, col, o.n, &o.stride);
        /* the largest tiles first */
        for (int k = 3; o.t < p->n; o.t += 1 << k) {
            while (o.t + (1 << k) > p->n || !tiles[k])
                k--;
            tiles[k](sums + o.t, o);
        }
    }
    store_sums(p, sums, panel, n_panels, 0, p->n, 0);
}

/* ---- many tokens --------------------------------------------------------- */

/* Begins to read a part of the packed panels from `panel` on, which are next,
 * while the tile of token t is multiplied. Unpacking them would otherwise wait
 * for memory. */
static void prefetch_panels(const Task *p, int panel, int t) {
    const Tensor *w = p->w;
    if (!w->panels)
        return;
    size_t bytes = packed_bytes(w, w->cols), all = TILE_PANELS * bytes;
    size_t end = all * (t + TILE_TOKENS) / p->n;
    for (size_t at = all * t / p->n; at < end; at += CACHE_LINE)
        prefetch_read(w->panels + panel * bytes + at);
}

/* Unpacks n_panels panels and multiplies them by all tokens. The last tile ends
 * at the last token, so it recomputes a few. */
static void many_tokens(const Task *p, int panel, int n_panels) {
    size_t stride;
    const uint8_t *panels = unpacked_panels(p, panel, n_panels, &stride);
    for (int t = 0; t < p->n; t += TILE_TOKENS) {
        prefetch_panels(p, panel + n_panels, t);
        int tokens = min_int(p->n - t, TILE_TOKENS),
            skip = TILE_TOKENS - tokens;
        vf sums[MAX_SUMS];
        for (int i = t; i < t + tokens; i++) /* what store_sums will write */
            for (int k = panel; k < panel + n_panels; k++)
                prefetch_write(p->y + i * p->stride + k * LANES);
        p->kernels->unpacked[n_panels - 1](sums, (Operands){.panels = panels,
                                                            .stride = stride,
                                                            .count = 1,
                                                            .in = p->in,
                                                            .t = t - skip,
                                                            .n = p->w->cols});
        store_sums(p, sums, panel, n_panels, t - skip, TILE_TOKENS, skip);
    }
}

/* ---- products ----------------------------------------------------------- */

/* The panels of one call; for one token several, because a call costs as much
 * as 200 columns of a panel. */
static int panels_at_once(const Tensor *w, int n) {
    if (n > FEW_TOKENS)
        return TILE_PANELS;
    if (n > 1)
        return 1;
    return w->panels ? FEW_TOKENS : SCRATCH_PANELS;
}

void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows,
                 const Input *in, int n, bool add) {
    const InputBuffer *b = in->buffer;
    uint8_t *const scratch =
        b->scratch + omp_get_thread_num() * b->scratch_bytes;
    Task p = {.y = y,
              .stride = stride,
              .w = w,
              .kernels = KERNELS[w->type],
              .row = row,
              .n_rows = n_rows,
              .in = in,
              .n = n,
              .add = add,
              .packed = scratch,
              .unpacked = scratch + b->scratch_bytes / 2};
    int end = (row + n_rows - 1) / LANES + 1, max = panels_at_once(w, n);
    for (int panel = row / LANES; panel < end; panel += max) {
        int n_panels = min_int(end - panel, max);
        if (n <= FEW_TOKENS)
            few_tokens(&p, panel, n_panels);
        else
            many_tokens(&p, panel, n_panels);
    }
    for (int t = 0; t < n && w->bias; t++)
        for (int r = row; r < row + n_rows; r++)
            y[t * stride + r] += w->bias[r];
}

/* Rows per thread, in whole panels. */
static int thread_rows(int rows) {
    int panels = (rows - 1) / LANES + 1, threads = omp_get_num_threads();
    return ((panels - 1) / threads + 1) * LANES;
}

int matmul_task_rows(int rows, int n) {
    return n <= FEW_TOKENS ? thread_rows(rows) : TILE_PANELS * LANES;
}

static void all_rows(float *y, const Tensor *w, const Input *in, int n,
                     bool add) {
    int step = thread_rows(w->rows);
    y += tensor_first_row(w);
#pragma omp for schedule(static) nowait
    for (int row = 0; row < w->rows; row += step)
        matmul_rows(y, tensor_all_rows(w), w, row, min_int(w->rows - row, step),
                    in, n, add);
}

void matmul(float *y, const Tensor *w, const Input *in, int n) {
    all_rows(y, w, in, n, false);
}
void matmul_add(float *y, const Tensor *w, const Input *in, int n) {
    all_rows(y, w, in, n, true);
}
