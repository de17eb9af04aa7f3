"""Repeats measurements of the documents, and prints old and new numbers next to each other.

    python scripts/measure/remeasure.py --checkpoints FOLDER        everything; takes some minutes
    python scripts/measure/remeasure.py --only norms                the numbers of one command
    python scripts/measure/remeasure.py --check                     no measurement: silent if every number is found

Owns the table of (document, the words around a number, command, how to read its result). It has only numbers that one
command can measure on any machine, not those that need other programs or a quiet machine for minutes. Machines differ:
a ratio may be the same, a time will not. The documents' machine and date are printed after each table.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
STORY = "{checkpoints}/stories260K.bin", "-z", "{checkpoints}/tok512.bin"
TIMING = sys.executable, "scripts/measure/notes_timing.py", "--run", "{run}"
COMMANDS = {
    "norms": ("{run}", "-m", "norms", "--json"),
    "model": ("{run}", *STORY, "-m", "norms", "-j", "1", "--json"),
    "bench": ("{run}", "-m", "bench", "--json"),
    "bench-260K": ("{run}", *STORY, "-m", "bench", "--json"),
    "calls": (*TIMING, "--calls"),
    "timing": (*TIMING, "--threads", "1"),
}
# words: text of the document, with {} for the number and ... for anything in the line
Measured = namedtuple("Measured", "document words command read")


def first(numbers):
    for n in numbers:
        return n
    raise ValueError("the command does not print the expected number")


def case(tokens, dim, key):
    """Reads the output of -m norms --json: an object per line."""
    rows = lambda out: (json.loads(line) for line in out.splitlines())
    return lambda out: first(row[key] for row in rows(out) if (row.get("tokens"), row.get("dim")) == (tokens, dim))


def share(norms, key):
    """Reads a model's output of -m norms --json."""
    rows = lambda out: (json.loads(line) for line in out.splitlines())
    return lambda out: first(row[key] for row in rows(out) if row.get("norms") == norms)


def inverse(read):
    return lambda out: 1 / read(out)


def value(key):
    return lambda out: json.loads(out)[key]


def found(words):
    """Reads the number in a line of text."""
    return lambda out: first(number(match[1]) for match in pattern(words).finditer(out))


def column(shape, name):
    """Reads notes_timing.py's table, whose column names contain single spaces."""

    def read(out):
        table = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
        return first(
            number(row[head.index(name)]) for head in table for row in table if name in head and row[0] == shape
        )

    return read


NORMS, DEPTH = "docs/norms.md", "docs/norms_depth.md"
APPENDIX, NOTEBOOK = "docs/norms_appendix.md", "docs/notebook.md"
TABLE = [
    Measured(NORMS, "RMSNorm takes {} times as long as the copy", "norms", inverse(case(512, 4096, "copy_to_rmsnorm"))),
    Measured(NORMS, "and LayerNorm {} times as long as RMSNorm", "norms", case(512, 4096, "layernorm_to_rmsnorm")),
    Measured(NORMS, "LayerNorm takes {} times as long, for two reasons", "norms", case(1, 4096, "layernorm_to_rmsnorm")),
    Measured(NORMS, "fast as possible: {} ns", "norms", case(1, 4096, "rmsnorm_ns")),
    Measured(NORMS, "do not overlap: {} ns", "norms", case(1, 4096, "rmsnorm_in_place_ns")),
    Measured(NORMS, "and LayerNorm is {} times that", "norms", case(1, 4096, "layernorm_to_rmsnorm_in_place")),
    Measured(DEPTH, "Here it is {} at dim 8 and 64", "norms", case(1, 8, "layernorm_to_rmsnorm")),
    Measured(DEPTH, "; {} at 1024;", "norms", case(1, 1024, "layernorm_to_rmsnorm")),
    Measured(DEPTH, "and takes {} of the time at 512 x 4096", "norms", case(512, 4096, "fused_to_separate")),
    Measured(DEPTH, "it saves no time ({})", "norms", case(1, 4096, "fused_to_separate")),
    Measured(
        APPENDIX, "of a token of dim 8, root and division included, takes {} ns", "norms", case(1, 8, "rmsnorm_ns")
    ),
    Measured(NORMS, "The machine of statement 21, a Xeon, computes {} GFLOP/s", "bench", value("peak_gflops")),
    Measured(NORMS, "the norms of stories260K take {} % of the work of prefill", "model", share("unchanged", "prefill_percent")),
    Measured(NORMS, "of prefill and {} % of that", "model", share("unchanged", "decode_percent")),
    Measured(NORMS, "site it would be {} and", "model", share("LayerNorm", "prefill_percent")),
    Measured(APPENDIX, "| inference mode | ... | {} % |", "calls", found("inference mode: RMSNorm saves {} %")),
    Measured(APPENDIX, "| autograd | ... | {} % |", "calls", found("autograd: RMSNorm saves {} %")),
    Measured(APPENDIX, "one call, takes {} of the time", "timing", column("10 x 8", "nn.L / notes R")),
    Measured(APPENDIX, "RMSNorm takes {} times as long as norma's", "timing", column("512 x 4096", "best RMS / norma")),
    Measured(APPENDIX, "there, and {} times at 1 x 4096", "timing", column("1 x 4096", "best RMS / norma")),
    Measured(APPENDIX, "one call instead of three (root, reciprocal, product), {} µs against", "timing", found("PyTorch: rsqrt {} us")),
    Measured(APPENDIX, "against {} µs for 512 tokens", "timing", found("root and division {} us")),
    Measured(NOTEBOOK, "| bundled | {} |", "bench", value("prefill_tps")),
    Measured(NOTEBOOK, "| bundled | ... | {} | 1.75", "bench", value("decode_tps")),
    Measured(NOTEBOOK, "| 260K | {} |", "bench-260K", value("prefill_tps")),
    Measured(NOTEBOOK, "| 260K | ... | {} | 1.12", "bench-260K", value("decode_tps")),
]


