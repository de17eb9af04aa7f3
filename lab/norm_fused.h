/* norm_fused.h: RMSNorm fused with the residual add. */
#pragma once

/* x += r, then y = rmsnorm(x), in one pass over memory; the same bits as an addition and rmsnorm(). All [dim]; y is
 * neither x nor r. (The decoder does not use it: its products add to x as they are stored.) */
void add_rmsnorm(float *y, float *x, const float *r, const float *gamma, int dim, float eps);
