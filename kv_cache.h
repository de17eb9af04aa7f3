/* kv_cache.h: the keys and values of the positions that have run.
 *
 * The layout, of keys and of values alike, is [heads][parts of a head][blocks of positions][elements of the
 * part][KV_BLOCK positions]. Positions are innermost, so that one vector holds the same element of neighbouring
 * positions. A key is one part, since a score walks through all of its elements; a value has parts of KV_VALUE_PART
 * elements, as many as are summed at once. So both are read in the order in which they lie in memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum { KV_F32, KV_F16 } KvType;
typedef enum { KV_KEYS, KV_VALUES } KvKind;

enum {
    KV_BLOCK = 16,     /* positions in a block */
    KV_VALUE_PART = 16 /* elements of a value in a part */
};

/* One layer. */
typedef struct {
    void *keys, *values; /* float or float16 */
    int blocks;          /* blocks that there is room for */
    int kept;            /* positions that are needed at most, set before any runs; 0: all */
} KvLayer;

typedef struct {
    KvType type;
    int n_layers, n_heads, head_size;
    int blocks;      /* blocks that layers which need all positions have room for */
    bool rolls;      /* some layer has forgotten positions: in place of the first blocks it has later ones */
    KvLayer *layers; /* [n_layers], owned */
} KvCache;

/* An empty cache. -1: no memory. */
int kv_open(KvCache *kv, KvType type, int n_layers, int n_heads, int head_size);
void kv_close(KvCache *kv);

/* Makes room for n positions, of `most` that there will ever be; what the cache holds stays. Room at least doubles, so
 * that growing costs little; pages that are never touched cost nothing. A layer that keeps fewer positions is a ring:
 * block b of positions is at b % blocks. -1: no memory. */
int kv_reserve(KvCache *kv, int n, int most);

/* The most bytes that it takes when n positions have run, of `most`. */
double kv_bytes(const KvCache *kv, int n, int most);

/* `to`, a cache of the same kind, gets what `from` holds. -1: no memory. */
int kv_copy(KvCache *to, const KvCache *from);

/* Writes the keys (or values) of one head of n tokens into the cache, from position pos on. That
 * of token t begins at rows + t * stride, head_size floats. */
void kv_write(const KvCache *kv, int layer, KvKind kind, int head, const float *rows, size_t stride, int n, int pos);

/* Elements of the part that begins at element `start` of a head: the last one may be short. */
static inline int kv_part_width(int head_size, int part, int start) {
    return start + part < head_size ? part : head_size - start;
}

/* Where element i of a block of positions is, counted from where the head begins. */
static inline size_t kv_at(int head_size, int part, int blocks, int block, int i) {
    const int start = i / part * part, width = kv_part_width(head_size, part, start);
    return ((size_t)start * (size_t)blocks + (size_t)block * (size_t)width + (size_t)(i - start)) * KV_BLOCK;
}

/* Elements of one head in all. */
static inline size_t kv_head_elements(int head_size, int blocks) {
    return (size_t)head_size * (size_t)blocks * KV_BLOCK;
}
