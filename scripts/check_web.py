"""Compares norma in the page with the program, to the bit: the logits of the bundled model in four types, and of a small
random model of each family without experts, against a build without FMA (`make ARCH=x86-64`); the story of the page's
model; nats per token; and that a damaged file is an error of one line, after which the page goes on.

    build/book/env/bin/python scripts/check_web.py        (after `make book`)

Mixtures are left out: the weights of experts use the C library's expf, of which the page has another one.
"""

import base64
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from check_book import BOOK, TOP, Browser

PROGRAM = TOP / "build" / "v1" / "run"
FAMILIES = TOP / "tests" / "golden" / "families"
TEXT = "Once upon a time, there was a little girl named Lily. She loved to play in the park."
OPEN = """
window.bits = async (model, tokenizer, text) => {
  const bytes = (base64) => base64 && Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  window.norma ??= await startNorma();
  try { norma.open(bytes(model), bytes(tokenizer)); } catch (error) { return `error: ${error.message}`; }
  const parts = [];
  norma.logits(text, (_, logits) => parts.push(new Uint8Array(logits.slice().buffer)));
  return parts.map((p) => btoa(String.fromCharCode(...p))).join(" ");
};
"""


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], check=True, capture_output=True, text=True, errors="replace")


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode() if path else ""


def page_logits(browser, model, tokenizer, text):
    """The bytes of all logits; a message of one line if norma refuses the model."""
    arguments = ", ".join(json.dumps(a) for a in (encoded(model), encoded(tokenizer), text))
    answer = browser.evaluate(f"bits({arguments})")
    if answer.startswith("error:"):
        return answer
    return b"".join(base64.b64decode(part) for part in answer.split(" "))


def compare(browser, name, model, tokenizer, text, folder):
    out = folder / "logits"
    options = ["-z", tokenizer] if tokenizer else []
    run(model, "-m", "logits", "-i", text, "-j", 1, "--kv", "f32", "-o", out, *options)
    found = page_logits(browser, model, tokenizer, text)
    same = found == out.read_bytes()
    print(f"{'same bits' if same else 'OTHER BITS'}  {name}{'  ' + found if isinstance(found, str) else ''}")
    return same


def write_family(folder, path):
    """A Hugging Face folder with random weights in the shapes of tests/golden/families, and a tokenizer.bin."""
    text = path.read_text()
    parsed = json.loads(text)
    draw = random.Random(path.stem)
    header, blobs, at = {}, [], 0
    for name, shape in parsed["tensors"]:
        count = 1
        for n in shape:
            count *= n
        scale, mean = (1.0, 1.0) if len(shape) == 1 and not name.endswith("bias") else (1.5 / shape[-1] ** 0.5, 0.0)
        data = struct.pack(f"<{count}f", *(mean + scale * (draw.random() - 0.5) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    packed = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(packed)) + packed + b"".join(blobs))
    (folder / "config.json").write_text(json.dumps(parsed["config"]))
    vocabulary = ["<unk>", "\n<s>\n", "\n</s>\n", " ", *(chr(c) for c in range(33, 127))][
        : parsed["config"]["vocab_size"]
    ]
    vocabulary += [f"x{i}" for i in range(len(vocabulary), parsed["config"]["vocab_size"])]
    with (folder / "tokenizer.bin").open("wb") as file:
        file.write(struct.pack("<i", 5))
        for piece in vocabulary:
            file.write(struct.pack("<fi", 0.0, len(piece)) + piece.encode())
    return folder


def families(browser, folder):
    """Whether all families agree; those that `convert` refuses are named."""
    fine = True
    for path in sorted(FAMILIES.glob("*.json")):
        if "expert" in path.read_text():
            continue
        source = write_family(folder / path.stem, path)
        model = folder / f"{path.stem}.gguf"
        try:
            run(source, "-m", "convert", "-q", "f32", "-o", model)
        except subprocess.CalledProcessError as error:
            print(f"no file    {path.stem}: {error.stderr.strip().splitlines()[-1]}")
            continue
        context = int(re.search(r"context\D+(\d+)", run(model, "-m", "info").stdout)[1])
        text = "0123456789 0123 4567"[: context - 2]  # and BOS, and a space
        fine &= compare(browser, path.stem, model, source / "tokenizer.bin", text, folder)
    return fine


def story(browser, model):
    """The page's story of seed 12 is the program's."""
    expected = run(model, "-s", 12, "-t", 1, "-p", 0.9, "-n", 100, "-j", 1, "--kv", "f32").stdout
    browser.evaluate(f"bits({json.dumps(encoded(model))}, '', 'a')")
    text = browser.evaluate(
        "(() => { norma.begin('', {seed: 12}); let s = '', p; while ((p = norma.next()) !== null) s += p; return s; })()"
    )
    same = text.startswith(expected.strip()[:200]) and len(expected) > 200
    print(f"{'same text' if same else 'OTHER TEXT'}  the story of seed 12")
    return same


def nats(browser, model, folder):
    (folder / "text").write_text(TEXT)
    stdout = run(model, "-m", "perplexity", "-f", folder / "text", "-j", 1, "--kv", "f32").stdout
    expected = float(re.search(r"NLL per token\s+([\d.]+)", stdout)[1])
    found = browser.evaluate(f"norma.nll({json.dumps(TEXT)})")
    same = abs(found - expected) < 1e-6
    print(f"{'same' if same else 'OTHER'}       nats per token: {found:.6f}, {expected:.6f}")
    return same


def damaged(browser, model, folder):
    """Files that end early, and files of noise, are refused in one line; the page then opens the whole file."""
    whole, fine, draw = model.read_bytes(), True, random.Random(1)
    broken = folder / "broken"
    for i in range(40):
        size = draw.randrange(1, 40_000) if i % 2 else draw.randrange(1, len(whole))
        data = bytearray(whole[:size] if i % 4 < 2 else whole)
        for _ in range(0 if i % 4 < 2 else 20):
            data[draw.randrange(24, 30_000)] = draw.randrange(256)
        broken.write_bytes(data)
        answer = page_logits(browser, broken, None, "a")
        if isinstance(answer, str) and answer.count("\n"):
            print(f"OTHER       a damaged file: {answer}")
            fine = False
    fine &= compare(browser, "the whole file after 40 damaged ones", model, None, TEXT, folder)
    return fine


def main():
    subprocess.run(["make", "-s", "ARCH=x86-64", "VARIANT=v1"], check=True, cwd=TOP)
    fine = True
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        browser = Browser(folder / "browser")
        browser.open((BOOK / "figure.html").as_uri() + "?figure=eps")
        browser.evaluate(OPEN)
        for kind in "f16", "f32", "q8_0", "q4_0":
            model = folder / f"stories_{kind}.gguf"
            run(TOP / "models" / "stories.gguf", "-m", "convert", "-q", kind, "-o", model)
            fine &= compare(browser, f"the bundled model as {kind}", model, None, TEXT, folder)
        model = folder / "stories_q8_0.gguf"
        fine &= story(browser, model)
        fine &= nats(browser, model, folder)
        fine &= damaged(browser, model, folder)
        fine &= families(browser, folder)
        browser.open((BOOK / "figure.html").as_uri() + "?figure=playground")
        browser.figures()
        print(f"speed       {browser.evaluate('document.querySelector(`dl`).textContent')}")
        browser.process.kill()
        browser.process.wait()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
