"""Draws the figures of docs/norms.md and, with Chinese labels, of docs/norms.zh.md.

Owns the style of the figures and their words in both languages. The data are closed forms in float64, tables of
docs/norms.md (the sizes of gradients) and docs/norms_depth.md (the output of `./run -m norms`), gradients by depth from
textbook_places.py, the losses of docs/experiment.csv (experiment.py), and a profile of the residual stream, from
`./run MODEL -m perplexity -f FILE --profile=x.csv`; without that file its figure is unchanged.
"""

import argparse
import csv
import re
import sys
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

sys.path.extend(str(Path(__file__).resolve().parents[1] / room) for room in ("", "golden"))
from profiles import read
from random_model import uniform

DOCS = Path(__file__).resolve().parents[2] / "docs"
EPS = 1e-5
BLUE, ORANGE, GREEN, GRAY = "#1f6fb4", "#d9720b", "#3a8f3a", "#888888"
NORM_SITES = "attn_norm", "mlp_norm", "final_norm"
CHINESE = {
    "inside": "分支后归一化",
    "sandwich": "三明治",
    "A token's path through a layer": "一个 token 穿过一层的路",
    "one of the 5 layers; the stream itself is never normalized": "5 层中的一层；残差流本身从不归一化",
    "attention": "注意力",
    "embedding": "嵌入",
    "output": "输出",
    "logits [512]": "logits [512]",
    "One sublayer with its norm in four places": "同一个子层，归一化的四种位置",
    "features": "特征",
    "tokens": "token",
    "samples": "样本",
    "Numbers that share one mean": "哪些数合求一个均值",
    "RMS of the input token": "输入 token 的 RMS",
    "RMS of the output": "输出的 RMS",
    "eps = 1e-5, inside the root and outside": "eps = 1e-5，在根号里与根号外",
    "inside:  x / sqrt(mean(x²) + eps)": "根号里：x / sqrt(mean(x²) + eps)",
    "outside:  x / (RMS(x) + eps)": "根号外：x / (RMS(x) + eps)",
    "The larger the input, the smaller its gradient": "输入越大，梯度越小",
    "statement 15, 10 tokens of dim 8": "第 15 条，10 个 dim 为 8 的 token",
    "layer and norm": "层与归一化",
    "residual stream at the norm's input": "输入的残差流",
    "The residual stream grows with depth": "残差流随深度增长",
    "largest |x|": "最大的 |x|",
    "RMS, over all tokens": "RMS，所有 token 合计",
    "tokens of dim 2, before and after norms": "dim 为 2 的 token，以及归一化的结果",
    "RMSNorm: the same direction, length sqrt(2)": "RMSNorm：方向不变，长度为 sqrt(2)",
    "LayerNorm: the part along [1, 1] is gone": "LayerNorm：沿 [1, 1] 的部分没有了",
    "first element": "第一个元素",
    "second element": "第二个元素",
    "depth": "深度",
    "|dL/dx| / |dL/dy| of the final norm": "|dL/dx| / final norm 的 |dL/dy|",
    "12 sublayers with random matrices": "12 个子层，矩阵随机",
    "pre-norm": "pre-norm",
    "post-norm": "post-norm",
    "inside the residual, sandwich": "分支后归一化、三明治",
    "dim (one token, one thread)": "dim（1 个 token，1 个线程）",
    "ns per element": "每个元素的纳秒数",
    "The cost of one norm": "一次归一化的开销",
    "LayerNorm, in place": "LayerNorm，实际调用处",
    "RMSNorm, in place": "RMSNorm，实际调用处",
    "LayerNorm, warm": "LayerNorm，热缓存",
    "RMSNorm, warm": "RMSNorm，热缓存",
    "peak learning rate": "学习率峰值",
    "held-out loss, nats per token": "留出集损失，nat / token",
    "Learning rates that each variant tolerates": "各种归一化能承受的学习率",
    "step": "步",
    "training loss, nats per token": "训练损失，nat / token",
    "Training, peak learning rate 0.002": "训练过程，学习率峰值 0.002",
}
LEGENDS = {  # where matplotlib's choice covers points or a line
    "arrows": {"loc": "center right"},
    "eps": {"loc": "lower right"},
    "rates": {"loc": "upper center", "ncols": 2},
}
language = "en"


