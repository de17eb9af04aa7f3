/* norm_backward.c: gradients of the norms, in double, because the terms of dx
 * nearly cancel.
 *
 * With s = 1 / sqrt(mean(x^2) + eps), y_i = x_i s gamma_i and ds/dx_j = -s^3
 * x_j / dim. For g_i = gamma_i dy_i, the chain rule gives
 *
 *     dx_i = s g_i - s^3 x_i mean(g x)
 *
 * For LayerNorm, replace x by x - mean(x) and, because the mean depends on x, g
 * by g - mean(g) in this formula.
 * Tests: backward.
 */
#include "lab/norm_backward.h"
#include <math.h>

void norm_backward(float *dx, float *dgamma, float *dbeta, const float *dy,
                   const float *x, const Norm *norm, int dim) {
    /* RMSNorm subtracts no means: these sums stay 0 */
    int n = norm->kind == NORM_LAYER ? dim : 0;
    const float *gamma = norm->gamma;
    double mean = 0, variance = 0, mean_g = 0, product = 0;
#pragma omp simd reduction(+ : mean, mean_g)
    for (int i = 0; i < n; i++) {
        mean += x[i];
        mean_g += (double)gamma[i] * dy[i];
    }
    mean /= dim;
    mean_g /= dim;
#pragma omp simd reduction(+ : variance, product)
    for (int i = 0; i < dim; i++) {
        double d = x[i] - mean;
        variance += d * d;
        product += (double)gamma[i] * dy[i] * d;
    }
    double s = 1 / sqrt(variance / dim + norm->eps), along = s * product / dim;
#pragma omp simd
    for (int i = 0; i < dim; i++) {
        double g = (double)gamma[i] * dy[i], normalized = (x[i] - mean) * s;
        dgamma[i] = (float)(dgamma[i] + dy[i] * normalized);
        if (dbeta)
            dbeta[i] += dy[i];
        dx[i] = (float)((g - mean_g - normalized * along) * s);
    }
}
