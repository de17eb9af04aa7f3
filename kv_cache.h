/* kv_cache.h: the keys and values of cached positions; their layout is that of kernels/attend.h. */
#pragma once

#include "kernels/attend.h"
#include <stdbool.h>

typedef enum { KV_KEYS, KV_VALUES } KvKind;

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

/* Element i of the key (or value) of one head at a position that the cache holds. */
float kv_read(const KvCache *kv, int layer, KvKind kind, int head, int pos, int i);
