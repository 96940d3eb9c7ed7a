"""``regard positions``: exit codes, JSON and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest


def test_equal_positions_are_a_no(regard) -> None:
    code, out, _ = regard("positions", "--dim", "2", "--length", "1000", "--format", "bfloat16", "--json")
    said = json.loads(out)
    assert (code, said["equal"], said["distinct"]) == (1, [1, 711], False)


@pytest.mark.slow
def test_pictures(regard, tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    assert regard("positions", "--dim", "6", "--length", "9", "--plot", picture)[0] == 0  # no collision to draw
    code, out, _ = regard("positions", "--dim", "6", "--length", "300", "--plot", picture)
    assert (code, out.startswith("All distinct (")) == (0, True)
    assert picture.read_text().count("<svg") == 1
    np.save(tmp_path / "t.npy", np.eye(7, 3))
    code, out, _ = regard("positions", "--table", tmp_path / "t.npy", "--plot", picture)
    assert (code, "positions 3 and 4" in out) == (1, True)


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(regard) -> None:
    code, _, said = regard("positions", "--dim", "7", "--length", "9", "--plot", "p.nope")
    assert code == 2
    assert "must end in .svg, .png or .pdf" in said  # before the odd dimension is looked at
