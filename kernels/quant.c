/* quant.c: the weight types as layouts in memory.
 *
 * Owns what a row of each type looks like and how it becomes float32, or int8
 * with scales, which is what products are made of; plain scalar code. It
 * multiplies nothing: products are in matmul.c. Compiled without contraction
 * of a * b + c, so that results are the reference's to the bit.
 *
 * The block types are GGUF's. Numbers in a block: d a float16 scale, m or dmin
 * a float16 offset, q the weights in 4 to 8 bits, high bits sometimes apart.
 */
#include "kernels/quant.h"

#include "kernels/simd.h"
#include "kernels/tensor.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { K = 256, SCALE_BYTES_K = 12 }; /* weights of a K block; 6-bit scales and mins of 8 groups */

static const struct {
    const char *name;
    int gguf;      /* its number in GGUF files; -1: none */
    int block;     /* weights in a block */
    int bytes;     /* of a block */
    int group;     /* weights to a scale, once unpacked to int8; 0: unpacks to float32 */
    bool mins;     /* has offsets */
    int file_type; /* GGUF's number for a file mostly of this type; -1: not written */
} TYPES[] = {
    [TYPE_F32] = {"f32", 0, 1, 4, 0, false, 0},
    [TYPE_F16] = {"f16", 1, 1, 2, 0, false, 1},
    [TYPE_BF16] = {"bf16", 30, 1, 2, 0, false, 32},
    [TYPE_I8] = {"int8", -1, 1, 1, 0, false, -1}, /* group and scales are the tensor's */
    [TYPE_Q8_0] = {"q8_0", 8, 32, 34, 32, false, 7},
    [TYPE_Q4_0] = {"q4_0", 2, 32, 18, 32, false, 2},
    [TYPE_Q4_1] = {"q4_1", 3, 32, 20, 32, true, -1},
    [TYPE_Q5_0] = {"q5_0", 6, 32, 22, 32, false, -1},
    [TYPE_Q5_1] = {"q5_1", 7, 32, 24, 32, true, -1},
    [TYPE_Q4_K] = {"q4_K", 12, K, 144, 32, true, -1},
    [TYPE_Q5_K] = {"q5_K", 13, K, 176, 32, true, -1},
    [TYPE_Q6_K] = {"q6_K", 14, K, 210, 16, false, -1},
};

const char *type_name(Type type) { return TYPES[type].name; }
int type_block(Type type) { return TYPES[type].block; }
bool type_wants_bytes(Type type) { return type == TYPE_I8 || TYPES[type].group > 0; }

int type_from_gguf(uint32_t number, Type *type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (TYPES[i].gguf == (int64_t)number) {
            *type = (Type)i;
            return 0;
        }
    return -1;
}

uint32_t type_to_gguf(Type type) { return (uint32_t)TYPES[type].gguf; }
int type_file_type(Type type) { return TYPES[type].file_type; }

int type_from_name(const char *name, Type *type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (TYPES[i].file_type >= 0 && !strcmp(TYPES[i].name, name)) {
            *type = (Type)i;
            return 0;
        }
    return -1;
}

size_t tensor_bytes(const Tensor *w, int rows) {
    const size_t n = (size_t)rows * (size_t)w->cols;
    if (w->type == TYPE_I8) return n + n / (size_t)w->group * sizeof(float);
    return n / (size_t)TYPES[w->type].block * (size_t)TYPES[w->type].bytes;
}

/* ---- float32 to int8 --------------------------------------------------------------- */

static uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* max|x|; compared as integers, which order like the magnitudes and let the
 * compiler use vectors. NaN orders above infinity, so it is not lost. */
static float max_abs(const float *x, int n) {
    uint32_t max = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7fffffff;
        max = magnitude > max ? magnitude : max;
    }
    float m;
    memcpy(&m, &max, sizeof m);
    return m;
}

/* 1 / d; 0 where that is too large for float32, as for d = 0. */
static float inverse_of(float d) {
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(inverse) ? inverse : 0.0f;
}

static const float MAGIC = 0x1.8p23f; /* adding it rounds |v| < 2^22 to an integer, ties to even */

/* (What NaN becomes is a byte, too.) */
static int8_t quantize(float x, float inverse) { return (int8_t)(float_bits(x * inverse + MAGIC) - float_bits(MAGIC)); }

static void finish(InputGroup *g, float scale, int sum, int half) {
    *g = (InputGroup){scale, (float)sum * scale, sum, half};
}

