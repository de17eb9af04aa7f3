/* norm.c: normalization.
 *
 * Owns RMSNorm, LayerNorm and DyT: the formulas in plain C, then the fast forms
 * that the decoder runs. All three work on the last axis, each token
 * separately, so a token's result does not depend on the rest of the batch.
 * RMSNorm and LayerNorm have statistics of the token; DyT has none. model.c
 * places the norms in the model; fused and backward forms are in lab/, one in
 * half precision is in tests/support/. docs/norms.md explains normalization.
 * Tests: norm, plain, textbook.
 */
#include "norm.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* ---- the formulas ------------------------------------------------------- */

static void rmsnorm_plain(double *y, const double *x, const Norm *norm,
                          int dim) {
    double mean_square = 0;
    for (int i = 0; i < dim; i++)
        mean_square += x[i] * x[i] / dim;
    for (int i = 0; i < dim; i++)
        y[i] = x[i] / sqrt(mean_square + norm->eps) * norm->gamma[i];
}

static void layernorm_plain(double *y, const double *x, const Norm *norm,
                            int dim) {
    double mean = 0, variance = 0;
    for (int i = 0; i < dim; i++)
        mean += x[i] / dim;
    for (int i = 0; i < dim; i++)
        variance += (x[i] - mean) * (x[i] - mean) / dim;
    double root = sqrt(variance + norm->eps);
    for (int i = 0; i < dim; i++)
        y[i] = (x[i] - mean) / root * norm->gamma[i] +
               (norm->beta ? norm->beta[i] : 0);
}

static void dyt_plain(double *y, const double *x, const Norm *norm, int dim) {
    for (int i = 0; i < dim; i++)
        y[i] = tanh(norm->alpha * x[i]) * norm->gamma[i] +
               (norm->beta ? norm->beta[i] : 0);
}

static void copy_plain(double *y, const double *x, const Norm *norm, int dim) {
    (void)norm;
    memmove(y, x, dim * sizeof *y);
}

/* ---- sums over a token ------------------------------------------------------
 *
 * The fast forms differ from the formulas in three ways. Sums are vectorized:
 * float32 within a block, in four vectors of 16 lanes, so that no lane adds
 * more than eleven numbers; blocks are added in double. The rounding error is
 * then less than an ulp for any length. A sum that overflows or underflows
 * float32 is computed again in double. Root and division are computed once:
 * every element is multiplied by one scale. */

typedef enum { DEVIATIONS, SQUARES } Terms; /* x - shift, (x - shift)^2 */

INLINE vf add_term(Terms terms, vf sum, vf d) {
    return terms == DEVIATIONS ? sum + d : vfma(d, d, sum);
}

INLINE double sum_block(Terms terms, const float *x, float shift, int n) {
    vf sums[4 * SUM_VECTORS] = {{0}};
    int i = 0;
    for (; i + 4 * SUM_LANES <= n; i += 4 * SUM_LANES) {
        UNROLL(j, 4 * SUM_VECTORS) {
            vf d = vload(x + i + j * LANES) - vset(shift);
            sums[j] = add_term(terms, sums[j], d);
        }
    }
    for (; i < n; i += SUM_LANES) {
        UNROLL(j, SUM_VECTORS) {
            int m = lanes_left(n - i - j * LANES);
            vf d = vload_n(x + i + j * LANES, m) - vset(shift);
            vf sum = add_term(terms, sums[j], d);
            /* the lanes after x[n - 1] are 0 - shift */
            sums[j] = vselect(vlane() < m, sum, sums[j]);
        }
    }
    UNROLL(j, SUM_VECTORS)
        sums[j] = (sums[j] + sums[SUM_VECTORS + j]) +
                  (sums[2 * SUM_VECTORS + j] + sums[3 * SUM_VECTORS + j]);
    return vsum(sums, SUM_VECTORS);
}

/* The sum of the terms of x[n], computed again in double if float32 overflowed
 * (|x| above 1e19, squared) or may have lost terms near zero (|x|
 * below 1e-19). */