def translate(text):
    return CHINESE[text] if language == "zh" else text


def label(axes, x, y, title):
    axes.set(xlabel=translate(x), ylabel=translate(y), title=translate(title))


def draw_arrows(axes):
    points = np.array([[0.5, 0.9], [1.9, 0.7], [2.2, 2.0], [0.4, -0.5], [1.8, -1.0]])
    circle = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.sqrt(2) * np.cos(circle), np.sqrt(2) * np.sin(circle), color=GRAY, linewidth=0.8, linestyle=":")
    axes.plot([-1.6, 1.6], [1.6, -1.6], color=GRAY, linewidth=0.8, linestyle=":")
    for x in points:
        axes.annotate("", x, (0, 0), arrowprops={"arrowstyle": "->", "color": GRAY, "linewidth": 1.2})
    after = points / np.sqrt((points**2).mean(1, keepdims=True))
    axes.plot(*after.T, "o", color=BLUE, label=translate("RMSNorm: the same direction, length sqrt(2)"))
    centered = points - points.mean(1, keepdims=True)
    after = centered / np.sqrt((centered**2).mean(1, keepdims=True))
    axes.plot(*after.T, "s", color=ORANGE, label=translate("LayerNorm: the part along [1, 1] is gone"))
    axes.set(aspect="equal", xlim=(-1.9, 7.4), ylim=(-1.7, 2.2))
    label(axes, "first element", "second element", "tokens of dim 2, before and after norms")


def draw_places(axes):
    """Four residual blocks, from bottom to top: the stream on the left, the branch on the right."""
    blocks = {
        "pre-norm": (1.0, None, None),
        "post-norm": (None, None, 4.0),
        "inside": (None, 3.0, None),
        "sandwich": (1.0, 3.0, None),
    }  # heights of the norms: before f, after f, on the stream

    def box(x, y, text, color):
        axes.text(x, y, text, ha="center", va="center", bbox={"boxstyle": "round", "fc": "white", "ec": color})

    for i, (name, (before, after, stream)) in enumerate(blocks.items()):
        x, f = 3.2 * i, 3.2 * i + 1.3
        axes.annotate("", (x, 5), (x, 0), arrowprops={"arrowstyle": "->", "color": GRAY, "linewidth": 1.6})
        axes.plot([x, f, f, x], [0.4, 0.4, 3.6, 3.6], color=GRAY, linewidth=1.2)
        box(f, 2.0, "f", BLUE)
        for at, place in (f, before), (f, after), (x, stream):
            if place:
                box(at, place + (0.25 if at == x else 0), "norm", ORANGE)
        box(x, 3.6 if not stream else 3.5, "+", GRAY)
        axes.text(x + 0.6, -0.4, translate(name), ha="center", va="top")
    axes.set(xlim=(-0.8, 11.8), ylim=(-1.0, 5.2))
    axes.set_axis_off()
    axes.set_title(translate("One sublayer with its norm in four places"))


