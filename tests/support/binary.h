/* binary.h: runs the program with a chosen folder, input, output, terminal and
 * limits. */
#pragma once

#include "tests/support/test.h"
#include "tests/support/wrap.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* When Ctrl-C is sent: after the first output, when the program has a handler,
 * when it is blocked on its output, or when it prompts for a line on its
 * terminal (then as a key). */
typedef enum {
    NEVER,
    AT_OUTPUT,
    WHEN_HANDLED,
    WHEN_BLOCKED,
    AT_PROMPT
} Interrupt;

/* The setup of the next run; each run resets it. */
typedef struct {
    const char *input;  /* standard input; NULL: /dev/null */
    bool endless_input; /* a pipe that is neither written to nor closed */
    /* bytes of input, if it contains zero bytes; 0: it ends at the first one */
    size_t input_size;
    const char *output;  /* file for standard output; NULL: it is captured */
    bool closed_output;  /* a pipe without a reader */
    bool blocked_output; /* a full pipe whose reader does not read */
    bool terminal;       /* standard input is a terminal */
    bool read_only;      /* on which nothing can be drawn */
    /* a line for each prompt "User: ", then NULL; at its end \3: Ctrl-C in the
     * answer, \5: Ctrl-C before it; \x1a: Ctrl-Z, and the program goes on */
    const char *const *typed;
    int closed;     /* closed descriptors, as a sum of 1 << descriptor */
    long file_size; /* max bytes of a file (ulimit -f); 0: no limit */
    const char *environment; /* "NAME=VALUE" */
    Interrupt interrupt;
    int signal;    /* the signal that is sent; 0: Ctrl-C */
    size_t memory; /* max bytes of address space; 0: no limit */
} Setup;
extern Setup setup;

/* The result of the last run. */
enum { KILLED = 1000 };
extern int status; /* exit status, or KILLED + signal */
extern char out[1 << 20], err[1 << 16];
/* What the last run wrote to its terminal. */
extern char terminal_text[1 << 21];

/* Whether the terminal had its first settings after Ctrl-Z, at a prompt, and at
 * the end. */
extern bool suspended_as_before, prompts_as_before, ended_as_before;
extern size_t n_out; /* bytes of the output, also if `out` is too small */

/* Makes a folder, in which all following runs start. */
void binary_folder(const char *name);
extern char folder[PATH_MAX];

/* The path of a file in this folder; it is valid until the next 4 calls. */
const char *inside(const char *name);
void write_file(const char *name, const char *text);
int files_in(const char *name);

/* Runs the program with these arguments, separated by spaces ('one argument'
 * may be quoted). Returns the status. */
int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Checks that the run succeeds. */
#define CHECK_RUN(...)                                                         \
    CHECK(run(__VA_ARGS__) == 0, "status %d, stderr: %s", status, err)

bool one_line(const char *text);

/* Checks that a run ends with this status, without output, and with one line on
 * stderr that contains `mention`. */
void check_refused(int expected, const char *mention, const char *arguments);
