/* clock.h: the time on a monotonic clock. */
#pragma once

#include <stdint.h>

/* The time since some moment in the past. */
uint64_t nanoseconds(void);
double clock_seconds(void);
