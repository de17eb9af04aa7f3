"""The reference of norma: the forward pass of a LLaMA, or of a related model, in float64.

Owns the maths, written to be read with the paper, and the comparison of logits with it. It has no KV cache and no
sampling, and is slow. Version 2 checkpoints are dequantized; activations are never quantized. stock.py builds stock
LlamaForCausalLM for comparison.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
import checkpoint

EPS = 1e-5


@dataclass(frozen=True)
class Architecture:
    """Differences from a llama2.c checkpoint. Biases, norms of heads and experts exist if their tensors do."""

    head_size: int | None = None  # None: dim / n_heads
    rope_halves: bool = False  # pairs (v[i], v[i + head_size / 2]), else (v[2i], v[2i + 1])
    rope_factors: np.ndarray | None = None  # [head_size / 2]; angles are divided by these
    rope_amplitude: float = 1.0  # of cos and sin
    n_experts_used: int = 0
    norm_topk: bool = True  # the chosen experts' weights are divided by their sum


LLAMA = Architecture()


def rmsnorm(x, gamma):
    """x [n, ..., dim], gamma [dim]"""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPS) * gamma


def rope(x, architecture=LLAMA):
    """Rotates each pair of each head by position * theta_i; x [n, heads, head_size]."""
    n, _, head_size = x.shape
    i = np.arange(head_size // 2)
    theta = 10000.0 ** (-2 * i / head_size)
    if architecture.rope_factors is not None:
        theta = theta / architecture.rope_factors
    angle = np.arange(n)[:, None, None] * theta  # [n, 1, head_size / 2]
    cos, sin = architecture.rope_amplitude * np.cos(angle), architecture.rope_amplitude * np.sin(angle)
    first, second = (i, i + head_size // 2) if architecture.rope_halves else (2 * i, 2 * i + 1)
    rotated = np.empty_like(x)
    rotated[..., first] = x[..., first] * cos - x[..., second] * sin
    rotated[..., second] = x[..., first] * sin + x[..., second] * cos
    return rotated


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def attention(h, w, config, architecture):
    """Causal grouped-query attention: adjacent query heads share a key and value head; h [n, dim] -> [n, dim]."""
    n, dim = h.shape
    head_size = architecture.head_size or dim // config.n_heads

    def project(name, heads):
        return (h @ w["w" + name].T + w.get("b" + name, 0)).reshape(n, heads, head_size)

    q, k, v = project("q", config.n_heads), project("k", config.n_kv_heads), project("v", config.n_kv_heads)
    if "q_norm" in w:
        q, k = rmsnorm(q, w["q_norm"]), rmsnorm(k, w["k_norm"])
    q, k = rope(q, architecture), rope(k, architecture)
    k, v = (np.repeat(kv, config.n_heads // config.n_kv_heads, axis=1) for kv in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(head_size)  # [n_heads, n queries, n keys]
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf  # causal mask
    return np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(n, -1) @ w["wo"].T


def mlp(h, gate, down, up):
    """SwiGLU; h [n, dim] -> [n, dim]"""
    return (silu(h @ gate.T) * (h @ up.T)) @ down.T


def mixture(h, w, architecture):
    """The sum of each token's most probable experts, weighted by their probabilities; h [n, dim] -> [n, dim]."""
    p = softmax(h @ w["router"].T)  # [n, n_experts]
    chosen = np.argsort(-p, axis=-1, kind="stable")[:, : architecture.n_experts_used]
    weights = np.take_along_axis(p, chosen, axis=-1)
    if architecture.norm_topk:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    y = np.zeros_like(h)
    for t in range(len(h)):
        for expert, weight in zip(chosen[t], weights[t], strict=True):
            y[t] += weight * mlp(h[t], w["gates"][expert], w["downs"][expert], w["ups"][expert])
    return y


def forward(config, tensors, tokens, architecture=LLAMA):
    """tokens [n] -> logits [n, vocab_size]"""

    def w(name):
        return tensors[name].astype(np.float64)

    x = tensors["token_embedding"][tokens].astype(np.float64)
    for i in range(config.n_layers):
        prefix = f"layers.{i}."
        layer = {name.removeprefix(prefix): w(name) for name in tensors if name.startswith(prefix)}
        x += attention(rmsnorm(x, layer["attn_norm"]), layer, config, architecture)
        h = rmsnorm(x, layer["mlp_norm"])
        sparse = "router" in layer
        x += mixture(h, layer, architecture) if sparse else mlp(h, *[layer[name] for name in ("gate", "down", "up")])
    return rmsnorm(x, w("final_norm")) @ w("token_embedding" if config.shared_classifier else "output").T


def compare(logits, reference):
    """Returns the largest absolute error and the largest |logit|."""
    return np.abs(logits - reference).max(), np.abs(reference).max()


def read_tokens(text, config):
    """Token ids from a list such as 1,403,407, or from a file with such a line (@FILE)."""
    if text.startswith("@"):
        with open(text[1:]) as file:
            text = file.read()
    try:
        tokens = np.array([int(token) for token in text.split(",")])
    except ValueError:
        raise ValueError(f"--tokens is {text.strip()[:40]!r}, expected ids such as 1,403,407") from None
    if tokens.min() < 0 or tokens.max() >= config.vocab_size:
        raise ValueError(f"--tokens has an id outside 0 to {config.vocab_size - 1}, the vocabulary")
    if len(tokens) > config.seq_len:
        raise ValueError(f"--tokens has {len(tokens)} ids, more than the context, {config.seq_len}")
    return tokens


def read_logits(path, shape):
    logits = np.fromfile(path, "<f4")
    if logits.size != shape[0] * shape[1]:
        raise ValueError(f"{path}: {logits.size} float32, expected {shape[0]} x {shape[1]}")
    return logits.reshape(shape)


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s CHECKPOINT --tokens LIST [options]",
        description="Run a llama2.c checkpoint in float64; write its logits, or compare others with them.",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--tokens", required=True, metavar="LIST", help="1,403,407 or @FILE")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the logits, float32 [n_tokens, vocab_size]")
    parser.add_argument("--compare", metavar="FILE", help="compare the float32 logits of this file")
    parser.add_argument("--stock", action="store_true", help="compare stock LlamaForCausalLM in float32")
    parser.add_argument("--stock64", action="store_true", help="compare stock LlamaForCausalLM after .double()")
    args = parser.parse_args()

    config, tensors = checkpoint.read(args.checkpoint)
    tokens = read_tokens(args.tokens, config)
    reference = forward(config, tensors, tokens)
    if args.output:
        reference.astype("<f4").tofile(args.output)

    rows = [(args.compare, read_logits(args.compare, reference.shape))] if args.compare else []
    if args.stock or args.stock64:
        import stock

        rows += [("stock float32", stock.logits(config, tensors, tokens))] if args.stock else []
        rows += [("stock .double()", stock.logits(config, tensors, tokens, double=True))] if args.stock64 else []
    if rows:
        print(f"{'logits':<24} {'max |error|':>12} {'max |logit|':>12} {'ratio':>10}")
    for name, logits in rows:
        error, largest = compare(logits, reference)
        print(f"{name:<24} {error:12.3e} {largest:12.3e} {error / largest:10.2e}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"reference.py: {error}")
