"""Runs the suite `bits` as WebAssembly in node: the logits of its models have the bits of tests/golden/bits.txt, with
relaxed SIMD those of a program with FMA, without it those of one without. An engine whose madd is not fused is named.

    build/book/env/bin/python scripts/check/check_wasm.py        (after `make book`; needs node)
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "book"))
import program

# Runs a program of WASI in the repository, with a folder as /tmp.
RUN = """
const {WASI} = require("wasi"), fs = require("fs");
const [path, top, tmp] = process.argv.slice(1);
const wasi = new WASI({version: "preview1", returnOnExit: true, preopens: {".": top, "/tmp": tmp}});
WebAssembly.instantiate(fs.readFileSync(path), wasi.getImportObject()).then(
    ({instance}) => process.exitCode = wasi.start(instance));
"""


def node_command():
    """node with relaxed SIMD, which version 20 has behind an option and later versions always."""
    node = shutil.which("node")
    if not node:
        sys.exit("check_wasm.py: node is not installed (Debian: nodejs)")
    flag = "--experimental-wasm-relaxed-simd"
    options = subprocess.run([node, "--v8-options"], check=True, capture_output=True, text=True).stdout
    return [node, *([flag] if flag in options else []), "--no-warnings"]


def main():
    node, status = node_command(), 0
    for build in program.BUILDS:
        wasm = program.bits_program(build)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*node, "-e", RUN, wasm, program.TOP, folder], capture_output=True, text=True)
        print(f"{build}: {done.stdout.strip()}{done.stderr}")
        status |= done.returncode != 0 or "passed" not in done.stdout
    return status


if __name__ == "__main__":
    sys.exit(main())
