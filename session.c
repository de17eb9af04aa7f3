/* session.c: the memory of a session: KV caches and scratch buffers, which grow
 * as steps run.
 *
 * The forward pass is in model.c, the memory of a cache in kv_cache.c.
 * Tests: invariance, sequences.
 */
#include "session.h"
#include "base/error.h"
#include "base/memory.h"
#include "kernels/input.h"
#include "rope.h"
#include <math.h>
#include <stdlib.h>

enum {
    /* max bytes of activations and logits, unless the next limit is larger */
    MAX_CHUNK_BYTES = 128 << 20,
    MAX_CHUNK_WEIGHTS = 4, /* the same limit as a multiple of decode_bytes */
    FEW_STEPS = 16
};

static int larger(int a, int b) {
    return a > b ? a : b;
}

static float *floats(Arena *a, double rows, int columns) {
    return arena_take(a, rows * columns, sizeof(float));
}

/* Assigns the memory of a chunk. */
static void lay_out(Session *s, Arena *a, Capacity capacity) {
    const Config *c = &s->model->config;
    Chunk *b = &s->chunk;
    double steps = capacity.steps, slots = steps * c->n_experts_used,
           own_rows = fmax(steps, s->n_threads);
    double hidden = fmax(steps * c->hidden_dim, slots * c->expert_dim);
    int q_dim = c->n_heads * c->head_size,
        kv_dim = c->n_kv_heads * c->head_size;
    int widest =
        larger(larger(c->dim, q_dim), larger(c->hidden_dim, c->expert_dim));
    b->spans = arena_take(a, steps, sizeof *b->spans);
    b->requested = arena_take(a, steps, sizeof *b->requested);
    b->x = floats(a, steps, c->dim);
    b->xn = floats(a, own_rows, c->dim);
    b->branch = floats(a, steps, c->dim);
    for (int r = 0; r < N_ROPES; r++)
        b->angles[r] = floats(a, steps, s->ropes[r].dims);
    b->q = floats(a, steps, q_dim);
    b->k = floats(a, steps, kv_dim);
    b->v = floats(a, steps, kv_dim);
    b->scores = floats(a, s->n_threads * KV_QUERIES, capacity.positions);
    b->att = floats(a, steps, q_dim);
    b->gate = floats(a, hidden, 1);
    b->up = floats(a, hidden, 1);
    b->router = floats(a, steps, c->n_experts);
    b->shared = floats(a, steps, 1);
    b->slots = arena_take(a, slots, sizeof *b->slots);
    b->used = arena_take(a, c->n_experts, sizeof *b->used);
    b->expert_rows = floats(a, slots, c->dim);
    b->logits = floats(a, capacity.logits, c->vocab_size);
    input_lay_out(&b->input, a, fmax(own_rows, slots), widest, s->n_threads);
}

/* Bytes of a chunk of n steps, with the logits of all of them. */
static double chunk_bytes(Session *s, int n) {
    Arena a = {0};
    lay_out(s, &a, (Capacity){n, 0, n});
    return a.used;
}

/* Computes the frequencies of every RopeUse. Without local_base no
 * layer is local. */
static int open_ropes(Session *s) {
    const Model *m = s->model;
    const Config *c = &m->config;
    s->ropes[ROPE_GLOBAL] = c->rope;
    if (c->local_base > 0)
        s->ropes[ROPE_LOCAL] = (Rope){.base = c->local_base,
                                      .scale = 1,
                                      .amplitude = 1,
                                      .dims = c->rope.dims,
                                      .halves = c->rope.halves};
    return rope_open(&s->ropes[ROPE_GLOBAL], s->context > c->context
                                                 ? m->long_factors
                                                 : m->rope_factors) ||
                   rope_open(&s->ropes[ROPE_LOCAL], NULL)
               ? -1
               : 0;
}

static int open_sequence(const Session *s, Sequence *q) {
    const Config *c = &s->model->config;
    *q = (Sequence){0};
    if (kv_open(&q->kv, s->kv_type, c->n_layers,
                s->model->layers->wk.rows / c->head_size, c->head_size))
        return -1;
    /* a layer with a window keeps only its positions; the first query of a
     * chunk needs all of them */
    for (int l = 0; l < c->n_layers; l++) {
        int window = s->model->layers[l].window;
        int64_t kept = (int64_t)window + s->batch + MAX_ROLLBACK;
        q->kv.layers[l].kept = window > 0 && kept < s->context ? (int)kept : 0;
    }
    return 0;
}

