/* mlp.c: the feed-forward half of a dense decoder layer, x += mlp(norm(x)).
 *
 *     gate = silu(Wgate xn) * (Wup xn)     mlp_hidden
 *     x += Wdown gate                      mlp_down, the residual
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
        z = 1.5957691216f * vfma(0.044715f * a * a, a, a);
        break;
    case ACTIVATION_RELU2: return a * vmax(a, vset(0));
    case N_ACTIVATIONS: break;
    }
    return a / (1.0f + vexp(-z));
}

/* gate = activation(gate) up; `up` may be NULL */
static void activate(Activation activation, float *gate, const float *up,
                     int n) {
    for (int i = 0; i < n; i += LANES) {
        const int m = min_int(n - i, LANES);
        const vf activated = activate_vector(activation, vload_n(gate + i, m));
        const vf factor = up ? vload_n(up + i, m) : vset(1);
        vstore_n(gate + i, activated * factor, m);
    }
}

void mlp_gate_up(const Session *s, const Mlp *m, float *gate, float *up,
                 const Input *in, int n) {
    size_t hidden_dim = tensor_all_rows(&m->gate);
    int own = tensor_first_row(&m->gate); /* the first row of this process */
    int rows = m->gate.rows, step = matmul_task_rows(rows, n);
    bool has_up = m->up.data != NULL;
#pragma omp for schedule(static) nowait
    for (int first = 0; first < rows; first += step) {
        int count = min_int(rows - first, step);
        matmul_rows(gate + own, hidden_dim, &m->gate, first, count, in, n,
                    false);
        if (has_up)
            matmul_rows(up + own, hidden_dim, &m->up, first, count, in, n,
                        false);
        for (int t = 0; t < n; t++) {
            size_t at = t * hidden_dim + own + first;
            activate(s->model->config.activation, gate + at,
                     has_up ? up + at : NULL, count);
        }
    }
}

void mlp_hidden(Session *s, const Layer *layer, const float *xn, int n) {
    const Mlp *m = &layer->mlp;
    const Chunk *c = &s->chunk;
    const Tensor *other = m->up.data ? &m->up : &m->gate;
    Input in = input_prepare(&c->input, input_weight(&m->gate, other), xn, n);
    mlp_gate_up(s, m, c->gate, c->up, &in, n);
    team_end_product(s->probe, layer->index, SITE_GATE_UP_SILU, c->gate,
                     &m->gate, n);
}

void mlp_down(Session *s, const Layer *layer, float *x, int n) {
    const Tensor *down = &layer->mlp.down;
    Input in = input_prepare(&s->chunk.input, down, s->chunk.gate, n);
    matmul_add(x, down, &in, n); /* the residual: x += Wdown gate */
    team_end_product(s->probe, layer->index, SITE_DOWN, x, down, n);
}

void mlp(Session *s, const Layer *layer, float *x, const float *xn, int n) {
    mlp_hidden(s, layer, xn, n);
    mlp_down(s, layer, x, n);
}
