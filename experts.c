/* experts.c: the feed-forward half of a sparse decoder layer, a mixture of experts.
 *
 *     p = softmax(Wrouter xn), the largest kept    route          (Shazeer et al. 2017, "Outrageously
 *     y_e = down(silu(gate(xn)) * up(xn))          gate_up, down  Large Neural Networks")
 *     x += sum over the chosen e of p_e y_e        down           the residual
 *
 * Owns the router and the division of work. A slot is one token's use of one expert. Slots are sorted by expert: an
 * expert computes one product for all of its tokens, and its weights are read once per chunk. A token's experts are
 * always added in ascending order. An expert is a SwiGLU (mlp.c).
 */
#include "kernels/input.h"
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include "model.h"
#include <math.h>

/* ---- the formula ------------------------------------------------------------------ */

/* The other three softmaxes sum in a different order, so sharing one function would change bits: attend.c scales
 * vectors of scores and keeps 1 / sum, sampler.c divides by a temperature, perplexity.c takes the logarithm in double.
 */
static void softmax(float *p, int n) {
    float max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmaxf(max, p[i]);
    for (int i = 0; i < n; i++) sum += p[i] = expf(p[i] - max);
    for (int i = 0; i < n; i++) p[i] /= sum;
}

static const float NOT_USED = -1;

/* Keeps the n_used largest of p[n], unchanged or divided by their sum; the others become NOT_USED. Of equal values, and
 * of NaN, the first are kept. */
static void choose(float *p, int n, int n_used, bool divide) {
    bool used[MAX_EXPERTS] = {false};
    float sum = 0;
    for (int i = 0; i < n_used; i++) {
        int best = 0;
        while (used[best]) best++;
        for (int e = best + 1; e < n; e++)
            if (!used[e] && p[e] > p[best]) best = e;
        used[best] = true;
        sum += p[best];
    }
    for (int e = 0; e < n; e++) p[e] = !used[e] ? NOT_USED : divide ? p[e] / sum : p[e];
}

void mixture_plain(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    const Config *c = &s->model->config;
    for (int t = 0; t < n; t++, x += c->dim, xn += c->dim) {
        matmul_plain(s->chunk.router, &layer->router, xn, s->chunk.row);
        softmax(s->chunk.router, c->n_experts);
        choose(s->chunk.router, c->n_experts, c->n_experts_used, c->norm_topk);
        for (int e = 0; e < c->n_experts; e++) {
            if (s->chunk.router[e] == NOT_USED) continue;
            swiglu_plain(s, &layer->experts[e], s->chunk.added, xn);
            for (int i = 0; i < c->dim; i++) x[i] += s->chunk.router[e] * s->chunk.added[i];
        }
    }
}

/* ---- the fast form ---------------------------------------------------------------- */

/* Turns the router's logits of n tokens into slots, sorted by expert. It is little work: one thread calls it. */
static void fill_slots(Session *s, int n) {
    const Config *c = &s->model->config;
    const int experts = c->n_experts;
    for (int t = 0; t < n; t++) {
        float *p = s->chunk.router + (size_t)t * (size_t)experts;
        softmax(p, experts);
        choose(p, experts, c->n_experts_used, c->norm_topk);
    }
    int i = 0;
    for (int e = 0; e < experts; e++) {
        s->chunk.expert_start[e] = i;
        for (int t = 0; t < n; t++) {
            const float weight = s->chunk.router[(size_t)t * (size_t)experts + (size_t)e];
            if (weight != NOT_USED) s->chunk.slots[i++] = (Slot){t, weight};
        }
    }
    s->chunk.expert_start[experts] = i;
}

static void route(Session *s, const Layer *layer, const float *xn, int n) {
    const Input in = input_prepare(&s->chunk.input, &layer->router, xn, n);
    matmul(s->chunk.router, &layer->router, &in, n);
    team_end(s->probe, layer->index, SITE_ROUTER);
#pragma omp single nowait
    fill_slots(s, n);
    team_end(s->probe, layer->index, SITE_TOP_K);
}

