/* norm_half.c: RMSNorm in half precision. Models do not run it: it shows what
 * the roundings do. */
#include "tests/support/norm_half.h"
#include "kernels/lanes.h"
#include "norm.h"
#include <math.h>

static float widen(uint16_t h, Type type) {
    return type == TYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}
static uint16_t narrow(float f, Type type) {
    return type == TYPE_F16 ? f32_to_f16(f) : f32_to_bf16(f);
}

void rmsnorm_half(uint16_t *y, const uint16_t *x, const uint16_t *gamma,
                  int dim, float eps, Type type, RoundingOrder order) {
    float wide[NORM_BLOCK];
    double sum = 0;
    for (int start = 0; start < dim; start += NORM_BLOCK) {
        int n = min_int(dim - start, NORM_BLOCK);
        for (int i = 0; i < n; i++)
            wide[i] = widen(x[start + i], type);
        sum += sum_squares(wide, n);
    }
    float scale = (float)(1 / sqrt(sum / dim + eps));
    for (int i = 0; i < dim; i++) {
        float normalized = widen(x[i], type) * scale;
        if (order == ROUND_THEN_SCALE)
            normalized = widen(narrow(normalized, type), type);
        y[i] = narrow(normalized * widen(gamma[i], type), type);
    }
}
