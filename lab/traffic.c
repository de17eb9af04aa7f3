/* traffic.c: how many bytes a site of the forward pass must move. */
#include "lab/traffic.h"

#include "base/probe.h"
#include "kernels/tensor.h"
#include "kv_cache.h"
#include "model.h"

static double weights(const Tensor *w) { return (double)tensor_bytes(w, w->rows); }

/* One half of an MLP, gate and up or `down`. In a sparse layer: the weights of the experts that have
 * tokens, and a row of activations for each of the experts that a token uses. */
static double mlp_bytes(const Session *s, const Layer *layer, bool down, int n) {
    const Config *c = &s->model->config;
    const bool sparse = layer->experts;
    const double rows = (double)n * (sparse ? c->n_experts_used : 1);
    const double dim = 4.0 * c->dim, hidden = 4.0 * (sparse ? c->expert_dim : c->hidden_dim);
    double sum = rows * (down ? hidden + 2 * dim : dim + 2 * hidden);
    for (int e = 0; e < (sparse ? c->n_experts : 1); e++) {
        const Mlp *m = sparse ? &layer->experts[e] : &layer->mlp;
        if (sparse && s->expert_start[e] == s->expert_start[e + 1]) continue;
        sum += down ? weights(&m->down) : weights(&m->gate) + weights(&m->up);
    }
    return sum;
}

double site_bytes(const Session *s, int layer, Site site, Chunk chunk) {
    const Model *m = s->model;
    const Config *c = &m->config;
    const Layer *l = &m->layers[layer == NO_LAYER ? 0 : layer]; /* sites outside the layers do not read it */
    const double n = chunk.n, n_logits = chunk.n_logits;
    const double dim = 4.0 * c->dim; /* of one token, float32: its row of x, its queries, its keys */
    const double q = 4.0 * c->n_heads * c->head_size, k = 4.0 * c->n_kv_heads * c->head_size;
    const double cached = 2 * k * (s->kv.type == KV_F32 ? 1 : 0.5); /* keys and values of one position */
    switch (site) {
    case SITE_START: break;
    case SITE_EMBED: return n * ((double)tensor_bytes(&m->embedding, 1) + dim);
    case SITE_ATTN_NORM:
    case SITE_MLP_NORM: return (2 * n + 1) * dim;
    case SITE_QKV_ROPE: return weights(&l->wq) + weights(&l->wk) + weights(&l->wv) + n * (dim + q + cached);
    case SITE_Q_NORM: return 2 * n * q + 4.0 * c->head_size;
    case SITE_K_NORM: return 2 * n * k + 4.0 * c->head_size;
    case SITE_ATTENTION: return 2 * n * q + (chunk.pos + n) * cached;
    case SITE_ATTN_OUT: return weights(&l->wo) + n * (q + 2 * dim);
    case SITE_ROUTER: return weights(&l->router) + n * (dim + 4.0 * c->n_experts);
    case SITE_GATE_UP_SILU: return mlp_bytes(s, l, false, chunk.n);
    case SITE_DOWN: return mlp_bytes(s, l, true, chunk.n);
    case SITE_FINAL_NORM: return (2 * n_logits + 1) * dim;
    case SITE_LOGITS: return weights(&m->output) + n_logits * (dim + 4.0 * c->vocab_size);
    case SITE_PROFILE:
    case N_SITES: break;
    }
    return 0;
}
