/* family.c: the table of model families, and the table of keys that describe a
 * model. To add a family, add a row to FAMILIES.
 * Tests: families, convert. */
#include "formats/family.h"
#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Traits that several families share. */
enum {
    /* optional in GGUF files of LLaMA and its closest relatives */
    LLAMA = LAYER_NORMS | ODD_HEADS,
    GEMMA_KEYS =
        GEMMA | LESS_ONE | TIED_DEFAULT | ATTENTION_BIAS | SLIDES | LAYER_TYPES,
    OLMO_NORMS = NO_PRE_NORMS | POST_NORMS | HEAD_NORMS | WIDE_HEAD_NORMS,
    QWEN_WINDOW = SLIDES_IF_USED | LAYER_TYPES | WINDOW_ABOVE,
};

/* clang-format off */
const ModelFamily FAMILIES[] = {
    {"olmo", "olmo", LAYER_NORMS | BARE_NORMS | NEIGHBOURS, 0, ATTENTION_BIAS, 10000, 2048, .eps = 1e-5f},
    {"stablelm", "stablelm", LAYER_NORMS | STORED_OUTPUT, PARTIAL_ROPE, QKV_BIAS_OPTION, 10000, 4096,
     1e-5f, .rotating = 0.25},
    {"llama", "llama", NEIGHBOURS, LLAMA | SPARSE | ROPE_FACTORS | BIASES | ALL_WINDOWS,
     ATTENTION_BIAS | MLP_BIASES, 10000, .context = 2048},
    {"qwen2", "qwen2", 0, LLAMA, QKV_BIASES | QWEN_WINDOW, 10000, 32768, .window = 4096},
    {"qwen3", "qwen3", HEAD_NORMS, LLAMA, ATTENTION_BIAS | QWEN_WINDOW, 10000, 32768, .head_size = 128, .window = 4096},
    {"qwen3moe", "qwen3_moe", HEAD_NORMS | SPARSE, LLAMA, ATTENTION_BIAS | EXPERTS | SLIDES_IF_USED,
     10000, 32768, .window = 4096},
    {"qwen2moe", "qwen2_moe", SPARSE | RAW_TOPK | SHARED_EXPERT | STORED_OUTPUT, 0,
     QKV_BIASES | EXPERTS | QWEN_WINDOW | STRICT, 10000, 32768, .window = 4096},
    {"smollm3", "smollm3", NEIGHBOURS, ODD_HEADS,
     TIED_DEFAULT | ATTENTION_BIAS | MLP_BIASES | NO_ROPE_LAYERS | SLIDES_IF_USED | LAYER_TYPES, 2e6, 32768, .period = 4},
    {"granite", "granite", NEIGHBOURS, SCALES | ROPE_FACTORS | BIASES | ODD_HEADS,
     ATTENTION_BIAS | MLP_BIASES | GRANITE_KEYS, 10000, .context = 2048},
    {"phi3", "phi3", FUSED | FUSED_MLP | STORED_WINDOW, PARTIAL_ROPE | ROPE_FACTORS | ALL_WINDOWS, LONGROPE | SLIDES, 10000, 4096,
     1e-5f, .rotating = 1},
    {"olmo2", "olmo3", OLMO_NORMS | STORED_OUTPUT | STORED_WINDOW | LOCAL_ROPE, PERIODIC_WINDOWS,
     ATTENTION_BIAS | SLIDES | LAYER_TYPES, 500000, 2048, 1e-5f, .window = 4096, .period = 4},
    {"gemma2", "gemma2", POST_NORMS | SCORE_CAP | LOGIT_CAP | TIED | STORED_WINDOW | DEFAULT_WINDOW,
     PARTIAL_ROPE | ODD_HEADS | PERIODIC_WINDOWS, GEMMA_KEYS, 10000, 8192, .head_size = 256,
     .window = 4096, .attention_cap = 50, .logit_cap = 30, .period = 2, .special_layers = 46, .activation = ACTIVATION_GELU},
    {"gemma3", "gemma3_text", POST_NORMS | HEAD_NORMS | LOCAL_ROPE | STORED_WINDOW,
     LOGIT_CAP | PARTIAL_ROPE | ODD_HEADS | PERIODIC_WINDOWS, GEMMA_KEYS | GEMMA3 | PATTERN, 1e6, 131072,
     .head_size = 256, .n_heads = 8, .window = 4096, .period = 6, .local_base = 10000, .special_layers = 62,
     .activation = ACTIVATION_GELU},
    {"gemma", "gemma", TIED, PARTIAL_ROPE | ODD_HEADS, LESS_ONE | TIED_DEFAULT | ATTENTION_BIAS | OLD_GELU,
     10000, 8192, .head_size = 256, .special_layers = -1, .activation = ACTIVATION_GELU},
    {"ernie4_5", "ernie4_5", NEIGHBOURS, ODD_HEADS, USE_BIAS | TIED_DEFAULT | NEIGHBOUR_ROPE, 500000,
     131072, 1e-5f, .head_size = 128},
    {"exaone4", "exaone4", NO_PRE_NORMS | POST_NORMS | HEAD_NORMS | ROPE_IN_WINDOWS | STORED_WINDOW, ROPE_FACTORS | PERIODIC_WINDOWS,
     SLIDES | LAYER_TYPES | PATTERN, 10000, 2048, 1e-5f, .window = 4096, .period = 4},
    {"glm4", "glm4", POST_NORMS | FUSED_MLP | NEIGHBOURS, PARTIAL_ROPE | ODD_HEADS,
     GLM | NEIGHBOUR_ROPE, 10000, 131072, 1.5625e-7f, .head_size = 128, .rotating = 0.5},
    {"mistral3", "ministral3", QUERY_SCALE | NEIGHBOURS, ODD_HEADS, SLIDES, 1e6, 262144, 1e-5f, .head_size = 128},
    {"seed_oss", "seed_oss", 0, BIASES | ODD_HEADS, SEED | MLP_BIASES, 10000, 524288, .head_size = 128},
    {"hunyuan-dense", "hunyuan_v1_dense", HEAD_NORMS | LATE_HEAD_NORMS, ODD_HEADS | BIASES,
     ATTENTION_BIAS, 10000, 2048, .eps = 1e-5f},
    {"cohere2", "cohere2", LAYER_NORMS | ROPE_IN_WINDOWS | PARALLEL_SUBLAYERS | NEIGHBOURS | STORED_WINDOW, PERIODIC_WINDOWS,
     TIED_DEFAULT | NEIGHBOUR_ROPE | SLIDES | LAYER_TYPES | PATTERN | STRICT, 10000, 8192, 1e-5f, .window = 4096, .period = 4},
    {"arcee", "arcee", NO_GATE | NEIGHBOURS, ROPE_FACTORS | ODD_HEADS, ATTENTION_BIAS | MLP_BIASES,
     10000, 4096, 1e-5f, .activation = ACTIVATION_RELU2},
    {"olmoe", "olmoe", HEAD_NORMS | WIDE_HEAD_NORMS | SPARSE | RAW_TOPK | STORED_OUTPUT, 0,
     ATTENTION_BIAS | WIDE_EXPERTS, 10000, 4096, .eps = 1e-5f},
    {"granitemoe", "granitemoe", SPARSE | NEIGHBOURS, SCALES | ROPE_FACTORS | ODD_HEADS,
     ATTENTION_BIAS | GRANITE_EXPERTS | GRANITE_KEYS, 10000, .context = 2048},
    {NULL, "mistral", 0, 0, SLIDES, 10000, 131072, .window = 4096},
    {NULL, "mixtral", 0, 0, SLIDES | MIXTRAL_EXPERTS, 1e6, 131072, .eps = 1e-5f},
    {NULL, "minimind", 0, 0, TIED_DEFAULT | MINIMIND, 1e6, .context = 32768},
    {NULL, "olmo2", OLMO_NORMS, 0, ATTENTION_BIAS, 10000, 2048, .eps = 1e-5f},
    {0},
};

