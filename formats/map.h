/* map.h: maps the files of models and tokenizers. */
#pragma once

#include "base/file.h"

/* Maps a file of a model or of a tokenizer. -1 and a message also if its first bytes say that it is something that
 * people take for one: a pointer of Git LFS, a web page, an archive, a pickle. The caller unmaps it. */
int map_model_file(File *file, const char *path);
