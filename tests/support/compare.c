/* compare.c: the largest magnitude and the largest difference of arrays, norms
 * by their formula. */
#include "norm.h"

#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdlib.h>

double largest(const float *x, int n) {
    double max = 0;
    for (int i = 0; i < n; i++)
        if (!(fabs((double)x[i]) <= max))
            max = fabs((double)x[i]);
    return max;
}

double largest_difference(const float *x, const float *y, int n) {
    double max = 0;
    for (int i = 0; i < n; i++) {
        double difference = fabs((double)x[i] - (double)y[i]);
        if (!(difference <= max))
            max = difference;
    }
    return max;
}

void norm_by_formula(float *y, const float *x, const Norm *norm, int n,
                     int dim) {
    size_t size = (size_t)dim;
    double *token = malloc(size * sizeof *token);
    for (size_t t = 0; token && t < (size_t)n; t++) {
        for (size_t i = 0; i < size; i++)
            token[i] = x[t * size + i];
        norm_plain(token, token, norm, dim);
        for (size_t i = 0; i < size; i++)
            y[t * size + i] = (float)token[i];
    }
    free(token);
}
