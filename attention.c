/* attention.c: the attention half of a decoder layer.
 *
 * Owns projections to heads, their norms' place, rotary positions, the layout of
 * the KV cache and causal grouped-query attention. The products with weights are
 * matmul.c's, the norms norm.c's; when the cache grows, model.c says.
 *
 * Keys are visited in blocks of KV_BLOCK from position 0 up, by every query in
 * the same way, so a token's result depends on the tokens before it alone, and
 * not on how they were divided into chunks.
 */
#include "base/memory.h"
#include "base/probe.h"
#include "kernels/matmul.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"
#include "norm.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- project, rotate, remember -------------------------------------------------- */

typedef enum { KEY, QUERY, VALUE } Role;

/* One head of the queries, keys or values of a chunk. */
typedef struct {
    Role role;
    int index;     /* among the heads of this role */
    float *rows;   /* [n][stride]: all heads of this role */
    size_t stride; /* floats to a token */
} Head;

/* The heads are numbered through: keys, queries, values. */
static Head head_at(const Session *s, int number, int n) {
    const Config *c = &s->model->config;
    const int ends[] = {c->n_kv_heads, c->n_kv_heads + c->n_heads};
    const Role role = number < ends[0] ? KEY : number < ends[1] ? QUERY : VALUE;
    const size_t stride = (size_t)(role == QUERY ? c->n_heads : c->n_kv_heads) * (size_t)c->head_size;
    return (Head){.role = role,
                  .index = role == KEY ? number : number - ends[role - 1],
                  .rows = role == QUERY ? s->q : s->kv_rows + (role == KEY ? 0 : (size_t)n * stride),
                  .stride = stride};
}

static int n_all_heads(const Config *c) { return c->n_heads + 2 * c->n_kv_heads; }

/* The head's vector of token t, [head_size]. */
static float *head_vector(const Config *c, const Head *head, int t) {
    return head->rows + (size_t)t * head->stride + (size_t)(head->index * c->head_size);
}

/* The heads [first, end) of the calling thread: what one step has left in a head
 * the next one finds without a barrier. */
typedef struct {
    int first, end;
} Heads;

static Heads own_heads(const Config *c) {
    const int n = n_all_heads(c), thread = omp_get_thread_num(), threads = omp_get_num_threads();
    return (Heads){n * thread / threads, n * (thread + 1) / threads};
}

/* The thread's heads of one role make one product. */
static void project(Session *s, const Layer *layer, const Input *in, int n) {
    const Config *c = &s->model->config;
    const Tensor *const weights[] = {[KEY] = &layer->wk, [QUERY] = &layer->wq, [VALUE] = &layer->wv};
    const Heads own = own_heads(c);
    for (int i = own.first, next; i < own.end; i = next) {
        const Head head = head_at(s, i, n);
        for (next = i + 1; next < own.end && head_at(s, next, n).role == head.role;) next++;
        matmul_rows(head.rows, head.stride, weights[head.role], head.index * c->head_size, (next - i) * c->head_size,
                    in, n, false);
    }
}

/* The profiler's look at the heads that go into a norm, or have come out. */
static void show_heads(const Session *s, const Layer *layer, Site site, Role role, bool out, int n) {
    const Config *c = &s->model->config;
    const Heads own = own_heads(c);
    if (!s->probe) return;
    for (int i = own.first; i < own.end; i++) {
        const Head head = head_at(s, i, n);
        for (int t = 0; t < n && head.role == role; t++)
            probe_vectors(s->probe, layer->index, site, out, head_vector(c, &head, t), head.stride, 1, c->head_size);
    }
    (out ? probe_mark : probe_part)(s->probe, layer->index, SITE_PROFILE);
}

/* Each query, or each key, normalized by itself, in place (Henry et al. 2020; as Qwen 3 has it). */
static void norm_heads(Session *s, const Layer *layer, Site site, Role role, const Norm *norm, int n) {
    const Config *c = &s->model->config;
    if (!norm->gamma) return;
    const Heads own = own_heads(c);
    show_heads(s, layer, site, role, false, n);
    for (int i = own.first; i < own.end; i++) {
        const Head head = head_at(s, i, n);
        for (int t = 0; t < n && head.role == role; t++) {
            float *v = head_vector(c, &head, t);
            norm_token(v, v, norm, c->head_size);
        }
    }
    probe_mark(s->probe, layer->index, site);
    show_heads(s, layer, site, role, true, n);
}

