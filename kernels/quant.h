/* quant.h: conversion of weights and activations between float32 and their
 * types. */
#pragma once

#include "kernels/tensor.h"

/* A group of int8 activations: the scale, the sums of the dequantized values
 * and of their first half, and the exact sums of the bytes. */
typedef struct {
    float scale, sum, first_sum;
    int32_t total, first_half;
} InputGroup;

/* Quantizes x[n] to int8 in groups of `group` (which divides n): scale = max|x|
 * / 127, q = round(x / scale), ties to even; a group of zeros gets scale 0.
 * Writes q[n] and groups[n / group]. NaN or infinity in x makes its group's
 * scale NaN or infinite, so it propagates to the product. */
void quantize_i8(int8_t *q, InputGroup *groups, const float *x, int n,
                 int group);

/* y[cols] = row `row` of w in float32, as the type defines it. */
void dequantize_row(float *y, const Tensor *w, int row);

/* Converts x[n] to a type that norma writes. The bytes are the same as those of
 * the gguf library. */
void quantize_row(void *out, Type type, const float *x, int n);
