/* clock.h: a clock for short times. */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t (*read)(void);
    double tick; /* seconds between n and n + 1 */
} Clock;

/* The cheapest clock with a constant rate: the time stamp counter if the processor declares it invariant (Intel,
 * Software Developer's Manual, volume 3, 18.17.1) and it agrees with the monotonic clock; else the monotonic clock.
 * Takes 2 ms. */
Clock clock_cheapest(void);
