/* norm_inputs.h: norms of one token; inputs of norms, the same as in
 * scripts/golden/make_norm_golden.py. */
#pragma once

#include "norm.h"

#include <stdbool.h>

/* y[n][dim] = norm_plain() of x[n][dim]; y may be x. */
void norm_by_formula(float *y, const float *x, const Norm *norm, int n,
                     int dim);

static inline void rmsnorm(float *y, const float *x, const float *gamma,
                           int dim, float eps) {
    norm_token(y, x, &(Norm){.kind = NORM_RMS, .eps = eps, .gamma = gamma},
               dim);
}

static inline void layernorm(float *y, const float *x, const float *gamma,
                             const float *beta, int dim, float eps) {
    norm_token(
        y, x,
        &(Norm){.kind = NORM_LAYER, .eps = eps, .gamma = gamma, .beta = beta},
        dim);
}

enum { N_NORM_DIMS = 10, NORM_TOKENS = 8, NORM_MAX_DIM = 8192 };
extern const int NORM_DIMS[N_NORM_DIMS];

/* Random values in [-1, 1); TINY: times 1e-20; TINY_NO_EPS: the same with eps =
 * 0 instead of 1e-5; HUGE: times 1e18, so that sums of squares overflow
 * float32; CONSTANT: all equal; SPIKE: one element of 1000 among 0.01; OFFSET:
 * around 5; FAR_OFFSET: around 1000. */
typedef enum {
    SET_RANDOM,
    SET_TINY,
    SET_TINY_NO_EPS,
    SET_HUGE,
    SET_CONSTANT,
    SET_SPIKE,
    SET_OFFSET,
    SET_FAR_OFFSET,
    N_NORM_SETS
} NormSet;
extern const char *const NORM_SETS[N_NORM_SETS];

typedef struct {
    int dim;
    float eps;
    float gamma[NORM_MAX_DIM], beta[NORM_MAX_DIM];
    float x[NORM_TOKENS * NORM_MAX_DIM],
        dy[NORM_TOKENS * NORM_MAX_DIM]; /* [NORM_TOKENS][dim] */
} NormInputs;

/* The inputs of a set for one of NORM_DIMS. */
void norm_inputs(NormInputs *in, NormSet set, int dim);

/* Results in double precision, [NORM_TOKENS][dim]; dgamma: the contribution of
 * each token. (Its contribution to dbeta is dy.) */
typedef struct {
    double y[NORM_TOKENS * NORM_MAX_DIM], dx[NORM_TOKENS * NORM_MAX_DIM],
        dgamma[NORM_TOKENS * NORM_MAX_DIM];
} ExactNorm;

void norm_exactly(ExactNorm *e, const NormInputs *in, NormKind kind);

/* The distance between float32 numbers near `value`. */
double ulp(double value);

/* The largest error of found[n] in ulp of the largest |exact[i]| or, if `each`,
 * of its own exact[i]. Infinite for NaN. */
double error_in_ulp(const float *found, const double *exact, int n, bool each);

/* PyTorch's largest float32 error on a set, over all dims, of "y" (RMSNorm: in
 * ulp of each element), "dx" or one token's "dgamma". -1: not listed. */
double pytorch_error(NormKind kind, const char *quantity, NormSet set);
