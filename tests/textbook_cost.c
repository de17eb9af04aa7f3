/* textbook_cost.c: statements of docs/norms.md and its other pages:
 * operations, fused norms and parameters. */
#include "formats/open.h"
#include "formats/parts.h"
#include "lab/norm_fused.h"
#include "model.h"
#include "norm.h"

#include "tests/support/test.h"
#include "tests/textbook.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- the kernel, operations, parameters ---------------------------------- */

static int operations;
static double plus(double a, double b) {
    return operations++, a + b;
}
static double times(double a, double b) {
    return operations++, a * b;
}

/* The formulas, with arithmetic that counts operations. */
static void counted_rmsnorm(double *y, const float *x, const float *gamma) {
    double sum = 0;
    for (int i = 0; i < MAX_DIM; i++)
        sum = plus(sum, times(x[i], x[i]));
    double scale = 1 / sqrt(sum / MAX_DIM + 1e-5);
    for (int i = 0; i < MAX_DIM; i++)
        y[i] = times(times(x[i], scale), gamma[i]);
}

static void counted_layernorm(double *y, const float *x, const float *gamma,
                              const float *beta) {
    double mean = 0, sum = 0;
    for (int i = 0; i < MAX_DIM; i++)
        mean = plus(mean, x[i]);
    mean /= MAX_DIM;
    for (int i = 0; i < MAX_DIM; i++) {
        y[i] = plus(x[i], -mean);
        sum = plus(sum, times(y[i], y[i]));
    }
    double scale = 1 / sqrt(sum / MAX_DIM + 1e-5);
    for (int i = 0; i < MAX_DIM; i++)
        y[i] = plus(times(times(y[i], scale), gamma[i]), beta[i]);
}

/* As in norm.c, which adds differences from x[0], subtracts the mean once more
 * for the output, and then the mean's rounding error. */
static void counted_layernorm_as_run(double *y, const float *x,
                                     const float *gamma, const float *beta) {
    double shift = 0, sum = 0;
    for (int i = 0; i < MAX_DIM; i++)
        shift = plus(shift, plus(x[i], -x[0]));
    double mean = x[0] + shift / MAX_DIM, rounded = (float)mean;
    for (int i = 0; i < MAX_DIM; i++) {
        double d = plus(x[i], -rounded);
        sum = plus(sum, times(d, d));
    }
    double rest = mean - rounded,
           scale = 1 / sqrt(sum / MAX_DIM - rest * rest + 1e-5);
    for (int i = 0; i < MAX_DIM; i++) {
        double d = plus(times(plus(x[i], -rounded), scale), -rest * scale);
        y[i] = plus(times(d, gamma[i]), beta[i]);
    }
}

/* 4 and 7 operations per element; norm.c's LayerNorm takes 10. */
static void operations_counted(void) {
    float x[MAX_DIM], gamma[MAX_DIM], beta[MAX_DIM], y[MAX_DIM];
    double exact[MAX_DIM];
    fill_random(x, 82, MAX_DIM, 4);
    fill_random(gamma, 83, MAX_DIM, 4);
    fill_random(beta, 84, MAX_DIM, 4);
    operations = 0;
    counted_rmsnorm(exact, x, gamma);
    CHECK(operations == 4 * MAX_DIM, "RMSNorm: %d", operations);
    rmsnorm(y, x, gamma, MAX_DIM, 1e-5f);
    int wrong = first_wrong(y, exact, MAX_DIM, 2e-6);
    CHECK(wrong < 0, "RMSNorm: y[%d] = %.9g", wrong, y[wrong]);
    operations = 0;
    counted_layernorm(exact, x, gamma, beta);
    CHECK(operations == 7 * MAX_DIM, "LayerNorm: %d", operations);
    layernorm(y, x, gamma, beta, MAX_DIM, 1e-5f);
    wrong = first_wrong(y, exact, MAX_DIM, 2e-6);
    CHECK(wrong < 0, "LayerNorm: y[%d] = %.9g", wrong, y[wrong]);
    operations = 0;
    counted_layernorm_as_run(exact, x, gamma, beta);
    CHECK(operations == 10 * MAX_DIM, "LayerNorm as run: %d", operations);
    wrong = first_wrong(y, exact, MAX_DIM, 2e-6);
    CHECK(wrong < 0, "LayerNorm as run: y[%d] = %.9g", wrong, y[wrong]);
    CHECK(fabs(8 * 372 / 34.0 - 88) < 0.5, "operations in the time of 8 bytes");
    HOLDS(2, 4, 7, 10, 100 * 4 / 7.0);
}

static void fused_gives_the_same_bits(void) {
    static const int dims[] = {1, 8, 17, 64, 172, 256};
    for (int k = 0; k < 6; k++) {
        float x[MAX_DIM], twin[MAX_DIM], r[MAX_DIM], y[MAX_DIM], z[MAX_DIM];
        int dim = dims[k];
        size_t size = (size_t)dim * sizeof *x;
        fill_random(x, 80, dim, 4);
        fill_random(r, 81, dim, 1);
        for (int i = 0; i < dim; i++)
            twin[i] = x[i] + r[i];
        rmsnorm(z, twin, ONES, dim, 1e-5f);
        add_rmsnorm(y, x, r, &(Norm){.eps = 1e-5f, .gamma = ONES}, dim);
        CHECK(!memcmp(x, twin, size) && !memcmp(y, z, size),
              "dim %d: other bits", dim);
    }
    HOLDS(5 * 4, 4 * 4);
}

/* Parameters of the bundled model, and of Llama 2 7B by its published shape. */
static void parameters_counted(void) {
    Model m;
    int norms = 0;
    CHECK(!model_open(&m, "models/stories.gguf"),
          "models/stories.gguf does not open");
    PART_EACH(at, &m)
        norms += part_norm(&at) != NULL;
    size_t parameters = m.parameters;
    norms *= m.config.dim;
    model_close(&m);
    CHECK(norms == 1728 && parameters == 1958592, "%d of %zu", norms,
          parameters);
    const long long dim = 4096, hidden = 11008, layers = 32, vocab = 32000,
                    gammas = (2 * layers + 1) * dim;
    const long long all =
        2 * vocab * dim + layers * (4 * dim * dim + 3 * dim * hidden) + gammas;
    CHECK(gammas == 266240 && all == 6738415616, "%lld of %lld", gammas, all);
    HOLDS(1, 2, 7, layers, dim, norms, (double)parameters,
          100.0 * norms / (double)parameters, (double)gammas, (double)all,
          100 * (double)gammas / (double)all);
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(operations_counted),
    STATEMENT(fused_gives_the_same_bits),
    STATEMENT(parameters_counted),
};
const Table textbook_cost = TABLE(STATEMENTS);
