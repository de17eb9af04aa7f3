/* clock.h: a clock for short times. */
#pragma once

#include <stdint.h>

typedef struct {
    uint64_t (*read)(void);
    double tick; /* seconds between n and n + 1 */
} Clock;

/* The cheapest clock that runs evenly: the processor's time stamp counter, where the processor says that it never
 * changes its rate (Intel, Software Developer's Manual, volume 3, 18.17.1) and the monotonic clock agrees; else that
 * one. Takes two milliseconds. */
Clock clock_cheapest(void);
