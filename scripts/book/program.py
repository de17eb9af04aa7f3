"""Compiles norma to WebAssembly with the zig compiler of web/requirements.txt: the page's program, in two builds, and the
suite `bits` for node (scripts/check/check_wasm.py).

Two builds, because WebAssembly's fused multiply-add is optional: "fused" uses relaxed SIMD's madd and has the bits of a
program with FMA; "unfused" has the bits of one without (`make ARCH=x86-64`). The page chooses (web/app/norma.js).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
WORK = TOP / "build" / "book"
BUILDS = {"fused": ("-mrelaxed-simd",), "unfused": ()}

DECODER = "*.c", "kernels/*.c", "text/*.c", "formats/*.c"
LAB = "norm_spec", "norm_backward", "profile", "profile_files", "saved", "machine", "dump", "estimate"
PAGE = *(f"lab/{name}.c" for name in LAB), "web/page.c", "web/depth.c", "build/book/generated.c"
BITS = "tests/test_bits.c", "tests/support/gguf_writer.c", "tests/support/hashmodel.c", "tests/wasm.c"
BASE = "clock", "error", "file", "hash", "limits", "memory", "platform", "reading", "utf8"
WITHOUT = (
    "run.c",
    "formats/gguf_write.c",
    "formats/jinja.c",
    "formats/jinja_expressions.c",
    "formats/jinja_functions.c",
    "formats/jinja_values.c",
)
EXPORTS = "malloc", "free", "model_swap_norms", "norm_token", "norm_backward", "sum_squares"
FLAGS = (
    "-target wasm32-wasi -msimd128 -O3 -std=gnu11 -D_GNU_SOURCE -I. -fno-math-errno -Ibuild/book "
    "-ffp-contract=off -Wno-unknown-pragmas -Wno-pass-failed -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_MMAN "
    "-D_WASI_EMULATED_PROCESS_CLOCKS -s "
    "-Dumask(mask)=0 -Dmkostemp(name,flags)=-1 -lwasi-emulated-signal -lwasi-emulated-mman -Wl,--max-memory=2147483648"
).split()
OMP_H = "".join(
    f"#define omp_{name} {value}\n"
    for name, value in (
        ("get_thread_num()", 0),
        ("get_num_threads()", 1),
        ("get_max_threads()", 1),
        ("get_num_procs()", 1),
        ("set_dynamic(on)", "((void)(on))"),
        ("set_max_active_levels(n)", "((void)(n))"),
    )
)


def compile_wasm(out, files, flags):
    """Compiles the decoder and these files."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "omp.h").write_text(OMP_H)
    found = [path.relative_to(TOP).as_posix() for pattern in DECODER for path in sorted(TOP.glob(pattern))]
    sources = [path for path in found if path not in WITHOUT] + [f"base/{name}.c" for name in BASE] + list(files)
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *FLAGS, *flags, "-o", out, *sources], check=True, cwd=TOP)
    return out


def page_program(build):
    """The page's program in a build of BUILDS: its functions, to be called from JavaScript."""
    text = (TOP / "lab" / "page.html").read_text()
    generated = f"""extern const char PAGE_HTML[];
const char PAGE_HTML[] = {json.dumps(text)};
long lost_processors(void); /* of base/process.c, which needs signals */
long lost_processors(void) {{ return 0; }}
"""
    (WORK / "generated.c").write_text(generated)
    text = "".join((TOP / "web" / name).read_text() for name in ("page.c", "depth.c"))
    exports = re.findall(r"^\w[\w *]*?\b(page_\w+)\([^;]*?\{", text, re.MULTILINE)
    flags = ["-mexec-model=reactor", *BUILDS[build], *(f"-Wl,--export={name}" for name in (*EXPORTS, *exports))]
    return compile_wasm(WORK / f"norma_{build}.wasm", PAGE, flags)


def bits_program(build):
    """The suite `bits`, to be started as a program."""
    return compile_wasm(WORK / f"bits_{build}.wasm", BITS, BUILDS[build])
