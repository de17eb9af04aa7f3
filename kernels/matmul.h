/* matmul.h: products of activations with weights, y = x w^T. */
#pragma once

#include "kernels/quant.h"
#include "kernels/tensor.h"

/* The left side of a product: n rows of activations, in the form that the weights want (float32, int8 groups, or the
 * parts of amx.h). */
typedef struct {
    const float *x;     /* [n][cols] */
    int8_t *q;          /* [n][cols] */
    InputGroup *groups; /* [n][cols / group] */
    uint8_t *parts;     /* [n][amx_parts_bytes(cols)]: BF16 weights are multiplied in tiles; NULL: they are not */
    int cols, group;
    bool weights_exceed_l2; /* one token's weights are more than the second-level cache holds */
    bool tiles;             /* the machine has them (simd.h), and may use them */
    uint8_t *scratch;       /* of this thread, for panels that are made on the way */
    size_t scratch_bytes;   /* of one thread */
} Input;

/* Memory for Inputs of up to max_rows x max_cols, and n_threads scratches: an Input without x, cols and group. The
 * caller sets weights_exceed_l2. `bf16`: some weights are BF16, and are multiplied in tiles where the machine has
 * them. */
typedef Input InputBuffer;

int input_buffer_open(InputBuffer *buffer, int max_rows, int max_cols, int n_threads, bool bf16);
double input_buffer_bytes(double rows, int cols, int n_threads, bool bf16); /* what it then allocates at most */
void input_buffer_close(InputBuffer *buffer);

/* Prepares x[n][w->cols] for products with w, with any weight that takes float32 activations, and with any of the same
 * cols and group as w. Call it from every thread of a parallel region, or outside one. For n > 1 the threads share the
 * work and meet at a barrier; for n = 1 each makes a copy of its own (buffer row = thread number), which costs less
 * than the barrier. max_rows is at least n and the thread count. */
Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x, int n);

/* The same Input without its first `row` rows. */
Input input_from(const Input *in, int row);

/* y[t][r] = sum_c w[r][c] x[t][c] for rows r in [row, row + n_rows) and tokens t in [0, n); added to y where `add` is
 * set. y points at y[0][0] and has `stride` floats to a token. One thread does all of it. Every output is summed in one
 * fixed order, whatever n, row and n_rows are: the same bits. */
void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add);

/* Rows of one task where threads share a product for n tokens: a whole share for one token, cache-sized for many. */
int matmul_task_rows(const Tensor *w, const Input *in, int n);

/* y[n][rows] = x w^T, and y += x w^T. The region's threads share the rows; the caller lets them meet at a barrier.
 * Where ranks share the rows, y[n][all rows] gets the outputs of this rank's. */
void matmul(float *y, const Tensor *w, const Input *in, int n);
void matmul_add(float *y, const Tensor *w, const Input *in, int n);
