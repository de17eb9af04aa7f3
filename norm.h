/* norm.h: normalization.
 *
 * gamma and beta are a norm's weight and bias, eps keeps its root from zero: Zhang & Sennrich 2019
 * ("Root Mean Square Layer Normalization") and Ba et al. 2016 ("Layer Normalization").
 */
#pragma once

#include "kernels/tensor.h"

typedef enum { NORM_RMS, NORM_LAYER, NORM_NONE /* y = x, to time what is left without norms */ } NormKind;
enum { N_NORM_KINDS = NORM_NONE + 1 };

/* The kinds as --norm and its messages list them. */
#define NORM_KIND_LIST(conjunction) "rms, layer " conjunction " none"

/* One norm site. The kind belongs to the site, so a model may mix both. */
typedef struct {
    NormKind kind;
    float eps;          /* inside the root */
    const float *gamma; /* [dim] */
    const float *beta;  /* [dim], of LayerNorms alone; NULL: zeros */
} Norm;

/* "RMSNorm", "LayerNorm" and "none"; and as --norm calls them, "rms", "layer" and "none". */
const char *norm_name(NormKind kind);
const char *norm_spec_name(NormKind kind);

/* RMSNorm of one token (Zhang & Sennrich 2019, eq. 4, with eps in the root):
 * y_i = x_i / sqrt(mean(x^2) + eps) * gamma_i, for x, y, gamma [dim]. y may be x. */
void rmsnorm(float *y, const float *x, const float *gamma, int dim, float eps);

/* LayerNorm of one token (Ba et al. 2016, eq. 3), biased variance, two passes:
 * y_i = (x_i - mean) / sqrt(mean((x - mean)^2) + eps) * gamma_i + beta_i. beta may be NULL; y may be x. */
void layernorm(float *y, const float *x, const float *gamma, const float *beta, int dim, float eps);

/* The two formulas in plain C and double precision: what the fast forms are tested against, and
 * where to begin to read. */
void rmsnorm_plain(float *y, const float *x, const float *gamma, int dim, float eps);
void layernorm_plain(float *y, const float *x, const float *gamma, const float *beta, int dim, float eps);

/* The site's norm of one vector, y[dim] from x[dim]. y may be x. */
void norm_token(float *y, const float *x, const Norm *norm, int dim);

/* The site's norm of n tokens: y[n][dim] from x[n][dim]. The threads of the enclosing region share the tokens, and the
 * caller lets them meet at a barrier, except for n = 1: then each writes a row of its own, y[thread]. Returns the rows
 * to read from: y for n > 1, and x where the site has no norm. y has room for max(n, threads) rows. */
const float *norm_forward(float *y, const float *x, const Norm *norm, int n, int dim);

/* x += r, then y = rmsnorm(x), in one pass over memory; the same bits as one after the other. All [dim]; y is neither x
 * nor r. (The decoder has no use for it: its products add to x as they are stored.) */
void add_rmsnorm(float *y, float *x, const float *r, const float *gamma, int dim, float eps);

/* When half-precision results are rounded: the normalized x before it is multiplied by gamma, and the product again
 * (Llama, by Meta and by Hugging Face); or the product alone (Gemma, torch.nn.functional.rms_norm). */
typedef enum { ROUND_THEN_SCALE, SCALE_THEN_ROUND } RoundingOrder;

/* RMSNorm of one token in float16 or bfloat16 (`type`: TYPE_F16, TYPE_BF16; x,
 * y, gamma [dim] as bits): statistics and normalization are float32. y may be x. */
void rmsnorm_half(uint16_t *y, const uint16_t *x, const uint16_t *gamma, int dim, float eps, Type type,
                  RoundingOrder order);

/* Gradients of one token's norm, from dy = dL/dy: dx = dL/dx is written, dgamma and dbeta are added to, so that tokens
 * accumulate. All [dim]; dx is neither dy nor x. Derived in docs/norms.md. */
void rmsnorm_backward(float *dx, float *dgamma, const float *dy, const float *x, const float *gamma, int dim,
                      float eps);
void layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma,
                        int dim, float eps);
