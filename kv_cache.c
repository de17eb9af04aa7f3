/* kv_cache.c: the keys and values of cached positions.
 *
 * Owns the cache's memory: how it grows, and how keys and values are
 * written into its layout. It does not know which positions a query
 * may see (attention.c).
 * Tests: attention, invariance.
 */
#include "kv_cache.h"
#include "base/memory.h"
#include "kernels/simd.h"
#include <stdlib.h>

int kv_open(KvCache *kv, KvType type, int n_layers, int n_heads,
            int head_size) {
    *kv = (KvCache){.type = type,
                    .n_layers = n_layers,
                    .n_heads = n_heads,
                    .head_size = head_size};
    kv->layers = allocate_zeroed(n_layers, sizeof *kv->layers);
    return kv->layers ? 0 : -1;
}

void kv_close(KvCache *kv) {
    free(kv->layers);
    free(kv->memory);
    *kv = (KvCache){0};
}

static size_t element_bytes(const KvCache *kv) {
    return kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Copies a layer's keys or values into memory with room for more blocks: each
 * part of each head in turn. */
static void copy_parts(const KvCache *kv, int part, char *to, int to_blocks,
                       const char *from, int blocks) {
    for (int h = 0; from && h < kv->n_heads; h++)
        for (int i = 0; i < kv->head_size; i += part) {
            size_t block = kv_part_width(kv->head_size, part, i) * KV_BLOCK *
                           element_bytes(kv);
            memcpy(to, from, block * blocks);
            to += block * to_blocks;
            from += block * blocks;
        }
}

/* Bytes of the keys, or of the values, of a layer with this many blocks. */
static size_t layer_bytes(const KvCache *kv, int blocks) {
    return kv->n_heads * kv_head_elements(kv->head_size, blocks) *
           element_bytes(kv);
}

/* Blocks for n positions: twice as many as needed, so that growth is cheap, but
 * not more than for `max` positions. */
static int blocks_for(int n, int max) {
    return min_int(2 * ((n - 1) / KV_BLOCK + 1), (max - 1) / KV_BLOCK + 1);
}

/* Blocks of a layer in a cache of `blocks` blocks. A ring has enough for any
 * alignment of its window to blocks. */
static int layer_room(const KvLayer *layer, int blocks) {
    return layer->kept ? min_int((layer->kept - 2) / KV_BLOCK + 2, blocks)
                       : blocks;
}

/* Takes the memory of each layer's blocks from the arena. */
static void lay_out(const KvCache *kv, KvLayer *layers, Arena *a) {
    EACH(KvLayer, l, layers, kv->n_layers) {
        l->keys = arena_take(a, (double)layer_bytes(kv, l->blocks), 1);
        l->values = arena_take(a, (double)layer_bytes(kv, l->blocks), 1);
    }
}

/* Makes `to` a copy of `from`, which may be `to`, with room for `blocks`
 * blocks. All layers share one allocation, because only a large one has huge
 * pages: a token reads the whole cache, and its small pages would be more than
 * the processor's TLB holds. -1: out of memory; then `to` is unchanged. */
static int copy_cache(KvCache *to, const KvCache *from, int blocks) {
    int n = from->n_layers;
    Arena a = {0};
    KvLayer *layers = allocate(n, sizeof *layers);
    if (!layers)
        return -1;
    memcpy(layers, from->layers, n * sizeof *layers);
    EACH(KvLayer, l, layers, n)
        l->blocks = layer_room(l, blocks);
    lay_out(from, layers, &a);
    char *memory = allocate((size_t)a.used, 1);
    if (!memory) {
        free(layers);
        return -1;
    }
    a = (Arena){.memory = memory};
    lay_out(from, layers, &a);
    for (int i = 0; i < n; i++) {
        const KvLayer *l = &from->layers[i];
        copy_parts(from, from->head_size, layers[i].keys, layers[i].blocks,
                   l->keys, l->blocks);
        copy_parts(from, KV_VALUE_PART, layers[i].values, layers[i].blocks,
                   l->values, l->blocks);
    }
    free(to->layers);
    free(to->memory);
    to->layers = layers;
    to->memory = memory;
    to->blocks = to->min_blocks = blocks;
    EACH(const KvLayer, l, layers, n)
        to->min_blocks = min_int(to->min_blocks, l->blocks);
    return 0;
}

int kv_reserve(KvCache *kv, int n, int max) {
    return (n - 1) / KV_BLOCK < kv->blocks
               ? 0
               : copy_cache(kv, kv, blocks_for(n, max));
}

double kv_bytes(const KvCache *kv, int n, int max) {
    int blocks = blocks_for(n, max);
    double bytes = 0;
    EACH(const KvLayer, l, kv->layers, kv->n_layers)
        bytes += 2 * (double)layer_bytes(kv, layer_room(l, blocks));
    return bytes;
}

int kv_copy(KvCache *to, const KvCache *from) {
    return copy_cache(to, from, from->blocks);
}

/* Stores one element of LANES consecutive positions, or only of the first. */
static void store(KvType type, void *cache, size_t at, vf v, bool one) {
    if (type == KV_F32) {
        vstore_n((float *)cache + at, v, one ? 1 : LANES);
        return;
    }
    uint16_t *to = (uint16_t *)cache + at, all[LANES];
    vstore_f16(one ? all : to, v);
    if (one)
        *to = *all;
}

/* Writes a part of a head, `width` elements from index `at` on, of one position
 * or of LANES consecutive ones. */
static void write_part(KvType type, void *cache, size_t at, const float *rows,
                       size_t stride, int width, int count) {
    const uint8_t *bytes[LANES] = {0};
    int i = 0;
    for (int k = 0; k < count; k++)
        bytes[k] = (const uint8_t *)(rows + k * stride);
    for (; count == LANES && i + 4 <= width; i += 4) {
        vi columns[4];
        vtranspose(columns, bytes, i * sizeof(float));
        for (int c = 0; c < 4; c++, at += KV_BLOCK)
            store(type, cache, at, (vf)columns[c], false);
    }
    for (; i < width; i++, at += KV_BLOCK)
        for (int k = 0; k < count; k++)
            store(type, cache, at + k, vset(rows[k * stride + i]), true);
}

void kv_write(const KvCache *kv, int layer, KvKind kind, int head,
              const float *rows, size_t stride, int n, int pos) {
    const KvLayer *l = &kv->layers[layer];
    int size = kv->head_size, part = kind == KV_KEYS ? size : KV_VALUE_PART;
    for (int t = 0, count; t < n; t += count, rows += count * stride) {
        int block = (pos + t) / KV_BLOCK % l->blocks; /* of a ring */
        size_t start =
            head * kv_head_elements(size, l->blocks) + (pos + t) % KV_BLOCK;
        count = (pos + t) % LANES || n - t < LANES ? 1 : LANES;
        for (int i = 0; i < size; i += part) {
            void *cache = kind == KV_KEYS ? l->keys : l->values;
            size_t at = start + kv_at(size, part, l->blocks, block, i);
            write_part(kv->type, cache, at, rows + i, stride,
                       kv_part_width(size, part, i), count);
        }
    }
}
