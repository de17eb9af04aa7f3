/* norm_fused.h: RMSNorm fused with the residual add. */
#pragma once

/* x += r, then y = rmsnorm(x), in one pass over memory; bit-identical to an addition followed by rmsnorm(). All arrays
 * are [dim]; y must not overlap x or r. The decoder does not use it, because its products add their results to x. */
void add_rmsnorm(float *y, float *x, const float *r, const float *gamma, int dim, float eps);
