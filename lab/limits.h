/* limits.h: the read bandwidth and the peak arithmetic rates of this
 * machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes per second when all threads repeatedly read a buffer of `bytes` bytes,
 * at most 512 MB, each thread its own part. 0 and a message if memory runs
 * out. */
double read_rate(size_t bytes, int threads);

/* Operations per second of all threads, two per multiply-add: of float32, or of
 * int8 summed in int32. */
double multiply_rate(bool int8, int threads);
