"""The separate check of winnable: a verdict that a recipe does not bear out is found among others that hold."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest

from regard.design.winnable_check import CheckedWinnable, verify_winnable
from regard.design.winnable_rows import winnable
from regard.errors import CouldNotFindOut, InputError

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
    """As floats the entries are one number, or none; with as many digits as are not tried a tie proves nothing."""
    rows, odd = np.array([[1.0, 0.0], [0.0, 1.0]]), flint.fmpz(2) ** power + 1
    for more, wins in [(1, power < 10_000), (0, False), (-1, False)]:
        proof = {"row": 0, "query": [str(odd + more), str(odd)]}
        assert verify_winnable(rows, claimed(rows, "q?", proof)).answer == wins


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
        near = np.abs([1 - point[0] - point[1], *point])[list(order)]
        proof = {"row": 3, "support": [0, 1, 2], "weights": near.tolist(), "radii": (near / 2).tolist()}
        assert verify_winnable(rows, claimed(rows, "???n", proof)).answer == inside


def test_three_rows_on_a_line_are_not_solved_for() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [0.5, 0.5]])
    proof = {"row": 3, "support": [0, 1, 2], "weights": [0.6, 0.3, 0.1]}
    assert list(verify_winnable(rows, claimed(rows, "???n", proof)).failed) == [3]


def test_every_addition_loses_what_it_can() -> None:
    """1 plus 120 products of just over half a unit in the last place for the row itself, of at most half for a rival.

    The first round up and the second are lost, so that in floats the rival is behind by more than half of what two
    sums of 121 products can err. Exactly it is not. With its mirror image beside each row the mean is 0.
    """
    unit, d = 2.0**-53, 120
    own, rival = np.full(d + 1, math.sqrt(1.01 * unit)), np.ones(d + 1)
    own[0] = 1.0
    rival[1:] = np.nextafter(unit / own[1], 0)
    exact = [Fraction(float(x)) for x in own]
    assert 0.99 * unit < exact[1] * Fraction(float(rival[1])) <= unit < exact[1] ** 2
    need = sum(x * x for x in exact) - sum(x * Fraction(float(y)) for x, y in zip(exact[1:], rival[1:], strict=True))
    rival[0] = math.nextafter(float(need), math.inf)
    rows = np.array([own, -own, rival, -rival])
    assert list(verify_winnable(rows, claimed(rows, "cc??")).failed) == [0, 1]


# three rows around a fourth in the plane, whose weights are solved for, and rows that win by their own query
HULL = np.array([[0.0, 0.0], [3.0, 0.1], [0.2, 2.9], [1.1, 0.9]])
ENCLOSED = {
    "row": 3, "kind": "enclosure", "support": [0, 1, 2], "weights": [0.34, 0.35, 0.3], "radii": [0.1, 0.1, 0.1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "holds"),
    [
        ("weights", [0.1, 0.1, 0.8], False),
        ("weights", [0.34, 0.35, -0.3], False),
        ("weights", [0.34, 0.35, True], False),
        ("weights", [0.34, 0.35], False),
        ("radii", [1e-9, 1e-9, 1e-9], False),
        ("radii", [0.1, 0.1, -0.1], False),
        ("radii", [0.1, 0.1, float("inf")], False),
        ("radii", [0.1, 0.1, "0.1"], False),
        ("radii", None, False),
        ("radii", [0.2, 0.2, 0.2], True),
        ("radii", [0.2, 0.2, 0.3], False),  # no less than its weight, so that this may be 0
        ("radii", [0.5, 0.5, 0.5], False),
        ("radii", [10**400] * 3, False),
        ("support", [True, 0, 2], False),
        ("support", [0, 1, True], False),
        ("support", [0, 1, 1], False),
        ("support", [], False),
        ("support", None, False),
        ("kind", "identical row", False),
        ("kind", "strict win", False),
        ("kind", None, False),
        ("query", [1.0, 1.0], False),
        ("note", "trust me", False),
    ],
)
def test_everything_a_combination_states_is_checked(field: str, value: Any, holds: bool) -> None:
    assert verify_winnable(HULL, claimed(HULL, "???n", ENCLOSED)).answer
    assert verify_winnable(HULL, claimed(HULL, "???n", {**ENCLOSED, field: value})).answer is holds


@pytest.mark.parametrize("changed", [{"radii": [0.0, 0.0]}, {"kind": "enclosure"}, {"kind": "identical row"}])
def test_exact_weights_have_no_radii_and_their_own_kind(changed: dict[str, Any]) -> None:
    proof = {"row": 4, "kind": "exact rationals", "support": [0, 2], "weights": ["1/2", "1/2"]}
    assert verify_winnable(SQUARE, claimed(SQUARE, "????n", proof)).answer
    assert list(verify_winnable(SQUARE, claimed(SQUARE, "????n", proof | changed)).failed) == [4]


@pytest.mark.parametrize("changed", [{"kind": "enclosure"}, {"support": [1]}, {"query": [True, -1.0]}, {"weights": []}])
def test_everything_a_win_states_is_checked(changed: dict[str, Any]) -> None:
    proof = {"row": 0, "kind": "strict win", "query": [-1.0, -1.0]}
    assert verify_winnable(SQUARE, claimed(SQUARE, "q????", proof)).answer
    assert list(verify_winnable(SQUARE, claimed(SQUARE, "q????", proof | changed)).failed) == [0]


@pytest.mark.parametrize("way", ["c", "w", "?"])
def test_a_proof_that_a_letter_does_not_need_fails(way: str) -> None:
    proof = {"row": 0, "query": [-1.0, -1.0]}
    assert list(verify_winnable(SQUARE, claimed(SQUARE, f"{way}????", proof)).failed) == [0]


@pytest.mark.parametrize("row", [4, 5, -1, True, 4.0, "4", None])
def test_a_proof_belongs_to_one_row(row: Any) -> None:
    proof = {"row": 4, "support": [0, 2], "weights": ["1/2", "1/2"]}
    with pytest.raises(InputError, match="two proofs of row"):
        verify_winnable(SQUARE, claimed(SQUARE, "????n", proof, {**proof, "row": row}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rows", 6), ("rows", True), ("rows", 5.0), ("dimensions", 3), ("dimensions", None), ("dtype", "float32"),
        ("dtype", None), ("legend", {}), ("legend", {"c": "never wins"}), ("resumed", -1), ("resumed", 6),
        ("resumed", True), ("resumed", "none"),
    ],
)  # fmt: skip
def test_what_is_stated_of_the_whole_matrix_is_checked(field: str, value: Any) -> None:
    certificate = winnable(SQUARE, jobs=1).to_dict()
    assert verify_winnable(SQUARE, certificate).answer
    checked = verify_winnable(SQUARE, {**certificate, field: value})
    assert list(checked.wrong) == [field]
    assert not checked.answer
    assert str(checked).startswith("The certificate does not hold: it states")


def test_what_no_row_can_tell_is_named() -> None:
    certificate = winnable(SQUARE, jobs=1).to_dict()
    assert "not checked: resumed" in str(verify_winnable(SQUARE, {**certificate, "resumed": 3}))
    assert "not checked" not in str(verify_winnable(SQUARE, certificate))
    with pytest.raises(InputError, match="a field 'note', which would stand there unchecked"):
        verify_winnable(SQUARE, {**certificate, "note": "trust me"})


@pytest.mark.parametrize("rows", [SQUARE[0], SQUARE[None]])
def test_rows_are_a_matrix(rows: np.ndarray) -> None:
    with pytest.raises(InputError, match="must be an n x d matrix"):
        verify_winnable(rows, winnable(SQUARE, jobs=1).to_dict())


@pytest.mark.parametrize("changed", [{"ways": 5}, {"proofs": {}}, {"proofs": [3]}, {"format": "regard winnable 2"}])
def test_what_is_no_certificate_of_winnable(changed: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="this is not a certificate of winnable"):
        verify_winnable(SQUARE, {**winnable(SQUARE, jobs=1).to_dict(), **changed})


@pytest.mark.parametrize("field", ["weights", "radii"])
def test_integers_in_a_proof_are_ones_that_float64_holds(field: str) -> None:
    proof = {**ENCLOSED, field: [0.3, 0.3, 2**53 + 1]}
    with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds, such as 9007199254740993"):
        verify_winnable(HULL, claimed(HULL, "???n", proof))
    win = {"row": 1, "kind": "strict win", "query": [2**53 + 1, 0]}
    with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds"):
        verify_winnable(HULL, claimed(HULL, "?q??", win))


@pytest.mark.parametrize("only", [[99], [5], [-1], [0.5], ["0"], [True], [0, None], []], ids=repr)
def test_only_rows_of_the_matrix_are_asked_for(only: list[Any]) -> None:
    with pytest.raises(InputError, match="only must be rows, whole numbers from 0 to 4"):
        verify_winnable(SQUARE, claimed(SQUARE, "cccc?"), only=only)


def test_rows_are_asked_for_in_numpys_numbers_too() -> None:
    assert verify_winnable(SQUARE, claimed(SQUARE, "cccc?"), only=np.array([3, 0, 3])).checked == 2


def test_where_nothing_was_decided_nothing_holds() -> None:
    with pytest.raises(CouldNotFindOut, match="Nothing was decided of the 5 rows, so there is nothing to check"):
        verify_winnable(SQUARE, claimed(SQUARE, "?????"))
    assert not verify_winnable(SQUARE, {**claimed(SQUARE, "?????"), "rows": 7}).answer  # that much is wrong
