/* hash.h: SipHash-1-3, a keyed hash: without the key no one can construct collisions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t low, high;
} HashKey;

/* Draws a random key from the system. Returns -1 and a message on failure. */
int hash_key(HashKey *key);

uint64_t hash_bytes(HashKey key, const char *bytes, size_t n);
