/* file.h: files that are mapped, read and written. */
#ifndef NORMA_FILE_H
#define NORMA_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A file mapped read-only. */
typedef struct {
    const uint8_t *data;
    size_t size;            /* bytes, > 0 */
    uint64_t device, inode; /* which file it is */
    bool sparse;            /* it has holes, and the disk holds less than half of it */
} File;

bool file_exists(const char *path);
bool is_folder(const char *path);

/* Whether path leads to this very file. */
bool file_is_at(const File *file, const char *path);

/* Maps a regular, non-empty file. The caller unmaps it. */
int file_map(File *file, const char *path);
void file_unmap(File *file);

/* Reads a whole file ("-": standard input), of at most 2^30 bytes, into memory and adds a final
 * zero byte that *size does not count. The caller frees it; NULL on failure. */
char *file_read(const char *path, size_t *size);

/* A file being written. It appears under its name whole or not at all: the bytes go to a temporary file
 * beside it. (What is no regular file, such as a pipe, is written directly.) */
typedef struct {
    FILE *stream;
    const char *path;
    char *temporary; /* owned; NULL: written directly */
} OutputFile;

int output_open(OutputFile *out, const char *path);

/* Ends the file: with `keep` it gets its name, otherwise it is removed. -1 if a write failed. */
int output_close(OutputFile *out, bool keep);

/* Writes out what standard output still holds. -1 and a message if any write to it has failed. */
int stdout_finish(void);

#endif
