"""Draws docs/architecture.svg: the floors, the files and folders on them, and the arrows between them.

    python3 scripts/developer/draw_architecture.py           writes the picture
    python3 scripts/developer/draw_architecture.py --check   status 1 if the picture is out of date

Owns the layout. Floors and arrows (an include, or a call of a function of another file) come from scripts/developer/house.py. A
folder is one box, and so is each file of the top level. An arrow implied by a path of others is omitted.
"""

import sys
from collections import defaultdict
from html import escape
from pathlib import Path

import house

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/architecture.svg"
WIDTH, MARGIN, GAP, LINE = 1180, 20, 44, 17  # pixels: picture, its edges, between floors, small text
CENTERS = {  # x of each box that is not in the middle of its floor
    "run.c": 440, "web/": 560, "lab/": 190, "cluster/": 500, "formats/": 820, "model.c": 365,
    "plain.c": 740, "attention.c": 240, "mlp.c": 440, "experts.c": 560,
    "norm.c": 112, "rope.c": 226, "kv_cache.c": 340, "sampler.c": 738, "tokenizer.c": 850,
    "norm.h": 107, "rope.h": 212, "kv_cache.h": 317, "mlp.h": 422, "plain.h": 527, "model.h": 637, "session.h": 742,
    "sampler.h": 857, "tokenizer.h": 962,
    "text/": 1090,
    "kernels/": 400,
}  # fmt: skip
WIDTHS = {"web/": 94, "modes/": 620, "lab/": 200, "formats/": 330, "cluster/": 104, "text/": 134, "kernels/": 460, "base/": 620}  # of a folder
FILE_WIDTH = 94
STYLE = """
    .ground { fill: #ffffff } .floor { fill: #f5f5f2 } .number { fill: #8a8a84; font-size: 13px }
    .file { fill: #fff3df; stroke: #d09a3c } .folder { fill: #e9f0f8; stroke: #7d9cc0 }
    text { font-family: ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; text-anchor: middle }
    .name { fill: #23231f; font-size: 14px; font-weight: 600 } .small { fill: #55554f; font-size: 12px }
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
        self.y, self.exits, self.entries = 0, {}, {}  # {other box: x} of arrows that begin or end here

    @property
    def center(self):
        return self.x + self.width / 2


def wrap(words, width):
    lines = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < width / 6.8:
            lines[-1] += ", " + word
        else:
            lines = [*lines[:-1], lines[-1] + ","] if lines else []
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
    """Returns {box: boxes}, an arrow for each, without arrows implied by paths through lower floors or headers."""
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
            if name not in seen and (boxes[name].floor > boxes[end].floor or name.endswith(".h")):
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
            if any(other.x < box.x + box.width and box.x < other.x + other.width for other in row if other is not box):
                sys.exit(f"scripts/developer/draw_architecture.py: CENTERS has no room for {box.name} on floor {number}")
        floors.append((number, y, height))
        y += height + GAP
    return floors


def toward(box, other):
    """The x within another box that is nearest to the middle of this box."""
    if other.width == FILE_WIDTH:
        return other.center
    return min(max(box.center, other.x + 12), other.x + other.width - 12)


def spread(box, wanted):
    """Returns {name: x}: spreads arrows along a side of a box, near their preferred x; wanted: [(x, name)]."""
    room, x, ports = min(16, (box.width - 24) / max(1, len(wanted))), box.x + 12, {}
    if len(wanted) == 1 and box.width == FILE_WIDTH:
        return {wanted[0][1]: box.center}
    for i, (best, name) in enumerate(sorted(wanted)):
        max_x = box.x + box.width - 12 - (len(wanted) - 1 - i) * room
        ports[name] = min(max(best, x), max_x)
        x = ports[name] + room
    return ports


def find_lane(lanes, boxes, floors, x1, x2):
    """The x at which an arrow passes these floors by the shortest way, without touching boxes or other arrows."""

    def is_free(x):
        apart = [abs(x - other) >= 10 for number in floors for other in lanes[number]]
        return all(apart) and not any(b.floor in floors and b.x - 9 < x < b.x + b.width + 9 for b in boxes)

    ways = [(abs(x - x1) + abs(x - x2), abs(x - x2), x) for x in range(44, WIDTH - 20) if is_free(x)]
    lane = min(ways)[2]
    for number in floors:
        lanes[number].append(lane)
    return lane


def curve(x1, y1, x2, y2):
    middle = (y1 + y2) / 2
    return f"M{x1:.0f} {y1:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"


def way_down(start, end, boxes, floors, lanes):
    x1, y1, x2, y2 = start.exits[end.name], start.y + start.height, end.entries[start.name], end.y - 7
    between = [(number, y, tall) for number, y, tall in floors if end.floor < number < start.floor]
    passed = [number for number, _, _ in between if any(box.floor == number for box in boxes)]
    if not passed:
        return curve(x1, y1, x2, y2)
    x = find_lane(lanes, boxes, passed, x1, x2)
    top, bottom = between[0][1] - 6, between[-1][1] + between[-1][2] + 6
    return f"{curve(x1, y1, x, top)} L{x} {bottom:.0f} {curve(x, bottom, x2, y2).replace('M', 'L', 1)}"


def way_along(start, end):
    """An arrow on one floor: straight to a neighbor, else below the boxes between."""
    right = end.x > start.x
    x1, x2 = (start.x + start.width, end.x - 7) if right else (start.x, end.x + end.width + 7)
    if abs(x2 - x1) < 120:
        y = end.y + end.height / 2
        return f"M{x1:.0f} {y:.0f} L{x2:.0f} {y:.0f}"
    x1, x2 = start.center + (30 if right else -30), end.center + (-30 if right else 30)
    y1, y2 = start.y + start.height, end.y + end.height + 7
    return f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + 36:.0f} {x2:.0f} {y2 + 36:.0f} {x2:.0f} {y2:.0f}"


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
    floors, lanes = place(boxes), defaultdict(list)
    for box in boxes.values():
        box.exits = spread(box, [(toward(box, b), b.name) for a, b in arrows if a is box and a.floor != b.floor])
    for box in boxes.values():
        box.entries = spread(box, [(a.exits[box.name], a.name) for a, b in arrows if b is box and a.floor != b.floor])
    ways = [way_along(a, b) if a.floor == b.floor else way_down(a, b, boxes.values(), floors, lanes) for a, b in arrows]
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
    out += [f'  <path class="arrow" marker-end="url(#head)" d="{way}"/>' for way in ways]
    out += [line for box in boxes.values() for line in draw_box(box)]
    return "\n".join([*out, "</svg>"]) + "\n"


def main(arguments):
    picture = draw(house.House(ROOT))
    if "--check" not in arguments:
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        print("docs/architecture.svg:1: out of date: run scripts/developer/draw_architecture.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
