"""Times norms the way study notes do, through Python, beside `./run -m norms`: the same shapes, machine and threads.

Owns the norms as notes write them, the order of the measurements and the table. The two programs take turns, round by
round, so that what else the machine does hits both; the table holds medians over the rounds. norma's own numbers are
modes/norms.c's.

PyTorch gets what it needs to be fast: no autograd, and memory that is kept from call to call (it allocates its result
anew each time; without the two settings below, large results cost page faults on top).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn.functional import rms_norm

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
SHAPES = (10, 8), (1, 8), (1, 4096), (8, 4096), (64, 512), (512, 64), (512, 4096)  # tokens, dim
EPS = 1e-5
LEAST_SECONDS = 0.02  # of one measurement


class NotesRMSNorm(nn.Module):
    def __init__(self, dim, eps=EPS):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class NotesLayerNorm(nn.Module):
    """In the same style: what NotesRMSNorm is fairly compared with."""

    def __init__(self, dim, eps=EPS):
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        centered = x - x.mean(-1, keepdim=True)
        variance = centered.pow(2).mean(-1, keepdim=True)
        return centered * torch.rsqrt(variance + self.eps) * self.weight + self.bias


class FunctionalRMSNorm(NotesRMSNorm):
    def forward(self, x):
        return rms_norm(x, self.weight.shape, self.weight, self.eps)


TIMED = {  # column, then what is timed in it
    "notes RMS": NotesRMSNorm,
    "notes Layer": NotesLayerNorm,
    "F.rms_norm": FunctionalRMSNorm,
    "nn.LayerNorm": nn.LayerNorm,
}
OURS = {"norma RMS": "rmsnorm_ns", "norma Layer": "layernorm_ns"}
RATIOS = {  # what it says, the slower, the faster
    "notes L/R": ("notes Layer", "notes RMS"),
    "nn.L / notes R": ("nn.LayerNorm", "notes RMS"),
    "norma L/R": ("norma Layer", "norma RMS"),
    "best RMS / norma": ("best RMS", "norma RMS"),
}


def seconds_a_call(function, *args):
    times, seconds = 1, 0.0
    while seconds < LEAST_SECONDS:
        times *= 2
        start = time.perf_counter()
        for _ in range(times):
            function(*args)
        seconds = time.perf_counter() - start
    return seconds / times


def time_torch(tokens, dim):
    """Nanoseconds a call for the whole [tokens, dim]."""
    x = torch.rand(tokens, dim) - 0.5
    return {name: 1e9 * seconds_a_call(norm(dim), x) for name, norm in TIMED.items()}


def time_norma(binary, threads):
    """The same for every shape that `-m norms` has: {(tokens, dim): {column: nanoseconds}}."""
    command = [binary, "-m", "norms", "--json", "-j", str(threads)]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["cases"]
    return {(row["tokens"], row["dim"]): {name: row["tokens"] * row[key] for name, key in OURS.items()} for row in rows}


def time_roots():
    """Of 512 numbers, one to a token: nanoseconds of rsqrt, and of a root and a division."""
    v = torch.rand(512, 1) + 0.5
    return 1e9 * seconds_a_call(torch.rsqrt, v), 1e9 * seconds_a_call(lambda v: 1 / torch.sqrt(v), v)


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
    parser = argparse.ArgumentParser(description="Time the norms of study notes beside norma's.")
    parser.add_argument("--run", default="./run", metavar="FILE", help="norma's binary [./run]")
    parser.add_argument("--threads", type=int, default=2, help="of both [2]")
    parser.add_argument("--rounds", type=int, default=7, help="[7]")
    args = parser.parse_args()
    if min(args.threads, args.rounds) < 1:
        raise ValueError("--threads and --rounds must be positive")

    torch.set_num_threads(args.threads)
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
    if any(name not in os.environ for name in KEEP_MEMORY):  # malloc reads them as the process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], KEEP_MEMORY | os.environ)
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"notes_timing.py: {error}")
