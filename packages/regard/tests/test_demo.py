"""The tour: every stop's command, output and picture end up on one page; a stop that fails stops the tour."""

from __future__ import annotations

import json
import re
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from places import ROOT
from regard import demo
from regard.cli import app
from regard.errors import InputError

PICTURE = demo.Stop(
    title="Never",
    prose="The <centre> of a square.",
    command="regard design ceiling example:square 4 --plot never.svg",
    picture="never.svg",
)


@pytest.mark.slow
def test_the_page_shows_what_the_commands_said(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TOUR", (PICTURE, demo.Stop(command="regard --version")))
    said = []
    page = demo.demo(tmp_path / "tour", say=said.append).read_text()
    assert "at most 0.2 of the attention" in page
    assert "The &lt;centre&gt; of a square." in page
    assert page.count("<svg") == 1
    assert [line.split("]")[0] for line in said if line.startswith("[")] == ["[1/2", "[2/2"]


def quiet(tmp_path, monkeypatch, *stops, output=""):
    """The page of a tour whose commands are not run but say ``output``."""
    monkeypatch.setattr(demo, "TOUR", stops)
    monkeypatch.setattr(demo, "_run", lambda command, folder, say: output)
    return demo.demo(tmp_path, say=lambda line: None).read_text()


def test_everything_linked_exists(tmp_path, monkeypatch):
    (tmp_path / "more.html").write_text("more")
    page = quiet(
        tmp_path, monkeypatch, demo.Stop(title="More, and more?", command="regard", files=("more.html", "none.html"))
    )
    links = re.findall('href="([^"]*)"', page)
    assert links == ["#more-and-more", "#next", "more.html"]
    assert all(f'id="{link[1:]}"' in page if link.startswith("#") else (tmp_path / link).exists() for link in links)


def test_of_a_long_answer_the_end_is_shown_and_the_rest_folded(tmp_path, monkeypatch):
    page = quiet(tmp_path, monkeypatch, demo.Stop(title="Long", command="regard"), output="line <a>\n" * 60 + "the end")
    assert "<b>$ regard</b>\n...\nthe end</pre><details><summary>All 61 lines</summary>" in page
    assert page.count("line &lt;a&gt;") == 60


def test_two_variants_are_compared_by_phenomenon_the_largest_difference_first(tmp_path):
    for name, exact in (("learned-seed0", (0.5, 0.25)), ("positions=none-seed0", (0.45, 0.125))):
        rows = [
            {"name": word, "pairs": 1234, "exact": share} for word, share in zip(("gern", "<x>"), exact, strict=True)
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"run": f"runs/{name}", "by_phenomenon": rows}))
    table = demo.phenomenon_table(tmp_path)
    assert "<th>learned</th><th>positions=none</th>" in table
    assert table.index("<td>&lt;x&gt;</td><td>1,234</td><td>25%</td><td>12%</td>") < table.index("<td>gern</td>")
    assert "gern" not in demo.phenomenon_table(tmp_path, shown=1)
    (tmp_path / "learned-seed0.json").unlink()
    assert demo.phenomenon_table(tmp_path) == ""  # nothing was compared


@pytest.mark.slow
def test_the_page_says_what_to_do_next_with_commands_that_exist(tmp_path, monkeypatch):
    page = quiet(tmp_path, monkeypatch, demo.Stop(title="One", command="regard"))
    for wish in ("regard lab --runs", "regard claims average-of-two --answer", "regard translator train", "make docs"):
        assert wish in page
    following = page.partition("What to do next</h2>")[2]
    lines = re.findall(r"(?m)(?:<pre>|^)regard ([a-z]+(?: [a-z]+\b)?)", following)
    assert len(lines) > 5
    for words in lines:
        assert CliRunner().invoke(app, [*words.split(), "--help"]).exit_code == 0, words


def test_what_is_not_installed_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TOUR", (demo.Stop(title="Torch", command="regard --version", needs="no_such_package"),))
    assert "Left out: it needs  pip install" in demo.demo(tmp_path, say=lambda line: None).read_text()


@pytest.mark.slow
def test_the_report_of_a_second_tour_takes_the_place_of_the_first(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the report is of trained runs")
    tiny = "--set epochs=1 --set data.size=60 --set width=8 --set head_width=4 --set feed_forward=8"
    compare = demo.Stop(command=f"regard translator compare builtin --with learned --seeds 1 {tiny} --out translator")
    monkeypatch.setattr(demo, "TOUR", (compare, demo.TOUR[-1]))
    for _ in range(2):
        demo.demo(tmp_path, say=lambda line: None)
    assert (tmp_path / "translator.html").exists()


def test_a_stop_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TOUR", (demo.Stop(title="Wrong", command="regard design ceiling nothing.npy 4"),))
    with pytest.raises(InputError, match=r"The tour stopped at `regard design ceiling nothing.npy 4`: .*nothing\.npy"):
        demo.demo(tmp_path, say=lambda line: None)


def test_a_file_in_the_way_is_not_touched(tmp_path):
    (tmp_path / "tour").write_text("mine")
    with pytest.raises(InputError, match="is a file; the demo writes a folder"):
        demo.demo(tmp_path / "tour")
    assert (tmp_path / "tour").read_text() == "mine"


def test_the_tour_is_installed_from_a_lock_of_its_own_within_that_of_the_tests():
    """Everything that `regard[demo]` brings, torch apart, in the very files that the tests are run with."""
    demo_lock, lock = (read_lock(name) for name in ("requirements-demo.lock", "requirements.lock"))
    assert demo_lock.items() <= lock.items()
    assert packages_of("regard", "demo") - packages_of("torch") - {"torch"} <= demo_lock.keys()
    assert not {"transformers", "playwright", "mkdocs", "pytest", "optuna"} & demo_lock.keys()


def read_lock(name):
    """The packages of a lock file, each with its version and hashes."""
    blocks = re.split(r"^(?=[a-z0-9.-]+==)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(block.split("==", 1) for block in blocks if block)


def packages_of(name, *extras):
    """What the installed package needs, itself left out; packages by the names that lock files use."""
    found, todo = set(), [(name, extras)]
    while todo:
        package, wanted = todo.pop()
        for line in requires(package) or ():
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                if need.name not in found or need.extras:
                    todo.append((need.name, tuple(need.extras)))
                found.add(canonicalize_name(need.name))
    return found - {name}
