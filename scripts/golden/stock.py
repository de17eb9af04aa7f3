"""Runs the same model in stock Hugging Face LlamaForCausalLM, to measure how much it differs from float64.

Owns the mapping from llama2.c's tensors to Hugging Face's. Stock code computes norms, softmax and RoPE angles in
float32, whatever the type of the model.
"""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {
    "attn_norm": "input_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "down": "mlp.down_proj",
    "up": "mlp.up_proj",
}
TOP_NAMES = {"token_embedding": "model.embed_tokens", "final_norm": "model.norm", "output": "lm_head"}


def split_halves(w, head_size):
    """Rows of each head from pairs (0, 1), (2, 3), ... to RoPE in halves: first the even rows, then the odd ones."""
    return w.reshape(-1, head_size // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def build(config, tensors):
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=config.dim,
            intermediate_size=config.hidden_dim,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            num_key_value_heads=config.n_kv_heads,
            head_dim=config.head_size,
            vocab_size=config.vocab_size,
            max_position_embeddings=config.seq_len,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            tie_word_embeddings=config.shared_classifier,
            attn_implementation="eager",
        )
    ).eval()
    state = {}
    for name, w in tensors.items():
        _, layer, kind = name.split(".") if name.startswith("layers.") else (None, None, name)
        if kind in ("wq", "wk"):
            w = split_halves(w, config.head_size)
        if layer or kind in TOP_NAMES:  # no RoPE tables
            key = f"model.layers.{layer}.{NAMES[kind]}" if layer else TOP_NAMES[kind]
            state[key + ".weight"] = torch.from_numpy(np.array(w, np.float32))
    if config.shared_classifier:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


@torch.inference_mode()
def logits(config, tensors, tokens, double=False):
    """tokens [n] -> logits [n, vocab_size], float32 or, if double, float64"""
    model = build(config, tensors)
    model = model.double() if double else model
    return model(torch.from_numpy(np.asarray(tokens)[None])).logits[0].numpy()
