"""Judges stories: do names and pronouns agree, is everybody introduced, does the story end?

Owns the rules, which are rules of English, not of the generator: they use names and their genders, nouns and words from
corpus.py, but none of its plots or sentences. A story that passes may still be dull or strange; one that fails has a
fault that a child would notice.

    ./run | python scripts/train/check_story.py                            one story from standard input
    python scripts/train/check_story.py -n 100 -- ./run models/stories.gguf   runs a command with -s 1 to -s 100
    python scripts/train/check_story.py --corpus 2000                      held-out stories of the corpus; all must pass
    python scripts/train/check_story.py --self-test                        a good story passes, each bad one fails its rule

The exit status is 0 if enough stories pass: --at-least of them, all by default.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import corpus

POSITIONS = 256  # a story must be shorter
MIN_WORDS = 70
GENDER = {
    **{name: "she" for key in ("girl", "she-animal") for name in corpus.NAMES[key]},
    **{name: "he" for key in ("boy", "he-animal") for name in corpus.NAMES[key]},
}
NAMES = "|".join(GENDER)
PEOPLE = {**GENDER, **corpus.FAMILY, "girl": "she", "boy": "he"}
PRONOUNS = {form: he for he, forms in corpus.PRONOUNS.items() for form in forms.values()}
KINDS = "|".join(["girl", "boy", *corpus.ANIMALS])
NOUNS = "|".join({noun for _, nouns in corpus.THINGS.values() for noun in nouns})
LOOKS = "|".join({look for looks, _ in corpus.THINGS.values() for look in looks})
WORD = re.compile(r"[A-Za-z]+(?:[-'][A-Za-z]+)*")
QUOTE = re.compile(r'"[^"]*"')


def narration(text):
    """The sentences of a text without quoted speech; a quote that ends with ? or ! does not end a sentence."""
    outside = QUOTE.sub(lambda quote: '".' if quote[0].endswith('."') else '"', text)
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|\n", outside) if sentence.strip('". ')]


def words_are_known(text, lexicon):
    for word in WORD.findall(text):
        if word.lower() not in lexicon or (word.capitalize() in GENDER and word.islower() and word not in lexicon):
            yield f"{word!r} is not a word"
    if match := re.search(r"[^A-Za-z \n.,!?'\"-]", text):
        yield f"a strange character: {match[0]!r}"


def it_is_well_formed(text):
    if any(paragraph.count('"') % 2 for paragraph in text.split("\n")):
        yield "a quote is not closed"
    if match := re.search(r' [.,!?]|[.,!?][A-Za-z]|,"? *\n|  |\n\n|\b(\w+) \1\b', text):
        yield f"spelling: {match[0]!r}"
    if match := re.search(r"\b(?:[Aa] [aeio]|[Aa]n [^aeiouh])\w*", text):
        yield f"article: {match[0]!r}"
    for sentence in narration(text):
        if not re.match(r'"?\s*[A-Z]|"', sentence):
            yield f"no capital: {sentence!r}"


def it_ends(text):
    if not re.search(r'[.!?]"?$', text):
        yield "no end"
    if len(WORD.findall(text)) < MIN_WORDS:
        yield "too short for a story"


def nothing_is_said_twice(text):
    long = [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if len(sentence.split()) > 4]
    for i, sentence in enumerate(long):
        if sentence in long[:i]:
            yield f"said twice: {sentence!r}"


def everybody_is_introduced(text):
    if not re.search(rf"\b(?:{NAMES})\b", text):
        yield "nobody has a name"
    for name in GENDER:
        first = re.search(rf"\b{name}\b", text)
        introduced = rf"(?:named|called|friend|[Mm]y name is|I am) {name}\b|\b{name}(?: was an?|, (?:an?|his|her)) "
        if first and not any(match.start() <= first.start() < match.end() for match in re.finditer(introduced, text)):
            yield f"{name} is not introduced"
    for noun in f"{KINDS}|{NOUNS}".split("|"):
        first = re.search(rf"(\w+) (?:(?:{LOOKS}) )?{noun}\b", text)
        if first and first[1].lower() == "the":
            yield f"which {noun}?"


def everybody_stays_who_they_are(text):
    kinds = {}
    said_so = rf"\b(?P<kind1>{KINDS}) (?:named|called) (?P<name1>{NAMES})\b"
    said_so += rf"|\b(?P<name2>{NAMES})(?:,| was|, who was) an? \w+ (?P<kind2>{KINDS})\b"
    for match in re.finditer(said_so, text):
        name, kind = match["name1"] or match["name2"], match["kind1"] or match["kind2"]
        if kinds.setdefault(name, kind) != kind:
            yield f"{name} is a {kinds[name]} and a {kind}"
        if PEOPLE.get(kind, GENDER[name]) != GENDER[name]:
            yield f"{name} is not a {kind}"
    looks = {}
    for look, noun in re.findall(rf"\b({LOOKS}) ({NOUNS})\b", text):
        if looks.setdefault(noun, look) != look:
            yield f"the {noun} is {looks[noun]} and {look}"
    family = set(WORD.findall(text.replace("its mother", ""))) & set(corpus.FAMILY)
    if len(family) > 1:
        yield "the family changes: " + ", ".join(sorted(family))


def pronouns_agree(text):
    """he and she refer to a person of this sentence or, before it names one, of the last sentence that names one."""
    recent = set()
    for sentence in narration(text):
        here = set()
        for word in WORD.findall(re.sub(rf"\b({NAMES}), (?:his|her) best friend", r"\1", sentence)):
            if word in PEOPLE:
                here.add(PEOPLE[word])
            elif he := PRONOUNS.get(word.lower()):
                if he not in (here or recent):
                    yield f"who is {word!r} in {sentence!r}?"
                here.add(he)
        recent = here or recent
    if match := re.search(rf"\b({NAMES})(?: [a-z]+){{1,3}} \1\b", " ".join(narration(text))):
        yield f"the same name twice: {match[0]!r}"


def nobody_talks_to_themselves(text):
    said = rf'"(?:[^"]*, )?({NAMES})[,.!?][^"]*" (?:[a-z]+ ({NAMES})|({NAMES}) [a-z]+)\b'
    for called, speaker1, speaker2 in re.findall(said, text):
        if called == (speaker1 or speaker2):
            yield f"{called} talks to {called}"


def numbers_agree(text):
    pairs = "|".join(corpus.PAIRS)
    wrong = rf"\b(?:they|we|you) (?:was|is|has)\b|\b(?:he|she|it|{NAMES}) (?:were|are|have)\b"
    wrong += rf"|\bthe (?:{pairs}) (?:was|is|has)\b|\bthe (?!(?:{pairs})\b)(?:{NOUNS}) (?:were|are|have)\b"
    wrong += rf"|\bthere (?:was|is) the (?:{pairs})\b|\b(?:{NAMES}) and (?:{NAMES}) (?:was|is|has)\b"
    for match in re.finditer(wrong, text, re.IGNORECASE):
        before = text[: match.start()].split()
        if not before or before[-1] != "and" or match[0].lower().startswith(("they", "we", "you")):  # Mia and Tom were
            yield f"number: {match[0]!r}"
    for sentence in narration(text):
        match = re.search(r"\b(?:is|are|has|says|goes|runs|likes|wants)\b", sentence)
        if match and not re.search(r"\b(?:learned|knew|thought|This is a story|that is what)\b", sentence):
            yield f"tense: {match[0]!r} in {sentence!r}"


RULES = (
    it_is_well_formed,
    it_ends,
    nothing_is_said_twice,
    everybody_is_introduced,
    everybody_stays_who_they_are,
    pronouns_agree,
    nobody_talks_to_themselves,
    numbers_agree,
)


def lexicon():
    """Every word of the corpus, in lower case."""
    texts = [*corpus.stories(5000, seed=2), *corpus.stories(500, seed=2, held_out=True)]
    return {word.lower() for text in texts for word in WORD.findall(text)}


def faults(text, words):
    text = text.strip()
    return [*words_are_known(text, words), *(fault for rule in RULES for fault in rule(text))]


def story_by(command, seed):
    """Returns the story that a command writes with this seed, and whether it ended before POSITIONS."""
    command = [*command, "-s", str(seed)]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{command[0]} failed: {done.stderr.strip()}")
    counts = [int(n) for n in re.findall(r": (\d+) tokens", done.stderr)]
    return done.stdout, not counts or sum(counts) < POSITIONS


GOOD = """Mia was a brave girl who lived near the sea. She liked to sing. One day, Mia took a red kite to the beach. \
There she saw a shy boy sitting all alone. "Hello! My name is Mia," she said. "I am Tom," said the boy in a small voice.
Tom missed his old home. Mia knew how it felt to be alone. "Do you want to play with me?" she asked. "Yes, please!" said \
Tom. Mia showed Tom the kite, and they played until dinner.
When Mia came home, she told her mother about it. "You have a good heart, Mia," said her mother. Mia and Tom were best \
friends from that day on."""
BAD = {  # a change to GOOD: the fault that it makes
    ("She liked", "He liked"): "who is 'He'",
    ("she told her mother", "he told his mother"): "who is 'he'",
    ("missed his old", "missed her old"): "who is 'her'",
    ('"I am Tom," said', '"Hi," said'): "Tom is not introduced",
    ("Mia was a brave girl", "Mia was a brave boy"): "Mia is not a boy",
    ("said the boy", "said the fox"): "which fox?",
    ("the kite, and", "the drum, and"): "which drum?",
    ("Tom the kite", "Tom the blue kite"): "the kite is red and blue",
    ("said her mother", "said her aunt"): "the family changes",
    ('Mia," said her mother', 'Mia," said Mia'): "Mia talks to Mia",
    ("Mia showed Tom", "Mia showed Mia"): "the same name twice",
    ("friends from that day on.", "friends from that day"): "no end",
    ("small voice.", "small vooce."): "'vooce' is not a word",
    ('"Yes, please!" said', '"Yes, please! said'): "a quote is not closed",
    ("a red kite", "a orange kite"): "article",
    ("and they played", "and they was"): "number",
    ("Mia and Tom were", "Mia and Tom was"): "number",
    ("Mia showed Tom", "Mia is happy and showed Tom"): "tense",
    ("Tom missed his old home.", "Tom missed his old home. Tom missed his old home."): "said twice",
    ("to the beach", "to the the beach"): "spelling",
    ("She liked to sing.", "she liked to sing."): "no capital",
}


def self_test(words):
    """Self-test: yields a message for a good story that fails and for each bad one that passes."""
    if found := faults(GOOD, words):
        yield f"a good story fails: {found}"
    for (old, new), fault in BAD.items():
        if old not in GOOD:
            yield f"{old!r} is not in the good story"
        elif not any(found.startswith(fault) for found in faults(GOOD.replace(old, new), words)):
            yield f"{new!r} passes, expected: {fault}"


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s [FILE ...] [options] [-- COMMAND ...]", description="Judge stories, one to a file."
    )
    parser.add_argument("what", metavar="FILE", nargs="*", help="files with stories, or a command after --")
    parser.add_argument("-n", type=int, help="run the command for seeds 1 to N")
    parser.add_argument("--at-least", type=int, metavar="N", help="stories that must pass [all]")
    parser.add_argument("--corpus", type=int, metavar="N", help="judge N held-out stories of the corpus")
    parser.add_argument("--self-test", action="store_true", help="judge stories with known faults")
    args = parser.parse_args()

    if any(n is not None and n < 1 for n in (args.n, args.corpus)):
        raise ValueError("-n and --corpus expect 1 or more")
    if args.n and not args.what:
        raise ValueError("-n expects a command after --")
    words = lexicon()
    if args.self_test:
        wrong = list(self_test(words))
        print("\n".join(wrong) if wrong else f"self-test: 1 good story passes, {len(BAD)} bad ones fail")
        sys.exit(bool(wrong))
    if args.n:
        told = ((f"seed {seed}", *story_by(args.what, seed)) for seed in range(1, args.n + 1))
    elif args.corpus:
        told = ((f"story {i}", text, True) for i, text in enumerate(corpus.stories(args.corpus, 3, True), 1))
    elif args.what:
        told = ((path, Path(path).read_text(), True) for path in args.what)
    else:
        told = [("story", sys.stdin.read(), True)]

    total = passed = 0
    for label, text, ended in told:
        found = faults(text, words) + ([] if ended else [f"no end before {POSITIONS} positions"])
        total, passed = total + 1, passed + (not found)
        if found:
            print(f"{label}: {'; '.join(found)}")
    print(f"{passed} of {total} stories pass")
    sys.exit(passed < (total if args.at_least is None else args.at_least))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"check_story.py: {error}")
