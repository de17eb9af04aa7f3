/* quant.c: conversion of weights and activations between float32 and their
 * types.
 *
 * Defines what the bytes of each weight type mean, in plain code that converts
 * one number at a time, and quantizes activations to int8. panels.h has the
 * vector code for blocks; the tests compare it with this file. Compiled without
 * contraction of a * b + c, so that results have the same bits as the
 * reference.
 * Tests: quant.
 */
#include "kernels/quant.h"
#include "kernels/simd.h"
#include <float.h>
#include <math.h>

/* ---- float32 to int8 ---------------------------------------------------- */

/* max|x|, found by comparing the bits of |x| as integers: the order is the
 * same, NaN is larger than infinity and so is not lost, and the compiler can
 * vectorize it. */
INLINE float max_abs(const float *x, int n) {
    uint32_t max = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7fffffff;
        max = magnitude > max ? magnitude : max;
    }
    return float_of_bits(max);
}

/* 1 / d, or 0 if that exceeds float32, for example if d = 0. */
static float inverse_of(float d) {
    float inverse = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(inverse) ? inverse : 0.0f;
}

/* Returns the sum of the bytes in each lane, exact up to 2^24. NaN becomes
 * -127. */
INLINE vf quantize_bytes(int8_t *q, const float *x, float inverse, int n) {
    vf sums = {0};
    for (int i = 0; i < n; i += LANES) {
        int left = min_int(n - i, LANES);
        vf v = vmax(vload_n(x + i, left) * inverse, vset(-127)) + MAGIC;
        vstore_bytes(q + i, (vi)v - (vi)vset(MAGIC), left);
        sums += v - MAGIC;
    }
    return sums;
}

/* max|x| of four groups, as max_abs() finds it. */
INLINE f4 max_abs_of_four(const float *const *x, const int group) {
    vi max[4] = {{0}};
    UNROLL(j, 4)
        for (int i = 0; i < group; i += LANES) {
            vi bits = (vi)vload_n(x[j] + i, min_int(group - i, LANES));
            max[j] = vmax_int(max[j], bits & 0x7fffffff);
        }
    return (f4)vmax4(max[0], max[1], max[2], max[3]);
}

/* quantize_i8(); `group` is a constant where it is 32. Four groups at a time,
 * because each waits for its max, two divisions and its sums; after the last
 * group it is computed again. */
INLINE void quantize_groups(int8_t *q, InputGroup *groups, const float *x,
                            int n, const int group) {
    const int half = group / 2, last = n / group - 1;
    for (int first = 0; first <= last; first += 4) {
        int index[4];
        const float *from[4];
        vf halves[4], wholes[4];
        UNROLL(j, 4) {
            index[j] = min_int(first + j, last);
            from[j] = x + index[j] * group;
        }
        f4 scale = max_abs_of_four(from, group) / 127.0f, inverse = 1 / scale;
        inverse = (f4)((inverse <= FLT_MAX) & (i4)inverse); /* 0 if too large */
        UNROLL(j, 4) {
            int8_t *bytes = q + index[j] * group;
            halves[j] = quantize_bytes(bytes, from[j], inverse[j], half);
            wholes[j] = halves[j] + quantize_bytes(bytes + half, from[j] + half,
                                                   inverse[j], group - half);
        }
        f4 sums = vsum4(wholes, wholes + 1, wholes + 2, wholes + 3, 1);
        f4 half_sums = vsum4(halves, halves + 1, halves + 2, halves + 3, 1);
        f4 scaled = sums * scale, half_scaled = half_sums * scale;
        UNROLL(j, 4)
            groups[index[j]] =
                (InputGroup){scale[j], scaled[j], half_scaled[j],
                             (int32_t)sums[j], (int32_t)half_sums[j]};
    }
}

void quantize_i8(int8_t *q, InputGroup *groups, const float *x, int n,
                 int group) {
    if (group == 32)
        quantize_groups(q, groups, x, n, 32);
    else
        quantize_groups(q, groups, x, n, group);
}

