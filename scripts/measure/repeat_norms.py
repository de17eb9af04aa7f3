"""What norms cost in repeated runs: medians, with intervals that cover the spread between runs.

    python3 scripts/measure/repeat_norms.py --runs 11 models/stories.gguf -j 1 --seconds 5

Runs `./run ... -m norms --json` several times. The intervals of a single run leave out what is the same throughout it,
but not in the next: where its memory and its code lie. These intervals are those of the median over runs (95 %, from
order statistics).
"""

import argparse
import json
import statistics
import subprocess
import sys

from compare_profiles import rank

FIELDS = "prefill_percent", "prefill_us_per_token", "decode_percent", "decode_us_per_token"


def run(arguments):
    """The rows of one run: {norms: object}."""
    out = subprocess.run(["./run", *arguments, "-m", "norms", "--json"], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    return {row["norms"]: row for row in rows if "norms" in row}


def main():
    parser = argparse.ArgumentParser(description="Repeats -m norms; other arguments are those of ./run.")
    parser.add_argument("--runs", type=int, default=11, help="number of runs [11]")
    args, arguments = parser.parse_known_args()
    found = []
    for i in range(args.runs):
        found.append(run(arguments))
        print(f"\rrun {i + 1} of {args.runs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    texts = {(row["prompt"], row["steps"]) for rows in found for row in rows.values()}
    print("prompt and decoded tokens:", ", ".join(f"{prompt} + {steps}" for prompt, steps in sorted(texts)))
    k = rank(args.runs, 0.05)
    print(f"{'norms':<12}" + "".join(f"{field:>32}" for field in FIELDS))
    for name in found[0]:
        line = f"{name:<12}"
        for field in FIELDS:
            values = sorted(rows[name][field] for rows in found)
            interval = f" ({values[k - 1]:.2f} to {values[-k]:.2f})" if k else ""
            line += f"{statistics.median(values):.2f}{interval}".rjust(32)
        print(line)
    if not k:
        print(f"{args.runs} runs are too few for intervals")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"repeat_norms.py: {error}")
