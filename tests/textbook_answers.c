/* textbook_answers.c: statements of docs/norms.md and its other pages:
 * the answers to the exercises. */
#include "norm.h"

#include "tests/support/test.h"
#include "tests/textbook.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the answers to the exercises ---------------------------------------- */

static void answer_by_hand(void) {
    float x[] = {3, 4}, dy[] = {1, 0};
    double s = 1 / sqrt(12.5);
    float y[2], dx[2], unused[2] = {0};
    rmsnorm(y, x, ONES, 2, 0);
    CHECK_VALUES(y, 2, 1e-7, 3 * s, 4 * s);
    rmsnorm_backward(dx, unused, dy, x, ONES, 2, 0);
    CHECK_VALUES(dx, 2, 1e-7, s * 0.64, s * -0.48);
    HOLDS(12.5, 3 * s, 4 * s, s * 0.64, s * -0.48, 3, 4, 0.64, -0.48);
}

static void answer_of_two_elements(void) {
    for (int t = 0; t < 50; t++) {
        float x[2], y[2];
        fill_random(x, 140 + (uint64_t)t, 2, 100);
        layernorm(y, x, ONES, NULL, 2, 0);
        CHECK(fabsf(fabsf(y[0]) - 1) < 1e-5f && fabsf(y[0] + y[1]) < 1e-5f,
              "[%g, %g]", y[0], y[1]);
    }
    HOLDS(1, -1, 2);
}

static void answer_of_eps(void) {
    double r = sqrt(0.81 * 1e-6 / 0.19); /* r / sqrt(r^2 + eps) = 0.9 */
    float x[] = {(float)r, (float)-r};
    float y[2];
    rmsnorm(y, x, ONES, 2, 1e-6f);
    CHECK(fabs(y[0] - 0.9) < 1e-6, "%.9g", y[0]);
    HOLDS(r, 0.9, 0.81, 0.19, 1e-6);
}

static void answer_of_the_spike(void) {
    float x[100] = {[3] = -5}, y[100];
    rmsnorm(y, x, ONES, 100, 0);
    CHECK(fabsf(y[3] + 10) < 1e-5f, "%.9g", y[3]);
    layernorm(y, x, ONES, NULL, 100, 0);
    CHECK(fabs(y[3] + 9.9498744) < 1e-5, "%.9g", y[3]);
    HOLDS(0, -10, 99, -sqrt(99));
}

/* ---- the answers to more exercises --------------------------------------- */

/* sum(dy x / (RMS(x) + eps)) */
static double weighted_outside(const double x[DIM], const float *dy,
                               double eps) {
    double squares = 0, sum = 0;
    for (int i = 0; i < DIM; i++) {
        squares += x[i] * x[i] / DIM;
        sum += dy[i] * x[i];
    }
    return sum / (sqrt(squares) + eps);
}

static void answer_of_eps_outside(void) {
    double eps = 1e-5, step = 1e-6;
    double x[DIM], r = 0, along = 0;
    float dy[DIM];
    fill_random(dy, 142, DIM, 1);
    for (int i = 0; i < DIM; i++) {
        x[i] = (double)random_float(143, i) / 1000;
        r += x[i] * x[i] / DIM;
        along += dy[i] * x[i] / DIM;
    }
    r = sqrt(r);
    for (int i = 0; i < DIM; i++) {
        double kept = x[i], dx = dy[i] / (r + eps) -
                                 kept * along / (r * (r + eps) * (r + eps));
        x[i] = kept + step * r;
        double above = weighted_outside(x, dy, eps);
        x[i] = kept - step * r;
        double below = weighted_outside(x, dy, eps),
               slope = (above - below) / (2 * step * r);
        x[i] = kept;
        CHECK(fabs(dx - slope) < 1e-6 * fmax(fabs(slope), 1),
              "dx[%d] is %.9g, the slope %.9g", i, dx, slope);
    }
    HOLDS(1 / eps, eps, 1 / sqrt(eps));
}

/* The first dim at which an element of size y has an error of at most 0.001
 * with a variance over dim - 1. */
static int first_dim_within(double y) {
    int dim = 2;
    while (y * (1 - sqrt(1 - 1.0 / dim)) > 0.001)
        dim++;
    return dim;
}

static void answer_of_the_tolerance(void) {
    CHECK(first_dim_within(1) == 501 && first_dim_within(4) == 2001,
          "relative: %d; an element of 4: %d", first_dim_within(1),
          first_dim_within(4));
    HOLDS(1, 0.001, 501, 4, 2001);
}

static void answer_of_the_part(void) {
    double n = 1 / (2 * 0.01 * 0.01 + 1.0 / 4096);
    HOLDS(1, 2, 0.01, 4096, ceil(n));
}

/* ---- the table -------------------------------------------------------- */

static const Statement STATEMENTS[] = {
    STATEMENT(answer_by_hand),        STATEMENT(answer_of_two_elements),
    STATEMENT(answer_of_eps),         STATEMENT(answer_of_the_spike),
    STATEMENT(answer_of_eps_outside), STATEMENT(answer_of_the_tolerance),
    STATEMENT(answer_of_the_part),
};
const Table textbook_answers = TABLE(STATEMENTS);
