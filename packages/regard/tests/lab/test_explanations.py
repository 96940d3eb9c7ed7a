"""In a real browser: step by step, Why?, guesses, signs explained, and pictures to take along."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET

import pytest

from lab_browser import browser, lab, number, opened, settled, tab
from regard.lab.page import MEANINGS, mathml, pages
from regard.notation import readable

__all__ = ["browser", "lab", "tab"]  # fixtures


def test_attention_step_by_step_has_the_numbers_of_the_table(tab, lab):
    opened(tab, lab, "copy?keys=1,0;0,1&q=2,1&to=0")
    titles = ["Dot products", "Exponentials", "Normalise", "Weighted sum"]
    drawn = [".perpendicular", ".power", ".frame", ".part"]
    tab.click("#step")
    place = tab.locator("#step").bounding_box()
    tab.reload()
    settled(tab)
    for count, (title, mark) in enumerate(zip(titles, drawn, strict=True), start=1):
        tab.click("#step")
        assert tab.locator(".working " + mark).count() == 2  # one for each key
        now = tab.locator("#step").bounding_box()
        assert (now["x"], now["y"]) == (place["x"], place["y"])  # under the same finger
        assert tab.locator("#steps .step").count() == count
        assert title in tab.locator("#steps .step.now").text_content()
    shown = [one.text_content().replace("\u2212", "-") for one in tab.locator("#steps .step").all()]
    assert "=2.00" in shown[0].replace(" ", "")
    assert "=1.00" in shown[0].replace(" ", "")
    weight = float(tab.get_attribute("[data-weight='0']", "data-value"))
    assert f"{weight:.4f}" in shown[2]
    assert tab.get_attribute("body", "data-lit") == "output"
    tab.click("#step")
    assert tab.locator("#steps .step").count() == 0


def test_the_steps_follow_the_hand(tab, lab):
    opened(tab, lab, "copy?keys=1,0;0,1&q=2,1&to=0")
    tab.click("#step")
    before = tab.text_content("#steps .step")
    tab.focus("#point-0")
    tab.keyboard.press("ArrowRight")
    settled(tab)
    assert tab.text_content("#steps .step") != before


def test_why_says_it_and_lights_the_line_up(tab, lab):
    opened(tab, lab, "copy?keys=1,1;-1,1;-1,-1;1,-1;1.6,0.2;0.2,0.1&to=4")
    asked = tab.locator(".why summary").all_text_contents()
    assert "Why does the shortest query not point at its key?" in asked
    assert "Why does a ceiling fall inside the hull?" in asked
    tab.click("text=Why does a ceiling fall")
    tab.wait_for_selector("body[data-lit=hull]")  # a browser tells of an opened line when it next draws
    opened(tab, lab, "copy?keys=1,0;-1,0&q=1,0&to=0")  # here the shortest points at its key: nothing to wonder about
    assert tab.locator(".why").count() == 0
    for name, question in (("noise", "Why does one head swing?"), ("order", "Why do two positions nearly meet?")):
        opened(tab, lab, name)
        assert tab.locator(".why summary").all_text_contents() == [question]


@pytest.mark.parametrize(
    ("claim", "guess", "right"), [("the-bisector", "fails", "true"), ("the-bisector", "holds", "false")]
)
def test_a_guess_comes_before_the_verdict(tab, lab, claim, guess, right):
    opened(tab, lab, f"claims?claim={claim}")
    assert tab.locator(".verdict").count() == 0
    tab.click(f"#guess-{guess}")
    tab.wait_for_selector(".guess")
    assert tab.get_attribute(".guess", "data-right") == right
    assert not tab.is_visible("#guess-holds")


def test_every_sign_has_its_meaning(tab, lab):
    opened(tab, lab, "copy")
    tab.click("#symbols summary")
    meanings = tab.text_content("#meanings")
    for said in ("the query", "a key", "alpha, a weight", "norm: the length of a vector"):
        assert said in meanings
    tab.hover("#formulas mi >> nth=0")
    assert tab.is_visible("#tip")


def test_statement_verdict_and_proof_are_set_and_their_signs_explained(tab, lab):
    opened(tab, lab, "claims?claim=average-within-budget&show=proof")
    for place in (".statement", ".verdict", ".proof"):
        assert tab.locator(f"{place} math").count() > 0, place
    assert not re.search(r"\|\||sqrt|<=|>=|\beps\b|alpha", tab.text_content(".proof") + tab.text_content(".statement"))
    tab.hover(".proof mi >> nth=0")
    assert tab.text_content("#tip") == MEANINGS["L"]
    tab.hover("#title")
    assert not tab.is_visible("#tip")


def test_formulas_are_set_in_the_font_that_the_lab_brings(tab, lab):
    opened(tab, lab, "copy")
    tab.evaluate("document.fonts.ready")
    assert tab.evaluate("document.fonts.check('16px \"Regard Math\"')")
    assert [url for url in tab.asked if url.endswith("/math.woff2")]


def test_norms_have_an_opening_and_a_closing_bar():
    bars = re.findall(r'<mo form="(\w+)"[^>]*>&#x02016;', mathml(r"\lVert q \rVert \le \lVert k \rVert"))
    assert bars == ["prefix", "postfix"] * 2


def test_the_same_words_serve_terminal_and_lab(lab):
    from regard.coursework.catalogue import claims

    statement = claims["average-within-budget"].statement
    assert lab.answer("claims", {"claim": "average-within-budget"})["picture"]["statement"] == readable(statement)
    assert "√2 ln(n/ε)" in readable(statement)


@pytest.mark.parametrize("name", [name for name in pages() if name in ("copy", "noise", "rank")])
def test_a_picture_is_saved_as_svg_and_png(tab, lab, tmp_path, name):
    opened(tab, lab, name)
    for kind in ("svg", "png"):
        with tab.expect_download() as coming:
            tab.click(f"#save-{kind}")
        assert coming.value.suggested_filename == f"regard-{name}.{kind}"
        coming.value.save_as(tmp_path / f"picture.{kind}")
    drawn = ET.parse(tmp_path / "picture.svg").getroot()
    assert drawn.tag.endswith("svg")
    words = " ".join(one.text or "" for one in drawn.iter() if one.tag.endswith("}text"))
    legend = tab.locator("#picture .legend span").first.inner_text()
    for said in (
        tab.inner_text("#title"),
        tab.inner_text("#say p"),
        legend,
        tab.inner_text("#picture figcaption, .aside"),
    ):
        assert " ".join(said.split()) in words
    assert tab.url in words.replace(" ", "")
    assert not re.search(
        r"var\(--|class=", (tmp_path / "picture.svg").read_text(encoding="utf-8")
    )  # needs no style sheet
    data = (tmp_path / "picture.png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG")
    assert width > 300
    assert height > 300


def test_the_link_is_copied(tab, lab):
    opened(tab, lab, "copy?keys=1,0;0,1&q=2,1&to=0")
    assert number(tab, "own-norm") == pytest.approx(5**0.5)
    tab.click("#copy-link")
    assert tab.evaluate("navigator.clipboard.readText()") == tab.url
