/* compare.c: the largest magnitude and the largest difference of arrays. */
#include "tests/support/test.h"

#include <math.h>

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
        const double difference = fabs((double)x[i] - (double)y[i]);
        if (!(difference <= max))
            max = difference;
    }
    return max;
}
