"""Writes tests/golden/families: small random models of other families than LLaMA, and their logits from transformers.

Owns the list of families and their configurations. The keys are those of the published config.json files, including
keys without effect; the sizes are small. For the C tests, NAME.json has

    config   config.json, from the line `"config": {` to the line `},`
    seed     of the weights and the tokens
    tensors  name and shape, as published files store them; tensor i of the hash is the i-th of the list
    tokens   the prompt

and NAME.f32 the logits [tokens, vocab_size] in float32, rounded from float64: casts to float32 in transformers' code
(in norms, softmax and RoPE) are replaced by casts to float64. The weights come from the hash of random_model.py:

    biases (*.bias)      u
    norms (one axis)     1 + u / 2; u / 2 in Gemma, whose code adds the 1; computed in double, rounded to float32
    model.embed_tokens   u * 2
    other matrices       u * 2^k with random_model.py's k for their columns

A family also lists options that must matter: with the given other value, the logits must change.
"""

import contextlib
import json
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import transformers
from random_model import hashes, uniform, weights
from reference import compare
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "families"
N_TOKENS = 40
SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Family:
    seed: int
    like: str  # the published model
    notes: str
    config: dict
    matters: dict = field(default_factory=dict)  # option: a value that must change the logits


def sizes(dim, hidden, layers, heads, kv_heads, vocab, context, head_dim=None):
    options = {
        "hidden_size": dim,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "max_position_embeddings": context,
    }
    return options | ({"head_dim": head_dim} if head_dim else {})


