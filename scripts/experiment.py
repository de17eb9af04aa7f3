"""The experiment of docs/experiment.md: the bundled model's architecture under other norms, same data, seeds and budget.

Owns which norms, where, which seeds and what is reported; training itself is train.py's, the file export_gguf.py's, and
norma's own speed bench's. Everything goes into one folder, a run of training to a folder in it; what is there already is
not done again. The data come from a folder that train.py has filled.

    python scripts/experiment.py build/experiment --data build/stories
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import train
from llama import Llama

SCRIPTS = Path(__file__).parent
CASES = [  # norms, placement, peak learning rate, how many seeds
    ("rms", "pre", 2e-3, 3),
    ("layer", "pre", 2e-3, 3),
    ("mixed", "pre", 2e-3, 3),
    ("rms", "post", 2e-3, 3),
    ("rms", "pre", 8e-3, 1),
    ("rms", "post", 8e-3, 1),
]
TIMED_STEPS = 9


def train_one(folder, data, norm, placement, lr, seed, args):
    """The last held-out loss of one run."""
    log = folder / "log.csv"
    last = log.read_text().splitlines()[-1].split(",") if log.exists() else ["0"]
    if last[0] != str(args.steps):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.model", "train.npy", "held_out.npy"):
            if not (folder / name).exists():
                (folder / name).symlink_to((data / name).resolve())
        options = {"norm": norm, "placement": placement, "lr": lr, "seed": seed, "steps": args.steps}
        options |= {"batch": args.batch, "threads": args.threads}
        command = [sys.executable, SCRIPTS / "train.py", folder]
        subprocess.run([*command, *(str(x) for k, v in options.items() for x in (f"--{k}", v))], check=True)
        last = log.read_text().splitlines()[-1].split(",")
    return float(last[3])


def steps_per_second(kinds, data, args):
    """Medians; the kinds take turns, step by step."""
    torch.set_num_threads(args.threads)
    tokens = train.tokenize(data, None, train.N_STORIES, held_out=False)[: args.batch].long()
    models = {kind: Llama(train.CONFIG, *kind) for kind in kinds}
    optimizers = {kind: torch.optim.AdamW(model.parameters(), fused=True) for kind, model in models.items()}
    seconds = {kind: [] for kind in kinds}
    for _ in range(TIMED_STEPS + 1):
        for kind, model in models.items():
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model.loss(tokens)
            optimizers[kind].zero_grad()
            loss.backward()
            optimizers[kind].step()
            seconds[kind].append(time.perf_counter() - start)
    return {kind: 1 / statistics.median(times[1:]) for kind, times in seconds.items()}


def norma_speed(files, run, rounds=5):
    """{file: (prefill, decode)} tokens/s: medians of several benches, the files in turn."""
    found = {file: [] for file in files}
    for _ in range(rounds):
        for file in files:
            bench = subprocess.run([run, file, "-m", "bench", "--json"], check=True, capture_output=True, text=True)
            found[file].append(json.loads(bench.stdout))
    return {
        file: tuple(statistics.median(bench[key] for bench in benches) for key in ("prefill_tps", "decode_tps"))
        for file, benches in found.items()
    }


def name_of(norm, placement, lr):
    return f"{norm}-{placement}-{lr:g}"


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s FOLDER --data FOLDER [options]", description="Compare norms.")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--data", metavar="FOLDER", type=Path, required=True, help="of train.py: tokenizer and tokens")
    parser.add_argument("--run", default="./run", help="norma [./run]")
    parser.add_argument("--steps", type=int, default=300, help="[300]")
    parser.add_argument("--batch", type=int, default=16, help="[16]")
    parser.add_argument("--threads", type=int, default=2, help="[2]")
    parser.add_argument("--train-only", action="store_true", help="measure no speeds")
    args = parser.parse_args()

    losses = {case: [] for case in CASES}
    for seed in range(1, max(case[3] for case in CASES) + 1):  # the first seed of every case first
        for case in CASES:
            if seed <= case[3]:
                folder = args.folder / f"{name_of(*case[:3])}-{seed}"
                losses[case].append(train_one(folder, args.data, *case[:3], seed, args))
    if args.train_only:
        return

    kinds = list(dict.fromkeys(case[:2] for case in CASES))
    training = steps_per_second(kinds, args.data, args)
    files = {}
    for case in CASES:
        if case[1] == "pre" and case[:2] not in files:
            files[case[:2]] = args.folder / f"{case[0]}.gguf"
            folder = args.folder / f"{name_of(*case[:3])}-1"
            subprocess.run([sys.executable, SCRIPTS / "export_gguf.py", folder, files[case[:2]]], check=True)
    speeds = norma_speed(list(files.values()), args.run)

    print(
        "| norms | placement | learning rate | held-out loss, each seed | mean | training steps/s | prefill | decode |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case, found in losses.items():
        speed = speeds[files[case[:2]]] if case[:2] in files else None
        shown = [f"{x:,.0f}" for x in speed] if speed else ["-", "-"]
        each = ", ".join(f"{x:.3f}" for x in found)
        row = [*case[:2], f"{case[2]:g}", each, f"{statistics.mean(found):.3f}", f"{training[case[:2]]:.2f}", *shown]
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"experiment.py: {error}")