/* Rotates n pairs (v[i * step], v[i * step + other]) by the angles in rope[i] = {cos, sin}. */
INLINE void rotate_pairs(float *v, const float *rope, int n, const int step, int other) {
    for (int i = 0; i < n; i++) {
        float *pair = v + i * step, a = pair[0], b = pair[other], cos = rope[2 * i], sin = rope[2 * i + 1];
        pair[0] = a * cos - b * sin;
        pair[other] = a * sin + b * cos;
    }
}

/* The leading elements of a head, by the angles of its token. */
static void rotate(const Config *c, float *v, const float *rope) {
    const int pairs = c->rope_dims / 2;
    if (c->rope_halves)
        rotate_pairs(v, rope, pairs, 1, pairs);
    else
        rotate_pairs(v, rope, pairs, 2, 1);
}

/* ---- the cache -------------------------------------------------------------------
 *
 * [n_kv_heads][parts of a head][blocks][elements of the part][KV_BLOCK]: a key is one
 * part, since a score walks through all of its elements; values are in parts of
 * VALUE_PART elements, as many as are summed at once. Both are read from the first
 * block to the last, one behind the other in memory. */

enum { VALUE_PART = 16 };

/* Elements of the part that begins at `start`: the last one may be short. */
INLINE int part_width(int size, int part, int start) { return start + part < size ? part : size - start; }

/* Where element i of a head's block is, in elements from the head's start. */
INLINE size_t kv_at(int size, int part, int blocks, int block, int i) {
    const int start = i / part * part, width = part_width(size, part, start);
    return ((size_t)start * (size_t)blocks + (size_t)block * (size_t)width + (size_t)(i - start)) * KV_BLOCK;
}

/* A head's elements in all. */
static size_t kv_head_length(int size, int blocks) { return (size_t)size * (size_t)blocks * KV_BLOCK; }

/* One of the two arrays, moved part by part. */
static void *grown(const void *old, int n_heads, int size, size_t element, int part, int blocks, int more) {
    char *moved = allocate((size_t)n_heads * kv_head_length(size, more), element);
    for (int h = 0; moved && old && h < n_heads; h++)
        for (int i = 0; i < size; i += part) {
            const int width = part_width(size, part, i);
            const size_t to = (size_t)h * kv_head_length(size, more) + kv_at(size, part, more, 0, i);
            const size_t from = (size_t)h * kv_head_length(size, blocks) + kv_at(size, part, blocks, 0, i);
            memcpy(moved + to * element, (const char *)old + from * element, kv_head_length(width, blocks) * element);
        }
    return moved;
}

int kv_grow(KvLayer *kv, int n_heads, int head_size, KvType type, int blocks) {
    const size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    void *keys = grown(kv->keys, n_heads, head_size, element, head_size, kv->blocks, blocks);
    void *values = grown(kv->values, n_heads, head_size, element, VALUE_PART, kv->blocks, blocks);
    const bool both = keys && values;
    free(both ? kv->keys : keys);
    free(both ? kv->values : values);
    if (both) *kv = (KvLayer){keys, values, blocks};
    return both ? 0 : -1;
}

/* Element i of LANES neighbouring positions (of one, if `one`) to where it belongs. */
static void put(KvType type, void *cache, size_t at, vf v, bool one) {
    uint16_t halfs[LANES];
    if (type == KV_F32) {
        memcpy((float *)cache + at, &v, one ? sizeof(float) : sizeof v);
    } else {
        vstore_f16(halfs, v);
        memcpy((uint16_t *)cache + at, halfs, one ? sizeof *halfs : sizeof halfs);
    }
}

/* Puts a head's keys (or values) of n tokens into the cache, from position pos on:
 * whole vectors of positions are transposed, the others go one by one. */