def draw_token(axes):
    """The residual stream of one token from left to right, below; the two sublayers of a layer above it. Sizes are those
    of stories260K."""
    stream, branch, norms = 0.0, 1.5, {"attn_norm": 2.6, "mlp_norm": 8.7, "final_norm": 14.3}

    def box(x, y, text, color):
        bbox = {"boxstyle": "round", "fc": "white", "ec": color}
        axes.text(x, y, text, ha="center", va="center", fontsize=7, bbox=bbox)

    def line(xs, ys):
        axes.plot(xs, ys, color=GRAY, linewidth=1.1, zorder=0)

    axes.annotate("", (17.5, stream), (0.6, stream), arrowprops={"arrowstyle": "->", "color": GRAY, "linewidth": 1.8})
    for left, right in (1.6, 7.2), (7.6, 13.0):
        line([left, left, right, right], [stream, branch, branch, stream])
        box(right, stream, "+", GRAY)
    for name, x in norms.items():
        box(x, stream if name == "final_norm" else branch, name, ORANGE)
    box(4.2, branch, "wq\nwk\nwv", BLUE)
    box(5.4, branch, translate("attention"), BLUE)
    box(6.6, branch, "wo", BLUE)
    box(10.1, branch, "gate\nup", BLUE)
    box(11.2, branch, "SwiGLU", BLUE)
    box(12.4, branch, "down", BLUE)
    box(0.3, stream, translate("embedding"), BLUE)
    box(15.9, stream, translate("output"), BLUE)
    for x, y, text in (
        (1.1, stream + 0.25, "x [64]"),
        (3.5, branch + 0.25, "[64]"),
        (4.75, branch + 0.55, "q [64]\nk, v [32]"),
        (9.5, branch + 0.25, "[64]"),
        (10.6, branch + 0.5, "[172]"),
        (15.2, stream + 0.25, "[64]"),
        (17.0, stream + 0.25, translate("logits [512]")),
        (7.0, stream - 0.75, translate("one of the 5 layers; the stream itself is never normalized")),
    ):
        axes.text(x, y, text, ha="center", va="center", fontsize=7, color=GRAY)
    axes.plot(
        [1.4, 1.4, 13.3, 13.3], [stream - 0.35, stream - 0.5, stream - 0.5, stream - 0.35], color=GRAY, linewidth=0.8
    )
    axes.set(xlim=(-0.6, 18.0), ylim=(-1.0, 2.3))
    axes.set_axis_off()
    axes.set_title(translate("A token's path through a layer"))


def draw_axes_of_norms(axes):
    """A batch as a block of samples, tokens and features; what is averaged into one number is dark."""
    size = 4
    norms = {"BatchNorm": lambda b, t, f: f == 0, "LayerNorm, RMSNorm": lambda b, t, f: b == 0 and t == size - 1}

    def cell(x, y, a, b, dark):
        corners = [(x, y), (x + a[0], y + a[1]), (x + a[0] + b[0], y + a[1] + b[1]), (x + b[0], y + b[1])]
        axes.fill(*zip(*corners, strict=True), facecolor=ORANGE if dark else "white", edgecolor=GRAY, linewidth=0.8)

    right, up, back = (1.0, 0.0), (0.0, 1.0), (0.45, 0.35)
    for i, (name, dark) in enumerate(norms.items()):
        x0, last = 9.0 * i, size - 1
        for j in range(size):
            for k in range(size):
                cell(x0 + j, k, right, up, dark(0, k, j))  # front: sample 0
                cell(x0 + j + 0.45 * k, size + 0.35 * k, right, back, dark(k, last, j))  # top: last token
                cell(x0 + size + 0.45 * k, j + 0.35 * k, back, up, dark(k, j, last))  # side: last feature
        axes.text(x0 + size / 2, -0.3, translate("features"), ha="center", va="top", color=GRAY)
        axes.text(x0 - 0.2, size / 2, translate("tokens"), ha="right", va="center", rotation=90, color=GRAY)
        axes.text(x0 + size + 1.3, 0.4, translate("samples"), ha="left", va="center", color=GRAY)
        axes.text(x0 + size / 2 + 0.9, size + 1.8, name, ha="center")
    axes.set(xlim=(-1, 17), ylim=(-1.2, 6.8), aspect="equal")
    axes.set_axis_off()
    axes.set_title(translate("Numbers that share one mean"))


