/* norm_backward.h: gradients of the norms. */
#pragma once

/* Gradients of one token's norm, given dy = dL/dy. Writes dx = dL/dx; adds to dgamma and dbeta, which accumulate over
 * tokens. All arrays are [dim]; dx must not overlap dy or x. Derived in docs/norms.md. */
void rmsnorm_backward(float *dx, float *dgamma, const float *dy, const float *x, const float *gamma, int dim,
                      float eps);
void layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma,
                        int dim, float eps);
