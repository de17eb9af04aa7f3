"""Compares norma in the page with the program, to the bit: the logits of the bundled model in four types, and of a small
random model of each family, in the page's two builds: against the program, and against one without FMA (`make
ARCH=x86-64`); the story of the page's model; nats per token; gradients by depth against finite differences; that a damaged file is an error of one line, after which the page goes on; a reader's own files
(GGUF, llama2.c's .bin with its tokenizer; published models) dropped on the first screen: stories, a typed beginning
and other norms give the program's text and nats; the limits of 4,096 positions and 900 MB.

    build/book/env/bin/python scripts/check/check_web.py        (after `make book`)

Needs a processor with FMA, as Chromium's fused madd does.
"""

import base64
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check_book import BOOK, TOP, Browser

sys.path.append(str(TOP / "scripts"))
import fetch_models

PROGRAMS = {"fused": TOP / "run", "unfused": TOP / "build" / "v1" / "run"}  # of the page's builds
FAMILIES = TOP / "tests" / "golden" / "families"
DRAW = "-s", 12, "-t", 1, "-p", 0.9, "-k", 0, "--min-p", 0, "--repeat-penalty", 1  # of the page
TEXT = "Once upon a time, there was a little girl named Lily. She loved to play in the park."
OPEN = """
window.bits = async (build, model, tokenizer, text) => {
  const bytes = (base64) => base64 && Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  window.norma ??= await startNorma(build);
  try { norma.open(bytes(model), bytes(tokenizer)); } catch (error) { return `error: ${error.message}`; }
  const parts = [];
  norma.logits(text, (_, logits) => parts.push(new Uint8Array(logits.slice().buffer)));
  return parts.map((p) => btoa(String.fromCharCode(...p))).join(" ");
};
"""


def run(*args, build="fused"):
    return subprocess.run([PROGRAMS[build], *map(str, args)], check=True, capture_output=True, text=True, errors="replace")


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode() if path else ""


def page_logits(browser, build, model, tokenizer, text):
    """The bytes of all logits; a message of one line if norma refuses the model."""
    arguments = ", ".join(json.dumps(a) for a in (build, encoded(model), encoded(tokenizer), text))
    answer = browser.evaluate(f"bits({arguments})")
    if answer.startswith("error:"):
        return answer
    return b"".join(base64.b64decode(part) for part in answer.split(" "))


def compare(browser, name, model, tokenizer, text, folder, build="fused"):
    out = folder / "logits"
    options = ["-z", tokenizer] if tokenizer else []
    run(model, "-m", "logits", "-i", text, "-j", 1, "--kv", "f32", "-o", out, *options, build=build)
    found = page_logits(browser, build, model, tokenizer, text)
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


def families(browser, folder, build):
    """Whether all families agree; those that `convert` refuses are named."""
    fine = True
    for path in sorted(FAMILIES.glob("*.json")):
        source = write_family(folder / f"{path.stem}_{build}", path)
        model = source / "model.gguf"
        try:
            run(source, "-m", "convert", "-q", "f32", "-o", model)
        except subprocess.CalledProcessError as error:
            print(f"no file    {path.stem}: {error.stderr.strip().splitlines()[-1]}")
            continue
        context = int(re.search(r"context\D+(\d+)", run(model, "-m", "info").stdout)[1])
        text = "0123456789 0123 4567"[: context - 2]  # and BOS, and a space
        fine &= compare(browser, path.stem, model, source / "tokenizer.bin", text, folder, build)
    return fine


def story(browser, model):
    """The page's story of seed 12 is the program's."""
    expected = run(model, "-s", 12, "-t", 1, "-p", 0.9, "-n", 100, "-j", 1, "--kv", "f32").stdout
    browser.evaluate(f"bits('fused', {json.dumps(encoded(model))}, '', 'a')")
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


