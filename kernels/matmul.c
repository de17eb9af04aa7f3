/* matmul.c: linear layers, y = x w^T, for every weight type.
 *
 * Owns the loops around the tiles (tiles.h). panels.h explains panels, blocks,
 * groups and quads. The caller opens the parallel region; the worksharing loops
 * are here.
 *
 * There are three ways to compute a product. For a few tokens, a packed panel
 * is multiplied as it is read from memory. For many tokens, panels are unpacked
 * first, once for all tokens. A unit of the processor that multiplies tiles
 * (tile_unit.h) computes the products that it supports.
 * Tests: matmul, quant.
 */
#include "kernels/matmul.h"
#include "kernels/tile_unit.h"
#include "kernels/tiles.h"
#include <omp.h>

/* max tokens for which a panel is multiplied packed */
enum { FEW_TOKENS = 16 };

static const Kernels *const KERNELS[] = {
#define X(id, ...) [TYPE_##id] = &kernels_##id,
    WEIGHT_TYPES(X)
#undef X
};

/* ---- a few tokens -------------------------------------------------------- */

/* Adds the products of columns [col, col + n) of n_panels packed panels to
 * sums[n_panels][tokens]. */
static void add_packed(vf *sums, const Task *p, Operands o, int n_panels) {
    Tile *const *tiles = p->kernels->packed;
    o.count = n_panels;
    for (int k = 3; o.t < p->n; o.t += 1 << k) {
        while (o.t + (1 << k) > p->n || !tiles[k])
            k--;
        tiles[k](sums + o.t, o);
    }
}

/* Multiplies n_panels panels, a few columns at a time, by all tokens.
 * n_panels > 1 only with one token. */
static void few_tokens(const Task *p, int panel, int n_panels) {
    const Tensor *w = p->w;
    vf sums[FEW_TOKENS];
    /* about 256 columns stay in the first-level cache */
    int whole = w->type == TYPE_I8 ? w->group : 256;
    int step = p->n == 1 ? w->cols : (255 / whole + 1) * whole;
    for (int col = 0; col < w->cols; col += step) {
        Operands o = {.w = w, .in = p->in, .col = col};
        o.n = min_int(w->cols - col, step);
        o.panels = packed_panels(p, panel, n_panels, col, o.n, &o.stride);
        add_packed(sums, p, o, n_panels);
    }
    store_sums(p, sums, panel, n_panels, 0, p->n, 0);
}

/* ---- products ----------------------------------------------------------- */

static void panel_rows(const Task *p) {
    bool few = p->n <= FEW_TOKENS;
    /* panels at once; for one token several, because a call costs as much as
     * 200 columns of a panel */
    int max = !few           ? TILE_PANELS
              : p->n > 1     ? 1
              : p->w->panels ? FEW_TOKENS
                             : SCRATCH_PANELS;
    for (int panel = p->panel; panel < p->end; panel += max) {
        int n = min_int(p->end - panel, max);
        if (few)
            few_tokens(p, panel, n);
        else
            many_tokens(p, panel, n, p->kernels->unpacked[n - 1], TILE_TOKENS,
                        zero_byte(p->w->type));
    }
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
              .panel = row / LANES,
              .end = (row + n_rows - 1) / LANES + 1,
              .in = in,
              .n = n,
              .add = add,
              .packed = scratch,
              .unpacked = scratch + b->scratch_bytes / 2};
    if (!b->unit || !b->unit->multiply(&p))
        panel_rows(&p);
    for (int t = 0; t < n && w->bias; t++)
        for (int r = row; r < row + n_rows; r++)
            y[t * stride + r] += w->bias[r];
}

/* Rows per thread, in whole panels. */
static int thread_rows(int rows) {
    int panels = (rows - 1) / LANES + 1, threads = omp_get_num_threads();
    return ((panels - 1) / threads + 1) * LANES;
}

int matmul_task_rows(const Tensor *w, const Input *in, int n) {
    int share = thread_rows(w->rows), panels = share / LANES;
    if (n <= FEW_TOKENS)
        return share;
    int max = in->buffer->unit ? in->buffer->unit->task_panels(w) : 0;
    if (!max)
        return TILE_PANELS * LANES;
    int tasks = (panels - 1) / max + 1; /* per thread */
    return ((panels - 1) / tasks + 1) * LANES;
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
