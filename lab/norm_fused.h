/* norm_fused.h: RMSNorm fused with the residual add. */
#pragma once

#include "norm.h"

/* x += r, then y = RMSNorm(x), in one pass over memory; bit-identical to an
 * addition followed by norm_token(). All arrays are [dim]; y must not overlap x
 * or r. The decoder does not use it, because its products add their results to
 * x. */
void add_rmsnorm(float *y, float *x, const float *r, const Norm *norm, int dim);
