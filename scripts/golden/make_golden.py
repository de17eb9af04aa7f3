"""Writes tests/golden: float64 logits of small models whose weights the tests also compute, and weight blocks.

Owns the list of models, the number of tokens, and the names of the files. Weights come from random_model.py, the
forward pass from reference.py; the Python library gguf defines the blocks of a weight type. With NORMA_CHECKPOINTS set,
stories260K.bin from that folder is one of the models; otherwise its files are unchanged.
"""

import os
import sys
from pathlib import Path

import families
import gguf
import numpy as np
import relatives
import stock
from random_model import hash_tensor, hash_tokens, uniform
from reference import LLAMA, compare, forward

sys.path.append(str(Path(__file__).resolve().parents[1]))
import checkpoint
from checkpoint import Config

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
N_TOKENS = 40
MODELS = {  # name: seed, config, group size of the v2 twin
    "gqa_tied": (1, Config(64, 172, 2, 8, 4, 97, 64, True), 4),
    "mha_untied": (2, Config(48, 100, 3, 6, 6, 131, 64, False), 2),
    "odd_mqa": (3, Config(30, 37, 2, 3, 1, 33, 64, False), None),
    "wide": (4, Config(288, 768, 1, 6, 2, 64, 64, True), 32),
}
STORIES_PROMPT = [1, 403, 407, 261, 378]
STORIES_N_TOKENS = 48
BLOCK_TYPES = {  # in blocks.bin: (number of blocks, offsets of their float16 scales and offsets in bytes)
    "F16": (256, (0,)),
    "BF16": (256, ()),
    "Q8_0": (8, (0,)),
    "Q4_0": (8, (0,)),
    "Q4_1": (8, (0, 2)),
    "Q5_0": (8, (0,)),
    "Q5_1": (8, (0, 2)),
    "Q4_K": (4, (0, 2)),
    "Q5_K": (4, (0, 2)),
    "Q6_K": (4, (208,)),
    "Q2_K": (4, (80, 82)),
    "Q3_K": (4, (108,)),
    "IQ4_NL": (8, (0,)),
    "IQ4_XS": (4, (0,)),
}

