"""The lab against the same two-slider page in marimo, in one headless Chromium: first picture, and slider to picture.

Both servers run and are warm; every visit has an empty browser cache. First picture: from the start of the navigation
until the curve is drawn. Slider to picture: from the key press on the slider until the new curve is drawn. Both pages
compute with the same function; marimo's draws a bare SVG. The lab's page draws three pictures, formulas and code
besides. Then what only the lab has: its first page, and a sentence's translation in a lab that has just been started
(the page is opened the moment that the address is printed) and in one that had time to warm up.

A peer that is not installed or shows nothing is reported as such, and the lab is measured all the same.
Run: python -m benchmarks lab
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
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VISITS, PRESSES, STARTS = 7, 40, 3
LONGEST = 30.0  # seconds that a picture may take
SETTLED = 10.0  # seconds after which a lab that was left alone has asked all its pages
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A page that is measured: where it is, where it writes what changes with the picture, and where its slider is."""

    name: str
    address: str
    picture: str
    slider: str
    firsts: list[float] = field(default_factory=list)
    slides: list[float] = field(default_factory=list)


class NoPictureError(Exception):
    """A page that shows nothing."""


# Watches for the picture from inside the page: what changes is noticed at the beginning of the frame that will show it,
# and a message that the page sends to itself then arrives when that frame has been drawn. What is watched is an
# attribute with every digit of a number, or the words themselves.
WATCH = """
(() => {
  const seen = [], hopes = [];
  const within = (root) => {
    const here = root.querySelector("WANTED");
    if (here) return here;
    for (const one of root.querySelectorAll("*")) {
      const inside = one.shadowRoot && within(one.shadowRoot);
      if (inside) return inside;
    }
    return null;
  };
  let last = null, pressed = 0;
  const look = () => {
    const shown = document.body && within(document);
    const value = shown && (shown.getAttribute("data-value") ?? shown.textContent);
    if (value && value !== last) {
      last = value;
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        seen.push(performance.now());
        for (const hope of hopes.splice(0)) hope();
      };
      port2.postMessage("");
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  addEventListener("keydown", () => (pressed = performance.now()), true);
  window.regardWatch = {
    count: () => seen.length,
    // when the picture of this count was on the screen, and the last key press; nothing where it did not come
    async reached(count, longest) {
      const end = performance.now() + longest;
      while (seen.length < count && performance.now() < end) {
        await new Promise((hope) => (hopes.push(hope), setTimeout(hope, end - performance.now())));
      }
      return seen.length < count ? null : [seen[count - 1], pressed];
    },
  };
})();
"""


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None or find_spec("playwright") is None:
        print("left out: there is no Chromium on this machine, or no Playwright to drive it")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Nobody waits for the outside: no name is looked up. (Playwright's routes would delay every request instead.)
        rules = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
        browser = driver.chromium.launch(executable_path=chromium, args=[rules])
        with lab_server() as opening:
            time.sleep(SETTLED)
            noise = lab_page(opening, "noise", "[data-number=one-error]", "input[name=spread]")
            copy = lab_page(opening, "copy", "[data-number=shortest-norm]", "input[name=eps]")
            measure(browser, noise, copy)
        first_translations(browser)
        browser.close()


def measure(browser: Any, noise: Subject, copy: Subject) -> None:
    """The pages in turn, so that all meet the same machine, and what came of it."""
    with contextlib.ExitStack() as stack:
        subjects, missing = [noise, copy], "marimo is not installed"
        if find_spec("marimo") is not None:
            address = stack.enter_context(marimo_server())
            subjects.append(Subject(name="marimo", address=address, picture="#law", slider="[role=slider] >> nth=0"))
        for subject in list(subjects):  # warms the server
            if said := failure(browser, subject):
                if subject is not subjects[-1] or len(subjects) == 2:
                    raise SystemExit(said)
                missing = said
                subjects.remove(subject)
        for subject in subjects * VISITS:
            if said := failure(browser, subject, presses=PRESSES // VISITS + 1, kept=True):
                print(f"of one visit: {said}")
    report([subject for subject in subjects if subject.firsts])
    if len(subjects) == 2:
        print(f"{missing}: nothing to compare with")


def failure(browser: Any, subject: Subject, *, presses: int = 0, kept: bool = False) -> str:
    """Visit a page, keep its times, and say what went wrong; nothing where all went well."""
    from playwright.sync_api import Error

    try:
        first, slides = visited(browser, subject, presses=presses)
    except (NoPictureError, Error) as error:
        return f"{subject.name} failed ({str(error).splitlines()[0]})"
    if kept:
        subject.firsts.append(first)
        subject.slides.extend(slides)
    return ""


def report(subjects: list[Subject]) -> None:
    first = {one.name: statistics.median(one.firsts) for one in subjects}
    slide = {one.name: statistics.median(one.slides) for one in subjects}
    for one in subjects:
        both = f"first picture {first[one.name]:6.0f} ms, slider to picture {slide[one.name]:6.0f} ms"
        print(f"{one.name:>11}: {both} (medians of {len(one.firsts)} and {len(one.slides)}; ", end="")
        print(f"best {min(one.firsts):.0f} and {min(one.slides):.0f})")
    if "marimo" in first:
        print(f"first picture: marimo takes {first['marimo'] / first['lab, noise']:.1f} x as long as the lab")
        print(f"slider to picture: marimo takes {slide['marimo'] / slide['lab, noise']:.1f} x as long as the lab")


def first_translations(browser: Any) -> None:
    """From the opening of the translator's page until a translation stands there, in labs that were just started."""
    if find_spec("torch") is None:
        print("first translation: left out, torch is not installed")
        return
    for said, pause in ((", the page opened with the address", 0.0), (f", {SETTLED:g} s later", SETTLED)):
        times = []
        for _ in range(STARTS):
            with lab_server() as opening:
                time.sleep(pause)
                page = lab_page(opening, "translator", "#translation", "")
                times.append(visited(browser, page, presses=0)[0])
        median = statistics.median(times)
        print(f"first translation{said}: {median:.0f} ms (median of {STARTS}; best {min(times):.0f})")


def visited(browser: Any, subject: Subject, *, presses: int) -> tuple[float, list[float]]:
    """Milliseconds to the first picture, and from each press on the slider to its picture."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        context.add_init_script(WATCH.replace("WANTED", subject.picture))
        page = context.new_page()
        page.goto(subject.address)
        first, slides = reached(page, 1)[0], []
        for press in range(presses):
            page.focus(subject.slider)
            before = page.evaluate("regardWatch.count()")
            page.keyboard.press("ArrowRight" if press % 4 < 2 else "ArrowLeft")
            drawn, pressed = reached(page, before + 1)
            slides.append(drawn - pressed)
        return first, slides
    finally:
        context.close()


def reached(page: Any, count: int) -> tuple[float, float]:
    """When the picture of this count was on the screen, and the last key press, in milliseconds of the page's clock."""
    times = page.evaluate(f"regardWatch.reached({count}, {1000 * LONGEST})")
    if times is None:
        raise NoPictureError(f"no picture within {LONGEST:g} seconds")
    return tuple(times)  # type: ignore[return-value]


def lab_page(opening: str, name: str, picture: str, slider: str) -> Subject:
    """A page of the lab, by the address that lets a browser in: its token stays where it is."""
    address = opening.replace("/?", f"/{name}?", 1)
    return Subject(name=f"lab, {name}", address=address, picture=picture, slider=slider)


@contextlib.contextmanager
def lab_server() -> Iterator[str]:
    command = [sys.executable, "-u", "-m", "regard", "lab", "--no-browser", "--port", "0"]
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        yield re.findall(r"http://\S+", process.stdout.readline())[0]


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
