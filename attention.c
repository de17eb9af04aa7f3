/* attention.c: the attention half of a decoder layer, x += attention(norm(x)).
 *
 *     q, k, v = Wq xn, Wk xn, Wv xn                project        (Vaswani et al. 2017, sec. 3.2)
 *     q, k = norm(q), norm(k), by head or whole    norm_heads     some models (Henry et al. 2020)
 *     q, k rotate by their positions               rotate_heads   (Su et al. 2021, sec. 3.4): rope.c
 *     the cache keeps k, v                         write_heads    kv_cache.c
 *     out = softmax(scale q k) v                   attend         under the causal mask; scale = 1 / sqrt(head_size)
 *     x += Wo out                                  attention      the residual
 *
 * Grouped queries (Ainslie et al. 2023): n_heads / n_kv_heads query heads attend to one KV head.
 * Causal mask: a query sees the keys up to its own position, n_keys of them; where a layer has a window
 * (Beltagy et al. 2020, sec. 3.1), only the last of these. Some models cap the scores (Gemma 2, sec. 2).
 *
 * Owns these steps. The products with weights are matmul.c's, norms norm.c's, rotation rope.c's,
 * the cache kv_cache.c's. Each score is computed by itself, and values are summed in vectors of LANES
 * positions from position 0 up, for every query in the same order: a token's result depends on the
 * tokens before it alone, and not on how they were divided into chunks.
 */
#include "kernels/simd.h"
#include "kernels/team.h"
#include "model.h"
#include <math.h>
#include <omp.h>

/* ---- queries, keys, values ------------------------------------------------------ */

/* The heads of one projection (queries, keys or values) that this rank has, and which of them the calling thread
 * works on: from the product to the cache, so that no barrier is needed in between. */
typedef struct {
    float *rows;   /* of token 0, the first of them */
    size_t stride; /* floats to a token, with the heads of other ranks */
    int size;      /* floats to a head */
    int first, n;  /* the thread's heads */
} Heads;

static int clamp(int i, int most) { return i < 0 ? 0 : i > most ? most : i; }

/* How many heads of a projection this rank has. */
static int heads_of(const Session *s, const Tensor *w) { return w->rows / s->model->config.head_size; }

/* Whether each thread has KV heads of its own, with all that belongs to them: it then needs nothing of the others until
 * its outputs meet theirs, and of many caches reads what it wrote. One text alone prefers longer streams of weights. */
static bool has_own_groups(const Session *s, const Layer *layer) {
    return s->n_spans > 1 && heads_of(s, &layer->wk) % omp_get_num_threads() == 0 && !s->model->config.wide_head_norms;
}

/* Without groups of their own all heads, keys before queries before values, are divided evenly among the threads.
 * `before`: how many heads the projections in front of this one have. */
static Heads own_heads(const Session *s, const Layer *layer, float *rows, const Tensor *w, int before) {
    const bool groups = has_own_groups(s, layer);
    const int n_heads = heads_of(s, w);
    const int all = groups ? n_heads : heads_of(s, &layer->wq) + 2 * heads_of(s, &layer->wk);
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    if (groups) before = 0;
    const int first = clamp(all * thread / threads - before, n_heads);
    const int end = clamp(all * (thread + 1) / threads - before, n_heads);
    return (Heads){rows + tensor_first_row(w), (size_t)tensor_all_rows(w), s->model->config.head_size, first,
                   end - first};
}

/* The thread's head number i of token t. */
static float *head_of(const Heads *h, int i, int t) {
    return h->rows + (size_t)t * h->stride + (size_t)((h->first + i) * h->size);
}

static void project(const Heads *h, const Tensor *w, const Input *in, int n) {
    if (h->n > 0) matmul_rows(h->rows, h->stride, w, h->first * h->size, h->n * h->size, in, n, false);
}

/* Normalizes each head of n tokens by itself, in place. */
static void norm_heads(Session *s, int layer, Site site, const Norm *norm, const Heads *h, int n) {
    if (!norm->gamma) return;
    probe_heads(s->probe, layer, site, false, head_of(h, 0, 0), h->stride, n, h->n, h->size);
    for (int i = 0; i < h->n; i++)
        for (int t = 0; t < n; t++) norm_token(head_of(h, i, t), head_of(h, i, t), norm, h->size);
    probe_mark(s->probe, layer, site);
    probe_heads(s->probe, layer, site, true, head_of(h, 0, 0), h->stride, n, h->n, h->size);
}

