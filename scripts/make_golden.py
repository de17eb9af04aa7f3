"""Writes tests/golden: float64 logits of small models whose weights the tests compute for themselves.

Owns which models, how many tokens, and the files' names. The weights are random_model.py's, the maths reference.py's.
With NORMA_CHECKPOINTS set, stories260K.bin from that folder is one of the models; otherwise its files stay as they are.
"""

import os
import sys
from pathlib import Path

import numpy as np

import checkpoint
import stock
from checkpoint import Config
from random_model import hash_tensor, hash_tokens
from reference import compare, forward

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
N_TOKENS = 40
MODELS = {  # name: seed, config, group size of the v2 twin
    "gqa_tied": (1, Config(64, 172, 2, 8, 4, 97, 64, True), 4),
    "mha_untied": (2, Config(48, 100, 3, 6, 6, 131, 64, False), 2),
    "odd_mqa": (3, Config(30, 37, 2, 3, 1, 33, 64, False), None),
    "wide": (4, Config(288, 768, 1, 6, 2, 64, 64, True), 32),
}
STORIES_PROMPT = [1, 403, 407, 261, 378]
STORIES_N_TOKENS = 48

README = """# Golden logits

`NAME.f32` holds the logits of a model for a list of tokens: float32, little-endian, `[n_tokens, vocab_size]`, rounded
from the float64 forward pass of `scripts/reference.py`. Weights and tokens are not stored: they come from the integer
hash defined in `scripts/random_model.py`, which the tests compute for themselves. `NAME_v2.f32` is the same for the
weights quantized to int8 in groups and dequantized again (llama2.c's version 2), with activations left alone.
`stories260K.f32` belongs to the published checkpoint of that name and the ids in `stories260K.tokens`: a prompt and
its greedy continuation.

| model | seed | dim | hidden | layers | heads | kv heads | vocab | context | classifier | v2 group | tokens |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{models}

Regenerate everything, from the top of the repository, with the folder that holds `stories260K.bin`:

    pip install -r scripts/requirements.txt
    NORMA_CHECKPOINTS=FOLDER python scripts/make_golden.py

## Stock

How far stock Hugging Face `LlamaForCausalLM` (float32, eager attention) is from these files, with the same weights and
tokens. `stock.txt` has the first column for the tests to read.

| model | max abs error | max abs logit | ratio |
| --- | --- | --- | --- |
{stock}
"""


def write_model(name, config, tensors, tokens):
    """Writes the golden logits; returns the largest absolute error of stock float32 against them."""
    golden = write_logits(name, config, tensors, tokens)
    return compare(stock.logits(config, tensors, tokens), golden)[0]


def write_logits(name, config, tensors, tokens):
    golden = forward(config, tensors, tokens).astype("<f4")
    golden.tofile(GOLDEN / f"{name}.f32")
    return golden


def quantized(tensors, group_size):
    """What is left of the tensors after a round trip through a v2 checkpoint."""
    return {
        name: checkpoint.dequantize(*checkpoint.quantize(w, group_size)) if checkpoint.is_quantized(name, 2) else w
        for name, w in tensors.items()
    }


def greedy(config, tensors, tokens, n):
    while len(tokens) < n:
        tokens = [*tokens, int(forward(config, tensors, tokens)[-1].argmax())]
    return tokens


def read_stock():
    path = GOLDEN / "stock.txt"
    rows = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return {name: float(error) for name, error in rows}


def model_row(name):
    seed, config, group_size = MODELS[name]
    classifier = "tied" if config.shared_classifier else "untied"
    sizes = *list(vars(config).values())[:7], classifier, group_size or "-", N_TOKENS
    return f"| `{name}` | {seed} | " + " | ".join(map(str, sizes)) + " |"


def stock_row(name, error):
    largest = np.abs(np.fromfile(GOLDEN / f"{name}.f32", "<f4")).max()
    return f"| `{name}` | {error:.3e} | {largest:.3e} | {error / largest:.2e} |"


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    errors = read_stock()
    for name, (seed, config, group_size) in MODELS.items():
        tensors = {tensor: hash_tensor(config, seed, tensor) for tensor in checkpoint.layout(config, 1)}
        tokens = hash_tokens(config, seed, N_TOKENS)
        errors[name] = write_model(name, config, tensors, tokens)
        if group_size:
            write_logits(f"{name}_v2", config, quantized(tensors, group_size), tokens)

    folder = os.environ.get("NORMA_CHECKPOINTS")
    if folder:
        config, tensors = checkpoint.read(Path(folder) / "stories260K.bin")
        tokens = greedy(config, tensors, STORIES_PROMPT, STORIES_N_TOKENS)
        (GOLDEN / "stories260K.tokens").write_text(",".join(map(str, tokens)) + "\n")
        errors["stories260K"] = write_model("stories260K", config, tensors, tokens)
    else:
        print("make_golden.py: NORMA_CHECKPOINTS is not set, stories260K is left as it was", file=sys.stderr)

    (GOLDEN / "stock.txt").write_text("".join(f"{name} {error:.3e}\n" for name, error in errors.items()))
    stock_table = "\n".join(stock_row(name, error) for name, error in errors.items())
    (GOLDEN / "README.md").write_text(README.format(models="\n".join(map(model_row, MODELS)), stock=stock_table))
    print(stock_table)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"make_golden.py: {error}")
