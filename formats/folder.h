/* folder.h: from a Hugging Face folder to a Model. */
#ifndef NORMA_FOLDER_H
#define NORMA_FOLDER_H

#include "model.h"

/* Fills the model from a folder: config.json and safetensors. -1 and a message if it cannot; the caller then closes
 * the model. */
int folder_read_model(Model *model, const char *folder);

#endif
