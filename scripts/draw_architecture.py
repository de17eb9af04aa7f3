"""Draws docs/architecture.svg: the floors, what stands on them, and the arrows between, from the sources as they are.

    python3 scripts/draw_architecture.py           writes the picture
    python3 scripts/draw_architecture.py --check   status 1 if the picture is not the one that this would write

Owns how it looks. Floors and arrows (an include, or a call of a function of another file) come from scripts/house.py. A
folder is one box, and so is each file of the top level. An arrow that a path of others implies is left out.
"""

import sys
from html import escape
from pathlib import Path

import house

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/architecture.svg"
WIDTH, MARGIN, GAP, LINE = 1080, 20, 44, 17  # pixels: of all; at its edges; between floors; of small text
CENTERS = {  # x of each box that does not stand in the middle of its floor
    "lab/": 250, "formats/": 780, "model.c": 330,
    "attention.c": 430, "mlp.c": 250, "experts.c": 110,
    "norm.c": 250, "rope.c": 370, "kv_cache.c": 490, "sampler.c": 610, "tokenizer.c": 750,
    "model.h": 130, "norm.h": 250, "rope.h": 370, "kv_cache.h": 490, "sampler.h": 610, "tokenizer.h": 750, "text/": 930,
    "kernels/": 400,
}  # fmt: skip
WIDTHS = {"modes/": 620, "lab/": 240, "formats/": 400, "text/": 190, "kernels/": 400, "base/": 620}  # of a folder
FILE_WIDTH = 104
STYLE = """
    .ground { fill: #ffffff } .floor { fill: #f5f5f2 } .number { fill: #8a8a84; font-size: 13px }
    .file { fill: #fff3df; stroke: #d09a3c } .folder { fill: #e9f0f8; stroke: #7d9cc0 }
    text { font-family: ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; text-anchor: middle }
    .name { fill: #23231f; font-size: 15px; font-weight: 600 } .small { fill: #55554f; font-size: 12px }
    .arrow { fill: none; stroke: #77776f; stroke-width: 1.3 } .head { fill: #77776f }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #16181b } .floor { fill: #1f2226 } .number { fill: #85888c }
      .file { fill: #40331b; stroke: #c08f3d } .folder { fill: #1f2f42; stroke: #6485ab }
      .name { fill: #ececea } .small { fill: #b4b6b9 } .arrow { stroke: #9a9da1 } .head { fill: #9a9da1 }
    }"""


class Box:
    def __init__(self, name, floor, files):
        self.name, self.floor = name, floor
        self.width = WIDTHS[name] if name.endswith("/") else FILE_WIDTH
        self.x = CENTERS.get(name, WIDTH / 2) - self.width / 2
        self.lines = wrap(files, self.width)
        self.height = 32 + LINE * len(self.lines)
        self.y = 0
        self.above, self.below = [], []  # boxes that arrows come from, and go to

    @property
    def center(self):
        return self.x + self.width / 2


def wrap(words, width):
    lines = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < width / 6.6:
            lines[-1] += "  " + word
        else:
            lines.append(word)
    return lines


def read_boxes(sources):
    boxes = {}
    for name, floor in sources.floors.items():
        files = [path for path in sources.sources if path == name or (name.endswith("/") and path.startswith(name))]
        inside = sorted({path.split("/")[1].split(".")[0] for path in files if "/" in path})
        if files:
            boxes[name] = Box(name, floor, inside)
    return boxes


def read_arrows(sources, boxes):
    """{box: the boxes it reaches by arrows that nothing else implies}."""
    arrows = {name: set() for name in boxes}
    for source, _, to, _ in sources.arrows():
        start, end = (path.split("/")[0] + "/" if "/" in path else path for path in (source, to))
        if start != end and boxes[start].floor >= boxes[end].floor:
            arrows[start].add(end)

    def reaches(start, end):
        ways, seen = list(arrows[start] - {end}), set()
        while ways:
            name = ways.pop()
            if name == end:
                return True
            if name not in seen:
                seen.add(name)
                ways += arrows[name]
        return False

    return {start: {end for end in ends if not reaches(start, end)} for start, ends in arrows.items()}


