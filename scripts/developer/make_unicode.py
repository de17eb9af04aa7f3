"""Writes text/unicode.h, text/nfc.h, text/width.h and text/clusters.h, norma's tables of characters.

unicode.h has letters by case, marks, numbers, white space, punctuation and symbols, as the tokenizers library's regular expressions classify
each character. They are Oniguruma's, which follow Unicode 16.0. nfc.h has the characters that decompose and compose in
normalization form C, from Python's unicodedata, limited to those that the library's normalizer knows, which follows
Unicode 9.0. width.h has the columns of characters on a terminal, and clusters.h the properties that decide where one
grapheme cluster ends (UAX 29), both from the wcwidth library.
"""

import unicodedata
from pathlib import Path

import tokenizers
import wcwidth
import wcwidth.table_grapheme as grapheme
from tokenizers import Regex
from tokenizers.normalizers import NFC, NFD
from tokenizers.pre_tokenizers import Split

TOP = Path(__file__).resolve().parents[2]
CHARACTERS = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
CLASSES = {  # in the order of CharacterClass
    "MARK": r"\p{M}",
    "NUMBER": r"\p{N}",
    "SPACE": r"\s",
    "LETTER": r"[\p{Lm}\p{Lo}]",
    "UPPER": r"[\p{Lu}\p{Lt}]",
    "LOWER": r"\p{Ll}",
    "PUNCTUATION": r"\p{P}",
    "SYMBOL": r"\p{S}",
}
CLUSTER_CLASSES = {  # in the order of ClusterClass; later rows overwrite
    "CONTROL": [grapheme.GRAPHEME_CONTROL, grapheme.GRAPHEME_CR, grapheme.GRAPHEME_LF],
    "EXTEND": [grapheme.GRAPHEME_EXTEND],
    "INDIC_EXTEND": [grapheme.INCB_EXTEND],
    "LINKER": [grapheme.INCB_LINKER],
    "CONSONANT": [grapheme.INCB_CONSONANT],
    "JOINER": [grapheme.GRAPHEME_ZWJ],
    "PREPEND": [grapheme.GRAPHEME_PREPEND],
    "SPACING": [grapheme.GRAPHEME_SPACINGMARK],
    "HANGUL_L": [grapheme.GRAPHEME_L],
    "HANGUL_V": [grapheme.GRAPHEME_V],
    "HANGUL_T": [grapheme.GRAPHEME_T],
    "HANGUL_LV": [grapheme.GRAPHEME_LV],
    "HANGUL_LVT": [grapheme.GRAPHEME_LVT],
    "REGIONAL": [grapheme.GRAPHEME_REGIONAL_INDICATOR],
    "PICTOGRAPHIC": [grapheme.EXTENDED_PICTOGRAPHIC],
}
AT_ONCE = 4096  # characters per string: the library is slow for one string with all characters

HEAD = """/* unicode.h: the general categories of characters (Unicode {version}).
 *
 * Owns this table, which scripts/developer/make_unicode.py generates; pretokenize.c searches it.
 */
#pragma once

#include <stdint.h>

/* LETTER: letters without case. UPPER: uppercase and titlecase letters. */
typedef enum {{ OTHER, MARK, NUMBER, SPACE, LETTER, UPPER, LOWER, PUNCTUATION, SYMBOL }} CharacterClass;

/* Runs of characters of the same class, ascending: first code << 8 | class. */
/* clang-format off */
static const uint32_t CLASS_RUNS[] = {{
{runs}
}};
/* clang-format on */
"""

NFC_HEAD = """/* nfc.h: how characters decompose and compose (Unicode 9.0).
 *
 * Owns these tables, which scripts/developer/make_unicode.py generates; pretokenize.c searches them.
 */
#pragma once

#include <stdint.h>

/* clang-format off */

/* A character, and the one or two characters (0: none) that it decomposes into. Sorted by character. */
static const uint32_t DECOMPOSITIONS[][3] = {{
{decompositions}
}};

/* The rows of DECOMPOSITIONS that also compose, sorted by decomposition. */
static const uint16_t COMPOSITIONS[] = {{
{compositions}
}};

/* Runs of characters of the same combining class, ascending: first code << 8 | class. */
static const uint32_t COMBINING_RUNS[] = {{
{combining}
}};

/* clang-format on */
"""

WIDTH_HEAD = """/* width.h: the columns of characters on a terminal (Unicode {version}).
 *
 * Owns this table, which scripts/developer/make_unicode.py generates; editor.c searches it.
 */
#pragma once

#include <stdint.h>

/* clang-format off */

/* Runs of characters of the same width, ascending: first code << 8 | width. */
static const uint32_t WIDTH_RUNS[] = {{
{runs}
}};

/* clang-format on */
"""

