/* tiles.c: the input and output of tiles: finds, packs and unpacks panels, stores sums. */
#include "kernels/tiles.h"

/* ---- panels ------------------------------------------------------------------- */

/* Few enough to stay in the first-level cache. */
int chunk_columns(const Tensor *w) {
    if (!type_takes_int8(w->type)) return 128;
    const int whole = w->type == TYPE_I8 ? w->group : 256;
    return whole < 256 ? 256 / whole * whole : whole;
}

void prefetch_next_chunk(const Task *p, int panel, int col, int n) {
    const bool last = col + n >= p->w->cols;
    if (p->w->panels || !p->in->buffer->weights_exceed_l2) return;
    panel_prefetch(p->w, panel + last, last ? 0 : col + n, n);
}

const uint8_t *packed_panels(const Task *p, int panel, int n_panels, int col, int n, size_t *stride) {
    const Tensor *w = p->w;
    *stride = packed_bytes(w, w->panels ? w->cols : n);
    if (w->panels) return w->panels + (size_t)panel * *stride + packed_bytes(w, col);
    for (int i = 0; i < n_panels; i++) panel_pack(p->in->packed + (size_t)i * *stride, w, panel + i, col, n);
    return p->in->packed;
}

const uint8_t *unpacked_panels(const Task *p, int panel, int n_panels, int offset, size_t *stride) {
    const Tensor *w = p->w;
    if (!p->kernels->unpack) return packed_panels(p, panel, n_panels, 0, w->cols, stride);
    const int step = chunk_columns(w);
    *stride = unpacked_bytes(w, w->cols);
    for (int col = 0; col < w->cols; col += step) {
        const int n = w->cols - col < step ? w->cols - col : step;
        for (int i = 0; i < n_panels; i++) {
            size_t unused;
            const uint8_t *packed = packed_panels(p, panel + i, 1, col, n, &unused);
            p->kernels->unpack(p->in->unpacked + (size_t)i * *stride + unpacked_bytes(w, col), packed, n, offset,
                               first_prefetch(w, 0));
        }
    }
    return p->in->unpacked;
}

/* ---- outputs ------------------------------------------------------------------- */

/* y[0 .. n) (+)= lanes [first, first + n) of v. */
INLINE void store_lanes(float *y, vf v, int first, int n, bool add) {
    if (n == LANES) {
        vstore(y, add ? vload(y) + v : v);
        return;
    }
    for (int j = 0; j < n; j++) y[j] = add ? y[j] + v[first + j] : v[first + j];
}

void store_sums(const Task *p, const vf *sums, int panel, int n_panels, int t, int tokens, int skip) {
    for (int k = 0; k < n_panels; k++, sums += tokens) {
        const int top = (panel + k) * LANES, end = p->row + p->n_rows;
        const int first = top < p->row ? p->row - top : 0, last = end - top < LANES ? end - top : LANES;
        for (int i = skip; i < tokens; i++)
            store_lanes(p->y + (size_t)(t + i) * p->stride + (top + first), sums[i], first, last - first, p->add);
    }
}

void prefetch_outputs(const Task *p, int panel, int n_panels, int t, int tokens) {
    for (int i = t; i < t + tokens; i++)
        for (int k = panel; k < panel + n_panels; k++) prefetch_write(p->y + (size_t)i * p->stride + k * LANES);
}
