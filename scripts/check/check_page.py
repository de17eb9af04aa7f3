"""Opens the page of --profile=x.html in headless Chromium and checks what the page's script drew: the report's lines
`norms:` and `idle:` or `busy:`, a bar for each row of the CSV file of a second run, sums over sites that agree with the
page's table, a color for each mark, an answer of each chart to the arrow keys, no line wider than a narrow window. Bars
of waiting are not compared: the number of threads may differ between the runs."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from profiles import read

VOID = {"meta", "br"}
# Run in the page: every chart gets a key; the result is the number of charts without an answer, and the excess width.
KEYS = """<script>
const charts = [...document.querySelectorAll(".chart")];
for (const owner of charts)
  for (const key of ["ArrowRight", "ArrowDown", "ArrowRight"])
    owner.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const silent = charts.filter((owner) => !owner.querySelector("output").textContent).length;
document.title = `${charts.length - silent} of ${charts.length}, ${document.documentElement.scrollWidth - document.documentElement.clientWidth}`;
</script>
</body>"""


class Page(HTMLParser):
    """Reads the page. `bars` lists (phase, chart, text) of each bar, `sums` and `rows` are the table's by phase, `text`
    is what a reader sees, `sites` the names that have a mark."""

    def __init__(self):
        super().__init__()
        self.open, self.phase, self.chart, self.cells = [], "", "", []
        self.bars, self.sums, self.rows = [], {}, {"prefill": 0, "decode": 0}
        self.text, self.title, self.sites, self.points = "", "", set(), 0

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        classes = attributes.get("class", "").split()
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.phase = attributes["id"]
        if classes[:1] == ["chart"]:
            self.chart = " ".join(classes[1:])
        if tag == "i" and "data-text" in attributes:
            self.bars.append((self.phase, self.chart, attributes["data-text"]))
        if tag == "use":
            self.sites.add(attributes["href"].removeprefix("#m-"))
            self.points += "data-text" in attributes
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
        if self.open and self.open[-1] == "title":
            self.title += data
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data

    def us(self, phase, chart):
        """The site and the microseconds of each bar of a chart."""
        texts = [text for bar_phase, bar_chart, text in self.bars if (bar_phase, bar_chart) == (phase, chart)]
        return [re.search(r"(\S+): ([0-9.]+) us per token", text).groups() for text in texts]


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")


def check(condition, message):
    if not condition:
        raise ValueError(message)


def check_answer(page, report):
    """The page has the report's answer; the last digit of a number may differ."""
    number = re.compile(r"\d+(?:\.\d+)?")
    text = " ".join(page.text.split())
    for line in re.findall(r"^(?:norms|idle|busy): .*", report, re.MULTILINE):
        pattern = "(" + number.pattern.join(re.escape(part) for part in number.split(line)) + ")"
        found = [
            match
            for match in re.findall(pattern, text)
            if all(abs(float(a) - float(b)) < 0.011 for a, b in zip(number.findall(match), number.findall(line)))
        ]
        check(found, f"not on the page: {line}")


def check_phase(page, phase, rows):
    bars = page.us(phase, "layers")
    sites = sum(1 for site, _ in bars if site != "(wait)")
    expected = sum(1 for row in rows if row["site"] != "(wait)")
    check(expected and sites == expected, f"{phase}: {sites} bars of sites, the CSV file has {expected} rows")
    check(page.rows[phase] == len(bars), f"{phase}: the table has {page.rows[phase]} rows, expected {len(bars)}")
    norms, expected = len(page.us(phase, "norms")), sum(1 for row in rows if row["rms_in"])
    check(norms == expected, f"{phase}: {norms} bars of norms, expected {expected}")
    drawn = page.us(phase, "kinds")
    kinds = dict(drawn)
    twice = sum(1 for site in kinds if site.endswith("norm"))  # in the bar of all norms, too
    check(len(drawn) == len(kinds) + twice > len(kinds), f"{phase}: {len(drawn)} bars of {len(kinds)} kinds of sites")
    check(kinds.keys() == {site for site, _ in bars}, f"{phase}: kinds of sites are {sorted(kinds)}")
    total = page.sums[phase]
    for name, times in ("layers", [us for _, us in bars]), ("kinds of sites", kinds.values()):
        us = sum(map(float, times))
        check(abs(us - total) < 0.001 * len(bars), f"{phase}: {name}: {us} us, the table {total}")
    print(f"{phase}: {len(bars)} bars, {total:.3f} us per token")


def main():
    parser = argparse.ArgumentParser(description="Check the page of a profile in a browser.")
    parser.add_argument("command", nargs="+", help="./run MODEL and options")
    args = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    check(browser, "chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        csv, html = (Path(folder) / name for name in ("x.csv", "x.html"))
        run([*args.command, f"--profile={csv}"])
        report = run([*args.command, f"--profile={html}"]).stderr
        _, rows = read(csv)
        options = "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser", "--dump-dom"
        style = html.read_text()
        html.write_text(style.replace("</body>", KEYS))
        page = Page()
        page.feed(run([browser, *options, "--window-size=500,900", html.as_uri()]).stdout)
    check_answer(page, report)
    check(page.points, "no curves")
    found = re.fullmatch(r"(\d+) of (\d+), (-?\d+)", page.title)
    check(found and found[1] == found[2] and int(found[1]) > 0, f"charts that answer to keys: {page.title}")
    check(int(found[3]) <= 0, f"{found[3]} pixels wider than the window")
    for name in page.sites - {"norms", "others"}:
        check(style.count(f"--{name}: #") == 2, f"{name} has no color for light and dark")
    for phase in ("prefill", "decode"):
        check_phase(page, phase, [row for row in rows if row["phase"] == phase])


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"check_page.py: {error}")