static void remember(const Session *s, const KvLayer *kv, const Head *head, int n, int pos) {
    const Config *c = &s->model->config;
    const int size = c->head_size, part = head->role == KEY ? size : VALUE_PART;
    const size_t start = (size_t)head->index * kv_head_length(size, kv->blocks);
    void *cache = head->role == KEY ? kv->keys : kv->values;
    for (int t = 0, count; t < n; t += count) {
        const int block = (pos + t) / KV_BLOCK, key = (pos + t) % KV_BLOCK;
        const uint8_t *tokens[LANES];
        int i = 0;
        count = key % LANES || n - t < LANES ? 1 : LANES;
        for (int k = 0; k < count; k++) tokens[k] = (const uint8_t *)head_vector(c, head, t + k);
        for (; count > 1 && i + 4 <= size; i += 4) {
            vi elements[4];
            vtranspose(elements, tokens, (size_t)i * sizeof(float));
            for (int j = 0; j < 4; j++)
                put(s->kv_type, cache, start + kv_at(size, part, kv->blocks, block, i + j) + (size_t)key,
                    (vf)elements[j], false);
        }
        for (; i < size; i++)
            for (int k = 0; k < count; k++)
                put(s->kv_type, cache, start + kv_at(size, part, kv->blocks, block, i) + (size_t)(key + k),
                    vset(head_vector(c, head, t + k)[i]), true);
    }
}

static void rotate_and_remember(Session *s, const KvLayer *kv, int n, int pos) {
    const Config *c = &s->model->config;
    const Heads own = own_heads(c);
    for (int i = own.first; i < own.end; i++) {
        const Head head = head_at(s, i, n);
        for (int t = 0; t < n && head.role != VALUE; t++)
            rotate(c, head_vector(c, &head, t), s->rope + (size_t)(t * c->rope_dims));
        if (head.role != QUERY) remember(s, kv, &head, n, pos);
    }
#pragma omp barrier
}

/* ---- attend ------------------------------------------------------------------------ */

enum { BLOCK_VECTORS = KV_BLOCK / LANES };

/* Up to KV_QUERIES queries that look at the same keys, all but a few: those of
 * one head of the cache, of neighbouring tokens and of the heads that share it. */
typedef struct {
    int size;         /* of a head */
    int blocks;       /* that the cache has room for */
    size_t start;     /* of the cache's head, in elements */
    int shared, most; /* vectors of keys that all of them see whole; that any of them sees */
    const float *q[KV_QUERIES];
    float *out[KV_QUERIES], *scores[KV_QUERIES];
    int n_keys[KV_QUERIES];
} Queries;

INLINE vf load_cached(KvType type, const void *cache, size_t at) {
    return type == KV_F32 ? vload((const float *)cache + at) : vload_f16((const uint16_t *)cache + at, LANES);
}

/* A vector of neighbouring keys, number v of the head: element i. */
INLINE vf load_keys(const Queries *a, KvType type, const void *keys, int v, int i) {
    const size_t row = (size_t)(v / BLOCK_VECTORS) * (size_t)a->size + (size_t)i;
    return load_cached(type, keys, a->start + row * KV_BLOCK + (size_t)(v % BLOCK_VECTORS * LANES));
}

/* The same of values: where part `part` begins, element i of its `width`. */
INLINE vf load_values(KvType type, const void *values, size_t part, int width, int v, int i) {
    const size_t row = (size_t)(v / BLOCK_VECTORS) * (size_t)width + (size_t)i;
    return load_cached(type, values, part + row * KV_BLOCK + (size_t)(v % BLOCK_VECTORS * LANES));
}

/* The lanes of vector v whose keys are among the first n_keys. */
INLINE vi seen_keys(int v, int n_keys) { return vlane() < n_keys - v * LANES; }

/* scores = q . key for `count` vectors of keys, `apart` from each other; -infinity
 * where there is none. */
