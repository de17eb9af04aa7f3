/* input.c: the left operand of products. Owns its memory and its conversion to int8 groups (quant.c does the
 * arithmetic) and to the form of a unit that multiplies tiles. */
#include "kernels/input.h"
#include "base/memory.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include <omp.h>
#include <stdlib.h>

/* Bytes of a token's activations in the form of this processor's unit. */
static size_t unit_row_bytes(int cols, bool bf16) {
    const TileUnit *unit = tile_unit();
    return unit && bf16 ? unit->row_bytes(cols) : 0;
}

/* Half of the scratch is for packed panels, half for unpacked ones; each has room for the panels of any tile (tiles.h).
 * TYPE_I8 with groups of one weight fills both halves, because each column takes a quad and a scale; it is never
 * unpacked. */
static size_t scratch_bytes(int max_cols) { return 2 * (size_t)SCRATCH_PANELS * ((size_t)max_cols + 32) * VBYTES; }

double input_buffer_bytes(double rows, int cols, int n_threads, bool bf16) {
    const double row_bytes = (double)cols * (double)(sizeof(int8_t) + sizeof(InputGroup));
    return rows * (row_bytes + (double)unit_row_bytes(cols, bf16)) + n_threads * (double)scratch_bytes(cols);
}

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols, int n_threads, bool bf16) {
    const size_t rows = (size_t)max_rows, n = rows * (size_t)max_cols, row_bytes = unit_row_bytes(max_cols, bf16);
    *buffer = (InputBuffer){.scratch_bytes = scratch_bytes(max_cols), .unit = tile_unit()};
    if (!(buffer->q = allocate_zeroed(n + 3, sizeof *buffer->q))) return -1; /* the last quad may be incomplete */
    if (!(buffer->groups = allocate(n, sizeof *buffer->groups))) return -1;
    if (row_bytes && !(buffer->unit_rows = allocate(rows, row_bytes))) return -1;
    buffer->scratch = allocate((size_t)n_threads, buffer->scratch_bytes);
    return buffer->scratch ? 0 : -1;
}

void input_buffer_close(InputBuffer *buffer) {
    free(buffer->q);
    free(buffer->groups);
    free(buffer->unit_rows);
    free(buffer->scratch);
    *buffer = (InputBuffer){0};
}

Input input_from(const Input *in, int row) {
    Input rest = *in;
    rest.x += (size_t)row * (size_t)in->cols;
    rest.q += (size_t)row * (size_t)in->cols;
    rest.groups += (size_t)row * (size_t)in->row_groups;
    if (in->unit_rows) rest.unit_rows += (size_t)row * in->buffer->unit->row_bytes(in->cols);
    return rest;
}

/* Converts the first row of `in` to the forms that products with w need. */
static void convert_row(const Input *in, const Tensor *w) {
    if (type_takes_int8(w->type)) quantize_i8(in->q, in->groups, in->x, in->cols, in->group);
    if (in->unit_rows) in->buffer->unit->convert_row(in->unit_rows, in->x, in->cols);
}

Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n) {
    const int thread = omp_get_thread_num(), group = w->type == TYPE_I8 ? w->group : INPUT_GROUP;
    uint8_t *const scratch = buffer->scratch + (size_t)thread * buffer->scratch_bytes;
    Input in = {.buffer = buffer,
                .x = x,
                .q = buffer->q,
                .groups = buffer->groups,
                .unit_rows = buffer->unit_rows,
                .packed = scratch,
                .unpacked = scratch + buffer->scratch_bytes / 2,
                .cols = w->cols,
                .group = group,
                .row_groups = w->cols / group};
    if (!type_takes_int8(w->type) && !in.unit_rows) return in;
    if (each_thread_computes(n)) {
        in = input_from(&in, thread);
        in.x = x;
        convert_row(&in, w);
        return in;
    }
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        const Input row = input_from(&in, t);
        convert_row(&row, w);
    }
    team_end(buffer->probe, NO_LAYER, SITE_INPUT); /* each thread reads all rows */
    return in;
}
