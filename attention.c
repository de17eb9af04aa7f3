/* attention.c: the attention half of a decoder layer.
 *
 * Owns projections to heads, their norms' place, rotary positions, the layout of
 * the KV cache and causal grouped-query attention. The products with weights are
 * matmul.c's, the norms norm.c's, the cache's memory is the session's (model.c).
 *
 * Keys are visited in blocks of KV_BLOCK from position 0 up, by every query in
 * the same way, so a token's result depends on the tokens before it alone, and
 * not on how they were divided into chunks.
 */
#include "model.h"
#include "simd.h"

#include <math.h>
#include <omp.h>

/* ---- project, rotate, remember -------------------------------------------------- */

typedef enum { KEY, QUERY, VALUE } Role;

/* A few neighbouring heads of the queries, keys or values of a chunk: one task. */
typedef struct {
    Role role;
    int first, end; /* among the heads of this role */
    float *rows;    /* [n][stride]: all heads of this role */
    size_t stride;  /* floats to a token */
} Heads;

static int heads_of(const Config *c, Role role) { return role == QUERY ? c->n_heads : c->n_kv_heads; }

/* As few as fill whole vectors with their rows: products compute no row twice. */
static int heads_in_task(const Config *c) {
    int n = 1;
    while (n * c->head_size % LANES) n *= 2;
    return n;
}

static int tasks_of(const Config *c, Role role) { return (heads_of(c, role) - 1) / heads_in_task(c) + 1; }
static int n_tasks(const Config *c) { return tasks_of(c, KEY) + tasks_of(c, QUERY) + tasks_of(c, VALUE); }

/* Tasks are numbered through: keys, queries, values. Each of the loops over them deals
 * them out to the threads like cards, and thus alike: what one loop has left in a head
 * the next one finds without a barrier. */
static Heads heads_at(const Session *s, int task, int n) {
    const Config *c = &s->model->config;
    Role role = KEY;
    for (; role < VALUE && task >= tasks_of(c, role); role++) task -= tasks_of(c, role);
    const int step = heads_in_task(c), first = task * step, all = heads_of(c, role);
    const size_t stride = (size_t)(all * c->head_size);
    return (Heads){.role = role,
                   .first = first,
                   .end = first + step < all ? first + step : all,
                   .rows = role == QUERY ? s->q : s->kv_rows + (role == KEY ? 0 : (size_t)n * stride),
                   .stride = stride};
}

/* The vector of head h and token t, [head_size]. */
static float *head_vector(const Config *c, const Heads *heads, int h, int t) {
    return heads->rows + (size_t)t * heads->stride + (size_t)(h * c->head_size);
}

static void project(Session *s, const Layer *layer, const Input *in, int n) {
    const Config *c = &s->model->config;
    const Tensor *const weights[] = {[KEY] = &layer->wk, [QUERY] = &layer->wq, [VALUE] = &layer->wv};
#pragma omp for schedule(static, 1) nowait
    for (int task = 0; task < n_tasks(c); task++) {
        const Heads heads = heads_at(s, task, n);
        const int size = c->head_size, row = heads.first * size, rows = (heads.end - heads.first) * size;
        matmul_rows(heads.rows, heads.stride, weights[heads.role], row, rows, in, n, false);
    }
}

/* The profiler's look at the heads that go into a norm, or have come out. */
static void show_heads(const Session *s, const Layer *layer, Site site, Role role, bool out, int n) {
    const Config *c = &s->model->config;
    if (!s->profile) return;
#pragma omp for schedule(static, 1) nowait
    for (int task = 0; task < n_tasks(c); task++) {
        const Heads heads = heads_at(s, task, n);
        for (int t = 0; t < n && heads.role == role; t++)
            profile_vector(s, layer, site, out, head_vector(c, &heads, heads.first, t),
                           (heads.end - heads.first) * c->head_size, (int)heads.stride);
    }
    (out ? profile_mark : profile_part)(s, layer, SITE_PROFILE);
}

