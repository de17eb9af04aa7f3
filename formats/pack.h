/* pack.h: packs weights into panels. */
#pragma once

#include "model.h"

/* Packs the weights of a model, except the embedding, and releases the file's
 * pages. Leaves the weights unpacked if limits_of() is too small for all
 * panels, or the file is sparse. */
void model_pack(Model *m, int n_threads);
