/* dump.h: inputs and outputs of norms as NumPy files (--dump). */
#pragma once

#include "base/probe.h"
#include "model.h"

typedef struct {
    const char *path;  /* not owned */
    char folder[1000]; /* PATH.part, until it is whole */
    const Model *model;
    int n; /* tokens of the text */
    bool failed;
} Dump;

/* Creates the folder PATH.part for one text of n tokens and says on stderr how much it will hold. Returns -1 and a
 * message if `path` exists or the folder cannot be created; then there is nothing to close. */
int dump_open(Dump *d, const Model *model, const char *path, int n);

/* Writes elements [channel, channel + width) of a norm's input, or output, for steps[n]. x[n][stride] begins at the
 * first of these elements; a token has `stride` elements. */
void dump_rows(Dump *d, int layer, const char *site, bool out, const float *x, const Step *steps, int n, int stride,
               int channel, int width);

/* Renames the folder to `path` if `keep` and every write succeeded, else removes it. Returns -1 and a message if a
 * write failed. */
int dump_close(Dump *d, bool keep);
