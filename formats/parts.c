/* parts.c: the parts of a model, in order.
 *
 * Owns the order in which a model's tensors and norms are listed, and their names.
 */
#include "formats/parts.h"

#include "kernels/tensor.h"
#include "model.h"
#include "norm.h"

#include <stdio.h>

typedef struct {
    void (*tensor)(void *arg, const char *name, const Tensor *w);
    void (*norm)(void *arg, const char *name, const Norm *norm, int dim);
    void *arg;
    char prefix[48]; /* of the names: "layers.3." */
} Visitor;

/* What a layer does not have is all zeros. */
static void visit_tensor(const Visitor *v, const char *name, const Tensor *w) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", v->prefix, name);
    if (v->tensor && w->data) v->tensor(v->arg, full, w);
}

static void visit_norm(const Visitor *v, const char *name, const Norm *norm, int dim) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", v->prefix, name);
    if (v->norm && norm->gamma) v->norm(v->arg, full, norm, dim);
}

static void visit_mlp(const Visitor *v, const Mlp *mlp) {
    visit_tensor(v, "gate", &mlp->gate);
    visit_tensor(v, "up", &mlp->up);
    visit_tensor(v, "down", &mlp->down);
}

static void visit_layer(Visitor *v, const Config *c, const Layer *layer, int l) {
    snprintf(v->prefix, sizeof v->prefix, "layers.%d.", l);
    visit_norm(v, "attn_norm", &layer->attn_norm, c->dim);
    visit_tensor(v, "wq", &layer->wq);
    visit_tensor(v, "wk", &layer->wk);
    visit_tensor(v, "wv", &layer->wv);
    visit_norm(v, "q_norm", &layer->q_norm, c->head_size);
    visit_norm(v, "k_norm", &layer->k_norm, c->head_size);
    visit_tensor(v, "wo", &layer->wo);
    visit_norm(v, "mlp_norm", &layer->mlp_norm, c->dim);
    visit_mlp(v, &layer->mlp);
    visit_tensor(v, "router", &layer->router);
    for (int e = 0; layer->experts && e < c->n_experts; e++) {
        snprintf(v->prefix, sizeof v->prefix, "layers.%d.experts.%d.", l, e);
        visit_mlp(v, &layer->experts[e]);
    }
    v->prefix[0] = 0;
}

void model_visit(const Model *m, void (*tensor)(void *arg, const char *name, const Tensor *w),
                 void (*norm)(void *arg, const char *name, const Norm *norm, int dim), void *arg) {
    Visitor v = {.tensor = tensor, .norm = norm, .arg = arg};
    visit_tensor(&v, "embedding", &m->embedding);
    for (int l = 0; l < m->config.n_layers; l++) visit_layer(&v, &m->config, &m->layers[l], l);
    visit_norm(&v, "final_norm", &m->final_norm, m->config.dim);
    if (!m->tied) visit_tensor(&v, "output", &m->output);
}
