/* hash.c: SipHash-1-3 (Aumasson & Bernstein 2012): a round for every 8 bytes, three at the end. */
#include "base/hash.h"
#include "base/error.h"
#include "base/platform.h"
#include <errno.h>
#include <string.h>

int hash_key(HashKey *key) {
    return random_bytes(key, sizeof *key) ? fail("no random key from the system: %s", strerror(errno)) : 0;
}

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void mix(uint64_t v[4], int rounds) {
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
        v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    mix(v, 1);
    v[0] ^= word;
}

uint64_t hash_bytes(HashKey key, const char *bytes, size_t n) {
    uint64_t v[] = {key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d, key.low ^ 0x6c7967656e657261,
                    key.high ^ 0x7465646279746573};
    uint64_t word;
    size_t at = 0;
    for (; n - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        absorb(v, word);
    }
    word = (uint64_t)n << 56;
    for (int i = 0; at < n; at++, i += 8) word |= (uint64_t)(uint8_t)bytes[at] << i;
    absorb(v, word);
    v[2] ^= 0xff;
    mix(v, 3);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
