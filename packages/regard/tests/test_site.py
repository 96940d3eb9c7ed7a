"""The site of ``make docs``, from the disk and from a web host: links, pictures, search, and no request outside."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from lab_browser import browser  # noqa: F401
from places import ROOT
from processes import PATIENCE
from test_accessibility import AXE, SIZES, violations
from tiers import NIGHTLY, sampled

pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'regard[docs]'")

# What a page points at, as the browser resolves it, once its pictures are there or have failed.
READ = """async () => {
    const pictures = [...document.images];
    await Promise.all(pictures.map((one) => one.decode().catch(() => null)));
    return {
        links: [...document.querySelectorAll("a[href], area[href]")].map((one) => one.href),
        places: [...document.querySelectorAll("[id], a[name]")].map((one) => one.id || one.name),
        broken: pictures.filter((one) => !one.naturalWidth).map((one) => one.src.slice(0, 100)),
        narrow: pictures.filter((one) => one.checkVisibility() && one.width < 40).map((one) => one.src.slice(0, 100)),
        outside: [...document.querySelectorAll("script[src], link[href], img[src], iframe[src]")]
            .map((one) => one.src || one.href).filter((one) => !/^(data|file):/.test(one)),
    };
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once; the notebooks that would be run are shown without their outputs."""
    folder = tmp_path_factory.mktemp("hosted") / "a course" / "site"
    environment = {**os.environ, "NOTEBOOKS": "stored", "NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def page(browser):  # noqa: F811
    """A tab that keeps the addresses it asked for, and what went wrong in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.asked, page.wrong = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("response", lambda answer: answer.status < 400 or page.wrong.append(f"{answer.url}: {answer.status}"))
    page.on("requestfailed", lambda request: page.wrong.append(f"{request.url}: {request.failure}"))
    yield page
    context.close()
    # A page that is left gives up what it was still asking for: that is no fault of the site.
    assert not [one for one in page.wrong if "ERR_ABORTED" not in one]


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def target(address):
    """The file and the anchor that an address on the disk leads to."""
    plain, anchor = urldefrag(address)
    return Path(unquote(urlsplit(plain).path)), unquote(anchor)


def search_and_open(page, words, found):
    """Look for words from a page, and open one of the pages that are found."""
    page.fill("input[name=query]", words)
    page.locator(f".md-search-result__link[href*='{found}']").first.click()
    page.wait_for_url(f"**/site/{found}*")
    page.wait_for_load_state()


def test_from_the_disk_every_link_and_every_picture_is_there(site, page):
    page.context.set_offline(True)
    read = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        read[path] = page.evaluate(READ)
    assert len(read) > 40
    for what in ("broken", "narrow", "outside"):
        assert not {path.name: one[what] for path, one in read.items() if one[what]}, what
    lost = []
    for path, one in read.items():
        for link in one["links"]:
            file, anchor = target(link)
            if not link.startswith("file:"):
                assert link.startswith(("https://", "http://127.0.0.1:8321/")), f"{path.name}: {link}"
            elif not file.is_file() or (anchor and anchor not in read[file]["places"]):
                lost.append(f"{path.name}: {link}")
    assert not lost
    assert all(address.startswith(("file:", "data:")) for address in page.asked)


def test_from_the_disk_search_finds_a_page(site, page):
    page.context.set_offline(True)
    page.goto((site / "notebooks" / "translator.html").as_uri())
    search_and_open(page, "certificate", "certificates.html")
    assert all(address.startswith(("file:", "data:", "about:")) for address in page.asked)


def test_a_web_host_serves_it_below_any_folder(site, page):
    handler = partial(QuietHandler, directory=site.parent.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/a%20course/site/"
        page.goto(home)
        page.click(".md-content a[href='tutorial.html'] >> nth=0")
        page.wait_for_url(home + "tutorial.html")
        page.goto(home + "notebooks/translator.html")
        assert not page.evaluate(READ)["broken"]
        search_and_open(page, "certificate", "certificates.html")
        page.context.close()  # first: the browser asks for the page's icon when it likes
        server.shutdown()
    assert all(address.startswith((home, "data:")) for address in page.asked)


def test_formulas_are_drawn_with_the_font_of_the_site(site, page):
    page.goto((site / "attention.html").as_uri())
    page.wait_for_function(
        "[...document.fonts].some((one) => one.family.includes('Regard Math') && one.status == 'loaded')"
    )
    formula = page.locator("div.formula math").first.bounding_box()
    assert formula["height"] > 15
    assert formula["width"] > 60


@pytest.mark.slow
def test_the_first_page_draws_its_ten_figures_which_answer_to_hand_and_keys(site, page):
    page.goto((site / "index.html").as_uri())
    figures = page.locator("[data-figure]")
    assert figures.count() == 10
    assert page.locator("[data-figure] svg").count() == 10
    readings = page.locator("[data-figure] .reading")
    before = readings.all_inner_texts()
    assert len(before) == 9
    for name in ("attend", "copy", "ceiling", "share"):
        page.locator(f"[data-figure={name}] .movable").last.press("ArrowUp")
    for slider in page.locator("[data-figure] input").all():
        slider.press("ArrowLeft")
    page.locator("[data-figure=order] button").click()
    page.locator("[data-figure=future] button").click()
    assert all(one != other for one, other in zip(before, readings.all_inner_texts(), strict=True))
    page.locator("span[data-mark=hull]").hover()
    assert "lit" in page.locator("[data-figure=ceiling] .hull").get_attribute("class")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# For each word that is underlined: its picture, and whether something in that is lit by the word's focus.
LIT = """[...document.querySelectorAll(".scene > div:first-child span[data-mark]")].map((one) => {
    one.focus();
    const figure = one.closest(".scene").querySelector(".figure");
    return [figure.dataset.figure, Boolean(figure.querySelector(".lit"))];
})"""


@pytest.mark.slow
def test_in_every_picture_words_light_marks_and_on_paper_they_stand_side_by_side(site, page):
    page.goto((site / "index.html").as_uri())
    page.wait_for_selector("[data-figure=future] svg")
    lit = page.evaluate(LIT)
    assert len({figure for figure, _ in lit}) == 10
    assert all(is_lit for _, is_lit in lit), lit
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})  # paper between its margins
    for scene in page.locator(".scene").all():
        words, figure = (scene.locator("> div").nth(place).bounding_box() for place in (0, 1))
        assert figure["x"] >= words["x"] + words["width"]
        assert figure["height"] < 500
    assert not page.locator(".figure .slide").first.is_visible()


@pytest.mark.parametrize("eighth", sampled(range(8), every=8, others=NIGHTLY))
@pytest.mark.skipif(not AXE.exists(), reason="axe is not installed: make check-javascript")
def test_axe_finds_nothing_on_any_page(site, browser, eighth):  # noqa: F811
    pages = sorted(site.rglob("*.html"), key=lambda path: (path.name != "index.html", path))
    found = []
    for number, path in enumerate(pages[eighth::8]):
        sizes = SIZES if path.name == "index.html" else [SIZES[number % 2]]
        found += [f"{path.name} {one}" for one in violations(browser, path.as_uri(), sizes=sizes, unfold=True)]
    assert not found
