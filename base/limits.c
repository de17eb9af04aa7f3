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

static Limits smaller(Limits a, Limits b) {
    return (Limits){min_size(a.memory, b.memory),
                    min_size(a.processors, b.processors)};
}

/* The limits in a control group's folder. */
static Limits limits_of_group(const char *folder, bool is_version_1) {
    const char *max_name = "memory.max", *used_name = "memory.current";
    const char *quota_name = "cpu.max", *period_name = "cpu.max";
    if (is_version_1) {
        max_name = "memory.limit_in_bytes";
        used_name = "memory.usage_in_bytes";
        quota_name = "cpu.cfs_quota_us";
        period_name = "cpu.cfs_period_us";
    }
    const size_t max = number_in(folder, max_name, "", SIZE_MAX);
    const size_t used = number_in(folder, used_name, "", 0);
    /* pages of files can be released */
    const size_t pages = number_in(folder, "memory.stat", "active_file ", 0) +
                         number_in(folder, "memory.stat", "inactive_file ", 0);
    const size_t needed = used - min_size(used, pages);
    /* processor time in each period; "max" or, in version 1, -1: no limit */
    const size_t quota = number_in(folder, quota_name, "", SIZE_MAX);
    char before[32] = ""; /* version 2 has the period after the quota */
    if (!is_version_1)
        snprintf(before, sizeof before, "%zu ", quota);
    const size_t period = number_in(folder, period_name, before, 1);
    return (Limits){max - min_size(max, needed), (quota - 1) / period + 1};
}

/* The limits of a control group, such as "/a/b", and of its parents. `group`
 * is overwritten. */
static Limits limits_of_groups(const char *root, char *group,
                               bool is_version_1) {
    Limits limits = {SIZE_MAX, SIZE_MAX};
    char folder[3 * PATH_MAX];
    for (;;) {
        snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/%s", root, group);
        limits = smaller(limits, limits_of_group(folder, is_version_1));
        char *end = strrchr(group, '/');
        if (!end)
            return limits;
        *end = '\0';
    }
}

Limits limits_of(const char *root) {
    enum { MAX_GROUPS = 32 };
    char id_key[32], group[PATH_MAX];
    const size_t kilobytes =
        number_in(root, "proc/meminfo", "MemAvailable:", SIZE_MAX >> 10);
    Limits limits = {kilobytes << 10, SIZE_MAX};
    /* a line for each control group, ID:CONTROLLERS:/NAME: version 2 has no
     * controllers, version 1 a folder for them */
    for (int id = 0; id < MAX_GROUPS; id++) {
        snprintf(id_key, sizeof id_key, "%d:", id);
        if (!find_line(root, "proc/self/cgroup", id_key, group))
            continue;
        const bool is_version_1 = *group != ':';
        group[strcspn(group, ":")] = '/';
        limits = smaller(limits, limits_of_groups(root, group, is_version_1));
    }
#ifdef RLIMIT_AS
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY) {
        const size_t mapped =
            number_in(root, "proc/self/statm", "", 0) * sysconf(_SC_PAGESIZE);
        const size_t left = limit.rlim_cur - min_size(limit.rlim_cur, mapped);
        limits.memory = min_size(limits.memory, left);
    }
#endif
    return limits;
}
