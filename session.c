/* session.c: the memory of a session: KV caches and scratch buffers, which grow as steps run.
 *
 * The forward pass is in model.c, the memory of a cache in kv_cache.c.
 */
#include "base/memory.h"
#include "kernels/input.h"
#include "model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef NORMA_PLAIN
enum { PLAIN_BUILD = true };
#else
enum { PLAIN_BUILD = false };
#endif

/* Repeats a change in other processes. */
static void mirror(const Session *s, SessionChange change, int a, int b) {
    if (s->mirror) s->mirror(change, a, b, NULL);
}

bool has_branch(const Session *s, const Norm *post) { return post->gamma || s->model->config.residual_scale != 0; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

enum {
    N_BUFFERS = 19,                  /* without the input buffer */
    MAX_CHUNK_BYTES = 128 << 20,     /* max bytes of activations and logits, unless the next limit is larger */
    MAX_CHUNK_WEIGHTS = 4,           /* the same limit as a multiple of decode_bytes */
    SECOND_LEVEL_CACHE = 1536 << 10, /* bytes, on a typical machine */
    FEW_STEPS = 16
};

/* The scratch buffers of a chunk. */
typedef struct {
    struct {
        void *pointer; /* address of its pointer in the session */
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
    const size_t widest = larger(larger(dim, q_dim), larger(hidden_dim, expert_dim));
    return (Plan){.buffers = {{&s->spans, tokens, sizeof *s->spans},
                              {&s->requested, tokens, sizeof *s->requested},
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
                              {&s->expert_rows, slots, dim * sizeof *s->expert_rows},
                              {&s->row, 1, widest * sizeof *s->row},
                              {&s->added, 1, dim * sizeof *s->added}},
                  .input_rows = larger(own_rows, slots),
                  .widest = widest};
}

/* Bytes of a chunk of n steps, with the logits of all of them. */
static double chunk_bytes(Session *s, int n) {
    const Plan plan = plan_chunk(s, n);
    double bytes = (double)n * s->model->config.vocab_size * (double)sizeof *s->logits;
    bytes += input_buffer_bytes((double)plan.input_rows, (int)plan.widest, s->n_threads, s->model->bf16);
    for (int i = 0; i < N_BUFFERS; i++) bytes += (double)plan.buffers[i].rows * (double)plan.buffers[i].row_bytes;
    return bytes;
}

/* Computes the frequencies of every RopeUse of the model. */
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

/* Number of most recent positions that a layer's cache must keep; 0: all. The first query of a chunk needs a whole
 * window. */
static int kept_positions(const Session *s, const Layer *layer) {
    const int64_t kept = (int64_t)layer->window + s->batch + MAX_ROLLBACK;
    return layer->window > 0 && kept < s->context && !s->keeps_all ? (int)kept : 0;
}

static int open_sequence(const Session *s, Sequence *q) {
    const Config *c = &s->model->config;
    if (kv_open(&q->kv, s->kv_type, c->n_layers, s->model->layers->wk.rows / c->head_size, c->head_size)) return -1;
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
    mirror(s, SESSION_RESERVE, n, 0);
    return 0;
}

int session_fork(Session *s, int to, int from) {
    s->sequences[to].n_ran = s->sequences[from].n_ran;
    if (kv_copy(&s->sequences[to].kv, &s->sequences[from].kv)) return -1;
    mirror(s, SESSION_FORK, to, from);
    return 0;
}

int session_open(Session *s, const Model *model, int n_threads, int batch, int context, KvType kv_type) {
    const Config *c = &model->config;
    *s = (Session){.model = model,
                   .plain = PLAIN_BUILD,
                   .n_threads = n_threads,
                   .batch = batch,
                   .kv_type = kv_type,
                   .context = context > 0 && context < c->context ? context : c->context};
    const double max_bytes = fmax(MAX_CHUNK_BYTES, MAX_CHUNK_WEIGHTS * (double)model->decode_bytes);
    while (s->n_threads > 1 && chunk_bytes(s, 1) > max_bytes) s->n_threads /= 2;
    while (s->batch > 1 && chunk_bytes(s, s->batch) > max_bytes) s->batch /= 2;
    if (!open_ropes(s) && !session_reserve(s, 1)) return 0;
    session_close(s);
    return -1;
}

void session_keep_all(Session *s) {
    s->keeps_all = true;
    mirror(s, SESSION_KEEP_ALL, 0, 0);
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

/* Rounds a small n up to FEW_STEPS, or to the batch if that is smaller. */
static int few(const Session *s, int n) {
    const int min_steps = s->batch < FEW_STEPS ? s->batch : FEW_STEPS;
    return n > min_steps ? n : min_steps;
}

/* Makes room for the activations of n steps. A small n is rounded up, because the number of draft tokens changes from
 * pass to pass. */
static int reserve_chunk(Session *s, int n) {
    if (n <= s->chunk) return 0;
    n = few(s, n);
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

int session_make_room(Session *s, const Step *steps, int n) {
    int n_logits = 0, room = s->room;
    if (reserve_chunk(s, n < s->batch ? n : s->batch)) return -1;
    for (int t = 0; t < n; t++) {
        KvCache *kv = &s->sequences[steps[t].sequence].kv;
        n_logits += steps[t].logits != NO_LOGITS;
        if (t + 1 < n && steps[t + 1].sequence == steps[t].sequence && steps[t + 1].pos > steps[t].pos) continue;
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
        s->n_logits = few(s, n_logits);
        s->logits = allocate((size_t)s->n_logits, (size_t)s->model->config.vocab_size * sizeof(float));
    }
    return s->scores && s->logits ? 0 : -1;
}
