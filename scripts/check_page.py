"""Opens the page of --profile=x.html in headless Chromium and checks what the page's script drew: a bar for each row of
the CSV file of a second run, bars that add up to the sum in the page's table, a color for each curve. Bars of waiting
are not compared: the number of threads may differ between the runs."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from profiles import read

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Reads the page: `bars` and `norms` are (phase, microseconds, whether it is waiting), `sums` and `rows` are the
    table's by phase, `curves` the classes of points."""

    def __init__(self):
        super().__init__()
        self.open, self.phase, self.panel, self.cells = [], "", "", []
        self.bars, self.norms, self.sums, self.rows = [], [], {}, {"prefill": 0, "decode": 0}
        self.curves = set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.phase = attributes["id"]
        if attributes.get("class") in ("sites", "norms"):
            self.panel = attributes["class"]
        if tag == "circle":
            self.curves.add(attributes["class"])
        if tag == "h2":
            self.panel = ""
        if tag == "tr":
            self.cells = []

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass
        if tag == "tr" and len(self.cells) > 1:
            self.rows[self.phase] += 1
            if "all" in self.cells:
                self.rows[self.phase] -= 1
                self.sums[self.phase] = float(self.cells[-1])

    def handle_data(self, data):
        if self.open and self.open[-1] == "td" and data.strip():
            self.cells.append(data.strip())
        if self.open[-2:] == ["rect", "title"] and self.panel:
            us = float(re.search(r": ([0-9.]+) us a token", data)[1])
            (self.bars if self.panel == "sites" else self.norms).append((self.phase, us, "(wait)" in data))


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(condition, message):
    if not condition:
        raise ValueError(message)


def main():
    parser = argparse.ArgumentParser(description="Check the page of a profile in a browser.")
    parser.add_argument("command", nargs="+", help="./run MODEL and options")
    args = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    check(browser, "chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        csv, html = (Path(folder) / name for name in ("x.csv", "x.html"))
        for file in (csv, html):
            run([*args.command, f"--profile={file}"])
        _, rows = read(csv)
        options = "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser", "--dump-dom"
        page = Page()
        page.feed(run([browser, *options, html.as_uri()]))
        style = html.read_text()
    for name in page.curves:
        check(style.count(f"--{name}: #") == 2, f"{name} has no color for light and dark")
    check(page.curves, "no curves")
    for phase in ("prefill", "decode"):
        own = [row for row in rows if row["phase"] == phase]
        bars = [us for name, us, _ in page.bars if name == phase]
        norms = [us for name, us, _ in page.norms if name == phase]
        sites = sum(1 for name, _, waits in page.bars if name == phase and not waits)
        expected = sum(1 for row in own if row["site"] != "(wait)")
        check(expected and sites == expected, f"{phase}: {sites} bars of sites, the CSV file has {expected} rows")
        check(page.rows[phase] == len(bars), f"{phase}: the table has {page.rows[phase]} rows, expected {len(bars)}")
        expected = sum(1 for row in own if row["rms_in"])
        check(len(norms) == expected, f"{phase}: {len(norms)} bars of norms, expected {expected}")
        total = page.sums[phase]
        check(abs(sum(bars) - total) < 0.001 * len(bars), f"{phase}: bars add up to {sum(bars)}, the table to {total}")
        print(f"{phase}: {len(bars)} bars, {total:.3f} us a token")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"check_page.py: {error}")
