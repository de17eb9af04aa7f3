/* model.c: the decoder.
 *
 * Owns the forward pass (embed, layers, final norm, logits) and the memory of a session. How a layer
 * attends is attention.c's, its MLP mlp.c's or experts.c's, its norms norm.c's; where the weights
 * come from is the loaders' business (formats/).
 */
#include "model.h"
#include "base/error.h"
#include "base/memory.h"
#include "kernels/quant.h"
#include <math.h>
#include <stdlib.h>

/* ---- the forward pass ---------------------------------------------------------- */

/* Writes x[t], the embedding of token t, and the angles of position pos + t. */
static void embed(Session *s, const int *tokens, int n, int pos) {
    const Config *c = &s->model->config;
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        dequantize_row(s->x + (size_t)t * (size_t)c->dim, &s->model->embedding, tokens[t]);
        rope_angles(s->angles + (size_t)(t * c->rope.dims), &c->rope, s->frequencies, pos + t);
    }
}

/* xn[n][dim] = norm(x), and tells the probe. */
static const float *norm_site(Session *s, int layer, Site site, const Norm *norm, const float *x, int n) {
    const int dim = s->model->config.dim;
    const float *xn = norm_forward(s->xn, x, norm, n, dim);
    if (n == 1)
        probe_mark(s->probe, layer, site); /* every thread has a result of its own */
    else
        site_end(s->probe, layer, site);
    probe_norm(s->probe, layer, site, x, xn, n, dim);
    return xn;
}

/* The final norm and the logits of the last n_logits of n tokens. */
static void compute_logits(Session *s, int n, int n_logits) {
    const Model *m = s->model;
    const float *last = s->x + (size_t)(n - n_logits) * (size_t)m->config.dim;
    const float *xn = norm_site(s, NO_LAYER, SITE_FINAL_NORM, &m->final_norm, last, n_logits);
    const Input in = input_prepare(&s->input, &m->output, xn, n_logits);
    matmul(s->logits, &m->output, &in, n_logits);
    site_end(s->probe, NO_LAYER, SITE_LOGITS);
}

/* What a sublayer adds to: x, or, where a norm stands between, zeros. */
static float *branch(Session *s, const Norm *post, float *x, int n) {
    if (!post->gamma) return x;
    const size_t dim = (size_t)s->model->config.dim;
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) memset(s->branch + (size_t)t * dim, 0, dim * sizeof *x);
    return s->branch; /* threads meet before they add: the sublayer's products need each other */
}

/* x += post(what the sublayer made), where it has not been added yet. */
static void add_branch(Session *s, int layer, Site site, const Norm *post, float *x, int n) {
    const int dim = s->model->config.dim;
    if (!post->gamma) return;
    const float *y = norm_site(s, layer, site, post, s->branch, n);
#pragma omp for schedule(static) collapse(2) nowait
    for (int t = 0; t < n; t++)
        for (int i = 0; i < dim; i++) x[(size_t)t * (size_t)dim + (size_t)i] += y[(size_t)t * (size_t)dim + (size_t)i];
    site_end(s->probe, layer, SITE_RESIDUAL);
}

/* The forward pass of a chunk, run by each thread of a region. */
static void forward_chunk(Session *s, const int *tokens, int n, int pos, int n_logits) {
    const Model *m = s->model;
    float *x = s->x;
    probe_mark(s->probe, NO_LAYER, SITE_START);
    embed(s, tokens, n, pos);
    site_end(s->probe, NO_LAYER, SITE_EMBED);
    for (int l = 0; l < m->config.n_layers; l++) {
        const Layer *layer = &m->layers[l];
        const float *xn = norm_site(s, l, SITE_ATTN_NORM, &layer->attn_norm, x, n);
        attention(s, layer, branch(s, &layer->attn_post_norm, x, n), xn, n, pos);
        add_branch(s, l, SITE_ATTN_POST_NORM, &layer->attn_post_norm, x, n); /* x += post(attention(pre(x))) */
        xn = norm_site(s, l, SITE_MLP_NORM, &layer->mlp_norm, x, n);
        (layer->experts ? mixture : mlp)(s, layer, branch(s, &layer->mlp_post_norm, x, n), xn, n);
        add_branch(s, l, SITE_MLP_POST_NORM, &layer->mlp_post_norm, x, n); /* x += post(mlp(pre(x))) */
    }
    if (n_logits > 0) compute_logits(s, n, n_logits);
}

/* Runs a chunk with all threads if there is enough work to pay for their barriers, else with the calling thread outside
 * a parallel region: there barriers cost nothing, in a region of one thread each is a system call. */
static void share_chunk(Session *s, const int *tokens, int n, int pos, int n_logits) {
    const size_t worth_sharing = 1 << 20; /* bytes of a layer's weights times tokens: docs/performance.md */
    const size_t steps = (size_t)s->model->config.n_layers + 1; /* and the output, the barriers of a layer each */
    probe_chunk(s->probe, n, pos, n_logits);
    if (s->n_threads == 1 || s->model->decode_bytes / steps < worth_sharing / (size_t)n) {
        forward_chunk(s, tokens, n, pos, n_logits);
        return;
    }
#pragma omp parallel num_threads(s->n_threads)
    forward_chunk(s, tokens, n, pos, n_logits);
}

