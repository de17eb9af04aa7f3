"""Tests scripts/developer/house.py: it reports nothing for a small clean tree, and every violation that is planted in it.

Owns the small tree, the violations, and the expected reports: file, line and text.
"""

import sys
import tempfile
from pathlib import Path

import house

CLEAN = {
    "README.md": "The floors: [floors](docs/architecture.md).\n",
    "docs/architecture.md": """
| floor | place |
| --- | --- |
| 4 | `run.c` |
| 3 | `modes/` |
| 2 | `model.c` |
| 2 | `model.h` |
| 1 | `base/` |

A text is printed by `modes/text.c`: `mode_text()`.
""",
    "run.c": """/* run.c: the program.
 * Tests: model. */
#include "base/error.h"
#include "modes/text.h"

#include <stdlib.h>

int main(void) {
    if (mode_text()) exit(fail("no text"));
    return 0;
}
""",
    "modes/text.c": """/* text.c: a mode.
 * Tests: model. */
#include "modes/text.h"

#include "model.h"

#include <stdio.h>

int mode_text(void) { return printf("%d\\n", model_size()) < 0; }
""",
    "modes/text.h": "/* text.h: a mode. */\nint mode_text(void);\n",
    "model.c": """/* model.c: says "printf(stdout)", and in a comment exit(1).
 * Tests: model. */
#include "model.h"

#include "base/error.h"

int model_size(void) {
    return fail("exit(1)");
}
""",
    "model.h": "/* model.h: what a model is. */\nint model_size(void);\n",
    "base/error.c": """/* error.c: how a failure is told.
 * Tests: model. */
#include "base/error.h"

#include <unistd.h>

int(fail)(const char *text) {
    return fflush(stdout) - (int)write(2, text, 1);
}
""",
    "base/error.h": "/* error.h: how a failure is told. */\nint fail(const char *text) __attribute__((nonnull(1)));\n",
    "docs/model.md": 'Two lines:\n\n```c\nint model_size(void) {\nreturn fail("exit(1)");\n```\n',
    "tests/test_model.c": "int printf(const char *, ...);\n",
}

LONG = "static int longest(void) {\n" + "    (void)0;\n" * 78 + "    return 0;\n}\n"  # 81 lines

