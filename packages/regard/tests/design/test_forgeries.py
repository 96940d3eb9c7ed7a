"""Forged certificates: thousands of single fields changed, one at a time; none accepted that states something false.

Every number, string, list and name in a certificate of every kind, and in the result around it, is replaced in turn by
others: nearby ones, far ones, ones of another kind. What `verify` still accepts must be true, as `design_oracle` finds
from the keys alone.
"""

from __future__ import annotations

import copy as copying
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import design_oracle
from regard import design
from regard.design.certificate import floats, rationals
from regard.design.verification import recheck
from regard.errors import InputError

LINE = np.array([[0.0, 0], [1, 0], [-1, 0], [0, 1]])
ALMOST = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])  # look collinear and are not
CORNERS = np.array([[2.0, 1], [-1, 2], [0, -2], [0.25, 0.5]])
SQUARE = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]])
UNEVEN = np.array([[0.1, 0.7], [0.7, 0.3], [0.1, 0.3]])
MIXED = np.array([[0.0], [1], [3], [7]])
SHARES = [0.5, 0.2, 0.2, 0.1]
MASK = np.array([True, True, False, True])

ANSWERS = {
    "copy": (CORNERS, design.copy(CORNERS, 0, eps=0.3)),
    "copy, masked and scaled": (CORNERS, design.copy(CORNERS, 0, eps=0.3, allowed=MASK, scale=0.7)),
    "copy, in rationals": (ALMOST, design.copy(ALMOST, 1, eps=0.5)),
    "share": (CORNERS, design.share(CORNERS, [0, 1], eps=0.1)),
    "share, in rationals": (UNEVEN, design.share(UNEVEN, [0, 1], eps=1e-12)),
    "match": (CORNERS, design.match(CORNERS, [0.9, 0.05, 0.05, 0.0], kl=0.3)),
    "nothing to do": (CORNERS, design.copy(CORNERS, 0, eps=6.0)),
    "copy within a norm": (CORNERS, design.copy(CORNERS, 0, max_norm=2.0)),
    "share within a norm": (CORNERS, design.share(CORNERS, [0, 1], max_norm=2.0)),
    "match within a norm": (CORNERS, design.match(CORNERS, SHARES, max_norm=0.5)),
    "any norm": (CORNERS, design.copy(CORNERS, 3, max_norm=1e250)),
    "never copied": (SQUARE, design.copy(SQUARE, 4, eps=0.5)),
    "never copied, uneven": (MIXED, design.copy(MIXED, 1, eps=0.5)),
    "never reached": (LINE, design.copy(LINE, 0, eps=2.0)),
    "never shared": (MIXED, design.share(MIXED, [0, 2], eps=0.1)),
    "never shared, by a limit": (LINE, design.share(LINE, [0, 1], eps=1.0)),
    "never matched": (MIXED, design.match(MIXED, [0.4, 0.1, 0.1, 0.4], kl=1e-3)),
    "too many copies": (np.ones((3, 2)), design.copy(np.ones((3, 2)), 0, eps=1.0)),
    "ceiling, corner": (CORNERS, design.ceiling(CORNERS, 0)),
    "ceiling, inside": (CORNERS, design.ceiling(CORNERS, 3)),
    "ceiling, a whole number": (SQUARE, design.ceiling(SQUARE, 4)),
    "ceiling, a direction": (ALMOST, design.ceiling(ALMOST, 1)),
}

FACTORS = (0, -1, 0.5, 2, 1 - 1e-3, 1 + 1e-3, 1 - 1e-6, 1 + 1e-6, 1 - 3e-9, 1 + 3e-9, 1e-9, 1e9, 200_000)
OTHER = (None, True, "1", "remove", [], [0.5], {}, 10**400, float("nan"), float("inf"), 1e-320, 1e300, 1.0, 0.4)
ADDED = {"bound": 0.9, "ceiling": 0.9, "reached": 0.9, "norm": 3.0, "lower_bound": 3.0, "gap": 1e-9, "attention": 1.0,
         "query": [1.0, 0.0], "direction": [1, 0], "dual": {"weights": [1.0], "mixture": [1.0]},
         "combination": {"weights": [1.0], "mixture": [1.0], "basis": [0]}, "note": "trust me", "max_norm": 1.0,
         "eps": 0.5, "kl": 0.5, "target": [1.0], "keys": [0]}  # fmt: skip


