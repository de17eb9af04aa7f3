"""Measures how often a chat's answers make sense with different settings of sampling: where the defaults come from.

    python3 scripts/measure/chat_sampling.py [--run ./run] [--seeds 5] MODEL...

Each model answers 20 questions with some seeds, at most 60 tokens an answer, with each setting. The rule, which was
written before the first answer was seen: an answer counts if it

- is in English: at least 95 % of its letters are ASCII, and of each eight words at least one is one of COMMON;
- is on topic: it contains one of the question's key words (any case);
- does not loop: no four words in succession occur three times, and no line with letters occurs three times.

Prints a line for each model and setting: answers, and the percentage that is in English, on topic, without a loop, and
all three.
"""

import argparse
import json
import re
import subprocess
import tempfile
from collections import Counter

QUESTIONS = [
    ("What is the capital of France?", "Paris"),
    ("What is gravity?", "force|mass|attract|pull"),
    ("Why is the sky blue?", "light|scatter|atmosphere|sun"),
    ("Name three fruits.", "apple|banana|orange|grape|strawberr|mango|pear"),
    ("How many days does a week have?", "seven|7"),
    ("What do bees make?", "honey|wax|pollen"),
    ("Give me a tip for better sleep.", "sleep|bed|night|relax"),
    ("What is a computer?", "machine|device|data|program|electronic"),
    ("Write a sentence about a cat.", "cat"),
    ("What is the opposite of hot?", "cold|cool"),
    ("How do I boil an egg?", "water|boil|pot|minutes"),
    ("What is photosynthesis?", "plant|light|energy|sun"),
    ("Who wrote Romeo and Juliet?", "Shakespeare"),
    ("What is 2 + 2?", "4|four"),
    ("What is the largest planet of the solar system?", "Jupiter"),
    ("Explain what a friend is.", "friend|person|trust|someone"),
    ("What colour is grass?", "green"),
    ("Tell me a fact about the ocean.", "ocean|sea|water"),
    ("What is Python used for?", "program|language|code|data|web|develop"),
    ("Say hello to my teacher.", "hello|hi|dear|teacher|good"),
]

SETTINGS = [
    ["-t", "1", "-p", "0.9"],
    ["-t", "0.8", "-p", "0.95", "-k", "40", "--min-p", "0.05"],
    ["-t", "0.7", "-p", "0.9"],
    ["-t", "0.5", "-p", "0.9"],
    ["-t", "0.3", "-p", "0.9"],
    ["-t", "0.3", "-p", "0.9", "--repeat-penalty", "1.1"],
    ["-t", "0"],
]

COMMON = set("the a an is are was of to in and that it for on with as by or you i be this can have from not".split())


def in_english(text):
    letters = [c for c in text if c.isalpha()]
    words = re.findall(r"[a-z']+", text.lower())
    common = sum(word in COMMON for word in words)
    return sum(c.isascii() for c in letters) >= 0.95 * len(letters) and common >= len(words) // 8


def loops(text):
    words = re.findall(r"\w+", text.lower())
    fours = Counter(tuple(words[i : i + 4]) for i in range(len(words) - 3))
    lines = Counter(line.strip() for line in text.split("\n") if any(c.isalpha() for c in line))
    return any(n >= 3 for n in fours.values()) or any(n >= 3 for n in lines.values())


def answers(command, setting, seeds):
    lines = "".join(json.dumps({"prompt": q, "seed": 1, "n": seeds}) + "\n" for q, _ in QUESTIONS)
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(lines.encode())
        file.flush()
        chat = [*command, *setting, "-m", "chat", "-n", "60", "--json", "--prompts", file.name]
        out = subprocess.run(chat, capture_output=True, check=True).stdout.decode(errors="replace")
    return [json.loads(line) for line in out.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="./run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--show", action="store_true", help="print the answers that do not count")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    print("| model | setting | answers | English | on topic | no loop | all |\n| --- | --- | --- | --- | --- | --- | --- |")
    for model in args.models:
        for setting in SETTINGS:
            counts = Counter()
            command = [args.run, model]
            if "gemma" in model:  # a base model, without a template
                command += ["--template", "gemma"]
            for answer in answers(command, setting, args.seeds):
                text, keys = answer["completion"], dict(QUESTIONS)[answer["prompt"]]
                found = in_english(text), bool(re.search(keys, text, re.IGNORECASE)), not loops(text)
                counts.update({"n": 1, "all": all(found)})
                counts.update(dict(zip(("english", "topic", "no loop"), found)))
                if args.show and not all(found):
                    print(found, answer["prompt"], "->", repr(text[:100]))
            percent = " | ".join(f"{100 * counts[k] / counts['n']:.0f} %" for k in ("english", "topic", "no loop", "all"))
            print(f"| {model.rsplit('/', 1)[-1]} | {' '.join(setting)} | {counts['n']} | {percent} |", flush=True)


if __name__ == "__main__":
    main()
