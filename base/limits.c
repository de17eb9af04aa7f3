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

Limits limits_of(const char *root) {
    char id_key[32], quota_key[32];
    char group[PATH_MAX], folder[3 * PATH_MAX], *end;
    Limits min = {
        number_in(root, "proc/meminfo", "MemAvailable:", SIZE_MAX >> 10) << 10,
        SIZE_MAX};
    /* a line for each control group, ID:CONTROLLERS:/NAME: version 2 has no
     * controllers, version 1 a folder for them */
    for (int id = 0; id < 32; id++) {
        snprintf(id_key, sizeof id_key, "%d:", id);
        if (!find_line(root, "proc/self/cgroup", id_key, group))
            continue;
        const bool old = *group != ':'; /* version 1 names controllers */
        group[strcspn(group, ":")] = '/';
        do { /* the group and its parents */
            snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/%s", root, group);
            size_t max =
                number_in(folder, old ? "memory.limit_in_bytes" : "memory.max",
                          "", SIZE_MAX);
            size_t used = number_in(
                folder, old ? "memory.usage_in_bytes" : "memory.current", "",
                0);
            size_t pages =
                number_in(folder, "memory.stat", "active_file ", 0) +
                number_in(folder, "memory.stat", "inactive_file ", 0);
            /* pages of files can be released */
            min.memory = min_size(
                min.memory, max - min_size(max, used - min_size(used, pages)));
            /* of each period; "max" or, in version 1, -1: no limit */
            size_t quota = number_in(
                folder, old ? "cpu.cfs_quota_us" : "cpu.max", "", SIZE_MAX);
            snprintf(quota_key, sizeof quota_key, "%zu ", quota);
            size_t period =
                number_in(folder, old ? "cpu.cfs_period_us" : "cpu.max",
                          old ? "" : quota_key, 1);
            min.processors = min_size(min.processors, (quota - 1) / period + 1);
            end = strrchr(group, '/');
            if (end)
                *end = '\0';
        } while (end);
    }
#ifdef RLIMIT_AS
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY) {
        size_t mapped =
            number_in(root, "proc/self/statm", "", 0) * sysconf(_SC_PAGESIZE);
        min.memory = min_size(min.memory, limit.rlim_cur -
                                              min_size(limit.rlim_cur, mapped));
    }
#endif
    return min;
}
