/* simd.h: vectors of LANES floats, and every intrinsic in the program. Each
 * function is a few instructions. Matrix-vector and matrix-matrix products use
 * the same functions, so their results have the same bits.
 * Tests: simd. */
#pragma once

#include "kernels/lanes.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if SIMD_AVX512
#define MM(name) _mm512_##name
typedef __m512i VectorInt;
typedef __m256i Halves;
#elif SIMD_AVX2
#define MM(name) _mm256_##name
typedef __m256i VectorInt;
typedef __m128i Halves;
#endif

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef int8_t vb __attribute__((vector_size(LANES * 4)));
typedef int16_t vs __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
typedef int8_t vq __attribute__((vector_size(LANES)));
typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));

/* ---- float32 ------------------------------------------------------------ */

INLINE vf vset(float a) {
    return a - (vf){0};
}

INLINE vf vload(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void vstore(float *p, vf v) {
    memcpy(p, &v, sizeof v);
}

/* Loads n <= LANES floats, followed by zeros. Reads no further. */
INLINE vf vload_n(const float *p, int n) {
    if (n == LANES)
        return vload(p);
    vf v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}

INLINE void vstore_n(float *p, vf v, int n) {
    if (n == LANES)
        vstore(p, v);
    else
        memcpy(p, &v, n * sizeof *p);
}

/* a * b + c, rounded once if the processor has FMA. WebAssembly leaves the
 * rounding to the engine: who loads that build tests the engine first. */
INLINE vf vfma(vf a, vf b, vf c) {
#ifdef MM
    return (vf)MM(fmadd_ps)(a, b, c);
#elif defined(__ARM_NEON)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif defined(__FMA__)
    return (vf)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#elif defined(__wasm_relaxed_simd__)
    return (vf)__builtin_wasm_relaxed_madd_f32x4(a, b, c);
#else
    return a * b + c;
#endif
}

/* mask ? a : b; a lane of a mask is all ones or all zeros, as a comparison
 * returns it. */
INLINE vf vselect(vi mask, vf a, vf b) {
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* Lane-wise max and min; b if either is NaN. */
INLINE vf vmax(vf a, vf b) {
#ifdef MM
    return (vf)MM(max_ps)(a, b);
#else
    return vselect(a > b, a, b);
#endif
}
INLINE vf vmin(vf a, vf b) {
#ifdef MM
    return (vf)MM(min_ps)(a, b);
#else
    return vselect(a < b, a, b);
#endif
}

/* 0, 1, 2, ... */
INLINE vi vlane(void) {
    vi lane = {0};
    for (int j = 0; j < LANES; j++)
        lane[j] = j;
    return lane;
}

INLINE float vmax_lane(vf a) {
    float max = a[0];
    for (int j = 1; j < LANES; j++)
        max = a[j] > max ? a[j] : max;
    return max;
}

/* Within each group of four lanes, from a0 to a3 of a and b0 to b3 of b:
 * FIRST_ONES {a0, b0, a1, b1}, LAST_ONES {a2, b2, a3, b3}, FIRST_PAIRS {a0, a1,
 * b0, b1}, LAST_PAIRS {a2, a3, b2, b3}. */
#define FOUR(i, p, q, r, s) (i) + (p), (i) + (q), (i) + (r), (i) + (s)
#if LANES == 16
#define ALL_FOURS(...)                                                         \
    FOUR(0, __VA_ARGS__), FOUR(4, __VA_ARGS__), FOUR(8, __VA_ARGS__),          \
        FOUR(12, __VA_ARGS__)
#elif LANES == 8
#define ALL_FOURS(...) FOUR(0, __VA_ARGS__), FOUR(4, __VA_ARGS__)
#else
#define ALL_FOURS(...) FOUR(0, __VA_ARGS__)
#endif
#define FIRST_ONES(a, b)                                                       \
    __builtin_shufflevector(a, b, ALL_FOURS(0, LANES, 1, LANES + 1))
#define LAST_ONES(a, b)                                                        \
    __builtin_shufflevector(a, b, ALL_FOURS(2, LANES + 2, 3, LANES + 3))
#define FIRST_PAIRS(a, b)                                                      \
    __builtin_shufflevector(a, b, ALL_FOURS(0, 1, LANES, LANES + 1))
#define LAST_PAIRS(a, b)                                                       \
    __builtin_shufflevector(a, b, ALL_FOURS(2, 3, LANES + 2, LANES + 3))

/* Long sums have 16 lanes on every processor, in SUM_VECTORS vectors, so that
 * their bits do not depend on its width. */
enum { SUM_LANES = 16, SUM_VECTORS = SUM_LANES / LANES };

/* How many of the lanes of a vector the last n elements fill; n may be < 0. */
INLINE int lanes_left(int n) {
    return n < 0 ? 0 : min_int(n, LANES);
}

/* {sum a, sum b, sum c, sum d} of n vectors each: their lanes are added in one
 * fixed tree order. */
INLINE f4 vsum4(const vf *a, const vf *b, const vf *c, const vf *d,
                const int n) {
    f4 sums[SUM_LANES / 4];
    UNROLL(w, n) {
        vf ab = FIRST_ONES(a[w], b[w]) + LAST_ONES(a[w], b[w]),
           cd = FIRST_ONES(c[w], d[w]) + LAST_ONES(c[w], d[w]);
        vf all = FIRST_PAIRS(ab, cd) + LAST_PAIRS(ab, cd);
        memcpy(sums + w * (LANES / 4), &all, sizeof all);
    }
    for (int half = n * LANES / 8; half > 0; half /= 2)
        UNROLL(i, half)
            sums[i] += sums[i + half];
    return sums[0];
}

INLINE float vsum(const vf *a, const int n) {
    return vsum4(a, a, a, a, n)[0];
}

/* The larger of each pair of integers. */
INLINE vi vmax_int(vi a, vi b) {
#ifdef MM
    return (vi)MM(max_epi32)((VectorInt)a, (VectorInt)b);
#else
    return (vi)vselect(a > b, (vf)a, (vf)b);
#endif
}

/* {max a, max b, max c, max d} over the lanes of each. */
INLINE i4 vmax4(vi a, vi b, vi c, vi d) {
    i4 largest[LANES / 4];
    vi ab = vmax_int(FIRST_ONES(a, b), LAST_ONES(a, b)),
       cd = vmax_int(FIRST_ONES(c, d), LAST_ONES(c, d));
    vi all = vmax_int(FIRST_PAIRS(ab, cd), LAST_PAIRS(ab, cd));
    memcpy(largest, &all, sizeof all);
    UNROLL(i, LANES / 4 - 1) {
        i4 larger = largest[i + 1] > largest[0];
        largest[0] = (larger & largest[i + 1]) | (~larger & largest[0]);
    }
    return largest[0];
}

/* adding it rounds |v| < 2^22 to an integer, ties to even */
static const float MAGIC = 0x1.8p23f;

/* e^x to about 1 ulp: x = n ln 2 + r, a polynomial in r (Cephes), times 2^n.
 * NaN for NaN, infinity beyond the range, and 0 below 1e-30: attention has many
 * such weights, and their products with values would be subnormal, at a hundred
 * cycles each. */
INLINE vf vexp(vf x) {
    /* of r^7 down to r^2 */
    static const float coefficients[] = {1.9875691500e-4f, 1.3981999507e-3f,
                                         8.3334519073e-3f, 4.1665795894e-2f,
                                         1.6666665459e-1f, 5.0000001201e-1f};
    vi underflow = x < -69.0f; /* e^-69 = 1e-30 */
    x = vmin(vset(89.0f), vmax(vset(-69.0f), x));
    vf shifted = vfma(x, vset(0x1.715476p+0f), vset(MAGIC));
    vf n = shifted - MAGIC;
    vi k = (vi)shifted - (vi)vset(MAGIC);
    vf r = vfma(n, vset(-0x1.62e4p-1f), x);
    r = vfma(n, vset(-0x1.7f7d1cp-20f), r);
    vf p = vset(coefficients[0]);
    UNROLL(i, 5)
        p = vfma(p, r, vset(coefficients[i + 1]));
    p = vfma(p, r * r, r) + 1.0f;
    /* 2^n as 2 * 2^(n - 1): n is 128 at the upper end */
    p = p * (vf)((k + 126) << 23) * 2.0f;
    return (vf)(~underflow & (vi)p);
}

/* cap tanh(z / cap), with tanh(a) = 2 / (1 + e^-2a) - 1. */
INLINE vf vcap(vf z, float cap) {
    return cap * (2.0f / (1.0f + vexp(z * (-2 / cap))) - 1.0f);
}

/* ---- float16 ------------------------------------------------------------ */

/* LANES unsigned 16-bit integers, widened. */
INLINE vi vload_u16(const void *p) {
    vh h;
    memcpy(&h, p, sizeof h);
    return __builtin_convertvector(h, vi);
}

/* LANES half floats, widened, by an instruction or as f16_to_f32(). */
INLINE vf vload_f16(const void *p) {
#if defined(MM) && defined(__F16C__)
    Halves h;
    memcpy(&h, p, sizeof h);
    return (vf)MM(cvtph_ps)(h);
#elif defined(__ARM_NEON)
    return (vf)vcvt_f32_f16((float16x4_t)vld1_u16(p));
#else
    vi h = vload_u16(p), magnitude = h & 0x7fff,
       special = (magnitude > 0x7bff) & 0x7f800000;
    return (vf)((h ^ magnitude) << 16 | special |
                (vi)((vf)(magnitude << 13) * 0x1p112f));
#endif
}

/* LANES half floats, rounded as f32_to_f16 does. */
INLINE void vstore_f16(void *p, vf v) {
#if defined(MM) && defined(__F16C__)
    Halves h = MM(cvtps_ph)(v, _MM_FROUND_TO_NEAREST_INT);
#else
    uint16_t h[LANES];
    for (int i = 0; i < LANES; i++)
        h[i] = f32_to_f16(v[i]);
#endif
    memcpy(p, &h, sizeof h);
}

/* The half floats in the low 16 bits of the lanes, widened. */
INLINE vf vfrom_f16(vi v) {
    vh h = __builtin_convertvector(v, vh);
    return vload_f16(&h);
}

/* Makes the compiler assume that memory has changed: what was loaded before is
 * loaded again. */
#define forget_memory() __asm__ volatile("" ::: "memory")

/* Makes the compiler compute a number that nothing uses. */
#define compute_anyway(number) __asm__ volatile("" : : "r"(number))

/* ---- int8 --------------------------------------------------------------- */

/* Makes the compiler assume that the bytes in v have changed. */
#if defined(__x86_64__)
#define vforget(v) __asm__("" : "+v"(v))
#elif defined(__ARM_NEON)
#define vforget(v) __asm__("" : "+w"(v))
#else
#define vforget(v) __asm__("" : "+m"(v))
#endif

INLINE vi vset_int(int32_t a) {
    return a - (vi){0};
}

/* Stores the low byte of each of the first n lanes. */
INLINE void vstore_bytes(int8_t *p, vi v, int n) {
#if SIMD_AVX512
    __m128i bytes = _mm512_cvtepi32_epi8((__m512i)v);
#elif SIMD_AVX2
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v),
                                    _mm256_extracti128_si256((__m256i)v, 1));
    __m128i bytes = _mm_packs_epi16(words, words);
#else
    vb b = (vb)v;
    vq bytes = __builtin_shufflevector(b, b, 0, 4, 8, 12);
#endif
    memcpy(p, &bytes, n);
}

