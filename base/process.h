/* process.h: the running program: Ctrl-C, clock, streams, threads. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Set by Ctrl-C; loops that generate, measure or write check it. Global,
 * because a signal handler cannot be passed a context. */
extern volatile sig_atomic_t interrupted;

/* Set by modes that check `interrupted` several times a second, to keep what
 * they have. Until then the first Ctrl-C ends the program. */
extern volatile sig_atomic_t ends_soon;

/* Exit status of a run that Ctrl-C ended. */
enum { EXIT_INTERRUPTED = 130 };

/* Opens /dev/null for each closed standard stream, so that no file opened later
 * takes its descriptor. */
void open_standard_streams(void);

/* The temporary file of the output that is being written, and the names of the
 * files in a temporary folder, then of the folder, each with a zero byte, then
 * an empty name. NULL, "": none. Signals that end the program remove them. */
extern const char *volatile temporary_file, *volatile temporary_names;

/* Removes the files and the folder of such a list. */
void remove_all(const char *names);

/* Installs handlers. The first Ctrl-C sets `interrupted` if `ends_soon`;
 * else it ends the program with status 130. The second one, and HUP, PIPE,
 * QUIT and TERM end it by the signal, or as PID 1 of a container, which no
 * signal ends, with status 128 + the signal. Temporary files are removed
 * then. Ignored signals stay ignored. Writing beyond `ulimit -f` is an
 * ordinary error. If a mapped file is truncated, the program ends with one
 * line on stderr and status 1. With several ranks, rank 0 treats TERM and
 * CONT like Ctrl-C (mpirun kills a rank that does not end); other ranks
 * ignore all three and are ended by rank 0. */
void handle_signals(void);

/* The terminal on standard input sends each key, shows none, and marks pasted
 * text with "\033[200~" and "\033[201~", until terminal_close() or a signal
 * ends or stops the program. `edits`: Ctrl-C and Ctrl-Z are keys, too. Returns
 * false if nothing can be drawn there, for example if it is open only for
 * reading. */
bool terminal_open(bool edits);
void terminal_close(void);

/* Reads what the terminal has sent, or waits for it. Returns the number of
 * bytes; 0 or -1 if the terminal is gone, or after a signal. */
int terminal_read(char *bytes, int room);

/* Whether the terminal has sent more. */
bool terminal_sends(void);

/* The size of this terminal; 24 by 80 if it does not say. */
typedef struct {
    int rows, columns;
} Screen;

Screen terminal_size(void);

/* Discards the lines that the terminal has sent or is sending. */
void terminal_discard(void);

enum { MAX_THREADS = 1024 };

/* The default number of threads: OMP_NUM_THREADS, else the number of
 * processors, or fewer by the quota of a container, divided among the ranks of
 * a machine unless each rank is bound to its own. */
int usual_threads(void);

/* Starts n threads for parallel regions. Returns their number, which
 * OMP_THREAD_LIMIT may reduce. */
int start_threads(int n);

/* Writes the time, or the date NORMA_DATE ("26 Jul 2024"), in the format of
 * Python's strftime(): %f is the microseconds, and %z and %Z are empty, because
 * its datetime.now() has no zone. Returns the number of bytes; -1 if they or
 * the format do not fit. */
int format_today(char *to, size_t size, const char *format);

/* Writes all n bytes. Ctrl-C stops it only before the first byte. Returns -1
 * and errno on failure. */
int write_whole(int fd, const char *bytes, size_t n);

/* Whether the stream is a terminal. */
bool on_terminal(FILE *stream);

/* What standard input has: a file that is not at its end, or a pipe in which
 * something comes within a second, is GIVEN; a pipe that is open and sends
 * nothing, as some CI systems and ssh leave it, is SILENT. */
typedef enum { NO_INPUT, SILENT_INPUT, GIVEN_INPUT } InputState;
InputState input_state(void);

/* Number of involuntary context switches of the process. */
long lost_processors(void);
