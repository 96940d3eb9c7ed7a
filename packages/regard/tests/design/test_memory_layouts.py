"""Answers and digests do not depend on how the keys lie in memory, and nothing that is returned is a view of them."""

from __future__ import annotations

import hashlib
import math
import threading
from fractions import Fraction

import numpy as np
import pytest

from regard import design, rigor
from regard.design import copy, verify
from regard.design.certificate import fingerprint
from regard.design.question import Question, Verb, geometry
from regard.errors import InputError
from regard.rigor.floats import CHUNK, FEW, row_blocks

N, D = 211, 7
KEYS = np.random.default_rng(3).integers(-40, 40, (N, D)).astype(np.float64) / 8  # exact in float32 too
KEYS[17] = 9.0


def layouts(tmp_path):
    """The same numbers, as people hand them in."""
    wide = np.zeros((N, 2 * D))
    wide[:, ::2] = KEYS
    frozen = KEYS.copy()
    frozen.flags.writeable = False
    np.save(tmp_path / "keys.npy", KEYS)
    return {
        "as they are": KEYS,
        "Fortran order": np.asfortranarray(KEYS),
        "float32": KEYS.astype(np.float32),
        "other bytes": KEYS.astype(">f8"),
        "every second column": wide[:, ::2],
        "backwards twice": KEYS[::-1].copy()[::-1],
        "read-only": frozen,
        "memory-mapped": np.load(tmp_path / "keys.npy", mmap_mode="r"),
        "lists": KEYS.tolist(),
    }


