"""Opens every page of book/ in headless Chromium, from the disk, and checks what a reader would see: nothing beyond the
window or its column (1,280 and 390 pixels, dark, printed), no error in the console, no request to a network, no link to
a page or an anchor that does not exist, no element that the keyboard cannot reach. Then the language switch, the figures
alone with their settings in the address, a figure without a mouse, and the links of a hosted site.

    build/book/env/bin/python scripts/check/check_book.py        (after `make book`)
"""

import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from itertools import cycle
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import websocket

sys.path.append(str(Path(__file__).resolve().parents[1] / "book"))
import book

TOP = Path(__file__).resolve().parents[2]
BOOK = TOP / "book"
LIMIT = 8 << 20  # bytes of the site
PAGE_LIMIT, PICTURES_LIMIT = 150_000, 225_000  # bytes of a page; with its drawings and the still pictures of its figures
VIEWS = (  # name, width, media, color scheme
    ("wide", 1280, "", "light"),
    ("narrow", 390, "", "light"),
    ("dark", 1280, "", "dark"),
    ("printed", 800, "print", "light"),
)
# Elements that reach beyond the window, unless something around them scrolls; text that its own box cuts off.
OUTSIDE = """
[...document.querySelectorAll("article *, .content *")].filter(e => {
  const box = e.getBoundingClientRect();
  if (box.width === 0 || box.right <= document.documentElement.clientWidth + 1) return false;
  for (let p = e; p; p = p.parentElement)
    if (/auto|scroll/.test(getComputedStyle(p).overflowX) && p !== document.documentElement) return false;
  return true;
}).slice(0, 3).map(e => e.tagName + " " + e.textContent.slice(0, 40))
"""
# What has to be scrolled sideways: formulas; on a wide page tables and programs, too.
SCROLLED = """
[...document.querySelectorAll(innerWidth > 1000 ? "article :is(.table-wrapper, pre, div.math)" : "article div.math")].filter(
  e => e.clientWidth && e.scrollWidth > e.clientWidth + 1 && matchMedia("screen").matches
).slice(0, 3).map(e => e.tagName + " " + e.textContent.trim().slice(0, 40))
"""
# Controls without a tab stop. Those of a toolbar are reached by arrow keys (check_toolbars).
MUTED = """
[...document.querySelectorAll("article a[href], article button, article input")].filter(
  e => e.tabIndex < 0 && !e.closest("[role=toolbar]")).slice(0, 3).map(e => e.outerHTML.slice(0, 80))
"""
EXCERPTS = """
[...document.querySelectorAll("#search-results ul.search > li")].map((e) => e.querySelector(".excerpt mark")?.textContent ?? "")
"""
TOOLBARS = "[...document.querySelectorAll('[role=toolbar]')]"


