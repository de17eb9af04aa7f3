"""PyTorch's numbers for the statements of docs/norms.md about shapes, places, weights before a norm and today's norms.

Owns these experiments; tests/textbook_*.c compare norma with what they print. Inputs are the hash of
random_model.py. Everything is float64 unless stated otherwise.
"""

import torch
from textbook import EPS, ONE_TO_FOUR, random, row
from torch import nn
from torch.nn.functional import layer_norm, mse_loss, rms_norm
from transformers.models.t5.modeling_t5 import T5LayerNorm

DIM, SUBLAYERS, DRAWS = 64, 12, 200


def three_axes():
    print("\n# x = 1 to 8 as [2, 2, 2]; [1 to 4], [5 to 8] by one mean of everything")
    x = torch.arange(1.0, 9.0, dtype=torch.float64).view(2, 2, 2)
    row("keepdim", x * x.pow(2).mean(-1, keepdim=True).rsqrt())
    row("no keepdim", x * x.pow(2).mean(-1).rsqrt())
    row("no keepdim, the shape of [5, 1, 8]", (torch.ones(5, 1, 8) * torch.ones(5, 1, 8).mean(-1)).shape)
    x = x.view(2, 4)
    row("RMS of each token, one mean", (x * x.pow(2).mean().rsqrt()).pow(2).mean(-1).sqrt())


def attention_across_the_batch():
    print("\n# nn.MultiheadAttention on [2, 3, 8]: by how much sample 0 moves when all of sample 1 moves by 1")
    x = 4 * random(90, 2, 3, 8).double()
    moved = x.clone()
    moved[1] += 1
    for batch_first in False, True:
        attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=batch_first).double()
        attention.in_proj_weight.data = random(91, 24, 8).double()
        attention.out_proj.weight.data = random(92, 8, 8).double()
        row(f"batch_first={batch_first}", (attention(moved, moved, moved)[0] - attention(x, x, x)[0])[0].abs().max())


def shapes_of_distributions():
    print("\n# kurtosis going in and out of LayerNorm, dim 64")
    for name, x in ("evenly spaced", torch.arange(64.0)), ("two values", torch.arange(64.0) % 2):
        for z in x.double(), layer_norm(x.double(), (64,), eps=0.0):
            row(name, (z - z.mean()).pow(4).mean() / (z - z.mean()).pow(2).mean() ** 2)
    print("\n# 256 tokens of dim 64, 2 added to feature 0: mean over the tokens of features 0 and 1")
    x = 4 * random(93, 256, 64).double()
    x[:, 0] += 2
    for norm in rms_norm, layer_norm:
        row(norm.__name__, norm(x, (64,), eps=EPS).mean(0)[:2])


def ratio():
    print("\n# mean of norm(10 x) / norm(x), 10 tokens of dim 8, less 1")
    for eps in 1e-6, 0.0:
        for kind in torch.float64, torch.float32:
            x = (4 * random(3, 10, 8)).to(kind)
            for norm in rms_norm, layer_norm:
                y, z = norm(x, (8,), eps=eps), norm(10 * x, (8,), eps=eps)
                row(f"{norm.__name__}, eps {eps:g}, {str(kind)[6:]}", (z / y).double().mean() - 1)


def notes_loss(draws=20000):
    print(f"\n# mean squared error against a random target, normal x [10, 8]: {draws} draws")
    torch.manual_seed(1)
    x, target = torch.randn(2, draws, 10, 8, dtype=torch.float64)
    variances = []
    for norm in rms_norm, layer_norm:
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(mse_loss(norm(x, (8,), eps=1e-6), target) * draws, x)
        gradient = gradient.flatten(1)
        variances.append(gradient.var(1))
        row(f"{norm.__name__}: mean variance, sd of the mean", [variances[-1].mean(), gradient.mean(1).std()])
        row("  5 and 95 %", torch.quantile(variances[-1], torch.tensor([0.05, 0.95], dtype=torch.float64)))
    row("RMSNorm has the larger variance, %", 100 * (variances[0] > variances[1]).double().mean())


def branch(place, w, x):
    def norm(x):
        return rms_norm(x, (DIM,), eps=0.0)

    return {
        "pre": lambda: x + w @ norm(x),
        "post": lambda: norm(x + w @ x),
        "inside": lambda: x + norm(w @ x),
        "sandwich": lambda: x + norm(w @ norm(x)),
    }[place]()


def run_places(place, weights, start):
    xs = [start]
    for w in weights:
        xs.append(branch(place, w, xs[-1]))
    return xs, rms_norm(xs[-1], (DIM,), eps=0.0)


def place_inputs(draw):
    """Draws weights, changes of 1 %, a loss and a token; statement 40 also uses draw 0."""
    size, seed = (12 / DIM) ** 0.5, 1000 + 4 * draw if draw else 100
    weights = size * random(seed, SUBLAYERS, DIM, DIM).double()
    moves = 0.01 * size * random(seed + 1, SUBLAYERS, DIM, DIM).double()
    return weights, moves, random(seed + 2, DIM).double(), rms_norm(random(seed + 3, DIM).double(), (DIM,), eps=0.0)


