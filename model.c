/* model.c: the decoder.
 *
 *     x = E[token]                            embed
 *     x += post(attention(norm(x)))           forward_chunk, add_sublayer
 *     x += post(mlp(norm(x)))                 forward_chunk, add_sublayer
 *     logits = Wout norm(x)                   compute_logits
 *
 * plain.c computes the same by its formulas, and is the reference of this file
 * and of those that it calls.
 *
 * Owns the forward pass: embed, layers, final norm, logits. It does not own a
 * session's memory (session.c), attention (attention.c), the MLP (mlp.c,
 * experts.c), norms (norm.c) or the loading of weights (formats/).
 * Tests: golden, plain, invariance, sequences, bits.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/ranks.h"
#include "kernels/input.h"
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include "norm.h"
#include "rope.h"
#include "session.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

/* ---- the forward pass --------------------------------------------------- */

/* Writes x[t], the embedding of step t's token, and the rotation angles of its
 * position. A pass from a later layer on has its x. */
static void embed(Session *s, int n) {
    const Config *c = &s->model->config;
#pragma omp for schedule(static) nowait
    for (int t = 0; t < n; t++) {
        float *x = s->chunk.x + (size_t)t * c->dim;
        if (s->chunk.layers.first == 0) {
            dequantize_row(x, &s->model->embedding, s->chunk.steps[t].token);
            for (int i = 0; c->embedding_scale != 1 && i < c->dim; i++)
                x[i] *= c->embedding_scale;
        }
        for (int r = 0; r < N_ROPES; r++)
            rope_angles(s->chunk.angles[r] + t * s->ropes[r].dims, &s->ropes[r],
                        s->chunk.steps[t].pos);
    }
}

/* Without norms of its own, the MLP has attention's input. */
static bool has_mlp_norm(const Layer *layer) {
    return layer->mlp_norm.gamma || layer->mlp_post_norm.gamma;
}

/* Whether a sublayer has changed x before the last read of the site's xn: the
 * MLP reads attention's input, or a shared expert that of the others. */
static bool is_read_later(const Layer *layer, Site site) {
    if (site == SITE_ATTN_NORM)
        return !has_mlp_norm(layer);
    return site == SITE_MLP_NORM && layer->experts && layer->mlp.weight.data;
}

/* Returns xn[n][dim] = norm(x). Without a norm this is x, or a copy of it if x
 * changes while xn is in use. layer: NO_LAYER for the final norm. */
static const float *norm_site(Session *s, int layer, Site site,
                              const Norm *norm, const float *x, int n) {
    int dim = s->model->config.dim;
    bool copies =
        layer != NO_LAYER && is_read_later(&s->model->layers[layer], site);
    if (norm->kind == NORM_NONE && !copies)
        return x;
    const float *xn = norm_forward(s->chunk.xn, x, norm, n, dim);
    probe_mark(s->probe, layer, site);
    if (!each_thread_computes(n))
        team_wait(s->probe, layer);
    if (norm->kind == NORM_NONE)
        return xn; /* a copy, not a norm */
    Vectors rows = {x, dim, n, 1, dim, .gamma = norm->gamma};
    probe_norm(s->probe, layer, site, false, &rows);
    rows.x = xn;
    probe_norm(s->probe, layer, site, true, &rows);
    return xn;
}

/* logits = cap tanh(scale logits / cap), in models with a scale or a cap. */
static void cap_logits(const Session *s) {
    const Config *c = &s->model->config;
    float scale = c->logit_scale;
    int64_t n = (int64_t)s->chunk.n_requested * c->vocab_size;
    if (scale == 1 && c->logit_cap == 0)
        return;
    team_barrier();
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? (int)(n - i) : LANES;
        vf z = scale * vload_n(s->chunk.out + i, count);
        if (c->logit_cap != 0)
            z = vcap(z, c->logit_cap);
        vstore_n(s->chunk.out + i, z, count);
    }
}

/* Returns the requested rows of x. If there are gaps between them, moves them
 * down in x, which is not needed again. */
static const float *requested_rows(const Session *s) {
    const Chunk *c = &s->chunk;
    size_t dim = s->model->config.dim;
    int n = c->n_requested, first = c->requested[0];
    if (c->requested[n - 1] - first == n - 1)
        return c->x + first * dim;
#pragma omp single nowait
    for (int i = 0; i < n; i++)
        memmove(c->x + i * dim, c->x + c->requested[i] * dim,
                dim * sizeof *c->x);
    team_barrier();
    return c->x;
}