CLUSTERS_HEAD = """/* clusters.h: the characters that join others to a grapheme cluster (Unicode {version}).
 *
 * Owns this table, which scripts/developer/make_unicode.py generates; grapheme.c searches it.
 */
#pragma once

#include <stdint.h>

/* clang-format off */

/* Grapheme_Cluster_Break, Extended_Pictographic and Indic_Conjunct_Break of UAX 29 in one value. EXTEND: marks without
 * Indic_Conjunct_Break; INDIC_EXTEND, LINKER: marks with it. JOINER: ZWJ. */
typedef enum {{
    SINGLE,
{names}
}} ClusterClass;

/* Runs of characters of the same class, ascending: first code << 8 | class. */
static const uint32_t CLUSTER_RUNS[] = {{
{runs}
}};

/* clang-format on */
"""


def in_lines(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + 1 + len(item) > 120:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join([*lines, line])


def runs_of(value):
    """Yields the first character of each run of equal values, and the value."""
    last = None
    for code in range(0x110000):
        if value(code) != last:
            last = value(code)
            yield f"{code << 8 | last:#x},"


def canonical(code):
    """The canonical decomposition of a character, one step."""
    mapping = unicodedata.decomposition(chr(code))
    return [] if mapping.startswith("<") else [int(part, 16) for part in mapping.split()]


def combining(code):
    """The combining class of a mark, if the library orders it between U+0334 (class 1) and U+0345 (240), else 0."""
    if unicodedata.combining(chr(code)) and NFC().normalize_str(f"a\u0345{chr(code)}\u0334")[1] != "\u0345":
        return unicodedata.combining(chr(code))
    return 0


def write_nfc():
    nfd, nfc = NFD(), NFC()
    known = [code for code in CHARACTERS if canonical(code) and nfd.normalize_str(chr(code)) != chr(code)]
    rows = [(code, *canonical(code), 0)[:3] for code in known]
    again = [i for i, (code, *_) in enumerate(rows) if nfc.normalize_str(chr(code)) == chr(code)]
    again.sort(key=lambda i: rows[i][1:])
    text = NFC_HEAD.format(
        decompositions=in_lines("{" + ",".join(f"{code:#x}" for code in row) + "}," for row in rows),
        compositions=in_lines(f"{i}," for i in again),
        combining=in_lines(runs_of(combining)),
    )
    (TOP / "text/nfc.h").write_text(text)
    print(f"{len(rows)} decompositions, {len(again)} compositions")


def write_widths():
    """Control characters count as one column: of them only newlines and tabs are drawn, as the editor does."""
    runs = list(runs_of(lambda code: abs(wcwidth.wcwidth(chr(code))) if code else 1))
    text = WIDTH_HEAD.format(version=wcwidth.list_versions()[-1], runs=in_lines(runs))
    (TOP / "text/width.h").write_text(text)
    print(f"wcwidth {wcwidth.__version__}: {len(runs)} runs")


def write_clusters():
    classes, taken = {}, {"LINKER": {"EXTEND", "INDIC_EXTEND"}, "INDIC_EXTEND": {"EXTEND"}, "JOINER": {"INDIC_EXTEND"}}
    names = list(CLUSTER_CLASSES)
    for number, (name, tables) in enumerate(CLUSTER_CLASSES.items(), 1):
        for first, last in (run for table in tables for run in table):
            for code in range(first, last + 1):
                if code in classes and names[classes[code] - 1] not in taken.get(name, ()):
                    raise SystemExit(f"U+{code:04X} is {names[classes[code] - 1]} and {name}")
                classes[code] = number
    runs = list(runs_of(lambda code: classes.get(code, 0)))
    listed = in_lines(f"{name}," for name in CLUSTER_CLASSES).rstrip(",")
    text = CLUSTERS_HEAD.format(version=wcwidth.list_versions()[-1], names=listed, runs=in_lines(runs))
    (TOP / "text/clusters.h").write_text(text)
    print(f"{len(runs)} runs of clusters")


def members(pattern):
    """Code points of the characters that the library's regular expression matches."""
    split = Split(Regex(pattern), "removed")
    others = set()
    for i in range(0, len(CHARACTERS), AT_ONCE):
        for rest, _ in split.pre_tokenize_str("".join(map(chr, CHARACTERS[i : i + AT_ONCE]))):
            others.update(map(ord, rest))
    return set(CHARACTERS) - others


def main():
    classes = {}
    for number, pattern in enumerate(CLASSES.values(), 1):
        classes.update(dict.fromkeys(members(pattern), number))
    runs = list(runs_of(lambda code: classes.get(code, 0)))
    (TOP / "text/unicode.h").write_text(HEAD.format(version="16.0", runs=in_lines(runs)))
    counts = {name: sum(c == i for c in classes.values()) for i, name in enumerate(CLASSES, 1)}
    print(f"tokenizers {tokenizers.__version__}: {counts}, {len(runs)} runs")
    write_nfc()
    write_widths()
    write_clusters()


if __name__ == "__main__":
    main()
