r"""Writes tests/golden/tokens_NAME.bin: the tokens of golden_tokens.py's texts from Hugging Face's tokenizers library.

Owns the byte-pair tokenizers of the tests, tests/golden/bpe_KIND.json, which were trained on an earlier text of this
repository (`golden_bpe.py --train` trains new ones), and their variants:

    llama3          the Llama 3 pattern; words that are pieces are not split; BOS by a template
    qwen2           the Qwen 2 pattern; NFC; added tokens of every kind
    gpt2, smollm,   the pieces of qwen2 without NFC, split by ByteLevel, by digits and ByteLevel, by numbers and
    numbers, space  ByteLevel, by ByteLevel with a space before the text,
    gpt4o, tekken   by the patterns of GPT-4o and of Mistral's Tekken
    deepseek_llm, deepseek_coder, deepseek_v3, minicpm5
                    by the steps of these families
    llama2          no words: spaces become U+2581, one is prepended, unknown characters become bytes
    llama2_first    the same, with one prepended only to a whole text that does not begin with one (Metaspace)
    minimind        minimind/tokenizer.json in the folder NORMA_CHECKPOINTS (without it the file is unchanged)

patterns.txt has the regular expressions of pre-tokenizers, as JSON strings. digits.txt has the characters that the
pre-tokenizer Digits separates from letters, as ranges of code points (first, last).

A line of chat_bpe.txt is: family, 1 with a system prompt (else 0), turn, and the ids before the answer to that turn, as
transformers' apply_chat_template returns them with the templates in chat/ (MiniMind: its own) and the tokenizer llama3,
qwen2, llama2 (zephyr, llama-2) or MiniMind's.

Another tokenizer: golden_bpe.py NAME tokenizer.json. Invalid UTF-8 in texts is replaced by U+FFFD first.
"""

import codecs
import json
import os
import struct
import sys
import tempfile
from pathlib import Path

import sentencepiece
from golden_tokens import ANSWERS, GOLDEN, N_TEXTS, SYSTEM, TOP, USERS, Hash, texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import LlamaTokenizer, PreTrainedTokenizerFast

GROUP = 24
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + SPACES
QWEN_2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + SPACES
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LINES = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
GPT_4O = f"{PREFIX}{UPPER}*{LOWER}+{CONTRACTIONS}?|{PREFIX}{UPPER}+{LOWER}*{CONTRACTIONS}?|\\p{{N}}{{1,3}}{LINES}"
TEKKEN = f"{PREFIX}{UPPER}*{LOWER}+|{PREFIX}{UPPER}+{LOWER}*|\\p{{N}}{LINES}"
LATIN = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ"
    "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-"
    "Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-"
    "ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
EAST_ASIAN = "[一-龥ࠀ-一가-\ud7ff]+"
DEEPSEEK_LLM = "[\r\n]", rf"\s?[{LATIN}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", EAST_ASIAN
DEEPSEEK_CODER = "[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
MINICPM_5 = r"\p{N}{1,3}", LLAMA_3.replace("{1,3}", "+")
MARK = "\u2581"

codecs.register_error("each byte", lambda error: ("\ufffd", error.start + 1))


# ---- tokenizers ----------------------------------------------------------------------------------------------


def corpus():
    paths = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md")), *sorted(TOP.rglob("*.c"))]
    return [path.read_text() for path in paths]


