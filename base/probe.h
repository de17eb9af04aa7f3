/* probe.h: how the forward pass tells an observer that a site has ended.
 */
#ifndef NORMA_PROBE_H
#define NORMA_PROBE_H

/* The places of the forward pass that are timed. What is computed in one go is
 * one site; (start) is memory and threads being made ready and threads let go,
 * (profile) the cost of looking at the activations. */
typedef enum {
    SITE_START,
    SITE_EMBED,
    SITE_ATTN_NORM,
    SITE_QKV_ROPE,
    SITE_Q_NORM, /* in between; not in all models */
    SITE_K_NORM,
    SITE_ATTENTION,
    SITE_ATTN_OUT,
    SITE_MLP_NORM,
    SITE_ROUTER, /* of sparse layers */
    SITE_GATE_UP_SILU,
    SITE_DOWN,
    SITE_FINAL_NORM,
    SITE_LOGITS,
    SITE_PROFILE,
    N_SITES
} Site;

#endif
