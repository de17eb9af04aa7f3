/* reading.h: opens files for reading. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/* Opens a file that is read: only a regular one, without waiting, or if
 * `takes_streams` a pipe or a device, too. Returns its descriptor and *st; -1
 * and *error (a text that stays valid until the next failure) if it must not be
 * read. */
int open_to_read(const char *path, bool takes_streams, struct stat *st,
                 const char **error);
