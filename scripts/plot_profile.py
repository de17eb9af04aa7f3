"""Draws what `run MODEL --profile=x.csv` measured: the time of every layer by site, and the residual stream by depth.

Writes NAME.png and NAME.svg. Prefill and decode stand side by side where the file has both.
"""

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "norma"  # the same file for the same numbers
import matplotlib.pyplot as plt

COLUMNS = "phase,layer,site,calls,tokens,seconds,us_per_token,share,bytes,gb_per_s,rms_in,rms_out,max_abs"
BEFORE = "(start)", "embed"
COLORS = {  # norms in reds, attention in blues, MLP in greens, what is not in a layer in greys
    "attn_norm": "#d62728",
    "mlp_norm": "#ff7f6e",
    "final_norm": "#8c1515",
    "q_norm": "#e377c2",
    "k_norm": "#f7b6d2",
    "qkv+rope": "#1f4e9c",
    "attention": "#4f8fd9",
    "attn_out": "#a6cbf0",
    "router": "#145a2a",
    "gate_up+silu": "#2a7f3f",
    "down": "#86c98f",
    "embed": "#777777",
    "logits": "#aaaaaa",
    "(start)": "#cccccc",
    "(profile)": "#e6e6e6",
}


def read(path):
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS.split(","):
            raise ValueError(f"{path}: its first line is not '{COLUMNS}'")
        rows = list(reader)
    if not rows:
        raise ValueError(f"{path}: no site was profiled")
    return rows


def places(rows):
    """Where a row is drawn: in front of the layers, in one of them, behind them."""
    layers = [str(n) for n in sorted({int(row["layer"]) for row in rows if row["layer"]})]
    return ["in", *layers, "out"]


def place(row):
    return row["layer"] or ("in" if row["site"] in BEFORE else "out")


def draw_times(axes, rows, phase):
    names = places(rows)
    times = defaultdict(lambda: [0.0] * len(names))
    tokens = max(int(row["tokens"]) for row in rows if row["site"] == "embed")
    for row in rows:
        times[row["site"]][names.index(place(row))] += 1e6 * float(row["seconds"]) / tokens
    bottom = [0.0] * len(names)
    for site in (site for site in COLORS if site in times):
        axes.bar(names, times[site], bottom=bottom, color=COLORS[site], label=site, width=0.8)
        bottom = [b + t for b, t in zip(bottom, times[site], strict=True)]
    norms = sum(float(row["share"]) for row in rows if row["rms_in"])
    axes.set_title(f"{phase}, {tokens} tokens: norms take {100 * norms:.1f} %")
    axes.set_ylabel("microseconds a token")
    axes.set_xlabel("layer")


def draw_residual(axes, rows):
    """Every norm's view of the stream that it reads: two points to a layer, the final norm's at the end."""
    offsets = {"attn_norm": -0.25, "mlp_norm": 0.25, "final_norm": 0}  # q_norm and k_norm read something else
    names, norms = places(rows), [row for row in rows if row["site"] in offsets]
    depth = [names.index(place(row)) + offsets[row["site"]] for row in norms]
    axes.plot(depth, [float(row["rms_in"]) for row in norms], "o-", color="#333333", label="RMS")
    axes.plot(depth, [float(row["max_abs"]) for row in norms], "v:", color="#d62728", label="largest |x|")
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylabel("residual stream")
    axes.set_xlabel("layer: what its two norms read; out: the final norm")
    axes.grid(alpha=0.3, which="both")
    axes.legend()


def draw(rows):
    phases = [phase for phase in ("prefill", "decode") if any(row["phase"] == phase for row in rows)]
    width = max(5.5, 0.35 * len(places(rows)))
    figure, grid = plt.subplots(2, len(phases), figsize=(width * len(phases) + 1.8, 7.5), squeeze=False)
    for phase, (above, below) in zip(phases, grid.T, strict=True):
        own = [row for row in rows if row["phase"] == phase]
        draw_times(above, own, phase)
        draw_residual(below, own)
    handles, labels = grid[0][-1].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 1 - 1.7 / figure.get_figwidth(), 1))
    figure.legend(handles[::-1], labels[::-1], loc="upper right", bbox_to_anchor=(0.995, 0.97))
    return figure


def main():
    parser = argparse.ArgumentParser(description="Draw a profile: NAME.png and NAME.svg.")
    parser.add_argument("csv", help="what --profile=x.csv wrote")
    parser.add_argument("-o", "--output", metavar="NAME", help="[the CSV's name without its ending]")
    args = parser.parse_args()
    name = args.output or str(Path(args.csv).with_suffix(""))
    figure = draw(read(args.csv))
    figure.savefig(f"{name}.png", dpi=150)
    figure.savefig(f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"plot_profile.py: {error}")
