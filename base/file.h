/* file.h: files that are mapped, read and written.
 *
 * Owns the ways in which the program touches the file system.
 */
#ifndef NORMA_FILE_H
#define NORMA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A file mapped read-only. */
typedef struct {
    const uint8_t *data;
    size_t size;            /* bytes, > 0 */
    uint64_t device, inode; /* which file it is */
} File;

bool file_exists(const char *path);
bool is_folder(const char *path);

/* Maps a regular, non-empty file. The caller unmaps it. */
int file_map(File *file, const char *path);
void file_unmap(File *file);

/* Gives back the memory of the whole pages in data[bytes] of a mapped file: read again, they come from the file. */
void file_release_pages(const void *data, size_t bytes);

/* Reads a whole file ("-": standard input) into memory and adds a final zero
 * byte that *size does not count. The caller frees it; NULL on failure. */
char *file_read(const char *path, size_t *size);

/* A file being written. It appears under its name whole or not at all: the
 * bytes go to a temporary file beside it (or straight to what is no regular
 * file, such as a pipe). */
typedef struct {
    FILE *stream;
    const char *path;
    char *temporary; /* NULL: written in place */
} OutputFile;

int output_open(OutputFile *out, const char *path);

/* Ends the file: with `keep` it gets its name, otherwise it goes. -1 if a
 * write failed. */
int output_close(OutputFile *out, bool keep);

#endif
