/* input.h: the left operand of products: activations in the forms that weights
 * need. */
#pragma once

#include "kernels/quant.h"
#include "kernels/tensor.h"

enum {
    /* activations that share a scale, unless the weights are TYPE_I8 */
    INPUT_GROUP = 32,
    /* capacity of each half of a thread's scratch, in unpacked panels */
    SCRATCH_PANELS = 4
};

/* Memory for the left operands of products. */
typedef struct {
    int8_t *q;          /* [max_rows][max_cols] */
    InputGroup *groups; /* [max_rows][max_cols] */
    /* [n_threads][scratch_bytes], for panels that are packed or unpacked during
     * a product */
    uint8_t *scratch;
    size_t scratch_bytes;
    struct Probe *probe; /* the session's, set by the caller; or NULL */
} InputBuffer;

struct Arena; /* base/memory.h */

/* Assigns memory for up to rows x cols activations and n_threads threads. */
void input_lay_out(InputBuffer *buffer, struct Arena *a, double rows, int cols,
                   int n_threads);

/* The left operand of a product: n rows of activations, in float32 and in the
 * forms that weights need. */
typedef struct {
    const InputBuffer *buffer;
    const float *x;     /* [n][cols] */
    int8_t *q;          /* [n][cols] */
    InputGroup *groups; /* [n][row_groups] */
    int cols, group, row_groups;
} Input;

/* The weight that determines the form of an input shared by v and w: one that
 * takes int8 if there is one. */
static inline const Tensor *input_weight(const Tensor *v, const Tensor *w) {
    return type_takes_int8(v->type) ? v : w;
}

/* Prepares x[n][w->cols] for products with w. The result also serves weights
 * that take float32 activations, and weights with the same cols and group as w.
 * Every thread of a parallel region calls it, or one thread outside a region.
 * The threads share the work and meet at a barrier (the end of SITE_INPUT),
 * except for n = 1: then each thread makes its own copy (buffer row = thread
 * number), which costs less than a barrier. max_rows of the buffer must be at
 * least max(n, number of threads). */
Input input_prepare(const InputBuffer *buffer, const Tensor *w, const float *x,
                    int n);

/* The same Input without its first `row` rows. */
Input input_from(const Input *in, int row);
