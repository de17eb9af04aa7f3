/* input.c: the left operand of products. Owns its memory and its conversion to
 * int8 groups (quant.c does the arithmetic).
 * Tests: quant, matmul. */
#include "kernels/input.h"
#include "base/memory.h"
#include "kernels/lanes.h"
#include "kernels/team.h"
#include <omp.h>

void input_lay_out(InputBuffer *buffer, Arena *a, double rows, int cols,
                   int n_threads) {
    double n = rows * cols;
    /* the last quad of a row may be incomplete */
    buffer->q = arena_take(a, n + 3 * rows, sizeof *buffer->q);
    buffer->groups = arena_take(a, n, sizeof *buffer->groups);
    /* Half of the scratch is for packed panels, half for unpacked ones; each
     * has room for the panels of any tile (tiles.h). TYPE_I8 with groups of one
     * weight fills both halves, because each column takes a quad and a scale;
     * it is never unpacked. */
    buffer->scratch_bytes = 2 * SCRATCH_PANELS * (size_t)cols * VBYTES;
    buffer->scratch = arena_take(a, n_threads, buffer->scratch_bytes);
}

Input input_from(const Input *in, int row) {
    Input rest = *in;
    rest.x += (size_t)row * in->cols;
    rest.q += (size_t)row * in->cols;
    rest.groups += (size_t)row * in->row_groups;
    return rest;
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x,
                    int n) {
    int thread = omp_get_thread_num(),
        group = w->type == TYPE_I8 ? w->group : INPUT_GROUP;
    Input in = {.buffer = buffer,
                .x = x,
                .q = buffer->q,
                .groups = buffer->groups,
                .cols = w->cols,
                .group = group,
                .row_groups = w->cols / group};
    if (!type_takes_int8(w->type))
        return in;
    if (each_thread_computes(n)) {
        in = input_from(&in, thread);
        in.q += 3 * thread; /* no thread reads the beginning of another's row */
        in.x = x;
        quantize_i8(in.q, in.groups, x, in.cols, group);
        return in;
    }
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        Input row = input_from(&in, t);
        quantize_i8(row.q, row.groups, row.x, row.cols, group);
    }
    team_end(buffer->probe, NO_LAYER,
             SITE_INPUT); /* each thread reads all rows */
    return in;
}