GRADIENTS = """
(place, sublayer) => {
  const at = norma.c.malloc(4 * 33), step = 0.01, run = (element, amount) => {
    norma.c.page_depth_nudge(sublayer, element, amount);
    return norma.c.page_depth(place, 1, 1, 0.5, at, at + 4 * 17);
  };
  const differences = Array.from({length: 64}, (_, i) => (run(i, step) - run(i, -step)) / (2 * step));
  run(0, 0);
  return [Math.hypot(...differences), norma.floats(at, 17)[sublayer]];
}
"""


def gradients(browser):
    """The figure of gradients by depth: its backward pass against finite differences, in each place of norms. (Before
    sublayer 0 the figure shows the embedding's gradient, which peri's norm changes.)"""
    places = "pre", "post", "inside", "sandwich", "peri"
    found = {(p, s): browser.evaluate(f"({GRADIENTS})({i}, {s})") for i, p in enumerate(places) for s in (1, 8, 15)}
    worst = max(abs(a / b - 1) for a, b in found.values())
    fine = worst < 0.02
    print(f"{'same' if fine else 'OTHER'}       gradients by depth: within {100 * worst:.2f} % of finite differences")
    return fine


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
    """More than 4,096 positions, and a file of more than 900 MB: one line each."""
    lines = browser.evaluate(f"({LIMITS})('{base64.b64encode(with_context(model, 8192)).decode()}')")
    wanted = r"norma: \d+ positions do not fit in a context of 4096", r"norma: the model has 1.20 GB, a page can hold 0.90 GB; .*"
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


TELLS = "(b => b?.dataset.told ?? '')(document.querySelector('[data-figure]'))"


def wait_for_story(browser):
    for _ in range(1200):
        if told := browser.evaluate(TELLS):
            return told
        time.sleep(0.1)
    return "no story within two minutes"


def drop(browser, files):
    """Files that a mouse drops on the page, beside the figure."""
    browser.evaluate("delete document.querySelector('[data-figure]').dataset.told")
    data = {"items": [], "files": [str(f) for f in files], "dragOperationsMask": 1}
    for kind in "dragEnter", "dragOver", "drop":
        browser.call("Input.dispatchDragEvent", type=kind, x=5, y=5, data=data)
    return wait_for_story(browser)


def press(browser, action):
    """Does something in the page and waits for the story that follows."""
    browser.evaluate(f"delete document.querySelector('[data-figure]').dataset.told; {action}")
    return wait_for_story(browser)


def same_story(browser, model, options):
    """Whether the page's own story is the program's, as far as the shorter one goes; at least 20 characters."""
    prompt = browser.evaluate("document.querySelector('.controls input').value")
    start = ["-i", prompt] if prompt else []
    expected = run(model, *options, *start, *DRAW, "-n", 60, "-j", 1, "--kv", "f32").stdout.strip()
    shown = browser.evaluate("document.querySelector('.own').textContent").strip()
    size = min(len(expected), len(shown))
    return size >= min(20, len(expected)) and expected[:size] == shown[:size]


def same_nats(browser, model, options, text, norm):
    """Whether nats per token of the fixed text are the program's with these norms."""
    found = float(browser.evaluate("document.querySelector('[data-figure]').dataset.nats"))
    try:
        stdout = run(model, "-m", "perplexity", "-f", text, "-j", 1, "--kv", "f32", *options, *norm).stdout
    except subprocess.CalledProcessError as error:  # logits that are not finite
        return "not finite" in error.stderr and not math.isfinite(found)
    return abs(found / float(re.search(r"NLL per token\s+([\d.]+)", stdout)[1]) - 1) < 1e-5


