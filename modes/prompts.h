/* prompts.h: the prompts of many texts, one by one. */
#pragma once

#include "modes/common.h"

/* Where they come from: the lines of a file, or the command line, which has one. */
typedef struct {
    const Run *run;
    const char *name; /* for messages */
    char *text;       /* owned; NULL: it is not from a file */
    size_t size, at;  /* `at`: what has been read */
    int line;         /* the last that was read */
    bool json;
    bool failed; /* a prompt could not run */
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

/* The next prompt; one that cannot run is reported by its line, and passed over. 1: there is one; 0: there is none; -1:
 * no memory. */
int prompts_next(Prompts *p, Prompt *next);
