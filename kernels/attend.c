/* attend.c: attention of a few queries to one KV head, fast.
 *
 *     out = softmax(scale q k) v, under a mask
 *
 * Owns the vector code, the order in which the cache is read, and prefetching. attention.c decides which queries attend
 * to which head; attend.h has the layout of the cache. Each score is computed separately, and values are summed in
 * vectors of LANES positions from position 0 up, in the same order for every query: the result does not depend on the
 * other queries.
 */
#include "kernels/attend.h"
#include "kernels/simd.h"
#include <math.h>

enum { BLOCK_VECTORS = KV_BLOCK / LANES };

/* The queries, and the location of the keys that they see. */
typedef struct {
    const Queries *queries;
    int size;             /* elements of a head */
    int blocks;           /* of the cache */
    size_t start, next;   /* first element of the head in the cache; of the next head, to prefetch */
    int wrapped;          /* blocks that the ring has overwritten: a multiple of `blocks` */
    int from, end;        /* vectors of keys [from, end): seen by at least one query */
    int whole, whole_end; /* [whole, whole_end): seen by all */
} Reading;

INLINE vf load_cached(KvType type, const void *cache, size_t at) {
    return type == KV_F32 ? vload((const float *)cache + at) : vload_f16((const uint16_t *)cache + at, LANES);
}

/* The offset of element 0 of vector v in a part of `width` elements, whose blocks may be a ring. Element i is at
 * i * KV_BLOCK after it. */
INLINE size_t vector_at(const Reading *a, int v, int width) {
    int block = v / BLOCK_VECTORS - a->wrapped;
    if (block >= a->blocks) block -= a->blocks;
    return (size_t)block * (size_t)width * KV_BLOCK + (size_t)(v % BLOCK_VECTORS * LANES);
}

/* Prefetches n elements of a block, from element `at` of the cache on. A head is too short for hardware prefetching. */
INLINE void prefetch_block(KvType type, const void *cache, size_t at, int n) {
    const size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    const char *block = (const char *)cache + at * element;
    for (size_t i = 0; i < (size_t)n * KV_BLOCK * element; i += CACHE_LINE) prefetch_read(block + i);
}

/* Prefetches the values of all positions that the query sees. */
INLINE void prefetch_values(const Reading *a, KvType type, const void *values) {
    for (int i = 0; i < a->size; i += KV_VALUE_PART) {
        const int width = kv_part_width(a->size, KV_VALUE_PART, i);
        const size_t start = a->start + kv_at(a->size, KV_VALUE_PART, a->blocks, 0, i);
        for (int v = a->from; v < a->end; v += BLOCK_VECTORS)
            prefetch_block(type, values, start + vector_at(a, v, width), width);
    }
}

/* The causal mask and the window: the lanes of vector v whose keys query k sees. */
INLINE vi visible(const Reading *a, int v, int k) {
    const vi lane = vlane();
    return (lane < a->queries->n_keys[k] - v * LANES) & (lane >= a->queries->first_key[k] - v * LANES);
}

/* scores = q . key for `count` vectors of keys, the first at v, `apart` vectors apart. */
INLINE void score_vectors(const Reading *a, KvType type, const void *keys, int v, int apart, const int count,
                          const int n) {
    vf sums[KV_QUERIES][4];
    size_t at[4];
    UNROLL
    for (int j = 0; j < count; j++) at[j] = a->start + vector_at(a, v + j * apart, a->size);
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int j = 0; j < count; j++) sums[k][j] = (vf){0};
    for (int i = 0; i < a->size; i++) {
        vf key[4];
        UNROLL
        for (int j = 0; j < count; j++) key[j] = load_cached(type, keys, at[j] + (size_t)i * KV_BLOCK);
        UNROLL
        for (int k = 0; k < n; k++) UNROLL
        for (int j = 0; j < count; j++) sums[k][j] = vfma(vset(a->queries->q[k][i]), key[j], sums[k][j]);
    }
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int j = 0; j < count; j++) vstore(a->queries->scores[k] + (v + j * apart) * LANES, sums[k][j]);
}

/* Sets the scores of masked keys to -infinity. Vectors that all queries see whole are skipped. */
static void mask_scores(const Reading *a, int k) {
    for (int v = a->from; v < a->end; v++) {
        if (v >= a->whole && v < a->whole_end) continue;
        const vf score = vload(a->queries->scores[k] + v * LANES);
        vstore(a->queries->scores[k] + v * LANES, vselect(visible(a, v, k), score, vset(-INFINITY)));
    }
}

/* scores = cap tanh(scale scores / cap); masked scores stay -infinity. */
static void cap_scores(float *scores, int from, int end, float scale, float cap) {
    for (int v = from; v < end; v++) {
        const vf z = vload(scores + v * LANES);
        vstore(scores + v * LANES, vselect(z == -INFINITY, z, vcap(scale * z, cap)));
    }
}

/* scores = e^(scale (scores - max)); returns 1 / their sum. */
static float softmax(float *scores, int from, int end, float scale) {
    vf max = vset(-INFINITY), sum = {0};
    for (int v = from; v < end; v++) max = vmax(vload(scores + v * LANES), max);
    const float largest = vmax_lane(max);
    for (int v = from; v < end; v++) {
        const vf e = vexp((vload(scores + v * LANES) - largest) * scale);
        sum += e;
        vstore(scores + v * LANES, e);
    }
    return 1.0f / vsum(sum);
}

/* sums[k][i] += p_k[j] value_j[i] for the positions j of vector v. `at`: index in `values` of the first element.
 * `masked`: some query does not see all positions. Hidden values are replaced by 0, because the cache may contain NaN
 * there, and NaN times 0 is NaN. */
