"""The pages as files: opened from file:// in a real browser they work, and nobody is asked for anything."""

from __future__ import annotations

import base64
import re
import zlib
from importlib.util import find_spec
from urllib.parse import unquote

import pytest

from lab_browser import browser, dragged, number, settled, weights
from processes import PATIENCE
from regard.cli import main
from regard.errors import InputError
from regard.lab import export
from regard.lab.grids import Grid, grids, nearby_grids, page_actions
from regard.lab.offline_copy import bundle, single_file_page
from regard.lab.page import State, pages
from regard.lab.pages import copy
from regard.lab.server import Lab
from regard.lab.tour import CARDS
from regard.results import plain

pytest.importorskip("uplot", reason="the lab is not installed: pip install 'regard[lab]'")

__all__ = ["browser"]  # a fixture


@pytest.fixture
def small(monkeypatch):
    """Two pages with few states, so that an export takes a moment."""
    monkeypatch.setattr("regard.lab.grids.STARTS", {name: copy.STARTS[name] for name in ("square", "three axes")})
    monkeypatch.setattr("regard.lab.grids.NORMS", (2.0, 6.0))
    monkeypatch.setattr("regard.lab.grids.DIRECTIONS", 2)
    monkeypatch.setattr("regard.lab.grids.EPS", ("0.1",))
    monkeypatch.setattr("regard.lab.pages.rank.MATRICES", ("gaussian", "square"))