/* Four bytes, the same in every lane. */
INLINE vb vset_quad(const int8_t *p) {
    int32_t quad;
    memcpy(&quad, p, sizeof quad);
    return (vb)vset_int(quad);
}

/* Adds the dot product of the four bytes in lane j to lane j of sum. Exact for
 * any weights w (offset included) and activations x in [-127, 127]. */
INLINE vi vdot(vi sum, vb w, vb x) {
#if SIMD_AVX512
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, (__m512i)x);
#elif defined(__ARM_FEATURE_DOTPROD)
    return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)x);
#elif SIMD_VNNI
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, (__m256i)x);
#elif SIMD_AVX2 /* |w| * (x with w's sign): pairs stay below 2^15 */
    __m256i pairs = _mm256_maddubs_epi16(
        _mm256_abs_epi8((__m256i)w), _mm256_sign_epi8((__m256i)x, (__m256i)w));
    sum += (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    vforget(sum);
    return sum;
#else           /* odd and even bytes, widened in place */
    vs pairs =
        ((vs)w >> 8) * ((vs)x >> 8) + ((vs)w << 8 >> 8) * ((vs)x << 8 >> 8);
    return sum + ((vi)pairs >> 16) + ((vi)pairs << 16 >> 16);
#endif
}

/* Adds the products of unsigned weights w in pairs, in 16 bits, which hold the
 * sums of quads_added() quads (panels.h); and adds these sums to the lanes. */