def leaves(node, path=()):
    """Every path to something in a JSON value."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from leaves(value, (*path, key))


def at(node, path):
    for key in path:
        node = node[key]
    return node


def replaced(node, path, value):
    changed = copying.deepcopy(node)
    inside = at(changed, path[:-1])
    if isinstance(value, str) and value == "remove":
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return changed


def others(value):
    """What a value is replaced by: its neighbours, far away numbers, other kinds of things."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + step for step in (-1, 1, 2, 1000))
    elif isinstance(value, float):
        yield from (value * factor for factor in FACTORS)
        yield from (value + step for step in (1e-3, -1e-3, 1.0))
    elif isinstance(value, str) and value.replace("/", "").replace("-", "").isdigit():
        exact = Fraction(value)
        yield from (str(exact * Fraction(factor)) for factor in FACTORS)
        yield str(exact + Fraction(1, 10**15))
    elif isinstance(value, list) and len(value) > 1:
        yield from (value[1:], value[::-1], [*value, value[0]], value[:1] * len(value))
    elif isinstance(value, str):
        yield from ("copy", "share", "match", "shortest", "strongest", "unreachable", "ceiling", value[::-1], "")
    yield from OTHER


def forgeries(answer):
    """Certificates with one field changed, removed or added."""
    certificate = json.loads(json.dumps(answer.certificate.to_dict()))
    for path in leaves(certificate):
        for value in others(at(certificate, path)):
            yield replaced(certificate, path, value)
    for name, value in ADDED.items():
        if name not in certificate:
            yield {**certificate, name: value}
        for part in ("question", "data", "dual", "combination"):
            if name not in certificate.get(part, {name}):
                yield {**certificate, part: {**certificate[part], name: value}}


def verdict(forged, keys):
    try:
        return design.verify(forged, keys).holds
    except InputError:
        return False


def test_there_are_enough_forgeries():
    counts = {name: sum(1 for _ in forgeries(answer)) for name, (_, answer) in ANSWERS.items()}
    assert sum(counts.values()) >= 5000
    assert min(counts.values()) >= 150


@pytest.mark.parametrize("name", ANSWERS)
def test_no_forged_certificate_is_accepted_that_states_something_false(name):
    keys, answer = ANSWERS[name]
    original = json.loads(json.dumps(answer.certificate.to_dict()))
    assert design_oracle.falsehoods(original, keys) == []
    accepted = 0
    for forged in forgeries(answer):
        if verdict(forged, keys):
            accepted += 1
            assert design_oracle.falsehoods(forged, keys) == [], forged
    assert (
        accepted < sum(1 for _ in forgeries(answer)) / 3
    )  # what is left is true: the same proof in another scale, say


@pytest.mark.parametrize("name", ANSWERS)
def test_what_stands_around_a_certificate_is_checked_or_disowned(name):
    keys, answer = ANSWERS[name]
    whole = json.loads(answer.to_json())
    assert design.verify(whole, keys).holds
    disowned = {"textbook", "verification", "support", "budget_norm", "budget_ceiling"}
    for field in whole:
        if field == "certificate":
            continue
        for value in itertools.islice(others(whole[field]), 0, 24):
            forged = replaced(whole, (field,), value)
            checked = design.verify(forged, keys)
            if field in disowned:
                assert field in checked.unchecked or field not in forged
            elif checked.holds and field in forged:
                assert field not in checked.unchecked
                same = forged[field] == whole[field]
                assert same or forged[field] == pytest.approx(whole[field], rel=1e-9, abs=0), field