/* The final norm and the requested logits. */
static void compute_logits(Session *s) {
    const Model *m = s->model;
    int n = s->chunk.n_requested;
    const float *x = requested_rows(s);
    const float *xn =
        norm_site(s, NO_LAYER, SITE_FINAL_NORM, &m->final_norm, x, n);
    Input in = input_prepare(&s->chunk.input, &m->output, xn, n);
    matmul(s->chunk.out, &m->output, &in, n);
    cap_logits(s);
    team_end(s->probe, NO_LAYER, SITE_LOGITS);
    /* only rank 0 samples */
    team_gather(s->probe, NO_LAYER, s->chunk.out, &m->output, n, false);
}

typedef void Sublayer(Session *s, const Layer *layer, float *x, const float *xn,
                      int n);

/* x += scale post(sublayer(xn)). The sublayer adds to x itself, unless a
 * post-norm or a scale follows (not in LLaMA): then it adds to zeros. */
static void add_sublayer(Session *s, Sublayer *sublayer, const Layer *layer,
                         float *x, const float *xn, Site site,
                         const Norm *post) {
    const Config *c = &s->model->config;
    float scale = c->residual_scale;
    int n = s->chunk.n;
    int64_t size = (int64_t)n * c->dim;
    float *branch = s->chunk.branch;
    if (post->kind == NORM_NONE && scale == 1) {
        sublayer(s, layer, x, xn, n);
        return;
    }
    /* a barrier inside the sublayer precedes the first addition */
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < size; i++)
        branch[i] = 0;
    sublayer(s, layer, branch, xn, n);
    const float *y = norm_site(s, layer->index, site, post, branch, n);
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < size; i++)
        x[i] = fma_float(scale, y[i], x[i]);
    team_end(s->probe, layer->index, SITE_RESIDUAL);
}

/* After Ctrl-C, lets the pass end after layer l. Thread 0 decides, and the
 * barriers of the layer follow, so all threads end after the same one. Not with
 * other processes, which would wait. */
static void heed_interrupt(Chunk *c, int l) {
    if (interrupted && n_ranks == 1 && omp_get_thread_num() == 0)
        atomic_store(&c->end, l + 1);
}

static bool ran_all_layers(const Chunk *c) {
    return atomic_load(&c->end) == c->layers.end;
}

/* The forward pass of a chunk; every thread of the team runs it. */
static void forward_chunk(void *session) {
    Session *s = session;
    const Model *m = s->model;
    int n = s->chunk.n;
    float *x = s->chunk.x;
    probe_mark(s->probe, NO_LAYER, SITE_START);
    embed(s, n);
    team_end(s->probe, NO_LAYER, SITE_EMBED);
    for (int l = s->chunk.layers.first; l < atomic_load(&s->chunk.end); l++) {
        heed_interrupt(&s->chunk, l);
        const Layer *layer = &m->layers[l];
        const float *xn;
        xn = norm_site(s, l, SITE_ATTN_NORM, &layer->attn_norm, x, n);
        /* x += post(attention(pre(x))) */
        add_sublayer(s, attention, layer, x, xn, SITE_ATTN_POST_NORM,
                     &layer->attn_post_norm);
        if (has_mlp_norm(layer))
            xn = norm_site(s, l, SITE_MLP_NORM, &layer->mlp_norm, x, n);
        Sublayer *feed_forward = layer->experts ? mixture : mlp;
        /* x += post(mlp(pre(x))) */
        add_sublayer(s, feed_forward, layer, x, xn, SITE_MLP_POST_NORM,
                     &layer->mlp_post_norm);
    }
    if (s->chunk.n_requested > 0 && ran_all_layers(&s->chunk))
        compute_logits(s);
}

/* Number of threads for a chunk of n steps: decode_threads for one step, else
 * one if the work is not worth the barriers. */
static int chunk_threads(const Session *s, int n) {
    /* bytes of a layer's weights times steps (docs/notebook.md) */
    size_t worth_sharing = 1 << 19;
    /* the output counts as one more layer */
    size_t layers = s->model->config.n_layers + 1;
    if (n == 1 && s->decode_threads)
        return s->decode_threads;
    return s->model->decode_bytes / layers < worth_sharing / n ? 1
                                                               : s->n_threads;
}

/* Whether a step directly follows the one before it in the same sequence. */
static bool follows(const Step *step) {
    const Step *before = step - 1;
    return step->sequence == before->sequence && step->pos == before->pos + 1;
}

/* Makes steps[n] the current chunk: finds its spans and the
 * requested logits. */