/* A field of the header, or of its config (NEEDED: a required one). Its type is
 * the key's kind; the key's names follow. */
#define AT(name)                                                                                                       \
    .kind = _Generic(((Header *)NULL)->name, int: KEY_SIZE, int64_t: KEY_INTEGER, float: KEY_FLOAT,                    \
                     double: KEY_REAL, String: KEY_STRING),                                                            \
    offsetof(Header, name), .bytes = sizeof(((Header *)NULL)->name)
#define CONFIG(name)   AT(config.name)
#define NEEDED(name)   .required = true, CONFIG(name)
#define FALLBACK(name) .fallback = offsetof(Header, name)
const Key KEYS[] = {
    {CONFIG(context), NULL, "max_sequence_length"}, /* LLaMA 1 */
    {NEEDED(vocab_size), "vocab_size", "vocab_size"},
    {NEEDED(context), "context_length", "max_position_embeddings"},
    {NEEDED(dim), "embedding_length", "hidden_size"},
    {NEEDED(hidden_dim), "feed_forward_length", "intermediate_size"},
    {CONFIG(hidden_dim), "expert_shared_feed_forward_length", "shared_expert_intermediate_size", .needs = SHARED_EXPERT},
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
    {AT(yarn_context), "rope.scaling.original_context_length", FALLBACK(config.context)},
    {CONFIG(rope.amplitude), "rope.scaling.attn_factor"},
    {CONFIG(rope.yarn.fast), "rope.scaling.yarn_beta_fast"},
    {CONFIG(rope.yarn.slow), "rope.scaling.yarn_beta_slow"},
    {AT(n_experts), "expert_count", "num_experts"},
    {AT(n_experts_used), "expert_used_count", "num_experts_per_tok"},
    {CONFIG(expert_dim), "expert_feed_forward_length", FALLBACK(config.hidden_dim)},
    {AT(norm_weights), "expert_weights_norm"},
    {AT(window), "attention.sliding_window", "sliding_window"},
    {.gguf = "attention.sliding_window_pattern", .needs = PERIODIC_WINDOWS},
    {CONFIG(local_base), "rope.freq_base_swa", .needs = PERIODIC_WINDOWS},
    {.gguf = "rope.scaling.yarn_ext_factor"},
    {AT(yarn_attn_factor), "rope.scaling.yarn_attn_factor"},
    {CONFIG(embedding_scale), "embedding_scale", "embedding_multiplier", .needs = SCALES},
    {CONFIG(residual_scale), "residual_scale", "residual_multiplier", .needs = SCALES},
    {CONFIG(attention_scale), "attention.scale", "attention_multiplier", .needs = SCALES},
    {NEEDED(logit_scale), "logit_scale", "logits_scaling", .needs = SCALES, .divides = true},
    {NEEDED(logit_scale), "logit_scale", "logit_scale", .needs = PARALLEL_SUBLAYERS},
    {CONFIG(attention_cap), "attn_logit_softcapping", "attn_logit_softcapping", .needs = SCORE_CAP},
    {CONFIG(logit_cap), "final_logit_softcapping", "final_logit_softcapping", .needs = LOGIT_CAP},
    {AT(finetuned), "rope.scaling.finetuned"},
    {AT(log_multiplier), "rope.scaling.yarn_log_multiplier", .needs = QUERY_SCALE},
    {AT(query_scale), "attention.temperature_scale", .needs = QUERY_SCALE},
    {.gguf = "tensor_data_layout"},
    {0},
};

