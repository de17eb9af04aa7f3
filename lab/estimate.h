/* estimate.h: values that are known to within an interval. */
#pragma once

/* A value as measured, and the interval in which it lies with a confidence of 95 %. */
typedef struct {
    double value, low, high;
} Estimate;

/* The median of endlessly many values, from n sorted ones. */
Estimate estimate_median(const double *sorted, int n);

/* A ratio of two sums over n pairs: sums of x and y, and of their squares and products. */
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

/* Sum of y / sum of x; of one pair alone low and high are -INFINITY and INFINITY. */
Estimate estimate_ratio(const Ratio *r);