def test_the_forgeries_that_were_accepted_once():
    keys, answer = ANSWERS["ceiling, a whole number"]
    certificate = answer.certificate.to_dict()
    for ceiling in (0.4, 200_000.0):
        assert not design.verify({**certificate, "ceiling": ceiling}, keys).holds
    keys, answer = ANSWERS["copy"]
    certificate = answer.certificate.to_dict()
    assert not design.verify({**certificate, "norm": 2 * certificate["norm"]}, keys).holds
    with pytest.raises(InputError, match="a field 'ceiling' that its claim 'shortest' does not use"):
        design.verify({**certificate, "ceiling": 1.0}, keys)
    with pytest.raises(InputError, match="a field 'note' that its question does not use"):
        design.verify(replaced(certificate, ("question", "note"), 1), keys)
    whole = answer.to_dict()
    for field, value in (("query", [9.0, 9.0]), ("norm", 9.0), ("attention", 0.9999)):
        checked = design.verify({**whole, field: value}, keys)
        assert not checked.holds
        assert (f"the file states its own {field}, which is not the certificate's", False) in checked.statements


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("part", ["weights", "mixture"])
def test_negative_weights_prove_nothing_even_where_nobody_read_them(part: str, exact: bool) -> None:
    """`verify` refuses them; the check of an answer, which comes from a solver, does not believe them either."""
    keys = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [0.25, 0.125]])
    found = [
        design.share(keys, [1, 2], eps=0.1),
        design.share(keys, [1, 2], max_norm=1.0),
        design.copy(keys, 4, eps=0.1),
        design.ceiling(keys, 4),
    ]
    for answer in found:
        made = answer.certificate
        name = "dual" if made.dual is not None else "combination"
        balance = getattr(made, name)
        forged = np.array([float(x) for x in floats(getattr(balance, part))])
        forged[0] = -1e-3
        numbers = rationals(forged) if exact else forged
        worse = replace(made, **{name: replace(balance, **{part: numbers})}, lower_bound=None, bound=None, ceiling=None)
        for strict in (False, True):
            assert recheck(made, keys, strict=strict).holds
            assert not recheck(worse, keys, strict=strict).holds
        with pytest.raises(InputError, match="The certificate's"):
            design.verify(worse, keys)


FIGURES = {"norm", "lower_bound", "gap", "attention", "bound", "ceiling", "reached", "eps", "kl", "max_norm", "weights"}
LARGE = np.array([[1e10, 0.0], [0.0, 1e10], [1e10, 1e10]])
SMALL = {
    "a short query": (LARGE, design.copy(LARGE, 2, eps=0.01)),
    "a small divergence": (CORNERS, design.match(CORNERS, [0.3, 0.3, 0.2, 0.2], kl=1e-9)),
    "a small divergence within a norm": (CORNERS, design.match(CORNERS, [0.251, 0.251, 0.249, 0.249], max_norm=0.01)),
    "small weights": (20 * SQUARE, design.copy(20 * SQUARE, 0, eps=1e-40)),
    "a small budget": (LARGE, design.share(LARGE, [0, 1], max_norm=1e-10)),
}


def figures(whole):
    """The paths of all figures in a result and in its certificate."""
    inside = [("certificate", name) for name in whole["certificate"]]
    paths = [*((name,) for name in whole), *inside]
    for path in (path for path in paths if path[-1] in FIGURES):
        value = at(whole, path)
        yield from ((*path, place) for place in range(len(value))) if isinstance(value, list) else [path]


def moved(value):
    """Another sign, nothing, a part in 1e7 more or less, another kind of thing."""
    if value is None:
        return [0.0, -1e-10, True]
    return [-value or 1e-300, 0.0 if value else 5e-324, value * (1 + 1e-7), value * (1 - 1e-7), True, str(value), None]


def same(value, other):
    """The same figure, but for the rounding of weights that are computed anew."""
    if not isinstance(value, float) or not isinstance(other, float):
        return type(value) is type(other) and value == other
    return math.isclose(value, other, rel_tol=1e-9, abs_tol=0)


@pytest.mark.parametrize("name", [*ANSWERS, *SMALL])
def test_no_figure_moves_changes_its_sign_or_its_place(name):
    """In the result alone every such change is refused; in the certificate what is accepted must be true."""
    keys, answer = (ANSWERS | SMALL)[name]
    whole = json.loads(answer.to_json())
    assert design.verify(whole, keys).holds
    paths = list(figures(whole))
    changes = [(path, value) for path in paths for value in moved(at(whole, path))]
    changes += [(path, at(whole, other)) for path, other in itertools.permutations(paths[:12], 2)]
    for path, value in changes:
        forged = replaced(whole, path, value)
        if path[0] == "certificate":
            wrong = verdict(forged, keys) and design_oracle.falsehoods(forged["certificate"], keys)
            assert not wrong, (path, value, wrong)
        elif not same(value, at(whole, path)):
            assert not verdict(forged, keys), (path, value)
