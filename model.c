/* model.c: the decoder.
 *
 * Owns the forward pass (embed, layers, final norm, logits), the memory of a
 * session (activations, KV cache) and the order in which a model's parts are
 * listed. How a layer attends is attention.c, its MLP mlp.c, its norms norm.c;
 * where the weights come from is checkpoint.c.
 */
#include "model.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/probe.h"
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kv_cache.h"
#include "lab/profile.h"
#include "norm.h"
#include "rope.h"

#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- the forward pass ---------------------------------------------------------- */

/* x[t] = the embedding of token t; rope[t] = cos and sin of its angles, from
 * double precision: a float32 angle is off by 1e-4 at position 1,000. */
static void embed(Session *s, const int *tokens, int n, int pos) {
    const Config *c = &s->model->config;
    const int dim = c->dim, pairs = c->rope_dims / 2;
#pragma omp for schedule(static)
    for (int t = 0; t < n; t++) {
        dequantize_row(s->x + (size_t)t * (size_t)dim, &s->model->embedding, tokens[t]);
        float *rope = s->rope + (size_t)t * (size_t)pairs * 2;
        for (int i = 0; i < pairs; i++) {
            double angle = (pos + t) * s->rope_freq[i];
            rope[2 * i] = (float)(c->rope_amplitude * cos(angle));
            rope[2 * i + 1] = (float)(c->rope_amplitude * sin(angle));
        }
    }
}

/* The norm of a site, under the profiler's eyes: xn[n][dim] from x. */
static const float *norm_site(Session *s, const Layer *layer, Site site, const Norm *norm, const float *x, int n) {
    const float *xn = norm_forward(s->xn, x, norm, n, s->model->config.dim);
    profile_norm(s, layer, site, x, xn, n);
    return xn;
}

/* The final norm and the classifier, for the last n_logits of n tokens. */
static void classify(Session *s, int n, int n_logits) {
    const Model *m = s->model;
    const float *last = s->x + (size_t)(n - n_logits) * (size_t)m->config.dim;
    const float *xn = norm_site(s, NULL, SITE_FINAL_NORM, &m->final_norm, last, n_logits);
    Input in = input_prepare(&s->input, &m->output, xn, n_logits);
    matmul(s->logits, &m->output, &in, n_logits, false);
    profile_mark(s, NULL, SITE_LOGITS);
}

/* A second thread pays for its barriers only if there is work to share. */
static int threads_for(const Session *s, int n) {
    const size_t worth_sharing = 6 << 20; /* bytes of weights times tokens: docs/performance.md */
    return s->model->decode_bytes >= worth_sharing / (size_t)n ? s->n_threads : 1;
}

/* The forward pass of a chunk, run by each thread of a region. */
static void forward_chunk(Session *s, const int *tokens, int n, int pos, int n_logits) {
    const Model *m = s->model;
    profile_mark(s, NULL, SITE_START);
    embed(s, tokens, n, pos);
    profile_mark(s, NULL, SITE_EMBED);
    for (int l = 0; l < m->config.n_layers; l++) {
        const Layer *layer = &m->layers[l];
        const float *xn = norm_site(s, layer, SITE_ATTN_NORM, &layer->attn_norm, s->x, n);
        attention(s, layer, &s->kv[l], xn, n, pos); /* x += attention(norm(x)) */
        xn = norm_site(s, layer, SITE_MLP_NORM, &layer->mlp_norm, s->x, n);
        mlp(s, layer, xn, n); /* x += mlp(norm(x)) */
    }
    if (n_logits > 0) classify(s, n, n_logits);
}

/* The same with as many threads as it is worth. */
static void share_chunk(Session *s, const int *tokens, int n, int pos, int n_logits) {
    const int threads = threads_for(s, n);
    profile_chunk(s->profile, n, pos, n_logits);
    if (threads == 1) { /* outside a region barriers cost nothing; in a region of one they are system calls */
        forward_chunk(s, tokens, n, pos, n_logits);
        return;
    }
#pragma omp parallel num_threads(threads)
    forward_chunk(s, tokens, n, pos, n_logits);
}

static int reserve(Session *s, int n, int positions, int n_logits);

const float *model_forward(Session *s, const int *tokens, int n, int pos, int n_logits) {
    if (pos > s->context - n) {
        fail("%lld positions do not fit in a context of %d", (long long)pos + n, s->context);
        return NULL;
    }
    profile_begin(s->profile, n);
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
    profile_end(s->profile);
    return s->logits;
}

int check_logits(const float *logits, size_t n) {
    int finite = 1;
    for (size_t i = 0; i < n; i++) finite &= isfinite(logits[i]) != 0;
    return finite ? 0 : fail("the model computed a logit that is no finite number; its weights may be damaged");
}

/* ---- sessions -------------------------------------------------------------------- */

int session_open(Session *s, const Model *model, int n_threads, int batch, int context, KvType kv_type) {
    const Config *c = &model->config;
    *s = (Session){.model = model,
                   .n_threads = n_threads,
                   .batch = batch,
                   .context = context > 0 && context < c->context ? context : c->context,
                   .kv_type = kv_type};
    s->kv = allocate((size_t)c->n_layers, sizeof *s->kv);
    s->rope_freq = allocate((size_t)c->rope_dims / 2, sizeof *s->rope_freq);
    if (!s->kv || !s->rope_freq) {
        session_close(s);
        return -1;
    }
    memset(s->kv, 0, (size_t)c->n_layers * sizeof *s->kv);
    for (int i = 0; i < c->rope_dims / 2; i++) {
        const double factor = model->rope_factors ? model->rope_factors[i] : 1.0;
        s->rope_freq[i] = rope_frequency(c, i) / (c->rope_scale * factor);
    }
    return 0;
}

