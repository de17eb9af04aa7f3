/* folder.h: from a Hugging Face folder to a Model.
 */
#ifndef NORMA_FOLDER_H
#define NORMA_FOLDER_H

#include "model.h"

/* Fills the model from a folder: config.json and safetensors. On failure the
 * caller closes it. */
int folder_read_model(Model *model, const char *folder);

#endif
