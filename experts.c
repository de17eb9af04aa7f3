/* experts.c: the feed-forward half of a sparse decoder layer.
 *
 *     p = softmax(Wrouter xn), the largest kept    choose
 *     y_e = down(silu(gate(xn)) * up(xn))          mlp.c, down
 *     x += sum over the chosen e of p_e y_e        down, the residual
 *     x += down(sigmoid(Wweight xn) gate)          share, some models
 *
 * A mixture of experts: Shazeer et al. 2017. Owns the router and the division
 * of work. A slot is one token's use of one expert. Slots are sorted by expert:
 * an expert computes one product for all of its tokens, and its weights are
 * read once per chunk. A token's experts are always added in ascending order.
 * An expert is a SwiGLU (mlp.c).
 * Tests: golden, plain, families.
 */
#include "base/memory.h"
#include "kernels/input.h"
#include "kernels/lanes.h"
#include "kernels/matmul.h"
#include "kernels/team.h"
#include "session.h"
#include <math.h>
#include <omp.h>

/* The other three softmaxes sum in a different order, so sharing one
 * function would change bits: attend.c scales vectors of scores and keeps 1
 * / sum, sampler.c divides by a temperature, perplexity.c takes the
 * logarithm in double.
 */
static void softmax(float *p, int n) {
    float max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        max = fmaxf(max, p[i]);
    for (int i = 0; i < n; i++) /* from double: libms agree */
        sum += p[i] = (float)exp(p[i] - max);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

static const float NOT_USED = -1;

/* Turns the router's logits of a token, p[n_experts], into the weights of its
 * experts: the largest probabilities, perhaps divided by their sum; the others
 * become NOT_USED. Of equal values, and of NaN, the first are kept. */
static void choose(float *p, const Config *c) {
    bool used[MAX_EXPERTS] = {false};
    float sum = 0;
    softmax(p, c->n_experts);
    for (int i = 0; i < c->n_experts_used; i++) {
        int best = 0;
        while (used[best])
            best++;
        for (int e = best + 1; e < c->n_experts; e++)
            if (!used[e] && p[e] > p[best])
                best = e;
        used[best] = true;
        sum += p[best];
    }
    for (int e = 0; e < c->n_experts; e++)
        p[e] = !used[e] ? NOT_USED : c->norm_topk ? p[e] / sum : p[e];
}

/* Turns the router's logits of n tokens into slots, sorted by expert. It is
 * little work: one thread calls it. */
static void fill_slots(Session *s, int n) {
    int experts = s->model->config.n_experts;
    Chunk *c = &s->chunk;
    for (int t = 0; t < n; t++)
        choose(c->router + (size_t)t * experts, &s->model->config);
    c->n_used = 0;
    for (int e = 0, end = 0; e < experts; e++) {
        int first = end;
        for (int t = 0; t < n; t++) {
            float weight = c->router[(size_t)t * experts + e];
            if (weight != NOT_USED)
                c->slots[end++] = (Slot){t, weight};
        }
        if (end > first)
            c->used[c->n_used++] = (UsedExpert){e, first, end - first};
    }
}

/* The experts' input: one row per slot, or for a single token one row that
 * all slots share. */
static Input slot_rows(const Chunk *c, const Tensor *w, const float *xn, int n,
                       int n_slots) {
    size_t dim = w->cols;
    if (each_thread_computes(n))
        return input_prepare(&c->input, w, xn, 1);
#pragma omp for schedule(static) nowait
    for (int i = 0; i < n_slots; i++)
        memcpy(c->expert_rows + i * dim, xn + c->slots[i].token * dim,
               dim * sizeof *xn);
    team_barrier();
    return input_prepare(&c->input, w, c->expert_rows, n_slots);
}

/* Computes elements [first, first + count) of x += p_e y_e for the slots
 * of an expert. */
static void down(const Chunk *c, float *x, const Tensor *w, const UsedExpert *e,
                 int first, int count, const Input *in) {
    size_t dim = tensor_all_rows(w), row = tensor_first_row(w);
    Input slots = input_from(in, e->first);
    float *y = c->expert_rows + e->first * dim + row;
    matmul_rows(y, dim, w, first, count, &slots, e->n, false);
    EACH(const Slot, slot, c->slots + e->first, e->n) {
        float *sum = x + slot->token * dim + row;
#pragma omp simd
        for (int i = first; i < first + count; i++)
            sum[i] = fma_float(slot->weight, y[i], sum[i]);
        y += dim;
    }
}

/* The shared expert, an MLP for every token: x += down(w silu(gate(xn)) *
 * up(xn)), where w = sigmoid(Wweight xn) is the token's weight. */
static void share(Session *s, const Layer *layer, float *x, const float *xn,
                  int n) {
    const Chunk *c = &s->chunk;
    size_t hidden_dim = tensor_all_rows(&layer->mlp.gate);
    mlp_hidden(s, layer, xn, n);
    size_t step = (hidden_dim - 1) / omp_get_num_threads() + 1;
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < hidden_dim; first += step)
        for (int t = 0; t < n; t++) {
            /* from double: libms agree */
            float weight = (float)(1 / (1 + exp(-c->shared[t])));
            float *gate = c->gate + t * hidden_dim;
            for (size_t i = first; i < min_size(first + step, hidden_dim); i++)
                gate[i] *= weight;
        }
    team_barrier();
    mlp_down(s, layer, x, n);
}

void mixture(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    const Chunk *c = &s->chunk;
    const Mlp *m = layer->experts;
    int n_slots = n * s->model->config.n_experts_used;
    const Tensor *shared = &layer->mlp.weight;
    const Tensor *router = &layer->router;
    Input in = input_prepare(&c->input, input_weight(shared, router), xn, n);
    matmul(c->router, router, &in, n);
    if (shared->data)
        matmul(c->shared, shared, &in, n);
    team_end(s->probe, layer->index, SITE_ROUTER);
#pragma omp single nowait
    fill_slots(s, n);
    team_end(s->probe, layer->index, SITE_TOP_K);
    in = slot_rows(c, input_weight(&m->gate, &m->up), xn, n, n_slots);
    EACH(const UsedExpert, e, c->used, c->n_used) {
        size_t at = e->first * (size_t)tensor_all_rows(&m->gate);
        Input rows = input_from(&in, each_thread_computes(n) ? 0 : e->first);
        mlp_gate_up(s, &m[e->expert], c->gate + at, c->up + at, &rows, e->n);
    }
    team_end_product(s->probe, layer->index, SITE_GATE_UP_SILU, c->gate,
                     &m->gate, n_slots);
    in = input_prepare(&c->input, &m->down, c->gate, n_slots);
    int rows = m->down.rows, step = matmul_task_rows(rows, n);
#pragma omp for schedule(static) nowait
    for (int first = 0; first < rows; first += step) {
        int count = min_int(rows - first, step);
        EACH(const UsedExpert, e, c->used, c->n_used)
            down(c, x, &m[e->expert].down, e, first, count, &in);
    }
    team_end_product(s->probe, layer->index, SITE_DOWN, x, &m->down, n);
    if (shared->data)
        share(s, layer, x, xn, n);
}
