"""Makes book/index.html: the chapters of docs/ in English and Chinese as one page that loads nothing.

    python3 scripts/book.py        `make book`

Owns the page: its order, its style, and the list of tests at its end, with file and line, to which the statements link.
Python-Markdown converts the chapters; figures are embedded unchanged.
"""

import base64
import html
import re
import sys
from pathlib import Path

import markdown

TOP = Path(__file__).resolve().parent.parent
DOCS = TOP / "docs"
CHAPTERS = "norms", "norms_appendix", "experiment", "batching", "profile", "distributed"
STYLE = """
:root { --text: #1c1c1c; --background: #fdfdfb; --line: #d8d8d2; --link: #1f6fb4; --code: #f2f2ec; }
@media (prefers-color-scheme: dark) {
  :root { --text: #dcdcd6; --background: #191a1c; --line: #3a3b3e; --link: #7fb8ee; --code: #242528; }
  img { filter: invert(0.9) hue-rotate(180deg); }
}
body { max-width: 46rem; margin: 0 auto; padding: 1rem; color: var(--text); background: var(--background);
  font: 1.05rem/1.55 Georgia, "Noto Serif CJK SC", "Songti SC", serif; }
h1 { margin-top: 4rem; } h1, h2, h3, nav { font-family: system-ui, sans-serif; line-height: 1.25; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
pre, table { display: block; overflow-x: auto; font-size: 0.85rem; }
pre { padding: 0.7rem; background: var(--code); } code { background: var(--code); overflow-wrap: anywhere; }
table { border-collapse: collapse; } th, td { padding: 0.2rem 0.6rem; border: 1px solid var(--line); text-align: left; }
img { max-width: 100%; height: auto; }
@media print { nav { display: none; } h1 { break-before: page; } }
"""


def tests():
    """Returns {name: (path, line, code)} for all test functions."""
    found = {}
    for path in sorted((TOP / "tests").rglob("*.c")):
        text = path.read_text()
        for m in re.finditer(r"^static void (\w+)\(void\) \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, m.start()) + 1
            found.setdefault(m[1], (path.relative_to(TOP), line, m[0]))
    return found


def figure(match):
    """An image as a data: URL."""
    data = base64.b64encode((DOCS / match[1]).read_bytes()).decode()
    return f'src="data:image/svg+xml;base64,{data}"'


def chapter(path, known, used):
    """A chapter's HTML; adds the tests that it names to `used`."""
    body = markdown.markdown(path.read_text(), extensions=["tables", "fenced_code", "sane_lists"])

    def test_link(match):
        if match[1] not in known:
            return match[0]
        used.add(match[1])
        return f'<a href="#test-{match[1]}"><code>{match[1]}</code></a>'

    body = re.sub(r"<code>(\w+)</code>", test_link, body)
    body = re.sub(r'src="([\w.]+\.svg)"', figure, body)
    body = re.sub(r'href="(\w+(?:\.zh)?)\.md(?:#[^"]*)?"', lambda m: page_link(m[1]), body)
    name = path.name.removesuffix(".md")
    body = re.sub(r"<p><strong>(\d+)\.</strong>", rf'<p id="{name}-\1"><strong>\1.</strong>', body)
    return f'<article id="{name}">\n{body}\n</article>'


def page_link(name):
    """A link to a chapter of this page, or to another document."""
    inside = name.removesuffix(".zh") in CHAPTERS
    return f'href="#{name}"' if inside else f'href="../docs/{name}.md"'


def main():
    known, used = tests(), set()
    english = [chapter(DOCS / f"{name}.md", known, used) for name in CHAPTERS]
    chinese = [chapter(DOCS / f"{name}.zh.md", known, used) for name in CHAPTERS]
    titles = [re.search(r"<h1>(.*?)</h1>", body)[1] for body in english + chinese]
    names = [*CHAPTERS, *(f"{name}.zh" for name in CHAPTERS)]
    links = "".join(f'<li><a href="#{n}">{t}</a></li>' for n, t in zip(names, titles, strict=True))
    sources = "".join(
        f'<h3 id="test-{name}">{known[name][0]}:{known[name][1]}</h3><pre>{html.escape(known[name][2])}</pre>\n'
        for name in sorted(used)
    )
    book = TOP / "book"
    book.mkdir(exist_ok=True)
    (book / "index.html").write_text(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>norma</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><nav><ul>{links}</ul></nav>\n"
        + "\n".join(english)
        + '\n<div lang="zh">'
        + "\n".join(chinese)
        + f"</div>\n<h1>The tests</h1>\n{sources}</body></html>\n"
    )
    print(f"book/index.html: {len(names)} chapters, {len(used)} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