def place(boxes):
    """Gives each box its y; returns the floors as (number, y, height)."""
    floors, y = [], MARGIN
    for number in sorted({box.floor for box in boxes.values()}, reverse=True):
        row = [box for box in boxes.values() if box.floor == number]
        height = max(box.height for box in row)
        for box in row:
            box.y = y + (height - box.height) / 2
        floors.append((number, y, height))
        y += height + GAP
    return floors


def port(boxes, box):
    """Where along a side of a box each of its arrows is, in the order of the boxes at their other ends."""
    order = sorted(boxes, key=lambda other: (other.center, other.name))
    room = min(26, (box.width - 20) / max(1, len(order)))
    return {other.name: box.center + (i - (len(order) - 1) / 2) * room for i, other in enumerate(order)}


def draw_arrow(start, end):
    if start.floor != end.floor:
        x1, y1 = port(start.below, start)[end.name], start.y + start.height
        x2, y2 = port(end.above, end)[start.name], end.y - 7
        bend = min(60, (y2 - y1) / 2)
        path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    else:
        right = end.x > start.x
        x1, x2 = (start.x + start.width, end.x - 7) if right else (start.x, end.x + end.width + 7)
        y1, y2 = start.y + start.height / 2, end.y + end.height / 2
        path = f"M{x1:.0f} {y1:.0f} L{x2:.0f} {y2:.0f}"
        if abs(x2 - x1) > 120:  # around what is between
            x1, x2 = start.center + (20 if right else -20), end.center + (-20 if right else 20)
            y1, y2 = start.y + start.height, end.y + end.height + 7
            path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + 32:.0f} {x2:.0f} {y2 + 32:.0f} {x2:.0f} {y2:.0f}"
    return f'  <path class="arrow" marker-end="url(#head)" d="{path}"/>'


def draw_box(box):
    kind = "folder" if box.name.endswith("/") else "file"
    size = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    yield f'  <rect class="{kind}" rx="6" {size}/>'
    yield f'  <text class="name" x="{box.center:.0f}" y="{box.y + 21:.0f}">{escape(box.name)}</text>'
    for i, line in enumerate(box.lines):
        yield f'  <text class="small" x="{box.center:.0f}" y="{box.y + 39 + i * LINE:.0f}">{escape(line)}</text>'


def draw(sources):
    boxes = read_boxes(sources)
    arrows = [(boxes[a], boxes[b]) for a, ends in read_arrows(sources, boxes).items() for b in sorted(ends)]
    for start, end in arrows:
        if start.floor != end.floor:
            start.below.append(end)
            end.above.append(start)
    floors = place(boxes)
    height = floors[-1][1] + floors[-1][2] + MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">']
    out += ["  <title>The floors of norma: an arrow goes from a file to one that it uses, never up</title>"]
    out += [f"  <style>{STYLE}\n  </style>"]
    out += [
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    ]
    out += ['    <path class="head" d="M0 0 L8 4 L0 8 Z"/></marker></defs>']
    out += [f'  <rect class="ground" width="{WIDTH}" height="{height}"/>']
    for number, y, tall in floors:
        out += [f'  <rect class="floor" x="8" y="{y - 10}" width="{WIDTH - 16}" height="{tall + 20}" rx="4"/>']
        out += [f'  <text class="number" x="26" y="{y + tall / 2 + 5:.0f}">{number}</text>']
    out += [draw_arrow(start, end) for start, end in arrows]
    out += [line for box in boxes.values() for line in draw_box(box)]
    return "\n".join([*out, "</svg>"]) + "\n"


def main(arguments):
    picture = draw(house.House(ROOT))
    if "--check" not in arguments:
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        print("docs/architecture.svg:1: not what scripts/draw_architecture.py makes of these sources: run it again")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
