/* file.c: what becomes of a path: mapped memory, a text, an output that appears whole or not at all. */
#include "base/file.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_is_at(const File *file, const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == file->device && st.st_ino == file->inode;
}

int file_map(File *file, const char *path) {
    struct stat st;
    *file = (File){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not make us wait */
    if (fd < 0) return fail("%s: %s", path, strerror(errno));
    const char *error = fstat(fd, &st)         ? strerror(errno)
                        : S_ISDIR(st.st_mode)  ? "is a directory, expected a file"
                        : !S_ISREG(st.st_mode) ? "is not a regular file"
                        : st.st_size == 0      ? "is empty"
                                               : NULL;
    void *data = error ? NULL : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) error = strerror(errno);
    close(fd);
    if (error) return fail("%s: %s", path, error);
    *file = (File){.data = data, .size = (size_t)st.st_size, .device = st.st_dev, .inode = st.st_ino};
    return 0;
}

void file_unmap(File *file) {
    if (file->data) munmap((void *)(uintptr_t)file->data, file->size);
    *file = (File){0};
}

char *file_read(const char *path, size_t *size) {
    const size_t most = 1073741824; /* no model reads more; /dev/zero never ends */
    char buffer[1 << 16], *text = NULL;
    FILE *in = strcmp(path, "-") ? fopen(path, "rb") : stdin, *copy = in ? open_memstream(&text, size) : NULL;
    const char *error = !in ? strerror(errno) : !copy ? "out of memory" : NULL;
    for (size_t n = 0, got; !error && (got = fread(buffer, 1, sizeof buffer, in)) > 0;) {
        n += got;
        if (n > most)
            error = "more than 1073741824 bytes of text";
        else if (fwrite(buffer, 1, got, copy) != got)
            error = "out of memory";
    }
    if (!error && ferror(in)) error = strerror(errno);
    if (copy && (fclose(copy) || !text) && !error) error = "out of memory";
    if (in && in != stdin) fclose(in);
    if (!error) return text;
    fail("%s: %s", path, error);
    free(text);
    return NULL;
}

int output_open(OutputFile *out, const char *path) {
    struct stat st;
    *out = (OutputFile){.path = path};
    const bool direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    uint32_t id = 0;
    if (!direct && (getentropy(&id, sizeof id) || asprintf(&out->temporary, "%s.%08x", path, id) < 0))
        return fail("%s: %s", path, strerror(errno));
    out->stream = direct ? fopen(path, "wb") : fopen(out->temporary, "wbx"); /* x: it is a new file */
    if (out->stream) return 0;
    fail("%s: %s", path, strerror(errno));
    free(out->temporary);
    return -1;
}

int output_close(OutputFile *out, bool keep) {
    const bool failed = ferror(out->stream), not_closed = fclose(out->stream);
    int status = keep && (failed || not_closed) ? fail("%s: cannot write: %s", out->path, strerror(errno)) : 0;
    if (keep && !status && out->temporary && rename(out->temporary, out->path))
        status = fail("%s: %s", out->path, strerror(errno));
    if (out->temporary && (!keep || status)) unlink(out->temporary);
    free(out->temporary);
    return status;
}

int stdout_finish(void) { return fflush(stdout) || ferror(stdout) ? fail("cannot write the output") : 0; }
