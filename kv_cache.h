/* kv_cache.h: the keys and values of cached positions; kernels/attend.h
 * defines their layout. */
#pragma once

#include "kernels/attend.h"

typedef enum { KV_KEYS, KV_VALUES } KvKind;

typedef struct {
    KvType type;
    int n_layers, n_heads, head_size;
    int blocks;      /* capacity of layers without a window, in blocks */
    int min_blocks;  /* capacity of the smallest ring, or of all layers */
    KvLayer *layers; /* [n_layers], owned */
    void *memory;    /* of the keys and values of all layers, owned */
} KvCache;

/* Opens an empty cache. -1: out of memory. */
int kv_open(KvCache *kv, KvType type, int n_layers, int n_heads, int head_size);
void kv_close(KvCache *kv);

/* Makes room for n positions; the cache will never need more than `max`. Cached
 * positions are kept. If the cache grows, it has room for 2 n, so that growth
 * is cheap; untouched pages cost nothing. A layer that keeps fewer positions
 * becomes a ring. -1: out of memory. */
int kv_reserve(KvCache *kv, int n, int max);

/* Max bytes of the cache after n positions; `max` as in kv_reserve(). */
double kv_bytes(const KvCache *kv, int n, int max);

/* Copies `from` to `to`, a cache of the same shape. -1: out of memory. */
int kv_copy(KvCache *to, const KvCache *from);

/* Writes the keys (or values) of one head of n tokens at positions pos, pos +
 * 1, ...; token t's are the head_size floats at rows + t * stride. */
void kv_write(const KvCache *kv, int layer, KvKind kind, int head,
              const float *rows, size_t stride, int n, int pos);
