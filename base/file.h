/* file.h: files that are mapped, read and written. */
#pragma once

#include "base/memory.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A file mapped read-only. */
typedef struct {
    const uint8_t *data;
    size_t size;   /* bytes, > 0 */
    bool sparse;   /* has holes: less than half of it is on disk */
    size_t header; /* model files: bytes before the weights */
} File;

/* The number of bytes before a file's name. */
size_t folder_size(const char *path);

/* Whether a file's name ends in this, a dot and letters. */
bool has_ending(const char *path, const char *ending);

bool file_exists(const char *path);
bool is_folder(const char *path);

/* Writes the paths of the entries of a folder whose names match a pattern to
 * paths[PATH_MAX], in order; without any, it is unchanged. `folder` is not in
 * `paths`. Returns their number. */
size_t list_files(const char *folder, const char *pattern, char *paths);

/* Appends the names in a folder that begin so, in order, folders with a '/'
 * after them, each with a zero byte; no name that a terminal cannot show. */
void list_names(const char *folder, const char *begin, Buffer *names);

/* Returns -1 and a message on failure, as for a folder that exists. */
int folder_create(const char *path);

/* Makes the folders of a file's path that do not exist, for their owner. */
void private_folders(char *path);

/* Maps a regular, non-empty file. The caller unmaps it. */
int file_map(File *file, const char *path);
void file_unmap(File *file);

/* Maps a file that exists only in memory: head[n], then zeros, size bytes in
 * all. The zeros take no memory. The caller unmaps it. */
int file_map_head(File *file, const void *head, size_t n, size_t size);

/* Drops the byte order mark at the start of a text that a zero byte follows.
 * Returns -1 and a message if the text is UTF-16. */
int text_begin(const char *path, char *text, size_t *size);

/* Reads a whole text ("-": standard input), of at most 2^30 bytes, into memory,
 * by text_begin(), and adds a final zero byte that *size does not count. The
 * caller frees it; NULL on failure. */
char *file_read(const char *path, size_t *size);

/* Announces the files that will be written (NULL: none), before any file is
 * read: reading one of them fails, under any name. */
void outputs_announce(const char *first, const char *second);

/* Whether this is one of the files that were read before inputs_end(). */
bool is_input(const char *path);
void inputs_end(void);

/* A file being written. It appears under its name whole or not at all: the
 * bytes go to a temporary file in the same folder, which is renamed when they
 * are on disk. Symbolic links are followed, also to a missing file; an existing
 * file's permissions are kept. A pipe or a device is written directly. One file
 * is written at a time (temporary_file in process.h). */
typedef struct {
    FILE *stream;
    const char *path; /* for messages */
    char *real;       /* where symbolic links lead, owned */
    char *temporary;  /* owned; NULL: written directly */
} OutputFile;

/* Checks that a file can be written, and that it is no terminal: names of files
 * and keys can control one. Returns -1 and a message if not. */
int output_check(const char *path);

/* Returns -1 and a message on failure; then no file is open. */
int output_open(OutputFile *out, const char *path);

/* Lets only its owner read the file, unless it is a pipe or a device. */
void output_private(const OutputFile *out);

/* Closes the file: renames it if `keep`, else removes it. Returns -1 if
 * a write failed. */
int output_close(OutputFile *out, bool keep);

/* Flushes standard output. Returns -1 and a message if any write to
 * it has failed. */
int stdout_finish(void);
