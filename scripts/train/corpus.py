"""The corpus of the bundled model: generates any number of short stories for children, from a seed.

Owns the people, the things, the sentences that all plots share, the choice of pronouns, and the split between training
and held-out stories; the plots are in plots.txt. Tokens and models belong to train.py; check_story.py judges the
stories by independent rules.

A sentence is a text with choices and facts: "{He} [ran|walked] to {place}." Choices may be nested; facts are inserted
last, and sentences are capitalized automatically. A story is defined by its plot, hero, place, thing and trouble. If
the hash of these five is 0 modulo 20, the story is held out: no story with these five is used in training.

    python scripts/train/corpus.py -n 5                  five stories
    python scripts/train/corpus.py -n 5 --held-out       five held-out stories
"""

import argparse
import hashlib
import random
import re
import sys
from pathlib import Path

HELD_OUT = 20  # one combination in 20 is held out
MAX_PARTS = 212  # words, punctuation marks and newlines; longer stories are drawn again, so that 256 positions suffice


def words(text):
    return text.split()


NAMES = {
    "girl": words(
        "Anna Bella Clara Daisy Ella Flora Greta Hanna Ida Julia Kira Lena Mia Nora Olga Polly Rosa Sara Tess Uma Vera "
        "Wanda Zoe Amy Ruth Maya Nina Lotte Marta Alma Fiona Selma"
    ),
    "boy": words(
        "Adam Ben Carl David Emil Finn Gus Hugo Ivan Jack Karim Leo Max Noah Oscar Paul Ravi Sam Tom Victor Otto Yusuf "
        "Theo Jonas Milo Peter Simon Anton Felix Luis Omar Kofi"
    ),
    "she-animal": words("Fern Luna Penny Ruby Hazel Poppy Molly Tilda Mimi Bonnie Lulu Nelly"),
    "he-animal": words("Pip Chip Rusty Toby Bruno Basil Barley Bobo Mungo Fergus Tuck Monty"),
}
ANIMALS = words("rabbit mouse fox bear frog squirrel hedgehog cat puppy turtle pig lamb mole otter badger pony")
PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "self": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "self": "himself"},
}
FAMILY = {"mother": "she", "grandmother": "she", "aunt": "she", "father": "he", "grandfather": "he", "uncle": "he"}
TRAITS = words("little kind brave curious cheerful shy gentle busy clever quiet merry young small friendly")

COLORS = words("red blue green yellow purple orange white black brown golden striped spotted")
THINGS = {  # kind: (adjectives, nouns)
    "toys": (
        COLORS,
        words(
            "kite ball drum boat doll wagon whistle hat scarf book lantern basket flute puppet umbrella blanket "
            "boots mittens slippers skates socks gloves"
        ),
    ),
    "fragile": (COLORS, words("vase teapot lamp cup mirror bowl plate jug clock picture")),
    "food": (
        words("sweet big warm fresh round soft"),
        words("cake pie bun pear melon sandwich cookie pancake muffin peach apple waffle"),
    ),
    "creatures": (words("little tiny small young"), words("bird butterfly snail beetle duckling kitten bee ladybug")),
    "plants": (
        words("tall beautiful big golden red blue"),
        words("sunflower rose tulip pumpkin lily daisy bean"),
    ),
    "sky": (words("little tiny small lost"), words("star cloud moonbeam firefly snowflake")),
}
PAIRS = words("boots mittens slippers skates socks gloves")
PLACES = {  # place: preposition
    "the park": "in",
    "the forest": "in",
    "the meadow": "in",
    "the garden": "in",
    "the orchard": "in",
    "the market": "at",
    "the harbor": "at",
    "the lake": "by",
    "the river": "by",
    "the pond": "by",
    "the old bridge": "near",
    "the school": "near",
    "the beach": "on",
    "the hill": "on",
    "the mill": "behind",
    "the barn": "behind",
}

