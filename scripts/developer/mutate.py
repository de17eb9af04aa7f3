"""Do the tests detect small changes of the sources? Makes one change at a time, runs the tests, lists survivors.

    python3 scripts/developer/mutate.py [FILE...]    `make mutate`; without FILE: the lines that the branch changed (since
                                           origin/main, or else since the commit before the last)

Environment: N, the max number of mutants (default: all); SECONDS after which no mutant begins (600); SEED of their
order (1); JOBS at a time (2); SANITIZE=1 runs survivors again under AddressSanitizer and UBSan.

Owns the mutations (MUTATIONS, and removed statements) and the exclusions: comments, strings, prefetches, schedules,
pragmas, assembly, static assertions, and the mutants in tests/equivalent_mutants.txt, which no test can detect; that
file lists each with a reason, in the form in which survivors are printed. The sources are never changed: each job has a
copy of the tree. The tests are compiled with gcc's --coverage first, and a mutant runs only the suites that run its
line. A mutant that hangs or crashes is caught; one that does not compile does not count.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from coverage import gcov_counts

TOP = Path(__file__).resolve().parents[2]
EQUIVALENT = TOP / "tests/equivalent_mutants.txt"
ENVIRONMENT = {key: value for key, value in os.environ.items() if "MAKE" not in key and key != "MFLAGS"}
JOBS = int(os.environ.get("JOBS", "2"))
COUNTED = ("coverage", "-O1 -w --coverage")  # names and flags of builds
PLAIN = ("mutants", "-O1 -w")
SANITIZED = ("sanitized", "-O1 -w -fsanitize=address,undefined -fno-sanitize-recover=all")

MUTATIONS = [  # (pattern, replacement)
    (r"(?<= )<(?= )", "<="),
    (r"(?<= )<=(?= )", "<"),
    (r"(?<= )>(?= )", ">="),
    (r"(?<= )>=(?= )", ">"),
    (r"(?<= )==(?= )", "!="),
    (r"(?<= )!=(?= )", "=="),
    (r"(?<= )\+(?= )", "-"),
    (r"(?<= )-(?= )", "+"),
    (r"(?<= )\+=(?= )", "-="),
    (r"(?<= )-=(?= )", "+="),
    (r"\+\+", "--"),
    (r"&&", "||"),
    (r"\|\|", "&&"),
    (r"!(?!=)", ""),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"(?<![\w.])\d+(?![\w.])", lambda m: str(int(m[0]) + 1)),
    (r"(?<![\w.])[1-9]\d*(?![\w.])", lambda m: str(int(m[0]) - 1)),
]
LEFT_ALONE = re.compile(r"prefetch|schedule|pragma|\basm\b|__asm__|static_assert|^\s*#")
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
# A statement in one line, or `return fail(...);` in several, including an `if` before it in the same line.
STATEMENT = re.compile(r"^ +(?:if \(.*\) )?(?:return fail\([^;{}]*|[\w>.*\[\]()-]+(?: [-+*/%|&]?= |\(|\+\+|--)[^;{}\n]*);$", re.M)


class Mutant:
    """Replaces text[start:end] of a file by `new`; printed as whole lines."""

    def __init__(self, file, text, start, end, new):
        self.file, self.start, self.end, self.put = file, start, end, new
        self.line = text.count("\n", 0, start) + 1
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        self.old = text[first:last].strip()
        self.new = (text[first:start] + new + text[end:last]).strip()

    def key(self):
        return self.file, self.old, self.new

    def apply(self, path):
        text = path.read_text()
        path.write_text(text[: self.start] + self.put + text[self.end :])

    def __str__(self):
        return f"{self.file}:{self.line}\n- {self.old}\n+ {self.new}"


def mutants_of(file, wanted):
    """Yields all mutants of a file in the wanted lines."""
    text = (TOP / file).read_text()
    code = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", "~", m[0]), text)
    start = 0
    for i, line in enumerate(code.split("\n"), 1):
        for pattern, into in MUTATIONS if i in wanted and not LEFT_ALONE.search(line) else ():
            for m in re.finditer(pattern, line):
                new = into if isinstance(into, str) else into(m)
                yield Mutant(file, text, start + m.start(), start + m.end(), new)
        start += len(line) + 1
    for m in STATEMENT.finditer(code):
        i = code.count("\n", 0, m.start()) + 1
        balanced = m[0].count("(") == m[0].count(")")
        if i in wanted and balanced and not LEFT_ALONE.search(m[0]) and not re.match(r" *(return (?!fail)|case )", m[0]):
            yield Mutant(file, text, m.start(), m.end(), ";")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, text=True, check=True).stdout


def is_source(path):
    return re.fullmatch(r"([^/]+|(?!tests/)[^/]+/[^/]+)\.[ch]", path) and (TOP / path).exists()


def changed_lines():
    """Returns {file: lines} for the lines of sources that the branch changed."""
    refs = git("for-each-ref", "--format=%(refname)", "refs/remotes/origin/main").split()
    base = git("merge-base", "HEAD", refs[0]).strip() if refs else ""
    if base in ("", git("rev-parse", "HEAD").strip()):
        base = "HEAD~1"
    found, file = {}, None
    for line in git("diff", "--unified=0", "--no-color", base).split("\n"):
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)) and is_source(file):
            first = int(hunk[1])
            found.setdefault(file, set()).update(range(first, first + int(hunk[2] or 1)))
    return found


def equivalent_mutants():
    """Reads tests/equivalent_mutants.txt: paragraphs of `file`, `- line`, `+ line`, and the reason."""
    listed = set()
    for paragraph in re.split(r"\n\s*\n", EQUIVALENT.read_text() if EQUIVALENT.exists() else ""):
        m = re.search(r"^(\S+)\n(- .*?)\n\+ (.*)\n", paragraph + "\n", re.MULTILINE | re.DOTALL)
        if m:
            listed.add((m[1].split(":")[0], m[2].removeprefix("- "), m[3].split("\n")[0]))
    return listed


# ---- builds and tests ----------------------------------------------------------------------------------------


def make_copy(folder):
    for path in git("ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
        if path and (TOP / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / path, folder / path)


def make(target, variant, flags, *more):
    return ["make", "-s", f"-j{JOBS}", target, "CC=gcc", f"VARIANT={variant}", f"CFLAGS={flags}", *more]


def build(folder, variant, flags):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(make("tests", variant, flags), cwd=folder, env=ENVIRONMENT, **quiet).returncode == 0


def run_suite(folder, variant, name, seconds):
    """Whether the suite passes in time. Its temporary files are in a separate folder, which is removed."""
    tests = f"build/{variant}/tests"
    command = [f"{tests}/{'growth' if name == 'growth' else 'all'}", name]
    settings = {"NORMA_RUN": f"./{tests}/run", "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "300"}
    with tempfile.TemporaryDirectory(prefix="norma-mutant-", ignore_cleanup_errors=True) as own:
        process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT | settings | {"TMPDIR": own},
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def measure(folder):
    """Returns {suite: (seconds, {file: lines that it runs})}, cached in build/ until a source or a test changes."""
    digest = hashlib.sha256()
    for path in git("ls-files", "*.[ch]", "*.txt", "Makefile", ":!tests/fuzz", f":!{EQUIVALENT.relative_to(TOP)}").split("\n"):
        digest.update((TOP / path).read_bytes() if path and (TOP / path).exists() else b"")
    kept = TOP / f"build/mutate-{digest.hexdigest()[:16]}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    if not build(folder, *COUNTED):
        sys.exit("the tests do not build")
    suites = {}
    for name in set(re.findall(r"SUITE\((\w+)\)", (TOP / "tests/support/suites.h").read_text())) - {"ranks"}:
        for data in (folder / "build/coverage").rglob("*.gcda"):
            data.unlink()
        begin = time.monotonic()
        if not run_suite(folder, COUNTED[0], name, 600):
            sys.exit(f"the suite {name} fails without mutants")
        counts = gcov_counts(folder / "build/coverage", folder)
        ran = {file: [n for n, (count, _) in lines.items() if count] for file, lines in counts.items()}
        suites[name] = time.monotonic() - begin, ran
    suites[""] = 0, {file: list(lines) for file, lines in counts.items()}  # lines that could run
    for old in TOP.glob("build/mutate-*.json"):
        old.unlink()
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(suites))
    return suites


def suites_for(suites, file, line):
    """The suites that run the line, quickest first. For a line without code (a table), the suites that run the file;
    for a file without code, all suites."""
    names = sorted((name for name in suites if name), key=lambda name: suites[name][0])
    if line in suites[""][1].get(file, ()):
        return [name for name in names if line in suites[name][1].get(file, ())]
    return [name for name in names if suites[name][1].get(file)] or names


def passes(folder, mutant, suites, variant, flags):
    """True if the tests pass, False if one fails, None if the mutant does not compile."""
    names = suites_for(suites, mutant.file, mutant.line)
    if not names:
        return True
    original = (folder / mutant.file).read_text()
    mutant.apply(folder / mutant.file)
    try:
        if not build(folder, variant, flags):
            return None
        slower = 5 if variant == PLAIN[0] else 30
        return all(run_suite(folder, variant, name, 10 + slower * suites[name][0]) for name in names)
    finally:
        (folder / mutant.file).write_text(original)


def choose(files):
    """The requested mutants in random order, without known equivalent ones."""
    wanted = {file: range(1, 1 << 20) for file in files} or changed_lines()
    mutants = [m for file in sorted(wanted) for m in mutants_of(file, wanted[file])]
    known, all_keys = equivalent_mutants(), {m.key() for m in mutants}
    for file, old, new in sorted(k for k in known - all_keys if k[0] in files):
        print(f"{EQUIVALENT.name}: this mutant no longer exists\n{file}\n- {old}\n+ {new}\n")
    random.Random(int(os.environ.get("SEED", "1"))).shuffle(mutants)
    print(f"{len(mutants)} mutants in {len(wanted)} files, {len(known & all_keys)} known to be equivalent", flush=True)
    return [m for m in mutants if m.key() not in known]


def main(files):
    mutants = choose(files)
    max_tried = int(os.environ.get("N") or len(mutants))
    caught, survivors = [], []

    with tempfile.TemporaryDirectory(prefix="norma-mutate-") as top:
        first = Path(top) / "0"
        make_copy(first)
        suites = measure(first)
        variants = [PLAIN, SANITIZED] if os.environ.get("SANITIZE") else [PLAIN]
        if not all(build(first, *variant) for variant in variants):
            sys.exit("the tests do not build")
        ends = time.monotonic() + float(os.environ.get("SECONDS", "600"))
        copies = Queue()
        for job in range(JOBS):
            if job:
                shutil.copytree(first, Path(top) / str(job))
            copies.put(Path(top) / str(job))

        def attempt(mutant):
            if time.monotonic() > ends or len(caught) + len(survivors) >= max_tried:
                return
            folder = copies.get()
            try:
                result = passes(folder, mutant, suites, *PLAIN)
                if result is False:
                    caught.append(mutant)
                elif result:
                    why = "no test detects it" if suites_for(suites, mutant.file, mutant.line) else "no test runs it"
                    if len(variants) > 1 and passes(folder, mutant, suites, *SANITIZED) is False:
                        why = "only the sanitizers detect it"
                    survivors.append(mutant)
                    print(f"\n{mutant}\n{why}", flush=True)
            finally:
                copies.put(folder)

        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(attempt, mutants))

    tried = len(caught) + len(survivors)
    print(f"\n{tried} mutants tried, {len(survivors)} survived ({100 * len(survivors) / max(tried, 1):.0f} %)")


if __name__ == "__main__":
    main(sys.argv[1:])
