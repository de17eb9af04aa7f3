"""Draws the pictures of docs/norms.md: eps inside and outside the root, the gradient by scale, the residual stream by depth.

Owns the curves (closed forms, in float64) and how they look. The residual stream is norma's own account of it, from
`./run MODEL --profile=x.csv`; without that file its picture is left as it is.
"""

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot
from profiles import read

DOCS = Path(__file__).resolve().parent.parent / "docs"
EPS = 1e-5
BLUE, ORANGE, GRAY = "#1f6fb4", "#d9720b", "#888888"
NORM_SITES = "attn_norm", "mlp_norm", "final_norm"


def draw_eps(axes):
    r = np.logspace(-7, 1, 200)
    axes.semilogx(r, r / np.sqrt(r**2 + EPS), color=BLUE, label="inside:  x / sqrt(mean(x²) + eps)")
    axes.semilogx(r, r / (r + EPS), color=ORANGE, linestyle="--", label="outside:  x / (RMS(x) + eps)")
    for at, text in (EPS**0.5, "sqrt(eps)"), (EPS, "eps"):
        axes.axvline(at, color=GRAY, linewidth=0.8, linestyle=":")
        axes.text(at * 0.85, 0.03, text, color=GRAY, rotation=90, ha="right")
    axes.set(
        xlabel="RMS of the token going in", ylabel="RMS coming out", title="eps = 1e-5, inside the root and outside"
    )


def draw_gradient(axes):
    """|dx| of a gradient that is orthogonal to x: 1 / sqrt(mean(x^2) + eps), the scale itself."""
    r = np.logspace(-5, 3, 200)
    for eps, color, style in (1e-5, BLUE, "-"), (1e-6, ORANGE, "--"), (0.0, GRAY, ":"):
        axes.loglog(r, 1 / np.sqrt(r**2 + eps), color=color, linestyle=style, label=f"eps = {eps:g}")
    axes.set(
        xlabel="RMS of the token going in", ylabel="|dx| / |dy|", title="The larger the input, the smaller its gradient"
    )


def read_profile(path):
    """(site with its layer, RMS going in, largest |x|) for every norm, in the order of the decode."""
    rows = [row for row in read(path)[1] if row["phase"] == "decode" and row["site"] in NORM_SITES]
    if not rows:
        raise ValueError(f"{path}: no decode and no norms in it")
    return [
        (f"{row['layer']} {row['site'].removesuffix('_norm')}".strip(), float(row["rms_in"]), float(row["max_abs"]))
        for row in rows
    ]


def draw_residual(axes, profile):
    names, rms, largest = zip(*profile, strict=True)
    axes.semilogy(names, largest, color=ORANGE, marker="s", markersize=4, linestyle="--", label="largest |x|")
    axes.semilogy(names, rms, color=BLUE, marker="o", markersize=4, label="RMS, over all tokens")
    axes.set(xlabel="layer and norm", ylabel="residual stream going in", title="The residual stream grows with depth")
    axes.tick_params(axis="x", rotation=45)


def save(name, png, draw, *args):
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    draw(axes, *args)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    figure.savefig(DOCS / f"norms_{name}.svg", metadata={"Date": None})
    if png:
        figure.savefig(png / f"norms_{name}.png", dpi=100)


def main():
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/norms.md.")
    parser.add_argument("--profile", metavar="FILE", help="what --profile=FILE.csv wrote")
    parser.add_argument("--png", metavar="FOLDER", type=Path, help="PNGs as well, into this folder")
    args = parser.parse_args()
    matplotlib.use("svg")
    # text as text, and the same file each time
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "norma"})
    save("eps", args.png, draw_eps)
    save("gradient", args.png, draw_gradient)
    if args.profile:
        save("residual", args.png, draw_residual, read_profile(args.profile))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"plot_norms.py: {error}")
