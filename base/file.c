/* file.c: files that are mapped, read and written; an output appears whole or not at all. */
#include "base/file.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/process.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

int folder_create(const char *path) { return mkdir(path, 0777) ? fail("%s: %s", path, strerror(errno)) : 0; }

/* Identifies a file that this run will write. */
typedef struct {
    dev_t device;
    ino_t inode;      /* of the file; of its folder if the file does not exist yet */
    const char *name; /* "" if the file exists; NULL if it is unknown: a pipe, a terminal or a bad path */
    bool is_read;
} Place;
static Place outputs[2];

static Place place_of(const struct stat *st) {
    return (Place){st->st_dev, st->st_ino, S_ISREG(st->st_mode) ? "" : NULL, false};
}

static Place find_place(const char *path) {
    char folder[PATH_MAX];
    struct stat st;
    if (!path) return (Place){0};
    if (stat(path, &st) == 0) return place_of(&st);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s.", (int)(name - path), path);
    if (stat(folder, &st)) return (Place){0};
    return (Place){st.st_dev, st.st_ino, name, false};
}

static bool same_place(const Place *a, const Place *b) {
    return a->name && b->name && a->device == b->device && a->inode == b->inode && !strcmp(a->name, b->name);
}

int outputs_announce(const char *first, const char *second) {
    struct stat st;
    outputs[0] = find_place(first);
    outputs[1] = find_place(second);
    Place out = {0};
    if (fstat(STDOUT_FILENO, &st) == 0) out = place_of(&st);
    if (!same_place(&outputs[0], &outputs[1]) && !same_place(&outputs[1], &out)) return 0;
    return fail("%s: another output of this run is the same file; name another file", second);
}

/* Returns NULL if the file will not be written. */
static Place *find_output(const struct stat *st) {
    const Place place = place_of(st);
    return same_place(&outputs[0], &place) ? &outputs[0] : same_place(&outputs[1], &place) ? &outputs[1] : NULL;
}

static void mark_read(const struct stat *st) {
    Place *output = find_output(st);
    if (output) output->is_read = true;
}

int file_map(File *file, const char *path) {
    struct stat st;
    *file = (File){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not wait for the writer of a FIFO */
    if (fd < 0) return fail("%s: %s", path, strerror(errno));
    const char *error = fstat(fd, &st)         ? strerror(errno)
                        : S_ISDIR(st.st_mode)  ? "is a directory, expected a file"
                        : !S_ISREG(st.st_mode) ? "is not a regular file"
                        : st.st_size == 0      ? "is empty"
                                               : NULL;
    void *data = error ? NULL : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) error = strerror(errno);
    const bool sparse = !error && st.st_blocks < st.st_size / 1024 && lseek(fd, 0, SEEK_HOLE) < st.st_size;
    close(fd);
    if (error) return fail("%s: %s", path, error);
    *file = (File){data, (size_t)st.st_size, sparse, file_watch(path, data, (size_t)st.st_size), 0};
    mark_read(&st);
    if (file->watched) return 0;
    file_unmap(file);
    return fail("%s: out of memory", path);
}

void file_unmap(File *file) {
    file_unwatch(file->watched);
    if (file->data) munmap((void *)(uintptr_t)file->data, file->size);
    *file = (File){0};
}

/* Reports a failed read or write, except after Ctrl-C, which may have caused it. */
static int failed(const char *path, const char *error) { return interrupted ? -1 : fail("%s: %s", path, error); }

char *file_read(const char *path, size_t *size) {
    const size_t max = 1073741824; /* no model reads more; /dev/zero never ends */
    char bytes[1 << 16];
    Buffer text = {0};
    struct stat st;
    ssize_t got = -1;
    const int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        mark_read(&st);
        while ((got = read_some(fd, bytes, sizeof bytes)) >= 0) {
            buffer_append(&text, bytes, (size_t)got);
            if (got == 0 || text.failed || text.n > max) break;
        }
    }
    const char *error = got < 0 ? strerror(errno) : text.n > max ? "more than 1073741824 bytes of text" : NULL;
    if (fd > STDIN_FILENO) close(fd);
    *size = text.n;
    if (!error && !text.failed) return text.bytes;
    if (error) failed(path, error);
    free(text.bytes);
    return NULL;
}

/* The path with links resolved. Returns NULL and errno on failure. The caller frees it. */
static char *resolve(const char *path) {
    struct stat st;
    char *real = realpath(path, NULL);
    return !real && errno == ENOENT && lstat(path, &st) ? strdup(path) : real;
}

/* Opens a new file in the folder of out->real; `old` is the file it will replace, or NULL. Returns NULL and errno on
 * failure. */
static FILE *open_temporary(OutputFile *out, const struct stat *old) {
    uint32_t id;
    if (random_bytes(&id, sizeof id) || asprintf(&out->temporary, "%s.%08x", out->real, id) < 0) return NULL;
    if (!(out->watched = file_watch(out->temporary, NULL, 0))) return NULL;
    const int fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, old ? old->st_mode & 0777 : 0666);
    if (fd < 0) return NULL;
    if (old) fchmod(fd, old->st_mode & 0777); /* undo the umask */
    FILE *stream = fdopen(fd, "wb");
    if (stream) return stream;
    close(fd);
    unlink(out->temporary);
    return NULL;
}

static void free_names(OutputFile *out) {
    file_unwatch(out->watched);
    free(out->temporary);
    free(out->real);
}

int output_open(OutputFile *out, const char *path) {
    struct stat st;
    const bool exists = stat(path, &st) == 0;
    const Place *place = exists ? find_output(&st) : NULL;
    *out = (OutputFile){.path = path};
    if (place && place->is_read) return fail("%s: was read in this run; name another file to write", path);
    if (exists && !S_ISREG(st.st_mode))
        out->stream = fopen(path, "wb");
    else if ((out->real = resolve(path)))
        out->stream = open_temporary(out, exists ? &st : NULL);
    if (out->stream) return 0;
    failed(path, strerror(errno));
    free_names(out);
    return -1;
}

int output_close(OutputFile *out, bool keep) {
    FILE *const stream = out->stream;
    const bool moves = keep && out->temporary;
    const bool written = !fflush(stream) && !ferror(stream) && (!moves || !fsync(fileno(stream)));
    const char *error = written ? NULL : strerror(errno);
    if (fclose(stream) && !error) error = strerror(errno);
    if (moves && !error && rename(out->temporary, out->real)) error = strerror(errno);
    if (out->temporary && (!keep || error)) unlink(out->temporary);
    free_names(out);
    if (!keep || !error) return 0;
    return interrupted ? -1 : fail("%s: cannot write: %s", out->path, error);
}

int stdout_finish(void) {
    if (!fflush(stdout) && !ferror(stdout)) return 0;
    return interrupted ? -1 : fail("cannot write the output");
}
