"""Converts the weights of a folder from PyTorch's own format to one that norma opens.

pytorch_model.bin and its shards are pickles, which are programs. They are loaded with weights_only=True, which does not
execute them, and written as model.safetensors in the same folder. Meta's consolidated.*.pth are converted, too: their
parts are joined, the tensors get Hugging Face's names and order of rows, and params.json becomes config.json.
"""

import argparse
import json
import os
import pickle
import struct
import sys
from pathlib import Path

import torch

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def load(path):
    """The tensors of one file, memory-mapped if its format allows that."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # the format before PyTorch 1.6 cannot be mapped
        return torch.load(path, map_location="cpu", weights_only=True)


# ---- Hugging Face's files


def huggingface_tensors(folder):
    """Returns {name: tensor} of pytorch_model.bin or its shards, without buffers that config.json determines."""
    index = folder / "pytorch_model.bin.index.json"
    names = ["pytorch_model.bin"]
    if not (folder / names[0]).exists():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    tensors = {}
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{index}: {name!r} is not a file in the same folder")
        tensors |= load(folder / name)
    tensors = {name: w for name, w in tensors.items() if not name.endswith(".rotary_emb.inv_freq")}
    embedding, output = tensors.get("model.embed_tokens.weight"), tensors.get("lm_head.weight")
    if embedding is not None and output is not None and embedding.data_ptr() == output.data_ptr():
        del tensors["lm_head.weight"]  # tied
    return tensors


# ---- Meta's files

LAYER_NAMES = {
    "attention_norm": "input_layernorm",
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
}
TOP_NAMES = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}
SPLIT_BY_COLUMNS = "attention.wo", "feed_forward.w2"


def new_name(name):
    """layers.3.attention.wq.weight -> model.layers.3.self_attn.q_proj.weight"""
    if not name.startswith("layers."):
        return TOP_NAMES[name.removesuffix(".weight")] + ".weight"
    _, layer, part = name.removesuffix(".weight").split(".", 2)
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def join(name, parts, dim):
    """Joins a tensor from its parts for several devices; each part has all norms in full."""
    if len(parts) == 1 or parts[0].dim() == 1:
        return parts[0]
    by_columns = any(part in name for part in SPLIT_BY_COLUMNS)
    by_columns |= name == "tok_embeddings.weight" and parts[0].shape[1] < dim  # up to Llama 2
    return torch.cat(parts, dim=1 if by_columns else 0)


def split_halves(w, n_heads):
    """Rows of each head from pairs (0, 1), (2, 3), ... to RoPE in halves: first the even rows, then the odd ones."""
    rows, cols = w.shape
    return w.view(n_heads, rows // n_heads // 2, 2, cols).transpose(1, 2).reshape(rows, cols)


def meta_tensors(folder, params):
    shards = [load(path) for path in sorted(folder.glob("consolidated.*.pth"))]
    n_kv_heads = params.get("n_kv_heads") or params["n_heads"]
    tensors = {}
    for name in shards[0]:
        if name == "rope.freqs":
            continue
        w = join(name, [shard[name] for shard in shards], params["dim"])
        if name.endswith(".attention.wq.weight"):
            w = split_halves(w, params["n_heads"])
        if name.endswith(".attention.wk.weight"):
            w = split_halves(w, n_kv_heads)
        tensors[new_name(name)] = w
    return tensors


def meta_config(params, tensors):
    """Builds config.json. params.json lacks the context and the scaling of RoPE; they follow from the model's
    generation."""
    dim, n_heads, scaled = params["dim"], params["n_heads"], params.get("use_scaled_rope", False)
    llama3 = "rope_theta" in params
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": dim,
        "intermediate_size": tensors["model.layers.0.mlp.gate_proj.weight"].shape[0],
        "num_hidden_layers": params["n_layers"],
        "num_attention_heads": n_heads,
        "num_key_value_heads": params.get("n_kv_heads") or n_heads,
        "vocab_size": tensors["model.embed_tokens.weight"].shape[0],
        "max_position_embeddings": 131072 if scaled else 8192 if llama3 else 4096,
        "rms_norm_eps": params["norm_eps"],
        "rope_theta": params.get("rope_theta", 10000.0),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
    }
    if scaled:
        config["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": params.get("rope_scale_factor", 8),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
    return config


# ---- writing


def write_safetensors(path, tensors):
    """Writes 8 bytes of length, a JSON header and the data; renames the file when it is complete."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, w in tensors.items():
        if w.dtype not in TYPES:
            raise ValueError(f"{name} is {w.dtype}, expected float32, float16 or bfloat16")
        begin, end = end, end + w.numel() * w.element_size()
        header[name] = {"dtype": TYPES[w.dtype], "shape": list(w.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for w in tensors.values():
            file.write(w.detach().contiguous().flatten().view(torch.uint8).numpy())
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s FOLDER",
        description="Write model.safetensors from pytorch_model.bin or consolidated.*.pth in the same folder.",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    folder = parser.parse_args().folder
    target = folder / "model.safetensors"
    if target.exists():
        raise ValueError(f"{target} exists already")
    if not (folder / "consolidated.00.pth").exists():
        write_safetensors(target, huggingface_tensors(folder))
        return
    params = json.loads((folder / "params.json").read_text())
    tensors = meta_tensors(folder, params)
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text(json.dumps(meta_config(params, tensors), indent=2) + "\n")
    write_safetensors(target, tensors)


if __name__ == "__main__":
    try:
        main()
    except pickle.UnpicklingError:
        sys.exit("bin_to_safetensors.py: a file contains objects other than tensors and is not loaded")
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"bin_to_safetensors.py: {error}")
