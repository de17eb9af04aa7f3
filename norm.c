/* norm.c: normalization, the whole of it.
 *
 * Owns RMSNorm and LayerNorm: the formulas in plain C, then the fast forms that the decoder runs; and, for tests and
 * benches, fused with the residual add, in half precision, and backward. Both normalize over the last axis, each token
 * by itself: statistics never cross from one token to another, so a token's result does not depend on what else is in
 * the batch. It does not know where in a model a norm stands (model.c). docs/norms.md is its chapter.
 */
#include "norm.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* ---- the formulas ----------------------------------------------------------------- */

void rmsnorm_plain(float *y, const float *x, const float *gamma, int dim, float eps) {
    double mean_square = 0;
    for (int i = 0; i < dim; i++) mean_square += (double)x[i] * x[i] / dim;
    for (int i = 0; i < dim; i++) y[i] = (float)(x[i] / sqrt(mean_square + eps) * gamma[i]);
}

void layernorm_plain(float *y, const float *x, const float *gamma, const float *beta, int dim, float eps) {
    double mean = 0, variance = 0;
    for (int i = 0; i < dim; i++) mean += (double)x[i] / dim;
    for (int i = 0; i < dim; i++) variance += (x[i] - mean) * (x[i] - mean) / dim;
    for (int i = 0; i < dim; i++)
        y[i] = (float)((x[i] - mean) / sqrt(variance + eps) * gamma[i] + (beta ? beta[i] : 0));
}

/* ---- sums over a token --------------------------------------------------------------
 *
 * The fast forms compute the same, and add three things. Sums run in vectors: float32 within a
 * block, in four vectors side by side, so that no lane adds more than eleven numbers, and blocks are
 * added in double. Rounding then costs less than an ulp, however long the token is. A sum that
 * float32 cannot hold is done again in double. And the root and the division are done once: every
 * element is multiplied by one scale. */

enum { BLOCK = 32 * LANES };

typedef enum { DEVIATIONS, SQUARES, PRODUCTS } Terms; /* b - shift, (b - shift)^2, a (b - shift) */

INLINE vf add_term(Terms terms, vf sum, vf a, vf d) {
    return terms == DEVIATIONS ? sum + d : vfma(terms == SQUARES ? d : a, d, sum);
}

INLINE double sum_block(Terms terms, const float *a, const float *b, float shift, int n) {
    vf sums[4] = {{0}};
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            const int at = i + j * LANES;
            sums[j] = add_term(terms, sums[j], vload(a + at), vload(b + at) - vset(shift));
        }
    }
    for (; i < n; i += LANES) {
        const int m = n - i < LANES ? n - i : LANES;
        const vf sum = add_term(terms, sums[0], vload_n(a + i, m), vload_n(b + i, m) - vset(shift));
        sums[0] = vselect(vlane() < m, sum, sums[0]);
    }
    return vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* The sum, done again in double if float32 could not hold it (|x| beyond 1e19, squared) or may have
 * lost terms near zero (below 1e-19). */
static double checked(double sum, Terms terms, const float *a, const float *b, float shift, int n) {
    if (isfinite(sum) && fabs(sum) > 1e-30) return sum;
    sum = 0;
    for (int i = 0; i < n; i++) {
        const double d = b[i] - (double)shift;
        sum += terms == DEVIATIONS ? d : terms == SQUARES ? d * d : a[i] * d;
    }
    return sum;
}

INLINE double sum_terms(Terms terms, const float *a, const float *b, float shift, int n) {
    double sum = 0;
    for (int i = 0; i < n; i += BLOCK) sum += sum_block(terms, a + i, b + i, shift, n - i < BLOCK ? n - i : BLOCK);
    return checked(sum, terms, a, b, shift, n);
}

/* ---- forward -------------------------------------------------------------------------- */

static double inverse_root(double variance, float eps) { return 1.0 / sqrt(variance + (double)eps); }

static double rms_scale(const float *x, int dim, float eps) {
    return inverse_root(sum_terms(SQUARES, x, x, 0, dim) / dim, eps);
}

static void scale_by(float *y, const float *x, float scale, const float *gamma, int dim) {
#pragma omp simd
    for (int i = 0; i < dim; i++) y[i] = x[i] * scale * gamma[i];
}

void rmsnorm(float *y, const float *x, const float *gamma, int dim, float eps) {
    scale_by(y, x, (float)rms_scale(x, dim, eps), gamma, dim);
}

typedef struct {
    double mean, scale; /* scale = 1 / sqrt(variance + eps) */
} Moments;

/* In two passes: E[x^2] - E[x]^2 cancels where the mean is much larger than the deviations. The first pass
 * sums distances to x[0] for the same reason. */
static Moments moments(const float *x, int dim, float eps) {
    const double mean = x[0] + sum_terms(DEVIATIONS, x, x, x[0], dim) / dim;
    const float shift = (float)mean;
    const double rest = mean - shift;
    return (Moments){mean, inverse_root(sum_terms(SQUARES, x, x, shift, dim) / dim - rest * rest, eps)};
}

void layernorm(float *y, const float *x, const float *gamma, const float *beta, int dim, float eps) {
    const Moments m = moments(x, dim, eps);
    const float shift = (float)m.mean, scale = (float)m.scale;
    const float offset = (float)((m.mean - (double)shift) * (double)scale); /* the part of the mean that float32 lost */
    if (beta) {
#pragma omp simd
        for (int i = 0; i < dim; i++) y[i] = ((x[i] - shift) * scale - offset) * gamma[i] + beta[i];
    } else {
#pragma omp simd
        for (int i = 0; i < dim; i++) y[i] = ((x[i] - shift) * scale - offset) * gamma[i];
    }
}