/* All heads of a token as one, from token `first` on. */
static Heads whole_rows(float *rows, int dim, int first) {
    return (Heads){rows + (size_t)first * (size_t)dim, (size_t)dim, dim, 0, 1};
}

/* Normalizes all heads of a token together, in place: the threads share the tokens, and need what others projected. */
static void norm_rows(Session *s, const Layer *layer, int n) {
    const Config *c = &s->model->config;
    const int share = (n - 1) / omp_get_num_threads() + 1, first = clamp(omp_get_thread_num() * share, n);
    const int count = clamp(n - first, share); /* one token is the first thread's, whose time the profile shows */
    const Heads q = whole_rows(s->q, c->n_heads * c->head_size, first);
    const Heads k = whole_rows(s->k, c->n_kv_heads * c->head_size, first);
    team_wait(s->probe, layer->index, SITE_QKV);
    team_gather(s->probe, layer->index, s->q, &layer->wq, n, true);
    team_gather(s->probe, layer->index, s->k, &layer->wk, n, true);
    if (count > 0) norm_heads(s, layer->index, SITE_Q_NORM, &layer->q_norm, &q, count);
    if (count > 0) norm_heads(s, layer->index, SITE_K_NORM, &layer->k_norm, &k, count);
    team_wait(s->probe, layer->index, SITE_K_NORM);
}

static void rotate_heads(const Session *s, RopeUse use, const Heads *h, int n) {
    if (use == ROPE_NONE) return;
    const Rope *rope = &s->ropes[use];
    for (int i = 0; i < h->n; i++)
        for (int t = 0; t < n; t++) rope_rotate(rope, head_of(h, i, t), s->angles[use] + (size_t)(t * rope->dims));
}

/* Writes the thread's keys or values into the caches of their sequences. */
static void write_heads(const Session *s, int layer, KvKind kind, const Heads *h) {
    for (const Span *a = s->spans; a < s->spans + s->n_spans; a++)
        for (int i = 0; i < h->n; i++)
            kv_write(&s->sequences[a->sequence].kv, layer, kind, h->first + i, head_of(h, i, a->first), h->stride, a->n,
                     a->pos);
}

/* Wq, Wk or Wv: one that multiplies int8 activations if there is one, so that the input is quantized. */
static const Tensor *input_weight(const Layer *layer) {
    return type_wants_bytes(layer->wq.type) ? &layer->wq : type_wants_bytes(layer->wk.type) ? &layer->wk : &layer->wv;
}

/* ---- attend ---------------------------------------------------------------------- */

enum { BLOCK_VECTORS = KV_BLOCK / LANES };

/* Up to KV_QUERIES queries that visit one KV head together: those of neighbouring tokens and of the
 * query heads that share it. They see the same keys, but for the last few. */
typedef struct {
    int size;     /* of a head */
    int blocks;   /* that the cache has room for */
    size_t start; /* of the KV head in the cache, in elements */
    float scale;  /* of the scores, */
    float cap;    /* which are capped then; 0: they are not */
    bool asks;    /* for what it reads next, as products do here (lab/tune.c), */
    size_t next;  /* and for the keys that begin there, if they are others: those of the thread's next head */
    int before;   /* blocks of positions in front of those that the cache holds: a multiple of `blocks` */
    /* vectors of keys: some query sees those from `from` to `end`, every query all of those from whole to whole_end */
    int from, whole, whole_end, end;
    const float *q[KV_QUERIES];
    float *out[KV_QUERIES], *scores[KV_QUERIES];
    int first_key[KV_QUERIES], n_keys[KV_QUERIES]; /* a query sees the keys from first_key to n_keys - 1 */
} Queries;

INLINE vf load_cached(KvType type, const void *cache, size_t at) {
    return type == KV_F32 ? vload((const float *)cache + at) : vload_f16((const uint16_t *)cache + at, LANES);
}

/* Where element 0 of vector v is, in a part of `width` elements of the cache, whose blocks may be a ring; element i is
 * i * KV_BLOCK behind it. */
