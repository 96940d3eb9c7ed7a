"""Do exact weights that balance exist next to the stored floats? Proved by enclosure.

The weights outside the stored basis stay as they are; those inside solve the equations, enclosed by a verified
approximate inverse. Coordinates that are exact affine functions of others on the rows involved are left out: their
equations follow.
"""

from __future__ import annotations

import math

import flint
import numpy as np
from numpy.typing import NDArray

from regard import rigor
from regard.array_types import Float
from regard.design.certificate import Balance, floats
from regard.design.certificate_problem import CertificateProblem
from regard.design.evaluate import compensated_sums


def combination_value(
    problem: CertificateProblem, combination: Balance, keep: NDArray[np.bool_] | None
) -> float | None:
    """H(w) in nats, from below, for exact weights near the stored ones that balance exactly; None where that fails.

    keep: the competing keys that take part (all, where None); the basis then counts among these.
    """
    weights, mixture, points = floats(combination.weights), floats(combination.mixture), problem.points
    if keep is not None:
        points, weights = points[keep], weights[keep]
    support = np.flatnonzero(weights)
    rows = points if len(support) == len(points) else points[support]
    weights = weights[support]
    basis = np.flatnonzero(np.isin(support, np.array(combination.basis, dtype=np.intp)))
    anchors = problem.anchors
    if problem.target is not None:
        present = problem.target > 0
        anchors, mixture = problem.points[present], problem.target[present]
    enclosed = enclose_weights(rows, weights, basis, anchors, mixture)
    return None if enclosed is None else rigor.entropy_bounds(*enclosed)[0]


def enclose_weights(
    rows: Float, weights: Float, basis: NDArray[np.intp], anchors: Float, mixture: Float
) -> tuple[Float, Float] | None:
    """Enclosures (mid, rad) of positive weights with sum 1 and sum w_i k_i = sum mu_m a_m / M, or None."""
    if len(basis) - 1 != rows.shape[1]:
        columns = _independent_columns(np.concatenate([rows, anchors]), len(basis) - 1)
        if columns is None:
            return None
        rows, anchors = rows[:, columns], anchors[:, columns]
    fixed = np.ones(len(rows), dtype=bool)
    fixed[basis] = False
    # relative to an anchor where that is exact: the weights add up to 1, so a common offset cancels
    shifted, shifted_anchors = (rigor.exact_differences(some, anchors[0]) for some in (rows, anchors))
    if shifted is not None and shifted_anchors is not None:
        rows, anchors = shifted, shifted_anchors
    mid, rad = compensated_sums([(anchors, mixture / math.fsum(mixture)), (rows[fixed], -weights[fixed])])
    if len(mixture) > 1:  # the quotients mu_m / M are rounded; the mixture itself is not
        rad = rad + 4 * rigor.U * np.abs(anchors).max(axis=0)
    mid, rad = np.append(mid, 1 - math.fsum(weights[fixed])), np.append(rad, 4 * rigor.U)
    matrix = np.concatenate([rows[basis], np.ones((len(basis), 1))], axis=1).T
    unit = np.ldexp(1.0, np.frexp(np.abs(matrix).max(axis=1))[1])  # powers of two: scaling is exact
    solved = rigor.solve_enclosure(matrix / unit[:, None], (mid / unit, rad / unit * (1 + 4 * rigor.U)))
    if solved is None or not (solved[0] > solved[1]).all():
        return None
    full_mid, full_rad = weights.copy(), np.zeros(len(weights))
    full_mid[basis], full_rad[basis] = solved
    return full_mid, full_rad


def _independent_columns(rows: Float, wanted: int) -> list[int] | None:
    """Columns of which the others are exact affine functions."""
    if rows.size > 200_000:
        return None  # exact elimination would take too long
    table = [[flint.fmpq(1), *(flint.fmpq(*x.as_integer_ratio()) for x in row)] for row in rows.tolist()]
    reduced, rank = flint.fmpq_mat(table).rref()
    if rank != wanted + 1:
        return None
    pivots = [next(c for c in range(reduced.ncols()) if reduced[r, c] != 0) for r in range(rank)]  # not the search's
    return [place - 1 for place in pivots[1:]]
