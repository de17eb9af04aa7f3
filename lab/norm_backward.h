/* norm_backward.h: gradients of the norms. */
#pragma once

/* Gradients of one token's norm, from dy = dL/dy. dx = dL/dx is written; dgamma and dbeta are added to, so that tokens
 * accumulate. All [dim]; dx is neither dy nor x. Derived in docs/norms.md. */
void rmsnorm_backward(float *dx, float *dgamma, const float *dy, const float *x, const float *gamma, int dim,
                      float eps);
void layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma,
                        int dim, float eps);
