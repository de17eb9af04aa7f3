/* clock.h: time, and the median of what was measured.
 */
#ifndef NORMA_CLOCK_H
#define NORMA_CLOCK_H

/* Seconds on a monotonic clock. */
double now(void);

/* Median of n values; sorts them in place. */
double median(double *values, int n);

#endif