def split_by(*patterns, digits=False):
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(tokenizer, size, special, alphabet):
    trainer = BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def save(name, tokenizer, change):
    """Writes the tokenizer as one line of JSON, modified by change()."""
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

    def add_words(content):  # pieces that no merges produce
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
    """Trained by sentencepiece, then converted by transformers, like the tokenizer.json of Llama 2."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text").write_text("\n".join(corpus()))
        options = "--model_type=bpe --vocab_size=900 --byte_fallback --character_coverage=0.98 --split_digits"
        plain = "--normalization_rule_name=identity --remove_extra_whitespaces=false --minloglevel=2"
        files = f"--input={folder}/text --model_prefix={folder}/tokenizer"
        sentencepiece.SentencePieceTrainer.Train(f"{options} {plain} {files}")
        converted = LlamaTokenizer.from_pretrained(folder, legacy=True, add_bos_token=True).backend_tokenizer

    normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])

    def write_as_older_files(content):
        content["normalizer"] = json.loads(normalizer.__getstate__())
        content["pre_tokenizer"] = None
        content["model"]["unk_token"] = "<unk>"
        content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]

    save("llama2", converted, write_as_older_files)


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
        "gpt4o": split_by(GPT_4O),
        "tekken": split_by(TEKKEN),
        "deepseek_llm": split_by(*DEEPSEEK_LLM, digits=True),
        "deepseek_coder": split_by(*DEEPSEEK_CODER, digits=True),
        "deepseek_v3": split_by(*DEEPSEEK_V3),
        "minicpm5": split_by(*MINICPM_5),
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
    """Returns {character: byte} of a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return names | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def pieces_of(tokenizer):
    """Yields the bytes of each piece, as norma has them, and whether text can become that piece."""
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


# ---- conversations --------------------------------------------------------------------------------------------


def chat_tokenizers(folder):
    """Yields (family, tokenizer, template)."""
    for family, name, ends in (
        ("llama-3", "llama3", ("<|begin_of_text|>", "<|eot_id|>")),
        ("chatml", "qwen2", (None, "<|im_end|>")),
        ("zephyr", "llama2", ("<s>", "</s>")),
        ("llama-2", "llama2", ("<s>", "</s>")),
    ):
        file = str(GOLDEN / f"bpe_{name}.json")
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, bos_token=ends[0], eos_token=ends[1])
        yield family, tokenizer, (GOLDEN / "chat" / f"{family}.jinja").read_text()
    if folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(Path(folder) / "minimind")
        yield "minimind", tokenizer, tokenizer.chat_template


def conversation(tokenizer, template, system, turn):
    """The ids before the answer to this turn."""
    messages = [{"role": "system", "content": SYSTEM}] if system else []
    for user, answer in zip(USERS[:turn], ANSWERS[:turn], strict=True):
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    messages.append({"role": "user", "content": USERS[turn]})
    options = {"chat_template": template, "add_generation_prompt": True}
    return tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **options)


def write_chat(folder):
    lines = []
    for family, tokenizer, template in chat_tokenizers(folder):
        for system in False, True:
            for turn in range(len(USERS)):
                ids = conversation(tokenizer, template, system, turn)
                lines.append(f"{family} {int(system)} {turn} {','.join(map(str, ids))}\n")
    (GOLDEN / "chat_bpe.txt").write_text("".join(lines))


def write_digits():
    digits = pre_tokenizers.Digits(individual_digits=True)
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    found = {c for c in points if len(digits.pre_tokenize_str(f"a{chr(c)}b")) == 3}
    starts = sorted(c for c in found if c - 1 not in found)
    ends = sorted(c for c in found if c + 1 not in found)
    lines = (f"{first:x} {last:x}\n" for first, last in zip(starts, ends, strict=True))
    (GOLDEN / "digits.txt").write_text("".join(lines))


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
    patterns = {"llama3": LLAMA_3, "qwen2": QWEN_2, "gpt4o": GPT_4O, "tekken": TEKKEN}
    lines = (f"{name} {json.dumps(pattern)}\n" for name, pattern in patterns.items())
    (GOLDEN / "patterns.txt").write_text("".join(lines))
    write_digits()
    if folder:
        write_chat(folder)
        write_tokens("minimind", Tokenizer.from_file(str(Path(folder) / "minimind" / "tokenizer.json")))
    else:
        print(
            "golden_bpe.py: NORMA_CHECKPOINTS is not set, tokens_minimind.bin and chat_bpe.txt are unchanged",
            file=sys.stderr,
        )


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"golden_bpe.py: {error}")
