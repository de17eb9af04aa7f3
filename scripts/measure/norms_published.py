"""The numbers of docs/norms_published.md: norms of published models, layer by layer, and parts of LayerNorm's formula.

Owns the measurements; published.py has the forward pass, in numpy.

    python scripts/measure/norms_published.py channels MODEL.gguf ...
    python scripts/measure/norms_published.py gamma MODEL.gguf ...
    python scripts/measure/norms_published.py massive MODEL.gguf ...     # of `./run -m logits --dump`
    python scripts/measure/norms_published.py parts gemma-3-270m.gguf
    python scripts/measure/norms_published.py sites gemma-3-270m.gguf
    python scripts/measure/norms_published.py int8 MODEL.gguf
    python scripts/measure/norms_published.py outliers MODEL.gguf ...
    python scripts/measure/norms_published.py golden MODEL.gguf ...    # JSON, for scripts/check/check_published.py
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from published import PRE_SITES, Model, layer_norm, mean_and_error, rms, rms_norm, swap, tokenize

TEXTS = "tests/golden/published_texts.jsonl"
N_MASSIVE = 5


def gamma_of(model, site, layer):
    return model.w({"attn": f"blk.{layer}.attn_norm", "mlp": f"blk.{layer}.ffn_norm", "final": "output_norm"}[site])


def mean(x):
    return x.mean(-1, keepdims=True, dtype=np.float64).astype(x.dtype)


def weighted_share(x, gamma):
    """|gamma mean| / |gamma x| of each token: the size of what LayerNorm takes from the output, relative to the output."""
    x, gamma = x.astype(np.float64), gamma.astype(np.float64)
    return np.abs(x.mean(-1)) * np.linalg.norm(gamma) / np.linalg.norm(gamma * x, axis=-1)


def channels(model, texts):
    found = {}

    def see(site, layer, x, gamma):
        if site in PRE_SITES:
            size = np.abs(x.astype(np.float64))
            rest = np.sqrt(np.square(np.sort(size)[:, :-N_MASSIVE]).mean(-1)) / rms(x)[:, 0]
            values = rms(x)[:, 0], np.median(size, -1), np.abs(mean(x))[:, 0], weighted_share(x, gamma), rest
            found.setdefault((site, layer), []).append((np.array(values, np.float64), size.argmax(-1), size[0].max()))

    for tokens in texts:
        model.forward(tokens, see=see, rows=np.array([0]))
    print(f"{model.path}, {len(texts)} texts: medians over tokens; means over texts, with errors")
    print("site       RMS  median |x|  channel  its gamma  median gamma  mean/RMS  mean/median        |gamma mean|/|gamma x|")
    for (site, layer), values in found.items():
        root, median, size, _, rest = np.concatenate([v for v, _, _ in values], 1)
        channel = np.bincount(np.concatenate([top for _, top, _ in values])).argmax()
        gamma = gamma_of(model, site, layer)
        relative = mean_and_error([np.median(v[2] / v[1]) for v, _, _ in values])
        shares = mean_and_error([np.median(v[3]) for v, _, _ in values])
        print(
            f"{layer:>2} {site:<5} {np.median(root):8.2f} {np.median(median):8.3f} {channel:8} {gamma[channel]:10.3f}"
            f" {np.median(np.abs(gamma)):12.2f} {np.mean(size / root):10.3f} {relative[0]:9.2f} +- {relative[1]:.2f}"
            f" {shares[0]:12.3f} +- {shares[1]:.3f}"
            f"   RMS without the five largest {np.median(rest):.3f}; position 0: {np.mean([v[2] for v in values]):.0f}"
        )


def ranks(x):
    return np.argsort(np.argsort(x)).astype(np.float64)


def gamma(model, texts):
    """What gamma has learned: its size, its spread over channels, and whether it is small where the channel is large."""
    squares, tokens_seen = {}, {}

    def see(site, layer, x, _):
        if site in PRE_SITES:  # without position 0, whose massive activation would hide the other tokens
            later = rms_norm(x[1:], 1, 0).astype(np.float64)
            squares[site, layer] = squares.get((site, layer), 0) + np.square(later).sum(0)
            tokens_seen[site, layer] = tokens_seen.get((site, layer), 0) + len(later)

    for tokens in texts:
        model.forward(tokens, see=see, rows=np.array([0]))
    print(f"{model.path}: |gamma| of each kind of norm, over layers: range of the medians over channels, the largest;")
    print("share of channels below a tenth of the median, negative ones; rank correlation with the RMS of the channel")
    for kind in PRE_SITES:
        found = []
        for (site, layer), sums in squares.items():
            if site == kind:
                g = gamma_of(model, site, layer).astype(np.float64)
                size, middle = np.abs(g), np.median(np.abs(g))
                channel = np.sqrt(sums / tokens_seen[site, layer])
                found.append((
                    middle, size.max(), (size < 0.1 * middle).mean(), (g < 0).mean(),
                    np.corrcoef(ranks(size), ranks(channel))[0, 1], size[channel.argmax()] / middle,
                ))  # fmt: skip
        median, largest, small, negative, correlation, loudest = np.array(found).T
        print(
            f"{kind:<6} medians {median.min():.3f} to {median.max():.3f} (first layer {median[0]:.3f}, last {median[-1]:.3f})"
            f", largest {largest.max():.2f}, small {100 * small.mean():.1f} %, negative {100 * negative.mean():.1f} %"
            f", correlation {correlation.mean():.2f} ({correlation.min():.2f} to {correlation.max():.2f})"
            f", of the channel with the largest RMS / median: {np.median(loudest):.3f}"
            f" ({loudest.min():.3f} to {loudest.max():.3f})"
        )


def massive(model, _):
    """The largest element of position 0, two thirds up the layers, for texts that begin differently: `--dump`."""
    found = []
    with open(TEXTS, encoding="utf-8") as file:
        prompts = [json.loads(line)["prompt"][:200] for line in file]
    for prompt in prompts:
        with tempfile.TemporaryDirectory() as folder:
            text, dump = Path(folder, "text"), Path(folder, "dump")
            text.write_text(prompt)
            command = "./run", model.path, "-m", "logits", "-f", text, "-j", "1", "--dump", dump, "-o", Path(folder, "logits")
            subprocess.run(command, check=True, capture_output=True)
            layer = 2 * len(list(dump.glob("layers.*.mlp_norm.in.npy"))) // 3
            size = np.abs(np.load(dump / f"layers.{layer}.mlp_norm.in.npy").astype(np.float64))
        later = size[1:].max() / np.median(size[1:])
        found.append((size[0].max(), size[0].max() / np.median(size[0]), later, size[0].argmax()))
    largest, ratio, later, channel = np.array(found).T
    print(f"{model.path}, input of layer {layer}'s MLP norm, {len(prompts)} texts: channels {sorted(set(channel.astype(int)))}")
    print(f"  position 0: {largest.mean():.0f}, standard deviation {largest.std():.0f}, {largest.min():.0f} to {largest.max():.0f}")
    print(f"  times the median there {ratio.min():.0f} to {ratio.max():.0f}, at later positions {later.min():.0f} to {later.max():.0f}")


def massive_channels(model, texts):
    """The channels with the largest share of the mean square, over all norms; |mean| / RMS with its sign, per norm."""
    shares, means = np.zeros(model.dim), {}

    def see(site, layer, x, gamma):
        if site in PRE_SITES:
            normal = rms_norm(x, 1, 0).astype(np.float64)
            np.add(shares, np.square(normal).mean(0), out=shares)
            means.setdefault((site, layer), []).append(normal.mean(-1))

    plain = np.array([model.nll(tokens, see=see, rows=rows_of(tokens)).mean() for tokens in texts])
    return np.argsort(-shares)[:N_MASSIVE], {site: np.concatenate(v).mean() for site, v in means.items()}, plain


def rows_of(tokens):
    return np.arange(8, len(tokens) - 1, 4)


def parts(model, texts):
    massive, means, plain = massive_channels(model, texts)
    chosen = np.zeros(model.dim, bool)
    chosen[massive] = True

    def less(part):
        """RMSNorm of x less what `part` gives."""
        return lambda x, gamma, eps: (x - part(x)) / rms(x, eps) * gamma

    def only(first):
        """LayerNorm at position 0, or at all others."""

        def norm(x, gamma, eps):
            y, z = rms_norm(x, gamma, eps), layer_norm(x, gamma, eps)
            return np.concatenate((z[:1], y[1:]) if first else (y[:1], z[1:]))

        return norm

    def restored(site, layer):
        """LayerNorm, plus gamma times the average of mean / RMS."""
        return lambda x, gamma, eps: layer_norm(x, gamma, eps) + gamma * np.float32(means[site, layer])

    swaps = {
        "LayerNorm": swap(layer_norm),
        "deviation for RMS": swap(lambda x, gamma, eps: x / rms(x - mean(x), eps) * gamma),
        "mean, divided by RMS": swap(less(mean)),
        "mean, from the five": swap(less(lambda x: mean(x) * chosen)),
        "mean, from the others": swap(less(lambda x: mean(x) * ~chosen)),
        "mean of the five": swap(less(lambda x: mean(x * chosen))),
        "mean of the others": swap(less(lambda x: mean(x * ~chosen))),
        "position 0": swap(only(True)),
        "other positions": swap(only(False)),
        "fixed vector restored": lambda site, layer: restored(site, layer) if site in PRE_SITES else rms_norm,
        "3.mlp": swap(layer_norm, ("mlp",), (3,)),
        "3.mlp, position 0": swap(only(True), ("mlp",), (3,)),
        "3.mlp, others": swap(only(False), ("mlp",), (3,)),
    }
    print(f"{model.path}, {len(texts)} texts, massive channels {massive}: {mean_and_error(plain)} nats; increase and error")
    for name, kind in swaps.items():
        increase = [model.nll(t, kind, rows_of(t)).mean() for t in texts] - plain
        print("  {:<22} {:7.3f} +- {:.3f}".format(name, *mean_and_error(increase)), flush=True)


def relative_change(stream, changed):
    """The median over tokens of median |change| / median |x|."""
    return np.median(np.median(np.abs(changed - stream), -1) / np.median(np.abs(stream), -1))


def sites(model, texts):
    """The price of LayerNorm at one norm, beside four figures, and their rank correlations with the price."""
    figures, streams, plain = {}, [], []

    def see(site, layer, x, gamma):
        if site in PRE_SITES:
            size, part = np.abs(x), np.abs(mean(x))[:, 0]
            values = part / rms(x)[:, 0], part / np.median(size, -1), weighted_share(x, gamma)
            figures.setdefault((site, layer), []).append([np.mean(values[0]), *np.median(values[1:], -1)])

    for tokens in texts:
        streams.append([])
        plain.append(model.nll(tokens, rows=rows_of(tokens), see=see, streams=streams[-1]).mean())
    table = []
    for site, layer in figures:
        losses, changes = [], []
        for tokens, stream in zip(texts, streams, strict=True):
            changed = []
            start, kind = (layer, stream[layer]), swap(layer_norm, (site,), (layer,))
            losses.append(model.nll(tokens, kind, rows_of(tokens), start=start, streams=changed).mean())
            if site != "final":
                changes.append(relative_change(stream[layer + 1], changed[1]))
        price = mean_and_error(np.array(losses) - plain)
        row = [*np.mean(figures[site, layer], 0), np.median(changes) if changes else np.nan, price[0]]
        table.append(row)
        print("{:>2} {:<5} {:.3f} {:7.2f} {:7.2f} {:7.2f}   increase {:.3f} +- {:.3f}".format(layer, site, *row[:4], *price))
    table = np.array(table)
    for i, name in enumerate(("mean / RMS", "mean / median", "|gamma mean| / |gamma x|", "change of the stream")):
        pairs = table[~np.isnan(table[:, i])][:, [i, 4]]
        print(f"rank correlation with {name}: {np.corrcoef(pairs.argsort(0).argsort(0).T)[0, 1]:.2f}")


def figures_of(model, tokens, kind=swap(rms_norm)):
    """Nats per token, and at each norm |mean| / RMS, |mean| / median |x| and |gamma mean| / |gamma x| as in `sites`."""
    found = {}

    def see(site, layer, x, gamma):
        if site in PRE_SITES:
            size, part = np.abs(x), np.abs(mean(x))[:, 0]
            values = part / rms(x)[:, 0], part / np.median(size, -1), weighted_share(x, gamma)
            name = site if site == "final" else f"{layer}.{site}"
            found[name] = [round(float(v), 4) for v in (np.mean(values[0]), *np.median(values[1:], -1))]

    return round(float(model.nll(tokens, kind, rows_of(tokens), see=see).mean()), 4), found


def golden(model, texts):
    """A line of JSON: of each text its tokens, nats as trained and with LayerNorm (Gemma: at 3.mlp, too), figures."""
    swaps = [swap(layer_norm)] + [swap(layer_norm, ("mlp",), (3,))] * (model.arch == "gemma3")
    rows = []
    for tokens in texts:
        plain, figures = figures_of(model, tokens)
        rows.append({"ids": tokens, "nats": [plain, *(figures_of(model, tokens, kind)[0] for kind in swaps)]})
        rows[-1]["figures"] = figures
    print(json.dumps({"file": os.path.basename(model.path), "texts": rows}, separators=(",", ":")), flush=True)


def to_int8(x, spared=0):
    """Groups of 32 as int8 with a scale, as in products with quantized weights; the `spared` largest groups stay exact."""
    groups = x.reshape(len(x), -1, 32)
    size = np.abs(groups).max(-1, keepdims=True)
    step = np.where(size > 0, size, 1) / 127
    y = np.rint(groups / step) * step
    if spared:
        limit = np.sort(size, 1)[:, -spared][:, None]
        y = np.where(size >= limit, groups, y)
    return y.reshape(x.shape).astype(x.dtype)


def int8(model, _):
    """What rounding activations to int8 changes after prompts of 1 and 5 random tokens: the largest difference of a
    log-probability among the 20 likeliest tokens, median and quartiles over prompts."""
    draw = np.random.default_rng(1)
    n_prompts, vocabulary = 40, len(model.w("token_embd"))
    parts = {"qkv": ("attn_q", "attn_k", "attn_v"), "attn_output": ("attn_output",), "gate, up": ("ffn_gate", "ffn_up")}
    parts |= {"down": ("ffn_down",), "output": ("output",)}
    everything = sum(parts.values(), ())

    def log_p(tokens):
        z = model.forward(tokens, rows=np.array([len(tokens) - 1]))[0].astype(np.float64)
        return z - np.log(np.exp(z - z.max()).sum()) - z.max()

    def rounding(which, spared=0):
        return lambda x, l, part: to_int8(x, spared) if part in which else x

    forms = {"all": rounding(everything)}
    forms |= {name: rounding(which) for name, which in parts.items()}
    forms["all, largest group exact"] = rounding(everything, spared=1)
    print(f"{model.path}, {n_prompts} prompts of random tokens")
    exact_forward = model.before
    for n in (1, 5):
        prompts = [draw.integers(0, vocabulary, n).tolist() for _ in range(n_prompts)]
        model.before = exact_forward
        exact = [log_p(prompt) for prompt in prompts]
        likely = [np.argsort(-p)[:20] for p in exact]
        for name, form in forms.items():
            model.before = form
            found = [np.abs(log_p(t) - p)[i].max() for t, p, i in zip(prompts, exact, likely, strict=True)]
            low, middle, high = np.quantile(found, (0.25, 0.5, 0.75))
            print(f"  {n} tokens, {name:<26} {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)


def outliers(model, texts):
    """Three predictions about the five channels with the largest share of the mean square: they set the scale, they
    hardly contribute to the output, and gamma decides what int8 activations lose."""
    massive, _, plain = massive_channels(model, texts)
    chosen = np.zeros(model.dim, bool)
    chosen[massive] = True
    shares = {"input": [], "output": []}

    def see(site, layer, x, gamma):
        if site in PRE_SITES:
            for name, y in ("input", x.astype(np.float64)), ("output", (gamma * x).astype(np.float64)):
                shares[name].append(np.square(y[:, chosen]).sum(-1) / np.square(y).sum(-1))

    for tokens in texts:
        model.forward(tokens, see=see, rows=np.array([0]))
    print(f"{model.path}, {len(texts)} texts, channels {massive}: {mean_and_error(plain)} nats")
    for name, found in shares.items():
        print(f"  share of the mean square of the {name}: median {np.median(np.concatenate(found)):.4f}")

    last = {}

    def keep_normalized(x, gamma, eps):
        last["x"] = x / rms(x, eps)
        return last["x"] * gamma

    def before_gamma(x, l, part):
        """Inputs of the products after a norm, rounded before gamma instead of after it."""
        site = {"attn_q": "attn", "attn_k": "attn", "attn_v": "attn", "ffn_gate": "mlp", "ffn_up": "mlp"}.get(part)
        return to_int8(last["x"]) * gamma_of(model, site, l) if site else x

    after_norms = "attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"
    forms = {
        "scale without the five": (swap(lambda x, gamma, eps: x / rms(x * ~chosen, eps) * gamma), None),
        "output without the five": (swap(lambda x, gamma, eps: rms_norm(x, gamma, eps) * ~chosen), None),
        "int8 after gamma": (swap(rms_norm), lambda x, l, part: to_int8(x) if part in after_norms else x),
        "int8 before gamma": (swap(keep_normalized), before_gamma),
    }
    exact = model.before
    for name, (kind, before) in forms.items():
        model.before = before or exact
        nats = [model.nll(t, kind, rows_of(t)) for t in texts]
        model.before = exact
        increase = [n.mean() - p for n, p in zip(nats, plain, strict=True)]
        change = [np.abs(n - model.nll(t, rows=rows_of(t))).mean() for n, t in zip(nats, texts, strict=True)]
        print(
            "  {:<24} {:7.3f} +- {:.3f}   |change| of a token {:.3f} +- {:.3f}".format(
                name, *mean_and_error(increase), *mean_and_error(change)
            ),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("channels", "gamma", "massive", "parts", "sites", "int8", "outliers", "golden"))
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--texts", type=int, default=16, help="number of texts [%(default)s]")
    parser.add_argument("--tokens", type=int, default=128, help="of each text [%(default)s]")
    args = parser.parse_args()
    with open(TEXTS, encoding="utf-8") as file:
        prompts = [json.loads(line)["prompt"] for line in file]
    prompts = prompts[:: -(-len(prompts) // args.texts)]
    for path in args.models:
        model = Model(path, np.float32)
        globals()[args.what](model, [tokenize(path, text)[: args.tokens] for text in prompts])


if __name__ == "__main__":
    main()