/* A group of any size. */
static void quantize_group(int8_t *q, InputGroup *g, const float *x, int n) {
    const float scale = max_abs(x, n) / 127.0f, inverse = inverse_of(scale);
    int sums[2] = {0};
    for (int i = 0; i < n; i++) {
        q[i] = quantize(x[i], inverse);
        sums[i >= n / 2] += q[i];
    }
    finish(g, scale, sums[0] + sums[1], sums[0]);
}

/* The same with vectors, of which both halves hold whole ones. */
static void quantize_vectors(int8_t *q, InputGroup *g, const float *x, int n) {
    vi max = {0}, sums[2] = {{0}};
    for (int i = 0; i < n; i += LANES) {
        const vi magnitude = (vi)vload(x + i) & 0x7fffffff;
        max = vmax_int(magnitude, max);
    }
    const int32_t bits = vmax_lane_int(max);
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    const float scale = largest / 127.0f, inverse = inverse_of(scale);
    for (int i = 0; i < n; i += LANES) {
        const vi v = (vi)(vload(x + i) * inverse + MAGIC) - (vi)vset(MAGIC);
        vstore_bytes(q + i, v);
        sums[i >= n / 2] += v << 24 >> 24;
    }
    const vf first = vfloat(sums[0]), second = vfloat(sums[1]); /* small enough to be exact */
    const f4 both = vsum4(first, second, first, second);
    finish(g, scale, (int)(both[0] + both[1]), (int)both[0]);
}

void quantize_i8(int8_t *q, InputGroup *groups, const float *x, int n, int group) {
    for (int i = 0; i < n; i += group, groups++)
        (group % (2 * LANES) ? quantize_group : quantize_vectors)(q + i, groups, x + i, group);
}

/* ---- blocks to int8: panels.h has the same for vectors ----------------------------------- */

static float half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

static uint32_t u32_at(const uint8_t *p) {
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

/* 16 bytes with a weight in either half; the upper ones are weights 16 to 31. */
static void nibbles(int8_t *q, const uint8_t *p, int offset) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((p[i] & 15) - offset);
        q[i + 16] = (int8_t)((p[i] >> 4) - offset);
    }
}

