/* attention.c: the attention half of a decoder layer.
 *
 * Owns projections to heads, rotary positions, the layout of the KV cache and
 * causal grouped-query attention. The products with weights are matmul.c's,
 * the cache's memory is the session's (model.c).
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

/* Rotates the pairs (v[2i], v[2i + 1]) by the angles in rope[i] = {cos, sin}. */
static void rotate(float *v, const float *rope, int head_size) {
    for (int i = 0; i < head_size; i += 2) {
        float a = v[i], b = v[i + 1], cos = rope[i], sin = rope[i + 1];
        v[i] = a * cos - b * sin;
        v[i + 1] = a * sin + b * cos;
    }
}

static void kv_store(void *base, KvType type, size_t at, float value) {
    if (type == KV_F32)
        ((float *)base)[at] = value;
    else
        ((uint16_t *)base)[at] = f32_to_f16(value);
}

/* Where block b of a head starts in KvLayer's arrays, in elements. */
static size_t kv_start(const Config *c, int block, int head) {
    return ((size_t)block * (size_t)c->n_kv_heads + (size_t)head) * (size_t)c->head_size * KV_BLOCK;
}

/* Puts one head's key (or value) of position pos into the cache. */
static void remember(const Session *s, const KvLayer *kv, const float *v, int head, int pos, bool is_key) {
    const Config *c = &s->model->config;
    const size_t lane = (size_t)pos % KV_BLOCK, size = (size_t)c->head_size;
    size_t at = kv_start(c, pos / KV_BLOCK, head) + (is_key ? lane : lane * size);
    for (size_t i = 0; i < size; i++)
        kv_store(is_key ? kv->keys : kv->values, s->kv_type, at + (is_key ? i * KV_BLOCK : i), v[i]);
}

/* One head of the queries, keys or values, for all n tokens. Heads are numbered
 * through: queries, then keys, then values. */
static void project_head(Session *s, const Layer *layer, const KvLayer *kv, const Input *in, int head, int n, int pos) {
    const Config *c = &s->model->config;
    const int size = c->head_size;
    const bool is_query = head < c->n_heads, is_key = !is_query && head < c->n_heads + c->n_kv_heads;
    const Tensor *w = is_query ? &layer->wq : is_key ? &layer->wk : &layer->wv;
    const int h = is_query ? head : (head - c->n_heads) % c->n_kv_heads;
    float *out = is_query ? s->q : s->kv_rows + (is_key ? 0 : (size_t)n * (size_t)w->rows);

    matmul_rows(out, (size_t)w->rows, w, h * size, size, in, n, false);
    for (int t = 0; t < n; t++) {
        float *v = out + (size_t)t * (size_t)w->rows + (size_t)(h * size);
        if (is_query || is_key) rotate(v, s->rope + (size_t)t * (size_t)size, size);
        if (!is_query) remember(s, kv, v, h, pos + t, is_key);
    }
}

/* ---- attend ------------------------------------------------------------------------ */

INLINE vf kv_load(const void *base, KvType type, size_t at, int n) {
    if (type == KV_F16) return vload_f16((const uint16_t *)base + at, n);
    return n == LANES ? vload((const float *)base + at) : vload_n((const float *)base + at, n);
}

/* scores[0 .. KV_BLOCK) of one block: q . k for KV_BLOCK keys side by side. */
INLINE void score_block(float *scores, const float *q, const void *keys, KvType type, size_t at, int size) {
    vf sum[KV_BLOCK / LANES];
    for (int j = 0; j < KV_BLOCK / LANES; j++) sum[j] = (vf){0};
    for (int i = 0; i < size; i++, at += KV_BLOCK)
        for (int j = 0; j < KV_BLOCK / LANES; j++)
            sum[j] = vfma(vset(q[i]), kv_load(keys, type, at + (size_t)(j * LANES), LANES), sum[j]);
    for (int j = 0; j < KV_BLOCK / LANES; j++) vstore(scores + j * LANES, sum[j]);
}

/* scores = e^(scale (scores - max)) over n keys, padded with zeros to whole
 * blocks; returns their sum. */
