"""Linear systems and combinations solved with proof, where rounding or a forged weight could make the proof false."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

from regard import rigor
from regard.rigor import combinations

FINE = 1 + 2.0**-30  # its square is 1 + 2^-29 as a float, and 2^-60 is lost


def solution(A: np.ndarray, b: np.ndarray) -> list[Fraction]:
    def rational(x: float) -> flint.fmpq:
        return flint.fmpq(*float(x).as_integer_ratio())

    left = flint.fmpq_mat([[rational(x) for x in row] for row in A])
    right = flint.fmpq_mat([[rational(x)] for x in b])
    return [Fraction(int(x.p), int(x.q)) for x in left.solve(right).entries()]


def holds(mid: np.ndarray, rad: np.ndarray, exact: list[Fraction]) -> bool:
    found = zip(mid.tolist(), rad.tolist(), exact, strict=True)
    return all(abs(Fraction(m) - x) <= Fraction(r) for m, r, x in found)


def test_a_residual_that_floats_do_not_see_is_paid_for() -> None:
    """At x = (FINE, FINE, FINE, 1) the compensated residual is 0; the exact one is 2^-115 (see the worst cases)."""
    A = np.eye(4)
    A[0] = FINE, FINE * 2.0**-55, -FINE, -(1 + 2.0**-29) * 2.0**-55
    b = np.array([0.0, FINE, FINE, 1.0])
    exact = solution(A, b)
    solved = rigor.solve_enclosure(A, b)
    assert solved is not None
    mid, rad = solved
    assert holds(mid, rad, exact)
    assert rad.max() < 1e-15


def distance(R: np.ndarray, A: np.ndarray) -> Fraction:
    """||I - RA||_inf, exactly."""
    left, right = ([[Fraction(float(x)) for x in row] for row in matrix] for matrix in (R, A.T))
    product = [
        [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in right] for row in left
    ]
    return max(sum(abs(x - (i == j)) for j, x in enumerate(row)) for i, row in enumerate(product))


@pytest.mark.parametrize("seed", range(12))
def test_the_distance_from_the_identity_is_not_below_the_exact_one(seed: int) -> None:
    """Of inverses of badly conditioned matrices, where the rounding of R A is as large as what is seen of it."""
    rng = np.random.default_rng(seed)
    m = 2 + seed % 5
    A = rng.standard_normal((m, 1)) @ rng.standard_normal((1, m)) + 1e-9 * rng.standard_normal((m, m))
    A = A if m == 2 else A + rng.standard_normal((m, m)) * (rng.random((m, m)) < 0.5)
    R = np.linalg.inv(A)
    assert distance(R, A) <= Fraction(combinations._distance_from_identity(R, A))


@pytest.mark.parametrize("m", [1, 2, 9])
def test_distances_of_either_sign_and_of_a_third(m: int) -> None:
    """Three times the float next to 1/3 is 1 in floats and not otherwise; and what is too little counts as too much."""
    third = np.eye(m) / 3
    assert 0 < distance(third, 3 * np.eye(m)) <= Fraction(combinations._distance_from_identity(third, 3 * np.eye(m)))
    for off in (-0.25, 0.25):
        R = np.eye(m) + off * np.tril(np.ones((m, m)))
        R[0, -1] -= off  # where the row is longer, one of each sign
        assert distance(R, np.eye(m)) <= Fraction(combinations._distance_from_identity(R, np.eye(m)))


def test_points_whose_differences_are_rounded_stand_for_themselves() -> None:
    """Three points in a strip 2^-30 wide: what the differences to the target lose moves the weights by far more."""
    thin = 2.0**-30
    P = np.array([[1.0, 1.0 + thin], [-1.0, -1.0 + thin], [0.5, 0.5 - thin]])
    for t in ([0.1, 0.1 + 2.0**-40], [2.0**-55, 2.0**-70], [0.0, 2.0**-60], [2.0**-54, 0.0]):
        w = np.array([0.3, 0.3, 0.4])
        basis = np.arange(3)
        exact = rigor.exact_combination(P, t, w, basis)
        assert exact is not None
        assert all(x > 0 for x in exact)
        enclosed = rigor.enclose_combination(P, t, w, basis)
        assert enclosed is not None
        assert holds(*enclosed, [Fraction(int(x.p), int(x.q)) for x in exact])


@pytest.mark.parametrize("place", [2, 3])
@pytest.mark.parametrize("weight", [0.0, -0.125])
def test_weights_outside_the_basis_are_what_they_are(place: int, weight: float) -> None:
    """One that is zero is not positive, one that is negative is not allowed; the basis could make up for both."""
    P, t, basis = np.array([[0.0], [4.0], [1.0], [2.0]]), [1.5], np.array([0, 1])
    w = np.array([0.5, 0.25, 0.125, 0.125])
    assert rigor.enclose_combination(P, t, w, basis) is not None
    assert rigor.exact_combination(P, t, w, basis) is not None
    w[place] = weight
    assert rigor.enclose_combination(P, t, w, basis) is None
    assert (rigor.exact_combination(P, t, w, basis) is not None) == (weight == 0)


def test_a_system_of_nothing() -> None:
    solved = rigor.solve_enclosure(np.zeros((0, 0)), np.zeros(0))
    assert solved is not None
    assert [len(x) for x in solved] == [0, 0]


def test_a_weight_of_one_outside_the_basis_counts() -> None:
    P, w = np.array([[0.0], [4.0], [1.0]]), np.array([0.5, 0.5, 1.0])
    assert rigor.exact_combination(P, [1.0], w, np.array([0, 1])) == [0, 0, 1]


def test_a_basis_that_is_not_independent_is_not_solved_for() -> None:
    P, w = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), np.array([0.25, 0.5, 0.25])
    assert rigor.exact_combination(P, [1.0, 1.0], w, np.arange(3)) is None
    assert rigor.exact_combination(P, [1.0, 1.0], w, np.array([0, 2])) == [
        flint.fmpq(1, 4),
        flint.fmpq(1, 2),
        flint.fmpq(1, 4),
    ]


def test_points_without_coordinates() -> None:
    """Any weights that add up to one will do."""
    found = rigor.exact_combination(np.zeros((2, 0)), np.zeros(0), [0.25, 0.5], np.array([0]))
    assert found == [flint.fmpq(1, 2), flint.fmpq(1, 2)]
