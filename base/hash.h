/* hash.h: a keyed hash: colliding strings cannot be constructed
 * without the key. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t point, factor;
} HashKey;

/* Draws a random key from the system. Returns -1 and a message on failure. */
int hash_key(HashKey *key);

uint64_t hash_bytes(HashKey key, const char *bytes, size_t n);
