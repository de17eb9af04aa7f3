/* clock.h: time.
 */
#ifndef NORMA_CLOCK_H
#define NORMA_CLOCK_H

/* Seconds on a monotonic clock. */
double now(void);

#endif
