"""The model that train.py trains: a LLaMA in PyTorch, the same maths as in reference.py, fast enough for training.

Owns the forward pass, the initial weights, and the kinds and placements of norms. Weights have the names and shapes of
checkpoint.py.
"""

import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

EPS = 1e-5
NORMS = "rms", "layer", "mixed", "dyt", "none"  # mixed: LayerNorm in the first and the last layer, RMSNorm elsewhere
PLACEMENTS = "pre", "post", "inside", "sandwich"
QK_NORMS = "none", "head", "vector"  # head: each head, as in Qwen 3; vector: all heads together, as in OLMo 2


class DyT(nn.Module):
    """gamma * tanh(alpha * x) + beta in a norm's place; alpha is one number (Zhu et al. 2025, section 4)."""

    def __init__(self, dim):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(()))
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.weight * torch.tanh(self.alpha * x) + self.bias


def norm(kind, dim):
    if kind == "none":
        return nn.Identity()
    return DyT(dim) if kind == "dyt" else {"rms": nn.RMSNorm, "layer": nn.LayerNorm}[kind](dim, eps=EPS)


def rope_angles(n, head_size):
    theta = 10000.0 ** (-2 * torch.arange(head_size // 2) / head_size)
    angle = torch.arange(n)[:, None] * theta
    return angle.cos(), angle.sin()  # [n, head_size / 2]


def rope(x, cos, sin):
    """Rotates the pairs (x[2i], x[2i+1]) of each head; x [batch, heads, n, head_size]"""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).type_as(x)


class Layer(nn.Module):
    """Attention and MLP, each with its norm:

    placement   pre         x + f(norm(x))
                post        norm(x + f(x))
                inside      x + norm(f(x)), as in OLMo 2
                sandwich    x + norm(f(norm(x))), as in Gemma 2
    """

    def __init__(self, config, kind, placement, qk_norm):
        super().__init__()
        self.head_size, self.placement, self.qk_norm = config.head_size, placement, qk_norm
        ends = {"pre": ("",), "sandwich": ("", "_post")}.get(placement, ("_post",))
        for name in ("attn", "mlp"):
            for end in ("", "_post"):
                setattr(self, f"{name}{end}_norm", norm(kind if end in ends else "none", config.dim))
        for name in ("wq", "wk", "wv", "wo", "gate", "down", "up"):
            rows, cols = config.shape(name)
            setattr(self, name, nn.Linear(cols, rows, bias=False))
        for name, w in ("q_norm", self.wq), ("k_norm", self.wk):
            dim = config.head_size if qk_norm == "head" else w.out_features
            setattr(self, name, norm("none" if qk_norm == "none" else kind, dim))

    def heads_of(self, x, qk_norm):
        """[batch, n, heads * head_size] -> [batch, heads, n, head_size]"""
        if self.qk_norm == "vector":
            x = qk_norm(x)
        x = x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)
        return qk_norm(x) if self.qk_norm == "head" else x

    def attention(self, h, angles):
        q, k = self.heads_of(self.wq(h), self.q_norm), self.heads_of(self.wk(h), self.k_norm)
        v = self.wv(h).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
        q, k = rope(q, *angles).type_as(v), rope(k, *angles).type_as(v)
        heads = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(heads.transpose(1, 2).flatten(-2))

    def mlp(self, h):
        return self.down(silu(self.gate(h)) * self.up(h))

    def forward(self, x, angles):
        if self.placement == "post":
            x = self.attn_post_norm(x + self.attention(x, angles))
            return self.mlp_post_norm(x + self.mlp(x))
        x = x + self.attn_post_norm(self.attention(self.attn_norm(x), angles))
        return x + self.mlp_post_norm(self.mlp(self.mlp_norm(x)))


class Llama(nn.Module):
    """config is a checkpoint.Config. The output classifier is the token embedding, or a separate weight.

    scaled_embeddings multiplies the embeddings by sqrt(dim), as the Transformer of 2017 and Gemma do.
    """

    def __init__(self, config, norms="rms", placement="pre", qk_norm="none", scaled_embeddings=False):
        super().__init__()
        kinds = ["rms" if norms == "mixed" else norms] * (config.n_layers + 1)
        if norms == "mixed":
            kinds[0] = kinds[-2] = "layer"
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.dim)
        self.scale = math.sqrt(config.dim) if scaled_embeddings else 1
        if norms in ("dyt", "none"):  # nothing else enlarges the small initial embeddings
            self.scale = nn.Parameter(torch.tensor(math.sqrt(config.dim)))
        self.layers = nn.ModuleList(Layer(config, kind, placement, qk_norm) for kind in kinds[:-1])
        self.final_norm = norm(kinds[-1], config.dim)
        if not config.shared_classifier:
            self.output = nn.Linear(config.dim, config.vocab_size, bias=False)
        for name, w in self.named_parameters():
            if w.dim() == 2:
                residual = name.endswith(("wo.weight", "down.weight"))  # added to the stream in every layer
                nn.init.normal_(w, std=0.03 / (math.sqrt(2 * config.n_layers) if residual else 1))
        for name, table in zip(("cos", "sin"), rope_angles(config.seq_len, config.head_size), strict=True):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        """tokens [batch, n] -> logits [batch, n, vocab_size]"""
        n = tokens.shape[1]
        x = self.token_embedding(tokens) * self.scale
        for layer in self.layers:
            x = layer(x, (self.cos[:n], self.sin[:n]))
        return self.final_norm(x) @ (self.token_embedding if self.config.shared_classifier else self.output).weight.T

    def loss(self, tokens):
        """The mean loss over all tokens but the first; tokens [batch, n], -1 after the end of a text."""
        targets = tokens[:, 1:]
        logits = self(tokens[:, :-1].clamp(min=0))
        return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-1)
