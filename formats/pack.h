/* pack.h: when the weights of a model become panels.
 */
#ifndef NORMA_PACK_H
#define NORMA_PACK_H

#include "model.h"

/* Packs weights of a model that is about to run (n_tokens 0) or has just run n_tokens: a small model's all at once,
 * a larger one's bit by bit as it runs, so that the first token comes without delay. Where memory ends, the rest
 * stays as it is. The pages of the file that were read for it are given back. */
void model_pack(Model *m, int n_threads, int n_tokens);

#endif
