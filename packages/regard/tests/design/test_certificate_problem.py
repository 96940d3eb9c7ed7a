"""Each arithmetic bounds both sides of a certificate from the safe side: floats against the exact level."""

import flint
import numpy as np
import pytest

from regard.design.certificate import Balance, Certificate, Request, Statement, Verb, fingerprint
from regard.design.certificate_problem import EXACT_BITS, CertificateProblem, ExactLevel, FloatLevel

HUGE = 1e8  # entries of this size cancel in a score, which leaves its rounding error far above that of the others
SEEDS = range(24)  # in each the error has either sign: none of 24 the right one has a chance of 2^-24


def asked(keys, verb, *, chosen=(0,), target=None, scale=1.0, allowed=None, strict=True):
    demand = {"kl": 0.1} if verb is Verb.MATCH else {"eps": 0.5}
    question = Request(verb=verb, keys=() if verb is Verb.MATCH else chosen, target=target, **demand)
    certificate = Certificate(
        question=question, claim=Statement.SHORTEST, scale=scale, allowed=allowed, shape=keys.shape,
        sha256=fingerprint(keys),
    )  # fmt: skip
    return CertificateProblem(certificate, keys, strict)


def cancelling(seed, huge, lead):
    """Five keys of seven numbers and a query; the score of one key is a sum of huge numbers that cancel.

    Key 0 leads the others by about `lead`, so that nearly all attention is on it.
    """
    rng = np.random.default_rng(seed)
    keys, query = rng.standard_normal((5, 7)) / 8, rng.standard_normal(7)
    keys[:, 0], query[0] = [lead, 0, 0, 0, 0], 1.0
    keys[huge, 1:6] += HUGE * rng.standard_normal(5)
    keys[huge, 6] -= keys[huge, 1:6] @ query[1:6] / query[6]
    return keys, query


def not_below(bound, truth):
    with flint.ctx.workprec(EXACT_BITS):
        return bool(bound.upper() >= truth.lower())


def not_above(bound, truth):
    with flint.ctx.workprec(EXACT_BITS):
        return bool(bound.lower() <= truth.upper())


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("allowed", [None, (0, 1, 3)])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("huge", [0, 1])
@pytest.mark.parametrize("verb", Verb)
def test_a_query_is_never_promised_more_than_it_gives(verb, huge, scale, allowed, refine):
    target = np.array([0.6, 0.4, 0.0, 0.0, 0.0]) if verb is Verb.MATCH else None
    for seed in SEEDS:
        keys, query = cancelling(seed, huge, lead=40.0 / scale)
        problem = asked(keys, verb, target=target, scale=scale, allowed=allowed)
        level, exact = FloatLevel(problem, refine=refine), ExactLevel(problem)
        assert not_below(level.value(query), exact.value(query))
        assert level.norm(query) >= exact.norm(query) * (1 - 2**-52)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("scale", [0.21, 4.7])
@pytest.mark.parametrize("verb", Verb)
def test_weights_never_prove_more_than_they_do(verb, scale, refine):
    rng = np.random.default_rng(7)
    for _ in range(8):
        keys = rng.standard_normal((5, 7)) * np.logspace(0, 6, 7)
        target = rng.dirichlet(np.ones(5)) if verb is Verb.MATCH else None
        problem = asked(keys, verb, chosen=(0, 2) if verb is Verb.SHARE else (0,), target=target, scale=scale)
        balance = Balance(
            weights=rng.uniform(0.1, 1.0, len(problem.competing)), mixture=rng.uniform(0.1, 1.0, len(problem.anchors))
        )
        level, exact = FloatLevel(problem, refine=refine), ExactLevel(problem)
        assert not_below(level.slack(balance), exact.slack(balance))
        assert not_above(level.entropy(balance.weights), exact.entropy(balance.weights))
        width = (level.slack(balance) - exact.slack(balance)) / exact.slack(balance)
        assert abs(float(width.mid())) < 1e-9  # and hardly less


def test_the_exact_level_takes_the_worst_anchor():
    """Shared between two keys with scores 0 and 3, the least share is that of the first."""
    keys = np.array([[0.0], [3.0], [1.0]])
    problem = asked(keys, Verb.SHARE, chosen=(0, 1))
    for level in (FloatLevel(problem, refine=False), FloatLevel(problem, refine=True), ExactLevel(problem)):
        assert float(level.value(np.array([1.0])).mid()) == pytest.approx(np.log(np.exp([0, 3, 1]).sum()), rel=1e-14)


@pytest.mark.parametrize(("eps", "meets"), [(2.0, True), (2.0 - 2**-52, False)])
def test_the_zero_query_is_decided_by_counting(eps, meets):
    """Two rivals weigh 2 together, beside the key's own 1: a demand of eps = 2 is met exactly, and no smaller one."""
    problem = asked(np.array([[0.0], [3.0], [1.0]]), Verb.COPY)
    problem.eps = eps
    for level in (FloatLevel(problem, refine=False), ExactLevel(problem)):
        assert problem.meets(np.zeros(1), level) is meets


def test_copies_are_equal_in_every_number():
    keys = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [1.0, 9.0, 3.0], [0.0, 2.0, 3.0]])
    problem = asked(keys, Verb.COPY)
    assert problem.same.tolist() == [True, False, False, False]
    assert problem.copies == 1
