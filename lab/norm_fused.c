/* norm_fused.c: RMSNorm fused with the residual add.
 * Tests: norm, lab. */
#include "lab/norm_fused.h"
#include "kernels/lanes.h"
#include <math.h>

/* A block of x is still in the first-level cache when its squares are summed,
 * so x and r are read from memory once. */
void add_rmsnorm(float *y, float *x, const float *r, const Norm *norm,
                 int dim) {
    double sum = 0;
    for (int start = 0; start < dim; start += NORM_BLOCK) {
        int n = min_int(dim - start, NORM_BLOCK);
        float *block = x + start;
#pragma omp simd
        for (int i = 0; i < n; i++)
            block[i] += r[start + i];
        sum += sum_squares(block, n);
    }
    float scale = (float)(1 / sqrt(sum / dim + norm->eps));
#pragma omp simd
    for (int i = 0; i < dim; i++)
        y[i] = x[i] * scale * norm->gamma[i];
}
