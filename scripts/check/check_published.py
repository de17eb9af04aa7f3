"""Tests norma on published models, which scripts/fetch_models.py fetches, against tests/golden/published.json.

    python3 scripts/check/check_published.py             # needs ./run, the standard library and pip
    python scripts/check/check_published.py --golden     # writes the expected values; needs scripts/requirements.txt

The expected tokens and chat prompts are those of transformers, the logits those of scripts/measure/published.py, a float64
forward pass in numpy. SmolLM2 has to be there. A line that begins with "skipped" reports another model that cannot be
had, or ranks if mpicc is missing.
"""

import argparse
import array
import csv
import hashlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[1] / room) for room in ("", "measure"))
import fetch_models

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "published.json"
NORMS = ROOT / "tests" / "golden" / "norms_published.jsonl"  # of `norms_published.py golden --texts 6 --tokens 96`
CHAPTER = ROOT / "docs" / "norms_published.md"
TEXTS = ROOT / "tests" / "golden" / "published_texts.jsonl"
PIECES, PIECE_BYTES = 20, 10_000
PROMPTS = {
    "smollm2": "Water boils at 100 degrees Celsius. The capital of France is",
    "gemma3": "Once upon a time, there was a small village in the mountains. The people of the village",
    "qwen2.5-coder": "def fibonacci(n):\n    if n < 2:\n        return n\n",
}
TITLES = {"smollm2": "SmolLM2 135M", "gemma3": "Gemma 3 270M", "qwen2.5-coder": "Qwen2.5-Coder 0.5B"}
POSITIONS, TOP, PLAIN, SWAPPED = 40, 24, 16, 4
CLEAR = 0.5  # nats between the two likeliest tokens: more than what rounding activations to int8 changes
MAX_KL = {"smollm2": 0.006, "gemma3": 0.004, "qwen2.5-coder": 0.006}
LAYER = "attn=layer,mlp=layer,final=layer"  # the norms that published.py swaps

PATTERNS = {
    "smollm2": r"\p{N}",
    "qwen2.5-coder": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
}

WORDS = (
    "the of Of and a in to It is was he for that with his you're They've don't 12 1234 3.14 0x1F don’t naïve café Straße "
    "Größe привет мир 你好 世界 日本語 テスト 한국어 العربية हिन्दी ไทย 🙂 👩‍👩‍👧 ß ﬁ Ω ≠ ∑ x=y; foo(bar) a_b __init__ "
    "https://example.org/?q=1 #tag @user $5 50% C++ <b> [INST] {} \\n ... !!! ?! -- — internationalization Qwen\u00a0x"
).split() + ["\t", "\n", "\n\n", "    ", "\r\n", "  ", " \n"]
RANGES = (
    (0x21, 0x7F),
    (0xA1, 0x250),
    (0x391, 0x3C9),
    (0x410, 0x450),
    (0x4E00, 0x5000),
    (0xAC00, 0xAD00),
    (0x1F600, 0x1F640),
)

CHATS = [  # system prompt or None, the user's messages; the answers between them are one token
    (None, ["Hi"]),
    ("You are terse.", ["What is 2+2?"]),
    (None, ["Write a haiku about autumn."]),
    ("", ["Who are you?"]),
    (None, ["你好！"]),
    ("Antworte auf Deutsch.\nSei höflich.", ["Wie heißt die Hauptstadt von Österreich?"]),
    (None, ["two\nlines"]),
    (None, ["{{ 7 * 7 }} {% raw %}"]),
    ("You are a pirate.", ["1234567 🙂 naïve", "And now?"]),
    (None, ["Is the sky blue? Say Yes or No.", "Is grass green?"]),
    (None, ["The capital of France?", "Of Spain?"]),
    ("Be kind.", ["def f(x):\n\treturn x", "Thanks!"]),
]


def draws(seed):
    """An endless sequence of 32-bit numbers (splitmix64), the same on every machine."""
    mask = (1 << 64) - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        yield (z ^ z >> 31) >> 32