def draw_eps(axes):
    r = np.logspace(-7, 1, 200)
    axes.semilogx(r, r / np.sqrt(r**2 + EPS), color=BLUE, label=translate("inside:  x / sqrt(mean(x²) + eps)"))
    axes.semilogx(r, r / (r + EPS), color=ORANGE, linestyle="--", label=translate("outside:  x / (RMS(x) + eps)"))
    for at, text in (EPS**0.5, "sqrt(eps)"), (EPS, "eps"):
        axes.axvline(at, color=GRAY, linewidth=0.8, linestyle=":")
        axes.text(at * 0.85, 0.03, text, color=GRAY, rotation=90, ha="right")
    label(axes, "RMS of the input token", "RMS of the output", "eps = 1e-5, inside the root and outside")


def draw_gradient(axes):
    """|dx| for a gradient that is orthogonal to x, 1 / sqrt(mean(x^2) + eps), and the chapter's table."""
    r = np.logspace(-5, 3, 200)
    for eps, color, style in (1e-5, BLUE, "-"), (1e-6, ORANGE, "--"), (0.0, GRAY, ":"):
        axes.loglog(r, 1 / np.sqrt(r**2 + eps), color=color, linestyle=style, label=f"eps = {eps:g}")
    chapter = (DOCS / "norms.md").read_text()
    scales, sizes = (
        np.array([float(cell) for cell in re.search(rf"^\| {name} \|(.*)\|$", chapter, re.MULTILINE)[1].split("|")])
        for name in ("x times", "RMS of dx")
    )
    x, dy = (np.sqrt((uniform(7, tensor, (10, 8)).astype(float) ** 2).mean()) for tensor in (3, 4))
    axes.loglog(4 * x * scales, sizes / dy, "o", color=BLUE, label=translate("statement 15, 10 tokens of dim 8"))
    axes.set(xlabel=translate("RMS of the input token"), ylabel="|dx| / |dy|")
    axes.set_title(translate("The larger the input, the smaller its gradient"))


def draw_depth(axes):
    from textbook_places import gradients_by_depth  # needs PyTorch

    places = {"pre": "pre-norm", "post": "post-norm", "inside": "inside the residual, sandwich"}
    for (place, name), color, marker in zip(places.items(), (BLUE, ORANGE, GREEN), "osD", strict=True):
        axes.plot(gradients_by_depth(place), color=color, marker=marker, markersize=4, label=translate(name))
    axes.set_ylim(0, 1.1)
    label(axes, "depth", "|dL/dx| / |dL/dy| of the final norm", "12 sublayers with random matrices")


def draw_cost(axes):
    """The rows for one token of the chapter's output of `./run -m norms`."""
    rows = re.findall(
        r"^ +(\d+) +1 +1 +([\d.]+) +([\d.]+) .*\| +([\d.]+) +([\d.]+) ", (DOCS / "norms_depth.md").read_text(), re.MULTILINE
    )
    dim, *columns = np.array(rows, dtype=float).T
    names = "RMSNorm, warm", "LayerNorm, warm", "RMSNorm, in place", "LayerNorm, in place"
    looks = (BLUE, "-", "o"), (ORANGE, "-", "s"), (BLUE, "--", "o"), (ORANGE, "--", "s")
    for i in 3, 2, 1, 0:
        color, style, marker = looks[i]
        axes.loglog(
            dim, columns[i] / dim, color=color, linestyle=style, marker=marker, markersize=4, label=translate(names[i])
        )
    axes.set_xticks(dim, [f"{d:g}" for d in dim])
    axes.minorticks_off()
    label(axes, "dim (one token, one thread)", "ns per element", "The cost of one norm")


def read_experiment():
    """Returns {case: rows} for the main cases, in the order of the file."""
    cases = {}
    with (DOCS / "experiment.csv").open() as file:
        for row in csv.DictReader(file):
            if "_" not in row["norms"]:
                cases.setdefault(row["norms"], []).append(row)
    return cases


def draw_cases(axes, lines):
    """lines: {case: (x, y)}; each has a separate color and marker."""
    for i, (case, (x, y)) in enumerate(lines.items()):
        axes.plot(
            x,
            y,
            color=pyplot.get_cmap("tab10")(i),
            marker="osD^vP*Xh"[i],
            markersize=4,
            linewidth=1,
            markevery=1 if len(x) < 10 else 5,
            label=case,
        )


