"""Numbers of docs/norms.md that are means over many random draws, with standard errors, from PyTorch in float64.

Owns the experiments with attention and with training; textbook.py and textbook_places.py print the other numbers. Inputs
are the hash of random_model.py, except where a distribution is named.
"""

import math
import sys

import torch
from textbook import random, row
from textbook_places import DIM, DRAWS, SUBLAYERS, branch, place_inputs
from torch.nn.functional import layer_norm, rms_norm, scaled_dot_product_attention

HEADS, HIDDEN, LENGTH, LAYERS = 4, 256, 32, 12
SHAPES = [(DIM, DIM)] * 4 + [(HIDDEN, DIM), (DIM, HIDDEN)]  # of queries, keys, values, output, up, down


def mean_and_error(values):
    values = torch.as_tensor(values, dtype=torch.float64)
    return [values.mean(), values.std() / len(values) ** 0.5]


def norm(x):
    return rms_norm(x, x.shape[-1:], eps=0.0)


def centered_norm(x):
    return layer_norm(x, x.shape[-1:], eps=0.0)


def network_inputs(draw, layers=LAYERS):
    """Weights and their changes, each six tensors [layers, rows, cols]; a text [LENGTH, DIM] and a loss."""
    seed = 20000 + 16 * draw

    def matrices(seed):
        sizes = [((24 if i == 4 else 12) / cols) ** 0.5 for i, (_, cols) in enumerate(SHAPES)]
        return [size * random(seed + i, layers, *SHAPES[i]).double() for i, size in enumerate(sizes)]

    x, loss = random(seed + 12, LENGTH, DIM).double(), random(seed + 13, LENGTH, DIM).double()
    return matrices(seed), matrices(seed + 6), norm(x), loss


def attention(x, w, qk):
    q, k, v = ((x @ w[i].T).unflatten(-1, (HEADS, -1)).transpose(0, 1)[None] for i in range(3))
    q, k = (norm(q), norm(k)) if qk else (q, k)
    return scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1).flatten(1) @ w[3].T


def run_network(place, weights, x, norm=norm):
    """Returns the stream at each depth and the last norm's output. norm: of the stream and of branches."""
    before, inside, after, qk = {
        "pre": (1, 0, 0, 0),
        "post": (0, 0, 1, 0),
        "sandwich": (1, 1, 0, 0),
        "inside": (0, 1, 0, 0),
        "inside, QK-norm": (0, 1, 0, 1),
    }[place]
    xs = [x]
    for w in zip(*weights, strict=True):
        for mlp in False, True:
            h = norm(x) if before else x
            h = (h @ w[4].T).relu() @ w[5].T if mlp else attention(h, w, qk)
            x = x + (norm(h) if inside else h)
            x = norm(x) if after else x
            xs.append(x)
    return xs, norm(x)


