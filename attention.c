/* attention.c: the attention half of a decoder layer, x += attention(norm(x)).
 *
 *     q, k, v = Wq xn, Wk xn, Wv xn                project
 *     q, k = norm(q), norm(k), by head or whole    norm_heads, some models
 *     q, k rotate by their positions               rotate_heads
 *     k, v go into the cache                       write_heads
 *     out = softmax(q k / sqrt(head_size)) v       attend, causal mask
 *     x += Wo out                                  attention, the residual
 *
 * Attention is Vaswani et al. 2017, sec. 3.2; norms of queries and keys are
 * Henry et al. 2020; rotation is Su et al. 2021, sec. 3.4.
 * Grouped queries (Ainslie et al. 2023): n_heads / n_kv_heads query heads
 * attend to one KV head. Causal mask: a query sees the keys up to its own
 * position, n_keys of them; in a layer with a window (Beltagy et al. 2020, sec.
 * 3.1), only the last of these. Some models cap the scores (Gemma 2, sec. 2).
 *
 * Owns these steps. Products with weights are in kernels/matmul.c, norms in
 * norm.c, rotation in rope.c, the cache in kv_cache.c. Each score is
 * computed separately, and values are summed in vectors of LANES positions
 * from the first visible one up, for every query in the same order
 * (kernels/attend.c): a token's result depends only on the tokens up to it,
 * not on their division into chunks.
 * Tests: attention, plain, invariance.
 */
#include "base/memory.h"
#include "kernels/attend.h"
#include "kernels/input.h"
#include "kernels/matmul.h"
#include "kernels/team.h"
#include "norm.h"
#include "rope.h"
#include "session.h"
#include <math.h>
#include <omp.h>

/* ---- queries, keys, values --------------------------------------------- */

/* This process's heads of one projection (queries, keys or values), and the
 * calling thread's part of them. A thread works on its heads from the product
 * to the cache; only joint norms of all heads need barriers in between. */
typedef struct {
    float *rows;   /* of all processes' heads, of token 0 */
    size_t stride; /* floats per row */
    int size;      /* floats per head */
    int first, n;  /* the thread's heads, of this process's */
    int channel;   /* where in a row the thread's heads begin */
} Heads;

static int clamp(int i, int max) {
    return i < 0 ? 0 : i > max ? max : i;
}

/* The number of heads of a projection in this process. */
static int heads_of(const Session *s, const Tensor *w) {
    return w->rows / s->model->config.head_size;
}

/* Whether each thread owns whole KV heads with their queries. Each thread then
 * reads the part of the cache that it wrote, so no barrier is needed between
 * projection and attention. */
static bool has_own_groups(const Session *s, const Layer *layer) {
    return heads_of(s, &layer->wk) % omp_get_num_threads() == 0 &&
           !s->model->config.wide_head_norms;
}

/* Computes the calling thread's heads of a projection. Without own groups all
 * heads (keys, queries, values, in this order) are divided evenly; `preceding`
 * is the number of heads of the preceding projections. */
static Heads project(const Session *s, const Layer *layer, const Tensor *w,
                     float *rows, int preceding, const Input *in) {
    int size = s->model->config.head_size, n_heads = heads_of(s, w);
    int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    int all = heads_of(s, &layer->wq) + 2 * heads_of(s, &layer->wk);
    if (has_own_groups(s, layer)) {
        all = n_heads;
        preceding = 0;
    }
    int first = clamp(all * thread / threads - preceding, n_heads),
        end = clamp(all * (thread + 1) / threads - preceding, n_heads);
    int first_row = tensor_first_row(w);
    Heads h = {.rows = rows,
               .stride = tensor_all_rows(w),
               .size = size,
               .first = first,
               .n = end - first,
               .channel = first_row + first * size};
    if (h.n > 0)
        matmul_rows(rows + first_row, h.stride, w, first * size, h.n * size, in,
                    s->chunk.n, false);
    return h;
}

/* Head i of the thread's heads, of token t. */
static float *head_of(const Heads *h, int i, int t) {
    return h->rows + t * h->stride + h->channel + i * h->size;
}

/* Normalizes each head of n tokens, from `token` on, separately, in place. */
static void norm_heads(const Session *s, int layer, Site site, const Norm *norm,
                       const Heads *h, int token, int n) {
    Vectors heads = {head_of(h, 0, token), h->stride,  n, h->n, h->size, token,
                     h->channel,           norm->gamma};
    if (norm->kind == NORM_NONE)
        return;
    probe_norm(s->probe, layer, site, false, &heads);
    for (int i = 0; i < h->n; i++)
        for (int t = token; t < token + n; t++)
            norm_token(head_of(h, i, t), head_of(h, i, t), norm, h->size);
    probe_mark(s->probe, layer, site);
    probe_norm(s->probe, layer, site, true, &heads);
}

/* Normalizes all heads of a token jointly, in place, as one long head. The
 * threads share the tokens. */
static void norm_rows(const Session *s, const Layer *layer, Site site,
                      const Norm *norm, float *rows, const Tensor *w, int n) {
    int dim = tensor_all_rows(w), share = (n - 1) / omp_get_num_threads() + 1;
    int first = clamp(omp_get_thread_num() * share, n),
        count = clamp(n - first, share);
    Heads all = {.rows = rows, .stride = dim, .size = dim, .n = 1};
    team_gather(s->probe, layer->index, rows, w, n, true);
    /* one token: thread 0, which is observed */
    if (count > 0)
        norm_heads(s, layer->index, site, norm, &all, first, count);
}

