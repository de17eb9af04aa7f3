/* quant.c: weights and activations between float32 and their types.
 *
 * Owns the meaning of the bytes of each weight type, in plain code, one number after the other, and the quantization of
 * activations to int8. panels.h has the vector code for blocks; the tests compare it with this file. Compiled without
 * contraction of a * b + c, so results have the bits of the reference.
 */
#include "kernels/quant.h"
#include "kernels/simd.h"
#include <math.h>

enum {
    K = 256,
    GROUPS_K = 16,
    SCALE_BYTES_K = 12
}; /* of a K block: weights, max groups, bytes of 6-bit scales and mins */

/* ---- float32 to int8 --------------------------------------------------------------- */

/* max|x|, found by comparing the bits of |x| as integers: the order is the same, NaN comes above infinity and
 * so is not lost, and the compiler can use vectors. */
static float max_abs(const float *x, int n) {
    uint32_t max = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7fffffff;
        max = magnitude > max ? magnitude : max;
    }
    return float_of_bits(max);
}

/* 1 / d, or 0 if that exceeds float32, for example if d = 0. */
static float inverse_of(float d) {
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(inverse) ? inverse : 0.0f;
}

static const float MAGIC = 0x1.8p23f; /* adding it rounds |v| < 2^22 to an integer, ties to even */

/* Returns the sum of the bytes. NaN becomes an arbitrary byte. */
static int quantize_bytes(int8_t *q, const float *x, float inverse, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        q[i] = (int8_t)(float_bits(x[i] * inverse + MAGIC) - float_bits(MAGIC));
        sum += q[i];
    }
    return sum;
}

void quantize_i8(int8_t *q, InputGroup *groups, const float *x, int n, int group) {
    for (int i = 0; i < n; i += group) {
        const float scale = max_abs(x + i, group) / 127.0f, inverse = inverse_of(scale);
        const int half = quantize_bytes(q + i, x + i, inverse, group / 2);
        const int sum = half + quantize_bytes(q + i + group / 2, x + i + group / 2, inverse, group - group / 2);
        *groups++ = (InputGroup){scale, (float)sum * scale, sum, half};
    }
}

/* ---- blocks to integers and scales ------------------------------------------------------ */

static uint16_t u16_at(const uint8_t *p) {
    uint16_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

static float half_at(const uint8_t *p) { return f16_to_f32(u16_at(p)); }

/* 32 weights of 4 bits: byte i has weight i in its low half and weight i + 16 in its high half. */
static void unpack_nibbles(int8_t *q, const uint8_t *p) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)(p[i] & 15);
        q[i + 16] = (int8_t)(p[i] >> 4);
    }
}

/* 32 weights of 5 bits: a word with the fifth bits, then the others. */
static void unpack_fives(int8_t *q, const uint8_t *p) {
    uint32_t fifth;
    memcpy(&fifth, p, sizeof fifth);
    unpack_nibbles(q, p + sizeof fifth);
    for (int i = 0; i < 32; i++) q[i] = (int8_t)(q[i] + (int)(fifth >> i & 1) * 16);
}

/* Scale and min of group i, 6 bits each, in the 12 bytes of a K block. */
static void scale_min_k(const uint8_t *p, int i, int *scale, int *min) {
    if (i < 4) {
        *scale = p[i] & 63;
        *min = p[i + 4] & 63;
    } else {
        *scale = (p[i + 4] & 15) | (p[i - 4] >> 6) << 4;
        *min = p[i + 4] >> 4 | (p[i] >> 6) << 4;
    }
}

/* Q4_K and Q5_K: d, dmin, scales and mins of 6 bits, for Q5_K 32 bytes with the fifth bits (bit i of each byte is
 * group i's), then 4 x 32 bytes with the low 4 bits of two groups each. */
static void unpack_4_5_k(int8_t *q, float *scales, float *mins, const uint8_t *p, bool five) {
    const float d = half_at(p), dmin = half_at(p + 2);
    const uint8_t *high = p + 4 + SCALE_BYTES_K, *low = high + (five ? 32 : 0);
    for (int i = 0; i < 8; i++) {
        int scale, min;
        scale_min_k(p + 4, i, &scale, &min);
        scales[i] = d * (float)scale;
        mins[i] = -(dmin * (float)min);
        for (int j = 0; j < 32; j++) {
            int w = low[i / 2 * 32 + j] >> i % 2 * 4 & 15;
            if (five) w |= (high[j] >> i & 1) << 4;
            q[i * 32 + j] = (int8_t)w;
        }
    }
}

/* Q6_K: 128 bytes with the low 4 bits, 64 with the high 2, 16 int8 scales, d. Each half of the block takes 64, 32
 * and 8 of them. */
static void unpack_6_k(int8_t *q, float *scales, const uint8_t *p) {
    const uint8_t *low = p, *high = p + 128, *scale = p + 192;
    const float d = half_at(p + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, q += 128)
        for (int j = 0; j < 32; j++)
            for (int part = 0; part < 4; part++) {
                const int bits = low[j + part % 2 * 32] >> part / 2 * 4 & 15;
                q[j + part * 32] = (int8_t)(bits | (high[j] >> part * 2 & 3) << 4);
            }
    for (int i = 0; i < 16; i++) scales[i] = d * (float)(int8_t)scale[i];
}