INLINE void add_values(vf sums[KV_QUERIES][KV_VALUE_PART], const Reading *a, KvType type, const void *values, size_t at,
                       int v, const bool masked, const int count, const int n) {
    vf p[KV_QUERIES];
    vi mask[KV_QUERIES];
    UNROLL
    for (int k = 0; k < n; k++) {
        p[k] = vload(a->queries->scores[k] + v * LANES);
        if (masked) mask[k] = visible(a, v, k);
    }
    UNROLL
    for (int i = 0; i < count; i++) {
        const vf value = load_cached(type, values, at + (size_t)i * KV_BLOCK);
        UNROLL
        for (int k = 0; k < n; k++) sums[k][i] = vfma(p[k], masked ? (vf)((vi)value & mask[k]) : value, sums[k][i]);
    }
}

/* out[k][i] = scales[k] * sum over positions j of p_k[j] value_j[i], for n queries k and `count` elements i from
 * `first` on, all in one part. */
INLINE void sum_values(const Reading *a, KvType type, const KvLayer *kv, const float *scales, int first,
                       const int count, const int n) {
    const int width = kv_part_width(a->size, KV_VALUE_PART, first / KV_VALUE_PART * KV_VALUE_PART);
    const size_t start = a->start + kv_at(a->size, KV_VALUE_PART, a->blocks, 0, first);
    vf sums[KV_QUERIES][KV_VALUE_PART];
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int i = 0; i < count; i++) sums[k][i] = (vf){0};
    for (int v = a->from; v < a->end; v++) {
        const size_t at = start + vector_at(a, v, width);
        if (n == 1 && a->queries->prefetch && a->next != a->start)
            prefetch_block(type, kv->keys, a->next + vector_at(a, v, a->size) + (size_t)first * KV_BLOCK, count);
        if (v < a->whole || v >= a->whole_end)
            add_values(sums, a, type, kv->values, at, v, true, count, n);
        else
            add_values(sums, a, type, kv->values, at, v, false, count, n);
    }
    UNROLL
    for (int k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < count; i += 4) { /* with count 2, vsum4 gets two sums twice */
            const f4 four = vsum4(sums[k][i], sums[k][i + 1], sums[k][i + 2 < count ? i + 2 : i],
                                  sums[k][i + 3 < count ? i + 3 : i]) *
                            scales[k];
            memcpy(a->queries->out[k] + first + i, &four, (size_t)(count < 4 ? count : 4) * sizeof(float));
        }
    }
}

/* out = softmax(scale q k) v for n queries. The result of a query does not depend on the others. */
INLINE void attend_group(const Reading *a, const KvLayer *kv, KvType type, const int n) {
    const int size = a->size, count = n == 1 ? 16 : n == 2 ? 8 : 4;
    const int streams = n == 1 ? 4 : 2; /* concurrent read streams */
    const int apart = (a->end - a->from) / streams;
    float scales[KV_QUERIES];
    int v = a->from, i = 0;
    if (n == 1 && a->queries->prefetch) prefetch_values(a, type, kv->values);
    for (; v < a->from + apart; v++) score_vectors(a, type, kv->keys, v, apart, streams, n);
    for (v = a->from + apart * streams; v < a->end; v++) score_vectors(a, type, kv->keys, v, 0, 1, n);
    for (int k = 0; k < n; k++) {
        float *const scores = a->queries->scores[k], cap = a->queries->cap, scale = a->queries->scale;
        mask_scores(a, k);
        if (cap != 0) cap_scores(scores, a->from, a->end, scale, cap);
        scales[k] = softmax(scores, a->from, a->end, cap != 0 ? 1 : scale);
    }
    for (; i + count <= size; i += count) sum_values(a, type, kv, scales, i, count, n);
    for (; i + 4 <= size; i += 4) sum_values(a, type, kv, scales, i, 4, n);
    for (; i < size; i += 2) sum_values(a, type, kv, scales, i, 2, n);
}

/* One function for each type of cache and number of queries, so that sums stay in registers. */
#define ATTEND(name, type, n)                                                                                          \
    NOINLINE void name(const Reading *a, const KvLayer *kv) { attend_group(a, kv, type, n); }
ATTEND(attend_1, KV_F32, 1)
ATTEND(attend_2, KV_F32, 2)
ATTEND(attend_4, KV_F32, 4)
ATTEND(attend_1_f16, KV_F16, 1)
ATTEND(attend_2_f16, KV_F16, 2)
ATTEND(attend_4_f16, KV_F16, 4)

void attend(const Queries *q, const KvLayer *kv, KvType type, int n) {
    static void (*const forms[][3])(const Reading *, const KvLayer *) = {
        [KV_F32] = {attend_1, attend_2, attend_4}, [KV_F16] = {attend_1_f16, attend_2_f16, attend_4_f16}};
    const size_t elements = kv_head_elements(q->size, kv->blocks);
    const int from = q->first_key[0] / LANES, end = (q->n_keys[n - 1] - 1) / LANES + 1;
    const int whole = (q->first_key[n - 1] + LANES - 1) / LANES;
    const Reading a = {.queries = q,
                       .size = q->size,
                       .blocks = kv->blocks,
                       .start = (size_t)q->head * elements,
                       .next = (size_t)q->next_head * elements,
                       .wrapped = from / BLOCK_VECTORS / kv->blocks * kv->blocks,
                       .from = from,
                       .end = end,
                       .whole = whole < end ? whole : end,
                       .whole_end = q->n_keys[0] / LANES};
    forms[type][n / 2](&a, kv);
}
