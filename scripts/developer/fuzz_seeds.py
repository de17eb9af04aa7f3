"""Writes the seeds of the fuzzers in tests/fuzz: small valid models, folders, tokenizers and texts.

    python3 scripts/developer/fuzz_seeds.py                     writes tests/fuzz/seeds/TARGET/* (in the repository)
    python3 scripts/developer/fuzz_seeds.py --dictionary FILE   writes a dictionary for libFuzzer

Owns the contents of the seeds: together they have every format, architecture and weight type, and most keys and
options. tests/fuzz/TARGET.c says how a target reads its input. Needs only Python's standard library; the output is
deterministic.
"""

import json
import random
import re
import struct
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SEEDS = TOP / "tests/fuzz/seeds"
MARK = "\u2581"
TEMPLATES = {path.stem: path.read_text() for path in sorted((TOP / "tests/golden/chat").glob("*.jinja"))}
DEFAULT = {"dim": 8, "hidden": 4, "layers": 1, "heads": 2, "kv_heads": 1, "head": 4, "vocab": 12, "context": 16}

weights = random.Random(1)


def floats(count, around=0.0):
    return struct.pack(f"<{count}f", *(around + weights.uniform(-1, 1) for _ in range(count)))


def halves(count):
    return struct.pack(f"<{count}e", *(weights.uniform(-1, 1) for _ in range(count)))


def brain_floats(count):
    return b"".join(floats(1)[2:] for _ in range(count))


# ---- llama2.c ------------------------------------------------------------------------------------------------


def llama2c(version, tied, group=4):
    s = DEFAULT
    dim, hidden, kv_dim = s["dim"], s["hidden"], s["kv_heads"] * s["head"]
    ints = [dim, hidden, s["layers"], s["heads"], s["kv_heads"], s["vocab"], s["context"]]
    matrices = [dim * dim, kv_dim * dim, kv_dim * dim, dim * dim, hidden * dim, hidden * dim, hidden * dim]
    output = [] if tied else [s["vocab"] * dim]
    if version == 0:
        ints[5] *= 1 if tied else -1
        embedding, norms = floats(s["vocab"] * dim), floats(dim, 1)
        layers = norms + b"".join(map(floats, matrices[:4])) + norms + b"".join(map(floats, matrices[4:]))
        angles = bytes(4 * s["context"] * s["head"])
        return struct.pack("<7i", *ints) + embedding + layers + norms + angles + b"".join(map(floats, output))
    header = struct.pack("<2i7iBi", 0x616B3432, version, *ints, tied, group).ljust(256, b"\0")

    def matrix(n):
        return weights.randbytes(n) + floats(n // group) if version == 2 else floats(n)

    return header + floats(3 * dim, 1) + b"".join(map(matrix, [s["vocab"] * dim, *matrices, *output]))


def tokenizer_bin(pieces):
    return struct.pack("<i", 8) + b"".join(struct.pack("<fi", -i, len(p)) + p for i, p in enumerate(pieces))


# ---- GGUF ----------------------------------------------------------------------------------------------------

INT, REAL, BOOL, TEXT, I32 = 4, 6, 7, 8, 5
# name: (number, weights per block, bytes per block, offsets of its float16 numbers)
TYPES = {
    "F32": (0, 1, 4, []),
    "F16": (1, 1, 2, [0]),
    "BF16": (30, 1, 2, [0]),
    "Q8_0": (8, 32, 34, [0]),
    "Q4_0": (2, 32, 18, [0]),
    "Q4_1": (3, 32, 20, [0, 2]),
    "Q5_0": (6, 32, 22, [0]),
    "Q5_1": (7, 32, 24, [0, 2]),
    "Q4_K": (12, 256, 144, [0, 2]),
    "Q5_K": (13, 256, 176, [0, 2]),
    "Q6_K": (14, 256, 210, [208]),
    "Q2_K": (10, 256, 84, [80, 82]),
    "Q3_K": (11, 256, 110, [108]),
    "IQ4_NL": (20, 32, 18, [0]),
    "IQ4_XS": (23, 256, 136, [0]),
}


def gguf_string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value, integers=INT):
    if isinstance(value, bool):
        return BOOL, struct.pack("<B", value)
    if isinstance(value, (str, bytes)):
        return TEXT, gguf_string(value)
    if isinstance(value, list):
        parts = [gguf_value(v, I32) for v in value]
        kind = parts[0][0] if parts else TEXT
        return 9, struct.pack("<IQ", kind, len(value)) + b"".join(data for _, data in parts)
    return (REAL, struct.pack("<f", value)) if isinstance(value, float) else (integers, struct.pack("<I", value))


