/* depth.c: gradients by depth in a model of 8 layers with random weights, for
 * the figure `gradients`. Each layer is two sublayers, and a branch is an MLP,
 *
 *     f(h) = W2 relu(W1 h)
 *
 * because norma has no backward pass of attention. Norms and their gradients
 * are norma's: norm_token(), norm_backward(). The loss is c . norm(x) of one
 * token after the last sublayer, with a random c. Weights have variance 2 /
 * inputs before the ReLU and 1 / inputs after it, times gain^2.
 */
#include "lab/norm_backward.h"
#include "norm.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { DIM = 64, HIDDEN = 128, SUBLAYERS = 16 };

/* Where the norms of a model stand. */
typedef struct {
    bool before;    /* f(norm(x)) */
    bool inside;    /* norm(f(...)) */
    bool after;     /* norm(x + ...) */
    bool embedding; /* norm of the embedding */
} Place;

static const Place PLACES[] = {
    {.before = true},                                    /* pre */
    {.after = true},                                     /* post */
    {.inside = true},                                    /* inside: OLMo 2 */
    {.before = true, .inside = true},                    /* sandwich */
    {.before = true, .inside = true, .embedding = true}, /* peri */
};

/* A draw's random numbers, of variance 1. */
static struct {
    unsigned draw; /* 0: none yet */
    float embedding[DIM], loss[DIM];
    float up[SUBLAYERS][HIDDEN][DIM], down[SUBLAYERS][DIM][HIDDEN];
} drawn;

/* What the backward pass needs of each sublayer. */
static struct {
    float x[DIM], read[DIM], inner[HIDDEN], branch[DIM], sum[DIM];
} kept[SUBLAYERS];

/* Added to the input of a sublayer, so that a test can measure a gradient. */
static struct {
    int sublayer, element;
    float amount;
} nudge;

static uint64_t state;

