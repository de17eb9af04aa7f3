"""Makes docs/figures.json, the tables of the book's figures that a page cannot compute.

    python scripts/book/figure_tables.py depth                           gradients by depth, in PyTorch
    python scripts/book/figure_tables.py massive gemma-3-270m.gguf       vectors of a published model, in numpy

Each replaces its own table. `depth` is statements 17, 20 and 39 of the norms chapter at every depth; `massive` is the input
and gamma of three norms of Gemma 3 270M. (The figure of learning rates reads docs/experiment.csv itself.)
"""

import json
import sys
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[1] / room) for room in ("golden", "measure"))

PATH = Path(__file__).resolve().parents[2] / "docs" / "figures.json"


def depth(draws=40):
    """|dL/dx| / |loss| after each of 24 sublayers, mean and standard error, by place, kind of branch and QK-norm."""
    import torch
    from textbook_draws import LENGTH, attention, network_inputs, norm
    from textbook_places import DIM

    torch.set_num_threads(1)

    def run(place, branch, qk, weights, x):
        before, inside, after = {"pre": (1, 0, 0), "post": (0, 0, 1), "sandwich": (1, 1, 0), "inside": (0, 1, 0)}[place]
        xs = [x]
        for l in range(12):
            w = [matrix[l] for matrix in weights]
            for second in False, True:
                h = norm(x) if before else x
                if branch == "constant":
                    h = norm(w[1 if second else 0][:LENGTH].detach())  # a vector that does not depend on x
                elif branch == "matrix":
                    h = h @ w[1 if second else 0].T
                elif branch == "MLP" or second:
                    h = (h @ w[4].T).relu() @ w[5].T
                else:
                    h = attention(h, w, qk)
                x = x + (norm(h) if inside else h)
                x = norm(x) if after else x
                xs.append(x)
        return xs, norm(x)

    series = []
    for branch in "constant", "matrix", "MLP", "attention":
        for place in "pre", "post", "inside", "sandwich":
            for qk in (False, True) if branch == "attention" else (False,):
                found = []
                for draw in range(draws):
                    weights, _, x, loss = network_inputs(draw)
                    xs, y = run(place, branch, qk, weights, x.requires_grad_())
                    gradients = torch.autograd.grad((loss * y).sum(), xs)
                    found.append([float(g.norm() / loss.norm()) for g in gradients])
                found = torch.tensor(found, dtype=torch.float64)
                errors = found.std(0) / draws**0.5
                points = [
                    [i, float(f"{m:.4g}"), float(f"{e:.2g}")] for i, (m, e) in enumerate(zip(found.mean(0), errors))
                ]
                group = f"{branch}, QK-norm" if qk else branch
                series.append({"group": group, "name": f"{place}, {group}", "points": points})
                print(series[-1]["name"], points[0], points[-1], flush=True)
    print(f"dim {DIM}, {LENGTH} tokens, 24 sublayers, {draws} draws")
    return {"draws": draws, "series": series}


def massive(path, text="Once upon a time there was a lighthouse keeper who counted the ships."):
    """x and gamma of three norms at the last token of a text."""
    import numpy as np
    from published import Model, tokenize

    model, found = Model(path, np.float32), {}
    tokens = tokenize(path, text)

    def see(site, layer, x, gamma):
        if (site, layer) in (("attn", 0), ("mlp", 3), ("mlp", 10)):
            found[f"{layer}.{site}"] = {"x": round_all(x[-1]), "gamma": round_all(gamma)}

    model.forward(tokens, see=see)
    return {"model": "Gemma 3 270M Q4_K_M", "text": text, "eps": model.eps, "sites": found}


def round_all(values):
    return [float(f"{v:.4g}") for v in values]


def main():
    name = sys.argv[1]
    tables = json.loads(PATH.read_text()) if PATH.exists() else {}
    tables[name] = {"depth": depth, "massive": massive}[name](*sys.argv[2:])
    PATH.write_text(json.dumps(tables, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