def blocks(name, count):
    """The weights of a tensor: random bits, with small float16 numbers in blocks."""
    _, size, n_bytes, places = TYPES[name]
    if name == "F32":
        return floats(count)
    if name in ("F16", "BF16"):
        return halves(count) if name == "F16" else brain_floats(count)
    found = b""
    for _ in range(count // size):
        block = bytearray(weights.randbytes(n_bytes))
        for at in places:
            block[at : at + 2] = struct.pack("<e", weights.uniform(-1, 1) / size / 8)
        found += block
    return found


def gguf(keys, tensors, version=3):
    """tensors: {name: (type, dims, data)}, dims as in the file: columns first."""
    file = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, value in keys.items():
        kind, data = gguf_value(value)
        file += gguf_string(key) + struct.pack("<I", kind) + data
    body = b""
    for name, (kind, dims, data) in tensors.items():
        body = body.ljust(-(-len(body) // 32) * 32, b"\0")
        file += gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0], len(body))
        body += data
    return file.ljust(-(-len(file) // 32) * 32, b"\0") + body


def gguf_model(architecture, keys=None, types=("F32",), biases=(), norms=("attn_norm", "ffn_norm"), head_norms=False,
               experts=0, tied=False, fused=False, **sizes):
    """Tensors cycle through the types that fit their columns, else F32. head_norms may be "wide"."""
    s = DEFAULT | sizes
    dim, hidden, q_dim, kv_dim = s["dim"], s["hidden"], s["heads"] * s["head"], s["kv_heads"] * s["head"]
    tensors = {}

    def matrix(name, cols, rows, *depth):
        fitting = [t for t in types if cols % TYPES[t][1] == 0] or ["F32"]
        kind = fitting[len(tensors) % len(fitting)]
        tensors[name + ".weight"] = kind, [cols, rows, *depth], blocks(kind, cols * rows * (depth or (1,))[0])
        if name.split(".")[-1] in biases:
            tensors[name + ".bias"] = "F32", [rows], floats(rows)

    def norm(name, size):
        tensors[name + ".weight"] = "F32", [size], floats(size, 1)
        if "norm" in biases and "_norm" in name:
            tensors[name + ".bias"] = "F32", [size], floats(size)

    matrix("token_embd", dim, s["vocab"])
    for layer in range(s["layers"]):
        at = f"blk.{layer}."
        for name in norms[:1]:
            norm(at + name, dim)
        qkv = [("qkv", dim, q_dim + 2 * kv_dim)] if fused else [("q", dim, q_dim), ("k", dim, kv_dim), ("v", dim, kv_dim)]
        for name, cols, rows in (*qkv, ("output", q_dim, dim)):
            matrix(at + "attn_" + name, cols, rows)
        for name, heads in (("attn_q_norm", s["heads"]), ("attn_k_norm", s["kv_heads"])) if head_norms else ():
            norm(at + name, s["head"] * (heads if head_norms == "wide" else 1))
        for name in norms[1:]:
            norm(at + name, dim)
        ends = ("_exps", experts) if experts else ("",)
        if experts:
            matrix(at + "ffn_gate_inp", dim, experts)
        gate_up = [("up", dim, 2 * hidden)] if fused else [("gate", dim, hidden), ("up", dim, hidden)]
        for name, cols, rows in (*gate_up, ("down", hidden, dim)):
            matrix(f"{at}ffn_{name}{ends[0]}", cols, rows, *ends[1:])
    if norms:
        norm("output_norm", dim)
    if not tied:
        matrix("output", dim, s["vocab"])
    for name in (keys or {}).pop("rope_tensors", ()):
        tensors[name + ".weight"] = "F32", [s["head"] // 2], floats(s["head"] // 2, 3)
    main = {
        "embedding_length": dim,
        "feed_forward_length": hidden,
        "block_count": s["layers"],
        "attention.head_count": s["heads"],
        "attention.head_count_kv": s["kv_heads"],
        "attention.key_length": s["head"],
        "attention.value_length": s["head"],
        "context_length": s["context"],
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    if experts:
        main |= {"expert_count": experts, "expert_used_count": 2, "expert_feed_forward_length": hidden}
    whole = {key: value for key, value in (keys or {}).items() if key.startswith(("tokenizer.", "norma."))}
    main |= {key: value for key, value in (keys or {}).items() if key not in whole}
    named = {f"{architecture}.{key}": value for key, value in main.items()}
    return gguf({"general.architecture": architecture} | named | whole, tensors)


def sentencepiece_keys(template):
    pieces = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xE2>", MARK, "a", "e", "n", "o", "t", "u", "i", "c", "p", "s", "m"]
    pieces += [MARK + "a", MARK + "u", "ti", "me", "time", MARK + "time", "on", "[INST]", "[/INST]", "<|im_end|>", "12"]
    types = [2, 3, 3, 6, 6] + [1] * (len(pieces) - 9) + [4, 4, 4, 5]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(pieces))],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": True,
        "tokenizer.chat_template": template,
    }


def byte_level_keys(pre, template):
    names = ["a", "e", "i", "m", "n", "o", "t", "u", "\u0120", "\u0120a", "ti", "me", "time", "\u00e2", "1", "2", "12"]
    pieces = [*names, "<|im_start|>", "<|im_end|>", "<think>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.merges": ["\u0120 a", "t i", "m e", "ti me", "1 2"],
        "tokenizer.ggml.token_type": [1] * len(names) + [3, 3, 4],
        "tokenizer.ggml.eos_token_id": len(names) + 1,
        "tokenizer.ggml.bos_token_id": len(names),
        "tokenizer.ggml.eot_token_id": len(names) + 1,
        "tokenizer.ggml.add_bos_token": False,
        "norma.tokenizer.normalizer": "nfc",
        "tokenizer.chat_template": template,
    }


def write_models():
    qkv = ("attn_q", "attn_k", "attn_v")
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0, "rope.freq_base": 1e4, "rope_tensors": ["rope_freqs"]}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 4}
    yarn |= {"rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.attn_factor": 1.5}
    small = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
    large = ("Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS")
    everywhere = ("norm", *qkv, "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    expert_keys = {"expert_weights_norm": False, "expert_gating_func": 1, "expert_weights_scale": 1.0}
    llama = sentencepiece_keys(TEMPLATES["llama-2"])
    qwen = byte_level_keys("qwen2", TEMPLATES["chatml"])
    n_llama, n_qwen = (len(keys["tokenizer.ggml.tokens"]) for keys in (llama, qwen))
    wide = {"dim": 32, "hidden": 32, "heads": 1, "head": 2}
    widest = {"dim": 256, "hidden": 2, "heads": 1, "head": 2, "vocab": 4}
    yield "v0", llama2c(0, True)
    yield "v0_untied", llama2c(0, False)
    yield "v1", llama2c(1, True)
    yield "v2", llama2c(2, False)
    yield "llama.gguf", gguf_model("llama", llama | {"rope.dimension_count": 2}, vocab=n_llama, tied=True, layers=2)
    yield "linear.gguf", gguf_model("llama", linear | {"attention.layer_norm_epsilon": 1e-5}, biases=everywhere, types=("F16",))
    yield "mixtral.gguf", gguf_model("llama", {"attention.sliding_window": 9, "vocab_size": 12}, experts=3, types=("F16",))
    yield "qwen2.gguf", gguf_model("qwen2", qwen | yarn, biases=qkv, vocab=n_qwen, types=("BF16",))
    yield "qwen3.gguf", gguf_model("qwen3", byte_level_keys("llama-bpe", TEMPLATES["llama-3"]), head_norms=True, vocab=20,
                                   types=("F16",))
    yield "qwen3moe.gguf", gguf_model("qwen3moe", expert_keys, head_norms=True, experts=4, types=("F16", "F32"))
    yield "small_blocks.gguf", gguf_model("llama", types=small, tied=True, **wide)
    yield "large_blocks.gguf", gguf_model("llama", types=large, tied=True, **widest)


def write_model_families():
    """Contexts are longer than what the caches of windows keep."""
    post = ("post_attention_norm", "post_ffw_norm")
    all_norms = ("attn_norm", "ffn_norm", *post)
    caps = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "attention.sliding_window": 3}
    pattern = {"attention.sliding_window_pattern": [True, False], "attention.sliding_window": 3, "rope.freq_base": 1e6}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0, "attention.sliding_window": 5}
    factors = {"rope_tensors": ["rope_factors_long", "rope_factors_short"], "rope.scaling.attn_factor": 1.25}
    factors |= {"rope.scaling.original_context_length": 90, "attention.sliding_window": 4}
    scales = {"embedding_scale": 3.0, "residual_scale": 0.5, "attention.scale": 0.25, "logit_scale": 4.0}
    layer_norms = {"attention.layer_norm_epsilon": 1e-5, "use_parallel_residual": False, "rope.dimension_count": 2}
    common = {"types": ("F16",), "layers": 2, "context": 100}
    yield "gemma2.gguf", gguf_model("gemma2", caps, norms=all_norms, tied=True, **common)
    yield "gemma3.gguf", gguf_model("gemma3", pattern, norms=all_norms, head_norms=True, **common)
    yield "olmo.gguf", gguf_model("olmo", {"attention.layer_norm_epsilon": 1e-5}, norms=(), tied=True, **common)
    yield "olmo2.gguf", gguf_model("olmo2", yarn, norms=post, head_norms="wide", **common)
    yield "phi3.gguf", gguf_model("phi3", factors, fused=True, **common)
    yield "granite.gguf", gguf_model("granite", scales, tied=True, **common)
    yield "smollm3.gguf", gguf_model("smollm3", tied=True, **common | {"layers": 4})
    yield "stablelm.gguf", gguf_model("stablelm", layer_norms, biases=("norm",), **common)


