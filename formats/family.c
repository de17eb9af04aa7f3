/* family.c: the table of model families, and the table of keys that describe a
 * model. To add a family, add a row to FAMILIES, anywhere.
 * Tests: families, convert. */
#include "formats/family.h"
#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- unusual names ------------------------------------------------------ */

#define IN_LAYER "model.layers.%d."
/* A list of names. */
#define NAMES(...) ((const OtherName[]){__VA_ARGS__, {NULL, NULL, false}})
/* GGUF architectures, in the order of preference. */
#define OTHERS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const OtherName GEMMA_NAMES[] = {
    {"mlp_norm", IN_LAYER "pre_feedforward_layernorm", false},
    {NULL, NULL, false}};

/* ---- the families ------------------------------------------------------- */

const ModelFamily FAMILIES[] = {
    /* OLMo 1 */
    {
        .norm_form = LAYER_NORMS_BARE,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 2048,
        .gguf = {.name = "olmo", .others = OTHERS("llama"), .neighbours = true},
        .hf = {.name = "olmo", .attention_bias = BIAS_OF_ATTENTION},
    },
    /* StableLM */
    {
        .norm_form = LAYER_NORMS,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 4096,
        .rotates = 0.25,
        .gguf = {.name = "stablelm", .partial_rope = true, .output = true},
        .hf = {.name = "stablelm",
               .use_qkv_bias = true,
               .partial_rotary_factor = true},
    },
    /* Llama; in GGUF files also Mistral, and Mixtral */
    {
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 2048,
        .gguf = {.name = "llama",
                 .others = OTHERS("qwen3", "qwen3moe"),
                 .neighbours = true,
                 .window = WINDOW_READ,
                 .layer_norms = true,
                 .biases = true,
                 .experts = true,
                 .factors = ONE_FACTOR_TENSOR,
                 .odd_heads = true},
        .hf = {.name = "llama",
               .attention_bias = BIAS_OF_ATTENTION,
               .mlp_bias = true},
    },
    /* Qwen 2 */
    {
        .windowed = FROM_MAX_WINDOW_LAYERS,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 32768,
        .window = 4096,
        .gguf = {.name = "qwen2",
                 .others = OTHERS("llama", "phi3"),
                 .layer_norms = true,
                 .odd_heads = true},
        .hf = {.name = "qwen2",
               .qkv_biases = true,
               .window = WINDOW_IF_USED,
               .layer_types = true},
    },
    /* Qwen 3 */
    {
        .head_norms = HEAD_NORMS,
        .windowed = FROM_MAX_WINDOW_LAYERS,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 32768,
        .head_size = 128,
        .window = 4096,
        .gguf = {.name = "qwen3", .layer_norms = true, .odd_heads = true},
        .hf = {.name = "qwen3",
               .attention_bias = BIAS_OF_ATTENTION,
               .window = WINDOW_IF_USED,
               .layer_types = true},
    },
    /* Qwen 3 with experts */
    {
        .head_norms = HEAD_NORMS,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 32768,
        .window = 4096,
        .gguf = {.name = "qwen3moe",
                 .layer_norms = true,
                 .experts = true,
                 .odd_heads = true},
        .hf = {.name = "qwen3_moe",
               .attention_bias = BIAS_OF_ATTENTION,
               .window = WINDOW_IF_USED,
               .experts = EXPERTS_IF_ROUTER,
               .norm_topk_prob = true},
    },
    /* Qwen 2 with experts */
    {
        .windowed = EVEN_BELOW_MAX_WINDOW_LAYERS,
        .shared_expert = true,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 32768,
        .window = 4096,
        .gguf = {.name = "qwen2moe",
                 .names = NAMES({"gate", "blk.%d.ffn_gate_shexp", false},
                                {"up", "blk.%d.ffn_up_shexp", false},
                                {"down", "blk.%d.ffn_down_shexp", false}),
                 .raw_topk = true,
                 .experts = true,
                 .output = true},
        .hf = {.name = "qwen2_moe",
               .names = NAMES(
                   {"gate", IN_LAYER "mlp.shared_expert.gate_proj", false},
                   {"up", IN_LAYER "mlp.shared_expert.up_proj", false},
                   {"down", IN_LAYER "mlp.shared_expert.down_proj", false}),
               .qkv_biases = true,
               .attention_bias = BIAS_REFUSED,
               .window = WINDOW_IF_USED,
               .layer_types = true,
               .experts = EXPERTS_IF_ROUTER,
               .norm_topk_prob = true,
               .no_dense_layers = true},
    },
    /* SmolLM3 */
    {
        .windowed = LAYERS_WITHOUT_ROPE,
        .rotating = ROPE_BUT_EVERY_PERIODTH,
        .period = 4,
        .rope_base = 2e6,
        .eps = 1e-6f,
        .context = 32768,
        .gguf = {.name = "smollm3", .neighbours = true, .odd_heads = true},
        .hf = {.name = "smollm3",
               .tied_by_default = true,
               .attention_bias = BIAS_OF_ATTENTION,
               .mlp_bias = true,
               .window = WINDOW_IF_USED,
               .layer_types = true,
               .no_rope_layers = true},
    },
    /* Granite; in GGUF files also the dense models of Granite 4 */
    {
        .scales = true,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 2048,
        .gguf = {.name = "granite",
                 .neighbours = true,
                 .biases = true,
                 .factors = ONE_FACTOR_TENSOR,
                 .odd_heads = true,
                 .finetuned = true,
                 .hybrid_sizes = true},
        .hf = {.name = "granite",
               .attention_bias = BIAS_OF_ATTENTION,
               .mlp_bias = true},
    },
    /* Phi 3 */
    {
        .fused_qkv = true,
        .fused_gate_up = true,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 4096,
        .gguf = {.name = "phi3",
                 .names = NAMES({"wq", "blk.%d.attn_qkv", false},
                                {"wk", "blk.%d.attn_qkv", false},
                                {"wv", "blk.%d.attn_qkv", false},
                                {"gate", "blk.%d.ffn_up", false},
                                {"up", "blk.%d.ffn_up", false}),
                 .window = WINDOW_STORED,
                 .factors = LONGROPE_TENSORS,
                 .partial_rope = true},
        .hf = {.name = "phi3",
               .names = NAMES({"wq", IN_LAYER "self_attn.qkv_proj", false},
                              {"wk", IN_LAYER "self_attn.qkv_proj", false},
                              {"wv", IN_LAYER "self_attn.qkv_proj", false},
                              {"gate", IN_LAYER "mlp.gate_up_proj", false},
                              {"up", IN_LAYER "mlp.gate_up_proj", false}),
               .window = WINDOW_COUNTS,
               .partial_rotary_factor = true,
               .only_longrope = true,
               .original_context = 4096},
    },
    /* OLMo 3; in GGUF files also OLMo 2 */
    {
        .norms = NORMS_AFTER,
        .head_norms = HEAD_NORMS_WIDE,
        .windowed = ALL_BUT_EVERY_PERIODTH,
        .rotating = ROPE_LOCAL_IN_WINDOWED_LAYERS,
        .period = 4,
        .rope_base = 500000,
        .eps = 1e-5f,
        .context = 2048,
        .window = 4096,
        .gguf = {.name = "olmo2", .window = WINDOW_STORED, .output = true},
        .hf = {.name = "olmo3",
               .attention_bias = BIAS_OF_ATTENTION,
               .window = WINDOW_COUNTS,
               .layer_types = true,
               .needs_window = true,
               .rounds_yarn = true},
    },
    /* Gemma 2 */
    {
        .norms = NORMS_AROUND,
        .windowed = ALL_BUT_EVERY_PERIODTH,
        .period = 2,
        .activation = ACTIVATION_GELU,
        .tied = true,
        .scales_by_dim = true,
        .caps_scores = true,
        .caps_logits = true,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 8192,
        .head_size = 256,
        .window = 4096,
        .attention_cap = 50,
        .logit_cap = 30,
        .gguf = {.name = "gemma2",
                 .window = WINDOW_STORED,
                 .default_window = true,
                 .partial_rope = true,
                 .odd_heads = true,
                 .layers_of_27b = 46},
        .hf = {.name = "gemma2",
               .names = GEMMA_NAMES,
               .gamma_less_one = true,
               .tied_by_default = true,
               .attention_bias = BIAS_OF_ATTENTION,
               .window = WINDOW_COUNTS,
               .layer_types = true,
               .needs_window = true,
               .hidden_activation = true,
               .query_pre_attn_scalar = true},
    },
    /* Gemma 3 */
    {
        .norms = NORMS_AROUND,
        .head_norms = HEAD_NORMS,
        .windowed = ALL_BUT_EVERY_PERIODTH,
        .rotating = ROPE_LOCAL_IN_WINDOWED_LAYERS,
        .period = 6,
        .activation = ACTIVATION_GELU,
        .scales_by_dim = true,
        .caps_logits = true,
        .rope_base = 1e6,
        .local_base = 10000,
        .eps = 1e-6f,
        .context = 131072,
        .head_size = 256,
        .n_heads = 8,
        .window = 4096,
        .gguf = {.name = "gemma3",
                 .window = WINDOW_STORED,
                 .partial_rope = true,
                 .odd_heads = true,
                 .layers_of_27b = 62},
        .hf = {.name = "gemma3_text",
               .names = GEMMA_NAMES,
               .gamma_less_one = true,
               .tied_by_default = true,
               .attention_bias = BIAS_OF_ATTENTION,
               .window = WINDOW_COUNTS,
               .layer_types = true,
               .needs_window = true,
               .hidden_activation = true,
               .query_pre_attn_scalar = true,
               .sliding_window_pattern = true,
               .rope_local_base_freq = true,
               .rounds_yarn = true,
               .no_score_cap = true},
    },
    /* Gemma 1 */
    {
        .activation = ACTIVATION_GELU,
        .tied = true,
        .scales_by_dim = true,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 8192,
        .head_size = 256,
        .gguf = {.name = "gemma", .partial_rope = true, .odd_heads = true},
        .hf = {.name = "gemma",
               .gamma_less_one = true,
               .tied_by_default = true,
               .attention_bias = BIAS_OF_ATTENTION,
               .gelu_is_tanh = true},
    },
    /* ERNIE 4.5 */
    {
        .rope_base = 500000,
        .eps = 1e-5f,
        .context = 131072,
        .head_size = 128,
        .gguf = {.name = "ernie4_5",
                 .others = OTHERS("llama"),
                 .neighbours = true,
                 .odd_heads = true},
        .hf = {.name = "ernie4_5",
               .tied_by_default = true,
               .neighbours = true,
               .use_bias = true},
    },
    /* EXAONE 4 */
    {
        .norms = NORMS_AFTER,
        .head_norms = HEAD_NORMS,
        .windowed = ALL_BUT_EVERY_PERIODTH,
        .rotating = ROPE_IN_WINDOWED_LAYERS,
        .period = 4,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 2048,
        .window = 4096,
        .gguf = {.name = "exaone4",
                 .window = WINDOW_STORED,
                 .factors = ONE_FACTOR_TENSOR},
        .hf = {.name = "exaone4",
               .window = WINDOW_COUNTS,
               .layer_types = true,
               .sliding_window_pattern = true},
    },
    /* GLM-4 */
    {
        .norms = NORMS_AROUND,
        .fused_gate_up = true,
        .rope_base = 10000,
        .eps = 1.5625e-7f,
        .context = 131072,
        .head_size = 128,
        .rotates = 0.5,
        .gguf = {.name = "glm4",
                 .names = NAMES({"gate", "blk.%d.ffn_up", false},
                                {"up", "blk.%d.ffn_up", false}),
                 .neighbours = true,
                 .partial_rope = true,
                 .odd_heads = true},
        .hf = {.name = "glm4",
               .names = NAMES(
                   {"attn_post_norm", IN_LAYER "post_self_attn_layernorm",
                    false},
                   {"mlp_post_norm", IN_LAYER "post_mlp_layernorm", false},
                   {"gate", IN_LAYER "mlp.gate_up_proj", false},
                   {"up", IN_LAYER "mlp.gate_up_proj", false}),
               .neighbours = true,
               .attention_bias = BIAS_OF_QKV,
               .partial_rotary_factor = true},
    },
    /* Ministral 3 */
    {
        .rope_base = 1e6,
        .eps = 1e-5f,
        .context = 262144,
        .head_size = 128,
        .gguf = {.name = "mistral3",
                 .others = OTHERS("llama"),
                 .neighbours = true,
                 .odd_heads = true,
                 .scaled_queries = true},
        .hf = {.name = "ministral3", .window = WINDOW_COUNTS},
    },
    /* Seed-OSS */
    {
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 524288,
        .head_size = 128,
        .gguf = {.name = "seed_oss",
                 .others = OTHERS("llama"),
                 .names =
                     NAMES({"mlp_norm", "blk.%d.post_attention_norm", false}),
                 .biases = true,
                 .odd_heads = true},
        .hf = {.name = "seed_oss",
               .attention_bias = BIAS_OF_QKV,
               .attention_out_bias = true,
               .mlp_bias = true},
    },
    /* Hunyuan */
    {
        .head_norms = HEAD_NORMS_LATE,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 2048,
        .gguf = {.name = "hunyuan-dense", .biases = true, .odd_heads = true},
        .hf = {.name = "hunyuan_v1_dense",
               .names = NAMES(
                   {"q_norm", IN_LAYER "self_attn.query_layernorm", false},
                   {"k_norm", IN_LAYER "self_attn.key_layernorm", false}),
               .attention_bias = BIAS_OF_ATTENTION,
               .dynamic_alpha = true},
    },
    /* Command R7B */
    {
        .norms = NORM_SHARED,
        .norm_form = LAYER_NORMS_BETA_OPTIONAL,
        .windowed = ALL_BUT_EVERY_PERIODTH,
        .rotating = ROPE_IN_WINDOWED_LAYERS,
        .period = 4,
        .scales_logits = true,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 8192,
        .window = 4096,
        .gguf = {.name = "cohere2",
                 .neighbours = true,
                 .window = WINDOW_STORED},
        .hf = {.name = "cohere2",
               .tied_by_default = true,
               .neighbours = true,
               .attention_bias = BIAS_REFUSED,
               .window = WINDOW_COUNTS,
               .layer_types = true,
               .sliding_window_pattern = true},
    },
    /* Arcee */
    {
        .activation = ACTIVATION_RELU2,
        .ungated = true,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 4096,
        .gguf = {.name = "arcee",
                 .names = NAMES({"gate", "blk.%d.ffn_up", false}),
                 .neighbours = true,
                 .factors = ONE_FACTOR_TENSOR,
                 .odd_heads = true},
        .hf = {.name = "arcee",
               .names = NAMES({"gate", IN_LAYER "mlp.up_proj", false}),
               .attention_bias = BIAS_OF_ATTENTION,
               .mlp_bias = true},
    },
    /* OLMoE */
    {
        .head_norms = HEAD_NORMS_WIDE,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 4096,
        .gguf = {.name = "olmoe",
                 .raw_topk = true,
                 .experts = true,
                 .output = true},
        .hf = {.name = "olmoe",
               .attention_bias = BIAS_OF_ATTENTION,
               .experts = EXPERTS_IN_ALL,
               .wide_experts = true,
               .norm_topk_prob = true},
    },
    /* Granite with experts */
    {
        .scales = true,
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 2048,
        .gguf = {.name = "granitemoe",
                 .neighbours = true,
                 .experts = true,
                 .factors = ONE_FACTOR_TENSOR,
                 .odd_heads = true,
                 .finetuned = true,
                 .hybrid_sizes = true},
        .hf = {.name = "granitemoe",
               .names = NAMES(
                   {"router", IN_LAYER "block_sparse_moe.router.layer", false},
                   {"gate", IN_LAYER "block_sparse_moe.input_linear", true},
                   {"up", IN_LAYER "block_sparse_moe.input_linear", true},
                   {"down", IN_LAYER "block_sparse_moe.output_linear", true}),
               .attention_bias = BIAS_OF_ATTENTION,
               .experts = EXPERTS_IN_ALL,
               .wide_experts = true,
               .stacked_experts = true,
               .n_experts = 8,
               .n_experts_used = 2,
               .normalizes_topk = true},
    },
    /* Mistral */
    {
        .rope_base = 10000,
        .eps = 1e-6f,
        .context = 131072,
        .window = 4096,
        .hf = {.name = "mistral", .window = WINDOW_COUNTS},
        .stored_as = "llama",
    },
    /* Mixtral */
    {
        .rope_base = 1e6,
        .eps = 1e-5f,
        .context = 131072,
        .hf = {.name = "mixtral",
               .names = NAMES(
                   {"router", IN_LAYER "block_sparse_moe.gate", false},
                   {"gate", IN_LAYER "block_sparse_moe.experts.%d.w1", true},
                   {"up", IN_LAYER "block_sparse_moe.experts.%d.w3", true},
                   {"down", IN_LAYER "block_sparse_moe.experts.%d.w2", true}),
               .window = WINDOW_COUNTS,
               .experts = EXPERTS_IN_ALL,
               .wide_experts = true,
               .n_experts = 8,
               .n_experts_used = 2,
               .normalizes_topk = true},
        .stored_as = "llama",
    },
    /* MiniMind, dense or with experts */
    {
        .head_norms = HEAD_NORMS_IF_STORED,
        .rope_base = 1e6,
        .eps = 1e-6f,
        .context = 32768,
        .hf = {.name = "minimind",
               .tied_by_default = true,
               .experts = EXPERTS_IF_USE_MOE,
               .norm_topk_prob = true,
               .normalizes_topk = true},
        .stored_as = "llama",
    },
    /* OLMo 2 */
    {
        .norms = NORMS_AFTER,
        .head_norms = HEAD_NORMS_WIDE,
        .rope_base = 10000,
        .eps = 1e-5f,
        .context = 2048,
        .hf = {.name = "olmo2", .attention_bias = BIAS_OF_ATTENTION},
        .stored_as = "olmo2",
    },
};
const int N_FAMILIES = COUNT(FAMILIES);

