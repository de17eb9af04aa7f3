/* norm_spec.h: other norms at other sites, while the program runs. */
#pragma once

#include "model.h"

/* Changes the kind of norms as --norm says: comma-separated items KIND or [LAYERS.]SITE=KIND, where KIND is rms, layer
 * or none, SITE attn, mlp, q, k, attn_post, mlp_post or final, and LAYERS n or n-m, counted from 0. Later items win.
 * eps, gamma and beta stay: RMSNorm ignores beta, and a LayerNorm without beta (NULL) adds zeros. -1 and a message: the
 * specification is no such list, or names what the model does not have; items in front of the bad one are applied. */
int model_swap_norms(Model *model, const char *spec);