INLINE size_t vector_at(const Queries *a, int v, int width) {
    int block = v / BLOCK_VECTORS - a->before;
    if (block >= a->blocks) block -= a->blocks;
    return (size_t)block * (size_t)width * KV_BLOCK + (size_t)(v % BLOCK_VECTORS * LANES);
}

/* Asks for n elements of a block, from element `at` of the cache on. The runs of a head are too short for a processor
 * to notice by itself that they are read from one end to the other. */
INLINE void request_block(KvType type, const void *cache, size_t at, int n) {
    const size_t element = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    const char *block = (const char *)cache + at * element;
    for (size_t i = 0; i < (size_t)n * KV_BLOCK * element; i += CACHE_LINE) prefetch_read(block + i);
}

/* Asks for the values of all positions that the query sees. */
INLINE void request_values(const Queries *a, KvType type, const void *values) {
    for (int i = 0; i < a->size; i += KV_VALUE_PART) {
        const int width = kv_part_width(a->size, KV_VALUE_PART, i);
        const size_t start = a->start + kv_at(a->size, KV_VALUE_PART, a->blocks, 0, i);
        for (int v = a->from; v < a->end; v += BLOCK_VECTORS)
            request_block(type, values, start + vector_at(a, v, width), width);
    }
}

/* The causal mask, and the window's: the lanes of vector v whose keys query k sees. */
INLINE vi visible(const Queries *a, int v, int k) {
    const vi lane = vlane();
    return (lane < a->n_keys[k] - v * LANES) & (lane >= a->first_key[k] - v * LANES);
}

/* scores = q . key for `count` vectors of keys, from vector v on in steps of `apart`. */
INLINE void score_vectors(const Queries *a, KvType type, const void *keys, int v, int apart, const int count,
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
        for (int j = 0; j < count; j++) sums[k][j] = vfma(vset(a->q[k][i]), key[j], sums[k][j]);
    }
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int j = 0; j < count; j++) vstore(a->scores[k] + (v + j * apart) * LANES, sums[k][j]);
}

/* scores = -infinity where the mask hides a key: in vectors that query k does not see whole. */
static void mask_scores(const Queries *a, int k) {
    for (int v = a->from; v < a->end; v++) {
        if (v >= a->whole && v < a->whole_end) continue;
        const vf score = vload(a->scores[k] + v * LANES);
        vstore(a->scores[k] + v * LANES, vselect(visible(a, v, k), score, vset(-INFINITY)));
    }
}

/* scores = cap tanh(scale scores / cap); what a mask hides stays hidden. */
static void cap_scores(float *scores, int from, int end, float scale, float cap) {
    for (int v = from; v < end; v++) {
        const vf z = vload(scores + v * LANES);
        vstore(scores + v * LANES, vselect(z == -INFINITY, z, vcap(scale * z, cap)));
    }
}

/* scores = e^(scale (scores - the largest of them)); returns 1 / their sum. */
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

/* sums[k][i] += p_k[j] value_j[i] for the positions j of vector v, values[0] being element 0 of the first of them.
 * `masked`: some query does not see all of them. What a query does not see counts as 0, whatever the cache holds there:
 * NaN times 0 would be NaN. */
