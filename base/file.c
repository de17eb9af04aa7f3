/* file.c: files that are mapped, read and written; an output appears whole or
 * not at all.
 * Tests: base, cli. */
#include "base/file.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/reading.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t folder_size(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 - path : 0;
}

bool has_ending(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot, ending);
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

size_t list_files(const char *folder, const char *pattern, char *paths) {
    struct dirent **entries = NULL;
    const int n_entries = scandir(folder, &entries, NULL, alphasort);
    size_t n_bytes = 0, n_files = 0;
    for (int i = 0; i < n_entries; i++) {
        const char *name = entries[i]->d_name;
        const bool matches = !fnmatch(pattern, name, FNM_PERIOD);
        if (matches && n_bytes < PATH_MAX)
            n_bytes += snprintf(paths + n_bytes, PATH_MAX - n_bytes, "%s%s/%s",
                                n_bytes ? ", " : "", folder, name);
        n_files += matches;
        free(entries[i]);
    }
    free(entries);
    return n_files;
}

void list_names(const char *folder, const char *begin, Buffer *names) {
    struct dirent **entries;
    const int n = scandir(*folder ? folder : ".", &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *name = entries[i]->d_name, shown[PATH_MAX];
        snprintf(shown, sizeof shown, "%s", name);
        make_printable(shown);
        const bool is_hidden = *name == '.' && *begin != '.';
        if (!strncmp(name, begin, strlen(begin)) && !is_hidden &&
            !strcmp(name, shown)) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s%s", folder, name);
            buffer_append(names, name, strlen(name));
            if (is_folder(path))
                buffer_append(names, "/", 1);
            buffer_append(names, "", 1);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

void private_folders(char *path) {
    char *slash = path;
    while ((slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

int folder_create(const char *path) {
    return mkdir(path, 0777) ? fail("%s: %s", path, strerror(errno)) : 0;
}

/* A regular file, by device and inode; {0}: none. */
typedef struct {
    dev_t device;
    ino_t inode;
} FileId;

/* the files that this run will write, and those that it has read */
static FileId outputs[2], inputs[8192];
static int n_inputs, max_inputs = COUNT(inputs);

static FileId id_of(const char *path) {
    struct stat st;
    return path && !stat(path, &st) && S_ISREG(st.st_mode)
               ? (FileId){st.st_dev, st.st_ino}
               : (FileId){0};
}

static bool is_in(const FileId *list, int n, FileId file) {
    while (n && memcmp(&list[n - 1], &file, sizeof file))
        n--;
    return n > 0;
}

void outputs_announce(const char *first, const char *second) {
    outputs[0] = id_of(first);
    outputs[1] = id_of(second);
}

void inputs_end(void) {
    max_inputs = n_inputs;
}

bool is_input(const char *path) {
    return is_in(inputs, n_inputs, id_of(path));
}

/* Returns NULL if the file may be read; then it is an input. */
static const char *refuse_output(const struct stat *st) {
    FileId file = {st->st_dev, st->st_ino};
    if (is_in(outputs, 2, file))
        return "is also an output of this run; name another file to write";
    if (n_inputs < max_inputs)
        inputs[n_inputs++] = file;
    return NULL;
}

int file_map(File *file, const char *path) {
    struct stat st = {0};
    *file = (File){0};
    const char *error;
    const int fd = open_to_read(path, false, &st, &error);
    if (!error)
        error = st.st_size == 0 ? "is empty" : refuse_output(&st);
    void *data =
        error ? NULL : mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        error = strerror(errno);
    bool sparse = false;
#ifdef SEEK_HOLE
    sparse = !error && st.st_blocks < st.st_size / 1024 &&
             lseek(fd, 0, SEEK_HOLE) < st.st_size;
#endif
    if (fd >= 0)
        close(fd);
    if (error)
        return fail("%s: %s", path, error);
    *file = (File){data, st.st_size, sparse, 0};
    return 0;
}

void file_unmap(File *file) {
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->size);
    *file = (File){0};
}

int file_map_head(File *file, const void *head, size_t n, size_t size) {
    /* read-only, so that the zeros do not count as memory in use */
    void *data =
        mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return fail("out of memory (%zu bytes)", size);
    *file = (File){.data = data, .size = size};
    if (mprotect(data, n, PROT_READ | PROT_WRITE))
        return fail("out of memory (%zu bytes)", n);
    memcpy(data, head, n);
    return 0;
}

/* Reports a failed read or write, unless Ctrl-C has caused it. */
static int failed(const char *path, const char *error) {
    return interrupted && errno == EINTR ? -1 : fail("%s: %s", path, error);
}

int text_begin(const char *path, char *text, size_t *size) {
    if (!strncmp(text, "\xff\xfe", 2) || !strncmp(text, "\xfe\xff", 2))
        return fail("%s: is UTF-16, expected UTF-8", path);
    if (!strncmp(text, "\xef\xbb\xbf", 3)) {
        *size -= 3;
        memmove(text, text + 3, *size + 1);
    }
    return 0;
}

char *file_read(const char *path, size_t *size) {
    char bytes[1 << 16];
    Buffer text = {0};
    struct stat st;
    ssize_t got = -1;
    const char *error = NULL;
    int fd = STDIN_FILENO;
    if (strcmp(path, "-"))
        fd = open_to_read(path, true, &st, &error);
    else if (fstat(fd, &st))
        error = strerror(errno);
    if (!error)
        error = refuse_output(&st);
    while (!error && got && !text.failed) {
        /* if Ctrl-C came before the wait; in the instant before it, it takes
         * effect after the input */
        errno = EINTR;
        got = interrupted ? -1 : read(fd, bytes, sizeof bytes);
        if (got < 0)
            error = strerror(errno);
        else
            buffer_append(&text, bytes, got);
        /* no model reads more; /dev/zero never ends */
        if (text.n > 1073741824)
            error = "more than 1073741824 bytes of text";
    }
    if (fd > STDIN_FILENO)
        close(fd);
    *size = text.n;
    if (!error && !text.failed && !text_begin(path, text.bytes, size))
        return text.bytes;
    if (error)
        failed(path, error);
    free(text.bytes);
    return NULL;
}

/* Opens a new file in the folder of out->real. Returns NULL and
 * errno on failure. */
static FILE *open_temporary(OutputFile *out, mode_t mode) {
    if (asprintf(&out->temporary, "%s.XXXXXX", out->real) < 0)
        return NULL;
    temporary_file = out->temporary;
    int fd = mkostemp(out->temporary, O_CLOEXEC);
    if (fd < 0)
        return NULL;
    fchmod(fd, mode);
    FILE *stream = fdopen(fd, "wb");
    if (stream)
        return stream;
    close(fd);
    unlink(out->temporary);
    return NULL;
}

static void free_names(OutputFile *out) {
    temporary_file = NULL;
    free(out->temporary);
    free(out->real);
}

/* The path that symbolic links lead to, also to a missing file. path has less
 * than PATH_MAX bytes and no cycle of links. */
static char *follow_links(const char *path) {
    char at[2 * PATH_MAX], link[PATH_MAX];
    strcpy(at, path);
    ssize_t n;
    while ((n = readlink(at, link, PATH_MAX - 1)) >= 0) {
        char *end = *link == '/' ? NULL : strrchr(at, '/');
        link[n] = '\0';
        strcpy(end ? end + 1 : at, link);
    }
    return strdup(at);
}

void output_private(const OutputFile *out) {
    if (out->temporary)
        fchmod(fileno(out->stream), 0600);
}

/* Whether a program that writes to this path writes to a terminal. */
static bool is_terminal(const char *path) {
    int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool found = isatty(fd);
    if (fd >= 0)
        close(fd);
    return found;
}

int output_check(const char *path) {
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT)
        return fail("%s: %s", path, strerror(errno));
    if (exists && S_ISDIR(st.st_mode))
        return fail("%s: is a directory, expected a file", path);
    if (exists && S_ISCHR(st.st_mode) && is_terminal(path))
        return fail("%s: is a terminal; write to a file or a pipe", path);
    if (exists && !S_ISREG(st.st_mode))
        return 0;
    char *real = follow_links(path);
    if (!real)
        return fail("%s: %s", path, strerror(errno));
    real[folder_size(real)] = '\0';
    int status = access(*real ? real : ".", W_OK | X_OK)
                     ? fail("%s: %s", path, strerror(errno))
                     : 0;
    free(real);
    return status;
}

int output_open(OutputFile *out, const char *path) {
    struct stat st;
    bool exists = stat(path, &st) == 0;
    mode_t mask = umask(0);
    umask(mask);
    *out = (OutputFile){.path = path};
    if (exists && !S_ISREG(st.st_mode))
        out->stream = fopen(path, "wb");
    else if (exists || errno == ENOENT)
        out->real = follow_links(path);
    if (out->real)
        out->stream =
            open_temporary(out, exists ? st.st_mode & 0777 : 0666 & ~mask);
    if (out->stream)
        return 0;
    failed(path, strerror(errno));
    free_names(out);
    return -1;
}

int output_close(OutputFile *out, bool keep) {
    FILE *const stream = out->stream;
    bool moves = keep && out->temporary;
    const char *error =
        fflush(stream) || ferror(stream) || (moves && fsync(fileno(stream)))
            ? strerror(errno)
            : NULL;
    if (fclose(stream) && !error)
        error = strerror(errno);
    if (moves && !error && rename(out->temporary, out->real))
        error = strerror(errno);
    if (out->temporary && (!keep || error))
        unlink(out->temporary);
    free_names(out);
    return keep && error ? failed(out->path, error) : 0;
}

int stdout_finish(void) {
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    return interrupted ? -1 : fail("cannot write the output");
}
