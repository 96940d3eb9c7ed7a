"""Solving on the keys where they lie in memory: the same answers as on a moved and scaled copy of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from regard import design
from regard.design import certified_solver, question
from regard.design.question import Question, Verb, uncopied_geometry
from regard.design.shortest import ShiftedKeys, shortest

RNG = np.random.default_rng(11)
KEYS = RNG.standard_normal((3001, 7))  # more than FEW_NUMBERS
KEYS[1234] = 7.0
KEYS[77] = [7.0, 7.0, 7.0, 7.0, -7.0, -7.0, -7.0]
LINE = RNG.random((20_011, 1))  # one dimension
SHARES = np.exp(KEYS @ [0.3, -0.2, 0.1, 0.0, 0.4, 0.0, 0.2])
SHARES /= SHARES.sum()

QUESTIONS = {
    "copy": lambda: design.copy(KEYS, 1234, eps=1e-3),
    "copy the first": lambda: design.copy(np.roll(KEYS, -1234, axis=0), 0, eps=1e-3),
    "copy the last": lambda: design.copy(np.roll(KEYS, -1235, axis=0), len(KEYS) - 1, eps=1e-3),
    "copy with a scale": lambda: design.copy(KEYS, 1234, eps=1e-3, scale=7**-0.5),
    "copy on a line": lambda: design.copy(LINE, int(np.argmax(LINE)), eps=0.5),
    "share": lambda: design.share(KEYS, [1234, 77], eps=1e-3),
    "share one": lambda: design.share(KEYS, [1234], eps=1e-3),
    "match": lambda: design.match(KEYS, SHARES, kl=0.05),
}


@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_copy_is_not_missed(asked, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(certified_solver, "geometry", None)  # whoever asks for the copy fails
        lying = QUESTIONS[asked]()
    monkeypatch.setattr(certified_solver, "uncopied_geometry", lambda _: None)
    moved = QUESTIONS[asked]()
    assert lying.reachable
    assert lying.norm == pytest.approx(moved.norm, rel=2e-9)  # both are certified to 1e-9
    assert lying.weights == pytest.approx(moved.weights, abs=1e-6)
    assert lying.verification.holds


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "float32": lambda keys: keys.astype(np.float32),
    "every second row and column": lambda keys: np.repeat(np.repeat(keys, 2, axis=0), 2, axis=1)[::2, ::2],
    "whole numbers": lambda keys: np.round(keys * 8).astype(np.int64),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_makes_no_difference(layout):
    given = LAYOUTS[layout](KEYS)
    plain = np.ascontiguousarray(given, dtype=np.float64)
    one, other = (design.copy(keys, 1234, eps=1e-3) for keys in (given, plain))
    assert np.array_equal(one.query, other.query)
    assert one.certificate.sha256 == other.certificate.sha256
    assert design.verify(one.certificate, given, strict=False).holds


def test_a_read_only_file_is_read_where_it_lies(tmp_path):
    np.save(tmp_path / "keys.npy", KEYS)
    stored = np.load(tmp_path / "keys.npy", mmap_mode="r")
    assert np.array_equal(design.copy(stored, 1234, eps=1e-3).query, design.copy(KEYS, 1234, eps=1e-3).query)


def asked_about(keys, **wanted):
    return Question(Verb.COPY, keys, wanted.pop("rows", np.arange(len(keys))), (1234,), None, 1.0, eps=0.1)


@pytest.mark.parametrize("keys", [KEYS * 1e-5, KEYS * 1e5, KEYS + 1e3, np.ones_like(KEYS), KEYS[:1300]])
def test_a_copy_is_made_where_it_saves_digits_or_costs_nothing(keys):
    assert uncopied_geometry(asked_about(KEYS)) is not None
    assert uncopied_geometry(asked_about(keys)) is None


def test_a_mask_or_more_dimensions_than_keys_need_a_copy():
    assert uncopied_geometry(asked_about(KEYS, rows=np.arange(1, len(KEYS)))) is None
    assert uncopied_geometry(asked_about(RNG.standard_normal((1300, 1300)))) is None


@pytest.mark.parametrize("asked", ["copy", "match"])
def test_where_that_search_fails_the_copy_answers(asked, monkeypatch):
    def solver(rows, limit, **how):
        found = shortest(rows, limit, **how)
        return replace(found, upper=math.inf) if isinstance(rows, ShiftedKeys) else found

    expected = QUESTIONS[asked]()
    monkeypatch.setattr(certified_solver, "shortest", solver)
    assert QUESTIONS[asked]().norm == pytest.approx(expected.norm, rel=2e-9)


def test_what_no_query_does_is_refused_with_a_proof():
    keys = KEYS.copy()
    keys[1234] = keys[:100].mean(axis=0)
    found = design.copy(keys, 1234, eps=1e-3)
    assert not found.reachable
    assert design.verify(found.certificate, keys, strict=False).holds


@pytest.mark.parametrize("left_out", [[], [0], [5], [12], [11, 12], [4, 0, 5, 6, 12]])
@pytest.mark.parametrize("dimensions", [0, 1, 3])
def test_products_with_shifted_keys(left_out, dimensions):
    keys, anchor = RNG.standard_normal((13, 4)), RNG.standard_normal(4)
    across = np.linalg.qr(RNG.standard_normal((4, dimensions)))[0] if dimensions else None
    rows = np.delete(keys, left_out, axis=0) - anchor
    if across is not None:
        rows = rows @ (np.eye(4) - across @ across.T)
    shifted = ShiftedKeys(keys, anchor, left_out, across)
    vector, weights, some = RNG.standard_normal(4), RNG.random(len(rows)), np.array([0, 4, 5, len(rows) - 1])
    assert shifted.shape == rows.shape
    assert len(shifted) == len(rows)
    np.testing.assert_allclose(shifted @ vector, rows @ vector, rtol=0, atol=1e-13)
    np.testing.assert_allclose(weights @ shifted, weights @ rows, rtol=0, atol=1e-13)
    np.testing.assert_allclose(shifted[some], rows[some], rtol=0, atol=1e-14)


@pytest.mark.parametrize("count", [40, 3001])  # the whole Hessian, and one from a sample
def test_the_solver_finds_the_same_on_shifted_keys(count):
    keys = RNG.standard_normal((count, 7))
    keys[3] *= 3
    rows, limit = np.delete(keys, 3, axis=0) - keys[3], math.log(1e-4)
    plain, shifted = shortest(rows, limit), shortest(ShiftedKeys(keys, keys[3], [3]), limit)
    assert plain.gap <= 2e-10
    assert shifted.gap <= 2e-10
    assert shifted.lower == pytest.approx(plain.lower, rel=1e-9)


def test_the_input_check_looks_at_every_number():
    for place in ((0, 0), (len(KEYS) - 1, 6)):
        for bad in (math.nan, math.inf, -math.inf):
            keys = KEYS.copy()
            keys[place] = bad
            with pytest.raises(question.InputError, match=f"row {place[0]}, column {place[1]}"):
                design.copy(keys, 1234, eps=0.1)
    late = np.zeros((100, 3))
    late[90] = 1e-142
    with pytest.raises(question.InputError, match="too close"):
        design.copy(late, 90, eps=0.1)
    late[90] = 1e-139
    assert design.ceiling(late, 90).ceiling == 1.0
    late[90], late[3] = 0.9e140, -0.9e140
    with pytest.raises(question.InputError, match="too far apart"):
        design.copy(late, 90, eps=0.1)


def test_a_search_without_hope_ends_early_and_a_patient_one_does_not_believe_it():
    rows = np.random.default_rng(1).standard_normal((1000, 32))  # the origin is inside: LSE never falls to ln 0.01
    early, late = (shortest(rows, math.log(0.01), patient=patient) for patient in (False, True))
    assert early.upper == late.upper == math.inf
    assert early.iterations < 8 < late.iterations
    outside = rows - 9 * rows[0]
    assert shortest(outside, math.log(0.01)).gap < 1e-9
