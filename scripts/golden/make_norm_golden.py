"""Writes the expected values of norm.c's tests: PyTorch's norms on inputs that C also computes.

Owns the input sets (tests/support/norm_inputs.c has the same), the measure of an error, and the files
tests/golden/norm_*. The hash is random_model.py's. Nothing here comes from norma: exact values are float64, by formula
or by autograd.

norm_errors.txt    the largest error of PyTorch in float32 on each input set, over all dims: of y, dx, and one token's
                   dgamma (its dbeta is dy, without error)
norm_backward.bin  gradients by float64 autograd: float64 dx [TOKENS, dim], dgamma [dim], (LayerNorm:) dbeta [dim], for
                   each of SMALL_DIMS, RMSNorm then LayerNorm
norm_half.bin      uint16 bits [TOKENS, dim] of LlamaRMSNorm, then of rms_norm, for each of HALF_SETS and SMALL_DIMS,
                   all in float16, then all in bfloat16
"""

import sys
from pathlib import Path

import numpy as np
import torch
from random_model import uniform
from torch.nn.functional import layer_norm, rms_norm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
SEED, TOKENS, EPS = 21, 8, np.float32(1e-5)
DIMS = 8, 15, 16, 17, 64, 172, 288, 1000, 4096, 8192
SMALL_DIMS = 8, 17, 64, 172
SETS = "random", "tiny", "tiny_no_eps", "huge", "constant", "spike", "offset", "far_offset"
HALF_SETS = "random", "constant", "spike", "offset"
GAMMA, BETA, X, DY = 1, 2, 1000, 2000  # tensors of the hash; for X and DY add 16 * index of the dim + index of the set


def symmetric(tensor, shape):
    """Hash numbers in [-1, 1), exact in float32."""
    return 2 * uniform(SEED, tensor, shape)