INLINE double sum_terms(Terms terms, const float *x, float shift, int n) {
    double sum = 0;
    for (int i = 0; i < n; i += NORM_BLOCK)
        sum += sum_block(terms, x + i, shift, min_int(n - i, NORM_BLOCK));
    if (isfinite(sum) && fabs(sum) > 1e-30)
        return sum;
    sum = 0;
    for (int i = 0; i < n; i++) {
        double d = x[i] - (double)shift;
        sum += terms == DEVIATIONS ? d : d * d;
    }
    return sum;
}

double sum_squares(const float *x, int n) {
    return sum_terms(SQUARES, x, 0, n);
}

/* ---- the fast forms ----------------------------------------------------- */

static float inverse_root(double variance, float eps) {
    return (float)(1.0 / sqrt(variance + eps));
}

static void rmsnorm(float *y, const float *x, const Norm *norm, int dim) {
    double mean_square = sum_squares(x, dim) / dim;
    float scale = inverse_root(mean_square, norm->eps);
#pragma omp simd
    for (int i = 0; i < dim; i++)
        y[i] = x[i] * scale * norm->gamma[i];
}

/* Two passes: E[x^2] - E[x]^2 cancels if the mean is much larger than the
 * deviations. The first pass sums differences from x[0] for the same reason. */
static void layernorm(float *y, const float *x, const Norm *norm, int dim) {
    double mean = x[0] + sum_terms(DEVIATIONS, x, x[0], dim) / dim;
    float shift = (float)mean;
    double rest = mean - shift; /* the rounding error of shift */
    double variance = sum_terms(SQUARES, x, shift, dim) / dim - rest * rest;
    float scale = inverse_root(variance, norm->eps),
          offset = (float)(rest * scale);
    const float *gamma = norm->gamma, *beta = norm->beta;
#pragma omp simd
    for (int i = 0; i < dim; i++) {
        float normed = fma_float(x[i] - shift, scale, -offset);
        y[i] = fma_float(normed, gamma[i], beta ? beta[i] : 0);
    }
}

/* Squashes each element separately: vector by vector, as a cap of 1 on
 * alpha x (kernels/simd.h). */
static void dyt(float *y, const float *x, const Norm *norm, int dim) {
    for (int i = 0; i < dim; i += LANES) {
        int n = min_int(dim - i, LANES);
        vf squashed = vcap(vload_n(x + i, n) * vset(norm->alpha), 1);
        vf beta = norm->beta ? vload_n(norm->beta + i, n) : vset(0);
        vstore_n(y + i, vfma(squashed, vload_n(norm->gamma + i, n), beta), n);
    }
}

static void copy(float *y, const float *x, const Norm *norm, int dim) {
    (void)norm;
    memmove(y, x, dim * sizeof *y);
}

/* ---- the kinds of norms ------------------------------------------------- */

static const struct {
    const char *name, *spec;
    void (*plain)(double *y, const double *x, const Norm *norm, int dim);
    void (*fast)(float *y, const float *x, const Norm *norm, int dim);
} KINDS[] = {[NORM_RMS] = {"RMSNorm", "rms", rmsnorm_plain, rmsnorm},
             [NORM_LAYER] = {"LayerNorm", "layer", layernorm_plain, layernorm},
             [NORM_NONE] = {"none", "none", copy_plain, copy},
             [NORM_DYT] = {"DyT", "dyt", dyt_plain, dyt}};
_Static_assert(sizeof KINDS / sizeof *KINDS == N_NORM_KINDS,
               "a kind of norm has no row");

const char *norm_name(NormKind kind) {
    return KINDS[kind].name;
}
const char *norm_spec_name(NormKind kind) {
    return KINDS[kind].spec;
}

void norm_token(float *y, const float *x, const Norm *norm, int dim) {
    KINDS[norm->kind].fast(y, x, norm, dim);
}

void norm_plain(double *y, const double *x, const Norm *norm, int dim) {
    KINDS[norm->kind].plain(y, x, norm, dim);
}

const float *norm_forward(float *y, const float *x, const Norm *norm, int n,
                          int dim) {
    if (each_thread_computes(n)) {
        y += (size_t)omp_get_thread_num() * dim;
        norm_token(y, x, norm, dim);
        return y;
    }
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++)
        norm_token(y + (size_t)t * dim, x + (size_t)t * dim, norm, dim);
    return y;
}
