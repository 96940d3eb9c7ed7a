"""The randomised range finder: its certain bounds always, its probable one as often as promised."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import lowrank
from regard.errors import InputError

SHAPE = (97, 61)


def with_spectrum(values, shape=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.standard_normal((shape[0], len(values))))[0]
    v = np.linalg.qr(rng.standard_normal((shape[1], len(values))))[0]
    return (u * values) @ v.T


SPECTRA = {
    "harmonic": 1 / np.arange(1, 62),
    "flat": np.ones(61),
    "steep": np.exp(-np.arange(61.0)),
    "rank 3": np.r_[3.0, 2.0, 1.0, np.zeros(58)],
    "late": np.r_[np.ones(30), np.full(31, 1e-3)],
}


@pytest.mark.parametrize("name", SPECTRA)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 40), passes=st.integers(2, 3))
@settings(max_examples=10, deadline=None)
def test_certain_bounds_hold_and_the_probable_one_did(name, seed, rank, passes):
    a, s = with_spectrum(SPECTRA[name]), SPECTRA[name]
    found = lowrank.sketch(a, rank=rank, seed=seed, passes=passes, oversample=5)
    rest = a - found._core._source[0] @ found._basis.T
    spectral = np.linalg.norm(rest, 2)
    tiny = 1e-13
    assert np.linalg.norm(rest) <= found.residual + tiny
    assert found.residual_below <= spectral + tiny
    assert spectral <= found.probable_residual + tiny
    assert np.all(found.lower <= s[: found.columns] + tiny)
    assert np.all(s[: found.columns] <= found.upper + tiny)
    cut = found.truncate(rank)
    error = a - cut.matrix()
    assert np.linalg.norm(error, 2) <= cut.spectral_error_above + tiny
    assert np.linalg.norm(error, 2) <= found.probable_spectral_error(rank) + tiny
    assert np.linalg.norm(error) <= cut.frobenius_error_above + tiny
    assert cut.best_spectral_error[0] <= s[rank] + tiny
    assert found.check(a).answer


def test_the_frobenius_identity_is_tight():
    a = with_spectrum(SPECTRA["harmonic"])
    found = lowrank.sketch(a, rank=10, seed=1)
    rest = a - found._core._source[0] @ found._basis.T
    assert found.residual_by == "identity"
    assert found.residual == pytest.approx(np.linalg.norm(rest), rel=1e-8)


def test_when_the_identity_cancels_it_is_measured_directly():
    found = lowrank.sketch(with_spectrum(SPECTRA["rank 3"]), rank=5, seed=1)
    assert found.residual_by == "direct measurement"
    assert found.residual < 1e-12
    assert found.passes == 4


def test_more_probe_passes_sharpen_the_probable_bound():
    a = with_spectrum(np.ones(61) / np.sqrt(np.arange(1, 62)))
    ratios = []
    for many in (1, 2, 4, 8):
        found = lowrank.sketch(a, rank=5, seed=2, probe_passes=many)
        ratios.append(found.probable_residual / np.linalg.norm(a - found._core._source[0] @ found._basis.T, 2))
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.3


def test_the_failure_probability_is_about_right_where_it_can_be_seen():
    """With one probe, failure 1/2 and a rank-one remainder, the probes see |v.w| alone: the bound must fail
    seldom enough (at most 1/2), yet not never, or it would not be sharp."""
    a = np.zeros((13, 11))
    a[0, 0], a[1, 1] = 1.0, 0.1
    fails = 0
    for seed in range(300):
        found = lowrank.sketch(
            a, rank=1, seed=seed, oversample=0, probes=1, probe_passes=1, failure_probability=0.5, passes=6
        )
        # before the certain bound caps it, the probable one is what is tested: 0.1 is the truth
        fails += found.probable_residual < 0.1 * (1 - 1e-6)
    assert 0.25 * 300 < fails <= 0.5 * 300


def test_the_same_seed_gives_the_same_sketch_and_another_another():
    a = with_spectrum(SPECTRA["harmonic"])
    one, two, three = (lowrank.sketch(a, rank=3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one._basis, two._basis)
    assert not np.array_equal(one._basis, three._basis)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_a_memory_map_is_read_in_blocks_with_progress(tmp_path, dtype, monkeypatch):
    from regard.lowrank import sketches

    a = (with_spectrum(SPECTRA["harmonic"], shape=SHAPE) * 1000).astype(dtype)
    np.save(tmp_path / "a.npy", a)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    monkeypatch.setattr(sketches, "BLOCK", 61 * 10)
    told = []
    found = lowrank.sketch(mapped, rank=4, seed=0, progress=lambda done, total: told.append((done, total)))
    whole = lowrank.sketch(a.astype(np.float64), rank=4, seed=0)
    np.testing.assert_allclose(found.singular_values, whole.singular_values, rtol=1e-10)
    assert told[-1] == (97 * 3, 97 * 3)
    assert len(told) == 3 * 10
    assert found.passes == 3


def test_a_false_residual_is_caught():
    a = with_spectrum(SPECTRA["harmonic"])
    found = lowrank.sketch(a, rank=4, seed=0)
    less = dataclasses.replace(found, residual=found.residual * 0.999)
    assert not less.check(a).answer
    assert "NOT" in str(less.check(a))


def test_smallest_rank_of_a_sketch():
    s = np.exp(-np.arange(61.0) / 2)
    a = with_spectrum(s)
    found = lowrank.sketch(a, rank=30, seed=0, passes=3)
    for wanted in (0.3, 0.01):
        assert found.rank_for_error(wanted).rank == int(np.sum(s > wanted))
        assert found.rank_for_error(wanted).certain
    assert found.rank_for_error(1e-3, norm="frobenius", relative=True).rank == next(
        k for k in range(61) if np.linalg.norm(s[k:]) <= 1e-3 * np.linalg.norm(s)
    )


def test_all_columns_leave_nothing_out():
    a = with_spectrum(SPECTRA["harmonic"])
    found = lowrank.sketch(a, rank=61, seed=0)
    assert found.columns == 61
    assert found.residual < 1e-12


def test_without_probes_only_the_certain_bound_is_left():
    found = lowrank.sketch(with_spectrum(SPECTRA["harmonic"]), rank=4, seed=0, probes=0, probe_passes=1)
    assert found.probable_residual == found.residual
    assert "probes" not in str(found)


def test_str_names_the_probability():
    text = str(lowrank.sketch(with_spectrum(SPECTRA["harmonic"]), rank=4, seed=0))
    assert "false with probability at most 1e-10" in text


SQUARE = np.eye(5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lowrank.sketch(SQUARE, rank=0, seed=0), "rank must be a whole number from 1 to 5"),
        (lambda: lowrank.sketch(SQUARE, rank=6, seed=0), "rank must be a whole number from 1 to 5"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0, passes=1), "passes must be a whole number of at least 2"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0, oversample=-1), "oversample must be a whole number"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0, probes=-1), "probes must be a whole number of at least 0"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0, failure_probability=0), "must lie between 0 and 1"),
        (lambda: lowrank.sketch(np.ones(3), rank=1, seed=0), "with 2 dimensions"),
        (lambda: lowrank.sketch(np.full((3, 2), math.inf), rank=1, seed=0), "row 0, column 0 .* is inf"),
        (lambda: lowrank.sketch(SQUARE * 1e100, rank=1, seed=0), "rescale it"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0, oversample=1).truncate(3), "from 1 to 2, the columns"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0).check(np.eye(3)), "The matrix to check has shape"),
        (lambda: lowrank.sketch(SQUARE, rank=1, seed=0).rank_for_error(1, norm="x"), "norm must be"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_basis_that_is_not_orthonormal_is_paid_for():
    """What the image and the basis are off by goes into the stated errors of every rank."""
    found = lowrank.sketch(with_spectrum(SPECTRA["harmonic"]), rank=5, seed=1)
    plain = found.truncate(2)
    drifted, skewed = dataclasses.replace(found, _drift=3.0), dataclasses.replace(found, _skew=3.0)
    assert drifted.truncate(2).spectral_error_above >= 6.0
    assert drifted.truncate(2).frobenius_error_above >= 6.0
    inner = math.sqrt(plain.spectral_error_above**2 - found.residual**2)  # of the sketch's own truncation
    assert skewed.truncate(2).spectral_error_above == pytest.approx(math.hypot(found.residual, 2 * inner), rel=1e-6)
    assert drifted.probable_spectral_error(2) >= 6.0


def test_integers_that_float64_rounds_are_refused():
    with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds, such as 9007199254740993"):
        lowrank.sketch(np.array([[2**53 + 1, 0], [0, 1]]), rank=1, seed=0)