INLINE void score_vectors(const Queries *a, KvType type, const void *keys, int v, int apart, const int count,
                          const int n) {
    vf sums[KV_QUERIES][4];
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int j = 0; j < count; j++) sums[k][j] = (vf){0};
    for (int i = 0; i < a->size; i++) {
        vf key[4];
        UNROLL
        for (int j = 0; j < count; j++) key[j] = load_keys(a, type, keys, v + j * apart, i);
        UNROLL
        for (int k = 0; k < n; k++) UNROLL
        for (int j = 0; j < count; j++) sums[k][j] = vfma(vset(a->q[k][i]), key[j], sums[k][j]);
    }
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int j = 0; j < count; j++) {
        const int at = v + j * apart;
        vstore(a->scores[k] + at * LANES, vselect(seen_keys(at, a->n_keys[k]), sums[k][j], vset(-INFINITY)));
    }
}

/* scores = e^(scale (scores - the largest of them)); returns 1 / their sum. */
static float softmax(float *scores, int vectors, float scale) {
    vf max = vset(-INFINITY), sum = {0};
    for (int v = 0; v < vectors; v++) max = vmax(vload(scores + v * LANES), max);
    const float largest = vmax_lane(max);
    for (int v = 0; v < vectors; v++) {
        const vf e = vexp((vload(scores + v * LANES) - largest) * scale);
        sum += e;
        vstore(scores + v * LANES, e);
    }
    return 1.0f / vsum(sum);
}

/* out[i] = scale * sum_k p[k] value_k[i] for `count` elements from `first` on. */
INLINE void sum_values(const Queries *a, KvType type, const void *values, const float *scales, int first,
                       const int count, const int n) {
    const int begin = first / VALUE_PART * VALUE_PART, in_part = first - begin;
    const int width = part_width(a->size, VALUE_PART, begin);
    const size_t part = a->start + kv_at(a->size, VALUE_PART, a->blocks, 0, begin);
    vf sums[KV_QUERIES][VALUE_PART];
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int i = 0; i < count; i++) sums[k][i] = (vf){0};
    int v = 0;
    for (; v < a->shared; v++) {
        vf p[KV_QUERIES];
        UNROLL
        for (int k = 0; k < n; k++) p[k] = vload(a->scores[k] + v * LANES);
        UNROLL
        for (int i = 0; i < count; i++) {
            const vf value = load_values(type, values, part, width, v, in_part + i);
            UNROLL
            for (int k = 0; k < n; k++) sums[k][i] = vfma(p[k], value, sums[k][i]);
        }
    }
    for (; v < a->most; v++) {
        vf p[KV_QUERIES];
        vi seen[KV_QUERIES]; /* what the query must not see, or nobody has written: not even times 0 */
        UNROLL
        for (int k = 0; k < n; k++) {
            p[k] = vload(a->scores[k] + v * LANES);
            seen[k] = seen_keys(v, a->n_keys[k]);
        }
        UNROLL
        for (int i = 0; i < count; i++) {
            const vf value = load_values(type, values, part, width, v, in_part + i);
            UNROLL
            for (int k = 0; k < n; k++) sums[k][i] = vfma(p[k], (vf)((vi)value & seen[k]), sums[k][i]);
        }
    }
    UNROLL
    for (int k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < count; i += 4) {
            const f4 four = vsum4(sums[k][i], sums[k][i + 1], sums[k][i + 2 < count ? i + 2 : i],
                                  sums[k][i + 3 < count ? i + 3 : i]) *
                            scales[k];
            memcpy(a->out[k] + first + i, &four, (size_t)(count < 4 ? count : 4) * sizeof(float));
        }
    }
}

/* Queries against the keys up to their positions: softmax(q k / sqrt(size)) v.
 * Each is computed alike, whoever else is in the group. */
INLINE void attend_as(const Queries *a, const KvLayer *kv, KvType type, const int n) {
    const int size = a->size, wide = n == 1 ? 4 : 2, count = n == 1 ? 16 : n == 2 ? 8 : 4;
    float scales[KV_QUERIES];
    int v = 0, i = 0;
    /* in a few places at once, each of which the hardware sees moving on steadily */
    const int apart = a->most / wide;
    for (; v < apart; v++) score_vectors(a, type, kv->keys, v, apart, wide, n);
    for (v = apart * wide; v < a->most; v++) score_vectors(a, type, kv->keys, v, 0, 1, n);
    for (int k = 0; k < n; k++) scales[k] = softmax(a->scores[k], a->most, 1.0f / sqrtf((float)size));
    for (; i + count <= size; i += count) sum_values(a, type, kv->values, scales, i, count, n);
    for (; i + 4 <= size; i += 4) sum_values(a, type, kv->values, scales, i, 4, n);
    for (; i < size; i += 2) sum_values(a, type, kv->values, scales, i, 2, n);
}

