/* clock.c: the time on a monotonic clock.
 * Tests: base, profile. */
#include "base/clock.h"
#include <time.h>

uint64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double clock_seconds(void) {
    return 1e-9 * (double)nanoseconds();
}
