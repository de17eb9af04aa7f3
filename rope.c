/* rope.c: rotary position embeddings.
 *
 *     angle_i = pos base^(-2i / dims) / (scale factor_i)      frequencies
 *     (a, b)_i = amplitude (a cos - b sin, a sin + b cos)     rope_rotate
 *
 * for each pair i of numbers of a head.
 * Owns all of RoPE (Su et al. 2021, sec. 3.4): frequencies, YaRN's scaling of
 * them, the angles of a position, and the rotation of a head. It does not own a
 * checkpoint's settings (formats/) or the order of steps (attention.c).
 * Tests: attention, plain, folder.
 */
#include "rope.h"
#include "base/memory.h"
#include "kernels/lanes.h"
#include <math.h>

/* ---- frequencies -------------------------------------------------------- */

double rope_frequency(const Rope *r, int pair) {
    return pow(r->base, -2.0 * pair / r->dims);
}

/* Index of the pair that makes this many turns in a context, as a
 * real number. */
static double pair_of_turns(const Rope *r, double context, double turns) {
    return r->dims * log(context / (turns * 2 * M_PI)) / (2 * log(r->base));
}

double *yarn_factors(const Rope *r) {
    const Yarn *y = &r->yarn;
    double *factors = allocate(r->dims / 2, sizeof *factors);
    double low = pair_of_turns(r, y->context, y->fast),
           high = pair_of_turns(r, y->context, y->slow);
    if (!y->fractional) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, r->dims - 1);
    double width = high == low ? 0.001 : high - low;
    for (int i = 0; factors && i < r->dims / 2; i++) {
        double ramp = fmin(fmax((i - low) / width, 0), 1);
        factors[i] = 1 / (1 - ramp + ramp / y->factor);
    }
    return factors;
}

double yarn_amplitude(double factor, double scale) {
    return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1;
}

int rope_open(Rope *r, const double *factors) {
    r->frequencies = allocate(r->dims / 2, sizeof *r->frequencies);
    for (int i = 0; r->frequencies && i < r->dims / 2; i++)
        r->frequencies[i] =
            rope_frequency(r, i) / (r->scale * (factors ? factors[i] : 1));
    return r->frequencies ? 0 : -1;
}

/* ---- angles and rotation ------------------------------------------------ */

void rope_angles(float *angles, const Rope *r, int pos) {
    for (int i = 0; i < r->dims / 2; i++) {
        double angle = pos * r->frequencies[i];
        angles[2 * i] = (float)(r->amplitude * cos(angle));
        angles[2 * i + 1] = (float)(r->amplitude * sin(angle));
    }
}

/* Rotates n pairs (v[i * step], v[i * step + other]). fma_float fixes which
 * product is fused with the sum, so that all compilers produce the
 * same bits. */
INLINE void rotate_pairs(float *v, const float *angles, int n, const int step,
                         int other) {
    for (int i = 0; i < n; i++) {
        float *pair = v + i * step, a = pair[0], b = pair[other],
              cos = angles[2 * i], sin = angles[2 * i + 1];
        pair[0] = fma_float(a, cos, -(b * sin));
        pair[other] = fma_float(a, sin, b * cos);
    }
}

void rope_rotate(const Rope *r, float *v, const float *angles) {
    int pairs = r->dims / 2;
    if (r->halves)
        rotate_pairs(v, angles, pairs, 1, pairs);
    else
        rotate_pairs(v, angles, pairs, 2, 1);
}