@pytest.fixture
def sheet(browser):
    """A tab that remembers what it asked for and what went wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    page.asked, page.wrong = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda said: page.wrong.append(said.text) if said.type in ("error", "warning") else None)
    yield page
    context.close()
    assert all(url.startswith(("file:", "data:", "blob:", "about:")) for url in page.asked), page.asked
    assert not page.wrong


def slid(sheet, name, word):
    sheet.locator(f"input[name={name}]").fill(word)
    settled(sheet)


def address_word(sheet, name):
    return dict(pair.split("=") for pair in unquote(sheet.url.split("#")[1]).split("&"))[name]


def test_a_copy_in_files_answers_as_the_lab_does(small, sheet, tmp_path):
    said = export(tmp_path / "out", pages=["copy", "rank"])
    size = sum(file.stat().st_size for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert (said.pages, said.size) == (["copy", "rank"], size)
    assert f"{size / 1e6:.1f} MB" in str(said)
    assert size < 1_500_000
    assert not re.search(r"^ *//", (tmp_path / "out" / "files" / "lab.js").read_text(), re.MULTILINE)  # comments
    sheet.goto((tmp_path / "out" / "404.html").as_uri())
    assert "the pages are copy, rank" in sheet.text_content("main")
    sheet.click("text=Go to the start")
    listed = sheet.locator("li").all_text_contents()
    assert listed == [f"{page.title}: {page.about}" for page in (pages()["copy"], pages()["rank"])]
    sheet.click("li a >> nth=0")
    settled(sheet)
    start = copy.PAGE.answer(State({}, start=copy.PAGE.start))
    assert weights(sheet) == pytest.approx([row["weight"] for row in start.picture["keys"]], rel=1e-5)
    assert not sheet.is_visible("text=Add a key")  # what needs Python is not there
    proved = number(sheet, "shortest-norm")
    slid(sheet, "norm", "5.7")  # no such query is held: the page computes, and keeps what is proved of these keys
    assert number(sheet, "own-norm") == pytest.approx(5.7, abs=0.01)
    assert number(sheet, "shortest-norm") == proved
    own = copy.PAGE.answer(State({"q": address_word(sheet, "q")}, start=copy.PAGE.start))
    assert weights(sheet) == pytest.approx([row["weight"] for row in own.picture["keys"]], rel=1e-12)
    sheet.reload()  # a link to where a hand left the query
    settled(sheet)
    assert weights(sheet) == pytest.approx([row["weight"] for row in own.picture["keys"]], rel=1e-12)
    assert number(sheet, "shortest-norm") == proved
    sheet.locator("input[name=eps]").fill("9")  # eps = 1 is not held; 0.1 is nearer than 0.01
    settled(sheet)
    assert "eps=0.1" in sheet.url
    assert number(sheet, "shortest-norm") < proved
    dragged(sheet, "#point-4 .disc", -110, 10)  # into the hull of the others: nothing is stored for these keys
    assert "Computed by this page, not proved" in sheet.text_content("main")
    assert sheet.locator("[data-number=shortest-norm]").count() == 0
    there = copy.PAGE.answer(
        State({"keys": address_word(sheet, "keys"), "q": address_word(sheet, "q")}, start=copy.PAGE.start)
    )
    shown = [float(one.get_attribute("data-value")) for one in sheet.locator("[data-ceiling]").all()]
    assert shown == pytest.approx([row["ceiling"] for row in there.picture["keys"]], rel=1e-9)
    assert weights(sheet) == pytest.approx([row["weight"] for row in there.picture["keys"]], rel=1e-12)
    assert shown[4] < 0.5
    sheet.select_option("[name=start]", "three axes")
    settled(sheet)
    assert sheet.locator("table.keys tbody tr").count() == 3
    sheet.go_back()
    settled(sheet)
    assert sheet.locator("table.keys tbody tr").count() == 5
    sheet.click("nav a:has-text('Rank')")
    settled(sheet)
    assert sheet.url.split("#")[0].endswith("rank.html")
    slid(sheet, "rank", "7")
    assert "rank=7" in sheet.url
    assert sheet.locator("canvas.heat").count() == 3


@pytest.mark.slow
@pytest.mark.nightly
def test_the_tour_goes_along_and_all_pages_are_below_two_megabytes(sheet, tmp_path):
    """Every card in order, by the arrow keys; a task that is shown is ticked by what Python said of that state."""
    names = [name for name in pages() if name != "models" or find_spec("torch")]
    assert export(tmp_path / "out", pages=names).size < 2_000_000
    sheet.goto((tmp_path / "out" / "index.html").as_uri())
    sheet.click("text=Take the tour")
    shown = set()
    for i, card in enumerate(CARDS):
        sheet.wait_for_selector(f"#tour .aside:text-is('card {i + 1} of {len(CARDS)}')")
        settled(sheet)
        assert sheet.text_content("#tour .title") == f"{card.step}. {card.title}"
        assert all(task.do in sheet.text_content(f"#tour li >> nth={at}") for at, task in enumerate(card.tasks))
        assert (sheet.locator("#tour li.done").count(), sheet.locator("#tour .seen").count()) == (0, 0)
        sheet.click("#tour summary")
        assert [sheet.is_visible(f"#tour p:text-is({said!r})") for said in (card.seen, card.why)] == [True, True]
        for at in range(len(card.tasks)):
            if sheet.locator(f"#tour-show-{at}").count():
                sheet.click(f"#tour-show-{at}")
                sheet.wait_for_selector(f"#tour li >> nth={at} >> .tick[aria-label=done]")
                shown.add((card.name, at))
        sheet.focus("#tour")
        sheet.keyboard.press("ArrowRight")
    assert {(card.name, at) for card in CARDS for at in range(len(card.tasks))} - shown == {
        ("copying", 0),
        ("rank", 1),
        ("translator", 0),
    }
    sheet.keyboard.press("ArrowLeft")
    sheet.wait_for_selector(f"#tour .title:text-is('{CARDS[-2].step}. {CARDS[-2].title}')")
    sheet.keyboard.press("Escape")
    assert not sheet.is_visible("#tour")


def test_a_card_of_a_copy_notices_a_drag(small, sheet, tmp_path):
    export(tmp_path / "out", pages=["copy"])
    sheet.goto((tmp_path / "out" / "copy.html").as_uri())
    settled(sheet)
    sheet.click("#tour-open")
    sheet.wait_for_selector("table.keys tbody tr >> nth=0")
    settled(sheet)
    dragged(sheet, "#point-q", -100, 0)  # one key: its score is below 0 now
    assert "You did it." in sheet.text_content("#tour")
    sheet.click("#tour-next")
    sheet.wait_for_selector("#tour .title:text-is('2. Only differences count')")
    settled(sheet)
    dragged(sheet, "#point-q", -90, -60)  # across the diagonal
    assert sheet.locator("#tour li.done").count() == 1


def test_what_a_copy_says_is_done_is_what_python_says(sheet, small):
    """Of the tasks that scores and weights decide, at many queries, those near the limits among them."""
    sheet.add_script_tag(content=bundle(["/copy_offline.js"]).replace("const modules", "var modules"))
    told = []
    with Lab(port=0) as lab:
        for name, queries in {
            "one-key": ("2,1", "-3,1", "0,5", "-0.01,9"),
            "differences": ("3,1", "6,4", "4.5,2.5", "4.2,2.7", "4.8,2.1", "1,3", "2,2", "2,2.01", "9,1"),
            "ceiling": ("0,4", "0,0", "0.3,0.1", "1,0", "0,0.5"),
        }.items():
            card = next(card for card in CARDS if card.name == name)
            for query in queries:
                words = {**copy.PAGE.start, **card.start, "q": query}
                frame = plain(lab.answer("copy", words))
                ask = """([frame, words]) => modules["/copy_offline.js"].freeAnswer(frame, words, true).tour"""
                done = {key: frame["tour"][key] for key in ("one-key", "differences", "ceiling")}
                done["ceiling"] = [task for task in done["ceiling"] if task == 0]  # a ceiling above 1/2 needs a proof
                assert sheet.evaluate(ask, [frame, words]) == done, (name, query)
                told += [(name, at) for at in done[name]]
    assert set(told) == {("one-key", 0), ("differences", 0), ("differences", 1), ("ceiling", 0)}


def test_an_arrow_key_goes_on_to_the_next_state_that_is_held(small, sheet, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.lab.grids.SPREADS", ("0", "0.5", "0.8", "2"))
    monkeypatch.setattr("regard.lab.grids.SCALES", ("20", "40"))
    export(tmp_path / "out", pages=["copy", "noise"])
    sheet.goto((tmp_path / "out" / "noise.html").as_uri())
    settled(sheet)
    for key, spread in (
        ("Right", "0.8"),
        ("Right", "2"),
        ("Right", "2"),
        ("Left", "0.8"),
        ("Left", "0.5"),
        ("Left", "0"),
    ):
        sheet.press("input[name=spread]", f"Arrow{key}")
        settled(sheet)
        assert f"spread={spread}&" in sheet.url
        assert sheet.input_value("input[name=spread]") == spread
    for _ in range(8):  # faster than the answers come
        sheet.keyboard.press("ArrowRight", delay=0)
    settled(sheet)
    assert "spread=2&" in sheet.url
    sheet.press("input[name=scale]", "ArrowRight")
    settled(sheet)
    assert "scale=40" in sheet.url
    sheet.go_back()
    settled(sheet)
    assert "scale=20" in sheet.url
    sheet.goto((tmp_path / "out" / "copy.html").as_uri())
    settled(sheet)
    for norm in (3.7, 3.8):  # a query goes where it is sent
        sheet.press("input[name=norm]", "ArrowRight")
        settled(sheet)
        assert number(sheet, "own-norm") == pytest.approx(norm, abs=0.01)


def test_what_is_not_held_is_refused_in_one_sentence(small, sheet, tmp_path):
    export(tmp_path / "out", pages=["rank"])
    sheet.goto((tmp_path / "out" / "rank.html").as_uri())
    settled(sheet)
    assert not sheet.is_visible("#matrix")
    sheet.goto((tmp_path / "out" / "rank.html").as_uri() + "#matrix=example:nothing&rank=1")
    sheet.reload()
    settled(sheet)
    assert "holds only what was computed before" in sheet.text_content("#trouble")
    assert "The page is shown as it begins." in sheet.text_content("#trouble")


def unpacked(file):
    """The answers in a file of an export, as text."""
    letters = re.fullmatch(r'regardStored\.put\(\d+, "(.+)"\);\n', file.read_text(encoding="utf-8"))[1]
    return zlib.decompress(base64.b64decode(letters)).decode()


def test_hidden_answers_are_in_no_file(small, tmp_path):
    export(tmp_path / "whole", pages=["copy"])
    export(tmp_path / "hidden", pages=["copy"], hide=["answers"])
    for name, there in (("whole", True), ("hidden", False)):
        held = "".join(unpacked(file) for file in sorted((tmp_path / name / "data").iterdir()))
        assert ("shortest" in held, "design" in held) == (there, there)
        assert held.count('"weight"') > 50
        text = "".join(file.read_text(encoding="utf-8") for file in (tmp_path / name).glob("*/stored.js"))
        assert ("Weights are shares of a cake" in text) == there  # the tour, which explains
        assert ("#tour-" in (tmp_path / name / "index.html").read_text(encoding="utf-8")) == there
    claims = {shown for grid in grids("claims", frozenset({"answers"})) for shown in grid.axes["show"]}
    assert claims == {"picture"}


def test_a_page_of_one_piece_needs_no_files(sheet, tmp_path):
    page = single_file_page("copy", {"keys": "1,0; 0,1; 1,1", "q": "3,1", "to": "2"})
    assert not re.search(r'(?:src|href)="files/', page)
    (tmp_path / "page.html").write_text(f'<iframe srcdoc="{page.replace("&", "&amp;").replace(chr(34), "&quot;")}"'
                                        ' width="1200" height="760"></iframe>', encoding="utf-8")  # fmt: skip
    sheet.goto((tmp_path / "page.html").as_uri())
    frame = sheet.frames[1]
    frame.wait_for_selector("body[data-busy=no] table.keys")
    assert frame.locator("table.keys tbody tr").count() == 3
    frame.locator("input[name=norm]").fill("6")
    frame.wait_for_function("Math.abs(document.querySelector('[data-number=own-norm]').dataset.value - 6) < 0.01")


@pytest.mark.slow
def test_an_export_touches_no_folder_of_somebody_elses(small, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    with pytest.raises(InputError, match="mine is there already and not empty; name another, or --force"):
        export(tmp_path / "mine", pages=["rank"])
    with pytest.raises(InputError, match="mine is not an earlier export of the lab, and is left as it is"):
        export(tmp_path / "mine", pages=["rank"], force=True)
    with pytest.raises(InputError, match=r"notes.txt is a file, not a folder; name another\."):
        export(tmp_path / "mine" / "notes.txt", pages=["rank"])
    with pytest.raises(InputError, match=r"There is no folder .*nowhere to write out into; make it first"):
        export(tmp_path / "nowhere" / "out", pages=["rank"])
    with pytest.raises(InputError, match="There is no page sphere; the pages are copy, noise"):
        export(tmp_path / "out", pages=["sphere"])
    with pytest.raises(InputError, match="No page was named; the pages are copy, noise"):
        export(tmp_path / "out", pages=[])
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]
    export(tmp_path / "out", pages=["rank"])
    (tmp_path / "out" / "left.txt").write_text("from before")
    told = []
    export(tmp_path / "out", pages=["rank"], force=True, progress=lambda done, total: told.append((done, total)))
    assert not (tmp_path / "out" / "left.txt").exists()
    assert told[-1][0] == told[-1][1] == len(told)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine", "out"]  # nothing is left beside it


@pytest.mark.parametrize("name", ["copy", "noise", "order", "rank", "translator", "claims", "models"])
def test_the_first_state_of_a_page_is_its_start_and_every_state_can_be_read(name):
    held = grids(name)
    start = {word: value for word, value in pages()[name].start.items() if word != "do"}
    first = next(held[0].states())
    assert set(first) <= set(start)
    for grid in held:
        assert not set(grid.fixed) & set(grid.axes)
        assert all(len(set(values)) == len(values) for values in grid.axes.values())
        for action in grid.actions.values():
            count = len(grid.axes[action["word"]])
            assert len(action.get("numbers", [0] * count)) == count
    if name not in ("translator", "models", "copy"):
        assert {**first} == {word: start[word] for word in first}
    assert sum(1 for grid in held for _ in grid.states()) < 1500


@pytest.mark.slow
def test_a_start_of_the_page_on_copying_is_held():
    there = [next(grid.states()) for grid in grids("copy")]
    for name, words in page_actions("copy").items():
        assert words in there, name


def test_a_few_states_around_one():
    (line,) = nearby_grids("rank", {"matrix": "1,0; 0,1", "rank": "2"}, frozenset())
    assert line == Grid(fixed={"matrix": "1,0; 0,1"}, axes={"rank": ("2", "1", "3", "4", "5", "6", "7", "8")})


@pytest.mark.parametrize("options", [["--hide", "answers"], ["--runs", "mine"], ["--no-browser"]])
def test_options_before_the_verb_are_not_passed_over(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["regard", "lab", *options, "export", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "Options come behind the verb: regard lab export DIR --hide answers." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_script_that_cannot_be_bundled_is_refused(monkeypatch, tmp_path):
    (tmp_path / "odd.js").write_text('import * as all from "./parts.js";\n')
    monkeypatch.setattr("regard.lab.offline_copy.static_files", lambda: {"/odd.js": tmp_path / "odd.js"})
    with pytest.raises(ValueError, match=r"/odd.js: 'import \* as all from .* cannot be bundled"):
        bundle(["/odd.js"])
