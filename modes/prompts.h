/* prompts.h: the prompts of many texts, one by one. */
#pragma once

#include "modes/common.h"

enum { MAX_REPORTS = 5 }; /* messages of a kind */

/* Where they come from: the lines of a file, or the command line, which has one. */
typedef struct {
    const Run *run;
    const char *name; /* for messages */
    char *text;       /* owned; NULL: it is not from a file */
    size_t size, at;  /* `at`: what has been read */
    int line;         /* the last that was read */
    bool json;
    int n_failed;  /* prompts that could not run */
    int n_no_room; /* prompts of at least -n tokens */
} Prompts;

typedef struct {
    const char *text; /* [size], until the prompts are closed */
    size_t size;
    int line;
    Tokens ids;    /* at least one; the caller frees them */
    uint64_t seed; /* of the first sample */
    int samples;
} Prompt;

/* The caller closes it, also after a failure (-1 and a message). */
int prompts_open(Prompts *p, const Run *run);
void prompts_close(Prompts *p);

/* Reads the next prompt. Reports a prompt that cannot run by its line (the first MAX_REPORTS of them) and skips it. 1:
 * a prompt; 0: no prompt is left, or Ctrl-C; -1: no memory. */
int prompts_next(Prompts *p, Prompt *next);

/* Reports how many prompts could not run, or had no room, where not each was reported. -1: a prompt could not run. */
int prompts_report(const Prompts *p);