int session_reserve(Session *s, int n) {
    if (n <= s->n_sequences)
        return 0;
    Sequence *sequences = realloc(s->sequences, n * sizeof *sequences);
    if (!sequences)
        return fail("out of memory: %d sequences", n);
    s->sequences = sequences;
    while (s->n_sequences < n)
        if (open_sequence(s, &s->sequences[s->n_sequences++]))
            return -1;
    return 0;
}

int session_fork(Session *s, int to, int from) {
    if (session_reserve(s, to + 1) ||
        (s->plain ? s->plain->fork(s, to, from)
                  : kv_copy(&s->sequences[to].kv, &s->sequences[from].kv)))
        return -1;
    s->sequences[to].n_ran = s->sequences[from].n_ran;
    if (s->mirror)
        s->mirror(SESSION_FORK, to, from, NULL);
    return 0;
}

int session_open(Session *s, const Model *model, int n_threads, int batch,
                 int context, KvType kv_type) {
    int trained = model->config.context,
        max = model->long_factors ? model->long_context : trained;
    *s = (Session){.model = model,
                   .n_threads = n_threads,
                   .batch = batch,
                   .kv_type = kv_type,
                   .context = min_int(context > 0 ? context : trained, max)};
    int status = open_ropes(s);
    double max_bytes =
        fmax(MAX_CHUNK_BYTES, MAX_CHUNK_WEIGHTS * (double)model->decode_bytes);
    while (s->n_threads > 1 && chunk_bytes(s, 1) > max_bytes)
        s->n_threads /= 2;
    while (s->batch > 1 && chunk_bytes(s, s->batch) > max_bytes)
        s->batch /= 2;
    if (!status && !session_reserve(s, 1))
        return 0;
    session_close(s);
    return -1;
}

void session_keep_all(Session *s) {
    EACH(KvLayer, layer, s->sequences->kv.layers, s->model->config.n_layers)
        layer->kept = 0;
}

void session_close(Session *s) {
    free(s->chunk.memory);
    EACH(Sequence, q, s->sequences, s->n_sequences) {
        kv_close(&q->kv);
        free(q->plain);
    }
    free(s->sequences);
    free(s->plain_logits);
    EACH(Rope, rope, s->ropes, N_ROPES)
        free(rope->frequencies);
    *s = (Session){0};
}

/* Makes room for a chunk. A few steps or rows of logits are rounded up, because
 * the number of draft tokens changes from pass to pass. */
static int reserve_chunk(Session *s, Capacity n) {
    Capacity has = s->chunk.capacity;
    int few = min_int(s->batch, FEW_STEPS);
    if (n.steps <= has.steps && n.positions <= has.positions &&
        n.logits <= has.logits)
        return 0;
    n = (Capacity){larger(n.steps, larger(has.steps, few)),
                   larger(n.positions, has.positions),
                   larger(n.logits, larger(has.logits, few))};
    free(s->chunk.memory);
    s->chunk.capacity = (Capacity){0};
    Arena a = {0};
    lay_out(s, &a, n);
    /* zeroed for an observer, because the first access to a page takes longer
     * than a site */
    size_t bytes = (size_t)a.used;
    s->chunk.memory = s->probe ? allocate_zeroed(bytes, 1) : allocate(bytes, 1);
    if (!s->chunk.memory)
        return -1;
    a = (Arena){.memory = s->chunk.memory};
    lay_out(s, &a, n);
    s->chunk.capacity = n;
    return 0;
}

int session_make_room(Session *s, const Step *steps, int n) {
    Capacity capacity = {.steps = min_int(n, s->batch)};
    /* the last position of a sequence first, so that its cache grows once */
    for (int t = n - 1; t >= 0; t--) {
        KvCache *kv = &s->sequences[steps[t].sequence].kv;
        capacity.logits += steps[t].logits != NO_LOGITS;
        if (kv_reserve(kv, steps[t].pos + 1, s->context))
            return -1;
        capacity.positions = larger(capacity.positions, kv->blocks * KV_BLOCK);
    }
    return reserve_chunk(s, capacity);
}
