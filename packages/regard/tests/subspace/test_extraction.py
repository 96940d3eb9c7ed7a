"""Extraction against a slow exact oracle, its theorems, and perturbed certificates that must be rejected."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regard.errors import CouldNotFindOut, InputError
from regard.rigor import exact as exact_module
from regard.subspace import Extraction, check, extract
from regard.subspace.recheck import _exact_rank

D, P, Q = 7, 3, 2  # dimension and the two numbers of columns


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


# The oracle: Gauss-Jordan in fractions


def reduced(rows: list[list[Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    rows, pivots = [list(row) for row in rows], []
    for column in range(len(rows[0])):
        pivot = next((i for i in range(len(pivots), len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        here = len(pivots)
        rows[here], rows[pivot] = rows[pivot], rows[here]
        rows[here] = [x / rows[here][column] for x in rows[here]]
        for i in range(len(rows)):
            if i != here and rows[i][column]:
                rows[i] = [x - rows[i][column] * y for x, y in zip(rows[i], rows[here], strict=True)]
        pivots.append(column)
    return rows, pivots


def fractions(matrix: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(x) for x in row] for row in matrix.tolist()]


def slow_rank(matrix: np.ndarray) -> int:
    return len(reduced(fractions(matrix))[1])


def slow_projector(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """M by its definition: M [A B N] = [A 0 0], N a basis of what is orthogonal to both."""
    A, B = (m[:, reduced(fractions(m))[1]] for m in (A, B))
    both = np.hstack([A, B])
    if not both.size:
        return np.zeros((len(A), len(A)))
    table, pivots = reduced(fractions(both.T))
    free = [j for j in range(len(A)) if j not in pivots]
    null = []
    for f in free:
        vector = [Fraction(0)] * len(A)
        vector[f] = Fraction(1)
        for row, p in zip(table, pivots, strict=False):
            vector[p] = -row[f]
        null.append(vector)
    square = [row + [n[i] for n in null] for i, row in enumerate(fractions(both))]
    target = [row + [Fraction(0)] * (len(A) - A.shape[1]) for row in fractions(A)]
    # M S = T, so S^T M^T = T^T
    augmented = [[r[i] for r in square] + [r[i] for r in target] for i in range(len(A))]
    solved = reduced(augmented)[0]
    return np.array([[float(solved[j][len(A) + i]) for j in range(len(A))] for i in range(len(A))])


small = st.integers(-4, 4).map(float)


def bases(columns: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(float, (5, columns), elements=small)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(bases(3), bases(2))
def test_small_whole_numbers_equal_the_oracle(A: np.ndarray, B: np.ndarray) -> None:
    found = extract(A, B)
    ranks = slow_rank(A), slow_rank(B)
    common = sum(ranks) - slow_rank(np.hstack([A, B]))
    assert found.tolerance is None
    assert found.ranks == ranks
    assert found.common == common
    assert found.answer == (common == 0)
    assert check(found, A, B)
    if common:
        assert found.witness is not None
        assert np.abs(found.witness.vector).max() == 1
        x = [exact_module.read(text) for text in found.witness.exact_from_a]
        vector = [sum(Fraction(m) * c for m, c in zip(row, x, strict=True)) for row in A.tolist()]
        for basis, rank in zip((A, B), ranks, strict=True):
            extended = [[*row, v] for row, v in zip(fractions(basis), vector, strict=True)]
            assert len(reduced(extended)[1]) == rank  # it lies in both spans
    else:
        np.testing.assert_allclose(found.matrix, slow_projector(A, B), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [(P, Q), (1, 1), (5, 2), (7, 4)])
def test_gaussian_bases_equal_the_oracle(columns: tuple[int, int]) -> None:
    p, q = columns
    d = 2 * (p + q) - 1
    A, B = normal(d, p), normal(d, q, seed=1)
    found = extract(A, B)
    np.testing.assert_allclose(found.matrix, slow_projector(A, B), atol=1e-12)
    assert found.residual < 1e-13
    assert check(found, A, B)


def test_the_matrix_recovers_the_part() -> None:
    A, B = normal(D, P), normal(D, Q, seed=1)
    M = extract(A, B).matrix
    part_a, part_b = A @ normal(P, 13, seed=2), B @ normal(Q, 13, seed=3)
    np.testing.assert_allclose(M @ (part_a + part_b), part_a, atol=1e-13)
    np.testing.assert_allclose(M @ M, M, atol=1e-13)


def test_orthonormal_bases_give_the_matrix_of_the_coursework() -> None:
    columns = np.linalg.qr(normal(D, P + Q))[0]
    A, B = columns[:, :P], columns[:, P:]
    found = extract(A, B)
    np.testing.assert_allclose(found.matrix, A @ A.T, atol=1e-15)
    assert found.coursework
    assert "It is A A^T, the coursework's" in str(found)
    assert found.amplification == pytest.approx(1, abs=1e-14)
    assert not extract(2 * A, B).coursework
    np.testing.assert_allclose(extract(2 * A, B).matrix, A @ A.T, atol=1e-15)  # the span is what counts


@pytest.mark.parametrize("angle", [math.pi / 2, 1.0, 0.1, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15])
def test_amplification_is_one_over_the_sine_of_the_smallest_angle(angle: float) -> None:
    """In a rotated plane pair with known angles; below 1e-5 only exact arithmetic keeps digits."""
    A = np.array([[1.0, 0], [0, 1.0], [0, 0], [0, 0]])
    B = np.array([[math.cos(angle), 0], [0, math.cos(1.3)], [math.sin(angle), 0], [0, math.sin(1.3)]])
    found = extract(A, B)
    np.testing.assert_allclose(found.angles, sorted([angle, 1.3]), rtol=1e-9, atol=0)
    assert found.amplification == pytest.approx(1 / math.sin(min(angle, 1.3)), rel=1e-9)
    assert check(found, A, B)


def test_amplification_is_attained_by_some_noise() -> None:
    A, B = normal(D, P), normal(D, Q, seed=1)
    found = extract(A, B)
    noise = np.linalg.svd(found.matrix)[2][0]
    assert np.linalg.norm(found.matrix @ noise) == pytest.approx(found.amplification, rel=1e-12)
    random = normal(D, 10_007, seed=2)
    assert (np.linalg.norm(found.matrix @ random, axis=0) <= found.amplification * np.linalg.norm(random, axis=0)).all()


def test_exact_arithmetic_sees_what_tolerances_do_not() -> None:
    """Three floats that look collinear are not."""
    found = extract([0.1, 0.3], [0.3, 0.9])
    assert found.answer
    assert found.amplification == pytest.approx(2.16e16, rel=1e-2)
    assert "of no practical use" in str(found)
    assert check(found, [0.1, 0.3], [0.3, 0.9])
    by_tolerance = extract([0.1, 0.3], [0.3, 0.9], tolerance=1e-9)
    assert not by_tolerance.answer
    assert "which is not a proof" in str(by_tolerance)
    assert check(by_tolerance, [0.1, 0.3], [0.3, 0.9])
    assert not extract([0.1, 0.3], [0.2, 0.6]).answer  # twice the same floats: truly one line


def test_dependent_columns_and_zero_columns() -> None:
    A = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    B = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    found = extract(A, B)
    assert found.ranks == (1, 1)
    assert found.matrix.tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert check(found, A, B)
    nothing = extract(np.zeros((3, 2)), B)
    assert nothing.ranks == (0, 1)
    assert nothing.amplification == 0
    assert not nothing.matrix.any()
    assert check(nothing, np.zeros((3, 2)), B)
    alone = extract(A, np.zeros((3, 1)))
    np.testing.assert_allclose(alone.matrix, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 0]], atol=1e-15)
    assert check(alone, A, np.zeros((3, 1)))
    assert check(extract(np.zeros((3, 1)), np.zeros((3, 1))), np.zeros((3, 1)), np.zeros((3, 1)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-300, 300), min_size=P + Q, max_size=P + Q), st.integers(0, 99))
def test_sizes_of_columns_do_not_matter(exponents: list[int], seed: int) -> None:
    A, B = normal(D, P, seed=seed), normal(D, Q, seed=seed + 100)
    sizes = 2.0 ** np.array(exponents)
    scaled = extract(A * sizes[:P], B * sizes[P:])
    np.testing.assert_allclose(scaled.matrix, extract(A, B).matrix, rtol=0, atol=1e-9 * scaled.amplification)
    assert check(scaled, A * sizes[:P], B * sizes[P:])


def test_too_many_dimensions_always_intersect() -> None:
    A, B = normal(D, 4), normal(D, 5, seed=1)
    found = extract(A, B)
    assert not found.answer
    assert found.common == 2
    assert (found.angles[:2] == 0).all()
    assert found.angles[2] > 0
    x, y = ([exact_module.read(t) for t in texts] for texts in (found.witness.exact_from_a, found.witness.exact_from_b))
    left = [sum(Fraction(m) * c for m, c in zip(row, x, strict=True)) for row in A.tolist()]
    assert left == [sum(Fraction(m) * c for m, c in zip(row, y, strict=True)) for row in B.tolist()]
    assert max(left, key=abs) == 1
    assert check(found, A, B)


def test_large_bases_are_decided_exactly_when_independent() -> None:
    A, B = normal(211, 71), normal(211, 73, seed=1)
    found = extract(A, B)
    assert found.answer
    assert found.tolerance is None
    assert found.residual < 1e-12
    assert check(found, A, B)


def test_large_intersections() -> None:
    A, B = normal(131, 67), normal(131, 69, seed=1)  # 136 > 131: counting proves it
    found = extract(A, B)
    assert not found.answer
    assert found.common == 5
    assert found.tolerance is None
    assert found.witness.residual < 1e-12
    assert check(found, A, B)
    B = normal(173, 131, seed=1)
    A = np.hstack([normal(173, 10), B[:, :1]])  # 142 columns, deficient: float64 and a tolerance
    by_tolerance = extract(A, B)
    assert not by_tolerance.answer
    assert by_tolerance.common == 1
    assert by_tolerance.tolerance is not None
    assert check(by_tolerance, A, B)


def test_tolerance_decides_ranks_of_measured_data() -> None:
    A = normal(D, P)
    noisy = np.hstack([A, A[:, :1] + 1e-9 * normal(D, 1, seed=4)])
    B = normal(D, Q, seed=1)
    assert extract(noisy, B).ranks == (4, Q)
    found = extract(noisy, B, tolerance=1e-6)
    assert found.ranks == (P, Q)
    np.testing.assert_allclose(found.matrix, extract(A, B).matrix, atol=1e-7)


def test_large_and_nearly_intersecting_could_not_be_found() -> None:
    B = normal(101, 37, seed=1)
    A = B[:, :1] + 1e-13 * normal(101, 1)
    with pytest.raises(CouldNotFindOut, match="so nearly that float64 cannot hold the matrix"):
        extract(A, B)
    assert not extract(A, B, tolerance=1e-9).answer


def test_principal_angles_small_and_large_together() -> None:
    """Where scipy.linalg.subspace_angles keeps only half the digits of the small one."""
    A = np.eye(6)[:, :3]
    angles = np.array([1e-7, 0.3, 1.4])
    B = np.vstack([np.diag(np.cos(angles)), np.diag(np.sin(angles))])
    turn = np.linalg.qr(normal(6, 6))[0]
    found = extract(turn @ A, turn @ B @ normal(3, 3, seed=2), tolerance=1e-12)
    np.testing.assert_allclose(found.angles, angles, rtol=1e-7, atol=2e-15)


def test_numbers_beyond_float64_could_not_be_found() -> None:
    with pytest.raises(CouldNotFindOut, match="its entries exceed the range of float64"):
        extract([1.0, 0.0], [1.0, 5e-324])


def test_enormous_coefficients_stay_exact() -> None:
    A, B = np.array([[5e-324], [0.0]]), np.array([[1e300], [0.0]])
    found = extract(A, B)
    assert not found.answer
    assert found.witness.from_a[0] == np.inf  # the float cannot hold it, the fraction does
    assert check(found, A, B)
    assert json.loads(found.to_json())["witness"]["from_a"] == ["inf"]


# Certificates: a perturbed one is rejected


def test_perturbed_matrices_are_rejected() -> None:
    A, B = normal(D, P), normal(D, Q, seed=1)
    found = extract(A, B)
    for i, j in [(0, 0), (3, 6), (6, 2)]:
        matrix = found.matrix.copy()
        matrix[i, j] += 1e-6
        assert not check(dataclasses.replace(found, matrix=matrix), A, B)
    outside = np.linalg.svd(np.hstack([A, B]))[0][:, -1]
    wider = found.matrix + 1e-3 * np.outer(A[:, 0], outside)  # still M A = A and M B = 0
    assert not check(dataclasses.replace(found, matrix=wider, amplification=float(np.linalg.norm(wider, 2))), A, B)
    assert not check(dataclasses.replace(found, amplification=found.amplification * 0.99), A, B)
    assert not check(dataclasses.replace(found, matrix=None), A, B)
    assert not check(found, A + 1e-6, B)
    assert not check(found, A, B + 1e-6)
    assert not check(found, A[:-1], B[:-1])


def test_a_claim_about_intersecting_spans_is_rejected() -> None:
    A, B = np.eye(3)[:, :2], np.eye(3)[:, 1:]
    honest = extract(A, B)
    lie = dataclasses.replace(
        honest, exists=True, matrix=np.diag([1.0, 0.0, 0.0]), witness=None, amplification=1.0, residual=9.0
    )
    assert not check(lie, A, B)
    assert not check(dataclasses.replace(honest, exists=True), A, B)


def test_perturbed_witnesses_are_rejected() -> None:
    A, B = np.eye(3)[:, :2], np.eye(3)[:, 1:]
    found = extract(A, B)
    assert check(found, A, B)
    change = dataclasses.replace
    for witness in (
        change(found.witness, exact_from_a=("0/1", "1000001/1000000")),
        change(found.witness, exact_from_a=("0/1", "0/1"), exact_from_b=("0/1", "0/1"), vector=np.zeros(3)),
        change(found.witness, vector=np.array([0.0, 1.0, 1e-9])),
        change(found.witness, exact_from_a=(), from_a=np.array([1.0, 1.0])),
        change(found.witness, from_a=np.ones(3)),
    ):
        assert not check(change(found, witness=witness), A, B)


@settings(max_examples=100, deadline=None)
@given(bases(4))
def test_the_checkers_own_rank_equals_the_oracle(matrix: np.ndarray) -> None:
    assert _exact_rank(matrix / 3) == slow_rank(matrix / 3)
    assert exact_module.rank(matrix / 3) == slow_rank(matrix / 3)


# What it says


def test_paragraph_and_json() -> None:
    found = extract([[1.0], [0.0]], [[1.0], [1.0]])
    assert str(found) == (
        "Yes: M recovers v_a from v_a + v_b. "
        "M = [[ 1., -1.], [ 0.,  0.]]. It amplifies noise by at most 1.41422, smallest angle 45 degrees.\n"
        "Decided in exact arithmetic on the stored numbers."
    )
    assert found.details() == (
        "A spans 1 and B spans 1 of 2 dimensions. Largest error of M A = A and M B = 0 in float64: 0."
    )
    assert json.loads(found.to_json())["matrix"] == [[1, -1], [0, 0]]
    no = extract(np.eye(2), [[1.0], [1.0]])
    assert "No: the spans share 1 dimension, among them [1. 1.], which M would have to send both" in str(no)
    assert isinstance(no, Extraction)
    assert json.loads(no.to_json())["amplification"] == "inf"


@pytest.mark.parametrize(
    ("A", "B", "options", "message"),
    [
        (np.ones((3, 1)), np.ones((2, 1)), {}, "A's columns have 3 entries and B's have 2; both must lie in one space"),
        (np.ones((2, 1)), [[1.0], [np.nan]], {}, "B: row 1, column 0 (counted from 0) is nan"),
        (np.ones((2, 1)), np.ones((1, 2, 2)), {}, "B must have 1 or 2 dimensions but has shape (1, 2, 2)."),
        (np.ones((2, 1)), np.ones((2, 0)), {}, "B has shape (2, 0)"),
        (np.ones(2), np.ones(2), {"tolerance": 0.0}, "tolerance must lie between 0 and 1 but is 0.0"),
        (np.ones(2), np.ones(2), {"tolerance": math.nan}, "tolerance must lie between 0 and 1 but is nan"),
    ],
)
def test_bad_input(A: np.ndarray, B: np.ndarray, options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        extract(A, B, **options)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_picture(tmp_path: Path, suffix: str) -> None:
    extract(normal(D, P), normal(D, Q, seed=1)).plot(tmp_path / f"p{suffix}")
    assert (tmp_path / f"p{suffix}").stat().st_size > 5_000


def test_picture_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = extract([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(InputError, match=r"must end in \.svg, \.png or \.pdf"):
        found.plot(tmp_path / "p.docx")
    with pytest.raises(InputError, match="There is nothing to draw in this Extraction"):
        extract(np.eye(2), np.eye(2)).plot(tmp_path / "p.svg")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=re.escape("pip install 'regard[plots]'")):
        found.plot(tmp_path / "p.svg")
    assert not list(tmp_path.iterdir())
