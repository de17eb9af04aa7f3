r"""Writes tokens in tests/golden: those of texts from the sentencepiece library, of conversations from Hugging Face's.

Owns the texts, which come from an integer hash, so that tests/text/test_pieces.c computes the same ones; the made-up
vocabulary of the tests (tests/support/hashmodel.c) as a SentencePiece model; and the files:

    tokens_NAME.bin     uint32, little-endian: hash of the vocabulary, number of texts, texts per group, then a hash of
                        the tokens of each group. A hash is FNV-1a over uint32 words. Vocabulary: id, bits of the score,
                        length and bytes of each piece that is a text; tokens: for each text their number, then the ids.
    chat.txt            lines of: family, type of the markers in the vocabulary (control, user, none), 1 with a system
                        prompt (else 0), turn, the ids of the conversation before the answer. chat/FAMILY.jinja are
                        equivalent to the templates in models of the family.

NAME is `stories` (models/stories.gguf), `user` (made up, with user-defined pieces), `unknown`
(the same without byte pieces) and `llama32k` (llama32k.model in
the folder NORMA_CHECKPOINTS; without it the file is unchanged). Another tokenizer: golden_tokens.py NAME FILE, where
FILE is a SentencePiece model or a GGUF file.

The numbers of text i are h(SEED, i, k), k = 0, 1, ... of random_model.py.
"""

import os
import struct
import sys
import tempfile
from pathlib import Path

import gguf
import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from transformers import LlamaTokenizer

TOP = Path(__file__).resolve().parents[2]
GOLDEN = TOP / "tests" / "golden"
SEED, N_TEXTS, GROUP = 23, 12000, 8
M64 = 2**64 - 1
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

SCRIPTS = [  # (first code point, number)
    *[(0x21, 94), (0xA1, 95), (0x100, 384), (0x250, 96), (0x300, 112), (0x370, 144), (0x400, 304), (0x531, 86)],
    *[(0x591, 100), (0x600, 256), (0x700, 80), (0x780, 50), (0x7C0, 60), (0x900, 128), (0x980, 128), (0xA00, 128)],
    *[(0xA80, 128), (0xB00, 128), (0xB80, 128), (0xC00, 128), (0xC80, 128), (0xD00, 128), (0xD80, 128), (0xE01, 91)],
    *[(0xE80, 96), (0xF00, 256), (0x1000, 160), (0x10A0, 96), (0x1100, 256), (0x1200, 384), (0x13A0, 96)],
    *[(0x1400, 640), (0x1680, 29), (0x16A0, 89), (0x1700, 96), (0x1780, 128), (0x1800, 176), (0x1E00, 512)],
    *[(0x2000, 112), (0x2070, 48), (0x20A0, 33), (0x2100, 80), (0x2190, 112), (0x2200, 256), (0x2500, 128)],
    *[(0x25A0, 96), (0x2600, 256), (0x2800, 256), (0x2C00, 96), (0x2D30, 80), (0x3001, 63), (0x3041, 191)],
    *[(0x3105, 43), (0x4E00, 20000), (0x4E00, 500), (0xA000, 1165), (0xAC00, 11172), (0xAC00, 300), (0xE000, 100)],
    *[(0xF900, 300), (0xFB00, 80), (0xFB50, 600), (0xFE00, 16), (0xFF01, 94), (0xFFF9, 7), (0x10000, 128)],
    *[(0x10330, 27), (0x12000, 900), (0x13000, 1000), (0x1D400, 1000), (0x1F000, 44), (0x20000, 9000), (0xE0100, 240)],
]
SPACES = [0x20, 0x20, 0x20, 0x09, 0x0A, 0x0A, 0x0D, 0x0B, 0xA0, 0x2009, 0x3000, 0x2028]


# ---- texts ---------------------------------------------------------------------------------------------------


class Draw:
    """The random numbers of one text."""

    def __init__(self, text):
        self.next = (SEED * 0x9E3779B97F4A7C15 + (text << 40)) & M64

    def any(self, n):
        z = self.next
        self.next = (z + 1) & M64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
        return (z ^ (z >> 31)) % n


def utf8(code):
    """Also encodes surrogates."""
    return chr(code).encode("utf-8", "surrogatepass")


def in_script(d):
    start, count = SCRIPTS[d.any(len(SCRIPTS))]
    return utf8(start + d.any(count))


def word(d):
    letters = bytes(ord("a") + d.any(26) for _ in range(1 + d.any(8)))
    return (letters.capitalize() if d.any(4) == 0 else letters) + (b" " if d.any(4) else b"")


def script(d):
    start, count = SCRIPTS[d.any(len(SCRIPTS))]
    return b"".join(utf8(start + d.any(count)) for _ in range(1 + d.any(6)))