INLINE void add_values(vf sums[KV_QUERIES][KV_VALUE_PART], const Queries *a, KvType type, const void *values, size_t at,
                       int v, const bool masked, const int count, const int n) {
    vf p[KV_QUERIES];
    vi mask[KV_QUERIES];
    UNROLL
    for (int k = 0; k < n; k++) {
        p[k] = vload(a->scores[k] + v * LANES);
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
INLINE void sum_values(const Queries *a, KvType type, const KvLayer *kv, const float *scales, int first,
                       const int count, const int n) {
    const int width = kv_part_width(a->size, KV_VALUE_PART, first / KV_VALUE_PART * KV_VALUE_PART);
    const size_t start = a->start + kv_at(a->size, KV_VALUE_PART, a->blocks, 0, first);
    vf sums[KV_QUERIES][KV_VALUE_PART];
    UNROLL
    for (int k = 0; k < n; k++) UNROLL
    for (int i = 0; i < count; i++) sums[k][i] = (vf){0};
    for (int v = a->from; v < a->end; v++) {
        const size_t at = start + vector_at(a, v, width);
        if (n == 1 && a->asks && a->next != a->start)
            request_block(type, kv->keys, a->next + vector_at(a, v, a->size) + (size_t)first * KV_BLOCK, count);
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
            memcpy(a->out[k] + first + i, &four, (size_t)(count < 4 ? count : 4) * sizeof(float));
        }
    }
}

/* out = softmax(scale q k) v for n queries. Each is computed alike, whoever else is in the group. */
INLINE void attend_group(const Queries *a, const KvLayer *kv, KvType type, const int n) {
    const int size = a->size, count = n == 1 ? 16 : n == 2 ? 8 : 4;
    const int streams = n == 1 ? 4 : 2; /* the cache is read at so many places at once */
    const int apart = (a->end - a->from) / streams;
    float scales[KV_QUERIES];
    int v = a->from, i = 0;
    if (n == 1 && a->asks) request_values(a, type, kv->values);
    for (; v < a->from + apart; v++) score_vectors(a, type, kv->keys, v, apart, streams, n);
    for (v = a->from + apart * streams; v < a->end; v++) score_vectors(a, type, kv->keys, v, 0, 1, n);
    for (int k = 0; k < n; k++) mask_scores(a, k);
    for (int k = 0; k < n && a->cap != 0; k++) cap_scores(a->scores[k], a->from, a->end, a->scale, a->cap);
    for (int k = 0; k < n; k++) scales[k] = softmax(a->scores[k], a->from, a->end, a->cap != 0 ? 1 : a->scale);
    for (; i + count <= size; i += count) sum_values(a, type, kv, scales, i, count, n);
    for (; i + 4 <= size; i += 4) sum_values(a, type, kv, scales, i, 4, n);
    for (; i < size; i += 2) sum_values(a, type, kv, scales, i, 2, n);
}

/* One function for each type of cache and number of queries, so that sums stay in registers. */
#define ATTEND(name, type, n)                                                                                          \
    NOINLINE void name(const Queries *a, const KvLayer *kv) { attend_group(a, kv, type, n); }
ATTEND(attend_1, KV_F32, 1)
ATTEND(attend_2, KV_F32, 2)
ATTEND(attend_4, KV_F32, 4)
ATTEND(attend_1_f16, KV_F16, 1)
ATTEND(attend_2_f16, KV_F16, 2)
ATTEND(attend_4_f16, KV_F16, 4)

/* Attends with queries first to first + n - 1 that a span has of KV head `head`. Query i of a KV head is that of the
 * span's step i / queries_per_kv_head and of query head i % queries_per_kv_head of the group. */
static void attend(Session *s, const Layer *layer, const Span *span, int head, int first, int n) {
    const Config *c = &s->model->config;
    const KvLayer *kv = &s->sequences[span->sequence].kv.layers[layer->index];
    const int queries_per_kv_head = c->n_heads / c->n_kv_heads;
    const int next = head + (has_own_groups(s, layer) ? 1 : omp_get_num_threads());
    const size_t room = (size_t)s->room, elements = kv_head_elements(c->head_size, kv->blocks);
    const int before =
        tensor_first_row(&layer->wq); /* KV heads and their queries are counted from this rank's first on */
    float *scores = s->scores + (size_t)omp_get_thread_num() * KV_QUERIES * room;
    Queries a = {.size = c->head_size,
                 .blocks = kv->blocks,
                 .start = (size_t)head * elements,
                 .asks = layer->wo.request.ahead > 0,
                 .next = (size_t)(next < heads_of(s, &layer->wk) ? next : head) * elements,
                 .scale = c->attention_scale != 0 ? c->attention_scale : 1.0f / sqrtf((float)c->head_size),
                 .cap = c->attention_cap};
    for (int k = 0; k < n; k++) {
        const int t = (first + k) / queries_per_kv_head;
        const int query_head = head * queries_per_kv_head + (first + k) % queries_per_kv_head;
        const size_t at = ((size_t)(span->first + t) * (size_t)c->n_heads + (size_t)query_head) * (size_t)c->head_size;
        a.q[k] = s->q + before + at;
        a.out[k] = s->att + before + at;
        a.scores[k] = scores + (size_t)k * room;
        a.n_keys[k] = span->pos + t + 1;
        a.first_key[k] = layer->window > 0 && a.n_keys[k] > layer->window ? a.n_keys[k] - layer->window : 0;
    }
    a.from = a.first_key[0] / LANES;
    a.end = (a.n_keys[n - 1] - 1) / LANES + 1;
    a.whole = clamp((a.first_key[n - 1] + LANES - 1) / LANES, a.end);
    a.whole_end = a.n_keys[0] / LANES;
    a.before = a.from / BLOCK_VECTORS / a.blocks * a.blocks;
    static void (*const kinds[][3])(const Queries *, const KvLayer *) = {
        [KV_F32] = {attend_1, attend_2, attend_4}, [KV_F16] = {attend_1_f16, attend_2_f16, attend_4_f16}};
    kinds[s->kv_type][n / 2](&a, kv);
}

/* Attends with up to KV_QUERIES queries from `first` on, of the n that a span has of a KV head. */
static void attend_some(Session *s, const Layer *layer, const Span *span, int head, int first, int n) {
    const int end = first + KV_QUERIES < n ? first + KV_QUERIES : n;
    for (int i = first, count; i < end; i += count) {
        count = end - i > 3 ? 4 : end - i > 1 ? 2 : 1;
        attend(s, layer, span, head, i, count);
    }
}

/* All queries of the chunk, those of its own KV heads by each thread. Without them queries are dealt to the threads in
 * turn, some at a time, because later ones of a span see more keys. */
static void attend_all(Session *s, const Layer *layer) {
    const Config *c = &s->model->config;
    const bool groups = has_own_groups(s, layer);
    const int kv_heads = heads_of(s, &layer->wk), share = kv_heads / omp_get_num_threads();
    const int threads = groups ? 1 : omp_get_num_threads();
    const int own = groups ? omp_get_thread_num() * share : 0, end = groups ? own + share : kv_heads;
    int turn = groups ? 0 : omp_get_thread_num(); /* until the thread's next ones */
    for (const Span *span = s->spans; span < s->spans + s->n_spans; span++) {
        const int n = span->n * (c->n_heads / c->n_kv_heads); /* queries of each KV head */
        for (int first = 0; first < n; first += KV_QUERIES)
            for (int head = own; head < end; head++) {
                if (turn == 0) attend_some(s, layer, span, head, first, n);
                turn = turn ? turn - 1 : threads - 1;
            }
    }
}

/* ---- the sublayer ----------------------------------------------------------------- */

void attention(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    const Config *c = &s->model->config;
    const int l = layer->index, n_keys = heads_of(s, &layer->wk), n_queries = heads_of(s, &layer->wq);
    const Heads k = own_heads(s, layer, s->k, &layer->wk, 0), q = own_heads(s, layer, s->q, &layer->wq, n_keys);
    const Heads v = own_heads(s, layer, s->v, &layer->wv, n_keys + n_queries);
    Input in = input_prepare(&s->input, input_weight(layer), xn, n);
    project(&k, &layer->wk, &in, n);
    project(&q, &layer->wq, &in, n);
    project(&v, &layer->wv, &in, n);
    probe_mark(s->probe, l, SITE_QKV);
    if (c->wide_head_norms) {
        norm_rows(s, layer, n);
    } else {
        norm_heads(s, l, SITE_Q_NORM, &layer->q_norm, &q, n);
        norm_heads(s, l, SITE_K_NORM, &layer->k_norm, &k, n);
    }
    rotate_heads(s, layer->rope, &k, n);
    rotate_heads(s, layer->rope, &q, n);
    write_heads(s, l, KV_KEYS, &k);
    write_heads(s, l, KV_VALUES, &v);
    probe_mark(s->probe, l, SITE_ROPE);
    if (!has_own_groups(s, layer)) team_wait(s->probe, l, SITE_ROPE); /* queries attend to keys of other threads */

    attend_all(s, layer);
    team_end_product(s->probe, l, SITE_ATTENTION, s->att, &layer->wq, n);

    in = input_prepare(&s->input, &layer->wo, s->att, n);
    matmul_add(x, &layer->wo, &in, n); /* the residual: x += Wo out */
    team_end_product(s->probe, l, SITE_ATTN_OUT, x, &layer->wo, n);
}
