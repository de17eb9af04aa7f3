/* platform.c: Linux and macOS, side by side.
 *
 * Owns every non-POSIX call. Signals and threads are in process.c.
 * Tests: base, cli.
 */
#include "base/platform.h"
#include "base/reading.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#else
#include <sched.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#include <sys/sysctl.h>
#endif

/* operations of futex(2); musl does not bring linux/futex.h */
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

void sleep_while(atomic_uint *word, unsigned value) {
#ifdef __linux__
    syscall(SYS_futex, word, WAIT_PRIVATE, value, NULL, NULL, 0);
#else
    (void)word, (void)value, sched_yield();
#endif
}

void wake_sleepers(atomic_uint *word) {
#ifdef __linux__
    syscall(SYS_futex, word, WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

void advise_pages(void *data, size_t bytes, int advice) {
#ifndef __wasi__
    madvise(data, bytes, advice);
#else
    (void)data, (void)bytes, (void)advice;
#endif
}

void relax_processor(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

const char *program_name(void) {
#ifdef __APPLE__
    return getprogname();
#else
    return program_invocation_short_name;
#endif
}

const char *program_path(void) {
    static char path[PATH_MAX];
#ifdef __APPLE__
    uint32_t room = sizeof path;
    return _NSGetExecutablePath(path, &room) ? NULL : path;
#else
    return readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : NULL;
#endif
}

const char *program_file(const char *name) {
    static char path[2 * PATH_MAX];
    const char *program = program_path(),
               *slash = program ? strrchr(program, '/') : NULL;
    if (!slash)
        return NULL;
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - program), program,
             name);
    return access(path, F_OK) ? NULL : path;
}

bool find_line(const char *folder, const char *name, const char *key,
               char *rest) {
    char line[2 * PATH_MAX];
    bool found = false;
    struct stat st;
    const char *error;
    snprintf(line, sizeof line, "%s/%s", folder, name);
    const int fd = open_to_read(line, false, &st, &error);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !in)
        close(fd);
    while (in && !found && fgets(line, PATH_MAX, in))
        found = !strncmp(line, key, strlen(key));
    if (in)
        fclose(in);
    line[strcspn(line, "\n")] = '\0';
    if (found)
        strcpy(rest, line + strlen(key));
    return found;
}

const char *processor_name(void) {
    static char name[PATH_MAX]; /* "" if unknown */
#ifdef __APPLE__
    size_t room = sizeof name;
    sysctlbyname("machdep.cpu.brand_string", name, &room, NULL, 0);
#else
    find_line("/proc", "cpuinfo", "model name\t: ", name);
#endif
    return name;
}
