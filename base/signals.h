/* signals.h: signals that end the program, and the files that their handlers report or remove. */
#pragma once

#include <stddef.h>

/* A file known to the signal handlers: a mapped file, which they report if it was truncated, or a temporary file, which
 * they remove. */
typedef struct WatchedFile WatchedFile;

/* Adds a file mapped at bytes[size], or a temporary file if bytes is NULL. Returns NULL if out of memory. */
WatchedFile *file_watch(const char *path, const void *bytes, size_t size);
void file_unwatch(WatchedFile *file); /* NULL is allowed */

/* Installs handlers: a signal that ends the program removes temporary files first; ignored signals stay ignored. A
 * truncated mapped file ends the program with one line on stderr and status 1. Exceeding `ulimit -f` is an ordinary
 * write error. */
void handle_deadly_signals(void);

/* Removes temporary files: async-signal-safe. */
void remove_temporaries(void);

/* For signal handlers: removes temporary files and raises the signal again with its default action. */
void die_by_signal(int signal);
