"""Sphinx's settings for the site; scripts/book/book.py runs it, once for each language."""

import json
import logging
from pathlib import Path

import jieba
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.search.zh import SearchChinese

jieba.setLogLevel(logging.WARNING)
# Sphinx names the script's class after the language, but it writes the English script.
SearchChinese.language_name = "English"

project = "norma"
author = "the authors of norma"
html_title = "norma"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_links_external_new_tab = False
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
templates_path = ["templates"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_search_summary = False  # it would fetch pages, which a browser forbids on a disk
html_last_updated_fmt = None
pygments_style = "tango"
pygments_dark_style = "monokai"
suppress_warnings = ["misc.highlighting_failure", "myst.header", "toc.not_included"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "english.html",
        "sidebar/scroll-end.html",
    ]
}


html_math_renderer = "mathml"


def read_settings(app, config):
    config.html_context = json.loads((Path(app.srcdir) / "settings.json").read_text())


def write_math(display):
    """A visitor that writes a formula as MathML, which every browser shows without a script."""

    def visit(self, node):
        # English, because Chinese fonts have no mathematics; a root's sign and bar are drawn by book.css, because
        # without a font of mathematics a browser takes them from two places.
        formula = convert(node.astext(), display=display).replace("<math ", '<math lang="en" ', 1)
        formula = formula.replace("<msqrt>", '<mrow class="root" intent="square-root">').replace("</msqrt>", "</mrow>")
        self.body.append(f'<div class="math">{formula}</div>' if display == "block" else formula)
        raise nodes.SkipNode

    return visit


def setup(app):
    app.connect("config-inited", read_settings, priority=1)
    app.add_html_math_renderer("mathml", (write_math("inline"), None), (write_math("block"), None))
