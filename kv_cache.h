/* kv_cache.h: the keys and values of a sequence.
 */
#ifndef NORMA_KV_CACHE_H
#define NORMA_KV_CACHE_H

typedef enum { KV_F32, KV_F16 } KvType;

/* Keys and values are kept in blocks of KV_BLOCK positions, transposed, so
 * that one vector holds the same element of neighbouring keys. */
enum { KV_BLOCK = 16 };

/* Queries that visit the cache together. */
enum { KV_QUERIES = 4 };

/* The keys and values of one layer; attention.c knows where in them what is. */
typedef struct {
    void *keys, *values; /* float or f16 */
    int blocks;
} KvLayer;

/* Room for that many blocks in a layer's cache; what it holds stays. -1: no memory. */
int kv_grow(KvLayer *kv, int n_heads, int head_size, KvType type, int blocks);

#endif
