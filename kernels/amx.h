/* amx.h: products of BF16 weights in the tile registers of Intel's AMX, for machines that have them. */
#pragma once

#include "kernels/simd.h"
#include "kernels/tensor.h"

enum { AMX_TOKENS = 16, AMX_PANELS = 2 }; /* of a product, at most */

/* Bytes of one token's activations in three parts. */
size_t amx_parts_bytes(int cols);

/* Writes x[cols] as three bfloat16 parts, which together are x. */
void amx_split(uint8_t *parts, const float *x, int cols);

/* Before the products of n <= AMX_TOKENS tokens, and behind the last: sets up the thread's tile registers, frees them.
 */
void amx_open(int n);
void amx_close(void);

/* sums[n_panels][n] = the products of packed BF16 panels, `stride` bytes apart, with the parts of the n tokens that
 * amx_open was told. One token takes one panel, and asks for what comes. A token's sums have the same bits for any n.
 */
void amx_product(vf *sums, const uint8_t *panels, size_t stride, int n_panels, const uint8_t *parts, int n, int cols,
                 Request r);
