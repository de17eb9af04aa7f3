"""The forward pass of published models in numpy, with another norm at any site: the numbers of docs/norms.md about them.

Owns a second implementation, independent of norma's: it reads the weights from GGUF files with the gguf package (LLaMA,
Qwen 2, Gemma 3) or from llama2.c checkpoints, and dequantizes them. Activations are not quantized, unless `before` is replaced. `./run` is used
only for tokens.

    python scripts/measure/published.py MODEL.gguf ...
    python scripts/measure/published.py --ids tests/golden/stories260K_sampled.txt --swaps stories260K.bin
"""

import argparse
import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

sys.path.append(str(Path(__file__).resolve().parents[1]))
import checkpoint

PRE_SITES = "attn", "mlp", "final"


def rms(x, eps=0.0):
    return np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True) + eps).astype(x.dtype)


def rms_norm(x, gamma, eps):
    return x / rms(x, eps) * gamma


def layer_norm(x, gamma, eps):
    """LayerNorm with a gamma trained for RMSNorm, and beta 0, as in `--norm layer`."""
    return rms_norm(x - x.mean(-1, keepdims=True, dtype=np.float64).astype(x.dtype), gamma, eps)


def no_norm(x, gamma, eps):
    del gamma, eps
    return x


def gamma_only(x, gamma, eps):
    """The division left out, gamma kept: as the final norm it changes the size of the logits, not their order."""
    del eps
    return gamma * x