class Browser:
    def __init__(self, folder):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            sys.exit("check_book.py: chromium is not installed")
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}",
             "--remote-debugging-port=0", "--remote-allow-origins=*", "about:blank"],
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        port = Path(folder) / "DevToolsActivePort"
        for _ in range(300):
            if port.exists() and port.read_text().count("\n"):
                break
            time.sleep(0.1)
        address = f"http://127.0.0.1:{port.read_text().split()[0]}/json/list"
        page = next(p for p in json.load(urllib.request.urlopen(address)) if p["type"] == "page")
        self.socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=60)
        self.number, self.events = 0, []
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.number:
                return answer.get("result", {})
            self.events.append(answer)

    def wait(self, event):
        while not any(e.get("method") == event for e in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def evaluate(self, text):
        result = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise ValueError(result["exceptionDetails"].get("exception", {}).get("description", text))
        return result["result"].get("value")

    def figures(self):
        """Starts the figures that compute and waits for them. Returns those that failed."""
        self.evaluate("for (const e of document.querySelectorAll('[data-figure]')) e.scrollIntoView()")
        for _ in range(600):
            left = self.evaluate(
                "(() => { const e = [...document.querySelectorAll('[data-figure]')].find(e => !e.dataset.ready);"
                " if (e) e.scrollIntoView(); return !!e; })()"
            )
            if not left:
                break
            time.sleep(0.1)
        return self.evaluate(
            "[...document.querySelectorAll('[data-figure]')].filter(e => e.dataset.ready !== 'yes')"
            ".map(e => e.dataset.figure + ': ' + e.textContent.slice(-60))"
        )

    def click(self, expression):
        """With the mouse, in the middle of an element that is in the window."""
        x, y = self.evaluate(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])({expression}.getBoundingClientRect())"
        )
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code, text=""):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def view(self, width, media, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def faults(self):
        """Errors and requests to a network since the page was opened."""
        found = []
        for e in self.events:
            method, params = e.get("method"), e.get("params", {})
            if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(
                ("file:", "data:", "blob:")
            ):
                found.append(f"asks for {params['request']['url']}")
            if method == "Runtime.exceptionThrown":
                found.append(f"throws {params['exceptionDetails']['text']}")
            if method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"error: {params['entry']['text']} {params['entry'].get('url', '')}")
            if method == "Runtime.consoleAPICalled" and params["type"] == "error":
                found.append(f"console: {params['args']}")
        return found


def weight(path, text):
    """Bytes of a page and of its pictures. The theme's files and the figures' scripts, which pages share, are not counted."""
    pictures = set(re.findall(r'<img [^>]*src="([^"]+)"', text))
    return len(text.encode()) + sum((path.parent / picture).stat().st_size for picture in pictures)


def dead_links(pages):
    """Links of the site whose page or anchor does not exist."""
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    for page, text in pages.items():
        for target in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text):
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.exists():
                yield f"{page.relative_to(BOOK)}: no page {target}"
            elif anchor and to in anchors and anchor not in anchors[to]:
                yield f"{page.relative_to(BOOK)}: no anchor {target}"


def check_switch(browser):
    """The switch leads to the same statement; for a page in English only it is no link and says so."""
    browser.view(1200, "", "light")
    for language, other in ("en", "zh"), ("zh", "en"):
        browser.open((BOOK / language / "norms_depth-2.html").as_uri())
        browser.evaluate("[...document.querySelectorAll('a.statement')].at(-3).scrollIntoView({behavior: 'instant'})")
        wanted = browser.evaluate("place()")
        browser.events.clear()
        browser.click("document.querySelector('.language a')")
        browser.wait("Page.loadEventFired")
        where = browser.evaluate("location.href")
        shown = f"document.getElementById({json.dumps(wanted)})?.getBoundingClientRect().top ?? -1"
        top = -1
        for _ in range(100):  # it scrolls smoothly, and figures above the statement grow
            was, top = top, browser.evaluate(shown)
            building = browser.evaluate(
                "[...document.querySelectorAll('[data-figure]')].some(e => e.childElementCount && !e.dataset.ready)"
            )
            if 0 <= top < 450 and top == was and not building:
                break
            time.sleep(0.2)
        if not where.endswith(f"/{other}/norms_depth-2.html#{wanted}") or not 0 <= top < 450:
            yield f"the switch from {language} at {wanted} leads to {where}, {top} pixels"
    browser.open((BOOK / "en" / "architecture.html").as_uri())
    text, plain, title = browser.evaluate(
        "(e => [e.textContent, !e.querySelector('a'), e.querySelector('span')?.title])(document.querySelector('.language'))"
    )
    if "中文：无" not in text or not plain or "English only" not in title:
        yield f"the switch of architecture.html says {text} {title}"
    browser.open((BOOK / "zh" / "index.html").as_uri())
    if not browser.evaluate("!!document.querySelector('a[href$=\\'en/architecture.html\\'][lang=en]')"):
        yield "the Chinese pages do not name architecture.html"


