"""Runs the code of "Build it" in docs/norms.md: it passes the cases of tests/golden/norm_cases.json, and each of five
changes fails in the case that the chapter names, with the value that it gives there.

    python3 scripts/check/check_build.py
"""

import json
import re
import sys
from pathlib import Path

import numpy as np

TOP = Path(__file__).resolve().parents[2]
CHANGES = {  # name: (code, what replaces it)
    "eps outside": ("np.sqrt((h * h).mean(-1, keepdims=True) + eps)", "(np.sqrt((h * h).mean(-1, keepdims=True)) + eps)"),
    "dim - 1": ("(h * h).mean(-1, keepdims=True)", "((h * h).sum(-1, keepdims=True) / (h.shape[-1] - 1))"),
    "half sums": ("astype(np.float32)", "astype(x.dtype)"),
    "wrong axis": ("(h * h).mean(-1, keepdims=True)", "(h * h).mean(-1)"),
    "gamma before the cast": ("gamma * (h * scale).astype(x.dtype)", "(gamma * (h * scale)).astype(x.dtype)"),
}


def code_of(page):
    return re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]


def failures(code, cases):
    """The names of the cases that the code fails, with its first wrong value."""
    space, found = {"np": np}, {}
    exec(code, space)  # the chapter's own code
    for case in cases:
        x, gamma = (np.array(case[key], case["type"]) for key in ("x", "gamma"))
        arguments = [x, gamma] + ([np.array(case["beta"], case["type"])] if "beta" in case else []) + [case["eps"]]
        with np.errstate(all="ignore"):
            y = space["layernorm" if "beta" in case else "rmsnorm"](*arguments)
        wrong = ~np.isclose(y, np.array(case["y"]), rtol=case["rtol"], atol=0)
        if wrong.any():
            found[case["name"]] = float(y[wrong][0])
    return found


def main():
    cases = json.loads((TOP / "tests/golden/norm_cases.json").read_text())
    code = code_of((TOP / "docs/norms.md").read_text())
    if code != code_of((TOP / "docs/norms.zh.md").read_text()):
        sys.exit("check_build.py: the pages have different code")
    if found := failures(code, cases):
        sys.exit(f"check_build.py: the chapter's code fails {found}")
    for name, (old, new) in CHANGES.items():
        found = failures(code.replace(old, new), cases)
        if old not in code or name not in {case["caught"] for case in cases if case["name"] in found}:
            sys.exit(f"check_build.py: the change '{name}' is not found by its case, but by {found}")
        print(f"{name}: {found}")


if __name__ == "__main__":
    main()