static int reserve(Session *s, int n, int positions, int n_logits);

const float *model_forward(Session *s, const int *tokens, int n, int pos, int n_logits) {
    if (pos > s->context - n) {
        fail("%lld positions do not fit in a context of %d", (long long)pos + n, s->context);
        return NULL;
    }
    s->probe = s->observer && s->observer->begin(s->observer, n) ? s->observer : NULL;
    if (reserve(s, n < s->batch ? n : s->batch, pos + n, n_logits)) return NULL;
    while (n > 0) {
        int chunk = n < s->batch ? n : s->batch;
        /* the last chunk holds every token whose logits are asked for */
        if (chunk < n && n - chunk < n_logits) chunk = n - n_logits;
        share_chunk(s, tokens, chunk, pos, chunk == n ? n_logits : 0);
        tokens += chunk;
        pos += chunk;
        n -= chunk;
    }
    if (s->observer) s->observer->end(s->observer);
    return s->logits;
}

int check_logits(const float *logits, size_t n) {
    int finite = 1;
    for (size_t i = 0; i < n; i++) finite &= isfinite(logits[i]) != 0;
    return finite ? 0 : fail("the model computed a logit that is no finite number; its weights may be damaged");
}

/* ---- the memory of a session ----------------------------------------------------- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

enum {
    N_BUFFERS = 14,                 /* of activations, the input buffer apart */
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
    const size_t own_rows = larger(tokens, (size_t)s->n_threads);
    return (Plan){.buffers = {{&s->x, tokens, dim * sizeof *s->x},
                              {&s->xn, own_rows, dim * sizeof *s->xn},
                              {&s->branch, s->model->config.post_norms ? tokens : 0, dim * sizeof *s->branch},
                              {&s->angles, tokens, (size_t)c->rope.dims * sizeof *s->angles},
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

/* Bytes of a chunk of n tokens, with the logits of all of them. */
static double chunk_bytes(Session *s, int n) {
    const Plan plan = plan_chunk(s, n);
    double bytes = (double)n * s->model->config.vocab_size * (double)sizeof *s->logits;
    bytes += (double)plan.input_rows * (double)plan.widest * (double)(sizeof *s->input.q + sizeof *s->input.groups);
    for (int i = 0; i < N_BUFFERS; i++) bytes += (double)plan.buffers[i].rows * (double)plan.buffers[i].row_bytes;
    return bytes;
}

int session_open(Session *s, const Model *model, int n_threads, int batch, int context, KvType kv_type) {
    const Config *c = &model->config;
    *s = (Session){.model = model,
                   .n_threads = n_threads,
                   .batch = batch,
                   .context = context > 0 && context < c->context ? context : c->context};
    const double most = fmax(MOST_CHUNK_BYTES, MOST_CHUNK_WEIGHTS * (double)model->decode_bytes);
    while (s->batch > 1 && chunk_bytes(s, s->batch) > most) s->batch /= 2;
    s->frequencies = allocate((size_t)c->rope.dims / 2, sizeof *s->frequencies);
    if (!s->frequencies || kv_open(&s->kv, kv_type, c->n_layers, c->n_kv_heads, c->head_size)) {
        session_close(s);
        return -1;
    }
    rope_frequencies(s->frequencies, &c->rope, model->rope_factors);
    return 0;
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
    kv_close(&s->kv);
    free(s->scores);
    free(s->frequencies);
    free(s->logits);
    *s = (Session){0};
}

/* Room for the activations of n tokens. */
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
    if (status || input_buffer_open(&s->input, (int)plan.input_rows, (int)plan.widest, s->n_threads)) return -1;
    s->input.weights_exceed_l2 = s->model->decode_bytes > SECOND_LEVEL_CACHE;
    s->chunk = n;
    return 0;
}

/* Room for a chunk of n tokens, for keys, values and scores of that many positions, and for logits. */
static int reserve(Session *s, int n, int positions, int n_logits) {
    const int blocks = s->kv.blocks;
    if (reserve_chunk(s, n) || kv_reserve(&s->kv, positions, s->context)) return -1;
    if (!s->scores || s->kv.blocks > blocks) {
        free(s->scores);
        s->scores = allocate((size_t)s->kv.blocks * KV_BLOCK * KV_QUERIES, (size_t)s->n_threads * sizeof(float));
    }
    if (s->scores && (!s->logits || n_logits > s->n_logits)) {
        free(s->logits);
        s->n_logits = n_logits > 0 ? n_logits : 1;
        s->logits = allocate((size_t)s->n_logits, (size_t)s->model->config.vocab_size * sizeof(float));
    }
    return s->scores && s->logits ? 0 : -1;
}
