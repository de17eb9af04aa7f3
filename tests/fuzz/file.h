/* fuzz/file.h: libFuzzer's input as a file that can be opened by name. */
#ifndef NORMA_FUZZ_FILE_H
#define NORMA_FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *as_file(const uint8_t *data, size_t size) {
    static char path[32];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
