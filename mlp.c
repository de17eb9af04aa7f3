/* mlp.c: the feed-forward half of a decoder layer, SwiGLU.
 *
 * Owns down(silu(gate(x)) * up(x)) (Shazeer 2020, "GLU Variants Improve
 * Transformer"), and the mixture of such experts that sparse layers are made of
 * (Shazeer et al. 2017, "Outrageously Large Neural Networks"). The products
 * themselves are matmul.c's.
 */
#include "base/probe.h"
#include "kernels/matmul.h"
#include "kernels/simd.h"
#include "kernels/tensor.h"
#include "model.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* gate = silu(gate) * up, silu(a) = a / (1 + e^-a). */
static void silu_times(float *gate, const float *up, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf a = vload(gate + i);
        vstore(gate + i, a / (1.0f + vexp(-a)) * vload(up + i));
    }
    if (i < n) {
        vf a = vload_n(gate + i, n - i);
        vstore_n(gate + i, a / (1.0f + vexp(-a)) * vload_n(up + i, n - i), n - i);
    }
}

/* Elements [first, first + count) of gate[n][hidden_dim] = silu(gate(x)) * up(x): both
 * products in one task, so that there is no barrier between. */
static void gate_up(const Mlp *m, float *gate, float *up, int first, int count, const Input *in, int n) {
    const size_t hidden_dim = (size_t)m->gate.rows;
    matmul_rows(gate, hidden_dim, &m->gate, first, count, in, n, false);
    matmul_rows(up, hidden_dim, &m->up, first, count, in, n, false);
    for (int t = 0; t < n; t++) {
        const size_t at = (size_t)t * hidden_dim + (size_t)first;
        silu_times(gate + at, up + at, count);
    }
}

/* What gate and up have to be given: quantized, if one of them wants it. */
static const Tensor *input_of(const Mlp *m) { return type_wants_bytes(m->gate.type) ? &m->gate : &m->up; }

static int smaller(int a, int b) { return a < b ? a : b; }

static void dense(Session *s, const Layer *layer, const float *xn, int n) {
    const Mlp *m = &layer->mlp;
    const int hidden_dim = m->gate.rows, step = matmul_task_rows(hidden_dim, n);
    Input in = input_prepare(&s->input, input_of(m), xn, n);
#pragma omp for schedule(static)
    for (int first = 0; first < hidden_dim; first += step)
        gate_up(m, s->gate, s->up, first, smaller(step, hidden_dim - first), &in, n);
    probe_mark(s->probe, layer->index, SITE_GATE_UP_SILU);
    in = input_prepare(&s->input, &m->down, s->gate, n);
    matmul(s->x, &m->down, &in, n, true);
    probe_mark(s->probe, layer->index, SITE_DOWN);
}

/* ---- a mixture of experts --------------------------------------------------------------
 *
 * The router gives every token a few experts. Slots, one for each use of an expert
 * by a token, are sorted by expert: what an expert has to do is then one product
 * for all of its tokens, and its weights are read once for a chunk. A token adds
 * up its experts from the first to the last, whoever else is in the chunk. */

static void softmax(float *p, int n) {
    float max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmaxf(max, p[i]);
    for (int i = 0; i < n; i++) sum += p[i] = expf(p[i] - max);
    for (int i = 0; i < n; i++) p[i] /= sum;
}

static const float NOT_USED = -1;

/* Of p[n], leaves the n_used largest as they are, or divided by their sum; of equals,
 * and where nothing is a number, the first. */
