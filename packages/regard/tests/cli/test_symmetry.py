"""``regard symmetry``: exit codes, JSON and pictures, for maps from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MAPS = """
def good(X):
    return 2 * X

def bad(X):
    X[0] += 1
    return X
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "maps.py").write_text(MAPS)
    return tmp_path / "maps.py"


def test_yes_as_json(regard, file: Path) -> None:
    code, out, _ = regard("symmetry", f"{file}:good", "--length", "7", "--json")
    assert (code, json.loads(out)["order_blind"]) == (0, True)


def test_no_with_a_picture(regard, file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "s.svg"
    code, out, _ = regard("symmetry", f"{file}:bad", "--length", "7", "--plot", picture)
    assert (code, out.startswith("bad is not order-blind")) == (1, True)
    assert "<svg" in picture.read_text()


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(regard, file: Path) -> None:
    code, _, said = regard("symmetry", f"{file}:none", "--plot", "s.nope")
    assert code == 2
    assert "must end in .svg, .png or .pdf" in said  # before the map is looked for
