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
    NO_PRE_NORMS = 0x1, /* no norms before sublayers */
    POST_NORMS = 0x2,   /* norms after sublayers */
    HEAD_NORMS = 0x4,
    WIDE_HEAD_NORMS = 0x8, /* a head norm normalizes all heads jointly */
    LAYER_NORMS = 0x10,
    /* LayerNorms without stored parameters: gamma is 1, beta is 0 */
    BARE_NORMS = 0x20,
    /* GGUF files store the window; other programs honour it */
    STORED_WINDOW = 0x40,
    BIASES = 0x80, /* of attention's output and of the MLP */
    SPARSE = 0x100,
    SCORE_CAP = 0x200,
    LOGIT_CAP = 0x400,
    /* of embeddings, scores, residuals and logits, given by keys */
    SCALES = 0x800,
    NEIGHBOURS = 0x1000, /* in all its GGUF files RoPE pairs neighbours */
    PARTIAL_ROPE = 0x2000,
    ROPE_FACTORS = 0x4000, /* in a tensor */
    ODD_HEADS = 0x8000,    /* head_size is not dim / n_heads */
    /* the output is always the embedding; it may be in every family */
    TIED = 0x10000,
    ALL_WINDOWS = 0x20000, /* all layers have the window */
    /* all layers but every period-th have the window */
    PERIODIC_WINDOWS = 0x40000,
    /* a GGUF file without the key has the family's window */
    DEFAULT_WINDOW = 0x80000,
    LOCAL_ROPE = 0x100000, /* layers with a window have a different RoPE base */
    FUSED = 0x200000,      /* q, k and v are one tensor */
    /* GGUF files have an output tensor even if the output is tied */
    STORED_OUTPUT = 0x400000,
    /* the routing weights of a token are not divided by their sum */
    RAW_TOPK = 0x800000,
    /* if some layers have a window, the others have no RoPE */
    ROPE_IN_WINDOWS = 0x1000000,
    FUSED_MLP = 0x2000000, /* gate and up are one tensor */
    /* beyond the original context queries are scaled; norma ends there */
    QUERY_SCALE = 0x4000000,
    /* HEAD_NORMS come after RoPE; in folders, dynamic RoPE has a constant
     * alpha */
    LATE_HEAD_NORMS = 0x8000000,
    /* the MLP is down(activation(up x)); `up` is called gate here, and Mlp.up
     * is absent */
    NO_GATE = 0x20000000,
    /* a mixture has one more expert, for all tokens, with a weight of its own;
     * no layer is dense */
    SHARED_EXPERT = 0x40000000,
    /* attention and MLP have one norm, without beta; logits are multiplied by
     * their scale */
    PARALLEL_SUBLAYERS = 0x10000000,
};
