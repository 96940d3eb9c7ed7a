"""The tour: every stop's command, output and picture end up on one page; a stop that fails stops the tour."""

from __future__ import annotations

import pytest

from regard import demo
from regard.errors import InputError

PICTURE = demo.Stop(
    "Never", "The <centre> of a square.", "regard design ceiling example:square 4 --plot never.svg", "never.svg"
)


def test_the_page_shows_what_the_commands_said(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TOUR", (PICTURE, demo.Stop("", "", "regard --version")))
    said = []
    page = demo.demo(tmp_path / "tour", say=said.append).read_text()
    assert "at most 0.2 of the attention" in page
    assert "The &lt;centre&gt; of a square." in page
    assert page.count("<svg") == 1
    assert [line.split("]")[0] for line in said if line.startswith("[")] == ["[1/2", "[2/2"]


def test_a_page_that_a_stop_writes_is_linked(tmp_path, monkeypatch):
    (tmp_path / "more.html").write_text("more")
    monkeypatch.setattr(demo, "TOUR", (demo.Stop("More", "", "regard --version", page="more.html"),))
    assert '<a href="more.html">' in demo.demo(tmp_path, say=lambda line: None).read_text()


def test_what_is_not_installed_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TOUR", (demo.Stop("Torch", "", "regard --version", needs="no_such_package"),))
    assert "Left out: it needs  pip install" in demo.demo(tmp_path, say=lambda line: None).read_text()


def test_a_stop_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TOUR", (demo.Stop("Wrong", "", "regard design ceiling nothing.npy 4"),))
    with pytest.raises(InputError, match=r"The tour stopped at `regard design ceiling nothing.npy 4`: .*nothing\.npy"):
        demo.demo(tmp_path, say=lambda line: None)


def test_a_file_in_the_way_is_not_touched(tmp_path):
    (tmp_path / "tour").write_text("mine")
    with pytest.raises(InputError, match="is a file; the demo writes a folder"):
        demo.demo(tmp_path / "tour")
    assert (tmp_path / "tour").read_text() == "mine"
