"""A lab, a real browser, and what its tests do with them; where there is no Chromium the tests are skipped."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading

import pytest

from processes import PATIENCE
from regard.lab.server import Lab


@pytest.fixture(scope="module")
def lab():
    """A running lab on a free port."""
    pytest.importorskip("uplot", reason="the lab is not installed: pip install 'regard[lab]'")
    with Lab(port=0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, timeout=PATIENCE * 1000)
        yield running
        running.close()


@pytest.fixture
def tab(lab, browser):
    """A fresh page that keeps a list of what it asked for and of what went wrong; both are checked at the end."""
    allowed = ["clipboard-read", "clipboard-write"]
    context = browser.new_context(viewport={"width": 1280, "height": 800}, permissions=allowed)
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.goto(lab.opening_address)  # the token, once; the cookie stays with the context
    assert "token" not in page.url
    page.asked, page.wrong = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on(
        "console", lambda message: page.wrong.append(message.text) if message.type in ("error", "warning") else None
    )
    yield page
    context.close()
    assert page.asked
    assert all(url.startswith(lab.address) for url in page.asked), page.asked
    assert not page.wrong, page.wrong


def settled(tab):
    """Wait until the last question is answered and drawn."""
    tab.wait_for_selector("body[data-busy=no]:not([data-running=yes])")


def opened(tab, lab, address):
    """Go to a page of the lab and wait for its picture."""
    tab.goto(lab.address + address)
    settled(tab)


def number(tab, name):
    """A number beside the picture, with every digit."""
    return float(tab.get_attribute(f"[data-number={name}]", "data-value"))


def dragged(tab, selector, right, down):
    """Drag a point by so many pixels, in steps, as a hand does."""
    box = tab.locator(selector).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + right / 2, y + down / 2, steps=3)
    tab.mouse.move(x + right, y + down, steps=3)
    tab.mouse.up()
    settled(tab)


def weights(tab, what="weight"):
    return [float(cell.get_attribute("data-value")) for cell in tab.locator(f"[data-{what}]").all()]


def slid(tab, name, word):
    """Move a slider to a value, as the browser does for mouse and keyboard."""
    tab.locator(f"input[name={name}]").fill(word)
    settled(tab)


def lines(tab, language):
    """The lines that the page says reproduce it, through the copy button and the clipboard."""
    tab.click(f"#tab-{language}")
    tab.click("#copy-lines")
    tab.wait_for_selector("#copy-lines:text('Copied')")
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied == tab.text_content(f"#lines-{language}")
    return copied


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run_python(code):
    """What the Python lines print."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_shell(command):
    """What a command line prints; `regard` and `python` are this environment's. "No" is an answer too."""
    program, *words = shlex.split(command)
    start = {"regard": [sys.executable, "-m", "regard"], "python": [sys.executable]}[program]
    done = subprocess.run([*start, *words], capture_output=True, text=True, check=False, env=ONE_THREAD)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