def emoji(d):
    """A flag, or an emoji with skin tones, variation selectors or joined parts."""
    if d.any(6) == 0:
        return utf8(0x1F1E6 + d.any(26)) + utf8(0x1F1E6 + d.any(26))
    text = utf8(0x1F300 + d.any(0x350))
    for _ in range(d.any(4)):
        text += [utf8(0x1F3FB + d.any(5)), b"\xef\xb8\x8f", utf8(0x200D) + utf8(0x1F466 + d.any(4))][d.any(3)]
    return text


def spaces(d):
    space = utf8(SPACES[d.any(len(SPACES))])
    return space * (1 + d.any(9))


def controls(d):
    return b"".join(utf8([1 + d.any(31), 0x7F + d.any(33)][d.any(2)]) for _ in range(1 + d.any(3)))


def invalid(d):
    kind = d.any(4)
    if kind == 0:
        return bytes([0x80 + d.any(128)])
    if kind == 1:  # a truncated character
        return in_script(d)[:-1]
    if kind == 2:
        return utf8(0xD800 + d.any(2048))
    return [b"\xc0\xaf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80"][d.any(5)]


def numbers(d):
    return b"".join(bytes([0x30 + d.any(10) if d.any(3) else 0x21 + d.any(15)]) for _ in range(1 + d.any(9)))


def contraction(d):
    ending = ["s", "t", "re", "ve", "m", "ll", "d", "S", "LL", "Re", "\u017f", "x"][d.any(12)]
    quote = "'" if d.any(8) else "\u2019"
    return (quote + ending + ("" if d.any(3) else " ")).encode()


def lines(d):
    """A run of mixed white space, sometimes followed by a letter."""
    text = bytes(b"  \n\n\r\t\v"[d.any(7)] for _ in range(1 + d.any(8)))
    return text + (bytes([ord("a") + d.any(26)]) if d.any(2) else b"")


def digits(d):
    text = bytes(ord("0") + d.any(10) for _ in range(1 + d.any(40)))
    return text + (b"" if d.any(4) else utf8(0x660 + d.any(10)))


def marks(d):
    return bytes([ord("a") + d.any(26)]) + b"".join(utf8(0x300 + d.any(0x46)) for _ in range(1 + d.any(4)))


def anywhere(d):
    code = 1 + d.any(0x10FFFF)
    return utf8(0xFFFD if 0xD800 <= code < 0xE000 or code == 0x2581 else code)


def texts(pieces):
    def piece(d):
        return pieces[d.any(len(pieces)) if d.any(2) else len(pieces) - 1 - d.any(20)]

    kinds = (
        *(word, script, emoji, spaces, controls, invalid, numbers, anywhere, piece),
        *(contraction, lines, digits, marks),
    )
    for i in range(N_TEXTS):
        d = Draw(i)
        sort, n = i % (len(kinds) + 4), 1 + d.any(24)
        text = b"".join(kinds[sort if sort < len(kinds) else d.any(len(kinds))](d) for _ in range(n))
        yield text


# ---- tokenizers ----------------------------------------------------------------------------------------------


def make_proto(pieces, space_prefix=True):
    """pieces: (text, score, type)"""
    proto = ModelProto()
    for text, score, kind in pieces:
        proto.pieces.add(piece=text, score=score, type=kind)
    proto.trainer_spec.model_type = proto.trainer_spec.BPE
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.trainer_spec.byte_fallback = any(kind == BYTE for _, _, kind in pieces)
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = space_prefix
    proto.normalizer_spec.remove_extra_whitespaces = False
    return proto


def from_gguf(path):
    fields = gguf.GGUFReader(path).fields
    texts, scores, types = (fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "scores", "token_type"))
    prefix = fields.get("tokenizer.ggml.add_space_prefix")
    return make_proto(list(zip(texts, scores, types, strict=True)), prefix is None or prefix.contents())


def from_model(path):
    proto = ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto


