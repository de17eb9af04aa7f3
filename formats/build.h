/* build.h: a Model while it is built, and its end.
 */
#ifndef NORMA_BUILD_H
#define NORMA_BUILD_H

#include "model.h"

void model_close(Model *model);

/* Counts parameters, and the bytes that are read for one token, of a model that is whole. */
void model_count(Model *model);

/* Maps one more file of the model. */
int model_map(Model *model, const char *path);

/* Memory for the layers that the config says, all fields but the index zero. */
int model_allocate_layers(Model *model);

#endif