/* Each query, or each key, normalized by itself, in place (Henry et al. 2020; as Qwen 3 has it). */
static void norm_heads(Session *s, const Layer *layer, Site site, Role role, const Norm *norm, int n) {
    const Config *c = &s->model->config;
    if (!norm->gamma) return;
    show_heads(s, layer, site, role, false, n);
#pragma omp for schedule(static, 1) nowait
    for (int task = 0; task < n_tasks(c); task++) {
        const Heads heads = heads_at(s, task, n);
        for (int t = 0; t < n && heads.role == role; t++)
            for (int h = heads.first; h < heads.end; h++) {
                float *v = head_vector(c, &heads, h, t);
                norm_token(v, v, norm, c->head_size);
            }
    }
    profile_mark(s, layer, site);
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

/* Where block b of a head starts in KvLayer's arrays, in elements. */
static size_t kv_start(const Config *c, int block, int head) {
    return ((size_t)block * (size_t)c->n_kv_heads + (size_t)head) * (size_t)c->head_size * KV_BLOCK;
}

/* Puts one head's key (or value) of position pos into the cache. */
static void remember(const Session *s, void *cache, const float *v, int head, int pos) {
    const Config *c = &s->model->config;
    const size_t at = kv_start(c, pos / KV_BLOCK, head) + (size_t)(pos % KV_BLOCK);
    if (s->kv_type == KV_F32)
        for (int i = 0; i < c->head_size; i++) ((float *)cache)[at + (size_t)(i * KV_BLOCK)] = v[i];
    else
        for (int i = 0; i < c->head_size; i++) ((uint16_t *)cache)[at + (size_t)(i * KV_BLOCK)] = f32_to_f16(v[i]);
}

static void rotate_and_remember(Session *s, const KvLayer *kv, int n, int pos) {
    const Config *c = &s->model->config;
#pragma omp for schedule(static, 1)
    for (int task = 0; task < n_tasks(c); task++) {
        const Heads heads = heads_at(s, task, n);
        for (int t = 0; t < n; t++)
            for (int h = heads.first; h < heads.end; h++) {
                float *v = head_vector(c, &heads, h, t);
                if (heads.role != VALUE) rotate(c, v, s->rope + (size_t)(t * c->rope_dims));
                if (heads.role != QUERY) remember(s, heads.role == KEY ? kv->keys : kv->values, v, h, pos + t);
            }
    }
}

/* ---- attend ------------------------------------------------------------------------ */

enum {
    BLOCK_VECTORS = KV_BLOCK / LANES,
    SUMS = 8 /* elements of the result in flight */
};

/* One vector of row `row` (an element of the head) of a block: neighbouring keys. */
INLINE vf kv_load(const void *cache, KvType type, size_t block, int row, int vector) {
    const size_t at = block + (size_t)(row * KV_BLOCK + vector * LANES);
    return type == KV_F32 ? vload((const float *)cache + at) : vload_f16((const uint16_t *)cache + at, LANES);
}

/* The first n_keys lanes of a block's vector are real; the others get `other`. */
INLINE vf mask_keys(vf v, int vector, int n_keys, float other) {
    const int n = n_keys - vector * LANES;
    return n >= LANES ? v : vselect(vlane() < n, v, vset(other));
}

/* scores[k] = q . key k for n_keys keys, -infinity up to whole blocks; returns
 * the largest. */
INLINE float score_keys(const Config *c, float *scores, const float *q, const void *keys, KvType type, int head,
                        int n_keys) {
    vf max = vset(-INFINITY);
    for (int b = 0; b * KV_BLOCK < n_keys; b++) {
        const size_t block = kv_start(c, b, head);
        vf sums[BLOCK_VECTORS] = {{0}};
        for (int i = 0; i < c->head_size; i++)
            for (int j = 0; j < BLOCK_VECTORS; j++)
                sums[j] = vfma(vset(q[i]), kv_load(keys, type, block, i, j), sums[j]);
        for (int j = 0; j < BLOCK_VECTORS; j++) {
            const vf s = mask_keys(sums[j], j, n_keys - b * KV_BLOCK, -INFINITY);
            max = vmax(s, max);
            vstore(scores + (size_t)b * KV_BLOCK + j * LANES, s);
        }
    }
    return vmax_lane(max);
}

/* scores = e^(scale (scores - max)), in whole blocks; returns their sum. */
INLINE float exponentials(float *scores, int n_keys, float max, float scale) {
    vf sum = {0};
    for (int i = 0; i < n_keys; i += LANES) {
        const vf e = vexp((vload(scores + i) - max) * scale);
        sum += e;
        vstore(scores + i, e);
    }
    for (int i = (n_keys - 1) / LANES + 1; i % BLOCK_VECTORS; i++) vstore(scores + (size_t)i * LANES, (vf){0});
    return vsum(sum);
}

/* out[i] = scale * sum_k p[k] value_k[i] for `count` <= SUMS elements from `first` on. */
INLINE void sum_values(const Config *c, float *out, const float *p, const void *values, KvType type, int head,
                       int n_keys, int first, const int count, float scale) {
    vf sums[SUMS];
    for (int i = 0; i < count; i++) sums[i] = (vf){0};
    for (int b = 0; b * KV_BLOCK < n_keys; b++) {
        const size_t block = kv_start(c, b, head);
        for (int j = 0; j < BLOCK_VECTORS; j++) {
            const vf pj = vload(p + (size_t)b * KV_BLOCK + j * LANES);
            for (int i = 0; i < count; i++) {
                /* behind the last key is memory that nobody has written: not to be multiplied, even by 0 */
                const vf v = mask_keys(kv_load(values, type, block, first + i, j), j, n_keys - b * KV_BLOCK, 0);
                sums[i] = vfma(pj, v, sums[i]);
            }
        }
    }
    for (int i = 0; i < count; i++) out[first + i] = vsum(sums[i]) * scale;
}

/* One query against the n_keys keys up to its position: softmax(q k / sqrt(size)) v. */
INLINE void attend(const Config *c, float *out, const float *q, const KvLayer *kv, KvType type, int head, int n_keys,
                   float *scores) {
    const int size = c->head_size, kv_head = head / (c->n_heads / c->n_kv_heads);
    const float max = score_keys(c, scores, q, kv->keys, type, kv_head, n_keys);
    const float scale = 1.0f / exponentials(scores, n_keys, max, 1.0f / sqrtf((float)size));
    int i = 0;
    for (; i + SUMS <= size; i += SUMS) sum_values(c, out, scores, kv->values, type, kv_head, n_keys, i, SUMS, scale);
    for (; i < size; i += 2) sum_values(c, out, scores, kv->values, type, kv_head, n_keys, i, 2, scale);
}

void attention(Session *s, const Layer *layer, const KvLayer *kv, const float *xn, int n, int pos) {
    const Config *c = &s->model->config;
    const size_t size = (size_t)c->head_size;
    /* quantized, if any of the three wants it */
    const Tensor *w = type_wants_bytes(layer->wq.type)   ? &layer->wq
                      : type_wants_bytes(layer->wk.type) ? &layer->wk
                                                         : &layer->wv;
    Input in = input_prepare(&s->input, w, xn, n);
    project(s, layer, &in, n);
    profile_part(s, layer, SITE_QKV_ROPE);
    norm_heads(s, layer, SITE_Q_NORM, QUERY, &layer->q_norm, n);
    norm_heads(s, layer, SITE_K_NORM, KEY, &layer->k_norm, n);
    rotate_and_remember(s, kv, n, pos);
    profile_mark(s, layer, SITE_QKV_ROPE);

    float *scores = s->scores + (size_t)omp_get_thread_num() * (size_t)s->kv_blocks * KV_BLOCK;
    /* later tokens see more keys: deal the work out like cards */
#pragma omp for schedule(static, 1) collapse(2)
    for (int t = 0; t < n; t++)
        for (int head = 0; head < c->n_heads; head++) {
            size_t at = ((size_t)t * (size_t)c->n_heads + (size_t)head) * size;
            if (s->kv_type == KV_F32)
                attend(c, s->att + at, s->q + at, kv, KV_F32, head, pos + t + 1, scores);
            else
                attend(c, s->att + at, s->q + at, kv, KV_F16, head, pos + t + 1, scores);
        }
    profile_mark(s, layer, SITE_ATTENTION);
    in = input_prepare(&s->input, &layer->wo, s->att, n);
    matmul(s->x, &layer->wo, &in, n, true);
    profile_mark(s, layer, SITE_ATTN_OUT);
}
