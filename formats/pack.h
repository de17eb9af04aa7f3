/* pack.h: packs weights into panels. */
#pragma once

#include "model.h"

/* Packs all weights of a model, before it decodes, and gives back the pages of the file that were read. Weights stay as
 * they are in the file if memory_available() is too small for all panels, or the file is sparse. */
void model_pack(Model *m, int n_threads);
