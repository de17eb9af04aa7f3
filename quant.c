/* quant.c: the weight types as layouts in memory.
 *
 * Owns what a row of each type looks like, how float32 becomes it and how it
 * becomes float32 again; plain scalar code. It multiplies nothing: products
 * are in matmul.c. Compiled without contraction of a * b + c, so that results
 * are the reference's to the bit.
 */
#include "model.h"

#include <string.h>

const char *type_name(Type type) {
    switch (type) {
    case TYPE_F32: return "f32";
    case TYPE_I8: return "int8";
    }
    return "?";
}

size_t tensor_bytes(const Tensor *w, int rows) {
    size_t n = (size_t)rows * (size_t)w->cols;
    return w->type == TYPE_F32 ? n * sizeof(float) : n + n / (size_t)w->group * sizeof(float);
}

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

void quantize_i8(int8_t *q, float *scales, const float *x, int n, int group) {
    const float magic = 0x1.8p23f; /* adding it rounds |v| < 2^22 to an integer, ties to even */
    for (int start = 0; start < n; start += group) {
        float scale = max_abs(x + start, group) / 127.0f;
        float inverse = scale > 0 ? 1.0f / scale : 0.0f;
        /* 1 / scale overflows below 2^-128: such a group counts as zeros */
        if (inverse > 0x1.fffffep127f) inverse = 0.0f;
        for (int i = start; i < start + group; i++) q[i] = (int8_t)(float_bits(x[i] * inverse + magic) - 0x4b400000);
        scales[start / group] = scale;
    }
}

void dequantize_row(float *y, const Tensor *w, int row) {
    size_t start = (size_t)row * (size_t)w->cols;
    if (w->type == TYPE_F32) {
        memcpy(y, (const float *)w->data + start, (size_t)w->cols * sizeof *y);
        return;
    }
    const int8_t *q = (const int8_t *)w->data + start;
    const char *scales = (const char *)w->scales + start / (size_t)w->group * sizeof(float);
    for (int i = 0; i < w->cols; i++) {
        float scale;
        memcpy(&scale, scales + (size_t)(i / w->group) * sizeof scale, sizeof scale);
        y[i] = q[i] * scale;
    }
}
