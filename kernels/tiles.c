/* tiles.c: the input and output of tiles: finds, packs and unpacks panels,
 * stores sums.
 * Tests: matmul, quant. */
#include "kernels/tiles.h"

/* ---- panels ------------------------------------------------------------- */

const uint8_t *packed_panels(const Task *p, int panel, int n_panels, int col,
                             int n, size_t *stride) {
    const Tensor *w = p->w;
    *stride = packed_bytes(w, w->panels ? w->cols : n);
    if (w->panels)
        return w->panels + panel * *stride + packed_bytes(w, col);
    for (int i = 0; i < n_panels; i++)
        panel_pack(p->packed + i * *stride, w, panel + i, col, n);
    return p->packed;
}

/* Returns all columns of n_panels unpacked panels: from w, or unpacked now into
 * the scratch. `offset` as in Unpack. */
static const uint8_t *unpacked_panels(const Task *p, int panel, int n_panels,
                                      int offset, size_t *stride) {
    const Tensor *w = p->w;
    const uint8_t *packed =
        packed_panels(p, panel, n_panels, 0, w->cols, stride);
    if (!p->kernels->unpack)
        return packed;
    size_t next = unpacked_bytes(w, w->cols);
    for (int i = 0; i < n_panels; i++, packed += *stride)
        p->kernels->unpack(p->unpacked + i * next, packed, w->cols, offset);
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

void store_sums(const Task *p, const vf *sums, int panel, int n_panels, int t,
                int tokens, int skip) {
    for (int k = 0; k < n_panels; k++, sums += tokens) {
        int top = (panel + k) * LANES, end = p->row + p->n_rows;
        int first = top < p->row ? p->row - top : 0,
            last = min_int(end - top, LANES);
        for (int i = skip; i < tokens; i++)
            store_lanes(p->y + (size_t)(t + i) * p->stride + (top + first),
                        sums[i], first, last - first, p->add);
    }
}

/* Prefetches what store_sums will write. */
static void prefetch_outputs(const Task *p, int panel, int n_panels, int t,
                             int tokens) {
    for (int i = t; i < t + tokens; i++)
        for (int k = panel; k < panel + n_panels; k++)
            prefetch_write(p->y + (size_t)i * p->stride + k * LANES);
}

void many_tokens(const Task *p, int panel, int n_panels, Tile *tile,
                 int tile_tokens, int offset) {
    size_t stride;
    const uint8_t *panels =
        unpacked_panels(p, panel, n_panels, offset, &stride);
    for (int t = 0; t < p->n; t += tile_tokens) {
        int tokens = min_int(p->n - t, tile_tokens),
            skip = tile_tokens - tokens;
        vf sums[MANY_SUMS];
        prefetch_outputs(p, panel, n_panels, t, tokens);
        tile(sums, (Operands){.panels = panels,
                              .stride = stride,
                              .count = 1,
                              .w = p->w,
                              .in = p->in,
                              .t = t - skip,
                              .n = p->w->cols});
        store_sums(p, sums, panel, n_panels, t - skip, tile_tokens, skip);
    }
}
