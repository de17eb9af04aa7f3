/* family_writer.h: the models of tests/golden/families. */
#pragma once

#include "tests/support/folder_writer.h"

enum { FAMILY_TOKENS = 40 };

typedef struct {
    char *config; /* config.json, owned */
    int vocab_size, tokens[FAMILY_TOKENS];
    /* [n_parts], owned: named as in the published files; weights from
     * scripts/golden/families.py */
    FolderPart *parts;
    int n_parts;
} Family;

/* Opens a model of tests/golden/families. Returns -1 if it is missing; else the
 * caller closes it. */
int family_open(Family *f, const char *name);
void family_close(Family *f);

/* Writes the model as a folder, in the type and number of files of `form`.
 * Returns -1 on failure. */
int family_write(const Family *f, const char *folder, const FolderForm *form);

/* Rounds the weights of a family to F16 or BF16. */
void family_round(Family *f, Type type);
