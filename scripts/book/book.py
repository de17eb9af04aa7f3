"""Makes book/, the site: the chapters of docs/, a page each, in English and Chinese (`make book`).

    python3 scripts/book/book.py                        sources and tests are pages of the site
    python3 scripts/book/book.py --base https://HOST/REPOSITORY/blob/main     they are links to this address

Owns the order of the chapters and what their Markdown lacks: an anchor for each statement, heading, exercise and
figure, links from "statement 29" and from names of tests, pages for the parts of a chapter. Sphinx does the rest
(contents, search without a server, highlighting, themes), with the settings and styles of web/. It was chosen because
its pages and its search index open from a disk, and because it and its theme (Furo) are maintained. The packages of
web/requirements.txt go into an environment of their own, build/book/env.
"""

import argparse
import base64
import csv
import gzip
import html
import json
import math
import re
import shutil
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import program

TOP = Path(__file__).resolve().parents[2]
DOCS, WORK, BOOK = TOP / "docs", TOP / "build" / "book", TOP / "book"
# Pages of the contents: (heading in each language, documents). A document without a twin is in English only.
PARTS = (
    (("Norms: the core", "归一化：主线"), ("norms",)),
    (("Norms: in depth", "归一化：深入"), ("norms_depth", "norms_published", "experiment")),
    (("Norms: exercises and audit", "归一化：练习与核对"), ("norms_exercises", "norms_appendix")),
    (("The model", "模型"), ("model", "architecture")),
    (("Running it", "运行"), ("batching", "distributed", "profile")),
    (("Reference", "参考"), ("options", "models", "training", "performance", "notebook", "testing", "security")),
)
DOCUMENTS = [name for _, names in PARTS for name in names if (DOCS / f"{name}.md").exists()]
LANGUAGES = "en", "zh"
# What the still picture of a figure shows (scripts/book/stills.py). Next to the others stands a drawing, norms_NAME.svg.
STILLS = {
    "backward": ("The terms of a norm's gradient, as bars", "归一化梯度的各项"),
    "depth": ("Gradients by depth for four places of norms", "归一化的四种位置：各深度的梯度"),
    "explorer": ("A token's vector through the layers, and the model's story", "一个 token 的向量逐层的样子，和模型讲的故事"),
    "gradients": ("Gradients by depth in a model of 8 layers", "8 层模型各深度的梯度"),
    "massive": ("A massive channel and what int8 makes of it", "一个极大的通道，以及 int8 之后的样子"),
    "playground": ("The bundled model's story, and its stream by layer", "自带模型的故事，和各层的残差流"),
    "space": ("A token in three dimensions, and both norms of it", "三维空间里的一个 token 和它的两种归一化"),
    "token": ("The vectors of a layer, and the lines that compute them", "一层里的各个向量，和算出它们的代码"),
}
SPLIT = {"norms", "norms_depth"}  # chapters with a page for each heading of level 1
# Chapters whose statements others mean by "statement 29"; batching.md has numbers of its own.
NUMBERED = "norms", "norms_depth", "norms_published", "norms_exercises", "norms_appendix"


def path_of(name, language):
    return DOCS / (f"{name}.md" if language == "en" else f"{name}.zh.md")


def tests():
    """Returns {name: (path, line)} for all test functions."""
    found = {}
    for path in sorted((TOP / "tests").rglob("*.c")):
        for m in re.finditer(r"^static void (\w+)\(void\) \{$", text := path.read_text(), re.MULTILINE):
            found.setdefault(m[1], (path.relative_to(TOP).as_posix(), text.count("\n", 0, m.start()) + 1))
    return found


def pieces(text):
    """Cuts Markdown into (is_code, text): fenced and indented blocks, and what is between them."""
    cut = re.split(r"(^```(?:.*\n)*?```$|(?:(?<=\n\n)(?: {4}.*\n)(?:(?: {4}.*)?\n)*))", text, flags=re.MULTILINE)
    return [(i % 2 == 1, piece) for i, piece in enumerate(cut)]