def check_toolbars(browser):
    """Keys reach every control of a toolbar: one has a tab stop, arrow keys move from it to each of the others."""
    for i in range(browser.evaluate(f"{TOOLBARS}.length")):
        bar = f"{TOOLBARS}[{i}]"
        controls = f"[...{bar}.querySelectorAll('a[href], button, input')]"
        count = browser.evaluate(f"{controls}.length")
        stops = browser.evaluate(f"{controls}.filter((e) => e.tabIndex === 0).length")
        if stops != 1:
            yield f"a toolbar of {count} controls has {stops} tab stops"
            continue
        browser.evaluate(f"{controls}.find((e) => e.tabIndex === 0).focus()")
        browser.press("Home", 36)
        seen = []
        for _ in range(count):
            seen.append(browser.evaluate(f"{controls}.indexOf(document.activeElement)"))
            browser.press("ArrowRight", 39)
        if seen != list(range(count)):
            yield f"arrow keys reach {len({*seen} - {-1})} of {count} controls of a toolbar"


FIRST = "document.querySelector('[data-figure=explorer]')"


def check_first_screen(browser):
    """On a phone (390 x 844 pixels) the whole picture is seen without scrolling, before and after its large button."""
    for language in book.LANGUAGES:
        browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        browser.open((BOOK / language / "index.html").as_uri())
        browser.figures()
        for button in "", "none", "layer":
            if button:
                browser.evaluate(f"delete {FIRST}.dataset.told; {FIRST}.querySelector('[data-kind={button}]').click()")
            for _ in range(300):
                if browser.evaluate(f"!!{FIRST}.dataset.told"):
                    break
                time.sleep(0.1)
            bottom, scrolled = browser.evaluate(
                f"[{FIRST}.getBoundingClientRect().bottom + scrollY, [...{FIRST}.querySelectorAll('*')].filter("
                "e => /auto|scroll/.test(getComputedStyle(e).overflowY) && e.scrollHeight > e.clientHeight + 1).length]"
            )
            if bottom > 844 or scrolled:
                yield f"{language}: the first screen ends at {bottom} of 844 pixels, {scrolled} parts scroll ({button or 'own'})"


ALONE = {  # settings of each figure that are not its defaults
    "explorer": {"kind": "none", "layer": "2", "seed": "3", "prompt": "Tom"},
    "space": {"x": "1 0.5 2", "shift": "0.5", "scale": "1.2", "gamma": "1", "turn": "60"},
    "playground": {"attn": "rms", "mlp": "dyt:1", "final": "layer", "eps": "-3", "seed": "7", "prompt": "Tom"},
    "token": {"layer": "2", "box": "4", "text": "Tom had a red ball"},
    "eps": {"eps": "-2"},
    "backward": {"kind": "1", "x": "1 -2 3", "dy": "0 1 0"},
    "massive": {"site": "0.attn", "rotate": "1"},
    "axes": {"axis": "batch", "padding": "2", "side": "before", "chosen": "2.1.3"},
    "gradients": {"of": "weights", "gain": "2", "embedding": "0.5"},
    "depth": {"group": "MLP"},
    "rates": {"group": "post"},
}


WITHOUT_FIELD = {("token", "box"), ("axes", "chosen"), ("space", "x"), ("space", "turn"), *(("explorer", key) for key in ("kind", "layer", "seed"))}  # buttons set these


def check_alone(browser):
    """Each figure by its address: its controls and its link have the settings of the address."""
    for (name, settings), language in zip(ALONE.items(), cycle(("en", "zh"))):
        query = urlencode({"figure": name, "lang": language, **settings})
        browser.open((BOOK / "figure.html").as_uri() + "?" + query)
        failed = browser.figures()
        link = browser.evaluate("document.querySelector('.alone a')?.href ?? ''")
        shown = browser.evaluate("[...document.querySelectorAll('.controls :is(input, select)')].map(e => e.value)")
        wanted = [v for k, v in settings.items() if (name, k) not in WITHOUT_FIELD]
        if failed or parse_qs(urlsplit(link).query) != parse_qs(query) or shown != wanted:
            yield f"{name} alone, {language}: {failed} {link} {shown}"
        yield from (f"{name} alone, {language}: {fault}" for fault in browser.faults())


