/* limits.h: what the machine and its control groups let this process use. */
#pragma once

#include <stddef.h>

/* Bytes that this process can still allocate, by the limits of the machine, of
 * its control groups and of `ulimit -v`, read from the system's files below the
 * folder `root` ("": the real ones). The page cache counts as free. A missing
 * file means no limit. */
size_t memory_available(const char *root);
