/* prompts.h: reads prompts, one at a time. */
#pragma once

#include "modes/common.h"
#include "modes/template.h"

enum { MAX_REPORTS = 5 }; /* max messages */

typedef struct {
    char *text; /* [size], valid until the prompts are closed */
    size_t size;
    int line;
    Tokens ids;       /* at least one; valid until the next prompt is read */
    uint64_t seed;    /* of the first sample */
    int samples, max; /* `max`: positions of a text */
} Prompt;

/* The source of prompts: the lines of a file, or the single prompt of the
 * command line. */
typedef struct {
    const Run *run;
    /* prompts are messages of a user; NULL: texts to continue */
    const ChatTemplate *template;
    const char *name; /* of the file; for messages */
    char *text;       /* [size], owned */
    size_t size, at;  /* `at`: bytes read so far */
    bool is_json;     /* lines are objects */
    /* the last prompt read; without samples at the end; its ids are owned */
    Prompt prompt;
    /* with a template: the messages of the last prompt; owned */
    Conversation talk;
    bool no_room;   /* -n leaves no room after a prompt */
    int n_failed;   /* prompts that could not run */
    int n_reported; /* these, and prompts of at least -n tokens */
} Prompts;

/* Opens the source. Returns -1 and a message on failure. The caller closes it
 * in either case. */
int prompts_open(Prompts *p, const Run *run, const ChatTemplate *template);
void prompts_close(Prompts *p);

/* Reads the next prompt. Skips prompts that cannot run. Prints only the first
 * MAX_REPORTS messages. Returns 1 for a prompt, 0 if no prompt is left or after
 * Ctrl-C, -1 if out of memory. */
int prompts_next(Prompts *p);

/* Counts the messages that were not printed. Returns -1 if a prompt could not
 * run, or the exit status. */
int prompts_report(const Prompts *p);
