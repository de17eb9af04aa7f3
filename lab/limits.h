/* limits.h: how fast this machine reads memory, and multiplies. */
#pragma once

#include <stddef.h>

/* Bytes/s of reading at least `bytes` of memory, the same again and again, with all threads; 0 and a message: there is
 * no memory. */
double read_rate(size_t bytes, int threads);

/* Multiply-adds of all threads, as operations/s, two each: of float32, and of int8 summed in int32. */
double float_rate(int threads);
double byte_rate(int threads);
