"""The page in a real browser: from a file, it asks for nothing, shows the numbers, and obeys hand and keyboard."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from lab_browser import browser
from processes import PATIENCE
from regard_models.attention_page.html_document import decode, encode
from regard_models.attention_page.page_result import look
from regard_models.capturing.records import AttentionRecord, Capture

__all__ = ["browser"]  # a fixture

WORDS = ["</script>", "<img src=x onerror=alert(1)>", "<b>bold</b>", "dog", "]]>", "&amp;", "Ġthe"]
TARGET = ["a", "b", "c", "d", "e"]


def attention(*shape, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=shape)
    return (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def given():
    """Encoder, decoder and cross-attention, the first and last with influence."""
    rng = np.random.default_rng(1)
    sizes = {"encoder.0": (7, 7), "decoder.0": (5, 5), "decoder.0.cross": (5, 7)}
    records = []
    for number, (module, (queries, keys)) in enumerate(sizes.items()):
        vectors = {
            "v": rng.normal(size=(1, 3, keys, 2)).astype("f"),
            "w_o": rng.normal(size=(3, 2, 6)).astype("f"),
        }
        weights = attention(1, 3, queries, keys, seed=number)
        records.append(
            AttentionRecord(index=number, module=module, kernel="k", heads=(0, 1, 2), weights=weights, **vectors)
        )
    return Capture(records=tuple(records), tokens=[WORDS], target_tokens=[TARGET], name="<i>model</i> & co")


@pytest.fixture(scope="module")
def file(given, tmp_path_factory):
    path = tmp_path_factory.mktemp("look") / "look.html"
    look(given).to_html(path)
    return path


@pytest.fixture
def tab(browser):
    """A tab that is only allowed what it is given; what it asked for, said and got wrong is checked at the end."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.asked, page.wrong = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda message: page.wrong.append(message.text))
    page.on("dialog", lambda dialog: (page.wrong.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()
    assert not page.wrong


def opened(tab, file):
    """Open a page; a map begins with the most striking head, and the tests with the first one of the second layer."""
    tab.goto(file.as_uri())
    tab.wait_for_selector("#look[data-drawn][data-complete]")
    if tab.get_attribute("#look", "data-drawn").startswith("map"):
        press(tab, *["ArrowUp"] * 5, *["ArrowLeft"] * 5, "ArrowDown")


def drawn(tab, state):
    """Wait until this is on the screen: view, layer, head, measure, heads with lines."""
    tab.wait_for_selector(f'#look[data-drawn="{state}"]')


def settled(tab):
    """Wait until all that was asked for is on the screen."""
    tab.wait_for_selector("#look[data-busy=no]")


def press(tab, *keys):
    for key in keys:
        tab.keyboard.press(key)
    settled(tab)


def readings(tab):
    return {
        int(row.get_attribute("data-place")): float(row.get_attribute("data-value"))
        for row in tab.locator(".look-readings li").all()
    }


def pixels(tab):
    """What is on the stage, all of it."""
    tab.wait_for_selector("#look[data-whole=yes]")
    return tab.evaluate("[...document.querySelectorAll('.look-base canvas')].map((canvas) => canvas.toDataURL())")


def test_it_opens_from_a_file_and_asks_for_nothing_else(tab, file):
    opened(tab, file)
    assert tab.asked == [file.as_uri()]
    assert tab.text_content("h1") == "<i>model</i> & co"
    assert "no weight is off by more than" in tab.text_content(".look-foot")
    assert tab.locator("img").count() == 0
    assert tab.locator(".look b").count() == 0


def test_a_pinned_word_shows_the_stored_numbers(tab, file, given):
    opened(tab, file)
    drawn(tab, "map 1 0 weights 0")
    press(tab, "ArrowDown", "ArrowRight")
    drawn(tab, "map 2 1 weights 1")
    press(tab, "n", "n", "n")
    tab.wait_for_selector(".look-readings h2:has-text('c at 2 reads · pinned')")
    weights = given.records[2].weights[0, 1]
    stored = decode(*encode(weights))[2]
    assert readings(tab) == pytest.approx(dict(enumerate(stored.tolist())), rel=1e-5)
    listed = [row.inner_text() for row in tab.locator(".look-readings li bdi").all()]
    assert listed[0] == [*WORDS[:6], "·the"][int(stored.argmax())]
    press(tab, "i")
    drawn(tab, "map 2 1 influence 1")
    record = given.records[2]
    lengths = np.linalg.norm(record.v[0, 1] @ record.w_o[1], axis=1)
    assert readings(tab) == pytest.approx(dict(enumerate((stored * lengths).tolist())), rel=1e-4)
    press(tab, "Escape")
    tab.wait_for_selector(".look-readings h2:has-text('What a word reads')")


def test_the_keyboard_stops_at_the_ends_and_leaves_fields_alone(tab, file):
    opened(tab, file)
    press(tab, *["ArrowUp"] * 5, *["ArrowLeft"] * 5)
    drawn(tab, "map 0 0 weights 0")
    press(tab, *["ArrowDown"] * 5, *["ArrowRight"] * 5)
    drawn(tab, "map 2 2 weights 2")
    tab.focus("#look-rows-from")
    press(tab, "ArrowUp", "l")
    assert tab.get_attribute("#look", "data-drawn").startswith("map 2 2")
    assert tab.input_value("#look-rows-from") == "1"


def test_lines_for_one_head_and_for_all(tab, file):
    opened(tab, file)
    press(tab, "l")
    drawn(tab, "lines 1 0 weights 0")
    one = pixels(tab)
    press(tab, "a")
    drawn(tab, "lines 1 0 weights 0+1+2")
    assert pixels(tab) != one
    tab.click(".look-chips button:nth-child(3)")
    drawn(tab, "lines 1 0 weights 0+2")
    box = tab.locator(".look-over").bounding_box()
    before = pixels(tab)
    tab.mouse.move(box["x"] + 40, box["y"] + 26 + 13)  # the first word on the left
    tab.wait_for_selector(".look-readings h2:has-text('a at 0 reads')")
    assert pixels(tab) != before


@pytest.fixture(scope="module")
def tall(tmp_path_factory):
    """Lines of 90 words, higher than a screen, as the first view."""
    path = tmp_path_factory.mktemp("look") / "tall.html"
    look(attention(1, 2, 90, 90), tokens=[f"w{n}" for n in range(90)], view="lines").to_html(path)
    return path


def test_a_page_can_begin_with_the_lines_of_all_heads(tab, tall):
    opened(tab, tall)
    drawn(tab, "lines 0 0 weights 0+1")
    assert tab.is_visible(".look-chips")


def test_lines_out_of_sight_come_later_and_are_the_same(tab, browser, tall):
    opened(tab, tall)
    low = pixels(tab)
    assert len(low) == 3
    context = browser.new_context(viewport={"width": 1280, "height": 2000}, color_scheme="light")
    high = context.new_page()
    opened(high, tall)
    seen = pixels(high)  # all of it at once: the screen is high enough
    context.close()
    assert seen == low
    press(tab, "n")
    pinned = pixels(tab)
    assert all(now != before for now, before in zip(pinned, low, strict=True))


def test_hover_tells_the_weight_and_a_click_pins(tab, file, given):
    opened(tab, file)
    press(tab, "ArrowUp")
    drawn(tab, "map 0 0 weights 0")
    box = tab.locator(".look-over").bounding_box()
    place = tab.evaluate(
        "(() => { const c = document.querySelector('.look-over'); return [c.clientWidth, c.clientHeight]; })()"
    )
    found = None
    for y in range(60, place[1] - 60, 11):  # somewhere on the diagonal of the map
        tab.mouse.move(box["x"] + 170, box["y"] + y)
        if tab.is_visible(".look-stage .look-tip"):
            found = tab.text_content(".look-stage .look-tip")
            break
    assert found is not None
    assert " reads " in found
    assert ", influence " in found
    tab.mouse.down()
    tab.mouse.up()
    tab.wait_for_selector(".look-readings h2:has-text('pinned')")


def test_a_drag_zooms_and_zero_shows_all(tab, file):
    opened(tab, file)
    press(tab, "ArrowUp")
    drawn(tab, "map 0 0 weights 0")
    box = tab.locator(".look-over").bounding_box()
    x, y = box["x"] + 230, box["y"] + 190
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 90, y + 90, steps=4)
    tab.mouse.up()
    settled(tab)
    rows = int(tab.input_value("#look-rows-from")), int(tab.input_value("#look-rows-to"))
    assert rows[1] - rows[0] + 1 < 7
    press(tab, "0")
    assert [tab.input_value(f"#look-{name}") for name in ("rows-from", "rows-to", "columns-from", "columns-to")] == [
        "0", "6", "0", "6",
    ]  # fmt: skip
    press(tab, "+", "Shift+ArrowDown")
    assert int(tab.input_value("#look-rows-to")) - int(tab.input_value("#look-rows-from")) < 6


def test_what_is_hidden_is_not_drawn_and_the_scale_has_numbers(tab, file):
    opened(tab, file)
    before = pixels(tab)
    tab.locator("#look-least").fill("0.5")
    settled(tab)
    assert pixels(tab) != before
    assert float(tab.text_content("output")) == pytest.approx(0.25 * peak(tab), rel=0.01)
    tab.select_option("#look-scale", "common linear")
    settled(tab)
    assert float(tab.text_content("output")) == pytest.approx(0.25, rel=1e-3)  # of a scale that ends at 1


def peak(tab):
    return tab.evaluate("JSON.parse(document.getElementById('facts').textContent).layers[1].peaks.weights[0]")


def test_only_the_layers_of_one_kind(tab, file):
    opened(tab, file)
    tab.select_option("#look-kind", "cross")
    drawn(tab, "map 2 0 weights 0")
    assert tab.locator("#look-layer option").count() == 1
    assert tab.input_value("#look-columns-to") == "6"
    assert tab.input_value("#look-rows-to") == "4"


@pytest.mark.parametrize("view", ["m", "l"])
def test_the_view_is_saved_as_svg_and_png(tab, file, view, tmp_path):
    opened(tab, file)
    press(tab, "ArrowUp", view, "n")
    with tab.expect_download() as saved:
        press(tab, "s")
    svg = saved.value.path().read_text(encoding="utf-8")
    texts = [part.text for part in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert WORDS[0] in texts
    assert any(text.startswith("<img src=x") for text in texts)
    assert any("<i>model</i> & co · layer 0 · head 0" in text for text in texts)
    assert saved.value.suggested_filename == "i-model-i-co-layer0-head0.svg"
    with tab.expect_download() as saved:
        press(tab, "p")
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")


def test_light_and_dark_differ_and_the_choice_is_kept(tab, file):
    opened(tab, file)
    light = pixels(tab)
    assert tab.get_attribute("#look", "data-theme") == "light"
    press(tab, "t")
    tab.wait_for_selector("#look[data-theme=dark]")
    assert pixels(tab) != light
    tab.reload()
    tab.wait_for_selector("#look[data-theme=dark][data-complete]")


def test_the_list_of_keys_opens_and_closes(tab, file):
    opened(tab, file)
    press(tab, "?")
    assert tab.is_visible(".look-help")
    press(tab, "Escape")
    assert not tab.is_visible(".look-help")


@pytest.mark.parametrize("width", [360, 760, 1600])
def test_nothing_is_wider_than_the_window(tab, file, width):
    tab.set_viewport_size({"width": width, "height": 800})
    opened(tab, file)
    for key in ("m", "l"):
        press(tab, key)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_in_a_notebook_it_stands_in_a_frame_of_its_own(tab, given):
    tab.set_content(f"<p id=before>cell</p>{look(given)._repr_html_()}")
    frame = tab.frame_locator("iframe")
    frame.locator("#look[data-drawn][data-complete]").wait_for()
    assert frame.locator("h1").inner_text() == "<i>model</i> & co"
    assert tab.text_content("#before") == "cell"


def test_a_long_input_shows_blocks_outside_of_its_window(tab, tmp_path):
    weights = attention(1, 2, 300, 300)
    look(weights, window=(100, 180), name="long").to_html(tmp_path / "long.html")
    opened(tab, tmp_path / "long.html")
    assert tab.input_value("#look-rows-from") == "100"
    assert tab.input_value("#look-rows-to") == "179"
    assert tab.get_attribute(".look-choice button[data-word=influence]", "disabled") is not None
    press(tab, "0")
    assert tab.input_value("#look-columns-to") == "299"
    box = tab.locator(".look-over").bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 120)
    tab.wait_for_selector(".look-stage .look-tip:has-text('in its block')")
    assert "Queries 100 to 179 and keys 100 to 179 are stored in full" in tab.text_content(".look-foot")


def with_vectors(given, width=11):
    """The same capture with queries and keys; the first key's are beyond what 16 bits hold in the last layer."""
    rng = np.random.default_rng(2)
    records = []
    for record in given.records:
        _, heads, queries, keys = record.shape
        q, k = (rng.normal(size=(1, heads, n, width)).astype("f") for n in (queries, keys))
        records.append(replace(record, q=q, k=k, scale=0.25))
    records[2].k[0, 1, 0] = 1e6
    return replace(given, records=tuple(records))


def test_query_times_key_shows_the_scores(tab, given, tmp_path):
    captured = with_vectors(given)
    look(captured).to_html(tmp_path / "look.html")
    opened(tab, tmp_path / "look.html")
    press(tab, "q", "n", "n", "n")
    drawn(tab, "scores 1 0 weights 0")
    assert "times 0.25" in tab.text_content(".look-status")
    with tab.expect_download() as saved:
        tab.click("#look-svg")
    texts = [part.text for part in ET.parse(saved.value.path()).iter("{http://www.w3.org/2000/svg}text")]
    record = captured.records[1]
    scores = 0.25 * record.q[0, 0, 2] @ record.k[0, 0].T
    shown = [float(text.replace("−", "-")) for text in texts if text.replace("−", "").replace(".", "").isdigit()]
    assert shown[: len(scores)] == pytest.approx(scores.tolist(), abs=0.02)  # two digits of vectors in 16 bits
    assert texts[-1].endswith("q·k")
    press(tab, "ArrowDown")
    drawn(tab, "scores 2 0 weights 0")
    press(tab, "ArrowRight")  # a head whose keys 16 bits cannot hold
    drawn(tab, "map 2 1 weights 1")
    assert tab.locator("button[data-word=scores]").is_disabled()


def test_without_queries_and_keys_there_is_no_such_view(tab, file):
    opened(tab, file)
    press(tab, "q")
    drawn(tab, "map 1 0 weights 0")
    assert tab.locator("button[data-word=scores]").is_disabled()
