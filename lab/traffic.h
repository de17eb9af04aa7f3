/* traffic.h: how many bytes a site of the forward pass must move.
 *
 * Owns the theory that measured times are held against. It measures nothing (profile.c).
 */
#ifndef NORMA_TRAFFIC_H
#define NORMA_TRAFFIC_H

#include "base/probe.h"
#include "model.h"

/* n tokens from position pos on, which run together; logits are wanted of the last n_logits. */
typedef struct {
    int n, pos, n_logits;
} Chunk;

/* The least number of bytes that a site moves for a chunk: its weights, what it reads and what it
 * writes, each once. The experts of a sparse layer must have been chosen. */
double site_bytes(const Session *s, int layer, Site site, Chunk chunk);

#endif
