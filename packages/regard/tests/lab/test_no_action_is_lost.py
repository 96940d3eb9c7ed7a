"""In a real browser: whatever a hand does counts, however fast it is and however slow the answers are."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from lab_browser import browser, lab, opened, settled, slid, tab, weights
from regard.lab.page import pages
from regard.lab.server import Lab

__all__ = ["browser", "lab", "tab"]  # fixtures

SLOW = 0.2  # seconds that every answer takes longer: far more than lies between two presses


@pytest.fixture
def slow(lab, monkeypatch):
    """The same lab, on a machine that is busy with something else."""
    quick = lab.answer

    def late(*given, **named):
        time.sleep(SLOW)
        return quick(*given, **named)

    monkeypatch.setattr(lab, "answer", late)
    return lab


def word(tab, name):
    """A word of the state in the address."""
    return tab.evaluate(f"new URLSearchParams(location.search).get('{name}')")


def test_ten_quick_presses_move_ten_steps(tab, slow):
    opened(tab, slow, "copy?keys=0,0;1,1;-1,1&q=3,2&to=0")
    tab.focus("#point-0")
    for _ in range(10):
        tab.keyboard.press("ArrowRight")
    settled(tab)
    assert word(tab, "keys").startswith("0.5,0;")


def test_a_held_key_counts_every_repetition(tab, slow):
    opened(tab, slow, "copy?keys=0,0;1,1;-1,1&q=3,2&to=0")
    tab.focus("#point-0")
    for _ in range(25):  # what a keyboard sends while a key is held
        tab.keyboard.down("ArrowUp")
    tab.keyboard.up("ArrowUp")
    settled(tab)
    assert word(tab, "keys").startswith("0,1.25;")


def test_three_quick_ticks_are_three(tab, slow):
    opened(tab, slow, "copy?to=4")
    for key in (0, 1, 2):
        tab.evaluate(f"document.getElementById('choose-{key}').click()")
    settled(tab)
    assert word(tab, "to") == "0,1,2,4"


def test_quick_buttons_and_a_slider_in_between_all_count(tab, slow):
    opened(tab, slow, "copy?keys=1,0;0,1&q=3,1&to=0&eps=0.01")
    for _ in range(3):
        tab.get_by_role("button", name="Add a key").click()
    tab.locator("input[name=eps]").fill("6")
    tab.get_by_role("button", name="Remove one").click()
    settled(tab)
    assert word(tab, "eps") == "0.1"
    assert len(word(tab, "keys").split(";")) == 4


def test_a_slider_that_is_let_go_where_it_is_asks_once(tab, slow):
    opened(tab, slow, "noise")
    tab.asked.clear()
    for count in (1, 2):  # a key press moves the slider and lets it go
        tab.focus("input[name=spread]")
        tab.keyboard.press("ArrowRight")
        settled(tab)
        assert sum("/ask/" in url for url in tab.asked) == count
    assert word(tab, "spread") == "0.6"
    tab.go_back()  # each press was a step of its own
    settled(tab)
    assert word(tab, "spread") == "0.55"


def test_an_action_too_many_does_not_take_the_others_along(tab, slow):
    opened(tab, slow, "copy?keys=1,0;0,1&q=3,1&to=0")
    for _ in range(11):
        tab.get_by_role("button", name="Add a key").click()
    settled(tab)
    assert len(word(tab, "keys").split(";")) == 10
    assert "The drawing has room for 10 keys" in tab.text_content("#say") + tab.text_content("#trouble")
    # the last press may be asked alone, and is then refused (400), of which the browser takes note
    tab.wrong[:] = [said for said in tab.wrong if "status of 400" not in said]


def turned(tab, steps):
    """The view after a drag of the background by 200 pixels to the left, in so many movements."""
    box = tab.locator("svg.drawing").bounding_box()
    x, y = box["x"] + box["width"] / 2 + 100, box["y"] + 0.93 * box["height"]
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 200, y, steps=steps)
    tab.mouse.up()
    settled(tab)
    return word(tab, "view")


def test_a_fast_drag_of_the_sphere_turns_as_far_as_a_slow_one(tab, slow):
    address = "copy?space=sphere&keys=0,0;90,0;0,90&q=30,20,4&to=0&view=25,20"
    found = []
    for steps in (1, 3, 66, 200):  # 200 pixels: 40 steps of 2 degrees
        opened(tab, slow, address)
        found.append(turned(tab, steps))
    assert found == ["105,20"] * 4


def test_words_of_a_sentence_follow_every_press(tab, slow):
    opened(tab, slow, "order?text=the+dog+bit+the+man&positions=off")
    tab.focus("#word-0")
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    settled(tab)
    assert word(tab, "order") == "4,2,3,0,1"  # the page begins with 0,4,2,3,1


def test_back_in_the_middle_of_an_answer_is_not_overruled_by_it(tab, slow):
    opened(tab, slow, "copy?keys=0,0;1,1&q=3,2&to=0")
    before = tab.url
    tab.get_by_role("button", name="Add a key").click()
    settled(tab)
    tab.get_by_role("button", name="Add a key").click()
    tab.go_back()
    settled(tab)
    assert tab.url in (before, before.replace("copy?", "copy?space=plane&")) or len(word(tab, "keys").split(";")) == 2


def test_a_refused_action_leaves_nothing_behind_that_overrules_a_later_slider(tab, slow):
    opened(tab, slow, "copy?keys=1,0;0,1;1,1;2,0;0,2;-1,0;0,-1;-1,-1;1,-1;-2,0&q=3,1&to=0&eps=0.01")
    tab.get_by_role("button", name="Add a key").click()  # the eleventh: refused
    tab.locator("input[name=eps]").fill("6")  # while that is under way
    tab.get_by_role("button", name="Add a key").click()  # goes along with it: refused as well
    settled(tab)
    slid(tab, "eps", "9")
    assert word(tab, "eps") == "1"
    assert tab.text_content("output[for=slide-eps]") == "1"
    tab.wrong.clear()  # the browser itself notes the status 400 in its console


def test_a_lab_that_was_stopped_and_started_again_hears_all_that_was_done_meanwhile(browser):
    """The new lab does not know the browser; once it is opened in another tab, the old one goes on by itself."""
    first = started(port=0)
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(first.opening_address)
    opened(tab, first, "copy?keys=0,0;1,1;-1,1&q=3,2&to=0&eps=0.01")
    stopped(first)
    tab.focus("#point-0")
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    tab.locator("input[name=eps]").fill("6")
    tab.wait_for_selector("#trouble:has-text('start it again')")
    tab.keyboard.press("ArrowUp")
    tab.evaluate("document.getElementById('choose-1').click()")
    again = started(port=first.port)
    tab.wait_for_selector("#trouble:has-text('has not opened the lab yet')")
    context.new_page().goto(again.opening_address)
    settled(tab)
    assert word(tab, "keys").startswith("0.15,0")
    assert (word(tab, "to"), tab.is_visible("#trouble")) == ("0,1", False)
    context.close()
    stopped(again)


class Stoppable(Lab):
    """A lab that knows its connections, which end with its process."""

    def process_request(self, request, client_address):
        self.connections = [*getattr(self, "connections", []), request]
        super().process_request(request, client_address)


def started(port):
    server = Stoppable(port=port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


def stopped(server):
    """As if its process had ended: connections that stand are closed, too."""
    server.shutdown()
    server.server_close()
    for connection in server.connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


# sliders, links and pages agree --------------------------------------------------------------------------------------


def test_the_knobs_show_the_true_number_also_between_their_steps(tab, lab):
    opened(tab, lab, "copy?eps=0.0137&q=30,0&keys=1,0;0,1&to=0")
    assert tab.text_content("output[for=slide-eps]") == "0.0137"
    assert tab.text_content("output[for=slide-norm]") == "30.00"
    assert float(tab.get_attribute("#slide-norm", "max")) >= 30
    opened(tab, lab, "noise?keys=10&spread=0.5&iso=0.0125&scale=1")
    assert tab.text_content("output[for=slide-iso]") == "0.0125"
    assert tab.input_value("#slide-scale") == "1"


def test_eps_grows_to_the_right(tab, lab):
    opened(tab, lab, "copy")
    seen = []
    for place in ("0", "3", "6", "9"):
        slid(tab, "eps", place)
        seen.append(float(word(tab, "eps")))
    assert seen == sorted(seen) == [0.001, 0.01, 0.1, 1]


def test_a_row_of_the_table_is_clickable(tab, lab):
    opened(tab, lab, "copy?to=4")
    tab.click("table.keys tbody tr:nth-child(2) td.bars")
    settled(tab)
    assert word(tab, "to") == "1,4"
    tab.click("table.keys tbody tr:nth-child(2) label")
    settled(tab)
    assert word(tab, "to") == "4"


def test_a_bad_link_shows_the_page_as_it_begins_and_one_sentence(tab, lab):
    for address in ("copy?eps=-1", "copy?colour=blue", "noise?keys=many", "rank?rank=0"):
        opened(tab, lab, address)
        said = tab.text_content("#trouble")
        assert said.endswith("The page is shown as it begins."), address
        assert said.count("\n") == 0
        assert tab.locator("#picture svg, #picture canvas").count() >= 1
    tab.wrong.clear()  # the browser itself notes the status 400 in its console


def test_reset_shows_the_page_as_it_begins(tab, lab):
    opened(tab, lab, "copy")
    first = weights(tab)
    tab.focus("#point-0")
    tab.keyboard.press("ArrowRight")
    settled(tab)
    assert weights(tab) != first
    tab.click("#reset")
    settled(tab)
    assert weights(tab) == first


def test_a_new_key_hides_no_other(tab, lab):
    opened(tab, lab, "copy?keys=0,0;1,0&q=1,0&to=0")
    for _ in range(6):
        tab.get_by_role("button", name="Add a key").click()
        settled(tab)
    places = [tuple(map(float, row.split(","))) for row in word(tab, "keys").split(";")]
    gaps = [((a - c) ** 2 + (b - d) ** 2) ** 0.5 for i, (a, b) in enumerate(places) for c, d in places[:i]]
    assert min(gaps) > 0.5


def test_a_banner_moves_nothing(tab, lab):
    opened(tab, lab, "copy?keys=1,0;0,1;1,1;2,0;0,2;-1,0;0,-1;-1,-1;1,-1;-2,0&q=3,1&to=0")
    before = tab.locator("svg.drawing").bounding_box()
    tab.get_by_role("button", name="Add a key").click()
    settled(tab)
    assert tab.is_visible("#trouble")
    assert tab.locator("svg.drawing").bounding_box() == before
    tab.wrong.clear()


@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_no_page_scrolls_sideways(tab, lab, width):
    tab.set_viewport_size({"width": width, "height": 844})
    for name in pages():
        opened(tab, lab, name)
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (name, wide)


def test_on_a_telephone_nothing_lies_over_a_proof(tab, lab):
    tab.set_viewport_size({"width": 390, "height": 844})
    opened(tab, lab, "claims?show=proof")
    tab.evaluate("scrollTo(0, 900)")
    over = "document.elementFromPoint(195, 100).closest('#left') === null"
    assert tab.evaluate(over)
