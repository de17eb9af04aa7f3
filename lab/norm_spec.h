/* norm_spec.h: --norm, which changes the norms of an open model. */
#pragma once

#include "model.h"

/* Changes the kinds of norms. `spec` is a comma-separated list of KIND or
 * [LAYERS.]SITE=KIND: KIND is rms, layer, dyt:ALPHA or none; SITE is attn, mlp,
 * q, k, attn_post, mlp_post or final; LAYERS is n or n-m, from 0. Later items
 * override earlier ones. eps, gamma and beta are unchanged; RMSNorm ignores
 * beta, and LayerNorm treats a missing beta (NULL) as zero. Returns -1 and a
 * message if an item is invalid or names a norm that the model does not have;
 * earlier items have been applied by then. */
int model_swap_norms(Model *model, const char *spec);
