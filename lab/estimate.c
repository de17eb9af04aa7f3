/* estimate.c: confidence intervals.
 * Tests: profile, norms. */
#include "lab/estimate.h"
#include <math.h>
#include <stddef.h>

/* The interval is between two order statistics, which needs no assumption about
 * the distribution (David and Nagaraja 2003, "Order Statistics", section 7.1).
 * Their ranks are from the normal approximation of the binomial distribution.
 */
Estimate estimate_median(const double *sorted, int n) {
    const int rank = (int)(0.5 * (n - 1.96 * sqrt(n))); /* from 1 on */
    const int low = rank > 1 ? rank - 1 : 0;
    return (Estimate){0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]), sorted[low],
                      sorted[n - 1 - low]};
}

const char *estimate_unusable(Estimate e, int n) {
    if (n < MIN_MEASUREMENTS)
        return "fewer than five rounds";
    if (!(e.high - e.low <= fabs(e.value)))
        return "the interval is wider than the value";
    return NULL;
}

Estimate estimate_quotient(double y, double y_error, double x, double x_error) {
    double ratio = y / x, reach = exp(1.96 * hypot(y_error / y, x_error / x));
    return (Estimate){ratio, ratio / reach, ratio * reach};
}

/* Variance of a ratio: Cochran 1977, "Sampling Techniques", section 2.11. */
Estimate estimate_ratio(const Ratio *r) {
    const double ratio = r->x > 0 ? r->y / r->x : 0;
    const double residuals = r->yy - 2 * ratio * r->xy + ratio * ratio * r->xx;
    const double variance = fmax(residuals, 0) * r->n / (r->n - 1);
    const double error = r->n < 2 ? INFINITY : 1.96 * sqrt(variance) / r->x;
    return (Estimate){ratio, ratio - error, ratio + error};
}
