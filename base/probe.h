/* probe.h: how the forward pass tells an observer that a site has ended.
 *
 * Owns the names of the sites and the calls with which the forward pass reports them. Who
 * observes, and what is made of it, is not its business (lab/profile.c); without an observer
 * a call is one comparison.
 */
#ifndef NORMA_PROBE_H
#define NORMA_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/* The places of the forward pass, in its order. What is computed in one go is one site. */
typedef enum {
    SITE_START, /* memory and threads are made ready, and at the end threads let go */
    SITE_EMBED,
    SITE_ATTN_NORM,
    SITE_QKV_ROPE,
    SITE_Q_NORM, /* between the products and RoPE; not in all models */
    SITE_K_NORM,
    SITE_ATTENTION,
    SITE_ATTN_OUT,
    SITE_MLP_NORM,
    SITE_ROUTER, /* of sparse layers */
    SITE_GATE_UP_SILU,
    SITE_DOWN,
    SITE_FINAL_NORM,
    SITE_LOGITS,
    SITE_PROFILE, /* the observer looks at activations */
    N_SITES
} Site;

enum { NO_LAYER = -1 }; /* of sites outside the layers */

/* An observer. `mark` and the looks at activations come from every thread of the region. */
typedef struct Probe Probe;
struct Probe {
    void (*begin)(Probe *p, int n);
    void (*chunk)(Probe *p, int n, int pos, int n_logits);
    void (*mark)(Probe *p, int layer, Site site, bool ended);
    void (*heads)(Probe *p, int layer, Site site, bool out, const float *x, size_t stride, int n, int heads, int dim);
    void (*norm)(Probe *p, int layer, Site site, const float *x, const float *y, int n, int dim);
    void (*end)(Probe *p);
};

/* A forward pass of n tokens begins; it ends. */
static inline void probe_begin(Probe *p, int n) {
    if (p) p->begin(p, n);
}
static inline void probe_end(Probe *p) {
    if (p) p->end(p);
}

/* The next chunk of it: n tokens from position pos on, with the logits of the last n_logits. */
static inline void probe_chunk(Probe *p, int n, int pos, int n_logits) {
    if (p) p->chunk(p, n, pos, n_logits);
}

/* The site has ended: the time since the last mark of this thread belongs to it. */
static inline void probe_mark(Probe *p, int layer, Site site) {
    if (p) p->mark(p, layer, site, true);
}

/* The same for a part of a site that goes on, perhaps after another one. */
static inline void probe_part(Probe *p, int layer, Site site) {
    if (p) p->mark(p, layer, site, false);
}

/* A norm has ended that made y[n][dim] of x[n][dim]; the observer may look at both. */
static inline void probe_norm(Probe *p, int layer, Site site, const float *x, const float *y, int n, int dim) {
    if (p) p->norm(p, layer, site, x, y, n, dim);
}

/* The calling thread's heads go into a norm, or have come `out`; the observer may look at them: `heads` vectors
 * of dim floats, side by side at x, of each of n tokens, whose rows are `stride` floats apart. */
static inline void probe_heads(Probe *p, int layer, Site site, bool out, const float *x, size_t stride, int n,
                               int heads, int dim) {
    if (p) p->heads(p, layer, site, out, x, stride, n, heads, dim);
}

#endif