def swap(norm, sites=PRE_SITES, layers=None):
    """A function of site and layer that gives the norm to use there. layers: None for all."""
    return lambda site, layer: norm if site in sites and (layers is None or layer in layers) else rms_norm


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Model:
    """w(name) is a matrix [rows, cols] or a vector, in the type of the computation."""

    def __init__(self, path, dtype=np.float64):
        self.path, self.dtype, self.tied = path, dtype, True
        (self.read_checkpoint if path.endswith(".bin") else self.read_gguf)()

    def read_checkpoint(self):
        c, tensors = checkpoint.read(self.path)
        self.arch, self.layers, self.dim, self.heads, self.kv_heads = "llama", c.n_layers, c.dim, c.n_heads, c.n_kv_heads
        self.head, self.eps, self.base, self.bos = c.dim // c.n_heads, 1e-5, 10000.0, 1
        names = {"attn_q": "wq", "attn_k": "wk", "attn_v": "wv", "attn_output": "wo", "ffn_norm": "mlp_norm"}
        names |= {"ffn_gate": "gate", "ffn_up": "up", "ffn_down": "down"}

        def find(name):
            if name == "token_embd":
                return tensors["token_embedding"]
            if name == "output_norm":
                return tensors["final_norm"]
            _, layer, part = name.split(".")
            return tensors.get(f"layers.{layer}.{names.get(part, part)}")

        self.find = find

    def read_gguf(self):
        reader = GGUFReader(self.path)
        tensors = {t.name: t for t in reader.tensors}

        def key(name, default=None):
            field = reader.get_field(name.replace("ARCH", self.arch))
            return default if field is None else field.contents()

        self.arch = reader.get_field("general.architecture").contents()
        self.layers, self.dim = key("ARCH.block_count"), key("ARCH.embedding_length")
        self.heads = key("ARCH.attention.head_count")
        self.kv_heads = key("ARCH.attention.head_count_kv", self.heads)
        self.head = key("ARCH.attention.key_length", self.dim // self.heads)
        self.eps = key("ARCH.attention.layer_norm_rms_epsilon")
        self.base = key("ARCH.rope.freq_base", 10000.0)
        self.bos = key("tokenizer.ggml.bos_token_id") if key("tokenizer.ggml.add_bos_token", False) else None
        self.tied = "output.weight" not in tensors

        def find(name):
            t = tensors.get(name if name.endswith(".bias") else name + ".weight")
            return None if t is None else dequantize(t.data, t.tensor_type)

        self.find = find

    @functools.lru_cache(maxsize=None)  # noqa: B019, one model at a time
    def w(self, name):
        tensor = self.find(name)
        return None if tensor is None else np.ascontiguousarray(tensor, self.dtype)

    def before(self, x, layer, part):
        """The input of a product; to be replaced by what rounds it."""
        del layer, part
        return x

    def project(self, h, l, part):
        h = self.before(h, l, part)
        bias = self.w(f"blk.{l}.{part}.bias") if self.arch == "qwen2" and part in ("attn_q", "attn_k", "attn_v") else None
        y = h @ self.w(f"blk.{l}.{part}").T
        return y if bias is None else y + bias

    def rope(self, x, base):
        """x [n, heads, head]; LLaMA's GGUF files have pairs (2i, 2i + 1), the others halves."""
        i = np.arange(self.head // 2)
        angle = np.arange(len(x))[:, None, None] * base ** (-2 * i / self.head)
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        a, b = (2 * i, 2 * i + 1) if self.arch == "llama" else (i, i + self.head // 2)
        y = np.empty_like(x)
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., a] * sin + x[..., b] * cos
        return y

    def attention(self, h, l, norm):
        n = len(h)
        heads = {"attn_q": self.heads, "attn_k": self.kv_heads, "attn_v": self.kv_heads}
        q, k, v = (self.project(h, l, part).reshape(n, count, self.head) for part, count in heads.items())
        if self.arch == "gemma3":
            q, k = norm("q", l, q, f"blk.{l}.attn_q_norm"), norm("k", l, k, f"blk.{l}.attn_k_norm")
        local = self.arch == "gemma3" and (l + 1) % 6  # every sixth layer is global
        q, k = (self.rope(x, 10000.0 if local else self.base) for x in (q, k))
        k, v = (np.repeat(x, self.heads // self.kv_heads, axis=1) for x in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k, optimize=True) / np.sqrt(self.head).astype(self.dtype)
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        mixed = np.einsum("hij,jhd->ihd", softmax(scores), v, optimize=True).reshape(n, -1)
        return self.project(mixed, l, "attn_output")

    def mlp(self, h, l):
        gate, up = self.project(h, l, "ffn_gate"), self.project(h, l, "ffn_up")
        if self.arch == "gemma3":
            act = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi).astype(gate.dtype) * (gate + 0.044715 * gate**3)))
        else:
            act = gate / (1 + np.exp(-gate))
        return self.project(act * up, l, "ffn_down")

    def forward(self, tokens, kind=swap(rms_norm), see=None, start=None, rows=None, streams=None):
        """Logits [n, vocabulary], or of these rows. kind(site, layer): the norm. see(site, layer, x, gamma): called at each
        norm. start: (layer, x) to begin with the stream before that layer. streams: a list that receives the streams
        before each layer and the last norm."""

        def norm(site, layer, x, name):
            gamma = self.w(name)
            if see:
                see(site, layer, x, gamma)
            return kind(site, layer)(x, gamma, self.eps)

        first, x = start or (0, self.w("token_embd")[tokens] * (self.dim**0.5 if self.arch == "gemma3" else 1))
        x, streams, sandwich = x.astype(self.dtype), [] if streams is None else streams, self.arch == "gemma3"
        for l in range(first, self.layers):
            streams.append(x)
            y = self.attention(norm("attn", l, x, f"blk.{l}.attn_norm"), l, norm)
            x = x + (norm("attn_post", l, y, f"blk.{l}.post_attention_norm") if sandwich else y)
            y = self.mlp(norm("mlp", l, x, f"blk.{l}.ffn_norm"), l)
            x = x + (norm("mlp_post", l, y, f"blk.{l}.post_ffw_norm") if sandwich else y)
        streams.append(x)
        x = norm("final", self.layers, x, "output_norm")
        x = self.before(x if rows is None else x[rows], self.layers, "output")
        return x @ self.w("token_embd" if self.tied else "output").T

    def nll(self, tokens, kind=swap(rms_norm), rows=None, **options):
        """Nats of each token but the first, as in `-m perplexity`, or of those after these rows."""
        rows = np.arange(len(tokens) - 1) if rows is None else rows
        logits = self.forward(tokens, kind, rows=rows, **options)
        top = logits.max(-1)
        return np.log(np.exp(logits - top[:, None]).sum(-1)) + top - logits[np.arange(len(rows)), np.take(tokens, rows + 1)]


def tokenize(path, text):
    out = subprocess.run(["./run", path, "-m", "tokenize", "-i", text], check=True, capture_output=True, text=True)
    return [int(t) for t in out.stdout.replace(",", " ").split()]


def mean_and_error(values):
    """The mean, and its standard error."""
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))


def mean_over_rms(x):
    return np.abs(x.mean(-1, dtype=np.float64)) / rms(x)[..., 0]


def table(model, texts):
    """The nats per token of each text as trained and with LayerNorm, and |mean| / RMS at each norm."""
    ratios = {}

    def see(site, layer, x, gamma):
        del gamma
        ratios.setdefault((site, layer), []).append(mean_over_rms(x).mean())

    rows = [(model.nll(text, see=see).mean(), model.nll(text, swap(layer_norm)).mean()) for text in texts]
    return np.array(rows), {site: np.mean(values) for site, values in ratios.items()}


def swaps(model, texts):
    """Statement 19: the price of other norms; and of LayerNorm at one site, with its correlation with |mean| / RMS."""
    plain = np.array([model.nll(text).mean() for text in texts])

    def price(kind):
        return np.array([model.nll(text, kind).mean() for text in texts]) - plain

    kinds = {"0.attn=layer": swap(layer_norm, ("attn",), (0,))}
    kinds |= {f"{site}=layer": swap(layer_norm, (site,)) for site in PRE_SITES}
    kinds |= {"final=none": swap(no_norm, ("final",)), "final=gamma": swap(gamma_only, ("final",))}
    for name, kind in (kinds | {"layer": swap(layer_norm), "none": swap(no_norm)}).items():
        print("  {:<12} {:+.4f} +- {:.4f} nats".format(name, *mean_and_error(price(kind))))
    ratios = table(model, texts)[1]
    sites = list(ratios)
    prices = np.array([price(swap(layer_norm, (site,), (layer,))) for site, layer in sites])
    means = [ratios[site] for site in sites]
    draws = np.random.default_rng(0).integers(0, len(texts), (2000, len(texts)))
    found = [np.corrcoef(means, prices[:, draw].mean(1))[0, 1] for draw in draws]
    print(f"  correlation {np.corrcoef(means, prices.mean(1))[0, 1]:+.3f} +- {np.std(found):.3f} (bootstrap)")


