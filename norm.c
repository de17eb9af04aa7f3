/* norm.c: normalization, the whole of it.
 *
 * Owns RMSNorm and LayerNorm. Both normalize over the last axis, each token by
 * itself: statistics never cross from one token to another, so a token's
 * result does not depend on what else is in the batch.
 * It does not know where in a model a norm stands (model.c).
 */
#include "model.h"
#include "simd.h"

#include <math.h>
#include <omp.h>

const char *norm_name(NormKind kind) { return kind == NORM_RMS ? "RMSNorm" : "LayerNorm"; }

/* Both sums use four vectors side by side: shorter chains of additions, so less
 * rounding and less waiting. Where float32 overflows (|x| beyond 1e19 squared),
 * they are done again in double, so that no token is silently zero. */

/* mean(x) */
static double mean_of(const float *x, int n) {
    vf s[4] = {{0}};
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) s[j] += vload(x + i + j * LANES);
    for (; i + LANES <= n; i += LANES) s[0] += vload(x + i);
    double sum = vsum((s[0] + s[1]) + (s[2] + s[3]));
    for (; i < n; i++) sum += x[i];
    if (!isfinite(sum))
        for (i = 0, sum = 0; i < n; i++) sum += x[i];
    return sum / n;
}

/* mean((x - shift)^2) */
static double mean_square(const float *x, int n, double shift) {
    const vf vshift = vset((float)shift);
    vf s[4] = {{0}};
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) {
            vf d = vload(x + i + j * LANES) - vshift;
            s[j] = vfma(d, d, s[j]);
        }
    for (; i + LANES <= n; i += LANES) {
        vf d = vload(x + i) - vshift;
        s[0] = vfma(d, d, s[0]);
    }
    double sum = vsum((s[0] + s[1]) + (s[2] + s[3]));
    for (; i < n; i++) sum += (x[i] - shift) * (x[i] - shift);
    if (!isfinite(sum))
        for (i = 0, sum = 0; i < n; i++) sum += (x[i] - shift) * (x[i] - shift);
    return sum / n;
}

void rmsnorm(float *y, const float *x, const float *gamma, int dim, float eps) {
    const float scale = (float)(1.0 / sqrt(mean_square(x, dim, 0) + (double)eps));
    for (int i = 0; i < dim; i++) y[i] = x[i] * scale * gamma[i];
}

void layernorm(float *y, const float *x, const float *gamma, const float *beta, int dim, float eps) {
    const double mean = mean_of(x, dim);
    const float shift = (float)mean, scale = (float)(1.0 / sqrt(mean_square(x, dim, mean) + (double)eps));
    if (beta)
        for (int i = 0; i < dim; i++) y[i] = (x[i] - shift) * scale * gamma[i] + beta[i];
    else
        for (int i = 0; i < dim; i++) y[i] = (x[i] - shift) * scale * gamma[i];
}

static void norm_token(float *y, const float *x, const Norm *norm, int dim) {
    if (norm->kind == NORM_RMS)
        rmsnorm(y, x, norm->gamma, dim, norm->eps);
    else
        layernorm(y, x, norm->gamma, norm->beta, dim, norm->eps);
}

const float *norm_forward(float *y, const float *x, const Norm *norm, int n, int dim) {
    if (n == 1) { /* cheaper done twice than shared: no barrier */
        y += (size_t)omp_get_thread_num() * (size_t)dim;
        norm_token(y, x, norm, dim);
        return y;
    }
#pragma omp for schedule(static)
    for (int t = 0; t < n; t++) norm_token(y + (size_t)t * (size_t)dim, x + (size_t)t * (size_t)dim, norm, dim);
    return y;
}
