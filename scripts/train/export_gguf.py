"""Writes a model trained by train.py as a GGUF file for norma and other runners.

Owns the names and types of GGUF's tensors and keys, and the choice of an architecture that has the model's norms.
Matrices are float16, norms float32. train.py rotates adjacent elements, the order that GGUF uses for llama; in the
other architectures an element is rotated with the one half a head later, so rows are permuted. LayerNorm is stored as a
norm with a bias, which norma runs and other runners reject.
"""

import argparse
import os
import sys
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
import torch
from llama import EPS

sys.path.append(str(Path(__file__).resolve().parents[1]))
from checkpoint import Config

NAMES = {
    "attn_norm": "attn_norm",
    "wq": "attn_q",
    "wk": "attn_k",
    "wv": "attn_v",
    "wo": "attn_output",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "down": "ffn_down",
    "up": "ffn_up",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attn_post_norm": "post_attention_norm",
    "mlp_post_norm": "post_ffw_norm",
}
ARCHITECTURES = {("pre", "none"): "llama", ("pre", "head"): "qwen3", ("inside", "vector"): "olmo2"}
TOP_NAMES = {"token_embedding": "token_embd", "final_norm": "output_norm", "output": "output"}


def tensor_name(name):
    """layers.3.wq.weight -> blk.3.attn_q.weight"""
    *layer, kind, ending = name.removeprefix("layers.").split(".")
    return f"blk.{layer[0]}.{NAMES[kind]}.{ending}" if layer else f"{TOP_NAMES[kind]}.{ending}"


def add_config(writer, config):
    writer.add_name("norma stories")
    writer.add_description("Short stories for children; trained by norma's scripts, see docs/training.md")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.seq_len)
    writer.add_embedding_length(config.dim)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.hidden_dim)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_kv_heads)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_key_length(config.head_size)
    writer.add_value_length(config.head_size)
    writer.add_rope_dimension_count(config.head_size)
    writer.add_rope_freq_base(10000.0)


def token_type(tokenizer, token):
    if tokenizer.is_unknown(token):
        return gguf.TokenType.UNKNOWN
    if tokenizer.is_control(token):
        return gguf.TokenType.CONTROL
    return gguf.TokenType.BYTE if tokenizer.is_byte(token) else gguf.TokenType.NORMAL


def add_tokenizer(writer, tokenizer):
    tokens = range(tokenizer.vocab_size())
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([tokenizer.id_to_piece(token) for token in tokens])
    writer.add_token_scores([tokenizer.get_score(token) for token in tokens])
    writer.add_token_types([token_type(tokenizer, token) for token in tokens])
    writer.add_bos_token_id(tokenizer.bos_id())
    writer.add_eos_token_id(tokenizer.eos_id())
    writer.add_unk_token_id(tokenizer.unk_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(True)


def halves(w, head_size):
    """Reorders the rows of each head (or its part of a vector) from adjacent pairs to halves."""
    return w.unflatten(0, (-1, head_size // 2, 2)).transpose(1, 2).flatten(0, 2)


def write(path, architecture, config, tensors, tokenizer):
    """Writes the file whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        writer = gguf.GGUFWriter(partial, architecture)
        add_config(writer, config)
        add_tokenizer(writer, tokenizer)
        for name, w in tensors.items():
            if architecture != "llama" and name.split(".")[-2] in ("wq", "wk", "q_norm", "k_norm"):
                w = halves(w, config.head_size)
            writer.add_tensor(tensor_name(name), w.numpy().astype(np.float16 if w.dim() == 2 else np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s FOLDER OUT", description="Write a trained model as GGUF.")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="train.py's folder")
    parser.add_argument("out", metavar="OUT", type=Path)
    args = parser.parse_args()
    state = torch.load(args.folder / "checkpoint.pt", weights_only=True)
    options = state["options"]
    architecture = ARCHITECTURES.get((options["placement"], options["qk_norm"]))
    if options["norm"] in ("dyt", "none") or not architecture:
        raise ValueError(f"{args.folder}/checkpoint.pt: no GGUF architecture has these norms: {options}")
    tokenizer = sentencepiece.SentencePieceProcessor(str(args.folder / "tokenizer.model"))
    write(args.out, architecture, Config(**state["config"]), state["model"], tokenizer)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"export_gguf.py: {error}")
