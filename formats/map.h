/* map.h: maps the files of models and tokenizers. */
#pragma once

#include "base/file.h"

/* Maps a file of a model or of a tokenizer. Returns -1 and a message on
 * failure, or if its first bytes show another kind of file: a Git LFS pointer,
 * a web page, an archive, a PyTorch file. Else the caller unmaps it. */
int map_model_file(File *file, const char *path);
