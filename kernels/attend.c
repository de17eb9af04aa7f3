/* attend.c: attention of a few queries to one KV head, fast.
 *
 *     out = softmax(scale q k) v, under a mask
 *
 * Owns the vector code and the order in which the cache is read. attention.c
 * decides which queries attend to which head; attend.h has the layout of the
 * cache. Each score is computed separately, and values are summed in vectors of
 * LANES positions from the first visible one up, in the same order for every
 * query: the result does not depend on the other queries.
 * Tests: attention, invariance.
 */
#include "kernels/attend.h"
#include "kernels/simd.h"
#include <math.h>

enum {
    BLOCK_VECTORS = KV_BLOCK / LANES,
    VALUE_SUMS = LANES == 16 ? 16 : 8 /* what the registers hold */
};

/* The queries, and the location of the keys that they see. */
typedef struct {
    const Queries *queries;
    const KvLayer *kv;
    size_t start; /* first element of the head in the cache */
    /* blocks that the ring has overwritten: a multiple of kv->blocks */
    int wrapped;
    int from, end; /* vectors of keys [from, end): seen by at least one query */
    int whole, whole_end; /* [whole, whole_end): seen by all */
} Reading;

/* LANES elements of a cache, from element `at` on. */
INLINE vf load_cached(KvType type, const void *cache, size_t at) {
    return type == KV_F32 ? vload((const float *)cache + at)
                          : vload_f16((const uint16_t *)cache + at);
}

/* The index of element i of vector v of positions; a head is divided into parts
 * of `part` elements. Element i + 1 is KV_BLOCK after it. The blocks may be a
 * ring. v is unsigned because its division then takes fewer instructions. */
INLINE size_t vector_at(const Reading *a, unsigned v, int part, int i) {
    int block = (int)(v / BLOCK_VECTORS) - a->wrapped;
    if (block >= a->kv->blocks)
        block -= a->kv->blocks;
    return a->start + kv_at(a->queries->size, part, a->kv->blocks, block, i) +
           v % BLOCK_VECTORS * LANES;
}

/* The causal mask and the window: the lanes of vector v whose keys query k
 * sees. */
INLINE vi visible(const Reading *a, int v, int k) {
    vi lane = vlane();
    return (lane < a->queries->n_keys[k] - v * LANES) &
           (lane >= a->queries->first_key[k] - v * LANES);
}

/* scores = q . key for `count` vectors of keys, the first at v, `apart` vectors
 * apart. */
INLINE void score_vectors(const Reading *a, KvType type, int v, int apart,
                          int count, const int n) {
    int size = a->queries->size;
    const float *q[KV_QUERIES];
    vf sums[KV_QUERIES][4];
    size_t at[4];
    UNROLL(k, n)
        q[k] = a->queries->q[k];
    UNROLL(j, count)
        at[j] = vector_at(a, v + j * apart, size, 0);
    UNROLL(k, n)
        UNROLL(j, count)
            sums[k][j] = (vf){0};
    for (int i = 0; i < size; i++) {
        vf key[4];
        UNROLL(j, count)
            key[j] =
                load_cached(type, a->kv->keys, at[j] + (size_t)i * KV_BLOCK);
        UNROLL(j, count) {
            UNROLL(k, n)
                sums[k][j] = vfma(vset(q[k][i]), key[j], sums[k][j]);
            /* an FMA of AVX-512 broadcasts q itself; a separate broadcast for
             * all FMAs takes as long as half an FMA */
            if (LANES == 16)
                forget_memory();
        }
    }
    UNROLL(k, n)
        UNROLL(j, count)
            vstore(a->queries->scores[k] + (v + j * apart) * LANES, sums[k][j]);
}

/* Applies the cap and the mask to the scores of query k, and the softmax:
 * e^(scale (scores - max)). Returns 1 / their sum. */
static float softmax(const Reading *a, int k) {
    float *const scores = a->queries->scores[k], cap = a->queries->cap;
    float scale = cap != 0 ? 1 : a->queries->scale;
    vf max = vset(-INFINITY), sums[SUM_VECTORS] = {{0}};
    for (int v = a->from; v < a->end; v++) {
        vf score = vload(scores + v * LANES);
        if (cap != 0)
            score = vcap(a->queries->scale * score, cap);
        if (v < a->whole || v >= a->whole_end)
            score = vselect(visible(a, v, k), score, vset(-INFINITY));
        max = vmax(score, max);
        vstore(scores + v * LANES, score);
    }
    float largest = vmax_lane(max);
    for (int v = a->from; v < a->end; v += SUM_VECTORS)
        UNROLL(w, SUM_VECTORS) {
            float *const score = scores + (v + w) * LANES;
            vf e = vexp((vload(score) - largest) * scale);
            sums[w] += e;
            vstore(score, e);
        }
    return 1.0f / vsum(sums, SUM_VECTORS);
}

/* sums[k][i] += p_k[j] value_j[first + i] for the LANES positions j of vector
 * v. `masked`: some query does not see all positions. Hidden values are
 * replaced by 0, because the cache may contain NaN there, and NaN times 0 is
 * NaN. */
INLINE void add_values(vf sums[KV_QUERIES][KV_VALUE_PART], const Reading *a,
                       KvType type, int first, int v, const bool masked,
                       int count, const int n) {
    size_t at = vector_at(a, v, KV_VALUE_PART, first);
    vf p[KV_QUERIES];
    vi mask[KV_QUERIES];
    UNROLL(k, n) {
        p[k] = vload(a->queries->scores[k] + v * LANES);
        vforget(p[k]); /* loaded once, not by each FMA */
        if (masked)
            mask[k] = visible(a, v, k);
    }
    UNROLL(i, count) {
        vf value = load_cached(type, a->kv->values, at + (size_t)i * KV_BLOCK);
        UNROLL(k, n)
            sums[k][i] = vfma(p[k], masked ? (vf)((vi)value & mask[k]) : value,
                              sums[k][i]);
    }
}