# ---- tokenizer.json ------------------------------------------------------------------------------------------


def byte_names():
    """The characters that stand for the bytes 0 to 255 (GPT-2's bytes_to_unicode)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b if b in plain else next(others)) for b in range(256)]


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST
QWEN_2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def byte_level(**more):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False} | more


def sequence(name, *members):
    return {"type": "Sequence", name: list(members)}


def begins_with(token, number):
    ids = {token: {"id": token, "ids": [number], "tokens": [token]}}
    single = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": ids}


def tokenizer_json(pieces, merges, added=(), **parts):
    vocab = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False}
    model |= {key: parts.pop(key) for key in list(parts) if key in (*model, "ignore_merges")}
    kinds = {"special": False, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    listed = [{"id": vocab.get(name, len(vocab) + i), "content": name} | kinds | more for i, (name, more) in enumerate(added)]
    whole = {"version": "1.0", "added_tokens": listed, "normalizer": None, "pre_tokenizer": None, "post_processor": None}
    return json.dumps(whole | parts | {"model": model | {"vocab": vocab, "merges": merges}}, ensure_ascii=False)


SPECIAL = [("<|im_start|>", {"special": True}), ("<|im_end|>", {"special": True}), ("<s>", {"special": True})]


def tokenizers():
    """Returns {name: text}, together with all features of tokenizer.json that norma supports."""
    few = ["a", "b", "e", "i", "m", "o", "t", "\u0120", "1", "2", "'", "s", "\u0120a", "ti", "me", "time", "12"]
    few_merges = ["\u0120 a", "t i", "m e", "ti me", "1 2"]
    pairs = [merge.split() for merge in few_merges]
    marked = [("<unk>", {"special": True}), ("<s>", {"special": True}), ("</s>", {"special": True})]
    characters = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xE2>", MARK, "a", "b", "i", "o", "t", "1", MARK + "a", "ti", MARK + "b"]
    character_merges = [[MARK, "a"], ["t", "i"], [MARK, "b"]]
    llama2 = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    prepend = {"type": "Prepend", "prepend": MARK}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False}
    digits = {"type": "Digits", "individual_digits": True}
    spaces = [("  ", {"normalized": True}), ("<l>", {"lstrip": True}), ("<r>", {"rstrip": True, "normalized": True})]
    processors = sequence("processors", byte_level(), begins_with("<s>", len(few) + 2))
    return {
        "gpt2": tokenizer_json(byte_names(), [], SPECIAL, pre_tokenizer=byte_level(use_regex=True)),
        "llama3": tokenizer_json(
            few, few_merges, SPECIAL, ignore_merges=True, post_processor=processors,
            pre_tokenizer=sequence("pretokenizers", split(LLAMA_3), byte_level()),
        ),
        "qwen2": tokenizer_json(
            few, pairs, SPECIAL + spaces, normalizer={"type": "NFC"},
            pre_tokenizer=sequence("pretokenizers", split(QWEN_2), byte_level()),
        ),
        "smollm": tokenizer_json(
            few, pairs, SPECIAL, pre_tokenizer=sequence("pretokenizers", digits, byte_level(use_regex=True))
        ),
        "numbers": tokenizer_json(
            few, pairs, [], pre_tokenizer=sequence("pretokenizers", split(r"\p{N}{1,3}"), split(r"\p{N}+"), byte_level())
        ),
        "space": tokenizer_json(few, pairs, [], pre_tokenizer=byte_level(add_prefix_space=True, use_regex=True)),
        "llama2": tokenizer_json(
            characters, character_merges, marked, post_processor=begins_with("<s>", 1),
            normalizer=sequence("normalizers", prepend, replace), **llama2,
        ),
        "metaspace": tokenizer_json(characters, character_merges, marked, pre_tokenizer=metaspace, **llama2),
    }


# ---- folders -------------------------------------------------------------------------------------------------


PRE_NORMS = ("input_layernorm", "post_attention_layernorm")


def folder(config, tokenizer="", beside=("", "", ""), kind="F16", fused=False, shards=False, norms=PRE_NORMS, **sizes):
    """The input of tests/fuzz/folder.c. With two shards, layers are in the first, the rest in the second."""
    s = DEFAULT | {"vocab": 20} | sizes
    dim, hidden, q_dim, kv_dim = s["dim"], s["hidden"], s["heads"] * s["head"], s["kv_heads"] * s["head"]
    architecture, biases = config["model_type"], []
    mixtral, wide = architecture == "mixtral", architecture.startswith("olmo")
    experts = config.get("num_local_experts" if mixtral else "num_experts", 0)
    head_norms = re.match("qwen3|gemma3|olmo[23]", architecture)
    if config.get("attention_bias"):
        biases += ["q_proj", "k_proj", "v_proj", "o_proj"]
    if architecture == "qwen2" or config.get("use_qkv_bias"):
        biases += ["q_proj", "k_proj", "v_proj"]
    if architecture == "stablelm":
        biases += ["norm", *norms]
    if config.get("mlp_bias"):
        biases += ["gate_proj", "up_proj", "down_proj"]
    shapes = {"model.embed_tokens.weight": [s["vocab"], dim], "model.norm.weight": [dim], "model.norm.bias": [dim]}
    for name in [] if "norm" in biases else ["model.norm.bias"] if norms else ["model.norm.weight", "model.norm.bias"]:
        del shapes[name]
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = [s["vocab"], dim]
    for layer in range(s["layers"]):
        at = f"model.layers.{layer}."
        parts = {"self_attn.q_proj": [q_dim, dim], "self_attn.k_proj": [kv_dim, dim], "self_attn.v_proj": [kv_dim, dim]}
        mlp = {"gate_proj": [hidden, dim], "up_proj": [hidden, dim], "down_proj": [dim, hidden]}
        if architecture == "phi3":
            parts = {"self_attn.qkv_proj": [q_dim + 2 * kv_dim, dim]}
            mlp = {"gate_up_proj": [2 * hidden, dim], "down_proj": [dim, hidden]}
        if mixtral:
            mlp = dict(zip(("w1", "w3", "w2"), mlp.values()))
        parts |= {"self_attn.o_proj": [dim, q_dim]} | {name: [dim] for name in norms}
        if head_norms:
            parts["self_attn.q_norm"] = [q_dim if wide else s["head"]]
            parts["self_attn.k_norm"] = [kv_dim if wide else s["head"]]
        if not experts:
            parts |= {f"mlp.{name}": shape for name, shape in mlp.items()}
        else:
            block = "block_sparse_moe" if mixtral else "mlp"
            parts[block + ".gate"] = [experts, dim]
            parts |= {f"{block}.experts.{e}.{name}": x for e in range(0 if fused else experts) for name, x in mlp.items()}
        for name, shape in parts.items():
            shapes[f"{at}{name}.weight"] = shape
            if name.split(".")[-1] in biases:
                shapes[f"{at}{name}.bias"] = shape[:1]
        if fused:
            shapes[at + "mlp.experts.gate_up_proj"] = [experts, 2 * hidden, dim]
            shapes[at + "mlp.experts.down_proj"] = [experts, dim, hidden]

    def file(names):
        header, data = {"__metadata__": {"format": "pt"}}, b""
        for name in names:
            count = shapes[name][0] * (shapes[name] + [1])[1] * (shapes[name] + [1, 1])[2]
            more = {"F32": floats, "F16": halves, "BF16": brain_floats}[kind](count)
            header[name] = {"dtype": kind, "shape": shapes[name], "data_offsets": [len(data), len(data) + len(more)]}
            data += more
        return json.dumps(header).encode(), data

    first = [name for name in shapes if "layers" in name or not shards]
    second = [name for name in shapes if name not in first]
    (header_a, data_a), (header_b, data_b) = file(first), file(second) if second else (b"", b"")
    index = {"metadata": {}, "weight_map": {name: "a" if name in first else "b" for name in shapes}}
    base = {"hidden_size": dim, "intermediate_size": hidden, "num_hidden_layers": s["layers"], "hidden_act": "silu"}
    base |= {"num_attention_heads": s["heads"], "num_key_value_heads": s["kv_heads"], "head_dim": s["head"]}
    base |= {"vocab_size": s["vocab"], "max_position_embeddings": s["context"], "rms_norm_eps": 1e-5, "rope_theta": 1e4}
    texts = [json.dumps(base | config), tokenizer, *beside, json.dumps(index) if shards else ""]
    return b"\0".join([*(text.encode() for text in texts), header_a, header_b, b"%d" % len(data_a), data_a + data_b])


def write_folders():
    known = tokenizers()
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    llama3 |= {"original_max_position_embeddings": 8}
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4, "mscale": 1.0, "mscale_all_dim": 0.7}
    yarn |= {"beta_fast": 32, "beta_slow": 1, "truncate": False}
    ends = json.dumps({"bos_token_id": 17, "eos_token_id": [18, 19]})
    named = [{"name": "other", "template": "x"}, {"name": "default", "template": TEMPLATES["chatml"]}]
    beside = json.dumps({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>"}, "add_bos_token": True}), ends
    listed = json.dumps({"eos_token": "<|im_end|>", "chat_template": named, "add_eos_token": True})
    minimind = {"model_type": "minimind", "inference_rope_scaling": True, "rope_scaling": {"factor": 4}}
    experts = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4, "norm_topk_prob": True}
    window = {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 0}
    llama = {"model_type": "llama", "rope_scaling": llama3, "attention_bias": True, "mlp_bias": True}
    yield "llama", folder(llama, known["llama3"], (*beside, TEMPLATES["llama-3"]), shards=True)
    yield "llama2", folder({"model_type": "llama", "tie_word_embeddings": True}, known["llama2"], kind="F32", vocab=16)
    yield "mistral", folder({"model_type": "mistral", "rope_parameters": yarn} | window, known["metaspace"])
    yield "qwen2", folder({"model_type": "qwen2", "layer_types": ["sliding_attention"]} | window, known["qwen2"],
                          (listed, "", ""), kind="BF16", vocab=24)
    yield "qwen3", folder({"model_type": "qwen3", "rope_scaling": {"type": "linear", "factor": 2}}, known["smollm"])
    moe = {"model_type": "qwen3_moe", "decoder_sparse_step": 1, "mlp_only_layers": [1]} | experts
    yield "qwen3_moe", folder(moe, kind="BF16")
    yield "fused", folder(moe | {"rope_scaling": {"type": "dynamic"}}, fused=True)
    yield "minimind", folder(minimind | {"use_moe": True, "tie_word_embeddings": True} | experts, known["space"])


def write_folder_families():
    """Contexts are longer than what the caches of windows keep."""
    post = ("post_attention_layernorm", "post_feedforward_layernorm")
    four = (*PRE_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")
    gemma = {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 4, "sliding_window": 3}
    gemma2 = {"model_type": "gemma2", "attn_logit_softcapping": 5.0, "tie_word_embeddings": True} | gemma
    full = {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0}
    ropes = {"full_attention": full, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}
    gemma3 = {"model_type": "gemma3_text", "layer_types": ["sliding_attention"] * 2} | gemma
    gemma3 |= {"rope_parameters": ropes, "tie_word_embeddings": True}
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "attention_factor": 1.2}
    olmo3 = {"model_type": "olmo3", "sliding_window": 4, "rope_scaling": yarn, "rope_theta": 500000}
    longrope = {"type": "longrope", "short_factor": [1.5], "long_factor": [2.0]}
    phi3 = {"model_type": "phi3", "rope_scaling": longrope, "partial_rotary_factor": 0.5, "sliding_window": 5}
    phi3 |= {"original_max_position_embeddings": 90}
    granite = {"model_type": "granite", "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}
    granite |= {"attention_multiplier": 0.1, "tie_word_embeddings": True}
    smollm3 = {"model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0], "use_sliding_window": False, "tie_word_embeddings": True}
    stablelm = {"model_type": "stablelm", "use_qkv_bias": True, "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5}
    mixtral = {"model_type": "mixtral", "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 4}
    common = {"layers": 2, "context": 100}
    yield "gemma2", folder(gemma2, norms=four, **common)
    yield "gemma3", folder(gemma3, norms=four, **common)
    yield "olmo", folder({"model_type": "olmo", "clip_qkv": None, "tie_word_embeddings": True}, norms=(), **common)
    yield "olmo3", folder(olmo3, norms=post, **common)
    yield "phi3", folder(phi3, kind="BF16", **common)
    yield "granite", folder(granite, **common)
    yield "smollm3", folder(smollm3, **common | {"layers": 4})
    yield "stablelm", folder(stablelm, kind="F32", **common)
    yield "mixtral", folder(mixtral, **common)


# ---- the other targets ---------------------------------------------------------------------------------------

SAMPLE = (
    "Once it's 12 o'clock, n\u00e4her e\u0301 \u4f60\u597d\r\n  \t<s>time<|im_end|> \U0001f600'll 1234567 \u2028\uac01".encode()
)


def with_text(head, tail, share, mode):
    """Input for bpe.c and tokenizer.c: a head, a text and a tail; the head gives the length of the text, in parts of
    `share`."""
    total = len(SAMPLE) + len(tail)
    part = next(p for p in range(mode, 256, 2) if total * p // share >= len(SAMPLE))
    text = SAMPLE.ljust(total * part // share, b" ")
    while (len(text) + len(tail)) * part // share > len(text):
        text += b" "
    return head(part) + text + tail


def sentencepiece_model(pieces):
    """A tokenizer.model: pieces, trainer_spec and normalizer_spec, by the numbers of sentencepiece_model.proto."""

    def field(number, value):
        return bytes([number * 8 + 2, len(value)]) + value

    data = b""
    for i, piece in enumerate(pieces):
        kind = bytes([3 * 8, 2 if i == 0 else 3]) if piece.startswith(b"<") else b""
        data += field(1, field(1, piece) + bytes([2 * 8 + 5]) + struct.pack("<f", -i) + kind)
    return data + field(2, bytes([3 * 8, 2])) + field(3, field(1, b"identity") + bytes([3 * 8, 1, 4 * 8, 0]))


def write_bpe():
    for name, text in tokenizers().items():
        tail = text.encode()
        share = next(p for p in range(256) if (len(SAMPLE) + len(tail)) * p // 256 >= len(SAMPLE))
        room = (len(SAMPLE) + len(tail)) * share // 256
        yield name, bytes([share, 0]) + SAMPLE.ljust(room, b".")[:room] + tail
    model = sentencepiece_model([b"<unk>", b"<s>", b"</s>", b"\xe2\x96\x81", b"t", b"i", b"m", b"e", b"ti", b"me", b"time"])
    share = next(p for p in range(256) if (len(SAMPLE) + len(model)) * p // 256 >= len(SAMPLE))
    room = (len(SAMPLE) + len(model)) * share // 256
    yield "sentencepiece", bytes([share, 254]) + SAMPLE.ljust(room, b".")[:room] + model
    for pre in range(5):
        merges = bytes(v for pair in (b"ti", b"me", b" a", b"12", b"\x80\xff", b"he", b"\xffr") for v in pair)
        share = (len(SAMPLE) * 256 + 255) // (len(SAMPLE) + len(merges))
        yield f"merges{pre}", bytes([share, 2 * pre + 1]) + SAMPLE + merges


def write_tokenizer():
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % b for b in range(16)), b" ", b"e", b"i", b"m", b"t", b" t"]
    pieces += [b"ti", b"me", b"time", b" time", b"12"]
    yield "bin", with_text(lambda part: bytes([len(pieces) - 3, part]), tokenizer_bin(pieces), 512, 254)
    for name in ("chatml", "llama-2", "llama-3", "zephyr"):
        template = TEMPLATES[name]
        marks = sorted(set(re.findall(r"<\|?\w+\|?>|\[/?INST\]|<</?SYS>>", template)))
        listed = [(2, b"<unk>"), (3, b"<s>"), (3, b"</s>"), *((4, m.encode()) for m in marks), (6, b"<0x0A>"), (5, b"")]
        listed += [(1, p) for p in (b"\xe2\x96\x81", b"t", b"i", b"ti", b"\xe2\x96\x81t", b"o", b"n", b"c", b"e")]
        data = b"".join(bytes([min(len(p), 31) << 3 | kind, i]) + p[:31] for i, (kind, p) in enumerate(listed))
        yield name, with_text(lambda part: bytes([len(listed) - 3, part]), data + template.encode(), 512, 101)


def write_json():
    yield "values", b'[null, true, false, 0, -0.5e-3, 1E+9, 9223372036854775807, "", {}, [], [[[[]]]]]'
    yield "strings", b'{"\\u00e9\\ud83d\\ude00": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000", "\xf0\x9f\x98\x80\xe2\x96\x81": "\x7f"}'
    yield "tokenizer", tokenizers()["llama3"].encode()
    totals = [
        {"of": of, "us_per_token": us, "error": error}
        for of, us, error in (
            ("mlp_norm", 2, 0.1), ("all norms", 2, 0.1), ("other work", 98, None), ("all work", 100, 1),
            ("time of a token", 120, 1),
        )
    ]  # fmt: skip
    phases = [{"name": name, "passes": 9, "totals": totals, "rows": []} for name in ("decode", "prefill")]
    run = {"model": "a", "norm": None, "threads": 2, "layers": 30, "dim": 576}
    yield "profile", json.dumps({"profile": 1, "run": run, "phases": phases}).encode()


def dictionary():
    """The strings in the sources that read files: keys, options, names, parts of chat templates."""
    texts = set()
    for path in ["formats/*.c", "kernels/tensor.h", "modes/template.c", "norm.c"]:
        for source in sorted(TOP.glob(path)):
            code = re.sub(r"/\*.*?\*/|^#include.*?$|'\\?.'", "", source.read_text(), flags=re.DOTALL | re.MULTILINE)
            texts |= set(re.findall(r'"((?:[^"\\\n]|\\[\\"])*)"', code))
    plain = sorted(t for t in texts if 1 < len(t) <= 64 and t.isascii() and not re.search(r"%|\\|[a-z] [a-z]|, ", t))
    return "".join(f'"{text}"\n' for text in plain)


def write_jinja():
    """Templates of models, and the small ones of tests/golden/jinja.json."""
    small = json.loads((TOP / "tests/golden/jinja.json").read_text())
    yield from ((name, text.encode()) for name, text in TEMPLATES.items() if len(text) < 4096)
    yield from ((f"small-{i}", case["template"].encode()) for i, case in enumerate(small))


def main(arguments):
    if arguments[:1] == ["--dictionary"]:
        Path(arguments[1]).write_text(dictionary())
        return
    targets = [("model", write_models), ("folder", write_folders), ("bpe", write_bpe), ("json", write_json)]
    targets += [("tokenizer", write_tokenizer), ("model", write_model_families), ("folder", write_folder_families)]
    targets += [("jinja", write_jinja)]
    for old in SEEDS.glob("*/*"):
        old.unlink()
    for target, write in targets:
        (SEEDS / target).mkdir(parents=True, exist_ok=True)
        for name, data in write():
            (SEEDS / target / name).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1:])
