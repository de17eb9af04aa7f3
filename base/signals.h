/* signals.h: deadly signals, and the files that they concern. */
#pragma once

#include <stddef.h>

/* A file known to the signal handlers: a mapped file, which they name when it became shorter, or a temporary file,
 * which they remove. */
typedef struct WatchedFile WatchedFile;

/* Adds a file mapped at bytes[size], or a temporary file if bytes is NULL. Returns NULL if out of memory. */
WatchedFile *file_watch(const char *path, const void *bytes, size_t size);
void file_unwatch(WatchedFile *file); /* NULL is allowed */

/* Installs handlers: a signal that ends the program removes temporary files first; ignored signals stay ignored. A
 * mapped file that became shorter is one line on stderr and status 1. A file that grows too long (`ulimit -f`) is an
 * error that write reports. */
void handle_deadly_signals(void);

/* Removes temporary files: async-signal-safe. */
void remove_temporaries(void);

/* For signal handlers: removes temporary files and raises the signal again with its default action. */
void die_by_signal(int signal);