QUESTIONS = {
    "copy": lambda keys: design.copy(keys, 17, eps=0.01),
    "copy within": lambda keys: design.copy(keys, 17, max_norm=0.5),
    "copy with a mask": lambda keys: design.copy(keys, 17, eps=0.01, allowed=np.arange(N) % 3 != 0),
    "share": lambda keys: design.share(keys, [17], eps=0.01),
    "match": lambda keys: design.match(keys, np.full(N, 1 / N), kl=0.01),
    "ceiling": lambda keys: design.ceiling(keys, 17),
    "several": lambda keys: design.copy_many(keys, [17, 3], eps=20.0)[0],
}
LAYOUTS = [
    *("as they are", "Fortran order", "float32", "other bytes", "every second column", "backwards twice"),
    *("read-only", "memory-mapped", "lists"),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_same_numbers_give_the_same_answer(question, layout, tmp_path):
    ask, keys = QUESTIONS[question], layouts(tmp_path)[layout]
    found, expected = ask(keys), ask(KEYS)
    assert found.to_json() == expected.to_json()
    assert found.certificate.sha256 == digest(KEYS)
    assert design.verify(found.certificate, np.asarray(keys, dtype=np.float64)).holds


def digest(keys):
    """The digest as docs/certificates.md states it."""
    return hashlib.sha256(repr(keys.shape).encode() + keys.astype("<f8").tobytes()).hexdigest()


def test_the_digest_is_of_the_numbers_in_rows():
    for keys in (KEYS, KEYS[:1], KEYS[:, :1].copy(), np.asfortranarray(KEYS), KEYS[::2]):
        assert fingerprint(keys) == digest(np.ascontiguousarray(keys))


@pytest.mark.parametrize("question", QUESTIONS)
def test_keys_that_change_later_change_no_answer(question):
    """A certificate must be about the keys that were asked about, whatever becomes of the array."""
    mine = KEYS.copy()
    found = QUESTIONS[question](mine)
    before = found.to_json()
    mine[:] = 1.0
    assert found.to_json() == before
    assert design.verify(found.certificate, KEYS).holds
    with pytest.raises(InputError, match="other keys"):
        design.verify(found.certificate, mine)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_keys_are_left_as_they_were(question):
    mine = KEYS.copy()
    QUESTIONS[question](mine)
    assert np.array_equal(mine, KEYS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_wherever_it_stands(bad):
    tall = np.zeros((CHUNK // 5, 7))
    tall[:, 0] = np.arange(len(tall))
    for place in ((0, 0), (len(tall) - 1, 6), (len(tall) // 2, 3)):
        keys = tall.copy()
        keys[place] = bad
        with pytest.raises(InputError, match=rf"row {place[0]}, column {place[1]} .* is {bad}; every number must be"):
            design.copy(keys, 1, eps=0.1)


def test_a_masked_array_is_refused_though_nobody_asked_numpy_for_them():
    with pytest.raises(InputError, match="masked array"):
        design.copy(np.ma.masked_array(KEYS, mask=KEYS > 4), 1, eps=0.1)


def test_a_masked_key_of_any_size_does_not_touch_the_bounds():
    keys = KEYS.copy()
    keys[5] = 1e120
    allowed = np.arange(N) != 5
    found = design.copy(keys, 17, eps=0.01, allowed=allowed)
    assert found.norm == pytest.approx(design.copy(KEYS, 17, eps=0.01, allowed=allowed).norm, rel=1e-9)


def test_the_geometry_is_of_the_keys_in_their_order():
    for rows in (np.arange(N), np.flatnonzero(np.arange(N) % 2), np.array([1, 2, 3, 17, 100])):
        question = Question(Verb.COPY, KEYS, rows, (17,), None, 1.0, eps=0.1)
        place = geometry(question)
        others = np.array([row for row in rows if row != 17])
        moved = place.points if place.frame is None else place.points @ place.frame.T
        assert np.allclose(moved * place.unit, KEYS[others] - KEYS[17], atol=1e-12)
        assert math.isclose(place.unit, np.linalg.norm(KEYS[others] - KEYS[17], axis=1).max())
        assert not np.shares_memory(place.points, KEYS)


@pytest.mark.parametrize("chosen", [[0], [3, 4, 5], [0, 2, 3], [5, 3], list(range(40)), [7, 8, 8], [9, 11, 10, 12]])
def test_blocks_of_rows_are_the_rows(chosen, monkeypatch):
    monkeypatch.setattr("regard.rigor.floats.CHUNK", 3 * D)
    chosen = np.array(chosen)
    seen = np.full((len(chosen), D), np.nan)
    for some, block in row_blocks(KEYS, chosen):
        seen[some] = block
    assert np.array_equal(seen, KEYS[chosen])


@pytest.mark.parametrize("count", [0, 1, FEW, 8 * FEW, 8 * FEW + 1, 3 * CHUNK + 1])
@pytest.mark.parametrize("kind", ["even", "wide", "cancelling", "alternating", "huge"])
def test_exact_sums_are_those_of_fsum(count, kind):
    draw = np.random.default_rng(count)
    x = draw.standard_normal(count)
    if kind == "wide":
        x = np.ldexp(x, draw.integers(-300, 300, count))
    elif kind == "cancelling":
        x = np.concatenate([x, -x[::-1], [1e-30]])
    elif kind == "alternating":
        x = np.where(np.arange(count) % 2 == 0, 1e16, -1e16) + 1.0
    elif kind == "huge":
        x = np.abs(x) * 1e300  # halves overflow when they are added: then it is fsum's own business
    try:
        expected = math.fsum(x)
    except OverflowError:
        with pytest.raises(OverflowError):
            rigor.exact_sum(x)
        return
    assert rigor.exact_sum(x) == expected


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_in_blocks_are_enclosures(order, monkeypatch):
    """The same enclosure, whether the matrix is taken whole or in blocks of a few numbers."""
    draw = np.random.default_rng(7)
    matrix, vector = np.asarray(draw.standard_normal((53, 31)), order=order), draw.standard_normal(31)
    whole = rigor.dot_enclosure(matrix, vector)
    monkeypatch.setattr("regard.rigor.floats.CHUNK", 97)
    mid, rad = rigor.dot_enclosure(matrix, vector, top=rigor.largest(matrix))
    assert np.array_equal(mid, whole[0])
    assert np.allclose(rad, whole[1], rtol=1e-14)
    for row, middle, radius in zip(matrix, mid, rad, strict=True):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, vector, strict=True))
        assert abs(Fraction(float(middle)) - exact) <= Fraction(float(radius))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_largest_number_is_found_in_any_order(order, monkeypatch):
    monkeypatch.setattr("regard.rigor.floats.CHUNK", 10)
    for place in ((0, 0), (12, 4), (6, 2)):
        for value in (-7.5, 7.5, -np.inf):
            x = np.asarray(np.random.default_rng(1).random((13, 5)), order=order)
            x[place] = value
            assert rigor.largest(x) == abs(value)
        x[place] = np.nan
        assert math.isnan(rigor.largest(x))
    assert rigor.largest(np.zeros((0, 3))) == 0


def test_the_digest_of_large_keys_is_taken_beside_the_solver_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.random.default_rng(0).standard_normal((700, 13))
    plain = copy(keys, 0, eps=0.1).certificate.sha256
    for bytes_ in (0, 1 << 40):  # with a thread, and without
        monkeypatch.setattr("regard.design.certificate.LARGE", bytes_)
        assert copy(keys, 0, eps=0.1).certificate.sha256 == plain == digest(keys)


def test_where_no_thread_starts_the_digest_is_taken_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("regard.design.certificate.LARGE", 0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    keys = np.random.default_rng(0).standard_normal((7, 3))
    assert copy(keys, 0, eps=0.1).certificate.sha256 == digest(keys)


def test_keys_may_change_as_soon_as_the_answer_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.design.certificate.LARGE", 0)
    keys = np.random.default_rng(0).standard_normal((700, 13))
    before, found = keys.copy(), copy(keys, 0, eps=0.1)
    keys += 1
    assert verify(found.certificate, before).holds
