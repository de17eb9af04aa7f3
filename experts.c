/* experts.c: the feed-forward half of a sparse decoder layer, a mixture of experts.
 *
 *     p = softmax(Wrouter xn), the largest kept    choose         (Shazeer et al. 2017)
 *     y_e = down(silu(gate(xn)) * up(xn))          mlp.c, down
 *     x += sum over the chosen e of p_e y_e        down           the residual
 *     x += sigmoid(Wweight xn) y                   mlp.c          the shared expert of some models
 *
 * Owns the router and the division of work. A slot is one token's use of one expert. Slots are
 * sorted by expert: an expert computes one product for all of its tokens, and its weights are read
 * once per chunk. A token's experts are always added in ascending order. An expert is a SwiGLU
 * (mlp.c).
 */
#include "kernels/input.h"
#include "kernels/matmul.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include "model.h"
#include <math.h>

/* ---- the formula ------------------------------------------------------------------ */

/* The other three softmaxes sum in a different order, so sharing one function would change bits:
 * attend.c scales vectors of scores and keeps 1 / sum, sampler.c divides by a temperature,
 * perplexity.c takes the logarithm in double.
 */
static void softmax(float *p, int n) {
    float max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        max = fmaxf(max, p[i]);
    for (int i = 0; i < n; i++)
        sum += p[i] = expf(p[i] - max);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

static const float NOT_USED = -1;

/* Keeps the n_used largest of p[n], unchanged or divided by their sum; the others become NOT_USED.
 * Of equal values, and of NaN, the first are kept. */
static void choose(float *p, int n, int n_used, bool divide) {
    bool used[MAX_EXPERTS] = {false};
    float sum = 0;
    for (int i = 0; i < n_used; i++) {
        int best = 0;
        while (used[best])
            best++;
        for (int e = best + 1; e < n; e++)
            if (!used[e] && p[e] > p[best])
                best = e;
        used[best] = true;
        sum += p[best];
    }
    for (int e = 0; e < n; e++)
        p[e] = !used[e] ? NOT_USED : divide ? p[e] / sum : p[e];
}

void mixture_plain(Session *s, const Layer *layer, float *x, const float *xn,
                   int n) {
    const Config *c = &s->model->config;
    float *in =
        s->chunk.expert_rows; /* a copy: xn is x if the layer has no norm */
    for (int t = 0; t < n; t++, x += c->dim, xn += c->dim) {
        memcpy(in, xn, (size_t)c->dim * sizeof *in);
        matmul_plain(s->chunk.router, &layer->router, xn, s->chunk.row);
        softmax(s->chunk.router, c->n_experts);
        choose(s->chunk.router, c->n_experts, c->n_experts_used, c->norm_topk);
        for (int e = 0; e < c->n_experts; e++) {
            if (s->chunk.router[e] == NOT_USED)
                continue;
            swiglu_plain(s, &layer->experts[e], s->chunk.added, in);
            for (int i = 0; i < c->dim; i++)
                x[i] += s->chunk.router[e] * s->chunk.added[i];
        }
        if (layer->mlp.weight.data)
            mlp_plain(s, layer, x, xn, 1);
    }
}

/* ---- the fast form ---------------------------------------------------------------- */

/* Turns the router's logits of n tokens into slots, sorted by expert. It is little work: one thread
 * calls it. */
static void fill_slots(Session *s, int n) {
    const Config *config = &s->model->config;
    const Chunk *c = &s->chunk;
    const int experts = config->n_experts;
    for (int t = 0; t < n; t++) {
        float *p = c->router + (size_t)t * experts;
        softmax(p, experts);
        choose(p, experts, config->n_experts_used, config->norm_topk);
    }
    int i = 0;
    for (int e = 0; e < experts; e++) {
        c->expert_start[e] = i;
        for (int t = 0; t < n; t++) {
            const float weight = c->router[(size_t)t * experts + e];
            if (weight != NOT_USED)
                c->slots[i++] = (Slot){t, weight};
        }
    }
    c->expert_start[experts] = i;
}

/* The experts' input: one row per slot, or for a single token one row that all slots share. */
static Input slot_rows(Session *s, const Tensor *w, const float *xn, int n) {
    const Chunk *c = &s->chunk;
    const size_t dim = w->cols;
    const int n_slots = n * s->model->config.n_experts_used;
    if (each_thread_computes(n))
        return input_prepare(&c->input, w, xn, 1);
#pragma omp for schedule(static) nowait
    for (int i = 0; i < n_slots; i++)
        memcpy(c->expert_rows + i * dim, xn + c->slots[i].token * dim,
               dim * sizeof *xn);
    team_barrier();
    return input_prepare(&c->input, w, c->expert_rows, n_slots);
}

/* Computes elements [first, first + count) of x += p_e y_e for the n slots of expert e from `start`
 * on. */
static void down(const Chunk *c, float *x, const Tensor *w, int start, int n,
                 int first, int count, const Input *in) {
    const size_t dim = tensor_all_rows(w), row = tensor_first_row(w);
    const Input slots = input_from(in, start);
    float *y = c->expert_rows + start * dim + row;
    matmul_rows(y, dim, w, first, count, &slots, n, false);
    for (const Slot *slot = c->slots + start; slot < c->slots + start + n;
         slot++, y += dim) {
        float *sum = x + slot->token * dim + row;
#pragma omp simd
        for (int i = first; i < first + count; i++)
            sum[i] = fma_float(slot->weight, y[i], sum[i]);
    }
}

void mixture(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    const Chunk *c = &s->chunk;
    const Mlp *m = layer->experts;
    const int n_experts = s->model->config.n_experts,
              n_slots = n * s->model->config.n_experts_used;
    const int *starts =
        c->expert_start; /* expert e has the slots [starts[e], starts[e + 1]) */
    const Tensor *shared = &layer->mlp.weight;
    Input in = input_prepare(&s->chunk.input,
                             input_weight(shared, &layer->router), xn, n);
    matmul(s->chunk.router, &layer->router, &in, n);
    if (shared->data)
        matmul(s->chunk.shared, shared, &in, n);
    team_end(s->probe, layer->index, SITE_ROUTER);
#pragma omp single nowait
    fill_slots(s, n);
    team_end(s->probe, layer->index, SITE_TOP_K);
    in = slot_rows(s, input_weight(&m->gate, &m->up), xn, n);
    for (int e = 0; e < n_experts; e++) {
        const size_t at = starts[e] * (size_t)tensor_all_rows(&m->gate);
        const Input rows =
            input_from(&in, each_thread_computes(n) ? 0 : starts[e]);
        if (starts[e] < starts[e + 1])
            mlp_gate_up(s, &m[e], c->gate + at, c->up + at, &rows,
                        starts[e + 1] - starts[e]);
    }
    team_end_product(s->probe, layer->index, SITE_GATE_UP_SILU, c->gate,
                     &m->gate, n_slots);
    in = input_prepare(&c->input, &m->down, c->gate, n_slots);
    const int step = matmul_task_rows(&m->down, &in, n);
#pragma omp for schedule(static) nowait
    for (int first = 0; first < m->down.rows; first += step) {
        const int count =
            m->down.rows - first < step ? m->down.rows - first : step;
        for (int e = 0; e < n_experts; e++)
            if (starts[e] < starts[e + 1])
                down(c, x, &m[e].down, starts[e], starts[e + 1] - starts[e],
                     first, count, &in);
    }
    team_end_product(s->probe, layer->index, SITE_DOWN, x, &m->down, n);
    /* without a norm, xn is x with the experts' outputs */
    if (shared->data)
        mlp(s, layer, x, xn, n);
}
