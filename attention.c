/* attention.c: the attention half of a decoder layer, x += attention(norm(x)).
 *
 *     q, k, v = Wq xn, Wk xn, Wv xn                project        (Vaswani et al. 2017, sec. 3.2)
 *     q, k = norm(q), norm(k), by head or whole    norm_heads     some models (Henry et al. 2020)
 *     q, k rotate by their positions               rotate_heads   (Su et al. 2021, sec. 3.4)
 *     k, v go into the cache                       write_heads    kv_cache.c
 *     out = softmax(q k / sqrt(head_size)) v       attend         under the causal mask
 *     x += Wo out                                  attention      the residual
 *
 * Grouped queries (Ainslie et al. 2023): n_heads / n_kv_heads query heads attend to one KV head.
 * Causal mask: a query sees the keys up to its own position, n_keys of them; in a layer with a
 * window (Beltagy et al. 2020, sec. 3.1), only the last of these. Some models cap the scores (Gemma
 * 2, sec. 2).
 *
 * Owns these steps. Products with weights are in kernels/matmul.c, norms in norm.c, rotation in
 * rope.c, the cache in kv_cache.c. Each score is computed separately, and values are summed in
 * vectors of LANES positions from the first visible one up, for every query in the same order
 * (kernels/attend.c): a token's result depends only on the tokens up to it, not on their division
 * into chunks.
 */
#include "kernels/attend.h"
#include "kernels/input.h"
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kernels/team.h"
#include "model.h"
#include <math.h>
#include <omp.h>

/* ---- the formula ------------------------------------------------------------------ */

/* q_norm or k_norm of a token's heads: each head separately, or all heads jointly. */
static void norm_heads_plain(float *heads, const Norm *norm, int n_heads,
                             int size, bool jointly) {
    norm_plain(heads, heads, norm, jointly ? 1 : n_heads,
               jointly ? n_heads * size : size);
}

/* out = softmax(scale q k) v for one query head at position pos, which attends to KV head `head`.
 */
static void attend_plain(const Session *s, const Layer *layer,
                         const KvCache *kv, float *out, const float *q,
                         int head, int pos) {
    const Config *c = &s->model->config;
    /* the mask */
    const int first =
        layer->window > 0 && pos >= layer->window ? pos - layer->window + 1 : 0;
    const float scale = c->attention_scale != 0
                            ? c->attention_scale
                            : 1.0f / sqrtf((float)c->head_size);
    double max = -INFINITY, sum = 0;
    for (int p = first; p <= pos; p++) {
        double z = 0;
        for (int i = 0; i < c->head_size; i++)
            z += (double)q[i] * kv_read(kv, layer->index, KV_KEYS, head, p, i);
        z *= scale;
        if (c->attention_cap != 0)
            z = c->attention_cap * tanh(z / c->attention_cap);
        s->chunk.scores[p - first] = (float)z;
        max = fmax(max, z);
    }
    for (int p = first; p <= pos; p++)
        sum += exp(s->chunk.scores[p - first] - max);
    for (int i = 0; i < c->head_size; i++) {
        double mean = 0;
        for (int p = first; p <= pos; p++)
            mean += exp(s->chunk.scores[p - first] - max) *
                    kv_read(kv, layer->index, KV_VALUES, head, p, i);
        out[i] = (float)(mean / sum);
    }
}

