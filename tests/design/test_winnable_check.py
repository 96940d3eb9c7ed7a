"""The separate check of winnable: a verdict that a recipe does not bear out is found among others that hold."""

from __future__ import annotations

import itertools
from typing import Any

import flint
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


def test_every_row_counts_in_a_long_matrix() -> None:
    """Of 4099 rows only the last one scores more than the first."""
    rows = np.zeros((4099, 2))
    rows[0], rows[-1] = (1.0, 0.0), (2.0, 0.0)
    proof = {"row": 0, "query": [1.0, 0.0]}
    assert list(verify_winnable(rows, claimed(rows, "q" + "?" * 4098, proof)).failed) == [0]
    rows[-1] = 0.5, 0.0
    assert verify_winnable(rows, claimed(rows, "q" + "?" * 4098, proof)).answer


@pytest.mark.parametrize("columns", list(itertools.permutations(range(3))))
def test_scores_that_floats_lose_are_compared_all_the_same(columns: tuple[int, ...]) -> None:
    """2^60 + s - 2^60 may be 0 in floats, whether it is the row's own score or a rival's."""
    big = 2.0**60
    for own, rival, wins in [(-3, -2, False), (-2, -3, True), (3, 2, True), (2, 3, False), (2, 2, False)]:
        for rows in ([[big, own, -big], [0, rival, 0]], [[0, own, 0], [big, rival, -big]]):
            mixed = np.array(rows, dtype=float)[:, columns]
            proof = {"row": 0, "query": [1.0, 1.0, 1.0]}
            assert verify_winnable(mixed, claimed(mixed, "q?", proof)).answer == wins


def test_two_rows_so_small_that_their_scores_are_nothing() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1e-140], [0.0, 1e-140]])
    proof = {"row": 1, "query": [-1e-200, 1e-200]}
    assert list(verify_winnable(rows, claimed(rows, "?q?", proof)).failed) == [1]


@pytest.mark.parametrize("power", [20, 100, 400, 900])
def test_a_lead_is_seen_at_any_number_of_digits(power: int) -> None:
    """The scores are 2^p + s - 2^p with s of size 2^-p, so that only 2 p digits tell who leads."""
    high, low = 2.0**power, 2.0**-power
    for lead, wins in [(1, True), (0, False), (-1, False)]:
        rows = np.array([[high, (2 + lead) * low, -high], [0.0, 2 * low, 0.0]])
        for query in ([1.0, 1.0, 1.0], ["1", "1", "1"]):
            assert verify_winnable(rows, claimed(rows, "q?", {"row": 0, "query": query})).answer == wins


@pytest.mark.parametrize("power", [54, 700, 60_000])
def test_whole_queries_are_taken_with_all_their_digits(power: int) -> None:
    """As floats the entries 2^p + 1 and 2^p are one number, or none; with so many digits a tie proves nothing."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    for first, wins in [(2**power + 1, True), (2**power, False), (2**power - 1, False)]:
        if power > 10_000 and wins:
            continue  # more digits than are tried
        query = [str(flint.fmpz(first)), str(flint.fmpz(2**power))]
        assert verify_winnable(rows, claimed(rows, "q?", {"row": 0, "query": query})).answer == wins


def test_a_whole_query_must_beat_every_other_row() -> None:
    rows = np.array([[2.0], [1.0], [3.0]])
    proofs = [{"row": j, "query": ["7"]} for j in range(3)]
    assert list(verify_winnable(rows, claimed(rows, "qqq", *proofs)).failed) == [0, 1]


@pytest.mark.parametrize("query", [[np.inf, 1.0], [np.nan, 1.0], [1.0, -np.inf], ["1", 1.0], ["inf", "1"]])
def test_a_query_of_more_than_numbers_proves_nothing(query: list[Any]) -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.0]])
    assert list(verify_winnable(rows, claimed(rows, "q?", {"row": 0, "query": query})).failed) == [0]


@pytest.mark.parametrize(
    ("row", "support", "weights"),
    [
        (0, [4, 2], ["2", "-1"]),  # a corner, beyond the centre from the other corner
        (4, [2], ["1/2"]),  # half of a corner is the centre
        (4, [0, 2], ["1/4", "1/2"]),
        (4, [0, 2], ["1/2", 0.5]),  # neither rationals nor three rows
        (4, [0, 9999], ["1/2", "1/2"]),
        (4, [0, 2.0], ["1/2", "1/2"]),
        (4, [0, 2], 5),
        (4, 5, ["1/2", "1/2"]),
    ],
)
def test_rows_and_weights_that_are_no_combination(row: int, support: Any, weights: Any) -> None:
    ways = "?" * row + "n" + "?" * (4 - row)
    proof = {"row": row, "support": support, "weights": weights}
    assert list(verify_winnable(SQUARE, claimed(SQUARE, ways, proof)).failed) == [row]


def test_weights_with_different_denominators() -> None:
    rows = np.array([[6.0, 0.0], [0.0, 6.0], [-6.0, -6.0], [2.0, 1.0]])
    for weights, holds in [(["1/2", "1/3", "1/6"], True), (["1/3", "1/3", "1/3"], False)]:
        proof = {"row": 3, "support": [0, 1, 2], "weights": weights}
        assert verify_winnable(rows, claimed(rows, "???n", proof)).answer == holds


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_three_rows_around_a_point_or_beside_it(order: tuple[int, ...]) -> None:
    """With weights as floats the combination is solved for: one negative weight, in any place, and it is none."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[list(order)]
    tiny = 2.0**-100
    for point, inside in [([0.25, 0.25], True), ([0.5, tiny], True), ([0.5, -tiny], False), ([1, 1], False)]:
        rows = np.vstack([corners, point])
        proof = {"row": 3, "support": [0, 1, 2], "weights": [0.3, 0.3, 0.4]}
        assert verify_winnable(rows, claimed(rows, "???n", proof)).answer == inside


def test_three_rows_on_a_line_are_not_solved_for() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [0.5, 0.5]])
    proof = {"row": 3, "support": [0, 1, 2], "weights": [0.6, 0.3, 0.1]}
    assert list(verify_winnable(rows, claimed(rows, "???n", proof)).failed) == [3]
