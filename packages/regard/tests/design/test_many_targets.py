"""Many targets on the same keys: the same answers as one by one, whichever way is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regard import design
from regard.design.many_targets import FEW_DIMENSIONS, FEW_KEYS, shortest_together
from regard.design.shortest import shortest
from regard.design.verification import recheck, recheck_together


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


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_checked_together_as_one_by_one(offset: float, masked: bool, scale: float) -> None:
    """More targets than are checked at once, as the keys lie and moved: each certificate holds by itself."""
    rng = np.random.default_rng(5)
    n, d = 211, FEW_DIMENSIONS + 5
    keys = rng.standard_normal((n, d)) + offset
    chosen = list(range(0, 22, 2))
    allowed = np.arange(n) != 7 if masked else None
    several = design.copy_many(keys, chosen, eps=0.01, allowed=allowed, scale=scale)
    assert [answer.chosen[0] for answer in several] == chosen
    for answer in several:
        alone = design.copy(keys, answer.chosen[0], eps=0.01, allowed=allowed, scale=scale)
        assert answer.norm == pytest.approx(alone.norm, rel=3e-9)
        assert answer.gap <= 1e-9
        np.testing.assert_allclose(answer.weights, alone.weights, atol=1e-6)
        for strict in (False, True):
            assert design.verify(answer, keys, strict=strict).holds


def test_the_check_of_several_refuses_what_the_check_of_one_refuses() -> None:
    keys = np.random.default_rng(7).standard_normal((41, 5))
    made = [design.copy(keys, j, eps=0.1).certificate for j in np.argsort(-np.linalg.norm(keys, axis=1))[:4]]
    top = float(np.abs(keys).max())
    assert [found.holds for found in recheck_together(made, keys, top=top)] == [True] * 4
    short = replace(made[1], query=made[1].query * (1 - 1e-9), norm=None)
    long = replace(made[2], query=made[2].query * (1 + 1e-8), norm=made[2].norm * (1 + 1e-8))
    other = replace(made[3], dual=made[0].dual)
    for top_told in (None, top):
        found = recheck_together([made[0], short, long, other], keys, top=top_told)
        assert [one.holds for one in found] == [True, False, False, False]
        for one, certificate in zip(found, [made[0], short, long, other], strict=True):
            alone = recheck(certificate, keys, strict=False, quick=True)
            assert [holds for _, holds in alone.statements] == [holds for _, holds in one.statements]
            for name, value in alone.numbers.items():
                assert one.numbers[name] == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("seed", [52, 160])
def test_keys_on_a_line_whose_hessian_is_singular_are_solved_alone(seed: int) -> None:
    rng = np.random.default_rng([77, seed])
    n, d = int(rng.integers(13, 40)), int(rng.integers(1, 6))
    keys = np.outer(rng.integers(-5, 6, n).astype(float), rng.integers(1, 10, d) / 10)  # with copies
    allowed, chosen = rng.random(n) < 0.8, [3, 10, 4, 0, 12]
    allowed[chosen] = True
    eps = float(10 ** rng.uniform(-12, 1))
    found = design.copy_many(keys, chosen, eps=eps, allowed=allowed)
    assert found.unanswered == {}
    for answer in found:
        assert design.verify(answer, keys).holds
        assert answer.reachable == design.copy(keys, answer.chosen[0], eps=eps, allowed=allowed).reachable


def test_a_singular_hessian_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(np.linalg, "solve", singular)
    assert [round(found.norm or 0, 4) for found in design.copy_many(np.eye(3), [0, 2], eps=0.02)] == [3.7601, 3.7601]
