/* machine.h: what a measurement was made on, and how estimates are written as JSON. */
#ifndef NORMA_MACHINE_H
#define NORMA_MACHINE_H

#include "lab/stopwatch.h"

/* Begins a JSON object: {"machine": ..., "compiler": ..., "flags": ..., "lanes": ..., "threads": ..., */
void print_machine(int threads);

/* Writes , "NAME": median, "NAME_low": low, "NAME_high": high */
void print_estimate(const char *name, Estimate e);

#endif