/* ---- the keys ----------------------------------------------------------- */

/* A field of the header, or of its config (NEEDED: a required one). Its type is
 * the key's kind; the key's names follow. */
#define AT(name)                                                               \
    .kind = _Generic(((Header *)NULL)->name, int                               \
                     : KEY_SIZE, int64_t                                       \
                     : KEY_INTEGER, float                                      \
                     : KEY_FLOAT, double                                       \
                     : KEY_REAL, String                                        \
                     : KEY_STRING),                                            \
    offsetof(Header, name), .bytes = sizeof(((Header *)NULL)->name)
#define CONFIG(name)   AT(config.name)
#define NEEDED(name)   .required = true, CONFIG(name)
#define FALLBACK(name) .fallback = offsetof(Header, name)
/* clang-format off */
const Key KEYS[] = {
    {CONFIG(context), NULL, "max_sequence_length"}, /* LLaMA 1 */
    {NEEDED(vocab_size), "vocab_size", "vocab_size"},
    {NEEDED(context), "context_length", "max_position_embeddings"},
    {NEEDED(dim), "embedding_length", "hidden_size"},
    {NEEDED(hidden_dim), "feed_forward_length", "intermediate_size"},
    {CONFIG(hidden_dim), "expert_shared_feed_forward_length", "shared_expert_intermediate_size", .condition = WITH_SHARED_EXPERT},
    {NEEDED(n_layers), "block_count", "num_hidden_layers"},
    {NEEDED(n_heads), "attention.head_count", "num_attention_heads"},
    {CONFIG(n_kv_heads), "attention.head_count_kv", "num_key_value_heads", FALLBACK(config.n_heads)},
    {CONFIG(head_size), "attention.key_length", "head_dim"},
    {AT(value_length), "attention.value_length", FALLBACK(config.head_size)},
    {AT(rms_eps), "attention.layer_norm_rms_epsilon"}, /* folder.c */
    {AT(layer_eps), "attention.layer_norm_epsilon", FALLBACK(rms_eps)},
    {CONFIG(rope.dims), "rope.dimension_count", FALLBACK(config.head_size)},
    {CONFIG(rope.base), "rope.freq_base", "rope_theta"},
    {AT(scaling), "rope.scaling.type"},
    {AT(linear_factor), "rope.scale_linear"},
    {AT(factor), "rope.scaling.factor", FALLBACK(linear_factor)},
    {AT(original_context), "rope.scaling.original_context_length", FALLBACK(config.context)},
    {CONFIG(rope.amplitude), "rope.scaling.attn_factor"},
    {CONFIG(rope.yarn.fast), "rope.scaling.yarn_beta_fast"},
    {CONFIG(rope.yarn.slow), "rope.scaling.yarn_beta_slow"},
    {AT(n_experts), "expert_count", "num_experts"},
    {AT(n_experts_used), "expert_used_count", "num_experts_per_tok"},
    {CONFIG(expert_dim), "expert_feed_forward_length", FALLBACK(config.hidden_dim)},
    {AT(norm_weights), "expert_weights_norm"},
    {AT(window), "attention.sliding_window", "sliding_window"},
    {.gguf = "attention.sliding_window_pattern", .condition = WITH_PERIODIC_WINDOWS},
    {CONFIG(local_base), "rope.freq_base_swa", .condition = WITH_PERIODIC_WINDOWS},
    {.gguf = "rope.scaling.yarn_ext_factor"},
    {AT(yarn_attn_factor), "rope.scaling.yarn_attn_factor"},
    {CONFIG(embedding_scale), "embedding_scale", "embedding_multiplier", .condition = WITH_SCALES},
    {CONFIG(residual_scale), "residual_scale", "residual_multiplier", .condition = WITH_SCALES},
    {CONFIG(attention_scale), "attention.scale", "attention_multiplier", .condition = WITH_SCALES},
    {NEEDED(logit_scale), "logit_scale", "logits_scaling", .condition = WITH_SCALES, .divides = true},
    {NEEDED(logit_scale), "logit_scale", "logit_scale", .condition = WITH_LOGIT_SCALE},
    {CONFIG(attention_cap), "attn_logit_softcapping", "attn_logit_softcapping", .condition = WITH_SCORE_CAP, .is_cap = true},
    {CONFIG(logit_cap), "final_logit_softcapping", "final_logit_softcapping", .condition = WITH_LOGIT_CAP, .is_cap = true},
    {AT(finetuned), "rope.scaling.finetuned"},
    {AT(log_multiplier), "rope.scaling.yarn_log_multiplier", .condition = WITH_SCALED_QUERIES},
    {AT(query_scale), "attention.temperature_scale", .condition = WITH_SCALED_QUERIES},
    {.gguf = "tensor_data_layout"},
    {0},
};

