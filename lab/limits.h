/* limits.h: the read bandwidth and the peak arithmetic rates of this
 * machine. */
#pragma once

#include "kernels/tensor.h"
#include <stddef.h>

/* Bytes per second when all threads repeatedly read a buffer of `bytes` bytes,
 * at most 512 MB, each thread its own part. 0 and a message if memory runs
 * out. */
double read_rate(size_t bytes, int threads);

/* Operations per second of all threads, two per multiply-add, of the kind that
 * weights of this type need: of float32, or of int8 summed in int32. With AVX2
 * some products are first added in 16 bits (kernels/panels.h: quads_added). */
double multiply_rate(Type type, int threads);
