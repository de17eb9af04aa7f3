/* norm_spec.h: other norms at other sites, while the program runs.
 */
#ifndef NORMA_NORM_SPEC_H
#define NORMA_NORM_SPEC_H

#include "model.h"

/* Gives sites another kind of norm, as --norm says: comma-separated items KIND
 * or [LAYERS.]SITE=KIND, KIND rms or layer, SITE attn, mlp, q, k or final, LAYERS n
 * or n-m; later items win. gamma and eps stay; a LayerNorm that was none has beta 0
 * (NULL). */
int model_swap_norms(Model *model, const char *spec);

#endif