/* Appends a step's keys and values to the cache and writes its queries to q. */
static void project_plain(Session *s, const Layer *layer, const float *xn,
                          const Step *step, float *q) {
    const Config *c = &s->model->config;
    const KvCache *kv = &s->sequences[step->sequence].kv;
    matmul_plain(q, &layer->wq, xn, s->chunk.row);
    matmul_plain(s->chunk.k, &layer->wk, xn, s->chunk.row);
    matmul_plain(s->chunk.v, &layer->wv, xn, s->chunk.row);
    /* in turn 0 the norms, then RoPE; with late_head_norms the norms follow in turn 1 */
    for (int turn = 0; turn < 2; turn++) {
        if (turn == c->late_head_norms) {
            norm_heads_plain(q, &layer->q_norm, c->n_heads, c->head_size,
                             c->wide_head_norms);
            norm_heads_plain(s->chunk.k, &layer->k_norm, c->n_kv_heads,
                             c->head_size, c->wide_head_norms);
        }
        for (int h = 0; h < c->n_heads && !turn && layer->rope != ROPE_NONE;
             h++) {
            rope_plain(q + h * c->head_size, &s->ropes[layer->rope], step->pos);
            if (h < c->n_kv_heads)
                rope_plain(s->chunk.k + h * c->head_size,
                           &s->ropes[layer->rope], step->pos);
        }
    }
    for (int h = 0; h < c->n_kv_heads; h++) {
        kv_write(kv, layer->index, KV_KEYS, h, s->chunk.k + h * c->head_size, 0,
                 1, step->pos);
        kv_write(kv, layer->index, KV_VALUES, h, s->chunk.v + h * c->head_size,
                 0, 1, step->pos);
    }
}

void attention_plain(Session *s, const Layer *layer, float *x, const float *xn,
                     int n) {
    const Config *c = &s->model->config;
    const int all = c->n_heads * c->head_size, kv_heads = c->n_kv_heads;
    for (int t = 0; t < n; t++, x += c->dim, xn += c->dim) {
        const KvCache *kv = &s->sequences[s->chunk.steps[t].sequence].kv;
        float *q = s->chunk.q + (size_t)t * all;
        project_plain(s, layer, xn, &s->chunk.steps[t], q);
        for (int h = 0; h < c->n_heads; h++) {
            const int at = h * c->head_size,
                      kv_head = h * kv_heads / c->n_heads;
            attend_plain(s, layer, kv, s->chunk.att + at, q + at, kv_head,
                         s->chunk.steps[t].pos);
        }
        matmul_plain(s->chunk.added, &layer->wo, s->chunk.att, s->chunk.row);
        for (int i = 0; i < c->dim; i++)
            x[i] += s->chunk.added[i];
    }
}

/* ---- the fast form: queries, keys, values ------------------------------------------ */

/* This process's heads of one projection (queries, keys or values), and the calling thread's part
 * of them. A thread works on its heads from the product to the cache; only joint norms of all heads
 * need barriers in between. */
typedef struct {
    float *rows;   /* token 0, first head of this process */
    size_t stride; /* floats per token, including other processes' heads */
    int size;      /* floats per head */
    int first, n;  /* the thread's heads */
} Heads;

static int clamp(int i, int max) {
    return i < 0 ? 0 : i > max ? max : i;
}

/* The number of heads of a projection in this process. */
static int heads_of(const Session *s, const Tensor *w) {
    return w->rows / s->model->config.head_size;
}

/* Whether each thread owns whole KV heads with their queries. No barrier is then needed between
 * projection and attention, and with many sequences each thread reads the caches that it wrote.
 * With one span it is faster to divide all heads evenly, because each thread then reads a longer
 * stream of weights. */
static bool has_own_groups(const Session *s, const Layer *layer) {
    const bool divides = heads_of(s, &layer->wk) % omp_get_num_threads() == 0;
    return s->chunk.n_spans > 1 && divides && !s->model->config.wide_head_norms;
}

/* The calling thread's heads of a projection. Without own groups all heads (keys, queries, values,
 * in this order) are divided evenly; `preceding` is the number of heads of the preceding
 * projections. */
static Heads own_heads(const Session *s, const Layer *layer, float *rows,
                       const Tensor *w, int preceding) {
    const bool groups = has_own_groups(s, layer);
    const int n_heads = heads_of(s, w), thread = omp_get_thread_num(),
              threads = omp_get_num_threads();
    const int all = groups
                        ? n_heads
                        : heads_of(s, &layer->wq) + 2 * heads_of(s, &layer->wk);
    if (groups)
        preceding = 0;
    const int first = clamp(all * thread / threads - preceding, n_heads);
    const int end = clamp(all * (thread + 1) / threads - preceding, n_heads);
    return (Heads){rows + tensor_first_row(w), tensor_all_rows(w),
                   s->model->config.head_size, first, end - first};
}

