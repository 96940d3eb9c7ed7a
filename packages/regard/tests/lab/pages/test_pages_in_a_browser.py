"""The lab in a real browser: drag, slide, run the copied lines, and the numbers agree; nothing leaves this machine."""

from __future__ import annotations

import json
import re

import pytest

from lab_browser import browser, dragged, lab, lines, number, opened, run_python, run_shell, settled, slid, tab, weights
from regard import design, noise
from regard.lab.page import pages
from regard.written_numbers import at_most

__all__ = ["browser", "lab", "tab"]  # fixtures


def ceilings_printed(text):
    """The column of ceilings in the table that `ceilings` prints."""
    return [float(line.split()[1]) for line in text.splitlines() if re.match(r"\s+\d+  ", line)]


@pytest.mark.parametrize("name", pages())
def test_every_page_draws_and_has_its_lines(tab, lab, name):
    opened(tab, lab, name)
    assert tab.locator("#picture svg, #picture canvas, #picture math").count() > 0
    assert tab.text_content("#hint")
    assert tab.text_content("#lines-python")
    assert tab.text_content("#lines-shell")
    assert not tab.is_visible("#trouble")
    assert tab.locator("#formulas math, #picture math").count() > 0


# Copy and share ------------------------------------------------------------------------------------------------------


def test_a_key_dragged_into_the_hull_loses_its_ceiling(tab, lab):
    opened(tab, lab, "copy")
    assert weights(tab, "ceiling")[4] == 1
    scale = tab.locator("svg.drawing").bounding_box()["height"] / 4.4
    dragged(tab, "#point-4", -1.4 * scale, 0)
    found = weights(tab, "ceiling")
    assert found[4] < 0.5
    assert found[:4] == [1, 1, 1, 1]
    keys = [[1, 1], [-1, 1], [-1, -1], [1, -1], [0.2, 0.2]]
    assert found[4] == pytest.approx(design.ceiling(keys, 4).ceiling, abs=1e-12)
    assert "keys=1,1;-1,1;-1,-1;1,-1;0.2,0.2" in tab.url
    assert "in the hull of the others and can never win" in tab.text_content("#say")
    assert "⇒" in tab.text_content("#formulas")  # the combination that proves it
    tab.go_back()  # one drag is one step
    tab.wait_for_url("**/copy?*1.6,0.2*")
    settled(tab)
    assert weights(tab, "ceiling")[4] == 1
    tab.go_forward()
    tab.wait_for_url("**/copy?*0.2,0.2*")
    settled(tab)
    assert weights(tab, "ceiling") == found


def test_the_copied_lines_give_the_weights_norms_and_ceilings_of_the_page(tab, lab):
    opened(tab, lab, "copy")
    dragged(tab, "#point-0", 30, 40)
    dragged(tab, "#point-q", 17, -23)
    slid(tab, "eps", "6")
    assert "eps=0.1" in tab.url
    printed = run_python(lines(tab, "python"))
    assert json.loads(printed.splitlines()[0]) == pytest.approx(weights(tab), abs=1e-12)
    stated = f"norm {at_most(number(tab, 'shortest-norm'), 6)},"
    assert stated in printed
    assert ceilings_printed(printed) == pytest.approx(weights(tab, "ceiling"), abs=1e-6)
    copied, ceiling, attend = lines(tab, "shell").splitlines()
    assert stated in run_shell(copied)
    assert ceilings_printed(run_shell(ceiling)) == pytest.approx(weights(tab, "ceiling"), abs=1e-6)
    shown = [float(word) for word in run_shell(attend).strip(" []\n").split()]
    assert shown == pytest.approx(weights(tab), abs=1e-6)


def test_the_shortest_query_taken_gives_what_was_asked_and_the_textbooks_stands_beside_it(tab, lab):
    opened(tab, lab, "copy?keys=1,0;0,1&q=1,0&to=0")
    assert number(tab, "textbook-norm") > number(tab, "shortest-norm")
    assert tab.locator(".arrows .textbook").count() == 1
    tab.click("#use-shortest")
    settled(tab)
    assert number(tab, "own-norm") == pytest.approx(number(tab, "shortest-norm"), rel=1e-12)
    assert number(tab, "own-attention") >= 1 / 1.01 - 1e-12


def test_points_obey_the_keyboard_and_space_chooses(tab, lab):
    opened(tab, lab, "copy")
    tab.focus("#point-1")
    tab.keyboard.press("ArrowRight")
    settled(tab)
    tab.keyboard.press("ArrowUp")
    settled(tab)
    assert "keys=1,1;-0.95,1.05;" in tab.url
    tab.keyboard.press(" ")
    settled(tab)
    assert "to=1,4" in tab.url
    assert tab.get_attribute("#point-1", "aria-pressed") == "true"
    assert "least attention it gives" in tab.text_content("#numbers")


def test_a_key_chosen_in_the_table_keeps_the_focus(tab, lab):
    opened(tab, lab, "copy")
    tab.focus("#choose-1")
    tab.keyboard.press(" ")
    settled(tab)
    assert "to=1,4" in tab.url
    assert tab.evaluate("document.activeElement.id") == "choose-1"