PHRASES = {  # facts that are sentences or parts of sentences
    "intro": (
        "[once upon a time,|once,|long ago,|a long time ago,] there was {a trait kind} [named|called] {H}. {He} lived {home}."
        "|{H} was {a trait kind} who lived {home}."
        "|{home}, there lived {a trait kind} [named|called] {H}."
        "|there once was {a trait kind} [named|called] {H} who lived {home}."
        "|far away, {home}, lived {a trait kind} [named|called] {H}."
        "|this is a story about {a trait kind} [named|called] {H}. {He} lived {home}."
        "|{H} was {a trait kind}. {He} lived {home}."
    ),
    "habit": (
        "{He} [loved|liked] {hobby}."
        "|[every day,|most of all,|when the weather was good,] {he} [loved|liked] {hobby}."
        "|{He} [loved|liked] {hobby} more than anything.||||"
    ),
    "home": (
        "in a small house by the river|at the edge of the forest|near the sea|on a green hill|in a quiet village"
        "|in a little house under an old oak tree|behind the mill|at the end of a long road|in a valley full of flowers"
        "|beside a deep blue lake|in a tall house with a red roof|not far from the mountains"
    ),
    "hobby": (
        "to sing|to dance|to paint pictures|to count the stars|to look at the clouds|to hum little songs|to collect shells"
        "|to tell jokes|to bake|to jump in puddles|to listen to the birds|to read old stories|to make up games"
        "|to run in the wind|to pick berries|to ask questions|to help others|to build small houses out of sticks"
    ),
    "day": (
        "one sunny morning|one windy afternoon|one cold morning|one warm summer day|one day|one bright spring day"
        "|one Sunday|one quiet afternoon|one fine day|on a warm morning|on a cloudy day|early one morning|one autumn day"
        "|on the first day of spring|one Saturday|after breakfast one day"
    ),
    "night": "one night|one clear night|one winter night|late one evening|one summer night|in the middle of the night",
    "friend comes": (
        "[just then,|soon,|after a while,] {his} friend {F} came by. [{F} was {a F.trait F.kind}.|]"
        "|{F}, {a F.trait F.kind}, heard it and came [at once|to see]. "
    ),
    "thanks": (
        '"Thank you, {F}," said {H}. "You are a [true|good|dear|wonderful] friend."'
        '|"Thank you so much," said {H}. {F} smiled. "[That is what friends are for|You would do the same for me]."'
        '|{H} gave {F} a [big|long|warm] hug. "[I am so glad you came|What would I do without you], {F}!"'
    ),
    "closing": (
        "[that night|that evening], {H} [fell asleep with a smile|slept very well|dreamed sweet dreams|went to bed happy]."
        "|{H} [smiled|laughed] all the way home."
        "|it was [the best day of the whole year|a day to remember|a very good day]."
        "|and {H} never forgot that day."
        "|The end.||||"
    ),
}

CHOICE = re.compile(r"\[([^\[\]]*)\]")
PART = re.compile(r"[\w'-]+|[^\w\s]+|\n")
FACT = re.compile(r"\{([^{}]*)\}")
SENTENCE_START = re.compile(r'(?:^|(?<=[.!?] )|(?<=\n)|(?<=[.,!?]" ")|(?<=[.!?] "))[a-z]')


