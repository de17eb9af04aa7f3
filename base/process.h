/* process.h: what the operating system knows of the running program: signals, clock, file, terminal, threads. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

/* Set by Ctrl-C; loops that generate, measure or write look at it. Global: signal handlers have no argument for it. */
extern volatile sig_atomic_t interrupted;

/* Exit status of a run that Ctrl-C ended. */
enum { EXIT_INTERRUPTED = 130 };

/* Opens /dev/null in place of standard input, output or error where that is closed, or a file that is opened later
 * would be taken for it: nothing can be read, and a write fails. */
int open_standard_streams(void);

/* From here on the first Ctrl-C asks to stop, the second one and other deadly signals stop and leave no temporary
 * file (signals.h); signals that are ignored stay ignored. A closed pipe is an error that write reports. Rank 0 takes
 * TERM and CONT for Ctrl-C, however often they come (mpirun kills who does not end), and other ranks ignore all three:
 * rank 0 ends them. */
int handle_signals(void);

/* How many threads a run has where nobody says: OMP_NUM_THREADS, else the processors, which ranks on one machine divide
 * (unless each was given some). */
int usual_threads(void);

/* Starts n threads, which parallel regions then use. Returns how many they have: fewer than n where OMP_THREAD_LIMIT
 * says so; -1 and a message: the system does not let the program have so many. */
int start_threads(int n);

/* Seconds on a monotonic clock. */
double now(void);

/* Today's date as "26 Jul 2024", or what NORMA_DATE in the environment says. The string stays until the next call. */
const char *today(void);

/* Reads at most n bytes when there are some; 0 at the end, -1 and errno on failure and after Ctrl-C. */
ssize_t read_some(int fd, char *bytes, size_t n);

/* Writes all n bytes. Ctrl-C ends it before the first of them alone: what has begun is finished. -1 and errno. */
int write_whole(int fd, const char *bytes, size_t n);

/* Whether the stream is a terminal. */
bool on_terminal(FILE *stream);

/* How often a thread of the process had to leave a processor to another program, or to another thread. */
long lost_processors(void);

/* At a barrier libgomp's threads spin for milliseconds before they sleep. When another program has
 * one of the cores, each barrier then waits for a thread that is not running: 9 tokens/s instead of
 * 790 (docs/performance.md). How long threads spin is read from the environment as the program is
 * loaded. Unless the user has set it, this sets it and loads the program once more. */
void limit_spinning(char **argv);
