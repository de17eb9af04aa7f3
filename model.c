/* model.c: the decoder.
 *
 * Owns the forward pass (embed, layers, final norm, logits) and the memory of a session. How a layer
 * attends is attention.c's, its MLP mlp.c's or experts.c's, its norms norm.c's; where the weights
 * come from is the loaders' business (formats/).
 */
#include "model.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "kernels/amx.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* ---- the forward pass ---------------------------------------------------------- */

/* Writes x[t], the embedding of step t's token, and the angles of its position. */
static void embed(Session *s, int n) {
    const Config *c = &s->model->config;
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        float *x = s->x + (size_t)t * (size_t)c->dim;
        dequantize_row(x, &s->model->embedding, s->steps[t].token);
        for (int i = 0; c->embedding_scale != 0 && i < c->dim; i++) x[i] *= c->embedding_scale;
        for (int r = 0; r < N_ROPES && s->frequencies[r]; r++)
            rope_angles(s->angles[r] + (size_t)(t * c->rope.dims), &s->ropes[r], s->frequencies[r], s->steps[t].pos);
    }
}

/* xn[n][dim] = norm(x), and tells the probe; x itself where the model has no norm. */
static const float *norm_site(Session *s, int layer, Site site, const Norm *norm, const float *x, int n) {
    const int dim = s->model->config.dim;
    if (!norm->gamma) return x;
    const float *xn = norm_forward(s->xn, x, norm, n, dim);
    if (n == 1)
        probe_mark(s->probe, layer, site); /* every thread has a result of its own */
    else
        site_end(s->probe, layer, site);
    probe_norm(s->probe, layer, site, x, xn, n, dim);
    return xn;
}

/* logits = cap tanh(scale logits / cap), in the models that have a scale or a cap. */
static void cap_logits(const Session *s, float *logits) {
    const Config *c = &s->model->config;
    const float scale = c->logit_scale != 0 ? c->logit_scale : 1;
    const int64_t n = (int64_t)s->n_wanted * c->vocab_size;
    if (scale == 1 && c->logit_cap == 0) return;
#pragma omp barrier
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < n; i += LANES) {
        const int count = n - i < LANES ? (int)(n - i) : LANES;
        const vf z = scale * vload_n(logits + i, count);
        vstore_n(logits + i, c->logit_cap != 0 ? vcap(z, c->logit_cap) : z, count);
    }
}

/* The rows of x whose logits are wanted, one behind the other: x has done its work. */
static const float *wanted_rows(Session *s) {
    const size_t dim = (size_t)s->model->config.dim;
    const int n = s->n_wanted, first = s->wanted[0];
    if (s->wanted[n - 1] - first == n - 1) return s->x + (size_t)first * dim;
#pragma omp single
    for (int i = 0; i < n; i++)
        if (s->wanted[i] > i) memcpy(s->x + (size_t)i * dim, s->x + (size_t)s->wanted[i] * dim, dim * sizeof *s->x);
    return s->x;
}

/* The final norm, and the logits that are wanted. */
static void compute_logits(Session *s, float *logits) {
    const Model *m = s->model;
    const int n = s->n_wanted;
    const float *xn = norm_site(s, NO_LAYER, SITE_FINAL_NORM, &m->final_norm, wanted_rows(s), n);
    const Input in = input_prepare(&s->input, &m->output, xn, n);
    matmul(logits, &m->output, &in, n);
    cap_logits(s, logits);
    site_end(s->probe, NO_LAYER, SITE_LOGITS);
}

/* Whether a norm or a factor stands between a sublayer and the residual stream: not in LLaMA. */
static bool has_branch(const Session *s, const Norm *post) {
    return post->gamma || s->model->config.residual_scale != 0;
}

/* What a sublayer adds to: x, or, where something stands between, zeros. */
static float *branch(Session *s, const Norm *post, float *x, int n) {
    const size_t dim = (size_t)s->model->config.dim;
    if (!has_branch(s, post)) return x;
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) memset(s->branch + (size_t)t * dim, 0, dim * sizeof *x);
    return s->branch; /* threads meet before they add: the sublayer's products need each other */
}

