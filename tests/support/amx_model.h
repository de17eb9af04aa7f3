/* amx_model.h: a model of Intel's AMX in plain C. */
#pragma once

#include "kernels/tile_unit.h"

/* kernels/amx.c, compiled with a model of the instructions; it runs on any
 * processor with vectors of 16 lanes. */
extern const TileUnit amx_model;

/* The result of one bfloat16 instruction: `sum` plus the products of 32 columns
 * of weights and activations. */
float amx_model_step(float sum, const float *w, const float *x);
