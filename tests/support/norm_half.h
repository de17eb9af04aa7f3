/* norm_half.h: RMSNorm in half precision. */
#pragma once

#include "kernels/tensor.h"

/* When results are rounded to half precision: after normalization and again
 * after multiplication by gamma (Llama, both Meta's and Hugging Face's code),
 * or only after the multiplication (Gemma, torch.nn.functional.rms_norm). */
typedef enum { ROUND_THEN_SCALE, SCALE_THEN_ROUND } RoundingOrder;

/* RMSNorm of one token in float16 or bfloat16 (`type`: TYPE_F16, TYPE_BF16); x,
 * y and gamma are [dim], as bits. Statistics and normalization are float32. y
 * may be x. */
void rmsnorm_half(uint16_t *y, const uint16_t *x, const uint16_t *gamma,
                  int dim, float eps, Type type, RoundingOrder order);
