/* gguf.h: reading GGUF files.
 */
#ifndef NORMA_GGUF_H
#define NORMA_GGUF_H

#include "base/file.h"
#include "model.h"

#include <stdbool.h>

bool gguf_is(const File *file);

/* Fills the model from its file, which is mapped. On failure the caller closes it. */
int gguf_read_model(Model *model, const char *path);

#endif