/* Head i of the thread's heads, of token t. */
static float *head_of(const Heads *h, int i, int t) {
    return h->rows + (size_t)t * h->stride + (h->first + i) * h->size;
}

static void project(const Heads *h, const Tensor *w, const Input *in, int n) {
    if (h->n > 0)
        matmul_rows(h->rows, h->stride, w, h->first * h->size, h->n * h->size,
                    in, n, false);
}

/* Normalizes each head of n tokens separately, in place. */
static void norm_heads(Session *s, int layer, Site site, const Norm *norm,
                       const Heads *h, int n) {
    if (norm->kind == NORM_NONE)
        return;
    probe_norm(s->probe, layer, site, false, head_of(h, 0, 0), h->stride, n,
               h->n, h->size);
    for (int i = 0; i < h->n; i++)
        for (int t = 0; t < n; t++)
            norm_token(head_of(h, i, t), head_of(h, i, t), norm, h->size);
    probe_mark(s->probe, layer, site);
    probe_norm(s->probe, layer, site, true, head_of(h, 0, 0), h->stride, n,
               h->n, h->size);
}

/* Normalizes all heads of a token jointly, in place, as one long head. The threads share the
 * tokens. */
static void norm_rows(Session *s, const Layer *layer, Site site,
                      const Norm *norm, float *rows, const Tensor *w, int n) {
    const int dim = tensor_all_rows(w),
              share = (n - 1) / omp_get_num_threads() + 1;
    const int first = clamp(omp_get_thread_num() * share, n),
              count = clamp(n - first, share);
    const Heads all = {rows + (size_t)first * dim, dim, dim, 0, 1};
    team_gather(s->probe, layer->index, rows, w, n, true);
    /* one token: thread 0, which is observed */
    if (count > 0)
        norm_heads(s, layer->index, site, norm, &all, count);
}

static void rotate_heads(const Session *s, RopeUse use, const Heads *h, int n) {
    if (use == ROPE_NONE)
        return;
    const Rope *rope = &s->ropes[use];
    for (int i = 0; i < h->n; i++)
        for (int t = 0; t < n; t++)
            rope_rotate(rope, head_of(h, i, t),
                        s->chunk.angles[use] + t * rope->dims);
}

/* Appends the thread's keys or values to the caches of their sequences. */
static void write_heads(const Session *s, int layer, KvKind kind,
                        const Heads *h) {
    for (const Span *a = s->chunk.spans; a < s->chunk.spans + s->chunk.n_spans;
         a++)
        for (int i = 0; i < h->n; i++)
            kv_write(&s->sequences[a->sequence].kv, layer, kind, h->first + i,
                     head_of(h, i, a->first), h->stride, a->n, a->pos);
}

/* ---- the fast form: attend -------------------------------------------------------- */

/* Computes attention for 1 to 4 queries of a span and KV head `head`, from query `first` on. Query
 * i belongs to step i / group of the span and to query head i % group of the KV head's group. */