def test_the_arrow_keys_turn_the_sphere(tab, lab):
    opened(tab, lab, "copy?space=sphere&keys=0,0;90,0;0,90&q=30,20,4&to=0&view=25,20")
    tab.focus("svg.drawing")
    tab.keyboard.press("ArrowRight")
    settled(tab)
    tab.keyboard.press("ArrowDown")
    settled(tab)
    assert "view=31,14" in tab.url
    tab.focus("#point-0")  # a point that has the focus moves instead
    tab.keyboard.press("ArrowRight")
    settled(tab)
    assert "view=31,14" in tab.url
    assert "keys=2,0;90,0;0,90" in tab.url


def test_the_sphere_turns_and_its_lines_agree(tab, lab):
    opened(tab, lab, "copy")
    tab.select_option("#choose-start", "three axes")
    settled(tab)
    box = tab.locator("svg.drawing").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2 - 10, box["y"] + 0.8 * box["height"])
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] / 2 - 90, box["y"] + 0.8 * box["height"], steps=4)
    tab.mouse.up()
    settled(tab)
    assert "space=sphere" in tab.url
    assert "view=25,20" not in tab.url
    dragged(tab, "#point-0", 20, -15)
    printed = run_python(lines(tab, "python"))
    assert json.loads(printed.splitlines()[0]) == pytest.approx(weights(tab), abs=1e-12)
    stated = f"norm {at_most(number(tab, 'shortest-norm'), 6)},"
    assert stated in printed


def test_a_link_shows_what_the_sender_saw(tab, lab, browser):
    opened(tab, lab, "copy")
    dragged(tab, "#point-3", -40, 10)
    seen, address = weights(tab), tab.url
    other = browser.new_page()
    assert "token" not in address
    assert other.goto(address).status == 403  # a link is no key: it leads to the page that says how to open it
    assert "regard lab" in other.text_content("main")
    other.goto(lab.opening_address)
    other.goto(address)
    settled(other)
    assert weights(other) == seen
    assert other.url == address
    other.close()


def test_a_fast_hand_costs_few_questions_and_the_last_one_counts(tab, lab):
    opened(tab, lab, "copy")
    before = len(tab.asked)
    box = tab.locator("#point-2").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 90, y - 60, steps=90)
    tab.mouse.up()
    settled(tab)
    now = tab.locator("#point-2").bounding_box()
    assert now["x"] + now["width"] / 2 == pytest.approx(x + 90, abs=2)
    assert now["y"] + now["height"] / 2 == pytest.approx(y - 60, abs=2)
    later = tab.asked[before:]
    assert len([url for url in later if "/ask/" in url]) <= 91, later  # never more than one a movement


def test_a_wrong_address_is_one_sentence(tab, lab):
    opened(tab, lab, "copy?eps=-1")
    said = "eps must be a number from 1e-09 to 1000, not '-1'. The page is shown as it begins."
    assert tab.text_content("#trouble") == said
    tab.wrong.clear()  # the browser itself notes the status 400 in its console
    tab.click("#reset")
    settled(tab)
    assert "eps=0.01&" in tab.url  # the address is mended too
    assert not tab.is_visible("#trouble")


# Noise and heads -----------------------------------------------------------------------------------------------------


def test_the_noise_page_agrees_with_the_copied_lines(tab, lab):
    opened(tab, lab, "noise")
    before = number(tab, "one-error")
    slid(tab, "keys", "5")
    slid(tab, "spread", "0.3")
    assert number(tab, "one-error") != before
    assert "spread=0.3" in tab.url
    one, two, negative = run_python(lines(tab, "python")).splitlines()
    for name, line in (("one", one), ("two", two)):
        error, share = map(float, line.split())
        assert error == pytest.approx(number(tab, f"{name}-error"), abs=1e-10)
        assert share == pytest.approx(number(tab, f"{name}-share"), abs=1e-10)
    assert float(negative) == number(tab, "negative")
    said = run_shell(lines(tab, "shell"))
    shown = [f"{number(tab, f'{name}-error'):.8f}" for name in ("one", "two")]
    assert re.search(rf"E‖c - target‖² +{shown[0]} +{shown[1]}", said)


def test_the_law_that_is_drawn_is_a_distribution_with_the_right_mean(lab):
    picture = lab.answer("noise", {"spread": "0.8", "scale": "15"})["picture"]
    model = noise.gaussian_setting(10, spread=0.8, iso=0.01)
    middles = (picture["edges"][1:] + picture["edges"][:-1]) / 2
    for name, queries in (("one", noise.one_head(10, 15.0)), ("two", noise.two_heads(10, 15.0))):
        assert picture[name].sum() == pytest.approx(1, abs=1e-8)
        mean = noise.weight_moments(noise.score_laws(model, queries)).mean[0]
        assert picture[name] @ middles == pytest.approx(mean, abs=0.025)  # half an interval


def test_light_and_dark(tab, lab):
    opened(tab, lab, "noise")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(paper)
    tab.click("#theme")
    assert tab.evaluate(paper) != light
    tab.reload()
    settled(tab)
    assert tab.evaluate(paper) != light
    assert tab.locator(".chart canvas").count() == 1