# violations: (file, text to replace, its replacement), and the expected report
PLANTED = [
    ("base/error.c", "#include <unistd.h>", '#include "model.h"', 'base/error.c:5: "model.h" is above'),
    ("base/error.c", "(int)write(2, text, 1)", "model_size()", "base/error.c:8: model_size() of model.c is above"),
    (
        "base/error.h",
        "\nint",
        '\n#include "base/other.h"\nint',
        "base/other.c:3: closes a cycle: base/error -> base/other -> ",
    ),
    ("run.c", '#include "modes/text.h"', "", "run.c:9: mode_text() of modes/text.c is not declared in any"),
    (
        "run.c",
        '#include "modes/text.h"',
        "extern int mode_text(void);",
        "run.c:4: mode_text() of modes/text.c is not declared in any",
    ),
    ("run.c", "modes/text.h", "text.h", 'run.c:4: "text.h" is not a file'),
    ("run.c", "modes/text.h", "tests/test_model.c", 'run.c:4: "tests/test_model.c" is not a file'),
    ("model.c", "\nint", "\n" + LONG + "\nint", "model.c:7: longest() has 81 lines, more than 80"),
    (
        "plain.c",
        "",
        "/* plain.c: the formulas.\n * Tests: model. */" + 400 * "\n" + "int x;\n",
        "plain.c:1: 402 lines, more than 400",
    ),
    ("model.c", "/* model.c", "/* modal.c", "model.c:1: does not begin with its head comment"),
    ("lab/lab.c", "", "/* lab.c: no floor. */\n", "lab/lab.c:1: is on no floor"),
    ("model.c", "\n\nint", "\n#include <unistd.h>\n\nint", "model.c:6: <unistd.h> is for base/"),
    ("model.c", "\n\nint", "\n#include <sys/stat.h>\n\nint", "model.c:6: <sys/stat.h> is for base/"),
    ("model.c", "fail(", "__builtin_abs(", "model.c:8: __builtin_abs is for base/"),
    ("model.h", ";", " __attribute__((pure));", "model.h:2: __attribute__ is for base/"),
    ("model.c", "    return", '    printf("x");\n    return', "model.c:8: printf: only run.c and modes/ print"),
    (
        "model.c",
        "    return",
        '    fputs("x", stdout);\n    return',
        "model.c:8: stdout: only run.c and modes/ print",
    ),
    ("model.c", "    return", "    exit(1);\n    return", "model.c:8: exit: only run.c and modes/ end the program"),
    (
        "plain.c",
        "",
        "/* plain.c: the formulas. */\nint sum(void) {\n    return 1 + 1;\n}\n",
        "plain.c:2: docs/architecture.md does not name the fast function of sum()",
    ),
    ("README.md", "docs/architecture.md", "docs/house.md", "README.md:1: docs/house.md does not exist"),
    ("docs/model.md", "exit(1)", "exit(2)", "docs/model.md:5: quotes C that no source contains: return fail("),
    ("docs/architecture.md", "modes/text.c", "modes/test.c", "docs/architecture.md:10: modes/test.c does not exist"),
    (
        "docs/architecture.md",
        "mode_text",
        "text_mode",
        "docs/architecture.md:10: text_mode() is not defined in modes/text.c",
    ),
    (
        "docs/architecture.md",
        "modes/text.c",
        "model.c",
        "docs/architecture.md:10: mode_text() is not defined in model.c",
    ),
    ("model.h", "*/", "*/\n/* " + 76 * "a" + " */", "model.h:2: a comment of 82 columns, more than 80"),
    ("tests/test_model.c", "", "/* " + 76 * "a" + " */\n", "tests/test_model.c:1: a comment of 82 columns"),
    ("model.h", "*/", "*/\n/* ---- a banner ----\n */", "model.h:2: a banner that is longer than its line"),
    ("model.c", " * Tests: model. */", " * Tested. */", "model.c:1: its head has no line `Tests: SUITE"),
    ("model.c", " * Tests: model. */", " * Tests: mode. */", "model.c:1: Tests: no suite is called mode"),
    ("model.c", "    return", "    int x = (n++, n);\n    return", "model.c:8: comma: a comma operator"),
    ("model.c", "    return", "    x++, n--;\n    return", "model.c:8: comma: a comma operator"),
    ("model.c", "    return", "    if (n++, n)\n    return", "model.c:8: comma: a comma operator"),
    ("model.c", "fail(", "fail(x = ", "model.c:8: assigned: an assignment inside an argument or a condition"),
    ("model.c", "    return", "    if (!(x = next()))\n    return", "model.c:8: assigned: an assignment inside"),
    (
        "model.c",
        "    return",
        "    while (n && !(x = next()))\n    return",
        "model.c:8: assigned: an assignment inside",
    ),
    ("model.c", "    return", "    for (; (x = next());)\n    return", "model.c:8: assigned: an assignment inside"),
    ("model.c", "fail(", "f(a ? 1 : b ? 2 : c ? 3 : 4, ", "model.c:8: choices: more than 2 ?: in a statement"),
    (
        "model.c",
        "return fail(",
        "return (x ? fail : note)(",
        "model.c:8: chosen: a function that ?: chooses, in its call",
    ),
    ("model.c", "    return", "    *(x ? &a : &b) += 1;\n    return", "model.c:8: chosen: a place that ?: chooses, in"),
    ("model.h", ";", ";\nenum { FIRST = 0x1, EIGHTH = 0x80 };", "model.h:3: mask: EIGHTH is a bit, written as 0x80"),
    (
        "model.h",
        ";",
        ";\nenum { A, B };\nstatic int f(int x) { return x < B; }",
        "model.h:4: order: x < B, but no order is declared",
    ),
    ("model.c", "\nint", "\nstatic int n_calls, x = 1;\nint", "model.c:7: state: n_calls is a variable of the file"),
    ("model.c", "\nint", "\nstatic const char *names[2];\nint", "model.c:7: state: names is a variable of the file"),
    ("model.c", "\nint", "\nstatic struct { int n; } kept;\nint", "model.c:7: state: kept is a variable of the file"),
]
ALLOWED = [  # forms that are not squeezed: no report
    "    while ((x = next()) >= 0)\n        n++;\n",
    "    for (x = 0, n = 1; x < n; x++, n--)\n        f(x, n);\n",
    "    int x = 1, n = f(1, 2);\n    const char *a, *b = a;\n",
    "    f((Pair){.a = 1, .b = 2}, (int[]){1, 2});\n",
    "    x = a ? 1 : b ? 2 : 3;\n    n = a ? 1 : b ? 2 : 3;\n",
    "    int list[] = {a ? 1 : 2, a ? b ? 1 : 2 : 3, 4};\n",
    "    enum { N_KINDS, TEN = 10 };\n    x = n < N_KINDS && n < TEN;\n",
    "    static const int primes[] = {2, 3};\n    static char *const name = 0;\n",
]
OTHER = {  # one half of the cycle; the other half is planted
    "base/other.c": '/* other.c: a circle.\n * Tests: model. */\n#include "base/error.h"\n',
    "base/other.h": "/* other.h: a circle. */\n",
}


def build(tree, use):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        return use(house.House(folder))


def check(tree):
    return build(tree, lambda built: built.check())


def check_sizes():
    """A string has as many words as it shows; comments and punctuation have none."""
    code = '/* two words */ static const char *a[] = {"one two", "b", NULL}; x += f(1);\n'
    words = 4 + 2 + 1 + 1 + 4  # char * a =, "one two", "b", NULL, x += f 1
    with_it, without = (
        build({**CLEAN, "model.c": text}, lambda built: dict((place, n) for n, place in built.sizes())["the top level"])
        for text in (code, "")
    )
    return [] if with_it - without == words else [f"{with_it - without} words of {code!r}, expected {words}"]


def main():
    failed = [f"the clean tree: {line}" for line in check({**CLEAN, **OTHER})]
    failed += check_sizes()
    for path, old, new, expected in PLANTED:
        text = CLEAN.get(path, "")
        assert old in text, (path, old)
        reported = check({**CLEAN, **OTHER, path: text.replace(old, new, 1) if old else new})
        if not any(line.startswith(expected) for line in reported):
            failed.append(f"planted in {path}: {new[:60]!r}\n  expected {expected}\n  reported {reported}")
    for code in ALLOWED:
        text = CLEAN["model.c"].replace("    return", code + "    return")
        failed += [f"{code!r}: {line}" for line in check({**CLEAN, **OTHER, "model.c": text})]
    print("\n".join(failed), end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
