/* kill_ring.h: the texts that keys have removed, to bring them back. */
#pragma once

#include "base/memory.h"

enum { MAX_KILLS = 8 };

/* Initialize with zeros. */
typedef struct {
    Buffer kills[MAX_KILLS]; /* [n], owned; the last one is the newest */
    int n;
    int shown; /* the kill that was brought back */
} KillRing;

/* Adds a text as the newest kill. */
void ring_add(KillRing *r, const char *bytes, size_t n);

/* Adds a text before or after the newest kill, as part of it. */
void ring_extend(KillRing *r, const char *bytes, size_t n, bool before);

/* The newest kill, or the next older one than the last call's, around; NULL
 * without kills. */
const Buffer *ring_newest(KillRing *r);
const Buffer *ring_older(KillRing *r);

void ring_close(KillRing *r);
