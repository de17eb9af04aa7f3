"""Makes web/stills, a picture of each figure in each language, which a page shows where there is no script (after `make
book`; needs Chromium).

    build/book/env/bin/python scripts/book/stills.py [FIGURE ...]
"""

import base64
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "scripts" / "check"))
from check_book import BOOK, Browser, book

STYLE = """
const style = document.createElement("style");
style.textContent = `
  .trials, .alone, details, .controls { display: none !important; }
  [data-figure] { border: 0 !important; margin: 0 !important; }
  [data-figure=explorer] .controls:first-of-type { display: flex !important; }
  [data-figure=explorer] .story { height: auto; }
  [data-figure=playground] .story { height: 7.5em; overflow: hidden; }`;
document.head.append(style);
"""
BOX = "(b => [b.x, b.y, b.width, b.height])(document.querySelector('[data-figure]').getBoundingClientRect())"
TOLD = "(d => d.figure !== 'explorer' || !!d.told)(document.querySelector('[data-figure]').dataset)"


def take(browser, name, language):
    """The bytes of a WebP picture of a figure with its defaults, 720 pixels wide."""
    browser.view(720, "", "light")
    browser.open((BOOK / "figure.html").as_uri() + f"?figure={name}&lang={language}")
    failed = browser.figures()
    while not browser.evaluate(TOLD):
        time.sleep(0.1)
    browser.evaluate(STYLE)
    time.sleep(0.3)
    if failed:
        sys.exit(f"stills.py: {failed}")
    x, y, width, height = (round(v) for v in browser.evaluate(BOX))
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    picture = browser.call("Page.captureScreenshot", format="webp", quality=25, clip=clip, captureBeyondViewport=True)
    return base64.b64decode(picture["data"])


def main():
    folder = TOP / "web" / "stills"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        browser = Browser(temporary)
        for name in sys.argv[1:] or book.STILLS:
            for language in book.LANGUAGES:
                path = folder / f"{name}.{language}.webp"
                path.write_bytes(take(browser, name, language))
                print(f"{path.relative_to(TOP)}: {path.stat().st_size} bytes")
        browser.process.kill()
        browser.process.wait()


if __name__ == "__main__":
    main()
