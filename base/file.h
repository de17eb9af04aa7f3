/* file.h: files that are mapped, read and written. */
#pragma once

#include "base/signals.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A file mapped read-only. */
typedef struct {
    const uint8_t *data;
    size_t size; /* bytes, > 0 */
    bool sparse; /* it has holes, and the disk holds less than half of it */
    WatchedFile *watched;
    size_t header; /* bytes before the weights, of a model's file */
} File;

bool file_exists(const char *path);
bool is_folder(const char *path);

/* Maps a regular, non-empty file. The caller unmaps it. */
int file_map(File *file, const char *path);
void file_unmap(File *file);

/* Reads a whole file ("-": standard input), of at most 2^30 bytes, into memory and adds a final
 * zero byte that *size does not count. The caller frees it; NULL on failure. */
char *file_read(const char *path, size_t *size);

/* After Ctrl-C a file that cannot be read or written is no failure: what follows returns -1 (NULL), and no message. */

/* Announces the files that will be written (NULL: none), before any is read: output_open refuses a file that was read,
 * by any name. -1 and a message: both are one file, or the second is the one that standard output is redirected to. */
int outputs_announce(const char *first, const char *second);

/* A file being written. It appears under its name whole or not at all: the bytes go to a temporary file beside it,
 * which gets the name when they are on the disk. Where a symbolic link has the name, the file that it leads to is
 * written; an older file's permissions stay. (What is no regular file, such as a pipe, is written directly.) */
typedef struct {
    FILE *stream;
    const char *path;       /* for messages */
    char *real, *temporary; /* both owned; NULL: written directly */
    WatchedFile *watched;   /* the temporary file */
} OutputFile;

/* -1 and a message: nothing is open. */
int output_open(OutputFile *out, const char *path);

/* Ends the file: with `keep` it gets its name, otherwise it is removed. -1 if a write failed. */
int output_close(OutputFile *out, bool keep);

/* Writes out what standard output still holds. -1 and a message if any write to it has failed. */
int stdout_finish(void);
