/* kv_cache.c: the keys and values of cached positions.
 *
 * Owns the cache's memory: how it grows, and how keys and values are written into its layout. It does not know which
 * positions a query may see (attention.c).
 */
#include "kv_cache.h"
#include "base/memory.h"
#include "kernels/simd.h"
#include <stdlib.h>

int kv_open(KvCache *kv, KvType type, int n_layers, int n_heads, int head_size) {
    *kv = (KvCache){.type = type, .n_layers = n_layers, .n_heads = n_heads, .head_size = head_size};
    kv->layers = allocate_zeroed((size_t)n_layers, sizeof *kv->layers);
    return kv->layers ? 0 : -1;
}

void kv_close(KvCache *kv) {
    for (int l = 0; kv->layers && l < kv->n_layers; l++) {
        free(kv->layers[l].keys);
        free(kv->layers[l].values);
    }
    free(kv->layers);
    *kv = (KvCache){0};
}

/* Copies a layer's keys or values into memory with room for new_blocks; each part of each head is copied as a whole. */
static void *grown(const KvCache *kv, const void *old, int part, int old_blocks, int new_blocks) {
    const int size = kv->head_size;
    const size_t element = kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    char *moved = allocate((size_t)kv->n_heads * kv_head_elements(size, new_blocks), element);
    for (int h = 0; moved && old && h < kv->n_heads; h++)
        for (int i = 0; i < size; i += part) {
            const size_t to = (size_t)h * kv_head_elements(size, new_blocks) + kv_at(size, part, new_blocks, 0, i);
            const size_t from = (size_t)h * kv_head_elements(size, old_blocks) + kv_at(size, part, old_blocks, 0, i);
            memcpy(moved + to * element, (const char *)old + from * element,
                   kv_head_elements(kv_part_width(size, part, i), old_blocks) * element);
        }
    return moved;
}

/* Copies a layer of kv into `to`, which may be `from`, with room for more blocks. Returns -1 if out of memory. */
static int copy_layer(KvLayer *to, const KvCache *kv, const KvLayer *from, int room) {
    void *keys = grown(kv, from->keys, kv->head_size, from->blocks, room);
    void *values = keys ? grown(kv, from->values, KV_VALUE_PART, from->blocks, room) : NULL;
    const bool both = keys && values;
    free(both ? to->keys : keys);
    free(both ? to->values : values);
    if (!both) return -1;
    *to = (KvLayer){keys, values, room, from->kept};
    return 0;
}

/* Blocks of a layer in a cache of `blocks` blocks. A ring has enough for any alignment of its window to blocks. */
static int layer_room(const KvLayer *layer, int blocks) {
    const int ring = layer->kept ? (layer->kept - 2) / KV_BLOCK + 2 : blocks;
    return ring < blocks ? ring : blocks;
}

int kv_reserve(KvCache *kv, int n, int max) {
    const int needed = (n - 1) / KV_BLOCK + 1, max_blocks = (max - 1) / KV_BLOCK + 1;
    if (needed <= kv->blocks) return 0;
    int blocks = kv->blocks > max_blocks / 2 ? max_blocks : 2 * kv->blocks;
    if (blocks < needed) blocks = needed;
    for (KvLayer *layer = kv->layers; layer < kv->layers + kv->n_layers; layer++) {
        const int room = layer_room(layer, blocks);
        if (room < blocks) kv->rolls = true;
        if (room <= layer->blocks) continue;
        if (copy_layer(layer, kv, layer, room)) return -1;
    }
    kv->blocks = blocks;
    return 0;
}

double kv_bytes(const KvCache *kv, int n, int max) {
    const size_t block =
        2 * kv_head_elements(kv->head_size, 1) * (kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t));
    const int grown_blocks = 2 * ((n - 1) / KV_BLOCK + 1), max_blocks = (max - 1) / KV_BLOCK + 1;
    double blocks = 0;
    for (int l = 0; l < kv->n_layers; l++)
        blocks += layer_room(&kv->layers[l], grown_blocks < max_blocks ? grown_blocks : max_blocks);
    return blocks * kv->n_heads * (double)block;
}

int kv_copy(KvCache *to, const KvCache *from) {
    if (!from->blocks) return 0;
    for (int l = 0; l < from->n_layers; l++)
        if (copy_layer(&to->layers[l], from, &from->layers[l], from->layers[l].blocks)) return -1;
    to->blocks = from->blocks;
    to->rolls = from->rolls;
    return 0;
}

/* Stores one element of LANES consecutive positions, or only of the first. */
static void store(KvType type, void *cache, size_t at, vf v, bool one) {
    uint16_t halfs[LANES];
    if (type == KV_F32) {
        memcpy((float *)cache + at, &v, one ? sizeof(float) : sizeof v);
    } else {
        vstore_f16(halfs, v);
        memcpy((uint16_t *)cache + at, halfs, one ? sizeof *halfs : sizeof halfs);
    }
}

/* Writes a part of a head, `width` elements from `at` on, of `count` consecutive positions. LANES positions are
 * transposed, four elements at a time; fewer are stored one by one. */
static void write_part(KvType type, void *cache, size_t at, const float *rows, size_t stride, int width, int count) {
    const uint8_t *tokens[LANES];
    int i = 0;
    for (int k = 0; k < count; k++) tokens[k] = (const uint8_t *)(rows + (size_t)k * stride);
    for (; count == LANES && i + 4 <= width; i += 4) {
        vi elements[4];
        vtranspose(elements, tokens, (size_t)i * sizeof(float));
        for (int j = 0; j < 4; j++, at += KV_BLOCK) store(type, cache, at, (vf)elements[j], false);
    }
    for (; i < width; i++, at += KV_BLOCK)
        for (int k = 0; k < count; k++)
            store(type, cache, at + (size_t)k, vset(rows[(size_t)k * stride + (size_t)i]), true);
}

void kv_write(const KvCache *kv, int layer, KvKind kind, int head, const float *rows, size_t stride, int n, int pos) {
    const int size = kv->head_size, blocks = kv->layers[layer].blocks;
    const int part = kind == KV_KEYS ? size : KV_VALUE_PART;
    void *cache = kind == KV_KEYS ? kv->layers[layer].keys : kv->layers[layer].values;
    const size_t start = (size_t)head * kv_head_elements(size, blocks);
    for (int t = 0, count; t < n; t += count) {
        const int block = (pos + t) / KV_BLOCK % blocks, in_block = (pos + t) % KV_BLOCK;
        count = in_block % LANES || n - t < LANES ? 1 : LANES;
        for (int i = 0; i < size; i += part)
            write_part(kv->type, cache, start + kv_at(size, part, blocks, block, i) + (size_t)in_block,
                       rows + (size_t)t * stride + i, stride, kv_part_width(size, part, i), count);
    }
}

float kv_read(const KvCache *kv, int layer, KvKind kind, int head, int pos, int i) {
    const KvLayer *l = &kv->layers[layer];
    const int part = kind == KV_KEYS ? kv->head_size : KV_VALUE_PART;
    const size_t at = (size_t)head * kv_head_elements(kv->head_size, l->blocks) +
                      kv_at(kv->head_size, part, l->blocks, pos / KV_BLOCK % l->blocks, i) + (size_t)(pos % KV_BLOCK);
    const void *cache = kind == KV_KEYS ? l->keys : l->values;
    return kv->type == KV_F32 ? ((const float *)cache)[at] : f16_to_f32(((const uint16_t *)cache)[at]);
}
