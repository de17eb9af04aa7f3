"""The experiment of docs/experiment.md: the bundled model's architecture with other norms, same data, seeds and budget.

Owns the choice of norms, placements, learning rates and seeds, and the report. train.py trains, export_gguf.py writes
the models, and norma's -m bench measures its speed. Everything is written to one folder: a folder for each training
run, and a line in results.csv for its losses. Finished runs are skipped, and an interrupted run continues.
docs/experiment.csv is such a file: copied to FOLDER/results.csv, it skips its runs. The data come from a folder that
train.py has filled.

    python scripts/train/experiment.py build/experiment --data build/stories
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
CASES = {  # name: (norms, placement, norms of queries and keys, more options of train.py)
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
MORE_CASES = {
    "rms_cold": ("rms", "pre", "none", "--warm-up", "0"),
    "post_cold": ("rms", "post", "none", "--warm-up", "0"),
    "rms_apart": ("rms", "pre", "none", "--separate-classifier"),
    "dyt_apart": ("dyt", "pre", "none", "--separate-classifier"),
    "none_apart": ("none", "pre", "none", "--separate-classifier"),
    "rms_scaled": ("rms", "pre", "none", "--scaled-embeddings"),
    "post_scaled": ("rms", "post", "none", "--scaled-embeddings"),
    "sandwich_scaled": ("rms", "sandwich", "none", "--scaled-embeddings"),
    "olmo2_scaled": ("rms", "inside", "vector", "--scaled-embeddings"),
    "rms_scaled_cold": ("rms", "pre", "none", "--scaled-embeddings", "--warm-up", "0"),
    "post_scaled_cold": ("rms", "post", "none", "--scaled-embeddings", "--warm-up", "0"),
    "sandwich_scaled_cold": ("rms", "sandwich", "none", "--scaled-embeddings", "--warm-up", "0"),
    "olmo2_scaled_cold": ("rms", "inside", "vector", "--scaled-embeddings", "--warm-up", "0"),
}
RATES = 1e-3, 2e-3, 4e-3, 8e-3, 16e-3
EXPORTED = "rms", "layer", "mixed", "olmo2", "qk"
TIMED_STEPS = 9
MEAN_OVER = 10  # steps per point of a curve


def train_one(run, args):
    """The last held-out loss of a run (case, rate, seed), and its training losses as means of MEAN_OVER steps."""
    case, rate, seed = run
    folder = args.folder / f"{case}-{rate:g}-{seed}"
    log = folder / "log.csv"
    if not log.exists() or not log.read_text().splitlines()[-1].startswith(f"{args.steps},"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.model", "train.npy", "held_out.npy"):
            if not (folder / name).exists():
                (folder / name).symlink_to((args.data / name).resolve())
        norm, placement, qk_norm, *more = (CASES | MORE_CASES)[case]
        options = {"norm": norm, "placement": placement, "qk-norm": qk_norm, "lr": rate, "seed": seed}
        options |= {"steps": args.steps, "batch": args.batch, "threads": 1}
        named = (str(x) for name, value in options.items() for x in (f"--{name}", value))
        subprocess.run(
            [sys.executable, SCRIPTS / "train.py", folder, *named, *more], check=True, stdout=subprocess.DEVNULL
        )
    losses = torch.load(folder / "checkpoint.pt", weights_only=True)["losses"]
    return float(log.read_text().splitlines()[-1].split(",")[3]), *np.mean(np.reshape(losses, (-1, MEAN_OVER)), axis=1)


def read_results(path):
    """Returns {(case, rate, seed): (held-out loss, training losses...)}."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]] if path.exists() else []
    return {(row[0], float(row[1]), int(row[2])): tuple(map(float, row[3:])) for row in rows}


def train_all(runs, path, args):
    """Trains the missing runs, adding a line to the file at the end of each; returns all results."""
    found = read_results(path)
    missing = [run for run in runs if run not in found]
    with ThreadPoolExecutor(args.jobs) as pool, path.open("a") as out:
        if not out.tell():
            steps = range(MEAN_OVER, args.steps + 1, MEAN_OVER)
            out.write(f"norms,learning_rate,seed,held_out_loss,{','.join(map(str, steps))}\n")
        for (case, rate, seed), values in zip(
            missing, pool.map(lambda run: train_one(run, args), missing), strict=True
        ):
            line = f"{case},{rate:g},{seed},{','.join(f'{x:.4f}' for x in values)}\n"
            out.write(line)
            out.flush()
            print(line[:40], file=sys.stderr, flush=True)
    return read_results(path)


def steps_per_second(args):
    """Returns {case: training steps per second}: medians; the cases alternate step by step."""
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
    """Returns {case: (prefill, decode)} in tokens/s: medians of several benchmarks, files alternating."""
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
    parser.add_argument("--data", metavar="FOLDER", type=Path, required=True, help="train.py's folder")
    parser.add_argument("--run", default="./run", help="norma [./run]")
    parser.add_argument("--steps", type=int, default=300, help="[300]")
    parser.add_argument("--batch", type=int, default=12, help="[12]")
    parser.add_argument(
        "--cases", nargs="+", choices=CASES | MORE_CASES, default=CASES, metavar="CASE", help="[all but those with _]"
    )
    parser.add_argument("--rates", nargs="+", type=float, default=RATES, metavar="RATE", help="learning rates [all]")
    parser.add_argument("--seeds", type=int, default=1, help="[1]")
    parser.add_argument("--jobs", type=int, default=2, help="parallel runs, one thread each [2]")
    parser.add_argument("--train-only", action="store_true", help="measure no speeds")
    args = parser.parse_args()

    runs = [(case, rate, seed) for seed in range(1, args.seeds + 1) for rate in args.rates for case in args.cases]
    args.folder.mkdir(parents=True, exist_ok=True)
    found = train_all(runs, args.folder / "results.csv", args)
    rates = sorted({rate for _, rate, _ in found})
    print(f"| norms | {' | '.join(f'{rate:g}' for rate in rates)} |")
    print(f"| --- |{' --- |' * len(rates)}")
    for case in CASES | MORE_CASES:
        cells = [[f"{found[run][0]:.3f}" for run in sorted(found) if run[:2] == (case, rate)] for rate in rates]
        print(f"| {case} | {' | '.join(map(', '.join, cells))} |")
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