def other_eps(model, texts, eps):
    """Statement 28: the increase with another eps at every norm."""
    trained = np.array([model.nll(text).mean() for text in texts])
    own, model.eps = model.eps, eps
    changed = np.array([model.nll(text).mean() for text in texts])
    model.eps = own
    print("  eps {:g} for {:g} {:+.6f} +- {:.6f} nats".format(eps, own, *mean_and_error(changed - trained)))


def bfloat16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def scale_then_round(x, gamma, eps):
    return bfloat16(rms_norm(bfloat16(x).astype(np.float64), gamma, eps))


def round_then_scale(x, gamma, eps):
    return bfloat16(scale_then_round(x, 1.0, eps) * bfloat16(gamma))


def without_float(x, gamma, eps):
    """Every step rounded; only the mean adds with more digits, as in PyTorch."""
    x = bfloat16(x)
    mean = bfloat16(bfloat16(x * x).mean(-1, keepdims=True, dtype=np.float64))
    scale = bfloat16(1 / np.sqrt(bfloat16(mean + np.float32(eps)), dtype=np.float64))
    return bfloat16(bfloat16(x * scale) * bfloat16(gamma))


def rounding(model, texts):
    """Statement 31: every norm with input and output in bfloat16; the relative error of its output (mean over norms and
    texts), its elements that differ from scale_then_round, in %, and the change of the loss."""
    forms, found = (scale_then_round, round_then_scale, without_float), {}

    def see(site, layer, x, gamma):
        exact = rms_norm(bfloat16(x).astype(np.float64), gamma, model.eps)
        for form in forms:
            y = form(x, gamma, model.eps)
            error = np.sqrt(np.square(y - exact).sum(-1) / np.square(exact).sum(-1)).mean()
            found.setdefault(form, []).append((100 * error, 100 * (y != forms[0](x, gamma, model.eps)).mean()))

    losses = {rms_norm: np.array([model.nll(text, see=see).mean() for text in texts])}
    print(f"{model.path}: error and differing elements in %, change in nats, and that against scale_then_round")
    for form in forms:
        losses[form] = np.array([model.nll(text, lambda site, layer, form=form: form).mean() for text in texts])
        changes = [mean_and_error(losses[form] - losses[other]) for other in (rms_norm, forms[0])]
        values = *np.mean(found[form], 0), *changes[0], *changes[1]
        print("  {:<17} {:.3f} {:.1f}  {:+.5f} +- {:.5f}  {:+.5f} +- {:.5f}".format(form.__name__, *values), flush=True)


def show(model, texts):
    rows, ratios = table(model, texts)
    found = [ratio for (site, _), ratio in ratios.items() if site in PRE_SITES]
    print(f"{model.path}: {len(rows)} texts, {sum(map(len, texts))} tokens")
    for name, values in ("as trained", rows[:, 0]), ("LayerNorm", rows[:, 1]), ("increase", rows[:, 1] - rows[:, 0]):
        print("  {:<12} {:.3f} +- {:.3f} nats".format(name, *mean_and_error(values)))
    print(f"  |mean| / RMS {min(found):.4f} to {max(found):.4f}, {len(found)} norms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--texts", default="tests/golden/published_texts.jsonl", help="[%(default)s]")
    parser.add_argument("--ids", help="lines of token ids instead of texts, such as tests/golden/stories260K_sampled.txt")
    parser.add_argument("--float32", action="store_true", help="half the time; statistics of norms remain float64")
    parser.add_argument("--swaps", action="store_true", help="also swap single norms")
    parser.add_argument("--eps", type=float, help="only the increase with this eps at every norm")
    parser.add_argument("--bfloat16", action="store_true", help="only what rounding the norms to bfloat16 does")
    args = parser.parse_args()
    with open(args.ids or args.texts, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for path in args.models:
        model = Model(path, np.float32 if args.float32 else np.float64)
        if args.ids:
            texts = [[int(token) for token in line.split(",")] for line in lines]
        else:
            texts = [tokenize(path, json.loads(line)["prompt"]) for line in lines]
        if args.eps is not None:
            other_eps(model, texts, args.eps)
            continue
        if args.bfloat16:
            rounding(model, texts)
            continue
        show(model, texts)
        if args.swaps:
            swaps(model, texts)


if __name__ == "__main__":
    main()