def used(browser, name, files, text):
    """Opens a model by a drop, types, and changes its norms; whether text and nats are the program's throughout."""
    told = drop(browser, files)
    shown, note = browser.evaluate("['.model b', '.note'].map((s) => document.querySelector(s).textContent)")
    if told != "yes" or note or shown != files[0].name:
        print(f"FAULT       {name}: {told}; the page says {note}; its title is {shown}")
        return False
    options = ["-z", files[1]] if len(files) > 1 else []
    found = {"story": same_story(browser, files[0], options), "nats": same_nats(browser, files[0], options, text, [])}
    for kind in "none", "layer":
        press(browser, f"document.querySelector('[data-kind={kind}]').click()")
        found[kind] = same_nats(browser, files[0], options, text, ["--norm", kind])
    press(browser, f"document.querySelector('[data-kind={kind}]').click()")
    typed = "(e => { e.value = 'A cat'; e.dispatchEvent(new Event('change')); })(document.querySelector('.controls input'))"
    press(browser, typed)
    found["typed"] = same_story(browser, files[0], options)
    fine = all(found.values())
    print(f"{'used' if fine else 'FAULT'}        {name}: {found}")
    return fine


def refused(browser, name, file, wanted):
    """A file that is refused: the page says why, names and tells with the bundled model again."""
    drop(browser, [file])
    for _ in range(100):  # the bundled model's story comes before the reason
        if browser.evaluate(TELLS) == "refused":
            break
        time.sleep(0.1)
    shown, note, story = browser.evaluate(
        "['.model b', '.note', '.own'].map((s) => document.querySelector(s).textContent)"
    )
    fine = re.search(wanted, note) and shown == "models/stories.gguf" and len(story) > 100
    print(f"{'refused' if fine else 'FAULT'}     {name}: {note}; then {shown}")
    return bool(fine)


def own_models(browser, folder):
    """Every model that the tests have, opened by a drop: bundled, llama2.c's, random, published; then files that are refused."""
    browser.open((BOOK / "figure.html").as_uri() + "?figure=explorer")
    browser.figures()
    (folder / "text").write_text(browser.evaluate("FIXED_TEXT"))
    checkpoints = Path(os.environ.get("NORMA_CHECKPOINTS", "../shared/checkpoints")).resolve()  # Chromium needs it
    models = [[folder / "stories_f16.gguf"], list(write_llama2c(folder))]
    if (checkpoints / "stories260K.bin").exists():
        models.append([checkpoints / "stories260K.bin", checkpoints / "tok512.bin"])
    for name in fetch_models.MODELS:
        try:
            models.append([fetch_models.fetch(name)])
        except fetch_models.Unavailable as error:
            print(f"skipped {name}: {error}")
    fine = all([used(browser, files[0].name, files, folder / "text") for files in models])
    broken, large = folder / "broken.gguf", folder / "large.gguf"
    broken.write_bytes((folder / "stories_f16.gguf").read_bytes()[:5000])
    with large.open("wb") as file:
        file.truncate(1_500_000_000)
    fine &= refused(browser, "a damaged file", broken, r"ends in its header, at byte \d+")
    fine &= refused(browser, "a large file", large, r"1\.50 GB.*0\.90 GB")
    faults = browser.faults()
    print("".join(f"FAULT       {fault}\n" for fault in faults), end="")
    return fine and not faults


def main():
    subprocess.run(["make", "-s", "ARCH=x86-64", "VARIANT=v1"], check=True, cwd=TOP)
    fine = True
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        browser = Browser(folder / "browser")
        for build in reversed(PROGRAMS):
            browser.open((BOOK / "figure.html").as_uri() + "?figure=eps")
            browser.evaluate(OPEN)
            for kind in "f16", "f32", "q8_0", "q4_0":
                model = folder / f"stories_{kind}.gguf"
                run(TOP / "models" / "stories.gguf", "-m", "convert", "-q", kind, "-o", model)
                fine &= compare(browser, f"{build}: the bundled model as {kind}", model, None, TEXT, folder, build)
            fine &= families(browser, folder, build)
        model = folder / "stories_q8_0.gguf"
        fine &= story(browser, model)
        fine &= nats(browser, model, folder)
        fine &= gradients(browser)
        fine &= damaged(browser, model, folder)
        fine &= limits(browser, model)
        fine &= own_models(browser, folder)
        browser.process.kill()
        browser.process.wait()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
