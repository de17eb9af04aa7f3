/* rope.h: rotary position embeddings (Su et al. 2021, "RoFormer", sec. 3.4). */
#pragma once

#include <stdbool.h>

/* YaRN (Peng et al. 2023, sec. 3.2) extends the context by reducing low
 * frequencies. Pairs with at least `fast` turns in the original context keep
 * their frequency; that of pairs with at most `slow` turns is divided by
 * `factor`; a linear ramp connects the two. */
typedef struct {
    double factor;  /* 0: no YaRN */
    double context; /* original context, in positions */
    double fast, slow;
    /* do not round the ramp's ends to whole pairs; else low is rounded
     * down, high up */
    bool fractional;
} Yarn;

/* Rotation of heads. Pair i rotates by position * base^(-2i / dims) radians,
 * divided by scale and by its factor. */
typedef struct {
    double base;
    double scale; /* linear scaling: divides positions */
    /* multiplies cos and sin; 1 except with YaRN (Peng et al. 2023,
     * sec. 3.4) */
    double amplitude;
    int dims;  /* number of leading elements of a head that rotate, in pairs */
    Yarn yarn; /* factor 0: no YaRN */
    /* [dims / 2] radians per position, set by rope_open(), owned; or NULL */
    double *frequencies;
    /* pairs are (v[i], v[i + dims / 2]), as in Hugging Face; else (v[2i],
     * v[2i + 1]) */
    bool halves;
} Rope;

/* Radians per position of a pair, before scale and factor. */
double rope_frequency(const Rope *r, int pair);

/* Factors of r->yarn, [dims / 2]; the caller frees them. NULL: out
 * of memory. */
double *yarn_factors(const Rope *r);

/* YaRN's default amplitude. */
double yarn_amplitude(double factor, double scale);

/* Computes the frequencies. factors[dims / 2] NULL: all 1. -1: out
 * of memory. */
int rope_open(Rope *r, const double *factors);

/* Writes cosine and sine of the angles of one position, angles[dims /
 * 2][cos, sin]. Computed in double: a float32 angle has an error of 1e-4
 * at position 1,000. */
void rope_angles(float *angles, const Rope *r, int pos);

/* Rotates the leading elements of a head v by the angles of its
 * token, in place. */
void rope_rotate(const Rope *r, float *v, const float *angles);
