"""Measures norms in PyTorch on a GPU: single kernels, and what they cost in the training of decoder layers.

    python scripts/measure/norms_gpu.py [--device cpu --small]     # needs PyTorch with CUDA; with --small any device, in seconds

Prints two tables as Markdown. Kernels: time of a norm of bfloat16 tokens, forward, and forward with backward, by its
formula (LlamaRMSNorm of transformers, which computes in float32), by PyTorch's own kernel, and by the formula compiled;
also with the addition to the residual stream before it. Layers: tokens per second of forward and backward of decoder
layers in the shape of Llama 3.2 1B and Llama 3 8B, with each norm and without one. All variants of a table run in
turn, in random order; medians and quartiles.
"""

import argparse
import random
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

EPS = 1e-5
SHAPES = {"1B": (2048, 8192, 32, 8), "8B": (4096, 14336, 32, 8)}  # dim, hidden, heads, heads of keys and values


def rms_formula(x, weight, bias):
    del bias
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return weight * wide.to(x.dtype)


def layer_formula(x, weight, bias):
    wide = x.float()
    wide = wide - wide.mean(-1, keepdim=True)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
    return weight * wide.to(x.dtype) + bias


def rms_kernel(x, weight, bias):
    del bias
    return F.rms_norm(x, (x.shape[-1],), weight, EPS)


def layer_kernel(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, EPS)


def no_norm(x, weight, bias):
    del weight, bias
    return x


NORMS = {"RMSNorm": (rms_formula, rms_kernel), "LayerNorm": (layer_formula, layer_kernel)}


def timer(device):
    """Returns (start, stop): stop() gives the seconds since start()."""
    if device == "cuda":
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

        def stop():
            events[1].record()
            torch.cuda.synchronize()
            return events[0].elapsed_time(events[1]) / 1e3

        return events[0].record, stop
    at = [0.0]
    return lambda: at.__setitem__(0, time.perf_counter()), lambda: time.perf_counter() - at[0]


def measure(variants, device, rounds, repeats):
    """{name: seconds of one call in each round}; each round runs all variants in a random order."""
    start, stop = timer(device)
    seconds = {name: [] for name in variants}
    for run in variants.values():
        for _ in range(3):
            run()
    for _ in range(rounds):
        for name in random.sample(list(variants), len(variants)):
            start()
            for _ in range(repeats):
                variants[name]()
            seconds[name].append(stop() / repeats)
    return seconds


def shown(values, scale, digits):
    low, middle, high = statistics.quantiles([scale * v for v in values], n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def kernels(tokens, dim, device, rounds):
    x, residual, dy = (torch.randn(tokens, dim, device=device, dtype=torch.bfloat16) for _ in range(3))
    weight, bias = (torch.ones(dim, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    taped = x.clone().requires_grad_()
    into = torch.empty_like(x)
    variants = {"copy": lambda: into.copy_(x)}
    backward = {}
    for name, (formula, kernel) in NORMS.items():
        forms = {"formula": formula, "kernel": kernel, "compiled": torch.compile(formula, dynamic=False)}

        def added(x, residual, weight, bias, norm=formula):
            stream = x + residual
            return stream, norm(stream, weight, bias)

        fused = torch.compile(added, dynamic=False)
        with torch.no_grad():
            fused(x, residual, weight, bias)
        for form, norm in forms.items():

            def forward(norm=norm):
                with torch.no_grad():
                    norm(x, weight, bias)

            def both(norm=norm):
                torch.autograd.grad(norm(taped, weight, bias), [taped, weight], dy)

            def with_addition(norm=norm, form=form, fused=fused):
                with torch.no_grad():
                    fused(x, residual, weight, bias) if form == "compiled" else norm(x + residual, weight, bias)

            variants[name, form] = forward
            variants[name, form, "add"] = with_addition
            backward[name, form] = both
    found = measure(variants, device, rounds, 20)
    found_back = measure(backward, device, rounds, 10)
    size = 2 * tokens * dim * 2 / statistics.median(found["copy"]) / 1e9
    print(f"\n{tokens} tokens of dim {dim}; a copy takes {shown(found['copy'], 1e6, 1)} us, {size:.0f} GB/s\n")
    print("| norm | form | us | times a copy | addition and norm, us | forward and backward, us |\n| --- | --- | --- | --- | --- | --- |")
    for name, form in backward:
        ratio = statistics.median(found[name, form]) / statistics.median(found["copy"])
        cells = shown(found[name, form], 1e6, 1), f"{ratio:.2f}", shown(found[name, form, "add"], 1e6, 1)
        print(f"| {name} | {form} | {' | '.join(cells)} | {shown(found_back[name, form], 1e6, 1)} |", flush=True)


class Layer(nn.Module):
    """A LLaMA decoder layer without RoPE, which costs all variants the same."""

    def __init__(self, shape, norm):
        super().__init__()
        dim, hidden, self.heads, self.kv_heads = shape
        self.size, self.norm = dim // self.heads, norm
        self.q, self.o = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * self.kv_heads * self.size, bias=False)
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(dim)) for _ in range(2)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(2)])

    def forward(self, x):
        batch, n, dim = x.shape
        y = self.norm(x, self.weights[0], self.biases[0])
        q = self.q(y).view(batch, n, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(y).view(batch, n, 2, self.kv_heads, self.size).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, n, dim))
        y = self.norm(x, self.weights[1], self.biases[1])
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def layers(title, shape, n_layers, batch, length, device, rounds, compiled):
    variants = {}
    norms = {"none": no_norm} | {
        f"{name}, {form}": norm
        for name, pair in NORMS.items()
        for form, norm in zip(("formula", "kernel"), pair, strict=True)
        if not (compiled and form == "kernel")
    }
    shared = Layer(shape, no_norm).to(device, torch.bfloat16).state_dict()
    x = torch.randn(batch, length, shape[0], device=device, dtype=torch.bfloat16)
    for name, norm in norms.items():
        stack = nn.Sequential(*[Layer(shape, norm).to(device, torch.bfloat16) for _ in range(n_layers)])
        for layer in stack:
            layer.load_state_dict(shared)
        run = torch.compile(stack, dynamic=False) if compiled else stack

        def step(run=run, stack=stack):
            stack.zero_grad(set_to_none=True)
            run(x).float().pow(2).mean().backward()

        variants[name] = step
    found = measure(variants, device, rounds, 2)
    kind = "compiled" if compiled else "not compiled"
    print(f"\n{title}, {n_layers} layers, {batch} x {length} tokens, forward and backward, {kind}\n")
    print("| norm | 1,000 tokens/s | time / without norms |\n| --- | --- | --- |")
    for name, seconds in found.items():
        ratios = [a / b for a, b in zip(seconds, found["none"], strict=True)]
        speed = [batch * length / s for s in seconds]
        print(f"| {name} | {shown(speed, 1e-3, 1)} | {shown(ratios, 1, 3)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to try the script")
    args = parser.parse_args()
    name = torch.cuda.get_device_name() if args.device == "cuda" else "a processor"
    print(f"PyTorch {torch.__version__}, {name}")
    rounds = 4 if args.small else 25
    for dim in (64,) if args.small else (2048, 4096, 8192):
        kernels(64 if args.small else 8192, dim, args.device, rounds)
    shapes = {"tiny": (64, 128, 4, 2)} if args.small else SHAPES
    for title, shape in shapes.items():
        for compiled in (False, True):
            layers(title, shape, 2, 2, 16 if args.small else 2048, args.device, rounds, compiled)


if __name__ == "__main__":
    main()
