"""Your own answer: a right one holds so far, a typical mistake meets its counterexample, bad code gets a sentence."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

from places import DOCS
from regard.attention import attend
from regard.coursework.adversary import Attempt, walk_to_failure
from regard.coursework.answers import answer_check
from regard.coursework.answers.report import literal
from regard.coursework.catalogue import claims
from regard.coursework.claims import never_exactly_the_average
from regard.coursework.query_questions import orthonormal_rows, share_ruling
from regard.coursework.question import (
    Instance,
    Parameter,
    Ruling,
    Size,
    bound_ruling,
    equality_ruling,
    make_size,
    worst_ruling,
)
from regard.errors import InputError
from regard.mistakes.embedding import FORMULAS, halves, sinusoids
from tiers import sampled

N, _, EPS = claims["average-of-two"].question.sizes
WORDS = {"heads-summary", "the-cone-of-keys", "order-blindness-hurts", "translator-trained"}
CODE = {"translator"}  # a whole model, checked in coursework/checker


# right answers, each as a student might write it


def softmax(scores):
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def layer(X, W_Q, W_K, W_V, W_1, b_1, W_2, b_2):
    scores = (X @ W_Q) @ (X @ W_K).T / math.sqrt(W_Q.shape[1])
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.maximum(raised / raised.sum(axis=1, keepdims=True) @ X @ W_V @ W_1 + b_1, 0) @ W_2 + b_2


def sinusoidal(length, dim):
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, dim)


def truncated(A, k, kept=None):
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    s[k - 1 if kept is None else kept :] = 0
    return u * s @ vt


def unequal(keys, eps):
    """Off the bisector: the scores differ by half of what ln(1+eps) allows."""
    T = math.log(max(len(keys) - 2, 1) * 8 / eps)
    return (T + math.log1p(eps / 2) / 2) * keys[0] + (T - math.log1p(eps / 2) / 2) * keys[1]


def exact_query(keys, values):
    possible = len(keys) == 2 or np.allclose(values.mean(axis=0), (values[0] + values[1]) / 2)
    return np.zeros(keys.shape[1]) if possible else None


def two(means, scale):
    return scale * means[:2]


RIGHT = {
    "weights-are-a-distribution": softmax,
    "copying-condition": lambda n, eps: math.log((n - 1) / eps),
    "copying-output": lambda eps, distance: distance * eps / (1 + eps),
    "copying-within-budget": lambda keys, eps: 2 * math.log(len(keys) / eps) * keys[0],
    "extract-from-sum": lambda A: A @ A.T,
    "average-of-two": lambda keys, a, b, eps: math.log(len(keys) / eps) * (keys[a] + keys[b]),
    "never-exactly-the-average": exact_query,
    "average-within-budget": lambda keys, eps: math.log(len(keys) / eps) * (keys[0] + keys[1]),
    "the-bisector": unequal,
    "average-of-any-subset": lambda keys, subset, eps: math.log(len(keys) / eps) * keys[subset].sum(axis=0),
    "small-noise-keeps-the-average": lambda means, iso, error: (
        math.log(8 * max(len(means) - 2, 1) / error) * (means[0] + means[1])
    ),
    "one-head-swings": lambda iso, spread, scale: scale**2 * (spread + 4 * iso),
    "one-head-two-point-noise": lambda n, eps, c: (
        np.array([(n / eps) ** c, n / eps]) / ((n / eps) ** c + n / eps + n - 2)
    ),
    "two-heads-average": lambda means, iso, error: two(means, 10 + math.log(len(means) / error)),
    "two-heads-steady": lambda means, iso, error: two(means, 1000),
    "two-heads-two-point-noise": lambda directions, eps: two(directions, 2 * math.log(len(directions) / eps)),
    "order-blindness": layer,
    "positions-restore-order": lambda X: X + sinusoidal(*X.shape),
    "positions-are-distinct": sinusoidal,
    "singular-energy": lambda A: np.sum(A**2),
    "singular-tail": lambda norm, k: norm / math.sqrt(k),
    "low-rank-error": truncated,
}

# what students get wrong, and what must be said of it


def without_shift(scores):
    with np.errstate(all="ignore"):
        return np.exp(scores) / np.exp(scores).sum()


def large_unless_two(keys, values):
    return np.zeros(len(keys)) if len(keys) == 2 else 1000 * (keys[0] + keys[1])


def right_if_in_order(keys, a, b, eps):
    return math.log(len(keys) / eps) * (keys[a] + keys[b] if a < b else keys[b])


def without_scale(X, W_Q, W_K, W_V, W_1, b_1, W_2, b_2):
    return layer(X, W_Q * math.sqrt(len(W_Q)), W_K, W_V, W_1, b_1, W_2, b_2)


def causal(X, W_Q, W_K, W_V, W_1, b_1, W_2, b_2):
    return np.vstack([layer(X[: i + 1], W_Q, W_K, W_V, W_1, b_1, W_2, b_2)[-1] for i in range(len(X))])


def over_columns(X, W_Q, W_K, W_V, W_1, b_1, W_2, b_2):
    raised = np.exp((X @ W_Q) @ (X @ W_K).T / math.sqrt(W_Q.shape[1]))
    return np.maximum(raised / raised.sum(axis=0) @ X @ W_V @ W_1 + b_1, 0) @ W_2 + b_2


WRONG = [
    ("weights-are-a-distribution", without_shift, "a weight is not a number", {"n": 1, "spread": 1000}),
    ("weights-are-a-distribution", lambda scores: np.exp(scores - scores.max()), "sum to 1.36788, not to 1", {"n": 2}),
    ("weights-are-a-distribution", lambda scores: np.full(len(scores), 1 / len(scores)), "and softmax has", {"n": 2}),
    (
        "copying-condition",
        lambda n, eps: math.log(1 / eps),
        "every other score 0.693147 behind s_j",
        {"n": 3, "eps": 0.5},
    ),
    ("copying-condition", lambda n, eps: math.log(n - 1) / eps, "alpha_j = 0.5 is below", {"n": 2}),
    ("copying-output", lambda eps, distance: distance * eps / (2 + eps), "is above your 0.2", {"eps": 0.5}),
    ("copying-output", lambda eps, distance: 2 * eps / (1 + eps), "is above your", {"distance": 10}),
    ("copying-within-budget", lambda keys, eps: math.log(len(keys) / eps) * keys[0], "is below 1/(1+eps)", {}),
    ("copying-within-budget", lambda keys, eps: 2 * math.log(1 / eps) * keys[0], "is below 1/(1+eps)", {"n": 3}),
    ("copying-within-budget", lambda keys, eps: 1000 * keys[0], "above the budget 2 ln(n/eps)", {"n": 2, "eps": 0.5}),
    ("copying-within-budget", lambda keys, eps: 2 * math.log(len(keys) / eps) * keys.sum(axis=0), "", {"n": 2}),
    ("extract-from-sum", lambda A: np.eye(len(A)), "M (v_a + v_b) = np.array([1.0, 1.0])", {"d": 2, "m": 1}),
    ("extract-from-sum", lambda A: A @ A.T / len(A), "M (v_a + v_b)", {"d": 2}),
    ("average-of-two", lambda keys, a, b, eps: keys[a] + keys[b], "alpha_0 = 0.422319 is below", {"n": 3, "eps": 0.1}),
    ("average-of-two", lambda keys, a, b, eps: math.log(1 / eps) * (keys[a] + keys[b]), "is below", {"n": 4}),
    ("average-of-two", lambda keys, a, b, eps: math.log(len(keys) / eps) * (keys[a] + keys[b]) / 2, "is below", {}),
    ("average-of-two", lambda keys, a, b, eps: 20 * (keys[0] + keys[1]), "alpha_", {"n": 3}),  # ignores a and b
    ("average-of-two", right_if_in_order, "is below", {"n": 2}),
    ("average-of-two", lambda keys, a, b, eps: 40 * (keys[a] + keys[(a + 1) % len(keys)]), "is below", {"n": 3}),
    ("average-of-any-subset", lambda keys, s, eps: 40 * keys[s[0] : s[-1] + 1].sum(axis=0), "is below", {"s": 2}),
    ("never-exactly-the-average", lambda keys, values: 1000 * (keys[0] + keys[1]), "q = 0 would do", {"n": 2}),
    ("never-exactly-the-average", large_unless_two, "the other weights are small, but not 0", {"n": 3}),
    ("never-exactly-the-average", lambda keys, values: None, "but here q = 0 does it", {"n": 2}),
    (
        "average-within-budget",
        lambda keys, eps: 99 * (keys[0] + keys[1]),
        "budget",
        {"n": 2},
    ),
    ("average-within-budget", lambda keys, eps: math.log(len(keys) / eps) * keys[0], "alpha_1", {"n": 2}),
    ("average-within-budget", lambda keys, eps: math.log(len(keys) / eps) * keys.sum(axis=0), "is below", {"n": 3}),
    ("the-bisector", lambda keys, eps: math.log(len(keys) / eps) * (keys[0] + keys[1]), "does not leave the line", {}),
    ("the-bisector", lambda keys, eps: None, "but there is one", {"n": 2}),
    ("average-of-any-subset", lambda keys, subset, eps: math.log(2 / eps) * keys[subset].sum(axis=0), "is below", {}),
    (
        "average-of-any-subset",
        lambda keys, subset, eps: math.log(len(keys) / eps) * keys[subset].mean(axis=0),
        "is below 1/(2+eps)",
        {"s": 2},
    ),
    ("small-noise-keeps-the-average", lambda means, iso, error: 1000 * (means[0] + means[1]), "is above", {"n": 2}),
    ("small-noise-keeps-the-average", lambda means, iso, error: means[0] + means[1], "is above", {"n": 3}),
    ("one-head-swings", lambda iso, spread, scale: scale**2 * (spread + 2 * iso), "yours is 0.7", {"scale": 1}),
    ("one-head-swings", lambda iso, spread, scale: scale * (spread + 4 * iso), "is 3.6; yours is 1.8", {"scale": 2}),
    (
        "one-head-two-point-noise",
        lambda n, eps, c: [(n / eps) ** (c - 1), 1],
        "alpha_0 is 0.333333; yours is 0.5",
        {"n": 2},
    ),
    ("two-heads-average", lambda means, iso, error: two(means, 1), "is above", {"n": 3}),
    ("two-heads-average", lambda means, iso, error: np.tile(20 * (means[0] + means[1]), (2, 1)), "are the same", {}),
    ("two-heads-average", lambda means, iso, error: 20 * means[[0, 0]] + [[0], [1e-9]], "is above", {}),
    ("two-heads-steady", lambda means, iso, error: np.tile(20 * (means[0] + means[1]), (2, 1)), "is above", {"n": 2}),
    ("two-heads-two-point-noise", lambda u, eps: two(u, math.log(len(u) / eps)), "in head 0 when c = 0.5", {"n": 2}),
    ("order-blindness", without_scale, "order-blind, but another layer", {"length": 2, "d": 2}),
    ("order-blindness", causal, "not order-blind: Z(P X) and P Z(X) differ", {"length": 2}),
    ("order-blindness", over_columns, "", {"length": 2}),
    ("positions-restore-order", lambda X: X + 1, "rows 0 and 1 get the same position", {"length": 2, "dim": 2}),
    ("positions-restore-order", lambda X: 2 * X, "what it adds depends on X", {"length": 2}),
    (
        "positions-are-distinct",
        lambda length, dim: sinusoidal(length, dim).astype(np.float16),
        "positions 2 and 712 (counted from 0) are equal",
        {"dim": 2, "length": 713},
    ),
    (
        "positions-are-distinct",
        lambda length, dim: np.repeat(np.arange(length)[:, None] // 2, dim, axis=1),
        "positions 0 and 1",
        {"dim": 2, "length": 2},
    ),
    (
        "positions-are-distinct",
        lambda length, dim: sinusoids(length, dim, lambda i, d: (i / d, i / d)),
        "at position 1, column 2 (counted from 0) the formula has 0.00999983; yours has 0.0998334. Yours is exactly "
        "the exponent i/d in the sinusoidal table",
        {"dim": 4, "length": 2},
    ),
    (
        "positions-are-distinct",
        lambda length, dim: sinusoids(length + 1, dim)[1:],
        "Yours is exactly positions counted from 1",
        {"dim": 2, "length": 2},
    ),
    (
        "positions-are-distinct",
        lambda length, dim: sinusoids(length, dim, arrange=halves).astype(np.float32),
        "Yours is exactly sinusoidal positions, sines in the first half",
        {"dim": 4, "length": 2},
    ),
    (
        "positions-are-distinct",
        lambda length, dim: np.arange(1, length * dim + 1).reshape(length, dim),
        "yours has 1",
        {},
    ),
    ("singular-energy", lambda A: np.linalg.norm(A), "yours is", {}),
    ("singular-tail", lambda norm, k: norm / k, "above your 0.5", {"k": 2, "norm": 1}),
    ("singular-tail", lambda norm, k: norm / math.sqrt(min(k, 10)) if k <= 10 else 0.0, "above your 0", {"k": 11}),
    ("singular-tail", lambda norm, k: norm / math.sqrt(k) if k < 1000 else 0.0, "above your 0", {"k": 1000}),
    ("copying-output", lambda eps, distance: min(distance, 1e50) * eps / (1 + eps), "is above your", {}),
    ("copying-condition", lambda n, eps: math.log((n - 1) / max(eps, 1e-7)), "is below", {}),
    ("low-rank-error", lambda A, k: truncated(A, k, kept=k), "the rank of B is above k - 1 = 0", {"k": 1}),
    ("low-rank-error", lambda A, k: np.zeros_like(A), "is above ||A||_F/sqrt(k)", {"k": 2}),
]


def test_every_claim_but_those_that_ask_for_words_takes_an_answer() -> None:
    assert {name for name in claims if claims[name].question is not None} == set(RIGHT)
    assert {name for name in claims if claims[name].question is None} == WORDS | CODE
    assert {name for name, *_ in WRONG} == set(RIGHT)


SLIPS = FORMULAS[1:]


@pytest.mark.parametrize("slip", sampled(SLIPS, every=4, name=lambda slip: slip.name))
def test_every_known_slip_in_a_table_of_positions_is_named(slip) -> None:
    found = claims["positions-are-distinct"].check_answer(slip.function)
    assert not found.answer
    assert slip.said in " ".join(str(found).split())


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.float64, np.float32])
def test_a_right_table_is_right_in_its_own_format(form) -> None:
    def table(length, dim):
        angle = np.arange(length, dtype=form)[:, None] * np.exp(
            np.arange(0, dim, 2, dtype=form) * form(-math.log(10000.0) / dim)
        )
        made = np.empty((length, dim), dtype=form)
        made[:, 0::2], made[:, 1::2] = np.sin(angle), np.cos(angle)
        return made

    found = claims["positions-are-distinct"].check_answer(table)
    assert found.answer, str(found)
    assert "compared with the formula" in str(found).replace("\n", " ")


def test_the_page_lists_what_is_asked() -> None:
    page = (DOCS / "your-answer.md").read_text(encoding="utf-8")
    for name in RIGHT:
        assert f"| {name} | `{claims[name].question.signature}` |" in page


# the one of noise that takes seconds is in the slow tier
QUICK = [pytest.param(name, marks=pytest.mark.slow) if name == "two-heads-steady" else name for name in sorted(RIGHT)]


@pytest.mark.parametrize("name", QUICK)
def test_a_right_answer_holds_so_far(name: str, monkeypatch) -> None:
    monkeypatch.setattr(answer_check, "FRESH", 30)
    monkeypatch.setattr(answer_check, "MOVES", 20)
    found = claims[name].check_answer(RIGHT[name], limit=300)
    assert found.answer, str(found)
    assert found.instances >= 20
    assert "holds so far (" in str(found)
    assert "This is not a proof." in str(found)


NEARLY = {
    "weights-are-a-distribution": r"sum to (\S+), not to (\S+)",
    "copying-condition": r"alpha_j = (\S+) is below 1/\(1\+eps\) = (\S+)",
    "copying-output": r"= (\S+) is above your (\S+)",
    "extract-from-sum": r"= (.+), and v_a = (.+)",
    "one-head-swings": r"is (\S+); yours is (\S+)",
    "singular-energy": r"is (\S+); yours is (\S+)",
    "singular-tail": r"= (\S+), above your (\S+)",
}


@pytest.mark.parametrize("name", NEARLY)
def test_of_a_small_mistake_two_numbers_are_told_that_differ(name: str) -> None:
    verdict = claims[name].check_answer(lambda *given: np.asarray(RIGHT[name](*given)) * (1 - 1e-8), limit=300)
    said = re.search(NEARLY[name], verdict.counterexample.said)
    assert said, verdict.counterexample.said
    assert said[1] != said[2]


@pytest.mark.parametrize(
    ("name", "function", "said", "setting"), WRONG, ids=[f"{n}-{i}" for i, (n, *_) in enumerate(WRONG)]
)
def test_a_mistake_meets_its_smallest_counterexample(name, function, said, setting) -> None:
    found = claims[name].check_answer(function, limit=300)
    assert not found.answer, str(found)
    assert said in found.counterexample.said
    assert {key: found.counterexample.setting[key] for key in setting} == setting


def test_a_weight_that_float64_rounds_to_1_is_not_said_to_be_below_1() -> None:
    said = claims["copying-condition"].check_answer(lambda n, eps: 100.0, limit=300).counterexample.said
    assert "the others have 3.72008e-44 times its weight, more than eps = 1e-200" in said


# the counterexample is what it says


def test_a_counterexample_can_be_pasted() -> None:
    found = claims["average-of-two"].check_answer(lambda keys, a, b, eps: keys[a] + keys[b])
    names: dict = {"query": lambda keys, a, b, eps: keys[a] + keys[b]}
    exec(found.counterexample.code, names)
    weights = attend(names["query"](names["keys"], 0, 1, 0.1), names["keys"], names["keys"]).weights
    assert weights[0] < 1 / 2.1
    assert found.counterexample.code.splitlines() == [
        "import numpy as np",
        "keys = np.eye(3)",
        "a = 0",
        "b = 1",
        "eps = 0.1",
        "query(keys, a, b, eps)  # returned np.array([1.0, 1.0, 0.0])",
    ]


def test_two_calls_are_both_shown() -> None:
    found = claims["positions-restore-order"].check_answer(lambda X: 2 * X)
    lines = found.counterexample.code.splitlines()
    assert [line.startswith("encode(X)") for line in lines] == [False, False, True, False, True]


def test_a_result_goes_to_json_and_html() -> None:
    found = claims["average-of-two"].check_answer(lambda keys, a, b, eps: keys[a] + keys[b], seed=7)
    data = json.loads(found.to_json())
    assert (data["status"], data["seed"]) == ("fails", 7)
    assert data["counterexample"]["given"]["keys"] == np.eye(3).tolist()
    assert data["counterexample"]["setting"] == {"n": 3, "extra": 0, "eps": 0.1}
    assert found._repr_html_().startswith("<pre>average-of-two: &lt;lambda&gt; fails (")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.eye(2, 3), "np.eye(2, 3)"),
        (np.ones((1, 1)), "np.array([[1.0]])"),
        (np.array([-0.0, 1 / 3]), "np.array([0.0, 0.3333333333333333])"),
        (np.array([2, 1]), "np.array([2, 1])"),
        (None, "None"),
        (np.zeros((21, 20)), "...  # 21 x 20 numbers: to_json() has them"),
    ],
)
def test_literals(value, text: str) -> None:
    assert literal(value) == text


# how far from the best


@pytest.mark.slow
def test_the_shortest_query_is_the_best() -> None:
    def query(keys, eps):
        n = len(keys)
        T = max(math.log((n - 2) / eps), 0) if n > 2 else 0
        return T * (keys[:2].sum(axis=0) - 2 / n * keys.sum(axis=0))

    found = claims["average-within-budget"].check_answer(query)
    assert found.distance.most == pytest.approx(1, abs=1e-6)
    assert "its norm is 1 times that of the shortest query (regard.design, certified)" in str(found)
    longer = claims["average-within-budget"].check_answer(lambda keys, eps: 1.2 * query(keys, eps), n=10)
    assert longer.distance.most == pytest.approx(1.2, rel=1e-6)


def test_distances_of_bounds_and_errors() -> None:
    bound = claims["copying-output"].check_answer(lambda eps, distance: eps * distance, eps=0.5)
    assert bound.distance.most == pytest.approx(1.5)
    assert "it is 1.5 times the smallest bound that is true" in str(bound)
    rank = claims["low-rank-error"].check_answer(truncated)
    assert rank.distance.most == pytest.approx(1)
    heads = claims["two-heads-two-point-noise"].check_answer(RIGHT["two-heads-two-point-noise"], n=2, eps=0.01)
    # shortest for c = 1/2: ln(1/eps) / ||(1/2, -1)||
    assert heads.distance.yours / heads.distance.best == pytest.approx(
        2 * math.log(200) / (math.log(100) / math.sqrt(1.25)), rel=1e-6
    )


# instances, rulings and the adversary


def test_parameters_fix_the_instances() -> None:
    seen = []

    def margin(n, eps):
        seen.append((n, eps))
        return math.log(n / eps)

    assert claims["copying-condition"].check_answer(margin, n=17, eps=0.25).answer
    assert set(seen) == {(17, 0.25)}


def test_the_seed_decides() -> None:
    def asked(seed: int) -> list:
        seen: list = []
        claims["copying-condition"].check_answer(lambda n, eps: seen.append((n, eps)) or math.log(n / eps), seed=seed)
        return seen

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)


@pytest.mark.slow
def test_inputs_are_copies() -> None:
    def query(keys, a, b, eps):
        answer = math.log(len(keys) / eps) * (keys[a] + keys[b])
        keys[:] = 7
        return answer

    assert claims["average-of-two"].check_answer(query).answer


@pytest.mark.parametrize("extra", [0, 2])
def test_orthonormal_keys(extra: int) -> None:
    keys = orthonormal_rows(np.random.default_rng(0).standard_normal((9, 9)), 5, extra)
    assert keys.shape == (5, 5 + extra)
    assert keys @ keys.T == pytest.approx(np.eye(5), abs=1e-14)


def test_shares_agree_with_attend() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        keys, query, eps = rng.standard_normal((5, 3)), 3 * rng.standard_normal(3), rng.random()
        least = attend(query, keys, keys).weights[[1, 4]].min()
        assert share_ruling(query, keys, [1, 4], eps).fails == (least < 1 / (2 + eps))


def test_shares_allow_rounding_and_nothing_more() -> None:
    T = math.log(3 / 0.01)
    assert not share_ruling(T * np.eye(5)[:2].sum(axis=0), np.eye(5), [0, 1], 0.01).fails
    assert share_ruling((T - 1e-7) * np.eye(5)[:2].sum(axis=0), np.eye(5), [0, 1], 0.01).fails
    assert share_ruling(np.full(3, 1e300) * [1, 2, 3], np.eye(3), [0], 0.1).fails


def test_exact_averages_are_decided_over_the_reals() -> None:
    def ruled(keys, values, query) -> bool:
        given = {"keys": np.array(keys, dtype=float), "values": np.array(values, dtype=float)}
        return not never_exactly_the_average.judge_average(Instance(given=given), np.array(query)).fails

    assert ruled(np.eye(2), np.eye(2), [0.1, 0.1])
    assert not ruled(np.eye(2), np.eye(2), [0.1 + 0.2, 0.3])  # 0.1 + 0.2 is not 0.3 in float64
    assert ruled(np.eye(3), [[-1], [1], [0]], [5.0, 5.0, 0.0])
    assert not ruled(np.eye(3), [[-1], [1], [0]], [5.0, 5.0 + 2**-50, 0.0])
    assert not ruled(np.eye(3), np.eye(3), [1000.0, 1000.0, 0.0])  # where float64 says 1/2, 1/2, 0


def test_the_adversary_goes_where_there_is_least_room() -> None:
    size = make_size("eps", "x", (0.5, 0.001), above=0, below=1)

    def trial(latent, setting) -> Attempt:
        room = abs(math.log(setting["eps"] / 0.0333)) + abs(latent[0, 0] - 2) - 0.3
        return Attempt(
            instance=Instance(given={}, setting=setting, latent=latent), answer=0, ruling=Ruling(room=room, said="")
        )

    start = trial(np.zeros((1, 1)), {"eps": 0.5})
    found = walk_to_failure(start, trial, sizes=(size,), rng=np.random.default_rng(0), moves=300)
    assert found.ruling.fails
    assert not walk_to_failure(start, trial, sizes=(size,), rng=np.random.default_rng(0), moves=1).ruling.fails


def test_only_the_adversary_finds_a_narrow_hole(monkeypatch) -> None:
    def margin(n, eps):  # short of enough around eps = 0.03, by more the nearer
        return math.log((n - 1) / eps) + 0.3 * abs(math.log(eps / 0.03)) - 0.02

    monkeypatch.setattr(answer_check, "FRESH", 6)
    found = claims["copying-condition"].check_answer(margin)
    assert not found.answer
    assert (found.instances, found.pressed > 0) == (6, True)
    assert 0.02 < found.counterexample.setting["eps"] < 0.04
    monkeypatch.setattr(answer_check, "MOVES", 0)
    assert claims["copying-condition"].check_answer(margin).answer


def test_sizes_stay_on_their_ladders() -> None:
    rng = np.random.default_rng(0)
    for size in (N, EPS):
        values = [size.draw_value(rng) for _ in range(200)]
        values += [size.draw_nearby(value, rng, 2.0) for value in values]
        assert size.reach[0] <= min(values) < size.reach[0] * 1.5
        assert size.reach[1] * 0.5 < max(values) <= size.reach[1]
    assert {N.draw_value(rng) for _ in range(300)} > set(N.ladder)
    assert (
        Size(parameter=Parameter(name="n", default=1, meaning="x", whole=True), ladder=(1,)).draw_nearby(1, rng, 1.0)
        == 1
    )


def test_rulings() -> None:
    assert worst_ruling(Ruling(room=1.0, said="a"), Ruling(room=math.nan, said="b")).said == "b"
    assert Ruling(room=math.nan, said="").fails
    assert not equality_ruling(1 + 1e-10, 1.0, "x").fails
    assert equality_ruling(1 + 1e-8, 1.0, "x").fails
    assert not equality_ruling(0.0, 0.0, "x").fails
    assert not bound_ruling(1 + 1e-10, 1.0, "").fails
    assert bound_ruling(1 + 1e-8, 1.0, "").fails


# what cannot be asked


@pytest.mark.parametrize("name", sorted(WORDS - {"translator"}))  # which asks for a model
def test_words_are_not_checked(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} asks for words, not for something to construct"):
        claims[name].check_answer(softmax)


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (lambda keys, a, b: keys[a], {}, r"takes \(keys, a, b\), but it is called with 4 arguments"),
        (3, {}, r"int is of type int, and must be a function query\(keys, a, b, eps\)"),
        (lambda *x: None, {}, r"returned nothing \(None\) for keys of shape \(2, 2\), a = 0, b = 1, eps = 0.5; query"),
        (lambda *x: "q", {}, r"returned something of type str for"),
        (lambda *x: [[1, 2], [3]], {}, r"returned something of type list for"),
        (lambda *x: np.array([1 + 2j, 0]), {}, r"returned an array of complex128 for"),
        (lambda *x: True, {}, r"returned something of type bool for"),
        (lambda keys, *x: keys[0][:, None], {}, r"returned shape \(2, 1\) for .*, not shape \(2,\); query"),
        (lambda keys, *x: np.full_like(keys[0], np.inf), {}, r"returned NaN or infinity for"),
        (
            lambda keys, *x: keys[9],
            {},
            r"failed: line \d+: IndexError: index 9 is out of bounds .* \(for keys",
        ),
        (softmax, {"seed": -1}, r"seed must be a whole number from 0; -1 is not"),
        (softmax, {"limit": 0}, r"limit must be a number of seconds from 0.1 to 3600; 0 is not"),
        (softmax, {"n": 1}, r"average-of-two: n, how many keys, must be a whole number with 2 <= n <= 400; 1 is not"),
        (softmax, {"m": 1}, r"An answer to average-of-two has no parameter 'm'; it has n, extra, eps"),
        ("nowhere.py:query", {}, r"nowhere.py: there is no such file"),
        ("nowhere:query", {}, r"'nowhere:query' must name a Python file and a function in it, as in my.py:query"),
    ],
)
def test_what_cannot_be_checked(function, given, message: str) -> None:
    with pytest.raises(InputError, match=message):
        claims["average-of-two"].check_answer(function, **given)


def test_one_number_means_one_number() -> None:
    with pytest.raises(InputError, match=r"returned shape \(1,\) for n = 2, eps = 0.5, not one number; margin"):
        claims["copying-condition"].check_answer(lambda n, eps: [math.log(n / eps)])


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"extract-from-sum: no instance has d = 3, m = 3; choose numbers that fit"):
        claims["extract-from-sum"].check_answer(lambda A: A, d=3, m=3)


def test_a_constant_that_always_passes_is_called_too_long() -> None:
    report = claims["copying-condition"].check_answer(lambda n, eps: 1e6)
    assert report.answer
    assert report.status == "holds, but too long"
    assert "times too long: the question asks for an expression" in str(report)
    assert claims["copying-condition"].check_answer(lambda n, eps: math.log(n / eps)).status == "holds so far"


@pytest.mark.parametrize(
    ("axis", "root", "residual", "said"),
    [
        (1, True, False, None),
        (0, True, False, "the softmax over the queries (dim=-2) instead of the keys"),
        (1, False, False, "no division by sqrt(d)"),
        (1, True, True, "a residual (X added to H)"),
    ],
)
def test_a_wrong_layer_is_told_the_usual_mistake(axis: int, root: bool, residual: bool, said: str | None) -> None:
    def layer(X: Any, W_Q: Any, W_K: Any, W_V: Any, W_1: Any, b_1: Any, W_2: Any, b_2: Any) -> Any:
        scores = X @ W_Q @ (X @ W_K).T / (math.sqrt(X.shape[1]) if root else 1)
        weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
        H = weights / weights.sum(axis=axis, keepdims=True) @ (X @ W_V) + (X if residual else 0)
        one = np.ones((len(X), 1))
        return np.maximum(H @ W_1 + one @ b_1, 0) @ W_2 + one @ b_2

    report = claims["order-blindness"].check_answer(layer)
    assert report.answer is (said is None)
    assert said is None or (report.counterexample is not None and said in report.counterexample.said)
