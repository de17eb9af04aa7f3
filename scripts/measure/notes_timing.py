"""Times norms as study notes do, from Python, and compares them with `./run -m norms`: same shapes, machine, threads.

Owns the norms as the notes write them, the order of the measurements and the table. The two programs run alternately,
so that other load on the machine affects both; the table holds medians over the rounds. norma's numbers come from
modes/norms.c.

PyTorch runs under good conditions: without autograd, and with an allocator that keeps memory between calls (each call
allocates its result; without the two settings below, large results would also cost page faults).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial

import torch
from torch import nn
from torch.nn.functional import rms_norm
from torch.utils._python_dispatch import TorchDispatchMode

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
SHAPES = (10, 8), (1, 8), (1, 4096), (8, 4096), (64, 512), (512, 64), (512, 4096)  # tokens, dim
EPS = 1e-5
MIN_SECONDS = 0.02  # per measurement


class NotesRMSNorm(nn.Module):
    def __init__(self, dim, eps=EPS):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class NotesLayerNorm(nn.Module):
    """As the notes write it: the variance by x.var, then a square root and a division as separate calls."""

    def __init__(self, dim, eps=EPS):
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, correction=0, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(variance + self.eps) + self.bias


class FunctionalRMSNorm(NotesRMSNorm):
    def forward(self, x):
        return rms_norm(x, self.weight.shape, self.weight, self.eps)


TIMED = {  # column: module
    "notes RMS": NotesRMSNorm,
    "notes Layer": NotesLayerNorm,
    "F.rms_norm": FunctionalRMSNorm,
    "nn.LayerNorm": nn.LayerNorm,
}
OURS = {"norma RMS": "rmsnorm_ns", "norma Layer": "layernorm_ns"}
RATIOS = {  # column: (numerator, denominator)
    "notes L/R": ("notes Layer", "notes RMS"),
    "nn.L / notes R": ("nn.LayerNorm", "notes RMS"),
    "norma L/R": ("norma Layer", "norma RMS"),
    "best RMS / norma": ("best RMS", "norma RMS"),
}


def seconds_a_call(function, *args):
    times, seconds = 1, 0.0
    while seconds < MIN_SECONDS:
        times *= 2
        start = time.perf_counter()
        for _ in range(times):
            function(*args)
        seconds = time.perf_counter() - start
    return seconds / times


def time_torch(tokens, dim):
    """Nanoseconds per call, for all tokens: {column: nanoseconds}."""
    x = torch.rand(tokens, dim) - 0.5
    return {name: 1e9 * seconds_a_call(norm(dim), x) for name, norm in TIMED.items()}


def time_norma(binary, threads):
    """The same for every shape of `-m norms`: {(tokens, dim): {column: nanoseconds}}."""
    command = [binary, "-m", "norms", "--json", "-j", str(threads)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [row for row in map(json.loads, out.splitlines()) if "dim" in row]
    return {(row["tokens"], row["dim"]): {name: row["tokens"] * row[key] for name, key in OURS.items()} for row in rows}


def time_roots():
    """Nanoseconds of rsqrt, and of a square root and a division, for 512 numbers (one per token)."""
    v = torch.rand(512, 1) + 0.5
    return 1e9 * seconds_a_call(torch.rsqrt, v), 1e9 * seconds_a_call(lambda v: 1 / torch.sqrt(v), v)


class Calls(TorchDispatchMode):
    """Counts the calls that reach PyTorch's kernels."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def count_calls(norm, x):
    with torch.no_grad(), Calls() as calls:
        norm(x)
    return calls.count


def count_recorded(norm, x):
    """The number of calls that autograd records for the backward pass: those that depend on a parameter."""
    todo, seen = [norm(x).grad_fn], set()
    while todo:
        node = todo.pop()
        if node and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
    return sum(not type(node).__name__.startswith("AccumulateGrad") for node in seen)


