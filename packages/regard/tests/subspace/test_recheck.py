"""The separate check of an extraction: forgeries that only one of its comparisons can catch."""

from __future__ import annotations

import dataclasses

import flint
import numpy as np
import pytest

from regard.subspace import extract
from regard.subspace.extraction import Extraction
from regard.subspace.recheck import (
    COUNTED,
    _exact_rank,
    _norm,
    _ranks_add_up,
    _reach,
    _unit,
    _vanishes_off,
    _visible_rank,
    _whole,
    check,
)

RNG = np.random.default_rng(11)
A, B = RNG.standard_normal((7, 2)), RNG.standard_normal((7, 3))
FOUND = extract(A, B)


def forged(matrix: np.ndarray, **fields: object) -> Extraction:
    """The extraction with another matrix and that matrix's own norm: nothing but M A = A or M B = 0 can be wrong."""
    return dataclasses.replace(FOUND, matrix=matrix, amplification=float(np.linalg.norm(matrix, 2)), **fields)


@pytest.mark.parametrize("part", ["A", "B"])
@pytest.mark.parametrize("size", [1e-9, 1e-4, 1e-1])
def test_what_the_matrix_does_to_the_spans_is_compared_with_the_residual(part: str, size: float) -> None:
    """Off by more than the stated residual on one of the spans, inside them, and with its norm stated rightly."""
    basis = A if part == "A" else B
    inside = np.linalg.pinv(np.hstack([A, B]))  # its rows lie in the two spans together
    row = inside[0 if part == "A" else 2]
    wrong = FOUND.matrix + size * np.outer(A[:, 0], row)
    assert np.abs((wrong - FOUND.matrix) @ basis).max() > 1e-11
    assert check(forged(FOUND.matrix), A, B)
    assert not check(forged(wrong), A, B)
    assert check(forged(wrong, residual=10 * size), A, B), "the same matrix with its residual stated is no lie"


def test_the_norm_is_compared_with_the_amplification() -> None:
    for factor in (0.5, 0.99999, 1.00001, 2.0):
        assert not check(dataclasses.replace(FOUND, amplification=factor * FOUND.amplification), A, B)
    for factor in (1 - 5e-7, 1 + 5e-7):  # as near as a norm from eigenvalues is trusted
        assert check(dataclasses.replace(FOUND, amplification=factor * FOUND.amplification), A, B)


@pytest.mark.parametrize("part", [0, 2])
def test_residuals_that_leave_room_prove_nothing_by_themselves(part: int) -> None:
    """Then only counting ranks exactly shows that the spans meet in 0 alone, and a tolerance forbids counting."""
    row = np.linalg.pinv(np.hstack([A, B]))[part]
    far = forged(FOUND.matrix + 3.0 * np.outer(A[:, 0], row), residual=30.0)
    assert check(far, A, B)
    assert not check(dataclasses.replace(far, tolerance=1e-9), A, B)


def test_ranks_are_counted() -> None:
    for ranks in ((1, 3), (2, 2), (3, 3), (2, 4)):
        assert not check(dataclasses.replace(FOUND, ranks=ranks), A, B)


def test_a_matrix_that_is_not_zero_off_the_spans_is_rejected() -> None:
    off = np.linalg.svd(np.hstack([A, B]))[0][:, -1]
    for size in (1e-7, 1.0):
        assert not check(forged(FOUND.matrix + size * np.outer(A[:, 0], off)), A, B)


def test_the_parts_of_the_check() -> None:
    M = np.diag([3.0, 4.0])
    assert _norm(M) == pytest.approx(4.0, rel=1e-14)
    assert _norm(1e200 * M) == pytest.approx(4e200, rel=1e-14)
    assert _norm(np.zeros((2, 2))) == 0
    assert _unit(np.array([[3.0, 0.0], [4.0, 0.0]])).tolist() == [[0.6], [0.8]], "columns of length 1, without zeros"
    assert _visible_rank(np.array([[1.0, 1.0], [0.0, 1e-13]])) == 1
    assert _visible_rank(np.array([[1.0, 1.0], [0.0, 1e-9]])) == 2
    assert _visible_rank(np.zeros((2, 0))) == 0
    assert _reach(np.array([[0.3], [0.4]]), np.array([[2.0], [0.0]]), 1) == pytest.approx(0.25)
    assert _reach(np.ones((2, 1)), np.ones((2, 1)), 0) == 0
    assert _whole([0.5, 0.75, -3.0]) == [2, 3, -12]
    e = np.eye(3)
    assert _vanishes_off(np.diag([1.0, 0, 0]), e[:, :2], 2)
    assert not _vanishes_off(np.diag([1.0, 0, 1e-6]), e[:, :2], 2)
    assert _vanishes_off(np.zeros((3, 3)), e[:, :0], 0)
    assert not _vanishes_off(np.diag([0.0, 0, 1]), e[:, :0], 0)
    assert not _vanishes_off(np.zeros((3, 3)), e[:, :2], 3), "there are not so many directions"


def test_counting_ranks_exactly() -> None:
    e = np.eye(5)
    assert _ranks_add_up((2, 2), e[:, :2], e[:, 2:4])
    assert not _ranks_add_up((2, 2), e[:, :2], e[:, 1:3]), "they share a direction"
    assert not _ranks_add_up((2, 1), e[:, :2], e[:, 2:4])
    assert not _ranks_add_up((1, 2), e[:, :2], e[:, 2:4])
    wide = np.eye(2 * COUNTED)
    assert _ranks_add_up((COUNTED - 1, 1), wide[:, 1:COUNTED], wide[:, :1])
    assert not _ranks_add_up((COUNTED, 1), wide[:, 1 : COUNTED + 1], wide[:, :1]), "too many columns to count"


