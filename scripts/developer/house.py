"""Checks norma's own rules: the floors of docs/architecture.md, sizes of files and functions, who may print or exit,
and the squeezed forms of scripts/developer/squeezed.py.

    python3 scripts/developer/house.py [FOLDER]           silent if all is well, else a line for each violation and status 1
    python3 scripts/developer/house.py --sizes [FOLDER]   prints the words of C by place

Owns the rules; the table of floors is in docs/architecture.md. It expects C in clang-format's layout: a definition or
declaration begins in column 0. scripts/developer/house_test.py tests it with violations of every kind.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

import squeezed

FUNCTION_LINES, COLUMNS = 80, 80  # of C; a page's C may have 100 columns
GENERATED = {
    "text/clusters.h",
    "text/nfc.h",
    "text/unicode.h",
    "text/width.h",
}  # tables; their words and columns are not counted
PLAIN, PLAIN_LINES = "plain.c", 400  # the formulas: a text of one evening
EDGES = re.compile(r"(?:formats|modes|cluster)/")
NAMED_IN = ["README.md", "docs/architecture.md"]  # documents that must name existing files and functions
STATE = {  # files whose variables are states of the process, or of the page
    "base/error.c": "what happens to messages",
    "base/file.c": "the files that the run reads and writes",
    "base/process.c": "what handlers of signals read",
    "base/ranks.c": "MPI's buffers",
    "kernels/team.c": "OpenMP has one team of threads",
    "web/depth.c": "a page has one experiment, of fixed size",
    "web/page.c": "JavaScript hands no objects over: a page has one model and one text",
}
ISO_C = re.compile(  # and OpenMP's and getopt's, but not <signal.h>
    r"(assert|complex|ctype|errno|fenv|float|getopt|inttypes|iso646|limits|locale|math|omp|setjmp|stdalign|stdarg|"
    r"stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype)\.h"
)

INCLUDE = re.compile(r'#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
NAME = re.compile(r"(?<!->)(?<![.\w])[A-Za-z_]\w*\b(?!\.|->|\[)")  # neither a member nor a struct or array
TOKEN = re.compile(  # of C without comments: strings, characters, numbers, names, operators, punctuation
    r"""L?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?:0[xX][\da-fA-F.pP+-]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*"""
    r"""|[A-Za-z_]\w*|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|##|&&|\|\||[-+*/%&|^<>=!]=|[^\s\w]""",
    re.DOTALL,
)
PUNCTUATION = set("const static inline struct enum union typedef restrict { } ( ) [ ] , ; # :".split())  # are no words
COMPILER = re.compile(r"\b__(?:builtin_\w+|attribute__(?!\(\(noreturn\)\))|asm__)")
PRINTS = re.compile(r"(?<!fflush\()(?<!ferror\()\bstdout\b|(?<![.>\w])(?:v?printf|puts|putchar)(?=\s*\()")
BANNER = re.compile(r"/\* ---- [^*]*\n\s*\*/")
ENDS = re.compile(r"(?<![.>\w])(?:exit|abort|quick_exit)(?=\s*\()")


def words(token):
    """What a reader has to understand of a token: a string has as many words as it shows, punctuation none."""
    return max(1, len(token[1:-1].split())) if token[0] == '"' else token not in PUNCTUATION


