/* estimate.h: measured values with confidence intervals. */
#pragma once

/* A value and its 95 % confidence interval. */
typedef struct {
    double value, low, high;
} Estimate;

/* Fewer measurements have no interval: even between the min and the max of
 * four, the median of the population is in only 87.5 % of cases. */
enum { MIN_MEASUREMENTS = 5 };

/* Why a value from n measurements says nothing: too few of them, or an interval
 * wider than the value. NULL: it is measurable. */
const char *estimate_unusable(Estimate e, int n);

/* Estimates the population median from n sorted samples. */
Estimate estimate_median(const double *sorted, int n);

/* Sums over n pairs (x, y): of x and y, of their squares and products. */
typedef struct {
    double n, x, y, xx, xy, yy;
} Ratio;

static inline void ratio_add(Ratio *r, double y, double x) {
    r->n++;
    r->x += x;
    r->y += y;
    r->xx += x * x;
    r->xy += x * y;
    r->yy += y * y;
}

/* y / x, from two independent means and their standard errors; the interval is
 * of the logarithm. Without errors (NAN) it is NAN. */
Estimate estimate_quotient(double y, double y_error, double x, double x_error);

/* Sum of y / sum of x. With fewer than two pairs the interval is infinite. */
Estimate estimate_ratio(const Ratio *r);
