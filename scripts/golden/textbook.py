"""PyTorch's numbers for docs/norms.md: prints the values with which tests/textbook_*.c compare norma.

Owns the small experiments of the chapter, in ordinary PyTorch code. Inputs are the integer hash of random_model.py,
which the tests also compute, or a few integers. Everything is float64 unless stated otherwise.
"""

import numpy as np
import torch
from random_model import uniform
from torch import nn
from torch.nn.functional import layer_norm, rms_norm, scaled_dot_product_attention
from transformers.models.llama.modeling_llama import LlamaRMSNorm

SEED = 7
EPS = 1e-5
ONE_TO_FOUR = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)


def random(tensor, *shape):
    """Hash numbers in [-0.5, 0.5), float32."""
    return torch.from_numpy(uniform(SEED, tensor, shape))


def row(name, values):
    values = torch.atleast_1d(torch.as_tensor(values, dtype=torch.float64).detach()).flatten().tolist()
    print(f"{name:<44}", *(f"{v:.9g}" for v in values))


def variances():
    print("\n# biased and unbiased")
    x = ONE_TO_FOUR
    row("torch.var(x), its default", torch.var(x))
    row("torch.var(x, correction=0)", torch.var(x, correction=0))
    row("layer_norm(x)", layer_norm(x, (4,), eps=0.0))
    row("(x - mean) / torch.std(x)", (x - x.mean()) / torch.std(x))
    row("nn.LayerNorm(4).eps", nn.LayerNorm(4).eps)
    for kind in torch.float32, torch.bfloat16, torch.float16, torch.float64:
        x = torch.full((4,), 1e-9 if kind == torch.float64 else 1e-6, dtype=kind)
        ratio = x.double() / torch.nn.RMSNorm(4, dtype=kind)(x).double()
        row(f"nn.RMSNorm(4).eps: None; from its output in {kind}", (ratio.square() - x.double().square())[0])


def float32():
    print("\n# the ends of float32")
    row("rms_norm of 1e20, 1e20, 1e20, 1e20", rms_norm(torch.full((4,), 1e20), (4,), eps=EPS))
    row("layer_norm of 1e20, 2e20, 3e20, 4e20", layer_norm(1e20 * ONE_TO_FOUR.float(), (4,), eps=EPS))
    x = 4096 + ONE_TO_FOUR.float()
    row("4097 to 4100: mean(x^2) - mean(x)^2", x.pow(2).mean() - x.mean() ** 2)


def rounding():
    """Prints the bits of eight results, how many of 4,096 depend on the order of rounding, and the error of a sum of
    squares, a root and a product in bfloat16."""
    print("\n# half precision: bits of 8 results; how many of 4096 differ")
    for kind in torch.bfloat16, torch.float16:
        x, gamma = (4 * random(1, 4096)).to(kind), (1 + random(2, 4096)).to(kind)
        llama = LlamaRMSNorm(4096, EPS).to(kind)
        llama.weight.data = gamma
        first = llama(x)
        last = rms_norm(x, (4096,), gamma, EPS)
        assert torch.equal(last, (x.float() * (x.float().pow(2).mean() + EPS).rsqrt() * gamma.float()).to(kind))
        for name, y in ("round, times gamma", first), ("times gamma, round", last):
            print(f"{kind!s:<15} {name:<28}", *(f"{bits & 0xFFFF:04x}" for bits in y[:8].view(torch.int16).tolist()))
        row(f"{kind} differing", (first != last).sum())
    x = (4 * random(3, 200, 4096)).bfloat16()
    exact, own = rms_norm(x.double(), (4096,), eps=EPS), LlamaRMSNorm(4096, EPS)(x)
    formula = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)
    for name, y in ("with .float()", own.bfloat16()), ("without", formula):
        row(f"RMSNorm in bfloat16, {name}: error in %", 100 * (y / exact - 1).pow(2).mean().sqrt())
    row("differing, in %", 100 * (own.bfloat16() != formula).double().mean())


