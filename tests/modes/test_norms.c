/* test_norms.c: the numbers that -m norms prints.
 *
 * Compiles the mode with a virtual clock that advances only in the kernels, by
 * a fixed time for each kernel. All timings are then known to the nanosecond.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "formats/parts.h"
#include "kernels/lanes.h"
#include "lab/machine.h"
#include "lab/norm_fused.h"
#include "lab/profile.h"
#include "modes/common.h"
#include "norm.h"

#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static double virtual_seconds; /* the virtual time */

/* Nanoseconds for a token. */
enum { RMS_NS = 100, LAYER_NS = 160, NO_BETA_NS = 150, FUSED_NS = 120 };

static void spend(int ns) {
#pragma omp atomic
    virtual_seconds += 1e-9 * ns;
}

static void fake_norm_token(float *y, const float *x, const Norm *norm,
                            int dim) {
    spend(norm->kind == NORM_RMS ? RMS_NS : norm->beta ? LAYER_NS : NO_BETA_NS);
    norm_token(y, x, norm, dim);
}
static void fake_add_rmsnorm(float *y, float *x, const float *r,
                             const Norm *norm, int dim) {
    spend(FUSED_NS);
    add_rmsnorm(y, x, r, norm, dim);
}
static uint64_t virtual_read(void) {
    return (uint64_t)llround(1e9 * virtual_seconds);
}

int mode_norms_again(Run *run);

#define mode_norms  mode_norms_again
#define nanoseconds virtual_read
#define norm_token  fake_norm_token
#define add_rmsnorm fake_add_rmsnorm
#include "modes/norms.c" /* NOLINT(bugprone-suspicious-include) */

enum { DIM = 24, TOKENS = 5 };
static float x[TOKENS * DIM], y[TOKENS * DIM], r[TOKENS * DIM], ones[DIM],
    zeros[DIM];

static Case make_case(void) {
    Case c = {.dim = DIM,
              .tokens = TOKENS,
              .threads = 1,
              .x = x,
              .y = y,
              .r = r,
              .norms = {{NORM_RMS, 1e-5f, ones, NULL, 0},
                        {NORM_LAYER, 1e-5f, ones, zeros, 0},
                        {NORM_LAYER, 1e-5f, ones, NULL, 0}}};
    for (int k = 0; k < N_KERNELS; k++)
        c.repeats[k] = 3;
    for (int i = 0; i < TOKENS * DIM; i++)
        x[i] = (float)(i * 37 % 101) * 0.01f - 0.5f;
    for (int i = 0; i < DIM; i++)
        ones[i] = 1;
    memset(r, 0, sizeof r);
    return c;
}

/* Every number is the time of the kernel that it is named after; no ratio is
 * inverted. */
static void numbers_belong_to_their_kernels(void) {
    static const struct {
        const char *key;
        double value;
    } expected[N_KERNELS] = {
        {"rmsnorm_ns", RMS_NS},
        {"layernorm_to_rmsnorm", 1.6},
        {"layernorm_no_beta_to_rmsnorm", 1.5},
        {"copy_to_rmsnorm", 0},          /* the copy takes no virtual time */
        {"add_then_rmsnorm_ns", RMS_NS}, /* nor does the addition */
        {"fused_to_separate", 1.2},
    };
    double found[N_KERNELS];
    Case c = make_case();
    CHECK(!time_kernels(&c, found), "refused");
    for (int v = 0; v < N_KERNELS; v++)
        CHECK(!strcmp(KERNEL_COLUMNS[v].key, expected[v].key) &&
                  fabs(found[v] - expected[v].value) < 1e-6,
              "%s is %g, expected %s, %g", KERNEL_COLUMNS[v].key, found[v],
              expected[v].key, expected[v].value);
}

/* Each timed call runs its kernel on every token, also if it ran before. */
static void timed_kernels_run_on_every_token(void) {
    static float expected[TOKENS * DIM];
    Case c = make_case();
    for (Kernel k = 0; k < N_KERNELS; k++) {
        Kernel last = k == ADD_THEN_RMS ? RMS : k;
        if (last == FUSED || last == NO_BETA)
            continue;
        for (int t = 0; t < TOKENS; t++) {
            float *to = expected + t * DIM;
            if (last == COPY)
                memcpy(to, x + t * DIM, sizeof ones);
            if (last <= LAYER)
                norm_by_formula(to, x + t * DIM, &c.norms[last], 1, DIM);
        }
        memset(y, 0xff, sizeof y);
        c.repeats[k] = 1;
        time_kernel(&c, k);
        for (int i = 0; i < TOKENS * DIM; i++)
            CHECK(fabsf(y[i] - expected[i]) < 1e-5f,
                  "%s: element %d is %g, expected %g", KERNEL_COLUMNS[k].key, i,
                  (double)y[i], (double)expected[i]);
    }
}

void suite_norms(void) {
    TEST(numbers_belong_to_their_kernels);
    TEST(timed_kernels_run_on_every_token);
}
