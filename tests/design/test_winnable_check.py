"""The separate check of winnable: a verdict that a recipe does not bear out is found among others that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.design.winnable_check import CheckedWinnable, verify_winnable
from regard.design.winnable_rows import winnable
from regard.errors import InputError

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])


def claimed(rows: np.ndarray, ways: str, *proofs: dict[str, Any]) -> dict[str, Any]:
    """A certificate that says of these rows what it likes."""
    mark = winnable(rows, seconds=0, jobs=1).to_dict()
    return {**mark, "ways": ways, "proofs": list(proofs)}


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


def test_undecided_rows_are_counted_apart() -> None:
    checked = verify_winnable(SQUARE, claimed(SQUARE, "cc?c?"))
    assert (checked.checked, checked.undecided, checked.answer) == (3, 2, True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("way", ["c", "w"])
def test_rows_of_few_bits_are_compared_in_float64(dtype: type, way: str) -> None:
    """Each row is there twice, so none wins; in the rows' own arithmetic one of two equal scores is often larger."""
    once = np.random.default_rng(7).standard_normal((151, 13)).astype(dtype)
    rows = np.concatenate([once, once])
    assert sorted(verify_winnable(rows, claimed(rows, way * 302)).failed) == list(range(302))


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("rival", [0, 1])
def test_rounding_that_always_goes_the_same_way_makes_no_win(own: int, rival: int) -> None:
    """The last bits of all entries are 1010... or 0101..., so that nearly all additions round up, or nearly all down.

    One more entry makes the two scores equal, exactly.
    """
    d, entries = 8192, (1 + (2**40 * 2 // 3) * 2.0**-52, 1 + (2**40 // 3) * 2.0**-52)
    rows = np.ones((2, d + 1)) * [[entries[own]], [entries[rival]]]
    rows[:, d] = 0.0, d * (entries[own] - entries[rival])
    proof = {"row": 0, "query": [1.0] * (d + 1)}
    assert list(verify_winnable(rows, claimed(rows, "q?", proof)).failed) == [0]


def test_whole_numbers_that_float64_rounds_are_refused() -> None:
    for odd in (2**53 + 1, -(2**53) - 1):
        rows = np.array([[2**54, odd], [0, 1]])
        with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds"):
            verify_winnable(rows, claimed(rows.astype(float), "cc"))
    rows = np.array([[2**54, -(2**53)], [0, 1]])
    assert verify_winnable(rows, claimed(rows.astype(float), "cc")).answer


@pytest.mark.parametrize("size", [-1e200, -1e-200, 1e-200, 1e200])
@pytest.mark.parametrize("way", ["c", "w"])
def test_rows_of_any_size_are_compared(size: float, way: str) -> None:
    """The corners of a square win and its centre does not, also beside a coordinate of ordinary size."""
    for rows in (SQUARE * size, np.column_stack([np.ones(5), SQUARE * size + size])):
        assert list(verify_winnable(rows, claimed(rows, way * 5)).failed) == [4]


@pytest.mark.parametrize("way", ["c", "w"])
def test_rows_of_nothing_win_nothing(way: str) -> None:
    rows = np.zeros((3, 2))
    assert list(verify_winnable(rows, claimed(rows, way * 3)).failed) == [0, 1, 2]


@pytest.mark.parametrize("size", [1e-250, 1.0, 1e250])
def test_queries_of_any_size_are_compared(size: float) -> None:
    rows, query = 1e90 * SQUARE, [-size, -size]
    proofs = [{"row": j, "query": query} for j in range(5)]
    assert list(verify_winnable(rows, claimed(rows, "qqqqq", *proofs)).failed) == [1, 2, 3, 4]
