/* rope.c: how far the pairs of a head turn from one position to the next.
 *
 * Owns the frequencies of rotary positions (Su et al. 2021, sec. 3.4) and YaRN's
 * factors, which stretch some of them. What a file says of them is the loaders';
 * the rotation itself is attention.c's.
 */
#include "rope.h"

#include "base/memory.h"
#include "model.h"

#include <math.h>
#include <stddef.h>

double rope_frequency(const Config *c, int pair) { return pow(c->rope_base, -2.0 * pair / c->rope_dims); }

/* The pair (not a whole number) that makes this many turns in a context. */
static double pair_of_turns(const Config *c, double context, double turns) {
    return c->rope_dims * log(context / (turns * 2 * M_PI)) / (2 * log(c->rope_base));
}

double *yarn_factors(const Config *c, const Yarn *y) {
    double *factors = allocate((size_t)c->rope_dims / 2, sizeof *factors);
    double low = pair_of_turns(c, y->context, y->fast), high = pair_of_turns(c, y->context, y->slow);
    if (!y->between) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, y->minimind ? c->rope_dims / 2 - 1 : c->rope_dims - 1);
    const double width = y->minimind ? fmax(high - low, 0.001) : high == low ? 0.001 : high - low;
    for (int i = 0; factors && i < c->rope_dims / 2; i++) {
        const double ramp = fmin(fmax((i - low) / width, 0), 1);
        factors[i] = 1 / (1 - ramp + ramp / y->factor);
    }
    return factors;
}

double yarn_amplitude(double factor, double scale) { return factor > 1 ? 0.1 * scale * log(factor) + 1 : 1; }
