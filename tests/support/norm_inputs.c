/* norm_inputs.c: difficult inputs of norms, and their exact results.
 *
 * Makes the same input sets as scripts/golden/make_norm_golden.py, computes
 * both norms and their gradients in double precision, and reads PyTorch's
 * error on each set (tests/golden/norm_errors.txt). Used by test_norm.c and
 * test_backward.c.
 */
#include "norm.h"

#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const int NORM_DIMS[N_NORM_DIMS] = {8,   15,  16,   17,   64,
                                    172, 288, 1000, 4096, 8192};
const char *const NORM_SETS[N_NORM_SETS] = {
    "random",   "tiny",  "tiny_no_eps", "huge",
    "constant", "spike", "offset",      "far_offset"};

enum { GAMMA = 1, BETA = 2, X = 1000, DY = 2000 }; /* tensors of the hash */

static float symmetric(uint64_t tensor, int i) { /* [-1, 1), exact */
    return (float)(hash64(21, tensor, (uint64_t)i) >> 40) / 8388608.0f - 1;
}

static float input(NormSet set, uint64_t tensor, int dim, int t, int i) {
    float r = symmetric(tensor, t * dim + i);
    switch (set) {
    case SET_TINY:
    case SET_TINY_NO_EPS: return r * 1e-20f;
    case SET_HUGE: return r * 1e18f;
    case SET_CONSTANT: return symmetric(tensor, t * dim) * 3.0f;
    case SET_SPIKE: return i == dim / 2 ? 1000 : r * 0.01f;
    case SET_OFFSET: return r + 5.0f;
    case SET_FAR_OFFSET: return r + 1000.0f;
    case SET_RANDOM:
    case N_NORM_SETS: break;
    }
    return r;
}

void norm_inputs(NormInputs *in, NormSet set, int dim) {
    int d = 0;
    while (NORM_DIMS[d] != dim)
        d++;
    in->dim = dim;
    in->eps = set == SET_TINY_NO_EPS ? 0 : 1e-5f;
    for (int i = 0; i < dim; i++) {
        in->gamma[i] = 1 + symmetric(GAMMA, i);
        in->beta[i] = symmetric(BETA, i);
    }
    for (int t = 0; t < NORM_TOKENS; t++)
        for (int i = 0; i < dim; i++) {
            uint64_t which = (uint64_t)(16 * d + (int)set);
            in->x[t * dim + i] = input(set, X + which, dim, t, i);
            in->dy[t * dim + i] = symmetric(DY + which, t * dim + i);
        }
}

/* y and the gradients of one token. The mean is computed from differences to
 * x[0], so that a constant token has no deviations. For RMSNorm the mean is 0
 * by definition. */
static void exact_token(ExactNorm *e, const NormInputs *in, NormKind kind,
                        int t) {
    int dim = in->dim;
    const float *x = in->x + t * dim, *dy = in->dy + t * dim;
    double *y = e->y + t * dim, *dx = e->dx + t * dim,
           *dgamma = e->dgamma + t * dim;
    double mean = 0, square = 0, mean_g = 0, along = 0;
    for (int i = 0; i < dim && kind == NORM_LAYER; i++)
        mean += ((double)x[i] - (double)x[0]) / dim;
    double shift = kind == NORM_LAYER ? (double)x[0] : 0;
    for (int i = 0; i < dim; i++) {
        y[i] = (double)x[i] - shift - mean;
        square += y[i] * y[i] / dim;
    }
    double scale = 1 / sqrt(square + (double)in->eps);
    for (int i = 0; i < dim; i++) {
        double g = (double)in->gamma[i] * (double)dy[i];
        y[i] *= scale;
        if (kind == NORM_LAYER)
            mean_g += g / dim;
        along += g * y[i] / dim;
        dgamma[i] = (double)dy[i] * y[i];
    }
    for (int i = 0; i < dim; i++) {
        dx[i] = ((double)in->gamma[i] * (double)dy[i] - mean_g - y[i] * along) *
                scale;
        y[i] = y[i] * (double)in->gamma[i] +
               (kind == NORM_LAYER ? (double)in->beta[i] : 0);
    }
}

void norm_exactly(ExactNorm *e, const NormInputs *in, NormKind kind) {
    for (int t = 0; t < NORM_TOKENS; t++)
        exact_token(e, in, kind, t);
}

double ulp(double value) {
    double size = fabs(value);
    return ldexp(1, (size < 0x1p-126 ? -126 : ilogb(size)) - 23);
}

double error_in_ulp(const float *found, const double *exact, int n, bool each) {
    double largest = 0, worst = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs(exact[i]));
    for (int i = 0; i < n; i++) {
        double error =
            fabs((double)found[i] - exact[i]) / ulp(each ? exact[i] : largest);
        if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    return worst;
}

double pytorch_error(NormKind kind, const char *quantity, NormSet set) {
    char norm[16], what[16], name[16];
    double error = -1, value;
    FILE *in = fopen("tests/golden/norm_errors.txt", "r");
    while (in &&
           fscanf(in, "%15s %15s %15s %lf", norm, what, name, &value) == 4)
        if (!strcmp(norm, kind == NORM_RMS ? "rmsnorm" : "layernorm") &&
            !strcmp(what, quantity) && !strcmp(name, NORM_SETS[set]))
            error = value;
    if (in)
        fclose(in);
    return error;
}
