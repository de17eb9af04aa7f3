/* platform.h: functions that differ between operating systems. Linux and macOS
 * are supported; elsewhere a function returns its "unknown" value and the
 * program runs without it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The name by which the program was started, without folders. */
const char *program_name(void);

/* The path of the running program; NULL if unknown. The string is valid until
 * the next call. */
const char *program_path(void);

/* A path relative to the program's folder; NULL if the file does not exist. The
 * string is valid until the next call. */
const char *program_file(const char *name);

/* Sleeps until wake_sleepers(), or briefly; not at all if *word is
 * not `value`. */
void sleep_while(atomic_uint *word, unsigned value);
void wake_sleepers(atomic_uint *word);

/* madvise(), whose failure does not matter. */
void advise_pages(void *data, size_t bytes, int advice);

/* Tells the processor that the thread waits in a loop. */
void relax_processor(void);

/* Sets rest[PATH_MAX] to the text after `key` at the start of a line of the
 * file folder/name. Returns false if there is none. */
bool find_line(const char *folder, const char *name, const char *key,
               char *rest);

/* The processor's model name; "" if unknown. The string is valid until
 * the next call. */
const char *processor_name(void);