static void begin_chunk(Chunk *c, const Step *steps, int n) {
    c->steps = steps;
    c->n = n;
    c->n_spans = c->n_requested = 0;
    atomic_store(&c->end, c->layers.end);
    for (int t = 0; t < n; t++) {
        const Step *step = &steps[t];
        if (t == 0 || !follows(step))
            c->spans[c->n_spans++] = (Span){t, 0, step->sequence, step->pos};
        c->spans[c->n_spans - 1].n++;
        if (step->logits)
            c->requested[c->n_requested++] = t;
    }
}

/* Checks the steps and updates n_ran of their sequences. -1 and a message if a
 * step cannot run. */
static int admit(Session *s, const Step *steps, int n) {
    int end = 0;
    for (int t = 0; t < n; t++)
        end = steps[t].pos >= end ? steps[t].pos + 1 : end;
    if (end > s->context) {
        bool whole = s->context == s->model->config.context;
        const char *reason = whole ? s->model->ended_by : NULL;
        return fail("%d positions do not fit in a context of %d%s%s", end,
                    s->context, reason ? ": " : "", reason ? reason : "");
    }
    for (int t = 0; t < n; t++) {
        int pos = steps[t].pos, number = steps[t].sequence;
        if (session_reserve(s, number + 1))
            return -1;
        Sequence *q = &s->sequences[number];
        bool evicts =
            !s->plain && (q->n_ran - 1) / KV_BLOCK >= q->kv.min_blocks;
        if (pos > 0 && pos < q->n_ran - MAX_ROLLBACK && evicts)
            return fail("cannot rewind to position %d: with a sliding window "
                        "at most %d positions can be rewound",
                        pos, MAX_ROLLBACK);
        if (pos == 0 || pos >= q->n_ran)
            q->n_ran = pos + 1;
    }
    return 0;
}

/* Forgets steps that did not run to the end. */
static void withdraw(Session *s, const Step *steps, int n) {
    for (int t = 0; t < n; t++) {
        Sequence *q = &s->sequences[steps[t].sequence];
        q->n_ran = min_int(q->n_ran, steps[t].pos);
    }
}

/* Whether each sequence has one step, followed only by draft tokens. */
static bool is_decode(const Step *steps, int n) {
    for (int t = 1; t < n; t++)
        if (steps[t].logits != GUESS_LOGITS && follows(&steps[t]))
            return false;
    return true;
}

/* model_forward() in some of the layers. */
static const float *run_pass(Session *s, const Step *steps, int n,
                             LayerRange layers) {
    double start = clock_seconds();
    Chunk *c = &s->chunk;
    if (admit(s, steps, n))
        return NULL;
    if (s->plain)
        return s->plain->forward(s, steps, n);
    probe_begin(s->probe, is_decode(steps, n));
    if (session_make_room(s, steps, n))
        return NULL;
    c->input.probe = s->probe;
    if (s->mirror)
        s->mirror(SESSION_RUN, n, 0, steps);
    c->out = c->logits;
    c->layers = layers;
    float *own = c->x;
    for (int count; n > 0; n -= count, steps += count) {
        count = min_int(n, s->batch);
        begin_chunk(c, steps, count);
        if (layers.x) {
            c->x = layers.x;
            layers.x += count * (size_t)s->model->config.dim;
        }
        team_run(chunk_threads(s, count), forward_chunk, s);
        if (!ran_all_layers(c)) {
            withdraw(s, steps, n);
            break;
        }
        c->out += (size_t)c->n_requested * s->model->config.vocab_size;
    }
    c->x = own;
    probe_end(s->probe);
    s->seconds = clock_seconds() - start;
    return n > 0 ? NULL : c->logits;
}

static LayerRange all_layers(const Session *s) {
    return (LayerRange){.first = 0, .end = s->model->config.n_layers};
}

const float *model_forward(Session *s, const Step *steps, int n) {
    return run_pass(s, steps, n, all_layers(s));
}

const float *model_forward_text(Session *s, const int *tokens, int n, int pos,
                                int n_logits) {
    return model_forward_layers(s, tokens, n, pos, n_logits, all_layers(s));
}

const float *model_forward_layers(Session *s, const int *tokens, int n, int pos,
                                  int n_logits, LayerRange layers) {
    Step *steps = allocate(n, sizeof *steps);
    for (int t = 0; steps && t < n; t++)
        steps[t] = (Step){tokens[t], 0, pos + t, t >= n - n_logits};
    const float *logits = steps ? run_pass(s, steps, n, layers) : NULL;
    free(steps);
    return logits;
}

int check_logits(const float *logits, size_t n) {
    int finite = 1;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(logits[i]) != 0;
    return finite ? 0
                  : fail("the model computed a logit that is not finite; its "
                         "weights may be damaged, or too large for a float16 "
                         "cache (use --kv f32)");
}
