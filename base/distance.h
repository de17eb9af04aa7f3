/* distance.h: how much two words differ, for "did you mean".
 * Tests: cli, chat. */
#pragma once

#include "base/memory.h"
#include <string.h>

enum { NEAR = 2 }; /* max distance of a word that may be meant */

/* The number of characters to insert, remove or replace (Levenshtein). Of b
 * only the first 31 count. */
static inline int edit_distance(const char *a, const char *b) {
    int row[32]; /* of b's beginnings */
    const int n = min_int((int)strlen(b), (int)COUNT(row) - 1);
    for (int i = 0; i <= n; i++)
        row[i] = i;
    for (int k = 1; *a; a++, k++) {
        int diagonal = row[0];
        row[0] = k;
        for (int i = 1; i <= n; i++) {
            const int replaced = diagonal + (*a != b[i - 1]);
            const int other = min_int(row[i], row[i - 1]) + 1;
            diagonal = row[i];
            row[i] = min_int(replaced, other);
        }
    }
    return row[n];
}