static void free_activations(Session *s) {
    float **buffers[] = {&s->x,    &s->xn, &s->q,    &s->kv_rows, &s->att,
                         &s->gate, &s->up, &s->rope, &s->router,  &s->expert_rows};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        free(*buffers[i]);
        *buffers[i] = NULL;
    }
    free(s->slots);
    free(s->expert_start);
    s->slots = NULL;
    s->expert_start = NULL;
    input_buffer_close(&s->input);
    s->chunk = 0;
}

void session_close(Session *s) {
    free_activations(s);
    for (int l = 0; s->kv && l < s->model->config.n_layers; l++) {
        free(s->kv[l].keys);
        free(s->kv[l].values);
    }
    free(s->kv);
    free(s->scores);
    free(s->rope_freq);
    free(s->logits);
    *s = (Session){0};
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* What a sparse layer needs for n tokens. */
static int reserve_experts(Session *s, size_t n) {
    const Config *c = &s->model->config;
    const size_t slots = n * (size_t)c->n_experts_used, experts = (size_t)c->n_experts;
    if (!experts) return 0;
    s->router = allocate(n, experts * sizeof *s->router);
    s->slots = allocate(slots, sizeof *s->slots);
    s->expert_start = allocate(experts + 1, sizeof *s->expert_start);
    s->expert_rows = allocate(slots, (size_t)c->dim * sizeof *s->expert_rows);
    return s->router && s->slots && s->expert_start && s->expert_rows ? 0 : -1;
}

enum { SECOND_LEVEL_CACHE = 1536 << 10 }; /* bytes, on a common machine */

/* Room for the activations of n tokens. */
static int reserve_chunk(Session *s, int n) {
    if (n <= s->chunk) return 0;
    free_activations(s);
    const Config *c = &s->model->config;
    const size_t tokens = (size_t)n, dim = (size_t)c->dim, slots = tokens * (size_t)c->n_experts_used;
    const size_t kv_dim = (size_t)c->n_kv_heads * (size_t)c->head_size;
    const size_t q_dim = (size_t)c->n_heads * (size_t)c->head_size;
    const size_t hidden = larger(tokens * (size_t)c->hidden_dim, slots * (size_t)c->expert_dim);
    const size_t own_rows = larger(tokens, (size_t)s->n_threads);
    const size_t widest =
        larger(larger(dim, q_dim), (size_t)(c->hidden_dim > c->expert_dim ? c->hidden_dim : c->expert_dim));
    const size_t size = sizeof(float);
    if (!(s->x = allocate(tokens, dim * size)) || !(s->xn = allocate(own_rows, dim * size)) ||
        !(s->q = allocate(tokens, q_dim * size)) || !(s->kv_rows = allocate(tokens, 2 * kv_dim * size)) ||
        !(s->att = allocate(tokens, q_dim * size)) || !(s->gate = allocate(hidden, size)) ||
        !(s->up = allocate(hidden, size)) || !(s->rope = allocate(tokens, (size_t)c->rope_dims * size)) ||
        reserve_experts(s, tokens) ||
        input_buffer_open(&s->input, (int)larger(own_rows, slots), (int)widest, s->n_threads)) {
        free_activations(s);
        return -1;
    }
    s->input.weights_exceed_l2 = s->model->decode_bytes > SECOND_LEVEL_CACHE;
    s->chunk = n;
    return 0;
}

/* Room for a KV cache of that many positions; what it holds stays. It doubles,
 * so that growing costs little; pages that are never touched cost nothing. */
static int reserve_positions(Session *s, int positions) {
    const Config *c = &s->model->config;
    const int needed = (positions - 1) / KV_BLOCK + 1, most = (s->context - 1) / KV_BLOCK + 1;
    if (needed <= s->kv_blocks) return 0;
    int blocks = s->kv_blocks > most / 2 ? most : 2 * s->kv_blocks;
    if (blocks < needed) blocks = needed;
    for (int l = 0; l < c->n_layers; l++)
        if (kv_grow(&s->kv[l], c->n_kv_heads, c->head_size, s->kv_type, blocks)) return -1;
    free(s->scores);
    s->scores = allocate((size_t)blocks * KV_BLOCK * KV_QUERIES, (size_t)s->n_threads * sizeof(float));
    s->kv_blocks = s->scores ? blocks : 0;
    return s->scores ? 0 : -1;
}

static int reserve_logits(Session *s, int n_logits) {
    if (s->logits && n_logits <= s->n_logits) return 0;
    free(s->logits);
    s->n_logits = n_logits > 0 ? n_logits : 1;
    s->logits = allocate((size_t)s->n_logits, (size_t)s->model->config.vocab_size * sizeof(float));
    return s->logits ? 0 : -1;
}

static int reserve(Session *s, int n, int positions, int n_logits) {
    return reserve_chunk(s, n) || reserve_positions(s, positions) || reserve_logits(s, n_logits) ? -1 : 0;
}