static void choose(float *p, int n, int n_used, bool divide) {
    bool used[MOST_EXPERTS] = {false};
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

/* Fills the slots of n tokens. Nothing beside the experts' own work: one thread does it. */
static void fill_slots(Session *s, int n) {
    const Config *c = &s->model->config;
    const int experts = c->n_experts;
    for (int t = 0; t < n; t++) {
        float *p = s->router + (size_t)t * (size_t)experts;
        softmax(p, experts);
        choose(p, experts, c->n_experts_used, c->norm_topk);
    }
    int i = 0;
    for (int e = 0; e < experts; e++) {
        s->expert_start[e] = i;
        for (int t = 0; t < n; t++) {
            const float weight = s->router[(size_t)t * (size_t)experts + (size_t)e];
            if (weight != NOT_USED) s->slots[i++] = (Slot){t, weight};
        }
    }
    s->expert_start[experts] = i;
}

static void route(Session *s, const Layer *layer, const float *xn, int n) {
    const Input in = input_prepare(&s->input, &layer->router, xn, n);
    matmul(s->router, &layer->router, &in, n, false);
#pragma omp single
    fill_slots(s, n);
    probe_mark(s->probe, layer->index, SITE_ROUTER);
}

/* A row of the input for each slot; one token alone is every slot's row. */
static Input gather(Session *s, const Tensor *w, const float *xn, int n) {
    const size_t dim = (size_t)w->cols;
    if (n == 1) return input_prepare(&s->input, w, xn, 1);
#pragma omp for schedule(static)
    for (int i = 0; i < n * s->model->config.n_experts_used; i++)
        memcpy(s->expert_rows + (size_t)i * dim, xn + (size_t)s->slots[i].token * dim, dim * sizeof *xn);
    return input_prepare(&s->input, w, s->expert_rows, n * s->model->config.n_experts_used);
}

/* x[0..n) += weight * y[0..n) */
static void add_weighted(float *x, const float *y, float weight, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) vstore(x + i, vfma(vset(weight), vload(y + i), vload(x + i)));
    if (i < n) vstore_n(x + i, vfma(vset(weight), vload_n(y + i, n - i), vload_n(x + i, n - i)), n - i);
}

/* Elements [first, first + count) of gate and up of an expert's slots. */
static void expert_gate_up(Session *s, const Mlp *m, int e, int first, int count, const Input *in, bool shared) {
    const int start = s->expert_start[e], n = s->expert_start[e + 1] - start;
    const size_t at = (size_t)start * (size_t)m->gate.rows;
    const Input own = input_from(in, shared ? 0 : start);
    if (n > 0) gate_up(m, s->gate + at, s->up + at, first, count, &own, n);
}

/* Elements [first, first + count) of what an expert says, added to its tokens' x. */
static void expert_down(Session *s, const Mlp *m, int e, int first, int count, const Input *in) {
    const size_t dim = (size_t)m->down.rows;
    const int start = s->expert_start[e], end = s->expert_start[e + 1];
    if (start == end) return;
    const Input own = input_from(in, start);
    matmul_rows(s->expert_rows + (size_t)start * dim, dim, &m->down, first, count, &own, end - start, false);
    for (int i = start; i < end; i++) {
        const Slot *slot = &s->slots[i];
        add_weighted(s->x + (size_t)slot->token * dim + (size_t)first, s->expert_rows + (size_t)i * dim + (size_t)first,
                     slot->weight, count);
    }
}

static void sparse(Session *s, const Layer *layer, const float *xn, int n) {
    const Config *c = &s->model->config;
    const int hidden_dim = c->expert_dim;
    const Mlp *m = layer->experts;
    route(s, layer, xn, n);
    int step = matmul_task_rows(hidden_dim, n);
    Input in = gather(s, input_of(m), xn, n);
#pragma omp for schedule(static)
    for (int first = 0; first < hidden_dim; first += step)
        for (int e = 0; e < c->n_experts; e++)
            expert_gate_up(s, &m[e], e, first, smaller(step, hidden_dim - first), &in, n == 1);
    probe_mark(s->probe, layer->index, SITE_GATE_UP_SILU);
    step = matmul_task_rows(c->dim, n);
    in = input_prepare(&s->input, &m->down, s->gate, n * c->n_experts_used);
#pragma omp for schedule(static)
    for (int first = 0; first < c->dim; first += step)
        for (int e = 0; e < c->n_experts; e++) expert_down(s, &m[e], e, first, smaller(step, c->dim - first), &in);
    probe_mark(s->probe, layer->index, SITE_DOWN);
}

void mlp(Session *s, const Layer *layer, const float *xn, int n) { (layer->experts ? sparse : dense)(s, layer, xn, n); }
