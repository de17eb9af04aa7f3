/* probe.h: how the forward pass tells an observer (lab/profile.c) that a site has ended. */
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

/* An observer. Every thread of the region calls `mark`, `norm` and `heads`. */
typedef struct Probe Probe;
struct Probe {
    /* A forward pass of n tokens begins; it ends. */
    void (*begin)(Probe *p, int n);
    void (*end)(Probe *p);

    /* The next chunk of it: n tokens from position pos on, with the logits of the last n_logits. */
    void (*chunk)(Probe *p, int n, int pos, int n_logits);

    /* The time since the last mark of this thread belongs to the site, which has `ended`; or a part of it has,
     * and it goes on, perhaps after another site. */
    void (*mark)(Probe *p, int layer, Site site, bool ended);

    /* A norm has ended that made y[n][dim] of x[n][dim]. */
    void (*norm)(Probe *p, int layer, Site site, const float *x, const float *y, int n, int dim);

    /* The calling thread's heads go into a norm, or have come `out`: `heads` vectors of dim floats, side by side
     * at x, of each of n tokens, whose rows are `stride` floats apart. */
    void (*heads)(Probe *p, int layer, Site site, bool out, const float *x, size_t stride, int n, int heads, int dim);
};

/* The calls; without an observer (NULL) each is one comparison. */
#define PROBE_CALL(p, hook, ...)         ((p) ? (p)->hook(p, ##__VA_ARGS__) : (void)0)
#define probe_begin(p, n)                PROBE_CALL(p, begin, n)
#define probe_end(p)                     PROBE_CALL(p, end)
#define probe_chunk(p, n, pos, n_logits) PROBE_CALL(p, chunk, n, pos, n_logits)
#define probe_mark(p, layer, site)       PROBE_CALL(p, mark, layer, site, true)
#define probe_part(p, layer, site)       PROBE_CALL(p, mark, layer, site, false)
#define probe_norm(p, ...)               PROBE_CALL(p, norm, __VA_ARGS__)
#define probe_heads(p, ...)              PROBE_CALL(p, heads, __VA_ARGS__)

#endif
