/* textbook.h: shared by the tests of the chapter's statements: inputs, sums,
 * and measurements of stories260K. */
#pragma once

#include "lab/norm_backward.h"
#include "norm.h"
#include "tests/support/book.h"
#include "tests/support/hashmodel.h"
#include "tests/support/norm_inputs.h"
#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_DIM = 256, TOKENS = 10, DIM = 8 };

static const float ONES[MAX_DIM] = {[0 ... MAX_DIM - 1] = 1},
                   ONE_TO_FOUR[] = {1, 2, 3, 4};

/* The tests of textbook_formulas.c and so on. */
extern const Table textbook_formulas, textbook_gradients, textbook_places,
    textbook_attention, textbook_models, textbook_cost, textbook_equivalence,
    textbook_answers;

/* A norm of stories260K in `--profile`, over the story of tests/golden. */
typedef struct {
    double rms_in, mean, max;
} StorySite;

/* Profiles the norms, in order, at most max_sites; returns their number. 0: no
 * checkpoint; call story_missing(). */
int profile_of_story(StorySite *sites, int max_sites);
void story_missing(void);

/* A test: the commands at the beginning of docs/norms.md. */
void the_opening_holds(void);

/* The RMS of the residual before layer 1, at position 0 and elsewhere; -1: no
 * checkpoint. */
int first_token_of_story(double *first, double *others);

/* Writes stories260K as a GGUF file of this type, gamma folded or not. -1: no
 * checkpoint. */
int story_converted(const char *path, const char *type, bool fold);

/* Loss of the story, in nats per token, with stories260K as a GGUF file of this
 * type, gamma folded or not; -1: no checkpoint. */
double story_loss_converted(const char *type, bool fold);

/* Stories that stories260K and models/stories.gguf sampled: lines of token
 * ids. */
#define SAMPLED         "tests/golden/stories260K_sampled.txt"
#define BUNDLED_SAMPLED "tests/golden/bundled_sampled.txt"
enum { N_STORIES = 20 };

/* Nats per token of these stories, with the model at `path` and these norms
 * (`--norm`). Returns their number; 0 on failure. */
int losses_of_stories(double losses[N_STORIES], const char *stories,
                      const char *path, const char *norms);

/* Values of random draws: their mean, and its standard error. */
typedef struct {
    double sum, squares;
    int n;
} Draws;

/* A mean of draws and its standard error, from PyTorch. */
typedef struct {
    double mean, error;
} Figure;

static inline void add_draw(Draws *d, double value) {
    d->sum += value;
    d->squares += value * value;
    d->n++;
}

static inline double mean_of_draws(const Draws *d) {
    return d->sum / d->n;
}

static inline double error_of_draws(const Draws *d) {
    double mean = mean_of_draws(d);
    return sqrt(fmax(d->squares / d->n - mean * mean, 0) / (d->n - 1));
}

/* The random numbers of scripts/golden/textbook.py, in [-0.5, 0.5). */
static inline float random_float(uint64_t tensor, int i) {
    return (float)(hash64(7, tensor, (uint64_t)i) >> 40) / 16777216.0f - 0.5f;
}

static inline void fill_random(float *x, uint64_t tensor, int n, float size) {
    for (int i = 0; i < n; i++)
        x[i] = size * random_float(tensor, i);
}

/* Normal random numbers. */
static inline double normal(uint64_t tensor, int i) {
    double u = random_float(tensor, 2 * i) + 0.5 + 0x1p-25,
           v = random_float(tensor, 2 * i + 1);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

static inline void rmsnorm_backward(float *dx, float *dgamma, const float *dy,
                                    const float *x, const float *gamma, int dim,
                                    float eps) {
    norm_backward(dx, dgamma, NULL, dy, x,
                  &(Norm){.kind = NORM_RMS, .eps = eps, .gamma = gamma}, dim);
}

static inline void layernorm_backward(float *dx, float *dgamma, float *dbeta,
                                      const float *dy, const float *x,
                                      const float *gamma, int dim, float eps) {
    norm_backward(dx, dgamma, dbeta, dy, x,
                  &(Norm){.kind = NORM_LAYER, .eps = eps, .gamma = gamma}, dim);
}

static inline double mean_of(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

static inline double dot(const float *a, const float *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static inline double rms_of(const float *x, int n) {
    return sqrt(dot(x, x, n) / n);
}

/* The index of the first value with an error above `error`; -1: none. */
static inline int first_wrong(const float *y, const double *expected, int n,
                              double error) {
    for (int i = 0; i < n; i++)
        if (!(fabs(y[i] - expected[i]) <= error))
            return i;
    return -1;
}

#define CHECK_VALUES(y, n, error, ...)                                         \
    do {                                                                       \
        const double expected_[] = {__VA_ARGS__};                              \
        const int wrong_ = first_wrong(y, expected_, n, error);                \
        CHECK(wrong_ < 0, "value %d: %.9g, expected %.9g", wrong_,             \
              (y)[wrong_], expected_[wrong_]);                                 \
    } while (0)