static float softmax_exp(float *scores, int n, float scale) {
    const int padded = (n - 1) / KV_BLOCK * KV_BLOCK + KV_BLOCK;
    for (int i = n; i < padded; i++) scores[i] = -INFINITY;
    vf max = vset(-INFINITY), sum = {0};
    for (int i = 0; i < padded; i += LANES) max = vmax(vload(scores + i), max);
    float largest = max[0];
    for (int j = 1; j < LANES; j++) largest = max[j] > largest ? max[j] : largest;
    for (int i = 0; i < padded; i += LANES) {
        vf e = vexp((vload(scores + i) - largest) * scale);
        sum += e;
        vstore(scores + i, e);
    }
    return vsum(sum);
}

/* out[0 .. width) += sum_t p[t] v[t], for n values of one block. Four sums,
 * taken in turn, hide the latency of the additions. */
INLINE void add_values(vf sums[4], const float *p, const void *values, KvType type, size_t at, int size, int width,
                       int n) {
    if (n == KV_BLOCK)
        for (int t = 0; t < KV_BLOCK; t++, at += (size_t)size)
            sums[t % 4] = vfma(vset(p[t]), kv_load(values, type, at, width), sums[t % 4]);
    else
        for (int t = 0; t < n; t++, at += (size_t)size)
            sums[t % 4] = vfma(vset(p[t]), kv_load(values, type, at, width), sums[t % 4]);
}

/* One query against the n_keys keys before and at its position. */
INLINE void attend(const Session *s, float *out, const float *q, const KvLayer *kv, KvType type, int head, int n_keys,
                   float *scores) {
    const Config *c = &s->model->config;
    const int size = c->head_size, kv_head = head / (c->n_heads / c->n_kv_heads);
    const int blocks = (n_keys - 1) / KV_BLOCK + 1;
    for (int b = 0; b < blocks; b++)
        score_block(scores + (size_t)b * KV_BLOCK, q, kv->keys, type, kv_start(c, b, kv_head), size);
    const float inverse = 1.0f / softmax_exp(scores, n_keys, 1.0f / sqrtf((float)size));
    for (int i = 0; i < size; i += LANES) {
        const int width = size - i < LANES ? size - i : LANES;
        vf sums[4] = {{0}};
        for (int b = 0; b < blocks; b++) {
            int n = n_keys - b * KV_BLOCK;
            add_values(sums, scores + (size_t)b * KV_BLOCK, kv->values, type, kv_start(c, b, kv_head) + (size_t)i, size,
                       width, n < KV_BLOCK ? n : KV_BLOCK);
        }
        vstore_n(out + i, ((sums[0] + sums[1]) + (sums[2] + sums[3])) * inverse, width);
    }
}

void attention(Session *s, const Layer *layer, const KvLayer *kv, const float *xn, int n, int pos) {
    const Config *c = &s->model->config;
    const size_t size = (size_t)c->head_size;
    Input in = input_prepare(&s->input, &layer->wq, xn, n);
#pragma omp for schedule(static)
    for (int head = 0; head < c->n_heads + 2 * c->n_kv_heads; head++) project_head(s, layer, kv, &in, head, n, pos);

    float *scores = s->scores + (size_t)omp_get_thread_num() * (size_t)s->kv_blocks * KV_BLOCK;
    /* later tokens see more keys: deal the work out like cards */
#pragma omp for schedule(static, 1) collapse(2)
    for (int t = 0; t < n; t++)
        for (int head = 0; head < c->n_heads; head++) {
            size_t at = ((size_t)t * (size_t)c->n_heads + (size_t)head) * size;
            if (s->kv_type == KV_F32)
                attend(s, s->att + at, s->q + at, kv, KV_F32, head, pos + t + 1, scores);
            else
                attend(s, s->att + at, s->q + at, kv, KV_F16, head, pos + t + 1, scores);
        }
    in = input_prepare(&s->input, &layer->wo, s->att, n);
    matmul(s->x, &layer->wo, &in, n, true);
}