/* clang-format on */

/* ---- families that norma does not run ----------------------------------- */

#define PER_LAYER      "per-layer embeddings and layers that share keys and values"
#define RECURRENT      "recurrent layers"
#define LATENT         "latent attention (MLA)"
#define QK_NORM_OPTION "an option that norma does not read (use_qk_norm)"
/* Known families that norma does not run: a name in either format, and what
 * they have that norma lacks. */
static const struct Unsupported {
    const char *name, *has;
} UNSUPPORTED[] = {
    {"gemma4", PER_LAYER},          {"gemma4_text", PER_LAYER},
    {"gemma3n", PER_LAYER},         {"gemma3n_text", PER_LAYER},
    {"qwen35", RECURRENT},          {"qwen35moe", RECURRENT},
    {"qwen3_5_text", RECURRENT},    {"qwen3_5_moe_text", RECURRENT},
    {"qwen3next", RECURRENT},       {"qwen3_next", RECURRENT},
    {"granitehybrid", RECURRENT},   {"granitemoehybrid", RECURRENT},
    {"falcon-h1", RECURRENT},       {"falcon_h1", RECURRENT},
    {"mamba", RECURRENT},           {"mamba2", RECURRENT},
    {"nemotron_h", RECURRENT},      {"lfm2", "convolutions"},
    {"lfm2moe", "convolutions"},    {"lfm2_moe", "convolutions"},
    {"gpt-oss", "attention sinks"}, {"gpt_oss", "attention sinks"},
    {"bitnet", "ternary weights"},  {"bitnet-b1.58", "ternary weights"},
    {"deepseek2", LATENT},          {"deepseek_v2", LATENT},
    {"deepseek_v3", LATENT},        {"minicpm3", LATENT},
    {"command-r", QK_NORM_OPTION},  {"cohere", QK_NORM_OPTION},
};

