"""Plots the CSV file of `run MODEL --profile=x.csv`: the time of every layer by site, and the residual stream by depth.

Writes NAME.png and NAME.svg, with a column for each phase in the file.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "norma"  # makes the output reproducible
import matplotlib.pyplot as plt
from profiles import read

BEFORE = "(start)", "embed"
COLORS = {  # norms: reds; attention: blues; MLP: greens; outside the layers: greys
    "attn_norm": "#d62728",
    "mlp_norm": "#ff7f6e",
    "final_norm": "#8c1515",
    "attn_post_norm": "#b5651d",
    "mlp_post_norm": "#e3a857",
    "q_norm": "#e377c2",
    "k_norm": "#f7b6d2",
    "input": "#8aa8d6",
    "qkv": "#1f4e9c",
    "rope": "#3470c4",
    "attention": "#4f8fd9",
    "attn_out": "#a6cbf0",
    "router": "#145a2a",
    "top_k": "#1d7a3a",
    "gate_up+silu": "#2a7f3f",
    "down": "#86c98f",
    "residual": "#b9a5d6",
    "gather": "#6b5b95",
    "embed": "#777777",
    "logits": "#aaaaaa",
    "(start)": "#cccccc",
    "(end)": "#cccccc",
    "(wait)": "#f0c36d",
    "(profile)": "#e6e6e6",
}


def places(rows):
    """The positions on the axis: before the layers, each layer ("256-299": these layers together), after them."""
    return ["in", *dict.fromkeys(row["layer"] for row in rows if row["layer"]), "out"]


def place(row):
    return row["layer"] or ("in" if row["site"] in BEFORE else "out")


def draw_bars(axes, rows):
    """A stacked bar for each position: the mean times of its sites."""
    names = places(rows)
    times = defaultdict(lambda: [0.0] * len(names))
    for row in rows:
        times[row["site"]][names.index(place(row))] += float(row["us_per_token"])
    bottom = [0.0] * len(names)
    for site in (site for site in COLORS if site in times):
        axes.bar(names, times[site], bottom=bottom, color=COLORS[site], label=site, width=0.8)
        bottom = [b + t for b, t in zip(bottom, times[site], strict=True)]
    axes.set_ylabel("microseconds per token")
    axes.set_xlabel("layer")


def draw_times(axes, rows, phase):
    draw_bars(axes, rows)
    norms = sum(float(row["share"]) for row in rows if row["rms_in"])
    axes.set_title(f"{phase}: norms take {100 * norms:.1f} %")


def draw_norms(axes, rows):
    draw_bars(axes, [row for row in rows if row["rms_in"]])
    axes.set_title("norms only")


def draw_residual(axes, rows):
    """The residual stream that each norm reads: two points per layer, one for the final norm."""
    offsets = {"attn_norm": -0.25, "mlp_norm": 0.25, "final_norm": 0}  # not q_norm and k_norm, which read other values
    names, norms = places(rows), [row for row in rows if row["site"] in offsets]
    depth = [names.index(place(row)) + offsets[row["site"]] for row in norms]
    axes.plot(depth, [float(row["rms_in"]) for row in norms], "o-", color="#333333", label="RMS")
    axes.plot(depth, [float(row["max_abs"]) for row in norms], "v:", color="#d62728", label="largest |x|")
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylabel("residual stream")
    axes.set_xlabel("layer: the inputs of its two norms; out: the final norm")
    axes.grid(alpha=0.3, which="both")
    axes.legend()


def draw(rows):
    phases = [phase for phase in ("prefill", "decode") if any(row["phase"] == phase for row in rows)]
    width = max(5.5, 0.35 * len(places(rows)))
    figure, grid = plt.subplots(3, len(phases), figsize=(width * len(phases) + 1.8, 10.5), squeeze=False)
    for phase, (above, middle, below) in zip(phases, grid.T, strict=True):
        own = [row for row in rows if row["phase"] == phase]
        draw_times(above, own, phase)
        draw_norms(middle, own)
        draw_residual(below, own)
    handles, labels = grid[0][-1].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 1 - 1.7 / figure.get_figwidth(), 1))
    figure.legend(handles[::-1], labels[::-1], loc="upper right", bbox_to_anchor=(0.995, 0.97))
    return figure


def main():
    parser = argparse.ArgumentParser(description="Draw a profile: NAME.png and NAME.svg.")
    parser.add_argument("csv", help="the file of --profile=x.csv")
    parser.add_argument("-o", "--output", metavar="NAME", help="name of the plots [the CSV file's name without .csv]")
    args = parser.parse_args()
    name = args.output or str(Path(args.csv).with_suffix(""))
    figure = draw(read(args.csv)[1])
    figure.savefig(f"{name}.png", dpi=150)
    figure.savefig(f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"plot_profile.py: {error}")
