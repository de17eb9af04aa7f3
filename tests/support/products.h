/* products.h: checks of products that are computed in parts. */
#pragma once

#include "kernels/input.h"
#include "kernels/tensor.h"

#include <stdbool.h>

enum { PRODUCT_ROWS = 172, PRODUCT_TOKENS = 35 }; /* max */

/* A product y[n][w->rows] of x[n][w->cols]; if `add` is set, it was added to
 * y[i] = product_before(i). */
typedef struct {
    Tensor *w; /* without panels */
    const InputBuffer *buffer;
    const float *x, *y;
    int n; /* tokens */
    bool add;
} Product;

float product_before(int i);

/* Allocates a buffer for the inputs of products, as input_lay_out(). -1: out of
 * memory. */
int input_buffer_open(InputBuffer *buffer, int rows, int cols, int n_threads);
void input_buffer_close(InputBuffer *buffer);

/* Checks that the product has the same bits if it is computed in parts of rows
 * and tokens, by three threads, or from panels. */
void check_divisions(const Product *p);
