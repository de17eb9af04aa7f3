/* attend.h: attention of a few queries to one KV head, and the layout of the
 * keys and values that it reads.
 *
 * The layout of keys, and of values, is [heads][parts of a head][blocks of
 * positions][elements of the part][KV_BLOCK positions]. Positions are
 * innermost, so that one vector holds the same element of neighbouring
 * positions. A key is one part, since a score reads all of its elements; a
 * value has parts of KV_VALUE_PART elements, which are summed at once. Both are
 * therefore read sequentially. A layer with a window has fewer blocks than
 * positions: a ring, in which block b of positions is at b % blocks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum { KV_F32, KV_F16 } KvType;

enum {
    KV_BLOCK = 16,      /* positions in a block */
    KV_VALUE_PART = 16, /* elements of a value in a part */
    KV_QUERIES = 4      /* max queries that read the cache together */
};

/* One layer of a cache. */
typedef struct {
    void *keys, *values; /* float or float16 */
    int blocks;          /* capacity, in blocks */
    /* min number of most recent positions to keep, set before the first run; 0:
     * all */
    int kept;
} KvLayer;

/* 1 to KV_QUERIES queries that read one KV head together: queries of
 * neighbouring positions and of the query heads that share it, in the order of
 * their positions. */
typedef struct {
    int size;    /* elements of a head */
    int head;    /* the KV head */
    bool cold;   /* no others of the pass have read the head: it is in memory */
    float scale; /* multiplies the scores */
    float cap;   /* a score z becomes cap tanh(z / cap); 0: not capped */
    const float *q[KV_QUERIES];
    float *out[KV_QUERIES];
    float *scores[KV_QUERIES]; /* scratch, a float for each cached position */
    int first_key[KV_QUERIES]; /* the first key that a query sees */
    int n_keys[KV_QUERIES];    /* the first key that it no longer sees */
} Queries;

/* out[k][size] = softmax(scale q[k] keys) values over the keys that query k
 * sees, for n queries. */
void attend(const Queries *queries, const KvLayer *kv, KvType type, int n);

/* Elements of the part that begins at element `start` of a head; the last part
 * may be short. */
static inline int kv_part_width(int head_size, int part, int start) {
    return start + part < head_size ? part : head_size - start;
}

/* Index of element i of a block of positions, relative to the start of the
 * head. */
static inline size_t kv_at(int head_size, int part, int blocks, int block,
                           int i) {
    int start = i / part * part, width = kv_part_width(head_size, part, start);
    return ((size_t)start * blocks + (size_t)block * width + (i - start)) *
           KV_BLOCK;
}

/* Total elements of one head. */
static inline size_t kv_head_elements(int head_size, int blocks) {
    return (size_t)head_size * (size_t)blocks * KV_BLOCK;
}
