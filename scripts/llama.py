"""The model that train.py trains: a LLaMA in PyTorch, the same maths as reference.py's, fast enough to learn.

Owns the forward pass, the initial weights, and the kinds of norms and where they stand. Weights have the names and shapes of
checkpoint.py. It knows no files and no text.
"""

import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

EPS = 1e-5
NORMS = {  # the norm before (or after) attention, the one of the MLP, the final one
    "rms": ("rms", "rms", "rms"),
    "layer": ("layer", "layer", "layer"),
    "mixed": ("layer", "rms", "rms"),
}


def norm(kind, dim):
    return {"rms": nn.RMSNorm, "layer": nn.LayerNorm}[kind](dim, eps=EPS)


def rope_angles(n, head_size):
    theta = 10000.0 ** (-2 * torch.arange(head_size // 2) / head_size)
    angle = torch.arange(n)[:, None] * theta
    return angle.cos(), angle.sin()  # [n, head_size / 2]


def rope(x, cos, sin):
    """Rotates the pairs (x[2i], x[2i+1]) of each head; x [batch, heads, n, head_size]"""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).type_as(x)


class Layer(nn.Module):
    """Attention and MLP, each with its norm: x + f(norm(x)) with placement "pre", norm(x + f(x)) with "post"."""

    def __init__(self, config, attn_norm, mlp_norm, placement):
        super().__init__()
        self.head_size, self.placement = config.head_size, placement
        self.attn_norm, self.mlp_norm = norm(attn_norm, config.dim), norm(mlp_norm, config.dim)
        for name in ("wq", "wk", "wv", "wo", "gate", "down", "up"):
            rows, cols = config.shape(name)
            setattr(self, name, nn.Linear(cols, rows, bias=False))

    def attention(self, h, angles):
        q, k, v = (w(h).unflatten(-1, (-1, self.head_size)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rope(q, *angles), rope(k, *angles)
        heads = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(heads.transpose(1, 2).flatten(-2))

    def mlp(self, h):
        return self.down(silu(self.gate(h)) * self.up(h))

    def forward(self, x, angles):
        if self.placement == "pre":
            x = x + self.attention(self.attn_norm(x), angles)
            return x + self.mlp(self.mlp_norm(x))
        x = self.attn_norm(x + self.attention(x, angles))
        return self.mlp_norm(x + self.mlp(x))


class Llama(nn.Module):
    """config is a checkpoint.Config; the output classifier is the token embedding."""

    def __init__(self, config, norms="rms", placement="pre"):
        super().__init__()
        attn_norm, mlp_norm, final_norm = NORMS[norms]
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.dim)
        self.layers = nn.ModuleList(Layer(config, attn_norm, mlp_norm, placement) for _ in range(config.n_layers))
        self.final_norm = norm(final_norm, config.dim)
        for name, w in self.named_parameters():
            if w.dim() == 2:
                residual = name.endswith(("wo.weight", "down.weight"))  # their sums grow with the layers
                nn.init.normal_(w, std=0.03 / (math.sqrt(2 * config.n_layers) if residual else 1))
        for name, table in zip(("cos", "sin"), rope_angles(config.seq_len, config.head_size), strict=True):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        """tokens [batch, n] -> logits [batch, n, vocab_size]"""
        n = tokens.shape[1]
        x = self.token_embedding(tokens)
        for layer in self.layers:
            x = layer(x, (self.cos[:n], self.sin[:n]))
        return self.final_norm(x) @ self.token_embedding.weight.T

    def loss(self, tokens):
        """The mean loss over every token but the first; tokens [batch, n], -1 behind the end of a text."""
        targets = tokens[:, 1:]
        logits = self(tokens[:, :-1].clamp(min=0))
        return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-1)
