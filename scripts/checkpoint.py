"""llama2.c checkpoints: reads and writes versions 0, 1 and 2.

Owns the three file layouts, the names and shapes of the tensors, and the int8 quantization of version 2. The forward
pass is in reference.py.

Every number is little-endian. A matrix is [rows = out, cols = in], row-major.

    v0  7 int32: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len; a negative vocab_size means
        that the classifier is not the embedding. Then float32 tensors, including two RoPE tables that no reader needs.
    v1  uint32 magic, int32 version, the same 7 int32 (vocab_size positive), uint8 shared_classifier, zeros up to
        byte 256. Then float32 tensors, the norms first.
    v2  as v1, with an int32 group_size at byte 37. The norms are float32; every other tensor is int8 [numel] followed
        by float32 scales [numel / group_size], and a weight is its int8 times the scale of its group.
"""

import math
import os
import struct
from dataclasses import astuple, dataclass

import numpy as np

MAGIC = 0x616B3432
HEADER_BYTES = 256  # of v1 and v2
NORMS = "attn_norm", "mlp_norm"
MATRICES = "wq", "wk", "wv", "wo", "gate", "down", "up"  # gate, down, up: llama2.c's w1, w2, w3


@dataclass(frozen=True)
class Config:
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    seq_len: int
    shared_classifier: bool

    def __post_init__(self):
        for field in ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"):
            if not 0 < getattr(self, field) < 2**31:
                raise ValueError(f"{field} is {getattr(self, field)}, expected 1 to 2^31 - 1")
        if self.dim % (2 * self.n_heads):
            raise ValueError(f"dim is {self.dim}, expected n_heads ({self.n_heads}) heads of an even size")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads is {self.n_kv_heads}, expected a divisor of n_heads ({self.n_heads})")

    @property
    def head_size(self):
        return self.dim // self.n_heads

    @property
    def kv_dim(self):
        return self.n_kv_heads * self.head_size

    def shape(self, name):
        """The shape of a tensor: "token_embedding", "layers.3.wq", ..."""
        return {
            "token_embedding": (self.vocab_size, self.dim),
            "attn_norm": (self.dim,),
            "wq": (self.dim, self.dim),
            "wk": (self.kv_dim, self.dim),
            "wv": (self.kv_dim, self.dim),
            "wo": (self.dim, self.dim),
            "mlp_norm": (self.dim,),
            "gate": (self.hidden_dim, self.dim),
            "down": (self.dim, self.hidden_dim),
            "up": (self.hidden_dim, self.dim),
            "final_norm": (self.dim,),
            "rope_cos": (self.seq_len, self.head_size // 2),
            "rope_sin": (self.seq_len, self.head_size // 2),
            "output": (self.vocab_size, self.dim),
        }[name.split(".")[-1]]


def layout(config, version):
    """The names of the tensors in the order of the file: by kind, then by layer."""

    def every_layer(*kinds):
        return [f"layers.{layer}.{kind}" for kind in kinds for layer in range(config.n_layers)]

    output = [] if config.shared_classifier else ["output"]
    if version == 0:
        layers = every_layer("attn_norm", "wq", "wk", "wv", "wo", "mlp_norm", "gate", "down", "up")
        return ["token_embedding", *layers, "final_norm", "rope_cos", "rope_sin", *output]
    return [*every_layer(*NORMS), "final_norm", "token_embedding", *every_layer(*MATRICES), *output]


def is_quantized(name, version):
    return version == 2 and not name.endswith("norm")


def quantize(w, group_size):
    """float32 w -> int8 q, float32 scales: one scale = max|w| / 127 per group, q = w / scale rounded half to even."""
    groups = w.reshape(-1, group_size)
    scales = np.abs(groups).max(axis=1) / np.float32(127)
    q = groups / np.where(scales == 0, np.float32(np.inf), scales)[:, None]  # an all-zero group: scale 0, q 0
    return np.rint(q, out=q).astype(np.int8).reshape(w.shape), scales


def dequantize(q, scales):
    return (q.reshape(len(scales), -1) * scales[:, None]).reshape(q.shape)  # int8 * float32 is float32


def check_group_size(config, group_size):
    if group_size < 1 or config.dim % group_size or config.hidden_dim % group_size:
        raise ValueError(
            f"group_size is {group_size}, expected a divisor of dim ({config.dim}) and hidden_dim ({config.hidden_dim})"
        )


def write(path, config, tensor, version, group_size=None):
    """Writes the checkpoint whole or not at all. tensor(name) returns a float32 array; called once per tensor."""
    if version == 2:
        check_group_size(config, group_size)
    *sizes, shared = astuple(config)
    if version == 0:
        sizes[5] *= 1 if shared else -1
        header = struct.pack("<7i", *sizes)
    else:
        group_size = group_size if version == 2 else 0
        header = struct.pack("<Ii7iBi", MAGIC, version, *sizes, shared, group_size).ljust(HEADER_BYTES, b"\0")
    partial = f"{path}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(header)
            for name in layout(config, version):
                w = rope_table(config, name) if name.startswith("rope") else tensor(name)
                parts = quantize(w, group_size) if is_quantized(name, version) else (w,)
                file.writelines(np.ascontiguousarray(part, part.dtype.newbyteorder("<")) for part in parts)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def rope_table(config, name):
    """v0's RoPE tables, which the format requires. No reader needs them: the angles follow from the config."""
    theta = 10000.0 ** (-2 * np.arange(config.head_size // 2) / config.head_size)
    angle = np.outer(np.arange(config.seq_len), theta)
    return (np.cos(angle) if name == "rope_cos" else np.sin(angle)).astype(np.float32)


def read(path):
    """Returns config, {name: float32 tensor}; tensors of v0 and v1 are views of the file, of v2 dequantized copies."""
    try:
        config, version, group_size, offset = read_header(path)
        data = np.memmap(path, np.uint8, "r")
        too_short = ValueError(f"{data.size} bytes, too short for its header")
        if 8 * config.n_layers * config.dim > data.size:  # the norms do not fit: avoids a loop over billions of layers
            raise too_short

        def take(dtype, count):
            nonlocal offset
            start, offset = offset, offset + count * np.dtype(dtype).itemsize
            if offset > data.size:
                raise too_short
            return data[start:offset].view(dtype)

        tensors = {}
        for name in layout(config, version):
            shape = config.shape(name)
            count = math.prod(shape)
            if is_quantized(name, version):
                tensors[name] = dequantize(take("i1", count).reshape(shape), take("<f4", count // group_size))
            else:
                tensors[name] = take("<f4", count).reshape(shape)
        if offset != data.size:
            raise ValueError(f"{data.size} bytes, expected {offset} according to its header")
        return config, tensors
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_header(path):
    """Returns config, version, group_size (None unless v2), header size in bytes."""
    with open(path, "rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) < 28:
        raise ValueError(f"{len(header)} bytes, too short for a llama2.c header")
    if struct.unpack_from("<I", header)[0] != MAGIC:
        *sizes, vocab_size, seq_len = struct.unpack_from("<7i", header)
        return Config(*sizes, abs(vocab_size), seq_len, vocab_size > 0), 0, None, 28
    if len(header) < HEADER_BYTES:
        raise ValueError(f"{len(header)} bytes, too short for a llama2.c header")
    _, version, *sizes, shared, group_size = struct.unpack_from("<Ii7iBi", header)
    if version not in (1, 2) or shared not in (0, 1):
        raise ValueError(f"version {version}, shared_classifier {shared}, expected version 1 or 2, and 0 or 1")
    config = Config(*sizes, shared == 1)
    if version == 1:
        return config, version, None, HEADER_BYTES
    check_group_size(config, group_size)
    return config, version, group_size, HEADER_BYTES