/* ---- a site's norm ------------------------------------------------------------------ */

static const struct {
    const char *name, *spec;
} KINDS[] = {[NORM_RMS] = {"RMSNorm", "rms"}, [NORM_LAYER] = {"LayerNorm", "layer"}, [NORM_NONE] = {"none", "none"}};
_Static_assert(sizeof KINDS / sizeof *KINDS == N_NORM_KINDS, "a kind of norm has no names");

const char *norm_name(NormKind kind) { return KINDS[kind].name; }
const char *norm_spec_name(NormKind kind) { return KINDS[kind].spec; }

void norm_token(float *y, const float *x, const Norm *norm, int dim) {
    switch (norm->kind) {
    case NORM_RMS: rmsnorm(y, x, norm->gamma, dim, norm->eps); break;
    case NORM_LAYER: layernorm(y, x, norm->gamma, norm->beta, dim, norm->eps); break;
    case NORM_NONE: memmove(y, x, (size_t)dim * sizeof *y); break;
    }
}

const float *norm_forward(float *y, const float *x, const Norm *norm, int n, int dim) {
    if (norm->kind == NORM_NONE) return x;
    if (each_thread_computes(n)) {
        y += (size_t)omp_get_thread_num() * (size_t)dim;
        norm_token(y, x, norm, dim);
        return y;
    }
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) norm_token(y + (size_t)t * (size_t)dim, x + (size_t)t * (size_t)dim, norm, dim);
    return y;
}

/* ---- fused with the residual add ------------------------------------------------------- */

/* Block by block: what was added is still in the first-level cache when its
 * squares are summed, so x and r come from memory once. */
void add_rmsnorm(float *y, float *x, const float *r, const float *gamma, int dim, float eps) {
    double sum = 0;
    for (int start = 0; start < dim; start += BLOCK) {
        const int n = dim - start < BLOCK ? dim - start : BLOCK;
        float *b = x + start;
#pragma omp simd
        for (int i = 0; i < n; i++) b[i] += r[start + i];
        sum += sum_block(SQUARES, b, b, 0, n);
    }
    scale_by(y, x, (float)inverse_root(checked(sum, SQUARES, x, x, 0, dim) / dim, eps), gamma, dim);
}

/* ---- half precision ------------------------------------------------------------------- */

static float widen(uint16_t h, Type type) { return type == TYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h); }
static uint16_t narrow(float f, Type type) { return type == TYPE_F16 ? f32_to_f16(f) : f32_to_bf16(f); }

void rmsnorm_half(uint16_t *y, const uint16_t *x, const uint16_t *gamma, int dim, float eps, Type type,
                  RoundingOrder order) {
    float wide[BLOCK];
    double sum = 0;
    for (int start = 0; start < dim; start += BLOCK) {
        const int n = dim - start < BLOCK ? dim - start : BLOCK;
        for (int i = 0; i < n; i++) wide[i] = widen(x[start + i], type);
        sum += sum_terms(SQUARES, wide, wide, 0, n);
    }
    const float scale = (float)inverse_root(sum / dim, eps);
    for (int i = 0; i < dim; i++) {
        float normalized = widen(x[i], type) * scale;
        if (order == ROUND_THEN_SCALE) normalized = widen(narrow(normalized, type), type);
        y[i] = narrow(normalized * widen(gamma[i], type), type);
    }
}

/* ---- backward --------------------------------------------------------------------------
 *
 * With s = 1 / sqrt(mean(x^2) + eps), y_i = x_i s gamma_i and ds/dx_j =
 * -s^3 x_j / dim. The chain rule gives, for g_i = gamma_i dy_i,
 *
 *     dx_i = s g_i - s^3 x_i mean(g x)
 *
 * and LayerNorm, whose mean moves with x too, takes the mean of g off as well.
 * Element by element in double: the terms of dx cancel; speed does not matter here. */

INLINE void backward(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma,
                     int dim, Moments m, const bool centered) {
    const float shift = (float)m.mean;
#pragma omp simd
    for (int i = 0; i < dim; i++) dx[i] = gamma[i] * dy[i];
    const double mean = centered ? sum_terms(DEVIATIONS, dx, dx, 0, dim) / dim : 0; /* of g */
    const double shifted = sum_terms(PRODUCTS, dx, x, shift, dim) / dim;
    const double along = (shifted - mean * (m.mean - (double)shift)) * m.scale; /* mean(g x_hat) */
#pragma omp simd
    for (int i = 0; i < dim; i++) {
        const double g = (double)gamma[i] * (double)dy[i], normalized = ((double)x[i] - m.mean) * m.scale;
        dgamma[i] = (float)((double)dgamma[i] + (double)dy[i] * normalized);
        if (dbeta) dbeta[i] += dy[i];
        dx[i] = (float)((g - mean - normalized * along) * m.scale);
    }
}

void rmsnorm_backward(float *dx, float *dgamma, const float *dy, const float *x, const float *gamma, int dim,
                      float eps) {
    backward(dx, dgamma, NULL, dy, x, gamma, dim, (Moments){0, rms_scale(x, dim, eps)}, false);
}

void layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dy, const float *x, const float *gamma,
                        int dim, float eps) {
    backward(dx, dgamma, dbeta, dy, x, gamma, dim, moments(x, dim, eps), true);
}
