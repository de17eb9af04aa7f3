/* traits.h: the traits of model families: the parts and formulas in which they
 * differ.
 *
 * family.h says which family has which traits, parts.c which parts depend on
 * them.
 * Tests: families.
 */
#pragma once

/* In a GGUF file of a family with neither ALL_WINDOWS nor PERIODIC_WINDOWS, the
 * window limits the context. */
enum {
    NO_PRE_NORMS = 1 << 0, /* no norms before sublayers */
    POST_NORMS = 1 << 1,   /* norms after sublayers */
    HEAD_NORMS = 1 << 2,
    WIDE_HEAD_NORMS = 1 << 3, /* a head norm normalizes all heads jointly */
    LAYER_NORMS = 1 << 4,
    /* LayerNorms without stored parameters: gamma is 1, beta is 0 */
    BARE_NORMS = 1 << 5,
    /* GGUF files store the window; other programs honour it */
    STORED_WINDOW = 1 << 6,
    BIASES = 1 << 7, /* of attention's output and of the MLP */
    SPARSE = 1 << 8,
    SCORE_CAP = 1 << 9,
    LOGIT_CAP = 1 << 10,
    /* of embeddings, scores, residuals and logits, given by keys */
    SCALES = 1 << 11,
    NEIGHBOURS = 1 << 12, /* in all its GGUF files RoPE pairs neighbours */
    PARTIAL_ROPE = 1 << 13,
    ROPE_FACTORS = 1 << 14, /* in a tensor */
    ODD_HEADS = 1 << 15,    /* head_size is not dim / n_heads */
    /* the output is always the embedding; it may be in every family */
    TIED = 1 << 16,
    ALL_WINDOWS = 1 << 17, /* all layers have the window */
    /* all layers but every period-th have the window */
    PERIODIC_WINDOWS = 1 << 18,
    /* a GGUF file without the key has the family's window */
    DEFAULT_WINDOW = 1 << 19,
    LOCAL_ROPE = 1 << 20, /* layers with a window have a different RoPE base */
    FUSED = 1 << 21,      /* q, k and v are one tensor */
    /* GGUF files have an output tensor even if the output is tied */
    STORED_OUTPUT = 1 << 22,
    /* the routing weights of a token are not divided by their sum */
    RAW_TOPK = 1 << 23,
    /* if some layers have a window, the others have no RoPE */
    ROPE_IN_WINDOWS = 1 << 24,
    FUSED_MLP = 1 << 25, /* gate and up are one tensor */
    /* beyond the original context queries are scaled; norma ends there */
    QUERY_SCALE = 1 << 26,
    /* HEAD_NORMS come after RoPE; in folders, dynamic RoPE has a constant
     * alpha */
    LATE_HEAD_NORMS = 1 << 27,
    /* the MLP is down(activation(up x)); `up` is called gate here, and Mlp.up
     * is absent */
    NO_GATE = 1 << 29,
    /* a mixture has one more expert, for all tokens, with a weight of its own;
     * no layer is dense */
    SHARED_EXPERT = 1 << 30,
    /* attention and MLP have one norm, without beta; logits are multiplied by
     * their scale */
    PARALLEL_SUBLAYERS = 1 << 28,
};
