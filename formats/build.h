/* build.h: a Model while it is built, and its end. */
#ifndef NORMA_BUILD_H
#define NORMA_BUILD_H

#include "model.h"

void model_close(Model *model);

/* Fills in what follows from a model's parts, once all are there: the number of parameters, the bytes that are
 * read for one token, and hidden_dim. Where no layer is dense, hidden_dim becomes expert_dim: no weight confirms
 * the number in the file, and sessions allocate by it. */
void model_complete(Model *model);

/* Maps one more file of the model. */
int model_map(Model *model, const char *path);

/* Memory for the layers, and for the experts of a layer, as many as the config says; all fields are zero, but for
 * the layers' index. */
int model_allocate_layers(Model *model);
int model_allocate_experts(Model *model, int layer);

#endif
