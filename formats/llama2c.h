/* llama2c.h: the checkpoints of llama2.c. */
#ifndef NORMA_LLAMA2C_H
#define NORMA_LLAMA2C_H

#include "model.h"

/* Fills the model from its file, which is mapped. On failure the caller closes it. */
int llama2c_read_model(Model *model, const char *path);

#endif