def number(text):
    return float(text.replace(",", ""))


def pattern(words):
    parts = {r"\{\}": r"([\d,]+(?:\.\d+)?)", r"\.\.\.": ".*", r"\ ": r"\s+"}
    return re.compile(re.sub(r"\\\{\\\}|\\\.\\\.\\\.|\\ ", lambda m: parts[m[0]], re.escape(words)))


def find(measured):
    """Returns (line, number); the document must contain the words exactly once."""
    text = (TOP / measured.document).read_text()
    matches = list(pattern(measured.words).finditer(text))
    if len(matches) != 1:
        raise ValueError(f"{measured.document}: contains {measured.words!r} {len(matches)} times, not once")
    return text[: matches[0].start(1)].count("\n") + 1, number(matches[0][1])


def machines(document):
    """The paragraphs that name the machine and the date."""
    return re.findall(r"^\((?:One of )?2 virtual cores[^;]*;", (TOP / document).read_text(), re.MULTILINE)


def processor():
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE) if info.exists() else []
    return names[0] if names else platform.machine()


def measure(command, args):
    words = [word.format(run=args.run, checkpoints=args.checkpoints) for word in COMMANDS[command]]
    print(f"$ {' '.join(words)}", flush=True)
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=TOP).stdout


def show(command, args):
    rows = [(m, *find(m)) for m in TABLE if m.command == command]
    output = measure(command, args)
    print(f"{'old':>10} {'new':>10} {'new/old':>8}")
    for m, line, old in rows:
        new = m.read(output)
        print(f"{old:>10,.5g} {new:>10,.5g} {new / old:>8.2f}  {m.document}:{line}: {m.words}")
    for document in sorted({m.document for m, _, _ in rows}):
        for machine in machines(document):
            print(f"{'':>30}  {document}: {' '.join(machine.split()).strip('(;')}")


def main():
    parser = argparse.ArgumentParser(description="Repeat measurements of the documents.")
    parser.add_argument("--run", default="./run", metavar="FILE", help="norma's binary [./run]")
    parser.add_argument("--checkpoints", default=os.environ.get("NORMA_CHECKPOINTS"), metavar="FOLDER",
                        help="with stories260K.bin and tok512.bin [NORMA_CHECKPOINTS; else skips what needs it]")  # fmt: skip
    parser.add_argument("--only", choices=COMMANDS, help="only the numbers of this command")
    parser.add_argument("--check", action="store_true", help="only find the numbers in the documents")
    args = parser.parse_args()
    if args.check:
        for measured in TABLE:
            find(measured)
        return
    print(f"here: {os.cpu_count()} processors, {processor()}, {datetime.date.today()}")
    for command, words in COMMANDS.items():
        needs = any("{checkpoints}" in word for word in words)
        if args.only in (None, command) and (args.checkpoints or not needs):
            show(command, args)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"remeasure.py: {error}")