def check_keys(browser):
    """A figure without a mouse: Tab comes to every control in order, keys set them, and the figure follows."""
    browser.open((BOOK / "figure.html").as_uri() + "?figure=backward")
    browser.figures()
    text = "document.querySelector('.rows').textContent"
    all_controls = "[...document.querySelectorAll('select, input, button, a')]"
    seen, before = [], browser.evaluate(text)
    for _ in range(browser.evaluate(all_controls + ".length")):
        browser.press("Tab", 9)
        seen.append(browser.evaluate(all_controls + ".indexOf(document.activeElement)"))
    if seen != sorted(range(len(seen))):
        yield f"Tab comes to the controls {seen}"
    browser.evaluate("document.querySelector('select').focus()")
    browser.press("ArrowDown", 40)
    layer = browser.evaluate(text)
    for _ in range(4):
        browser.press("Tab", 9)
    browser.press("Enter", 13, "\r")  # the second thing to try
    if len({before, layer, browser.evaluate(text)}) != 3:
        yield "keys do not change the figure"


# Ways in which a page can reach a server; each asks for a path of its own name.
CONNECTS = """
(async () => {
  const wait = (make) => new Promise((done) => {
    const e = make();
    for (const event of ["load", "error", "open"]) e.addEventListener(event, done);
    setTimeout(done, 2000);
    if (e instanceof Element) document.body.append(e);
  });
  const element = (tag, key, path) => wait(() => Object.assign(document.createElement(tag), {[key]: "URL/" + path}));
  const attempts = [
    () => fetch("URL/fetch", {mode: "no-cors"}),
    () => { const r = new XMLHttpRequest(); r.open("GET", "URL/XMLHttpRequest", false); r.send(); },
    () => navigator.sendBeacon("URL/beacon", "text"),
    () => wait(() => new EventSource("URL/events")),
    () => wait(() => new WebSocket("URL/socket".replace("http", "ws"))),
    () => element("img", "src", "image"),
    () => element("script", "src", "script"),
    () => element("iframe", "src", "frame"),
    () => wait(() => Object.assign(document.createElement("link"), {rel: "stylesheet", href: "URL/style"})),
    () => wait(() => new Worker(URL.createObjectURL(new Blob(["fetch('URL/worker', {mode: 'no-cors'})"])))),
    () => {
      const target = Object.assign(document.createElement("iframe"), {name: "target"});
      const form = Object.assign(document.createElement("form"), {action: "URL/form", target: "target"});
      document.body.append(target, form);
      form.submit();
    },
  ];
  await Promise.all(attempts.map(async (attempt) => { try { await attempt(); } catch {} }));
  await new Promise((done) => setTimeout(done, 500));
})()
"""
WAYS = {"fetch", "XMLHttpRequest", "beacon", "events", "socket", "image", "script", "frame", "style", "worker", "form"}


def check_policy(browser):
    """Nothing that a page does itself reaches a server on this machine; a copy of the page without the policy reaches it
    in each of these ways."""
    heard = set()

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            heard.add(self.path.strip("/?"))
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def reached(page):
        heard.clear()
        browser.open(page.as_uri())
        browser.evaluate(CONNECTS.replace("URL/", f"http://127.0.0.1:{server.server_port}/"))
        return set(heard)

    for name in "en/index.html", "zh/norms.html", "figure.html":
        page = BOOK / name
        if found := reached(page):
            yield f"{name} reaches a server: {sorted(found)}"
        without = page.with_name(f"without_policy_{page.name}")
        text, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
        without.write_text(text)
        try:
            found = reached(without)
        finally:
            without.unlink()
        if count != 1 or found != WAYS:
            yield f"{name}: the check of the policy cannot fail: without it nothing reaches a server by {sorted(WAYS - found)}"
    server.shutdown()


