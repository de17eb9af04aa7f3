/* machine.h: what a measurement was made on, and how it is written as JSON. */
#pragma once

#include "lab/estimate.h"
#include <stdio.h>

/* What is measured: a model, what --norm says of it, how many threads. The strings may be NULL. */
typedef struct {
    const char *model, *norm;
    int threads;
} About;

/* Writes "model": ..., "norm": ..., "threads": ..., "lanes": ..., "machine": ..., "compiler": ..., "flags": ... */
void write_about(FILE *out, const About *about);

/* Writes , "NAME": value, "NAME_low": low, "NAME_high": high */
void write_estimate(FILE *out, const char *name, Estimate e);