README = r"""# Golden logits

`NAME.f32` holds the logits of a model for a list of tokens: float32, little-endian, `[n_tokens, vocab_size]`, rounded
from the float64 forward pass of `scripts/golden/reference.py`. Weights and tokens are not stored: they come from the integer
hash defined in `scripts/golden/random_model.py`, which the tests also compute. `NAME_v2.f32` is the same for the weights
quantized to int8 in groups and dequantized again (llama2.c's version 2), without quantizing activations.
`stories260K.f32` belongs to the published checkpoint of that name and the ids in `stories260K.tokens`: a prompt and its
greedy continuation.

| model | seed | dim | hidden | layers | heads | kv heads | vocab | context | classifier | v2 group | tokens |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{models}

Models of other architectures, whose weights `scripts/golden/relatives.py` defines, all with RoPE in halves and 40 tokens:

| model | seed | architecture | dim | hidden | layers | heads | kv heads | head size | experts | of which dense | notes |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{relatives}

Models of other families than LLaMA are in `families/`: `NAME.json` has a config.json with the published model's keys,
the names and shapes of its tensors, and the prompt; `NAME.f32` has the logits of transformers 5.23.0 in float64, with
eager attention. `python scripts/golden/families.py` writes them, and defines the weights:

| model | seed | model_type | like | notes |
| --- | --- | --- | --- | --- |
{families}

Regenerate everything, from the top of the repository, with the folder that holds `stories260K.bin`:

    pip install -r scripts/requirements.txt
    NORMA_CHECKPOINTS=FOLDER python scripts/golden/make_golden.py

## Stock

The error of stock Hugging Face `LlamaForCausalLM` (or `Qwen2...`, `Qwen3...`, `Qwen3MoeForCausalLM`; float32, eager
attention) relative to these files, with the same weights and tokens. The tests read the first column from `stock.txt`.

| model | max abs error | max abs logit | ratio |
| --- | --- | --- | --- |
{stock}

## Bits

`bits.txt` holds a hash of the logits of each model of `tests/test_bits.c`, to the last bit (FNV-1a, 64 bits): lines of
the kind of build (`fma`: processors with fused multiply-add, of any vector width: AVX-512, AVX2, aarch64 and
`x86-64-v2 -mfma`; `no_fma`: the others), the model and its type, the hash. gcc and clang give the same bits, optimized
or not, with and without VNNI. The angles of RoPE come from `pow`, `cos` and `sin`, the weights of experts from `expf`
(glibc 2.36): another C library may round one of them differently. A change of bits is a change of
results, which must be intended and stated in its commit. To update the file, on a machine with AVX-512:

    make -s test TEST_WRAPPER=true && make -s test TEST_WRAPPER=true ARCH=x86-64 VARIANT=v1
    for variant in release v1; do NORMA_PRINT_BITS=1 build/$variant/tests/all bits; done |
        grep -v passed > tests/golden/bits.txt

## Texts and tokens

`stories260K_greedy.txt` and `stories260K_seeds.txt` are what llama2.c (commit 350e04f, `run.c` built with `gcc -O3`)
writes for the published checkpoint: `run stories260K.bin -z tok512.bin -t 0 -n 256 -i "Once upon a time"`, and
`-t 1.0 -p 0.9 -n 256 -s SEED -i PROMPT` for each line `=== SEED PROMPT`.

`tok512_ids.txt` and `llama32k_ids.txt` hold lines of ids, a space, and the text in quotation marks (with `\n`, `\t`,
`\r`, `\\` and `\xNN`). The first come from `encode()` in the same `run.c`, with BOS; the second from the Python library
sentencepiece 0.2.3 and the Llama 2 tokenizer model, with BOS before them. llama2.c gives the same ids for these, too.

`tokens_NAME.bin` holds hashes of sentencepiece's tokens for 12,000 texts, which come from an integer hash as well;
`chat.txt` holds Hugging Face's tokens for conversations with the templates in `chat/`, which are written from the
published formats. `scripts/golden/golden_tokens.py` writes them and documents their format. After a change of
models/stories.gguf:

    NORMA_CHECKPOINTS=FOLDER python scripts/golden/golden_tokens.py

`bpe_NAME.json` are byte-pair tokenizers in Hugging Face's format, trained for the tests on this repository's own text.
The other `tokens_NAME.bin` hold hashes of the tokens of the same texts from the tokenizers library 0.23.3, with these
tokenizers, with variants of them, and with MiniMind's; `chat_bpe.txt` holds transformers' tokens for conversations with
them; `digits.txt` holds the characters that the library takes for digits. `scripts/golden/golden_bpe.py` writes all of these
and documents them.

`chat_rendered.json` holds conversations as transformers renders them with the templates in `chat/`, of which those of
published models are unchanged (Apache 2.0 or MIT); `jinja.json` holds small templates for the rules of the language.
`scripts/golden/golden_chat.py` writes both. `chat_names.txt` lists 88 published templates, most of them not stored here: for a
folder with them, `scripts/golden/golden_chat.py FOLDER` writes `rendered.json`, and `NORMA_TEMPLATES=FOLDER make test
SUITES=jinja` compares 2,112 conversations. 85 templates are right in all of them; norma refuses three, for
`dictsort`, `format` and `int`.

## Blocks

`blocks.bin` holds random blocks of each of GGUF's weight types and their exact values from `gguf.quants.dequantize` of
the Python library gguf. Little-endian, one type after the other: its number in GGUF files and the number of its
weights (two uint32), the blocks, the weights in float32. Scales and offsets are finite; some of them are negative, zero
or subnormal.

`quantized.bin` holds the output of `gguf.quants.quantize` for 32 x 32 weights in F16, BF16, Q8_0 and Q4_0, one after
the other; `write_quantized()` in `scripts/golden/make_golden.py` defines the weights.

## Norms

Inputs for these are the sets of `tests/support/norm_inputs.c` and `scripts/golden/make_norm_golden.py`, from the same hash.
PyTorch is 2.13.0 on a CPU with AVX-512, with one thread; transformers is 5.23.0. `python scripts/golden/make_norm_golden.py`
writes them.

`norm_errors.txt`: the largest errors of PyTorch's `rms_norm` and `layer_norm` in float32, and of their gradients,
relative to float64 on each set. `y` of RMSNorm is measured in ulp of each element, everything else in ulp of a token's
largest.

`norm_backward.bin`: gradients on the set `random` by float64 autograd, for dims 8, 17, 64 and 172, of RMSNorm, then of
LayerNorm: float64 `dx` of 8 tokens, then `dgamma` and (LayerNorm) `dbeta`, summed over the tokens.

`norm_half.bin`: the outputs of transformers' `LlamaRMSNorm`, then of PyTorch's `rms_norm`, for half-precision inputs,
16 bits each: in float16, then in bfloat16; for the sets `random`, `constant`, `spike` and `offset`; for dims 8, 17, 64
and 172.

`textbook.txt`: numbers of `docs/norms.md`, its other pages and their twins that no test computes, by statement: given ones
(years, versions, numbers of the notes), and measured ones. Written by hand; `tests/test_textbook.c` reads it.

`batching.txt`: the same for `docs/batching.md`; `tests/test_batching.c` reads it.
"""


