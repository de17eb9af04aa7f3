/* limits.c: what the machine and its control groups let this process use.
 * Tests: base, cli. */
#include "base/limits.h"
#include "base/memory.h"
#include "base/platform.h"
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number after `key` (find_line()); `none` if there is none. */
static size_t number_in(const char *folder, const char *name, const char *key,
                        size_t none) {
    char rest[PATH_MAX];
    size_t number;
    return find_line(folder, name, key, rest) &&
                   sscanf(rest, "%zu", &number) == 1
               ? number
               : none;
}

size_t memory_available(const char *root) {
    char group[PATH_MAX] = "", folder[2 * PATH_MAX], *end;
    size_t min =
        number_in(root, "proc/meminfo", "MemAvailable:", SIZE_MAX >> 10) << 10;
    find_line(root, "proc/self/cgroup", "0::", group);
    do { /* the control group (version 2) and its parents */
        snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root, group);
        const size_t max = number_in(folder, "memory.max", "", SIZE_MAX);
        const size_t used = number_in(folder, "memory.current", "", 0);
        const size_t pages =
            number_in(folder, "memory.stat", "active_file ", 0) +
            number_in(folder, "memory.stat", "inactive_file ", 0);
        /* the rest can be released */
        const size_t taken = used - smaller(used, pages);
        if (max < SIZE_MAX)
            min = smaller(min, max - smaller(max, taken));
        end = strrchr(group, '/');
        if (end)
            *end = '\0';
    } while (end);
#ifdef RLIMIT_AS
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY) {
        const size_t mapped =
            number_in(root, "proc/self/statm", "", 0) * sysconf(_SC_PAGESIZE);
        min = smaller(min, limit.rlim_cur - smaller(limit.rlim_cur, mapped));
    }
#endif
    return min;
}
