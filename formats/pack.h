/* pack.h: when weights become panels.
 */
#ifndef NORMA_PACK_H
#define NORMA_PACK_H

#include "kernels/tensor.h"
#include "model.h"

/* Makes w->panels, the weight again as products like it best, in memory that
 * the caller frees. The same bits come out, sooner. -1, silently, if there is no
 * memory: then products use the rows as they are. */
int tensor_pack(Tensor *w, int n_threads);

/* Does so for a model that is about to run, or has run n_tokens: small ones at
 * once, others a part after each token, so that the first comes without delay.
 * The file's pages that were read for it are given back. */
void model_pack(Model *m, int n_threads, int n_tokens);

#endif