def gradients_by_depth(place, draws=DRAWS):
    """|dL/dx| / |loss| at each depth, averaged over draws."""
    sums = torch.zeros(SUBLAYERS + 1, dtype=torch.float64)
    for draw in range(draws):
        weights, _, loss, start = place_inputs(draw)
        xs, y = run_places(place, weights, start.requires_grad_())
        sums += torch.stack([g.norm() / loss.norm() for g in torch.autograd.grad((loss * y).sum(), xs)])
    return (sums / draws).tolist()


def places():
    print("\n# 12 linear sublayers, dim 64, means of 200 draws: RMS of the end; gradient at depth 0, 4, 8, 12;")
    print("# what 1 % of the weights changes. RMS of draw 0, and with weights times 4")
    for place in "pre", "post", "inside", "sandwich":
        size, change = 0, 0
        for draw in range(DRAWS):
            weights, moves, _, start = place_inputs(draw)
            xs, y = run_places(place, weights, start)
            size += xs[-1].pow(2).mean().sqrt() / DRAWS
            change += 100 * (run_places(place, weights + moves, start)[1] - y).norm() / y.norm() / DRAWS
        row(f"{place}: RMS", size)
        row(f"{place}: gradients", gradients_by_depth(place)[::4])
        row(f"{place}: moves, %", change)
        weights, _, _, start = place_inputs(0)
        for factor in 1, 4:
            row(f"{place}: RMS, weights times {factor}", run_places(place, factor * weights, start)[0][-1].pow(2).mean().sqrt())


def weights_in_front():
    print("\n# y = norm(W x), L = sum of v y, dim 8: <dL/dW, W>; |dL/dW| for W, 2 W, W with 2 x; a step")
    x, v = 4 * random(110, 8).double(), random(111, 8).double()

    def gradient(w, x):
        w = w.clone().requires_grad_()
        return torch.autograd.grad((v * rms_norm(w @ x, (8,), eps=0.0)).sum(), w)[0]

    w = random(112, 8, 8).double()
    g = gradient(w, x)
    row("<dL/dW, W>", (g * w).sum())
    row("|dL/dW|", [g.norm(), gradient(2 * w, x).norm(), gradient(w, 2 * x).norm()])
    row("curvature, W and 2 W", [(gradient(c * w + 1e-4 * g, x) - gradient(c * w, x)).norm() for c in (1, 2)])
    row("|W|, and behind a step with a learning rate of 0.1", [w.norm(), (w - 0.1 * g).norm()])


def dynamic_tanh():
    print("\n# DyT: tanh(x / 2)")
    for s in 0.1, 1, 10:
        row(f"x = {s:g} * [1, 2, 3, 4]", torch.tanh(0.5 * s * ONE_TO_FOUR))


def names():
    print("\n# T5LayerNorm of 1 to 4, and of 1001 to 1004")
    norm = T5LayerNorm(4, eps=0.0).double()
    row("T5LayerNorm", norm(ONE_TO_FOUR))
    row("T5LayerNorm, shifted", norm(ONE_TO_FOUR + 1000))
    row("parameters", [p.numel() for p in norm.parameters()])


def layernorm_as_rmsnorm():
    print("\n# 12 sublayers with LayerNorm, and with RMSNorm: gamma and beta folded, then the stream centered")
    size = (12 / DIM) ** 0.5
    up, down = (size * random(seed, SUBLAYERS, DIM, DIM).double() for seed in (150, 151))
    down, head = down + 0.02, size * random(152, DIM, DIM).double()
    gamma, beta = (random(seed, SUBLAYERS + 1, DIM).double() for seed in (153, 154))
    gamma, x = gamma + 1, random(155, DIM).double() + 0.5

    def logits(norm, x, up, down, head, gamma, beta, bias):
        for u, d, g, b, c in zip(up, down, gamma, beta, bias, strict=False):
            x = x + d @ torch.tanh(u @ (g * norm(x, (DIM,), eps=0.0) + b) + c)
        return head @ (gamma[-1] * norm(x, (DIM,), eps=0.0) + beta[-1]) + bias[-1]

    none = torch.zeros_like(beta)
    layer = logits(layer_norm, x, up, down, head, gamma, beta, none)
    bias = torch.cat([(up @ beta[:-1, :, None])[..., 0], (head @ beta[-1])[None]])
    norms = head * gamma[-1], none + 1, none, bias
    for name, first, last in ("folded", x, down), ("and centered", x - x.mean(), down - down.mean(1, keepdim=True)):
        row(name, (logits(rms_norm, first, up * gamma[:-1, None], last, *norms) - layer).abs().max())


def main():
    row("# PyTorch " + torch.__version__ + ", rms_norm(x)", rms_norm(ONE_TO_FOUR, (4,), eps=0.0))
    for experiment in (three_axes, attention_across_the_batch, shapes_of_distributions, ratio, notes_loss, places):
        experiment()
    for experiment in weights_in_front, dynamic_tanh, names, layernorm_as_rmsnorm:
        experiment()


if __name__ == "__main__":
    main()