/* The next number of splitmix64 (Steele et al. 2014), in (0, 1). */
static double uniform(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/* Fills x with normal numbers, two at a time (Box and Muller 1958). */
static void fill_normal(float *x, size_t n) {
    for (size_t i = 0; i < n; i += 2) {
        double radius = sqrt(-2 * log(uniform()));
        double angle = 2 * M_PI * uniform();
        x[i] = (float)(radius * cos(angle));
        x[i + 1] = (float)(radius * sin(angle));
    }
}

static void draw_numbers(unsigned draw) {
    if (drawn.draw == draw)
        return;
    drawn.draw = draw;
    state = draw;
    fill_normal(drawn.embedding, DIM);
    fill_normal(drawn.loss, DIM);
    fill_normal(**drawn.up, (size_t)SUBLAYERS * HIDDEN * DIM);
    fill_normal(**drawn.down, (size_t)SUBLAYERS * DIM * HIDDEN);
}

/* y[rows] = scale W x[columns] */
static void product(float *y, const float *w, const float *x, float scale,
                    int rows, int columns) {
    for (int i = 0; i < rows; i++) {
        float sum = 0;
        for (int j = 0; j < columns; j++)
            sum += w[i * columns + j] * x[j];
        y[i] = scale * sum;
    }
}

/* dx[columns] = scale W^T dy[rows] */
static void product_backward(float *dx, const float *w, const float *dy,
                             float scale, int rows, int columns) {
    memset(dx, 0, columns * sizeof *dx);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            dx[j] += scale * w[i * columns + j] * dy[i];
}

static float ones[DIM];
static const Norm rms = {.kind = NORM_RMS, .eps = 1e-6F, .gamma = ones};

static void norm_if(bool normed, float *y, const float *x) {
    if (normed)
        norm_token(y, x, &rms, DIM);
    else
        memcpy(y, x, DIM * sizeof *y);
}

/* dy becomes dx, for y = norm(x), or y = x. */
static void norm_if_backward(bool normed, float *dy, const float *x) {
    float dx[DIM], dgamma[DIM] = {0};
    if (!normed)
        return;
    norm_backward(dx, dgamma, NULL, dy, x, &rms, DIM);
    memcpy(dy, dx, sizeof dx);
}

static float length(const float *x, int n) {
    return (float)sqrt(sum_squares(x, n));
}

/* Runs a sublayer on x. */
static void forward(int s, Place place, float up, float down, float *x) {
    float inner[HIDDEN], added[DIM];
    memcpy(kept[s].x, x, sizeof kept[s].x);
    norm_if(place.before, kept[s].read, x);
    product(inner, *drawn.up[s], kept[s].read, up, HIDDEN, DIM);
    for (int i = 0; i < HIDDEN; i++)
        kept[s].inner[i] = fmaxf(inner[i], 0);
    product(kept[s].branch, *drawn.down[s], kept[s].inner, down, DIM, HIDDEN);
    norm_if(place.inside, added, kept[s].branch);
    for (int i = 0; i < DIM; i++)
        kept[s].sum[i] = x[i] + added[i];
    norm_if(place.after, x, kept[s].sum);
}

/* dx, the gradient of a sublayer's output, becomes that of its input. Returns
 * the length of the gradient of W2. */
static float backward(int s, Place place, float up, float down, float *dx) {
    float added[DIM], inner[HIDDEN], read[DIM];
    norm_if_backward(place.after, dx, kept[s].sum);
    memcpy(added, dx, sizeof added);
    norm_if_backward(place.inside, added, kept[s].branch);
    float weights = length(added, DIM) * length(kept[s].inner, HIDDEN);
    product_backward(inner, *drawn.down[s], added, down, DIM, HIDDEN);
    for (int i = 0; i < HIDDEN; i++)
        inner[i] = kept[s].inner[i] > 0 ? inner[i] : 0;
    product_backward(read, *drawn.up[s], inner, up, HIDDEN, DIM);
    norm_if_backward(place.before, read, kept[s].x);
    for (int i = 0; i < DIM; i++)
        dx[i] += read[i];
    return weights;
}

/* Adds an amount to an element of a sublayer's input in later runs. */
void page_depth_nudge(int sublayer, int element, float amount) {
    nudge.sublayer = sublayer;
    nudge.element = element;
    nudge.amount = amount;
}

/* Runs a draw (from 1) of a place of PLACES. `embedding` is the RMS of the
 * embedding. Writes, relative to the length of c, the lengths of gradients: of
 * the embedding and of the stream after each sublayer, stream[SUBLAYERS + 1],
 * and of each W2, weights[SUBLAYERS]. Returns the loss. */
double page_depth(int place_index, unsigned draw, float gain, float embedding,
                  float *stream, float *weights) {
    Place place = PLACES[place_index];
    float up = gain * sqrtf(2.F / DIM), down = gain / sqrtf(HIDDEN);
    float x[DIM], first[DIM], y[DIM];
    draw_numbers(draw);
    for (int i = 0; i < DIM; i++) {
        ones[i] = 1;
        first[i] = embedding * drawn.embedding[i];
    }
    norm_if(place.embedding, x, first);
    for (int s = 0; s < SUBLAYERS; s++) {
        if (s == nudge.sublayer)
            x[nudge.element] += nudge.amount;
        forward(s, place, up, down, x);
    }
    norm_token(y, x, &rms, DIM);
    double loss = 0;
    for (int i = 0; i < DIM; i++)
        loss += (double)drawn.loss[i] * y[i];
    float dx[DIM], whole = length(drawn.loss, DIM);
    memcpy(dx, drawn.loss, sizeof dx);
    norm_if_backward(true, dx, x);
    stream[SUBLAYERS] = length(dx, DIM) / whole;
    for (int s = SUBLAYERS - 1; s >= 0; s--) {
        weights[s] = backward(s, place, up, down, dx) / whole;
        if (s == 0)
            norm_if_backward(place.embedding, dx, first);
        stream[s] = length(dx, DIM) / whole;
    }
    return loss / whole;
}
