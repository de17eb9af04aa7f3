"""Writes a llama2.c checkpoint of any shape with random weights, and a made-up tokenizer to go with it.

Owns the hash weights and the made-up vocabulary. The file formats of checkpoints belong to checkpoint.py.

The weights come from an integer hash, so that C tests compute the same ones. This is their definition:

    h(seed, tensor, i) = finalizer(seed * 0x9E3779B97F4A7C15 + (tensor << 40) + i)      all in uint64, wrapping around
    finalizer(z):  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
                   z = (z ^ (z >> 27)) * 0x94D049BB133111EB
                   z ^ (z >> 31)                                                        (that of splitmix64)
    u(seed, tensor, i) = (h >> 40) / 2^24 - 0.5                                         in [-0.5, 0.5), exact in float32

    i       row-major index of the element
    tensor  0                   token_embedding [vocab_size, dim]
            1 + 9 * layer + 0   attn_norm [dim]
                          + 1   wq        [dim, dim]
                          + 2   wk        [kv_dim, dim]
                          + 3   wv        [kv_dim, dim]
                          + 4   wo        [dim, dim]
                          + 5   mlp_norm  [dim]
                          + 6   gate      [hidden_dim, dim]    (llama2.c: w1)
                          + 7   down      [dim, hidden_dim]    (llama2.c: w2)
                          + 8   up        [hidden_dim, dim]    (llama2.c: w3)
            1 + 9 * n_layers    final_norm [dim]
            2 + 9 * n_layers    output    [vocab_size, dim], unless it is token_embedding

    norms            1 + u / 2, computed in double, rounded to float32
    token_embedding  u * 2
    other matrices   u * 2^k,  k = floor(log2(2 * sqrt(3) / sqrt(cols)) + 0.5), computed in double: the power
                     of two that is nearest to a variance of 1 / cols; the product is exact

    token(seed, i) = h(seed, 0xFFFFFF, i) % vocab_size                                  test tokens
"""

import argparse
import itertools
import math
import string
import struct
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
import checkpoint
from checkpoint import Config

PRESETS = {
    "260K": Config(64, 172, 5, 8, 4, 512, 512, True),
    "15M": Config(288, 768, 6, 6, 6, 32000, 1024, True),
    "110M": Config(768, 2048, 12, 12, 12, 32000, 1024, True),
    "1.1B": Config(2048, 5632, 22, 32, 4, 32000, 2048, False),
}
KINDS = "attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "gate", "down", "up"
CHUNK = 1 << 16  # elements hashed at a time: the working set stays in the cache
N_SPECIAL = 3 + 256  # <unk>, BOS, EOS and the bytes


def hashes(seed, tensor, start, stop):
    """h(seed, tensor, i) for start <= i < stop, as uint64."""
    base = (seed * 0x9E3779B97F4A7C15 + (tensor << 40) + start) % 2**64
    z = np.arange(stop - start, dtype=np.uint64)
    z += np.uint64(base)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed, tensor, shape):
    """u(seed, tensor, i) for a whole tensor, float32."""
    u = np.empty(math.prod(shape), np.float32)
    for start in range(0, u.size, CHUNK):
        stop = min(start + CHUNK, u.size)
        u[start:stop] = hashes(seed, tensor, start, stop) >> np.uint64(40)
    u *= 2.0**-24
    u -= 0.5
    return u.reshape(shape)


def tensor_id(config, name):
    if name.startswith("layers."):
        _, layer, kind = name.split(".")
        return 1 + 9 * int(layer) + KINDS.index(kind)
    return {"token_embedding": 0, "final_norm": 1 + 9 * config.n_layers, "output": 2 + 9 * config.n_layers}[name]


def weights(name, u):
    """A norm or a matrix, computed from u, which has its shape and is overwritten."""
    if name.endswith("norm"):
        return (1 + u.astype(np.float64) / 2).astype(np.float32)
    k = 1 if name == "token_embedding" else math.floor(math.log2(2 * math.sqrt(3) / math.sqrt(u.shape[-1])) + 0.5)
    u *= 2.0**k
    return u


def hash_tensor(config, seed, name):
    return weights(name, uniform(seed, tensor_id(config, name), config.shape(name)))


def hash_tokens(config, seed, n):
    return (hashes(seed, 0xFFFFFF, 0, n) % np.uint64(config.vocab_size)).astype(np.int64)


def vocabulary(vocab_size):
    """(piece, score) for every id: special tokens, bytes, printable ASCII, then aa, ab, ..., each scored below the last."""
    yield from ((piece, 0.0) for piece in (b"<unk>", b"\n<s>\n", b"\n</s>\n"))
    yield from ((b"<0x%02X>" % byte, 0.0) for byte in range(256))
    ascii_pieces = (bytes([code]) for code in range(ord(" "), ord("~") + 1))
    letters = string.ascii_lowercase
    words = ("".join(word).encode() for n in itertools.count(2) for word in itertools.product(letters, repeat=n))
    made_up = itertools.chain(ascii_pieces, words)
    yield from ((piece, -float(rank)) for rank, piece in enumerate(itertools.islice(made_up, vocab_size - N_SPECIAL)))


def write_tokenizer(path, vocab_size):
    """llama2.c's tokenizer.bin: int32 max_token_length; for every id float32 score, int32 length, the bytes."""
    pieces = list(vocabulary(vocab_size))
    with open(path, "wb") as file:
        file.write(struct.pack("<i", max(len(piece) for piece, _ in pieces)))
        file.writelines(struct.pack("<fi", score, len(piece)) + piece for piece, score in pieces)


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s OUT [options]", description="Write a llama2.c checkpoint with random weights."
    )
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--format", choices=["v0", "v1", "v2"], default="v0")
    parser.add_argument("--preset", choices=PRESETS, default="260K", help="the shape; other options change it")
    parser.add_argument("--dim", type=int)
    parser.add_argument("--hidden", type=int, dest="hidden_dim")
    parser.add_argument("--layers", type=int, dest="n_layers")
    parser.add_argument("--heads", type=int, dest="n_heads")
    parser.add_argument("--kv-heads", type=int, dest="n_kv_heads")
    parser.add_argument("--vocab", type=int, dest="vocab_size")
    parser.add_argument("--context", type=int, dest="seq_len")
    parser.add_argument("--untied", action=argparse.BooleanOptionalAction, help="a separate output classifier")
    parser.add_argument("--group-size", type=int, default=32, help="group size of v2's scales [32]")
    parser.add_argument("--seed", type=int, default=1, help="[1]")
    parser.add_argument("--tokenizer", metavar="FILE", help="write a tokenizer.bin for this vocabulary as well")
    args = parser.parse_args()

    fields = vars(PRESETS[args.preset]).copy()
    fields.update({field: value for field in fields if (value := getattr(args, field, None)) is not None})
    if args.untied is not None:
        fields["shared_classifier"] = not args.untied
    config = Config(**fields)
    if args.tokenizer and config.vocab_size <= N_SPECIAL:
        raise ValueError(f"vocab_size is {config.vocab_size}, a tokenizer needs {N_SPECIAL + 1} or more")

    version = int(args.format[1])
    checkpoint.write(args.out, config, lambda name: hash_tensor(config, args.seed, name), version, args.group_size)
    if args.tokenizer:
        write_tokenizer(args.tokenizer, config.vocab_size)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"random_model.py: {error}")