/* x += scale post(what the sublayer made), where it has not been added yet. */
static void add_branch(Session *s, int layer, Site site, const Norm *post, float *x, int n) {
    const Config *c = &s->model->config;
    const float scale = c->residual_scale != 0 ? c->residual_scale : 1;
    if (!has_branch(s, post)) return;
    const float *y = norm_site(s, layer, site, post, s->branch, n);
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < (int64_t)n * c->dim; i++) x[i] = fma_float(scale, y[i], x[i]);
    site_end(s->probe, layer, SITE_RESIDUAL);
}

/* Tells who asks when a token's layer begins. */
static void clock_layer(const Session *s, int layer, int n) {
    if (s->layer_clock && n == 1 && omp_get_thread_num() == 0) s->layer_clock[layer] = now();
}

/* The forward pass of a chunk of n steps, run by each thread of a region. */
static void forward_chunk(Session *s, int n, float *logits) {
    const Model *m = s->model;
    float *x = s->x;
    probe_mark(s->probe, NO_LAYER, SITE_START);
    embed(s, n);
    site_end(s->probe, NO_LAYER, SITE_EMBED);
    for (int l = 0; l < m->config.n_layers; l++) {
        const Layer *layer = &m->layers[l];
        clock_layer(s, l, n);
        const float *xn = norm_site(s, l, SITE_ATTN_NORM, &layer->attn_norm, x, n);
        attention(s, layer, branch(s, &layer->attn_post_norm, x, n), xn, n);
        add_branch(s, l, SITE_ATTN_POST_NORM, &layer->attn_post_norm, x, n); /* x += post(attention(pre(x))) */
        xn = norm_site(s, l, SITE_MLP_NORM, &layer->mlp_norm, x, n);
        (layer->experts ? mixture : mlp)(s, layer, branch(s, &layer->mlp_post_norm, x, n), xn, n);
        add_branch(s, l, SITE_MLP_POST_NORM, &layer->mlp_post_norm, x, n); /* x += post(mlp(pre(x))) */
    }
    clock_layer(s, m->config.n_layers, n);
    if (s->n_wanted > 0) compute_logits(s, logits);
    clock_layer(s, m->config.n_layers + 1, n);
}

/* All threads if there is enough work to pay for their barriers. */
static int chunk_threads(const Session *s, int n) {
    const size_t worth_sharing = 1 << 19; /* bytes of a layer's weights times steps: docs/performance.md */
    const size_t layers = (size_t)s->model->config.n_layers + 1; /* and the output, the barriers of a layer each */
    if (n == 1 && s->decode_threads) return s->decode_threads;
    return s->model->decode_bytes / layers < worth_sharing / (size_t)n ? 1 : s->n_threads;
}

/* Whether step b comes behind step a in one sequence. */
static bool follows(const Step *b, const Step *a) { return b->sequence == a->sequence && b->pos == a->pos + 1; }

/* The chunk that runs is steps[n]. */
static void begin_chunk(Session *s, const Step *steps, int n) {
    s->steps = steps;
    s->n_spans = s->n_wanted = 0;
    for (int t = 0; t < n; t++) {
        if (t == 0 || !follows(&steps[t], &steps[t - 1]))
            s->spans[s->n_spans++] = (Span){t, 0, steps[t].sequence, steps[t].pos};
        s->spans[s->n_spans - 1].n++;
        if (steps[t].logits) s->wanted[s->n_wanted++] = t;
    }
}

/* Runs a chunk, with one thread outside a parallel region: there barriers cost nothing, in a region of one thread each
 * is a system call. */
static void share_chunk(Session *s, int n, float *logits) {
    const int threads = chunk_threads(s, n);
    probe_chunk(s->probe, n, s->n_wanted);
    if (threads == 1) {
        forward_chunk(s, n, logits);
        return;
    }
#pragma omp parallel num_threads(threads)
    forward_chunk(s, n, logits);
}

static int reserve(Session *s, const Step *steps, int n);

