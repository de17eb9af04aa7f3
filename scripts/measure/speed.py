"""Measures the README's table: prefill and decode of norma and of other programs, next to the limits of the machine.

    python scripts/measure/speed.py MODEL.gguf... [--peer NAME=PATH/llama-bench]... [--rounds 9] [--threads 2]

Owns the order of the runs and the table. In every round each program runs once with each model, in turn: a prompt, then
decoding after it, of the lengths that `-m bench` chooses. A peer is a build of llama.cpp's or ik_llama.cpp's llama-bench;
it runs with and without flash attention, and the faster median counts. Rates are medians of the rounds. A ratio is the
median of the ratios in single rounds, with its quartiles. The limits are those that `-m bench` measures in the same run:
a loop that reads as many bytes as a token's weights, and the peak rate of multiply-adds of the weights' kind.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FLASH = "0", "1"


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def norma(model, threads):
    """Returns a round's rates and limits, as -m bench --json names them."""
    return json.loads(run([TOP / "run", model, "-m", "bench", "--json", "--seconds", "2", "-j", threads]))


def peer(program, model, threads, prompt, steps):
    """Returns {flash attention: (prefill, decode)} in tokens/s."""
    after = ["-d", prompt] if "--n-depth" in run([program, "--help"]) else ["-gp", f"{prompt},{steps}"]
    decode = ["-p", "0", "-n", steps, *after] if after[0] == "-d" else ["-p", "0", "-n", "0", *after]
    rates = {}
    for flash in FLASH:
        common = [program, "-m", model, "-t", threads, "-fa", flash, "-r", "3", "-o", "json"]
        tests = [json.loads(run([*common, *what]))[-1] for what in (["-p", prompt, "-n", "0"], decode)]
        rates[flash] = tuple(test["avg_ts"] for test in tests)
    return rates


def measure(model, peers, rounds, threads):
    """Returns norma's rounds, and for each peer its rounds: [(prefill, decode)]."""
    own, others = [], {name: [] for name in peers}
    for _ in range(rounds):
        own.append(norma(model, threads))
        prompt, steps = str(own[-1]["prompt_tokens"]), str(own[-1]["steps"])
        for name, program in peers.items():
            others[name].append(peer(program, model, threads, prompt, steps))
    for name, found in others.items():
        better = [max(FLASH, key=lambda f: statistics.median(rates[f][phase] for rates in found)) for phase in (0, 1)]
        others[name] = [(rates[better[0]][0], rates[better[1]][1]) for rates in found]
    return own, others


def ratio(own, other):
    ratios = [a / b for a, b in zip(own, other, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def row(model, own, others):
    median = lambda key: statistics.median(found[key] for found in own)
    phases = [[found[key] for found in own] for key in ("prefill_tps", "decode_tps")]
    cells = [Path(model).stem, " / ".join(f"{statistics.median(rates):,.0f}" for rates in phases)]
    cells += [" / ".join(f"{statistics.median(rates):,.0f}" for rates in zip(*found)) for found in others.values()]
    if others:
        best = [max(others.values(), key=lambda found: statistics.median(r[phase] for r in found)) for phase in (0, 1)]
        cells += [", ".join(ratio(phases[phase], [r[phase] for r in best[phase]]) for phase in (0, 1))]
    peak = "peak_gflops" if own[0]["type"].lower().startswith(("f32", "f16", "bf16")) else "byte_peak_gflops"
    cells += [f"{median('decode_gbps') / median('read_gbps'):.2f} of {median('read_gbps'):.0f} GB/s"]
    cells += [f"{median('prefill_gflops') / median(peak):.2f} of {median(peak):,.0f}"]
    return "| " + " | ".join(cells) + " |"


def processor():
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", default="2")
    args = parser.parse_args()
    peers = dict(p.split("=", 1) for p in args.peer)
    head = ["model", "norma", *peers, *(["norma / better: prefill, decode"] if peers else [])]
    head += ["decode / reading", "prefill / peak, Gop/s"]
    print(f"{processor()}, {args.threads} threads, {datetime.date.today()}, load {os.getloadavg()[0]:.1f}", end="\n\n")
    print("| " + " | ".join(head) + " |", "|" + " --- |" * len(head), sep="\n")
    for model in args.models:
        print(row(model, *measure(model, peers, args.rounds, args.threads)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
