"""The experiment of docs/experiment.md: the bundled model's architecture under other norms, same data, seeds and budget.

Owns which norms, where, which learning rates and seeds, and what is reported; training itself is train.py's, the file
export_gguf.py's, and norma's own speed bench's. Everything goes into one folder, a run of training to a folder in it; what
is there already is not done again, and a run that was stopped goes on. The data come from a folder that train.py has filled.

    python scripts/experiment.py build/experiment --data build/stories
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

import train
from llama import Llama

SCRIPTS = Path(__file__).parent
CASES = {  # the norms, where they stand, the norms of queries and keys
    "none": ("none", "pre", "none"),
    "rms": ("rms", "pre", "none"),
    "layer": ("layer", "pre", "none"),
    "mixed": ("mixed", "pre", "none"),
    "post": ("rms", "post", "none"),
    "sandwich": ("rms", "sandwich", "none"),
    "olmo2": ("rms", "inside", "vector"),
    "qk": ("rms", "pre", "head"),
    "dyt": ("dyt", "pre", "none"),
}
RATES = 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2
SEEDS = {2e-3: (1, 2, 3)}  # of the other rates: the first
EXPORTED = "rms", "layer", "mixed", "olmo2", "qk"
TIMED_STEPS = 9
MEAN_OVER = 10  # steps, for a curve's points


def train_one(run, args):
    """The last held-out loss of a run (case, rate, seed), and the loss of each of its steps."""
    case, rate, seed = run
    folder = args.folder / f"{case}-{rate:g}-{seed}"
    log = folder / "log.csv"
    if not log.exists() or not log.read_text().splitlines()[-1].startswith(f"{args.steps},"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.model", "train.npy", "held_out.npy"):
            if not (folder / name).exists():
                (folder / name).symlink_to((args.data / name).resolve())
        norm, placement, qk_norm = CASES[case]
        options = {"norm": norm, "placement": placement, "qk-norm": qk_norm, "lr": rate, "seed": seed}
        options |= {"steps": args.steps, "batch": args.batch, "threads": 1}
        command = [
            sys.executable,
            SCRIPTS / "train.py",
            folder,
            *(str(x) for k, v in options.items() for x in (f"--{k}", v)),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"{folder.name}: {log.read_text().splitlines()[-1]}", file=sys.stderr, flush=True)
    losses = torch.load(folder / "checkpoint.pt", weights_only=True)["losses"]
    return float(log.read_text().splitlines()[-1].split(",")[3]), losses


def write_curves(path, found, rate):
    """Means over steps, of the first seed at one rate: a column for each case."""
    curves = [np.mean(np.reshape(found[case, rate, 1][1], (-1, MEAN_OVER)), axis=1) for case in CASES]
    rows = [
        f"{MEAN_OVER * (i + 1)}," + ",".join(f"{loss:.3f}" for loss in row)
        for i, row in enumerate(zip(*curves, strict=True))
    ]
    path.write_text("\n".join([f"step,{','.join(CASES)}", *rows]) + "\n")


def steps_per_second(args):
    """Medians; the cases take turns, step by step."""
    torch.set_num_threads(args.jobs)
    tokens = train.tokenize(args.data, None, train.N_STORIES, held_out=False)[: args.batch].long()
    models = {case: Llama(train.CONFIG, *kind) for case, kind in CASES.items()}
    optimizers = {case: torch.optim.AdamW(model.parameters(), fused=True) for case, model in models.items()}
    seconds = {case: [] for case in CASES}
    for _ in range(TIMED_STEPS + 1):
        for case, model in models.items():
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model.loss(tokens)
            optimizers[case].zero_grad()
            loss.backward()
            optimizers[case].step()
            seconds[case].append(time.perf_counter() - start)
    return {case: 1 / statistics.median(times[1:]) for case, times in seconds.items()}


def norma_speed(files, run, rounds=5):
    """{case: (prefill, decode)} tokens/s: medians of several benches, the files in turn."""
    found = {case: [] for case in files}
    for _ in range(rounds):
        for case, file in files.items():
            bench = subprocess.run([run, file, "-m", "bench", "--json"], check=True, capture_output=True, text=True)
            found[case].append(json.loads(bench.stdout))
    return {
        case: tuple(statistics.median(bench[key] for bench in benches) for key in ("prefill_tps", "decode_tps"))
        for case, benches in found.items()
    }


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s FOLDER --data FOLDER [options]", description="Compare norms.")
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--data", metavar="FOLDER", type=Path, required=True, help="of train.py: tokenizer and tokens")
    parser.add_argument("--run", default="./run", help="norma [./run]")
    parser.add_argument("--steps", type=int, default=300, help="[300]")
    parser.add_argument("--batch", type=int, default=12, help="[12]")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, a thread each [2]")
    parser.add_argument("--train-only", action="store_true", help="measure no speeds")
    args = parser.parse_args()

    runs = [(case, rate, seed) for rate in RATES for seed in SEEDS.get(rate, (1,)) for case in CASES]
    runs.sort(key=lambda run: run[2])  # the first seed of everything first
    with ThreadPoolExecutor(args.jobs) as pool:
        found = dict(zip(runs, pool.map(lambda run: train_one(run, args), runs), strict=True))
    write_curves(args.folder / "curves.csv", found, 2e-3)
    print(f"| norms | {' | '.join(f'{rate:g}' for rate in RATES)} |")
    print(f"| --- |{' --- |' * len(RATES)}")
    for case in CASES:
        cells = [", ".join(f"{found[case, rate, seed][0]:.3f}" for seed in SEEDS.get(rate, (1,))) for rate in RATES]
        print(f"| {case} | {' | '.join(cells)} |")
    if args.train_only:
        return

    files = {case: args.folder / f"{case}.gguf" for case in EXPORTED}
    for case, file in files.items():
        subprocess.run([sys.executable, SCRIPTS / "export_gguf.py", args.folder / f"{case}-0.002-1", file], check=True)
    training, speeds = steps_per_second(args), norma_speed(files, args.run)
    print("\n| norms | training steps/s | prefill | decode |")
    print("| --- | --- | --- | --- |")
    for case in CASES:
        shown = [f"{x:,.0f}" for x in speeds[case]] if case in speeds else ["-", "-"]
        print(f"| {case} | {training[case]:.2f} | {' | '.join(shown)} |")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"experiment.py: {error}")
