/* mlp.c: the feed-forward half of a dense decoder layer, x += mlp(norm(x)).
 *
 *     gate = silu(Wgate xn) * (Wup xn)     mlp_gate_up
 *     x += Wdown gate                      mlp, the residual
 *
 * Owns SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer"). It does not
 * own the products (kernels/matmul.c) or mixtures of experts (experts.c).
 * Tests: attention, plain. */
#include "kernels/input.h"
#include "kernels/matmul.h"
#include "kernels/simd.h"
#include "kernels/team.h"
#include "session.h"
#include <math.h>

/* by Activation */
const ActivationRow ACTIVATIONS[] = {
    {"silu", "silu", "swish"},
    {"gelu", "gelu_pytorch_tanh", "gelu_new"},
    {"relu squared", "relu2", "relu2"},
};
_Static_assert(sizeof ACTIVATIONS / sizeof *ACTIVATIONS == N_ACTIVATIONS,
               "an activation has no row");

/* silu(a) = a / (1 + e^-a), or GELU in its tanh form (Hendrycks & Gimpel
 * 2016, sec. 2), a / 2 (1 + tanh(z)) = a / (1 + e^-2z) with z = sqrt(2 / pi)
 * (a + 0.044715 a^3). */
INLINE vf activate_vector(const Activation activation, vf a) {
    vf z = vset(NAN);
    switch (activation) {
    case ACTIVATION_SILU: z = a; break;
    case ACTIVATION_GELU:
        z = 1.5957691216f * (a + 0.044715f * a * a * a);
        break;
    case ACTIVATION_RELU2: return a * vmax(a, vset(0));
    case N_ACTIVATIONS: break;
    }
    return a / (1.0f + vexp(-z));
}

/* gate = weight activation(gate) up; `up` may be NULL */
static void activate(Activation activation, float *gate, const float *up,
                     float weight, int n) {
    for (int i = 0; i < n; i += LANES) {
        int m = min_int(n - i, LANES);
        vf activated = activate_vector(activation, vload_n(gate + i, m)),
           factor = up ? vload_n(up + i, m) : vset(1);
        vstore_n(gate + i, weight * (activated * factor), m);
    }
}

void mlp_gate_up(const Session *s, const Mlp *m, float *gate, float *up,
                 const Input *in, int n) {
    size_t hidden_dim = tensor_all_rows(&m->gate);
    int rows = m->gate.rows, step = matmul_task_rows(rows, n);
    gate += tensor_first_row(&m->gate);
    up = m->up.data ? up + tensor_first_row(&m->up) : NULL;
#pragma omp for schedule(static) nowait
    for (int first = 0; first < rows; first += step) {
        int count = min_int(rows - first, step);
        matmul_rows(gate, hidden_dim, &m->gate, first, count, in, n, false);
        if (up)
            matmul_rows(up, hidden_dim, &m->up, first, count, in, n, false);
        for (int t = 0; t < n; t++) {
            size_t at = t * hidden_dim + first;
            /* of a shared expert: the sigmoid */
            float weight = m->weight.data
                               ? (float)(1 / (1 + exp(-s->chunk.shared[t])))
                               : 1;
            activate(s->model->config.activation, gate + at,
                     up ? up + at : NULL, weight, count);
        }
    }
}

void mlp(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    const Mlp *m = &layer->mlp;
    const Chunk *c = &s->chunk;
    int l = layer->index;
    const Tensor *up = m->up.data ? &m->up : &m->gate;
    Input in = input_prepare(&c->input, input_weight(&m->gate, up), xn, n);
    mlp_gate_up(s, m, c->gate, c->up, &in, n);
    team_end_product(s->probe, l, SITE_GATE_UP_SILU, c->gate, &m->gate, n);
    in = input_prepare(&c->input, &m->down, c->gate, n);
    matmul_add(x, &m->down, &in, n); /* the residual: x += Wdown gate */
    team_end_product(s->probe, l, SITE_DOWN, x, &m->down, n);
}