def inputs(kind, dim):
    r = symmetric(X + 16 * DIMS.index(dim) + SETS.index(kind), (TOKENS, dim))
    match kind:
        case "tiny" | "tiny_no_eps":
            return r * np.float32(1e-20)
        case "huge":
            return r * np.float32(1e18)
        case "constant":
            return np.broadcast_to(r[:, :1] * np.float32(3), r.shape).copy()
        case "spike":
            r *= np.float32(0.01)
            r[:, dim // 2] = 1000
            return r
        case "offset":
            return r + np.float32(5)
        case "far_offset":
            return r + np.float32(1000)
    return r


def output_gradient(kind, dim):
    return symmetric(DY + 16 * DIMS.index(dim) + SETS.index(kind), (TOKENS, dim))


def parameters(dim):
    return 1 + symmetric(GAMMA, (dim,)), symmetric(BETA, (dim,))


def epsilon(kind):
    return 0.0 if kind == "tiny_no_eps" else float(EPS)


def run_token(norm, x, dy, gamma, beta, eps):
    leaves = [x, gamma, beta] if norm == "layernorm" else [x, gamma]
    for leaf in leaves:
        leaf.requires_grad_()
        leaf.grad = None
    y = layer_norm(x, x.shape, gamma, beta, eps) if norm == "layernorm" else rms_norm(x, x.shape, gamma, eps)
    y.backward(dy)
    return [t.detach().double().numpy() for t in (y, *(leaf.grad for leaf in leaves))]


def run(norm, kind, dim, dtype):
    """Returns y, dx, dgamma, dbeta [TOKENS, dim] of PyTorch's norm, each token separately; no dbeta for RMSNorm."""
    x, dy, gamma, beta = (
        torch.from_numpy(a).to(dtype) for a in (inputs(kind, dim), output_gradient(kind, dim), *parameters(dim))
    )
    tokens = [run_token(norm, x[t], dy[t], gamma, beta, epsilon(kind)) for t in range(TOKENS)]
    return [np.stack(values) for values in zip(*tokens, strict=True)]


def ulp(value):
    """The distance between adjacent float32 numbers of this magnitude."""
    return np.spacing(np.abs(value).astype(np.float32)).astype(np.float64)


def largest_error(found, exact, unit):
    with np.errstate(invalid="ignore"):
        error = (np.abs(found - exact) / unit).max()
    return np.inf if np.isnan(error) else error


def exact(norm, kind, dim):
    """The same by formula: autograd rounds the mean of a constant token, which makes its dgamma inexact."""
    x, dy = inputs(kind, dim).astype(np.float64), output_gradient(kind, dim).astype(np.float64)
    gamma, beta = parameters(dim)
    if norm == "layernorm":
        x -= x[:, :1]
        x -= x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((x * x).mean(1, keepdims=True) + epsilon(kind))
    normalized, g = x * scale, dy * gamma
    dx = g - normalized * (g * normalized).mean(1, keepdims=True)
    if norm == "layernorm":
        dx -= g.mean(1, keepdims=True)
        return [normalized * gamma + beta, dx * scale, dy * normalized, dy]
    return [normalized * gamma, dx * scale, dy * normalized]


def check_exact(exact_values, norm, kind, dim):
    """Checks that the formula and float64 autograd agree."""
    for value, autograd in zip(exact_values, run(norm, kind, dim, torch.float64), strict=True):
        if not np.allclose(value, autograd, rtol=1e-7, atol=1e-9 * np.abs(autograd).max() + 1e-9):
            raise ValueError(f"{norm}, {kind}, dim {dim}: formula and float64 autograd differ")


def errors(norm, kind):
    """Largest errors of y, dx, dgamma: y of RMSNorm in ulp of itself, the others in ulp of the token's largest."""
    worst = [0.0] * 3
    for dim in DIMS:
        values = exact(norm, kind, dim)
        check_exact(values, norm, kind, dim)
        units = [ulp(np.abs(v).max(-1, keepdims=True)) for v in values]
        if norm == "rmsnorm":
            units[0] = ulp(values[0])
        found = run(norm, kind, dim, torch.float32)
        worst = [max(w, largest_error(*fields)) for w, *fields in zip(worst, found, values, units, strict=False)]
    return worst


def write_errors():
    lines = []
    for norm in "rmsnorm", "layernorm":
        for kind in SETS:
            worst = zip(("y", "dx", "dgamma"), errors(norm, kind), strict=True)
            lines += [f"{norm} {name} {kind} {error:.6g}\n" for name, error in worst]
    (GOLDEN / "norm_errors.txt").write_text("".join(lines))


def write_backward():
    with open(GOLDEN / "norm_backward.bin", "wb") as out:
        for dim in SMALL_DIMS:
            for norm in "rmsnorm", "layernorm":
                dx, *of_parameters = run(norm, "random", dim, torch.float64)[1:]
                dx.astype("<f8").tofile(out)
                for gradient in of_parameters:
                    gradient.sum(0).astype("<f8").tofile(out)


def half_norms(x, gamma):
    """Returns the results of Hugging Face's module and of PyTorch's function."""
    module = LlamaRMSNorm(x.shape[1], float(EPS)).to(x.dtype)
    module.weight.data = gamma
    return module(x).detach(), rms_norm(x, (x.shape[1],), gamma, float(EPS))


def write_half():
    with open(GOLDEN / "norm_half.bin", "wb") as out:
        for dtype in torch.float16, torch.bfloat16:
            for kind in HALF_SETS:
                for dim in SMALL_DIMS:
                    x, gamma = (torch.from_numpy(a).to(dtype) for a in (inputs(kind, dim), parameters(dim)[0]))
                    for y in half_norms(x, gamma):
                        y.view(torch.int16).numpy().astype("<i2").tofile(out)


def main():
    torch.set_num_threads(1)
    write_errors()
    write_backward()
    write_half()


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"make_norm_golden.py: {error}")