def check_base():
    """Links to sources of a site that is hosted: each is under the address and names a file and a line that exist."""
    base, count = "https://example.org/norma/blob/main", 0
    for language in book.LANGUAGES:
        site = book.Site(language, base)
        for page in site.pages:
            text = site.markdown(page)
            if "../code/" in text or site.sources:
                yield f"{language}/{page}: a link to a page of the site instead of {base}"
            for path, line in re.findall(rf'{re.escape(base)}/([^"#)\s]+)(?:#L(\d+))?', text):
                count += 1
                to = TOP / path
                if not to.exists() or (line and int(line) > to.read_text().count("\n")):
                    yield f"{language}/{page}: no {path} {line}"
    if count < 150:
        yield f"only {count} links to sources"


def main():
    pages = {path: path.read_text() for path in sorted(BOOK.rglob("*.html"))}
    found = list(dead_links(pages))
    size = sum(path.stat().st_size for path in BOOK.rglob("*") if path.is_file())
    if size > LIMIT:
        found.append(f"the site has {size} bytes, at most {LIMIT}")
    shown = [path for path in pages if path.parent.parent == BOOK]
    weights = {path: weight(path, pages[path]) for path in shown}
    for path in shown:
        bytes_of_page = len(pages[path].encode())
        if bytes_of_page > PAGE_LIMIT or weights[path] > PICTURES_LIMIT:
            found.append(
                f"{path.relative_to(BOOK)} has {bytes_of_page} bytes, at most {PAGE_LIMIT}; "
                f"with its pictures {weights[path]}, at most {PICTURES_LIMIT}"
            )
    found += [
        f"{path.relative_to(BOOK)}: Markdown that is shown as it is: {match[0]}"
        for path in shown
        if (match := re.search(r"```|\{figure\}|<p>:(?:name|alt):", pages[path]))
    ]
    found += [
        f"{path.relative_to(BOOK)}: no still picture of {name}"
        for path in shown
        for name in re.findall(r'data-figure="(\w+)"></div>', pages[path])
        if f"/norms_{name}." not in pages[path]
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        for path in shown:
            browser.view(*VIEWS[0][1:])
            browser.open(path.as_uri())
            found += [f"{path.relative_to(BOOK)}: figure {fault}" for fault in browser.figures()]
            for name, *view in VIEWS:
                browser.view(*view)
                for fault in browser.evaluate(OUTSIDE):
                    found.append(f"{path.relative_to(BOOK)}, {name}: outside: {fault}")
                for fault in browser.evaluate(SCROLLED):
                    found.append(f"{path.relative_to(BOOK)}, {name}: to be scrolled sideways: {fault}")
            faults = [f"no key reaches {m}" for m in browser.evaluate(MUTED)]
            faults += [*check_toolbars(browser), *browser.faults()]
            found += [f"{path.relative_to(BOOK)}: {fault}" for fault in faults]
        found += [*check_first_screen(browser), *check_switch(browser), *check_alone(browser), *check_keys(browser), *check_policy(browser), *check_base()]
        for language, word in ("en", "eps"), ("zh", "归一化"):
            browser.open((BOOK / language / "search.html").as_uri() + f"?q={word}")
            marks = []
            for _ in range(100):
                marks = browser.evaluate(EXCERPTS)
                if marks and all(marks):
                    break
                time.sleep(0.1)
            if not marks or {mark.lower() for mark in marks} != {word}:
                found.append(f"{language}: the search for {word} has results with the excerpts' words {marks}")
        browser.process.kill()
        browser.process.wait()
    for fault in found:
        print(fault)
    longest, heaviest = max(shown, key=lambda path: len(pages[path].encode())), max(weights, key=weights.get)
    print(f"{longest.relative_to(BOOK)} has {len(pages[longest].encode())} bytes, no page more; ", end="")
    print(f"with its pictures {heaviest.relative_to(BOOK)} has {weights[heaviest]}")
    print(f"{len(shown)} pages in {len(VIEWS)} views, {size / (1 << 20):.1f} MB, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