def made_up(n, extra):
    """hashtokenizer_write's n pieces, the last of them replaced by (text, type)."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *map(chr, range(32, 127))]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    for i in range(n - len(texts)):  # aa, ba, ..., then with a space before
        texts.append(" " * (i // 676 % 2) + chr(ord("a") + i % 26) + chr(ord("a") + i // 26 % 26))
    types += [NORMAL] * (n - len(types))
    texts[n - len(extra) :], types[n - len(extra) :] = zip(*extra, strict=True)
    scores = [0.0 if i < 259 else -float(i) for i in range(n)]
    return make_proto([(text.replace(" ", "\u2581"), *rest) for text, *rest in zip(texts, scores, types, strict=True)])


def without_bytes(proto):
    """A character without a piece is the unknown token."""
    pieces = [(piece.piece, piece.score, piece.type) for piece in proto.pieces if piece.type != BYTE]
    return make_proto(pieces)


USER_PIECES = [
    *[(text, USER_DEFINED) for text in ("<|im_start|>", "<|im_end|>", "Ab", "Abc", "Abcab", " Us", "  ", "C d")],
    *[(text, USER_DEFINED) for text in ("\n", "\n\n", "\u00e9", "h\u00e9", "</s>x", " \u3000", "x y  z")],
    *[(text, NORMAL) for text in ("Abq", "qAb", "\u00e9a")],  # no text becomes these
    ("<|control|>", CONTROL),
]


# ---- hashes --------------------------------------------------------------------------------------------------


class Hash:
    def __init__(self):
        self.value = 2166136261

    def add(self, words):
        for word in words:
            self.value = ((self.value ^ word) * 16777619) & 0xFFFFFFFF


def bytes_of(piece):
    if piece.type == BYTE:
        return bytes([int(piece.piece[1:-1], 16) or ord("x")])
    return piece.piece.replace("\u2581", " ").encode() if piece.type in (NORMAL, USER_DEFINED) else b"</s>"


def write_tokens(name, proto):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    vocabulary = Hash()
    for i, piece in enumerate(proto.pieces):
        if piece.type in (NORMAL, USER_DEFINED):
            text = bytes_of(piece)
            vocabulary.add([i, *struct.unpack("<I", struct.pack("<f", piece.score)), len(text), *text])
    words = [vocabulary.value, N_TEXTS, GROUP]
    for i, text in enumerate(texts([bytes_of(piece) for piece in proto.pieces])):
        if b"\0" in text or "\u2581".encode() in text:
            raise ValueError(f"text {i} has a character that SentencePiece models cannot distinguish from others")
        if i % GROUP == 0:
            group = Hash()
        ids = processor.encode(text)
        group.add([len(ids), *ids])
        if i % GROUP == GROUP - 1:
            words.append(group.value)
    (GOLDEN / f"tokens_{name}.bin").write_bytes(struct.pack(f"<{len(words)}I", *words))


# ---- conversations ---------------------------------------------------------------------------------------------

FAMILIES = "llama-2", "chatml", "zephyr", "llama-3"
MARKERS = (
    *("<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
)
SYSTEM = "Be kind, and be brief."
USERS = "hello there", "and you? [yes]\u00e9", "ab  abc </ s>"
ANSWERS = "good day", "I am well"
N_CHAT_PIECES = 1600


def conversation(tokenizer, template, system, n_turns):
    """The token ids before the answer to the last of n turns."""
    messages = [{"role": "system", "content": SYSTEM}] if system else []
    for user, answer in zip(USERS, (*ANSWERS, None), strict=True):
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
    messages = messages[: len(messages) - 2 * (len(USERS) - n_turns) - 1]
    text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens="bos_token" not in template).input_ids


def write_chat():
    kinds = {"control": CONTROL, "user": USER_DEFINED, "none": None}
    with open(GOLDEN / "chat.txt", "w") as out, tempfile.TemporaryDirectory() as folder:
        for markers, kind in kinds.items():
            extra = [(marker, kind) for marker in MARKERS] if kind else [("\u00b7", NORMAL)]
            (Path(folder) / "tokenizer.model").write_bytes(made_up(N_CHAT_PIECES, extra).SerializeToString())
            # legacy: a space before text that follows a marker, as in llama.cpp
            tokenizer = LlamaTokenizer.from_pretrained(folder, legacy=True, add_bos_token=True)
            for family in FAMILIES:
                template = (GOLDEN / "chat" / f"{family}.jinja").read_text()
                for system in False, True:
                    for turn in range(len(USERS)):
                        ids = conversation(tokenizer, template, system, turn + 1)
                        print(family, markers, int(system), turn, ",".join(map(str, ids)), file=out)


def main():
    folder = os.environ.get("NORMA_CHECKPOINTS")
    if len(sys.argv) not in (1, 3):
        raise ValueError("expected no arguments, or NAME FILE")
    if len(sys.argv) == 3:
        name, path = sys.argv[1], Path(sys.argv[2])
        write_tokens(name, from_gguf(path) if path.suffix == ".gguf" else from_model(path))
        return
    write_tokens("stories", from_gguf(TOP / "models" / "stories.gguf"))
    write_tokens("user", made_up(1600, USER_PIECES))
    write_tokens("unknown", without_bytes(made_up(1600, USER_PIECES)))
    write_chat()
    if folder:
        write_tokens("llama32k", from_model(Path(folder) / "llama32k.model"))
    else:
        print("golden_tokens.py: NORMA_CHECKPOINTS is not set, tokens_llama32k.bin is unchanged", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"golden_tokens.py: {error}")