GEMMA = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "hidden_activation": "gelu_pytorch_tanh",
    "initializer_range": 0.02,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-06,
    "use_cache": True,
}
GEMMA2 = GEMMA | {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "attn_logit_softcapping": 50.0,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": 30.0,
    "hidden_act": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 20,
    "rope_theta": 10000.0,
    "sliding_window": 8,
    "torch_dtype": "float32",
    "transformers_version": "4.42.4",
}
GEMMA3 = GEMMA | {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "query_pre_attn_scalar": 20,
    "sliding_window": 8,
}
OLMO2 = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "eos_token_id": 3,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "pad_token_id": 4,
    "rms_norm_eps": 1e-06,
    "rope_theta": 500000,
    "tie_word_embeddings": False,
}
PHI3 = {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "embd_pdrop": 0.0,
    "eos_token_id": 5,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "pad_token_id": 5,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
MISTRAL = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
GRANITE = {
    "attention_bias": False,
    "attention_dropout": 0.1,
    "attention_multiplier": 0.1,
    "bos_token_id": 0,
    "embedding_multiplier": 12.0,
    "eos_token_id": 0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "pad_token_id": 0,
    "residual_multiplier": 0.22,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}

FAMILIES = {
    "gemma2": Family(
        31,
        "Gemma-2-2B",
        "four norms per layer, soft caps as published, every other layer slides",
        sizes(48, 96, 3, 4, 2, 60, 64, 20) | GEMMA2,
        {
            "final_logit_softcapping": None,
            "query_pre_attn_scalar": 10,
            "sliding_window": 9,
            "hidden_activation": "silu",
        },
    ),
    "gemma2_caps": Family(
        32,
        "Gemma-2-2B",
        "small soft caps, scores not scaled by the head size, one KV head, layer_types in a different order",
        sizes(40, 72, 3, 4, 1, 61, 64, 10)
        | GEMMA2
        | {
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "layer_types": [FULL, SLIDING, FULL],
            "query_pre_attn_scalar": 7,
            "sliding_window": 5,
            "tie_word_embeddings": True,
        },
        {"attn_logit_softcapping": None, "final_logit_softcapping": 4.0, "layer_types": [SLIDING, FULL, SLIDING]},
    ),
    "gemma3_270m": Family(
        33,
        "Gemma-3-270M",
        "norms of heads, two RoPE bases, layer_types",
        sizes(32, 80, 7, 4, 1, 64, 64, 16)
        | GEMMA3
        | {
            "_sliding_window_pattern": 6,
            "layer_types": [SLIDING] * 5 + [FULL, SLIDING],
            "query_pre_attn_scalar": 16,
            "rope_local_base_freq": 10000.0,
            "rope_scaling": None,
            "rope_theta": 1000000.0,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.55.0.dev0",
            "use_bidirectional_attention": False,
        },
        {"rope_local_base_freq": 1000000.0, "rope_theta": 10000.0, "layer_types": [FULL] + [SLIDING] * 6},
    ),
    "gemma3_1b": Family(
        34,
        "Gemma-3-1B",
        "sliding_window_pattern, heads wider than dim",
        sizes(48, 96, 7, 4, 2, 60, 64, 20)
        | GEMMA3
        | {
            "cache_implementation": "hybrid",
            "eos_token_id": [1, 7],
            "rope_local_base_freq": 10000,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window_pattern": 6,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.50.0.dev0",
        },
        {"rope_local_base_freq": 1000000, "sliding_window_pattern": 3, "query_pre_attn_scalar": 10},
    ),
    "gemma3_nested": Family(
        35,
        "Gemma-3, as transformers 5 saves it",
        "rope_parameters for each kind of layer, linear scaling in full layers, logits capped",
        sizes(40, 64, 4, 2, 2, 60, 64, 10)
        | GEMMA3
        | {
            "dtype": "bfloat16",
            "final_logit_softcapping": 12.0,
            "layer_types": [SLIDING, SLIDING, FULL, SLIDING],
            "rope_parameters": {
                FULL: {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"},
                SLIDING: {"rope_theta": 20000.0, "rope_type": "default"},
            },
            "tie_word_embeddings": True,
            "transformers_version": "5.0.0",
            "use_bidirectional_attention": False,
        },
        {
            "rope_parameters": {
                FULL: {"rope_theta": 1000000.0, "rope_type": "default"},
                SLIDING: {"rope_theta": 10000.0, "rope_type": "default"},
            },
            "final_logit_softcapping": None,
        },
    ),
    "olmo2": Family(
        36,
        "OLMo-2-1B",
        "norms after the sublayers only, q_norm and k_norm of all heads together",
        sizes(48, 80, 2, 6, 3, 60, 64)
        | OLMO2
        | {
            "architectures": ["Olmo2ForCausalLM"],
            "model_type": "olmo2",
            "rope_scaling": None,
            "torch_dtype": "float32",
            "transformers_version": "4.47.0.dev0",
            "use_cache": False,
        },
        {"rope_theta": 10000},
    ),
    "olmo3": Family(
        37,
        "OLMo-3-7B",
        "the same with layers that slide, and YaRN in full layers",
        sizes(60, 88, 5, 6, 2, 60, 512)
        | OLMO2
        | {
            "architectures": ["Olmo3ForCausalLM"],
            "model_type": "olmo3",
            "dtype": "bfloat16",
            "layer_types": [SLIDING, SLIDING, SLIDING, FULL, SLIDING],
            "rope_scaling": {
                "attention_factor": 1.2079441541679836,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "factor": 8.0,
                "original_max_position_embeddings": 64,
                "rope_type": "yarn",
            },
            "sliding_window": 8,
            "transformers_version": "4.57.0",
            "use_cache": True,
        },
        {"rope_scaling": None, "layer_types": [FULL] + [SLIDING] * 4, "sliding_window": 9},
    ),
    "phi3": Family(
        38,
        "Phi-3-mini-4k",
        "qkv_proj and gate_up_proj fused, all layers slide",
        sizes(40, 72, 2, 4, 4, 60, 64)
        | PHI3
        | {
            "original_max_position_embeddings": 64,
            "rope_scaling": None,
            "sliding_window": 9,
            "tie_word_embeddings": False,
            "transformers_version": "4.40.2",
        },
        {"sliding_window": None},
    ),
    "phi4": Family(
        39,
        "Phi-4-mini",
        "the same with grouped heads, 3/4 of which rotate, longrope, tied",
        sizes(64, 96, 2, 4, 2, 60, 384)
        | PHI3
        | {
            "full_attn_mod": 1,
            "interpolate_factor": 1,
            "lm_head_bias": False,
            "mlp_bias": False,
            "original_max_position_embeddings": 48,
            "partial_rotary_factor": 0.75,
            "rope_scaling": {
                "long_factor": [1, 1.118320672, 1.250641126, 1.974384, 8.5, 47.25],
                "short_factor": [1.0, 1.05, 1.1, 1.25, 1.5, 2.0],
                "type": "longrope",
            },
            "sliding_window": 262144,
            "tie_word_embeddings": True,
            "transformers_version": "4.45.0",
        },
        {"max_position_embeddings": 48, "rope_scaling": None},
    ),
    "phi4_long": Family(
        52,
        "Phi-4-mini",
        "the same in a text longer than the original context: the long factors",
        sizes(64, 96, 2, 4, 2, 60, 384)
        | PHI3
        | {
            "original_max_position_embeddings": 24,
            "partial_rotary_factor": 0.75,
            "rope_scaling": {
                "long_factor": [1, 1.118320672, 1.250641126, 1.974384, 8.5, 47.25],
                "short_factor": [1.0, 1.05, 1.1, 1.25, 1.5, 2.0],
                "type": "longrope",
            },
            "sliding_window": 262144,
            "tie_word_embeddings": True,
        },
        {"original_max_position_embeddings": 48},
    ),
    "granite": Family(
        40,
        "Granite-3-2B",
        "four multipliers, tied",
        sizes(60, 96, 3, 6, 2, 60, 64)
        | GRANITE
        | {
            "architectures": ["GraniteForCausalLM"],
            "model_type": "granite",
            "logits_scaling": 8.0,
            "mlp_bias": False,
            "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0,
            "transformers_version": "4.46.0.dev0",
        },
        {"attention_multiplier": 1.0, "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "logits_scaling": 1.0},
    ),
    "smollm3": Family(
        41,
        "SmolLM3-3B",
        "layers without positions, tied without the option",
        sizes(64, 88, 5, 4, 2, 60, 64)
        | {
            "architectures": ["SmolLM3ForCausalLM"],
            "model_type": "smollm3",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_types": [FULL] * 5,
            "max_window_layers": 28,
            "mlp_bias": False,
            "no_rope_layer_interval": 4,
            "no_rope_layers": [1, 1, 1, 0, 1],
            "pad_token_id": 4,
            "pretraining_tp": 2,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 5000000.0,
            "sliding_window": None,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.54.0.dev0",
            "use_cache": False,
            "use_sliding_window": False,
        },
        {"no_rope_layers": [1, 1, 0, 1, 1], "rope_theta": 2000000.0},
    ),
    "stablelm": Family(
        42,
        "StableLM-2-1.6B",
        "LayerNorm with beta, biases of q, k and v, a quarter of a head rotates",
        sizes(48, 80, 2, 2, 1, 60, 64)
        | {
            "architectures": ["StableLmForCausalLM"],
            "model_type": "stablelm",
            "bos_token_id": 3,
            "eos_token_id": 3,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_norm_eps": 1e-05,
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "transformers_version": "4.38.0",
            "use_cache": True,
            "use_qkv_bias": True,
        },
        {"partial_rotary_factor": 0.5},
    ),
    "olmo": Family(
        43,
        "OLMo-1B",
        "LayerNorm without parameters, tied",
        sizes(48, 96, 2, 4, 2, 60, 64)
        | {
            "architectures": ["OlmoForCausalLM"],
            "model_type": "olmo",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "clip_qkv": None,
            "eos_token_id": 3,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "pad_token_id": 1,
            "pretraining_tp": 1,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
            "transformers_version": "4.40.0.dev0",
            "use_cache": True,
        },
        {"clip_qkv": 0.5},
    ),
    "mixtral": Family(
        44,
        "Mixtral-8x7B",
        "experts in the names of Mixtral's files",
        sizes(40, 56, 2, 4, 2, 60, 64)
        | MISTRAL
        | {
            "architectures": ["MixtralForCausalLM"],
            "model_type": "mixtral",
            "attention_dropout": 0.0,
            "num_experts_per_tok": 2,
            "num_local_experts": 5,
            "output_router_logits": False,
            "rope_theta": 1000000.0,
            "router_aux_loss_coef": 0.02,
            "sliding_window": None,
            "transformers_version": "4.36.0.dev0",
        },
        {"num_experts_per_tok": 3, "sliding_window": 8},
    ),
    "mistral_v01": Family(
        45,
        "Mistral-7B v0.1",
        "all layers slide",
        sizes(64, 96, 3, 4, 2, 60, 64)
        | MISTRAL
        | {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "rope_theta": 10000.0,
            "sliding_window": 8,
            "transformers_version": "4.34.0.dev0",
        },
        {"sliding_window": 9},
    ),
    "mistral_v03": Family(
        46,
        "Mistral-7B v0.3",
        "no window",
        sizes(60, 96, 2, 6, 2, 64, 64)
        | MISTRAL
        | {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "attention_dropout": 0.0,
            "rope_theta": 1000000.0,
            "sliding_window": None,
            "transformers_version": "4.42.0.dev0",
        },
        {"sliding_window": 39},
    ),
    "gemma": Family(
        47,
        "Gemma-2B",
        "gamma stored minus 1, embeddings scaled, one KV head, heads wider than dim / n_heads",
        sizes(48, 96, 3, 4, 1, 60, 64, 20)
        | {
            "architectures": ["GemmaForCausalLM"],
            "model_type": "gemma",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 2,
            "eos_token_id": 1,
            "hidden_act": "gelu",
            "hidden_activation": None,
            "initializer_range": 0.02,
            "pad_token_id": 0,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.38.0.dev0",
            "use_cache": True,
        },
        {"hidden_act": "silu", "rope_theta": 500.0},
    ),
    "ernie4_5": Family(
        48,
        "ERNIE-4.5-0.3B",
        "RoPE of adjacent pairs, tied",
        sizes(48, 96, 3, 4, 2, 60, 64, 16)
        | {
            "architectures": ["Ernie4_5ForCausalLM"],
            "model_type": "ernie4_5",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "pad_token_id": 0,
            "rms_norm_eps": 1e-05,
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_bias": False,
            "use_cache": False,
        },
        {"rope_theta": 10000.0},
    ),
    "exaone4": Family(
        49,
        "EXAONE-4.0-1.2B",
        "norms after the sublayers only, norms of heads, Llama 3's RoPE scaling, tied",
        sizes(48, 96, 3, 4, 2, 60, 256)
        | {
            "architectures": ["Exaone4ForCausalLM"],
            "model_type": "exaone4",
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "head_dim": 12,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_types": [FULL] * 3,
            "pad_token_id": 0,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "factor": 16.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 32,
                "rope_type": "llama3",
            },
            "rope_theta": 1000000,
            "sliding_window": None,
            "sliding_window_pattern": None,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_cache": True,
        },
        {"rope_scaling": None},
    ),
    "olmoe": Family(
        50,
        "OLMoE-1B-7B",
        "a mixture whose weights are not divided by their sum, q_norm and k_norm of all heads",
        sizes(48, 24, 2, 4, 4, 60, 64)
        | {
            "architectures": ["OlmoeForCausalLM"],
            "model_type": "olmoe",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "clip_qkv": None,
            "eos_token_id": 5,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "norm_topk_prob": False,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "output_router_logits": False,
            "pad_token_id": 1,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "router_aux_loss_coef": 0.01,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": True,
        },
        {"norm_topk_prob": True, "num_experts_per_tok": 3},
    ),
    "qwen2_moe": Family(
        63,
        "Qwen1.5-MoE-A2.7B",
        "a mixture with a shared expert, whose weights are not divided by their sum, biases of q, k and v",
        sizes(48, 72, 2, 4, 2, 60, 64)
        | {
            "architectures": ["Qwen2MoeForCausalLM"],
            "model_type": "qwen2_moe",
            "attention_dropout": 0.0,
            "bos_token_id": 3,
            "decoder_sparse_step": 1,
            "eos_token_id": 3,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "max_window_layers": 21,
            "moe_intermediate_size": 24,
            "norm_topk_prob": False,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "output_router_logits": False,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "router_aux_loss_coef": 0.001,
            "shared_expert_intermediate_size": 40,
            "sliding_window": 32,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "use_sliding_window": False,
        },
        {"norm_topk_prob": True, "num_experts_per_tok": 2, "rope_theta": 10000.0},
    ),
    "granitemoe": Family(
        51,
        "Granite-3.1-1B-A400M",
        "a mixture with four multipliers, tied",
        sizes(48, 24, 2, 4, 2, 60, 64)
        | GRANITE
        | {
            "architectures": ["GraniteMoeForCausalLM"],
            "model_type": "granitemoe",
            "logits_scaling": 6.0,
            "num_experts_per_tok": 3,
            "num_local_experts": 5,
            "output_router_logits": False,
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000,
            "router_aux_loss_coef": 0.0,
        },
        {"residual_multiplier": 0.5, "num_experts_per_tok": 2, "attention_multiplier": 0.3},
    ),
    "exaone4_window": Family(
        53,
        "EXAONE-4.0-32B",
        "layers without a window have no RoPE",
        sizes(48, 88, 5, 6, 2, 60, 64)
        | {
            "architectures": ["Exaone4ForCausalLM"],
            "model_type": "exaone4",
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_types": [SLIDING, SLIDING, SLIDING, FULL, SLIDING],
            "rms_norm_eps": 1e-05,
            "rope_theta": 1000000,
            "sliding_window": 8,
            "sliding_window_pattern": "LLLG",
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        },
        {"layer_types": [SLIDING, SLIDING, FULL, SLIDING, FULL], "sliding_window": 9},
    ),
    "glm4": Family(
        54,
        "GLM-4-9B-0414",
        "norms around both sublayers, half of a head rotates in pairs of neighbours, biases of q, k and v",
        sizes(48, 80, 2, 4, 2, 60, 64, 16)
        | {
            "architectures": ["Glm4ForCausalLM"],
            "model_type": "glm4",
            "pad_token_id": 3,
            "attention_bias": True,
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "partial_rotary_factor": 0.5,
            "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        },
        {"partial_rotary_factor": 0.25},
    ),
    "ministral3": Family(
        55,
        "Ministral-3-3B's text model",
        "YaRN without an amplitude, tied",
        sizes(48, 80, 2, 4, 2, 60, 1024, 20)
        | {
            "architectures": ["Ministral3ForCausalLM"],
            "model_type": "ministral3",
            "pad_token_id": 11,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "rms_norm_eps": 1e-05,
            "rope_parameters": {
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "factor": 16.0,
                "llama_4_scaling_beta": 0.1,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 64,
                "rope_theta": 1000000.0,
                "rope_type": "yarn",
                "type": "yarn",
            },
            "sliding_window": None,
            "tie_word_embeddings": True,
        },
        {
            "rope_parameters": {
                "rope_theta": 1000000.0,
                "rope_type": "default",
                "llama_4_scaling_beta": 0.1,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "seed_oss": Family(
        56,
        "Seed-OSS-36B-Instruct",
        "biases of q, k and v only, a head size of its own",
        sizes(48, 80, 2, 4, 2, 60, 64, 16)
        | {
            "architectures": ["SeedOssForCausalLM"],
            "model_type": "seed_oss",
            "attention_bias": True,
            "attention_dropout": 0.1,
            "attention_out_bias": False,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "mlp_bias": False,
            "pad_token_id": 1,
            "residual_dropout": 0.1,
            "rms_norm_eps": 1e-06,
            "rope_scaling": {"rope_type": "default"},
            "rope_theta": 10000000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        },
    ),
    "seed_oss_biases": Family(
        57,
        "SeedOssConfig's other options",
        "biases of all weights, tied",
        sizes(48, 80, 2, 4, 2, 60, 64, 16)
        | {
            "architectures": ["SeedOssForCausalLM"],
            "model_type": "seed_oss",
            "attention_out_bias": True,
            "mlp_bias": True,
            "pad_token_id": 1,
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
        },
    ),
    "hunyuan": Family(
        58,
        "Hunyuan-1.8B-Instruct",
        "norms of heads after RoPE, whose base has a constant factor, tied",
        sizes(48, 80, 3, 4, 2, 60, 64, 16)
        | {
            "architectures": ["HunYuanDenseV1ForCausalLM"],
            "model_type": "hunyuan_v1_dense",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "eod_token_id": 3,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "pad_token_id": 2,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "alpha": 1000.0,
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "type": "dynamic",
            },
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_qk_norm": True,
        },
        {"rope_scaling": {"alpha": 50.0, "factor": 1.0, "type": "dynamic"}},
    ),
    "cohere2": Family(
        59,
        "Command R7B",
        "one LayerNorm without beta for attention and MLP, RoPE only in layers with a window, scaled logits, tied",
        sizes(48, 80, 5, 4, 2, 60, 64)
        | {
            "architectures": ["Cohere2ForCausalLM"],
            "model_type": "cohere2",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "cache_implementation": "hybrid",
            "eos_token_id": 5,
            "bos_token_id": 5,
            "head_dim": 12,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_norm_eps": 1e-05,
            "layer_switch": 4,
            "logit_scale": 0.25,
            "order_of_interleaved_layers": "local_attn_first",
            "pad_token_id": 0,
            "position_embedding_type": "rope_gptj",
            "rope_scaling": None,
            "rope_theta": 50000,
            "rotary_pct": 1.0,
            "sliding_window": 9,
            "sliding_window_pattern": 4,
            "torch_dtype": "float16",
            "use_embedding_sharing": True,
            "use_gated_activation": True,
            "use_parallel_block": True,
        },
        {"logit_scale": 0.5, "sliding_window": 12, "sliding_window_pattern": 3},
    ),
    "arcee": Family(
        60,
        "AFM-4.5B",
        "an MLP of relu squared without a gate, YaRN",
        sizes(48, 80, 2, 4, 2, 60, 128, 16)
        | {
            "architectures": ["ArceeForCausalLM"],
            "model_type": "arcee",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "hidden_act": "relu2",
            "initializer_range": 0.02,
            "mlp_bias": False,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "factor": 4.0,
                "mscale": 1.0,
                "original_max_position_embeddings": 32,
                "rope_type": "yarn",
                "type": "yarn",
            },
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        },
        {"rope_scaling": None},
    ),
    "arcee_biases": Family(
        61,
        "ArceeConfig's other options",
        "biases, tied",
        sizes(48, 80, 2, 4, 2, 60, 64, 12)
        | {
            "architectures": ["ArceeForCausalLM"],
            "model_type": "arcee",
            "attention_bias": True,
            "hidden_act": "relu2",
            "mlp_bias": True,
            "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
        },
    ),
}


def row(name):
    """A row of the table in tests/golden/README.md."""
    family = FAMILIES[name]
    return f"| `{name}` | {family.seed} | {family.config['model_type']} | {family.like} | {family.notes} |"


# ---- weights ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Experts:
    """Names in published files. transformers has the experts of a layer as two stacks, gate_up_proj and down_proj."""

    block: str  # in which the layer has its experts and their router
    router: str
    stacks: dict = field(default_factory=dict)  # their names; empty: each expert has three tensors of its own
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"


EXPERTS = {
    "mixtral": Experts("block_sparse_moe", "gate", gate="w1", up="w3", down="w2"),
    "olmoe": Experts("mlp", "gate"),
    "qwen2_moe": Experts("mlp", "gate"),
    "granitemoe": Experts(
        "block_sparse_moe", "router.layer", stacks={"gate_up_proj": "input_linear", "down_proj": "output_linear"}
    ),
}


def stored_experts(experts, block, stack, shape):
    """The names and shapes in published files for the stack of a layer's experts; block: the name before them."""
    if experts.stacks:
        return [(f"{block}.{experts.stacks[stack]}.weight", list(shape))]
    n, rows, cols = shape
    parts = [(experts.down, rows)]
    if stack == "gate_up_proj":
        parts = [(experts.gate, rows // 2), (experts.up, rows // 2)]
    return [(f"{block}.experts.{e}.{part}.weight", [part_rows, cols]) for e in range(n) for part, part_rows in parts]


def as_stored(model_type, name, shape):
    """The names and shapes in published files for a tensor of the model: several if experts are stored separately."""
    is_router = ".gate.weight" in name or ".router." in name
    if model_type not in EXPERTS or not (is_router or ".experts." in name):
        return [(name, list(shape))]
    experts = EXPERTS[model_type]
    layer = re.match(r"model\.layers\.\d+", name)[0]
    block = f"{layer}.{experts.block}"
    if is_router:
        return [(f"{block}.{experts.router}.weight", list(shape))]
    return stored_experts(experts, block, name.rsplit(".", 1)[1], shape)


def stored_tensors(model):
    tied = model.config.tie_word_embeddings
    named = {name: tuple(w.shape) for name, w in model.state_dict().items()}
    named = {name: shape for name, shape in named.items() if not (tied and name == "lm_head.weight")}
    return [stored for name, shape in named.items() for stored in as_stored(model.config.model_type, name, shape)]


def hash_weights(family, tensors):
    adds_one = family.config["model_type"].startswith("gemma")
    found = {}
    for i, (name, shape) in enumerate(tensors):
        u = uniform(family.seed, i, shape)
        if name.endswith(".bias"):
            found[name] = u
        elif len(shape) == 1:
            found[name] = (u.astype(np.float64) / 2).astype(np.float32) if adds_one else weights("norm", u)
        else:
            found[name] = weights("token_embedding" if name == "model.embed_tokens.weight" else name, u)
    return found


# ---- transformers ------------------------------------------------------------------------------


@contextlib.contextmanager
def float64_for_float32():
    """Within this context PyTorch's float32 is float64."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(torch.float32)


def build(config):
    """Builds the model with random weights."""
    options = {key: value for key, value in config.items() if key not in ("dtype", "torch_dtype", "model_type")}
    options = json.loads(json.dumps(options))  # transformers modifies nested dictionaries
    config = transformers.AutoConfig.for_model(config["model_type"], **options)
    config._attn_implementation = config._experts_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def load(config, named):
    """Returns the weights as transformers reads them from a folder; fails if a tensor is missing or unused."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        save_file({name: torch.from_numpy(w) for name, w in named.items()}, f"{folder}/model.safetensors")
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
    wrong = {key: found for key, found in info.items() if found and key != "error_msgs"}
    if wrong or info.get("error_msgs"):
        raise ValueError(f"{config['model_type']}: transformers reports {info}")
    return model.state_dict()


@torch.inference_mode()
def logits(config, state, tokens, exact=True):
    """Returns the logits in float64 or, if not exact, as stock transformers computes them in float32."""
    with float64_for_float32() if exact else contextlib.nullcontext():
        model = build(config)
        model.load_state_dict(state)
        model = model.double() if exact else model
        return model(torch.from_numpy(tokens[None]), use_cache=False).logits[0].numpy()


# ---- files -----------------------------------------------------------------------------------------


def dump(family, tensors, tokens):
    config = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(family.config.items()))
    listed = ",\n".join(json.dumps(tensor) for tensor in tensors)
    return (
        f'{{\n"config": {{\n{config}\n}},\n"seed": {family.seed},\n'
        f'"tensors": [\n{listed}\n],\n"tokens": {json.dumps(tokens.tolist())}\n}}\n'
    )


def check_options(name, family, state, tokens, golden):
    for key, value in family.matters.items():
        error, largest = compare(logits(family.config | {key: value}, state, tokens), golden)
        if error < 1e-3 * largest:
            raise ValueError(f"{name}: with {key} = {value} the logits differ by only {error / largest:.1e}")


def write(name, family):
    """Writes the files of a family; returns the error of stock float32, relative to the largest logit."""
    tensors = stored_tensors(build(family.config))
    tokens = (hashes(family.seed, 0xFFFFFF, 0, N_TOKENS) % np.uint64(family.config["vocab_size"])).astype(np.int64)
    state = load(family.config, hash_weights(family, tensors))
    golden = logits(family.config, state, tokens)
    check_options(name, family, state, tokens, golden)
    error, largest = compare(logits(family.config, state, tokens, exact=False), golden)
    golden.astype("<f4").tofile(FOLDER / f"{name}.f32")
    (FOLDER / f"{name}.json").write_text(dump(family, tensors, tokens))
    return error / largest


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name, family in FAMILIES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        print(f"{name:14} {write(name, family):.2e}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"families.py: {error}")
