"""The tour: cards that notice what was done, in Python for every card and in a real browser by hand and keyboard."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from lab_browser import browser, dragged, lab, opened, settled, slid, tab, weights
from places import DOCS
from regard.lab.page import pages
from regard.lab.tour import CARDS

__all__ = ["browser", "lab", "tab"]  # fixtures

TUTORIAL = DOCS / "tutorial.md"
LIVE = [card for card in CARDS if card.page not in ("translator", "claims")]  # those two answer by tasks


def fulfilled(lab, card, words):
    return lab.answer(card.page, {**card.start, **words})["tour"][card.name]


def card_named(name):
    return next(card for card in CARDS if card.name == name)


# What counts as done -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", LIVE, ids=lambda card: card.name)
def test_nothing_is_done_at_a_cards_beginning_and_each_task_is_where_it_is_shown(lab, card):
    assert fulfilled(lab, card, {}) == []
    for i, task in enumerate(card.tasks):
        assert i in fulfilled(lab, card, task.shown), task.do


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one-key", {"q": "0,5"}),  # a score of 0 is not below 0
        ("one-key", {"keys": "1,0;0,1", "q": "-3,1"}),  # another key has come
        ("differences", {"q": "9,1"}),  # long, and across
        ("differences", {"keys": "1,0"}),
        ("copying", {"q": "9,0"}),  # long enough, and not the shortest
        ("copying", {"to": ""}),
        ("copying", {"to": "0", "keys": "1,1;-1,1;-1,-1;1,-1;1.01,1.01"}),
        ("sharing", {"to": "1"}),
        ("sharing", {"to": "0,1,2"}),
        ("sharing-in-space", {"keys": "0,0;90,0", "view": "25, 20"}),
        ("ceiling", {"keys": "0,0;1,0", "to": ""}),  # key 3 is gone
        ("ceiling", {"q": "0,9"}),
        ("one-head", {"scale": "19"}),
        ("two-heads", {"spread": "0.05"}),
        ("order", {"order": "0, 4, 2, 3, 1"}),
        ("order", {"positions": "on", "order": "0,1,2,3,4"}),
        ("rank", {"rank": "5"}),
    ],
)
def test_what_is_nearly_it_is_not_it(lab, name, words):
    assert fulfilled(lab, card_named(name), words) == []


def test_the_button_opens_the_first_card_with_its_own_key_and_query(tab, lab):
    opened(tab, lab, "copy")
    assert len(weights(tab)) == 5
    tab.click("#tour-open")
    tab.wait_for_url("**#tour-one-key")
    settled(tab)
    assert len(weights(tab)) == 1
    tab.click("#tour-close")  # what one has done since stays
    tab.get_by_role("button", name="Add a key").click()
    settled(tab)
    assert len(weights(tab)) == 2


def test_the_translators_card_wants_a_sentence_and_its_translation(lab):
    from regard.lab.page import Answer
    from regard.lab.tour import done_tasks

    card = card_named("translator")
    said = Answer(picture={"said": {"target": ["a", "dog"]}, "examples": ["der Hund"]}, python="", shell="")
    untold = replace(said, picture={})
    for answer, text, done in (
        (said, "ein Hund", [0]),
        (said, "", []),
        (said, "der Hund", []),
        (untold, "ein Hund", []),
    ):
        assert done_tasks([card], answer, words={"text": text}) == {"translator": done}


def test_the_cards_name_pages_and_words_that_there_are():
    start = {name: page.start for name, page in pages().items()}
    for card in CARDS:
        for words in (card.start, *(task.shown for task in card.tasks)):
            assert words.keys() <= start[card.page].keys(), card.name
    assert len({card.name for card in CARDS}) == len(CARDS)
    assert [card.step for card in CARDS] == sorted(card.step for card in CARDS)


def test_the_tutorial_and_the_tour_lead_to_the_same_places():
    """Every link of the tutorial into the lab is where a card of that step begins, and every card is linked to."""
    linked = set()
    for part in re.split(r"^## ", TUTORIAL.read_text(encoding="utf-8"), flags=re.MULTILINE):
        step = re.match(r"(\d+)\. ", part)
        for address in re.findall(r"http://127\.0\.0\.1:8321(/[^)]+)\)", part):
            found = urlsplit(address)
            linked.add((int(step[1]), found.path.removeprefix("/"), tuple(sorted(parse_qsl(found.query)))))
    cards = {(card.step, card.page, tuple(sorted(card.start.items()))) for card in CARDS}
    assert {one[:2] for one in cards} == {one[:2] for one in linked}
    assert {one for one in cards if one[1] != "translator"} == {one for one in linked if one[1] != "translator"}


# In the page ---------------------------------------------------------------------------------------------------------


def begun(tab, lab, name):
    card = card_named(name)
    opened(tab, lab, f"{card.address.removeprefix('/')}#tour-{name}")
    assert tab.locator("#tour li.done").count() == 0


def test_a_card_notices_a_drag_and_says_why(tab, lab):
    begun(tab, lab, "one-key")
    assert tab.locator("#tour .seen").count() == 0
    scale = tab.locator("svg.drawing").bounding_box()["height"] / 4.4
    dragged(tab, "#point-q", -0.8 * scale, 0)
    assert tab.locator("#tour li.done").count() == 1
    assert "You did it." in tab.text_content("#tour .seen")
    assert "Weights are shares of a cake" in tab.text_content("#tour")


def test_tasks_are_ticked_one_by_one_and_stay_ticked(tab, lab):
    begun(tab, lab, "two-heads")
    slid(tab, "scale", "2")
    assert tab.locator("#tour li.done").count() == 1
    slid(tab, "scale", "30")
    assert tab.locator("#tour li.done").count() == 1
    assert not tab.locator("#tour .seen").count()
    slid(tab, "spread", "0")
    assert tab.locator("#tour li.done").count() == 2
    assert tab.locator("#tour .seen").count() == 1


@pytest.mark.parametrize("card", LIVE, ids=lambda card: card.name)
def test_show_me_does_each_task(tab, lab, card):
    begun(tab, lab, card.name)
    for i in range(len(card.tasks)):
        tab.click(f"#tour-show-{i}")
        settled(tab)
        tab.wait_for_selector(f"#tour li.done >> nth={i}")
    assert tab.is_visible("#tour .seen")


def test_the_tour_goes_on_to_the_next_page_and_is_resumed(tab, lab):
    begun(tab, lab, "ceiling")
    tab.click("#tour-next")
    tab.wait_for_url("**/noise?*")
    settled(tab)
    assert tab.text_content("#tour .title") == "6. Noise: one head swings"
    slid(tab, "scale", "21")
    tab.click("#tour-close")
    assert not tab.is_visible("#tour")
    assert tab.evaluate("document.activeElement.id") == "tour-open"
    opened(tab, lab, "rank")  # elsewhere, and later
    assert not tab.is_visible("#tour")
    assert tab.text_content("#tour-open") == f"Tour 1/{len(CARDS)}"
    tab.click("#tour-open")
    tab.click("#tour-go")
    tab.wait_for_url("**/noise?*")
    settled(tab)
    assert tab.locator("#tour li.done").count() == 1
    tab.click("#tour-back")
    tab.wait_for_url("**/copy?*")
    settled(tab)
    assert tab.text_content("#tour .title") == "5. A key that can never win"


def test_the_tour_by_keyboard_alone(tab, lab):
    opened(tab, lab, "copy")
    tab.focus("#tour-open")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/copy?*keys=1,0&*")  # the card's own key and query
    settled(tab)
    assert tab.evaluate("document.activeElement.id") == "tour"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "tour-next"
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/copy?*keys=1,0;0,1*")
    settled(tab)
    tab.focus("#point-q")
    for _ in range(24):
        tab.keyboard.press("ArrowLeft")
    settled(tab)
    assert tab.locator("#tour li.done").count() == 1
    tab.focus("#tour-close")
    tab.keyboard.press("Escape")
    assert not tab.is_visible("#tour")
    assert tab.evaluate("document.activeElement.id") == "tour-open"


def test_a_finished_tour_begins_again(tab, lab):
    begun(tab, lab, "claims")
    tab.click("#guess-holds")
    tab.wait_for_selector("#tour li.done")
    tab.click("#prove")
    tab.wait_for_selector("#tour .seen")
    tab.click("#tour-again")
    tab.wait_for_url("**/copy?*")
    settled(tab)
    assert tab.text_content("#tour-open") == "Tour"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1280, 1920])
def test_the_strip_lies_at_the_foot_and_moves_nothing(tab, lab, width, theme):
    tab.emulate_media(color_scheme=theme)
    tab.set_viewport_size({"width": width, "height": 844})
    begun(tab, lab, "differences")
    before = tab.locator("svg.drawing").bounding_box()
    for i in (0, 1):
        tab.click(f"#tour-show-{i}")
        settled(tab)
    assert tab.is_visible("#tour .seen")
    assert tab.locator("svg.drawing").bounding_box() == before
    strip = tab.locator("#tour").bounding_box()
    assert strip["y"] + strip["height"] == pytest.approx(844, abs=1)
    assert strip["height"] <= 0.42 * 844 + 1
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.evaluate("scrollTo(0, document.body.scrollHeight)")
    last = tab.locator("#code").bounding_box()
    assert last["y"] + last["height"] <= strip["y"]  # the page's end can be scrolled into sight


def test_a_damaged_memory_begins_afresh(tab, lab):
    opened(tab, lab, "copy")
    for kept in ("nonsense", '{"open": true, "at": "no-such-card"}', "null"):
        tab.evaluate("text => localStorage.setItem('tour', text)", kept)
        opened(tab, lab, "copy")
        assert not tab.is_visible("#tour")
