/* rope.h: rotary positions.
 */
#ifndef NORMA_ROPE_H
#define NORMA_ROPE_H

#include "model.h"

/* Radians a position of a pair, before scale and factors. */
double rope_frequency(const Config *c, int pair);

/* What YaRN divides the angles by, [rope_dims / 2]; the caller frees it. NULL: no memory. */
double *yarn_factors(const Config *c, const Yarn *y);

/* What it multiplies cos and sin with, unless a file says something else (sec. 3.4). */
double yarn_amplitude(double factor, double scale);

#endif
