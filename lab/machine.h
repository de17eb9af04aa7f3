/* machine.h: the model, processor, compiler and flags of a measurement, as
 * JSON. */
#pragma once

#include "lab/estimate.h"
#include <stdio.h>

/* The subject of a measurement: the model's path, the value of --norm, the
 * number of threads. Strings may be NULL. */
typedef struct {
    const char *model, *norm;
    int threads;
} About;

/* Writes the beginning of an object: {"model": ..., "norm": ..., "threads":
 * ..., "lanes": ..., "machine": ..., "compiler": ..., "flags": ... */
void write_about(FILE *out, const About *about);

/* Writes an estimate, after a comma: , "NAME": value, "NAME_low": low,
 * "NAME_high": high */
void write_estimate(FILE *out, const char *name, Estimate e);