static void attend_queries(Session *s, const Layer *layer, const Span *span,
                           int head, int first, int n) {
    const Config *c = &s->model->config;
    const int group = c->n_heads / c->n_kv_heads, count = n == 3 ? 4 : n;
    /* heads are counted from this process's first */
    const int first_row = tensor_first_row(&layer->wq);
    const size_t positions = s->chunk.capacity.positions;
    float *scores =
        s->chunk.scores + (size_t)omp_get_thread_num() * KV_QUERIES * positions;
    Queries a = {.size = c->head_size,
                 .head = head,
                 .prefetch = layer->wo.prefetch.distance > 0,
                 .scale = c->attention_scale != 0
                              ? c->attention_scale
                              : 1.0f / sqrtf((float)c->head_size),
                 .cap = c->attention_cap};
    for (int k = 0; k < count; k++) {
        /* of 3 queries, the last is computed twice */
        const int i = first + (k < n ? k : n - 1), t = i / group;
        const size_t row =
            (size_t)(span->first + t) * c->n_heads + (head * group + i % group);
        a.q[k] = s->chunk.q + first_row + row * c->head_size;
        a.out[k] = s->chunk.att + first_row + row * c->head_size;
        a.scores[k] = scores + k * positions;
        a.n_keys[k] = span->pos + t + 1;
        a.first_key[k] = layer->window > 0 && a.n_keys[k] > layer->window
                             ? a.n_keys[k] - layer->window
                             : 0;
    }
    attend(&a, &s->sequences[span->sequence].kv.layers[layer->index],
           s->kv_type, count);
}

/* Computes attention for all queries of the chunk, in tasks of a few queries of one KV head. With
 * own groups, each thread takes the tasks of its KV heads. Otherwise threads take tasks in turn,
 * because later queries of a span see more keys. */
static void attend_all(Session *s, const Layer *layer) {
    const Config *c = &s->model->config;
    const int group = c->n_heads / c->n_kv_heads,
              kv_heads = heads_of(s, &layer->wk);
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const bool own = has_own_groups(s, layer);
    int task = 0;
    for (const Span *span = s->chunk.spans;
         span < s->chunk.spans + s->chunk.n_spans; span++)
        for (int first = 0; first < span->n * group; first += KV_QUERIES)
            for (int head = 0; head < kv_heads; head++, task++) {
                const int left = span->n * group - first;
                if ((own ? head * threads / kv_heads : task % threads) ==
                    thread)
                    attend_queries(s, layer, span, head, first,
                                   left < KV_QUERIES ? left : KV_QUERIES);
            }
}

/* ---- the sublayer ----------------------------------------------------------------- */

void attention(Session *s, const Layer *layer, float *x, const float *xn,
               int n) {
    const Config *c = &s->model->config;
    const int l = layer->index, n_keys = heads_of(s, &layer->wk),
              n_queries = heads_of(s, &layer->wq);
    const Heads k = own_heads(s, layer, s->chunk.k, &layer->wk, 0),
                q = own_heads(s, layer, s->chunk.q, &layer->wq, n_keys);
    const Heads v =
        own_heads(s, layer, s->chunk.v, &layer->wv, n_keys + n_queries);
    Input in = input_prepare(
        &s->chunk.input,
        input_weight(&layer->wq, input_weight(&layer->wk, &layer->wv)), xn, n);
    project(&k, &layer->wk, &in, n);
    project(&q, &layer->wq, &in, n);
    project(&v, &layer->wv, &in, n);
    probe_mark(s->probe, l, SITE_QKV);
    if (c->late_head_norms) {
        rotate_heads(s, layer->rope, &k, n);
        rotate_heads(s, layer->rope, &q, n);
        probe_mark(s->probe, l, SITE_ROPE);
    }
    if (c->wide_head_norms) {
        team_wait(s->probe, l);
        norm_rows(s, layer, SITE_Q_NORM, &layer->q_norm, s->chunk.q, &layer->wq,
                  n);
        norm_rows(s, layer, SITE_K_NORM, &layer->k_norm, s->chunk.k, &layer->wk,
                  n);
        team_wait(s->probe, l);
    } else {
        norm_heads(s, l, SITE_Q_NORM, &layer->q_norm, &q, n);
        norm_heads(s, l, SITE_K_NORM, &layer->k_norm, &k, n);
    }
    if (!c->late_head_norms) {
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
    team_end_product(s->probe, l, SITE_ATTENTION, s->chunk.att, &layer->wq, n);

    in = input_prepare(&s->chunk.input, &layer->wo, s->chunk.att, n);
    matmul_add(x, &layer->wo, &in, n); /* the residual: x += Wo out */
    team_end_product(s->probe, l, SITE_ATTN_OUT, x, &layer->wo, n);
}
