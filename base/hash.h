/* hash.h: a keyed hash, SipHash-1-3: whoever does not know the key cannot make strings that meet in one slot. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t low, high;
} HashKey;

/* Draws a key from the system. -1 and a message: it gives none. */
int hash_key(HashKey *key);

uint64_t hash_bytes(HashKey key, const char *bytes, size_t n);
