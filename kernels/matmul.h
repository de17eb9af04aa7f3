/* matmul.h: products of activations with weights, y = x w^T. */
#pragma once

#include "kernels/input.h"
#include "kernels/tensor.h"

/* y[t][r] = sum_c w[r][c] x[t][c] for rows r in [row, row + n_rows) and tokens
 * t in [0, n); added to y if `add`. y points at y[0][0] and has `stride` floats
 * per token. The calling thread computes all of it. Every output is summed in
 * one fixed order, so its bits are the same for any n, row and n_rows. */
void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows,
                 const Input *in, int n, bool add);

/* Rows per task when threads share a product of `rows` rows and n tokens: for
 * few tokens a thread's whole share; for many tokens fewer, so that they stay
 * in the cache. */
int matmul_task_rows(int rows, int n);

/* y[n][rows] = x w^T, and y += x w^T. The region's threads share the rows; the
 * caller adds the barrier. If ranks share the rows, y is y[n][all rows] and
 * receives this rank's outputs. */
void matmul(float *y, const Tensor *w, const Input *in, int n);
void matmul_add(float *y, const Tensor *w, const Input *in, int n);