static void rotate_heads(const Session *s, RopeUse use, const Heads *h, int n) {
    const Rope *rope = &s->ropes[use];
    for (int i = 0; i < h->n; i++)
        for (int t = 0; t < n; t++)
            rope_rotate(rope, head_of(h, i, t),
                        s->chunk.angles[use] + t * rope->dims);
}

/* Appends the thread's keys or values to the caches of their sequences. */
static void write_heads(const Session *s, int layer, KvKind kind,
                        const Heads *h) {
    EACH(const Span, a, s->chunk.spans, s->chunk.n_spans)
        for (int i = 0; i < h->n; i++)
            kv_write(&s->sequences[a->sequence].kv, layer, kind, h->first + i,
                     head_of(h, i, a->first), h->stride, a->n, a->pos);
}

/* ---- attend ------------------------------------------------------------- */

/* Computes attention for 1 to 4 queries of a span and KV head `head`, from
 * query `first` on. Query i belongs to step i / group of the span and to query
 * head i % group of the KV head's group. */
static void attend_queries(const Session *s, const Layer *layer,
                           const Span *span, int head, int first, int n) {
    const Config *c = &s->model->config;
    int group = c->n_heads / c->n_kv_heads;
    size_t positions = s->chunk.capacity.positions;
    float *scores =
        s->chunk.scores + positions * KV_QUERIES * omp_get_thread_num();
    Queries a = {.size = c->head_size,
                 .head = head,
                 .cold = first == 0,
                 .scale = c->attention_scale != 0
                              ? c->attention_scale
                              : 1.0f / sqrtf((float)c->head_size),
                 .cap = c->attention_cap};
    for (int k = 0; k < n; k++) {
        int i = first + k, t = i / group, pos = span->pos + t;
        size_t step = span->first + t, h = head * group + i % group;
        /* heads are counted from this process's first */
        size_t at = tensor_first_row(&layer->wq) +
                    (step * c->n_heads + h) * c->head_size;
        a.q[k] = s->chunk.q + at;
        a.out[k] = s->chunk.att + at;
        a.scores[k] = scores + k * positions;
        a.n_keys[k] = pos + 1;
        if (layer->window > 0 && pos >= layer->window)
            a.first_key[k] = pos - layer->window + 1;
    }
    attend(&a, &s->sequences[span->sequence].kv.layers[layer->index],
           s->kv_type, n);
}

/* Computes attention for all queries of the chunk, in tasks of a few queries
 * of one KV head. With own groups, each thread takes the tasks of its KV
 * heads. Otherwise threads take tasks in turn, because later queries of a span
 * see more keys. */
static void attend_all(const Session *s, const Layer *layer) {
    const Config *c = &s->model->config;
    int group = c->n_heads / c->n_kv_heads, kv_heads = heads_of(s, &layer->wk);
    int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    bool own = has_own_groups(s, layer);
    /* fewer queries if otherwise a thread would have none */
    int step = clamp((s->chunk.n * group * kv_heads - 1) / threads + 1,
                     KV_QUERIES),
        task = 0;
    EACH(const Span, span, s->chunk.spans, s->chunk.n_spans)
        for (int head = 0; head < kv_heads; head++)
            for (int first = 0; first < span->n * group;
                 first += step, task++) {
                int n = min_int(span->n * group - first, step);
                int owner = own ? head * threads / kv_heads : task % threads;
                if (owner == thread)
                    attend_queries(s, layer, span, head, first, n);
            }
}

/* ---- the sublayer ------------------------------------------------------- */

void attention(Session *s, const Layer *layer, float *x, const float *xn,
               int n) {
    const Chunk *c = &s->chunk;
    const Tensor *wq = &layer->wq, *wk = &layer->wk, *wv = &layer->wv;
    bool late_norms = s->model->config.late_head_norms;
    int l = layer->index, n_keys = heads_of(s, wk), n_queries = heads_of(s, wq);
    const Tensor *form = input_weight(wq, input_weight(wk, wv));
    Input in = input_prepare(&c->input, form, xn, n);
    Heads k = project(s, layer, wk, c->k, 0, &in);
    Heads q = project(s, layer, wq, c->q, n_keys, &in);
    Heads v = project(s, layer, wv, c->v, n_keys + n_queries, &in);
    probe_mark(s->probe, l, SITE_QKV);
    if (late_norms) {
        rotate_heads(s, layer->rope, &k, n);
        rotate_heads(s, layer->rope, &q, n);
        probe_mark(s->probe, l, SITE_ROPE);
    }
    if (s->model->config.wide_head_norms) {
        team_wait(s->probe, l);
        norm_rows(s, layer, SITE_Q_NORM, &layer->q_norm, c->q, wq, n);
        norm_rows(s, layer, SITE_K_NORM, &layer->k_norm, c->k, wk, n);
        team_wait(s->probe, l);
    } else {
        norm_heads(s, l, SITE_Q_NORM, &layer->q_norm, &q, 0, n);
        norm_heads(s, l, SITE_K_NORM, &layer->k_norm, &k, 0, n);
    }
    if (!late_norms) {
        rotate_heads(s, layer->rope, &k, n);
        rotate_heads(s, layer->rope, &q, n);
    }
    write_heads(s, l, KV_KEYS, &k);
    write_heads(s, l, KV_VALUES, &v);
    probe_mark(s->probe, l, SITE_ROPE);
    /* queries attend to other threads' keys */
    if (!has_own_groups(s, layer))
        team_wait(s->probe, l);

    attend_all(s, layer);
    team_end_product(s->probe, l, SITE_ATTENTION, c->att, wq, n);

    in = input_prepare(&c->input, &layer->wo, c->att, n);
    matmul_add(x, &layer->wo, &in, n); /* the residual: x += Wo out */
    team_end_product(s->probe, l, SITE_ATTN_OUT, x, &layer->wo, n);
}
