"""Compares norma in the page with the program, to the bit: the logits of the bundled model in four types, and of a small
random model of each family without experts, against a build without FMA (`make ARCH=x86-64`); the story of the page's
model; nats per token; that a damaged file is an error of one line, after which the page goes on; a reader's own files
(GGUF, llama2.c's .bin with its tokenizer) dropped on the playground; the limits of 4,096 positions and 1 GB.

    build/book/env/bin/python scripts/check/check_web.py        (after `make book`)

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
import time
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


DAMAGED = """
(files, count) => Array.from({length: count}, (_, i) => {
  const whole = files[0], data = whole.slice(0, i % 4 < 2 ? files[1][i] : whole.length);
  if (i % 4 >= 2) for (const [at, byte] of files[2][i]) data[at] = byte;
  try { norma.open(data, null); norma.nll("a b"); return ""; } catch (error) { return error.message; }
})
"""


def damaged(browser, model, folder):
    """Files that end early, and files of noise, are refused in one line; the page then opens the whole file."""
    size, draw, count = model.stat().st_size, random.Random(1), 40
    sizes = [draw.randrange(1, 40_000 if i % 2 else size) for i in range(count)]
    noise = [[(draw.randrange(24, 30_000), draw.randrange(256)) for _ in range(20)] for _ in range(count)]
    lines = browser.evaluate(
        f"({DAMAGED})([Uint8Array.from(atob('{encoded(model)}'), (c) => c.charCodeAt(0)), {sizes},"
        f" {json.dumps(noise)}], {count})"
    )
    refused = [line for line in lines if line]
    fine = len(refused) > count // 2 and all("\n" not in line and line.startswith("norma: ") for line in refused)
    fine &= compare(browser, "after damaged files", model, None, TEXT, folder)
    print(f"{'refused' if fine else 'FAULT'}     {len(refused)} of {count} damaged files, in one line each")
    return fine


def with_context(model, context):
    """The bytes of a GGUF file with another context length."""
    data, key = bytearray(model.read_bytes()), b"llama.context_length"
    struct.pack_into("<I", data, data.index(key) + len(key) + 4, context)
    return data


LIMITS = """
(base64) => {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const line = (f) => { try { f(); return "nothing"; } catch (error) { return error.message; } };
  norma.open(bytes, null);
  const positions = line(() => norma.nll("cat ".repeat(5000)));
  return [positions, line(() => norma.open({length: 1.2e9, subarray: (a, b) => bytes.subarray(a, b)}, null))];
}
"""


def limits(browser, model):
    """More than 4,096 positions, and a file of more than 1 GB: one line each."""
    lines = browser.evaluate(f"({LIMITS})('{base64.b64encode(with_context(model, 8192)).decode()}')")
    wanted = r"norma: \d+ positions do not fit in a context of 4096", r"norma: /model: Out of memory"
    fine = all(re.fullmatch(w, line) for w, line in zip(wanted, lines, strict=True))
    print(f"{'refused' if fine else 'FAULT'}     {'; '.join(lines)}")
    return fine


def write_llama2c(folder):
    """A small random model in llama2.c's format, with a tokenizer.bin of single characters."""
    dim, hidden, layers, heads, vocabulary, context = 32, 48, 2, 4, 100, 512
    draw, head = random.Random(2), dim // heads
    ones, matrix = 2 * layers * dim + dim, vocabulary * dim + layers * (4 * dim * dim + 3 * dim * hidden)
    rest = context * head  # llama2.c's tables of angles, which nobody reads
    count = ones + matrix + rest
    header = struct.pack("<7i", dim, hidden, layers, heads, heads, vocabulary, context)
    (folder / "own.bin").write_bytes(header + struct.pack(f"<{count}f", *(draw.gauss(0, 0.2) for _ in range(count))))
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", " ", *(chr(c) for c in range(33, 127))]
    pieces += [f"x{i}" for i in range(len(pieces), vocabulary)]
    packed = b"".join(struct.pack("<fi", 0.0, len(piece)) + piece.encode() for piece in pieces)
    (folder / "own_tokenizer.bin").write_bytes(struct.pack("<i", 5) + packed)
    return folder / "own.bin", folder / "own_tokenizer.bin"


def dropped(browser, folder):
    """Files that a mouse drops on the playground: the page's nats are the program's; a damaged file is an error there."""
    browser.open((BOOK / "figure.html").as_uri() + "?figure=playground")
    browser.figures()
    (folder / "text").write_text(browser.evaluate("FIXED_TEXT"))
    f16, fine = folder / "stories_f16.gguf", True
    broken = folder / "broken.gguf"
    broken.write_bytes(f16.read_bytes()[:5000])
    for name, files in ("GGUF", [f16]), ("damaged", [broken]), (".bin and tokenizer", write_llama2c(folder)):
        x, y = browser.evaluate("(b => [b.x + 20, b.y + 20])(document.querySelector('.story').getBoundingClientRect())")
        browser.evaluate("document.querySelector('dl').textContent = document.querySelector('.note').textContent = ''")
        data = {"items": [], "files": [str(f) for f in files], "dragOperationsMask": 1}
        for kind in "dragEnter", "dragOver", "drop":
            browser.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)
        shown = note = ""
        for _ in range(200):
            shown, note = browser.evaluate("['dd', '.note'].map((s) => document.querySelector(s)?.textContent ?? '')")
            if note if name == "damaged" else shown or note:
                break
            time.sleep(0.1)
        if name == "damaged":
            same = note.startswith("norma: /model: ") and "\n" not in note
        else:
            options = ["-z", files[1]] if len(files) > 1 else []
            stdout = run(files[0], "-m", "perplexity", "-f", folder / "text", "-j", 1, "--kv", "f32", *options).stdout
            expected = float(re.search(r"NLL per token\s+([\d.]+)", stdout)[1])
            same = not note and abs(float(shown.split()[0]) / expected - 1) < 1e-3
        fine &= same
        print(f"{'dropped' if same else 'FAULT'}     {name}: {shown} {note}")
    faults = browser.faults()
    print("".join(f"FAULT       {fault}\n" for fault in faults), end="")
    return fine and not faults


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
        fine &= limits(browser, model)
        fine &= families(browser, folder)
        fine &= dropped(browser, folder)
        browser.process.kill()
        browser.process.wait()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
