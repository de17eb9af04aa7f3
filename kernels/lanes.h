/* lanes.h: the width of vectors, and what needs no vector: unrolling,
 * prefetching, float16 and bfloat16 numbers. Apart from simd.h, because
 * the header of the intrinsics takes 0.2 s to compile.
 * Tests: simd, half. */
#pragma once

#include "base/memory.h"

#include <stdint.h>
#include <string.h>

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define SIMD_AVX512 1
#define LANES       16
#elif defined(__AVX2__) && defined(__FMA__)
#define SIMD_AVX2 1
#define LANES     8
#else
#define LANES 4
#endif

/* Whether one instruction multiplies quads of bytes and adds the products. */
#if SIMD_AVX512 || (SIMD_AVX2 && __AVXVNNI__)
#define SIMD_VNNI 1
#else
#define SIMD_VNNI 0
#endif

#define INLINE   static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

/* for i from 0 to n - 1, for a constant n: unrolled, so that arrays of vectors
 * that it indexes stay in registers. Builds for fuzzing define NO_UNROLL and
 * compile faster. */
#define UNROLL(i, n)                                                           \
    UNROLL_NEXT                                                                \
    for (int i = 0; i < (n); i++)
#if NO_UNROLL
#define UNROLL_NEXT
#elif defined(__clang__)
#define UNROLL_NEXT _Pragma("clang loop unroll(full)")
#else
#define UNROLL_NEXT _Pragma("GCC unroll 16")
#endif

/* VNNI multiplies unsigned by signed bytes: there BYTE_OFFSET is added to
 * signed weights, and the sums of products are too large by BYTE_OFFSET times
 * the sum of the activations. */
enum { VBYTES = 4 * LANES, BYTE_OFFSET = SIMD_VNNI ? 128 : 0 };

/* Prefetches the cache line of p, for reading into the second-level cache, or
 * for writing. p may be any address. */
INLINE void prefetch_read(const void *p) {
    __builtin_prefetch(p, 0, 2);
}
INLINE void prefetch_write(const void *p) {
    __builtin_prefetch(p, 1);
}

/* a * b + c for one number. In a sum of two products the compiler may fuse
 * either one or none; this function fixes the choice, so that every compiler
 * produces the same bits. */
INLINE float fma_float(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_NEON)
    return __builtin_fmaf(a, b, c);
#elif defined(__wasm_relaxed_simd__)
    typedef float four __attribute__((vector_size(16)));
    return __builtin_wasm_relaxed_madd_f32x4((four){a}, (four){b},
                                             (four){c})[0];
#else
    return a * b + c;
#endif
}

INLINE uint32_t float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

INLINE float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Without a branch: a loop of it becomes vector instructions. */
INLINE float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff,
             special = magnitude >= 0x7c00 ? 0x7f800000u : 0;
    /* changes the exponent's bias; exact. Infinity, NaN: all bits of it */
    return float_of_bits(sign | special |
                         float_bits(float_of_bits(magnitude << 13) * 0x1p112f));
}

/* Rounds to nearest, ties to even; overflow gives infinity. */
INLINE uint16_t f32_to_f16(float f) {
    uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00); /* NaN */
    if (magnitude >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* subnormal: the addition rounds */
        return (uint16_t)(sign | (float_bits(float_of_bits(magnitude) + 0.5f) -
                                  0x3f000000));
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((magnitude >> 13) - (112 << 10)));
}

INLINE float bf16_to_f32(uint16_t h) {
    return float_of_bits((uint32_t)h << 16);
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
INLINE uint16_t f32_to_bf16(float f) {
    uint32_t bits = float_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