def draw_rates(axes):
    """Means over seeds; values far above the best are outside the figure."""
    lines = {}
    for case, rows in read_experiment().items():
        losses = {}
        for row in rows:
            losses.setdefault(float(row["learning_rate"]), []).append(float(row["held_out_loss"]))
        lines[case] = zip(*sorted((rate, np.mean(of_seeds)) for rate, of_seeds in losses.items()), strict=True)
    draw_cases(axes, lines)
    axes.set_xscale("log")
    rates = sorted(losses)
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.minorticks_off()
    axes.set_ylim(0.6, 0.8)
    label(axes, "peak learning rate", "held-out loss, nats per token", "Learning rates that each variant tolerates")


def draw_training(axes):
    lines = {}
    for case, rows in read_experiment().items():
        row = next(row for row in rows if row["learning_rate"] == "0.002" and row["seed"] == "1")
        steps = [name for name in row if name.isdigit()]
        lines[case] = list(map(int, steps)), [float(row[step]) for step in steps]
    draw_cases(axes, lines)
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_yticks([0.7, 1, 2, 4, 8], ["0.7", "1", "2", "4", "8"])
    label(axes, "step", "training loss, nats per token", "Training, peak learning rate 0.002")


def read_profile(path):
    """Returns [(layer and site, RMS of the input, largest |x|)] of all norms, for the phase with most tokens."""
    rows = [row for row in read(path)[1] if row["site"] in NORM_SITES]
    if not rows:
        raise ValueError(f"{path}: no norms in it")
    phase = max(rows, key=lambda row: int(row["tokens"]))["phase"]
    return [
        (f"{row['layer']} {row['site'].removesuffix('_norm')}".strip(), float(row["rms_in"]), float(row["max_abs"]))
        for row in rows
        if row["phase"] == phase
    ]


def draw_residual(axes, profile):
    names, rms, largest = zip(*profile, strict=True)
    label_of_largest = translate("largest |x|")
    axes.semilogy(names, largest, color=ORANGE, marker="s", markersize=4, linestyle="--", label=label_of_largest)
    axes.semilogy(names, rms, color=BLUE, marker="o", markersize=4, label=translate("RMS, over all tokens"))
    label(axes, "layer and norm", "residual stream at the norm's input", "The residual stream grows with depth")
    axes.tick_params(axis="x", rotation=45)


def save(name, png, draw, *args):
    global language
    for language in "en", "zh":
        file = f"norms_{name}" + ("" if language == "en" else ".zh")
        figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
        draw(axes, *args)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, **LEGENDS.get(name, {}))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        figure.savefig(DOCS / f"{file}.svg", metadata={"Date": None})
        if png:
            figure.savefig(png / f"{file}.png", dpi=100)
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description="Draw the figures of docs/norms.md.")
    parser.add_argument("--profile", metavar="FILE", help="a file of --profile=FILE.csv")
    parser.add_argument("--png", metavar="FOLDER", type=Path, help="also write PNG files to this folder")
    args = parser.parse_args()
    matplotlib.use("svg")
    # text stays text, shown in the reader's fonts; the output is reproducible
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "norma"})
    warnings.filterwarnings("ignore", "Glyph .* missing from font")
    save("arrows", args.png, draw_arrows)
    save("places", args.png, draw_places)
    save("token", args.png, draw_token)
    save("axes", args.png, draw_axes_of_norms)
    save("eps", args.png, draw_eps)
    save("gradient", args.png, draw_gradient)
    save("depth", args.png, draw_depth)
    save("cost", args.png, draw_cost)
    save("rates", args.png, draw_rates)
    save("training", args.png, draw_training)
    if args.profile:
        save("residual", args.png, draw_residual, read_profile(args.profile))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"plot_norms.py: {error}")
