r"""Writes what Hugging Face's tokenizers library makes of the texts of golden_tokens.py: tests/golden/tokens_NAME.bin.

Owns the byte-pair tokenizers that tests are made with, tests/golden/bpe_KIND.json, small ones trained for the purpose on
the text of this repository (as it was then; `golden_bpe.py --train` makes others); and what varies of them:

    llama3          the Llama 3 pattern; words that are pieces are not split; BOS by a template
    qwen2           the Qwen 2 pattern; NFC; added tokens of every sort
    gpt2, smollm,   the pieces of qwen2 without NFC, cut as by ByteLevel alone, by digits and ByteLevel, by numbers and
    numbers         ByteLevel with a space in front
    llama2          no words: spaces are U+2581 and one is put in front, unknown characters are bytes
    llama2_first    the same with one put only in front of a whole text, where there is none (Metaspace)
    minimind        minimind/tokenizer.json in the folder NORMA_CHECKPOINTS (without it the file stays as it was)

Another tokenizer: golden_bpe.py NAME tokenizer.json. Texts are made valid first: a byte that is no UTF-8 becomes U+FFFD.
"""

import codecs
import json
import os
import struct
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from golden_tokens import GOLDEN, N_TEXTS, TOP, Hash, texts

GROUP = 24
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + SPACES
QWEN_2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + SPACES
MARK = "\u2581"

codecs.register_error("each byte", lambda error: ("\ufffd", error.start + 1))


# ---- tokenizers ----------------------------------------------------------------------------------------------


def corpus():
    paths = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md")), *sorted(TOP.glob("*.c"))]
    return [path.read_text() for path in paths]


def split_by(pattern):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])


def train(tokenizer, size, special, alphabet):
    trainer = BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def save(name, tokenizer, change):
    """In one line, after a change to what the library would write."""
    content = json.loads(tokenizer.to_str())
    change(content)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    Tokenizer.from_str(text)
    (GOLDEN / f"bpe_{name}.json").write_text(text + "\n")


def train_llama3():
    tokenizer = Tokenizer(BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = split_by(LLAMA_3)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    train(tokenizer, 900, special, pre_tokenizers.ByteLevel.alphabet())
    bos = tokenizer.token_to_id(special[0])
    template = processors.TemplateProcessing(f"{special[0]} $A", None, [(special[0], bos)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])

    def add_words(content):  # that no merges lead to
        vocab = content["model"]["vocab"]
        vocab.update({word: len(vocab) + i for i, word in enumerate(("\u0120wonderful", "zzzz", "zqj"))})

    save("llama3", tokenizer, add_words)


def train_qwen2():
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_by(QWEN_2)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    train(tokenizer, 900, [], pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool", normalized=True), AddedToken("<think>", normalized=True)])
    tokenizer.add_tokens([AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("\u00e9\u00e9", normalized=True), AddedToken("    ", normalized=True)])
    save("qwen2", tokenizer, lambda content: None)


def train_llama2():
    tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    replace = decoders.Replace(MARK, " ")
    tokenizer.decoder = decoders.Sequence(
        [replace, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained = Tokenizer(BPE())
    trained.normalizer = normalizers.Replace(" ", MARK)
    trained.pre_tokenizer = pre_tokenizers.Split(MARK, "merged_with_next")
    train(trained, 900, special, list(map(chr, range(33, 127))))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])

    def take_trained(content):
        source = json.loads(trained.to_str())
        content["model"].update({key: source["model"][key] for key in ("vocab", "merges")})
        content["model"]["merges"] = [
            " ".join(merge) for merge in source["model"]["merges"]
        ]  # as older files have them
        content["added_tokens"] = source["added_tokens"][:3]

    save("llama2", tokenizer, take_trained)


def variants():
    for name in "llama3", "qwen2", "llama2":
        yield name, Tokenizer.from_file(str(GOLDEN / f"bpe_{name}.json"))
    digits, numbers = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Digits()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for name, cut in {
        "gpt2": byte_level,
        "smollm": pre_tokenizers.Sequence([digits, byte_level]),
        "numbers": pre_tokenizers.Sequence([numbers, byte_level]),
        "space": pre_tokenizers.ByteLevel(add_prefix_space=True),
    }.items():
        tokenizer = Tokenizer.from_file(str(GOLDEN / "bpe_qwen2.json"))
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = cut
        yield name, tokenizer
    tokenizer = Tokenizer.from_file(str(GOLDEN / "bpe_llama2.json"))
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    yield "llama2_first", tokenizer


# ---- tokens --------------------------------------------------------------------------------------------------


def alphabet():
    """The byte that each character of a byte-level vocabulary stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return names | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def pieces_of(tokenizer):
    """The bytes of each piece, as norma has them, and whether text can become it."""
    content = json.loads(tokenizer.to_str())
    added = {token["id"] for token in content["added_tokens"]}
    byte_level = not content["model"]["byte_fallback"]
    names = alphabet()
    for i in range(tokenizer.get_vocab_size()):
        name = tokenizer.id_to_token(i)
        if i in added:
            yield name.encode(), True
        elif byte_level:
            yield bytes(names[c] for c in name), True
        elif len(name) == 6 and name.startswith("<0x"):
            yield bytes([int(name[1:-1], 16) or ord("x")]), False
        else:
            yield name.replace(MARK, " ").encode(), True


def write_tokens(name, tokenizer):
    pieces = list(pieces_of(tokenizer))
    vocabulary = Hash()
    for i, (text, merges) in enumerate(pieces):
        if merges:
            vocabulary.add([i, 0, len(text), *text])
    words = [vocabulary.value, N_TEXTS, GROUP]
    for i, text in enumerate(texts([text for text, _ in pieces])):
        if i % GROUP == 0:
            group = Hash()
        ids = tokenizer.encode(text.decode(errors="each byte"), add_special_tokens=False).ids
        group.add([len(ids), *ids])
        if i % GROUP == GROUP - 1:
            words.append(group.value)
    (GOLDEN / f"tokens_{name}.bin").write_bytes(struct.pack(f"<{len(words)}I", *words))


def main():
    folder = os.environ.get("NORMA_CHECKPOINTS")
    if len(sys.argv) == 3:
        write_tokens(sys.argv[1], Tokenizer.from_file(sys.argv[2]))
        return
    if sys.argv[1:] == ["--train"]:
        train_llama3()
        train_qwen2()
        train_llama2()
    for name, tokenizer in variants():
        write_tokens(name, tokenizer)
    if folder:
        write_tokens("minimind", Tokenizer.from_file(str(Path(folder) / "minimind" / "tokenizer.json")))
    else:
        print("golden_bpe.py: NORMA_CHECKPOINTS is not set, tokens_minimind.bin is left as it was", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"golden_bpe.py: {error}")
