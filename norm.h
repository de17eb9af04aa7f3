/* norm.h: normalization.
 *
 * gamma and beta are a norm's weight and bias; eps avoids division by zero.
 * Zhang & Sennrich 2019 ("Root Mean Square Layer Normalization") and Ba et al.
 * 2016 ("Layer Normalization").
 */
#pragma once

#include "kernels/tensor.h"

/* NORM_NONE: y = x, for an absent norm or one that --norm removes. NORM_DYT:
 * Dynamic Tanh, which is no norm (Zhu et al. 2025). */
typedef enum { NORM_RMS, NORM_LAYER, NORM_NONE, NORM_DYT } NormKind;
enum { N_NORM_KINDS = NORM_DYT + 1 };

/* The kinds as --norm and its messages list them. */
#define NORM_KIND_LIST(conjunction) "rms, layer, none " conjunction " dyt:ALPHA"

/* A norm of a model. Each has its own kind, so a model may mix kinds. */
typedef struct {
    NormKind kind;
    float eps;          /* inside the root */
    const float *gamma; /* [dim] */
    const float *beta;  /* [dim], LayerNorm and DyT; NULL: zeros */
    float alpha;        /* DyT only */
} Norm;

/* A kind's name ("RMSNorm", "LayerNorm", "none", "DyT") and its name in --norm
 * ("rms", "layer", "none", "dyt"). */
const char *norm_name(NormKind kind);
const char *norm_spec_name(NormKind kind);

/* A norm of one token, y[dim] from x[dim]; y may be x. Zhang & Sennrich 2019,
 * eq. 4, with eps in the root; Ba et al. 2016, eq. 3, with the biased variance;
 * Zhu et al. 2025, section 4:
 *
 *     RMSNorm     y_i = x_i / sqrt(mean(x^2) + eps) * gamma_i
 *     LayerNorm   y_i = (x_i - mean) / sqrt(mean((x - mean)^2) + eps) * gamma_i
 *                       + beta_i
 *     DyT         y_i = tanh(alpha x_i) * gamma_i + beta_i */
void norm_token(float *y, const float *x, const Norm *norm, int dim);

/* The same in plain C and double precision: what plain.c computes. Start
 * reading here; the fast forms are tested against it. */
void norm_plain(double *y, const double *x, const Norm *norm, int dim);

/* The norm of n tokens: y[n][dim] from x[n][dim]. The threads of the team share
 * the tokens and the caller adds a barrier, except for n = 1: then each thread
 * writes its own row, y[thread]. Returns the rows to read: y for n > 1, the
 * thread's row for n = 1. y has room for max(n, threads) rows. */
const float *norm_forward(float *y, const float *x, const Norm *norm, int n,
                          int dim);

/* The sum of x[n]^2 as RMSNorm computes it: in blocks of NORM_BLOCK elements,
 * whose sums are added in double. */
enum { NORM_BLOCK = 512 };
double sum_squares(const float *x, int n);