/* Parts that have other names in families with this trait (not experts), or
 * with this option of config.json. The names are printf formats of the layer
 * and the expert. */
static const struct OtherName {
    int trait, option;
    const char *parts, *gguf, *hf;
} OTHER_NAMES[] = {
    {0, GEMMA, "mlp_norm", NULL, "model.layers.%d.pre_feedforward_layernorm"},
    {FUSED, 0, "wq wk wv", "blk.%d.attn_qkv", "model.layers.%d.self_attn.qkv_proj"},
    {FUSED_MLP, 0, "gate up", "blk.%d.ffn_up", "model.layers.%d.mlp.gate_up_proj"},
    {0, SEED, "mlp_norm", "blk.%d.post_attention_norm", NULL},
    {LATE_HEAD_NORMS, 0, "q_norm", NULL, "model.layers.%d.self_attn.query_layernorm"},
    {LATE_HEAD_NORMS, 0, "k_norm", NULL, "model.layers.%d.self_attn.key_layernorm"},
    {NO_GATE, 0, "gate", "blk.%d.ffn_up", "model.layers.%d.mlp.up_proj"},
    {0, GLM, "attn_post_norm", NULL, "model.layers.%d.post_self_attn_layernorm"},
    {0, GLM, "mlp_post_norm", NULL, "model.layers.%d.post_mlp_layernorm"},
    {SHARED_EXPERT, 0, "gate", "blk.%d.ffn_gate_shexp", "model.layers.%d.mlp.shared_expert.gate_proj"},
    {SHARED_EXPERT, 0, "up", "blk.%d.ffn_up_shexp", "model.layers.%d.mlp.shared_expert.up_proj"},
    {SHARED_EXPERT, 0, "down", "blk.%d.ffn_down_shexp", "model.layers.%d.mlp.shared_expert.down_proj"},
    {0, MIXTRAL_EXPERTS, "router", NULL, "model.layers.%d.block_sparse_moe.gate"},
    {0, MIXTRAL_EXPERTS, "gate", NULL, "model.layers.%d.block_sparse_moe.experts.%d.w1"},
    {0, MIXTRAL_EXPERTS, "up", NULL, "model.layers.%d.block_sparse_moe.experts.%d.w3"},
    {0, MIXTRAL_EXPERTS, "down", NULL, "model.layers.%d.block_sparse_moe.experts.%d.w2"},
    {0, GRANITE_EXPERTS, "router", NULL, "model.layers.%d.block_sparse_moe.router.layer"},
    {0, GRANITE_EXPERTS, "gate up", NULL, "model.layers.%d.block_sparse_moe.input_linear"},
    {0, GRANITE_EXPERTS, "down", NULL, "model.layers.%d.block_sparse_moe.output_linear"},
};