/* ---- functions ---------------------------------------------------------- */

static const char *family_name(const ModelFamily *f, Naming naming) {
    return naming == NAME_GGUF ? f->gguf.name : f->hf.name;
}

const ModelFamily *family_find(Origin *o, Naming naming, const char *key,
                               StoredValue name) {
    FAMILY_EACH(f) {
        const char *known = family_name(f, naming);
        if (known && string_is(name.string, known))
            return f;
    }
    EACH(const struct Unsupported, u, UNSUPPORTED, COUNT(UNSUPPORTED))
        if (string_is(name.string, u->name))
            o->status = fail("%s: %s is %s and not supported: it has %s",
                             o->path, key, u->name, u->has);
    refuse_stored(o, key, name, "one of the families in docs/models.md");
    return NULL;
}

const ModelFamily *family_of_gguf(const char *architecture) {
    FAMILY_EACH(f)
    if (f->gguf.name && !strcmp(f->gguf.name, architecture))
        return f;
    return NULL;
}

bool family_meets(const ModelFamily *f, Condition condition) {
    switch (condition) {
    case ALL_FAMILIES: return true;
    case WITH_PRE_NORMS: return f->norms != NORMS_AFTER;
    case WITH_MLP_NORM:
        return f->norms != NORMS_AFTER && f->norms != NORM_SHARED;
    case WITH_POST_NORMS:
        return f->norms == NORMS_AFTER || f->norms == NORMS_AROUND;
    case WITH_HEAD_NORMS: return f->head_norms != NO_HEAD_NORMS;
    case WITH_GATES: return !f->ungated;
    case WITH_SHARED_EXPERT: return f->shared_expert;
    case WITH_PERIODIC_WINDOWS: return f->windowed == ALL_BUT_EVERY_PERIODTH;
    case WITH_SCALES: return f->scales;
    case WITH_LOGIT_SCALE: return f->scales_logits;
    case WITH_SCORE_CAP: return f->caps_scores;
    case WITH_LOGIT_CAP: return f->caps_logits;
    case WITH_SCALED_QUERIES: return f->gguf.scaled_queries;
    }
    return false;
}

