/* hash.c: a keyed hash (Carter & Wegman 1979).
 *
 * Words of 7 bytes are the coefficients of a polynomial, evaluated modulo the
 * prime 2^61 - 1 at a point given by the key. Two different strings of n words
 * have equal values at most n points.
 * Tests: base, growth. */
#include "base/hash.h"
#include "base/error.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h> /* getentropy; in musl it is in unistd.h */
#include <unistd.h>

int hash_key(HashKey *key) {
    return getentropy(key, sizeof *key)
               ? fail("cannot get a random key from the system: %s",
                      strerror(errno))
               : 0;
}

/* a * b modulo 2^61 - 1, not fully reduced, for a < 2^62. Only the low 61 bits
 * of b are used. */
static uint64_t product(uint64_t a, uint64_t b) {
    const uint64_t prime = ((uint64_t)1 << 61) - 1;
    unsigned __int128 ab = (unsigned __int128)a * (b & prime);
    uint64_t sum = ((uint64_t)ab & prime) + (uint64_t)(ab >> 61);
    return (sum & prime) + (sum >> 61);
}

uint64_t hash_bytes(HashKey key, const char *bytes, size_t n) {
    uint64_t hash = 0;
    for (size_t at = 0; at < n;) {
        uint64_t word = 1; /* the 1 marks the length: "a" and "\0a" differ */
        for (int i = 0; i < 7 && at < n; i++)
            word = word << 8 | (uint8_t)bytes[at++];
        hash = product(hash + word, key.point);
    }
    return product(hash, key.factor); /* its bits are evenly distributed */
}
