"""Random models of other architectures than llama2.c's: their configurations, weights and stock Hugging Face models.

Owns the features that a llama2.c checkpoint lacks: biases, norms of heads, experts, heads of any size, RoPE in halves,
with factors and an amplitude. The weights come from the hash of random_model.py, with these tensor numbers:

    4095                        rope_factors [head_size / 2]
    4096 + 16 * layer + 0       q_norm    [head_size]
                      + 1       k_norm    [head_size]
                      + 2       bq        [n_heads * head_size]
                      + 3       bk        [n_kv_heads * head_size]
                      + 4       bv        [n_kv_heads * head_size]
                      + 5       router    [n_experts, dim]
                      + 6       gates     [n_experts, expert_dim, dim]
                      + 7       downs     [n_experts, dim, expert_dim]
                      + 8       ups       [n_experts, expert_dim, dim]

    biases        u
    rope_factors  4 + 4 * u
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from random_model import tensor_id, uniform, weights
from reference import EPS, Architecture

sys.path.append(str(Path(__file__).resolve().parents[1]))
from checkpoint import Config

KINDS = "q_norm", "k_norm", "bq", "bk", "bv", "router", "gates", "downs", "ups"
HF_NAMES = {
    "attn_norm": "input_layernorm.weight",
    "wq": "self_attn.q_proj.weight",
    "wk": "self_attn.k_proj.weight",
    "wv": "self_attn.v_proj.weight",
    "wo": "self_attn.o_proj.weight",
    "bq": "self_attn.q_proj.bias",
    "bk": "self_attn.k_proj.bias",
    "bv": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "mlp_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "down": "mlp.down_proj.weight",
    "up": "mlp.up_proj.weight",
    "router": "mlp.gate.weight",
    "downs": "mlp.experts.down_proj",
}


@dataclass(frozen=True)
class Relative:
    seed: int
    name: str  # qwen2, qwen3 or qwen3moe, as in GGUF files
    config: Config
    head_size: int
    n_experts: int = 0
    n_experts_used: int = 0
    expert_dim: int = 0
    n_dense: int = 0  # layers before the first with experts
    norm_topk: bool = True
    rope_amplitude: float = 1.0
    rope_factors: bool = False

    @property
    def architecture(self):
        factors = 4 + 4 * uniform(self.seed, 4095, (self.head_size // 2,)) if self.rope_factors else None
        return Architecture(self.head_size, True, factors, self.rope_amplitude, self.n_experts_used, self.norm_topk)


RELATIVES = {
    "qwen2": Relative(21, "qwen2", Config(48, 80, 2, 4, 2, 60, 64, False), 12),
    "qwen3": Relative(22, "qwen3", Config(64, 96, 2, 4, 2, 60, 64, True), 24),
    "qwen3moe": Relative(23, "qwen3moe", Config(64, 96, 2, 4, 1, 60, 64, False), 16, 8, 2, 32),
    "plain_moe": Relative(24, "qwen3moe", Config(40, 72, 3, 2, 2, 60, 64, False), 80, 5, 3, 36, 1, norm_topk=False),
    "yarn": Relative(25, "qwen2", Config(64, 96, 2, 4, 2, 60, 64, True), 24, rope_amplitude=1.25, rope_factors=True),
}


def shapes(r, layer):
    """Returns {kind: shape} of the tensors of a layer."""
    c = r.config
    q_dim, kv_dim = c.n_heads * r.head_size, c.n_kv_heads * r.head_size
    found = {"attn_norm": (c.dim,), "wq": (q_dim, c.dim), "wk": (kv_dim, c.dim), "wv": (kv_dim, c.dim)}
    found |= {"wo": (c.dim, q_dim), "mlp_norm": (c.dim,)}
    if r.name == "qwen2":
        found |= {"bq": (q_dim,), "bk": (kv_dim,), "bv": (kv_dim,)}
    else:
        found |= {"q_norm": (r.head_size,), "k_norm": (r.head_size,)}
    if layer < r.n_dense or not r.n_experts:
        return found | {"gate": (c.hidden_dim, c.dim), "down": (c.dim, c.hidden_dim), "up": (c.hidden_dim, c.dim)}
    up = r.n_experts, r.expert_dim, c.dim
    return found | {"router": (r.n_experts, c.dim), "gates": up, "downs": (r.n_experts, c.dim, r.expert_dim), "ups": up}


def hash_tensor(r, name, shape):
    kind = name.split(".")[-1]
    layer = int(name.split(".")[1]) if name.startswith("layers.") else None
    number = 4096 + 16 * layer + KINDS.index(kind) if kind in KINDS else tensor_id(r.config, name)
    u = uniform(r.seed, number, shape)
    return u if kind in ("bq", "bk", "bv") else weights(name, u)


def hash_tensors(r):
    c = r.config
    named = {"token_embedding": (c.vocab_size, c.dim), "final_norm": (c.dim,)}
    named |= {} if c.shared_classifier else {"output": (c.vocab_size, c.dim)}
    for layer in range(c.n_layers):
        named |= {f"layers.{layer}.{kind}": shape for kind, shape in shapes(r, layer).items()}
    return {name: hash_tensor(r, name, shape) for name, shape in named.items()}


def build(r):
    """Builds transformers' model with random weights."""
    c = r.config
    options = {
        "hidden_size": c.dim,
        "intermediate_size": c.hidden_dim,
        "num_hidden_layers": c.n_layers,
        "num_attention_heads": c.n_heads,
        "num_key_value_heads": c.n_kv_heads,
        "head_dim": r.head_size,
        "vocab_size": c.vocab_size,
        "max_position_embeddings": c.seq_len,
        "rms_norm_eps": EPS,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": c.shared_classifier,
        "attn_implementation": "eager",
    }
    if r.name == "qwen2":
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**options))
    if r.name == "qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**options))
    options |= {
        "num_experts": r.n_experts,
        "num_experts_per_tok": r.n_experts_used,
        "norm_topk_prob": r.norm_topk,
        "moe_intermediate_size": r.expert_dim,
        "mlp_only_layers": list(range(r.n_dense)),
        "experts_implementation": "eager",
    }
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**options))


def state_dict(tensors):
    state = {}
    for name, w in tensors.items():
        _, layer, kind = name.split(".") if name.startswith("layers.") else (None, None, name)
        w = torch.from_numpy(w)
        if kind == "gates":  # fused: gates, then ups
            w = torch.cat([w, torch.from_numpy(tensors[f"layers.{layer}.ups"])], dim=1)
            state[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = w
        elif kind in HF_NAMES:
            state[f"model.layers.{layer}.{HF_NAMES[kind]}"] = w
    state["model.embed_tokens.weight"] = torch.from_numpy(tensors["token_embedding"])
    state["model.norm.weight"] = torch.from_numpy(tensors["final_norm"])
    state["lm_head.weight"] = torch.from_numpy(tensors.get("output", tensors["token_embedding"]))
    return state


@torch.inference_mode()
def stock_logits(r, tensors, tokens, double=False):
    """tokens [n] -> logits [n, vocab_size] of transformers, in float32 or, if double, float64"""
    model = build(r).eval()
    model.load_state_dict(state_dict(tensors))
    rotary = model.model.rotary_emb
    rotary.attention_scaling = r.rope_amplitude
    if r.rope_factors:
        rotary.inv_freq = rotary.inv_freq / torch.from_numpy(r.architecture.rope_factors)
    model = model.double() if double else model
    return model(torch.from_numpy(np.asarray(tokens)[None])).logits[0].numpy()