def test_exact_witnesses_have_one_coefficient_per_column() -> None:
    a, b = np.eye(3)[:, :2], np.eye(3)[:, 1:]
    both = extract(a, b)
    assert check(both, a, b)
    for fields in ({"exact_from_a": ("0/1",)}, {"exact_from_b": ("1/1", "0/1", "0/1")}):
        assert not check(dataclasses.replace(both, witness=dataclasses.replace(both.witness, **fields)), a, b)


def test_witnesses_in_floats() -> None:
    """Where the coefficients are not exact, the common vector must be large and the two sides near each other."""
    both = extract(np.eye(3)[:, :2], np.eye(3)[:, 1:])
    a, b = np.eye(3)[:, :2], np.eye(3)[:, 1:]
    loose = dataclasses.replace(both.witness, exact_from_a=(), exact_from_b=(), residual=1e-9)
    assert check(dataclasses.replace(both, witness=loose), a, b)
    turned = dataclasses.replace(loose, vector=-loose.vector, from_a=-loose.from_a, from_b=-loose.from_b)
    assert check(dataclasses.replace(both, witness=turned), a, b), "a common vector has no sign"
    for off, right in ((1.5e-9, True), (2.5e-9, False)):  # twice the stated residual, for the rounding of both sides
        near = dataclasses.replace(loose, vector=loose.vector + off)
        assert check(dataclasses.replace(both, witness=near), a, b) == right
    assert not check(dataclasses.replace(both, witness=loose, exists=True), a, b)
    for fields in (
        {"vector": loose.vector * 0.4, "from_a": loose.from_a * 0.4, "from_b": loose.from_b * 0.4},
        {"from_a": loose.from_a + 1e-8},
        {"from_b": loose.from_b + 1e-8},
        {"vector": loose.vector + 1e-8},
        {"from_b": np.zeros(3)},
    ):
        assert not check(dataclasses.replace(both, witness=dataclasses.replace(loose, **fields)), a, b), fields


@pytest.mark.parametrize("place", range(3))
def test_a_common_vector_is_compared_in_every_coordinate(place: int) -> None:
    """Both sides agree on a vector; the one that is stated differs from it in one coordinate."""
    a, b = np.eye(3)[:, :2], np.eye(3)[:, 1:]
    both = extract(a, b)
    loose = dataclasses.replace(both.witness, exact_from_a=(), exact_from_b=(), residual=1e-9)
    vector = loose.vector.copy()
    vector[place] += 0.1
    assert not check(dataclasses.replace(both, witness=dataclasses.replace(loose, vector=vector)), a, b)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("entry", [(0, 0), (0, 1), (2, 2), (0, 2)])
def test_errors_of_either_sign_are_seen(entry: tuple[int, int], sign: int) -> None:
    """M on the first direction, along the second, and 0 on the third: one entry off by 0.1, and its norm stated."""
    e = np.eye(3)
    found = extract(e[:, :1], e[:, 1:2])
    matrix = found.matrix.copy()
    matrix[entry] += sign * 0.1
    lie = dataclasses.replace(found, matrix=matrix, amplification=float(np.linalg.norm(matrix, 2)))
    assert check(found, e[:, :1], e[:, 1:2])
    assert not check(lie, e[:, :1], e[:, 1:2])


def test_a_matrix_that_keeps_what_neither_span_holds_is_rejected() -> None:
    """The span is a line, by columns that say it twice; the identity is right on it and not 0 beside it."""
    a, b = np.array([[1.0, 2.0], [0.0, 0.0]]), np.zeros((2, 1))
    found = extract(a, b)
    assert check(found, a, b)
    assert not check(dataclasses.replace(found, matrix=np.eye(2)), a, b)


@pytest.mark.parametrize("angle", [1e-3, 1e-8, 1e-11, 1e-12])
def test_spans_that_all_but_meet_are_checked(angle: float) -> None:
    a, b = np.array([[1.0], [0.0], [0.0]]), np.array([[1.0], [angle], [0.0]])
    found = extract(a, b)
    assert found.amplification > 0.9 / angle
    assert check(found, a, b)


def test_entries_of_any_size_are_checked() -> None:
    """M has one entry of -1e200, and 1 for its largest."""
    a, b = np.array([[1.0], [0.0]]), np.array([[1e200], [1.0]])
    found = extract(a, b)
    assert found.matrix.tolist() == [[1.0, -1e200], [0.0, 0.0]]
    assert check(found, a, b)
    assert not check(dataclasses.replace(found, amplification=1.0), a, b)


@pytest.mark.parametrize("seed", range(30))
def test_ranks_by_elimination_are_flints(seed: int) -> None:
    """Products of two thin matrices of small whole numbers: their rank is small, and no row shows it."""
    rng = np.random.default_rng(seed)
    rows, columns, inner = rng.integers(1, 7, 3)
    matrix = (rng.integers(-3, 4, (rows, inner)) @ rng.integers(-3, 4, (inner, columns))).astype(float)
    assert _exact_rank(matrix) == flint.fmpz_mat(matrix.astype(int).tolist()).rank()
    assert _exact_rank(np.ldexp(matrix, rng.integers(-60, 60, (rows, 1)))) == _exact_rank(matrix)
