/* parts.h: the parts of a model, in order.
 */
#ifndef NORMA_PARTS_H
#define NORMA_PARTS_H

#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

/* Visits every tensor, and every norm (over dim elements), in the order of the
 * forward pass, with its name ("layers.3.wq", "layers.3.attn_norm"). Either may
 * be NULL. */
void model_visit(const Model *model, void (*tensor)(void *arg, const char *name, const Tensor *w),
                 void (*norm)(void *arg, const char *name, const Norm *norm, int dim), void *arg);

#endif