def write_model(name, config, tensors, tokens):
    """Writes the golden logits; returns the largest absolute error of stock float32 against them."""
    golden = write_logits(name, config, tensors, tokens)
    return compare(stock.logits(config, tensors, tokens), golden)[0]


def write_logits(name, config, tensors, tokens, architecture=LLAMA):
    golden = forward(config, tensors, tokens, architecture).astype("<f4")
    golden.tofile(GOLDEN / f"{name}.f32")
    return golden


def write_relative(name, r):
    """The same for a model of another architecture; stock in float64 must agree with reference.py."""
    tensors, tokens = relatives.hash_tensors(r), hash_tokens(r.config, r.seed, N_TOKENS)
    golden = write_logits(name, r.config, tensors, tokens, r.architecture)
    error, largest = compare(relatives.stock_logits(r, tensors, tokens, double=True), golden)
    if error > 2e-6 * largest:
        raise ValueError(
            f"{name}: stock .double() is {error / largest:.2e} of the largest logit away from reference.py"
        )
    return compare(relatives.stock_logits(r, tensors, tokens), golden)[0]


def quantized(tensors, group_size):
    """The tensors after a round trip through a v2 checkpoint."""
    return {
        name: checkpoint.dequantize(*checkpoint.quantize(w, group_size)) if checkpoint.is_quantized(name, 2) else w
        for name, w in tensors.items()
    }


def greedy(config, tensors, tokens, n):
    while len(tokens) < n:
        tokens = [*tokens, int(forward(config, tensors, tokens)[-1].argmax())]
    return tokens


def random_halfs(random, n):
    """float16 numbers between -1/4 and 1/4; every fourth is zero, minus zero or subnormal."""
    halfs = random.uniform(-0.25, 0.25, n).astype("<f2")
    halfs[::4] = random.choice(np.array([0, 0x8000, 1, 0x83FF, 0x0123], "<u2"), len(halfs[::4])).view("<f2")
    return halfs


def write_blocks():
    random = np.random.default_rng(5)
    with open(GOLDEN / "blocks.bin", "wb") as out:
        for name, (n, halfs) in BLOCK_TYPES.items():
            kind = gguf.GGMLQuantizationType[name]
            weights, size = gguf.GGML_QUANT_SIZES[kind]
            blocks = random.integers(0, 256, (n, size), np.uint8)
            if name == "BF16":
                blocks[:, 1] &= 0xBF  # below 2: finite
            for at in halfs:
                blocks[:, at : at + 2] = random_halfs(random, n).view(np.uint8).reshape(n, 2)
            values = gguf.quants.dequantize(blocks.reshape(-1), kind).astype("<f4")
            np.array([kind, n * weights], "<u4").tofile(out)
            blocks.tofile(out)
            values.tofile(out)