/* The integers of a block, [weights], and the scales and mins of its groups. */
static void unpack_block(Type type, int8_t *q, float *scales, float *mins, const uint8_t *p) {
    *scales = half_at(p);
    if (TYPES[type].min) *mins = half_at(p + 2);
    switch (type) {
    case TYPE_Q8_0: memcpy(q, p + 2, 32); break;
    case TYPE_Q4_0: unpack_nibbles(q, p + 2); break;
    case TYPE_Q4_1: unpack_nibbles(q, p + 4); break;
    case TYPE_Q5_0: unpack_fives(q, p + 2); break;
    case TYPE_Q5_1: unpack_fives(q, p + 4); break;
    case TYPE_Q4_K: unpack_4_5_k(q, scales, mins, p, false); break;
    case TYPE_Q5_K: unpack_4_5_k(q, scales, mins, p, true); break;
    case TYPE_Q6_K: unpack_6_k(q, scales, p); break;
    case TYPE_F32 ... TYPE_I8: break; /* have no blocks */
    }
}

/* ---- anything to float32 -------------------------------------------------------------- */

static void dequantize_block(float *y, Type type, const uint8_t *p) {
    int8_t q[K] = {0};
    float scales[GROUPS_K] = {0}, mins[GROUPS_K] = {0};
    unpack_block(type, q, scales, mins, p);
    for (int i = 0; i < TYPES[type].weights; i++) {
        const int group = i / TYPES[type].group;
        y[i] = (float)(q[i] - TYPES[type].zero) * scales[group];
        if (TYPES[type].min) y[i] += mins[group];
    }
}

/* y[n] = n float16 numbers at p, which need not be aligned. */
static void dequantize_f16(float *y, const uint8_t *p, int n) {
    for (int i = 0; i < n; i += LANES) {
        const int count = n - i < LANES ? n - i : LANES;
        vstore_n(y + i, vload_f16(p + 2 * i, count), count);
    }
}

static void dequantize_i8(float *y, const Tensor *w, int row) {
    const size_t start = (size_t)row * (size_t)w->cols;
    const int8_t *q = (const int8_t *)w->data + start;
    for (int i = 0; i < w->cols; i++) y[i] = q[i] * tensor_scale(w, (start + (size_t)i) / (size_t)w->group);
}

void dequantize_row(float *y, const Tensor *w, int row) {
    const uint8_t *p = (const uint8_t *)w->data + (w->type == TYPE_I8 ? 0 : (size_t)row * tensor_bytes(w, 1));
    switch (w->type) {
    case TYPE_F32: memcpy(y, p, (size_t)w->cols * sizeof *y); break;
    case TYPE_F16: dequantize_f16(y, p, w->cols); break;
    case TYPE_BF16:
        for (int c = 0; c < w->cols; c++) y[c] = bf16_to_f32(u16_at(p + 2 * c));
        break;
    case TYPE_I8: dequantize_i8(y, w, row); break;
    case TYPE_Q8_0 ... TYPE_Q6_K:
        for (int c = 0; c < w->cols; c += TYPES[w->type].weights, p += TYPES[w->type].bytes)
            dequantize_block(y + c, w->type, p);
    }
}

/* ---- float32 to anything ---------------------------------------------------------------- */

/* v as an integer in [low, high], towards zero; low for NaN. */
void matmul_plain(float *y, const Tensor *w, const float *x, float *row) {
    for (int r = 0; r < w->rows; r++) {
        double sum = w->bias ? w->bias[r] : 0;
        dequantize_row(row, w, r);
        for (int c = 0; c < w->cols; c++) sum += (double)row[c] * x[c];
        y[r] = (float)sum;
    }
}

static int clamp(float v, int low, int high) { return v > (float)low ? (v < (float)high ? (int)v : high) : low; }

static void store_u16(uint8_t *p, uint16_t u) { memcpy(p, &u, sizeof u); }

/* 32 weights: d = max|x| / 127, q = round(x / d), ties away from zero. */
static void quantize_q8_0(uint8_t *p, const float *x) {
    const float d = max_abs(x, 32) / 127.0f, inverse = inverse_of(d);
    store_u16(p, f32_to_f16(d));
    for (int i = 0; i < 32; i++) {
        const float v = x[i] * inverse, magnitude = fabsf(v);
        int q = clamp(magnitude, 0, 127);
        q += magnitude - (float)q >= 0.5f; /* (magnitude + 0.5f could itself round up) */
        p[2 + i] = (uint8_t)(v < 0 ? -q : q);
    }
}

/* 32 weights: d = x / -8 for the first x of the largest magnitude, q = round(x / d) + 8 up to 15, ties up. */
static void quantize_q4_0(uint8_t *p, const float *x) {
    float extreme = x[0];
    for (int i = 1; i < 32; i++)
        if ((float_bits(x[i]) & 0x7fffffff) > (float_bits(extreme) & 0x7fffffff)) extreme = x[i];
    const float d = extreme / -8.0f, inverse = inverse_of(d);
    store_u16(p, f32_to_f16(d));
    for (int i = 0; i < 16; i++) {
        const int low = clamp(x[i] * inverse + 8.5f, 0, 15), high = clamp(x[i + 16] * inverse + 8.5f, 0, 15);
        p[2 + i] = (uint8_t)(low | high << 4);
    }
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
        case TYPE_Q4_1 ... TYPE_Q6_K: break; /* are not written */
        }
    }
}