def mixed_texts():
    """PIECES texts of words, lines and characters of many scripts, which a hash chooses."""
    for piece in range(PIECES):
        random, out, size = draws(piece), [], 0
        while size < PIECE_BYTES:
            kind = next(random) % 8
            if kind:
                part = WORDS[next(random) % len(WORDS)] + (" " if kind > 2 else "")
            else:
                first, end = RANGES[next(random) % len(RANGES)]
                part = "".join(chr(first + next(random) % (end - first)) for _ in range(1 + next(random) % 6))
            out.append(part)
            size += len(part.encode())
        yield "".join(out)


def natural_texts():
    """English, Chinese, code and stories."""
    return [json.loads(line)["prompt"] for line in TEXTS.read_text(encoding="utf-8").splitlines()]


def all_texts():
    return [*mixed_texts(), *natural_texts()]


def digest(ids):
    return [len(ids), hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]]


# ---- expected values -----------------------------------------------------------------------------------------------


def reference_tokenizer(name, path):
    import tokenizers
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    if name in PATTERNS:  # of the published tokenizer.json: transformers ignores the GGUF file's tokenizer.ggml.pre
        tokens = tokenizers.pre_tokenizers
        tokenizer.backend_tokenizer.pre_tokenizer = tokens.Sequence(
            [
                tokens.Split(tokenizers.Regex(PATTERNS[name]), "isolated"),
                tokens.ByteLevel(add_prefix_space=False, use_regex=name == "smollm2"),
            ]
        )
    return tokenizer


def golden(name):
    import numpy as np
    import published

    path = fetch_models.fetch(name)
    tokenizer = reference_tokenizer(name, path)
    model = published.Model(str(path))

    def encode(text, special=False):
        bos = [] if model.bos is None or special else [model.bos]
        return bos + tokenizer.encode(text, add_special_tokens=False)

    def log_probabilities(ids, **options):
        logits = model.forward(np.array(ids), **options)
        return (
            logits
            - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
            - logits.max(-1, keepdims=True)
        )

    # ./run proposes the greedy text; one pass over all of it decides.
    prompt = encode(PROMPTS[name])
    run = [
        "./run",
        path,
        "-t",
        "0",
        "-n",
        str(POSITIONS),
        "--tokens",
        ",".join(map(str, prompt)),
        "--json",
        "--logprobs",
        "1",
    ]
    line = subprocess.run(run, capture_output=True, check=True, cwd=ROOT).stdout
    ids = prompt + [token["token"] for token in json.loads(line)["logprobs"]]
    logp = log_probabilities(ids)
    best = np.argsort(-logp, axis=-1, kind="stable")[:, :TOP]
    values = np.take_along_axis(logp, best, -1)
    for i in range(len(prompt) - 1, len(ids) - 1):
        if values[i, 0] - values[i, 1] > CLEAR and best[i, 0] != ids[i + 1]:
            raise ValueError(f"{name}: token {ids[i + 1]} is not the likeliest after {i + 1} tokens")
    swapped = log_probabilities(ids[:PLAIN], kind=published.swap(published.layer_norm))
    result = {
        "texts": [digest(encode(text)) for text in all_texts()],
        "first": encode(all_texts()[0])[:200],
        "prompt": len(prompt),
        "ids": ids,
        "best": best.tolist(),
        "logp": np.round(values, 5).tolist(),
        "layer": [round(float(x), 5) for x in swapped[np.arange(PLAIN - 1), ids[1:PLAIN]]],
        "chats": [],
    }
    for system, users in CHATS if tokenizer.chat_template else []:
        turns, prompts = [{"role": "system", "content": system}] if system else [], []
        for user in users:
            turns.append({"role": "user", "content": user})
            text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
            prompts.append(encode(text, special=True))
            if len(prompts) < len(users):
                answer = int(log_probabilities(prompts[-1], rows=[-1])[0].argmax())
                turns.append({"role": "assistant", "content": tokenizer.decode([answer])})
        result["chats"].append(prompts)
    return result


def write_golden():
    models = [(json.dumps(name), json.dumps(golden(name), separators=(",", ":"))) for name in fetch_models.MODELS]
    GOLDEN.write_text("{\n" + ",\n".join(f"{name}:{value}" for name, value in models) + "\n}\n")


# ---- the chapter on norms of published models ----------------------------------------------------------------------