class Source:
    """A C file: its lines of code without comments and strings, its includes, functions and prototypes."""

    def __init__(self, root, path):
        self.path, self.text = path, (root / path).read_text()
        code = COMMENT_OR_STRING.sub(lambda m: ('""' if m[0][0] == '"' else " ") + "\n" * m[0].count("\n"), self.text)
        self.code = code.split("\n")
        self.plain_code = DIRECTIVE.sub(lambda m: "\n" * m[0].count("\n"), code)  # without directives
        comments_gone = COMMENT_OR_STRING.sub(
            lambda m: m[0] if m[0][0] != "/" else " " + "\n" * m[0].count("\n"), self.text
        )
        self.words = sum(map(words, TOKEN.findall(comments_gone)))
        self.includes, self.system = {}, {}  # path: line
        for i, line in enumerate(self.text.split("\n"), 1):
            if match := INCLUDE.match(line):
                (self.includes if match[1] else self.system).setdefault(match[1] or match[2], i)
        self.functions, self.prototypes, self.external = {}, set(), set()  # functions: {name: (line, lines)}
        self.read_declarations(self.plain_code.split("\n"))

    def read_declarations(self, lines):
        starts = [i for i, line in enumerate(lines) if re.match(r"[A-Za-z_]", line)]
        for start, after in zip(starts, starts[1:] + [len(lines)]):
            text = " ".join(lines[start:after])
            head = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", " ", re.split(r"[{;]", text)[0])
            name = re.search(r"(\w+)\s*\(", re.sub(r"\((\w+)\)\s*\(", r" \1(", head))  # int (fail)(...), too
            if not name or not name.start() or "=" in head or re.match(r"typedef\b", head):
                continue
            if "{" not in text:
                self.prototypes.add(name[1])
                continue
            end = next((i for i in range(start, after) if lines[i].startswith("}")), start)
            if end - start >= self.functions.get(name[1], (0, 0))[1]:
                self.functions[name[1]] = (start + 1, end - start + 1)
            if self.path.endswith(".c") and not re.match(r"static\b|INLINE\b", head):
                self.external.add(name[1])

    def calls(self, owners):
        """Returns {name: line} for the functions of other files that this file names."""
        found = {}
        for i, line in enumerate(self.code, 1):
            for name in NAME.findall(line):
                if owners.get(name, self.path) != self.path and name not in self.functions:
                    found.setdefault(name, i)
        declares = r"\b(?!return\b|else\b)\w+ [*]*(?:\w+, [*]*)*{}\s*[;=,)\[]"  # a variable of that name
        return {n: i for n, i in found.items() if not re.search(declares.format(n), "\n".join(self.code))}


class House:
    def __init__(self, root):
        self.root, self.violations = Path(root), set()
        self.floors = {}  # {"run.c": 9, "modes/": 8, ...}
        table = (self.root / "docs/architecture.md").read_text()
        for floor, places in re.findall(r"^\| *(\d+) *\|([^|]*)\|", table, re.MULTILINE):
            self.floors.update({place: int(floor) for place in re.findall(r"`([^`]+)`", places)})
        paths = sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*.[ch]"))
        self.sources = {p: Source(self.root, p) for p in paths if not re.match(r"tests/|build/|\.", p)}
        self.text = "\n".join(source.text for source in self.sources.values())
        self.unordered = squeezed.unordered(source.text for source in self.sources.values())
        self.tests = {p: (self.root / p).read_text() for p in paths if p.startswith("tests/")}
        self.suites = {p.rsplit("/test_", 1)[1][:-2] for p in paths if "/test_" in p and p.endswith(".c")}

    def report(self, path, line, text):
        self.violations.add((path, line, text))

    def text_lines(self, path):
        return self.sources[path].text.count("\n") if path in self.sources else 0

    def floor(self, path):
        return self.floors.get(path if "/" not in path else path.split("/")[0] + "/")

    def arrows(self):
        """Yields (from, line, to, function or None) for each include and each use of a function of another file."""
        owners = {name: path for path, source in self.sources.items() for name in source.external}
        for path, source in self.sources.items():
            yield from ((path, line, to, None) for to, line in source.includes.items())
            if path.endswith(".c"):
                yield from ((path, line, owners[name], name) for name, line in source.calls(owners).items())

    def declared_in(self, path, name):
        """Whether a header that the file includes declares the function, directly or through the file's own header (one
        that declares functions which the file defines)."""
        source = self.sources[path]
        headers = {h for h in source.includes if h in self.sources}
        own = [self.sources[h] for h in headers if source.external & self.sources[h].prototypes]
        headers |= {h for header in own for h in header.includes if h in self.sources}
        return any(name in self.sources[h].prototypes for h in headers)

    def check_arrows(self):
        graph = defaultdict(dict)  # {unit: {unit: place}}; a .c and a .h of one name on one floor are one unit
        for path, line, to, name in self.arrows():
            what, floors = f"{name}() of {to}" if name else f'"{to}"', (self.floor(path), self.floor(to))
            units = [(floor, file.rsplit(".", 1)[0]) for floor, file in zip(floors, (path, to))]
            if to not in self.sources:
                self.report(path, line, f"{what} is not a file that may be included")
            elif None not in floors and floors[0] < floors[1]:
                self.report(path, line, f"{what} is above: an arrow from floor {floors[0]} up to floor {floors[1]}")
            elif units[0] != units[1]:
                graph[units[0]].setdefault(units[1], (path, line))
            if name and not self.declared_in(path, name):
                self.report(path, line, f"{what} is not declared in any header included here")
        done = set()

        def walk(unit, trail):
            if unit in trail:
                cycle = trail[trail.index(unit) :] + [unit]
                self.report(*graph[cycle[-2]][unit], "closes a cycle: " + " -> ".join(name for _, name in cycle))
            elif unit not in done:
                for to in list(graph[unit]):
                    walk(to, trail + [unit])
                done.add(unit)

        for unit in list(graph):
            walk(unit, [])

    def check_file(self, path, source):
        name, machine = path.split("/")[-1], path.startswith("base/") or path in ("kernels/simd.h", "kernels/lanes.h")
        prints = path == "run.c" or path.startswith("modes/")
        if self.floor(path) is None:
            self.report(path, 1, "is on no floor of docs/architecture.md")
        if not source.text.startswith(f"/* {name}: "):
            self.report(path, 1, f"does not begin with its head comment, /* {name}: ...")
        for function, (line, lines) in source.functions.items():
            if lines > FUNCTION_LINES:
                self.report(path, line, f"{function}() has {lines} lines, more than {FUNCTION_LINES}")
        if not machine:
            for header, line in source.system.items():
                if not ISO_C.fullmatch(header):
                    self.report(path, line, f"<{header}> is for base/ and kernels/simd.h")
        for i, line in enumerate(source.code, 1):
            if not machine and (match := COMPILER.search(line)):
                self.report(path, i, f"{match[0]} is for base/ and kernels/simd.h")
            if not prints and (match := PRINTS.search(line)):
                self.report(path, i, f"{match[0]}: only run.c and modes/ print to stdout")
            if not prints and (match := ENDS.search(line)):
                self.report(path, i, f"{match[0]}: only run.c and modes/ end the program")

    def check_squeezed(self, path, source):
        for line, what in squeezed.check(source.plain_code, source.text, self.unordered):
            if not (path in STATE and what.startswith("state")):
                self.report(path, line, what)

    def check_comments(self, path, text):
        """Comments have 80 columns, and a banner is one line."""
        columns = 100 if path.startswith("web/") else COLUMNS
        for found in COMMENT_OR_STRING.finditer(text):
            if found[0][0] != "/":
                continue
            line = text[: found.start()].count("\n") + 1
            begin = text.rfind("\n", 0, found.start()) + 1
            for i, row in enumerate(text[begin : found.end()].split("\n")):
                if len(row) > columns:
                    self.report(path, line + i, f"a comment of {len(row)} columns, more than {columns}")
            if BANNER.match(found[0]):
                self.report(path, line, "a banner that is longer than its line")

    def check_tests_line(self, path, source):
        """The head of each .c, and of each .h without one, names the suites that test it."""
        if path.endswith(".h") and path[:-1] + "c" in self.sources or path.startswith("web/"):
            return
        named = re.search(r"\n \* Tests: ([\w, ]+)\.\s*\*/", source.text[: source.text.find("*/") + 2])
        if not named:
            self.report(path, 1, "its head has no line `Tests: SUITE, SUITE.`")
        for suite in named[1].split(", ") if named else ():
            if suite not in self.suites:
                self.report(path, 1, f"Tests: no suite is called {suite}")

    def sizes(self):
        """Yields (words, place): each folder, the core and the edges. Comments and line breaks do not count; no limit does."""
        by_place = defaultdict(int)
        for path, source in self.sources.items():
            if path not in GENERATED:
                by_place[path.split("/")[0] + "/" if "/" in path else "the top level"] += source.words
        yield from sorted((words, place) for place, words in by_place.items())
        edges = sum(words for place, words in by_place.items() if EDGES.match(place))
        yield sum(by_place.values()) - edges - by_place["web/"], "the core"
        yield edges, "the edges (formats/, modes/, cluster/)"

    def check_names(self, path):
        """Each named file exists; each function is defined in the file named before it in the same paragraph or row."""
        file = None
        for i, line in enumerate((self.root / path).read_text().split("\n"), 1):
            file = None if not line.strip() or line.lstrip()[0] in "|-*0123456789" else file
            for span in re.findall(r"`([^`]+)`", line):
                call = re.fullmatch(r"(\w+)\(\)", span)
                if re.fullmatch(r"[\w/.]+\.(c|h|py|svg|md)", span):
                    file = span
                    if not (self.root / span).exists():
                        self.report(path, i, f"{span} does not exist")
                elif call and (file not in self.sources or call[1] not in self.sources[file].functions):
                    self.report(path, i, f"{span} is not defined in {file or 'a file named before it'}")

    def check_map(self):
        """docs/architecture.md has the fast function of every function of plain.c."""
        table = (self.root / "docs/architecture.md").read_text()
        for name, (line, _) in self.sources[PLAIN].functions.items() if PLAIN in self.sources else ():
            if not re.search(rf"^\| `{PLAIN}` [^|]*`{name}\(\)`[^|]*\|[^|]*`\w+\(\)`", table, re.MULTILINE):
                self.report(PLAIN, line, f"docs/architecture.md does not name the fast function of {name}()")

    def check_links(self, path):
        """Links lead to existing files, and the sources contain the C that is quoted."""
        text = (self.root / path).read_text()
        for found in re.finditer(r"\]\(([^)#:]+)\)|```c\n(.*?)```", text, re.DOTALL):
            at = text[: found.start()].count("\n") + 1
            if found[1] and not (self.root / path).parent.joinpath(found[1]).exists():
                self.report(path, at, f"{found[1]} does not exist")
            for i, line in enumerate((found[2] or "").splitlines(), 1):
                if line.strip() not in self.text:
                    self.report(path, at + i, f"quotes C that no source contains: {line}")

    def check(self):
        self.check_arrows()
        for path, source in self.sources.items():
            self.check_file(path, source)
            if path not in GENERATED:
                self.check_squeezed(path, source)
                self.check_comments(path, source.text)
                self.check_tests_line(path, source)
        for path, text in self.tests.items():
            self.check_comments(path, text)
        if (lines := self.text_lines(PLAIN)) > PLAIN_LINES:
            self.report(PLAIN, 1, f"{lines} lines, more than {PLAIN_LINES}")
        for path in NAMED_IN:
            self.check_names(path)
        self.check_map()
        for path in ["README.md", *(f"docs/{page.name}" for page in sorted((self.root / "docs").glob("*.md")))]:
            self.check_links(path)
        return [f"{path}:{line}: {text}" for path, line, text in sorted(self.violations)]


def main(arguments):
    house = House(next((a for a in arguments if a != "--sizes"), Path(__file__).resolve().parents[2]))
    if "--sizes" in arguments:
        for words_here, place in house.sizes():
            print(f"{words_here:7,} words  {place}")
        return 0
    violations = house.check()
    print("\n".join(violations), end="\n" if violations else "")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