int check_context(const Session *s, int64_t n) {
    const char *reason = s->context == s->model->config.context ? s->model->ended_by : NULL;
    if (n <= s->context) return 0;
    return fail("%lld positions do not fit in a context of %d%s%s", (long long)n, s->context, reason ? ": " : "",
                reason ? reason : "");
}

/* Takes down that the steps run. -1 and a message if one of them cannot. */
static int admit(Session *s, const Step *steps, int n) {
    int most = 0;
    for (int t = 0; t < n; t++) most = steps[t].pos >= most ? steps[t].pos + 1 : most;
    if (check_context(s, most)) return -1;
    for (int t = 0; t < n; t++) {
        Sequence *q = &s->sequences[steps[t].sequence];
        const int pos = steps[t].pos;
        if (pos > 0 && pos < q->n_ran - MOST_BACK && q->kv.rolls)
            return fail("position %d cannot run again: windows keep the last %d alone", pos, MOST_BACK);
        if (pos == 0 || pos >= q->n_ran) q->n_ran = pos + 1;
    }
    return 0;
}

/* Whether no sequence takes more than one step. */
static bool is_decode(const Step *steps, int n) {
    for (int t = 1; t < n; t++)
        if (follows(&steps[t], &steps[t - 1])) return false;
    return true;
}

const float *model_forward(Session *s, const Step *steps, int n) {
    if (admit(s, steps, n)) return NULL;
    s->probe = s->observer && s->observer->begin(s->observer, n, is_decode(steps, n)) ? s->observer : NULL;
    if (reserve(s, steps, n)) return NULL;
    float *logits = s->logits;
    for (int chunk; n > 0; n -= chunk, steps += chunk) {
        chunk = n < s->batch ? n : s->batch;
        begin_chunk(s, steps, chunk);
        share_chunk(s, chunk, logits);
        logits += (size_t)s->n_wanted * (size_t)s->model->config.vocab_size;
    }
    if (s->observer) s->observer->end(s->observer);
    s->steps = NULL;
    return s->logits;
}

const float *model_forward_text(Session *s, const int *tokens, int n, int pos, int n_logits) {
    Step one = {0}, *steps = n == 1 ? &one : allocate((size_t)n, sizeof *steps);
    for (int t = 0; steps && t < n; t++) steps[t] = (Step){tokens[t], 0, pos + t, t >= n - n_logits};
    const float *logits = steps ? model_forward(s, steps, n) : NULL;
    if (n > 1) free(steps);
    return logits;
}

int check_logits(const float *logits, size_t n) {
    int finite = 1;
    for (size_t i = 0; i < n; i++) finite &= isfinite(logits[i]) != 0;
    return finite ? 0 : fail("the model computed a logit that is no finite number; its weights may be damaged");
}

/* ---- the memory of a session ----------------------------------------------------- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

enum {
    N_BUFFERS = 17,                 /* of activations, the input buffer apart */
    MOST_CHUNK_BYTES = 128 << 20,   /* of activations and logits, */
    MOST_CHUNK_WEIGHTS = 4,         /* or so many times those of the weights that a token reads */
    SECOND_LEVEL_CACHE = 1536 << 10 /* bytes, on a common machine */
};

/* The memory of a chunk. */
typedef struct {
    struct {
        void *pointer; /* its place in the session */
        size_t rows, row_bytes;
    } buffers[N_BUFFERS];
    size_t input_rows, widest; /* of the input buffer */
} Plan;