def chapter_rows():
    """The numbers in each row of the chapter's tables, by the text of the first cell; the first such row counts."""
    found = {}
    for line in CHAPTER.read_text(encoding="utf-8").replace("\\|", "").replace(",", "").splitlines():
        if line.startswith("| "):
            name, *cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
            numbers = [[float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", cell)] for cell in cells]
            found.setdefault(name, []).append(numbers)
    return found


def figures_of_dump(folder, norm):
    """|mean| / RMS, |mean| / median |x| and |gamma mean| / |gamma x| of a norm that --dump wrote, as the golden file has
    them, its largest |x|, and the channel of that. gamma is what the norm multiplied the largest input of a channel by.
    """

    def rows(which):
        raw = (folder / f"{norm}.{which}.npy").read_bytes()
        width = int(re.search(rb"\(\d+, (\d+)\)", raw)[1])
        values = array.array("f", raw[128:])
        return [values[i : i + width] for i in range(0, len(values), width)]

    inputs, ratios, relative, weighted = rows("in"), [], [], []
    roots = [math.sqrt(math.fsum(v * v for v in x) / len(x)) for x in inputs]
    outputs, gamma = rows("out"), []
    for channel in range(len(inputs[0])):
        i = max(range(len(inputs)), key=lambda i: abs(inputs[i][channel]) / roots[i])
        gamma.append(outputs[i][channel] * roots[i] / inputs[i][channel])
    length = math.hypot(*gamma)
    for x, y, root in zip(inputs, outputs, roots):
        mean = abs(math.fsum(x)) / len(x)
        ratios.append(mean / root)
        relative.append(mean / statistics.median(map(abs, x)))
        weighted.append(mean * length / root / math.hypot(*y))
    size, channel = max((abs(v), c) for x in inputs for c, v in enumerate(x))
    return statistics.mean(ratios), statistics.median(relative), statistics.median(weighted), size, channel


# ---- tests ---------------------------------------------------------------------------------------------------------


class Check:
    """One model. `failures` has a line for each comparison that failed, `count` the number of comparisons."""

    def __init__(self, name, path, expected, folder):
        self.name, self.path, self.expected, self.folder = name, str(path), expected, Path(folder)
        self.count, self.failures = 0, []
        self.ids = ",".join(map(str, expected["ids"]))

    def expect(self, ok, what):
        self.count += 1
        if not ok:
            self.failures.append(what)

    def start(self, *args, model=None, command=("./run",), text=""):
        done = subprocess.run(
            [*command, model or self.path, *map(str, args)],
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            self.failures.append(
                f"{' '.join(map(str, args))[:200]}: status {done.returncode}, {done.stderr.strip()[-300:]}"
            )
        return done

    def run(self, *args, **options):
        return self.start(*args, **options).stdout

    def logits(self, *args, model=None, ids=None, command=("./run",)):
        """The bytes that `-m logits` writes."""
        file = self.folder / "logits.f32"
        file.unlink(missing_ok=True)
        self.run("-m", "logits", "--tokens", ids or self.ids, "-o", file, *args, model=model, command=command)
        return file.read_bytes() if file.exists() else b""

    def rows(self, raw, n):
        """Log-probabilities of n tokens from such bytes."""
        values = array.array("f", raw)
        size = len(values) // n
        for i in range(n):
            row = values[i * size : (i + 1) * size]
            top = max(row, default=0)
            total = top + math.log(sum(math.exp(x - top) for x in row) or 1)
            yield row, total

    def tokens(self, model=None, n=None):
        file, found = self.folder / "text.txt", []
        for text in all_texts()[:n]:
            file.write_bytes(text.encode())
            found.append(
                [int(t) for t in self.run("-m", "tokenize", "-f", file, model=model).replace(",", " ").split()]
            )
        what = f"tokens of {'a converted file' if model else 'the model'}"
        self.expect(found[0][:200] == self.expected["first"], f"{what}: the first 200")
        for i, (ids, expected) in enumerate(zip(found, self.expected["texts"])):
            self.expect(digest(ids) == expected, f"{what}: text {i} has {len(ids)} tokens, expected {expected[0]}")

    def chats(self, model=None):
        for (system, users), expected in zip(CHATS, self.expected["chats"]):
            # a pipe after -i would belong to the first message; after --load each line is one
            begun = self.folder / "begun.json"
            begun.write_text(json.dumps([{"role": "user", "content": users[0]}]), encoding="utf-8")
            lines = "".join(f"{user}\n" for user in users[1:])
            args = [
                "-m",
                "chat",
                "-t",
                0,
                "-n",
                1,
                "--verbose-prompt",
                "--load",
                begun,
                *(["-y", system] if system else []),
            ]
            shown = self.start(*args, model=model, text=lines).stderr.splitlines()
            found = [int(line.split()[0]) for line in shown if line[:7].strip().isdigit() and line[7:9] == "  "]
            self.expect(found == [t for prompt in expected for t in prompt], f"chat tokens of {users}")

    def kl_and_argmax(self, raw, n=None):
        """The mean KL divergence from the expected distribution (all but the likeliest tokens are one class), the
        positions with another argmax among those where it is clear, and the largest difference of a log-probability."""
        n = n or len(self.expected["ids"])
        kl, other, worst = [], [], 0
        for i, (row, total) in enumerate(self.rows(raw, n)):
            if not row:
                return math.inf, [0], math.inf
            best, logp = self.expected["best"][i], self.expected["logp"][i]
            found = [row[t] - total for t in best]
            rest, found_rest = (max(1 - sum(map(math.exp, x)), 1e-12) for x in (logp, found))
            kl.append(sum(math.exp(p) * (p - q) for p, q in zip(logp, found)) + rest * math.log(rest / found_rest))
            worst = max([worst, *(abs(p - q) for p, q in zip(logp, found))])
            if logp[0] - logp[1] > CLEAR and row.index(max(row)) != best[0]:
                other.append(i)
        return sum(kl) / n, other, worst

    def numbers(self):
        raw = self.logits()
        kl, other, _ = self.kl_and_argmax(raw)
        self.expect(
            0 <= kl + 1e-6 <= MAX_KL[self.name], f"mean KL is {kl:.5f} nats, expected at most {MAX_KL[self.name]}"
        )
        self.expect(not other, f"another argmax at positions {other}")
        ids = ",".join(map(str, self.expected["ids"][:PLAIN]))
        _, other, worst = self.kl_and_argmax(self.logits("--plain", ids=ids), PLAIN)
        self.expect(worst < 1e-4 and not other, f"--plain: a log-probability differs by {worst:.6f}")
        ids = ",".join(map(str, self.expected["ids"][:SWAPPED]))
        plain = self.rows(self.logits("--plain", "--norm", LAYER, ids=ids), SWAPPED)
        found = [row[t] - total for (row, total), t in zip(plain, self.expected["ids"][1:SWAPPED]) if row]
        worst = max((abs(p - q) for p, q in zip(found, self.expected["layer"])), default=math.inf)
        self.expect(worst < 2e-4, f"--plain with LayerNorm: a log-probability differs by {worst:.6f}")
        return kl

    def greedy(self):
        """The greedy text up to the first token that is not clearly the likeliest; the same text in every way to run."""
        e, n = self.expected, len(self.expected["ids"])
        line = self.run(
            "-t", 0, "-n", n, "--tokens", ",".join(map(str, e["ids"][: e["prompt"]])), "--json", "--logprobs", 1
        )
        found = [token["token"] for token in json.loads(line)["logprobs"]] if line else []
        clear = e["prompt"]
        while clear < n and e["logp"][clear - 1][0] - e["logp"][clear - 1][1] > CLEAR:
            clear += 1
        expected = e["ids"][e["prompt"] : clear]
        self.expect(found[: len(expected)] == expected, f"greedy: {found[: len(expected)]}, expected {expected}")
        return len(expected)

    def same_bits(self, ranks):
        ids = ",".join(map(str, self.expected["ids"][:PLAIN]))
        raw = self.logits(ids=ids)
        for args in (["-b", 1], ["-b", 7, "-j", 1]):
            self.expect(raw == self.logits(*args, ids=ids), f"other logits with {args}")
        if ranks:
            self.expect(raw == self.logits(command=ranks, ids=ids), "other logits on 2 ranks")
        prompt = ["-i", PROMPTS[self.name], "-n", 40, "--sampling", "llama2c", "-t", 0.8, "-s", 7]
        text = self.run(*prompt)
        for args in (["--lookup", 0], ["-j", 1, "-b", 3]):
            self.expect(text and text == self.run(*prompt, *args), f"another text with {args}")
        together = [json.loads(line) for line in self.run(*prompt, "--samples", 3, "--json").splitlines()]
        self.expect(len(together) == 3, f"--samples 3 gave {len(together)} texts")
        for sample in together:
            alone = self.run(*prompt[:-1], sample["seed"], "--json")
            same = alone and json.loads(alone)["completion"] == sample["completion"]
            self.expect(same, f"another text with seed {sample['seed']}")

    def instruments(self):
        """--dump, --profile and --norm layer measure the same on one thread and two."""
        ids, seen = ",".join(map(str, self.expected["ids"][:PLAIN])), []
        for threads in 1, 2:
            folder, table = self.folder / f"dump{threads}", self.folder / f"profile{threads}.csv"
            swapped = self.logits("--norm", "layer", "-j", threads, ids=ids)
            self.logits("--dump", folder, "-j", threads, ids=ids)
            self.run("-t", 0, "-n", 24, "-i", PROMPTS[self.name], f"--profile={table}", "-j", threads)
            dump = {file.name: hashlib.sha256(file.read_bytes()).digest() for file in folder.glob("*.npy")}
            with open(table, encoding="utf-8", newline="") as file:
                rows = csv.DictReader(line for line in file if line[0] != "#")
                kept = "phase layer site calls tokens rms_in rms_out mean_over_rms max_abs max_channel".split()
                of_prompt = [row for row in rows if row["phase"] == "prefill" and row["site"][0] != "("]  # all are timed
                # samples of queries and keys are those of the first thread's heads
                samples = [row["median_abs"] for row in of_prompt if row["site"] not in ("q_norm", "k_norm")]
                seen.append((swapped, dump, [[row[key] for key in kept] for row in of_prompt] + samples))
            shutil.rmtree(folder)
        for what, one, two in zip(("--norm layer", "--dump", "--profile"), *seen):
            self.expect(one and one == two, f"{what}: one thread and two differ")

    def near(self, found, expected, tolerance, what):
        self.expect(abs(found - expected) <= tolerance, f"{what} is {found:.4f}, expected {expected:.4f}")

    def chapter(self, texts):
        """The chapter's numbers are those of numpy, and numpy's of the first text are norma's."""
        rows, increases = chapter_rows(), [text["nats"][1] - text["nats"][0] for text in texts]
        for norm in texts[0]["figures"]:
            if self.name == "gemma3" and norm in rows and len(rows[norm][-1]) == 4:  # statement 62
                for i, unit in enumerate((0.0006, 0.006, 0.006)):
                    mean = statistics.mean(text["figures"][norm][i] for text in texts)
                    self.near(rows[norm][-1][i][0], mean, unit, f"the chapter's figure {i} of {norm}")
        if self.name == "gemma3":
            one = [text["nats"][2] - text["nats"][0] for text in texts]
            for name, values, unit in (("LayerNorm", increases, 0.06), ("3.mlp", one, 0.006)):
                mean, error = rows[name][-1][-1]
                self.near(mean, statistics.mean(values), unit, f"the chapter's increase with {name}")
                self.near(error, statistics.stdev(values) / math.sqrt(len(values)), unit, f"its error with {name}")
        ranges = [[text["figures"][norm][i] for text in texts] for i in range(3) for norm in texts[0]["figures"]]
        n = len(texts[0]["figures"])
        for i, cell in enumerate(rows[TITLES[self.name]][-1]):  # statement 61, of 16 longer texts, which differ
            means = [statistics.mean(values) for values in ranges[i * n : (i + 1) * n]]
            for which, bound, mean in zip(("min", "max"), cell, (min(means), max(means))):
                self.near(bound, mean, 0.25 * mean, f"the chapter's {which} of figure {i}")
        self.chapter_runs(texts[0])

    def chapter_runs(self, text):
        ids, folder, nats = text["ids"], self.folder / "chapter", []
        kinds = ["--dump", folder], ["--norm", LAYER], ["--norm", "3.mlp=layer"]
        for args in kinds[: len(text["nats"])]:
            raw = self.logits(*args, ids=",".join(map(str, ids)))
            chosen = range(8, len(ids) - 1, 4)
            size = len(raw) // len(ids)
            part = b"".join(raw[i * size : (i + 1) * size] for i in chosen)
            scored = zip(self.rows(part, len(chosen)), chosen)
            nats.append(statistics.mean(total - row[ids[i + 1]] for (row, total), i in scored))
        for found, expected, args in zip(nats, text["nats"], kinds):
            self.near(found, expected, 0.02 * expected, f"nats with {args[0]} {args[1]}")
        for name, expected in text["figures"].items():
            layer, _, site = name.rpartition(".")
            if name in ("0.mlp", "3.mlp", "final"):
                norm = f"layers.{layer}.mlp_norm" if layer else "final_norm"
                found = figures_of_dump(folder, norm)
                for i in range(3):
                    self.near(found[i], expected[i], 0.05 * expected[i] + 0.001, f"figure {i} of {norm}")
                if self.name == "gemma3" and layer == "3":
                    self.near(found[3], 6725, 70, "the largest activation before layer 3's MLP")
                    self.expect(found[4] == 400, f"it is in channel {found[4]}, expected 400")
        shutil.rmtree(folder, ignore_errors=True)

    def converted(self, back):
        q8, again = self.folder / "q8_0.gguf", self.folder / "back.gguf"
        self.run("-m", "convert", "-q", "q8_0", "-o", q8)
        self.tokens(q8, 3)
        self.chats(q8)
        kl, other, _ = self.kl_and_argmax(self.logits(model=q8))
        self.expect(kl <= MAX_KL[self.name] and not other, f"q8_0: mean KL is {kl:.5f}, argmax differs at {other}")
        if back:  # float32 holds the values of q8_0, so their logits are the same, and q8_0 of it is the file again
            self.run("-m", "convert", "-q", "f32", "-o", again, model=q8)
            ids = ",".join(map(str, self.expected["ids"][:4]))
            same = self.logits("--plain", model=q8, ids=ids) == self.logits("--plain", model=again, ids=ids)
            self.expect(same, "q8_0 and float32 made from it differ with --plain")
            self.tokens(again, 3)
            again.unlink(missing_ok=True)
        q8.unlink(missing_ok=True)


def ranks_command():
    """The command that runs norma on 2 ranks; None if there is no MPI."""
    if not shutil.which("mpicc") or not shutil.which("mpirun"):
        return None
    subprocess.run(["make", "-s", "-j2", "MPI=1", "build/mpi/run"], check=True, stdout=subprocess.DEVNULL)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    os.environ.update(root, OMPI_MCA_btl_vader_single_copy_mechanism="none")
    return ["mpirun", "--bind-to", "none", "--oversubscribe", "-n", "2", "build/mpi/run"]


def check(name, path, expected, norms, ranks):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        test = Check(name, path, expected[name], folder)
        test.tokens()
        test.chats()
        kl = test.numbers()
        clear = test.greedy()
        test.same_bits(ranks)
        test.instruments()
        if norms:
            test.chapter(norms)
        test.converted(back=name == "smollm2")
    seconds = time.monotonic() - begin
    print(
        f"{name}: {test.count} comparisons, {len(test.failures)} failed, mean KL {kl:.5f}, {clear} greedy tokens, {seconds:.0f} s"
    )
    for failure in test.failures:
        print(f"FAILED  {name}: {failure}", flush=True)
    return not test.failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="[all]: " + ", ".join(fetch_models.MODELS))
    parser.add_argument("--golden", action="store_true", help="write the expected values")
    args = parser.parse_args()
    os.chdir(ROOT)
    if args.golden:
        return write_golden()
    expected, ok = json.loads(GOLDEN.read_text()), True
    lines = [json.loads(line) for line in NORMS.read_text().splitlines()]
    files = {line["file"]: line["texts"] for line in lines}
    ranks = ranks_command()
    if not ranks:
        print("skipped published models on 2 ranks: no mpicc")
    for name in args.models or fetch_models.MODELS:
        try:
            path = fetch_models.fetch(name)
        except fetch_models.Unavailable as error:
            ok &= name != "smollm2"
            print(f"{'FAILED ' if name == 'smollm2' else 'skipped'} {name}: {error}")
            continue
        ok &= check(name, path, expected, files.get(path.name), ranks)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
