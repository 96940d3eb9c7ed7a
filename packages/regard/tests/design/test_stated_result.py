"""What a reader copies from a --json file is held against the certificate in it, field by field."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard import design
from regard.errors import InputError

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])
ANSWERS = {
    "reachable": lambda: design.copy(SQUARE, 0, eps=0.1),
    "never": lambda: design.copy(SQUARE, 4, eps=0.1),
    "budget": lambda: design.share(SQUARE, [0, 1], max_norm=2.0),
}
WRONG = {
    "verb": "match", "chosen": [3], "eps": 0.7, "kl": 0.7, "max_norm": 0.7, "weights": [0.2] * 5, "attention": 0.123,
    "lower_bound": 0.7, "bound": 0.123, "gap": 0.5, "query": [9.0, 9.0], "norm": 0.7,
}  # fmt: skip


@pytest.mark.parametrize("which", ANSWERS)
@pytest.mark.parametrize("field", [*WRONG, "reachable"])
def test_every_figure_around_a_certificate_is_checked(which, field):
    stated = json.loads(ANSWERS[which]().to_json())
    assert design.verify(stated, SQUARE).answer
    stated[field] = not stated["reachable"] if field == "reachable" else WRONG[field]
    checked = design.verify(stated, SQUARE)
    assert not checked.answer
    assert f"the file states its own {field}" in str(checked)


TINY = np.array([[1e10, 0.0], [0.0, 1e10], [1e10, 1e10]])  # whose query has a norm of 7.49e-10


@pytest.mark.parametrize("field", ["norm", "lower_bound", "gap", "attention"])
@pytest.mark.parametrize("value", [0.0, -5e-11, -0.1, 5e-324])
def test_a_small_figure_is_not_nothing_and_has_its_sign(field, value):
    stated = json.loads(design.copy(TINY, 2, eps=0.01).to_json())
    assert stated["norm"] == pytest.approx(7.49e-10, rel=1e-3)
    assert f"the file states its own {field}" in str(design.verify({**stated, field: value}, TINY))


@pytest.mark.parametrize("factor", [0.0, -1.0, 1 - 1e-7, 1 + 1e-7, 1e-3])
@pytest.mark.parametrize("kl", [1e-12, 1e-9, 1e-8, 1e-3])
def test_a_small_divergence_is_compared_relatively(kl, factor):
    keys, target = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [0.5, 0.3, 0.2]
    stated = json.loads(design.match(keys, target, kl=kl).to_json())
    assert design.verify(stated, keys).answer
    assert kl * (1 - 1e-3) < stated["attention"] <= kl * (1 + 1e-12)
    stated["attention"] *= factor
    assert "the file states its own attention" in str(design.verify(stated, keys))


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("factor", [0.0, -1.0, 1 - 1e-7, 1 + 1e-7])
def test_every_weight_is_compared_relatively(place, factor):
    """Also the smallest, of 1e-40: an absolute comparison would take nothing for it."""
    stated = json.loads(design.copy(20 * SQUARE, 0, eps=1e-40).to_json())
    assert 0 < min(stated["weights"]) < 1e-20
    stated["weights"][place] *= factor
    assert "the file states its own weights" in str(design.verify(stated, 20 * SQUARE))


def test_what_is_forbidden_has_no_weight_at_all():
    allowed = [True, True, True, False, True]
    stated = json.loads(design.copy(SQUARE, 0, eps=0.1, allowed=allowed).to_json())
    assert design.verify(stated, SQUARE).answer
    stated["weights"][3] = 5e-324
    assert not design.verify(stated, SQUARE).answer


def test_figures_agree_with_each_other():
    stated = json.loads(design.copy(SQUARE, 0, eps=0.1).to_json())
    stated["attention"] = float(np.nextafter(stated["attention"], 1))  # within every rounding, but not the weight
    assert "the file states its own attention" in str(design.verify(stated, SQUARE))
    stated = json.loads(design.copy(SQUARE, 0, max_norm=2.0).to_json())
    stated["norm"] = float(np.nextafter(2.0, 3))
    assert "the file states its own norm" in str(design.verify(stated, SQUARE))


@pytest.mark.parametrize(
    ("field", "value"),
    [("query", [True, 0.0]), ("chosen", [True]), ("norm", True), ("weights", [True, False, False]), ("gap", False)],
)
def test_true_is_no_number(field, value):
    keys = np.eye(3)[:, :2]
    stated = json.loads(design.copy(keys, 0, eps=0.5).to_json())
    assert not design.verify({**stated, field: value}, keys).answer


def test_numbers_that_another_writer_of_json_has_shortened():
    """JavaScript writes 1.0 as 1."""
    stated = json.loads(design.copy(SQUARE, 4, eps=4.0).to_json())
    assert stated["eps"] == 4.0
    assert stated["norm"] == 0.0
    assert design.verify({**stated, "eps": 4, "norm": 0, "query": [0, 0]}, SQUARE).answer


@pytest.mark.parametrize("extra", ["designs", "ceilings", "format", "question", "claim", "data", "dual", "combination"])
def test_a_second_certificate_beside_the_one_that_is_checked_is_refused(extra):
    whole = design.copy(SQUARE, 0, eps=0.1).to_dict()
    with pytest.raises(InputError, match=f"beside it '{extra}'"):
        design.verify({**whole, extra: []}, SQUARE)


@pytest.mark.parametrize("above", [1.000000001, 1.0000000000001, -1e-13])
@pytest.mark.parametrize("field", ["ceiling", "reached"])
def test_no_attention_is_outside_0_and_1(field, above):
    """Also within the room that rounding has, inside the certificate and around it."""
    stated = json.loads(design.ceiling(SQUARE, 0).to_json())
    assert stated["ceiling"] == 1.0
    inner = {**stated["certificate"], field: above}
    assert not design.verify(inner, SQUARE).answer
    assert not design.verify({**stated, field: above, "certificate": inner}, SQUARE).answer
    del stated["certificate"][field]
    assert f"the file states its own {field}" in str(design.verify({**stated, field: above}, SQUARE))


def test_no_weight_is_above_1():
    stated = json.loads(design.copy(20 * SQUARE, 0, eps=1e-40).to_json())
    assert stated["weights"][0] == stated["attention"] == 1.0
    stated["weights"][0] = stated["attention"] = 1 + 1e-12
    said = str(design.verify(stated, 20 * SQUARE))
    assert "the file states its own weights" in said
    assert "the file states its own attention" in said


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("budget_norm", value) for value in ("far", -0.7, 0, [1.0], True, 10**400, None)),
        *(("budget_ceiling", value) for value in ("all", -0.7, 0.2001, 1.5, [0.1], True, None)),
        *(("support", value) for value in ("02", [4], [9], [0, 0], [True], [[0]], 0, None, {"0": 1})),
    ],
)
def test_what_stands_beside_a_ceiling_can_be(field, value):
    stated = json.loads(design.ceiling(SQUARE, 4, max_norm=1.0).to_json())
    checked = design.verify(stated, SQUARE)
    assert checked.answer
    assert {"budget_norm", "budget_ceiling", "support"} <= set(checked.unchecked)  # can be, not: is so
    said = str(design.verify({**stated, field: value}, SQUARE))
    assert "The certificate does NOT hold" in said
    assert "that cannot be, beside its certificate" in said


def test_a_ceiling_of_no_key_is_answered_in_a_sentence():
    found = design.match(SQUARE, [0.2] * 5, kl=0.1).certificate.to_dict()
    question = {"verb": "match", "target": [0.2] * 5}
    kept = {name: found[name] for name in ("format", "scale", "allowed", "data", "query")}
    forged = {**kept, "question": question, "claim": "ceiling", "gap": 1e-6}
    assert not design.verify({"certificate": forged, "key": 0}, SQUARE).answer