/* ---- anything to float32 ------------------------------------------------ */

static uint16_t u16_at(const uint8_t *p) {
    uint16_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

/* 4-bit number i. Every `run` bytes hold first the numbers in their low halves,
 * then those in their high halves. */
static int nibble(const uint8_t *p, int i, int run) {
    return p[i / (2 * run) * run + i % run] >> i / run % 2 * 4 & 15;
}

/* 2-bit number i. Every 32 bytes hold first the numbers in their lowest
 * bits. */
static int two_bits(const uint8_t *p, int i) {
    return p[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
}

/* Bit i of 32 bytes that hold first their lowest bits. */
static int one_bit(const uint8_t *p, int i) {
    return p[i % 32] >> i / 32 & 1;
}

/* The integer of weight i of a block. */
static int block_integer(Type type, const uint8_t *p, int i) {
    switch (type) {
    case TYPE_Q8_0: return (int8_t)p[2 + i];
    case TYPE_Q4_0: return nibble(p + 2, i, 16);
    case TYPE_Q4_1: return nibble(p + 4, i, 16);
    case TYPE_Q5_0:
        return nibble(p + 6, i, 16) | (p[2 + i / 8] >> i % 8 & 1) << 4;
    case TYPE_Q5_1:
        return nibble(p + 8, i, 16) | (p[4 + i / 8] >> i % 8 & 1) << 4;
    case TYPE_IQ4_NL: return IQ4_INTEGERS[nibble(p + 2, i, 16)];
    case TYPE_Q2_K: return two_bits(p + 16, i) * (p[i / 16] & 15);
    case TYPE_Q3_K: return two_bits(p + 32, i) | one_bit(p, i) << 2;
    case TYPE_Q4_K: return nibble(p + 16, i, 32);
    case TYPE_Q5_K: return nibble(p + 48, i, 32) | one_bit(p + 16, i) << 4;
    case TYPE_Q6_K: return nibble(p, i, 64) | two_bits(p + 128, i) << 4;
    case TYPE_IQ4_XS: return IQ4_INTEGERS[nibble(p + 8, i, 16)];
    case TYPE_F32 ... TYPE_I8: break; /* have no blocks */
    }
    return 0;
}

/* The 6-bit scale of group i of a Q4_K or Q5_K block, or its min: of the 12
 * bytes at p, four have scales and the upper bits of later scales, four have
 * mins and the upper bits of later mins, four have the lower bits of both. */
static int six_bits(const uint8_t *p, int i, bool min) {
    uint8_t high = p[i % 4 + 4 * min], low = p[i % 4 + 8];
    return i < 4 ? high & 63 : (low >> 4 * min & 15) | high >> 6 << 4;
}

/* The scale of group i of a block (part 0), or its min `part`. */
static float block_scale(Type type, const uint8_t *p, int i, int part) {
    bool min = part > 0;
    float d = f16_to_f32(u16_at(p + TYPES[type].at + 2 * min));
    int scale = 0;
    switch (type) {
    case TYPE_F32 ... TYPE_I8: break;         /* have no blocks */
    case TYPE_Q8_0 ... TYPE_IQ4_NL: return d; /* one group */
    case TYPE_Q2_K: scale = min ? p[2 * i + part - 1] >> 4 : 1; break;
    case TYPE_Q3_K:
        scale =
            (nibble(p + 96, i, 8) | (p[104 + i % 4] >> i / 4 * 2 & 3) << 4) -
            32;
        break;
    case TYPE_Q4_K:
    case TYPE_Q5_K: scale = six_bits(p + 4, i, min); break;
    case TYPE_Q6_K: scale = (p[192 + i] ^ 128) - 128; break;
    case TYPE_IQ4_XS:
        scale = (nibble(p + 4, i, 1) | (u16_at(p + 2) >> 2 * i & 3) << 4) - 32;
        break;
    }
    return (min ? -1.0f : 1.0f) * (d * (float)scale);
}

static void dequantize_block(float *y, Type type, const uint8_t *p) {
    int group = TYPES[type].group, mins = TYPES[type].mins;
    for (int i = 0; i < TYPES[type].weights; i += group) {
        float parts[3] = {0};
        for (int part = 0; part <= mins; part++)
            parts[part] = block_scale(type, p, i / group, part);
        for (int j = 0; j < group; j++) {
            y[i + j] =
                (float)(block_integer(type, p, i + j) - TYPES[type].zero) *
                parts[0];
            if (mins)
                y[i + j] += parts[1 + j * mins / group];
        }
    }
}

void dequantize_row(float *y, const Tensor *w, int row) {
    int n = w->cols;
    size_t start = (size_t)row * n;
    const uint8_t *p = (const uint8_t *)w->data + type_bytes(w->type, start);
    switch (w->type) {
    case TYPE_F32: memcpy(y, p, n * sizeof *y); break;
    case TYPE_F16:
    case TYPE_BF16:
        for (int c = 0; c < n; c++, p += 2)
            y[c] = w->type == TYPE_F16 ? f16_to_f32(u16_at(p))
                                       : bf16_to_f32(u16_at(p));
        break;
    case TYPE_I8:
        for (int c = 0; c < n; c++)
            y[c] = (int8_t)p[c] * tensor_scale(w, (start + c) / w->group);
        break;
    case TYPE_Q8_0 ... TYPE_IQ4_XS:
        for (int c = 0; c < n; c += TYPES[w->type].weights) {
            dequantize_block(y + c, w->type, p);
            p += TYPES[w->type].bytes;
        }
        break;
    }
}

/* ---- float32 to anything ------------------------------------------------ */

static void store_u16(uint8_t *p, uint16_t u) {
    memcpy(p, &u, sizeof u);
}

/* 32 weights: d = max|x| / 127, q = round(x / d), ties away from zero. */
static void quantize_q8_0(uint8_t *p, const float *x) {
    float d = max_abs(x, 32) / 127.0f, inverse = inverse_of(d);
    store_u16(p, f32_to_f16(d));
    for (int i = 0; i < 32; i++) {
        float v = roundf(x[i] * inverse);
        p[2 + i] = isnan(v) ? 0 : (uint8_t)(int)v;
    }
}

/* v as an integer from 0 to 15, rounded down; 0 for NaN. */
static int four_bits(float v) {
    return v > 0 ? (v < 15 ? (int)v : 15) : 0;
}

/* 32 weights: d = x / -8 for the first x of the largest magnitude, q = round(x
 * / d) + 8 up to 15, ties up. */
static void quantize_q4_0(uint8_t *p, const float *x) {
    float extreme = x[0];
    for (int i = 1; i < 32; i++)
        if ((float_bits(x[i]) & 0x7fffffff) >
            (float_bits(extreme) & 0x7fffffff))
            extreme = x[i];
    float d = extreme / -8.0f, inverse = inverse_of(d);
    store_u16(p, f32_to_f16(d));
    for (int i = 0; i < 16; i++)
        p[2 + i] = (uint8_t)(four_bits(x[i] * inverse + 8.5f) |
                             four_bits(x[i + 16] * inverse + 8.5f) << 4);
}

void quantize_row(void *out, Type type, const float *x, int n) {
    uint8_t *p = out;
    for (int i = 0; i < n; i += TYPES[type].weights, p += TYPES[type].bytes) {
        switch (type) {
        case TYPE_F32: memcpy(p, x + i, sizeof *x); break;
        case TYPE_F16: store_u16(p, f32_to_f16(x[i])); break;
        case TYPE_BF16: store_u16(p, f32_to_bf16(x[i])); break;
        case TYPE_Q8_0: quantize_q8_0(p, x + i); break;
        case TYPE_Q4_0: quantize_q4_0(p, x + i); break;
        case TYPE_I8:
        case TYPE_Q4_1 ... TYPE_IQ4_XS: break; /* are not written */
        }
    }
}