/* Known families that norma does not run, in both formats' names, and what they
 * have that norma lacks. */
static const struct Unsupported {
    const char *names, *has;
} UNSUPPORTED[] = {
    {" gemma4 gemma4_text gemma3n gemma3n_text ", "per-layer embeddings and layers that share keys and values"},
    {" qwen35 qwen35moe qwen3_5_text qwen3_5_moe_text qwen3next qwen3_next granitehybrid granitemoehybrid "
     "falcon-h1 falcon_h1 mamba mamba2 nemotron_h ", "recurrent layers"},
    {" lfm2 lfm2moe lfm2_moe ", "convolutions"},
    {" gpt-oss gpt_oss ", "attention sinks"},
    {" bitnet bitnet-b1.58 ", "ternary weights"},
    {" deepseek2 deepseek_v2 deepseek_v3 minicpm3 ", "latent attention (MLA)"},
    {" command-r cohere ", "an option that norma does not read (use_qk_norm)"},
};
/* clang-format on */

const ModelFamily *family_find(Origin *o, Naming naming, const char *key,
                               StoredValue name) {
    for (const ModelFamily *f = FAMILIES; f->hf; f++) {
        const char *known = naming == NAME_GGUF ? f->gguf : f->hf;
        if (known && string_is(name.string, known))
            return f;
    }
    char word[80];
    snprintf(word, sizeof word, " %.*s ", SHOWN(name.string));
    EACH(const struct Unsupported, u, UNSUPPORTED, COUNT(UNSUPPORTED))
        if (strstr(u->names, word))
            o->status = fail("%s: %s is%sand not supported: it has %s", o->path,
                             key, word, u->has);
    refuse_stored(o, key, name, "one of the families in docs/models.md");
    return NULL;
}

bool family_has_part(const ModelFamily *f, const Part *part) {
    return (f->has & part->needs) == part->needs && !(f->has & part->lacks);
}

bool family_fuses(const ModelFamily *f, const Part *weight) {
    bool qkv = weight->feed == QKV_FEED,
         gate_up = weight->owner == OF_MLP && weight->feed == MLP_FEED;
    return (qkv && f->has & FUSED) || (gate_up && f->has & FUSED_MLP);
}

char *family_part_name(const ModelFamily *f, char *name, const PartAt *at,
                       Naming naming) {
    part_name(name, at, naming);
    EACH(const struct OtherName, o, OTHER_NAMES, COUNT(OTHER_NAMES)) {
        const char *other = naming == NAME_GGUF ? o->gguf : o->hf;
        if (!other || !strstr(o->parts, at->part->names[NAME_NORMA]))
            continue;
        bool by_trait = f->has & o->trait && at->part->owner != OF_EXPERT;
        if (by_trait || f->options & o->option)
            snprintf(name, PART_NAME, other, at->layer, at->expert);
    }
    return name;
}

void family_set_formulas(const ModelFamily *f, Config *c) {
    c->wide_head_norms = f->has & WIDE_HEAD_NORMS;
    c->late_head_norms = f->has & LATE_HEAD_NORMS;
    if (!f->special_layers)
        return;
    c->embedding_scale = sqrtf((float)c->dim);
    int head_size = c->dim / c->n_heads;
    c->attention_scale =
        c->n_layers == f->special_layers ? 1 / sqrtf((float)head_size) : 0;
}

void family_set_layer(const ModelFamily *f, int window, bool slides,
                      bool rotates, Layer *layer) {
    layer->window = slides ? window : 0;
    layer->rope = !rotates || (f->has & ROPE_IN_WINDOWS && window && !slides)
                      ? ROPE_NONE
                  : f->has & LOCAL_ROPE && layer->window ? ROPE_LOCAL
                                                         : ROPE_GLOBAL;
}

bool family_has_key(const ModelFamily *f, const Key *key) {
    return !key->needs || (f->has | f->may) & key->needs;
}

const char *key_of(Naming naming, size_t field) {
    for (const Key *key = KEYS;; key++) {
        const char *name = naming == NAME_GGUF ? key->gguf : key->hf;
        if (name && key->field == field)
            return name;
    }
}
