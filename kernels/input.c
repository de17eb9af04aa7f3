/* input.c: the left operand of products. Owns its memory and its conversion to
 * int8 groups (quant.c does the arithmetic) and to the form of a unit that
 * multiplies tiles.
 * Tests: quant, matmul. */
#include "kernels/input.h"
#include "base/memory.h"
#include "kernels/lanes.h"
#include "kernels/team.h"
#include <omp.h>

void input_lay_out(InputBuffer *buffer, Arena *a, double rows, int cols,
                   int n_threads, bool bf16) {
    buffer->unit = tile_unit();
    double n = rows * cols;
    /* the last quad of a row may be incomplete */
    buffer->q = arena_take(a, n + 3 * rows, sizeof *buffer->q);
    buffer->groups = arena_take(a, n, sizeof *buffer->groups);
    size_t unit_row = buffer->unit && bf16 ? buffer->unit->row_bytes(cols) : 0;
    buffer->unit_rows = unit_row ? arena_take(a, rows, unit_row) : NULL;
    /* Half of the scratch is for packed panels, half for unpacked ones; each
     * has room for the panels of any tile (tiles.h). TYPE_I8 with groups of one
     * weight fills both halves, because each column takes a quad and a scale;
     * it is never unpacked. */
    buffer->scratch_bytes = 2 * SCRATCH_PANELS * ((size_t)cols + 32) * VBYTES;
    buffer->scratch = arena_take(a, n_threads, buffer->scratch_bytes);
}

Input input_from(const Input *in, int row) {
    Input rest = *in;
    rest.x += (size_t)row * in->cols;
    rest.q += (size_t)row * in->cols;
    rest.groups += (size_t)row * in->row_groups;
    if (in->unit_rows)
        rest.unit_rows += (size_t)row * in->buffer->unit->row_bytes(in->cols);
    return rest;
}

/* Converts the first row of `in` to the forms that products with w need. */
static void convert_row(const Input *in, const Tensor *w) {
    if (type_takes_int8(w->type))
        quantize_i8(in->q, in->groups, in->x, in->cols, in->group);
    if (in->unit_rows)
        in->buffer->unit->convert_row(in->unit_rows, in->x, in->cols);
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x,
                    int n) {
    int thread = omp_get_thread_num(),
        group = w->type == TYPE_I8 ? w->group : INPUT_GROUP;
    Input in = {.buffer = buffer,
                .x = x,
                .q = buffer->q,
                .groups = buffer->groups,
                .unit_rows = buffer->unit_rows,
                .cols = w->cols,
                .group = group,
                .row_groups = w->cols / group};
    if (!type_takes_int8(w->type) && !in.unit_rows)
        return in;
    if (each_thread_computes(n)) {
        in = input_from(&in, thread);
        in.q += 3 * thread; /* no thread reads the beginning of another's row */
        in.x = x;
        convert_row(&in, w);
        return in;
    }
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        Input row = input_from(&in, t);
        convert_row(&row, w);
    }
    team_end(buffer->probe, NO_LAYER,
             SITE_INPUT); /* each thread reads all rows */
    return in;
}
