/* binary.h: for suites that run the program itself. */
#pragma once

#include "tests/support/test.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* When Ctrl-C comes: once there is output, the program handles it, it waits for the reader of its blocked output, or it
 * asks for a line on its terminal (where a key is pressed). */
typedef enum { NEVER, AT_OUTPUT, WHEN_HANDLED, WHEN_BLOCKED, AT_PROMPT } Interrupt;

/* How the next run is set up; each run sets it back. */
typedef struct {
    const char *input;        /* standard input; NULL: /dev/null */
    bool endless_input;       /* a pipe that nobody writes to and nobody closes */
    size_t input_size;        /* bytes of input, some of them zero; 0: up to the first zero byte */
    const char *output;       /* standard output goes there; NULL: it is captured */
    bool closed_output;       /* a pipe that nobody reads */
    bool blocked_output;      /* a pipe that is full: somebody has it, and does not read */
    bool terminal;            /* standard input is one */
    const char *const *typed; /* there, a line at each "User: "; after a final "\3" Ctrl-C in its answer; then NULL */
    int closed;               /* descriptors that are closed, as a sum of 1 << descriptor */
    long file_size;           /* the most bytes of a file (ulimit -f); 0: any */
    const char *environment;  /* "NAME=VALUE" */
    Interrupt interrupt;
    size_t memory; /* most bytes that it can map; 0: any number */
} Setup;
extern Setup setup;

/* What the last run did. */
enum { KILLED = 1000 };
extern int status; /* exit status, or KILLED + signal */
extern char out[1 << 20], err[1 << 16];
extern size_t n_out; /* all of it, even what `out` has no room for */

/* Makes the folder in which everything runs from here on. */
void binary_folder(const char *name);
extern char folder[PATH_MAX];

/* The path of a file there; it stays until the next 4 calls. */
const char *inside(const char *name);
void write_file(const char *name, const char *text);
int files_in(const char *name);

/* Runs it with these arguments, separated by spaces ('one argument' may be
 * quoted), and keeps what it did. Returns the status. */
int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CHECK for a run that should have gone well. */
#define CHECK_RUN(...) CHECK(run(__VA_ARGS__) == 0, "status %d, stderr: %s", status, err)

bool one_line(const char *text);

/* A run that must end with this status, nothing on stdout, and one line on
 * stderr with `mention` in it. */
void check_refused(int expected, const char *mention, const char *arguments);
