"""Many targets on the same keys: the same answers as one by one, whichever way is taken."""

from __future__ import annotations

import numpy as np
import pytest

from regard import design
from regard.design.many_targets import FEW_DIMENSIONS, FEW_KEYS, shortest_together
from regard.design.shortest import shortest


@pytest.mark.parametrize(("n", "d"), [(41, 7), (67, FEW_DIMENSIONS + 1)])
def test_together_is_one_by_one(n: int, d: int) -> None:
    """Exact Hessians in few dimensions, BFGS in many; every finished target has the bounds of its own solver."""
    rng = np.random.default_rng(n)
    points = rng.standard_normal((n, d)) / 3
    chosen = np.argsort(-np.linalg.norm(points, axis=1))[:5]
    found = shortest_together(points, points[chosen], np.full(5, -2.0), chosen)
    assert (found.upper < np.inf).sum() >= 4
    for t, j in enumerate(chosen):
        alone = shortest(np.delete(points, j, axis=0) - points[j], -2.0)
        assert found.lower[t] <= alone.upper * (1 + 1e-9)
        if found.upper[t] < np.inf:
            assert found.upper[t] == pytest.approx(alone.upper, rel=1e-8)
            assert np.linalg.norm(found.queries[t]) == pytest.approx(found.upper[t], rel=1e-12)


def test_many_keys_in_few_dimensions_are_left_to_the_solver_of_one() -> None:
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((FEW_KEYS + 1, 5))
    chosen = np.argsort(-np.linalg.norm(keys, axis=1))[:3]
    found = shortest_together(keys, keys[chosen], np.full(3, -1.0), chosen)
    assert (found.upper == np.inf).all()
    assert (found.lower == 0).all()
    several = design.copy_many(keys, [int(j) for j in chosen], eps=0.5)
    assert not several.unanswered
    for answer, j in zip(several.designs, chosen, strict=True):
        assert answer.norm == pytest.approx(design.copy(keys, int(j), eps=0.5).norm, rel=1e-9)
