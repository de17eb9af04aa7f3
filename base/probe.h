/* probe.h: the hooks through which the forward pass reports its sites to an
 * observer (lab/profile.c).
 * Tests: profile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The places of the forward pass, in order: SITE(name, text), and NORM(name,
 * text) for a norm. Fused operations are one site. */
#define SITE_LIST(SITE, NORM)                                                  \
    SITE(START, "(start)") /* start of threads and memory */                   \
    SITE(EMBED, "embed")                                                       \
    NORM(ATTN_NORM, "attn_norm")                                               \
    SITE(INPUT, "input") /* int8; of one token: part of its product */         \
    SITE(QKV, "qkv")                                                           \
    NORM(Q_NORM, "q_norm") /* not in all models */                             \
    NORM(K_NORM, "k_norm")                                                     \
    SITE(ROPE, "rope") /* rotation; writing keys and values to the cache */    \
    SITE(ATTENTION, "attention")                                               \
    SITE(ATTN_OUT, "attn_out")                                                 \
    NORM(ATTN_POST_NORM, "attn_post_norm") /* not in all models */             \
    NORM(MLP_NORM, "mlp_norm")                                                 \
    SITE(ROUTER, "router") /* only in sparse layers */                         \
    SITE(TOP_K, "top_k")   /* only in sparse layers */                         \
    SITE(GATE_UP_SILU, "gate_up+silu")                                         \
    SITE(DOWN, "down")                                                         \
    NORM(MLP_POST_NORM, "mlp_post_norm")                                       \
    SITE(RESIDUAL, "residual") /* adds the output of a post-norm */            \
    NORM(FINAL_NORM, "final_norm")                                             \
    SITE(LOGITS, "logits")                                                     \
    SITE(GATHER, "gather")     /* exchange between ranks */                    \
    SITE(END, "(end)")         /* end of the parallel region */                \
    SITE(WAIT, "(wait)")       /* waiting for other threads */                 \
    SITE(PROFILE, "(profile)") /* time of the observer itself */

#define SITE_ID(name, text) SITE_##name,
typedef enum { SITE_LIST(SITE_ID, SITE_ID) N_SITES } Site;
#undef SITE_ID

enum { NO_LAYER = -1 }; /* the layer of sites outside the layers */

/* The vectors of a norm: for each of n tokens `heads` vectors of dim floats. */
typedef struct {
    const float *x; /* the first vector */
    size_t stride;  /* floats from a token to the next */
    int n, heads, dim;
    int token;          /* index in the chunk of the first vector's token */
    int channel;        /* index in its row of the first vector's element 0 */
    const float *gamma; /* [dim], of the norm */
} Vectors;

/* An observer of forward passes. Every thread of the region calls `mark` and
 * `norm`. */
typedef struct Probe Probe;
struct Probe {
    /* A forward pass begins. `decode`: one step per sequence, plus draft
     * tokens; else a prompt. */
    void (*begin)(Probe *p, bool decode);
    void (*end)(Probe *p);

    /* This thread has done its share of the site, or waited (SITE_WAIT); the
     * time since its last mark belongs to the site. */
    void (*mark)(Probe *p, int layer, Site site);

    /* Input of a norm, or its output if `out`. Of head norms the vectors are
     * the calling thread's, else they are all. */
    void (*norm)(Probe *p, int layer, Site site, bool out,
                 const Vectors *vectors);
};

/* The calls of the hooks. Without an observer (NULL) each is one comparison. */
#define PROBE_CALL(p, hook, ...)   ((p) ? (p)->hook(p, ##__VA_ARGS__) : (void)0)
#define probe_begin(p, decode)     PROBE_CALL(p, begin, decode)
#define probe_end(p)               PROBE_CALL(p, end)
#define probe_mark(p, layer, site) PROBE_CALL(p, mark, layer, site)
#define probe_norm(p, ...)         PROBE_CALL(p, norm, __VA_ARGS__)
