"""Shows which lines and branches of every source file ran, as counted by gcc's --coverage or clang's source coverage.

    python3 scripts/developer/coverage.py BUILD [LINES BRANCHES]   after `make coverage`: gcov of the objects in BUILD; status 1
                                                         if a file of formats/ or text/ has less than these percentages
    python3 scripts/developer/coverage.py --llvm LINES < EXPORT    after `make fuzz-coverage`: output of `llvm-cov export`; status
                                                         1 if formats/, text/ and the top level together have less

Owns the tables. A branch is one way out of a condition, as the compiler sees it: `a && b` has four. Each file's row
ends with the lines that never ran.
"""

import json
import subprocess
import sys
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def gcov_counts(build, top=TOP):
    """Returns {file: {line: (count, [count of each branch])}} for the sources of the tree `top`, including headers."""
    found = defaultdict(dict)
    build = Path(build).resolve()
    data = sorted(str(p) for p in build.rglob("*.gcda") if "tests" not in p.relative_to(build).parts)
    command = ["gcov", "--json-format", "--branch-probabilities", "--stdout", *data]
    for text in subprocess.run(command, cwd=top, check=True, capture_output=True, text=True).stdout.splitlines():
        for file in json.loads(text)["files"] if text.startswith("{") else []:
            for line in file["lines"] if not file["file"].startswith(("/", "tests/")) else []:
                lines, number = found[file["file"]], line["line_number"]
                count, branches = lines.get(number, (0, []))
                more = [branch["count"] for branch in line["branches"]]
                lines[number] = count + line["count"], [a + b for a, b in zip_longest(branches, more, fillvalue=0)]
    return found


def ranges(numbers):
    """1, 2, 3, 7 -> 1-3 7"""
    runs = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def percent(part, whole):
    return 100 * part / whole if whole else 100.0


def show_gcov(build, min_lines, min_branches):
    low = []
    print(f"{'file':28}{'lines':>12}{'%':>7}{'branches':>12}{'%':>7}  lines never run")
    for file, lines in sorted(gcov_counts(build).items()):
        missing = [number for number, (count, _) in lines.items() if not count]
        branches = [count for _, counts in lines.values() for count in counts]
        ran, taken = len(lines) - len(missing), sum(count > 0 for count in branches)
        shares = percent(ran, len(lines)), percent(taken, len(branches))
        print(
            f"{file:28}{f'{ran}/{len(lines)}':>12}{shares[0]:7.1f}"
            f"{f'{taken}/{len(branches)}':>12}{shares[1]:7.1f}  {ranges(missing)}"
        )
        if file.startswith(("formats/", "text/")) and (shares[0] < min_lines or shares[1] < min_branches):
            low.append(file)
    for file in low:
        print(f"{file}: less than {min_lines:g} % of its lines or {min_branches:g} % of its branches")
    return 1 if low else 0


def show_llvm(min_share):
    counted = ran = 0
    for file in json.load(sys.stdin)["data"][0]["files"]:
        path = Path(file["filename"]).resolve()
        path = path.relative_to(TOP) if path.is_relative_to(TOP) else path
        lines, branches = file["summary"]["lines"], file["summary"]["branches"]
        if str(path).startswith("tests/"):
            continue
        counts = len(path.parts) == 1 or path.parts[0] in ("formats", "text")
        counted, ran = counted + counts * lines["count"], ran + counts * lines["covered"]
        of = f"{lines['covered']}/{lines['count']}", f"{branches['covered']}/{branches['count']}"
        print(f"{path!s:28}{of[0]:>12}{lines['percent']:7.1f}{of[1]:>12}{branches['percent']:7.1f}")
    share = percent(ran, counted)
    print(f"formats, text and transformer: {ran} of {counted} lines, {share:.1f} %")
    return 1 if share < min_share else 0


def main(arguments):
    if arguments[0] == "--llvm":
        return show_llvm(float(arguments[1]))
    minimums = [float(a) for a in arguments[1:]] or [0.0, 0.0]
    return show_gcov(arguments[0], *minimums)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
