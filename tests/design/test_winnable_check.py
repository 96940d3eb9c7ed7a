"""The separate check of winnable: a verdict that a recipe does not bear out is found among others that hold."""

from __future__ import annotations

import numpy as np
import pytest

from regard.design.winnable_check import CheckedWinnable, verify_winnable
from regard.design.winnable_rows import winnable

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])


@pytest.mark.parametrize("letter", ["c", "w"])
def test_one_wrong_recipe_among_right_verdicts_is_found(letter: str) -> None:
    """The centre never wins; c and w say that a query made by a recipe, centred or whitened, lets it win."""
    certificate = winnable(SQUARE, jobs=1).to_dict()
    assert verify_winnable(SQUARE, certificate).answer
    certificate["ways"] = certificate["ways"][:4] + letter
    assert list(verify_winnable(SQUARE, certificate).failed) == [4]


def test_undecided_rows_are_mentioned() -> None:
    assert "2 rows are undecided in it" in str(CheckedWinnable(checked=3, undecided=2, failed={}))
    assert "undecided" not in str(CheckedWinnable(checked=3, undecided=0, failed={}))
