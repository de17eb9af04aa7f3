/* products.c: checks that a product has the same bits in parts of rows and
 * tokens, with threads, and from panels. */
#include "base/memory.h"
#include "kernels/matmul.h"
#include "kernels/panels.h"
#include "kernels/tensor.h"

#include "tests/support/products.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <stdlib.h>
#include <string.h>

enum { GAP = 3 };

int input_buffer_open(InputBuffer *buffer, int rows, int cols, int n_threads) {
    Arena a = {0};
    *buffer = (InputBuffer){0};
    input_lay_out(buffer, &a, rows, cols, n_threads);
    a = (Arena){.memory = allocate((size_t)a.used, 1)};
    if (a.memory)
        input_lay_out(buffer, &a, rows, cols, n_threads);
    return a.memory ? 0 : -1;
}

void input_buffer_close(InputBuffer *buffer) {
    free(buffer->q); /* the first array of the memory */
    *buffer = (InputBuffer){0};
}

float product_before(int i) {
    return 0.5f + (float)(i % 5);
}

/* Computes n_rows rows and `max` tokens at a time into wider rows, whose other
 * elements must not change. */
static void check_pieces(const Product *p, int n_rows, int max) {
    static float pieces[PRODUCT_TOKENS * (PRODUCT_ROWS + GAP)];
    const Tensor *w = p->w;
    int rows = w->rows, stride = rows + GAP;
    for (int i = 0; i < p->n * stride; i++)
        pieces[i] = i % stride < rows
                        ? product_before(i / stride * rows + i % stride)
                        : -9;
    for (int t = 0; t < p->n; t += max) {
        int tokens = p->n - t < max ? p->n - t : max;
        Input in =
            input_prepare(p->buffer, w, p->x + (size_t)(t * w->cols), tokens);
        for (int r = 0; r < rows; r += n_rows)
            matmul_rows(pieces + t * stride, (size_t)stride, w, r,
                        rows - r < n_rows ? rows - r : n_rows, &in, tokens,
                        p->add);
    }
    for (int t = 0; t < p->n; t++) {
        CHECK(
            !memcmp(pieces + t * stride, p->y + t * rows,
                    (size_t)rows * sizeof *pieces),
            "%s %d x %d, %d tokens, group %d: other bits with %d rows and %d tokens at a time",
            type_name(w->type), rows, w->cols, p->n, w->group, n_rows, max);
        for (int i = rows; i < stride; i++)
            CHECK(pieces[t * stride + i] == -9,
                  "wrote past the requested rows");
    }
}

/* The threads of a region share the preparation and the rows. */
static void check_threads(const Product *p) {
    static float shared[PRODUCT_TOKENS * PRODUCT_ROWS];
    const Tensor *w = p->w;
    for (int i = 0; i < p->n * w->rows; i++)
        shared[i] = product_before(i);
#pragma omp parallel num_threads(3)
    {
        Input in = input_prepare(p->buffer, w, p->x, p->n);
        (p->add ? matmul_add : matmul)(shared, w, &in, p->n);
    }
    CHECK(!memcmp(shared, p->y, (size_t)(p->n * w->rows) * sizeof *shared),
          "%s %d x %d, %d tokens, group %d: other bits with 3 threads",
          type_name(w->type), w->rows, w->cols, p->n, w->group);
}

void check_divisions(const Product *p) {
    check_pieces(p, 1, 1);
    check_pieces(p, 5, p->n);
    check_pieces(p, 9, 2);
    check_threads(p);
    uint8_t *panels = allocate(panels_bytes(p->w) + 1, 1);
    CHECK(panels, "no memory");
    if (panels_bytes(p->w))
        tensor_pack(p->w, panels, 2);
    check_pieces(p, p->w->rows, 1);
    check_pieces(p, 5, 1);
    check_pieces(p, p->w->rows, p->n);
    check_pieces(p, 5, p->n);
    check_threads(p);
    free(panels);
    p->w->panels = NULL;
}