#define ATTEND(name, type, n)                                                                                          \
    static __attribute__((noinline)) void name(const Queries *a, const KvLayer *kv) { attend_as(a, kv, type, n); }
ATTEND(attend_1, KV_F32, 1)
ATTEND(attend_2, KV_F32, 2)
ATTEND(attend_4, KV_F32, 4)
ATTEND(attend_1_f16, KV_F16, 1)
ATTEND(attend_2_f16, KV_F16, 2)
ATTEND(attend_4_f16, KV_F16, 4)

/* Query number `first` to first + n - 1 of those that look at a head of the cache:
 * its heads of token 0, of token 1, ... */
static void attend(Session *s, const KvLayer *kv, int head, int first, int n, int pos) {
    const Config *c = &s->model->config;
    const int shares = c->n_heads / c->n_kv_heads;
    const size_t room = (size_t)s->kv_blocks * KV_BLOCK;
    float *scores = s->scores + (size_t)omp_get_thread_num() * KV_QUERIES * room;
    Queries a = {
        .size = c->head_size, .blocks = kv->blocks, .start = (size_t)head * kv_head_length(c->head_size, kv->blocks)};
    for (int k = 0; k < n; k++) {
        const int t = (first + k) / shares, h = head * shares + (first + k) % shares;
        const size_t at = ((size_t)t * (size_t)c->n_heads + (size_t)h) * (size_t)c->head_size;
        a.q[k] = s->q + at;
        a.out[k] = s->att + at;
        a.scores[k] = scores + (size_t)k * room;
        a.n_keys[k] = pos + t + 1;
    }
    a.shared = a.n_keys[0] / LANES;
    a.most = (a.n_keys[n - 1] - 1) / LANES + 1;
    static void (*const kinds[][3])(const Queries *, const KvLayer *) = {
        [KV_F32] = {attend_1, attend_2, attend_4}, [KV_F16] = {attend_1_f16, attend_2_f16, attend_4_f16}};
    kinds[s->kv_type][n / 2](&a, kv);
}

void attention(Session *s, const Layer *layer, const KvLayer *kv, const float *xn, int n, int pos) {
    const Config *c = &s->model->config;
    /* quantized, if any of the three wants it */
    const Tensor *w = type_wants_bytes(layer->wq.type)   ? &layer->wq
                      : type_wants_bytes(layer->wk.type) ? &layer->wk
                                                         : &layer->wv;
    Input in = input_prepare(&s->input, w, xn, n);
    project(s, layer, &in, n);
    probe_part(s->probe, layer->index, SITE_QKV_ROPE);
    norm_heads(s, layer, SITE_Q_NORM, QUERY, &layer->q_norm, n);
    norm_heads(s, layer, SITE_K_NORM, KEY, &layer->k_norm, n);
    rotate_and_remember(s, kv, n, pos);
    probe_mark(s->probe, layer->index, SITE_QKV_ROPE);

    /* later queries see more keys: deal the work out like cards */
    const int n_queries = n * (c->n_heads / c->n_kv_heads);
#pragma omp for schedule(static, 1) collapse(2)
    for (int first = 0; first < n_queries; first += KV_QUERIES)
        for (int head = 0; head < c->n_kv_heads; head++) {
            const int end = first + KV_QUERIES < n_queries ? first + KV_QUERIES : n_queries;
            for (int i = first, count; i < end; i += count) {
                count = end - i > 3 ? 4 : end - i > 1 ? 2 : 1;
                attend(s, kv, head, i, count, pos);
            }
        }
    probe_mark(s->probe, layer->index, SITE_ATTENTION);
    in = input_prepare(&s->input, &layer->wo, s->att, n);
    matmul(s->x, &layer->wo, &in, n, true);
    probe_mark(s->probe, layer->index, SITE_ATTN_OUT);
}