def reciprocal_roots():
    """Every float32 in [1, 4): multiplied by a power of 4 it has the same digits. Then x * rsqrt and x / root, rounded."""
    print("\n# reciprocal roots of 2^24 numbers that are not the correctly rounded ones, in %")
    x = np.arange(0x3F800000, 0x40800000, dtype=np.int32).view(np.float32)
    exact = (1 / np.sqrt(x.astype(np.longdouble))).astype(np.float32)
    forms = {
        "1 / sqrt in double, rounded once, as in norm.c": (1 / np.sqrt(x.astype(np.float64))).astype(np.float32),
        "1 / sqrt in float32": 1 / np.sqrt(x),
        "torch.rsqrt in float32": torch.rsqrt(torch.from_numpy(x)).numpy(),
    }
    for name, y in forms.items():
        row(f"{name}; ulp", [100 * (y != exact).mean(), np.abs(y.view(np.int32) - exact.view(np.int32)).max()])
    for kind in torch.float32, torch.bfloat16, torch.float16:
        x = (4 * random(5, 4096, 4096)).to(kind)
        m = x.float().pow(2).mean(-1, keepdim=True) + EPS
        first, last = x.float() * torch.rsqrt(m), x.float() / torch.from_numpy(np.sqrt(m.numpy()))
        row(f"4096 x 4096, {kind}: x rsqrt is not x / root", 100 * (first.to(kind) != last.to(kind)).double().mean())


def equal_elements():
    print("\n# 64 elements of 1000.1: RMSNorm; LayerNorm as a kernel and by the formula; the same for eps = 0")
    x = torch.full((64,), 1000.1)
    for eps in EPS, 0.0:
        d = x - x.mean()
        formula = d / (x.var(correction=0) + eps).sqrt()
        row(f"eps = {eps:g}", [rms_norm(x, (64,), eps=eps)[0], layer_norm(x, (64,), eps=eps)[0], formula[0]])
    for kind in torch.float64, torch.float32, torch.bfloat16, torch.float16:
        row(f"LayerNorm of 64 elements of 1000, {kind}", layer_norm(torch.full((64,), 1000.0, dtype=kind), (64,), eps=EPS)[0])


def saved_for_backward():
    """Counts the storages that autograd keeps for norms of an x that is not a leaf, without the parameters."""
    print("\n# bytes that autograd keeps, per element of x [512, 4096]; how many numbers of 512 in addition")

    def rms_formula(x, weight, bias):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS)
        return weight * h.to(x.dtype)

    def layer_formula(x, weight, bias):
        h = x.float()
        h = (h - h.mean(-1, keepdim=True)) / torch.sqrt(h.var(-1, correction=0, keepdim=True) + EPS)
        return weight * h.to(x.dtype) + bias

    def layer_of_centered(x, weight, bias):
        h = x.float()
        h = h - h.mean(-1, keepdim=True)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS)
        return weight * h.to(x.dtype) + bias

    forms = {
        "RMSNorm, formula": rms_formula,
        "LayerNorm, formula": layer_formula,
        "LayerNorm, formula of the centered x": layer_of_centered,
        "F.layer_norm": lambda x, weight, bias: layer_norm(x, (4096,), weight, bias, EPS),
    }
    for kind in torch.float32, torch.bfloat16:
        for name, norm in forms.items():
            x = torch.randn(512, 4096, dtype=kind, requires_grad=True) * 1
            parameters = [torch.ones(4096, dtype=kind, requires_grad=True) for _ in range(2)]
            kept = {}

            def keep(tensor, kept=kept):
                kept[tensor.untyped_storage().data_ptr()] = tensor
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                norm(x, *parameters)
            found = [t for address, t in kept.items() if address not in [p.data_ptr() for p in parameters]]
            large = sum(t.element_size() for t in found if t.numel() == x.numel())
            row(f"{name}, {kind}", [large, sum(t.numel() == 512 for t in found)])


