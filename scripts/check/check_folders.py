"""Compares norma's tokens with transformers' in folders that transformers' own save_pretrained writes.

    python scripts/check/check_folders.py [N]     # N rounds of 12 folders [5]; needs scripts/requirements.txt and ./run

Owns random tokenizers of 12 kinds (classes, and pipelines without a class) with small vocabularies of tests/golden:
special tokens, added tokens with any flags, chat templates; then draws what older tools and people write into the
files: another type of model, another class, special tokens by other keys, names that the vocabulary lacks. Compares
the tokens of texts and the prompt of a chat. Prints what differs and "N compared, N differ, N refused"; the exit status is 1 if something differs or is refused.

Not drawn: CodeLlamaTokenizer's further special tokens; flags of tokens that are also in extra_special_tokens, because
transformers 5.23 does not read back what it wrote; and lstrip, rstrip and single_word of normalized tokens where a normalizer writes U+2581
(Gemma, Prepend). It is no white space to transformers; norma differs there, because to norma it is one.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AddedToken, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
N_PIECES, DIM = 940, 8
TEXTS = [
    *(
        "Once upon a time, 42 café",
        "  two  spaces and\ttab\n\n x",
        "x<s>y </s> z",
        "<|im_start|>user\nhi<|im_end|>",
        "",
    ),
    *(
        "a<t1> b<t2>c <t1>",
        "  <t3>  q<t4>r",
        "日本語 🙂",
        " lead",
        "trail ",
        "<pad>q",
        "<unk> <0x41>",
        "word<w>word <w> <w>",
    ),
    *("x<e1>y <e2> <e3><e4>", " <unk>"),
    *("It's 3.14 DON'T", "[INST] hi [/INST] <u>x<a>", "def f(x):\n    return x\r\n", "éé <think> <left>x<right>"),
]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA2 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}"
    "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
NAMED = (
    "{% for m in messages %}<u>{{ m.content | trim }}{{ sep_token if sep_token is defined else '-' }}{{ pad_token }}<a>"
    "{{ image_token }}{{ e2_token }}{{ mask_token if mask_token is defined else '-' }}"
    "{% endfor %}"
)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def vocabulary(name):
    model = json.loads((GOLDEN / f"bpe_{name}.json").read_text())["model"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    return {"vocab": dict(model["vocab"]), "merges": [tuple(pair) for pair in pairs]}


def without_class(name, **changes):
    def make(d, **special):
        text = json.loads((GOLDEN / f"bpe_{name}.json").read_text())
        tokenizer = Tokenizer.from_str(json.dumps({**text, **changes}))
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)

    return make


def of_class(name, vocab, **choices):
    def make(d, **special):
        options = {key: d.choice(values) for key, values in choices.items()}
        return getattr(transformers, name)(**vocabulary(vocab), **options, **special)

    return make


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}
DIGITS = {"type": "Digits", "individual_digits": True}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}
KINDS = {
    "llama": of_class("LlamaTokenizer", "llama2", add_bos_token=[True, False], add_prefix_space=[True, False]),
    "code_llama": of_class("CodeLlamaTokenizer", "llama2"),
    "gemma": of_class("GemmaTokenizer", "llama2"),
    "qwen2": of_class("Qwen2Tokenizer", "qwen2"),
    "gpt2": of_class("GPT2Tokenizer", "qwen2", add_prefix_space=[True, False]),
    "gpt_neox": of_class("GPTNeoXTokenizer", "qwen2"),
    "cohere": of_class("CohereTokenizer", "qwen2"),
    "llama3": without_class("llama3", pre_tokenizer={"type": "Sequence", "pretokenizers": [SPLIT, BYTES]}),
    "digits": without_class(
        "qwen2", pre_tokenizer={"type": "Sequence", "pretokenizers": [DIGITS, BYTES | {"use_regex": True}]}
    ),
    "any": without_class("qwen2"),
    "prepend": without_class("llama2"),
    "metaspace": without_class("llama2", normalizer=None, pre_tokenizer=METASPACE),
}


def draw(kind, d):
    """A tokenizer of this kind with random special and added tokens."""
    spaced = kind in ("llama", "code_llama", "gemma", "prepend", "metaspace")
    bos, eos = ("<s>", "</s>") if spaced else ("<|endoftext|>", "<|im_end|>")
    if kind == "llama3":
        bos, eos = "<|begin_of_text|>", "<|eot_id|>"

    def flags():
        normalized = d.random() < 0.3
        plain = normalized and kind in ("gemma", "prepend")
        shares = {"lstrip": 0.3, "rstrip": 0.3, "single_word": 0.15}
        return {"normalized": normalized} | {flag: d.random() < share and not plain for flag, share in shares.items()}

    special = {"bos_token": bos, "eos_token": d.choice([eos, bos])}
    for name, token, share in ("pad", "<pad>", 0.5), ("unk", "<unk>", 0.4), ("sep", "<sep>", 0.3):
        if d.random() < share:
            special[f"{name}_token"] = token
    if d.random() < 0.3:
        special["additional_special_tokens"] = ["<t4>"]
    tokenizer = KINDS[kind](d, **special)
    if d.random() < 0.7:
        tokenizer.add_tokens([AddedToken("<t1>", **flags()), "<t2>"], special_tokens=d.random() < 0.5)
    if d.random() < 0.5:
        tokenizer.add_tokens([AddedToken("<t3>", **flags())])
    if d.random() < 0.3:
        tokenizer.add_tokens([AddedToken("<w>", special=True, **flags())])
    if d.random() < 0.8:
        tokenizer.chat_template = d.choice([CHATML, LLAMA2, NAMED])
    return tokenizer


def change(kind, folder, d):
    """Changes tokenizer_config.json and adds special_tokens_map.json. Returns the model's type."""
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    if kind in ("llama", "prepend", "metaspace") and d.random() < 0.6:
        classes = ["LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "NotInTransformers"]
        config["tokenizer_class"] = d.choice(classes)
        for key in "legacy", "add_prefix_space":
            if d.random() < 0.3:
                config[key] = d.random() < 0.5
    names = ["<e1>", "<e2>"]
    keyed = {"image_token": "<e1>", "e2_token": "<e2>"}
    extra = d.choice([{}, {"extra_special_tokens": names}, {"extra_special_tokens": keyed}, keyed])
    if kind != "code_llama":  # this class drops them
        config |= extra or d.choice([{}, {"model_specific_special_tokens": keyed}])
    if d.random() < 0.2:
        config["unk_token"] = d.choice(["<unk>", "<e3>"])
    if d.random() < 0.2:
        key = d.choice(["image_token", "pad_token", "mask_token"])
        (folder / "special_tokens_map.json").write_text(json.dumps({key: d.choice(["<e1>", "<e4>", "<pad>"])}))
    path.write_text(json.dumps(config))
    return d.choice(["llama", "llama", "mistral", "smollm3", "granite"])


def write_model(folder, model_type):
    config = {
        "model_type": model_type,
        "vocab_size": N_PIECES,
        "hidden_size": DIM,
        "intermediate_size": DIM,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    layer = "model.layers.0"
    weights = [f"{layer}.self_attn.{p}_proj" for p in "qkvo"] + [
        f"{layer}.mlp.{p}_proj" for p in ("gate", "up", "down")
    ]
    norms = ["model.norm", f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm"]
    tensors = {"model.embed_tokens.weight": torch.zeros(N_PIECES, DIM)}
    tensors |= {f"{name}.weight": torch.zeros(DIM, DIM) for name in weights}
    save_file(tensors | {f"{name}.weight": torch.ones(DIM) for name in norms}, folder / "model.safetensors")


def norma(folder, *options):
    done = subprocess.run([ROOT / "run", folder, *options], capture_output=True, input=b"", check=False)
    return done.returncode, done.stdout.decode(errors="replace").strip(), done.stderr.decode(errors="replace")


def compare(kind, folder):
    """Yields (what, expected ids, found ids or None, message)."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        status, found, message = norma(folder, "-m", "tokenize", "-i", text)
        ids = [int(token) for token in found.split(",")] if found else []
        yield text, tokenizer(text).input_ids, None if status else ids, message
    if tokenizer.chat_template:
        talk = [{"role": "user", "content": "hi there"}]
        expected = tokenizer.apply_chat_template(talk, add_generation_prompt=True)["input_ids"]
        status, _, message = norma(folder, "-m", "chat", "--verbose-prompt", "-n", "1", "-i", "hi there")
        found = [int(token) for token in re.findall(r"^ *(\d+)  '", message, re.MULTILINE)]
        yield "a chat", expected, None if status else found, message


def main():
    transformers.logging.set_verbosity_error()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compared = differ = refused = 0
    with tempfile.TemporaryDirectory() as top:
        for kind in KINDS:
            for i in range(rounds):
                folder = Path(top) / f"{kind}{i}"
                d = random.Random(f"{kind} {i}")
                draw(kind, d).save_pretrained(folder)
                write_model(folder, change(kind, folder, d) if i % 2 else "llama")
                for what, expected, found, message in compare(kind, folder):
                    compared += 1
                    refused += found is None
                    differ += found is not None and found != expected
                    if found != expected:
                        print(f"{folder.name}: {what!r}: {expected}, norma {found or message.splitlines()[-1:]}")
    print(f"{compared} compared, {differ} differ, {refused} refused")
    return differ + refused > 0


if __name__ == "__main__":
    sys.exit(main())