def calls_of(x):
    """Each call of the two norms separately, with inputs of the same shape as in the norm."""
    weight, mean, root = nn.Parameter(torch.ones(x.shape[-1])), x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    weighted = (weight * x) if torch.is_grad_enabled() else (weight * x).detach()
    return {
        "square": lambda: x.pow(2),
        "mean": lambda: x.mean(-1, keepdim=True),
        "var": lambda: x.var(-1, correction=0, keepdim=True),
        "+ eps": lambda: mean + EPS,
        "rsqrt": lambda: torch.rsqrt(root),
        "sqrt": lambda: torch.sqrt(root),
        "x - mean": lambda: x - mean,
        "x * scale": lambda: x * root,
        "* weight": lambda: weight * x,
        "/ root": lambda: weighted / root,
        "+ bias": lambda: weighted + weight,
    }


def show_calls(rounds):
    """Explains the notes' 34 %: times 10 tokens of dim 8 with and without autograd, and each call separately."""
    x = torch.randn(2, 5, 8)
    norms = {"notes RMS": NotesRMSNorm(8), "notes Layer": NotesLayerNorm(8)}
    for name, norm in norms.items():
        print(f"{name}: {count_calls(norm, x)} calls, of which autograd records {count_recorded(norm, x)}")
    modes = {"inference mode": torch.inference_mode, "autograd": torch.enable_grad}
    measured = {mode: [] for mode in modes}
    for _ in range(rounds):
        for name, mode in modes.items():
            with mode():
                things = {n: partial(norm, x) for n, norm in norms.items()} | calls_of(x)
                measured[name].append({n: 1e6 * seconds_a_call(f) for n, f in things.items()})
    for name, times in measured.items():
        us = medians(times)
        saved = 1 - us["notes RMS"] / us["notes Layer"]
        print(f"{name}: RMSNorm saves {100 * saved:.1f} %;", ", ".join(f"{n} {t:.2f}" for n, t in us.items()))


def medians(rounds):
    return {name: statistics.median(timed[name] for timed in rounds) for name in rounds[0]}


def show(shapes, measured):
    names = *TIMED, *OURS
    widths = {name: max(len(name), 10) + 2 for name in (*names, *RATIOS)}
    print(f"{'tokens x dim':>12}" + "".join(f"{name:>{widths[name]}}" for name in widths))
    for shape in shapes:
        ns = medians(measured[shape])
        ns["best RMS"] = min(ns["notes RMS"], ns["F.rms_norm"])
        times = "".join(f"{ns[name] / 1000:>{widths[name]}.3f}" for name in names)
        ratios = "".join(f"{ns[slow] / ns[fast]:>{widths[name]}.2f}" for name, (slow, fast) in RATIOS.items())
        print(f"{shape[0]:>5} x {shape[1]:<4}" + times + ratios)


def main():
    parser = argparse.ArgumentParser(description="Time the norms of study notes and norma's.")
    parser.add_argument("--run", default="./run", metavar="FILE", help="norma's binary [./run]")
    parser.add_argument("--threads", type=int, default=2, help="threads of both programs [2]")
    parser.add_argument("--rounds", type=int, default=7, help="[7]")
    parser.add_argument("--calls", action="store_true", help="time and count only the calls of each norm")
    args = parser.parse_args()
    if min(args.threads, args.rounds) < 1:
        raise ValueError("--threads and --rounds must be positive")

    torch.set_num_threads(args.threads)
    if args.calls:
        print(f"PyTorch {torch.__version__}; microseconds for 10 tokens of dim 8, medians of {args.rounds} rounds")
        return show_calls(args.rounds)
    measured, roots = {shape: [] for shape in SHAPES}, []
    with torch.inference_mode():
        for _ in range(args.rounds):
            ours = time_norma(args.run, args.threads)
            for shape in SHAPES:
                if shape not in ours:
                    raise ValueError(f"{args.run} -m norms has no {shape[0]} tokens of dim {shape[1]}")
                measured[shape].append(time_torch(*shape) | ours[shape])
            roots.append(time_roots())

    version, threads = torch.__version__, args.threads
    print(f"PyTorch {version}, {threads} threads; microseconds for all tokens, medians of {args.rounds} rounds; ratios")
    show(SHAPES, measured)
    rsqrt, root = (statistics.median(column) for column in zip(*roots, strict=True))
    print(f"512 numbers, PyTorch: rsqrt {rsqrt / 1000:.2f} us, root and division {root / 1000:.2f} us")


if __name__ == "__main__":
    if any(name not in os.environ for name in KEEP_MEMORY):  # malloc reads them when the process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], KEEP_MEMORY | os.environ)
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"notes_timing.py: {error}")