bool family_fuses(const ModelFamily *f, const Part *weight) {
    if (weight->feed == QKV_FEED)
        return f->fused_qkv;
    return weight->owner == OF_MLP && weight->feed == MLP_FEED &&
           f->fused_gate_up;
}

char *family_part_name(const ModelFamily *f, char *name, const PartAt *at,
                       Naming naming) {
    bool of_experts = at->part->owner == OF_EXPERT;
    const OtherName *other = naming == NAME_GGUF ? f->gguf.names : f->hf.names;
    part_name(name, at, naming);
    for (; other && other->part; other++)
        if (!strcmp(other->part, at->part->names[NAME_NORMA]) &&
            other->of_experts == of_experts)
            snprintf(name, PART_NAME, other->format, at->layer, at->expert);
    return name;
}

void family_set_formulas(const ModelFamily *f, Config *c) {
    c->wide_head_norms = f->head_norms == HEAD_NORMS_WIDE;
    c->late_head_norms = f->head_norms == HEAD_NORMS_LATE;
    if (f->scales_by_dim)
        c->embedding_scale = sqrtf((float)c->dim);
}

bool family_rotates(const ModelFamily *f, const Header *h, int layer) {
    if (f->gguf.finetuned && h->finetuned == 0)
        return false;
    return f->rotating != ROPE_BUT_EVERY_PERIODTH ||
           (layer + 1) % h->period != 0;
}

bool family_windows(const ModelFamily *f, const Header *h, int layer,
                    bool rotates) {
    const int first = h->max_window_layers;
    switch (f->windowed) {
    case ALL_LAYERS: return true;
    case ALL_BUT_EVERY_PERIODTH: return (layer + 1) % h->period != 0;
    case FROM_MAX_WINDOW_LAYERS: return layer >= first;
    case EVEN_BELOW_MAX_WINDOW_LAYERS: return layer % 2 == 0 && layer < first;
    case LAYERS_WITHOUT_ROPE: return !rotates;
    }
    return false;
}

RopeUse family_rope(const ModelFamily *f, int window, bool slides) {
    const bool has_window = slides && window > 0;
    if (f->rotating == ROPE_IN_WINDOWED_LAYERS && window > 0 && !slides)
        return ROPE_NONE;
    if (f->rotating == ROPE_LOCAL_IN_WINDOWED_LAYERS && has_window)
        return ROPE_LOCAL;
    return ROPE_GLOBAL;
}

const char *key_of(Naming naming, size_t field) {
    for (const Key *key = KEYS;; key++) {
        const char *name = naming == NAME_GGUF ? key->gguf : key->hf;
        if (name && key->field == field)
            return name;
    }
}