/* out[k][i] = scales[k] * sum over positions j of p_k[j] value_j[i], for n
 * queries k and `count` elements i from `first` on, all in one part. */
INLINE void sum_values(const Reading *a, KvType type, const float *scales,
                       int first, const int count, const int n) {
    int ends[] = {a->whole, a->whole_end, a->end};
    vf sums[KV_QUERIES][KV_VALUE_PART][SUM_VECTORS];
    /* the w-th vectors of all blocks. Not unrolled: the sums of a pass would
     * stay in registers during the next one */
    for (int w = 0; w < SUM_VECTORS; w++) {
        vf pass[KV_QUERIES][KV_VALUE_PART] = {0};
        int v = a->from + w;
        UNROLL(range, 3) /* masked, seen by all queries, masked */
            for (; v < ends[range]; v += SUM_VECTORS)
                add_values(pass, a, type, first, v, range != 1, count, n);
        UNROLL(k, n)
            UNROLL(i, count)
                sums[k][i][w] = pass[k][i];
    }
    UNROLL(k, n) {
        /* with count 2, vsum4 gets two sums twice; with 1, one four times */
        UNROLL_NEXT
        for (int i = 0; i < count; i += 4) {
            f4 four = vsum4(sums[k][i], sums[k][(i + 1) % count],
                            sums[k][(i + 2) % count], sums[k][(i + 3) % count],
                            SUM_VECTORS);
            f4 scaled = four * scales[k];
            memcpy(a->queries->out[k] + first + i, &scaled,
                   min_int(count, 4) * sizeof(float));
        }
    }
}

/* Reads the values into the processor's caches, in the order of memory.
 * sum_values() skips from one part of a block to the next, and waits for memory
 * each time. (Loads, because the processor drops prefetches that come faster
 * than memory.) */
static void read_values(const Reading *a, KvType type) {
    const size_t bytes = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    int size = a->queries->size, sum = 0;
    for (int i = 0; i < size; i += KV_VALUE_PART)
        for (int v = a->from; v < a->end; v += BLOCK_VECTORS) {
            const char *part = (const char *)a->kv->values +
                               vector_at(a, v, KV_VALUE_PART, i) * bytes;
            size_t n = kv_part_width(size, KV_VALUE_PART, i) * KV_BLOCK * bytes;
            for (size_t at = 0; at < n; at += CACHE_LINE)
                sum += part[at];
        }
    compute_anyway(sum);
}

/* out = softmax(scale q k) v for n queries. The result of a query does not
 * depend on the others. */
INLINE void attend_group(const Reading *a, KvType type, const int n) {
    int size = a->queries->size;
    int count = VALUE_SUMS / (n == 3 ? 4 : n); /* divides KV_VALUE_PART */
    int streams = n == 1 ? 4 : 2;              /* concurrent read streams */
    int apart = (a->end - a->from) / streams;
    float scales[KV_QUERIES];
    int v = a->from, i = 0;
    if (a->queries->cold && count < KV_VALUE_PART)
        read_values(a, type);
    for (; v < a->from + apart; v++)
        score_vectors(a, type, v, apart, streams, n);
    for (v = a->from + apart * streams; v < a->end; v++)
        score_vectors(a, type, v, 0, 1, n);
    for (int k = 0; k < n; k++)
        scales[k] = softmax(a, k);
    for (; i + count <= size; i += count)
        sum_values(a, type, scales, i, count, n);
    for (; i + 4 <= size; i += 4)
        sum_values(a, type, scales, i, 4, n);
    for (; i < size; i += 2)
        sum_values(a, type, scales, i, 2, n);
}

/* One function for each type of cache and number of queries, so that sums stay
 * in registers. */
#define ATTEND(name, type, n)                                                  \
    NOINLINE void name(const Reading *a) {                                     \
        attend_group(a, type, n);                                              \
    }
ATTEND(attend_1, KV_F32, 1)
ATTEND(attend_2, KV_F32, 2)
ATTEND(attend_3, KV_F32, 3)
ATTEND(attend_4, KV_F32, 4)
ATTEND(attend_1_f16, KV_F16, 1)
ATTEND(attend_2_f16, KV_F16, 2)
ATTEND(attend_3_f16, KV_F16, 3)
ATTEND(attend_4_f16, KV_F16, 4)

void attend(const Queries *q, const KvLayer *kv, KvType type, int n) {
    /* by type and number of queries */
    static void (*const forms[][KV_QUERIES + 1])(const Reading *) = {
        [KV_F32] = {NULL, attend_1, attend_2, attend_3, attend_4},
        [KV_F16] = {NULL, attend_1_f16, attend_2_f16, attend_3_f16,
                    attend_4_f16}};
    int from = q->first_key[0] / KV_BLOCK * SUM_VECTORS,
        end = ((q->n_keys[n - 1] - 1) / KV_BLOCK + 1) * SUM_VECTORS;
    Reading a = {
        .queries = q,
        .kv = kv,
        .start = (size_t)q->head * kv_head_elements(q->size, kv->blocks),
        .wrapped = from / BLOCK_VECTORS / kv->blocks * kv->blocks,
        .from = from,
        .end = end,
        .whole = min_int((q->first_key[n - 1] + LANES - 1) / LANES, end),
        .whole_end = q->n_keys[0] / LANES};
    forms[type][n](&a);
}
