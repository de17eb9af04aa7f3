/* rope.h: rotary positions (Su et al. 2021, "RoFormer", sec. 3.4). */
#pragma once

#include <stdbool.h>

/* YaRN (Peng et al. 2023, sec. 3.2) stretches slow frequencies to a longer context: pairs that make
 * at least `fast` turns in the original context keep their frequency, those that make at most
 * `slow` turns have it divided by `factor`, and between them lies a linear ramp. */
typedef struct {
    double factor;  /* 0: no YaRN */
    double context; /* positions that the model was first trained on */
    double fast, slow;
    bool fractional;        /* the ramp's ends are not rounded to whole pairs; else low is rounded down, high up */
    bool ends_at_last_pair; /* the ramp ends at the last pair at most, and is at least 0.001 wide */
} Yarn;

/* How the heads of a model rotate: pair i by position * base^(-2i / dims) / (scale * factor_i) radians. */
typedef struct {
    double base;
    double scale;     /* linear scaling of positions */
    double amplitude; /* cos and sin are multiplied by it; 1 but for YaRN (Peng et al. 2023, sec. 3.4) */
    int dims;         /* leading elements of a head that rotate, in pairs */
    Yarn yarn;        /* factor 0: no YaRN */
    bool halves;      /* pairs are (v[i], v[i + dims / 2]), as in Hugging Face; else (v[2i], v[2i + 1]) */
} Rope;

/* Radians a position of a pair, before scale and factor. */
double rope_frequency(const Rope *r, int pair);

/* The factors that YaRN gives, [dims / 2]; the caller frees them. NULL: no memory. */
double *yarn_factors(const Rope *r, const Yarn *y);

/* The amplitude that YaRN gives, unless a file says something else. */
double yarn_amplitude(double factor, double scale);

/* Radians a position of every pair, frequencies[dims / 2]. factors[dims / 2] may be NULL: ones. */
void rope_frequencies(double *frequencies, const Rope *r, const double *factors);

/* Cosine and sine of the angles of one position: angles[dims / 2][cos, sin]. Computed in double
 * precision: a float32 angle is off by 1e-4 at position 1,000. */
void rope_angles(float *angles, const Rope *r, const double *frequencies, int pos);

/* Rotates the leading elements of a head v by the angles of position pos, in place and in double: the formula. */
void rope_plain(float *v, const Rope *r, const double *frequencies, int pos);

/* Rotates the leading elements of a head v by the angles of its token, in place. */
void rope_rotate(const Rope *r, float *v, const float *angles);
