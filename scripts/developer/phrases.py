"""The lint of the English: counts phrases that read as translated from German, in comments, strings and documents.

    python3 scripts/developer/phrases.py [-v]      silent if all is well, else a line for each kind of text above its rate, and
                                         status 1; -v: every hit
    python3 scripts/developer/phrases.py --test    checks that each pattern finds its example, and that plain English passes

Owns the patterns and the rates. A hit is not always wrong ("in front of the house" is English), so the rate is limited,
not single hits.
"""

import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
RATES = {"sources": 2.0, "documents": 1.0, "tests": 3.0}  # max hits in 1,000 words; never raised
GENERATED = {"text/clusters.h", "text/nfc.h", "text/unicode.h"}
PATTERNS = {  # pattern: an example
    r"behind": "the norm behind the MLP",
    r"in front of": "BOS in front of a text",
    r"beside": "the file beside it",
    r"alone": "this thread alone",
    r"by itself": "each head by itself",
    r"(of (its|their)|on its) own": "a scale of its own",
    r"so (many|much)": "so many blocks",
    r"as far as": "as far as it goes",
    r"of late": "the times of late",
    r"asks? (for|ahead|in)": "a tile asks for rows",
    r"(wants|tells)": "what a step wants",
    r"takes? down": "takes down the time",
    r"(says?|said) (of|so|it|what|where|how|itself)": "what a file says of it",
    r"has(,| it)? not|have not|has none": "a family has not",
    r"(is|are) (none|no \w)": "there is none",
    r"those that there are|what there is|what is (behind|there|left|more)": "what there is of it",
    r"what \w+s? (do|does|is|are|has|have) (not|with|to)": "what norma does not do",
    r"whoever": "whoever reads",
    r"nothing (else|but|is)": "nothing else runs",
    r"no more than": "no more than a block",
    r"the likeliest": "the likeliest token",
    r"can(not)? be had": "no memory can be had",
    r"as (it|they) (is|are|lie)": "used as they lie",
    r"of (it|them) (alone|all|both|each)": "of them all",
    r"dear": "a call is dear",
    r"to (it|them) too": "to them too",
    r"goes? (away|out|in)": "the rest goes away",
    r"comes? (out|of|off)": "what comes out",
}
PATTERN = re.compile("|".join(rf"\b(?:{p})\b" if p[-1] != "w" else rf"\b(?:{p})" for p in PATTERNS), re.IGNORECASE)


def prose(path):
    """The prose of a file: the comments and strings of a C file, all of a document."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".md":
        return [text]
    return [m[0] for m in re.finditer(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', text, re.DOTALL)]


def kind_of(name):
    if name.endswith(".md"):
        return None if ".zh." in name else "documents"
    if not name.endswith((".c", ".h")) or name in GENERATED:
        return None
    return "tests" if name.startswith("tests/") else "sources"


def count(verbose):
    """Counts words and hits of each kind of text in files tracked by git."""
    words, hits = dict.fromkeys(RATES, 0), dict.fromkeys(RATES, 0)
    names = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        kind = kind_of(name)
        if not kind or not (TOP / name).exists():
            continue
        for part in prose(TOP / name):
            words[kind] += len(re.findall(r"[A-Za-z']+", part))
            for hit in PATTERN.finditer(part):
                hits[kind] += 1
                if verbose:
                    print(f"{name}: {' '.join(part[max(0, hit.start() - 40) : hit.end() + 40].split())}")
    return words, hits


def test():
    missed = [example for pattern, example in PATTERNS.items() if not re.search(rf"\b(?:{pattern})", example)]
    plain = "Appends a token's keys to the cache. Returns -1 and a message on failure; the caller frees the memory."
    assert not missed and all(PATTERN.search(e) for e in PATTERNS.values()) and not PATTERN.search(plain), missed


def main(arguments):
    if "--test" in arguments:
        test()
        return 0
    words, hits = count("-v" in arguments)
    status = 0
    for kind, maximum in RATES.items():
        rate = 1000 * hits[kind] / max(words[kind], 1)
        if rate > maximum or "-v" in arguments:
            print(f"{kind}: {rate:.1f} phrases of translated English in 1,000 words, max {maximum:.1f} (-v lists them)")
        status |= rate > maximum
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
