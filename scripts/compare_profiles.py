"""Compares two profiles (`./run MODEL --profile=x.csv`) of different norms, threads, types, machines or commits.

Prints the differences of the means with their 95 % intervals; the half-widths of the two intervals add in quadrature. A
"?" marks a difference that is not significant.
"""

import argparse
import math
import sys
from collections import defaultdict

from profiles import read

SUMS = "all norms", "a token"


def half_width(row):
    """The half-width of a mean's interval; NaN if the site ran once."""
    return (float(row["us_high"]) - float(row["us_low"])) / 2 if row["us_low"] else math.nan


def sums_of(rows, key):
    """{phase: {key: (microseconds per token, half-width of the interval)}}, in the order of the forward pass."""
    sums = defaultdict(dict)
    for row in rows:
        for name in key(row):
            us, half = sums[row["phase"]].get(name, (0.0, 0.0))
            sums[row["phase"]][name] = us + float(row["us_per_token"]), math.hypot(half, half_width(row))
    return sums


def by_site(row):
    norms, token = SUMS
    return (row["site"],) + (norms,) * bool(row["rms_in"]) + (token,) * (row["site"] != "(profile)")


def by_layer(row):
    return (f"{row['layer']:>3} {row['site']}",)


def show(before, after):
    nothing = 0.0, 0.0
    print(f"{'':<18}{'A, us':>10}{'B, us':>10}{'B - A':>10}{'+-':>9}{'B / A':>8}")
    for name in sorted(dict.fromkeys([*before, *after]), key=lambda name: name in SUMS):
        (a, half_a), (b, half_b) = before.get(name, nothing), after.get(name, nothing)
        half = math.hypot(half_a, half_b)
        ratio = f"{b / a:8.2f}" if a else " " * 8
        within = f"{half:>9.3f}" if math.isfinite(half) else " " * 9
        print(f"{name:<18}{a:>10.3f}{b:>10.3f}{b - a:>10.3f}{within}{ratio}{'' if abs(b - a) > half else ' ?'}")


def main():
    parser = argparse.ArgumentParser(description="Compare two profiles.")
    parser.add_argument("before", metavar="A.csv", help="the file of --profile=A.csv")
    parser.add_argument("after", metavar="B.csv", help="the file of --profile=B.csv")
    parser.add_argument("--layers", action="store_true", help="compare every layer separately")
    args = parser.parse_args()
    (about, rows), (about_after, rows_after) = read(args.before), read(args.after)
    for name in about:
        if about[name] != about_after[name]:
            print(f"{name}: {about[name]} -> {about_after[name]}")
    key = by_layer if args.layers else by_site
    before, after = sums_of(rows, key), sums_of(rows_after, key)
    for phase in dict.fromkeys([*before, *after]):
        print(f"\n{phase}, microseconds per token")
        show(before[phase], after[phase])


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"compare_profiles.py: {error}")
