"""One way of pictures: every ending, whole or not at all, the same bytes again, and a sentence where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from regard import attend, design, pictures
from regard.errors import InputError
from regard.results import Result

OPENINGS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


def drawn() -> Result:
    return design.copy(np.eye(2), 0, eps=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("ending", pictures.ENDINGS)
def test_every_ending_is_written_as_what_it_says(ending: str, tmp_path: Path) -> None:
    for name in (f"a{ending}", f"b{ending.upper()}"):
        drawn().plot(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(OPENINGS[ending])
    assert len(list(tmp_path.iterdir())) == 2, "nothing else is left in the folder"


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".png", ".pdf"])
def test_the_same_picture_is_the_same_file(ending: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        drawn().plot(tmp_path / f"{name}{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.svg"
    target.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, match=r"a\.svg could not be written: No space left on device"):
        drawn().plot(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_what_has_no_picture_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is nothing to draw in this Attention; print it instead"):
        attend([1.0], [[1.0]], [[1.0]]).plot(tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())


def test_a_wrong_name_is_refused_before_anything_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"must end in \.svg, \.png or \.pdf"):
        drawn().plot(tmp_path / "a.gif")
    with pytest.raises(InputError, match=r"Pictures need matplotlib; install it with: pip install 'regard\[plots\]'"):
        drawn().plot(tmp_path / "a.svg")
