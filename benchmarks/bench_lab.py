"""The lab against the same two-slider page in marimo, in one headless Chromium: first picture, and slider to picture.

Both servers run and are warm; every visit has an empty browser cache. First picture: from the start of the navigation
until the curve is drawn. Slider to picture: from the key press on the slider until the new curve is drawn, 20 presses.
Both pages compute with the same function; marimo's draws a bare SVG. The lab's page draws three pictures, formulas and
code besides. Run: python -m benchmarks lab
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VISITS, PRESSES = 7, 20
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Where a page writes the number that changes with the picture, and where its slider is.
LAB = ("[data-number=one-error]", "input[name=spread]")
MARIMO = ("#law", "[role=slider] >> nth=0")

# Watches for the picture from inside the page, frame by frame; a frame more, and it is on the screen.
WATCH = """
window.seen = [];
window.find = (root, wanted) => {
  const here = root.querySelector(wanted);
  if (here) return here;
  for (const one of root.querySelectorAll("*")) {
    const inside = one.shadowRoot && window.find(one.shadowRoot, wanted);
    if (inside) return inside;
  }
  return null;
};
(() => {
  let last = null;
  const look = () => {
    const shown = document.body && window.find(document, "WANTED");
    const value = shown && shown.getAttribute("data-value");
    if (value && value !== last) {
      last = value;
      requestAnimationFrame(() => window.seen.push(performance.now()));
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  addEventListener("keydown", () => (window.pressed = performance.now()), true);
})();
"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("left out: there is no Chromium on this machine")
        return
    with lab_server() as lab, marimo_server() as marimo, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium)
        pages = {"lab": (lab + "noise", *LAB), "marimo": (marimo, *MARIMO)}
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pages}
        for visit in range(VISITS + 1):
            for name, page in pages.items():  # in turn, so that both meet the same machine
                first, slides = visited(browser, *page, presses=PRESSES if visit == VISITS else 0)
                if visit:  # the first visit warms the server
                    times[name][0].append(first)
                times[name][1].extend(slides)
        browser.close()
    report(times)


def report(times: dict[str, tuple[list[float], list[float]]]) -> None:
    first = {name: statistics.median(both[0]) for name, both in times.items()}
    slide = {name: statistics.median(both[1]) for name, both in times.items()}
    for name in times:
        both = f"first picture {first[name]:6.0f} ms, slider to picture {slide[name]:6.0f} ms"
        print(f"{name:>7}: {both} (medians of {VISITS} and {PRESSES})")
    print(f"first picture: marimo takes {first['marimo'] / first['lab']:.1f} x as long as the lab")
    print(f"slider to picture: marimo takes {slide['marimo'] / slide['lab']:.1f} x as long as the lab")


def visited(browser: Any, address: str, picture: str, slider: str, *, presses: int) -> tuple[float, list[float]]:
    """Milliseconds to the first picture, and from each press on the slider to its picture."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script(WATCH.replace("WANTED", picture))
    context.route(re.compile("^(?!http://127)"), lambda route: route.abort())  # nobody waits for the outside
    page = context.new_page()
    page.goto(address)  # the lab's carries its token
    first, slides = waited(page, 1), []
    for press in range(presses):
        page.focus(slider)
        before = page.evaluate("window.seen.length")
        page.keyboard.press("ArrowRight" if press % 4 < 2 else "ArrowLeft")
        slides.append(waited(page, before + 1) - page.evaluate("window.pressed"))
    context.close()
    return first, slides


def waited(page: Any, count: int) -> float:
    """When the picture of this count was on the screen, in milliseconds of the page's clock."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        seen: list[float] = page.evaluate("window.seen")
        if len(seen) >= count:
            return seen[count - 1]
        time.sleep(0.01)
    raise RuntimeError("The picture did not come within a minute.")


@contextlib.contextmanager
def lab_server() -> Iterator[str]:
    command = [sys.executable, "-u", "-m", "regard", "lab", "--no-browser", "--port", "0"]
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        yield re.findall(r"http://\S+", line)[0]


@contextlib.contextmanager
def marimo_server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = Path(__file__).parent / "marimo_page.py"
    words = ["run", str(app), "--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port)]
    with running([sys.executable, "-m", "marimo", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        address = f"http://127.0.0.1:{port}/"
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
                break
            time.sleep(0.2)
        yield address


@contextlib.contextmanager
def running(command: list[str], **options: Any) -> Iterator[Any]:
    process = subprocess.Popen(command, env=ENVIRONMENT, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
