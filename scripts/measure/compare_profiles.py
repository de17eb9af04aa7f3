"""Compares profiles of two programs, norms, threads, types or machines, from pairs of runs.

    python3 scripts/measure/compare_profiles.py A1.csv B1.csv A2.csv B2.csv ...       files of `./run MODEL --profile=x.csv`
    python3 scripts/measure/compare_profiles.py --run "./run -n 200" "./run -n 200 --norm layer" --pairs 15

Prints each site's median time in A and in B, and the median of the pairs' ratios B / A with an interval. The intervals
come from order statistics; in 95 % of comparisons all intervals of a phase are right. "?" marks a ratio whose interval
contains 1. Times of two single runs differ for other reasons, too (the placement of memory, other programs), so there
is no interval for fewer than about 10 pairs.
"""

import argparse
import math
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from profiles import read

SUMS = "all norms", "all work"
MEASURED = "load", "phases", "residual"
NOT_WORK = "(start)", "(end)", "(wait)", "(profile)", "gather"


def run_pairs(commands, pairs):
    """Runs A and B alternately, every other pair in reverse order. Returns the profiles: A, B, A, B, ..."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            for which in order:
                file = Path(folder) / f"{which}.csv"
                file.unlink(missing_ok=True)
                command = [*shlex.split(commands[which]), f"--profile={file}"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found += [read(Path(folder) / f"{which}.csv") for which in (0, 1)]
            print(f"\rpair {pair + 1} of {pairs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def sums_of(rows, layers):
    """Returns {phase: {site: microseconds per token}}, in the order of the forward pass."""
    sums = defaultdict(lambda: defaultdict(float))
    for row in rows:
        us, phase = float(row["us_per_token"]), sums[row["phase"]]
        phase[f"{row['layer']:>3} {row['site']}" if layers else row["site"]] += us
        if row["rms_in"]:
            phase[SUMS[0]] += us
        if row["site"] not in NOT_WORK:
            phase[SUMS[1]] += us
    return sums


def rank(n, error):
    """The largest k for which the k-th smallest and largest of n values enclose the median, except with probability
    `error`; 0 if there is none."""
    k, outside = 0, 0.0
    while k < n // 2:
        outside += 2 * math.comb(n, k) / 2**n
        if outside > error:
            break
        k += 1
    return k


def show(pairs, names):
    k = rank(len(pairs), 0.05 / len(names))
    print(f"{'':<18}{'A, us':>10}{'B, us':>10}{'B / A':>8}  interval")
    for name in sorted(names, key=lambda name: name in SUMS):
        of_pairs = [(a.get(name, 0.0), b.get(name, 0.0)) for a, b in pairs]
        a, b = (statistics.median(times) for times in zip(*of_pairs, strict=True))
        ratios = sorted(b / a for a, b in of_pairs if a > 0 and b > 0)
        line = f"{name:<18}{a:>10.3f}{b:>10.3f}"
        if len(ratios) == len(pairs):
            line += f"{statistics.median(ratios):>8.3f}"
            if k:
                low, high = ratios[k - 1], ratios[-k]
                line += f"  {low:.3f} to {high:.3f}{' ?' if low <= 1 <= high else ''}"
        print(line)
    if not k:
        print(f"{len(pairs)} pairs are too few for intervals")


def main():
    parser = argparse.ArgumentParser(description="Compare profiles, pair by pair.")
    parser.add_argument("files", metavar="A.csv B.csv", nargs="*", help="of --profile=x.csv, alternately of A and B")
    parser.add_argument("--run", nargs=2, metavar=("A", "B"), help="commands to compare, without --profile")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of runs, with --run [15]")
    parser.add_argument("--layers", action="store_true", help="compare every layer separately")
    args = parser.parse_args()
    if bool(args.run) == bool(args.files) or len(args.files) % 2 or args.pairs < 1:
        parser.error("expected pairs of files, or --run A B")
    found = run_pairs(args.run, args.pairs) if args.run else [read(file) for file in args.files]
    about, about_after = found[0][0], found[1][0]
    for name in about:
        if name not in MEASURED and about[name] != about_after[name]:
            print(f"{name}: {about[name]} -> {about_after[name]}")
    sums = [sums_of(rows, args.layers) for _, rows in found]
    for phase in dict.fromkeys(phase for one in sums for phase in one):
        pairs = [(a[phase], b[phase]) for a, b in zip(sums[::2], sums[1::2], strict=True)]
        print(f"\n{phase}, microseconds per token, medians of {len(pairs)} pairs")
        show(pairs, dict.fromkeys(name for pair in pairs for one in pair for name in one))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"compare_profiles.py: {error}")