def read_plots(path):
    """Returns {name: (things, relative, [trouble], [paragraph])}; a paragraph is a list of alternatives."""
    plots = {}
    for block in re.split(r"\n\s*\n", path.read_text()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith("PLOT "):
            head, troubles = lines.pop(0).removeprefix("PLOT ").split(":", 1)
            name, things, relative = head.split()
            paragraphs = []
            plots[name] = things, relative, [trouble.strip() for trouble in troubles.split("|")], paragraphs
        if lines:
            paragraphs.append(lines)
    return plots


PLOTS = read_plots(Path(__file__).with_name("plots.txt"))


def choose(rng, text):
    """Resolves every choice in a text, innermost first."""
    while "[" in text:
        text = CHOICE.sub(lambda match: rng.choice(match[1].split("|")), text)
    return text


def phrase(rng, name):
    """One of the alternatives of PHRASES[name], which is a choice without its brackets."""
    return choose(rng, f"[{PHRASES[name]}]")


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def person(rng, animal, others=()):
    """Returns name, pronoun, kind; neither the name nor the animal is in `others`."""
    if animal:
        kind = rng.choice([kind for kind in ANIMALS if kind not in others])
        he = rng.choice(["she", "he"])
        names = NAMES[f"{he}-animal"]
    else:
        kind = rng.choice(["girl", "boy"])
        he = "she" if kind == "girl" else "he"
        names = NAMES[kind]
    return rng.choice([name for name in names if name not in others]), he, kind


def person_facts(prefix, he):
    return {prefix + case: word for case, word in PRONOUNS[he].items()}


def thing_facts(look, noun):
    plural = noun in PAIRS
    return {
        "a toy": f"a pair of {look} {noun}" if plural else article(f"{look} {noun}"),
        "toy.noun": noun,
        "toy.color": look,
        "toy.it": "them" if plural else "it",
        "toy.they": "they" if plural else "it",
        "toy.was": "were" if plural else "was",
        "toy.is": "are" if plural else "is",
    }


def story(rng):
    """Returns a story and the five facts that define it."""
    plot = rng.choice(list(PLOTS))
    things, relative, troubles, paragraphs = PLOTS[plot]
    animal = rng.random() < 0.35
    hero, he, kind = person(rng, animal)
    friend, friend_he, friend_kind = person(rng, animal, (hero, kind))
    place, at = rng.choice(list(PLACES.items()))
    look, noun = (rng.choice(choices) for choices in THINGS[things])
    trouble = rng.choice(troubles)
    trait, friend_trait = rng.sample(TRAITS, 2)
    spot1, spot2 = rng.sample([spot for spot in PLOTS["lost"][2] if spot != trouble], 2)

    facts = {
        **person_facts("", he),
        **person_facts("F.", friend_he),
        **person_facts("G.", FAMILY[relative]),
        **thing_facts(look, noun),
        "H": hero,
        "F": friend,
        "G": relative,
        "F.kind": friend_kind,
        "a trait kind": article(f"{trait} {kind}"),
        "a F.trait F.kind": article(f"{friend_trait} {friend_kind}"),
        "place": place,
        "in place": f"{at} {place}",
        "by place": f"near {place}",
        "hand": "paw" if animal else "hand",
        "hands": "paws" if animal else "hands",
        "trouble": trouble,
        "spot1": spot1,
        "spot2": spot2,
    }
    while len(PART.findall(text := compose(rng, facts, paragraphs))) > MAX_PARTS:
        pass
    return text, (plot, hero, place, f"{look} {noun}", trouble)


def compose(rng, facts, paragraphs):
    first, *rest = [rng.choice(ways) for ways in paragraphs]
    text = choose(rng, "\n".join(["{intro} {habit} " + first, *rest[:-1], rest[-1] + " {closing}"]))
    while "{" in text:
        text = FACT.sub(lambda match: fill(rng, facts, match[1]), text)
    text = re.sub(" +", " ", text).replace(" \n", "\n").strip()
    return SENTENCE_START.sub(lambda match: match[0].upper(), text)


def fill(rng, facts, name):
    """A fact, or its capitalized form: {He} and {G.His} are {he} and {G.his}."""
    if name in PHRASES:
        return phrase(rng, name)
    if name in facts:
        return facts[name]
    return facts[re.sub(r"H(?=e$|is$)", "h", name)].capitalize()


def is_held_out(facts):
    return int.from_bytes(hashlib.sha256("|".join(facts).encode()).digest()[:8]) % HELD_OUT == 0


def stories(n, seed, held_out=False):
    """Yields n stories of one side of the split. The same seed gives the same stories."""
    rng = random.Random(f"{seed} {held_out}")
    while n:
        text, facts = story(rng)
        if is_held_out(facts) == held_out:
            yield text
            n -= 1


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", description="Write stories, separated by blank lines.")
    parser.add_argument("-n", type=int, default=5, help="stories [5]")
    parser.add_argument("-s", "--seed", type=int, default=1, help="[1]")
    parser.add_argument("--held-out", action="store_true", help="write held-out stories")
    args = parser.parse_args()
    if args.n < 0:
        raise ValueError(f"-n is {args.n}, expected 0 or more")
    for text in stories(args.n, args.seed, args.held_out):
        print(text, end="\n\n")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"corpus.py: {error}")