/* The experts' input: one row per slot, or for a single token one row shared by all slots. */
static Input slot_rows(Session *s, const Tensor *w, const float *xn, int n) {
    const size_t dim = (size_t)w->cols;
    const int n_slots = n * s->model->config.n_experts_used;
    if (each_thread_computes(n)) return input_prepare(&s->chunk.input, w, xn, 1);
#pragma omp for schedule(static) nowait
    for (int i = 0; i < n_slots; i++)
        memcpy(s->chunk.expert_rows + (size_t)i * dim, xn + (size_t)s->chunk.slots[i].token * dim, dim * sizeof *xn);
    team_barrier();
    return input_prepare(&s->chunk.input, w, s->chunk.expert_rows, n_slots);
}

/* Computes elements [first, first + count) of silu(gate) * up for expert e's slots. `one_row`: the slots share one
 * input row. */
static void gate_up(Session *s, const Mlp *m, int e, int first, int count, const Input *in, bool one_row) {
    const int start = s->chunk.expert_start[e], n = s->chunk.expert_start[e + 1] - start;
    const size_t at = (size_t)start * (size_t)tensor_all_rows(&m->gate);
    const Input slots = input_from(in, one_row ? 0 : start);
    if (n > 0)
        mlp_gate_up(m, s->model->config.activation, s->chunk.gate + at, s->chunk.up + at, first, count, &slots, n);
}

/* x[n] += weight * y[n] */
static void add_weighted(float *x, const float *y, float weight, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) vstore(x + i, vfma(vset(weight), vload(y + i), vload(x + i)));
    if (i < n) vstore_n(x + i, vfma(vset(weight), vload_n(y + i, n - i), vload_n(x + i, n - i)), n - i);
}

/* Computes elements [first, first + count) of x += p_e y_e for the tokens of expert e. */
static void down(Session *s, float *x, const Mlp *m, int e, int first, int count, const Input *in) {
    const size_t dim = (size_t)tensor_all_rows(&m->down), first_row = (size_t)tensor_first_row(&m->down);
    const int start = s->chunk.expert_start[e], end = s->chunk.expert_start[e + 1];
    if (start == end) return;
    const Input slots = input_from(in, start);
    x += first_row;
    matmul_rows(s->chunk.expert_rows + (size_t)start * dim + first_row, dim, &m->down, first, count, &slots,
                end - start, false);
    for (int i = start; i < end; i++) {
        const float *y = s->chunk.expert_rows + (size_t)i * dim + first_row + (size_t)first;
        add_weighted(x + (size_t)s->chunk.slots[i].token * dim + (size_t)first, y, s->chunk.slots[i].weight, count);
    }
}

void mixture(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    const Config *c = &s->model->config;
    const Mlp *m = layer->experts;
    route(s, layer, xn, n);
    Input in = slot_rows(s, input_weight(&m->gate, &m->up), xn, n);
    int step = matmul_task_rows(&m->gate, &in, n);
#pragma omp for schedule(static) nowait
    for (int first = 0; first < m->gate.rows; first += step) {
        const int count = m->gate.rows - first < step ? m->gate.rows - first : step;
        for (int e = 0; e < c->n_experts; e++) gate_up(s, &m[e], e, first, count, &in, each_thread_computes(n));
    }
    team_end_product(s->probe, layer->index, SITE_GATE_UP_SILU, s->chunk.gate, &m->gate, n * c->n_experts_used);
    in = input_prepare(&s->chunk.input, &m->down, s->chunk.gate, n * c->n_experts_used);
    step = matmul_task_rows(&m->down, &in, n);
#pragma omp for schedule(static) nowait
    for (int first = 0; first < m->down.rows; first += step) {
        const int count = m->down.rows - first < step ? m->down.rows - first : step;
        for (int e = 0; e < c->n_experts; e++) down(s, x, &m[e], e, first, count, &in);
    }
    team_end_product(s->probe, layer->index, SITE_DOWN, x, &m->down, n);
}