def write_quantized():
    """Writes the gguf library's bytes for hash weights (tensor 1 of seed 6), in awkward scales, and for ties."""
    weights = uniform(6, 1, (32, 32)) * np.float32(2.0) ** np.arange(-16, 16)[:, None]
    weights[0] = 0
    weights[1] = (np.arange(32) - 16) / np.float32(16)  # -8.0, -7.5, ... of Q4_0's steps
    weights[2] = (np.arange(32) * 8 - 127) / np.float32(2)  # halves of Q8_0's, with 63.5 for -127 / 2
    with open(GOLDEN / "quantized.bin", "wb") as out:
        for name in "F16", "BF16", "Q8_0", "Q4_0":
            gguf.quants.quantize(weights.astype(np.float32), gguf.GGMLQuantizationType[name]).tofile(out)


def read_stock():
    path = GOLDEN / "stock.txt"
    rows = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return {name: float(error) for name, error in rows}


def model_row(name):
    seed, config, group_size = MODELS[name]
    classifier = "tied" if config.shared_classifier else "untied"
    sizes = *list(vars(config).values())[:7], classifier, group_size or "-", N_TOKENS
    return f"| `{name}` | {seed} | " + " | ".join(map(str, sizes)) + " |"


def relative_row(name):
    r = relatives.RELATIVES[name]
    sizes = list(vars(r.config).values())[:5]
    experts = f"{r.n_experts_used} of {r.n_experts}, width {r.expert_dim}" if r.n_experts else "-"
    notes = ["biases"] if r.name == "qwen2" else ["norms of heads"]
    notes += [] if r.norm_topk else ["weights not divided by their sum"]
    notes += ["RoPE factors, amplitude 1.25"] if r.rope_factors else []
    cells = r.seed, r.name, *sizes, r.head_size, experts, r.n_dense or "-", ", ".join(notes)
    return f"| `{name}` | " + " | ".join(map(str, cells)) + " |"


def stock_row(name, error):
    largest = np.abs(np.fromfile(GOLDEN / f"{name}.f32", "<f4")).max()
    return f"| `{name}` | {error:.3e} | {largest:.3e} | {error / largest:.2e} |"


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    write_blocks()
    write_quantized()
    errors = read_stock()
    for name, (seed, config, group_size) in MODELS.items():
        tensors = {tensor: hash_tensor(config, seed, tensor) for tensor in checkpoint.layout(config, 1)}
        tokens = hash_tokens(config, seed, N_TOKENS)
        errors[name] = write_model(name, config, tensors, tokens)
        if group_size:
            write_logits(f"{name}_v2", config, quantized(tensors, group_size), tokens)

    for name, r in relatives.RELATIVES.items():
        errors[name] = write_relative(name, r)

    folder = os.environ.get("NORMA_CHECKPOINTS")
    if folder:
        config, tensors = checkpoint.read(Path(folder) / "stories260K.bin")
        tokens = greedy(config, tensors, STORIES_PROMPT, STORIES_N_TOKENS)
        (GOLDEN / "stories260K.tokens").write_text(",".join(map(str, tokens)) + "\n")
        errors["stories260K"] = write_model("stories260K", config, tensors, tokens)
    else:
        print("make_golden.py: NORMA_CHECKPOINTS is not set, stories260K's files are unchanged", file=sys.stderr)

    (GOLDEN / "stock.txt").write_text("".join(f"{name} {error:.3e}\n" for name, error in errors.items()))
    stock_table = "\n".join(stock_row(name, error) for name, error in errors.items())
    (GOLDEN / "README.md").write_text(
        README.format(
            models="\n".join(map(model_row, MODELS)),
            relatives="\n".join(map(relative_row, relatives.RELATIVES)),
            families="\n".join(map(families.row, families.FAMILIES)),
            stock=stock_table,
        )
    )
    print(stock_table)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"make_golden.py: {error}")
