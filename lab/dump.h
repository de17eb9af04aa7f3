/* dump.h: writes inputs and outputs of norms as NumPy files (--dump). */
#pragma once

#include "base/memory.h"
#include "session.h"

typedef struct {
    const char *path;  /* not owned */
    char folder[1000]; /* PATH.part, renamed to PATH when complete */
    const Model *model;
    int n;        /* tokens of the text */
    Buffer names; /* see temporary_names; owned */
    bool failed;
} Dump;

/* Checks that the folder does not exist and can be created. Returns -1 and a
 * message if not. */
int dump_check(const char *path);

/* Creates the folder PATH.part for one text of n tokens and prints the size of
 * its files on stderr. Returns -1 and a message if `path` exists or the folder
 * cannot be created; the caller must not close the dump then. */
int dump_open(Dump *d, const Model *model, const char *path, int n);

/* Writes vectors of a norm's input (or output, if `out`) for the tokens of
 * steps[v->n]. */
void dump_rows(Dump *d, int layer, const char *site, bool out, const Vectors *v,
               const Step *steps);

/* If `keep` is set and every write succeeded, renames the folder to `path`;
 * else removes it. Returns -1 and a message if `keep` is set and a write
 * failed. */
int dump_close(Dump *d, bool keep);
