/* machine.c: what a measurement was made on: processor, compiler, flags. */
#include "lab/machine.h"
#include "base/process.h"
#include "kernels/simd.h"

#ifndef NORMA_FLAGS
#define NORMA_FLAGS ""
#endif

void print_machine(int threads) {
    printf("{\"machine\": \"%s\", \"compiler\": \"%s\", \"flags\": \"%s\", \"lanes\": %d, \"threads\": %d,",
           processor_name(), __VERSION__, NORMA_FLAGS, LANES, threads);
}

void print_estimate(const char *name, Estimate e) {
    printf(", \"%s\": %.6g, \"%s_low\": %.6g, \"%s_high\": %.6g", name, e.median, name, e.low, name, e.high);
}
