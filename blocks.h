/* blocks.h: GGUF's weight blocks, 32 weights at a time, as vectors.
 *
 * Owns one unpacking for each block type, written on vectors of 32 bytes that
 * any compiler splits for its machine. The layouts are explained, and unpacked
 * again in plain scalar code, in quant.c; the tests hold one against the other.
 * What is done with the bytes is matmul.c's.
 */
#ifndef NORMA_BLOCKS_H
#define NORMA_BLOCKS_H

#include "model.h"
#include "simd.h"

enum { GROUP = 32, GROUPS_PER_STEP = VBYTES / GROUP };

typedef uint8_t u8x32 __attribute__((vector_size(GROUP)));
typedef uint16_t u16x16 __attribute__((vector_size(GROUP)));
typedef float vg __attribute__((vector_size(LANES * 4 / GROUPS_PER_STEP))); /* scales, as far as a group reaches */

/* 32 weights, w = q * scale + min; min only for types that have offsets. */
typedef struct {
    u8x32 q; /* as int8 */
    vg scale, min;
} Group;

INLINE u8x32 load_32(const uint8_t *p) {
    u8x32 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The low `bits` of each byte of v >> shift. */
INLINE u8x32 bits_at(u8x32 v, int shift, int bits) {
    return (u8x32)((u16x16)v >> (uint16_t)shift) & (uint8_t)((1 << bits) - 1);
}

/* 16 bytes with a weight in either half; the upper ones are weights 16 to 31. */
INLINE u8x32 nibbles_32(const uint8_t *p) {
#if LANES > 4
    const __m128i low = _mm_loadu_si128((const void *)p);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_srli_epi16(low, 4), 1);
    return (u8x32)both & 15;
#else
    u8x32 v = {0};
    for (int i = 0; i < 16; i++) v[i] = p[i] & 15, v[i + 16] = p[i] >> 4;
    return v;
#endif
}

/* 16 in each byte whose bit is set in the 32 at p. */
INLINE u8x32 fifth_bits_32(const uint8_t *p) {
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
#if SIMD_AVX512 && defined(__AVX512VL__)
    return (u8x32)_mm256_maskz_set1_epi8(bits, 16);
#else
    const u8x32 which = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
                         1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    u8x32 spread = {0};
    for (int i = 0; i < 32; i++) spread[i] = p[i / 8];
    return (u8x32)((spread & which) != 0) & 16;
#endif
}

INLINE vg spread_float(float f) { return f - (vg){0}; }

INLINE float half_of(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

/* The half at p in every lane. */
INLINE vg spread_half(const uint8_t *p) {
#if LANES > 4 && defined(__F16C__)
    short h;
    memcpy(&h, p, sizeof h);
    return (vg)_mm256_cvtph_ps(_mm_set1_epi16(h));
#else
    return spread_float(half_of(p));
#endif
}

/* Scale and min of group i of a Q4_K or Q5_K block: 6 bits each in 12 bytes. */
INLINE void scale_and_min(Group *g, const uint8_t *block, int i) {
    const uint8_t *p = block + 4;
    const int scale = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | (p[i - 4] >> 6) << 4;
    const int min = i < 4 ? p[i + 4] & 63 : p[i + 4] >> 4 | (p[i] >> 6) << 4;
    g->scale = spread_float(half_of(block) * (float)scale);
    g->min = spread_float(-(half_of(block + 2) * (float)min));
}

/* Group i of a Q6_K block: 4 low bits, 2 high bits, two int8 scales. */
INLINE Group load_q6_k(const uint8_t *block, int i) {
    const u8x32 low = load_32(block + i / 4 * 64 + i % 2 * 32), high = load_32(block + 128 + i / 4 * 32);
    const int8_t *scales = (const int8_t *)block + 192 + 2 * i;
    const float d = half_of(block + 208);
    const float first = d * (float)scales[0], second = d * (float)scales[1];
    Group g = {.q = (bits_at(low, i % 4 / 2 * 4, 4) | bits_at(high, i % 4 * 2, 2) << 4) - 32};
    const int lanes = (int)(sizeof g.scale / sizeof(float));
    for (int j = 0; j < lanes; j++) g.scale[j] = j < lanes / 2 ? first : second;
    return g;
}

/* Weights 32 i to 32 i + 31 of the row that begins at p. */
INLINE Group load_group(Type type, const uint8_t *p, int i) {
    Group g = {0};
    switch (type) {
    case TYPE_Q8_0: p += i * 34; return (Group){.q = load_32(p + 2), .scale = spread_half(p)};
    case TYPE_Q4_0: p += i * 18; return (Group){.q = nibbles_32(p + 2) - 8, .scale = spread_half(p)};
    case TYPE_Q4_1:
        p += i * 20;
        return (Group){.q = nibbles_32(p + 4), .scale = spread_half(p), .min = spread_half(p + 2)};
    case TYPE_Q5_0:
        p += i * 22;
        return (Group){.q = (nibbles_32(p + 6) | fifth_bits_32(p + 2)) - 16, .scale = spread_half(p)};
    case TYPE_Q5_1:
        p += i * 24;
        return (Group){
            .q = nibbles_32(p + 8) | fifth_bits_32(p + 4), .scale = spread_half(p), .min = spread_half(p + 2)};
    case TYPE_Q4_K:
        p += i / 8 * 144;
        scale_and_min(&g, p, i % 8);
        g.q = bits_at(load_32(p + 16 + i % 8 / 2 * 32), i % 2 * 4, 4);
        return g;
    case TYPE_Q5_K:
        p += i / 8 * 176;
        scale_and_min(&g, p, i % 8);
        g.q = bits_at(load_32(p + 48 + i % 8 / 2 * 32), i % 2 * 4, 4) | bits_at(load_32(p + 16), i % 8, 1) << 4;
        return g;
    default: return load_q6_k(p + i / 8 * 210, i % 8);
    }
}

/* Whether its groups have offsets; a constant where `type` is one. */
INLINE bool group_has_min(Type type) {
    return type == TYPE_Q4_1 || type == TYPE_Q5_1 || type == TYPE_Q4_K || type == TYPE_Q5_K;
}

/* Two groups side by side, or the one that a step has. */
INLINE vb join_bytes(u8x32 a, u8x32 b) {
#if SIMD_AVX512
    return (vb)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)a), (__m256i)b, 1);
#else
    (void)b;
    return (vb)a;
#endif
}

INLINE vf join_scales(vg a, vg b) {
#if SIMD_AVX512
    const __m512d low = _mm512_castps_pd(_mm512_castps256_ps512((__m256)a));
    return (vf)_mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd((__m256)b), 1));
#else
    (void)b;
    return (vf)a;
#endif
}

#endif
