/* limits.h: what the machine and its control groups let this process use. */
#pragma once

#include <stddef.h>

/* What this process can still allocate and how many threads can run at once, by
 * the limits of the machine, of its control groups (of version 1 or 2, with
 * their parents) and of `ulimit -v`, read from the system's files below the
 * folder `root` ("": the real ones). The page cache counts as free; a share of
 * a processor counts as one. A missing file means no limit. */
typedef struct {
    size_t memory; /* bytes */
    size_t processors;
} Limits;
Limits limits_of(const char *root);
