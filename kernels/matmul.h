/* matmul.h: products of activations with weights, y = x w^T. */
#pragma once

#include "kernels/input.h"
#include "kernels/tensor.h"

/* y[t][r] = sum_c w[r][c] x[t][c] for rows r in [row, row + n_rows) and tokens t in [0, n); added to y where `add` is
 * set. y points at y[0][0] and has `stride` floats per token. One thread computes all of it. Every output is summed in
 * one fixed order: the same bits for any n, row and n_rows. */
void matmul_rows(float *y, size_t stride, const Tensor *w, int row, int n_rows, const Input *in, int n, bool add);

/* Rows of one task where threads share a product for n tokens: a thread's whole share for few tokens, fewer rows that
 * stay in the cache for many. */
int matmul_task_rows(const Tensor *w, const Input *in, int n);

/* y[n][rows] = x w^T, and y += x w^T. The region's threads share the rows; the caller adds the barrier. Where ranks
 * share the rows, y is y[n][all rows] and gets this rank's outputs. */
void matmul(float *y, const Tensor *w, const Input *in, int n);
void matmul_add(float *y, const Tensor *w, const Input *in, int n);
