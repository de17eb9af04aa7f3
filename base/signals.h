/* signals.h: deadly signals, and the files that they concern. */
#pragma once

#include <stddef.h>

/* A file that the handlers of deadly signals know: a mapped one, of which they say by name that it became shorter, or
 * a temporary one, which they remove. */
typedef struct WatchedFile WatchedFile;

/* Puts a file mapped at bytes[size], or, with NULL, a temporary one into the handlers' table. NULL: no memory. */
WatchedFile *file_watch(const char *path, const void *bytes, size_t size);
void file_unwatch(WatchedFile *file); /* or NULL */

/* From here on a signal that ends the program removes temporary files first. (Signals that are ignored stay so.) A
 * mapped file that became shorter is one line on stderr and status 1. A file that grows too long (`ulimit -f`) is an
 * error that write reports. */
void handle_deadly_signals(void);

/* Removes temporary files: async-signal-safe. */
void remove_temporaries(void);

/* Removes temporary files, and ends the program by this signal when its handler, which has called this, returns. */
void die_by_signal(int signal);
