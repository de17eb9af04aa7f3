"""What norma computes: the forward pass of a LLaMA, every step in float64.

Owns the maths, written to be read beside the paper, and the comparison of logits with it. It has no KV cache, no
sampling, no speed. Version 2 checkpoints are dequantized; activations are never quantized. How stock
LlamaForCausalLM is built for comparison is in stock.py.
"""

import argparse
import sys

import numpy as np

import checkpoint

EPS = 1e-5


def rmsnorm(x, gamma):
    """x [n, dim], gamma [dim]"""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPS) * gamma


def rope(x):
    """Rotates the pair (x[2i], x[2i+1]) of each head by position * theta_i; x [n, heads, head_size]."""
    n, _, head_size = x.shape
    theta = 10000.0 ** (-2 * np.arange(head_size // 2) / head_size)
    angle = np.arange(n)[:, None, None] * theta  # [n, 1, head_size / 2]
    even, odd = x[..., 0::2], x[..., 1::2]
    rotated = even * np.cos(angle) - odd * np.sin(angle), even * np.sin(angle) + odd * np.cos(angle)
    return np.stack(rotated, axis=-1).reshape(x.shape)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def attention(h, wq, wk, wv, wo, n_heads, n_kv_heads):
    """Causal grouped-query attention: query heads share a key and value head in runs; h [n, dim] -> [n, dim]."""
    n, dim = h.shape
    head_size = dim // n_heads
    q = rope((h @ wq.T).reshape(n, n_heads, head_size))
    k = rope((h @ wk.T).reshape(n, n_kv_heads, head_size))
    v = (h @ wv.T).reshape(n, n_kv_heads, head_size)
    k, v = (np.repeat(kv, n_heads // n_kv_heads, axis=1) for kv in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(head_size)  # [n_heads, n queries, n keys]
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf  # no looking forward
    return np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(n, dim) @ wo.T


def mlp(h, gate, down, up):
    """SwiGLU; h [n, dim] -> [n, dim]"""
    return (silu(h @ gate.T) * (h @ up.T)) @ down.T


def forward(config, tensors, tokens):
    """tokens [n] -> logits [n, vocab_size]"""

    def w(name):
        return tensors[name].astype(np.float64)

    x = tensors["token_embedding"][tokens].astype(np.float64)
    for i in range(config.n_layers):
        layer = f"layers.{i}."
        attn = [w(layer + name) for name in ("wq", "wk", "wv", "wo")]
        x += attention(rmsnorm(x, w(layer + "attn_norm")), *attn, config.n_heads, config.n_kv_heads)
        x += mlp(rmsnorm(x, w(layer + "mlp_norm")), *[w(layer + name) for name in ("gate", "down", "up")])
    return rmsnorm(x, w("final_norm")) @ w("token_embedding" if config.shared_classifier else "output").T


def compare(logits, reference):
    """The largest absolute error, the largest |logit|."""
    return np.abs(logits - reference).max(), np.abs(reference).max()


def read_tokens(text, config):
    """Token ids from a list such as 1,403,407, or from a file with such a line in it, given as @FILE."""
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
        description="Run a llama2.c checkpoint in float64; write its logits, or hold others against them.",
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
