/* norm_backward.h: gradients of the norms. */
#pragma once

#include "norm.h"

/* Gradients of one token's RMSNorm or LayerNorm, given dy = dL/dy. Writes dx =
 * dL/dx; adds to dgamma and dbeta, which accumulate over tokens; dbeta may be
 * NULL. All arrays are [dim]; dx must not overlap dy or x. Derived in
 * docs/norms.md. */
void norm_backward(float *dx, float *dgamma, float *dbeta, const float *dy,
                   const float *x, const Norm *norm, int dim);
