/* signals.c: cleanup on deadly signals: temporary files are removed, and a truncated mapped file is reported.
 *
 * Owns the table of mapped and temporary files, and the handlers of deadly signals. Handlers call only
 * async-signal-safe functions, and see only complete entries: an entry is filled before it is linked and freed after it
 * is unlinked. Only the main thread changes the table.
 */
#include "base/signals.h"
#include "base/error.h"
#include "base/platform.h"
#include "base/ranks.h"
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct WatchedFile {
    WatchedFile *volatile next, *volatile *link; /* link: the pointer to this entry */
    const uint8_t *bytes;                        /* [size]; NULL: a temporary file */
    size_t size;
    char path[]; /* of a mapped file: printable, for messages */
};

static WatchedFile *volatile table;
static char prefix[NAME_MAX + 32]; /* of the message: the program, and the rank unless it is 0 */

/* Seconds per rank. If several ranks lose the same page, the first one reports it, and its exit ends the others. */
enum { LOST_PAGE_DELAY = 3 };

WatchedFile *file_watch(const char *path, const void *bytes, size_t size) {
    WatchedFile *file = malloc(sizeof *file + strlen(path) + 1);
    if (!file) return NULL;
    *file = (WatchedFile){.next = table, .link = &table, .bytes = bytes, .size = size};
    strcpy(file->path, path);
    if (bytes) make_printable(file->path);
    if (table) table->link = &file->next;
    atomic_signal_fence(memory_order_release);
    table = file;
    return file;
}

void file_unwatch(WatchedFile *file) {
    if (!file) return;
    *file->link = file->next;
    if (file->next) file->next->link = file->link;
    atomic_signal_fence(memory_order_release);
    free(file);
}

void remove_temporaries(void) {
    for (const WatchedFile *file = table; file; file = file->next)
        if (!file->bytes) unlink(file->path);
}

void die_by_signal(int signal_number) {
    remove_temporaries();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return; /* stderr is closed */
}

/* Handles SIGBUS: a page of a mapped file is missing. */
static void on_lost_page(int signal_number, siginfo_t *info, void *context) {
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    const WatchedFile *file = table;
    (void)context;
    while (file && (uintptr_t)info->si_addr - (uintptr_t)file->bytes >= file->size) file = file->next;
    if (!file) return die_by_signal(signal_number);
    while (atomic_flag_test_and_set(&reported)) pause(); /* another thread reports it */
    sleep(LOST_PAGE_DELAY * (unsigned)ranks_own());
    say(prefix);
    say(file->path);
    say(": cannot be read any more: the file was truncated, or its disk failed\n");
    remove_temporaries();
    _exit(EXIT_BAD_INPUT);
}

void handle_deadly_signals(void) {
    static const int deadly[] = {SIGHUP, SIGQUIT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM, SIGPROF};
    struct sigaction old;
    snprintf(prefix, sizeof prefix, ranks_own() ? "%s: rank %d: " : "%s: ", program_name(), ranks_own());
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (!sigaction(deadly[i], NULL, &old) && old.sa_handler == SIG_DFL) signal(deadly[i], die_by_signal);
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO}, NULL);
}