static Plan plan_chunk(Session *s, int n) {
    const Config *c = &s->model->config;
    const size_t tokens = (size_t)n, dim = (size_t)c->dim, slots = tokens * (size_t)c->n_experts_used;
    const size_t q_dim = (size_t)(c->n_heads * c->head_size), kv_dim = (size_t)(c->n_kv_heads * c->head_size);
    const size_t hidden_dim = (size_t)c->hidden_dim, expert_dim = (size_t)c->expert_dim;
    const size_t hidden = larger(tokens * hidden_dim, slots * expert_dim);
    const size_t own_rows = larger(tokens, (size_t)s->n_threads), angles = (size_t)c->rope.dims * sizeof(float);
    return (Plan){.buffers = {{&s->spans, tokens, sizeof *s->spans},
                              {&s->wanted, tokens, sizeof *s->wanted},
                              {&s->x, tokens, dim * sizeof *s->x},
                              {&s->xn, own_rows, dim * sizeof *s->xn},
                              {&s->branch, has_branch(s, &s->model->layers->attn_post_norm) ? tokens : 0,
                               dim * sizeof *s->branch},
                              {&s->angles[ROPE_GLOBAL], tokens, angles},
                              {&s->angles[ROPE_LOCAL], c->local_base > 0 ? tokens : 0, angles},
                              {&s->q, tokens, q_dim * sizeof *s->q},
                              {&s->k, tokens, kv_dim * sizeof *s->k},
                              {&s->v, tokens, kv_dim * sizeof *s->v},
                              {&s->att, tokens, q_dim * sizeof *s->att},
                              {&s->gate, hidden, sizeof *s->gate},
                              {&s->up, hidden, sizeof *s->up},
                              {&s->router, tokens, (size_t)c->n_experts * sizeof *s->router},
                              {&s->slots, slots, sizeof *s->slots},
                              {&s->expert_start, (size_t)c->n_experts + 1, sizeof *s->expert_start},
                              {&s->expert_rows, slots, dim * sizeof *s->expert_rows}},
                  .input_rows = larger(own_rows, slots),
                  .widest = larger(larger(dim, q_dim), larger(hidden_dim, expert_dim))};
}

/* Bytes of a chunk of n steps, with the logits of all of them. */
static double chunk_bytes(Session *s, int n) {
    const Plan plan = plan_chunk(s, n);
    double bytes = (double)n * s->model->config.vocab_size * (double)sizeof *s->logits;
    bytes += (double)plan.input_rows * (double)plan.widest * (double)(sizeof *s->input.q + sizeof *s->input.groups);
    if (s->model->bf16) bytes += (double)plan.input_rows * (double)amx_parts_bytes((int)plan.widest);
    for (int i = 0; i < N_BUFFERS; i++) bytes += (double)plan.buffers[i].rows * (double)plan.buffers[i].row_bytes;
    return bytes;
}

/* The frequencies of the model's ways to rotate. */
static int open_ropes(Session *s) {
    const Config *c = &s->model->config;
    const Rope *r = &c->rope;
    s->ropes[ROPE_GLOBAL] = *r;
    s->ropes[ROPE_LOCAL] =
        (Rope){.base = c->local_base, .scale = 1, .amplitude = 1, .dims = r->dims, .halves = r->halves};
    for (int i = 0; i < (c->local_base > 0 ? N_ROPES : ROPE_LOCAL); i++) {
        s->frequencies[i] = allocate((size_t)r->dims / 2, sizeof *s->frequencies[i]);
        if (!s->frequencies[i]) return -1;
        rope_frequencies(s->frequencies[i], &s->ropes[i], i == ROPE_GLOBAL ? s->model->rope_factors : NULL);
    }
    return 0;
}

/* Positions that a layer's cache keeps at least; 0: all. The first query of a chunk sees a window of them. */
static int kept_positions(const Session *s, const Layer *layer) {
    const int64_t kept = (int64_t)layer->window + s->batch + MOST_BACK;
    return layer->window > 0 && kept < s->context && !s->keeps_all ? (int)kept : 0;
}

static int open_sequence(const Session *s, Sequence *q) {
    const Config *c = &s->model->config;
    if (kv_open(&q->kv, s->kv_type, c->n_layers, c->n_kv_heads, c->head_size)) return -1;
    for (int l = 0; l < c->n_layers; l++) q->kv.layers[l].kept = kept_positions(s, &s->model->layers[l]);
    q->n_ran = 0;
    return 0;
}

int session_reserve(Session *s, int n) {
    if (n <= s->n_sequences) return 0;
    Sequence *sequences = allocate((size_t)n, sizeof *sequences);
    if (!sequences) return -1;
    for (int i = 0; i < s->n_sequences; i++) sequences[i] = s->sequences[i];
    free(s->sequences);
    s->sequences = sequences;
    while (s->n_sequences < n)
        if (open_sequence(s, &s->sequences[s->n_sequences++])) return -1;
    return 0;
}

