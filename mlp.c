/* mlp.c: the feed-forward half of a decoder layer, SwiGLU.
 *
 * Owns down(silu(gate(x)) * up(x)) (Shazeer 2020, "GLU Variants Improve
 * Transformer"). The products themselves are matmul.c's.
 */
#include "model.h"
#include "simd.h"

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

void mlp(Session *s, const Layer *layer, const float *xn, int n) {
    const int hidden_dim = s->model->config.hidden_dim;
    const int step = matmul_task_rows(hidden_dim, n);
    Input in =
        input_prepare(&s->input, type_wants_bytes(layer->mlp.gate.type) ? &layer->mlp.gate : &layer->mlp.up, xn, n);
    /* gate and up of the same hidden elements in one task: no barrier between */
#pragma omp for schedule(static)
    for (int first = 0; first < hidden_dim; first += step) {
        const int count = hidden_dim - first < step ? hidden_dim - first : step;
        matmul_rows(s->gate, (size_t)hidden_dim, &layer->mlp.gate, first, count, &in, n, false);
        matmul_rows(s->up, (size_t)hidden_dim, &layer->mlp.up, first, count, &in, n, false);
        for (int t = 0; t < n; t++) {
            const size_t at = (size_t)t * (size_t)hidden_dim + (size_t)first;
            silu_times(s->gate + at, s->up + at, count);
        }
    }
    profile_mark(s, layer, SITE_GATE_UP_SILU);
    in = input_prepare(&s->input, &layer->mlp.down, s->gate, n);
    matmul(s->x, &layer->mlp.down, &in, n, true);
    profile_mark(s, layer, SITE_DOWN);
}
