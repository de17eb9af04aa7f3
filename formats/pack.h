/* pack.h: packs weights into panels. */
#pragma once

#include "model.h"

/* Packs all weights of a model before it decodes, and releases the file's pages. Leaves the weights unpacked if
 * memory_available() is too small for all panels, or the file is sparse. */
void model_pack(Model *m, int n_threads);