def places_with_attention(layers=LAYERS, draws=40):
    print(f"\n# {layers} layers with attention and a ReLU MLP, {draws} draws: mean and standard error of |dL/dx| / |loss| at")
    print("# the beginning, the middle, three quarters, the end; of the change, in %, if the weights change by 1 %; of")
    print("# |dL/dW| / |loss| in the first, the middle and the last layer")
    for place in "pre", "post", "sandwich", "inside", "inside, QK-norm":
        found = []
        for draw in range(draws):
            weights, moves, x, loss = network_inputs(draw, layers)
            weights = [w.requires_grad_() for w in weights]
            xs, y = run_network(place, weights, x.requires_grad_())
            gradients = torch.autograd.grad((loss * y).sum(), xs + weights)
            sizes = [gradients[i].norm() for i in (0, layers, 3 * layers // 2, 2 * layers)]
            slopes = [sum(g[i].pow(2).sum() for g in gradients[len(xs) :]).sqrt() for i in (0, layers // 2, -1)]
            with torch.no_grad():
                moved = run_network(place, [w + 0.01 * m for w, m in zip(weights, moves, strict=True)], x)[1]
            change = 100 * (moved - y).norm() / y.norm()
            found.append([*(s / loss.norm() for s in sizes), change.detach(), *(s / loss.norm() for s in slopes)])
        found = torch.tensor(found)
        row(f"{place}: x, change", torch.tensor([mean_and_error(v) for v in found.T[:5]]))
        row(f"{place}: W", torch.tensor([mean_and_error(v) for v in found.T[5:]]))


def kinds_with_attention(layers=LAYERS, draws=40):
    print(f"\n# {layers} layers, {draws} draws: |dL/dx| with LayerNorm, divided by that with RMSNorm in the same draw, at the")
    print("# beginning, the middle, three quarters, the end; mean and standard error")
    for place in "pre", "post":
        found = []
        for draw in range(draws):
            weights, _, x, loss = network_inputs(draw, layers)
            sizes = []
            for kind in norm, centered_norm:
                xs, y = run_network(place, weights, x.clone().requires_grad_(), kind)
                gradients = torch.autograd.grad((loss * y).sum(), xs)
                sizes.append([gradients[i].norm() for i in (0, layers, 3 * layers // 2, 2 * layers)])
            found.append(torch.tensor(sizes[1]) / torch.tensor(sizes[0]))
        row(place, torch.tensor([mean_and_error(v) for v in torch.stack(found).T]))


def gradients_of_parameters():
    print("\n# the 12 matrices of statement 20: |dL/dW| / |loss| of the first and of the last, mean and standard error")
    for place in "pre", "post", "inside", "sandwich":
        found = []
        for draw in range(DRAWS):
            weights, _, loss, x = place_inputs(draw)
            weights = weights.requires_grad_()
            for w in weights:
                x = branch(place, w, x)
            (g,) = torch.autograd.grad((loss * norm(x)).sum(), weights)
            found.append([g[i].norm() / loss.norm() for i in (0, SUBLAYERS - 1)])
        row(place, torch.tensor([mean_and_error(v) for v in torch.tensor(found).T]))


def training_steps(draws=20, steps=2000):
    print(f"\n# y = norm(W x), dim 8, a loss with noise, {steps} steps, {draws} draws: steps in which |W| shrinks, in %, and its")
    print("# growth in all; mean and standard error")

    def inputs(seed, *shape):
        return torch.stack([random(seed + draw, *shape).double() for draw in range(draws)])

    start, target = inputs(30000, 8, 8), inputs(30100, 8, 8)
    xs, noise = inputs(30200, steps, 8, 1), inputs(30300, steps, 8, 1)

    def product(w, x):
        y = (w @ x)[..., 0]
        return y / y.pow(2).mean(-1, keepdim=True).sqrt()

    for name, make in (
        ("gradient descent, rate 0.1", lambda w: torch.optim.SGD([w], lr=0.1)),
        ("Adam, rate 0.01", lambda w: torch.optim.Adam([w], lr=0.01)),
        ("Adam, rate 0.001", lambda w: torch.optim.Adam([w], lr=0.001)),
    ):
        w = start.clone().requires_grad_()
        optimizer, sizes = make(w), [start.flatten(1).norm(dim=1)]
        for step in range(steps):
            x = xs[:, step]
            wanted = product(target, x) + noise[:, step, :, 0]
            loss = (product(w, x) - wanted).pow(2).mean(-1).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sizes.append(w.detach().flatten(1).norm(dim=1))
        sizes = torch.stack(sizes)
        shrinks = 100 * (sizes[1:] < sizes[:-1]).double().mean(0)
        row(name, torch.tensor([*mean_and_error(shrinks), *mean_and_error(sizes[-1] / sizes[0])]))


def normal(seed, n):
    """The normal numbers of tests/textbook.h."""
    u, v = random(seed, n, 2).double().T
    return (-2 * (u + 0.5 + 2**-25).log()).sqrt() * (2 * math.pi * v).cos()


def feature_shift(draws=200):
    print(f"\n# 256 tokens of dim 64, 2 added to feature 0: its mean over the tokens, {draws} draws; mean and standard error")
    for name, center in ("RMSNorm", 0), ("LayerNorm", 1):
        found = []
        for draw in range(draws):
            x = 4 * random(40000 + draw, 256, 64).double()
            x[:, 0] += 2
            x = x - center * x.mean(-1, keepdim=True)
            found.append((x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt())[:, 0].mean())
        row(name, torch.tensor(mean_and_error(found)))


def ratio_of_eps(draws=4000):
    print(f"\n# mean of norm(10 x) / norm(x), less 1, eps 1e-6, 10 tokens of dim 8, {draws} draws; mean and standard error")
    uniform = torch.stack([4 * random(60000 + draw, 10, 8).double() for draw in range(draws)])
    gaussian = torch.stack([normal(50000 + draw, 80).view(10, 8) for draw in range(draws)])
    for name, x in ("uniform", uniform), ("normal", gaussian):
        m = x.pow(2).mean(-1)
        row(name, torch.tensor(mean_and_error((((m + 1e-6) / (m + 1e-8)).sqrt() - 1).mean(-1))))


def small_means(draws=4000, dim=256):
    print(f"\n# dim {dim}, {draws} draws: dim (mean / RMS)^2, and |mean| / RMS relative to sqrt(2 / (pi dim)); mean and error")
    u = torch.stack([random(44000 + draw, dim).double() for draw in range(draws)]) + 2**-25
    gaussian = torch.stack([normal(44000 + draw, dim) for draw in range(draws)])
    dominated = gaussian.clone()
    dominated[:, 0] = 1e6
    laplace = -u.sign() * (1 - 2 * u.abs()).log()
    for name, x in {"uniform": u, "normal": gaussian, "Laplace": laplace, "Cauchy": (math.pi * u).tan(), "dominated": dominated}.items():
        part = x.mean(-1).abs() / x.pow(2).mean(-1).sqrt()
        values = dim * part.pow(2), part / math.sqrt(2 / (math.pi * dim))
        row(name, torch.tensor([mean_and_error(v) for v in values]))


def folding(draws=40, blocks=200):
    print(f"\n# blocks of 32 weights, one gamma of 16: error folded / separate, {draws} draws; mean and standard error")
    for name in "uniform", "normal", "Laplace":
        for levels in 127, 7:
            found = []
            for draw in range(draws):
                u = random(48000 + draw, blocks, 32).double() + 2**-25
                w = u if name == "uniform" else -u.sign() * (1 - 2 * u.abs()).log()
                w = normal(48000 + draw, blocks * 32).view(blocks, 32) if name == "normal" else w
                gamma = torch.ones(32, dtype=torch.float64)
                gamma[0] = 16

                def error(w):
                    step = w.abs().amax(-1, keepdim=True) / levels
                    return w - step * (w / step).round()

                found.append((error(w * gamma).pow(2).sum() / (error(w) * gamma).pow(2).sum()).sqrt())
            row(f"{name}, max / {levels}", torch.tensor(mean_and_error(found)))


EXPERIMENTS = (
    places_with_attention,
    kinds_with_attention,
    gradients_of_parameters,
    training_steps,
    feature_shift,
    ratio_of_eps,
    small_means,
    folding,
)

if __name__ == "__main__":
    for experiment in EXPERIMENTS:
        if len(sys.argv) < 2 or experiment.__name__ in sys.argv:
            experiment()