INLINE vi vdot_pairs(vi pairs, vb w, vb x) {
#if SIMD_AVX2
    pairs = (vi)((vs)pairs + (vs)_mm256_maddubs_epi16((__m256i)w, (__m256i)x));
    vforget(pairs); /* otherwise gcc adds in another order, with spills */
    return pairs;
#endif
    return vdot(pairs, w, x);
}
INLINE vi vadd_pairs(vi sum, vi pairs) {
#if SIMD_AVX2
    pairs = (vi)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1));
#endif
    return sum + pairs;
}

/* table[i] for every byte i of the indices, below 16. */
INLINE vi vlookup(const int8_t *table, vi indices) {
#if SIMD_AVX512
    __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
    return (vi)_mm512_shuffle_epi8(all, (__m512i)indices);
#elif SIMD_AVX2
    __m256i all =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
    return (vi)_mm256_shuffle_epi8(all, (__m256i)indices);
#elif defined(__ARM_NEON)
    return (vi)vqtbl1q_s8(vld1q_s8(table), (uint8x16_t)indices);
#else
    vb found = (vb)indices;
    for (int j = 0; j < VBYTES; j++)
        found[j] = table[found[j]];
    return (vi)found;
#endif
}

INLINE vf vfloat(vi a) {
    return __builtin_convertvector(a, vf);
}

/* ---- transposition ------------------------------------------------------ */

/* Four words of each of the rows 0, 4, 8 and 12 (below LANES), from byte `at`
 * on. */
INLINE vi vload_rows(const uint8_t *const *rows, size_t at) {
    vi v;
    for (int i = 0; i < LANES; i += 4)
        memcpy((char *)&v + 4 * i, rows[i] + at, 16);
    return v;
}

/* Transposes four words of each of LANES rows, from byte `at` on: columns[i] =
 * {word i of rows[0], of rows[1], ...}. */
INLINE void vtranspose(vi *columns, const uint8_t *const *rows, size_t at) {
    vi a = vload_rows(rows, at), b = vload_rows(rows + 1, at);
    vi c = vload_rows(rows + 2, at), d = vload_rows(rows + 3, at);
    vi ab = FIRST_ONES(a, b), cd = FIRST_ONES(c, d), ab2 = LAST_ONES(a, b),
       cd2 = LAST_ONES(c, d);
    columns[0] = FIRST_PAIRS(ab, cd);
    columns[1] = LAST_PAIRS(ab, cd);
    columns[2] = FIRST_PAIRS(ab2, cd2);
    columns[3] = LAST_PAIRS(ab2, cd2);
}