int session_fork(Session *s, int to, int from) {
    s->sequences[to].n_ran = s->sequences[from].n_ran;
    return kv_copy(&s->sequences[to].kv, &s->sequences[from].kv);
}

int session_open(Session *s, const Model *model, int n_threads, int batch, int context, KvType kv_type) {
    const Config *c = &model->config;
    *s = (Session){.model = model,
                   .n_threads = n_threads,
                   .batch = batch,
                   .kv_type = kv_type,
                   .context = context > 0 && context < c->context ? context : c->context};
    const double most = fmax(MOST_CHUNK_BYTES, MOST_CHUNK_WEIGHTS * (double)model->decode_bytes);
    while (s->batch > 1 && chunk_bytes(s, s->batch) > most) s->batch /= 2;
    if (!open_ropes(s) && !session_reserve(s, 1)) return 0;
    session_close(s);
    return -1;
}

void session_keep_all(Session *s) {
    s->keeps_all = true;
    for (int i = 0; i < s->n_sequences; i++)
        for (int l = 0; l < s->model->config.n_layers; l++) s->sequences[i].kv.layers[l].kept = 0;
}

static void free_activations(Session *s) {
    const Plan plan = plan_chunk(s, 1);
    for (int i = 0; i < N_BUFFERS; i++) {
        void *p;
        memcpy(&p, plan.buffers[i].pointer, sizeof p);
        free(p);
    }
    input_buffer_close(&s->input);
    s->chunk = 0;
}

void session_close(Session *s) {
    free_activations(s);
    for (int i = 0; i < s->n_sequences; i++) kv_close(&s->sequences[i].kv);
    free(s->sequences);
    free(s->scores);
    for (int r = 0; r < N_ROPES; r++) free(s->frequencies[r]);
    free(s->logits);
    *s = (Session){0};
}

/* Room for the activations of n steps. */
static int reserve_chunk(Session *s, int n) {
    if (n <= s->chunk) return 0;
    free_activations(s);
    const Plan plan = plan_chunk(s, n);
    int status = 0;
    for (int i = 0; i < N_BUFFERS; i++) {
        void *p = status ? NULL : allocate(plan.buffers[i].rows, plan.buffers[i].row_bytes);
        memcpy(plan.buffers[i].pointer, &p, sizeof p);
        if (!p) status = -1;
    }
    if (status || input_buffer_open(&s->input, (int)plan.input_rows, (int)plan.widest, s->n_threads, s->model->bf16))
        return -1;
    s->input.weights_exceed_l2 = s->model->decode_bytes > SECOND_LEVEL_CACHE;
    s->chunk = n;
    return 0;
}

/* Room for a chunk of the steps, for keys, values and scores of their positions, and for logits. */
static int reserve(Session *s, const Step *steps, int n) {
    int n_logits = 0, room = s->room;
    if (reserve_chunk(s, n < s->batch ? n : s->batch)) return -1;
    for (int t = 0; t < n; t++) {
        KvCache *kv = &s->sequences[steps[t].sequence].kv;
        n_logits += steps[t].logits;
        if (t + 1 < n && follows(&steps[t + 1], &steps[t])) continue;
        if (kv_reserve(kv, steps[t].pos + 1, s->context)) return -1;
        if (kv->blocks * KV_BLOCK > room) room = kv->blocks * KV_BLOCK;
    }
    if (!s->scores || room > s->room) {
        free(s->scores);
        s->room = room;
        s->scores = allocate((size_t)room * KV_QUERIES, (size_t)s->n_threads * sizeof(float));
    }
    if (s->scores && (!s->logits || n_logits > s->n_logits)) {
        free(s->logits);
        s->n_logits = n_logits > 0 ? n_logits : 1;
        s->logits = allocate((size_t)s->n_logits, (size_t)s->model->config.vocab_size * sizeof(float));
    }
    return s->scores && s->logits ? 0 : -1;
}