def gradients():
    """Prints the mean and the RMS of dL/dx for x [10, 8]."""
    print("\n# dL/dx of 10 tokens of dim 8: mean, RMS")
    weights = random(4, 10, 8)
    losses = {
        "mean of y": torch.mean,
        "sum of y^2": lambda y: y.pow(2).sum(),
        "sum of w y": lambda y: (weights * y).sum(),
    }
    for kind in torch.float64, torch.float32:
        for name, loss in losses.items():
            for norm in rms_norm, layer_norm:
                x = (4 * random(3, 10, 8)).to(kind).requires_grad_()
                loss(norm(x, (8,), eps=EPS)).backward()
                row(f"{str(kind)[6:]} {name}, {norm.__name__}", [x.grad.mean(), x.grad.pow(2).mean().sqrt()])
    for scale in 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100:
        x = (scale * 4 * random(3, 10, 8).double()).requires_grad_()
        losses["sum of w y"](rms_norm(x, (8,), eps=EPS)).backward()
        row(f"sum of w y, rms_norm, x times {scale:g}: RMS", x.grad.pow(2).mean().sqrt())


def batch_norm():
    print("\n# one feature of four tokens; with four tokens of padding; of one token alone")
    norm = nn.BatchNorm1d(1, eps=EPS, affine=False).double()
    row("BatchNorm1d, 4 tokens", norm(ONE_TO_FOUR[:, None]))
    row("BatchNorm1d, 4 tokens and 4 zeros", norm(torch.cat((ONE_TO_FOUR, torch.zeros(4)))[:, None])[:4])
    try:
        norm(ONE_TO_FOUR[:1, None])
    except ValueError as error:
        print("BatchNorm1d, 1 token:", error)


def keepdim():
    print("\n# x = [[1, 2], [3, 4]], with keepdim and without")
    x = ONE_TO_FOUR.view(2, 2)
    row("x * rsqrt(mean(x^2, -1, keepdim=True))", x * x.pow(2).mean(-1, keepdim=True).rsqrt())
    row("x * rsqrt(mean(x^2, -1))", x * x.pow(2).mean(-1).rsqrt())
    x = torch.arange(1, 9, dtype=torch.float64).view(2, 2, 2)
    row("1 to 8 as [2, 2, 2]: the mean over axis 1", x * x.pow(2).mean(1, keepdim=True).rsqrt())


def pre_norm_layer():
    """3 tokens of dim 8 through causal attention (one head, no positions) and a ReLU MLP of 16."""
    print("\n# a pre-norm layer")
    x = 4 * random(10, 3, 8).double()
    gammas = 1 + random(11, 2, 8).double()
    wq, wk, wv, wo = (random(12 + i, 8, 8).double() for i in range(4))
    up, down = random(16, 16, 8).double(), random(17, 8, 16).double()
    h = rms_norm(x, (8,), gammas[0], EPS)
    q, k, v = ((h @ w.T)[None] for w in (wq, wk, wv))
    x = x + scaled_dot_product_attention(q, k, v, is_causal=True)[0] @ wo.T
    h = rms_norm(x, (8,), gammas[1], EPS)
    x = x + (h @ up.T).relu() @ down.T
    for t in range(3):
        row(f"token {t}", x[t])


def placement():
    """The gradient that remains after 12 sublayers, each of which adds a different vector of RMS 1 to the stream."""
    print("\n# 12 sublayers that add constants, dim 256: RMS of the end, dL/dx at the beginning against the end")
    added = rms_norm(random(20, 12, 256).double(), (256,), eps=0.0)
    weights = random(21, 256).double()
    for name in "pre", "post":
        start = rms_norm(random(22, 256).double(), (256,), eps=0.0).requires_grad_()
        x = start
        for r in added:
            x = x + r
            if name == "post":
                x = rms_norm(x, (256,), eps=EPS)
        (weights * x).sum().backward()
        row(f"{name}-norm", [x.pow(2).mean().sqrt(), start.grad.norm() / weights.norm()])


def main():
    row("# PyTorch " + torch.__version__ + ", rms_norm(x)", rms_norm(ONE_TO_FOUR, (4,), eps=0.0))
    numbers = variances, float32, rounding, reciprocal_roots, equal_elements
    for experiment in *numbers, saved_for_backward, gradients, batch_norm, keepdim, pre_norm_layer, placement:
        experiment()


if __name__ == "__main__":
    main()
