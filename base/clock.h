/* clock.h: the time on a monotonic clock. */
#pragma once

#include <stdint.h>

uint64_t nanoseconds(void);
double clock_seconds(void); /* in seconds */
