"""The plain layer against slow oracles; every mistake of the library changes something."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.attention import attend
from regard.coursework.checker.comparison import WHOLE
from regard.mistakes.attention import hide
from regard.mistakes.embedding import halves, sinusoids
from regard.mistakes.feed_forward import NormChoice
from regard.mistakes.layer import LIBRARY, RIGHT, Values, run
from regard.positions import sinusoidal
from regard.tracing.dataflow import Norm
from regard.tracing.embedding_tables import is_subset
from regard.tracing.parameter_roles import Projection, Roles, join_projections
from regard.tracing.recording import NOWHERE

N, T, D, H, INNER, WORDS = 3, 5, 22, 2, 29, 37


@pytest.fixture
def roles() -> Roles:
    rng = np.random.default_rng(1)

    def projection(rows: int, columns: int) -> Projection:
        return Projection(weight=rng.normal(size=(rows, columns)) / math.sqrt(rows), bias=rng.normal(size=columns))

    return Roles(
        tokens=rng.normal(size=(31, D)),
        tables=(rng.normal(size=(7, D)),),
        learned_positions=True,
        queries=projection(D, D),
        keys=projection(D, D),
        values=projection(D, D),
        heads=H,
        asked_heads=3,
        mixing=projection(D, D),
        inner=projection(D, INNER),
        outer=projection(INNER, D),
        output=projection(D, WORDS),
    )


@pytest.fixture
def values() -> Values:
    ids = np.random.default_rng(2).integers(4, 31, (N, T))
    ids[1, 3:] = ids[2, 2:] = 0
    return Values(ids=ids, pad=ids == 0)


def switches(roles: Roles) -> dict[str, object]:
    rng = np.random.default_rng(3)
    norms = [
        Norm(
            order=i,
            place=NOWHERE,
            gain=rng.normal(size=D),
            shift=rng.normal(size=D),
            parameters=(f"n{i}",),
            eps=1e-5,
        )
        for i in range(2)
    ]
    choices = [NormChoice(norm=norm, eps=1e-5) for norm in norms]
    return {"layout": "norm after", "first norm": choices[0], "second norm": choices[1]}


def slow(roles: Roles, ids: np.ndarray, chosen: dict[str, object]) -> np.ndarray:
    """The whole model in loops over sentences, places and heads."""
    d = D // H
    out = np.zeros((*ids.shape, WORDS))
    for n, row in enumerate(ids):
        x = np.array([roles.tokens[word] + roles.tables[0][t] for t, word in enumerate(row)])
        q, k, v = roles.queries(x), roles.keys(x), roles.values(x)
        heads = []
        for h in range(H):
            c = slice(h * d, (h + 1) * d)
            heads.append(np.array([attend(q[t, c], k[:, c], v[:, c], scale=d**-0.5).output for t in range(len(row))]))
        m = roles.mixing(np.concatenate(heads, axis=1))
        y = np.array([one_norm(a, chosen["first norm"].norm) for a in x + m])
        f = roles.outer(np.maximum(roles.inner(y), 0))
        out[n] = roles.output(np.array([one_norm(a, chosen["second norm"].norm) for a in y + f]))
    return out


def one_norm(x: np.ndarray, norm: Norm) -> np.ndarray:
    mean = sum(x) / len(x)
    variance = sum((a - mean) ** 2 for a in x) / len(x)
    return (x - mean) / math.sqrt(variance + 1e-5) * norm.gain + norm.shift


def test_the_reference_at_rest_is_the_slow_model(roles: Roles, values: Values) -> None:
    chosen = switches(roles)
    fast = run(roles, values, chosen, WHOLE)["scores"]
    np.testing.assert_allclose(fast, slow(roles, values.ids, chosen), rtol=1e-11, atol=1e-11)


def test_a_hidden_key_is_as_if_it_were_not_there(roles: Roles, values: Values) -> None:
    chosen = {**switches(roles), "mask": hide}
    whole = run(roles, values, chosen, WHOLE)["scores"]
    shorter = Values(ids=values.ids[1:2, :3], pad=values.pad[1:2, :3])
    np.testing.assert_allclose(whole[1:2, :3], run(roles, shorter, chosen, WHOLE)["scores"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("one", LIBRARY, ids=lambda one: one.name)
def test_every_mistake_of_the_library_changes_something(one, roles: Roles, values: Values) -> None:
    chosen = {**switches(roles), **one.replaces}
    if one.name.endswith("adds-what-was-normalised"):
        chosen["layout"] = "norm first"
    narrow = roles
    if one.name in ("heads-summed", "heads-averaged", "first-head-only", "last-head-only"):
        narrow = Roles(
            **{**vars(roles), "mixing": Projection(weight=np.random.default_rng(5).normal(size=(D // H, D)))}
        )
    with np.errstate(all="ignore"):
        wrong = run(narrow, values, chosen, WHOLE)["scores"]
        right = run(roles, values, switches(roles), WHOLE)["scores"]
    assert wrong.shape == right.shape
    assert not np.allclose(wrong, right, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_names_say_one_thing_each() -> None:
    for one in LIBRARY:
        assert one.said == one.said.strip()
        assert one.said[0].islower() or one.said.startswith(("GELU", "SiLU"))
        assert (one.instead != "") == (one.cost > 0)
        assert set(one.replaces) <= set(RIGHT)
        assert any(one.replaces[step] is not RIGHT[step] for step in one.replaces)
    twice = [one.name for one in LIBRARY if [other.name for other in LIBRARY].count(one.name) > 1]
    assert set(twice) == {"attention-between-heads"}  # with the transpose back, and without


def test_the_table_is_that_of_positions() -> None:
    np.testing.assert_allclose(sinusoids(11, D), sinusoidal(11, D), rtol=1e-12, atol=1e-12)
    first = sinusoids(11, D, arrange=halves)[:, : D // 2]
    np.testing.assert_allclose(first, sinusoidal(11, D)[:, 0::2], rtol=1e-12, atol=1e-12)


def test_a_norm_has_mean_0_and_variance_1() -> None:
    made = NormChoice(norm=None, eps=0.0)(np.random.default_rng(0).normal(size=(N, T, D)))
    np.testing.assert_allclose(made.mean(-1), 0, atol=1e-14)
    np.testing.assert_allclose(made.var(-1), 1, rtol=1e-12)


def test_numbers_are_found_wherever_they_lie() -> None:
    numbers = np.random.default_rng(4).normal(size=(3, 5, 7))
    there = np.sort(numbers.transpose(2, 0, 1).ravel())
    assert is_subset(numbers[1], there)
    assert not is_subset(numbers[1] * (1 + 1e-7), there)
    assert is_subset(np.zeros(4), there)  # zeros say nothing
    assert not is_subset(numbers[1], np.zeros(0))


def test_joined_projections_fill_missing_biases_with_zeros() -> None:
    one, other = Projection(weight=np.ones((2, 3)), bias=np.ones(3)), Projection(weight=np.ones((2, 2)))
    np.testing.assert_array_equal(join_projections([one, other]).bias, [1, 1, 1, 0, 0])
    assert join_projections([Projection()]).weight is None
