"""Finds squeezed C: forms that save characters and cost a reader. house.py reports them; house_test.py tests each.

Owns the forms, all of them mechanical:

    comma       a comma operator outside for (;;)
    assigned    an assignment inside an argument or a condition; while ((x = next())) is an idiom, and allowed
    choices     more than two ?: in a statement, or in an element of a list
    chosen      a function that ?: chooses, in its call; a place that ?: chooses, in an assignment
    mask        an enumerator that is one bit, written as a hexadecimal number
    order       < or > with an enumerator whose declaration does not say that its order means something
    state       a variable of a file, which its functions leave for each other

It expects C in clang-format's layout: `) {` begins a block, `){` a compound literal.
"""

import re

TOKEN = re.compile(
    r"""L?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*|\){|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|&&|\|\|"""
    r"""|[-+*/%&|^<>=!]=|\n|[^\s\w]""",
    re.DOTALL,
)
WORD = re.compile(r"[A-Za-z_]\w*")
CONDITIONS = {"if", "while", "switch", "return"}
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
COMPARES = {"<", ">", "<=", ">="}
MAX_CHOICES = 2
ENUM = re.compile(r"(/\*(?:[^*]|\*(?!/))*\*/\s*)?(?:typedef )?enum\s*\w*\s*\{([^}]*)\}")
STATE = re.compile(r"^static (?!inline\b)([^;{}()=]*)[=;]|^static struct\b[^;{}]*\{[^}]*\} (\w+)", re.MULTILINE)
CHOSEN = re.compile(r"\(((?:[^()]|\([^()]*\))*\?(?:[^()]|\([^()]*\))*)\)\s*\(")
TARGET = re.compile(r"\*\((?:[^()]|\([^()]*\))*\?(?:[^()]|\([^()]*\))*\)\s*[-+*/|&]?=(?!=)")
CHANGE = r"(?:[\w.\[\]]|->|\*(?=\w))+(?:\+\+|--| [-+*/|&]?= [^;{}()]*?)"  # x++, x.y = 1
CHANGES = re.compile(rf"(?<=[;{{}})])\n\s+({CHANGE}), [^;{{}}]*;")


def tokens(code):
    """Yields (token, line)."""
    line = 1
    for match in TOKEN.finditer(code):
        if match[0] != "\n":
            yield match[0], line
        line += match[0].count("\n")


class Bracket:
    """An open bracket: "(" or "[", the "{" of a block, or the "{" of a list (an initializer, an enum, a struct)."""

    def __init__(self, kind, before):
        self.kind, self.before = kind, before  # before: the token before it
        self.comma = None  # line of its first comma


def is_list(opener, before, around):
    inside = around and around.kind != "block"
    return opener == "){" or inside or before in {"=", "enum", "struct", "union"} or WORD.fullmatch(before)


def is_grouping(bracket):
    """Whether a "(" groups an expression or a condition, so that a comma in it is an operator."""
    return bracket.before in CONDITIONS or not (WORD.fullmatch(bracket.before) or bracket.before in {")", "]"})


def may_assign(stack):
    """Whether an assignment here is a statement, a part of for (;;), or while ((x = next()))."""
    parentheses = []
    for bracket in reversed(stack):
        if bracket.kind in {"list", "block"}:
            break
        if bracket.kind == "(":
            parentheses.append(bracket.before)
    return not parentheses or parentheses[0] == "for" or parentheses == ["(", "while"]


def in_expressions(code):
    """Yields (line, what) for operators."""
    stack, before, choices = [], ";", 0
    for token, line in tokens(code):
        around = stack[-1] if stack else None
        if token in {"(", "["}:
            stack.append(Bracket(token, before))
        elif token in {"{", "){"}:
            if token == "){":
                stack.pop()
            stack.append(Bracket("list" if is_list(token, before, stack[-1] if stack else None) else "block", before))
        elif token in {")", "]", "}"} and stack:
            closed = stack.pop()
            if closed.comma and closed.kind == "(" and is_grouping(closed):
                yield closed.comma, "comma: a comma operator"
        elif token == ",":
            if around:
                around.comma = around.comma or line
            if around and around.kind == "list":
                choices = 0  # the next element
        elif token == "?":
            choices += 1
            if choices == MAX_CHOICES + 1:
                yield line, f"choices: more than {MAX_CHOICES} ?: in a statement"
        elif token in ASSIGNS and not may_assign(stack):
            yield line, "assigned: an assignment inside an argument or a condition"
        if (token == ";" and not (around and around.kind == "(")) or (
            stack and stack[-1].kind == "block" and token in "{}"
        ):
            choices = 0
        before = token


def in_text(code):
    """Yields (line, what) for forms that a pattern finds."""
    for match in CHOSEN.finditer(code):
        yield code[: match.start()].count("\n") + 1, "chosen: a function that ?: chooses, in its call"
    for match in TARGET.finditer(code):
        yield code[: match.start()].count("\n") + 1, "chosen: a place that ?: chooses, in an assignment"
    for match in CHANGES.finditer(code):
        if not re.match(r"(?:const |static |unsigned |struct |enum )?\w+ \*?\w", match[1]):  # else a declaration
            yield code[: match.start(1)].count("\n") + 1, "comma: a comma operator"
    for match in STATE.finditer(code):
        declared = match[1] or match[2]
        if "const" not in declared[declared.rfind("*") + 1 :]:  # after the last "*", else what it points to is constant
            name = re.search(r"\w+(?=\s*(?:,|\[|$))", declared)[0]
            yield code[: match.start()].count("\n") + 1, f"state: {name} is a variable of the file"


def enumerators(text):
    """Yields (name, value or "", whether its order means something, line) of the enumerators in a file."""
    for match in ENUM.finditer(text):
        body = re.sub(r"/\*.*?\*/", " ", match[2], flags=re.DOTALL)
        names = re.findall(r"\b([A-Z_][A-Z0-9_]*)\b\s*(=[^,]*)?(?:,|$)", body.strip())
        ordered = "order" in (match[1] or "") + match[2] or any(value for _, value in names)
        for name, value in names:
            is_count = re.match(r"(?:[A-Z0-9]+_)?N_", name)
            yield name, value.strip("= \n"), ordered or is_count, text[: match.start(2)].count("\n") + 1


def unordered(texts):
    """Returns the names of enumerators whose order means nothing, in all files."""
    found = [enumerator for text in texts for enumerator in enumerators(text)]
    return {name for name, _, is_ordered, _ in found} - {name for name, _, is_ordered, _ in found if is_ordered}


def masks(text):
    for name, value, _, line in enumerators(text):
        if re.fullmatch(r"0[xX][0-9a-fA-F]+", value) and bin(int(value, 16)).count("1") == 1:
            yield line, f"mask: {name} is a bit, written as {value}"


def orders(code, unordered):
    """Yields comparisons by order with an enumerator of `unordered`."""
    found = list(tokens(code))
    for (left, _), (operator, line), (right, _) in zip(found, found[1:], found[2:]):
        if operator in COMPARES and (left in unordered or right in unordered):
            yield line, f"order: {left} {operator} {right}, but no order is declared"


def check(code, text, unordered):
    """Yields (line, what) for every squeezed form. code: without comments and directives; text: the whole file;
    unordered: the names of enumerators whose order means nothing."""
    yield from in_expressions(code)
    yield from in_text(code)
    yield from masks(text)
    yield from orders(code, unordered)