def webp_size(path):
    """Width and height of a lossy WebP file, which its first frame begins with (RFC 6386, 9.1)."""
    data = path.read_bytes()
    at = data.index(b"\x9d\x01\x2a") + 3
    return tuple(int.from_bytes(data[i : i + 2], "little") & 0x3FFF for i in (at, at + 2))


def split_pages(name, text):
    """The pages of a chapter: {page: Markdown}."""
    if name not in SPLIT:
        return {name: text}
    cut = re.split(r"^(?=# )", text, flags=re.MULTILINE)[1:]
    return {name if i == 0 else f"{name}-{i}": page for i, page in enumerate(cut)}


def small_svg(text):
    """A drawing of matplotlib's in less than half of its bytes: a tenth of a unit, no comments, no names that nothing
    refers to, no groups without attributes, a class for each style that repeats."""
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<\?xml.*?\?>|<!DOCTYPE[^>]*>", "", text, flags=re.DOTALL)
    digits = lambda m: f"{float(m[0]):.{1 if float(m[0]) >= 1 else 2}f}".rstrip("0").rstrip(".")
    text = re.sub(r"\d+\.\d{2,}", digits, text)
    text = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", text)).strip()
    path = lambda m: ' d="' + re.sub(r" ?([A-Za-z]) ?", r"\1", m[1].strip()) + '"'
    text = re.sub(r' d="([^"]*)"', path, text)
    names = {old: f"i{i}" for i, old in enumerate(sorted(set(re.findall(r"(?:url\(|href=\")#([\w.]+)", text))))}
    text = re.sub(r' id="([\w.]*)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", text)
    text = re.sub(r'(url\(|href=")#([\w.]+)', lambda m: f"{m[1]}#{names[m[2]]}", text).replace("xlink:href", "href")
    group = re.compile(r"<g>((?:(?!</?g[ >]).)*)</g>")
    while (shorter := group.sub(r"\1", text)) != text:
        text = shorter
    styles = Counter(re.findall(r' style="([^"]*)"', text))
    rules = ""
    for i, style in enumerate(sorted(s for s, count in styles.items() if count > 1)):
        text = text.replace(f' style="{style}"', f' class="s{i}"')
        rules += f".s{i}{{{style}}}"
    return text.replace(">", f"><style>{rules}</style>", 1)


class Site:
    """One language of the site."""

    def __init__(self, language, base):
        self.language, self.base = language, base
        self.tests, self.sources = tests(), set()
        self.pages, self.statements, self.chapters = {}, {}, {}
        for name in ["index", *DOCUMENTS]:
            if path_of(name, language).exists():
                for page, text in split_pages(name, path_of(name, language).read_text()).items():
                    self.pages[page] = text
                    self.chapters[page] = name
                    for number in re.findall(r"^\*\*(\d+)\.\*\*", text, re.MULTILINE):
                        scope = "norms" if name in NUMBERED else name
                        self.statements[scope, number] = page

    def other(self, name):
        """The page of a document from a page of this site, also if it is in English only."""
        if (DOCS / f"{name}.md").exists() and name in DOCUMENTS:
            return f"{name}.html" if name in self.chapters.values() else f"../en/{name}.html"
        return None

    def source(self, path, line=None):
        """A link to a file of the repository."""
        anchor = f"#L{line}" if line else ""
        if self.base or not (TOP / path).is_file():
            return f"{self.base or '..'}/{path}{anchor}"
        self.sources.add(path)
        return f"../code/{path}.html{anchor}"

    def statement(self, scope, number, text):
        page = self.statements.get((scope, number))
        return f'<a href="{page}.html#s{number}">{text}</a>' if page else text

    def title(self, name):
        """The title of a document, in this language if it has one."""
        path = path_of(name, self.language)
        return re.search(r"^# (.*)", (path if path.exists() else path_of(name, "en")).read_text(), re.MULTILINE)[1]

    def link(self, match):
        """[text](target): a page, a figure, a source file, or another site."""
        text, target = match[1], match[2]
        if re.match(r"https?:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        name = re.fullmatch(r"(\w+?)(?:\.zh)?\.md", path)
        page = self.other(name[1]) if name else None
        if page and text == path:
            text = self.title(name[1])
        where = page or self.source((DOCS / path).resolve().relative_to(TOP).as_posix())
        return f'<a href="{where}{"#" + anchor if anchor and page is None else ""}">{inline(text)}</a>'

    def live_figure(self, match):
        """A figure that computes. Until it runs, without a script and on paper before it has run, its still picture."""
        still = f"{match[1]}.{self.language}.webp"
        path = TOP / "web" / "stills" / still
        if not path.exists():
            return f'<div data-figure="{match[1]}"></div>'
        name, (width, height) = STILLS[match[1]][self.language == "zh"], webp_size(path)
        picture = f'<img class="still" src="../stills/{still}" alt="{name}" width="{width}" height="{height}" loading="lazy">'
        return f'<div data-figure="{match[1]}">{picture}</div>'

    def prose(self, page, text):
        """Markdown outside code blocks."""
        name = self.chapters[page]
        scope = name if (name, "1") in self.statements and name not in NUMBERED else "norms"

        def code(match):
            test = self.tests.get(match[1]) if "_" in match[1] else None  # a test's name, not a word like `norms`
            shown = f"<code>{html.escape(match[1])}</code>"
            return f'<a href="{self.source(*test)}">{shown}</a>' if test else match[0]

        def numbers(match):
            return re.sub(r"\d+", lambda n: self.statement(scope, n[0], n[0]), match[0])

        def cell(match):  # the last column of a table of claims
            return match[1] + re.sub(r"\d+", lambda n: self.statement(scope, n[0], n[0]), match[2])

        text = re.sub(r"^<!-- figure: (\w+) -->$", self.live_figure, text, flags=re.MULTILINE)
        text = re.sub(r"^!\[(.*?)\]\((\w+)((?:\.zh)?\.svg)\)$", figure, text, flags=re.MULTILINE)
        text = re.sub(r"(?<!!)\[((?:[^\[\]\n]|\n(?!\n))+)\]\(([^)\s]+)\)", self.link, text)
        text = re.sub(r"`(\w+)`", code, mathematics(text))
        text = re.sub(
            r"\b[Ss]tatements? (?:\d+(?:, | and | to )?)+|第 ?(?:\d+[、，和到 ]*)+条|(?<=[(（])\d+(?:, \d+)*(?=[)）]$)",
            numbers,
            text,
            flags=re.MULTILINE,
        )
        text = re.sub(r"^(\|.*\| )(\d+(?:, \d+)*)(?= \|$)", cell, text, flags=re.MULTILINE)
        return re.sub(
            r"^\*\*(\d+)\.\*\*", r'<a class="statement" id="s\1" href="#s\1">\1.</a>', text, flags=re.MULTILINE
        )

    def markdown(self, page):
        """A page as Sphinx reads it."""
        text = re.sub(r"^\[(?:中文|English)\]\(\S+\)\n", "", self.pages[page], flags=re.MULTILINE)
        text = "".join(block(piece) if code else self.prose(page, piece) for code, piece in pieces(text))
        text = re.sub(r'^<!-- source: (\S+?)(?: "(.*)")? -->$', section, text, flags=re.MULTILINE)
        headings = iter(range(1, 1000))
        text = "".join(
            piece if code else re.sub(r"^(?=#+ )", lambda _: f"({page}-{next(headings)})=\n", piece, flags=re.MULTILINE)
            for code, piece in pieces(text)
        )
        if "exercise" in text[:200].lower() or "习题" in text[:200] or "练习" in text[:200]:
            items = iter(range(1, 1000))
            text = re.sub(
                r"^- ",
                lambda _: '- <a class="exercise" id="e{0}" href="#e{0}">{0}</a> '.format(next(items)),
                text,
                flags=re.MULTILINE,
            )
        parts = [p for p in self.pages if self.chapters[p] == page and p != page]
        return text + (toctree(parts) if parts else "")

    def contents(self):
        """The list of pages, which the first page holds and the side shows."""
        lists = [(titles[self.language == "zh"], [n for n in names if n in self.pages]) for titles, names in PARTS]
        return "".join(toctree(names, title) for title, names in lists if names)

    def write(self, folder):
        folder.mkdir(parents=True)
        for page in self.pages:
            (folder / f"{page}.md").write_text(self.markdown(page) + (self.contents() if page == "index" else ""))
        for path in DOCS.glob("*.svg"):
            (folder / path.name).write_text(small_svg(path.read_text()))


def section(match):
    """A section of a source file between two banners, as a code block; without a name, what comes before the first."""
    text = (TOP / match[1]).read_text()
    cut = re.split(r"^(?=/\* ---- )", text, flags=re.MULTILINE)
    found = [part for part in cut if match[2] is None or part.startswith(f"/* ---- {match[2]} ")]
    if not found:
        raise ValueError(f"{match[1]} has no section {match[2]}")
    body = re.sub(r"^/\* ---- .*\n\n?", "", found[0])
    return f"```c\n{body.rstrip()}\n```"


FORMULAS = json.loads((TOP / "web" / "formulas.json").read_text())  # {line of a chapter: LaTeX}
OPAQUE = re.compile(r"(`[^`]*`|<[^>]*>|\[[^\[\]]*\]\([^)]*\)|https?://\S+|\$[^$]*\$)")  # no formulas in these
ARGUMENT = r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"


def latex(text):
    """A formula of the chapters, such as sqrt(2 / (π dim)), as LaTeX."""
    text = re.sub("sqrt" + ARGUMENT, lambda m: rf"\sqrt{{{latex(m[1])}}}", text)
    text = re.sub(r"\^" + ARGUMENT, lambda m: f"^{{{latex(m[1])}}}", text)
    text = re.sub(r"\^(−?[\w.]+)", r"^{\1}", text)
    text = re.sub(r"_(\w+)", r"_{\1}", text)
    text = re.sub(r"(?<![\\\w{])([A-Za-z]{2,}|[\u4e00-\u9fff]+)", r"\\text{\1}", text)
    for plain, tex in (
        ("·", r"\cdot "),
        ("−", "-"),
        ("²", "^2"),
        ("³", "^3"),
        ("%", r"\%"),
        ("|", r"\vert "),
        ("∂", r"\partial "),
    ):
        text = text.replace(plain, tex)
    for letter, tex in zip("αβγεμπσχΣ", "alpha beta gamma epsilon mu pi sigma chi Sigma".split(), strict=True):
        text = text.replace(letter, rf"\{tex} ")
    return text


def mathematics(text):
    """Roots, powers and indices in prose as MathML."""
    formula = re.compile(rf"sqrt{ARGUMENT}|[\w.]+\^(?:{ARGUMENT}|−?\w+)|\b[A-Za-zγβ∂]{{1,2}}_[a-z]{{1,2}}\b")
    cut = OPAQUE.split(text)
    return "".join(part if i % 2 else formula.sub(lambda m: f"${latex(m[0])}$", part) for i, part in enumerate(cut))


def inline(text):
    return re.sub(r"`([^`]+)`", lambda m: f"<code>{html.escape(m[1])}</code>", text)


def toctree(names, caption=""):
    option = f":caption: {caption}\n" if caption else ""
    return f"\n\n```{{toctree}}\n:hidden:\n{option}\n" + "\n".join(names) + "\n```\n"


def figure(match):
    name = match[2]
    return f"```{{figure}} {name}{match[3]}\n:name: fig-{name}\n:alt: {match[1]}\n\n{match[1]}\n```"


def block(text):
    """A code block; formulas, which are indented, wrap on a narrow screen."""
    if text.startswith("```"):
        return text
    lines = [line[4:] for line in text.rstrip("\n").split("\n")]
    if all(line in FORMULAS for line in lines):
        parts = [part for line in lines for part in FORMULAS[line].split("\\qquad")]  # narrow screens need short lines
        return "".join(f"$$\n{part.strip()}\n$$\n\n" for part in parts)
    body = "\n".join(lines)
    return f"```{{code-block}} text\n:class: formula\n\n{body}\n```\n\n"


PLAIN_SPANS = re.compile(r'<span class="(?:w|p|o|n|nf)">(.*?)</span>')  # Pygments marks what has no color of its own


def write_sources(paths):
    """Pages of source files, highlighted by Pygments, which Sphinx brings along."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import TextLexer, get_lexer_for_filename
    from pygments.util import ClassNotFound

    style = (TOP / "web" / "code.css").read_text()
    dark = HtmlFormatter(style="monokai").get_style_defs(".highlight")
    style += HtmlFormatter(style="tango").get_style_defs(".highlight")
    style += "@media (prefers-color-scheme: dark) {" + dark + "}"
    (BOOK / "code").mkdir()
    (BOOK / "code" / "source.css").write_text(style)
    for path in paths:
        try:
            lexer = get_lexer_for_filename(path)
        except ClassNotFound:
            lexer = TextLexer()
        body = highlight((TOP / path).read_text(), lexer, HtmlFormatter(linespans="L"))
        body = PLAIN_SPANS.sub(r"\1", body.replace('id="L-', 'id="L'))
        to = BOOK / "code" / f"{path}.html"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{path}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="stylesheet" href="{"../" * str(path).count("/")}source.css"></head>\n'
            f"<body><h1>{path}</h1>\n{body}</body></html>\n"
        )


def rates():
    """Held-out loss by learning rate of each run of docs/experiment.csv: mean and half the range over seeds."""
    found, diverged = {}, {}
    for line in csv.DictReader((DOCS / "experiment.csv").open()):
        loss = float(line["held_out_loss"])
        if math.isfinite(loss):
            found.setdefault(line["norms"], {}).setdefault(float(line["learning_rate"]), []).append(loss)
        else:
            diverged.setdefault(line["norms"], []).append(line["learning_rate"])
    series = []
    for name, by_rate in found.items():
        points = [[r, sum(v) / len(v), (max(v) - min(v)) / 2] for r, v in sorted(by_rate.items())]
        series.append({"group": name, "name": name, "points": points})
        if bad := sorted(diverged.get(name, ())):
            series[-1]["note"] = [
                f"{name}: no point at {', '.join(bad)}, since the loss became NaN.",
                f"{name}：{'、'.join(bad)} 处没有点，因为损失变成了 NaN。",
            ]
    return series


def tables():
    """The figures of tables, as the page's figures.js draws them; texts in English and Chinese."""
    stored = json.loads((DOCS / "figures.json").read_text())
    return {
        "massive": stored["massive"],
        "rates": {
            "title": ["Held-out loss by learning rate", "留出集损失随学习率的变化"],
            "x": {"log": True, "ticks": [0.001, 0.002, 0.004, 0.008, 0.016], "title": ["learning rate", "学习率"]},
            "y": {"log": True, "title": ["nats per token", "nat / token"]},
            "series": rates(),
            "beside": "rms",
            "note": [
                "rms: RMSNorm before each sublayer. _cold: no warm-up. _apart: a separate classifier matrix. "
                "Bars: half the range over seeds, up and down.",
                "rms：每个子层之前是 RMSNorm。_cold：没有预热。_apart：分类器有自己的矩阵。竖线：上下各为不同种子极差的一半。",
            ],
            "trials": [
                [
                    "Without norms: up to which rate does it train?",
                    "没有归一化：学习率到多大还能训练？",
                    {"group": "none"},
                ],
                [
                    "Post-norm: how much more does the loss depend on the rate?",
                    "post-norm：损失对学习率敏感多少？",
                    {"group": "post"},
                ],
                [
                    "With norms of q and k: which rates does it tolerate?",
                    "q 和 k 做归一化：能容忍哪些学习率？",
                    {"group": "qk"},
                ],
            ],
        },
        "depth": {
            "title": ["Gradient by depth", "各深度的梯度"],
            "x": {"ticks": [0, 4, 8, 12, 16, 20, 24], "title": ["sublayer", "子层"]},
            "y": {"log": True, "title": ["|dL/dx| / |loss|", "|dL/dx| / |loss|"]},
            "series": stored["depth"]["series"],
            "note": [
                "f: the branch. pre: x + f(norm(x)); post: norm(x + f(x)); inside: x + norm(f(x)); "
                "sandwich: x + norm(f(norm(x))). 0: the stream before the first sublayer; 24: after the last.",
                "f：残差分支。pre：x + f(norm(x))；post：norm(x + f(x))；inside：x + norm(f(x))；"
                "sandwich：x + norm(f(norm(x)))。0：第一个子层之前的残差流；24：最后一个之后。",
            ],
            "trials": [
                [
                    "Constant branches: only post-norm's gradient vanishes.",
                    "常数分支：只有 post-norm 的梯度消失。",
                    {"group": "constant"},
                ],
                ["Attention: which place is the worst?", "注意力：哪个位置最差？", {"group": "attention"}],
                [
                    "The same with norms of q and k: what has changed?",
                    "加上 q 和 k 的归一化：变了什么？",
                    {"group": "attention, QK-norm"},
                ],
            ],
        },
    }


# Functions that the figure of a token's way shows: (file, name) of each key of its boxes.
PLAIN = {
    "layer": ("plain.c", "run_layer"),
    "norm": ("norm.c", "rmsnorm_plain"),
    "attention": ("plain.c", "self_attention"),
    "attend": ("plain.c", "attend_head"),
    "swiglu": ("plain.c", "swiglu"),
    "logits": ("plain.c", "compute_logits"),
}


def function(path, name):
    """The text of a function, with the comment before it."""
    pattern = rf"^(?:/\*(?:(?!\*/)[\s\S])*\*/\n)?\w[^;{{}}]*?\b{name}\([^;]*?\) \{{\n[\s\S]*?^\}}\n"
    return re.search(pattern, (TOP / path).read_text(), re.MULTILINE)[0]


def write_script(path, name, data):
    """A script that enters bytes in window.normaFiles."""
    text = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    path.write_text(f'(window.normaFiles ??= {{}}).{name} = "{text}";\n')


def write_program():
    """norma's builds and the bundled model as q8_0, in scripts, since a page on a disk may not fetch."""
    model = WORK / "stories_q8_0.gguf"
    subprocess.run(
        ["./run", "models/stories.gguf", "-m", "convert", "-q", "q8_0", "-o", model],
        check=True,
        cwd=TOP,
        capture_output=True,
    )
    shutil.copytree(TOP / "web" / "app", BOOK / "app", ignore=shutil.ignore_patterns(".*", "*.html"))
    shutil.copytree(TOP / "web" / "stills", BOOK / "stills")
    shutil.copy(TOP / "web" / "app" / "figure.html", BOOK)
    plain = {key: function(*place) for key, place in PLAIN.items()}
    (BOOK / "app" / "plain.js").write_text(f"window.normaPlain = {json.dumps(plain)};\n")
    (BOOK / "app" / "tables.js").write_text(f"window.normaTables = {json.dumps(tables(), ensure_ascii=False)};\n")
    files = {build: program.page_program(build) for build in program.BUILDS}
    for name, path in {**files, "model": model}.items():
        write_script(BOOK / "app" / f"{name}.js", name, path.read_bytes())


# Words of Furo that its Chinese translation lacks.
CHINESE = {
    "<span>Next</span>": "<span>下一页</span>",
    "<span>Previous</span>": "<span>上一页</span>",
    "<span>Back to top</span>": "<span>回到顶部</span>",
    "On this page": "本页内容",
    '<div class="title">Home</div>': '<div class="title">首页</div>',
}


def columns_of(block):
    """A code block of more columns than a page shows says how many, for book.css."""
    lines = html.unescape(re.sub(r"<[^>]+>", "", block[0])).split("\n")
    columns = max(map(len, lines))
    return block[0].replace('class="', f'style="--columns:{columns}" class="wide ', 1) if columns > 88 else block[0]


def plain_text(page):
    """The words of a page, for the excerpts of the search."""
    article = re.search(r"<article[^>]*>(.*)</article>", page, re.DOTALL)[1]
    article = re.sub(r'<a class="headerlink".*?</a>|<annotation.*?</annotation>', "", article)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", article))).strip()


def finish_pages():
    """Gives every page of the chapters the policy of figure.html, no request to anywhere but the site itself, and the
    Chinese ones the words that Furo leaves in English; writes the text of all pages for the search; removes what no
    page uses."""
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', (BOOK / "figure.html").read_text())[0]
    for language in LANGUAGES:
        texts = {}
        for page in sorted((BOOK / language).glob("*.html")):
            text = page.read_text().replace("<head>", f"<head>{policy}", 1)
            text = PLAIN_SPANS.sub(r"\1", text)
            text = re.sub(r'<div class="highlight-[\s\S]*?</pre>', columns_of, text)
            for english, chinese in CHINESE.items() if language == "zh" else ():
                text = text.replace(english, chinese)
            page.write_text(text)
            if page.stem not in ("search", "genindex"):
                texts[page.stem] = plain_text(text)
        write_script(BOOK / language / "_static" / "texts.js", "texts", json.dumps(texts, ensure_ascii=False).encode())
        for unused in "*.map", "skeleton.css", "debug.css":
            for path in (BOOK / language / "_static").rglob(unused):
                path.unlink()


def build(base):
    """Runs inside the environment of web/requirements.txt."""
    shutil.rmtree(BOOK, ignore_errors=True)
    for name in ("source", "doctrees"):
        shutil.rmtree(WORK / name, ignore_errors=True)
    sites = {language: Site(language, base) for language in LANGUAGES}
    sources = set()
    for language, site in sites.items():
        folder = WORK / "source" / language
        site.write(folder)
        sources |= site.sources
        twins = sites["zh" if language == "en" else "en"].pages
        settings = {
            "twins": sorted(page for page in site.pages if page in twins),
            "zh": language == "zh",
            "english_only": [(name, site.title(name)) for name in DOCUMENTS if not path_of(name, "zh").exists()],
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", TOP / "web",
             "-D", f"language={'zh_CN' if language == 'zh' else 'en'}", "-d", WORK / "doctrees" / language, folder, BOOK / language],
            check=True,
        )  # fmt: skip
        shutil.rmtree(BOOK / language / "_sources", ignore_errors=True)
    write_sources(sorted(sources))
    write_program()
    finish_pages()
    shutil.copy(TOP / "web" / "index.html", BOOK / "index.html")
    print(f"book/index.html: {sum(len(s.pages) for s in sites.values())} pages, {len(sources)} source files")


def main():
    parser = argparse.ArgumentParser(description="Make the site book/.")
    parser.add_argument("--base", default="", help="address of the sources; default: pages of the site")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return build(args.base.rstrip("/"))
    python, wanted = WORK / "env" / "bin" / "python", (TOP / "web" / "requirements.txt").read_text()
    stamp = WORK / "env" / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(WORK / "env", clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", TOP / "web" / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return subprocess.run([python, __file__, "--inside", "--base", args.base], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