/* Adds the fifth bits, one for each of 32 weights. */
static void fifth_bits(int8_t *q, uint32_t bits) {
    for (int i = 0; i < 32; i++) q[i] = (int8_t)(q[i] + (int)(bits >> i & 1) * 16);
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

/* Q4_K and Q5_K: d, dmin, scales, for Q5_K 32 bytes with the fifth bits (bit i
 * of each byte is group i's), then 4 x 32 bytes with two groups each. */
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

/* Q6_K: 128 bytes with the low 4 bits, 64 with the high 2, 16 int8 scales, d.
 * Each half of the block takes 64, 32 and 8 of them. */
static void unpack_6_k(int8_t *q, float *scales, const uint8_t *p) {
    const uint8_t *low = p, *high = p + 128, *scale = p + 192;
    const float d = half_at(p + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, q += 128)
        for (int j = 0; j < 32; j++)
            for (int part = 0; part < 4; part++) {
                const int bits = low[j + part % 2 * 32] >> part / 2 * 4 & 15;
                q[j + part * 32] = (int8_t)((bits | (high[j] >> part * 2 & 3) << 4) - 32);
            }
    for (int i = 0; i < 16; i++) scales[i] = d * (float)(int8_t)scale[i];
}

static void unpack_block(Type type, int8_t *q, float *scales, float *mins, const uint8_t *p) {
    switch (type) {
    case TYPE_Q8_0: memcpy(q, p + 2, 32); break;
    case TYPE_Q4_0: nibbles(q, p + 2, 8); break;
    case TYPE_Q4_1: nibbles(q, p + 4, 0); break;
    case TYPE_Q5_0:
        nibbles(q, p + 6, 16);
        fifth_bits(q, u32_at(p + 2));
        break;
    case TYPE_Q5_1:
        nibbles(q, p + 8, 0);
        fifth_bits(q, u32_at(p + 4));
        break;
    case TYPE_Q4_K: unpack_4_5_k(q, scales, mins, p, false); return;
    case TYPE_Q5_K: unpack_4_5_k(q, scales, mins, p, true); return;
    default: unpack_6_k(q, scales, p); return;
    }
    *scales = half_at(p);
    if (TYPES[type].mins) *mins = half_at(p + 2);
}

/* Where a row begins, for types without scales of their own. */
static const uint8_t *row_at(const Tensor *w, int row) {
    return (const uint8_t *)w->data + (size_t)row * tensor_bytes(w, 1);
}

/* ---- anything to float32 -------------------------------------------------------------- */

/* y = q * scale + min for one block. */
static void dequantize_block(float *y, Type type, const uint8_t *p) {
    const int block = TYPES[type].block, group = TYPES[type].group;
    int8_t q[K] = {0};
    float scales[K / 16] = {0}, mins[K / 16] = {0};
    unpack_block(type, q, scales, mins, p);
    for (int i = 0; i < block; i++) {
        y[i] = q[i] * scales[i / group];
        if (TYPES[type].mins) y[i] += mins[i / group];
    }
}

static void dequantize_row_i8(float *y, const Tensor *w, int row) {
    const size_t start = (size_t)row * (size_t)w->cols;
    const int8_t *q = (const int8_t *)w->data + start;
    const char *scales = (const char *)w->scales + start / (size_t)w->group * sizeof(float);
    for (int i = 0; i < w->cols; i++) {
        float scale;
        memcpy(&scale, scales + (size_t)(i / w->group) * sizeof scale, sizeof scale);
        y[i] = q[i] * scale;
    }
}

void dequantize_row(float *y, const Tensor *w, int row) {
    if (w->type == TYPE_I8) {
        dequantize_row_i8(y, w, row);
        return;
    }
    const uint8_t *p = row_at(w, row);
    const int block = TYPES[w->type].block;
    switch (w->type) {
    case TYPE_F32: memcpy(y, p, (size_t)w->cols * sizeof *y); break;
    case TYPE_F16: halfs_to_floats(y, p, w->cols); break;
    case TYPE_BF16:
        for (int i = 0; i < w->cols; i++) {
            uint16_t h;
            memcpy(&h, p + 2 * i, sizeof h);
            y[i] = bf16_to_f32(h);
        }
        break;
    default:
        for (int c = 0; c < w->cols; c += block, p += TYPES[w->type].bytes) dequantize_block(y + c, w->type, p);
    }
}

/* ---- float32 to anything ---------------------------------------------------------------- */

/* v as an integer in [low, high], towards zero; low for NaN. */
static int clamp(float v, int low, int high) { return v > (float)low ? (v < (float)high ? (int)v : high) : low; }

static void put_half(uint8_t *p, float f) {
    const uint16_t h = f32_to_f16(f);
    memcpy(p, &h, sizeof h);
}

/* d = max|x| / 127; ties away from zero. */
static void quantize_q8_0(uint8_t *p, const float *x) {
    const float d = max_abs(x, 32) / 127.0f, inverse = inverse_of(d);
    put_half(p, d);
    for (int i = 0; i < 32; i++) {
        const float v = x[i] * inverse, magnitude = fabsf(v);
        int q = clamp(magnitude, 0, 127);
        q += magnitude - (float)q >= 0.5f; /* (magnitude + 0.5f could itself round up) */
        p[2 + i] = (uint8_t)(v < 0 ? -q : q);
    }
}

/* The weight of the largest magnitude (the first of them) becomes -8. */
static void quantize_q4_0(uint8_t *p, const float *x) {
    float extreme = x[0];
    for (int i = 1; i < 32; i++)
        if ((float_bits(x[i]) & 0x7fffffff) > (float_bits(extreme) & 0x7fffffff)) extreme = x[i];
    const float d = extreme / -8.0f, inverse = inverse_of(d);
    put_half(p, d);
    for (int i = 0; i < 16; i++) {
        const int low = clamp(x[i] * inverse + 8.5f, 0, 15), high = clamp(x[i + 16] * inverse + 8.5f, 0, 15);
        p[2 + i] = (uint8_t)(low | high << 4);
    }
}

void quantize_row(void *out, Type type, const float *x, int n) {
    uint8_t *p = out;
    for (int i = 0; i < n; i += TYPES[type].block, p += TYPES[type].bytes) {
        uint16_t half;
        switch (type) {
        case TYPE_F32: memcpy(p, x + i, sizeof *x); break;
        case TYPE_F16: put_half(p, x[i]); break;
        case TYPE_BF16:
            half = f32_to_bf16(x[i]);
            memcpy(p, &half, sizeof half);
            break;
        case TYPE_Q8_0: quantize_q8_0(p, x + i); break;
        default: quantize_q4_0(p, x + i); break;
        }
    }
}
