/* probe.h: how the forward pass tells an observer (lab/profile.c) that a site has ended. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The places of the forward pass, in order: SITE(name, text, is it a norm). What is computed in one go is one site. */
#define SITE_LIST(SITE)                                                                                                \
    SITE(START, "(start)", false) /* memory and threads are made ready */                                              \
    SITE(EMBED, "embed", false)                                                                                        \
    SITE(ATTN_NORM, "attn_norm", true)                                                                                 \
    SITE(QKV, "qkv", false)                                                                                            \
    SITE(Q_NORM, "q_norm", true) /* not in all models */                                                               \
    SITE(K_NORM, "k_norm", true)                                                                                       \
    SITE(ROPE, "rope", false) /* and keys and values go into the cache */                                              \
    SITE(ATTENTION, "attention", false)                                                                                \
    SITE(ATTN_OUT, "attn_out", false)                                                                                  \
    SITE(ATTN_POST_NORM, "attn_post_norm", true) /* not in all models */                                               \
    SITE(MLP_NORM, "mlp_norm", true)                                                                                   \
    SITE(ROUTER, "router", false) /* of sparse layers, */                                                              \
    SITE(TOP_K, "top_k", false)   /* as the choice of experts */                                                       \
    SITE(GATE_UP_SILU, "gate_up+silu", false)                                                                          \
    SITE(DOWN, "down", false)                                                                                          \
    SITE(MLP_POST_NORM, "mlp_post_norm", true)                                                                         \
    SITE(RESIDUAL, "residual", false) /* what a post-norm made is added */                                             \
    SITE(FINAL_NORM, "final_norm", true)                                                                               \
    SITE(LOGITS, "logits", false)                                                                                      \
    SITE(GATHER, "gather", false)     /* ranks send each other what they computed */                                   \
    SITE(END, "(end)", false)         /* threads are let go */                                                         \
    SITE(WAIT, "(wait)", false)       /* a thread waits for the others */                                              \
    SITE(PROFILE, "(profile)", false) /* the observer reads the clock, and looks at activations */

#define SITE_ID(name, text, is_norm) SITE_##name,
typedef enum { SITE_LIST(SITE_ID) N_SITES } Site;
#undef SITE_ID

enum { NO_LAYER = -1 }; /* of sites outside the layers */

/* An observer of forward passes. Every thread of the region calls `mark`, `waited`, `norm` and `heads`. */
typedef struct Probe Probe;
struct Probe {
    /* A forward pass begins, a prompt's unless it is decoding, one step a sequence and guesses; whether to observe it:
     * the hooks below are called in such passes alone. */
    bool (*begin)(Probe *p, bool decode);

    /* The forward pass has ended, observed or not. */
    void (*end)(Probe *p);

    /* The next chunk of it: n steps. */
    void (*chunk)(Probe *p, int n);

    /* The time since the last mark of this thread belongs to the site, of which the thread has done its share. */
    void (*mark)(Probe *p, int layer, Site site);

    /* The time since the last mark of this thread is waiting for the threads that had not ended the site. */
    void (*waited)(Probe *p, int layer, Site site);

    /* A norm has ended that made y[n][dim] of x[n][dim]. */
    void (*norm)(Probe *p, int layer, Site site, const float *x, const float *y, int n, int dim);

    /* The calling thread's heads go into a norm, or have come `out`: `heads` vectors of dim floats, side by side
     * at x, of each of n tokens, whose rows are `stride` floats apart. */
    void (*heads)(Probe *p, int layer, Site site, bool out, const float *x, size_t stride, int n, int heads, int dim);
};

/* The calls; without an observer (NULL) each is one comparison. */
#define PROBE_CALL(p, hook, ...)   ((p) ? (p)->hook(p, ##__VA_ARGS__) : (void)0)
#define probe_chunk(p, n)          PROBE_CALL(p, chunk, n)
#define probe_mark(p, layer, site) PROBE_CALL(p, mark, layer, site)
#define probe_norm(p, ...)         PROBE_CALL(p, norm, __VA_ARGS__)
#define probe_heads(p, ...)        PROBE_CALL(p, heads, __VA_ARGS__)
